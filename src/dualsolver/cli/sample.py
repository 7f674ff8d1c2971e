"""`dual-solver sample`: a picture a seed, a grid of them, and a JSON that says how they were made."""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from ..checks import whole
from . import options

FEW = 16  # classes that are all sampled unless some are named


def add(commands: Any) -> None:
    """Add the command to a parser."""
    purpose = "sample a backbone with a solver into pictures"
    parser = commands.add_parser("sample", help=purpose, description=purpose)
    options.backbone(parser)
    arguments(parser)


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add all arguments but those of the backbone."""
    parser.set_defaults(run=_sample)
    one = parser.add_argument
    one("--solver", default="dpmpp", help="a fixed solver by name, a learned one by folder or hub id (dpmpp)")
    one("--nfe", type=int, help="evaluations of the network (10, or what was learned)")
    one("--grid", help="of a fixed solver: uniform, half_log_snr, karras, shifted (the schedule's own)")
    what, classes = parser.add_mutually_exclusive_group(), f"names or numbers (all, if at most {FEW})"
    what.add_argument("--class", dest="classes", nargs="+", metavar="CLASS", help=classes)
    what.add_argument("--prompt", nargs="+", help="what to draw")
    seeds = "each makes a picture of every class or prompt (0..7)"
    one("--seed", default=["0..7"], nargs="+", help=seeds)
    one("--batch", type=int, default=16, help="pictures a call of the network (16)")
    one("--grid-only", action="store_true", help="write neither the single pictures nor the JSON")
    one("--out", type=Path, default=Path("samples.png"), help="the grid; others go beside it (samples.png)")


def _sample(chosen: argparse.Namespace) -> None:
    import torch

    from .. import named
    from ..pictures import grid, save_png

    if chosen.out.suffix != ".png":
        raise ValueError(f"--out names the grid and ends in .png, not {chosen.out}")
    seeds = named.seeds(chosen.seed)
    backbone, guidance = options.loaded(chosen)
    items = _items(backbone, chosen)
    solver = named.solver(chosen.solver, chosen.nfe, chosen.grid)
    named.tell_apart(chosen.solver, backbone, guidance)
    table, pairs = solver(backbone.schedule), [(seed, item) for seed in seeds for item in items]
    files, made = list(_files(chosen.out, seeds, len(items))), []
    images = _images(backbone, table, pairs, guidance, whole("--batch", chosen.batch))
    for file, image in zip(files, images, strict=True):
        made.append(image)
        if not chosen.grid_only:
            save_png(file, image, scale=1)
    columns = len(items) if len(items) > 1 else math.ceil(math.sqrt(len(made)))
    save_png(chosen.out, grid(torch.stack(made), columns), scale=max(1, 64 // made[0].shape[-1]))
    if not chosen.grid_only:
        _write_facts(chosen, backbone, guidance, table, list(zip(files, pairs, strict=True)))
    told = f"{chosen.solver} with {solver.nfe} evaluations at guidance {guidance:g}"
    print(f"{chosen.out}: {len(made)} pictures by {told}")


def _items(backbone: Any, chosen: argparse.Namespace) -> list[Any]:
    """The classes or prompts that were asked for, or all classes if they are few."""
    if len(backbone.shape) != 3:
        raise ValueError(f"{chosen.backbone} makes no pictures: its samples have shape {backbone.shape}")
    if not backbone.classes:
        if not chosen.prompt:
            raise ValueError(f"{chosen.backbone} draws what a text says: give it as --prompt")
        return list(chosen.prompt)
    if chosen.prompt or not (chosen.classes or len(backbone.classes) <= FEW):
        some = f"{len(backbone.classes)} classes, such as {', '.join(backbone.classes[:3])}"
        raise ValueError(f"{chosen.backbone} has {some}: name some as --class")
    named = chosen.classes or backbone.classes
    return [int(c) if c.isdecimal() and c not in backbone.classes else c for c in named]


def _files(out: Path, seeds: Sequence[int], items: int) -> Iterator[Path]:
    """Where the single pictures go."""
    for seed in seeds:
        for i in range(items):
            yield out.with_suffix("") / (f"seed-{seed}" + f"-{i}" * (items > 1) + ".png")


def _images(
    backbone: Any, table: Any, pairs: Sequence[tuple[int, Any]], guidance: float, batch: int
) -> Iterator[Any]:
    """Make the images one by one, with a progress bar of the network's evaluations."""
    from tqdm import tqdm

    from ..generate import images

    seeds, items = [seed for seed, _ in pairs], [item for _, item in pairs]
    with tqdm(total=len(pairs) * table.nfe, unit="eval", leave=False) as bar:
        for made in images(backbone, table, items, seeds, guidance, batch, bar.update):
            yield from made.cpu()


def _write_facts(
    chosen: argparse.Namespace,
    backbone: Any,
    guidance: float,
    table: Any,
    made: Sequence[tuple[Path, tuple[int, Any]]],
) -> None:
    """Write how the pictures were made: all that they depend on."""
    import torch

    from .. import __version__
    from ..files import write_whole
    from ..parameters import lists_on_one_line

    folder, what = chosen.out.parent, "class" if backbone.classes else "prompt"
    facts = {
        "command": chosen.command,
        "backbone": chosen.backbone,
        "weights": backbone.fingerprint(),
        "schedule": backbone.schedule.config(),
        "guidance": guidance,
        "solver": chosen.solver,
        "t": table.t.tolist(),
        "coefficients": table.weights.tolist(),
        "batch": chosen.batch,
        **{name: getattr(chosen, name) for name in ("dtype", "variant", "device", "threads")},
        "pictures": [
            {"file": str(file.relative_to(folder)), "seed": seed, what: item} for file, (seed, item) in made
        ],
        "versions": {"dualsolver": __version__, "torch": torch.__version__},
    }
    write_whole(chosen.out.with_suffix(".json"), lists_on_one_line(json.dumps(facts, indent=1)) + "\n")
