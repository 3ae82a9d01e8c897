// Numbers and times in words: every figure of the page is made here.

const language = navigator.language;
const made = new Map();

// Making a format takes far longer than using it.
function numbers(options) {
  const name = JSON.stringify(options);
  if (!made.has(name)) made.set(name, new Intl.NumberFormat(language, options));
  return made.get(name);
}

const whole = numbers({ maximumFractionDigits: 0 });
const shares = numbers({ style: "percent", maximumFractionDigits: 1 });
const signedShares = numbers({ style: "percent", maximumFractionDigits: 1, signDisplay: "exceptZero" });

export const count = (n) => whole.format(n);
export const share = (x) => shares.format(x);
export const signedShare = (x) => signedShares.format(x);
export const rate = (x) => numbers({ minimumFractionDigits: 2, maximumFractionDigits: 3 }).format(x);

// Small sums keep three digits that say something.
export function money(micros, currency) {
  const amount = micros / 1e6;
  const digits = amount === 0 || Math.abs(amount) >= 1 ? 2 : Math.min(6, 2 - Math.floor(Math.log10(Math.abs(amount))));
  return numbers({ style: "currency", currency, minimumFractionDigits: 2, maximumFractionDigits: digits }).format(amount);
}

// Of a thousand views nobody counts parts of a cent.
export const perThousand = (micros, currency) => numbers({ style: "currency", currency }).format(micros / 1000);

export function time(us) {
  return new Date(us / 1000).toLocaleString(language, { dateStyle: "medium", timeStyle: "short" });
}

export const clock = (us) => new Date(us / 1000).toLocaleTimeString(language);

export function duration(seconds) {
  for (const [size, name] of [[86400, "day"], [3600, "hour"], [60, "minute"]]) {
    if (seconds >= size) {
      const n = Math.round((10 * seconds) / size) / 10;
      return `${numbers({ maximumFractionDigits: 1 }).format(n)} ${name}${n === 1 ? "" : "s"}`;
    }
  }
  const n = Math.round(10 * seconds) / 10;
  return `${numbers({ maximumFractionDigits: 1 }).format(n)} second${n === 1 ? "" : "s"}`;
}

export const group = (pool, name) => pool.groups.find((one) => one.group === name);

export const lately = (pool) => duration((pool.now_us - pool.starts_us[0]) / 1e6);

export function earning(pool) {
  const { lift, currency } = pool;
  const [policy, holdout] = ["policy", "holdout"].map((name) => group(pool, name));
  const settled = policy?.revenue_views ? policy.revenue_per_view_micros : null;
  if (!settled) return "Nothing has settled yet: the first sales count when their window closes.";
  const earned = `A thousand views earn ${perThousand(settled.mean, currency)}`;
  if (!pool.holdout && !holdout) {
    return `${earned}. There is nothing to compare with: show random pages to a share of the views, 5 % say (Settings).`;
  }
  if (!lift) return `${earned}. Too early to compare with random pages: too few of those have earned yet.`;
  const compared = `${earned}, ${signedShare(lift.mean)} against random pages`;
  const range = `between ${signedShare(lift.low)} and ${signedShare(lift.high)}`;
  if (lift.low > 0) return `Yes. ${compared}; surely more, ${range}.`;
  if (lift.high < 0) return `No. ${compared}; random pages earn more, ${range}.`;
  return `Too early to say. ${compared}, ${range}.`;
}

const things = (n, name) => `${count(n)} ${name}${n === 1 ? "" : "s"}`;

const range = (one) => `${rate(one.mean)} (${rate(one.low)} to ${rate(one.high)})`;

// The badge: what was delivered against what was promised.
export function floorBadge(pool) {
  const found = pool.clicks_delivered;
  return found ? `${pool.floor.status}: ${rate(found.mean)} of ${rate(pool.floor.clicks)}` : pool.floor.status;
}

// What random pages bring, beside the chosen ones.
export function randomClicks(pool) {
  const [chosen, random] = ["policy", "holdout"].map((name) => group(pool, name));
  if (!random?.click_views) return "";
  const beside = chosen?.click_views ? `Chosen pages brought ${range(chosen.clicks_per_view)} clicks per view in all, ` : "";
  return `${beside}${beside ? "random" : "Random"} pages ${beside ? "" : "brought "}${range(random.clicks_per_view)}. `;
}

