// A dialog that describes a change before it is made.

import { call } from "./service.js";
import { askToChange, refusal } from "./session.js";

const at = (selector) => document.querySelector(selector);
const dialog = at("#ask");
let wish = null;
let afterwards = () => {};

// `act` makes the change; `position` shows a field for one, whose value `act` gets.
export async function confirm({ title, words, yes, act, position = null }) {
  if (!(await askToChange())) return;
  wish = act;
  at("#ask-title").textContent = title;
  at("#ask-words").textContent = words;
  at("#ask-yes").textContent = yes;
  at("#ask-answer").textContent = "";
  at("#ask-position-label").hidden = position === null;
  if (position !== null) at("#ask-position").max = position;
  dialog.showModal();
}

async function submit(event) {
  event.preventDefault();
  try {
    await wish(Number(at("#ask-position").value));
  } catch (error) {
    at("#ask-answer").textContent = await refusal(error);
    return;
  }
  dialog.close();
  afterwards();
}

const changeOf = (pool, body) => call(`/v1/pools/${encodeURIComponent(pool.pool_id)}`, { method: "PATCH", body, revision: pool.revision });

// Ask before an action on a link of the table.
export function askForLink(action, link, pool) {
  const name = link.title || link.link_id;
  const path = `/v1/pools/${encodeURIComponent(pool.pool_id)}/links/${encodeURIComponent(link.link_id)}`;
  const others = pool.pins.filter((one) => one.link_id !== link.link_id);
  const pinned = (position) => [...others.filter((one) => one.position !== position), { link_id: link.link_id, position }];
  return confirm({
    retire: {
      title: `Retire ${name}?`, words: "It is no longer shown; its clicks and sales are still counted.", yes: "Retire",
      act: () => call(path, { method: "DELETE" }),
    },
    "bring back": {
      title: `Bring ${name} back?`, words: "It may be shown again and keeps its statistics.", yes: "Bring back",
      act: () => call(path, { method: "PATCH", body: { retired: false } }),
    },
    pin: {
      title: `Pin ${name}?`, words: "It is at this position on every page; the other links still keep the floor.", yes: "Pin",
      position: pool.slots, act: (position) => changeOf(pool, { pins: pinned(position) }),
    },
    unpin: {
      title: `Unpin ${name}?`, words: "The policy decides again how often it is shown.", yes: "Unpin",
      act: () => changeOf(pool, { pins: others }),
    },
  }[action]);
}

export function askForFloor(pool, floor, gives) {
  const now = `The floor is ${pool.click_floor} clicks per view now.`;
  return confirm({ title: `Set the floor to ${floor}?`, words: `${now} ${gives}`, yes: "Set this floor", act: () => changeOf(pool, { click_floor: floor }) });
}

export function askToArchive(pool) {
  const path = `/v1/pools/${encodeURIComponent(pool.pool_id)}`;
  return confirm({
    title: `Archive ${pool.pool_id}?`, yes: "Archive", act: () => call(path, { method: "DELETE", revision: pool.revision }),
    words: "It no longer fills pages. Its history is kept, and saving its settings restores it.",
  });
}

export function listen(changed) {
  afterwards = changed;
  dialog.querySelector("form").addEventListener("submit", submit);
  at("#ask-no").addEventListener("click", () => dialog.close());
}
