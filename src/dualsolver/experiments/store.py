"""Results: made once, by any number of processes that share the work, and kept in one JSON a backbone."""

from __future__ import annotations

import fcntl
import json
import shutil
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from functools import cached_property
from pathlib import Path
from typing import Any

from ..files import write_whole
from .bench import Bench
from .cells import Cell, Classify, Learn, Measure, key

WAIT = 0.5  # seconds between two looks at what other processes have made


class Store:
    """The results of a backbone: those packed in `path`, a line each, and those below `work` since then."""

    def __init__(self, path: Path, work: Path) -> None:
        self.path, self.work = path, work / "made"

    @cached_property
    def packed(self) -> dict[str, Any]:
        """What the file held when it was first asked for."""
        return _read(self.path) if self.path.exists() else {}

    def get(self, cell: Cell) -> dict[str, Any] | None:
        """What a cell came to, if it was made."""
        name = key(cell)
        if (found := self.packed.get(name)) is None:
            path = self._path(name)
            found = _read(path) if path.exists() else None
        return None if found is None else found["result"]

    def put(self, cell: Cell, result: dict[str, Any]) -> None:
        """Write what a cell came to, with what it is; a solver that was learned is named by its key."""
        said = asdict(cell)
        if isinstance(cell, Measure):
            said["learned"] = [key(end) for end in cell.learned]
        content = {"is": type(cell).__name__.lower(), "cell": said, "result": result}
        write_whole(self._path(key(cell)), json.dumps(content) + "\n")

    def missing(self, cells: Sequence[Cell]) -> list[Cell]:
        """The cells that are not made yet, each once."""
        names = {key(cell): cell for cell in cells}
        return [
            cell for name, cell in names.items() if name not in self.packed and not self._path(name).exists()
        ]

    def pack(self, cells: Sequence[Cell]) -> None:
        """Put these cells' results beside those in the file, where results of other weights are dropped."""
        weights = {None} | {cell.weights for cell in cells if not isinstance(cell, Classify)}
        found = {name: _read(self._path(name)) for name in map(key, cells) if self._path(name).exists()}
        self.work.mkdir(parents=True, exist_ok=True)
        with open(self.work / "pack.lock", "w") as file:  # closed, it is free again
            fcntl.flock(file, fcntl.LOCK_EX)
            known = _read(self.path) if self.path.exists() else {}
            known = {name: one for name, one in known.items() if one["cell"].get("weights") in weights}
            lines = [
                f"{json.dumps(name)}: {json.dumps(one)}" for name, one in sorted((known | found).items())
            ]
            write_whole(self.path, "{\n" + ",\n".join(lines) + "\n}\n")

    def _path(self, name: str) -> Path:
        return self.work / f"{name}.json"


def _read(path: Path) -> dict[str, Any]:
    try:
        found: dict[str, Any] = json.loads(path.read_text())
    except ValueError as error:
        raise ValueError(f"{path} is damaged ({error}): delete it, and it is made again") from None
    return found


def fill(store: Store, bench: Bench, cells: Sequence[Cell]) -> Iterator[Cell]:
    """Make the cells that are missing; yield the one in work, or waited for, after every step.

    A cell that another process is at is left to it. A lock goes with the process that holds it, so a kill
    leaves nothing behind but the folder that the next one goes on from.
    """
    while missing := store.missing(cells):
        idle = True
        for cell in missing:
            if isinstance(cell, Measure) and store.missing(cell.learned):
                continue  # another process is still learning it
            with _alone(bench.folder(cell)) as free:
                if free and store.missing([cell]):
                    yield from _made(store, bench, cell)
                    idle = False
        if idle:
            time.sleep(WAIT)
            yield missing[0]


def _made(store: Store, bench: Bench, cell: Cell) -> Iterator[Cell]:
    making = bench.make(cell)
    while True:
        try:
            next(making)
        except StopIteration as end:
            store.put(cell, end.value)
            if not isinstance(
                cell, Learn
            ):  # a learned solver may be wanted, the sums of its images are large
                shutil.rmtree(bench.folder(cell), ignore_errors=True)
            return
        yield cell


@contextmanager
def _alone(folder: Path) -> Iterator[bool]:
    """Whether nobody else holds this folder, which is then held until the end of the block."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    with open(folder.with_suffix(".lock"), "w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield False
            return
        yield True
