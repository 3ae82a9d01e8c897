// Rules of the pool: what each asks for, delivers and costs. A rule is checked by the service before it is saved.

import { confirm } from "./confirm.js";
import { element, local, makeDialog, makeField, number, stack } from "./form.js";
import { call, poolAddress } from "./service.js";
import { count, perThousand, rate, time } from "./words.js";

const at = (selector) => document.querySelector(selector);
const name = makeField({ name: "name", label: "Name", maxLength: 100 });
const group = makeField({ name: "group", label: "Group", hint: "All links of this group. Or leave it empty and list links." });
const links = makeField({ name: "links", kind: "area", rows: 2, label: "Links", hint: "Tick them below, or write their ids, separated by spaces or commas." });
const MAX_OFFERED = 200; // the most that one call returns; others are found by their name
const find = element("input", { type: "search", placeholder: "Find a link", "aria-label": "Find a link" });
const offered = element("div", { className: "offered", role: "group", "aria-label": "Links of the pool" });
links.append(find, offered);
const least = makeField({ name: "at_least", label: "At least, slots per page", hint: "1 holds on every page, 0.5 on every second one on average.", inputMode: "decimal" });
const most = makeField({ name: "at_most", label: "At most, slots per page", hint: "Empty: no limit.", inputMode: "decimal" });
const goal = makeField({
  name: "goal", kind: "choice", label: "Until a date",
  options: [["", "nothing"], ["views", "so many views"], ["clicks", "so many clicks"], ["budget", "at most so many clicks, or so much money"], ["hard", "the same as a hard limit"]],
});
const target = makeField({ name: "target", label: "How many", inputMode: "numeric" });
const cost = makeField({ name: "cost", label: "Cost of a click", hint: "For a budget in money; the field above is then an amount. Empty: a budget of clicks.", inputMode: "decimal" });
const until = makeField({ name: "until", kind: "datetime-local", label: "Date" });
const fields = [name, group, links, least, most, goal, target, cost, until];
const form = makeDialog({ id: "rule-form", yes: "Check", fields, submit, wide: true });
const said = element("p", { className: "words", role: "status" });
form.body.append(said);
let pool = null;
let changed = null; // the rule that is changed, none for a new one
let checked = null; // the rules that were checked, to be saved next
let revision = 0; // of the pool that they were made from
let afterwards = () => {};

const address = () => `/v1/pools/${encodeURIComponent(pool.pool_id)}/rules`;

const money = (amount_micros) => ({ amount_micros, currency: pool.currency });
const micros = (amount) => (typeof amount === "number" ? Math.round(amount * 1e6) : amount);

// A rule as it is put. A budget of money stays one of money.
function bodyOf(rule) {
  const body = { name: rule.name, group: rule.group, links: rule.links, at_least: rule.at_least, at_most: rule.at_most, boost: rule.boost };
  for (const one of rule.goals) {
    if (one.kind === "views") body.views_until = { views: one.target, until: one.until };
    else if (one.kind === "clicks") body.clicks_until = { clicks: one.target, until: one.until };
    else {
      const size = one.cost_per_click_micros ? { money: money(one.amount_micros), cost_per_click: money(one.cost_per_click_micros) } : { clicks: one.target };
      body.budget = { ...size, until: one.until, hard: one.hard };
    }
  }
  return body;
}

function typed() {
  const kind = goal.control.value;
  const goals = changed === null ? [] : changed.goals.slice(1);
  if (kind) {
    const before = changed?.goals[0]?.until; // it has seconds, which the field has not
    const text = until.control.value;
    const date = before && text === local(before) ? before : text && new Date(text).toISOString();
    const asked = number(target.control.value);
    goals.unshift({
      kind: kind === "hard" ? "budget" : kind, target: asked, until: date, hard: kind === "hard",
      amount_micros: micros(asked), cost_per_click_micros: micros(number(cost.control.value)),
    });
  }
  return bodyOf({
    name: name.control.value.trim(), group: group.control.value.trim(), links: ids(),
    at_least: number(least.control.value) ?? 0, at_most: number(most.control.value) ?? null, boost: changed?.boost ?? 0, goals,
  });
}

async function submit() {
  if (checked !== null) {
    await call(address(), { method: "PUT", body: { rules: checked }, revision });
    afterwards();
    return true;
  }
  revision = pool.revision;
  const rules = pool.rules.map((rule) => (rule.name === changed?.name ? typed() : bodyOf(rule)));
  if (changed === null) rules.push(typed());
  const answer = await call(`${address()}:check`, { method: "POST", body: { rules } });
  const conflicts = answer.conflicts.length > 0 ? ` ${answer.conflicts.join(" ")}` : " All rules can be kept.";
  const cost = answer.cost_micros === null ? "they give up the click floor" : `the rules cost ${perThousand(answer.cost_micros, answer.currency)} of them`;
  said.textContent = `With all rules, 1,000 views earn about ${perThousand(answer.revenue_micros, answer.currency)}; ${cost}.${conflicts}`;
  checked = rules;
  form.go.textContent = "Save";
  return false;
}

