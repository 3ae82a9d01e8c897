// The page: asks for figures every few seconds and puts them into words and charts.

import * as charts from "./charts.js";
import * as links from "./links.js";
import * as words from "./words.js";

const EVERY_MS = 4000;
const at = (selector) => document.querySelector(selector);

// Keys live in these two variables and nowhere else.
let readKey = "";
let adminKey = "";

let pool = null;
let chosen = new URLSearchParams(location.search).get("pool");
let timer;
let asking = null;

class Refused extends Error {
  constructor(status, detail) {
    super(detail);
    this.status = status;
  }
}

async function call(path, { method = "GET", key = readKey, body } = {}) {
  const headers = {};
  if (key) headers.Authorization = `Bearer ${key}`;
  if (body !== undefined) headers["Content-Type"] = "application/json";
  const answer = await fetch(path, { method, headers, body: body === undefined ? undefined : JSON.stringify(body), cache: "no-store" });
  if (answer.ok) return answer.json();
  const problem = await answer.json().catch(() => ({}));
  throw new Refused(answer.status, problem.detail || problem.title || `the service answered ${answer.status}`);
}

function tell(trouble) {
  const box = at("#trouble");
  box.hidden = !trouble;
  if (box.textContent !== trouble) box.textContent = trouble;
}

async function refresh() {
  clearTimeout(timer);
  asking?.abort?.();
  const mine = (asking = { abort() { this.stale = true; } });
  try {
    const { pools } = await call("/dashboard/pools");
    if (mine.stale) return;
    choosePool(pools);
    at("#read-key-form").hidden = true;
    at("#no-pools").hidden = pools.length > 0;
    at("#figures").hidden = pools.length === 0;
    if (pools.length > 0) {
      const base = `/dashboard/pools/${encodeURIComponent(chosen)}`;
      const [overview, table] = await Promise.all([call(base), call(`${base}/links?${links.query()}`)]);
      if (mine.stale) return;
      pool = overview;
      show();
      links.show(table, pool, ask);
      tell(pool.store_available ? "" : "The store does not answer: pages are still filled, but clicks and sales are refused until it is back.");
    } else {
      tell("");
    }
  } catch (error) {
    if (mine.stale) return;
    if (error.status === 401 || error.status === 403) {
      at("#figures").hidden = true;
      at("#read-key-form").hidden = false;
      at("#read-key-answer").textContent = readKey ? error.message : "";
      tell("");
      return;
    }
    const since = pool ? ` The figures below are those of ${words.clock(pool.now_us)}.` : "";
    if (error.status === 503) tell(`The store does not answer: pages are still filled, but figures are not renewed and clicks and sales are refused.${since}`);
    else if (error.status) tell(`${error.message}.${since}`);
    else tell(`The service does not answer.${since}`);
  }
  timer = setTimeout(() => (document.hidden ? wait() : refresh()), EVERY_MS);
}

function wait() {
  document.addEventListener("visibilitychange", refresh, { once: true });
}

function choosePool(pools) {
  const select = at("#pool");
  const running = pools.filter((one) => !one.archived).concat(pools.filter((one) => one.archived));
  if (!running.some((one) => one.pool_id === chosen)) chosen = running[0]?.pool_id ?? null;
  at(".pool-choice").hidden = pools.length === 0;
  const wanted = running.map((one) => `${one.pool_id}${one.archived ? " (archived)" : ""}`);
  if (JSON.stringify(wanted) !== JSON.stringify([...select.options].map((option) => option.text))) {
    select.replaceChildren(...running.map((one, i) => new Option(wanted[i], one.pool_id)));
  }
  select.value = chosen ?? "";
}

const group = (name) => pool.groups.find((one) => one.group === name);

function show() {
  document.title = `${pool.pool_id} · slotwise`;
  at("#freshness").textContent = `As of ${words.clock(pool.now_us)}`;
  showStart();
  showEarning();
  showFloor();
  showCost();
  showHealth();
  showChanges();
}

