// The panels but for the links: figures into words, tiles, facts and charts.

import * as changes from "./changes.js";
import * as charts from "./charts.js";
import { amount, download, moment } from "./download.js";
import * as segments from "./segments.js";
import * as period from "./period.js";
import * as rules from "./rules.js";
import { copyButton } from "./form.js";
import { call } from "./service.js";
import * as words from "./words.js";

const at = (selector) => document.querySelector(selector);
let pool = null;

export function show(overview) {
  pool = overview;
  document.title = `${pool.pool_id} · slotwise`;
  const [said, tone] = words.condition(pool);
  at("#pool-name").textContent = pool.pool_id;
  at("#condition .words").textContent = said;
  at("#condition .dot").className = `dot ${tone}`;
  showStart();
  showSettings();
  showEarning();
  showPromise();
  showFloor();
  showCost();
  showHealth();
  changes.show(pool);
  rules.show(pool);
  period.show(pool);
  segments.show(pool);
}

const pageKeys = new Map(); // made on this page, and forgotten with it

// Put the key of a page into the snippet of its pool.
export function useKey(pool_id, key) {
  pageKeys.set(pool_id, key);
  showStart();
}

// The snippet is in the way once everything has arrived: then it is under the settings.
function showStart() {
  const isDone = pool.has_view && pool.has_click && pool.has_sale;
  const [start, panel] = [at("#start"), at(isDone ? "#panel-settings" : "#panel-overview")];
  if (start.parentElement !== panel) isDone ? at("#pool-settings").after(start) : panel.prepend(start);
  start.classList.toggle("wide", !isDone);
  at("#checklist").hidden = isDone;
  const lines = [
    `<ul data-slotwise-pool="${pool.pool_id}" data-slotwise-slots="${pool.slots}" data-slotwise-key="${pageKeys.get(pool.pool_id) ?? "sw_pk_..."}">`,
    '  <li><a href="https://...">A link for when the service is away</a></li>',
    "</ul>",
    `<script async src="${location.origin}/slotwise.js"></` + "script>",
  ];
  at("#snippet").textContent = lines.join("\n");
  at("#page-key").classList.toggle("main", !pageKeys.has(pool.pool_id));
  for (const [name, done, waiting] of [
    ["view", "The first page was seen.", "Waiting for the first view."],
    ["click", "The first click came in.", "Waiting for the first click."],
    ["sale", "The first sale came in.", "Waiting for the first sale: your shop's server reports it."],
  ]) {
    const item = at(`#first-${name}`);
    const came = pool[`has_${name}`];
    item.classList.toggle("done", came);
    item.querySelector(".words").textContent = came ? done : waiting;
  }
}

function showSettings() {
  at("#pool-settings .facts").replaceChildren(...words.settingFacts(pool).flatMap(([term, text]) => fact(term, text)));
}

function element(tag, text) {
  const made = document.createElement(tag);
  made.textContent = text;
  return made;
}

function tile(figure, below) {
  const made = document.createElement("div");
  made.append(element("b", figure), element("span", below));
  return made;
}

// Without pages there is nothing to draw over time.
function hasPages(chart) {
  at(chart).hidden = pool.spans.length === 0;
  return !at(chart).hidden;
}

function showEarning() {
  at("#earning .verdict").textContent = words.earning(pool);
  const tiles = [];
  for (const [name, label] of [["policy", "chosen pages"], ["own", "own pages"], ["holdout", "random pages"]]) {
    const one = words.group(pool, name);
    if (!one?.revenue_views) continue;
    const [mean, range] = words.revenueRange(one.revenue_per_view_micros, pool.currency);
    tiles.push(tile(mean, `${range} per 1,000 views, ${label}: ${words.count(one.revenue_views)} settled`));
  }
  if (words.isCertain(pool.lift)) {
    const [lift, range] = words.liftRange(pool.lift);
    tiles.push(tile(lift, `${range}: lift of chosen over random pages`));
  }
  const own = pool.comparison?.lift;
  if (words.isCertain(own)) {
    const [lift, range] = words.liftRange(own);
    tiles.push(tile(lift, `${range}: chosen pages over your own page`));
  }
  const sum = (name) => pool.spans.reduce((total, span) => total + span[name], 0);
  if (pool.has_view) tiles.push(tile(words.money(sum("revenue_micros"), pool.currency), `reported for the views of the last ${words.lately(pool)}: ${words.things(sum("sales"), "sale")}, settled or not${words.cutSales(pool) && `; ${words.cutSales(pool)}`}`));
  at("#earning .tiles").replaceChildren(...tiles);
  const window = words.duration(Math.max(pool.click_window_s, pool.revenue_window_s));
  at("#earning .note").hidden = !pool.has_view;
  at("#earning .note").textContent =
    `A view settles ${window} after it was shown: until then clicks and sales may still come in. ` +
    (pool.folded_until_us ? `Views whose windows closed by ${words.time(pool.folded_until_us)} have settled. ` : "") +
    "The chart shows what was reported so far, so its newest points still grow.";
  if (hasPages("#earning-chart")) charts.drawEarning(at("#earning-chart"), pool);
}

