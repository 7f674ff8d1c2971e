// The samples: a row a solver at the chosen NFE, and one seed at every NFE in a dialog.

function picture(solver, nfe, seed) {
  const image = make("img", {
    src: "data:image/png;base64," + solver.cells[nfe].images[seed],
    alt: `${data.labels[seed]}, sample ${seed}, ${solver.name}, NFE ${nfe}`,
    decoding: "sync",
  });
  image.addEventListener("load", () => image.classList.toggle("small", image.naturalWidth <= 64));
  return image;
}

function drawSamples() {
  const isBest = best(chosen.nfe), rows = shownSolvers().map((solver) => row(solver, isBest));
  byId("rows").style.setProperty("--count", data.labels.length);
  byId("rows").replaceChildren(heads(), ...rows);
}

function heads() {
  const names = data.labels.map((label) => make("span", { title: label }, label));
  return make("div", { class: "row heads", "aria-hidden": "true" }, make("div"), make("div", { class: "tiles" }, ...names));
}

function row(solver, isBest) {
  const cell = solver.cells[chosen.nfe];
  const who = make("div", { class: "who" }, make("b", {}, solver.name), ...about(solver, isBest(solver)));
  const tiles = cell
    ? make("div", { class: "tiles" }, ...data.labels.map((_, seed) => tile(solver, seed)))
    : make("p", { class: "none" }, `Not there at NFE ${chosen.nfe}.`);
  return make("div", { class: "row", role: "group", "aria-label": solver.name, colour: solver }, who, tiles);
}

function about(solver, isBest) {
  const found = figure(solver, chosen.nfe);
  if (!found) return [];
  const lines = [make("span", { class: isBest ? "best" : "" }, `${digits(found[0])} ${errorOf(found)}${isBest ? ", best" : ""}`)];
  if (solver.cells[chosen.nfe].interpolated) lines.push(make("span", {}, "interpolated"));
  return lines;
}

function tile(solver, seed) {
  return make("button", { class: "tile", type: "button", onclick: () => openSeed(seed) }, picture(solver, chosen.nfe, seed));
}

function openSeed(seed) {
  byId("all-title").textContent = `${data.labels[seed]}, sample ${seed}`;
  const head = make("tr", {}, make("th", { scope: "col" }, "NFE"), ...data.nfes.map((nfe) => make("th", { scope: "col" }, nfe)));
  const lines = shownSolvers().map((solver) => {
    const cells = data.nfes.map((nfe) => make("td", {}, solver.cells[nfe] ? picture(solver, nfe, seed) : "–"));
    return make("tr", { colour: solver }, make("th", { scope: "row" }, make("span", { class: "dot" }), solver.name), ...cells);
  });
  byId("all-table").replaceChildren(make("thead", {}, head), make("tbody", {}, ...lines));
  byId("all").showModal();
}
