// Fills <ul data-slotwise-pool="home" data-slotwise-key="sw_pk_..."> with the links that slotwise chooses.
// Links point to their real addresses: whatever happens to the service, a click reaches the shop.
(() => {
  "use strict";
  const base = new URL(document.currentScript.src).origin;
  const WAIT_MS = 150;
  const SEEN_MS = 1000;

  // Sent even when the page is left at once. The answer is not waited for.
  function tell(url) {
    if (navigator.sendBeacon?.(url)) return;
    fetch(url, { method: "POST", mode: "no-cors", credentials: "omit", keepalive: true }).catch(() => {});
  }

  // A view counts once: when half of the list (or half of the window) was in sight for a second,
  // or when somebody clicked before that.
  function watch(list, page) {
    let timer, counted;
    const count = () => {
      if (counted) return;
      counted = true;
      watcher.disconnect();
      clearTimeout(timer);
      tell(page.view_url);
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
    const clicked = (event) => {
      const anchor = event.target.closest("a[data-slotwise-link]");
      if (!anchor || event.button > 1) return; // the right button opens a menu
      count();
      const link = page.links.find((one) => one.link_id === anchor.dataset.slotwiseLink);
      if (link) tell(link.click_url);
    };
    for (const kind of ["click", "auxclick"]) list.addEventListener(kind, clicked, true);
  }

  const isWebAddress = (text) => /^https?:\/\//.test(text);

  // The text of a link by its name in the template: its title, its id or its metadata.
  function textOf(link, name) {
    if (name === "title") return link.title || link.link_id;
    return name === "link_id" ? link.link_id : link.metadata?.[name] || "";
  }

  function makeItem(model, link) {
    if (!isWebAddress(link.url) || !isWebAddress(link.click_url)) throw new TypeError("not a web address");
    const item = model ? model.cloneNode(true) : document.createElement("li");
    const anchor = item.querySelector("a") || item.appendChild(document.createElement("a"));
    const texts = item.querySelectorAll("[data-slotwise-text]");
    for (const one of texts) one.textContent = textOf(link, one.dataset.slotwiseText);
    if (!texts.length) anchor.textContent = textOf(link, "title");
    for (const one of item.querySelectorAll("[data-slotwise-src]")) {
      const address = textOf(link, one.dataset.slotwiseSrc);
      if (isWebAddress(address) || /^\/(?!\/)/.test(address)) one.src = address;
      else one.removeAttribute("src");
    }
    for (const one of item.querySelectorAll("[data-slotwise-alt]")) one.alt = textOf(link, one.dataset.slotwiseAlt);
    anchor.href = link.url;
    anchor.dataset.slotwiseLink = link.link_id;
    return item;
  }

  function put(list, page) {
    const model = list.querySelector("li");
    const items = page.links.map((link) => makeItem(model, link));
    if (!items.length) return;
    list.replaceChildren(...items);
    list.dataset.slotwiseDecision = page.decision_id;
    watch(list, page);
    const { floor, ...detail } = page; // the state of the floor is not for visitors
    list.dispatchEvent(new CustomEvent("slotwise", { bubbles: true, detail }));
  }

  // A phone and a tablet are touched; a phone is narrow however it is held.
  function deviceOf() {
    if (!matchMedia("(pointer: coarse)").matches) return "desktop";
    return Math.min(screen.width, screen.height) < 600 ? "phone" : "tablet";
  }

  // A random key that stays in this browser, so that the visitor stays in the same group of pages.
  function rememberedKey() {
    try {
      const name = "slotwise-visitor";
      const known = localStorage.getItem(name);
      if (known) return known;
      const made = Array.from(crypto.getRandomValues(new Uint8Array(16)), (one) => one.toString(16).padStart(2, "0")).join("");
      localStorage.setItem(name, made);
      return made;
    } catch {
      return undefined; // the browser stores nothing: each page is in a random group
    }
  }

  // What the page declares of its visitor. The service drops the device unless its pool asks for it.
  // A key is made and stored only where the page asks for it: data-slotwise-visitor="remember".
  function whoLooks(list) {
    const { slotwiseVisitor: declared = "", slotwiseVisitorKey: given } = list.dataset;
    const [, remember, features] = /^\s*(remember\b)?\s*(.*)$/s.exec(declared);
    const told = { visitor_key: given || (remember ? rememberedKey() : undefined), hints: { device: deviceOf() } };
    try {
      return { ...told, visitor: JSON.parse(features || "{}") };
    } catch {
      console.warn('slotwise: data-slotwise-visitor is neither JSON nor "remember"');
      return told;
    }
  }

  async function fill(list) {
    const { slotwisePool: pool, slotwiseSlots: slots, slotwiseKey: key } = list.dataset;
    const stop = new AbortController();
    const timer = setTimeout(() => stop.abort(), WAIT_MS);
    list.style.visibility = "hidden";
    try {
      const answer = await fetch(`${base}/v1/pools/${encodeURIComponent(pool)}/page${slots ? `?slots=${+slots}` : ""}`, {
        method: "POST",
        headers: { Authorization: `Bearer ${key}`, "Content-Type": "application/json" },
        body: JSON.stringify(whoLooks(list)),
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

  const start = () => document.querySelectorAll("ul[data-slotwise-pool], ol[data-slotwise-pool]").forEach(fill);
  if (document.readyState === "loading") document.addEventListener("DOMContentLoaded", start);
  else start();
})();