const ids = () => links.control.value.split(/[\s,]+/).filter(Boolean);

// Offer the links of the pool; a tick writes the id into the field, and the field decides.
async function offer() {
  const query = new URLSearchParams({ text: find.value, sort: "name", order: "up", limit: MAX_OFFERED });
  const { rows } = await call(`${poolAddress(pool.pool_id)}/links?${query}`);
  const chosen = new Set(ids());
  offered.replaceChildren(...rows.filter((one) => one.role !== "retired").map((one) => {
    const box = element("input", { type: "checkbox", checked: chosen.has(one.link_id), value: one.link_id });
    box.addEventListener("change", () => {
      links.control.value = [...ids().filter((id) => id !== one.link_id), ...(box.checked ? [one.link_id] : [])].join(" ");
      forget();
    });
    return element("label", {}, box, ` ${one.title || one.link_id}`, ...(one.title ? [element("small", { textContent: ` ${one.link_id}` })] : []));
  }));
}

// Ids may be written too: the boxes follow the field.
links.control.addEventListener("input", () => {
  const written = new Set(ids());
  for (const box of offered.querySelectorAll("input")) box.checked = written.has(box.value);
});

function forget() {
  checked = null;
  form.go.textContent = "Check";
  said.textContent = "";
}

function open(rule) {
  changed = rule;
  forget();
  const first = rule?.goals[0];
  const paid = first?.cost_per_click_micros;
  const size = paid ? [first.amount_micros / 1e6, paid / 1e6] : [first?.target];
  const values = [rule?.name, rule?.group, rule?.links.join(" "), rule?.at_least || "", rule?.at_most, first?.hard ? "hard" : first?.kind, size[0], size[1], first && local(first.until)];
  fields.forEach((field, i) => { field.control.value = values[i] ?? ""; });
  find.value = "";
  offered.replaceChildren();
  offer().catch(() => {}); // ids can be written without the list
  return form.open(rule === null ? "A new rule" : `Rule ${rule.name}`, "Before the rules are saved, the service estimates what they cost.");
}

function asks(rule) {
  const parts = [];
  if (rule.at_least) parts.push(`at least ${rate(rule.at_least)}`);
  if (rule.at_most !== null) parts.push(`at most ${rate(rule.at_most)}`);
  if (rule.boost) parts.push(`boost ${rate(rule.boost)}`);
  return parts.join(", ") || "–";
}

function progress(goals) {
  const kinds = { views: "views", clicks: "clicks", budget: "clicks of the budget" };
  return goals.map((one) => `${count(one.done)} of ${count(one.target)} ${kinds[one.kind]} by ${time(Date.parse(one.until) * 1000)}, about ${count(one.forecast)} then`).join("; ");
}

function retire(rule) {
  const made_from = pool.revision;
  const rest = pool.rules.filter((one) => one.name !== rule.name).map(bodyOf);
  return confirm({ title: `Retire the rule ${rule.name}?`, words: "Pages no longer keep it; the log of changes records it.", yes: "Retire", act: () => call(address(), { method: "PUT", body: { rules: rest }, revision: made_from }) });
}

function row(rule) {
  const button = (text, act) => {
    const made = element("button", { type: "button", className: "small", textContent: text, "aria-label": `${text} the rule ${rule.name}` });
    made.addEventListener("click", act);
    return made;
  };
  const about = rule.group ? `group ${rule.group}` : rule.links.join(", ");
  const first = element("th", { scope: "row" }, rule.name, element("br"), element("small", { textContent: about }));
  const told = element("td", { textContent: progress(rule.goals) });
  if (rule.violated) told.append(told.textContent ? element("br") : "", element("span", { className: "wrong", textContent: rule.detail }));
  const cells = [asks(rule), `${rate(rule.slots_now)} now, ${rate(rule.slots_delivered)} so far`, rule.cost_micros === null ? "the click floor" : perThousand(rule.cost_micros, pool.currency)];
  const buttons = element("td", {}, button("Change", () => open(rule)), " ", button("Retire", () => retire(rule)));
  return element("tr", {}, first, ...cells.map((text) => element("td", { textContent: text })), told, buttons);
}

let shown = "";

export function show(overview) {
  pool = overview;
  const now = JSON.stringify([pool.pool_id, pool.rules]);
  if (now === shown) return; // whoever has the focus in it keeps it
  shown = now;
  const violated = pool.rules.filter((rule) => rule.violated).length;
  at("#rules .verdict").textContent = pool.rules.length === 0 ? "No rules: every link may have any slot." : violated === 0 ? "All rules are kept." : `${count(violated)} of ${count(pool.rules.length)} rules cannot be kept.`;
  at("#rules table").hidden = pool.rules.length === 0;
  at("#rules tbody").replaceChildren(...pool.rules.map(row));
  stack(at("#rules table"));
}

export function listen(saved) {
  afterwards = saved;
  for (const field of fields) field.control.addEventListener("input", forget);
  find.addEventListener("input", () => offer().catch(() => {}));
  at("#add-rule").addEventListener("click", () => open(null));
}
