"""Training an entry of the zoo: state in a folder of runs, the finished model beside the code."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import torch

from ..files import write_whole
from .data import read
from .emoji import data as emoji
from .entries import Entry, entry
from .latents import latents
from .registry import home, load, path, remember
from .task import Task
from .training import Record, Run, seed_of, train

TASKS = {  # kind -> module and name of the function that makes its task
    "classifier": ("classifiers", "task"),
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
) -> Iterator[tuple[Record, int]]:
    """Train or continue an entry; yield each record with the number of steps in all.

    The state is written every `often` seconds and when `stop` says so; after the last step the averaged
    model is written to the zoo. A new run starts `further` along, from the shipped weights, if it is told to.
    """
    found, task = prepare(name, runs, data)
    state = runs / name / "state.safetensors"
    earlier = _shipped(name, task) if further and not state.exists() else []
    run = Run(task.model, found.recipe, state, earlier)
    saved = time.monotonic()
    for record in train(run, task.loss, task.count, stop=stop):
        if time.monotonic() - saved > often:
            run.save()
            saved = time.monotonic()
        yield record, found.recipe.steps
    run.save()
    if run.step == found.recipe.steps:
        finish(run, task, home(name))
        remember(name)


def _shipped(name: str, task: Task) -> list[list[int]]:
    """Load the shipped weights into a task's model; return how they were trained."""
    folder = path(name)
    shipped = load(name)
    shipped = getattr(shipped, "transformer", shipped)
    task.model.load_state_dict({key: value.float() for key, value in shipped.state_dict().items()})
    plans: list[list[int]] = json.loads((folder / "plans.json").read_text())
    return plans


def finish(run: Run, task: Task, folder: Path) -> None:
    """Write the averaged model and the log of its loss."""
    run.model.load_state_dict(run.average)
    run.model.eval()
    task.export(folder)
    write_whole(folder / "plans.json", json.dumps(run.plans) + "\n")
    write_whole(folder / "loss.csv", "step,loss\n" + "".join(f"{int(s)},{v}\n" for s, v in run.log))
