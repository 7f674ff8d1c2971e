"""`dual-solver reproduce` as a user runs it, at the full budget on tiny pipelines: whole, killed, refused."""

import fcntl
import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch
from PIL import Image

import tiny_clip
import tiny_grey
import tiny_text
from dualsolver import named
from dualsolver.cli import main
from dualsolver.experiments import EXPERIMENTS
from dualsolver.experiments.bench import Bench
from dualsolver.experiments.budget import BUDGETS, changed
from dualsolver.experiments.cells import Measure, key
from dualsolver.experiments.page import page
from dualsolver.experiments.setting import Setting
from dualsolver.experiments.store import Store, fill
from dualsolver.experiments.suite import suite_of
from dualsolver.statistics import Statistics
from dualsolver.zoo.data import FOLDER

FEATURES = 48  # of the validation network
CLASSIFIERS = ["zoo:linear-4x4", "zoo:linear-2x2", "zoo:mlp-16", "zoo:mlp-64"]
SPEND = "seeds=1 steps=1 batch=2 every=1 held_out=2 count=4 keep=4 fresh=2 teacher=ddim:2 teacher_count=4"
RESULTS = Path(__file__).parent.parent / "docs" / "results"


def command(pipeline, place, *more):
    options = ["--backbone", str(pipeline), "--out", str(place / "results"), "--work", str(place / "work")]
    options += ["--classifier", *CLASSIFIERS, "--features", *CLASSIFIERS[1:], "--spend", *SPEND.split()]
    options += ["--network", f"validation={place.parent / 'statistics.npz'}", "--budget", "full"]
    return ["reproduce", *options, "--real", str(place.parent / "real"), "--threads", "1", *more]


@pytest.fixture(scope="module")
def tiny(tmp_path_factory):
    """A place with a pipeline, statistics and real images."""
    folder = tmp_path_factory.mktemp("tiny")
    Statistics(torch.zeros(FEATURES), torch.eye(FEATURES), 100).save(folder / "statistics.npz")
    (folder / "real").mkdir()
    for i in range(5):
        Image.effect_noise((32, 32), 100).save(folder / "real" / f"{i}.png")
    tiny_grey.dit(folder / "dit")
    return folder


def some():
    """All experiments, but for the one that looks at the dataset where that is not there."""
    return [
        name
        for name, one in EXPERIMENTS.items()
        if "dit" in one.kinds and (name != "classifiers" or Path(FOLDER).exists())
    ]


@pytest.fixture(scope="module")
def whole(tiny):
    assert main([*command(tiny / "dit", tiny / "all"), "--", *some()]) == 0
    return tiny


def results(place, name="dit"):
    return json.loads((place / "results" / f"{name}.json").read_text())


def made(place):
    return {path.stem for path in (place / "work" / "made").glob("*.json")}


