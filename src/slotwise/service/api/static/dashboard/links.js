// The table of links. Names and addresses come from others: they enter the page as text only.

import { drawSpark } from "./charts.js";
import { amount, download, range } from "./download.js";
import { stack } from "./form.js";
import { call, poolAddress } from "./service.js";
import { count, lately, rateRange, revenueRange, share } from "./words.js";

const PAGE = 20;
const MAX_COUNTED = 5000; // of more pages the service looks into a sample
const COLUMNS = [
  ["name", "Link"], ["role", "Role"], ["share", "Share of views"], ["settled", "Settled views"], ["pending", "Pending"],
  ["clicks", "Clicks per view"], ["revenue", "Per 1,000 views"], [null, "Lately"], [null, "Why"], [null, "Actions"],
];
const NUMBERS = new Set(["share", "settled", "pending", "clicks", "revenue"]);

const state = { sort: "share", order: "down", offset: 0 };
const find = document.querySelector("#find");
const role = document.querySelector("#role");
const body = document.querySelector("#links tbody");
let nFound = 0;

export function query() {
  return new URLSearchParams({ ...state, limit: PAGE, text: find.value, role: role.value });
}

export function startOver() {
  state.offset = 0;
}

export function listen(refresh) {
  const row = document.querySelector("#links thead tr");
  for (const [column, label] of COLUMNS) {
    const heading = document.createElement("th");
    heading.scope = "col";
    if (NUMBERS.has(column)) heading.className = "number";
    if (column) {
      const button = document.createElement("button");
      button.type = "button";
      button.textContent = label;
      button.addEventListener("click", () => {
        const down = state.sort === column ? state.order === "up" : NUMBERS.has(column);
        Object.assign(state, { sort: column, order: down ? "down" : "up", offset: 0 });
        refresh();
      });
      heading.dataset.column = column;
      heading.append(button);
    } else {
      heading.textContent = label;
    }
    row.append(heading);
  }
  find.addEventListener("input", () => { startOver(); refresh(); });
  role.addEventListener("change", () => { startOver(); refresh(); });
  for (const [id, step] of [["previous", -PAGE], ["next", PAGE]]) {
    document.getElementById(id).addEventListener("click", () => {
      state.offset = Math.max(0, Math.min(state.offset + step, nFound - 1));
      refresh();
    });
  }
}

const MOST = 200; // rows of one call

// All links, whatever the table shows of them.
export async function save(pool) {
  const rows = [];
  for (let offset = 0, more = true; more; offset += MOST) {
    const query = new URLSearchParams({ sort: "name", order: "up", limit: MOST, offset });
    const found = await call(`${poolAddress(pool.pool_id)}/links?${query}`);
    rows.push(...found.rows);
    more = found.rows.length === MOST;
  }
  const head = [
    "link_id", "title", "url", "group", "starts_at", "ends_at", "role", "chance_now", "share_of_views", "settled_views", "pending_views", "clicks_per_view", "clicks_low", "clicks_high",
    "revenue_per_view", "revenue_low", "revenue_high", "currency", "why",
  ];
  download(`${pool.pool_id}-links`, [head, ...rows.map((one) => [
    one.link_id, one.title, one.url, one.group, one.starts_at, one.ends_at, one.role, one.share, one.share_lately, one.settled_views, one.pending_views, ...range(one.click_rate),
    ...range(one.revenue_per_view_micros).map(amount), pool.currency, one.why,
  ])]);
}

function element(tag, text, className = "") {
  const made = document.createElement(tag);
  made.textContent = text;
  made.className = className;
  return made;
}

function cell(className, ...content) {
  const made = element("td", "", className);
  made.append(...content);
  return made;
}

function withRange([mean, range]) {
  const made = element("span", mean);
  made.append(element("small", range));
  return made;
}

function actions(link, pool, act) {
  const wrapper = element("span", "");
  const name = link.title || link.link_id;
  const pin = pool.pins.find((one) => one.link_id === link.link_id);
  const offered = link.role === "retired" ? ["bring back"] : ["retire", pin ? "unpin" : "pin"];
  for (const action of offered) {
    const button = element("button", action[0].toUpperCase() + action.slice(1));
    button.type = "button";
    button.dataset.action = action;
    button.setAttribute("aria-label", `${button.textContent} ${name}`);
    button.addEventListener("click", () => act(action, link));
    wrapper.append(button, " ");
  }
  return wrapper;
}

