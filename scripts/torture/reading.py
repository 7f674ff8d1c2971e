"""Mutated files: each is read as it would be, watched for what it opens, for how long and how much memory.

python reading.py FOLDER PIPELINE COUNT SEED       prints an outcome a line, as JSON
"""

from __future__ import annotations

import json
import random
import resource
import signal
import sys
import time
import traceback
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from mutations import SECRET, Mutation
from outcome import Outcome
from readers import Reader, readers

SECONDS = 20  # to answer; on a busy machine
MEMORY = 64 * 2**20  # more than this beyond what was ever used before is growth, whatever the file says
FORBIDDEN = ("socket.connect", "socket.getaddrinfo", "subprocess.Popen", "os.system", "pickle.find_class")
REFUSALS = (ValueError, OSError, FloatingPointError, ModuleNotFoundError)  # what a command turns into a line

seen: list[str] = []


class Hang(BaseException):
    """It took too long."""


def watch(event: str, arguments: tuple[Any, ...]) -> None:
    """Note what a reader must not do: reach out, run code, look for a path that a file names."""
    if event in FORBIDDEN or (event in ("open", "os.listdir", "os.scandir") and SECRET in str(arguments)):
        seen.append(f"{event} {arguments!r:.80}")


def alarmed(number: int, frame: object) -> None:
    raise Hang


def tried(name: str, reader: Reader, mutation: Mutation, wanted: Any) -> Outcome:
    """Read one mutated file and judge what came of it."""
    reader.path.write_bytes(mutation.content)
    before, start = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, time.perf_counter()
    signal.setitimer(signal.ITIMER_REAL, SECONDS)
    seen.clear()
    try:
        found = reader.read(reader.path)
        wrong = "read as something else" if mutation.same and found != wanted else ""
    except REFUSALS as error:
        wrong = judged(str(error), reader, mutation)
    except Hang:
        wrong = f"no answer in {SECONDS} s"
    except BaseException as error:
        where = traceback.extract_tb(error.__traceback__)[-1]
        wrong = f"{type(error).__name__}: {str(error)[:100]} at {Path(where.filename).name}:{where.lineno}"
    signal.setitimer(signal.ITIMER_REAL, 0)
    spent = 1000 * (time.perf_counter() - start)
    grown = 1024 * (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
    if grown > MEMORY + 8 * len(mutation.content):
        wrong = wrong or f"{grown / 2**20:.0f} MB for a file of {len(mutation.content)} bytes"
    wrong = f"it reached out: {seen[0]}" if seen else wrong
    return Outcome(f"mutated {name}", f"{mutation.said}: {wrong}" if wrong else "", spent)


def judged(message: str, reader: Reader, mutation: Mutation) -> str:
    """What is wrong with a refusal."""
    if mutation.same:
        return f"refused, though it means the same: {message[:200]}"
    if "\n" in message:
        return f"more than one line: {message[:200]!r}"
    names = mutation.names or (reader.path.name, *reader.path.parts[-2:-1])
    whole = (*names, "not a whole artifact", "is damaged", "cannot read", "no readable", "cannot load")
    return "" if any(word in message for word in whole) else f"names none of {names}: {message[:200]}"


def outcomes(folder: Path, pipeline: Path, count: int, seed: int) -> Iterator[Outcome]:
    """Change files of every kind, by their shares, and read them."""
    folder.mkdir(parents=True)
    every = readers(folder, pipeline)
    total = sum(reader.share for reader in every.values())
    for name, reader in every.items():
        whole = reader.path.read_bytes()
        wanted, chance = reader.read(reader.path), random.Random(f"{seed} {name}")
        for _ in range(max(1, round(count * reader.share / total))):
            yield tried(name, reader, reader.change(whole, chance), wanted)
        reader.path.write_bytes(whole)


def main() -> None:
    """Print outcomes as lines of JSON."""
    folder, pipeline, count, seed = sys.argv[1:]
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    sys.addaudithook(watch)
    signal.signal(signal.SIGALRM, alarmed)
    sys.setrecursionlimit(1000)
    for outcome in outcomes(Path(folder), Path(pipeline), int(count), int(seed)):
        print(json.dumps(outcome), flush=True)


if __name__ == "__main__":
    main()
