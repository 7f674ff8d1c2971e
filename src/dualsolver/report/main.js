// The controls, and drawing again what they change.

function choose(change) {
  Object.assign(chosen, change);
  byId("nfe").value = data.nfes.indexOf(chosen.nfe);
  byId("nfe").setAttribute("aria-valuetext", `${chosen.nfe} evaluations`);
  byId("nfe-now").textContent = chosen.nfe;
  [...byId("nfe-ticks").children].forEach((tick, i) => tick.classList.toggle("now", data.nfes[i] === chosen.nfe));
  for (const draw of [drawSamples, drawChart, drawTable, drawParameters]) draw();
  const said = shownSolvers().map((solver) => `${solver.name} ${figure(solver, chosen.nfe) ? digits(figure(solver, chosen.nfe)[0]) : "none"}`);
  byId("status").textContent = `NFE ${chosen.nfe}, ${metric().title}: ${said.join(", ")}`;
}

function chip(solver) {
  const toggle = (event) => {
    chosen.solvers[event.target.checked ? "add" : "delete"](solver);
    choose({});
  };
  return make("label", { class: "chip", colour: solver }, make("input", { type: "checkbox", checked: true, onchange: toggle }), make("span", { class: "dot" }), solver.name);
}

function tab(one, i) {
  const radio = make("input", { type: "radio", name: "metric", checked: i === 0, onchange: () => choose({ metric: one.key }) });
  return make("label", {}, radio, one.title);
}

function start() {
  const { backbone, facts, nfes } = data;
  byId("title").textContent = backbone;
  const span = nfes.length > 1 ? `NFE ${nfes[0]} to ${nfes.at(-1)}` : `NFE ${nfes[0]}`;
  byId("lede").textContent = `${data.solvers.length} solvers, ${span}, ${facts.count.toLocaleString("en")} images of the same noise each, guidance ${facts.guidance}.`;
  byId("nfe").max = nfes.length - 1;
  byId("nfe-ticks").append(...nfes.map((nfe) => make("span", {}, nfe)));
  byId("nfe").addEventListener("input", (event) => choose({ nfe: nfes[event.target.value] }));
  byId("chips").append(...data.solvers.map(chip));
  byId("metrics").append(...data.metrics.map(tab));
  byId("controls").addEventListener("submit", (event) => event.preventDefault());
  byId("all").addEventListener("click", (event) => event.target === byId("all") && byId("all").close());
  drawProvenance();
  choose({});
  new ResizeObserver(drawChart).observe(byId("figures"));
}

start();