function showStart() {
  at("#start").hidden = pool.has_view && pool.has_click && pool.has_sale;
  const lines = [
    `<ul data-slotwise-pool="${pool.pool_id}" data-slotwise-slots="${pool.slots}" data-slotwise-key="sw_dk_...">`,
    '  <li><a href="https://...">A link for when the service is away</a></li>',
    "</ul>",
    `<script async src="${location.origin}/slotwise.js"></` + "script>",
  ];
  at("#snippet").textContent = lines.join("\n");
  for (const [name, done, waiting] of [
    ["view", "The first page was seen.", "Waiting for the first view."],
    ["click", "The first click came in.", "Waiting for the first click."],
    ["sale", "The first sale came in.", "Waiting for the first sale: send conversions to /v1/events."],
  ]) {
    const item = at(`#first-${name}`);
    const came = pool[`has_${name}`];
    item.classList.toggle("done", came);
    item.querySelector(".words").textContent = came ? done : waiting;
  }
}

function tile(figure, words) {
  const made = document.createElement("div");
  const number = document.createElement("b");
  const below = document.createElement("span");
  number.textContent = figure;
  below.textContent = words;
  made.append(number, below);
  return made;
}

function showEarning() {
  at("#earning .verdict").textContent = words.earning(pool);
  const tiles = [];
  for (const [name, label] of [["policy", "chosen pages"], ["holdout", "random pages"]]) {
    const one = group(name);
    if (!one?.revenue_views) continue;
    const money = one.revenue_per_view_micros;
    const range = `${words.perThousand(money.low, pool.currency)} to ${words.perThousand(money.high, pool.currency)}`;
    tiles.push(tile(words.perThousand(money.mean, pool.currency), `per 1,000 views, ${label}, settled (${range}; ${words.count(one.revenue_views)} views)`));
  }
  const sum = (name) => pool.spans.reduce((total, span) => total + span[name], 0);
  const since = words.duration((pool.now_us - pool.starts_us[0]) / 1e6);
  tiles.push(tile(words.money(sum("revenue_micros"), pool.currency), `reported for the views of the last ${since}: ${words.count(sum("sales"))} sales, settled or not`));
  at("#earning .tiles").replaceChildren(...tiles);
  const window = words.duration(Math.max(pool.click_window_s, pool.revenue_window_s));
  at("#earning .note").textContent =
    `A view settles ${window} after it was shown; settled up to ${pool.folded_until_us ? words.time(pool.folded_until_us) : "now: nothing"}. ` +
    "The chart shows what was reported so far, so its newest points still grow.";
  chart(charts.drawEarning, "#earning-chart");
}

function showFloor() {
  const [now, advice] = words.keeping(pool);
  const badge = at("#floor .badge");
  badge.textContent = pool.floor.status;
  badge.className = `badge ${pool.floor.status}`;
  at("#floor .words").textContent = now;
  at("#floor .advice").textContent = advice;
  chart(charts.drawFloor, "#floor-chart");
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
  chart((element) => charts.drawCost(element, pool, floor, gives), "#cost-chart");
}

function fact(term, text) {
  const dt = document.createElement("dt");
  const dd = document.createElement("dd");
  dt.textContent = term;
  dd.textContent = text;
  return [dt, dd];
}

function delays(found, window_s, what) {
  if (found.n_events === 0) return `no ${what} lately`;
  const said = `half within ${words.duration(found.median_s)}, 99 of 100 within ${words.duration(found.late_s)}`;
  if (found.suggested_window_s === null) return `${said}; too few to suggest a window (now ${words.duration(window_s)})`;
  const fits = found.suggested_window_s === window_s;
  return `${said}; a window of ${words.duration(found.suggested_window_s)} would catch those (now ${words.duration(window_s)}${fits ? ", which fits" : ""})`;
}

