"""What `dual-solver evaluate` adds to its networks, how it shares its work, and what memory it needs.

Time outside the networks is that of the whole evaluation less that inside the backbone's network, its decoder
and the one that looks.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from time import perf_counter
from typing import Any, TypeVar

import torch
from torch import Tensor

import dualsolver as ds
from common import MODEL, THREADS, alone, answer, forget_peak, peak, table
from dualsolver import features
from dualsolver.backbones.base import Backbone
from dualsolver.backbones.toy import Mixture, Toy
from dualsolver.evaluate import evaluate
from dualsolver.features import Extractor
from dualsolver.sampling import Sampling

NFES, COUNT, BATCH = (3, 20), 400, 100
MANY = (500, 5_000, 50_000)
Found = TypeVar("Found")


class Clock:
    """How long calls took, those that it was told of."""

    def __init__(self) -> None:
        self.inside = 0.0

    def __call__(self, call: Callable[..., Found], *arguments: Any) -> Found:
        start = perf_counter()
        found = call(*arguments)
        self.inside += perf_counter() - start
        return found


class Watched(Backbone):
    """A backbone whose network and decoder a clock watches."""

    def __init__(self, inner: Backbone, clock: Clock) -> None:
        self.inner, self.clock, self.name, self.schedule = inner, clock, inner.name, inner.schedule
        self.kind, self.shape, self.classes, self.dtype = inner.kind, inner.shape, inner.classes, inner.dtype

    def conditions(self, items: Sequence[Any]) -> Any:
        return self.inner.conditions(items)

    def null(self, condition: Any) -> Any:
        return self.inner.null(condition)

    def model(self, x: Tensor, time: Tensor, condition: Any) -> Tensor:
        return self.clock(self.inner.model, x, time, condition)

    def decode(self, latents: Tensor, clamp: bool = True) -> Tensor:
        return self.clock(self.inner.decode, latents, clamp)


def made(
    backbone: Backbone, nfe: int, looks: Extractor, count: int, batch: int, rank: int = 0, ranks: int = 1
) -> float:
    """Evaluate this process's share of the images, and return the seconds."""
    with torch.no_grad(), tempfile.TemporaryDirectory() as folder:
        job = Sampling(backbone, ds.DPMpp(nfe)(backbone.schedule), backbone.classes, 1.5, 0, count, batch)
        start = perf_counter()
        for _ in evaluate(job, {"network": looks}, Path(folder), {}, rank=rank, count=ranks):
            pass
        return perf_counter() - start


def share(nfe: int) -> tuple[float, float]:
    """Seconds for images of the zoo's model, and the share of them outside the networks."""
    clock, judge = Clock(), features.of(ds.zoo.load("judge"))
    backbone = Watched(ds.zoo.load(MODEL), clock)
    made(backbone, 2, judge, BATCH, BATCH)  # whatever the first call of all sets up
    clock.inside = 0.0
    whole = made(backbone, nfe, lambda images: clock(judge, images), COUNT, BATCH)
    return whole, 1 - clock.inside / whole


def rank(number: int, ranks: int) -> float:
    """Seconds of one process's share of the images."""
    return made(ds.zoo.load(MODEL), 5, features.of(ds.zoo.load("judge")), COUNT, BATCH // 2, number, ranks)


def scaled(ranks: int) -> float:
    """Images a second of so many processes, a thread each."""
    with ThreadPoolExecutor(ranks) as pool:
        times: list[float] = list(pool.map(lambda i: alone("evaluation", "rank", i, ranks), range(ranks)))
    return COUNT / max(times)


def memory(count: int) -> float:
    """MB at the peak of evaluating so many images of the toy, beyond what the first ones took."""
    toy = Toy(Mixture([-1.0, 0.6, 1.5], [0.4, 0.5, 0.3]), ds.VP.linear(), (1, 8, 8))
    looks = features.load("pixels")
    made(toy, 3, looks, 2 * BATCH, BATCH)
    before = forget_peak()
    made(toy, 3, looks, count, BATCH)
    return peak() - before


def one(what: str, *case: int) -> float:
    """One of these two in a process of its own."""
    torch.set_num_threads(1)
    return rank(*case) if what == "rank" else memory(*case)


def measured() -> str:
    """Three tables: shares, processes, memory."""
    found = {nfe: share(nfe) for nfe in NFES}
    shares = [(str(nfe), whole, f"{100 * part:.1f} %") for nfe, (whole, part) in found.items()]
    single, *more = [scaled(ranks) for ranks in range(1, max(2, THREADS) + 1)]
    speeds = [(str(ranks), speed, speed / single) for ranks, speed in enumerate([single, *more], 1)]
    peaks = [(f"{count:,}", alone("evaluation", "memory", count)) for count in MANY]
    return "\n\n".join(
        [
            f"**Evaluation**: {COUNT} images of `{MODEL}` at guidance 1.5, DPM-Solver++, seen by the judge, "
            f"{THREADS} threads",
            table(["NFE", "s", "outside the networks"], shares),
            "**Processes**, a thread each, NFE 5, loading left out",
            table(["processes", "images a second", "times one"], speeds),
            "**Memory** beyond that after 200 images, by the toy backbone",
            table(["images", "MB"], peaks),
        ]
    )


if __name__ == "__main__":
    answer(one)
