// Forms in dialogs. Each field has its label, a hint and, when the service refuses it, a sentence beside it.
// Whatever is refused, everything that was typed stays.

import { askToChange, refusal } from "./session.js";

export function element(tag, properties = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(properties)) {
    if (name in made) made[name] = value;
    else made.setAttribute(name, value);
  }
  made.append(...children);
  return made;
}

// A time as a field has it: that of the browser, without a zone.
export const local = (iso) => new Date(new Date(iso).getTime() - new Date(iso).getTimezoneOffset() * 60_000).toISOString().slice(0, 16);

// Name the cells of a table, which stand in one column on a narrow window: there the roles of a table are lost.
export function stack(table) {
  const labels = [...table.tHead.rows[0].cells].filter((cell) => !cell.hidden).map((cell) => cell.textContent);
  table.setAttribute("role", "table");
  for (const part of [table.tHead, table.tBodies[0]]) part.setAttribute("role", "rowgroup");
  for (const heading of table.tHead.rows[0].cells) if (heading.tagName === "TH") heading.setAttribute("role", "columnheader");
  for (const row of table.rows) row.setAttribute("role", "row");
  for (const row of table.tBodies[0].rows) {
    for (const [i, cell] of [...row.cells].entries()) {
      cell.setAttribute("role", cell.tagName === "TH" ? "rowheader" : "cell");
      cell.dataset.label = labels[i];
    }
  }
}

// A button that copies what `read` returns, and says so for a moment.
export function copyButton(read, what) {
  const button = element("button", { type: "button", textContent: "Copy", "aria-label": `Copy ${what}` });
  button.addEventListener("click", async () => {
    try {
      await navigator.clipboard.writeText(read());
      button.textContent = "Copied";
    } catch {
      button.textContent = "Select it, then copy"; // without TLS browsers have no clipboard
    }
    setTimeout(() => { button.textContent = "Copy"; }, 2000);
  });
  return button;
}

// A number as people type it; what is no number is sent as it is, and the service says so.
export function number(text) {
  const typed = text.trim().replace(",", ".");
  if (typed === "") return undefined;
  return Number.isFinite(Number(typed)) ? Number(typed) : text;
}

// The rules of the service in the words of a form; a field with a `rule` says that of a wrong type.
const TYPE = / must be (a whole number|a number|text|a list|an object|true or false|null|one of|')/;
function plain(detail, { pointer, rule }) {
  if (/ is missing$/.test(detail)) return "Please fill this in.";
  if (rule && TYPE.test(detail)) return rule;
  if (/ must be (text|a list|an object|true or false|one of)\b/.test(detail)) return "This does not have the form that is described above.";
  const own = (name) => pointer.endsWith(`/${name}`);
  return detail.replace(/^`([\w.]+)[^`]*` must/, (start, name) => (own(name) ? "This must" : start)).replace(/, got (text|a number|a whole number|null)$/, "").replace(/( number, [a-z ]+ [\d.]+), got \S+$/, "$1").replace(/(?<![.?!])$/, ".");
}

// `pointer` is where the field stands in the body of the call.
export function makeField({ name, pointer = `/${name}`, label, hint = "", kind = "text", rule = "", options = [], ...others }) {
  const id = `field-${name}-${Math.random().toString(36).slice(2, 8)}`;
  const tag = { area: "textarea", choice: "select" }[kind] ?? "input";
  const control = element(tag, { id, name, autocomplete: "off", spellcheck: false, ...(tag === "input" ? { type: kind } : {}), ...others });
  if (tag === "textarea") control.style.minHeight = `calc(${others.rows}lh + .8rem)`; // it grows with its text
  for (const [value, text] of options) control.append(new Option(text, value));
  const wrong = element("p", { className: "wrong", id: `${id}-wrong` });
  control.setAttribute("aria-describedby", `${id}-hint ${id}-wrong`);
  const row = element("div", { className: "field" }, element("label", { htmlFor: id, textContent: label }), element("small", { id: `${id}-hint`, textContent: hint }), control, wrong);
  return Object.assign(row, { control, pointer, rule, tell: (text) => {
    wrong.textContent = text;
    control.toggleAttribute("aria-invalid", text !== "");
    if (text) control.setAttribute("aria-invalid", "true");
  } });
}

// Say at each field what is wrong with it; return how many there were.
export function tellFields(fields, error) {
  const told = new Set();
  for (const { pointer, detail } of error.errors ?? []) {
    const field = fields.find((one) => pointer === one.pointer || pointer.startsWith(`${one.pointer}/`));
    if (!field || field.hidden) continue;
    field.tell(plain(detail, field));
    const folded = field.closest("details");
    if (folded) folded.open = true;
    told.add(field);
  }
  fields.find((one) => told.has(one))?.control.focus();
  return told.size;
}

// `submit` makes the change; what it throws is shown. The dialog closes unless it returns false.
export function makeDialog({ id, yes, fields = [], submit, wide = false }) {
  const title = element("h2", { id: `${id}-title` });
  const words = element("p", { className: "words" });
  const wrong = element("p", { className: "wrong", role: "alert" });
  const no = element("button", { type: "button", textContent: "Cancel" });
  const go = element("button", { type: "submit", className: "main", textContent: yes });
  const body = element("div", { className: "fields" }, ...fields);
  const form = element("form", { noValidate: true }, title, words, body, wrong, element("div", { className: "buttons" }, no, go));
  const dialog = element("dialog", { id, className: wide ? "wide-dialog" : "", "aria-labelledby": title.id }, form);
  document.body.append(dialog);
  no.addEventListener("click", () => dialog.close());
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    clear();
    go.disabled = true;
    try {
      if ((await submit()) !== false) dialog.close();
    } catch (error) {
      await tell(error);
    } finally {
      go.disabled = false;
    }
  });

  function clear() {
    wrong.textContent = "";
    for (const field of fields) field.tell("");
  }

  async function tell(error) {
    const n = tellFields(fields, error);
    if (n !== 1) wrong.textContent = n ? `${n} fields need a correction; see above.` : await refusal(error);
  }

  async function open(heading, said = "") {
    if (!(await askToChange())) return false;
    title.textContent = heading;
    words.textContent = said;
    words.hidden = !said;
    clear();
    dialog.showModal();
    fields.find((field) => !field.hidden)?.control.focus(); // not the part that scrolls
    return true;
  }

  return { dialog, form, body, go, no, open, clear, tell };
}
