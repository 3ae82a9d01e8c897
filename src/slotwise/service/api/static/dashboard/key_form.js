// Keys: made, shown once, listed and revoked.

import { confirm } from "./confirm.js";
import { download } from "./download.js";
import { copyButton, element, makeDialog, makeField, stack } from "./form.js";
import { call } from "./service.js";
import { time } from "./words.js";

const SCOPES = [
  ["page", "ask for links on a page (may be in HTML)"], ["decide", "ask for links from your server"], ["track", "report clicks and sales"],
  ["read", "look at figures"], ["admin", "change everything"],
];
const label = makeField({ name: "label", label: "Whose key it is", hint: "For example: home page, shop server, Ada.", maxLength: 200 });
const scope = makeField({ name: "scope", pointer: "/scopes", kind: "choice", label: "What it may do", options: SCOPES });
const pool = makeField({ name: "pool_id", kind: "choice", label: "For the pool", hint: "A key on a page asks for links of one pool." });
const form = makeDialog({ id: "key-form", yes: "Make a key", fields: [label, scope, pool], submit, wide: true });
const secret = element("input", { id: "new-key", className: "secret", readOnly: true, "aria-label": "The new key", spellcheck: false });
const made = element("div", { className: "made", role: "status", hidden: true }, element("p", { textContent: "This is the key. It is shown once: store it now." }), secret, " ", copyButton(() => secret.value, "the key"));
const list = element("tbody");
const head = element("thead", {}, element("tr", {}, ...["Key", "May", "Made", ""].map((text) => element(text ? "th" : "td", text ? { scope: "col", textContent: text } : {}))));
const scroller = element("div", { className: "scroller", tabIndex: 0, role: "region", "aria-label": "Keys" }, element("table", { className: "stacked" }, head, list));
form.body.append(made, scroller);
form.no.textContent = "Close";
let listed = [];
let take = () => {};
const csv = element("button", { type: "button", className: "csv", textContent: "CSV of the keys" });
scroller.after(element("p", {}, csv));

async function submit() {
  const chosen = scope.control.value;
  const body = { scopes: [chosen], label: label.control.value.trim() };
  if (chosen === "page") body.pool_id = pool.control.value;
  const key = await call("/v1/keys", { method: "POST", body });
  secret.value = key.key;
  made.hidden = false;
  if (chosen === "page") take(body.pool_id, key.key);
  secret.focus();
  secret.select();
  label.control.value = "";
  await renew();
  return false;
}

function row(key) {
  const name = key.label || key.key_id;
  const revoke = element("button", { type: "button", textContent: "Revoke", "aria-label": `Revoke ${name}` });
  revoke.addEventListener("click", () => confirm({
    title: `Revoke ${name}?`, yes: "Revoke", words: "The key stops working at once and for good, and whoever signed in with it is signed out.",
    act: async () => {
      await call(`/v1/keys/${encodeURIComponent(key.key_id)}`, { method: "DELETE" });
      await renew();
    },
  }));
  const about = element("td", {}, element("b", { textContent: key.label || "without a name" }), element("small", { textContent: key.key_id }));
  const may = key.scopes.join(", ") + (key.pool_id ? ` of ${key.pool_id}` : "");
  const isLastAdmin = key.scopes.includes("admin") && listed.filter((one) => !one.revoked_at && one.scopes.includes("admin")).length === 1;
  const last = key.revoked_at ? element("td", { textContent: `revoked ${time(Date.parse(key.revoked_at) * 1000)}` })
    : isLastAdmin ? element("td", { textContent: "The last admin key: make another one before you revoke it." }) : element("td", {}, revoke);
  return element("tr", {}, about, element("td", { textContent: may }), element("td", { textContent: time(Date.parse(key.created_at) * 1000) }), last);
}

async function renew() {
  const { keys } = await call("/v1/keys");
  keys.sort((one, other) => Boolean(one.revoked_at) - Boolean(other.revoked_at) || other.created_at.localeCompare(one.created_at));
  listed = keys;
  list.replaceChildren(...keys.map(row));
  stack(scroller.firstChild);
}

function fit() {
  pool.hidden = scope.control.value !== "page";
}

// `taken` gets the pool and the key of a page that is made.
export async function open(pools, pool_id, taken = () => {}) {
  take = taken;
  pool.control.replaceChildren(...pools.filter((one) => !one.archived).map((one) => new Option(one.pool_id, one.pool_id)));
  if (pool_id) pool.control.value = pool_id;
  secret.value = "";
  made.hidden = true;
  fit();
  if (!(await form.open("Keys"))) return;
  await renew().catch(form.tell);
}

export function listen() {
  csv.addEventListener("click", () => download("keys", [
    ["key_id", "label", "scopes", "pool", "made", "revoked"], ...listed.map((key) => [key.key_id, key.label, key.scopes.join(" "), key.pool_id, key.created_at, key.revoked_at]),
  ]));
  scope.control.addEventListener("change", fit);
  form.dialog.addEventListener("close", () => { secret.value = ""; });
}
