"""Results: a small JSON a cell, made once, by any number of processes that share the work."""

from __future__ import annotations

import fcntl
import json
import shutil
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

from ..files import write_whole
from ..parameters import lists_on_one_line
from .bench import Bench
from .cells import Cell, Learn, Measure, key


class Store:
    """The results of one backbone: a file a cell, named by its key."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def get(self, cell: Cell) -> dict[str, Any] | None:
        """What a cell came to, if it was made."""
        path = self.folder / f"{key(cell)}.json"
        if not path.exists():
            return None
        try:
            found: dict[str, Any] = json.loads(path.read_text())["result"]
        except (ValueError, KeyError, TypeError) as error:
            raise ValueError(f"{path} is no whole result ({error}): delete it to make it again") from None
        return found

    def put(self, cell: Cell, result: dict[str, Any]) -> None:
        """Write what a cell came to, with what it is; a solver that was learned is named by its key."""
        said = asdict(cell)
        if isinstance(cell, Measure):
            said["learned"] = [key(end) for end in cell.learned]
        content = {"cell": {"is": type(cell).__name__.lower(), **said}, "result": result}
        text = lists_on_one_line(json.dumps(content, indent=1))
        write_whole(self.folder / f"{key(cell)}.json", text + "\n")

    def missing(self, cells: Sequence[Cell]) -> list[Cell]:
        """The cells that are not made yet, each once."""
        names = {key(cell): cell for cell in cells}
        return [cell for name, cell in names.items() if not (self.folder / f"{name}.json").exists()]


def fill(store: Store, bench: Bench, cells: Sequence[Cell]) -> Iterator[Cell]:
    """Make the cells that are missing; yield the one in work after every step.

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
            time.sleep(1)


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
