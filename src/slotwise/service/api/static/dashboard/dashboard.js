// The page: asks for figures every few seconds, one call at a time, and shows what comes.

import * as acting from "./acting.js";
import * as changes from "./changes.js";
import { askForLink } from "./confirm.js";
import { fetchLibraryEarly, readLibrary } from "./drawing.js";
import * as links from "./links.js";
import * as panels from "./panels.js";
import * as period from "./period.js";
import * as poolsTable from "./pools_table.js";
import * as rules from "./rules.js";
import { call, poolAddress } from "./service.js";
import * as session from "./session.js";
import * as tabs from "./tabs.js";
import { clock } from "./words.js";

const EVERY_MS = 4000;
// A service that restarts or a machine that slept may leave a call without an answer.
const PATIENCE_MS = 30_000;
const at = (selector) => document.querySelector(selector);

let pool = null;
let chosen = new URLSearchParams(location.search).get("pool");
let missing = ""; // says that there is no pool of the name in the address
let timer;
let asking = new AbortController();
let turning = new AbortController();

function tell(trouble) {
  const box = at("#trouble");
  box.hidden = !trouble;
  if (box.textContent !== trouble) box.textContent = trouble;
}

async function refresh() {
  clearTimeout(timer);
  asking.abort();
  const mine = (asking = new AbortController());
  const patience = setTimeout(() => mine.abort(new Error("no answer")), PATIENCE_MS);
  try {
    await renew(mine.signal);
  } catch (error) {
    if (asking !== mine) return; // a later call has taken over
    if (error.status === 401 || error.status === 403) {
      at("#figures").hidden = at("#acts").hidden = at("#all-pools").hidden = true;
      at("#welcome").hidden = false;
      tell("");
      return;
    }
    explain(error);
  } finally {
    clearTimeout(patience);
  }
  session.renewIfUsed();
  timer = setTimeout(() => document.hidden || refresh(), EVERY_MS);
}

async function renew(signal) {
  const query = String(links.query());
  const figuresOf = (pool_id) => call(`${poolAddress(pool_id)}?${query}`, { signal });
  const guess = chosen;
  const [pools, guessed] = await Promise.all([
    namesOfPools(signal),
    guess === null ? null : figuresOf(guess).catch((error) => { if (error.status !== 404) throw error; }),
  ]);
  signal.throwIfAborted();
  choosePool(pools);
  at("#welcome").hidden = true;
  at("#no-pools").hidden = pools.length > 0;
  if (chosen === null) {
    pool = null;
    acting.take(pools, null);
    if (pools.length > 0) await poolsTable.show(signal);
    at("#figures").hidden = true;
    at("#all-pools").hidden = pools.length === 0;
    document.title = "slotwise";
    at("#freshness").textContent = `As of ${clock(Date.now() * 1000)}`;
    tell(missing);
    return;
  }
  const figures = chosen === guess && guessed ? guessed : await figuresOf(chosen);
  signal.throwIfAborted();
  pool = figures.overview;
  at("#all-pools").hidden = true;
  at("#figures").hidden = false;
  at("#freshness").textContent = `As of ${clock(pool.now_us)}`;
  panels.show(pool);
  acting.take(pools, pool);
  // Somebody who has sorted meanwhile gets those rows by another call.
  if (query === String(links.query())) showRows(figures.links);
  readLibrary();
  tell(pool.trouble || missing);
}

async function namesOfPools(signal) {
  const { pools } = await call("/dashboard/pools", { signal });
  if (pools.length > 0) fetchLibraryEarly();
  return pools;
}

function explain(error) {
  const since = pool ? ` The figures below are those of ${clock(pool.now_us)}.` : "";
  if (error.status === 503) tell(`The store does not answer: pages are still filled, but figures are not renewed and clicks and sales are refused.${since}`);
  else if (error.status) tell(`${error.message}.${since}`);
  else tell(`The service does not answer.${since}`);
}

const showRows = (rows) => links.show(rows, pool, (action, link) => askForLink(action, link, pool));

// Other rows of the same figures: nothing else is asked for or drawn.
async function turn() {
  if (pool === null) return;
  turning.abort();
  const mine = (turning = new AbortController());
  try {
    const rows = await call(`${poolAddress(pool.pool_id)}/links?${links.query()}`, { signal: mine.signal });
    if (!mine.signal.aborted) showRows(rows);
  } catch {
    if (!mine.signal.aborted) refresh(); // which says what is wrong
  }
}

// Fill the list of pools. A single pool is shown at once; of several, the one of the address.
function choosePool(pools) {
  const select = at("#pool");
  const running = pools.filter((one) => !one.archived).concat(pools.filter((one) => one.archived));
  const wrong = chosen;
  if (!running.some((one) => one.pool_id === chosen)) chosen = pools.length === 1 ? running[0].pool_id : null;
  at(".pool-choice").hidden = pools.length === 0;
  const options = running.map((one) => [`${one.pool_id}${one.archived ? " (archived)" : ""}`, one.pool_id]);
  if (pools.length > 1) options.unshift(["All pools", ""]);
  if (JSON.stringify(options.map(([text]) => text)) !== JSON.stringify([...select.options].map((option) => option.text))) {
    select.replaceChildren(...options.map(([text, value]) => new Option(text, value)));
  }
  select.value = chosen ?? "";
  if (wrong !== null && wrong !== chosen) missing = `There is no pool "${wrong}"; these are ${chosen === null ? "the pools" : `the figures of ${chosen}`}.`;
}

function choose(pool_id) {
  [chosen, missing] = [pool_id || null, ""];
  history.pushState(null, "", `${location.pathname}${pool_id ? `?pool=${encodeURIComponent(pool_id)}` : ""}${location.hash}`);
  links.startOver();
  refresh();
}

function follow() {
  const asked = new URLSearchParams(location.search).get("pool");
  if (asked === chosen) return;
  [chosen, missing] = [asked, ""];
  refresh();
}

at("#pool").addEventListener("change", (event) => choose(event.target.value));
at("#links .csv").addEventListener("click", () => links.save(pool).catch(explain));
document.addEventListener("visibilitychange", () => document.hidden || refresh());
addEventListener("online", refresh);
addEventListener("popstate", follow);
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", refresh);

tabs.listen();
session.listen(refresh);
acting.listen(choose, refresh);
changes.listen(refresh);
rules.listen(refresh);
period.listen();
poolsTable.listen();
links.listen(turn);
refresh();
