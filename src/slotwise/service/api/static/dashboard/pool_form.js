// The settings of a pool: a new one, or those that there are.

import { element, local, makeDialog, makeField, number } from "./form.js";
import { call, callForRevision } from "./service.js";

const HOST = /^\s*(?:https?:\/\/)?([^/\s]*)/;
const hosts = (text) => text.split(/[\s,]+/).filter(Boolean).map((one) => HOST.exec(one)[1].toLowerCase());
const seconds = (size) => ({
  read: (text) => (typeof number(text) === "number" ? Math.round(number(text) * size) : number(text)),
  show: (value) => String(value / size),
  rule: "This must be more than 0, and 90 days at most.",
});
const plainNumber = { read: number, show: String };

// Features as people write them: a line for each.
const isNumbers = (words) => words.every((word) => word !== "" && Number.isFinite(Number(word)));
function features(text) {
  const lines = text.split("\n").map((line) => line.trim()).filter(Boolean);
  return Object.fromEntries(lines.map((line) => {
    const [, name, kind] = /^([^=:]*)[=:]?(.*)$/.exec(line).map((part) => part.trim());
    const words = kind.split(",").map((word) => word.trim());
    if (/^(yes\s*\/\s*no|bool)$/i.test(kind)) return [name, "bool"];
    if (words.length === 1 && kind === "text") return [name, "text"];
    return [name, isNumbers(words) ? words.map(Number) : words];
  }));
}
const featureLines = (value) => Object.entries(value).map(([name, kind]) => `${name} = ${kind === "bool" ? "yes/no" : Array.isArray(kind) ? kind.join(", ") : kind}`).join("\n");

// Floors of segments: a line for each, with the feature, the value and the fewest clicks. Values may have spaces.
function segmentFloors(text) {
  const floors = Object.create(null); // whatever is typed is a name, "__proto__" too
  for (const line of text.split("\n").map((one) => one.trim()).filter(Boolean)) {
    const [, name, value, least] = /^(\S+)\s*([^]*?)\s*=\s*([^=]*)$/.exec(line) ?? [null, line, "", ""];
    floors[name] ??= Object.create(null);
    // The same value twice must not be dropped: the service refuses what is no number.
    floors[name][value] = value in floors[name] ? line : number(least) ?? line;
  }
  return floors;
}
const FLAGS = { True: "yes", False: "no" };
const floorLines = (value) => Object.entries(value).flatMap(([name, floors]) => Object.entries(floors).map(([one, least]) => `${name} ${FLAGS[one] ?? one} = ${least}`)).join("\n");

