"""The experiments as data: the paper's claims hold in its own numbers, cells are shared and told apart."""

from dataclasses import asdict, replace
from pathlib import Path

import pytest

from dualsolver.experiments import EXPERIMENTS
from dualsolver.experiments.budget import BUDGETS, changed
from dualsolver.experiments.cells import Learn, Measure, evaluations, key
from dualsolver.experiments.claims import better, falls, middle, sentence
from dualsolver.experiments.contest import FLOOR, LEARNED, at_most, chosen, gaps
from dualsolver.experiments.experiment import CLASSIFIER
from dualsolver.experiments.found import Estimate, Found, estimate
from dualsolver.experiments.page import page
from dualsolver.experiments.paper import published
from dualsolver.experiments.render import markdown
from dualsolver.experiments.setting import Setting
from dualsolver.experiments.store import Store
from dualsolver.experiments.suite import RELEASED, suite_of
from dualsolver.fit import PRESETS

FASHION = Setting("fashion-dit", suite_of("fashion-dit"), BUDGETS["quick"])
FLOW = Setting("fashion-gmdit", suite_of("fashion-gmdit"), BUDGETS["quick"])
NAMES = [name for name, experiment in EXPERIMENTS.items() if "dit" in experiment.kinds]
RESULTS = Path(__file__).parent.parent / "docs" / "results"
GENERALLY = "Feature regression generally outperforms sample and trajectory regression."


def keys(name, setting=FASHION):
    return {key(cell) for cell in EXPERIMENTS[name].cells(setting)}


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_what_the_paper_claims_holds_in_its_own_numbers(name):
    experiment = EXPERIMENTS[name]
    for kind in experiment.kinds:
        theirs = published(experiment.tables, kind)
        if theirs is None or theirs.backbone != kind:
            continue
        for claim in (c for c in experiment.claims if kind in c.kinds and not c.ours):
            signs = {where: margin.sign for where, margin in claim.verdicts(theirs.found).items()}
            assert signs, claim.says
            assert [where for where, sign in signs.items() if sign != 1] == (
                ["NFE 9"] if claim.says == GENERALLY else []
            )


def test_every_row_of_the_papers_tables_is_one_here():
    for experiment in EXPERIMENTS.values():
        for label in experiment.tables:
            theirs = published([label], "")
            backbone = {kind: name for name, kind in RELEASED.items()}[theirs.backbone]
            setting = Setting(backbone, suite_of(backbone), BUDGETS["full"], planned=True)
            rows = experiment.rows(setting)
            for metric in set(experiment.metrics) - set(CLASSIFIER):
                assert set(theirs.found.rows(metric)) <= set(rows), label


def test_experiments_share_what_they_have_in_common():
    assert keys("learned-parameters") < keys("main")
    assert keys("samples") < keys("main")
    together = {k for name in NAMES for k in keys(name)}
    assert len(together) < 0.75 * sum(len(keys(name)) for name in NAMES)
    main, domain = (list(EXPERIMENTS[name].cells(FASHION)) for name in ("main", "domain"))
    assert evaluations(main + domain) < evaluations(main) + evaluations(domain)
    assert evaluations(main + main) == evaluations(main)


def test_a_cell_is_known_by_everything_that_it_says():
    learned = next(c for c in EXPERIMENTS["main"].cells(FASHION) if isinstance(c, Learn))
    cells = [*EXPERIMENTS["main"].cells(FASHION)]
    measure = next(c for c in cells if isinstance(c, Measure) and c.learned)
    for cell in (learned, measure):
        for name in asdict(cell):
            changes = {"options": {"kind": "p1"}, "learned": (replace(measure.learned[0], nfe=99),)}
            changes["recipe"] = replace(learned.recipe, steps=7)
            assert key(replace(cell, **{name: changes.get(name, "another")})) != key(cell), name


def test_flows_have_the_forms_that_were_published_for_them():
    forms = {
        (cell.solver, *cell.options.items())
        for cell in EXPERIMENTS["main"].cells(FLOW)
        if isinstance(cell, Learn) and cell.solver != "dual"
    }
    assert forms == {("bns", ("tied", True)), ("ds", ("form", "velocity"))}


def numbers(**rows):
    found = Found()
    for row, seeds in rows.items():
        for seed, value in enumerate(seeds):
            found.add("frechet", row, "3", value, seed)
    return found


