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

// A number as people type it; what is no number is sent as it is, and the service says so.
export function number(text) {
  const typed = text.trim().replace(",", ".");
  if (typed === "") return undefined;
  return Number.isFinite(Number(typed)) ? Number(typed) : text;
}

// The rules of the service in the words of a form.
function plain(detail, rule) {
  if (/missing required field/.test(detail)) return "Please fill this in.";
  if (rule && /^(Expected|Invalid) /.test(detail)) return rule;
  const [, kind, compared, limit] = /^Expected `(\w+)`(?: (>=|<=|>|<) ([\d.e+]+))?/.exec(detail) ?? [];
  if (!kind) return detail;
  const what = kind === "int" ? "a whole number" : "a number";
  if (kind !== "int" && kind !== "float") return "This does not have the form that is described above.";
  const words = { ">=": "at least", "<=": "at most", ">": "more than", "<": "less than" };
  return compared ? `This must be ${what}, ${words[compared]} ${limit}.` : `This must be ${what}.`;
}

// `pointer` is where the field stands in the body of the call.
export function makeField({ name, pointer = `/${name}`, label, hint = "", kind = "text", rule = "", options = [], ...others }) {
  const id = `field-${name}-${Math.random().toString(36).slice(2, 8)}`;
  const tag = { area: "textarea", choice: "select" }[kind] ?? "input";
  const control = element(tag, { id, name, autocomplete: "off", spellcheck: false, ...(tag === "input" ? { type: kind } : {}), ...others });
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

// Say beside each field what is wrong with it; return whether there was such a field.
export function tellFields(fields, error) {
  let isTold = false;
  for (const { pointer, detail } of error.errors ?? []) {
    const field = fields.find((one) => pointer === one.pointer || pointer.startsWith(`${one.pointer}/`));
    if (!field || field.hidden) continue;
    field.tell(plain(detail, field.rule));
    if (!isTold) field.control.focus();
    isTold = true;
  }
  return isTold;
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
    if (!tellFields(fields, error)) wrong.textContent = await refusal(error);
  }

  async function open(heading, said = "") {
    if (!(await askToChange())) return false;
    title.textContent = heading;
    words.textContent = said;
    words.hidden = !said;
    clear();
    dialog.showModal();
    return true;
  }

  return { dialog, form, body, go, no, open, clear, tell };
}
