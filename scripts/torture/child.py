"""A command of dual-solver in a process of its own, whose work is counted in a file that outlives a kill.

    python child.py COUNTER COMMAND ...

COUNTER holds two numbers: whether the command has begun, and the evaluations of networks (for a training of
the zoo, the examples seen). TORTURE_CLOCK=1 sets the clock back an hour whenever somebody looks at it.
"""

from __future__ import annotations

import mmap
import os
import struct
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from dualsolver import prediction
from dualsolver.cli import main

Add = Callable[[int, int], None]


def counter(path: str) -> Add:
    """Return what adds to the number at a place in a file."""
    with open(path, "r+b") as file:
        memory = mmap.mmap(file.fileno(), 16)

    def add(place: int, amount: int) -> None:
        before = struct.unpack_from("q", memory, 8 * place)[0]
        struct.pack_into("q", memory, 8 * place, before + amount)

    return add


def count_networks(add: Add) -> None:
    """Count every evaluation, an image each."""
    real = prediction.Network.output

    def output(self: Any, x: torch.Tensor, t: torch.Tensor) -> torch.Tensor:
        add(1, len(x))
        return real(self, x, t)

    prediction.Network.output = output  # type: ignore[method-assign]


def small_zoo(add: Add) -> None:
    """Give the zoo a model that trains in a moment on random images, and a place of its own to write to."""
    from dualsolver.zoo import data, entries, fit, registry, training

    options = {"family": "mlp", "size": 4, "widths": [8], "dropout": 0.5}
    recipe = training.Recipe(steps=400, batch=16, warmup=20, ema=0.9, augment=2, seed=7)
    entries.ENTRIES["torture"] = entries.Entry("classifier", "for torture alone", recipe, options)
    generator = torch.Generator().manual_seed(0)
    pictures = torch.randint(0, 256, (160, 1, 32, 32), generator=generator, dtype=torch.uint8)
    images = data.Images(pictures, torch.randint(0, 10, (160,), generator=generator), "random")
    fit.dataset = lambda found: lambda split, given: images
    registry.WEIGHTS = Path("weights").absolute()
    real = training._step

    def step(run: Any, loss: Any, chosen: torch.Tensor) -> float:
        add(1, len(chosen))
        return real(run, loss, chosen)

    training._step = step


def clock_going_back() -> None:
    """Let every look at the clock find an hour less than the one before."""
    now = [time.time()]

    def earlier() -> float:
        now[0] -= 3600
        return now[0]

    time.time = earlier


if __name__ == "__main__":
    adding = counter(sys.argv[1])
    count_networks(adding)
    if sys.argv[2:4] == ["zoo", "train"]:
        small_zoo(adding)
    if os.environ.get("TORTURE_CLOCK"):
        clock_going_back()
    adding(0, 1)
    sys.exit(main(sys.argv[2:]))
