// A period beside the one of the same length before it.

import { drawWhenSeen, ink } from "./drawing.js";
import { amount, download, moment, range } from "./download.js";
import { element, stack } from "./form.js";
import { call, poolAddress, sentence } from "./service.js";
import * as words from "./words.js";

const at = (selector) => document.querySelector(selector);
const [from, to] = [at("#period-from"), at("#period-to")];
const EVERY_MS = 60_000;
let pool = null;
let found = null;
let asked = "";
let askedMs = -EVERY_MS;
let nDays = 7;

const dayOf = (date) => `${date.getFullYear()}-${String(date.getMonth() + 1).padStart(2, "0")}-${String(date.getDate()).padStart(2, "0")}`;
// Midnight by the clock of the reader, so many days later.
const midnight = (text, days = 0) => {
  const [year, month, day] = text.split("-").map(Number);
  return new Date(year, month - 1, day + days);
};

function last(days) {
  const today = new Date(pool.now_us / 1000);
  to.value = dayOf(today);
  from.value = dayOf(new Date(today.getFullYear(), today.getMonth(), today.getDate() - days + 1));
}

export function show(overview) {
  const isOther = pool?.pool_id !== overview.pool_id;
  pool = overview;
  if (nDays) last(nDays);
  if (isOther || performance.now() - askedMs > EVERY_MS) ask();
}

async function ask() {
  const says = at("#period .verdict");
  if (!from.value || !to.value) {
    says.textContent = "Choose the first and the last day of the period.";
    return;
  }
  const query = new URLSearchParams({ since: midnight(from.value).toISOString(), until: midnight(to.value, 1).toISOString() });
  const mine = (asked = `${poolAddress(pool.pool_id)}/period?${query}`);
  askedMs = performance.now();
  try {
    const answer = await call(mine);
    if (asked === mine) draw(answer);
  } catch (error) {
    if (asked === mine) says.textContent = sentence(error);
  }
}

const perView = (totals) => (totals.views ? totals.revenue_micros / totals.views : null);
const withRange = (rate) => (rate ? words.range(rate) : "–");

// The groups of pages by name; the own page only where one of the two periods has shown it.
function groupsOf(period) {
  const hasOwn = [found.this, found.before].some((one) => one.totals.some(({ group, views }) => group === "own" && views > 0));
  const shown = Object.entries(words.GROUP_NAMES).filter(([group]) => group !== "own" || hasOwn);
  return shown.map(([group, name]) => [name, period.totals.find((one) => one.group === group)]);
}

function measures(period) {
  const groups = groupsOf(period);
  const money = (micros) => (micros === null ? "–" : words.perThousand(micros, found.currency));
  const sum = (name) => groups.reduce((total, [, one]) => total + one[name], 0);
  return [
    ["Views", sum("views"), words.count(sum("views"))],
    ...groups.map(([name, one]) => [`Clicks per view, ${name} pages`, one.clicks_per_view?.mean ?? null, withRange(one.clicks_per_view)]),
    ...groups.map(([name, one]) => [`Revenue per 1,000 views, ${name} pages`, perView(one), money(perView(one))]),
    ["Sales", sum("sales"), words.count(sum("sales"))],
    ["Revenue", sum("revenue_micros"), words.money(sum("revenue_micros"), found.currency)],
  ];
}

function draw(answer) {
  found = answer;
  const [now, before] = [measures(found.this), measures(found.before)];
  const change = (i) => (before[i][1] && now[i][1] !== null ? words.signedShare(now[i][1] / before[i][1] - 1) : "–");
  at("#period tbody").replaceChildren(...now.map(([name, , text], i) => element("tr", {},
    element("th", { scope: "row", textContent: name }), ...[text, before[i][2], change(i)].map((one) => element("td", { className: "number", textContent: one })))));
  stack(at("#period table"));
  const day = (us) => new Date(us / 1000).toLocaleDateString(navigator.language, { dateStyle: "medium" });
  const said = (period) => `${day(period.from_us)} to ${day(period.until_us - 1e6)}`;
  at("#period .verdict").textContent = now[0][1] ? `${said(found.this)}, compared with ${said(found.before)}. Reported so far; the newest views still grow.` : `No page was shown from ${said(found.this)}.`;
  // A line needs two points: with fewer, the table says all.
  const points = (period) => period.spans.filter((span) => span.group === "policy").length;
  const isDrawn = Math.max(points(found.this), points(found.before)) > 1;
  at("#period-chart").hidden = !isDrawn;
  if (isDrawn) drawChart();
}

function drawChart() {
  const label = "Revenue per 1,000 views of chosen pages over the period, and over the one before it.";
  drawWhenSeen(at("#period-chart"), label, () => {
    const shift = found.this.from_us - found.before.from_us;
    const traces = [["before", "the period before", "other", shift], ["this", "this period", "main", 0]].map(([name, title, colour, by]) => {
      const spans = found[name].spans.filter((span) => span.group === "policy");
      return {
        name: title, x: spans.map((span) => new Date((span.start_us + by + found.span_us / 2) / 1000)), y: spans.map((span) => span.revenue_micros / span.views / 1000),
        mode: "lines+markers", marker: { size: 4 }, line: { color: ink(colour), dash: name === "before" ? "dot" : "solid", width: 2 },
      };
    });
    const xaxis = { type: "date", nticks: 6, tickangle: 0, range: [new Date(found.this.from_us / 1000), new Date(found.this.until_us / 1000)] };
    return { traces: traces.filter((trace) => trace.x.length > 0), layout: { xaxis, yaxis: { title: { text: `${found.currency} per 1,000 views` } } } };
  });
}

function save() {
  if (!found) return;
  const lines = ["this", "before"].flatMap((name) => groupsOf(found[name]).map(([pages, one]) => [
    name, moment(found[name].from_us), moment(found[name].until_us), pages,
    one.views, one.clicks, ...range(one.clicks_per_view), one.sales, amount(one.revenue_micros), found.currency,
  ]));
  download(`${pool.pool_id}-periods`, [["period", "from", "until", "pages", "views", "clicks", "clicks_per_view", "low", "high", "sales", "revenue", "currency"], ...lines]);
}

export function listen() {
  for (const field of [from, to]) field.addEventListener("change", () => { nDays = 0; ask(); });
  for (const button of document.querySelectorAll("#period [data-days]")) {
    button.addEventListener("click", () => { nDays = Number(button.dataset.days); last(nDays); ask(); });
  }
  at("#period .csv").addEventListener("click", save);
}
