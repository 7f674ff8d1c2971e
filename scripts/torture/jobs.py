"""The commands that are tortured, small enough to run hundreds of times, each in a folder of its own."""

from __future__ import annotations

import os
import struct
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
ROOT = HERE.parent.parent
TOY = ["--backbone", "toy", "--threads", "1"]
TAUGHT = ["--objective", "sample", "--teacher", "ddim:20", "--cache", "cache", "--out", "run"]
EVALUATE = ["evaluate", *TOY, "--solver", "ddim", "--nfe", "3", "--network", "pixels={shared}/toy.npz"]
SPEND = "seeds=1 steps=20 batch=2 every=10 held_out=2 count=40 keep=4 fresh=2 teacher=ddim:2 teacher_count=4"
SMALL = ["zoo:linear-4x4", "zoo:linear-2x2", "zoo:mlp-16", "zoo:mlp-64"]
REPRODUCE = [
    "reproduce",
    "--backbone",
    "{shared}/dit",
    "--out",
    "results",
    "--work",
    "work",
    "--threads",
    "1",
]
REPRODUCE += ["--budget", "full", "--batch", "2", "--classifier", *SMALL, "--features", *SMALL[1:]]
REPRODUCE += ["--network", "validation={shared}/validation.npz", "--real", "{shared}/real"]

JOBS = {  # {shared} is a folder with what they read
    "learn": ["learn", *TOY, *TAUGHT, "--teacher-count", "50", "--nfe", "3", "4"],
    "teacher": ["learn", *TOY, *TAUGHT, "--teacher-count", "1000", "--nfe", "3", "--steps", "1"],
    "evaluate": [*EVALUATE, "--count", "4000", "--batch", "20", "--write", "30", "--out", "run"],
    "zoo train": ["zoo", "train", "torture", "--runs", "run"],
    "reproduce": [*REPRODUCE, "--spend", *SPEND.split(), "--", "domain"],
}


def shared(folder: Path) -> None:
    """Make what the commands read: statistics, a tiny pipeline, pictures."""
    import torch
    from PIL import Image

    from dualsolver.statistics import Statistics

    sys.path.insert(0, str(ROOT / "tests"))
    import tiny_grey  # type: ignore[import-not-found]  # of the tests

    folder.mkdir(parents=True)
    Statistics(torch.full((4,), 0.6), 0.1 * torch.eye(4) + 0.05).save(folder / "toy.npz")
    Statistics(torch.zeros(48), torch.eye(48), 100).save(folder / "validation.npz")
    (folder / "real").mkdir()
    for i in range(5):
        Image.effect_noise((32, 32), 100).save(folder / "real" / f"{i}.png")
    tiny_grey.dit(folder / "dit")


@dataclass
class Trial:
    """A command in a folder of its own; `counter` is kept beside it."""

    job: str
    folder: Path
    shared: Path
    environment: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.folder.mkdir(parents=True)
        self.counter = self.folder.with_suffix(".counter")
        self.counter.write_bytes(bytes(16))

    def command(self) -> list[str]:
        """What is run."""
        words = [word.format(shared=self.shared) for word in JOBS[self.job]]
        return [sys.executable, str(HERE / "child.py"), str(self.counter), *words]

    def start(self, command: Sequence[str] = (), **options: Any) -> subprocess.Popen[str]:
        """Start the command, or another one around it, in the folder."""
        environment = os.environ | {"OMP_NUM_THREADS": "1"} | dict(self.environment)
        pipes: dict[str, Any] = {"stdout": subprocess.DEVNULL, "stderr": subprocess.PIPE, "text": True}
        line = [*command, *self.command()]
        return subprocess.Popen(line, cwd=self.folder, env=environment, **pipes, **options)

    def finish(self) -> str:
        """Run the command to its end; return what is wrong, or nothing."""
        process = self.start()
        _, errors = process.communicate()
        return "" if process.returncode == 0 else f"exit code {process.returncode}: {last(errors)}"

    @property
    def begun(self) -> int:
        """How often the command has begun."""
        return self._number(0)

    @property
    def work(self) -> int:
        """How much was evaluated, by all that ran here."""
        return self._number(1)

    def _number(self, place: int) -> int:
        found: int = struct.unpack_from("q", self.counter.read_bytes(), 8 * place)[0]
        return found


def contents(folder: Path) -> dict[str, bytes]:
    """Every file below a folder."""
    return {str(p.relative_to(folder)): p.read_bytes() for p in sorted(folder.rglob("*")) if p.is_file()}


def different(found: Path, wanted: Path) -> str:
    """Name the files that differ between two folders, or nothing; of `reproduce` its results count alone."""
    part = "results" if (wanted / "results").is_dir() else "."
    one, other = contents(found / part), contents(wanted / part)
    names = [name for name in sorted({*one, *other}) if one.get(name) != other.get(name)]
    return f"other bytes in {', '.join(names[:3])}" if names else ""


def last(errors: str) -> str:
    """The last line of what was said."""
    return errors.strip().splitlines()[-1] if errors.strip() else "nothing said"
