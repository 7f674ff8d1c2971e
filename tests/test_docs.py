"""What the README and the documentation show runs as it stands, examples and commands, page by page."""

import json
import re
import runpy
import shlex
from pathlib import Path

import pytest

import dualsolver as ds
from dualsolver.backbones import BACKBONES
from dualsolver.cli import main

ROOT = Path(__file__).parent.parent
READMES = sorted(ROOT.glob("README*.md"))
PAGES = [*READMES, *sorted(ROOT.glob("docs/*.md"))]
BLOCK = re.compile(r"^```(\w*)\n(.*?)^```", re.DOTALL | re.MULTILINE)
CHEAP = {
    "learn": "--preset paper --steps 1 --batch 2 --threads 1",
    "evaluate": "--count 4 --batch 4 --threads 1",
    "compare": "--count 4 --batch 4 --show 2 --threads 1",
    "sample": "--threads 1",
    "zoo train": "--help",  # it is there; trainings have tests of their own
}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_examples_and_commands_run(page, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    schedule = ds.VP.linear()
    ds.save([ds.DualSolver(3), ds.DualSolver(5)], "runs/learned", schedule=schedule, prediction="noise")
    try:
        run(page, capsys)
    except ValueError as error:
        if "is not trained yet" not in str(error):
            raise
        pytest.skip(str(error))


def run(page, capsys):
    scope = {}
    for language, block in BLOCK.findall(page.read_text()):
        if language == "python":
            exec(block, scope)
        for line in [] if language else block.replace("\\\n", " ").splitlines():
            check_command(line.partition("#")[0].strip(), capsys)


def check_command(line, capsys):
    """Run a command of ours, with less work; of others, see that what they name is there."""
    if line.startswith("dual-solver "):
        name = next((name for name in CHEAP if line.startswith(f"dual-solver {name} ")), None)
        if not succeeds(shlex.split(f"{line} {CHEAP.get(name, '')}")[1:]):
            raise ValueError(f"{line}: {capsys.readouterr().err}")
    elif line.startswith("make "):
        assert re.search(rf"^{line.split()[1]}:", (ROOT / "Makefile").read_text(), re.MULTILINE), line
    elif line.startswith("python "):
        assert (ROOT / line.split()[1]).exists(), line


def succeeds(words):
    try:
        return main(words) == 0
    except SystemExit as end:  # argparse refused, or printed its help
        return end.code == 0


@pytest.mark.parametrize("page", READMES, ids=lambda page: page.name)
def test_links_lead_somewhere(page):
    for target in re.findall(r"\]\(([^)#]+)", page.read_text()):
        assert target.startswith("https://") or (ROOT / target).exists(), target


def test_the_table_of_solvers_is_the_registry():
    text = (ROOT / "docs/solvers.md").read_text()
    named = dict(re.findall(r"^\| `(\w+)` \| `(\w+)` \|", text, re.MULTILINE))
    assert named == {name: kind.__name__ for name, kind in ds.SOLVERS.items()}


def test_the_table_of_backbones_is_the_registry():
    named = re.findall(r"^\| `(\w+)` \|", (ROOT / "docs/models.md").read_text(), re.MULTILINE)
    assert set(named) == set(BACKBONES)


def test_measured_tables_are_those_of_the_measurements():
    written = (ROOT / "docs/measured/transfer.md").read_text()
    assert written == runpy.run_path(str(ROOT / "scripts/transfer_tables.py"))["page"]()


def test_the_tables_of_speed_are_those_of_the_bench():
    if not (measured := ROOT / "docs/measured/bench.json").exists():
        pytest.skip("make bench has not run yet")
    page = runpy.run_path(str(ROOT / "scripts/bench/common.py"))["page"]
    assert measured.with_suffix(".md").read_text() == page(json.loads(measured.read_text()))