def test_a_difference_counts_by_its_error_over_seeds_that_both_have():
    claim = better("frechet", "a", ["b", "c"], ["3", "5"])
    margins = claim(numbers(a=[1.0, 2.0, 3.0], b=[2.0, 3.1, 3.9], c=[9.0, 9.0, 9.0]))
    assert margins == {"NFE 3": pytest.approx([1.0, 1.1, 0.9])}
    assert estimate(margins["NFE 3"]).sign == 1
    assert estimate([1.0, -0.5, 0.6]).sign == 0
    assert estimate([-1.0, -1.1, -0.9]).sign == -1
    assert claim(numbers(a=[1.0], b=[2.0, 3.0])) == {"NFE 3": [1.0]}
    assert claim(numbers(b=[2.0])) == {"NFE 3": []}
    assert sentence({"NFE 3": estimate([1.0])}) == "Held at NFE 3 (by 1). One seed alone: no errors."
    assert sentence({"NFE 3": Estimate(-1.0, 0.1, 3)}) == "The opposite at NFE 3 (by 1 ± 0.1)."


@pytest.mark.parametrize(
    ("values", "shaped", "falling"),
    [([3, 1, 0, 1, 3], True, 0.0), ([0, 1, 2, 3, 4], False, 1.0), ([4, 3, 2, 1, 0], False, -1.0)],
)
def test_shapes_over_the_accuracy_of_classifiers(values, shaped, falling):
    found = Found()
    for i, value in enumerate(values):
        found.add("top-5", f"classifier {i}", "", 99.0 - i)
        found.add("frechet", f"classifier {i}", "3", value)
    [bend] = middle("frechet", ["3"])(found)["NFE 3"]
    [correlation] = falls("frechet", ["3"])(found)["NFE 3"]
    assert (bend > 0) == shaped
    assert correlation == pytest.approx(falling, abs=0.06)


def test_a_table_shows_both_and_marks_what_has_no_error():
    experiment, found = EXPERIMENTS["domain"], Found()
    for seed, value in enumerate((20.0, 21.0, 22.0)):
        found.add("frechet", "Type 1", "3", value, seed)
    found.add("frechet", "Type 2", "3", 30.0)
    text = "\n".join(markdown(experiment, FASHION, found))
    assert "| Type 1 | here | 21.00 ± 0.58 |  |  |  |" in text
    assert "| Type 2 | here | 30.00 |" in text
    assert "| Type 2 | paper | 24.91 | 3.52 | 2.75 | 2.67 |" in text


def test_budgets_change_by_name():
    budget = changed(BUDGETS["full"], {"seeds": 2.0, "steps": 5.0, "teacher": "ddim:9"})
    assert (budget.seeds, budget.recipe.steps, budget.teacher) == ((0, 1), 5, "ddim:9")
    with pytest.raises(ValueError, match="what the budget spends must be one of 'average', 'batch'"):
        changed(BUDGETS["full"], {"money": 1.0})


def test_an_experiment_spends_its_own_unless_told_otherwise():
    quick = BUDGETS["quick"]
    assert (quick.of("peers").count, quick.of("main").count) == (10_000, quick.count)
    assert quick.of("peers").recipe == PRESETS["fast"]
    told = changed(quick, {"count": 4.0, "steps": 2.0})
    assert (told.of("peers").count, told.of("peers").recipe.steps, told.of("peers").keep) == (4, 2, 2000)
    assert {recipe.steps for recipe in told.of("presets").presets.values()} == {2}
    recipes = {c.recipe for c in EXPERIMENTS["presets"].cells(FASHION)}
    assert recipes == {*PRESETS.values()}


def test_judge_and_chooser_are_kept_apart():
    networks = {c.network for c in EXPERIMENTS["choices"].cells(FASHION) if isinstance(c, Measure)}
    assert [name.split()[0] for name in networks] == ["validation"]
    both = {c.network for c in EXPERIMENTS["peers"].cells(FASHION) if isinstance(c, Measure)}
    assert [[name.split()[0] for name in names.split(" + ")] for names in both] == [["judge", "validation"]]


