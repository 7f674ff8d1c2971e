"""How tables, sampling and artifacts grow: with the NFE, and with how many NFEs a file holds."""

from __future__ import annotations

import tempfile
from functools import partial
from pathlib import Path
from typing import Any

import torch

import dualsolver as ds
from common import alone, answer, fastest, forget_peak, keep_memory, peak, seconds, table
from dualsolver.parameters import NAME
from dualsolver.sample import prepared

NFES = (1, 9, 99, 999)  # odd, as Heun wants them
SHAPE = (8, 4, 32, 32)
HELD = (1, 10, 100)


def one(name: str, nfe: int) -> dict[str, Any]:
    """Build a table and sample with it, the network being a constant: times, and MB beyond what there was."""
    torch.set_num_threads(1)
    keep_memory()
    schedule, solver = ds.VP.linear(), ds.SOLVERS[name](nfe)
    noise, output = torch.randn(2, *SHAPE).unbind()
    network = ds.wrap(lambda x, t: output, schedule, "noise")
    few = ds.SOLVERS[name](3)(schedule)
    with torch.no_grad():
        ds.sample(network, noise, few)  # whatever the first run of all allocates
        before = forget_peak()
        [build] = fastest(3, partial(solver, schedule))
        made = solver(schedule)
        built = peak() - before
        before = forget_peak()
        plan = min(seconds(partial(prepared, network, solver(schedule))) for _ in range(3))
        [run] = fastest(2, lambda: ds.sample(network, noise, made))  # the first one plans
    found = {"build": 1e3 * build, "built": built, "weights": made.weights.numel(), "window": made.window}
    return found | {"plan": 1e3 * plan, "step": 1e6 * run / nfe, "run": peak() - before}


def held(count: int, folder: Path) -> tuple[float, float, float]:
    """Of a file with the NFEs 3 to 2 + count: ms an NFE to write and to read it, and its bytes a number."""
    solvers = [ds.DualSolver(nfe) for nfe in range(3, 3 + count)]
    numbers = sum(parameter.numel() for solver in solvers for parameter in solver.parameters())
    write, read = fastest(3, lambda: ds.save(solvers, folder), lambda: ds.load(folder, nfe=3))
    size = (folder / NAME).stat().st_size
    return 1e3 * write / count, 1e3 * read / count, size / numbers


def measured() -> str:
    """A row for each solver and NFE, and one for each number of NFEs in a file."""
    rows = []
    for name in ds.SOLVERS:
        for nfe in NFES:
            found = alone("growth", name, nfe)
            rows.append((f"`{name}`", str(nfe), *(found[key] for key in KEYS)))
    titles = ["solver", "NFE", "weights", "window", "table, ms", "MB", "plan, ms", "a step, us", "run, MB"]
    with tempfile.TemporaryDirectory() as folder:
        files = [(str(count), *held(count, Path(folder))) for count in HELD]
    size = "x".join(map(str, SHAPE))
    return "\n\n".join(
        [
            "**Growth over NFE**: building a table, planning its run, and a step of it, latents "
            f"{size}, one thread, each in a process of its own. MB are the peak beyond what was there.",
            table(titles, rows),
            "**Growth of the file** over how many NFEs of Dual-Solver it holds, from 3 on",
            table(["NFEs", "write, ms each", "read, ms each", "bytes a number"], files),
        ]
    )


KEYS = ("weights", "window", "build", "built", "plan", "step", "run")

if __name__ == "__main__":
    answer(one)
