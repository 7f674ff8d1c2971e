"""A run folder: solvers for several NFEs learned one after the other, resumable after a kill at any moment.

    plan.json               what was asked for: the same plan continues, another one is refused
    nfe-4/state.json        where learning stands
    nfe-4/log.jsonl         a line a step
    scheduler_config.json   the artifact: the best solvers by held-out loss

A folder last/ holds an artifact with the solvers of the last step.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from .checks import check_choice
from .files import write_whole
from .fit import Recipe, Record, State, Workers, fit, put
from .parameters import save
from .solvers import SOLVERS
from .solvers.base import Learned
from .starts import start
from .task import Task

HELD_OUT = 10**9  # the seed of the held-out samples: the same for every run, whatever its own seed
PARTS = 40  # a run saves its state so many times: a kill costs one part of the work


@dataclass(frozen=True)
class Plan:
    """What defines a run: nothing of the clock or the machine, so that equal plans give equal bytes.

    patience: stop when the held-out loss was not beaten in so many looks; facts: what the artifact says of
    where it comes from (backbone, guidance, objective, seed, ...).
    """

    nfes: tuple[int, ...]
    method: str
    options: Mapping[str, Any]
    recipe: Recipe
    patience: int | None
    facts: Mapping[str, Any]

    def solver(self, nfe: int, raw: Sequence[float] = ()) -> Learned:
        """Return a new solver, with these raw scalars if there are any."""
        check_choice("method", self.method, tuple(SOLVERS))
        solver = SOLVERS[self.method](nfe, **self.options)
        if not isinstance(solver, Learned):
            raise ValueError(f"{self.method} has nothing to learn: take dual, bns or ds")
        if raw:
            put(solver, raw)
        return solver


def learn(
    plan: Plan, task: Task, held: Task, out: Path, workers: Workers | None = None
) -> Iterator[tuple[int, Record]]:
    """Learn every NFE of the plan into the folder `out`, from where it stands; yield (NFE, record)."""
    workers = workers or Workers()
    agree(plan, out)
    states: dict[int, State] = {}
    for nfe in sorted(plan.nfes):
        folder, solver = out / f"nfe-{nfe}", plan.solver(nfe)
        state = states[nfe] = read_state(folder / "state.json")
        if not state.raw:
            known = [plan.solver(n, states[n].best_raw) for n in states if n != nfe]
            state.start = start(solver, held, plan.recipe, known, workers)
        for record in _saved(
            fit(solver, task, held, plan.recipe, state, workers), state, folder, plan, workers
        ):
            yield nfe, record
        if workers.rank == 0:
            write(plan, task, states, out)


def agree(plan: Plan, out: Path) -> None:
    """Write the plan into a new folder; refuse a folder with another one."""
    path, text = out / "plan.json", json.dumps(asdict(plan), indent=2, default=str) + "\n"
    if not path.exists():
        return write_whole(path, text)
    before, now = json.loads(path.read_text()), json.loads(text)
    for name in now:
        if before.get(name) != now[name]:
            raise ValueError(
                f"{out} holds a run with {name} = {before.get(name)}, not {now[name]}: "
                "repeat its command to continue it, or take another folder"
            )
    return None


def read_state(path: Path) -> State:
    """Read where a run stands; nothing there is its beginning."""
    return State(**json.loads(path.read_text())) if path.exists() else State()


def _saved(
    records: Iterator[Record], state: State, folder: Path, plan: Plan, workers: Workers
) -> Iterator[Record]:
    """Pass records on, and save the state and the log in parts, and at the end."""
    part, log = max(1, plan.recipe.steps // PARTS), folder / "log.jsonl"
    lines = log.read_text().splitlines(keepends=True)[: state.step] if log.exists() else []
    while not _finished(state, plan):
        record = next(records)
        lines.append(json.dumps(asdict(record)) + "\n")
        if workers.rank == 0 and (state.step % part == 0 or _finished(state, plan)):
            write_whole(log, "".join(lines))
            write_whole(folder / "state.json", json.dumps(asdict(state)) + "\n")
        yield record


def _finished(state: State, plan: Plan) -> bool:
    """Whether the last step was done, or the held-out loss has not been beaten for long."""
    waited = (state.step - state.best_step) // plan.recipe.every
    return state.step >= plan.recipe.steps or (plan.patience is not None and waited >= plan.patience)


def write(plan: Plan, task: Task, states: Mapping[int, State], out: Path) -> None:
    """Write the artifacts of what has been learned so far."""
    runs = {
        str(nfe): {
            "held_out": state.best,
            "step": state.best_step,
            "steps": state.step,
            "evaluations": state.evaluations,
            "start": state.start,
        }
        for nfe, state in states.items()
    }
    for folder, raws in (
        (out, {nfe: state.best_raw for nfe, state in states.items()}),
        (out / "last", {nfe: state.mean for nfe, state in states.items()}),
    ):
        solvers: list[Any] = [plan.solver(nfe, raw) for nfe, raw in raws.items()]
        backbone = task.backbone
        save(solvers, folder, schedule=backbone.schedule, prediction=backbone.kind, **plan.facts, runs=runs)
