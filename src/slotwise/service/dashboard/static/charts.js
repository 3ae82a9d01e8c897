// The charts, drawn by plotly. A chart that cannot be drawn leaves its words on the page.

import { count, perThousand, rate, time } from "./words.js";

let library = null;

// The library is large: it is read only after the words and the table have been painted.
async function loadLibrary() {
  await new Promise((painted) => requestAnimationFrame(() => setTimeout(painted)));
  return new Promise((resolve, reject) => {
    const script = document.createElement("script");
    script.src = document.querySelector("meta[name=chart-library]").content;
    script.onload = () => resolve(globalThis.Plotly);
    script.onerror = () => reject(new Error("the chart library did not load"));
    document.head.append(script);
  });
}

const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
const date = (us) => new Date(us / 1000);
const drawn = new WeakMap();

async function draw(element, words, traces, layout, config = {}) {
  element.setAttribute("aria-label", words);
  const ink = colour("soft");
  const axis = { gridcolor: colour("line"), zerolinecolor: colour("line"), linecolor: colour("line"), fixedrange: true, automargin: true };
  const { xaxis, yaxis, ...rest } = layout;
  const whole = {
    margin: { l: 8, r: 8, t: 8, b: 8 },
    paper_bgcolor: "transparent",
    plot_bgcolor: "transparent",
    font: { color: ink, family: "system-ui, sans-serif", size: 12 },
    legend: { orientation: "h", yanchor: "bottom", y: 1.02, x: 0 },
    hovermode: "x unified",
    hoverlabel: { bgcolor: colour("card"), font: { color: colour("ink") } },
    dragmode: false,
    xaxis: { ...axis, ...xaxis },
    yaxis: { ...axis, rangemode: "tozero", ...yaxis },
    ...Object.fromEntries(Object.entries(rest).map(([name, value]) => [name, /^yaxis/.test(name) ? { ...axis, ...value } : value])),
  };
  const fingerprint = JSON.stringify([traces, whole]);
  if (drawn.get(element) === fingerprint) return;
  drawn.set(element, fingerprint);
  library ??= loadLibrary();
  const plotly = await library;
  await plotly.react(element, traces, whole, { displayModeBar: false, responsive: true, ...config });
}

// Settings that were changed, as dotted lines over the whole height.
function changeLines(pool) {
  const first = pool.starts_us[0];
  const changes = pool.changes.filter((one) => one.is_setting && one.changed_us >= first);
  return changes.slice(0, 20).map((one) => ({
    type: "line", x0: date(one.changed_us), x1: date(one.changed_us), y0: 0, y1: 1, yref: "paper",
    line: { dash: "dot", width: 1, color: colour("soft") },
  }));
}

function timeAxis(pool) {
  return { type: "date", nticks: 5, tickangle: 0, range: [date(pool.starts_us[0]), date(pool.starts_us.at(-1) + pool.span_us)] };
}

// A span that has only begun, or hardly any pages, would draw noise that dwarfs the rest.
function spansOf(pool, group) {
  const spans = pool.spans.filter((span) => span.group === group);
  const most = Math.max(...spans.map((span) => span.views));
  return spans.filter((span) => span.views >= most / 5);
}

const middle = (pool, span) => date(span.start_us + pool.span_us / 2);

export function drawEarning(element, pool) {
  const traces = [["policy", "chosen pages", "main"], ["holdout", "random pages", "other"]].map(([group, name, ink]) => {
    const spans = spansOf(pool, group);
    return {
      name, x: spans.map((span) => middle(pool, span)),
      y: spans.map((span) => (span.revenue_micros / span.views) / 1000),
      mode: "lines+markers", marker: { size: 5 },
      line: { color: colour(ink), dash: group === "holdout" ? "dash" : "solid", width: 2 },
    };
  });
  const layout = {
    xaxis: timeAxis(pool), shapes: changeLines(pool),
    yaxis: { title: { text: `${pool.currency} per 1,000 views` } },
  };
  return draw(element, `Revenue per 1,000 views over time, reported so far, of chosen and of random pages.`, traces, layout);
}

