"""Sampling at scale: images that depend on their index alone, summed up as they come, resumable."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor

from .backbones.base import Backbone
from .clip import Score
from .draws import draw
from .features import Extractor
from .files import write_whole
from .images import png, png_path, to_bytes
from .metrics import frechet, precision_recall
from .sample import sample
from .statistics import Statistics
from .table import Table
from .tally import Book, Tally, jackknife

EVERY = 20  # batches between two savings; their prompts are encoded at once


class Batch(NamedTuple):
    """Unclamped images, what was asked for, and the classes if that is what it was."""

    images: Tensor
    items: list[Any]
    classes: Tensor | None


@dataclass(frozen=True)
class Sampling:
    """Which images: `count` samples of a table on a backbone, in batches of `batch`.

    items: the classes to draw from, or the prompts, which are taken in turn.
    """

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

    def indices(self, batch: int) -> range:
        """The numbers of the images of a batch."""
        return range(batch * self.batch, min(self.count, (batch + 1) * self.batch))

    def _prompts(self, batch: int) -> list[Any]:
        return [self.items[i % len(self.items)] for i in self.indices(batch)]

    def _drawn(self, batch: int) -> tuple[Tensor, list[Any]]:
        noise, items = draw(self.backbone.shape, self.items, self.seed, self.indices(batch))
        return noise, items if self.backbone.classes else self._prompts(batch)

    def asked(self, count: int) -> list[Any]:
        """What the first images are asked to be: classes or prompts."""
        batches = range(-(-count // self.batch))
        return [item for batch in batches for item in self._drawn(batch)[1]][:count]

    def encode(self, batches: Sequence[int]) -> None:
        """Let the backbone know the prompts of some batches: it loads its text encoders once for all."""
        if not self.backbone.classes:
            self.backbone.conditions([prompt for batch in batches for prompt in self._prompts(batch)])

    @torch.no_grad()
    def images(self, batch: int) -> Batch:
        """Make one batch."""
        noise, items = self._drawn(batch)
        condition = self.backbone.conditions(items)
        start = self.backbone.schedule.prior(noise.to(self.backbone.device))
        latents = sample(self.backbone.predict(condition, self.guidance), start, self.table)
        images = self.backbone.decode(latents, clamp=False)
        return Batch(images, items, condition if torch.is_tensor(condition) else None)


@dataclass(frozen=True)
class Looks:
    """What is remembered of images: what networks see and scorers say, features of the first `keep`."""

    extractors: Mapping[str, Extractor]
    scores: Mapping[str, Score]
    keep: int = 0

    @torch.no_grad()
    def add(self, book: Book, sampling: Sampling, number: int, batch: Batch) -> None:
        """Count a batch: all of it or, if something fails, nothing."""
        tally, kept, images = Tally(), {}, batch.images.clamp(0, 1)
        tally.look(batch.images)
        for name, extractor in self.extractors.items():
            seen = extractor(images)
            known = batch.classes is not None and int(batch.classes.max()) < seen.logits.shape[1]
            tally.add(name, seen, batch.classes if known else None)
            if seen.spatial is not None:
                tally.add(f"{name}, spatial", seen._replace(features=seen.spatial), None)
            rows = max(0, self.keep - number * sampling.batch)
            if rows:
                kept[name] = seen.features[:rows].float().cpu()
        for name, score in self.scores.items():
            tally.score(name, score(images, batch.items))
        for name, features in kept.items():
            book.kept.setdefault(name, {})[number] = features
        book.add(number, tally)


def evaluate(
    sampling: Sampling,
    extractors: Mapping[str, Extractor],
    folder: Path,
    facts: Mapping[str, Any],
    keep: int = 0,
    rank: int = 0,
    count: int = 1,
    scores: Mapping[str, Score] | None = None,
    write: int = 0,
) -> Iterator[int]:
    """Look at all images, or this process's share of what is missing; yield how many of its share it has.

    Sums go to a file of their own for each process, with the batches that are in them: nothing is counted
    twice, however often and by however many processes a run was stopped and continued. `keep`: of how many
    images features are kept, for precision and recall. `write`: how many images become PNG files, which a
    folder that has its sums gets, too.
    """
    settings = {"count": sampling.count, "seed": sampling.seed, "guidance": sampling.guidance, "keep": keep}
    facts, path = {**facts, **settings}, folder / f"{rank}-of-{count}.safetensors"
    books = {file: Book.load(file, facts) for file in _books(folder)}
    book, done = books.get(path, Book()), {number for found in books.values() for number in found.done}
    share, looks = sampling.batches()[rank::count], Looks(extractors, scores or {}, keep)
    todo = [number for number in share if number not in done]
    made = sum(len(sampling.indices(number)) for number in share if number in done)
    yield made
    for part in (todo[i : i + EVERY] for i in range(0, len(todo), EVERY)):
        sampling.encode(part)
        try:
            for number in part:
                batch = sampling.images(number)
                _draw(sampling, number, batch.images, folder, write)
                looks.add(book, sampling, number, batch)
                made += len(batch.images)
                yield made
        finally:  # whatever stops it, what was counted is kept
            book.save(path, facts)
    for number in share[: -(-write // sampling.batch)]:
        if _missing(sampling, number, folder, write):
            _draw(sampling, number, sampling.images(number).images, folder, write)
            yield made


def _missing(sampling: Sampling, number: int, folder: Path, write: int) -> list[int]:
    """The images of a batch that are yet to become files."""
    return [i for i in sampling.indices(number) if i < write and not png_path(folder, i).exists()]


def _draw(sampling: Sampling, number: int, images: Tensor, folder: Path, write: int) -> None:
    for i in _missing(sampling, number, folder, write):
        picture = to_bytes(images[i - number * sampling.batch][None])[0]
        write_whole(png_path(folder, i), png(picture))


def _books(folder: Path) -> list[Path]:
    return sorted(folder.glob("*-of-*.safetensors"))


def gathered(folder: Path, facts: Mapping[str, Any], sampling: Sampling | None = None) -> Book:
    """Merge the books of all processes; of a whole sampling, if one is given."""
    book = Book()
    for file in _books(folder):
        book = book + Book.load(file, dict(facts))
    if sampling is not None and (missing := set(sampling.batches()) - book.done):
        raise ValueError(
            f"{len(missing)} of {len(sampling.batches())} batches are missing in {folder}: repeat the "
            "command to make them, or copy the *-of-*.safetensors of other machines there first"
        )
    return book


def report(
    book: Book, references: Mapping[str, Statistics], real: Mapping[str, Tensor] | None = None
) -> dict[str, Any]:
    """Every figure with its standard error: distance and accuracy by network, scores, and of the pixels."""
    found: dict[str, Any] = {"images": int(sum(t.pixels[0] for t in book.groups.values()))}
    for name, reference in references.items():
        found[f"frechet ({name})"] = book.estimate(partial(_frechet, name, reference))
        if all(name in tally.right for tally in book.groups.values()):
            found[f"accuracy ({name})"] = book.estimate(partial(_accuracy, name))
    for name in sorted({name for tally in book.groups.values() for name in tally.scores}):
        found[name] = book.estimate(partial(_score, name))
    for name, features in (real or {}).items():
        if rows := book.rows(name):
            figures = jackknife(rows, partial(_precision_recall, features))
            found[f"precision ({name})"], found[f"recall ({name})"] = figures
            found[f"precision and recall of ({name})"] = sum(map(len, rows))
    for i, name in enumerate(("mean", "deviation", "clipped"), 1):
        found[f"pixel {name}"] = book.estimate(partial(_pixels, i))
    return found


def _frechet(name: str, reference: Statistics, tally: Tally) -> float:
    return frechet(tally.moments[name].statistics(), reference)


def _accuracy(name: str, tally: Tally) -> float:
    return tally.right[name].share


def _score(name: str, tally: Tally) -> float:
    count, total = tally.scores[name]
    return total / count


def _precision_recall(real: Tensor, parts: Sequence[Tensor]) -> tuple[float, float]:
    return precision_recall(real, torch.cat(list(parts)))


def _pixels(which: int, tally: Tally) -> float:
    return float(tally.pixels[which] / tally.pixels[0])
