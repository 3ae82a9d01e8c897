// The start page where there are several pools: a row for each.

import { amount, download, range } from "./download.js";
import { element, stack } from "./form.js";
import { call } from "./service.js";
import * as words from "./words.js";

const panel = document.querySelector("#all-pools");
const body = panel.querySelector("tbody");
const pages = panel.querySelector(".pages");
const [PAGE, MOST] = [50, 200]; // rows of the table, and of one call
let [offset, nPools] = [0, 0];

const read = (first, limit, options) => call(`/dashboard/overview?${new URLSearchParams({ offset: first, limit })}`, options);

const settled = (pool) => pool.groups.reduce((sum, group) => sum + group.click_views, 0);

function row(pool) {
  const name = element("a", { href: `/?pool=${encodeURIComponent(pool.pool_id)}`, textContent: pool.pool_id });
  const [policy, holdout] = ["policy", "holdout"].map((group) => words.group(pool, group));
  const hasFloor = pool.floor.clicks > 0 && pool.n_links > 0 && !pool.archived;
  const badge = hasFloor ? element("span", { className: `badge ${pool.floor.status}`, textContent: words.floorBadge(pool) }) : "none";
  const earns = (group) => (group?.revenue_views ? words.revenueRange(group.revenue_per_view_micros, pool.currency)[0] : "–");
  const lift = words.isCertain(pool.lift) ? words.liftRange(pool.lift).join(" (") + ")" : "not known yet";
  const numbers = [words.count(pool.n_links), words.count(settled(pool)), earns(policy), earns(holdout), lift];
  return element("tr", {}, element("th", { scope: "row" }, name), element("td", {}, pool.archived ? "archived" : pool.n_links === 0 ? "no links" : badge),
    ...numbers.map((text) => element("td", { className: "number", textContent: text })), element("td", { textContent: pool.trouble || "–" }));
}

export async function show(signal) {
  const found = await read(offset, PAGE, { signal });
  nPools = found.n_pools;
  if (offset >= nPools && offset > 0) { // pools are archived, never removed, unless the store is another one
    offset = 0;
    return show(signal);
  }
  const focused = document.activeElement?.closest?.("#all-pools tbody a")?.textContent;
  body.replaceChildren(...found.pools.map(row));
  stack(body.parentElement);
  if (focused) [...body.querySelectorAll("a")].find((one) => one.textContent === focused)?.focus();
  const last = Math.min(offset + PAGE, nPools);
  pages.hidden = nPools <= PAGE;
  pages.querySelector(".page-number").textContent = `${words.count(offset + 1)} to ${words.count(last)} of ${words.count(nPools)}`;
  pages.querySelector(".previous").disabled = offset === 0;
  pages.querySelector(".next").disabled = last >= nPools;
}

// All pools, whatever the table shows of them.
async function save() {
  const rows = [];
  for (let first = 0, more = true; more; first += MOST) {
    const found = await read(first, MOST);
    rows.push(...found.pools);
    more = rows.length < found.n_pools && found.pools.length > 0;
  }
  const head = ["pool", "archived", "links", "slots", "floor", "status", "clicks_per_view", "low", "high", "settled_views", "currency", "revenue_per_view", "random_revenue_per_view", "lift", "lift_low", "lift_high", "trouble"];
  const lines = rows.map((pool) => {
    const [policy, holdout] = ["policy", "holdout"].map((group) => words.group(pool, group));
    return [
      pool.pool_id, pool.archived, pool.n_links, pool.slots, pool.floor.clicks, pool.floor.status, ...range(pool.clicks_delivered),
      settled(pool), pool.currency, amount(policy?.revenue_per_view_micros.mean),
      amount(holdout?.revenue_per_view_micros.mean), ...range(pool.lift), pool.trouble,
    ];
  });
  download("pools", [head, ...lines]);
}

export function listen() {
  panel.querySelector(".csv").addEventListener("click", save);
  for (const [name, step] of [["previous", -PAGE], ["next", PAGE]]) {
    pages.querySelector(`.${name}`).addEventListener("click", () => {
      offset = Math.max(0, Math.min(offset + step, nPools - 1));
      show();
    });
  }
}
