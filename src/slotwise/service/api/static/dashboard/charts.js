// What the charts show; drawing.js draws them.

import { drawWhenSeen, ink } from "./drawing.js";
import { count, perThousand, rate, time } from "./words.js";

const date = (us) => new Date(us / 1000);

// Changes and notes in the time of the charts, oldest first: their marks are 1, 2, ...
export function markedChanges(pool) {
  return pool.changes.filter((one) => one.is_marked && one.changed_us >= pool.starts_us[0]).slice(0, 20).reverse();
}

// A dotted line over the whole height for each, with its mark at the top.
function changeMarks(pool) {
  const marked = markedChanges(pool);
  return {
    shapes: marked.map((one) => ({
      type: "line", x0: date(one.changed_us), x1: date(one.changed_us), y0: 0, y1: 1, yref: "paper",
      line: { dash: "dot", width: 1, color: ink("soft") },
    })),
    annotations: marked.map((one, i) => ({
      x: date(one.changed_us), y: 1, yref: "paper", yanchor: "top", text: String(i + 1), showarrow: false,
      bgcolor: ink("card"), bordercolor: ink("soft"), borderpad: 2, font: { size: 11, color: ink("ink") },
    })),
  };
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

// Points along a line; one without a line beside it is larger, and whole where it lies on the axis.
const along = (spans) => ({ mode: "lines+markers", marker: { size: spans.length > 1 ? 5 : 9 }, cliponaxis: false });

const middle = (pool, span) => date(span.start_us + pool.span_us / 2);

export function drawEarning(element, pool) {
  const words = "Revenue per 1,000 views over time, reported so far, of chosen, own and random pages.";
  drawWhenSeen(element, words, () => {
    const traces = [["policy", "chosen pages", "main"], ["own", "own pages", "sale"], ["holdout", "random pages", "other"]].map(([group, name, colour]) => {
      const spans = spansOf(pool, group);
      return {
        name, x: spans.map((span) => middle(pool, span)),
        y: spans.map((span) => (span.revenue_micros / span.views) / 1000),
        ...along(spans),
        line: { color: ink(colour), dash: group === "holdout" ? "dash" : "solid", width: 2 },
      };
    });
    const layout = { ...changeMarks(pool), xaxis: timeAxis(pool), yaxis: { title: { text: `${pool.currency} per 1,000 views` } } };
    return { traces: traces.filter((trace) => trace.x.length > 0), layout };
  });
}

export function drawFloor(element, pool) {
  const words = `Clicks per view of chosen pages over time with 95 % intervals that hold at all times at once, and of random pages, against the floor, now ${rate(pool.click_floor)}.`;
  drawWhenSeen(element, words, () => {
    const spans = spansOf(pool, "policy");
    const x = spans.map((span) => middle(pool, span));
    const all = pool.spans.filter((span) => span.group === "policy");
    const ranges = spans.map((span) => pool.click_ranges[all.indexOf(span)]);
    const band = { x, mode: "lines", line: { width: 0 }, hoverinfo: "skip", showlegend: false };
    const end = timeAxis(pool).range[1];
    const steps = pool.floor_steps;
    const traces = [
      { ...band, y: ranges.map((one) => one.low) },
      { ...band, y: ranges.map((one) => one.high), fill: "tonexty", fillcolor: ink("band"), name: "95 % interval", showlegend: true },
      { name: "chosen pages", x, y: ranges.map((one) => one.mean), ...along(spans), line: { color: ink("main"), width: 2 } },
      {
        name: "the floor", mode: "lines", line: { color: ink("sale"), dash: "dash", width: 2, shape: "hv" },
        x: [...steps.map((step) => date(step.from_us)), end], y: [...steps, steps.at(-1)].map((step) => step.click_floor),
      },
    ];
    const random = spansOf(pool, "holdout");
    if (random.length > 0) {
      traces.push({
        name: "random pages", x: random.map((span) => middle(pool, span)), y: random.map((span) => span.clicks / span.views),
        ...along(random), line: { color: ink("other"), dash: "dot", width: 2 },
      });
    }
    const layout = { ...changeMarks(pool), xaxis: timeAxis(pool), yaxis: { title: { text: "clicks per view" } } };
    return { traces: spans.length > 0 ? traces : traces.slice(3), layout };
  });
}

export function drawCost(element, pool, floor, gives) {
  const scaled = (micros) => micros / 1000;
  const present = [pool.expected_clicks, pool.expected_revenue_micros];
  const words = `The best revenue for each floor. Pages now, still trying links out: ${rate(present[0])} clicks per view and ${perThousand(present[1], pool.currency)} per 1,000 views.`;
  drawWhenSeen(element, words, () => {
    const first = pool.frontier[0];
    // Below its first corner a floor changes nothing.
    const points = first && first.click_floor > 0 ? [{ ...first, click_floor: 0 }, ...pool.frontier] : pool.frontier;
    const marker = { mode: "markers" };
    const traces = [
      {
        name: "the best possible", x: points.map((point) => point.click_floor), y: points.map((point) => scaled(point.revenue_micros)),
        mode: "lines", line: { color: ink("main"), width: 2 },
      },
      { ...marker, name: "pages now, still trying links out", x: [present[0]], y: [scaled(present[1])], marker: { size: 11, color: ink("click") } },
    ];
    if (gives !== null) {
      traces.push({ ...marker, name: "at the slider", x: [floor], y: [scaled(gives)], marker: { size: 11, symbol: "diamond", color: ink("sale") } });
    }
    const layout = {
      xaxis: { title: { text: "clicks per view" }, rangemode: "tozero" },
      yaxis: { title: { text: `${pool.currency} per 1,000 views` } },
      hovermode: "closest",
      shapes: [{ type: "line", x0: pool.click_floor, x1: pool.click_floor, y0: 0, y1: 1, yref: "paper", line: { dash: "dash", width: 1, color: ink("soft") } }],
      annotations: [{
        x: pool.click_floor, y: 0, yref: "paper", yanchor: "bottom", xanchor: "left", text: "the floor", showarrow: false, font: { size: 11, color: ink("soft") },
      }],
    };
    return { traces, layout };
  });
}

// The spans of the service, in seconds: what happened in one is shown as it was counted.
const SPANS = { 10: "10 seconds", 60: "minute", 300: "5 minutes", 900: "15 minutes", 3600: "hour" };
const HAPPENED = ["views", "clicks", "sales"];

export function drawHealth(element, pool) {
  const sums = new Map(pool.starts_us.map((start) => [start, { views: 0, clicks: 0, sales: 0 }]));
  for (const span of pool.spans) {
    const sum = sums.get(span.start_us);
    if (sum) for (const name of HAPPENED) sum[name] += span[name];
  }
  const total = (name) => count([...sums.values()].reduce((sum, one) => sum + one[name], 0));
  const words = `Since ${time(pool.starts_us[0])}: ${total("views")} views, ${total("clicks")} clicks and ${total("sales")} sales, by the time of the view.`;
  drawWhenSeen(element, words, () => {
    const x = pool.starts_us.map((start) => date(start + pool.span_us / 2));
    const traces = [["main", "y"], ["click", "y2"], ["sale", "y3"]].map(([colour, yaxis], i) => ({
      name: `${HAPPENED[i]} per ${SPANS[pool.span_us / 1e6] ?? "bar"}`, type: "bar", x, y: [...sums.values()].map((sum) => sum[HAPPENED[i]]), yaxis, marker: { color: ink(colour) },
    }));
    const layout = {
      ...changeMarks(pool), xaxis: { ...timeAxis(pool), anchor: "y3" }, bargap: 0.15,
      yaxis: { domain: [0.7, 1], nticks: 4 },
      yaxis2: { domain: [0.36, 0.64], rangemode: "tozero", nticks: 4 },
      yaxis3: { domain: [0, 0.3], rangemode: "tozero", nticks: 4 },
    };
    return { traces, layout };
  });
}

// Views as a hill behind, clicks as bars before it, each to its own height.
export function drawSpark(element, views, clicks, words) {
  drawWhenSeen(element, words, () => {
    const quiet = { hoverinfo: "skip" };
    const traces = [
      { ...quiet, y: views, mode: "lines", fill: "tozeroy", fillcolor: ink("band"), line: { width: 0 } },
      { ...quiet, y: clicks, type: "bar", yaxis: "y2", marker: { color: ink("click") } },
    ];
    const hidden = { visible: false, rangemode: "tozero" };
    const layout = {
      margin: { l: 0, r: 0, t: 2, b: 2 }, xaxis: hidden, yaxis: hidden, yaxis2: { ...hidden, overlaying: "y" }, bargap: 0.1, showlegend: false,
    };
    return { traces, layout, options: { staticPlot: true } };
  });
}
