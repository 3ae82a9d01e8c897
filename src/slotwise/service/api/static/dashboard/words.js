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

// Small amounts have three significant digits.
export function money(micros, currency) {
  const amount = micros / 1e6;
  const size = Math.abs(amount);
  const digits = size >= 1000 ? 0 : size === 0 || size >= 1 ? 2 : Math.min(6, 2 - Math.floor(Math.log10(size)));
  return numbers({ style: "currency", currency, minimumFractionDigits: Math.min(2, digits), maximumFractionDigits: digits }).format(amount);
}

// An estimate of a thousand views, without an interval: no cents above a hundred.
export function perThousand(micros, currency) {
  const digits = Math.abs(micros) >= 1e5 ? 0 : 2;
  return numbers({ style: "currency", currency, minimumFractionDigits: digits, maximumFractionDigits: digits }).format(micros / 1000);
}

// The step to which an estimate is rounded: two digits of the width of its interval.
const stepOf = ({ low, high }) => (high > low ? 10 ** (Math.floor(Math.log10(high - low)) - 1) : 0);
const places = (step, most) => (step > 0 ? Math.min(most, Math.max(0, -Math.round(Math.log10(step)))) : most);
const rounded = (x, step) => (step > 0 ? Math.round(x / step) * step : x);

// Revenue of a thousand views with its interval, both as precise as the interval is narrow: €13.9k, 13.2k to 14.7k.
export function revenueRange(one, currency) {
  const scaled = { mean: one.mean / 1000, low: one.low / 1000, high: one.high / 1000 };
  const step = stepOf(scaled);
  const [size, suffix] = step >= 1e5 ? [1e6, "M"] : step >= 100 && scaled.high >= 1e4 ? [1e3, "k"] : [1, ""];
  const digits = places(step / size, 6);
  const precision = size === 1 && digits > 0 ? Math.max(2, digits) : digits;
  const written = (x, style) => {
    const near = rounded(x, step) / size;
    const parts = numbers({ ...style, minimumFractionDigits: precision, maximumFractionDigits: precision }).formatToParts(near);
    const last = parts.findLastIndex((part) => /integer|fraction/.test(part.type));
    return parts.map((part, i) => (i === last && near !== 0 ? part.value + suffix : part.value)).join("");
  };
  return [written(scaled.mean, { style: "currency", currency }), `${written(scaled.low, {})} to ${written(scaled.high, {})}`];
}

// Clicks per view with their interval.
export function rateRange(one) {
  const step = stepOf(one);
  const digits = Math.max(2, places(step, 4));
  const written = (x) => numbers({ minimumFractionDigits: digits, maximumFractionDigits: digits }).format(rounded(x, step));
  return [written(one.mean), `${written(one.low)} to ${written(one.high)}`];
}

// A lift with its interval, both as precise as the interval is narrow: +220%, +80% to +450%.
// An upper end beyond this is not known yet.
const UNKNOWN_LIFT = 100;

export function liftRange(one) {
  if (one.high > UNKNOWN_LIFT) {
    const [mean, least] = liftRange({ ...one, high: one.mean + (one.mean - one.low) });
    return [mean, `${least.split(" to ")[0]} or more`];
  }
  const step = Math.max(0.001, stepOf(one));
  const digits = places(step * 100, 1);
  const written = (x) => numbers({ style: "percent", maximumFractionDigits: digits, signDisplay: "exceptZero" }).format(rounded(x, step));
  return [written(one.mean), `${written(one.low)} to ${written(one.high)}`];
}

// Before its interval excludes 0 a lift says nothing.
export const isCertain = (lift) => Boolean(lift) && (lift.low > 0 || lift.high < 0);

export function time(us) {
  return new Date(us / 1000).toLocaleString(language, { dateStyle: "medium", timeStyle: "short", hourCycle: "h23" });
}

export const clock = (us) => new Date(us / 1000).toLocaleTimeString(language, { hourCycle: "h23" });

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

export const GROUP_NAMES = { policy: "chosen", own: "own", holdout: "random" };

export const group = (pool, name) => pool.groups.find((one) => one.group === name);

export const lately = (pool) => duration((pool.now_us - pool.starts_us[0]) / 1e6);

