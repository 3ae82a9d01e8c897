// The panel "Segments": what visitors with each feature value bring against the average, and the slots.

import { download } from "./download.js";
import { stack } from "./form.js";
import { call, poolAddress } from "./service.js";
import * as words from "./words.js";

const panel = document.querySelector("#segments");
const at = (selector) => panel.querySelector(selector);
const none = document.querySelector("#no-segments");
const FLAGS = { True: "yes", False: "no" };
let asking = new AbortController();
let shown = null;

export async function show(pool) {
  asking.abort();
  const mine = (asking = new AbortController());
  if (shown?.pool_id !== pool.pool_id) panel.hidden = none.hidden = true;
  try {
    const figures = await call(`${poolAddress(pool.pool_id)}/segments`, { signal: mine.signal });
    if (!mine.signal.aborted) put(figures);
  } catch {
    // The rest of the page says what is wrong; the last figures stay.
  }
}

function put(figures) {
  shown = figures;
  panel.hidden = figures.values.length === 0 && figures.slots.length === 0;
  none.hidden = !panel.hidden;
  at(".verdict").textContent = [verdict(figures), ...mostlyRare(figures)].join(" ");
  at("table").hidden = at(".csv").parentElement.hidden = figures.values.length === 0;
  at(".early").hidden = !figures.values.some((one) => one.value === "(rare)");
  at(".floor-column").hidden = !hasFloors(figures);
  at("tbody").replaceChildren(...rows(figures));
  stack(at("table"));
  putSlots(figures);
}

function verdict(figures) {
  if (figures.values.length === 0) return "This pool declares no features of visitors.";
  const differs = figures.values.filter((one) => stands(one, figures));
  const average = `The average is ${words.revenueRange(figures.revenue_per_view_micros, figures.currency)[0]} per 1,000 views`;
  if (!figures.depends_on_visitors) return `${average}. The policy of this pool shows all visitors the same pages.`;
  const pairs = certainPairs(figures);
  const apart = pairs.length > 0 ? ` ${pairs.slice(0, MAX_PAIRS).map(([more, less]) => `${named(more)} certainly earns more than ${named(less)}`).join("; ")}.` : "";
  if (differs.length === 0) return apart ? `${average}.${apart}` : `${average}. No segment certainly differs from it yet, nor from another one of its feature.`;
  return `${average}. ${differs.length === 1 ? "One segment certainly differs" : `${words.count(differs.length)} segments certainly differ`} from it.${apart}`;
}

const MAX_PAIRS = 3;
const named = (one) => `${one.feature}: ${FLAGS[one.value] ?? one.value}`;

// Two values of a feature whose intervals do not overlap, the one that earns more first; the largest differences first.
function certainPairs({ values }) {
  const known = values.filter(isComparable);
  const pairs = known.flatMap((more) => known
    .filter((less) => less.feature === more.feature && more.revenue_per_view_micros.low > less.revenue_per_view_micros.high)
    .map((less) => [more, less]));
  const gap = ([more, less]) => more.revenue_per_view_micros.low - less.revenue_per_view_micros.high;
  return pairs.sort((a, b) => gap(b) - gap(a));
}

// Lists of words in which most page views have no place of their own, once they had the time to get one.
function mostlyRare({ values, page_views }) {
  return values
    .filter((one) => one.value === "(rare)" && page_views >= 1000 && 2 * one.page_views > page_views)
    .map((one) => `${words.share(one.page_views / page_views)} of page views have a rare ${one.feature}, so little is learned from it: send fewer different words, and check who sends them.`);
}

const MIN_VIEWS = 100;
// Pages from before a word was frequent count as rare: they differ from later ones by time.
const isComparable = (one) => one.value && one.value !== "(rare)" && one.page_views >= MIN_VIEWS;

// Both intervals hold at all times at once, so whoever watches is not misled.
function stands(one, figures) {
  const [own, all] = [one.revenue_per_view_micros, figures.revenue_per_view_micros];
  return isComparable(one) && (own.low > all.high || own.high < all.low);
}

function rows(figures) {
  const found = [row({ ...figures, feature: "All visitors", value: "", top_links: [], page_views: figures.page_views }, figures)];
  for (const one of figures.values) found.push(row(one, figures));
  return found;
}

