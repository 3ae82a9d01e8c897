// The list of changes and notes; those on the charts have the same numbers.

import { markedChanges } from "./charts.js";
import { confirm } from "./confirm.js";
import { download, moment } from "./download.js";
import { element, makeDialog, makeField } from "./form.js";
import { call } from "./service.js";
import { time } from "./words.js";

const at = (selector) => document.querySelector(selector);
const text = makeField({ name: "text", kind: "area", rows: 2, label: "What happened", hint: "For example: the spring campaign began.", maxLength: 300 });
const when = makeField({ name: "at", kind: "datetime-local", label: "When", hint: "Empty: now." });
const form = makeDialog({ id: "note-form", yes: "Save the note", fields: [text, when], submit });
const notes = () => `/v1/pools/${encodeURIComponent(pool.pool_id)}/notes`;
let pool = null;
let afterwards = () => {};

async function submit() {
  const body = { text: text.control.value };
  if (when.control.value) body.at = new Date(when.control.value).toISOString();
  await call(notes(), { method: "POST", body });
  text.control.value = when.control.value = "";
  afterwards();
}

function line(change, mark) {
  const item = element("li");
  if (mark) item.append(element("span", { className: "mark", textContent: mark }), " ");
  item.append(change.what);
  const below = element("small", { textContent: `${time(change.changed_us)}, by ${change.changed_by || "the service"}` });
  if (change.note_id) {
    const remove = element("button", { type: "button", className: "small", textContent: "Remove", "aria-label": `Remove the note: ${change.what}` });
    remove.addEventListener("click", () => confirm({
      title: "Remove this note?", words: change.what, yes: "Remove",
      act: () => call(`${notes()}/${encodeURIComponent(change.note_id)}`, { method: "DELETE" }),
    }));
    below.append(" ", remove);
  }
  item.append(below);
  return item;
}

let shown = "";

export function show(overview) {
  pool = overview;
  const now = JSON.stringify([pool.pool_id, pool.changes]);
  if (now === shown) return; // whoever has the focus in it keeps it
  shown = now;
  const marks = new Map(markedChanges(pool).map((change, i) => [change, String(i + 1)]));
  at("#change-list").replaceChildren(...pool.changes.map((change) => line(change, marks.get(change))));
}

export function listen(changed) {
  afterwards = changed;
  at("#add-note").addEventListener("click", () => form.open("A note", "It is shown in the list of changes and on the charts, with the name of your key."));
  at("#changes .csv").addEventListener("click", () => download(`${pool.pool_id}-changes`, [
    ["time", "by", "what", "note"], ...pool.changes.map((one) => [moment(one.changed_us), one.changed_by, one.what, one.note_id !== ""]),
  ]));
}
