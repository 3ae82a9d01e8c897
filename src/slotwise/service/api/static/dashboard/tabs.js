// Tabs by the pattern of ARIA: arrow keys move between them, and the address names the one that is shown.

const tabs = [...document.querySelectorAll("[role=tab]")];
const nameOf = (tab) => tab.id.replace("tab-", "");
const named = () => tabs.find((tab) => `#${nameOf(tab)}` === location.hash);

function show(chosen) {
  for (const tab of tabs) {
    tab.setAttribute("aria-selected", tab === chosen);
    tab.tabIndex = tab === chosen ? 0 : -1;
    document.getElementById(tab.getAttribute("aria-controls")).hidden = tab !== chosen;
  }
}

function choose(tab) {
  if (named() !== tab) history.pushState(null, "", `${location.search}#${nameOf(tab)}`);
  show(tab);
}

export function listen() {
  for (const [i, tab] of tabs.entries()) {
    tab.addEventListener("click", () => choose(tab));
    tab.addEventListener("keydown", (event) => {
      const next = { ArrowRight: i + 1, ArrowLeft: i - 1, Home: 0, End: -1 }[event.key];
      if (next === undefined) return;
      event.preventDefault();
      const other = tabs.at(next % tabs.length);
      choose(other);
      other.focus();
    });
  }
  // The address of the page without a name, or with one of something else, leaves the tab as it is.
  for (const moved of ["hashchange", "popstate"]) addEventListener(moved, () => show(named() ?? (location.hash ? tabs.find((tab) => tab.tabIndex === 0) : tabs[0])));
  show(named() ?? tabs[0]);
}
