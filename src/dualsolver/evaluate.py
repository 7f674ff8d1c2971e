"""Sampling at scale: images that depend on their index alone, summed up as they come, resumable."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from .backbones.base import Backbone
from .draws import draw
from .features import Extractor
from .metrics import frechet, precision_recall
from .sample import sample
from .statistics import Statistics
from .table import Table
from .tally import Book, Tally

EVERY = 20  # batches between two savings


@dataclass(frozen=True)
class Sampling:
    """Which images: `count` samples of a table on a backbone, in batches of `batch`."""

    backbone: Backbone
    table: Table
    items: Sequence[Any]
    guidance: float
    seed: int
    count: int
    batch: int = 100

    def batches(self) -> range:
        """The numbers of the batches."""
        return range(-(-self.count // self.batch))

    @torch.no_grad()
    def images(self, batch: int) -> tuple[Tensor, Any]:
        """Make one batch: unclamped images and their conditions."""
        indices = range(batch * self.batch, min(self.count, (batch + 1) * self.batch))
        noise, items = draw(self.backbone.shape, self.items, self.seed, indices)
        condition = self.backbone.conditions(items)
        start = self.backbone.schedule.prior(noise.to(self.backbone.device))
        latents = sample(self.backbone.predict(condition, self.guidance), start, self.table)
        return self.backbone.decode(latents, clamp=False), condition


def evaluate(
    sampling: Sampling,
    extractors: Mapping[str, Extractor],
    folder: Path,
    facts: Mapping[str, Any],
    keep: int = 0,
    rank: int = 0,
    count: int = 1,
) -> Iterator[int]:
    """Look at all images, or this process's share of what is missing; yield how many it has done.

    Sums go to a file of their own for each process, with the batches that are in them: nothing is counted
    twice, however often and by however many processes a run was stopped and continued. `keep`: of how many
    images features are kept, for precision and recall.
    """
    facts = {
        **facts,
        "count": sampling.count,
        "seed": sampling.seed,
        "guidance": sampling.guidance,
        "keep": keep,
    }
    done, path, book = set(), folder / f"{rank}-of-{count}.safetensors", Book()
    for file in sorted(folder.glob("*-of-*.safetensors")):
        found = Book.load(file, facts)
        book = found if file == path else book
        done |= found.done
    mine = [batch for batch in sampling.batches()[rank::count] if batch not in done]
    for number, batch in enumerate(mine, 1):
        _look(sampling, batch, extractors, book, keep)
        if number % EVERY == 0 or number == len(mine):
            book.save(path, facts)
        yield number * sampling.batch


def _look(sampling: Sampling, batch: int, extractors: Mapping[str, Extractor], book: Book, keep: int) -> None:
    """Make a batch and add what is to be known of it to the book."""
    images, condition = sampling.images(batch)
    tally = book.tally(batch)
    tally.look(images)
    classes = condition if torch.is_tensor(condition) else None
    for name, extractor in extractors.items():
        with torch.no_grad():
            seen = extractor(images.clamp(0, 1))
        known = classes is not None and int(classes.max()) < seen.logits.shape[1]
        tally.add(name, seen, classes if known else None)
        if batch * sampling.batch < keep:
            book.kept.setdefault(name, []).append(seen.features.float().cpu())
    book.done.add(batch)


def gathered(folder: Path, facts: Mapping[str, Any]) -> Book:
    """Merge the books of all processes."""
    book = Book()
    for file in sorted(folder.glob("*-of-*.safetensors")):
        book = book + Book.load(file, dict(facts))
    return book


def report(
    book: Book, references: Mapping[str, Statistics], real: Mapping[str, Tensor] | None = None
) -> dict[str, Any]:
    """Every figure with its standard error: distance and accuracy by network, and of the pixels."""
    found: dict[str, Any] = {"images": int(sum(t.pixels[0] for t in book.groups.values()))}
    for name, reference in references.items():
        found[f"frechet ({name})"] = book.estimate(partial(_frechet, name, reference))
        if all(name in tally.right for tally in book.groups.values()):
            found[f"accuracy ({name})"] = book.estimate(partial(_accuracy, name))
    for i, name in enumerate(("mean", "deviation", "clipped"), 1):
        found[f"pixel {name}"] = book.estimate(partial(_pixels, i))
    for name, features in (real or {}).items():
        if rows := book.kept.get(name):
            precision, recall = precision_recall(features, torch.cat(rows))
            found[f"precision ({name})"], found[f"recall ({name})"] = precision, recall
    return found


def _frechet(name: str, reference: Statistics, tally: Tally) -> float:
    return frechet(tally.moments[name].statistics(), reference)


def _accuracy(name: str, tally: Tally) -> float:
    return tally.right[name].share


def _pixels(which: int, tally: Tally) -> float:
    return float(tally.pixels[which] / tally.pixels[0])