def start(arguments):
    program = [sys.executable, "-m", "dualsolver.cli", *arguments]
    return subprocess.Popen(program, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def waited(process, happened):
    while process.poll() is None and not happened():
        time.sleep(0.01)
    return process


def test_every_full_path_runs_from_end_to_end(whole, capsys):
    place = whole / "all"
    assert {cell["is"] for cell in results(place).values()} >= {"learn", "measure"}
    figures = {path.stem for path in (place / "results" / "dit").iterdir()}
    assert {"main-frechet", "discretisation", "interpolation-parameters", "samples-3"} <= figures
    before = (place / "results" / "dit.json").read_bytes()
    capsys.readouterr()
    assert main([*command(whole / "dit", place), "--", "main", "domain"]) == 0
    assert (place / "results" / "dit.json").read_bytes() == before
    assert str(whole) not in before.decode()  # no path of this machine gets into results
    shown = capsys.readouterr().out
    assert shown.startswith("0 cells to make")
    for row in ("DDIM", "BNS-Solver", "Dual-Solver-R", "Dual-Solver-C", "Type 1", "Type 2"):
        assert f"| {row} | here | " in shown
    assert "*Type 1 is better at NFE 3.* " in shown


def test_kill_9_and_the_same_command_give_the_same_results(whole):
    place = whole / "killed"
    process = waited(start([*command(whole / "dit", place), "--", "domain"]), lambda: len(made(place)) > 2)
    process.send_signal(signal.SIGKILL)
    assert process.wait() == -signal.SIGKILL
    assert main([*command(whole / "dit", place), "--", "domain"]) == 0
    found, wanted = results(place), results(whole / "all")
    assert found == {key: wanted[key] for key in found}


def test_a_cell_that_another_process_is_at_is_left_to_it(whole):
    suite = suite_of("fashion-dit")._replace(classifiers=tuple(CLASSIFIERS))
    budget = changed(BUDGETS["full"], named.options(SPEND.split()))
    setting = Setting(str(whole / "dit"), suite, budget)
    cells, work = list(EXPERIMENTS["learned-parameters"].cells(setting)), whole / "shared" / "work"
    store = Store(whole / "shared" / "results" / "dit.json", work)
    work.mkdir(parents=True)
    filling = fill(store, Bench(setting, work, store.get), cells)
    with open(work / f"{key(cells[1])}.lock", "w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        assert next(cell for cell in filling if cell == cells[1])  # it waits for nothing else any more
        assert store.missing(cells) == [cells[1]]
    for cell in filling:
        assert cell == cells[1]
    assert store.missing(cells) == []
    wanted = results(whole / "all")
    store.pack(cells)
    assert results(whole / "shared") == {key(cell): wanted[key(cell)] for cell in cells}


@pytest.mark.parametrize("make", [tiny_grey.gmdit, tiny_text.pixart, tiny_text.sana])
def test_the_other_backbones(make, tiny, capsys):
    kind, prompts, clip = make.__name__, tiny / "prompts.txt", tiny_clip.folder(tiny / "clip")
    prompts.write_text("a red cat\na blue dog\n")
    text = ["--clip", str(clip), "--classifier", str(clip), "--prompts", str(prompts)]
    arguments = command(make(tiny / kind), tiny / "others", *(text if kind != "gmdit" else []))
    assert main([*arguments, "--", "main"]) == 0
    found = results(tiny / "others", kind)
    measured = [cell["result"]["figures"] for cell in found.values() if cell["is"] == "measure"]
    assert all(("clip score" in figures) == (kind != "gmdit") for figures in measured)
    learned = [cell["cell"] for cell in found.values() if cell["is"] == "learn"]
    objectives = {"sample", "trajectory", "hard-label" if kind == "gmdit" else "clip"}
    assert {cell["objective"] for cell in learned} == objectives
    assert str(tiny) not in json.dumps(found)
    assert "| Dual-Solver-C | here | " in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--", "results"], "the experiment must be one of 'main', "),
        (["--", "clip-models"], "the experiment on dit must be one of 'main', "),
        (["--budget", "huge", "--", "main"], "the budget must be one of 'quick', 'full', not 'huge'"),
        (["--spend", "money=1", "--", "main"], "what the budget spends must be one of"),
        (["--network", "inception", "--", "domain"], "inception needs statistics of real images"),
        (["--network", "inception=gone.npz", "--", "domain"], "no statistics at gone.npz"),
        (["--real", "gone", "--", "classifiers"], "gone"),
        (["--classifier", "zoo:nobody", "--", "domain"], "hard-label by zoo:nobody"),
        (["--features", "vgg", "--", "objectives"], "the number of feature networks must be one of 3, not 1"),
    ],
)
def test_what_is_missing_is_said_before_any_work(arguments, words, tiny, capsys):
    place = tiny / "refused"
    assert main([*command(tiny / "dit", place), *arguments]) == 2
    said = capsys.readouterr()
    assert words in said.out + said.err
    assert len(said.err.splitlines()) == 1
    assert not list(place.rglob("*.json"))


def test_a_text_backbone_needs_prompts_and_a_clip_model(tiny, capsys):
    pipeline = tiny_text.pixart(tiny / "wordless")
    assert main([*command(pipeline, tiny / "wordless-results"), "--", "main"]) == 2
    said = capsys.readouterr().out
    assert "lacks prompts: " in said
    assert "--prompts FILE" in said
    assert "lacks clip by zoo:linear-4x4" in said


def test_full_size_says_what_it_costs_without_weights(capsys):
    assert main(["reproduce", "list", "--budget", "full", "--backbone", "facebook/DiT-XL-2-256"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split() == ["experiment", "cells", "left", "evaluations", "GPU", "hours", "left"]
    assert len(lines) == sum("dit" in one.kinds for one in EXPERIMENTS.values()) + 2
    assert float(lines[-1].split()[-1]) > 100


def test_damaged_results_are_refused(tiny, capsys):
    place = tiny / "damaged"
    (place / "results").mkdir(parents=True)
    (place / "results" / "dit.json").write_text('{"0": {')
    assert main([*command(tiny / "dit", place), "--", "samples"]) == 2
    assert "dit.json is damaged" in capsys.readouterr().err


committed = pytest.mark.skipif(not list(RESULTS.glob("*.json")), reason="no results are committed yet")


@committed
def test_the_page_is_what_the_results_say():
    assert RESULTS.with_suffix(".md").read_text() == page(RESULTS)


@committed
def test_one_stored_cell_comes_out_again(tmp_path):
    setting = Setting("fashion-dit", suite_of("fashion-dit"), BUDGETS["quick"])
    cell = next(cell for cell in EXPERIMENTS["main"].cells(setting) if isinstance(cell, Measure))
    stored = Store(RESULTS / "fashion-dit.json", tmp_path)
    again = Store(tmp_path / "again.json", tmp_path)
    list(fill(again, Bench(setting, tmp_path, again.get), [cell]))
    for figure in ("frechet", "accuracy"):
        wanted, found = (store.get(cell)["figures"][figure][0] for store in (stored, again))
        assert found == pytest.approx(wanted, rel=1e-3)


def test_a_backbone_of_another_kind_is_refused(capsys):
    assert main(["reproduce", "list", "--backbone", "toy"]) == 2
    assert "what toy is must be one of 'dit', 'gmdit', 'pixart', 'sana'" in capsys.readouterr().err
