"""`dual-solver sample` against the plain diffusers pipeline with DPM-Solver++, on the same model.

Once as processes, from the command to the pictures on disk, and once in one process that has everything
loaded. The pictures are a few of every class, the batches, threads and guidance the same.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import torch
from diffusers import DiTPipeline, DPMSolverMultistepScheduler

import dualsolver as ds
from common import MODEL, THREADS, answer, fastest, table
from dualsolver.diffusers import DualSolverScheduler
from dualsolver.generate import images

SEEDS, STEPS, GUIDANCE, BATCH, ROUNDS = 16, 10, 1.5, 16, 3
LEARNED, MORE = 4, (4, 6, 8, 10, 15, 20, 30, 50)
CLASSES = [number for _ in range(SEEDS) for number in range(10)]


def pipeline() -> Any:
    """The plain pipeline, its scheduler changed as diffusers' documentation does it."""
    pipe = DiTPipeline.from_pretrained(ds.zoo.path(MODEL))
    pipe.scheduler = DPMSolverMultistepScheduler.from_config(pipe.scheduler.config)
    pipe.set_progress_bar_config(disable=True)
    return pipe


def drawn(pipe: Any, steps: int) -> list[Any]:
    """All pictures by a pipeline."""
    made: list[Any] = []
    for first in range(0, len(CLASSES), BATCH):
        some = CLASSES[first : first + BATCH]
        made += pipe(class_labels=some, num_inference_steps=steps, guidance_scale=GUIDANCE).images
    return made


def one(folder: str) -> int:
    """What a user of diffusers would run: pictures into a folder."""
    torch.set_num_threads(THREADS)
    made = drawn(pipeline(), STEPS)
    for number, image in enumerate(made):
        image.save(f"{folder}/{number}.png")
    return len(made)


def sampled(backbone: Any, solver: ds.Solver) -> None:
    """All pictures by what `dual-solver sample` calls."""
    seeds = [seed for seed in range(SEEDS) for _ in range(10)]
    for _ in images(backbone, solver(backbone.schedule), CLASSES, seeds, GUIDANCE, BATCH):
        pass


def processes(folder: str) -> list[float]:
    """Seconds of both commands, in turns."""
    options = f"--backbone {MODEL} --solver dpmpp --nfe {STEPS} --guidance {GUIDANCE} --seed 0..{SEEDS - 1}"
    rest = f"--batch {BATCH} --threads {THREADS} --out {folder}/ours.png"
    ours = ["-m", "dualsolver.cli", "sample", *options.split(), *rest.split()]
    run: Callable[..., Any] = partial(subprocess.run, check=True, capture_output=True)
    theirs = [__file__, f'["{folder}"]']
    return fastest(ROUNDS, *(partial(run, [sys.executable, *command]) for command in (ours, theirs)))


def measured() -> str:
    """Both at the same number of steps, then Dual-Solver beside more and more steps of the pipeline."""
    with tempfile.TemporaryDirectory() as folder:
        whole = processes(folder)
    pipe, mixed, backbone = pipeline(), pipeline(), ds.zoo.load(MODEL)
    mixed.scheduler = DualSolverScheduler.from_config(mixed.scheduler.config, solver="dpmpp")
    ways = (partial(drawn, mixed, STEPS), partial(drawn, pipe, STEPS))
    own, inside, theirs = fastest(ROUNDS, partial(sampled, backbone, ds.DPMpp(STEPS)), *ways)
    rows: list[Sequence[str | float]] = [
        ("`dual-solver sample`, from command to pictures", *whole, whole[0] / whole[1]),
        ("what it calls, everything loaded", own, theirs, own / theirs),
        ("the pipeline with `DualSolverScheduler`", inside, theirs, inside / theirs),
    ]
    few = partial(sampled, backbone, ds.DualSolver(LEARNED))  # what its scalars are makes no difference
    least, *longer = fastest(1, few, *(partial(drawn, pipe, steps) for steps in MORE))
    gains = [(str(steps), time, time / least) for steps, time in zip(MORE, longer, strict=True)]
    return "\n\n".join(
        [
            f"**End to end**: {len(CLASSES)} pictures of `{MODEL}` at guidance {GUIDANCE}, DPM-Solver++ "
            f"at {STEPS} steps, against diffusers' pipeline, {THREADS} threads",
            table(["way", "s", "diffusers, s", "ratio"], rows),
            f"**The real gain**: the same pictures by Dual-Solver at {LEARNED} evaluations take "
            f"{least:.2f} s; by the pipeline with DPM-Solver++, at as many steps as the same distance takes,",
            table(["steps", "s", "times Dual-Solver's"], gains),
        ]
    )


if __name__ == "__main__":
    answer(one)
