// What a shop does itself: remember which shown link led to a product, and report the order.

document.addEventListener("click", (event) => {
  const anchor = event.target.closest("a[data-slotwise-link]");
  if (!anchor) return;
  const decision = anchor.closest("ul").dataset.slotwiseDecision;
  sessionStorage.setItem(`led-to-${anchor.dataset.slotwiseLink}`, decision);
}, true);

document.addEventListener("slotwise", (event) => {
  for (const anchor of document.querySelectorAll("a[data-slotwise-link]")) anchor.querySelector("use").setAttribute("href", `#${anchor.dataset.slotwiseLink}`);
  const how = event.detail.holdout ? "at random, as one page in five is, to compare with" : "by what it has learned so far";
  document.querySelector("#chosen").textContent = `slotwise chose these three ${how}.`;
});

const buy = document.querySelector("#buy");
buy?.addEventListener("click", async () => {
  const { product } = buy.dataset;
  const decision_id = sessionStorage.getItem(`led-to-${product}`);
  const words = document.querySelector("#bought");
  if (!decision_id) {
    words.textContent = "Bought, but no chosen link led here: nothing is reported.";
    return;
  }
  const body = JSON.stringify({ order_id: crypto.randomUUID(), decision_id, product });
  const answer = await fetch("/shop/orders", { method: "POST", headers: { "Content-Type": "application/json" }, body });
  words.textContent = answer.ok ? "Bought. The sale was reported." : "The sale could not be reported.";
});
