// Changes of links: what is about to happen is said first.

import { call } from "./service.js";
import { askToChange, refusal } from "./session.js";

const at = (selector) => document.querySelector(selector);
const dialog = at("#ask");
let wish = null;
let afterwards = () => {};

export async function ask(action, link, pool) {
  const name = link.title || link.link_id;
  const said = {
    retire: [`Retire ${name}?`, "It is shown no more; its clicks and sales are still counted.", "Retire"],
    "bring back": [`Bring ${name} back?`, "It may be shown again and keeps its statistics.", "Bring back"],
    pin: [`Pin ${name}?`, "It stands at this position of every page; the rest of the page still keeps the floor.", "Pin"],
    unpin: [`Unpin ${name}?`, "It has to earn its place again.", "Unpin"],
  }[action];
  if (!(await askToChange())) return;
  wish = { action, link, pool };
  at("#ask-title").textContent = said[0];
  at("#ask-words").textContent = said[1];
  at("#ask-yes").textContent = said[2];
  at("#ask-answer").textContent = "";
  at("#ask-position-label").hidden = action !== "pin";
  at("#ask-position").max = pool.slots;
  dialog.showModal();
}

async function fulfil({ action, link, pool }) {
  const base = `/v1/pools/${encodeURIComponent(pool.pool_id)}`;
  const path = `${base}/links/${encodeURIComponent(link.link_id)}`;
  if (action === "retire") return call(path, { method: "DELETE" });
  if (action === "bring back") return call(path, { method: "PATCH", body: { retired: false } });
  const others = pool.pins.filter((one) => one.link_id !== link.link_id);
  const position = Number(at("#ask-position").value);
  const pins = action === "pin" ? [...others.filter((one) => one.position !== position), { link_id: link.link_id, position }] : others;
  return call(base, { method: "PATCH", body: { pins } });
}

async function submit(event) {
  event.preventDefault();
  try {
    await fulfil(wish);
  } catch (error) {
    at("#ask-answer").textContent = await refusal(error);
    return;
  }
  dialog.close();
  afterwards();
}

export function listen(changed) {
  afterwards = changed;
  dialog.querySelector("form").addEventListener("submit", submit);
  at("#ask-no").addEventListener("click", () => dialog.close());
}
