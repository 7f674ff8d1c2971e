// What the other scripts share: the data, what is chosen, and making elements.

const data = JSON.parse(document.getElementById("data").textContent);
const chosen = { nfe: data.nfes[data.nfes.length >> 1], metric: data.metrics[0].key, solvers: new Set(data.solvers) };
const HUES = [262, 40, 155, 350, 200, 95, 305, 25];
const DASHES = ["", "6 3", "2 3", "9 3 2 3", "12 3", "4 2", "1 2", "8 2 2 2"];

const byId = (id) => document.getElementById(id);
const shownSolvers = () => data.solvers.filter((solver) => chosen.solvers.has(solver));
const figure = (solver, nfe, metric = chosen.metric) => solver.cells[nfe]?.figures[metric];
const metric = () => data.metrics.find((one) => one.key === chosen.metric);
const digits = (x) => (x === 0 ? "0" : String(Number(x.toPrecision(4))));
const errorOf = (figure) => (figure[1] === null ? "" : "± " + Number(figure[1].toPrecision(2)));

// An element with attributes and children: text is always text, never markup.
function make(name, attributes = {}, ...children) {
  const svg = ["svg", "g", "path", "line", "rect", "circle", "text", "title"].includes(name);
  const element = svg ? document.createElementNS("http://www.w3.org/2000/svg", name) : document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (key === "colour") paint(element, value);
    else if (key.startsWith("on")) element.addEventListener(key.slice(2), value);
    else if (value !== null && value !== false) element.setAttribute(key, value === true ? "" : value);
  }
  element.append(...children.filter((child) => child !== null));
  return element;
}

function paint(element, solver) {
  element.dataset.colour = "";
  element.style.setProperty("--hue", HUES[data.solvers.indexOf(solver) % HUES.length]);
}

// The solvers with the best figure at an NFE, among those shown.
function best(nfe) {
  const rank = { lower: Math.min, higher: Math.max }[metric().better];
  const values = shownSolvers().map((solver) => figure(solver, nfe)?.[0] ?? NaN).filter(Number.isFinite);
  return (solver) => Boolean(rank) && values.length > 1 && figure(solver, nfe)?.[0] === rank(...values);
}
