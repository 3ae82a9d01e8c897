// Imported counts: a pasted table of known views, clicks and revenue.

import { makeDialog, makeField, number } from "./form.js";
import { call } from "./service.js";

const pasted = makeField({
  name: "csv", kind: "area", rows: 8, label: "Counts, one link on each line",
  hint: "Paste from a spreadsheet or a CSV file. The first line names the columns: link, views, clicks, and revenue if you like. Other columns are features of visitors.",
  placeholder: "link,views,clicks,revenue\nspring,10000,300,1500",
});
const discount = makeField({
  name: "discount", label: "Weight of an imported view", hint: "From 0 to 1. At 0.2 a thousand views count as two hundred, so that new pages soon correct what has changed.",
  inputMode: "decimal", rule: "This must be more than 0, and 1 at most.",
});
const form = makeDialog({ id: "known-form", yes: "Import", fields: [pasted, discount], submit, wide: true });
let pool_id = "";
let afterwards = () => {};

async function submit() {
  const body = { csv: pasted.control.value, discount: number(discount.control.value) };
  await call(`/v1/pools/${encodeURIComponent(pool_id)}/known-counts`, { method: "POST", body });
  pasted.control.value = "";
  afterwards();
}

export function open(pool) {
  pool_id = pool.pool_id;
  discount.control.value ||= "0.2";
  const said = "Links start from these counts instead of from nothing. They replace earlier imports for the same links; a link with 0 views removes its import. The pool then learns again from its stored pages.";
  return form.open(`What you know of ${pool_id}`, said);
}

export function listen(saved) {
  afterwards = saved;
}
