// Links by a table that was pasted: every line is checked by the service and shown before anything is stored.

import { element, makeDialog, makeField, stack } from "./form.js";
import { call, poolAddress } from "./service.js";
import { count } from "./words.js";

const BATCH = 500;
const MAX_SHOWN = 200;
const pasted = makeField({
  name: "csv", kind: "area", rows: 8, label: "Links, one on each line",
  hint: "Paste from a spreadsheet or a CSV file. The first line names the columns: link_id, url, and title, group, starts_at and ends_at if you like. Other columns are texts that a page may show.",
  placeholder: "link_id,url,title\nspring,https://shop.example/spring,Spring sale",
});
const summary = element("p", { className: "words", role: "status" });
const lines = element("tbody");
const head = element("thead", {}, element("tr", {}, ...["Line", "Link", "Address", "Title", "What happens"].map((text) => element("th", { scope: "col", textContent: text }))));
const scroller = element("div", { className: "scroller", tabIndex: 0, role: "region", "aria-label": "The lines as they were read" }, element("table", { className: "stacked" }, head, lines));
const form = makeDialog({ id: "link-form", yes: "Check", fields: [pasted], submit, wide: true });
form.body.append(summary, scroller);
let pool_id = "";
let checked = null;
let afterwards = () => {};

const SAID = { new: "is added", changed: "is changed", same: "stays as it is", back: "comes back", wrong: "" };

function forget() {
  checked = null;
  form.go.textContent = "Check";
  summary.textContent = "";
  scroller.hidden = true;
}

function show(answer) {
  const shown = [...answer.lines].sort((one, other) => (other.what === "wrong") - (one.what === "wrong") || one.line - other.line).slice(0, MAX_SHOWN);
  lines.replaceChildren(...shown.map((one) => {
    const says = element("td", { textContent: one.wrong || SAID[one.what], className: one.what === "wrong" ? "wrong" : "" });
    const texts = [one.line, one.link_id, one.url, one.title].map((text) => element("td", { textContent: text }));
    return element("tr", {}, ...texts, says);
  }));
  stack(scroller.firstChild);
  scroller.hidden = shown.length === 0;
  const n = (what) => answer.lines.filter((one) => one.what === what).length;
  const parts = [["new", "new"], ["changed", "changed"], ["back", "coming back"], ["same", "as they are"], ["wrong", "wrong"]].filter(([what]) => n(what)).map(([what, said]) => `${count(n(what))} ${said}`);
  const more = answer.lines.length > shown.length ? ` The first ${MAX_SHOWN} are shown, wrong ones first.` : "";
  summary.textContent = `${count(answer.lines.length)} lines: ${parts.join(", ")}.${more}`;
  if (n("wrong")) summary.textContent += " Correct the wrong lines above, then check again; nothing is stored before.";
}

async function submit() {
  if (checked === null) {
    const answer = await call(`${poolAddress(pool_id)}/links:check`, { method: "POST", body: { csv: pasted.control.value } });
    show(answer);
    const links = answer.lines.filter((one) => one.what !== "same").map(({ link_id, url, title, metadata, group, starts_at, ends_at }) => ({ link_id, url, title, metadata, group, starts_at, ends_at }));
    if (answer.lines.some((one) => one.what === "wrong")) {
      pasted.control.focus();
    } else if (links.length === 0) {
      summary.textContent += " There is nothing to change.";
    } else {
      checked = links;
      form.go.textContent = `Save ${count(links.length)} ${links.length === 1 ? "link" : "links"}`;
    }
    return false;
  }
  const base = `/v1/pools/${encodeURIComponent(pool_id)}`;
  while (checked.length > 0) {
    await call(`${base}/links:batch`, { method: "POST", body: { links: checked.slice(0, BATCH) } });
    checked = checked.slice(BATCH);
  }
  pasted.control.value = "";
  forget();
  afterwards();
  return true;
}

export function open(pool) {
  if (pool_id !== pool.pool_id) forget();
  pool_id = pool.pool_id;
  return form.open(`Links of ${pool_id}`);
}

// Save a table of links at once; where a line is wrong, show it in the form instead.
export async function add(pool, csv) {
  [pool_id, pasted.control.value] = [pool.pool_id, csv];
  forget();
  try {
    await submit();
    if (checked !== null) await submit();
    else await form.open(`Links of ${pool_id}`);
  } catch (error) {
    if (await form.open(`Links of ${pool_id}`)) await form.tell(error);
  }
}

export function listen(saved) {
  afterwards = saved;
  pasted.control.addEventListener("input", forget);
  forget();
}