function buildSpark() {
  const made = element("div", "");
  const chart = element("div", "", "spark");
  chart.setAttribute("role", "img");
  made.append(chart, element("small", ""));
  return made;
}

function showSpark(spark, link, pool) {
  const [views, clicks] = [link.views_by_span, link.clicks_by_span].map((spans) => spans.reduce((sum, n) => sum + n, 0));
  const nPages = pool.spans.reduce((sum, span) => sum + span.views, 0);
  const words = `${nPages > MAX_COUNTED ? "about " : ""}${count(views)} views, ${count(clicks)} clicks`;
  const [chart, below] = spark.children;
  below.textContent = words;
  chart.hidden = views === 0;
  if (views > 0) drawSpark(chart, link.views_by_span, link.clicks_by_span, `Over the last ${lately(pool)}: ${words}`);
}

function buildRow(link, pool, act, spark) {
  const row = document.createElement("tr");
  row.dataset.link = link.link_id;
  const name = element("b", link.title || link.link_id);
  const below = element("small", link.title ? `${link.link_id} · ${link.url}` : link.url);
  const badge = element("span", link.role, `badge ${link.role.replace(" ", "-")}`);
  const pin = pool.pins.find((one) => one.link_id === link.link_id);
  const roles = element("span", "");
  roles.append(badge, ...(pin ? [element("small", `pinned at position ${pin.position}`)] : []));
  const unknown = link.settled_views === 0;
  row.append(
    cell("name", name, below),
    cell("", roles),
    cell("number", link.share_lately === null ? share(link.share) : withRange([share(link.share_lately), `now ${share(link.share)}`])),
    cell("number", count(link.settled_views)),
    cell("number", count(link.pending_views)),
    cell("number", unknown ? "not known yet" : withRange(rateRange(link.click_rate))),
    cell("number", unknown ? "not known yet" : withRange(revenueRange(link.revenue_per_view_micros, pool.currency))),
    cell("", spark),
    cell("why", element("small", link.why)),
    cell("actions", actions(link, pool, act)),
  );
  return row;
}

const shown = new Map();

export function show(table, pool, act) {
  nFound = table.n_found;
  const focused = document.activeElement?.closest?.("tr[data-link]");
  const focus = focused && [focused.dataset.link, document.activeElement.dataset.action];
  const rows = table.rows.map((link) => {
    const fingerprint = JSON.stringify([link, pool.pool_id, pool.pins, pool.currency]);
    const before = shown.get(link.link_id);
    const spark = before?.spark ?? buildSpark();
    const row = before?.fingerprint === fingerprint ? before.row : buildRow(link, pool, act, spark);
    showSpark(spark, link, pool);
    return { link_id: link.link_id, fingerprint, row, spark };
  });
  shown.clear();
  for (const one of rows) shown.set(one.link_id, one);
  body.replaceChildren(...rows.map((one) => one.row));
  stack(body.parentElement);
  if (focus) body.querySelector(`tr[data-link="${CSS.escape(focus[0])}"] [data-action="${focus[1]}"]`)?.focus();
  for (const heading of document.querySelectorAll("#links th[data-column]")) {
    const sorted = heading.dataset.column === state.sort;
    if (sorted) heading.setAttribute("aria-sort", state.order === "up" ? "ascending" : "descending");
    else heading.removeAttribute("aria-sort");
  }
  const last = Math.min(state.offset + PAGE, table.n_found);
  document.querySelector("#links-found").textContent =
    table.n_found === table.n_links ? `${count(table.n_links)} links` : `${count(table.n_found)} of ${count(table.n_links)} links`;
  document.querySelector("#page-number").textContent = table.n_found ? `${count(state.offset + 1)} to ${count(last)}` : "none";
  document.querySelector("#previous").disabled = state.offset === 0;
  document.querySelector("#next").disabled = last >= table.n_found;
}
