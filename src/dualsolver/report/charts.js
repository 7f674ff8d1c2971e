// Curves of the figures over the NFE, and of learned parameters over the steps.

function scale(values, from, to, logarithmic) {
  const f = logarithmic ? Math.log : (x) => x;
  const low = Math.min(...values), high = Math.max(...values), span = f(high) - f(low) || 1;
  return (x) => from + ((f(x) - f(low)) / span) * (to - from);
}

const path = (points) => "M" + points.map(([x, y]) => `${x.toFixed(1)},${y.toFixed(1)}`).join("L");

function ticks(low, high, logarithmic) {
  if (logarithmic) {
    const found = [];
    for (let decade = 10 ** Math.floor(Math.log10(low)); decade <= high; decade *= 10) found.push(decade, 2 * decade, 5 * decade);
    return found.filter((x) => x >= low && x <= high);
  }
  const rough = (high - low) / 4, power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].find((factor) => factor * power >= rough) * power;
  const first = Math.ceil(low / step);
  return Array.from({ length: Math.floor(high / step) - first + 1 }, (_, i) => (first + i) * step);
}

function range(values) {
  const low = Math.min(...values), high = Math.max(...values), room = (high - low || Math.abs(high) || 1) * 0.06;
  return [low - room, high + room];
}

function drawChart() {
  const wide = byId("chart").clientWidth, height = Math.min(380, Math.max(240, wide * 0.45)), names = wide > 560 ? 130 : 12;
  const shown = shownSolvers().map((solver) => [solver, data.nfes.filter((nfe) => figure(solver, nfe)).map((nfe) => [nfe, ...figure(solver, nfe)])]);
  const values = shown.flatMap(([, points]) => points.map(([, y]) => y));
  const svg = make("svg", { role: "img", "aria-label": `${metric().title} over NFE; the table below has the figures`, viewBox: `0 0 ${wide} ${height}`, height });
  byId("chart").replaceChildren(svg);
  if (!values.length) return;
  const logarithmic = Math.min(...values) > 0 && Math.max(...values) > 6 * Math.min(...values);
  const [low, high] = logarithmic ? [Math.min(...values) / 1.15, Math.max(...values) * 1.15] : range(values);
  const x = scale(data.nfes, 60, wide - names - 12), y = scale([low, high], height - 40, 12, logarithmic);
  const step = data.nfes.length > 1 ? Math.min(...data.nfes.slice(1).map((nfe, i) => x(nfe) - x(data.nfes[i]))) : 40;
  svg.append(make("rect", { class: "now", x: x(chosen.nfe) - step / 2, y: 4, width: step, height: height - 40, rx: 6 }));
  for (const tick of ticks(low, high, logarithmic)) {
    svg.append(make("line", { class: "grid", x1: 48, x2: wide - names, y1: y(tick), y2: y(tick) }));
    svg.append(make("text", { x: 40, y: y(tick) + 4, "text-anchor": "end" }, digits(tick)));
  }
  for (const nfe of data.nfes) svg.append(make("text", { x: x(nfe), y: height - 18, "text-anchor": "middle" }, nfe));
  svg.append(make("text", { x: x(data.nfes[0]), y: height - 2 }, "evaluations of the network" + (logarithmic ? "; logarithmic scale" : "")));
  for (const [solver, points] of shown) svg.append(curve(solver, points, x, y, [low, high]));
  if (names > 100) svg.append(...ends(shown, y, wide - names + 8));
  for (const nfe of data.nfes) svg.append(make("rect", { class: "hit", x: x(nfe) - step / 2, y: 0, width: step, height, onclick: () => choose({ nfe }) }));
}

function curve(solver, points, x, y, [low, high]) {
  const dash = DASHES[data.solvers.indexOf(solver) % DASHES.length], within = (v) => Math.max(low, Math.min(high, v));
  const line = make("path", { class: "curve", "stroke-dasharray": dash, d: path(points.map(([nfe, value]) => [x(nfe), y(value)])) });
  const bars = points.map(([nfe, value, error]) => make("line", { class: "error", x1: x(nfe), x2: x(nfe), y1: y(within(value - error)), y2: y(within(value + error)) }));
  const marks = points.map(([nfe, value]) => make("circle", { class: "mark" + (nfe === chosen.nfe ? " on" : ""), cx: x(nfe), cy: y(value), r: 4 }));
  return make("g", { colour: solver }, ...bars, line, ...marks);
}

// Names at the ends of the curves, pushed apart where they would overlap.
function ends(shown, y, left) {
  const places = shown.filter(([, points]) => points.length).map(([solver, points]) => [solver, y(points.at(-1)[1]) + 4]);
  places.sort((a, b) => a[1] - b[1]);
  for (let i = 1; i < places.length; i++) places[i][1] = Math.max(places[i][1], places[i - 1][1] + 15);
  return places.map(([solver, top]) => make("text", { class: "name", x: left, y: top, colour: solver }, solver.name.length > 17 ? solver.name.slice(0, 16) + "…" : solver.name));
}

function drawParameters() {
  const shown = shownSolvers().filter((solver) => Object.keys(solver.panels).length);
  byId("parameters").hidden = !data.solvers.some((solver) => Object.keys(solver.panels).length);
  byId("learned").replaceChildren(...shown.flatMap((solver) => {
    const panels = Object.entries(solver.panels).map(([title, lines]) => panel(solver, title, lines));
    return [make("h3", {}, `${solver.name}, ${solver.kind}`), make("div", { class: "panels" }, ...panels)];
  }));
}

function panel(solver, title, lines) {
  const wide = 240, height = 130, values = Object.values(lines).flat(), [low, high] = range(values);
  const y = scale([low, high], height - 8, 8), now = lines[chosen.nfe];
  const place = (list) => list.map((value, i) => [44 + ((wide - 52) * i) / Math.max(list.length - 1, 1), y(value)]);
  const svg = make("svg", { role: "img", viewBox: `0 0 ${wide} ${height}`, "aria-label": `${title} at NFE ${chosen.nfe}: ${now ? now.map(digits).join(", ") : "not there"}` });
  for (const tick of ticks(low, high)) {
    svg.append(make("line", { class: "grid", x1: 40, x2: wide, y1: y(tick), y2: y(tick) }));
    svg.append(make("text", { x: 34, y: y(tick) + 4, "text-anchor": "end" }, digits(tick)));
  }
  for (const list of Object.values(lines)) if (list !== now) svg.append(make("path", { class: "other", d: path(place(list)) }));
  if (now) svg.append(make("path", { class: "curve", d: path(place(now)) }), ...place(now).map(([cx, cy]) => make("circle", { class: "mark on", cx, cy, r: 2.5 })));
  return make("figure", { colour: solver }, make("figcaption", {}, title), svg);
}
