"""The same seed is the same image: at any batch, on any number of processes, compiled or not."""

from __future__ import annotations

import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from jobs import EVALUATE, contents, last
from outcome import Outcome

import dualsolver as ds
from dualsolver.backbones import load
from dualsolver.generate import images

COUNT = 64
ROUNDING = 1e-5  # of images in [0, 1]


def determinism(place: Path, shared: Path, compiled: bool) -> Iterator[Outcome]:
    """All checks."""
    for name, source in (("toy", "toy"), ("a DiT", str(shared / "dit"))):
        backbone = load(source)
        for solver in (ds.DPMpp(4), ds.UniPC(4), ds.DualSolver(4)):
            one = drawn(backbone, solver, COUNT)
            for batch in (1, 7):
                yield compared(
                    f"same image at batch {batch} and {COUNT}, {name}", one, drawn(backbone, solver, batch)
                )
            yield compared(f"same image again, {name}", one, drawn(backbone, solver, COUNT))
        if compiled:
            yield compiling(name, backbone)
    yield from processes(place, shared)


def drawn(backbone: Any, solver: ds.Solver, batch: int) -> torch.Tensor:
    """The images of the first seeds."""
    with torch.no_grad():
        table = solver(backbone.schedule)
    items = [backbone.classes[seed % len(backbone.classes)] for seed in range(COUNT)]
    return torch.cat(list(images(backbone, table, items, range(COUNT), 1.5, batch)))


def compared(check: str, one: torch.Tensor, other: torch.Tensor) -> Outcome:
    """Whether two sets of images are the same: to the bit, or to rounding."""
    apart = float((one - other).abs().max())
    return Outcome(check, "" if apart < ROUNDING else f"{apart:.1e} apart", apart)


def compiling(name: str, backbone: Any) -> Outcome:
    """The network as `torch.compile` makes it."""
    check, solver = f"same image compiled, {name}", ds.DPMpp(4)
    one, real = drawn(backbone, solver, COUNT), type(backbone).model
    try:
        type(backbone).model = torch.compile(real)
        return compared(check, one, drawn(backbone, solver, COUNT))
    except Exception as error:  # no compiler here
        return Outcome(check, skipped=f"nothing is compiled here: {type(error).__name__}")
    finally:
        type(backbone).model = real


def processes(place: Path, shared: Path) -> Iterator[Outcome]:
    """The PNG files of one, two and four processes, byte for byte."""
    found = {}
    for count in (1, 2, 4):
        folder = place / f"processes-{count}"
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        more = ["--count", str(COUNT), "--write", str(COUNT), "--batch", "4", "--out", "run"]
        words = [word.format(shared=shared) for word in [*EVALUATE, *more]]
        launch = ["torch.distributed.run", "--nproc-per-node", str(count), "--master-port", str(port()), "-m"]
        line = [sys.executable, "-m", *(launch if count > 1 else []), "dualsolver.cli", *words]
        done = subprocess.run(line, cwd=folder, capture_output=True, text=True)
        found[count] = {name: data for name, data in contents(folder).items() if name.endswith(".png")}
        wrong = f"exit code {done.returncode}: {last(done.stderr)}" if done.returncode else ""
        if len(found[count]) != COUNT or found[count] != found[1]:
            wrong = wrong or f"{len(found[count])} images, or other bytes"
        yield Outcome(f"same image on {count} processes", wrong, None if wrong else 0.0)


def port() -> int:
    """A port that is free now."""
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        number: int = found.getsockname()[1]
        return number
