// The calculator: rough rates in, days of traffic out. The service simulates and tells how far it is.

import { makeField, number, tellFields } from "./form.js";
import { call, callForLines, sentence } from "./service.js";
import * as session from "./session.js";
import * as words from "./words.js";

const at = (selector) => document.querySelector(`#plan ${selector}`);
const decimal = { inputMode: "decimal" };
const FIELDS = [
  { name: "links", label: "Links to choose from", value: "40", inputMode: "numeric" },
  { name: "slots", label: "Links on a page", value: "5", inputMode: "numeric" },
  { name: "click_rate", label: "Clicks per view of one typical link", hint: "From 0 to 1: 0.03 means that 3 of 100 views of the link bring a click.", value: "0.03", rule: "This must be a number between 0 and 1.", ...decimal },
  { name: "earned", pointer: "/revenue_per_click", label: "Revenue of a typical click", hint: "All sales of a link divided by all its clicks.", value: "5", rule: "This must be more than 0 and less than the largest sale.", ...decimal },
  { name: "largest", pointer: "/largest", label: "The largest sale that counts", hint: "In the same currency.", value: "50", ...decimal },
  { name: "click_floor", label: "Click floor", hint: "The fewest clicks per view that you accept; 0 for none.", value: "0.2", ...decimal },
  { name: "views_per_day", label: "Page views per day", value: "5000", ...decimal },
  { name: "certainty", label: "Wanted certainty", hint: "From 0.5 to 1: the share of the simulated pages for which the answer holds.", value: "0.95", rule: "This must be at least 0.5 and less than 1.", ...decimal },
  { name: "holdout", label: "Share of random pages", hint: "From 0 to 1. The lift is measured against them.", value: "0.05", rule: "This must be a number between 0 and 1.", ...decimal },
  { name: "max_views", label: "Simulate at most so many views", hint: "For each simulated page; more take longer.", value: "20000", inputMode: "numeric" },
];
const fields = FIELDS.map(({ value, ...field }) => makeField(field));
const control = Object.fromEntries(FIELDS.map(({ name }, i) => [name, fields[i].control]));
let running = null;

function bodyOf() {
  const body = Object.fromEntries(FIELDS.map(({ name }) => [name, number(control[name].value)]));
  const { earned, largest, ...others } = body;
  if (typeof largest !== "number" || largest <= 0) {
    const errors = [{ pointer: "/largest", detail: "This must be a number, more than 0." }];
    throw Object.assign(new Error(errors[0].detail), { status: 422, errors });
  }
  return { ...others, revenue_per_click: typeof earned === "number" ? earned / largest : earned };
}

async function simulate() {
  const mine = (running = new AbortController());
  show("Starting. The first time takes some seconds longer.", 0);
  try {
    await callForLines("/v1/plan", { method: "POST", body: bodyOf(), signal: mine.signal }, (line) => {
      if (line.plan) answer(line.plan);
      else if (line.failed) show(sentence({ status: 500, message: line.failed }));
      else if (line.done > 0) show(`Simulating: ${words.share(line.done)} done.`, line.done);
    });
  } catch (error) {
    if (mine.signal.aborted) return show("Stopped.");
    show("Nothing was simulated.");
    if (!tellFields(fields, error)) at("form > .wrong").textContent = sentence(error);
    if (error.status === 401 || error.status === 403) look();
  }
}

function show(verdict, done = null) {
  at(".verdict").textContent = verdict;
  at("progress").hidden = done === null;
  at("progress").value = done ?? 0;
  at(".facts").hidden = true;
  at(".no").hidden = done === null;
  at(".main").disabled = done !== null;
}

const time = (days) => words.duration(86_400 * days);

function waiting({ days, low, high, page_views }, { max_views }) {
  const perDay = number(control.views_per_day.value);
  if (days === null) return `not within ${time(max_views / perDay)} (${words.count(max_views)} views)`;
  return `after ${time(days)} (${high === null ? `${time(low)} or more` : `${time(low)} to ${time(high)}`}), ${words.count(page_views)} views`;
}

function answer(plan) {
  const kept = plan.floor_kept.days, seen = plan.lift_visible.days;
  const floor = number(control.click_floor.value) > 0;
  const parts = [];
  if (floor) parts.push(kept === null ? "The floor is not certainly kept within the simulated views." : `Expect the floor to be kept after ${time(kept)}.`);
  parts.push(seen === null ? "The lift over random pages is not visible within the simulated views." : `Expect to see the lift over random pages after ${time(seen)}.`);
  show(parts.join(" "));
  const facts = [
    ...(floor ? [["Floor kept", waiting(plan.floor_kept, plan)]] : []),
    ["Lift visible", waiting(plan.lift_visible, plan)],
    ["Holds in", `${words.share(plan.certainty)} of ${words.count(plan.cases)} simulated pages; in brackets 95 % intervals`],
    ...(floor && plan.floors_in_reach < 1 ? [["Floor in reach", `of the links of ${words.share(plan.floors_in_reach)} of the pages: a lower floor or better links help`]] : []),
  ];
  at(".facts").replaceChildren(...facts.flatMap(([name, text]) => ["dt", "dd"].map((tag, i) => Object.assign(document.createElement(tag), { textContent: [name, text][i] }))));
  at(".facts").hidden = false;
}

// Whoever may read sees the form; everybody else is asked to sign in.
async function look() {
  const { may } = await call("/dashboard/session").catch(() => ({ may: "nothing" }));
  document.querySelector("#welcome").hidden = may !== "nothing";
  document.querySelector("#plan").hidden = may === "nothing";
}

at(".fields").append(...fields);
const known = new URLSearchParams(location.search);
for (const { name, value } of FIELDS) control[name].value = known.get(name) ?? value;
at("form").addEventListener("submit", (event) => {
  event.preventDefault();
  at("form > .wrong").textContent = "";
  for (const field of fields) field.tell("");
  simulate();
});
at(".no").addEventListener("click", () => running?.abort());
session.listen(look);
look();
