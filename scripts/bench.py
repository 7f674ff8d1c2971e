"""What a solver step costs, against the same step in diffusers and against one pass over memory.

The network is a constant, so only the solver is timed: ours as the mean step of a whole `ds.sample` of a
ready table, theirs as the mean `scheduler.step`, at the same times and with the same result (`differ` is
relative). One pass reads and writes, at the speed of `torch.add(a, b, out=c)`, each tensor that the textbook
step touches: `TENSORS` counts them. All are timed in turns, in bursts, and the fastest run of each counts.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import platform
import subprocess
import sys
from collections.abc import Callable, Sequence
from functools import partial
from itertools import product
from pathlib import Path
from time import perf_counter
from typing import Any

import torch
from diffusers import DDIMScheduler, DPMSolverMultistepScheduler, UniPCMultistepScheduler
from torch import Tensor

import dualsolver as ds
from dualsolver.files import write_whole

STEPS, BURST = 10, 5
TENSORS = {  # read -> written
    "DDIM": 3,  # x, output -> x
    "DPM++ 2M": 5,  # x, output, older data -> x, data
    "UniPC-2": 8,  # state, query, output, two older data -> state, query, data
    "Dual p1c2": 7,  # state, query, output, older query and output -> state, query
}
KINDS = list(product(TENSORS, ((8, 4, 64, 64), (8, 32, 16, 16)), (torch.float32, torch.bfloat16)))
IMPORTS = """
from time import perf_counter as now
start = now(); import torch; middle = now(); import dualsolver; print(middle - start, now() - middle)
"""

Row = dict[str, str | float]


def solver(method: str, grid: Tensor) -> ds.Solver:
    """Our solver; Dual p1c2 sits just beside UniPC of order 1, where no weight happens to be 0."""
    if method == "Dual p1c2":
        return ds.DualSolver(STEPS, t=grid, fixed={"gamma": 1 + 1e-9, "kappa": 0.0})
    if method == "DPM++ 2M":
        return ds.DPMpp(STEPS, grid=grid)
    return ds.DDIM(STEPS, grid=grid) if method == "DDIM" else ds.UniPC(STEPS, grid=grid)


def scheduler(method: str) -> Any:
    """The counterpart in diffusers."""
    if method == "DDIM":
        return DDIMScheduler(clip_sample=False)
    if method == "DPM++ 2M":
        return DPMSolverMultistepScheduler(solver_order=2)
    return UniPCMultistepScheduler(solver_order=2 if method == "UniPC-2" else 1)


class Case:
    """A method on latents of one shape, with the network's output in one dtype; a call takes `STEPS` steps.

    Timestep k of diffusers is our t = (k + 1) / 1000; both end on clean data.
    """

    def __init__(self, method: str, shape: Sequence[int], dtype: torch.dtype) -> None:
        self.scheduler, schedule = scheduler(method), ds.VP.linear()
        self.reset()
        grid = torch.cat([(self.scheduler.timesteps.double() + 1) / 1000, torch.zeros(1)])
        self.noise, self.other, self.target = torch.randn(3, *shape).unbind()
        self.output = torch.randn(*shape).to(dtype)
        self.network = ds.wrap(lambda x, t: self.output, schedule, "noise")
        self.table = solver(method, grid)(schedule)
        self.best = [float("inf")] * 3

    def reset(self) -> None:
        self.scheduler.set_timesteps(STEPS)

    def ours(self) -> Tensor:
        return ds.sample(self.network, self.noise, self.table)

    def theirs(self) -> Tensor:
        x = self.noise
        for t in self.scheduler.timesteps:
            x = self.scheduler.step(self.output, t, x, return_dict=False)[0]
        return x

    def adds(self) -> None:
        for _ in range(STEPS):
            torch.add(self.noise, self.other, out=self.target)

    def measure(self) -> None:
        """Time a burst of each call."""
        for i, call in enumerate((self.ours, self.theirs, self.adds)):
            for _ in range(BURST):
                self.reset()
                self.best[i] = min(self.best[i], seconds(call))


def seconds(call: Callable[[], object]) -> float:
    """How long one call takes."""
    start = perf_counter()
    call()
    return perf_counter() - start


def step_times(limit: float) -> list[Row]:
    """Measure all cases in turns for `limit` seconds."""
    cases, end = [Case(*kind) for kind in KINDS], perf_counter() + limit
    while perf_counter() < end:
        for case in cases:
            case.measure()
    return [row(case, *kind) for case, kind in zip(cases, KINDS, strict=True)]


def row(case: Case, method: str, shape: Sequence[int], dtype: torch.dtype) -> Row:
    """Times in microseconds a step, and their ratios."""
    case.reset()
    ours, theirs, add = (1e6 * t / STEPS for t in case.best)
    tensors = TENSORS[method] - (dtype == torch.bfloat16) / 2  # an output in bfloat16 is half as long
    expected = case.theirs()
    return {
        "step": method,
        "latents": "x".join(map(str, shape)),
        "output": str(dtype).removeprefix("torch."),
        "ours us": ours,
        "diffusers us": theirs,
        "ours/diffusers": ours / theirs,
        "pass us": add * tensors / 3,
        "ours/pass": ours / (add * tensors / 3),
        "differ": f"{float((case.ours() - expected).norm() / expected.norm()):.0e}",
    }


def table_times() -> list[Row]:
    """How long each registered solver takes to build its table, and how many predictions it remembers."""
    schedule = ds.VP.linear()
    rows: list[Row] = []
    for name, make in ds.SOLVERS.items():
        built = {nfe: make(nfe) for nfe in (5, 9, 100)}
        best = {nfe: min(seconds(partial(it, schedule)) for _ in range(20)) for nfe, it in built.items()}
        windows = {f"window at {nfe}": str(it(schedule).window) for nfe, it in built.items()}
        rows.append({"table": name, **{f"ms at {nfe}": 1e3 * t for nfe, t in best.items()}, **windows})
    return rows


def import_times() -> list[Row]:
    """Import torch and then dualsolver, in fresh processes."""
    command = [sys.executable, "-c", IMPORTS]
    runs = [subprocess.run(command, capture_output=True, text=True, check=True).stdout for _ in range(5)]
    alone, extra = (1e3 * min(times) for times in zip(*(map(float, r.split()) for r in runs), strict=True))
    return [{"import": "torch alone", "ms": alone}, {"import": "dualsolver after it", "ms": extra}]


def machine(threads: int) -> str:
    """CPU model, versions and threads."""
    info = Path("/proc/cpuinfo")
    lines = info.read_text().splitlines() if info.exists() else []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return f"{names[0] if names else platform.processor()}, {threads} threads, torch {torch.__version__}"


def show(rows: Sequence[Row]) -> None:
    """Print rows as a plain table."""
    texts = [list(rows[0]), *([v if isinstance(v, str) else f"{v:.2f}" for v in r.values()] for r in rows)]
    widths = [max(map(len, column)) for column in zip(*texts, strict=True)]
    for line in texts:
        print("  ".join(text.rjust(width) for text, width in zip(line, widths, strict=True)))
    print(flush=True)


def keep_memory() -> None:
    """Let glibc keep what is freed: else page faults, which come and go with the heap's layout, decide."""
    if platform.libc_ver()[0] == "glibc":
        for option in (-1, -3):  # M_TRIM_THRESHOLD, M_MMAP_THRESHOLD
            ctypes.CDLL(None).mallopt(option, 1 << 30)


def main() -> None:
    parser = argparse.ArgumentParser(description="Time our steps, tables and import.")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--seconds", type=float, default=60, help="how long to repeat the steps")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the numbers there, too")
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    torch.manual_seed(0)
    keep_memory()
    print(machine(arguments.threads), end="\n\n", flush=True)
    found = []
    for part in (partial(step_times, arguments.seconds), table_times, import_times):
        with torch.no_grad():
            found.append(part())
        show(found[-1])
    if arguments.json:
        names = ("machine", "steps", "tables", "imports")
        content = dict(zip(names, (machine(arguments.threads), *found), strict=True))
        write_whole(arguments.json, json.dumps(content, indent=2) + "\n")


if __name__ == "__main__":
    main()
