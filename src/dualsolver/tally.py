"""What is remembered of images that were looked at: sums that merge, in a file, whatever made them.

Every number that is reported has a standard error by the jackknife over `GROUPS` interleaved groups of
batches, so the sums are kept by group.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor

from .checks import number, whole
from .features import Seen
from .files import write_whole
from .metrics import Accuracy, Moments

GROUPS = 10
Part = TypeVar("Part")


class Estimate(NamedTuple):
    """A figure, its standard error if there are parts enough for one, and what it is without each part."""

    value: float
    error: float | None
    without: tuple[float, ...]


@dataclass
class Tally:
    """Sums over batches of images, of one group: moments and hits by network, scores, and of the pixels.

    scores: how many, and their sum. pixels: the number of images, and the sums of each image's mean, standard
    deviation and clipped share.
    """

    moments: dict[str, Moments] = field(default_factory=dict)
    right: dict[str, Accuracy] = field(default_factory=dict)
    scores: dict[str, tuple[int, float]] = field(default_factory=dict)
    pixels: Tensor = field(default_factory=lambda: torch.zeros(4, dtype=torch.float64))

    def add(self, name: str, seen: Seen, classes: Tensor | None) -> None:
        """Add what a network saw of a batch."""
        self._merge(
            name, Moments.of(seen.features), None if classes is None else Accuracy.of(seen.logits, classes)
        )

    def score(self, name: str, values: Tensor) -> None:
        """Add a score of each image of a batch."""
        self._mark(name, len(values), float(values.double().sum()))

    def look(self, images: Tensor) -> None:
        """Add the pixels of a batch in [0, 1], which may go beyond."""
        flat = images.double().flatten(1).cpu()
        clipped = ((flat <= 0) | (flat >= 1)).double().mean(1)
        inside = flat.clamp(0, 1)
        rows = torch.stack([torch.ones(len(flat)).double(), inside.mean(1), inside.std(1), clipped])
        self.pixels = self.pixels + rows.sum(1)

    def __add__(self, other: Tally) -> Tally:
        found = Tally(dict(self.moments), dict(self.right), dict(self.scores), self.pixels + other.pixels)
        for name, moments in other.moments.items():
            found._merge(name, moments, other.right.get(name))
        for name, score in other.scores.items():
            found._mark(name, *score)
        return found

    def _mark(self, name: str, count: int, total: float) -> None:
        before = self.scores.get(name, (0, 0.0))
        self.scores[name] = before[0] + count, before[1] + total

    def _merge(self, name: str, moments: Moments, right: Accuracy | None) -> None:
        self.moments[name] = self.moments[name] + moments if name in self.moments else moments
        if right is not None:
            self.right[name] = self.right[name] + right if name in self.right else right


@dataclass
class Book:
    """The tallies of all groups, features kept of some batches, and which batches are in them."""

    groups: dict[int, Tally] = field(default_factory=dict)
    kept: dict[str, dict[int, Tensor]] = field(default_factory=dict)
    done: set[int] = field(default_factory=set)

    def add(self, batch: int, tally: Tally) -> None:
        """Count a batch."""
        group = batch % GROUPS
        self.groups[group] = self.groups.get(group, Tally()) + tally
        self.done.add(batch)

    def __add__(self, other: Book) -> Book:
        if both := self.done & other.done:
            raise ValueError(
                f"batches {sorted(both)[:5]} are counted twice: the files belong to different runs"
            )
        empty = Tally()
        groups = {
            g: self.groups.get(g, empty) + other.groups.get(g, empty) for g in {*self.groups, *other.groups}
        }
        names = {*self.kept, *other.kept}
        kept = {name: self.kept.get(name, {}) | other.kept.get(name, {}) for name in names}
        return Book(groups, kept, self.done | other.done)

    def estimate(self, figure: Callable[[Tally], float]) -> Estimate:
        """Return a figure of all images, and its standard error by leaving out one group at a time."""
        parts = [tally for _, tally in sorted(self.groups.items())]
        [found] = jackknife(parts, lambda some: [figure(_sum(some))])
        return found

    def rows(self, name: str) -> list[Tensor]:
        """The features that were kept, by group."""
        found: dict[int, list[Tensor]] = {}
        for batch, features in sorted(self.kept.get(name, {}).items()):
            found.setdefault(batch % GROUPS, []).append(features)
        return [torch.cat(group) for group in found.values()]

    def save(self, path: Path, facts: dict[str, Any]) -> None:
        """Write the book, with the facts of its run, in one piece."""
        tensors, hits, scores = {}, {}, {}
        for group, tally in self.groups.items():
            tensors[f"{group}/pixels"], scores[group] = tally.pixels, tally.scores
            for name, moments in tally.moments.items():
                tensors[f"{group}/{name}/mean"], tensors[f"{group}/{name}/scatter"] = (
                    moments.mean,
                    moments.scatter,
                )
                right = tally.right.get(name)
                hits[f"{group}/{name}"] = [moments.count, right and right.right, right and right.count]
        for name, batches in self.kept.items():
            tensors |= {f"kept/{batch}/{name}": rows for batch, rows in batches.items()}
        known = {"facts": facts, "done": sorted(self.done), "hits": hits, "scores": scores}
        notes = {"notes": json.dumps(known)}  # one alone: safetensors puts several in any order
        write_whole(path, save({k: v.contiguous() for k, v in tensors.items()}, notes))

    @classmethod
    def load(cls, path: Path, facts: dict[str, Any]) -> Book:
        """Read a book; one of another run is refused."""
        try:
            with safe_open(path, framework="pt") as file:
                notes = json.loads((file.metadata() or {})["notes"])
                tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
            known = dict(notes["facts"])
            book = cls._of(notes, tensors)
        except (AttributeError, KeyError, RecursionError, SafetensorError, TypeError, ValueError) as error:
            reason = f"it lacks {error.args[0]}" if isinstance(error, KeyError) else error
            raise ValueError(
                f"{path} is damaged ({reason}): delete it, and its share is made again"
            ) from None
        for name, value in json.loads(json.dumps(facts)).items():
            if known.get(name) != value:
                raise ValueError(
                    f"{path} counts images with {name} = {known.get(name)}, not {value}: "
                    "repeat that command to go on, or take another folder"
                )
        return book

    @classmethod
    def _of(cls, notes: dict[str, Any], tensors: dict[str, Tensor]) -> Book:
        """The book that a file's notes and tensors make."""
        book = cls(done={whole("done", batch, 0) for batch in notes["done"]})
        for group, scores in notes["scores"].items():
            marks = {
                name: (whole(name, count), number(name, total)) for name, (count, total) in scores.items()
            }
            book.groups[int(group)] = Tally(scores=marks, pixels=_sums(tensors, f"{group}/pixels", 4))
        for key, (count, right, of) in notes["hits"].items():
            group, name = key.split("/", 1)
            tally, mean = book.groups[int(group)], _sums(tensors, f"{key}/mean", -1)
            scatter = _sums(tensors, f"{key}/scatter", len(mean), len(mean))
            tally.moments[name] = Moments(whole(f"hits of {key}", count), mean, scatter)
            if right is not None:
                tally.right[name] = Accuracy(whole(f"hits of {key}", right, 0), whole(f"hits of {key}", of))
        for key in (key for key in tensors if key.startswith("kept/")):
            _, batch, name = key.split("/", 2)
            book.kept.setdefault(name, {})[int(batch)] = _sums(tensors, key, -1, -1)
        return book


