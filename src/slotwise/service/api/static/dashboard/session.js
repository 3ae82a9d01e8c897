// Who is signed in. The session is in a cookie that no script can read; a key is sent once and never kept.

import { call, sentence } from "./service.js";

const at = (selector) => document.querySelector(selector);
const dialog = at("#sign-in-dialog");
const ADDRESS = "/dashboard/session";
let present = { may: "nothing", key_id: "", label: "", left_s: 0 };
let receivedMs = 0;
let wasUsed = false;
let afterwards = () => {};
let answer = () => {};

export const mayChange = () => present.may === "change";

function take(session) {
  present = session;
  receivedMs = performance.now();
  const isSignedIn = session.key_id !== "";
  const does = session.may === "change" ? "may change" : "may look";
  at("#who .words").textContent = isSignedIn ? `${session.label || session.key_id} (${does})` : "";
  at("#sign-in").hidden = isSignedIn || session.may === "nothing";
  at("#sign-out").hidden = !isSignedIn;
}

async function look() {
  try {
    take(await call(ADDRESS));
  } catch {
    // The figures are asked for as well, and say what is wrong.
  }
}

const leftSeconds = () => present.left_s - (performance.now() - receivedMs) / 1000;

// A tab that nobody uses signs itself out, although it goes on asking for figures.
export async function renewIfUsed() {
  if (!present.key_id) return;
  if (leftSeconds() <= 0) await look();
  else if (wasUsed && leftSeconds() < 0.8 * present.left_s) {
    wasUsed = false;
    await call(ADDRESS, { method: "PUT" }).then(take, look);
  }
}

async function signIn(form) {
  const field = form.elements.key;
  const wrong = form.querySelector(".wrong");
  wrong.textContent = "";
  try {
    take(await call(ADDRESS, { method: "POST", body: { key: field.value.trim() } }));
  } catch (error) {
    wrong.textContent = sentence(error);
    field.focus();
    return false;
  }
  field.value = "";
  return true;
}

// Return whether changes may be made now; whoever may not is asked to sign in first.
export function askToChange() {
  if (mayChange() && leftSeconds() > 0) return Promise.resolve(true);
  dialog.querySelector(".words").textContent = present.key_id
    ? "You are signed in with a key that may look. Changes need an admin key."
    : "Changes need an admin key.";
  return open();
}

function open() {
  dialog.querySelector("form").reset();
  dialog.querySelector(".wrong").textContent = "";
  dialog.showModal();
  return new Promise((resolve) => { answer = resolve; });
}

// What to say of a refused change. Whose session has ended signs in again, above what was typed.
export async function refusal(error) {
  if (error.status !== 401 && error.status !== 403) return sentence(error);
  await look();
  if (mayChange()) return sentence(error);
  askToChange();
  return "You are not signed in any more. Sign in again, then repeat; nothing that you typed is lost.";
}

export function listen(changed) {
  afterwards = changed;
  // Earlier versions of this page, and pages of others on this address, may have kept keys.
  for (const kept of [localStorage, sessionStorage]) {
    for (const name of Array.from(kept, (_, i) => kept.key(i))) if (/sw_[dtrap]k_/.test(kept.getItem(name))) kept.removeItem(name);
  }
  at("#welcome").addEventListener("submit", async (event) => {
    event.preventDefault();
    if (await signIn(event.target)) afterwards();
  });
  dialog.querySelector("form").addEventListener("submit", async (event) => {
    event.preventDefault();
    if (!(await signIn(event.target))) return;
    if (mayChange() || at("#sign-in-dialog .words").textContent === "") dialog.close("in");
    else dialog.querySelector(".wrong").textContent = "This key may look, but not change. Use an admin key.";
    afterwards();
  });
  dialog.querySelector(".no").addEventListener("click", () => dialog.close(""));
  dialog.addEventListener("cancel", () => { dialog.returnValue = ""; });
  dialog.addEventListener("close", () => answer(dialog.returnValue === "in" && mayChange()));
  at("#sign-in").addEventListener("click", () => {
    dialog.querySelector(".words").textContent = "";
    open();
  });
  at("#sign-out").addEventListener("click", async () => {
    try {
      take(await call(ADDRESS, { method: "DELETE" }));
    } catch {
      await look();
    }
    afterwards();
  });
  for (const used of ["pointerdown", "keydown"]) addEventListener(used, () => { wasUsed = true; }, { passive: true });
  look();
}
