"""Kills at random points: the same command again must lead to the same bytes with hardly more work."""

from __future__ import annotations

import random
import shutil
import signal
import time
from collections.abc import Iterator
from pathlib import Path

from jobs import Trial, different
from outcome import Outcome

MOST = 0.05  # of a whole run's work may be done twice


def whole(job: str, place: Path, shared: Path) -> Trial:
    """A run that nobody disturbs."""
    trial = Trial(job, place / job.replace(" ", "-") / "whole", shared)
    if wrong := trial.finish():
        raise RuntimeError(f"{job}, undisturbed: {wrong}")
    return trial


def kills(job: str, count: int, seed: int, place: Path, shared: Path) -> Iterator[Outcome]:
    """Kill a job `count` times, each time in a fresh folder."""
    wanted = whole(job, place, shared)
    points = random.Random(f"{seed} {job}")
    for number in range(count):
        trial = Trial(job, wanted.folder.with_name(f"killed-{number}"), shared)
        at = points.uniform(0, wanted.work)
        while not killed(trial, at, points.uniform(0, 0.02)):  # it had ended: once more, earlier
            shutil.rmtree(trial.folder)
            trial = Trial(job, trial.folder, shared)
            at *= 0.9
        wrong = trial.finish() or different(trial.folder, wanted.folder)
        extra = trial.work / wanted.work - 1
        if not wrong and extra > MOST:
            wrong = f"{100 * extra:.1f} % more work, killed after {100 * at / wanted.work:.0f} %"
        yield Outcome(f"kill -9 of {job}", wrong, extra)
        shutil.rmtree(trial.folder)


def killed(trial: Trial, at: float, later: float) -> bool:
    """Kill a job `later` seconds after it has done so much work; say whether it was still there."""
    process = trial.start()
    while process.poll() is None and trial.work < at:
        time.sleep(0.001)
    time.sleep(later)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    return process.returncode == -signal.SIGKILL