export function keeping(pool) {
  const { status, clicks, expected, attainable } = pool.floor;
  const floor = `the floor is ${rate(clicks)}`;
  if (pool.n_links === 0) return ["The pool has no links.", "Add links, then pages can be filled."];
  if (clicks === 0) return ["There is no floor: revenue alone decides.", "Set a floor to promise clicks."];
  if (status === "infeasible") {
    return [
      `No page of these links reaches the floor: the most is about ${rate(attainable)} clicks, ${floor}.`,
      `Lower the floor to ${rate(Math.floor(attainable * 100) / 100)} or less, add links that people click more, ` +
        "or show more links on a page. Until then pages bring as many clicks as they can.",
    ];
  }
  const found = pool.clicks_delivered;
  const brought = found
    ? `Pages delivered ${range(found)} clicks per view since the floor was set (${things(pool.delivered_views, "view")}); ${floor}.`
    : `A page is thought to bring ${rate(expected)} clicks; ${floor}. No view has settled since it was set.`;
  if (status === "met") return [brought, "Nothing to do."];
  if (found && found.high < clicks) {
    return [brought, "Below the floor so far, which is being made up for. Should it stay below, lower the floor or add links that people click more."];
  }
  if (found) return [brought, "Probably kept, but not certain yet. Nothing to do: every settled view narrows the interval."];
  return [brought, "Nothing to do but wait: each settled view makes the estimate surer."];
}

export function health(pool) {
  if (pool.spans.length === 0) return "No page was shown lately.";
  const odd = pool.refused + pool.late_clicks + pool.late_sales;
  const counted = pool.spans.reduce((sum, span) => sum + span.clicks + span.sales, 0);
  if (counted + odd === 0) return "Pages are shown; no click and no sale has come yet.";
  if (odd === 0) return "All clicks and sales of the latest pages count.";
  return `${share(counted / (counted + odd))} of the clicks and sales of the latest pages count; see below for the others.`;
}

function delays(found, window_s, what) {
  if (found.n_events === 0) return `no ${what} lately`;
  const said = `half within ${duration(found.median_s)}, 99 of 100 within ${duration(found.late_s)}`;
  if (found.suggested_window_s === null) return `${said}; too few to suggest a window (now ${duration(window_s)})`;
  const fits = found.suggested_window_s === window_s;
  return `${said}; a window of ${duration(found.suggested_window_s)} would catch those (now ${duration(window_s)}${fits ? ", which fits" : ""})`;
}

export function healthFacts(pool) {
  const start = time(pool.started_us);
  return [
    ["Clicks come", delays(pool.click_delays, pool.click_window_s, "clicks")],
    ["Sales come", delays(pool.sale_delays, pool.revenue_window_s, "sales")],
    ["Late", `${things(pool.late_clicks, "click")} and ${things(pool.late_sales, "sale")} came after their window: reported, not learned`],
    ["Invalid", `${things(pool.invalid_clicks, "click")} by crawlers and prefetching, not counted`],
    ["Refused", `${things(pool.refused, "event")} broke a rule; the report of the page says which. ` +
      `Of all pools since ${start}: ${count(pool.refused_since_start)}, unreadable ones too`],
    ["Duplicates", `${things(pool.duplicates, "event")} came again since ${start}: counted once`],
    ["Quarantined", `${things(pool.n_quarantined, "event")} of all pools ${pool.n_quarantined === 1 ? "waits" : "wait"} for a page that nobody knows yet`],
  ];
}

const IGNORED = {
  crawler: "programs that name themselves (crawlers, headless browsers)",
  prefetch: "browsers that load ahead",
  head: "programs that only look whether the link works",
};

