// Alerts: where they are sent, which were sent, and a button that sends a test.

import { download } from "./download.js";
import { copyButton, element, makeDialog, stack } from "./form.js";
import { call } from "./service.js";
import { time } from "./words.js";

const form = makeDialog({ id: "alert-form", yes: "Send a test", submit, wide: true });
const address = element("p", { className: "words" });
const secret = element("input", { id: "alert-secret", readOnly: true, type: "password", "aria-label": "The secret that messages are signed with" });
const reveal = element("button", { type: "button", textContent: "Show" });
const signing = element("p", {}, "Messages are signed with this secret: ", secret, " ", reveal, " ", copyButton(() => secret.value, "the secret"));
const active = element("ul");
const told = element("p", { role: "status", className: "words" });
const list = element("tbody");
const head = element("thead", {}, element("tr", {}, ...["When", "What", "Pool", "Outcome"].map((text) => element("th", { scope: "col", textContent: text }))));
const scroller = element("div", { className: "scroller", tabIndex: 0, role: "region", "aria-label": "Sent alerts" }, element("table", { className: "stacked" }, head, list));
const csv = element("button", { type: "button", className: "csv", textContent: "CSV of the messages" });
form.body.append(address, signing, active, told, scroller, element("p", {}, csv));
form.no.textContent = "Close";
let deliveries = [];

const outcome = (one) => `${one.delivered ? "delivered" : "not delivered"}: ${one.detail}${one.attempts > 1 ? ` (${one.attempts} attempts)` : ""}`;

async function submit() {
  told.textContent = "Sending …";
  try {
    const sent = await call("/v1/alerts:test", { method: "POST" });
    told.textContent = `The test was ${outcome(sent)}.`;
  } catch (error) {
    told.textContent = "";
    throw error;
  }
  await renew();
  return false;
}

async function renew() {
  const found = await call("/v1/alerts");
  deliveries = found.deliveries;
  address.textContent = found.url
    ? `An alert is sent to ${found.url} when a floor is missed, feedback stops or learning fails, and when that is over.`
    : "No alerts are sent when a floor is missed, feedback stops or learning fails. To send them, the operator sets alert_url.";
  secret.value = found.secret;
  signing.hidden = form.go.hidden = !found.url;
  active.replaceChildren(...found.active.map((one) => element("li", { textContent: `${one.pool_id}: ${one.detail} Since ${time(Date.parse(one.since) * 1000)}.` })));
  scroller.hidden = csv.hidden = deliveries.length === 0;
  list.replaceChildren(...deliveries.map((one) => element("tr", {}, ...[
    time(Date.parse(one.sent_at) * 1000), one.state === "test" ? "test" : `${one.alert} ${one.state}`, one.pool_id || "–", outcome(one),
  ].map((text) => element("td", { textContent: text })))));
  stack(scroller.firstChild);
}

export async function open() {
  told.textContent = "";
  secret.type = "password";
  reveal.textContent = "Show";
  if (await form.open("Alerts")) await renew().catch(form.tell);
}

export function listen() {
  reveal.addEventListener("click", () => {
    const isHidden = secret.type === "password";
    secret.type = isHidden ? "text" : "password";
    reveal.textContent = isHidden ? "Hide" : "Show";
  });
  csv.addEventListener("click", () => download("alerts", [
    ["sent_at", "alert", "state", "pool", "delivered", "attempts", "detail"],
    ...deliveries.map((one) => [one.sent_at, one.alert, one.state, one.pool_id, one.delivered, one.attempts, one.detail]),
  ]));
}
