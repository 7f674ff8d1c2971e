"""Training an entry of the zoo: state in a folder of runs, the finished model beside the code."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import Any

import torch

from ..files import alone, write_whole
from .data import read
from .emoji import data as emoji
from .entries import Entry, entry
from .latents import latents
from .registry import home, path, remember
from .task import Task
from .training import Record, Run, seed_of, train

SAVINGS = 40  # at least, in a run
TASKS = {  # kind -> module and name of the function that makes its task
    "classifier": ("classifiers", "task"),
    "features": ("classifiers", "task"),
    "autoencoder": ("autoencoder", "task"),
    "dit": ("generators", "dit_task"),
    "gmdit": ("generators", "gmdit_task"),
    "clip": ("emoji.clips", "task"),
    "compressor": ("emoji.compressor", "task"),
    "pixart": ("emoji.pixart", "task"),
    "sana": ("emoji.sana", "task"),
}


def prepare(name: str, runs: Path, data: str | None = None) -> tuple[Entry, Task]:
    """Read what a training needs and make the untrained model from the recipe's seed."""
    found = entry(name)
    images = dataset(found)("train", data)
    module, function = TASKS[found.kind]
    make = getattr(import_module(f".{module}", __package__), function)
    given = latents(images, runs, found.latents) if found.latents else (found.recipe.augment, images)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed_of(found.recipe.seed, 0))
        return found, make(found.options, *given)


def dataset(found: Entry) -> Any:
    """What reads the data that an entry is trained on."""
    return emoji.read if found.data == "emoji" else read


def fit(
    name: str,
    runs: Path,
    data: str | None = None,
    often: float = 60.0,
    stop: Callable[[], bool] = lambda: False,
    further: bool = False,
    watch: int = 0,
    changes: Mapping[str, Any] | None = None,
) -> Iterator[tuple[Record, int]]:
    """Train or continue an entry; yield each record with the number of steps in all.

    The state is written every `often` seconds and at least `SAVINGS` times a run, so that a kill costs no
    more than that, and when `stop` says so; after the last step the averaged model is written to the zoo. A
    new run starts `further` along, from the shipped weights, if it is told to. `watch`: after so many steps,
    again and again, the distance of a generator goes to distances.csv. `changes`: of the recipe.
    """
    with alone(runs / name):
        found, task = prepare(name, runs, data)
        recipe = replace(found.recipe, **(changes or {}))
        state = runs / name / "state.safetensors"
        earlier = _shipped(name, task) if further and not state.exists() else []
        run = Run(task.model, recipe, state, earlier)
        for record in train(run, task.loss, task.count, stop=stop, stepped=_saving(run, often)):
            if watch and record.step % watch == 0:
                _watch(name, run, runs / name / "distances.csv")
            yield record, recipe.steps
        run.save()
        if run.step == recipe.steps:
            finish(run, task, home(name))
            remember(name)


def _saving(run: Run, often: float) -> Callable[[], None]:
    """What saves a run that is called after each step, when it is time again."""
    saved, step = time.monotonic(), run.step

    def stepped() -> None:
        nonlocal saved, step
        if time.monotonic() - saved > often or run.step - step >= max(1, run.recipe.steps // SAVINGS):
            run.save()
            saved, step = time.monotonic(), run.step

    return stepped


def _watch(name: str, run: Run, path: Path) -> None:
    """Add the distance of the averaged model to a file; rows of steps that a kill undid go."""
    from .measure import watched

    rows = path.read_text().splitlines()[1:] if path.exists() else []
    rows = [row for row in rows if int(row.partition(",")[0]) < run.step]
    rows.append(f"{run.step},{watched(name, run.average):.4f}")
    write_whole(path, "step,distance\n" + "".join(f"{row}\n" for row in rows))


PARTS = {  # kind -> the folders of its weights, and what their names begin with in training
    "dit": {"transformer": ""},
    "gmdit": {"transformer": ""},
    "pixart": {"transformer": "transformer.", "text_encoder": "text."},
    "sana": {"transformer": "transformer.", "text_encoder": "text."},
}


def _shipped(name: str, task: Task) -> list[list[int]]:
    """Load the shipped weights into a task's model; return how they were trained."""
    from safetensors.torch import load

    folder, state = path(name), dict[str, torch.Tensor]()
    for part, prefix in PARTS.get(entry(name).kind, {"": ""}).items():
        for file in (folder / part).glob("*.safetensors"):
            state |= {prefix + key: value.float() for key, value in load(file.read_bytes()).items()}
    twice = {"text.encoder.embed_tokens.weight": "text.shared.weight"}  # T5's, which files hold once
    state |= {key: state[other] for key, other in twice.items() if other in state}
    task.model.load_state_dict(state)
    plans: list[list[int]] = json.loads((folder / "plans.json").read_text())
    return plans


def finish(run: Run, task: Task, folder: Path) -> None:
    """Write the averaged model and the log of its loss."""
    run.model.load_state_dict(run.average)
    run.model.eval()
    task.export(folder)
    write_whole(folder / "plans.json", json.dumps(run.plans) + "\n")
    write_whole(folder / "loss.csv", "step,loss\n" + "".join(f"{int(s)},{v}\n" for s, v in run.log))