function showHealth() {
  const got = (name) => pool.received[name] ?? 0;
  const wrong = got("rejected") + pool.late_clicks + pool.late_sales + pool.n_quarantined;
  at("#health .verdict").textContent = pool.spans.length === 0
    ? "No page was shown lately."
    : wrong ? "Some feedback does not count; see below." : "All feedback that came in counts.";
  chart(charts.drawHealth, "#health-chart");
  at("#health .facts").replaceChildren(
    ...fact("Clicks come", delays(pool.click_delays, pool.click_window_s, "clicks")),
    ...fact("Sales come", delays(pool.sale_delays, pool.revenue_window_s, "sales")),
    ...fact("Late", `${words.count(pool.late_clicks)} clicks and ${words.count(pool.late_sales)} sales of these views`),
    ...fact("Invalid", `${words.count(pool.invalid_clicks)} clicks by crawlers and prefetching`),
    ...fact("Quarantined", `${words.count(pool.n_quarantined)} events of all pools wait for their page`),
    ...fact("Duplicates", `${words.count(got("duplicate"))} of all pools since the service started, counted once`),
    ...fact("Rejected", `${words.count(got("rejected"))} of all pools since the service started`),
  );
}

function showChanges() {
  const lines = pool.changes.map((change) => {
    const item = document.createElement("li");
    const below = document.createElement("small");
    item.textContent = change.what;
    below.textContent = `${words.time(change.changed_us)}, by ${change.changed_by || "the service"}`;
    item.append(below);
    return item;
  });
  at("#change-list").replaceChildren(...lines);
}

function chart(drawing, selector) {
  drawing(at(selector), pool).catch((error) => { at(selector).textContent = `The chart cannot be drawn: ${error.message}.`; });
}

// Changes of links: the admin key is asked for once.

const dialog = at("#ask");
let wish = null;

function ask(action, link) {
  const name = link.title || link.link_id;
  const said = {
    retire: [`Retire ${name}?`, "It is shown no more; its clicks and sales are still counted.", "Retire"],
    "bring back": [`Bring ${name} back?`, "It may be shown again and keeps its statistics.", "Bring back"],
    pin: [`Pin ${name}?`, "It stands at this position of every page; the rest of the page still keeps the floor.", "Pin"],
    unpin: [`Unpin ${name}?`, "It has to earn its place again.", "Unpin"],
  }[action];
  wish = { action, link, pool_id: pool.pool_id };
  at("#ask-title").textContent = said[0];
  at("#ask-words").textContent = said[1];
  at("#ask-yes").textContent = said[2];
  at("#ask-answer").textContent = "";
  at("#ask-key-label").hidden = adminKey !== "";
  at("#ask-position-label").hidden = action !== "pin";
  at("#ask-position").max = pool.slots;
  dialog.showModal();
}

async function fulfil({ action, link, pool_id }, key) {
  const base = `/v1/pools/${encodeURIComponent(pool_id)}`;
  const path = `${base}/links/${encodeURIComponent(link.link_id)}`;
  if (action === "retire") return call(path, { method: "DELETE", key });
  if (action === "bring back") return call(path, { method: "PATCH", key, body: { retired: false } });
  const others = pool.pins.filter((one) => one.link_id !== link.link_id);
  const position = Number(at("#ask-position").value);
  const pins = action === "pin" ? [...others.filter((one) => one.position !== position), { link_id: link.link_id, position }] : others;
  return call(base, { method: "PATCH", key, body: { pins } });
}

dialog.querySelector("form").addEventListener("submit", async (event) => {
  event.preventDefault();
  const key = adminKey || at("#ask-key").value.trim();
  try {
    await fulfil(wish, key);
  } catch (error) {
    if (error.status === 401 || error.status === 403) {
      adminKey = "";
      at("#ask-key-label").hidden = false;
    }
    at("#ask-answer").textContent = error.status ? error.message : "The service does not answer.";
    return;
  }
  adminKey = key;
  at("#ask-key").value = "";
  dialog.close();
  refresh();
});
at("#ask-no").addEventListener("click", () => dialog.close());
dialog.addEventListener("close", () => { at("#ask-key").value = ""; });

at("#read-key-form").addEventListener("submit", (event) => {
  event.preventDefault();
  readKey = at("#read-key").value.trim();
  at("#read-key").value = "";
  refresh();
});
at("#pool").addEventListener("change", (event) => {
  chosen = event.target.value;
  history.replaceState(null, "", `?pool=${encodeURIComponent(chosen)}`);
  links.startOver();
  refresh();
});
slider.addEventListener("input", showOtherFloor);
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => {
  charts.redrawAll();
  refresh();
});

links.listen(refresh);
refresh();