def _sums(tensors: dict[str, Tensor], name: str, *shape: int) -> Tensor:
    """A tensor of finite numbers, of a shape where -1 is any length."""
    found = tensors[name]
    fits = len(shape) == found.ndim and all(n in (-1, m) for n, m in zip(shape, found.shape, strict=True))
    if not (fits and found.is_floating_point() and bool(found.isfinite().all())):
        raise ValueError(f"{name} must hold finite numbers of shape {shape}, not {found.dtype} {found.shape}")
    return found


def jackknife(parts: Sequence[Part], figures: Callable[[list[Part]], Sequence[float]]) -> list[Estimate]:
    """Return figures of all parts, each with its standard error by leaving out one part at a time.

    >>> [found] = jackknife([1.0, 2.0, 6.0], lambda some: [sum(some) / len(some)])
    >>> found.value, round(found.error, 9)  # the usual standard error of a mean, sqrt(7 / 3)
    (3.0, 1.527525232)
    """
    values = figures(list(parts))
    if len(parts) < 3:
        return [Estimate(value, None, ()) for value in values]
    without = zip(*(figures([*parts[:i], *parts[i + 1 :]]) for i in range(len(parts))), strict=True)
    return [Estimate(value, spread(rest), rest) for value, rest in zip(values, without, strict=True)]


def spread(without: Sequence[float]) -> float:
    """The jackknife's standard error, from the figures without each part."""
    values = torch.tensor(without, dtype=torch.float64)
    return float(((len(values) - 1) * (values - values.mean()).square().mean()).sqrt())


def _sum(parts: Iterable[Tally]) -> Tally:
    total = Tally()
    for part in parts:
        total = total + part
    return total
