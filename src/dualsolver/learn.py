"""A run folder: solvers for several NFEs learned one after the other, resumable after a kill at any moment.

    plan.json               what was asked for: the same plan continues, another one is refused
    nfe-4/state.json        where learning stands
    nfe-4/log.jsonl         a line a step
    scheduler_config.json   the artifact: the best solvers by held-out loss

A folder last/ holds an artifact with the solvers of the last step.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

from .checks import check_choice, number, numbers, whole
from .files import alone, read_object, write_whole
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
    with alone(out, workers.rank):
        agree(plan, out)
        states: dict[int, State] = {}
        for nfe in sorted(plan.nfes):
            folder, solver = out / f"nfe-{nfe}", plan.solver(nfe)
            state = states[nfe] = read_state(folder / "state.json")
            if not state.raw:
                known = [plan.solver(n, states[n].best_raw) for n in states if n != nfe]
                state.start = start(solver, held, plan.recipe, known, workers)
            records = fit(solver, task, held, plan.recipe, state, workers)
            for record in _saved(records, state, folder, plan, workers):
                yield nfe, record
            if workers.rank == 0:
                write(plan, task, states, out)


def agree(plan: Plan, out: Path) -> None:
    """Write the plan into a new folder; refuse a folder with another one."""
    path, text = out / "plan.json", json.dumps(asdict(plan), indent=2, default=str) + "\n"
    if not path.exists():
        return write_whole(path, text)
    before, now = read_object(path, "take another folder"), json.loads(text)
    for name in {**now, **before}:
        if before.get(name) != now.get(name):
            raise ValueError(
                f"{out} holds a run with {name} = {before.get(name)!r}, not {now.get(name)!r}: "
                "repeat its command to continue it, or take another folder"
            )
    return None


def read_state(path: Path) -> State:
    """Read where a run stands; nothing there is its beginning."""
    if not path.exists():
        return State()
    remedy = f"delete {path.parent} to learn this NFE again"
    found = read_object(path, remedy)
    try:
        return _checked(found)
    except ValueError as error:
        raise ValueError(f"{path} is damaged ({error}): {remedy}") from None


def _checked(found: dict[str, Any]) -> State:
    """A state of what a file holds."""
    wanted = [field.name for field in fields(State)]
    if wrong := [name for name in (*wanted, *found) if (name in found) != (name in wanted)]:
        raise ValueError(f"{wrong[0]} is {'unknown' if wrong[0] in found else 'missing'}")
    for name in ("step", "evaluations", "best_step"):
        whole(name, found[name], 0)
    moments = found["moments"]
    if not isinstance(moments, list) or len(moments) not in (0, 2):
        raise ValueError(f"moments must be two lists, not {moments!r:.80}")
    lists = {name: found[name] for name in ("raw", "mean", "best_raw")}
    lists |= {f"moments[{i}]": moment for i, moment in enumerate(moments)}
    lengths = {name: len(numbers(name, values)) for name, values in lists.items()}
    if {n for name, n in lengths.items() if n or name != "best_raw"} != {lengths["raw"]}:
        raise ValueError(f"the lengths of {', '.join(f'{k} ({n})' for k, n in lengths.items())} do not agree")
    if found["best"] != math.inf:  # as long as no held-out loss was finite
        number("best", found["best"])
    if not isinstance(found["start"], str):
        raise ValueError(f"start must be a name, not {found['start']!r:.80}")
    return State(**found)


def _saved(
    records: Iterator[Record], state: State, folder: Path, plan: Plan, workers: Workers
) -> Iterator[Record]:
    """Pass records on, and save the state and the log in parts, at the end, and once the start is chosen."""
    part, log = max(1, plan.recipe.steps // PARTS), folder / "log.jsonl"
    lines = log.read_text().splitlines(keepends=True)[: state.step] if log.exists() else []
    while not _finished(state, plan):
        record = next(records)
        lines.append(json.dumps(asdict(record)) + "\n")
        due = state.step == 1 or state.step % part == 0 or _finished(state, plan)
        if workers.rank == 0 and due:
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