export function drawFloor(element, pool) {
  const spans = spansOf(pool, "policy");
  const x = spans.map((span) => middle(pool, span));
  const means = spans.map((span) => span.clicks / span.views);
  const halves = spans.map((span, i) => 1.96 * Math.sqrt(Math.max(span.clicks_squared / span.views - means[i] ** 2, 0) / span.views));
  const band = { x, mode: "lines", line: { width: 0 }, hoverinfo: "skip", showlegend: false };
  const traces = [
    { ...band, y: means.map((mean, i) => Math.max(mean - halves[i], 0)) },
    { ...band, y: means.map((mean, i) => mean + halves[i]), fill: "tonexty", fillcolor: colour("band"), name: "95 of 100", showlegend: true },
    { name: "clicks a view", x, y: means, mode: "lines+markers", marker: { size: 5 }, line: { color: colour("main"), width: 2 } },
    {
      name: "the floor", x: timeAxis(pool).range, y: [pool.click_floor, pool.click_floor], mode: "lines",
      line: { color: colour("sale"), dash: "dash", width: 2 },
    },
  ];
  const layout = { xaxis: timeAxis(pool), shapes: changeLines(pool), yaxis: { title: { text: "clicks a view" } } };
  return draw(element, `Clicks a view over time with their band, against the floor of ${rate(pool.click_floor)}.`, traces, layout);
}

export function drawCost(element, pool, floor, gives) {
  const scaled = (micros) => micros / 1000;
  const present = [pool.floor.expected, pool.expected_revenue_micros];
  const first = pool.frontier[0];
  // Below its first corner a floor changes nothing.
  const points = first && first.click_floor > 0 ? [{ ...first, click_floor: 0 }, ...pool.frontier] : pool.frontier;
  const traces = [
    {
      name: "best", x: points.map((point) => point.click_floor), y: points.map((point) => scaled(point.revenue_micros)),
      mode: "lines", line: { color: colour("main"), width: 2 },
    },
    { name: "now", x: [present[0]], y: [scaled(present[1])], mode: "markers", marker: { size: 11, color: colour("click") } },
  ];
  if (gives !== null) {
    traces.push({ name: "another floor", x: [floor], y: [scaled(gives)], mode: "markers", marker: { size: 11, symbol: "diamond", color: colour("sale") } });
  }
  const layout = {
    xaxis: { title: { text: "clicks a view" }, rangemode: "tozero" },
    yaxis: { title: { text: `${pool.currency} per 1,000 views` } },
    hovermode: "closest",
    shapes: [{ type: "line", x0: pool.click_floor, x1: pool.click_floor, y0: 0, y1: 1, yref: "paper", line: { dash: "dash", width: 1, color: colour("soft") } }],
  };
  const words = `The best revenue for each floor. Now: ${rate(present[0])} clicks a view and ${perThousand(present[1], pool.currency)} per 1,000 views.`;
  return draw(element, words, traces, layout);
}

export function drawHealth(element, pool) {
  const sums = new Map(pool.starts_us.map((start) => [start, { views: 0, clicks: 0, sales: 0 }]));
  for (const span of pool.spans) {
    const sum = sums.get(span.start_us);
    if (sum) for (const name of ["views", "clicks", "sales"]) sum[name] += span[name];
  }
  const perHour = 3.6e9 / pool.span_us;
  const x = pool.starts_us.map((start) => date(start + pool.span_us / 2));
  const traces = [["views", "main", "y"], ["clicks", "click", "y2"], ["sales", "sale", "y3"]].map(([name, ink, yaxis]) => ({
    name: `${name} an hour`, type: "bar", x, y: [...sums.values()].map((sum) => sum[name] * perHour), yaxis, marker: { color: colour(ink) },
  }));
  const layout = {
    xaxis: { ...timeAxis(pool), anchor: "y3" }, shapes: changeLines(pool), bargap: 0.15,
    yaxis: { domain: [0.7, 1] },
    yaxis2: { domain: [0.36, 0.64], rangemode: "tozero" },
    yaxis3: { domain: [0, 0.3], rangemode: "tozero" },
  };
  const total = (name) => count([...sums.values()].reduce((sum, one) => sum + one[name], 0));
  const words = `Since ${time(pool.starts_us[0])}: ${total("views")} views, ${total("clicks")} clicks and ${total("sales")} sales, by the hour of the view.`;
  return draw(element, words, traces, layout);
}

export function drawSpark(element, clicks) {
  const traces = [{ y: clicks, mode: "lines", line: { color: colour("click"), width: 1.5 }, hoverinfo: "skip" }];
  const hidden = { visible: false };
  const layout = { margin: { l: 0, r: 0, t: 2, b: 2 }, xaxis: hidden, yaxis: hidden, showlegend: false };
  const total = clicks.reduce((sum, n) => sum + n, 0);
  return draw(element, `${count(total)} clicks lately`, traces, layout, { staticPlot: true, responsive: false });
}

export function redrawAll() {
  for (const element of document.querySelectorAll(".chart, .spark")) drawn.delete(element);
}
