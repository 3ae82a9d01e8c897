// Draws charts with plotly: one after the other, those in sight only, and only when they changed.
// A chart that cannot be drawn says so and is tried again with the next figures.

const wishes = new Map();
const figures = new WeakMap();
const drawn = new WeakMap();
const inSight = new WeakSet();
let library = null;
let drawing = false;
let inks = new Map();

// Have the browser fetch the library while the service makes the figures: it is large.
export function fetchLibraryEarly() {
  if (document.querySelector("link[rel=preload]")) return;
  const link = document.createElement("link");
  Object.assign(link, { rel: "preload", as: "script", href: libraryAddress() });
  document.head.append(link);
}

const libraryAddress = () => document.querySelector("meta[name=chart-library]").content;

// A pool without a view has no chart to draw, but is about to.
export const readLibrary = () => breathe().then(loadLibrary).catch(() => {});

function loadLibrary() {
  library ??= new Promise((resolve, reject) => {
    const script = document.createElement("script");
    script.src = libraryAddress();
    script.onload = () => resolve(globalThis.Plotly);
    script.onerror = () => {
      library = null;
      script.remove();
      reject(new Error("the chart library did not load"));
    };
    document.head.append(script);
  });
  return library;
}

export function ink(name) {
  if (!inks.has(name)) inks.set(name, getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim());
  return inks.get(name);
}
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => { inks = new Map(); });

const watcher = new IntersectionObserver((entries) => {
  for (const { target, isIntersecting } of entries) {
    if (isIntersecting) inSight.add(target);
    else inSight.delete(target);
  }
  drawWishes();
}, { rootMargin: "150px" });

// `figure` returns { traces, layout, options } and is called when the element is drawn.
export function drawWhenSeen(element, words, figure) {
  element.setAttribute("aria-label", words);
  wishes.set(element, figure);
  figures.set(element, figure);
  watcher.observe(element);
  measurer.observe(element);
  drawWishes();
}

// A chart is as large as its element, which grows and shrinks with the window and the words.
const measurer = new ResizeObserver((entries) => {
  for (const { target } of entries) if (drawn.has(target)) wishes.set(target, figures.get(target));
  drawWishes();
});

const breathe = () => new Promise((done) => requestAnimationFrame(() => setTimeout(done)));

async function drawWishes() {
  if (drawing) return;
  drawing = true;
  try {
    await breathe(); // the words and the table are painted first
    for (let next = nextWish(); next; next = nextWish()) {
      const [element, figure] = next;
      wishes.delete(element);
      try {
        await draw(element, figure());
      } catch (error) {
        element.classList.add("failed");
        element.textContent = `The chart cannot be drawn: ${error.message}. It is tried again.`;
      }
      await breathe();
    }
  } finally {
    drawing = false;
  }
}

function nextWish() {
  for (const [element, figure] of wishes) {
    if (!element.isConnected) wishes.delete(element);
    else if (inSight.has(element)) return [element, figure];
  }
  return null;
}

async function draw(element, { traces, layout, options }) {
  const whole = { ...wholeLayout(layout), width: element.clientWidth, height: element.clientHeight };
  const fingerprint = JSON.stringify([traces, whole]);
  if (drawn.get(element) === fingerprint) return;
  const plotly = await loadLibrary();
  if (element.classList.contains("failed")) {
    element.classList.remove("failed");
    element.replaceChildren();
  }
  await plotly.react(element, traces, whole, { displayModeBar: false, ...options });
  drawn.set(element, fingerprint);
}

function wholeLayout({ xaxis, yaxis, ...rest }) {
  const line = ink("line");
  const axis = { gridcolor: line, zerolinecolor: line, linecolor: line, fixedrange: true, automargin: true };
  const others = Object.entries(rest).map(([name, value]) => [name, /^yaxis/.test(name) ? { ...axis, ...value } : value]);
  return {
    margin: { l: 8, r: 8, t: 8, b: 8 },
    paper_bgcolor: "transparent",
    plot_bgcolor: "transparent",
    font: { color: ink("soft"), family: "system-ui, sans-serif", size: 12 },
    legend: { orientation: "h", yanchor: "bottom", y: 1.02, x: 0 },
    hovermode: "x unified",
    hoverlabel: { bgcolor: ink("card"), font: { color: ink("ink") } },
    dragmode: false,
    xaxis: { ...axis, ...xaxis },
    yaxis: { ...axis, rangemode: "tozero", ...yaxis },
    ...Object.fromEntries(others),
  };
}
