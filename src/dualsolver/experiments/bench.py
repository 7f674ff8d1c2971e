"""Making cells: learning, measuring, classifying; each from where it stands in its folder."""

from __future__ import annotations

import json
from collections.abc import Callable, Generator, Mapping
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import torch

from .. import named, parameters
from ..evaluate import evaluate, gathered, report
from ..fit import Workers, held_out
from ..interpolate import interpolate
from ..judges import Judges, judges
from ..learn import HELD_OUT, Plan, learn, read_state
from ..objectives import Objective
from ..sampling import Sampling
from ..solvers import SOLVERS, Solver
from ..task import Task
from ..teacher import Teacher
from .cells import Cell, Classify, Learn, Measure, key
from .real import classified
from .setting import Setting

FRESH = 2 * HELD_OUT  # the seed of the samples that learned solvers are compared on
IMAGES = 10**6  # the seed of the images of seed 0: none of them is learned from
Making = Generator[None, None, dict[str, Any]]


class Bench:
    """Makes the cells of a setting in folders below `work`; `get` finds what is made already."""

    def __init__(self, setting: Setting, work: Path, get: Callable[[Cell], Mapping[str, Any] | None]) -> None:
        self.setting, self.work, self.get = setting, work, get

    def make(self, cell: Cell) -> Making:
        """Make a cell, giving the floor after every step or batch; what it came to is what is returned."""
        if isinstance(cell, Learn):
            return self._learn(cell)
        return self._measure(cell) if isinstance(cell, Measure) else self._classify(cell)

    def folder(self, cell: Cell) -> Path:
        """Where a cell is made."""
        return self.work / key(cell)

    def solver(self, cell: Measure) -> Solver:
        """The solver that a cell measures, from what was learned if it is a learned one."""
        if not cell.learned:
            return SOLVERS[cell.solver](cell.nfe, **cell.options)
        ends = [_known(self.get, end)["values"] for end in cell.learned]
        solvers = [SOLVERS[cell.solver].from_values(**values) for values in ends]
        return solvers[0] if len(solvers) == 1 else interpolate(solvers[0], solvers[1], cell.nfe)

    def sampling(self, cell: Measure) -> Sampling:
        """The images that a cell measures."""
        backbone = self.setting.load()
        with torch.no_grad():
            table = self.solver(cell)(backbone.schedule)
        return Sampling(
            backbone,
            table,
            self.setting.items,
            cell.guidance,
            IMAGES + cell.seed,
            cell.count,
            self.setting.batch,
        )

    def _measure(self, cell: Measure) -> Making:
        """A thin call of what `dual-solver evaluate` does; figures lose the name of who measured first."""
        who, folder, facts = (
            self.judges(cell.network, cell.keep),
            self.folder(cell),
            {"cell": key(cell), "batch": self.setting.batch},
        )
        extractors = {name: network.extractor for name, network in who.networks.items()}
        scores = {name: scorer.score for name, scorer in who.scores.items()}
        job = self.sampling(cell)
        for _ in evaluate(job, extractors, folder, facts, cell.keep, scores=scores):
            yield
        figures = report(gathered(folder, facts, job), who.references(), who.real)
        found: dict[str, Any] = {}
        for figure, value in figures.items():
            name = figure.partition(" (")[0]
            found[figure if name in found else name] = value
        return {"figures": found, **who.identity()}

    @cache  # noqa: B019  # a bench lives as long as its command
    def judges(self, networks: str, keep: int) -> Judges:
        """Who measures; real images are only looked at for precision and recall."""
        suite, device = self.setting.suite, self.setting.device
        names = self.setting.spec(networks).split(" + ")
        return judges(names, suite.clips, suite.real if keep else None, keep, device)

    def _learn(self, cell: Learn) -> Making:
        objective, facts = _objective(
            cell.objective, self.setting.spec(cell.through) if cell.through else "", self.setting.device
        )
        plan = Plan((cell.nfe,), cell.solver, cell.options, cell.recipe, None, {"cell": key(cell), **facts})
        task = yield from self._task(cell, objective, cell.seed, 1, cell.teacher_count)
        held = yield from self._task(cell, objective, HELD_OUT, HELD_OUT, cell.recipe.held_out)
        folder = self.folder(cell)
        for _ in learn(plan, task, held, folder):
            yield
        content = parameters.read(folder / parameters.NAME)
        run = content["provenance"]["runs"][str(cell.nfe)]
        hashes = [found for name in {*facts} - {"objective"} for found in facts[name].values()]
        result = {"values": content["solvers"][str(cell.nfe)], **run, "networks": hashes}
        log = map(json.loads, (folder / f"nfe-{cell.nfe}" / "log.jsonl").read_text().splitlines())
        result["curve"] = [[r["evaluations"], r["held_out"]] for r in log if r["held_out"] is not None]
        if not objective.teacher:
            best = plan.solver(cell.nfe, read_state(folder / f"nfe-{cell.nfe}" / "state.json").best_raw)
            recipe = replace(cell.recipe, held_out=cell.fresh)
            result["cross-entropy"] = held_out(best, replace(held, seed=FRESH), recipe, Workers())
        return result

    def _task(
        self, cell: Learn, objective: Objective, seed: int, teacher: int, count: int
    ) -> Generator[None, None, Task]:
        """What a cell learns, its teacher's samples made; `teacher` is their seed."""
        taught = self._teacher(cell, teacher, count) if objective.teacher else None
        for _ in taught.make() if taught else ():
            yield
        return Task(
            self.setting.load(),
            objective,
            self.setting.items,
            cell.guidance,
            seed,
            taught,
            self.setting.recompute,
            cell.recipe.batch,
        )

    def _teacher(self, cell: Learn, seed: int, count: int) -> Teacher:
        name, _, steps = cell.teacher.partition(":")
        backbone = self.setting.load()
        table = SOLVERS[name](int(steps))(backbone.schedule)
        path = cell.objective == "trajectory"
        return Teacher(
            backbone, table, self.setting.items, self.work / "teachers", cell.guidance, seed, count, path
        )

    def _classify(self, cell: Classify) -> Making:
        yield
        return classified(self.setting.spec(cell.classifier))


def _known(get: Callable[[Cell], Mapping[str, Any] | None], cell: Cell) -> Mapping[str, Any]:
    found = get(cell)
    assert found is not None, f"{key(cell)} is made before what needs it"
    return found


@cache
def _objective(name: str, through: str, device: str) -> tuple[Objective, dict[str, Any]]:
    names = through.split(" + ")
    return named.objective(name.split(), names, through, device, names)
