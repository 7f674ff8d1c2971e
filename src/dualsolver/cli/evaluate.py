"""`dual-solver evaluate` and `dual-solver captions`: figures with standard errors, and prompts to sample."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from ..checks import whole
from . import sampled


def add(commands: Any) -> None:
    """Add both commands to a parser."""
    purpose = "sample a backbone with solvers and measure the images"
    parser = commands.add_parser("evaluate", help=purpose, description=purpose)
    parser.set_defaults(run=_evaluate)
    sampled.add(parser)
    one = parser.add_argument
    one("--write", type=int, default=0, help="write so many of the images as PNG files (0)")
    one("--npz", action="store_true", help="write all images into one .npz, as ADM's evaluation reads them")
    one("--out", type=Path, default=Path("runs/cells"), help="a folder for each solver and NFE goes here")
    purpose = "write a seeded list of one caption an image from an MSCOCO captions file"
    captions = commands.add_parser("captions", help=purpose, description=purpose)
    captions.set_defaults(run=_captions, threads=1)
    captions.add_argument("file", type=Path, help="such as captions_val2014.json")
    captions.add_argument("--count", type=int, help="so many images (all)")
    captions.add_argument("--seed", type=int, default=0)
    captions.add_argument("--out", type=Path, default=Path("prompts.txt"))


def _evaluate(chosen: argparse.Namespace) -> None:
    from ..images import pack
    from .learn import shared

    workers = shared(chosen.device)
    cells = sampled.planned(chosen, chosen.out)
    write = whole("--count", chosen.count) if chosen.npz else whole("--write", chosen.write, 0)
    for cell in cells:
        backbone, asked = cell.sampling.backbone, cell.sampling.asked(write)
        classes = backbone.conditions(asked).tolist() if chosen.npz and backbone.classes else []
        for found in sampled.made([cell], workers, write):
            shown = ", ".join(_shown(*pair) for pair in found["figures"].items())
            print(f"{cell.name}, NFE {found['nfe']}: {shown}    ({cell.folder})", flush=True)
            if chosen.npz:
                print(pack(cell.folder, write, classes), flush=True)


def _captions(chosen: argparse.Namespace) -> None:
    from ..captions import coco
    from ..files import write_whole

    count = None if chosen.count is None else whole("--count", chosen.count)
    prompts = coco(chosen.file, count, chosen.seed)
    write_whole(chosen.out, "\n".join(prompts) + "\n")
    print(f"{chosen.out}: {len(prompts)} captions, one an image")


def _shown(name: str, value: Any) -> str:
    if isinstance(value, tuple):
        value, error = value
        return f"{name} {value:.4g}" + (f" +- {error:.2g}" if error is not None else "")
    return f"{name} {value}"
