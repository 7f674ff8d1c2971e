"""What a solver step costs, against the same step in diffusers and against one pass over memory.

The network is a constant, so only the solver is timed: `DualSolverScheduler.step` and the mean step of a
whole `ds.sample`, against the `step` of diffusers' scheduler at the same times and with the same result, all
on a run that is ready. Latents and outputs have the same dtype. One pass reads and writes, at the speed of
`torch.add(a, b, out=c)`, each tensor that the textbook step touches: `TENSORS` counts them. All are timed in
turns, in bursts, and the fastest run of each counts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import product
from shutil import which
from time import perf_counter
from typing import Any

import torch
from diffusers import DDIMScheduler, DPMSolverMultistepScheduler, UniPCMultistepScheduler
from torch import Tensor

import dualsolver as ds
from common import fastest, keep_memory, seconds, table
from dualsolver.diffusers import DualSolverScheduler
from dualsolver.prediction import combine

STEPS, BURST, LIMIT = 10, 5, 90.0
TENSORS = {  # read -> written
    "DDIM": 3,  # x, output -> x
    "DPM-Solver++(2M)": 5,  # x, output, older data -> x, data
    "UniPC-2": 8,  # state, query, output, two older data -> state, query, data
    "Dual-Solver p1c2": 7,  # state, query, output, older query and output -> state, query
}
SHAPES = ((8, 32, 16, 16), (8, 4, 64, 64), (8, 16, 128, 128))
DTYPES = (torch.float32, torch.bfloat16)
CLOSE = {torch.float32: 1e-3, torch.bfloat16: 5e-2}  # diffusers rounds its history to bfloat16, too

Row = Sequence[str | float]


def solver(method: str, grid: Tensor) -> ds.Solver:
    """Our solver; Dual p1c2 sits just beside UniPC of order 1, where no weight happens to be 0."""
    if method == "Dual-Solver p1c2":
        return ds.DualSolver(STEPS, t=grid, fixed={"gamma": 1 + 1e-9, "kappa": 0.0})
    if method == "DPM-Solver++(2M)":
        return ds.DPMpp(STEPS, grid=grid)
    return ds.DDIM(STEPS, grid=grid) if method == "DDIM" else ds.UniPC(STEPS, grid=grid)


def counterpart(method: str) -> Any:
    """The scheduler of diffusers; Dual-Solver's is UniPC of order 1, its special case."""
    if method == "DDIM":
        return DDIMScheduler(clip_sample=False)
    if method == "DPM-Solver++(2M)":
        return DPMSolverMultistepScheduler(solver_order=2)
    return UniPCMultistepScheduler(solver_order=2 if method == "UniPC-2" else 1)


class Case:
    """A method on latents of one shape and dtype; each call but `start` takes `STEPS` steps.

    Timestep k of diffusers is our t = (k + 1) / 1000; both end on clean data.
    """

    def __init__(self, method: str, shape: Sequence[int], dtype: torch.dtype) -> None:
        self.method, self.schedule, self.theirs = method, ds.VP.linear(), counterpart(method)
        self.theirs.set_timesteps(STEPS)
        grid = torch.cat([(self.theirs.timesteps.double() + 1) / 1000, torch.zeros(1)])
        own = solver(method, grid)
        self.ours = DualSolverScheduler(own, prediction="noise", schedule=self.schedule)
        self.noise, self.output, self.target = torch.randn(3, *shape).to(dtype).unbind()
        self.network = ds.wrap(lambda x, t: self.output, self.schedule, "noise")
        self.table = own(self.schedule)
        self.tensors = TENSORS[method]
        self.best = [float("inf")] * 4

    def reset(self) -> None:
        for scheduler in (self.ours, self.theirs):
            scheduler.set_timesteps(STEPS)

    def stepped(self, scheduler: Any) -> Tensor:
        x = self.noise
        for t in scheduler.timesteps:
            x = scheduler.step(self.output, t, x, return_dict=False)[0]
        return x

    def sampled(self) -> Tensor:
        return ds.sample(self.network, self.noise, self.table)

    def adds(self) -> None:
        for _ in range(STEPS):
            torch.add(self.noise, self.output, out=self.target)

    def measure(self) -> None:
        """Time a burst of each call."""
        ours, theirs = (partial(self.stepped, scheduler) for scheduler in (self.ours, self.theirs))
        calls: list[Callable[[], object]] = [ours, self.sampled, theirs, self.adds]
        for i, call in enumerate(calls):
            for _ in range(BURST):
                self.reset()
                self.best[i] = min(self.best[i], seconds(call))

    def row(self) -> Row:
        """Times in microseconds a step, and their ratios; both must have come to the same sample."""
        self.reset()
        wanted = self.stepped(self.theirs).double()
        for found in (self.stepped(self.ours), self.sampled()):
            apart = float((found.double() - wanted).norm() / wanted.norm())
            assert apart < CLOSE[self.noise.dtype], f"{self.method}: results differ by {apart:.0e}"
        step, sample, theirs, add = (1e6 * t / STEPS for t in self.best)
        once, size = add * self.tensors / 3, "x".join(map(str, self.noise.shape))
        kind = str(self.noise.dtype).removeprefix("torch.")
        ratios = (x for ours in (step, sample) for x in (ours, ours / theirs, ours / once))
        return self.method, size, kind, *ratios


def step_times(limit: float) -> Iterator[Row]:
    """Measure all cases in turns for `limit` seconds."""
    kinds = product(SHAPES, DTYPES, TENSORS)
    cases, end = [Case(method, shape, dtype) for shape, dtype, method in kinds], perf_counter() + limit
    while perf_counter() < end:
        for case in cases:
            case.measure()
    return (case.row() for case in cases)


def start_times() -> Iterator[Row]:
    """How long `set_timesteps` takes, where a run is planned."""
    for method in TENSORS:
        case = Case(method, (1,), torch.float32)
        calls: list[Callable[[], object]] = [
            partial(one.set_timesteps, STEPS) for one in (case.ours, case.theirs)
        ]
        yield method, *(1e3 * time for time in fastest(50, *calls))


def compiled_times() -> Iterator[Row]:
    """A sum of five weighted tensors, the largest of a step: as it is, and compiled for the shape."""
    numbers = [0.1, 0.2, 0.3, 0.4, 0.5]
    weights = [torch.tensor(x, dtype=torch.float64) for x in numbers]
    for shape in SHAPES:
        parts = torch.randn(5, *shape).unbind()
        quick = partial(torch.compile(combine, dynamic=False), weights, parts)
        compiling = seconds(quick)
        times = fastest(50, partial(combine, numbers, parts), quick)
        yield "x".join(map(str, shape)), *(1e6 * time for time in times), times[1] / times[0], compiling


def measured() -> str:
    """All tables."""
    keep_memory()
    torch.manual_seed(0)
    ours = [
        f"{name}{what}" for name in ("`step`", "`sample`") for what in (", us", " / diffusers", ", passes")
    ]
    parts = [
        "**One step**: `DualSolverScheduler.step`, and the mean step of `ds.sample`, against diffusers' "
        "`step` and one pass over memory",
        table(["method", "latents", "dtype", *ours], step_times(LIMIT)),
        f"**Before the first step**: `set_timesteps({STEPS})`, ms",
        table(["method", "ours", "diffusers"], start_times()),
    ]
    if which("g++"):
        parts += [
            "**`torch.compile`**: a sum of five weighted tensors, the largest of a step, float32",
            table(["latents", "eager, us", "compiled, us", "ratio", "compiling, s"], compiled_times()),
        ]
    return "\n\n".join(parts)
