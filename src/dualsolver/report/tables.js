// The table of figures, and where everything comes from.

function drawTable() {
  const now = (nfe) => (nfe === chosen.nfe ? "now" : "");
  const head = data.nfes.map((nfe) => make("th", { scope: "col", class: now(nfe) }, nfe));
  const lines = shownSolvers().map((solver) => {
    const cells = data.nfes.map((nfe) => {
      const found = figure(solver, nfe), classes = `${now(nfe)} ${best(nfe)(solver) ? "best" : ""}`;
      return make("td", { class: classes }, ...(found ? [digits(found[0]), " ", make("small", {}, errorOf(found))] : ["–"]));
    });
    return make("tr", { colour: solver }, make("th", { scope: "row" }, make("span", { class: "dot" }), solver.name), ...cells);
  });
  const caption = make("caption", { class: "quiet" }, `${metric().title} by solver and NFE`);
  const first = make("th", { scope: "col" }, "NFE");
  byId("table").replaceChildren(caption, make("thead", {}, make("tr", {}, first, ...head)), make("tbody", {}, ...lines));
}

const text = (value) => (typeof value === "object" ? JSON.stringify(value) : String(value));

function drawProvenance() {
  const facts = Object.entries(data.facts).filter(([, value]) => value !== null && text(value) !== "{}");
  byId("facts").replaceChildren(...facts.flatMap(([name, value]) => [make("dt", {}, name), make("dd", {}, text(value))]));
  byId("origins").replaceChildren(...data.solvers.map((solver) => {
    const known = { class: solver.kind, options: solver.options, learned: solver.learned ?? "nothing: a fixed solver" };
    return make("details", {}, make("summary", {}, solver.name), make("pre", { tabindex: "0" }, JSON.stringify(known, null, 2)));
  }));
}
