// Alerts: who receives them, added, tested and removed; which are present and which were sent.

import { confirm } from "./confirm.js";
import { download } from "./download.js";
import { copyButton, element, makeDialog, makeField, stack } from "./form.js";
import { call } from "./service.js";
import { time } from "./words.js";

const KINDS = [
  ["floor-missed", "a click floor is missed"], ["rule-violated", "a rule cannot be kept"], ["feedback-stopped", "clicks or sales stop"],
  ["learning-failed", "learning fails"], ["one-network", "one network reports most views"], ["own-page-better", "chosen pages earn less than your own"],
];
const FORMATS = [["auto", "by the host"], ["slack", "Slack, Mattermost"], ["teams", "Teams"], ["json", "signed JSON"]];
const url = makeField({ name: "url", kind: "url", label: "Send alerts to", hint: "The webhook of a channel in Slack or Teams.", maxLength: 2048, placeholder: "https://hooks.slack.com/services/…" });
const pool = makeField({ name: "pool_id", kind: "choice", label: "Of the pool" });
const format = makeField({ name: "format", kind: "choice", label: "Format", options: FORMATS });
const boxes = KINDS.map(([value]) => element("input", { type: "checkbox", value }));
const kinds = element("div", { className: "offered", role: "group", "aria-label": "When to send" }, ...KINDS.map(([, text], i) => element("label", {}, boxes[i], ` ${text}`)));
const when = element("div", { className: "field" }, element("b", { textContent: "When" }), element("small", { textContent: "None ticked: always." }), kinds);
const form = makeDialog({ id: "alert-form", yes: "Add", fields: [url, pool, format], submit, wide: true });
const secret = element("input", { id: "alert-secret", readOnly: true, type: "password", "aria-label": "The secret that messages are signed with" });
const reveal = element("button", { type: "button", textContent: "Show" });
const signing = element("p", {}, "Messages are signed with this secret: ", secret, " ", reveal, " ", copyButton(() => secret.value, "the secret"));
const active = element("ul");
const outcomeLine = element("p", { role: "status", className: "words" });
const columns = (...names) => element("thead", {}, element("tr", {}, ...names.map((text) => element(text ? "th" : "td", text ? { scope: "col", textContent: text } : {}))));
const scrolled = (label, head, list) => element("div", { className: "scroller", tabIndex: 0, role: "region", "aria-label": label }, element("table", { className: "stacked" }, head, list));
const receivers = element("tbody");
const receiverTable = scrolled("Receivers of alerts", columns("Sent to", "When", "Added", ""), receivers);
const list = element("tbody");
const scroller = scrolled("Sent alerts", columns("Sent", "What", "Pool", "To", "Outcome"), list);
const csv = element("button", { type: "button", className: "csv", textContent: "CSV of the messages" });
form.body.prepend(receiverTable);
form.body.append(when, outcomeLine, signing, active, scroller, element("p", {}, csv));
form.no.textContent = "Close";
let deliveries = [];

const outcome = (one) => `${one.delivered ? "delivered" : "not delivered"}: ${one.detail}${one.attempts > 1 ? ` (${one.attempts} attempts)` : ""}`;
const wordsOf = (one) => (one.alerts.length > 0 ? one.alerts.map((kind) => KINDS.find(([value]) => value === kind)?.[1] ?? kind).join(", ") : "always");

async function submit() {
  const body = { url: url.control.value.trim(), format: format.control.value, alerts: boxes.filter((box) => box.checked).map((box) => box.value) };
  if (pool.control.value) body.pool_id = pool.control.value;
  const added = await call("/v1/alerts/receivers", { method: "POST", body });
  url.control.value = "";
  for (const box of boxes) box.checked = false;
  await renew();
  outcomeLine.textContent = `Added ${added.url}. Send a test to see that alerts arrive.`;
  return false;
}

async function test(receiver_id) {
  outcomeLine.textContent = "Sending …";
  try {
    const sent = await call("/v1/alerts:test", { method: "POST", body: { receiver_id } });
    await renew();
    outcomeLine.textContent = `The test was ${outcome(sent)}.`;
  } catch (error) {
    outcomeLine.textContent = "";
    await form.tell(error);
  }
}

function row(one) {
  const isFixed = one.made_at === null;
  const send = element("button", { type: "button", textContent: "Send a test", "aria-label": `Send a test to ${one.url}`, disabled: !one.allowed });
  send.addEventListener("click", () => test(one.receiver_id));
  const remove = element("button", { type: "button", textContent: "Remove", "aria-label": `Remove ${one.url}`, hidden: isFixed });
  remove.addEventListener("click", () => confirm({
    title: `Remove ${one.url}?`, yes: "Remove", words: "No more alerts are sent there.",
    act: async () => {
      await call(`/v1/alerts/receivers/${encodeURIComponent(one.receiver_id)}`, { method: "DELETE" });
      await renew();
    },
  }));
  const place = element("td", {}, element("b", { textContent: one.url }));
  if (!one.allowed) place.append(element("small", { textContent: " not used: its host is not in alert_hosts" }));
  const added = isFixed ? "by the operator (alert_url)" : `${time(Date.parse(one.made_at) * 1000)}${one.by ? ` by ${one.by}` : ""}`;
  const which = `${wordsOf(one)}${one.pool_id ? `, in pool ${one.pool_id}` : ""}`;
  return element("tr", {}, place, element("td", { textContent: which }), element("td", { textContent: added }), element("td", {}, send, " ", remove));
}

async function renew() {
  const found = await call("/v1/alerts");
  deliveries = found.deliveries;
  const others = found.hosts.length > 0 ? `, or an address on ${found.hosts.join(", ")}` : "; the operator allows other hosts with alert_hosts";
  url.querySelector("small").textContent = `The webhook of a channel in Slack or Teams${others}.`;
  secret.value = found.secret;
  receiverTable.hidden = signing.hidden = found.receivers.length === 0;
  receivers.replaceChildren(...found.receivers.map(row));
  active.replaceChildren(...found.active.map((one) => element("li", { textContent: `${one.pool_id}: ${one.detail} Since ${time(Date.parse(one.since) * 1000)}.` })));
  scroller.hidden = csv.hidden = deliveries.length === 0;
  list.replaceChildren(...deliveries.map((one) => element("tr", {}, ...[
    time(Date.parse(one.sent_at) * 1000), one.state === "test" ? "test" : `${one.alert} ${one.state}`, one.pool_id || "–", one.url, outcome(one),
  ].map((text) => element("td", { textContent: text })))));
  for (const table of [receiverTable, scroller]) stack(table.firstChild);
}

export async function open(pools) {
  outcomeLine.textContent = "";
  secret.type = "password";
  reveal.textContent = "Show";
  pool.control.replaceChildren(new Option("all pools", ""), ...pools.filter((one) => !one.archived).map((one) => new Option(one.pool_id, one.pool_id)));
  if (await form.open("Alerts", "A message is sent when something is wrong with a pool, and another one when that has ended.")) await renew().catch(form.tell);
}

export function listen() {
  reveal.addEventListener("click", () => {
    const isHidden = secret.type === "password";
    secret.type = isHidden ? "text" : "password";
    reveal.textContent = isHidden ? "Hide" : "Show";
  });
  csv.addEventListener("click", () => download("alerts", [
    ["sent_at", "alert", "state", "pool", "sent_to", "delivered", "attempts", "detail"],
    ...deliveries.map((one) => [one.sent_at, one.alert, one.state, one.pool_id, one.url, one.delivered, one.attempts, one.detail]),
  ]));
}
