"""What `evaluate` and `compare` share: which cells there are, and making them with a progress bar."""

from __future__ import annotations

import argparse
import logging
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from .. import __version__
from ..checks import whole
from ..fit import Workers
from .interrupt import interruptible

logger = logging.getLogger(__name__)


def add(parser: argparse.ArgumentParser) -> None:
    """Add the arguments that say what is sampled and who judges it."""
    many: dict[str, Any] = {"nargs": "+", "metavar": ""}
    one = parser.add_argument
    one("--backbone", default="fashion-dit", help="a name of the zoo, a pipeline folder or a hub id")
    one("--solver", required=True, help="fixed solvers by name, learned ones by folder", **many)
    one("--nfe", default=["3", "5", "9"], help="evaluations of the network, such as 3 5 or 3..9", **many)
    one("--grid", help="of the fixed solvers: uniform, half_log_snr, karras, shifted (the schedule's own)")
    one("--guidance", type=float, help="guidance scale (the paper's for the backbone)")
    one("--prompts", help="for text to image: a prompt a line, or MSCOCO's or MJHQ's JSON")
    one("--count", type=int, default=10_000, help="images (10000)")
    one("--seed", type=int, default=10**6, help="of the images; learning uses others (1000000)")
    one(
        "--network",
        nargs="*",
        metavar="",
        help="who looks: validation, judge, or efficientnet-lite0, inception, pixels with statistics, as "
        "NAME=statistics.npz; (validation for the zoo's generators, else nobody)",
    )
    one("--clip", default=[], help="CLIP scores by models of open_clip: NAME=FILE or a folder", **many)
    one("--real", help="for precision and recall: a folder of images, an .npz with arr_0, or fashion-mnist")
    one("--keep", type=int, default=2000, help="samples and real images for that (2000)")
    one("--batch", type=int, default=100)
    one("--dtype", help="of the network: float32, bfloat16 or float16")
    one("--variant", help="of the weight files, such as fp16")
    one("--device", default="cpu")
    one("--threads", type=int, default=2, help="of torch (2)")


def planned(chosen: argparse.Namespace, store: Path) -> list[Any]:
    """Build a cell for each solver and NFE; a solver that has not learned some of the NFEs goes without."""
    from .. import named
    from ..cells import Cell
    from ..evaluate import Sampling
    from ..judges import judges

    backbone = named.backbone(chosen.backbone, chosen.dtype, chosen.variant, chosen.device)
    guidance, items = named.guidance(backbone, chosen.guidance), named.items(backbone, chosen.prompts)
    networks = chosen.network
    if networks is None:
        networks = ["validation"] if chosen.backbone.startswith("fashion-") else []
    who = judges(networks, chosen.clip, chosen.real, whole("--keep", chosen.keep), chosen.device)
    count, batch, nfes = (
        whole("--count", chosen.count),
        whole("--batch", chosen.batch),
        named.nfes(chosen.nfe),
    )
    who.warn_of_few(count)
    provenance = {"backbone": backbone.name, "schedule": str(backbone.schedule)} | _provenance(chosen)
    cells = []
    for spec, name in zip(chosen.solver, labels(chosen.solver), strict=True):
        for solver in solvers(spec, nfes, chosen.grid):
            table = solver(backbone.schedule)
            job = Sampling(backbone, table, items, guidance, chosen.seed, count, batch)
            cells.append(Cell(name, solver, job, who, store, provenance | learned(spec)))
    return cells


def _provenance(chosen: argparse.Namespace) -> dict[str, Any]:
    return {
        "command": chosen.command,
        "dtype": chosen.dtype,
        "device": chosen.device,
        "real": chosen.real,
        "version": __version__,
        "torch": torch.__version__,
    }


def labels(specs: Sequence[str]) -> list[str]:
    """Short names of solvers: folders by their last part, or by all where that is not enough.

    >>> labels(["ddim", "runs/a/learned", "runs/b/learned", "runs/c"])
    ['ddim', 'runs-a-learned', 'runs-b-learned', 'c']
    """
    short = [Path(spec).name for spec in specs]
    if len(set(specs)) < len(specs):
        raise ValueError(f"a solver is named twice among {' '.join(specs)}")
    return [
        name if short.count(name) == 1 else "-".join(Path(spec).parts).strip("-/.")
        for name, spec in zip(short, specs, strict=True)
    ]


def solvers(spec: str, nfes: Sequence[int], grid: str | None) -> list[Any]:
    """The solvers for these NFEs; those that there are not are named in a line, unless it is all of them."""
    from .. import named

    found, missing = [], []
    for nfe in nfes:
        try:
            found.append(named.solver(spec, nfe, grid))
        except ValueError as error:
            missing.append(error)
    if not found:
        raise missing[0]
    for reason in missing:
        logger.warning("left out: %s", reason)
    return found


def learned(spec: str) -> dict[str, Any]:
    """Where a learned solver comes from; nothing for a fixed one."""
    from ..parameters import NAME, read

    path = Path(spec) / NAME
    if not path.exists():
        return {"learned": None}
    content = read(path)
    return {"learned": {**content["provenance"], "nfes": sorted(map(int, content["solvers"]))}}


def made(cells: Sequence[Any], workers: Workers, write: int) -> list[dict[str, Any]]:
    """Make what is missing of all cells, then read and return their results."""
    from tqdm import tqdm

    found = []
    for number, cell in enumerate(cells, 1):
        job, title = cell.sampling, f"{number}/{len(cells)} {cell.name}, NFE {cell.solver.nfe}"
        total = sum(len(job.indices(i)) for i in job.batches()[workers.rank :: workers.count])
        running = cell.run(workers, write)
        bar = tqdm(desc=title, total=total, initial=next(running), unit="image", leave=False)
        bar.disable = bar.disable or workers.rank > 0
        with interruptible() as asked, bar:
            for done in running:
                bar.update(done - bar.n)
                if asked():
                    running.close()
                    raise KeyboardInterrupt
        workers.add(torch.zeros(1))  # all have written theirs
        if workers.rank == 0:
            found.append(cell.result())
    return found