// What keeps scripts on pages from working, and what to do about it.
export function pageProblems(pool) {
  const start = time(pool.started_us);
  return pool.page_problems.map(({ kind, name, n }) => {
    const times = n === 1 ? "once" : `${count(n)} times`;
    if (kind === "refused-host") {
      return ["Page not allowed", `A page on ${name} asked for links ${times} since ${start} and got none. ` +
        "If it is yours, add its host, with its port, to the allowed hosts of this pool."];
    }
    if (kind === "unknown-pool") {
      return ["No such pool", `A page asked ${times} since ${start} for the pool “${name}”, which does not exist. ` +
        "Correct data-slotwise-pool on the page, or make the pool."];
    }
    if (kind === "refused-visitor") {
      return ["Visitor refused", `A page asked for links ${times} since ${start} and got none: ${name}. ` +
        "Declare the feature in this pool, or correct data-slotwise-visitor on the page."];
    }
    return ["Ignored visitors", `Views and clicks of ${IGNORED[name] ?? name} were ignored ${times} since ${start}. ` +
      "A test that drives a browser needs the user agent of an ordinary one."];
  });
}

export const isKnown = (pool) => pool.groups.some((group) => group.click_views > 0);

// For whom the curve is drawn, where pages are not the same for all.
function costingOfWhat(pool) {
  const kinds = pool.frontier_kinds > 1 ? ` The curve below knows the ${count(pool.frontier_kinds)} kinds of visitors that came of late.` : "";
  if (pool.frontier_ignores.length === 0) return kinds;
  return `${kinds} ${kinds ? "It" : "The curve below"} takes all ${pool.frontier_ignores.join(" and ")} as alike; pages made for each earn more at the same floor.`;
}

export function costing(pool) {
  const price = pool.shadow_price_micros;
  if (pool.frontier.length === 0) return "The pool has no links, so there is nothing to choose from.";
  if (!isKnown(pool)) return "Not known yet: no view has settled.";
  if (price === null) return "No page reaches the floor, so its cost is unknown: pages show the most clicked links.";
  const alike = costingOfWhat(pool);
  if (price === 0) return `Nothing at present: the pages that earn most keep the floor by themselves.${alike}`;
  return `One more click per 100 views costs about ${money(price, pool.currency)} on those 100 views.${alike}`;
}

// The best revenue of a page that keeps a floor: the frontier is straight between its corners.
export function revenueAt(frontier, floor) {
  const after = frontier.findIndex((point) => point.click_floor >= floor);
  if (after === 0) return frontier[0].revenue_micros;
  if (after < 0) return null;
  const [left, right] = [frontier[after - 1], frontier[after]];
  const part = (floor - left.click_floor) / (right.click_floor - left.click_floor);
  return left.revenue_micros + part * (right.revenue_micros - left.revenue_micros);
}

// What the log says of another floor: revenue and clicks with intervals, or why it cannot tell.
export function whatIf(answer) {
  if (answer.cannot_tell) return `What if? ${answer.cannot_tell}`;
  const money = (amount) => perThousand(amount * 1e6, answer.currency);
  const between = (one, shown) => `${shown(one.value)} (${shown(one.low)} to ${shown(one.high)})`;
  const kept = { true: "It would have kept the floor.", false: "It would have missed the floor." };
  return `What if? By its log, a floor of ${rate(answer.click_floor)} would have brought ${between(answer.revenue, money)} per 1,000 views ` +
    `and ${between(answer.clicks, rate)} clicks per view. ${kept[answer.floor_is_kept] ?? "Whether it would have kept the floor cannot be told from this log: the floor lies within the range."}`;
}

export function otherFloor(pool, floor) {
  const gives = revenueAt(pool.frontier, floor);
  if (gives === null) return `No page of these links brings ${rate(floor)} clicks.`;
  const present = revenueAt(pool.frontier, pool.click_floor);
  const words = `A floor of ${rate(floor)} clicks per view would give about ${perThousand(gives, pool.currency)} per 1,000 views`;
  if (present === null || Math.abs(gives - present) < 1) return `${words}, by present estimates.`;
  const change = gives - present;
  const relative = present > 0 ? ` (${signedShare(change / present)})` : "";
  const direction = change > 0 ? "more" : "less";
  return `${words}: ${perThousand(Math.abs(change), pool.currency)} ${direction} than the present floor${relative}.`;
}