// When the first figures of a new pool come. Spans tell the time of the first page roughly.
function firstFigures({ spans, span_us, click_window_s, revenue_window_s, now_us }) {
  const window = Math.max(click_window_s, revenue_window_s);
  const settles = `A view settles ${duration(window)} after it was shown`;
  const first = Math.min(...spans.map((span) => span.start_us)) + span_us + window * 1e6;
  const shorten = window > 3600 ? " To try it out, shorten the windows (Settings)." : "";
  if (spans.length === 0 || first < now_us) return `${settles}: the first figures come then.${shorten}`;
  return `${settles}: the first figures come at about ${time(first)}.${shorten}`;
}

export function earning(pool) {
  const { lift, currency } = pool;
  const [policy, holdout] = ["policy", "holdout"].map((name) => group(pool, name));
  const settled = policy?.revenue_views ? policy.revenue_per_view_micros : null;
  if (!settled) return `Nothing has settled yet. ${firstFigures(pool)}`;
  const [mean, between] = revenueRange(settled, currency);
  const earned = `A thousand ${pool.comparison ? "chosen pages" : "views"} earn ${mean} (${between})`;
  if (pool.comparison) return againstOwn(pool, earned);
  if (!pool.holdout && !holdout) {
    return `${earned}. There is nothing to compare with: show random pages to a share of the views, for example 5 % (Settings).`;
  }
  if (!isCertain(lift)) return `Too early to say. ${earned}. Whether that is more than random pages earn is not known yet: it takes ${needed(pool)}, if they are like those so far.`;
  const [by, range] = liftRange(lift);
  if (lift.low > 0) return `Yes. ${earned}: ${by} against random pages, certainly more (${range}).`;
  return `No. ${earned}: ${by} against random pages, which certainly earn more (${range}).`;
}

// The comparison with the page that the team has today.
function againstOwn({ comparison }, earned) {
  const { lift } = comparison;
  if (!lift) return `Too early to say. ${earned}. Your own page has no settled sale yet, so there is nothing to compare with.`;
  const [by, range] = liftRange(lift);
  if (lift.low > 0) return `Yes. ${earned}: ${by} more than your own page (${range}).`;
  if (lift.high < 0) return `No. ${earned}: ${by.replace(/^[-−]/, "")} less than your own page (${range}). Your own page certainly earns more.`;
  return `Too early to say. ${earned}. Against your own page that is ${by} so far (${range}): both more and less are possible.`;
}

// About how long some views take at the pace of the pages shown lately.
function timeFor(views, { spans, now_us, starts_us }) {
  const shown = spans.reduce((sum, span) => sum + span.views, 0);
  const first = Math.min(...spans.map((span) => span.start_us), now_us);
  const seconds = Math.max(now_us - Math.max(first, starts_us[0]), 3.6e9) / 1e6;
  return shown > 0 ? duration(Math.max((views / shown) * seconds, 60)) : "";
}

const WHY = {
  start: "So few that the promise holds even if they earn nothing.",
  evidence: "As many as the evidence so far allows.",
  stopped: "The next pages are own pages, until there is room in the promise again.",
  all: "That is all pages but those kept for comparison: chosen pages certainly keep the promise.",
};

