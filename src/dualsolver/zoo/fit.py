"""Training an entry of the zoo: state in a folder of runs, the finished model beside the code."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import torch

from ..files import write_whole
from . import autoencoder, classifiers
from .data import read
from .entries import Entry, entry
from .registry import home, load, path, remember
from .task import Task
from .training import Record, Run, seed_of, train


def prepare(name: str, runs: Path, data: str | None = None) -> tuple[Entry, Task]:
    """Read what a training needs and make the untrained model from the recipe's seed."""
    found = entry(name)
    images = read("train", data)
    with torch.random.fork_rng(devices=[]):
        if found.kind in ("dit", "gmdit"):
            from . import generators
            from .latents import latents

            clean, classes = latents(images, runs)
            torch.manual_seed(seed_of(found.recipe.seed, 0))
            make = generators.dit_task if found.kind == "dit" else generators.gmdit_task
            return found, make(found.options, clean, classes)
        torch.manual_seed(seed_of(found.recipe.seed, 0))
        kinds = {"classifier": classifiers.task, "autoencoder": autoencoder.task}
        return found, kinds[found.kind](found.options, found.recipe.augment, images)


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
