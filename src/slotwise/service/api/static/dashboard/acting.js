// What people can do from the page: the buttons of the service, of the pool and of the slider.

import * as alertForm from "./alert_form.js";
import * as confirm from "./confirm.js";
import * as keyForm from "./key_form.js";
import * as knownForm from "./known_form.js";
import * as linkForm from "./link_form.js";
import * as poolForm from "./pool_form.js";
import { useKey } from "./panels.js";
import { askToChange } from "./session.js";

const at = (selector) => document.querySelector(selector);
let pools = [];
let pool = null;

export function take(names, overview) {
  pools = names;
  pool = overview;
  at("#acts").hidden = false;
  if (pool) at("#to-plan").href = `/plan?${knownToPlan(pool)}`;
}

// What the calculator need not ask for again.
function knownToPlan({ n_links, slots, click_floor, holdout, clicks_delivered }) {
  const known = { links: n_links, slots, click_floor };
  if (holdout > 0) known.holdout = holdout;
  if (clicks_delivered?.mean > 0) known.click_rate = Number((clicks_delivered.mean / slots).toPrecision(2));
  return new URLSearchParams(known);
}

async function afterSigningIn(open) {
  if (await askToChange()) await open();
}

// `choose` shows a pool, `refresh` its new figures.
export function listen(choose, refresh) {
  confirm.listen(refresh);
  keyForm.listen();
  alertForm.listen();
  at("#edit-alerts").addEventListener("click", () => alertForm.open(pools));
  linkForm.listen(refresh);
  knownForm.listen(refresh);
  poolForm.listen((pool_id, isNew, csv) => {
    choose(pool_id);
    if (csv) linkForm.add({ pool_id }, csv);
    else if (isNew) linkForm.open({ pool_id });
  }, () => confirm.askToArchive(pool));
  for (const id of ["new-pool", "first-pool"]) at(`#${id}`).addEventListener("click", () => poolForm.openNew(pools));
  at("#edit-pool").addEventListener("click", () => afterSigningIn(() => poolForm.openSettings(pool)));
  at("#edit-links").addEventListener("click", () => linkForm.open(pool));
  at("#import-counts").addEventListener("click", () => knownForm.open(pool));
  at("#edit-keys").addEventListener("click", () => keyForm.open(pools, pool?.pool_id));
  at("#page-key").addEventListener("click", () => keyForm.open(pools, pool.pool_id, useKey));
  at("#set-floor").addEventListener("click", () => {
    const slider = at("#other-floor");
    const floor = Math.round(Number(slider.value) * 1e6) / 1e6;
    confirm.askForFloor(pool, floor, at("#other-floor-gives").textContent);
  });
}