function row(one, figures) {
  const made = document.createElement("tr");
  const value = one.value === "(rare)" ? "rare or not listed yet" : FLAGS[one.value] ?? one.value;
  const name = cell("th", one.value ? `${one.feature}: ${value}` : one.feature);
  name.scope = "row";
  const { revenue_per_view_micros: revenue, clicks_per_view: clicks } = one;
  const [money, between] = words.revenueRange(revenue, figures.currency);
  const [standing, judged] = floorCell(one);
  const links = one.top_links.map((link) => `${link.title || link.link_id} (${words.share(link.probability)})`);
  made.append(
    name,
    cell("td", words.count(one.page_views), "number"),
    withInterval(money + against(one, figures), between),
    withInterval(...words.rateRange(clicks)),
    ...(hasFloors(figures) ? [withInterval(standing, judged)] : []),
    cell("td", links.join(", ")),
  );
  return made;
}

const hasFloors = (figures) => figures.values.some((one) => one.floor);

// Whether visitors with a value get the clicks that they were promised, by what was delivered since then.
function floorCell({ floor }) {
  if (!floor) return ["", ""];
  const { status, clicks, attainable } = floor.floor;
  const found = floor.clicks_delivered;
  const judged = status === "infeasible" ? `the most is about ${words.rate(attainable)}`
    : found ? `${words.range(found)} since it was set` : "no view has settled";
  return [`${words.rate(clicks)}: ${status}`, judged];
}

// The difference to all visitors, where it is certain.
function against(one, figures) {
  const { mean: all } = figures.revenue_per_view_micros;
  if (!stands(one, figures) || all <= 0) return "";
  const { mean, low, high } = one.revenue_per_view_micros;
  return ` (${words.liftRange({ mean: mean / all - 1, low: low / all - 1, high: high / all - 1 })[0]})`;
}

function cell(tag, text, name = "") {
  const made = document.createElement(tag);
  made.textContent = text;
  made.className = name;
  return made;
}

function withInterval(figure, interval) {
  const made = cell("td", "", "number");
  const both = cell("span", figure);
  both.append(cell("small", interval));
  made.append(both);
  return made;
}

function putSlots(figures) {
  const box = at(".slot-weights");
  box.hidden = figures.slots.length === 0;
  if (box.hidden) return;
  box.querySelector(".note").textContent = figures.learns_slots
    ? "Learned from pages in random order: how often a link is clicked in a slot, against the average slot. The links worth most go to the best slots."
    : "As set in the pool: how often a link is clicked in a slot, against the average slot. The links worth most go to the best slots.";
  const most = Math.max(...figures.slots.map((slot) => slot.high));
  box.querySelector("tbody").replaceChildren(...figures.slots.map((slot) => {
    const made = document.createElement("tr");
    const name = cell("th", String(slot.position));
    name.scope = "row";
    const weight = cell("td", `${words.rate(slot.weight)} `);
    const bar = document.createElement("meter");
    Object.assign(bar, { min: 0, max: most, value: slot.weight });
    bar.setAttribute("aria-label", `Weight of slot ${slot.position}`);
    weight.append(bar);
    const interval = slot.low < slot.high ? `${words.rate(slot.low)} to ${words.rate(slot.high)}` : "known";
    made.append(name, weight, cell("td", interval, "number"), cell("td", standing(slot)));
    return made;
  }));
  stack(box.querySelector("table"));
}

// The link that stands in a slot on more than half of the pages.
function standing({ mostly }) {
  if (!mostly || mostly.probability <= 0.5) return "changes from page to page";
  return `${mostly.title || mostly.link_id} (${words.share(mostly.probability)})`;
}

at(".csv").addEventListener("click", () => {
  const columns = ["feature", "value", "page_views", "revenue_per_view", "revenue_low", "revenue_high", "clicks_per_view", "clicks_low", "clicks_high", "click_floor", "floor_status", "top_links"];
  const lines = shown.values.map((one) => {
    const money = one.revenue_per_view_micros;
    const clicks = one.clicks_per_view;
    return [one.feature, one.value, one.page_views, ...[money.mean, money.low, money.high].map((micros) => micros / 1e6),
      clicks.mean, clicks.low, clicks.high, one.floor?.floor.clicks ?? "", one.floor?.floor.status ?? "", one.top_links.map((link) => link.link_id).join(" ")];
  });
  download(`${shown.pool_id}-segments`, [columns, ...lines]);
});
