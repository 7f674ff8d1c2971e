"""What is remembered of images that were looked at: sums that merge, in a file, whatever made them.

Every number that is reported has a standard error by the jackknife over `GROUPS` interleaved groups of
batches, so the sums are kept by group.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from safetensors import safe_open
from safetensors.torch import save
from torch import Tensor

from .features import Seen
from .files import write_whole
from .metrics import Accuracy, Moments

GROUPS = 10


@dataclass
class Tally:
    """Sums over batches of images, of one group: moments and hits by network, and of the pixels.

    pixels: the number of images, and the sums of each image's mean, standard deviation and clipped share.
    """

    moments: dict[str, Moments] = field(default_factory=dict)
    right: dict[str, Accuracy] = field(default_factory=dict)
    pixels: Tensor = field(default_factory=lambda: torch.zeros(4, dtype=torch.float64))

    def add(self, name: str, seen: Seen, classes: Tensor | None) -> None:
        """Add what a network saw of a batch."""
        self._merge(
            name, Moments.of(seen.features), None if classes is None else Accuracy.of(seen.logits, classes)
        )

    def look(self, images: Tensor) -> None:
        """Add the pixels of a batch in [0, 1], which may go beyond."""
        flat = images.double().flatten(1).cpu()
        clipped = ((flat <= 0) | (flat >= 1)).double().mean(1)
        inside = flat.clamp(0, 1)
        rows = torch.stack([torch.ones(len(flat)).double(), inside.mean(1), inside.std(1), clipped])
        self.pixels = self.pixels + rows.sum(1)

    def __add__(self, other: Tally) -> Tally:
        found = Tally(dict(self.moments), dict(self.right), self.pixels + other.pixels)
        for name, moments in other.moments.items():
            found._merge(name, moments, other.right.get(name))
        return found

    def _merge(self, name: str, moments: Moments, right: Accuracy | None) -> None:
        self.moments[name] = self.moments[name] + moments if name in self.moments else moments
        if right is not None:
            self.right[name] = self.right[name] + right if name in self.right else right


@dataclass
class Book:
    """The tallies of all groups, the features that were kept, and which batches are in them."""

    groups: dict[int, Tally] = field(default_factory=dict)
    kept: dict[str, list[Tensor]] = field(default_factory=dict)
    done: set[int] = field(default_factory=set)

    def tally(self, batch: int) -> Tally:
        """Return the tally that a batch belongs to."""
        return self.groups.setdefault(batch % GROUPS, Tally())

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
        kept = {name: [*self.kept.get(name, ()), *other.kept.get(name, ())] for name in names}
        return Book(groups, kept, self.done | other.done)

    def estimate(self, figure: Callable[[Tally], float]) -> tuple[float, float]:
        """Return a figure of all images, and its standard error by leaving out one group at a time."""
        parts = [tally for _, tally in sorted(self.groups.items())]
        value = figure(_sum(parts))
        if len(parts) < 3:
            return value, float("nan")
        without = [figure(_sum(parts[:i] + parts[i + 1 :])) for i in range(len(parts))]
        spread = torch.tensor(without, dtype=torch.float64)
        return value, float(((len(parts) - 1) * (spread - spread.mean()).square().mean()).sqrt())

    def save(self, path: Path, facts: dict[str, Any]) -> None:
        """Write the book, with the facts of its run, in one piece."""
        tensors, hits = {}, {}
        for group, tally in self.groups.items():
            tensors[f"{group}/pixels"] = tally.pixels
            for name, moments in tally.moments.items():
                tensors[f"{group}/{name}/mean"], tensors[f"{group}/{name}/scatter"] = (
                    moments.mean,
                    moments.scatter,
                )
                right = tally.right.get(name)
                hits[f"{group}/{name}"] = [moments.count, right and right.right, right and right.count]
        tensors |= {f"kept/{name}": torch.cat(rows) for name, rows in self.kept.items() if rows}
        notes = {"facts": json.dumps(facts), "done": json.dumps(sorted(self.done)), "hits": json.dumps(hits)}
        write_whole(path, save({k: v.contiguous() for k, v in tensors.items()}, notes))

    @classmethod
    def load(cls, path: Path, facts: dict[str, Any]) -> Book:
        """Read a book; one of another run is refused."""
        with safe_open(path, framework="pt") as file:
            notes = {name: json.loads(text) for name, text in file.metadata().items()}
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        for name, value in json.loads(json.dumps(facts)).items():
            if notes["facts"].get(name) != value:
                raise ValueError(
                    f"{path} counts images with {name} = {notes['facts'].get(name)}, not {value}: "
                    "repeat that command to go on, or take another folder"
                )
        book = cls(done=set(notes["done"]))
        for key, (count, right, of) in notes["hits"].items():
            group, name = key.split("/", 1)
            tally = book.groups.setdefault(int(group), Tally(pixels=tensors[f"{group}/pixels"]))
            tally.moments[name] = Moments(count, tensors[f"{key}/mean"], tensors[f"{key}/scatter"])
            if right is not None:
                tally.right[name] = Accuracy(right, of)
        book.kept = {k.removeprefix("kept/"): [v] for k, v in tensors.items() if k.startswith("kept/")}
        return book


def _sum(parts: Iterable[Tally]) -> Tally:
    total = Tally()
    for part in parts:
        total = total + part
    return total
