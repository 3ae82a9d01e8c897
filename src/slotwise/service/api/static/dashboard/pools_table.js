// All pools side by side.

import { amount, download, range } from "./download.js";
import { element } from "./form.js";
import { call } from "./service.js";
import * as words from "./words.js";

const panel = document.querySelector("#all-pools");
const body = panel.querySelector("tbody");
let choose = () => {};
let rows = [];
let chosen = null;
let names = "";

function row(pool) {
  const name = element("button", { type: "button", textContent: pool.pool_id });
  name.addEventListener("click", () => choose(pool.pool_id));
  if (pool.pool_id === chosen) name.setAttribute("aria-current", "true");
  const [policy, holdout] = ["policy", "holdout"].map((group) => words.group(pool, group));
  const hasFloor = pool.floor.clicks > 0 && pool.n_links > 0 && !pool.archived;
  const badge = hasFloor ? [element("span", { className: `badge ${pool.floor.status}`, textContent: words.floorBadge(pool) })] : [];
  const earns = (group) => (group?.revenue_views ? words.revenueRange(group.revenue_per_view_micros, pool.currency)[0] : "–");
  const lift = words.isCertain(pool.lift) ? words.liftRange(pool.lift).join(" (") + ")" : "not known yet";
  const cells = [
    ["Pool", name], ["Floor", pool.archived ? "archived" : pool.n_links === 0 ? "no links" : hasFloor ? badge[0] : "none"], ["Links", words.count(pool.n_links)],
    ["Settled views", words.count((policy?.click_views ?? 0) + (holdout?.click_views ?? 0))],
    ["Per 1,000 views", earns(policy)], ["Random pages", earns(holdout)], ["Lift", lift], ["Trouble", pool.trouble || "–"],
  ];
  const made = element("tr", { role: "row" });
  for (const [label, content] of cells) made.append(element("td", { role: "cell", "data-label": label }, content));
  return made;
}

export async function show(pools, pool_id) {
  panel.hidden = pools.length < 2;
  const now = JSON.stringify([pools, pool_id]);
  const isStale = now !== names;
  [names, chosen] = [now, pool_id];
  if (panel.open || isStale) await renew();
}

async function renew() {
  if (!panel.open) return;
  try {
    rows = (await call("/dashboard/overview")).pools;
    const focused = document.activeElement?.closest?.("#all-pools tbody button")?.textContent;
    body.replaceChildren(...rows.map(row));
    if (focused) [...body.querySelectorAll("button")].find((one) => one.textContent === focused)?.focus();
  } catch {
    // The figures of the pool are asked for as well, and say what is wrong.
  }
}

function save() {
  const head = ["pool", "archived", "links", "slots", "floor", "status", "clicks_per_view", "low", "high", "settled_views", "currency", "revenue_per_view", "random_revenue_per_view", "lift", "lift_low", "lift_high", "trouble"];
  const lines = rows.map((pool) => {
    const [policy, holdout] = ["policy", "holdout"].map((group) => words.group(pool, group));
    return [
      pool.pool_id, pool.archived, pool.n_links, pool.slots, pool.floor.clicks, pool.floor.status, ...range(pool.clicks_delivered),
      (policy?.click_views ?? 0) + (holdout?.click_views ?? 0), pool.currency, amount(policy?.revenue_per_view_micros.mean),
      amount(holdout?.revenue_per_view_micros.mean), ...range(pool.lift), pool.trouble,
    ];
  });
  download("pools", [head, ...lines]);
}

export function listen(choosePool) {
  choose = choosePool;
  panel.addEventListener("toggle", renew);
  panel.querySelector(".csv").addEventListener("click", save);
}