function policy(text) {
  const [, name, settings] = /^([^{]*)(\{[^]*)?$/.exec(text.trim());
  if (!name.trim()) return undefined;
  try {
    return { name: name.trim(), settings: settings ? JSON.parse(settings) : {} };
  } catch {
    return { name: name.trim(), settings }; // which the service refuses
  }
}
const policyText = ({ name, settings }) => (Object.keys(settings).length ? `${name} ${JSON.stringify(settings)}` : name);

function slotWeights(text) {
  const words = text.trim().split(/[\s,;]+/).filter(Boolean);
  if (words.length === 0) return null;
  if (text.trim().toLowerCase() === "none") return [];
  return isNumbers(words) ? words.map(Number) : text.trim().toLowerCase();
}

// Addresses as people paste them, one on each line, as a table of links; a table stays as it is.
const isTable = (text) => /(^|[,;\t])\s*"?url"?\s*([,;\t]|$)/i.test(text.trim().split("\n")[0]);
const quoted = (text) => `"${text.replaceAll('"', '""')}"`;
function linkTable(text) {
  const lines = text.split("\n").map((line) => line.trim()).filter(Boolean);
  if (lines.length === 0 || isTable(text)) return text.trim();
  const ids = new Set();
  const rows = lines.map((line) => {
    const { pathname, hostname } = new URL(line);
    const slug = (pathname.split("/").filter(Boolean).at(-1) ?? hostname).replace(/\.\w+$/, "").replace(/[^A-Za-z0-9._:-]+/g, "-").slice(0, 50) || "link";
    let id = slug;
    for (let n = 2; ids.has(id); n += 1) id = `${slug}-${n}`;
    ids.add(id);
    const title = slug.replace(/[-_]+/g, " ").trim();
    return [id, line, title.slice(0, 1).toUpperCase() + title.slice(1)].map(quoted).join(",");
  });
  return ["link_id,url,title", ...rows].join("\n");
}
// The ids of a table of links, in its order.
function idsOf(table) {
  const cells = (line) => line.split(/[,;\t]/).map((cell) => cell.trim().replace(/^"|"$/g, ""));
  const [head, ...lines] = table.split("\n");
  const place = cells(head).findIndex((name) => name.toLowerCase() === "link_id");
  return lines.map((line) => cells(line)[place]).filter(Boolean);
}
const isAddress = (text) => URL.canParse(text) && /^https?:$/.test(new URL(text).protocol);
const addresses = (text) => text.match(/https?:\/\/[^\s,;"]+/g) ?? [];

const FIELDS = [
  { name: "pool_id", label: "Name", hint: "Letters, digits and . _ : - ; pages request the pool by its name, so it cannot be changed.", maxLength: 64, read: (text) => text.trim() },
  { name: "slots", label: "Links on a page", hint: "How many places the list has.", value: "3", inputMode: "numeric", ...plainNumber },
  { name: "click_floor", label: "Click floor", hint: "The fewest clicks per view that you accept. If you do not know, begin with the clicks per view that the page has now.", value: "0", inputMode: "decimal", ...plainNumber },
  { name: "links", kind: "area", rows: 4, label: "Links", hint: "One address on each line, or a table whose first line names the columns link_id, url and title.", placeholder: "https://shop.example/spring-sale" },
  { name: "own_page", kind: "area", rows: 3, label: "Your page today", hint: "The links that the page shows now, one id on each line, in order. slotwise compares with this page, and shows it if choosing fails. Leave it empty for no comparison.", read: (text) => text.split(/[\s,]+/).filter(Boolean), show: (value) => value.join("\n") },
  { name: "keep", label: "Promise", hint: "While it learns, earn at least this share of what your page of today would earn: 0.95. Few pages are chosen at first, more as they prove better. Leave it empty for no promise.", inputMode: "decimal", read: (text) => number(text) ?? null, show: (value) => (value === null ? "" : String(value)) },
  {
    name: "amount", pointer: "/max_revenue/amount_micros", label: "The largest sale that counts", hint: "A larger sale counts as this amount, when slotwise learns and in every figure. Choose it so that 99 of 100 sales are below.",
    value: "50", inputMode: "decimal", rule: "This must be more than 0, and 10,000,000 at most.",
  },
  { name: "currency", pointer: "/max_revenue/currency", label: "Currency", hint: "Three capital letters, such as EUR.", value: "EUR", maxLength: 3, read: (text) => text.trim().toUpperCase() },
];
const ADVANCED = [
  { name: "allowed_hosts", kind: "area", rows: 2, label: "Hosts of your shop", hint: "Where links may lead and pages may be, one on each line: shop.example. Empty: the hosts of the links.", read: hosts, show: (value) => value.join("\n") },
  { name: "holdout", pointer: "/holdout/share", label: "Share of pages for comparison", hint: "From 0 to 1. They show what slotwise earns: 0.05 is a good beginning.", value: "0.05", inputMode: "decimal", show: String },
  { name: "holdout_shows", pointer: "/holdout/shows", kind: "choice", label: "They show", hint: "Your page of today, or random links.", value: "random", options: [["own", "your page today"], ["random", "random links"]], show: String },
  { name: "explore", label: "Share of random links", hint: "From 0 to 1. With 0.02 the log can estimate what another floor would have earned.", value: "0", inputMode: "decimal", ...plainNumber },
  { name: "click_window_s", label: "Clicks count for (minutes)", hint: "After the page was seen.", value: "30", inputMode: "decimal", ...seconds(60) },
  { name: "revenue_window_s", label: "Sales count for (hours)", hint: "After the page was seen. A page is learned from when both have passed.", value: "24", inputMode: "decimal", ...seconds(3600) },
  { name: "until", kind: "datetime-local", label: "The pool ends", hint: "If it is certain: new links are then tried only as long as that pays. Leave it empty if the pool has no end.", read: (text) => (text ? new Date(text).toISOString() : null), show: (value) => (value ? local(value) : "") },
  { name: "policy", label: "Policy", hint: "How links are chosen. Leave it empty for the default; otherwise a name, with settings if needed: con-ucb {\"horizon\": 100000}", read: policy, show: policyText },
  { name: "features", kind: "area", rows: 3, label: "What is known of visitors", hint: "One feature on each line: device = phone, desktop (words), days = 1, 7, 30 (edges of bins), country = text (any word), returning = yes/no. Leave it empty where pages are the same for all.", read: features, show: featureLines },
  { name: "segment_floors", kind: "area", rows: 2, label: "Click floors of segments", hint: "One on each line, in addition to the floor for all visitors: country DE = 0.3, days 7 to 30 = 0.2. They protect small segments. Leave it empty where the floor for all is enough.", rule: "Each line must have a feature, one of its values and a number: country DE = 0.3", read: segmentFloors, show: floorLines },
  { name: "slot_weights", label: "Slots", hint: "Leave it empty to find out how often each place is clicked (learn); equal, where all places are alike; or known weights: 1.6, 0.9, 0.5", rule: "This must be empty, learn, equal, none, or a number for each place.", read: slotWeights, show: (value) => (Array.isArray(value) ? value.join(", ") || "none" : value ?? "") },
];

const ALL = [...FIELDS, ...ADVANCED];
const rows = ALL.map(({ value, read, show, ...field }) => makeField(field));
const controls = Object.fromEntries(ALL.map((field, i) => [field.name, rows[i].control]));
const [NAME, LINKS] = [rows[0], rows[3]];
let known = [];
let editing = null;
let revision = 0; // of the pool that is edited
let before = {};
let afterwards = () => {};

const form = makeDialog({ id: "pool-form", yes: "Save", fields: rows, submit });
const advanced = element("details", {}, element("summary", { textContent: "Advanced settings" }), element("div", {}, ...rows.slice(FIELDS.length)));
form.body.append(advanced);
const archive = element("button", { type: "button", textContent: "Archive", id: "archive" });
form.no.before(archive);

// A new pool: the links as they were entered are proposed as the own page, and with an own page a promise.
// What somebody has typed is not replaced.
const touched = new Set();
function propose() {
  if (editing) return;
  if (!touched.has("own_page")) {
    try {
      controls.own_page.value = idsOf(linkTable(controls.links.value)).join("\n");
    } catch {
      controls.own_page.value = ""; // an address is not complete yet
    }
  }
  const hasOwn = controls.own_page.value.trim() !== "";
  if (!touched.has("keep")) controls.keep.value = hasOwn ? "0.95" : "";
  if (!touched.has("holdout_shows")) controls.holdout_shows.value = hasOwn ? "own" : "random";
}
for (const name of ["links", "own_page", "keep", "holdout_shows"]) {
  controls[name].addEventListener("input", () => {
    touched.add(name);
    propose();
  });
}

const typed = () => Object.fromEntries(ALL.map(({ name }) => [name, controls[name].value]));

function bodyOf(values) {
  const body = {};
  for (const { name, read } of ALL) if (name !== "pool_id" && read && name !== "currency" && name in values) body[name] = read(values[name]);
  if ("amount" in values || "currency" in values) {
    const amount = number(controls.amount.value);
    const amount_micros = typeof amount === "number" ? Math.round(amount * 1e6) : amount;
    body.max_revenue = { amount_micros, currency: controls.currency.value.trim().toUpperCase() };
  }
  if ("holdout" in values || "holdout_shows" in values) body.holdout = { share: number(controls.holdout.value), shows: controls.holdout_shows.value };
  return body;
}

async function submit() {
  const values = typed();
  if (editing) {
    const changed = Object.fromEntries(Object.entries(values).filter(([name, text]) => text !== before[name]));
    await call(`/v1/pools/${encodeURIComponent(editing)}`, { method: "PATCH", body: bodyOf(changed), revision });
    afterwards(editing, false);
    return;
  }
  const pool_id = values.pool_id.trim();
  const body = bodyOf(values);
  const errors = wrongHere(pool_id, values.links, body.allowed_hosts);
  if (body.allowed_hosts.length === 0) body.allowed_hosts = [...new Set(addresses(values.links).filter((one) => URL.canParse(one)).map((one) => new URL(one).host))];
  // The service refuses a field that it does not know: it names the other wrong fields and stores nothing.
  if (errors.length > 0) body.not_yet = true;
  try {
    await call(`/v1/pools/${encodeURIComponent(errors.length > 0 ? "not-yet" : pool_id)}`, { method: "PUT", body });
  } catch (error) {
    if (errors.length === 0 || !error.status) throw error;
    throw Object.assign(new Error(error.message), { status: 422, errors: [...errors, ...error.errors] });
  }
  afterwards(pool_id, true, linkTable(values.links));
}

// What the page itself can see.
function wrongHere(pool_id, links, allowed) {
  const errors = [];
  const refuse = (pointer, detail) => errors.push({ pointer, detail });
  if (!pool_id) refuse("/pool_id", "pool_id is missing");
  else if (!/^[A-Za-z0-9._:-]{1,64}$/.test(pool_id)) refuse("/pool_id", "The name must have 1 to 64 letters, digits and . _ : -");
  else if (known.includes(pool_id)) refuse("/pool_id", "There is a pool with this name already");
  const wrong = isTable(links) ? undefined : links.split("\n").map((line) => line.trim()).find((line) => line && !isAddress(line));
  const elsewhere = addresses(links).find((one) => URL.canParse(one) && !allowed.includes(new URL(one).host));
  if (wrong) refuse("/links", `Each line must be an address such as https://shop.example/1, got “${wrong.slice(0, 80)}”`);
  else if (allowed.length > 0 && elsewhere) refuse("/links", `Each address must be on a host of your shop (${allowed.join(", ")}), got “${elsewhere.slice(0, 80)}”`);
  return errors;
}

export function openNew(pools) {
  known = pools.map((one) => one.pool_id);
  editing = null;
  NAME.hidden = LINKS.hidden = advanced.open = false;
  archive.hidden = true;
  for (const { name, value } of ALL) controls[name].value = value ?? "";
  touched.clear();
  return form.open("A new pool", "A pool is a list of links on a page. Everything but the name can be changed later.");
}

export async function openSettings(pool) {
  const [stored, read] = await callForRevision(`/v1/pools/${encodeURIComponent(pool.pool_id)}`);
  revision = read;
  editing = pool.pool_id;
  NAME.hidden = LINKS.hidden = advanced.open = true;
  archive.hidden = pool.archived;
  const values = { ...stored, holdout: stored.holdout.share, holdout_shows: stored.holdout.shows, amount: stored.max_revenue.amount_micros / 1e6, currency: stored.max_revenue.currency };
  for (const { name, show = String } of ALL) controls[name].value = name in values ? show(values[name]) : "";
  before = typed();
  return form.open(`Settings of ${pool.pool_id}`, pool.archived ? "The pool is archived: saving restores it." : "");
}

// `saved` is called with the name of the pool and whether it is new.
export function listen(saved, askToArchive) {
  afterwards = saved;
  archive.addEventListener("click", () => {
    form.dialog.close();
    askToArchive();
  });
}