function showPromise() {
  const card = at("#promise");
  card.hidden = !pool.comparison;
  if (card.hidden) return;
  const said = words.promise(pool);
  for (const [name, text] of Object.entries(said)) {
    card.querySelector(`.${name}`).textContent = text;
    card.querySelector(`.${name}`).hidden = !text;
  }
}

function showFloor() {
  const [now, advice] = words.keeping(pool);
  const badge = at("#floor .badge");
  badge.textContent = words.floorBadge(pool);
  badge.className = `badge ${pool.floor.status}`;
  badge.hidden = pool.n_links === 0 || pool.click_floor === 0;
  at("#floor .words").textContent = now;
  at("#floor .rule").textContent = words.FLOOR_RULE;
  at("#floor .rule").hidden = badge.hidden;
  at("#floor .advice").textContent = advice;
  at("#floor .note").hidden = pool.spans.length === 0;
  at("#floor .note").textContent = `${words.randomClicks(pool)}The newest points still grow: clicks count for ${words.duration(pool.click_window_s)}.`;
  if (hasPages("#floor-chart")) charts.drawFloor(at("#floor-chart"), pool);
}

const slider = at("#other-floor");
let sliderOf = null;

// The widest of a few steps on which the present floor lies, so that the slider can return to it.
function stepOf(most) {
  const lies = (step) => most / step >= 40 && Math.abs(pool.click_floor / step - Math.round(pool.click_floor / step)) < 1e-6;
  return [0.1, 0.05, 0.02, 0.01, 0.005, 0.002, 0.001].find(lies) ?? "any";
}

function showCost() {
  at("#cost .verdict").textContent = words.costing(pool);
  const drawable = pool.frontier.length > 0 && words.isKnown(pool);
  at("#cost .slider").hidden = at("#cost-chart").hidden = !drawable;
  if (!drawable) return;
  const most = pool.frontier.at(-1)?.click_floor ?? 0;
  slider.max = most;
  slider.step = stepOf(most);
  if (sliderOf !== pool.pool_id) {
    sliderOf = pool.pool_id;
    slider.value = Math.min(pool.click_floor, most);
  }
  showOtherFloor();
}

function showOtherFloor() {
  const floor = Math.min(Number(slider.value), pool.frontier.at(-1).click_floor);
  const gives = words.revenueAt(pool.frontier, floor);
  const text = words.otherFloor(pool, floor);
  at("#other-floor-gives").textContent = text;
  slider.setAttribute("aria-valuetext", text);
  charts.drawCost(at("#cost-chart"), pool, floor, gives);
}

let asking = null;

// Asked when the slider comes to rest: the answer is computed from thousands of pages.
async function askLog() {
  asking?.abort();
  asking = new AbortController();
  const says = at("#what-if");
  says.textContent = "What if? Asking the log …";
  const address = `/v1/pools/${encodeURIComponent(pool.pool_id)}/evaluate?click_floor=${slider.value}`;
  try {
    says.textContent = words.whatIf(await call(address, { signal: asking.signal }));
  } catch (error) {
    if (error.name !== "AbortError") says.textContent = `What if? ${error.message}`;
  }
}

const fact = (term, text) => [element("dt", term), element("dd", text)];

function showHealth() {
  at("#health .verdict").textContent = words.health(pool);
  const problems = words.pageProblems(pool);
  at("#health .facts").hidden = !pool.has_view && !problems.length;
  if (hasPages("#health-chart")) charts.drawHealth(at("#health-chart"), pool);
  const facts = [...problems, ...(pool.has_view ? words.healthFacts(pool) : [])];
  at("#health .facts").replaceChildren(...facts.flatMap(([term, text]) => fact(term, text)));
}

at("#page-key").before(copyButton(() => at("#snippet").textContent, "the snippet"));
slider.addEventListener("input", showOtherFloor);
slider.addEventListener("change", askLog);
at("#health .csv").addEventListener("click", () => download(`${pool.pool_id}-activity`, [
  ["from", "until", "pages", "views", "clicks", "sales", "revenue", "currency"],
  ...pool.spans.map((span) => [
    moment(span.start_us), moment(span.start_us + pool.span_us), words.GROUP_NAMES[span.group], span.views, span.clicks, span.sales, amount(span.revenue_micros), pool.currency,
  ]),
]));