// The promise in sentences: what, how many pages are chosen and why, when that grows, and what was lost or gained.
export function promise(pool) {
  const { comparison: found, currency } = pool;
  const { keep, reason, lift, kept, gained_micros: gained, given_up_micros: givenUp } = found;
  const isBehind = reason === "stopped" && kept !== null && kept < keep; // a promise that was raised
  const verdict = keep === null
    ? "Nothing is promised: chosen pages are only compared with your own page."
    : `Revenue since ${time(Date.parse(found.since) * 1000)} is ${isBehind ? "to be " : ""}at least ${share(keep)} of what your own page alone would have earned, with a certainty of ${share(0.95)}.` +
      (kept === null ? "" : ` By settled views it is ${isBehind ? "only " : ""}${share(kept)} so far.`);
  const isKnown = lift || reason === "evidence" || reason === "all"; // chosen pages may have earned before the own page has
  const worse = found.is_worse ? ` Chosen pages are certainly worse than your own page${keep === null ? "" : ", so few of them are shown"}.` : lift ? "" : found.chosen_views === 0 ? " There is no evidence yet." : " Your own page has no settled sale yet.";
  const grows = keep === null || reason === "all" || found.is_worse ? ""
    : found.views_to_half !== null && found.chosen_share < 0.5 ? ` If it goes on like this, half of the pages are chosen in about ${timeFor(found.views_to_half, pool)}.`
    : found.views_to_all !== null ? ` If it goes on like this, all pages that may be chosen are in about ${timeFor(found.views_to_all, pool)}.`
    : isKnown ? " When it grows cannot be said yet." : " It can grow when sales of chosen pages have settled.";
  const shares = `${share(found.chosen_share)} of the pages are chosen now, ${share(found.own_share)} are your own page. ${keep === null ? "" : WHY[isKnown || reason === "stopped" ? reason : "start"] ?? WHY.start}${worse}${grows}`;
  const amount = (micros) => money(Math.abs(micros), currency);
  const ends = `${gained.low < 0 ? "−" : "+"}${amount(gained.low)} to ${gained.high < 0 ? "−" : "+"}${amount(gained.high)}`;
  const earned = found.chosen_views === 0 ? "No chosen page has settled yet."
    : `On ${things(found.chosen_views, "settled view")} of chosen pages, ${amount(gained.mean)} was ${gained.mean < 0 ? "lost" : "gained"} against your own page (${ends}).` +
      (givenUp > 0 ? ` Own pages gave up about ${amount(givenUp)} so far, if chosen pages earn what they seem to.` : "");
  const unknown = found.missing_links.length > 0 ? `own_page names links that the pool does not have: ${found.missing_links.join(", ")}. They are skipped until they are added. ` : "";
  const missing = found.misses_floor ? `Your own page itself misses the click floor of ${rate(pool.click_floor)}. Chosen pages make up for it at the expense of revenue, so their share may not grow: lower the floor until most pages are chosen.` : "";
  return { verdict, share: shares.trim(), money: earned, note: (unknown + missing).trim() };
}

// How much it takes until a lift is known.
const needed = ({ lift_views_needed: more }) => (more === null ? "about 20 sales on random pages" : `about ${count(Number(more.toPrecision(2)))} more views`);

// How the pool is, in one sentence, and how that looks: met, learning or infeasible.
export function condition(pool) {
  if (pool.archived) return ["It is archived and fills no pages.", "resting"];
  if (pool.trouble) return ["It does not learn at present.", "infeasible"];
  if (pool.n_links === 0) return ["It has no links yet: add some, then pages can be filled.", "learning"];
  if (!pool.has_view) return ["It is ready and waits for its first page view.", "learning"];
  if (pool.floor.status === "infeasible") return [`No page ${pool.rules_below_floor.length > 0 ? "within its rules" : "of its links"} reaches the click floor.`, "infeasible"];
  const [policy, random] = ["policy", "holdout"].map((name) => group(pool, name));
  const own = pool.comparison?.lift;
  const byOwn = isCertain(own) ? liftRange({ ...own, mean: Math.abs(own.mean) })[0].replace("+", "") : "";
  const by = isCertain(pool.lift) ? liftRange({ ...pool.lift, mean: Math.abs(pool.lift.mean) })[0].replace("+", "") : "";
  const earns = !policy?.revenue_views ? "Its first views have not settled yet"
    : byOwn ? `It earns ${byOwn} ${own.low > 0 ? "more" : "less"} than your own page`
    : pool.comparison ? "It is too early to compare it with your own page"
    : by ? (pool.lift.low > 0 ? `It earns ${by} more than random pages` : `It earns ${by} less than random pages`)
    : pool.holdout || random ? `It is too early to compare it with random pages (${needed(pool)})`
    : `It earns ${revenueRange(policy.revenue_per_view_micros, pool.currency)[0]} per 1,000 views`;
  const keeps = pool.click_floor === 0 ? "it has no click floor"
    : pool.floor.status === "met" ? "its click floor is met"
    : pool.clicks_delivered?.high < pool.click_floor ? "it is below its click floor so far" : "whether it keeps its click floor is not known yet";
  const compared = pool.comparison ? own : pool.lift;
  const isGood = pool.floor.status === "met" && isCertain(compared) && compared.low > 0;
  return [`${earns}, and ${keeps}.`, isGood ? "met" : isCertain(compared) && compared.high < 0 ? "infeasible" : "learning"];
}

// The one rule by which floors are judged, here, in segments, in alerts and in the API.
export const FLOOR_RULE = "Met: the 95 % interval of the clicks that were delivered lies above the floor, or contains it and is at most 20 % of the floor wide. " +
  "Learning: not yet. Infeasible: no page of these links within the rules reaches the floor.";

