"""Files that are either whole or not there, and folders that one process at a time works in."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

try:
    import fcntl
except ImportError:  # Windows: there nothing is held
    fcntl = None  # type: ignore[assignment]

LOCK = ".lock"


def write_whole(path: Path, content: str | bytes) -> None:
    """Write through a temporary file in the same folder, so that a crash never leaves half a file."""
    with whole_file(path) as file:
        file.write(content.encode() if isinstance(content, str) else content)


def read_object(path: Path, remedy: str) -> dict[str, Any]:
    """Read the JSON object that a file of ours holds; one that does not is named, with what to do."""
    try:
        found = json.loads(path.read_bytes())
        if isinstance(found, dict):
            return found
        reason = f"it holds a {type(found).__name__}, not an object"
    except (ValueError, RecursionError) as error:
        reason = str(error)
    raise ValueError(f"{path} is damaged ({reason}): {remedy}")


@contextmanager
def whole_file(path: Path) -> Iterator[Any]:
    """Open a file to write, which takes its place at the end of the block or not at all.

    What a kill leaves, .NAME.partial, is taken away by the next writing of the same file; a process that
    finds another one at it waits.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(f".{path.name}.partial")
    try:
        with _held(partial) as file:
            try:
                file.truncate()
                yield file
                file.flush()
                os.fsync(file.fileno())
                os.replace(partial, path)
            except BaseException:
                partial.unlink(missing_ok=True)
                raise
    except OSError as error:
        if error.filename is None and error.errno is not None:  # a full disk does not say whose
            raise OSError(error.errno, error.strerror, str(path)) from None
        raise


@contextmanager
def alone(folder: Path, rank: int = 0) -> Iterator[None]:
    """Work in a folder, and refuse it while another process does; of those that share, rank 0 says so.

    The lock goes with the process that holds it, however that ends.
    """
    if rank > 0:
        yield
        return
    folder.mkdir(parents=True, exist_ok=True)
    try:
        lock = _held(folder / LOCK, wait=False)
    except BlockingIOError:
        raise ValueError(
            f"{folder}: another process is at work there: wait for its end, or take another folder"
        ) from None
    with lock:
        try:
            yield
        finally:
            (folder / LOCK).unlink(missing_ok=True)


def _held(path: Path, wait: bool = True) -> Any:
    """Open a file that no other process holds: the one of this name, not one that was moved away since."""
    while True:
        file = os.fdopen(os.open(path, os.O_RDWR | os.O_CREAT, 0o666), "r+b")
        try:
            _lock(file, wait)
            if os.path.samestat(os.fstat(file.fileno()), os.stat(path)):
                return file
        except FileNotFoundError:
            pass
        except BaseException:
            file.close()
            raise
        file.close()


def _lock(file: Any, wait: bool) -> None:
    if fcntl is None:
        return
    try:
        fcntl.flock(file, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
    except BlockingIOError:
        raise
    except OSError:  # a file system without locks: as if alone
        return