@pytest.mark.parametrize("setting", [FASHION, FLOW], ids=lambda setting: setting.name)
def test_what_was_chosen_is_the_best_of_what_the_validation_network_saw(setting, tmp_path):
    stored = RESULTS / f"{setting.name}.json"
    experiment = EXPERIMENTS["choices"]
    found = experiment.found(setting, Store(stored, tmp_path).get)
    if not stored.exists() or len(found.rows("frechet")) < len(experiment.rows(setting)):
        pytest.skip("its choices are not committed yet")
    for title, choice in chosen()[setting.kind].items():
        rows = [row for row in found.rows("frechet") if row.startswith(title)]
        best = min(rows, key=lambda row: sum(found.mean("frechet", row, nfe) for nfe in "35"))
        assert best.partition(", ")[2].removeprefix("rate x ") in (
            choice,
            f"{choice:g}" if title in LEARNED else "",
        )


def test_a_gap_is_what_lies_between_the_better_grid_and_many_steps():
    found = Found()
    for row, value in {"DPM-Solver++, uniform": 9.0, "DPM-Solver++, karras": 5.0, FLOOR: 1.0}.items():
        found.add("frechet", row, "3", value)
    for row, value in {
        "BNS-Solver, rate x 1": 4.0,
        "DS-Solver, rate x 1": 8.0,
        "Dual-Solver, a": 2.0,
    }.items():
        found.add("frechet", row, "3", value)
    gaps(found)
    assert found.mean("to DPM-Solver++", "Dual-Solver, a", "3") == 0.4
    assert found.mean("to BNS and DS", "Dual-Solver, a", "3") == 0.5
    assert found.mean("gap closed", "Dual-Solver, a", "3") == 0.75
    assert at_most("to BNS and DS", {"3": 0.6, "5": 0.6})(found) == {"NFE 3": [pytest.approx(0.1)]}


def test_an_own_error_counts_where_a_number_stays_alone():
    found = Found()
    found.add("frechet", "a", "3", 2.0, 0, 0.1)
    assert found.estimate("frechet", "a", "3") == Estimate(2.0, 0.1, 1)
    found.add("frechet", "a", "3", 4.0, 1, 0.1)
    assert found.estimate("frechet", "a", "3").error == pytest.approx(1.0)


def test_a_page_without_results_says_how_they_are_made(tmp_path):
    text = page(tmp_path)
    assert "## Not measured yet\n\n`main`, " in text
    assert "| here |" not in text


def test_a_page_is_made_of_what_is_stored(tmp_path):
    store = Store(tmp_path / "results" / "fashion-dit.json", tmp_path / "work")
    cells = [*EXPERIMENTS["domain"].cells(FASHION), *EXPERIMENTS["samples"].cells(FASHION)]
    for cell in cells:
        if isinstance(cell, Measure):
            mixed = "mix" in str(cell.learned[0].options)
            value = 10.0 * cell.nfe + cell.seed / 10 + mixed * (1.0 if cell.nfe > 5 else -1.0)
            store.put(cell, {"figures": {"frechet": [value, None]}})
    store.pack(cells)
    (tmp_path / "results" / "why").mkdir()
    (tmp_path / "results" / "why" / "domain.md").write_text("Because.\n")
    (tmp_path / "results" / "fashion-dit").mkdir()
    (tmp_path / "results" / "fashion-dit" / "samples-3.png").touch()
    text = page(tmp_path / "results")
    assert "| Type 1 is better at NFE 3. | held at 1 |" in text
    assert "| Type 2 is better at NFE 5, 7 and 9. | held at 2, opposite at 1 |" in text
    assert "- *Type 1 is better at NFE 3.* Held at NFE 3 (by 1 ± 0)." in text
    assert "| Type 2 | here | 30.10 ± 0.06 | 50.10 ± 0.06 | 70.10 ± 0.06 | 90.10 ± 0.06 |" in text
    assert "![Sampling results, samples-3](results/fashion-dit/samples-3.png)" in text
    assert "### Why\n\nBecause.\n" in text
    assert "*Not complete: 24 of its cells are still to be made.*" in text
    assert "p1c2 yields" not in text


def test_packing_drops_results_of_other_weights(tmp_path):
    store = Store(tmp_path / "results.json", tmp_path / "work")
    cells = [cell for cell in EXPERIMENTS["discretisation"].cells(FASHION) if isinstance(cell, Measure)][:3]
    others = [replace(cell, weights="of another training") for cell in cells]
    for cell in (*cells, *others):
        store.put(cell, {"figures": {}})
    store.pack(others)
    store.pack(cells[:2])
    fresh = Store(tmp_path / "results.json", tmp_path / "elsewhere")
    assert fresh.missing([*cells, *others]) == [cells[2], *others]
    assert fresh.get(cells[0]) == {"figures": {}}
