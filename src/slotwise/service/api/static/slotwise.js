// Fills <ul data-slotwise-pool="home" data-slotwise-key="sw_pk_..."> with the links that slotwise chooses.
// Whatever goes wrong, the page keeps the links it came with.
(() => {
  "use strict";
  const base = new URL(document.currentScript.src).origin;
  const WAIT_MS = 150;
  const SEEN_MS = 1000;

  // A view counts once, when half of the list (or half of the window) was in sight for a second,
  // or when somebody clicked before that.
  function watch(list, viewUrl) {
    let timer, counted;
    const count = () => {
      if (counted) return;
      counted = true;
      watcher.disconnect();
      clearTimeout(timer);
      fetch(viewUrl, { method: "POST", mode: "no-cors", credentials: "omit", keepalive: true }).catch(() => {});
    };
    const watcher = new IntersectionObserver(
      ([entry]) => {
        clearTimeout(timer);
        const inSight = entry.intersectionRatio >= 0.5 || entry.intersectionRect.height >= innerHeight / 2;
        if (inSight && !document.hidden) timer = setTimeout(count, SEEN_MS);
      },
      { threshold: [0, 0.1, 0.2, 0.3, 0.4, 0.5] },
    );
    const again = () => {
      clearTimeout(timer);
      if (!counted) {
        watcher.unobserve(list);
        watcher.observe(list);
      }
    };
    watcher.observe(list);
    document.addEventListener("visibilitychange", again);
    for (const kind of ["click", "auxclick"]) {
      list.addEventListener(kind, (event) => event.target.closest("a") && count(), true);
    }
  }

  function put(list, page) {
    const model = list.querySelector("li");
    const items = page.links.map((link) => {
      if (!/^https?:\/\//.test(link.click_url)) throw new TypeError("not a web address");
      const item = model ? model.cloneNode(true) : document.createElement("li");
      const anchor = item.querySelector("a") || item.appendChild(document.createElement("a"));
      anchor.href = link.click_url;
      anchor.textContent = link.title || link.link_id;
      anchor.dataset.slotwiseLink = link.link_id;
      return item;
    });
    if (!items.length) return;
    list.replaceChildren(...items);
    list.dataset.slotwiseDecision = page.decision_id;
    watch(list, page.view_url);
    list.dispatchEvent(new CustomEvent("slotwise", { bubbles: true, detail: page }));
  }

  async function fill(list) {
    const { slotwisePool: pool, slotwiseSlots: slots, slotwiseKey: key } = list.dataset;
    const stop = new AbortController();
    const timer = setTimeout(() => stop.abort(), WAIT_MS);
    list.style.visibility = "hidden";
    try {
      const answer = await fetch(`${base}/v1/pools/${encodeURIComponent(pool)}/page${slots ? `?slots=${+slots}` : ""}`, {
        method: "POST",
        headers: { Authorization: `Bearer ${key}` },
        credentials: "omit",
        signal: stop.signal,
      });
      if (answer.ok) put(list, await answer.json());
    } catch {
      // The page's own links stay.
    } finally {
      clearTimeout(timer);
      list.style.visibility = "";
    }
  }

  const start = () => document.querySelectorAll("ul[data-slotwise-pool]").forEach(fill);
  if (document.readyState === "loading") document.addEventListener("DOMContentLoaded", start);
  else start();
})();
