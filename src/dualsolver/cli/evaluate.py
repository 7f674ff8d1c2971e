"""`dual-solver evaluate`: figures of solvers on a backbone, with standard errors, resumable."""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

from ..checks import whole
from .interrupt import interruptible


def add(commands: Any) -> None:
    """Add the command to a parser."""
    purpose = "sample a backbone with solvers and measure the images"
    parser = commands.add_parser("evaluate", help=purpose, description=purpose)
    parser.set_defaults(run=_evaluate)
    one, many = parser.add_argument, {"nargs": "+", "metavar": ""}
    one("--backbone", default="fashion-dit", help="a name of the zoo, a pipeline folder or a hub id")
    one("--solver", required=True, help="fixed solvers by name, learned ones by folder", **many)
    one("--nfe", default=["3", "5", "9"], help="evaluations of the network (3 5 9)", **many)
    one("--grid", help="of the fixed solvers: uniform, half_log_snr, karras, shifted (the schedule's own)")
    one("--guidance", type=float, help="guidance scale (the paper's for the backbone)")
    one("--count", type=int, default=10_000, help="images (10000)")
    one("--seed", type=int, default=10**6, help="of the images; learning uses others (1000000)")
    one(
        "--network",
        default=["validation"],
        help="who looks: validation, judge, efficientnet-lite0, inception, "
        "or NAME=statistics.npz for one with other statistics",
        **many,
    )
    one("--batch", type=int, default=100)
    one("--dtype", help="of the network: float32, bfloat16 or float16")
    one("--variant", help="of the weight files, such as fp16")
    one("--device", default="cpu")
    one("--threads", type=int, default=2, help="of torch (2)")
    one("--out", type=Path, default=Path("runs/evaluated"), help="a folder for each solver and NFE below it")


def _evaluate(chosen: argparse.Namespace) -> None:
    from .. import named

    backbone = named.backbone(chosen.backbone, chosen.dtype, chosen.variant, chosen.device)
    guidance = named.guidance(backbone, chosen.guidance)
    networks = {name: named.network(name) for name in chosen.network}
    for solver in chosen.solver:
        for nfe in named.nfes(chosen.nfe):
            table = named.solver(solver, nfe, chosen.grid)(backbone.schedule)
            found = _one(chosen, backbone, guidance, networks, table, Path(solver).name, nfe)
            print(f"{solver}, NFE {nfe}: " + ", ".join(_shown(*pair) for pair in found["figures"].items()))


def _one(
    chosen: argparse.Namespace,
    backbone: Any,
    guidance: float,
    networks: Mapping[str, Any],
    table: Any,
    name: str,
    nfe: int,
) -> dict[str, Any]:
    """Sample, look and write the result of one solver at one NFE."""
    from tqdm import tqdm

    from ..evaluate import Sampling, evaluate, gathered, report
    from ..files import write_whole
    from .learn import shared

    folder, workers = chosen.out / f"{name}-{nfe}", shared(chosen.device)
    count, batch = whole("--count", chosen.count), whole("--batch", chosen.batch)
    job = Sampling(backbone, table, backbone.classes, guidance, chosen.seed, count, batch)
    facts = {
        "backbone": chosen.backbone,
        "weights": backbone.fingerprint(),
        "guidance": guidance,
        "t": table.t.tolist(),
        "coefficients": table.weights.tolist(),
        "seed": chosen.seed,
        "count": count,
        "batch": batch,
        "networks": sorted(networks),
    }
    extractors = {name: network.extractor for name, network in networks.items()}
    with interruptible() as asked, tqdm(total=count, unit="image", leave=False) as bar:
        for done in evaluate(job, extractors, folder, facts, 0, workers.rank, workers.count):
            bar.update(done * workers.count - bar.n)
            if asked():
                raise KeyboardInterrupt
    workers.add(torch.zeros(1))  # all have written theirs
    book = gathered(folder, facts)
    figures = report(book, {name: network.statistics for name, network in networks.items()})
    result = {"solver": name, "nfe": nfe, **facts, "figures": figures}
    if workers.rank == 0:
        write_whole(folder / "result.json", json.dumps(result, indent=1) + "\n")
    return result


def _shown(name: str, value: Any) -> str:
    if isinstance(value, tuple | list):
        return f"{name} {value[0]:.4g} +- {value[1]:.2g}"
    return f"{name} {value:.4g}" if isinstance(value, float) else f"{name} {value}"