export const things = (n, name) => `${count(n)} ${name}${n === 1 ? "" : "s"}`;

export const range = (one) => rateRange(one).join(" (") + ")";

// The badge: delivered clicks and the floor.
export function floorBadge(pool) {
  const found = pool.clicks_delivered;
  return found ? `${pool.floor.status}: ${rateRange(found)[0]} of ${rate(pool.floor.clicks)}` : pool.floor.status;
}

// Clicks of random pages, next to those of chosen pages.
export function randomClicks(pool) {
  const [chosen, random] = ["policy", "holdout"].map((name) => group(pool, name));
  if (!random?.click_views) return "";
  const beside = chosen?.click_views ? `Chosen pages had ${range(chosen.clicks_per_view)} clicks per view in total, ` : "";
  return `${beside}${beside ? "random" : "Random"} pages ${beside ? "" : "had "}${range(random.clicks_per_view)}. `;
}

const listed = (names) => names.map((name) => `“${name}”`).join(names.length === 2 ? " or " : ", ");

// What can be done where no page reaches the floor; rules that are in the way come first.
function reachFloor(pool, attainable) {
  const names = pool.rules_below_floor;
  const loosen = names.length > 0 ? `Loosen the rule${names.length > 1 ? "s" : ""} ${listed(names)}, lower` : "Lower";
  return `${loosen} the floor to ${rate(Math.floor(attainable * 100) / 100)} or less, add links that people click more, or show more links on a page.`;
}

export function keeping(pool) {
  const { status, clicks, attainable } = pool.floor;
  const within = pool.rules_below_floor.length > 0 ? "within the rules" : "of these links";
  const floor = `the floor is ${rate(clicks)}`;
  if (pool.n_links === 0) return ["The pool has no links.", "Add links, then pages can be filled."];
  if (clicks === 0) return ["There is no floor: revenue alone decides.", "Set a floor to guarantee clicks."];
  if (status === "infeasible") {
    return [
      `No page ${within} reaches the floor: the most is about ${rate(attainable)} clicks, ${floor}.`,
      `${reachFloor(pool, attainable)} Until then pages have as many clicks as possible.`,
    ];
  }
  const found = pool.clicks_delivered;
  const brought = found
    ? `Pages delivered ${range(found)} clicks per view since the floor was set (${things(pool.delivered_views, "view")}); ${floor}.`
    : `No view has settled since the floor was set; ${floor}.`;
  if (isKnown(pool) && pool.shadow_price_micros === null) {
    const sofar = status === "met" ? "Kept so far. " : "";
    return [brought, `${sofar}By present estimates no page ${within} reaches the floor (the most is about ${rate(attainable)} clicks), but that is not certain yet. If it stays so: ${reachFloor(pool, attainable)}`];
  }
  if (status === "met") return [brought, "Nothing to do."];
  if (found && found.high < clicks) {
    return [brought, "Below the floor so far; the policy corrects this. If it stays below, lower the floor or add links that people click more."];
  }
  if (found) return [brought, "Probably kept, but not certain yet. Nothing to do: every settled view narrows the interval."];
  return [brought, "Nothing to do: each settled view improves the estimate."];
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
  if (found.late_s <= window_s && window_s <= found.suggested_window_s) return `${said}; the window of ${duration(window_s)} fits`;
  return `${said}; a window of ${duration(found.suggested_window_s)} would catch those (now ${duration(window_s)})`;
}

// Sales that count less than was reported; empty if there are none.
export function cutSales(pool) {
  const sum = (name) => pool.spans.reduce((total, span) => total + span[name], 0);
  const [cut, all] = [sum("cut_sales"), sum("sales")];
  if (cut === 0) return "";
  return `${count(cut)} of ${things(all, "sale")} ${cut === 1 ? "was" : "were"} above the largest that counts (${money(pool.max_revenue_micros, pool.currency)})`;
}

