"""What the parts of the bench share: clocks, memory, processes of their own, tables."""

from __future__ import annotations

import ctypes
import json
import os
import platform
import subprocess
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from time import perf_counter
from typing import Any

import torch

THREADS = os.cpu_count() or 1
MODEL = "fashion-dit"


def seconds(call: Callable[[], object]) -> float:
    """How long one call takes."""
    start = perf_counter()
    call()
    return perf_counter() - start


def fastest(rounds: int, *calls: Callable[[], object]) -> list[float]:
    """The shortest time of each call; they take turns, so that what disturbs one disturbs all."""
    taken = [[seconds(call) for call in calls] for _ in range(rounds)]
    return [min(times) for times in zip(*taken, strict=True)]


def alone(part: str, *case: Any) -> Any:
    """Call `one(*case)` of a part in a process of its own, and return what it returns."""
    command = [sys.executable, str(Path(__file__).with_name(f"{part}.py")), json.dumps(case)]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    return json.loads(done.stdout.splitlines()[-1])


def answer(one: Callable[..., Any]) -> None:
    """Be that process."""
    print(json.dumps(one(*json.loads(sys.argv[1]))))


def peak() -> float:
    """The most memory that this process held since `forget_peak`, in MB; Linux counts it."""
    [line] = [x for x in Path("/proc/self/status").read_text().splitlines() if x.startswith("VmHWM")]
    return int(line.split()[1]) / 1024


def forget_peak() -> float:
    """Begin to watch for the peak anew; return what is held now, in MB."""
    Path("/proc/self/clear_refs").write_text("5")
    return peak()


def keep_memory() -> None:
    """Let glibc keep what is freed: else page faults, which come and go with the heap's layout, decide."""
    if platform.libc_ver()[0] == "glibc":
        for option in (-1, -3):  # M_TRIM_THRESHOLD, M_MMAP_THRESHOLD
            ctypes.CDLL(None).mallopt(option, 1 << 30)


def machine() -> str:
    """The CPU and how many of it, what runs beside the bench, and torch."""
    info = Path("/proc/cpuinfo")
    lines = info.read_text().splitlines() if info.exists() else []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    busy = f"load {os.getloadavg()[0]:.1f} at the start"
    return (
        f"{THREADS} cores of {names[0] if names else platform.processor()}, {busy}, torch {torch.__version__}"
    )


def table(titles: Sequence[str], rows: Iterable[Sequence[str | float]]) -> str:
    """A table in Markdown; numbers get three digits."""
    texts = ([x if isinstance(x, str) else shown(x) for x in row] for row in rows)
    return "\n".join(f"| {' | '.join(cells)} |" for cells in (titles, ["---"] * len(titles), *texts))


def shown(value: float) -> str:
    """Three digits, and no exponent.

    >>> [shown(x) for x in (0.03456, 2.5, 1234.5)]
    ['0.0346', '2.5', '1,234']
    """
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


def page(found: Mapping[str, Mapping[str, str]]) -> str:
    """The tables of all parts that were measured, each with its command and machine."""
    return "\n".join(
        f"{part['tables']}\n\n*`python scripts/bench {name}`: {part['machine']}.*\n"
        for name, part in found.items()
    )
