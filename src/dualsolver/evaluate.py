"""Sampling at scale: images that depend on their index alone, summed up as they come, resumable."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from .clip import Score
from .features import Extractor, Seen
from .files import alone
from .images import png_path
from .metrics import frechet, precision_recall
from .pictures import save_png
from .sampling import Batch, Sampling
from .statistics import Statistics
from .tally import Book, Estimate, Tally, jackknife

EVERY = 20  # batches whose prompts are encoded at once
PARTS = 40  # of a process's share, with a saving after each: a kill costs no more than that;
QUICK, SHARE = 0.5, 30  # but one that takes more seconds waits until it is one part in so many of the time


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
        classes = None if batch.classes is None else batch.classes.cpu()
        tally.look(batch.images)
        for name, extractor in self.extractors.items():
            seen = extractor(images)
            seen = Seen(seen.features.cpu(), seen.logits.cpu(), seen.spatial)
            known = classes is not None and int(classes.max()) < seen.logits.shape[1]
            tally.add(name, seen, classes if known else None)
            if known and classes is not None:
                losses = cross_entropy(seen.logits.double(), classes, reduction="none")
                tally.score(f"class loss ({name})", losses)
            if seen.spatial is not None:
                tally.add(f"{name}, spatial", Seen(seen.spatial, seen.logits), None)
            rows = max(0, self.keep - number * sampling.batch)
            if rows:
                kept[name] = seen.features[:rows].float()
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
    with alone(folder, rank):
        looks = Looks(extractors, scores or {}, keep)
        yield from _made(sampling, looks, folder, facts, rank, count, write)


def _made(
    sampling: Sampling,
    looks: Looks,
    folder: Path,
    facts: Mapping[str, Any],
    rank: int,
    count: int,
    write: int,
) -> Iterator[int]:
    """Make this process's share of what is missing, in parts with a saving after each."""
    settings = {"count": sampling.count, "seed": sampling.seed, "guidance": sampling.guidance}
    settings["keep"] = looks.keep
    facts, path = {**facts, **settings}, folder / f"{rank}-of-{count}.safetensors"
    books = {file: Book.load(file, facts) for file in _books(folder)}
    book, done = books.get(path, Book()), {number for found in books.values() for number in found.done}
    share = sampling.batches()[rank::count]
    todo = [number for number in share if number not in done]
    made = sum(len(sampling.indices(number)) for number in share if number in done)
    yield made
    often = max(1, len(share) // PARTS)
    with _kept(book, path, facts) as keep:
        for i, number in enumerate(todo):
            if i % EVERY == 0:
                sampling.encode(todo[i : i + EVERY])
            batch = sampling.images(number)
            if not bool(batch.images.isfinite().all()):
                raise ValueError(f"{folder}: images of batch {number} are not finite: the solver diverges")
            _draw(sampling, number, batch.images, folder, write)
            looks.add(book, sampling, number, batch)
            made += len(batch.images)
            yield made
            if (i + 1) % often == 0:
                keep()
    for number in share[: -(-write // sampling.batch)]:
        if _missing(sampling, number, folder, write):
            _draw(sampling, number, sampling.images(number).images, folder, write)
            yield made


@contextmanager
def _kept(book: Book, path: Path, facts: dict[str, Any]) -> Iterator[Callable[[], None]]:
    """Save a book whenever that is asked for and takes little of the time, and at the end of the block.

    Whatever ends it, what was counted is kept; but an interrupt can leave a batch half counted.
    """
    before, last, took = len(book.done), time.monotonic(), 0.0

    def keep() -> None:
        nonlocal last, took
        start = time.monotonic()
        if took < QUICK or start - last >= SHARE * took:
            book.save(path, facts)
            last = time.monotonic()
            took = last - start

    try:
        yield keep
    except KeyboardInterrupt:
        raise
    except BaseException:
        if len(book.done) > before:
            book.save(path, facts)
        raise
    if len(book.done) > before:
        book.save(path, facts)


def _missing(sampling: Sampling, number: int, folder: Path, write: int) -> list[int]:
    """The images of a batch that are yet to become files."""
    return [i for i in sampling.indices(number) if i < write and not png_path(folder, i).exists()]


def _draw(sampling: Sampling, number: int, images: Tensor, folder: Path, write: int) -> None:
    for i in _missing(sampling, number, folder, write):
        image = images[i - number * sampling.batch].cpu()
        save_png(png_path(folder, i), image if image.ndim == 3 else image[None, None], scale=1)


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
    """Every figure with its standard error, and of how many images."""
    figures = estimates(book, references, real or {})
    return counts(book) | {name: figure[:2] for name, figure in figures.items()}


def counts(book: Book) -> dict[str, int]:
    """How many images there are, and how many have their features kept."""
    kept = {f"precision and recall of ({name})": sum(map(len, book.rows(name))) for name in book.kept}
    return {"images": int(sum(tally.pixels[0] for tally in book.groups.values())), **kept}


def estimates(
    book: Book, references: Mapping[str, Statistics], real: Mapping[str, Tensor]
) -> dict[str, Estimate]:
    """Distance and accuracy by network, scores, precision and recall, and of the pixels."""
    found: dict[str, Estimate] = {}
    for name, reference in references.items():
        found[f"frechet ({name})"] = book.estimate(partial(_frechet, name, reference))
        if all(name in tally.right for tally in book.groups.values()):
            found[f"accuracy ({name})"] = book.estimate(partial(_accuracy, name))
    for name in sorted({name for tally in book.groups.values() for name in tally.scores}):
        found[name] = book.estimate(partial(_score, name))
    for name, features in real.items():
        figures = jackknife(book.rows(name), partial(_precision_recall, features))
        found[f"precision ({name})"], found[f"recall ({name})"] = figures
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