export function healthFacts(pool) {
  const start = time(pool.started_us);
  const cut = cutSales(pool);
  return [
    ...(cut ? [["Cut", `${cut}. If that is more than one in 100, raise the amount (Settings).`]] : []),
    ["Clicks come", delays(pool.click_delays, pool.click_window_s, "clicks")],
    ["Sales come", delays(pool.sale_delays, pool.revenue_window_s, "sales")],
    ["Late", `${things(pool.late_clicks, "click")} and ${things(pool.late_sales, "sale")} came after their window: reported, not learned`],
    ["Invalid", `${things(pool.invalid_clicks, "click")} by crawlers and prefetching, not counted`],
    ["Refused", `${things(pool.refused, "event")} broke a rule; the report of the page says which. ` +
      `Of all pools since ${start}: ${count(pool.refused_since_start)}, unreadable ones too`],
    ["Duplicates", `${things(pool.duplicates, "event")} came again since ${start}: counted once`],
    ["Quarantined", `${things(pool.n_quarantined, "event")} of all pools ${pool.n_quarantined === 1 ? "waits" : "wait"} for a page or a sale that has not arrived yet`],
  ];
}

export function settingFacts(pool) {
  return [
    ["Links on a page", `${count(pool.slots)} of ${count(pool.n_links)}`],
    ["Click floor", pool.click_floor ? `${rate(pool.click_floor)} clicks per view` : "none"],
    ["Your page today", pool.own_page.join(", ") || "not given"],
    ["Promise", pool.comparison?.keep ? `at least ${share(pool.comparison.keep)} of what your page today earns` : "none"],
    [pool.holdout_shows === "own" ? "Own pages for comparison" : "Random pages", pool.holdout ? share(pool.holdout) : "none"],
    ["Largest sale that counts", money(pool.max_revenue_micros, pool.currency)],
    ["Clicks count for", duration(pool.click_window_s)],
    ["Sales count for", duration(pool.revenue_window_s)],
    ["Hosts", pool.allowed_hosts.join(", ") || "none"],
    ["Policy", pool.policy],
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
    if (kind === "refused-key") {
      return ["Wrong key", `${name ? `A page on ${name}` : "A program"} asked for links ${times} since ${start} with a key that is wrong, revoked or of another pool, and got none. ` +
        "Copy data-slotwise-key from the snippet of this pool (Settings)."];
    }
    if (kind === "unknown-pool") {
      return ["No such pool", `A page asked ${times} since ${start} for the pool “${name}”, which does not exist. ` +
        "Correct data-slotwise-pool on the page, or make the pool."];
    }
    if (kind === "refused-visitor") {
      return ["Visitor refused", `A page asked for links ${times} since ${start} and got none: ${name}. ` +
        "Declare the feature in this pool, or correct data-slotwise-visitor on the page."];
    }
    if (kind === "one-network") {
      return ["One network", `${count(n)} page views and clicks from ${name} were stored but not learned since ${start}: one network reported more than a fifth of the views of this pool, or of the clicks on a link. ` +
        "If it is a proxy, the operator sets trusted_proxies."];
    }
    return ["Ignored visitors", `Views and clicks of ${IGNORED[name] ?? name} were ignored ${times} since ${start}. ` +
      "A test that drives a browser needs the user agent of an ordinary one."];
  });
}

export const isKnown = (pool) => pool.groups.some((group) => group.click_views > 0);

// Where pages are not the same for all, the curve is an average.
const costingOfWhat = ({ frontier_kinds: n }) => (n > 1 ? ` The curve is the average of the ${count(n)} most frequent kinds of visitors.` : "");

export function costing(pool) {
  const price = pool.shadow_price_micros;
  if (pool.frontier.length === 0) return "The pool has no links, so there is nothing to choose from.";
  if (!isKnown(pool)) return "Not known yet: no view has settled.";
  if (price === null) {
    const within = pool.rules_below_floor.length > 0 ? `within the rules (${listed(pool.rules_below_floor)})` : "of these links";
    return `By present estimates no page ${within} reaches the floor, so one more click has no price: pages show the most clicked links.`;
  }
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
  const micros = ({ value, low, high }) => ({ mean: value * 1e6, low: low * 1e6, high: high * 1e6 });
  const kept = { true: "It would have kept the floor.", false: "It would have missed the floor." };
  return `What if? By its log, a floor of ${rate(answer.click_floor)} would have brought ${revenueRange(micros(answer.revenue), answer.currency).join(" (")}) per 1,000 views ` +
    `and ${range({ mean: answer.clicks.value, ...answer.clicks })} clicks per view. ${kept[answer.floor_is_kept] ?? "Whether it would have kept the floor cannot be told from this log: the floor lies within the range."}`;
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
