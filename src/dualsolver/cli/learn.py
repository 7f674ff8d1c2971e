"""`dual-solver learn`: turn a backbone into a sampler of a few steps."""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Iterator, Sequence
from dataclasses import asdict, replace
from hashlib import sha256
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from ..checks import check_choice, whole
from ..extras import needs
from ..fit import PRESETS, Workers
from . import options
from .interrupt import interruptible

USUAL = {"fast": ("soft-label", "dpmpp:40"), "paper": ("hard-label", "ddim:200")}  # objective and teacher


def add(commands: Any) -> None:
    """Add the command to a parser."""
    purpose = "learn a solver of a few steps for a backbone"
    parser = commands.add_parser("learn", help=purpose, description=purpose)
    parser.set_defaults(run=_learn)
    one, many = parser.add_argument, {"nargs": "+", "metavar": ""}
    options.backbone(parser)
    one("--nfe", default=["4"], help="evaluations of the network, such as 3 5 or 3..9 (4)", **many)
    one(
        "--objective",
        help="soft-label (of classes, by the preset fast), hard-label (by paper), clip (of prompts), sample, "
        "trajectory, feature, cosine; several, with weights, as in: hard-label feature=0.1",
        **many,
    )
    one(
        "--classifier",
        help="for labels: a torchvision name, timm:NAME, zoo:NAME; several are averaged; views:NAME looks at "
        "paler, bolder and moved copies, too",
        **many,
    )
    one("--clip", help="for clip: models of open_clip, NAME=FILE or a folder, or zoo:NAME; averaged", **many)
    one("--prompts", help="for text to image: a prompt a line, or MSCOCO's or MJHQ's JSON")
    one("--features", default="vgg", help="for feature: LPIPS by alex, vgg, squeeze, or zoo:NAME (vgg)")
    one("--method", default="dual", help="dual (default), bns or ds")
    one("--option", default=[], help="of the method, such as kind=p2c2 parametrisation=direct", **many)
    one("--preset", default="fast", help="fast (default) or paper")
    one("--steps", type=int, help="in place of the preset's")
    one("--batch", type=int, help="in place of the preset's")
    one("--rate", type=float, help="in place of the preset's")
    one("--patience", type=int, help="stop when so many held-out losses brought nothing better")
    one("--seed", type=int, default=0)
    one("--teacher", help="solver:NFE, for the objectives that need one (fast: dpmpp:40, paper: ddim:200)")
    one("--teacher-count", type=int, default=1000, help="how many samples it gives (1000)")
    one("--cache", type=Path, default=Path("runs/teachers"), help="where they are kept (runs/teachers)")
    one("--micro-batch", type=int, help="images a call: the same gradient with less memory")
    one("--recompute", action="store_true", help="keep no activations: less memory, half as slow again")
    one("--out", type=Path, default=Path("runs/learned"), help="the folder of the run (runs/learned)")


def _learn(chosen: argparse.Namespace) -> None:
    from tqdm import tqdm

    from ..learn import learn

    workers = shared(chosen.device)
    plan, task, held = prepared(chosen, workers)
    total, quiet = plan.recipe.steps * len(plan.nfes), workers.rank > 0
    bar = tqdm(total=total, unit="step", mininterval=1, smoothing=0.02, disable=quiet)
    with interruptible() as asked, bar:
        for nfe, record in learn(plan, task, held, chosen.out, workers):
            bar.update(plan.recipe.steps * sorted(plan.nfes).index(nfe) + record.step - bar.n)
            if record.held_out is not None:
                bar.set_postfix_str(f"NFE {nfe}, held-out loss {record.held_out:.4f}")
            if asked():
                raise KeyboardInterrupt
    if not quiet:
        tell(chosen.out)


def shared(device: str) -> Workers:
    """The processes that `accelerate launch` or torchrun started, or this one alone."""
    if int(os.environ.get("WORLD_SIZE", "1")) == 1:
        return Workers()
    with needs("learn"):
        from accelerate import Accelerator
    every = Accelerator(cpu=device == "cpu")

    def add(numbers: Tensor) -> Tensor:
        total: Tensor = every.reduce(numbers.to(every.device), "sum")
        return total.cpu()

    return Workers(every.process_index, every.num_processes, add)


def prepared(chosen: argparse.Namespace, workers: Workers) -> tuple[Any, Any, Any]:
    """Build the plan, the task and the held-out task from what was asked for."""
    from .. import named
    from ..files import alone
    from ..learn import HELD_OUT, Plan, agree
    from ..task import Task

    check_choice("preset", chosen.preset, tuple(PRESETS))
    changes = {k: v for k in ("steps", "batch", "rate") if (v := getattr(chosen, k)) is not None}
    recipe = replace(PRESETS[chosen.preset], **changes)
    backbone, guidance = options.loaded(chosen)
    items = named.items(backbone, chosen.prompts)
    by_label, by_steps = USUAL[chosen.preset]
    chosen.objective = chosen.objective or [by_label if backbone.classes else "clip"]
    chosen.teacher = chosen.teacher or by_steps
    classifiers = chosen.classifier or default_classifier(chosen.backbone)
    clips = chosen.clip or ["zoo:emoji-vit-base"] * chosen.backbone.startswith("emoji-")
    objective, facts = named.objective(chosen.objective, classifiers, chosen.features, chosen.device, clips)
    if not backbone.classes:
        backbone.conditions(items)  # its text encoders are loaded once, not at every new prompt
        facts["prompts"] = sha256(json.dumps(items).encode()).hexdigest()[:16]
    facts = {"backbone": chosen.backbone, "weights": backbone.fingerprint(), "guidance": guidance, **facts}
    facts |= {"preset": chosen.preset, "recipe": asdict(recipe), "seed": chosen.seed}
    if objective.teacher:
        facts["teacher"] = {"solver": chosen.teacher, "count": chosen.teacher_count}
    plan = Plan(
        named.nfes(chosen.nfe), chosen.method, named.options(chosen.option), recipe, chosen.patience, facts
    )
    plan.solver(plan.nfes[0])  # a wrong method or option is known before any work
    with alone(chosen.out, workers.rank):  # before the teacher's work, which takes a while
        agree(plan, chosen.out)
        tasks = []
        for seed, count in ((chosen.seed, chosen.teacher_count), (HELD_OUT, recipe.held_out)):
            teacher = None
            if objective.teacher:
                drawn = 1 if seed == chosen.seed else seed
                teacher = taught(chosen, backbone, items, guidance, drawn, count, workers)
            memory = (chosen.recompute, chosen.micro_batch)
            tasks.append(Task(backbone, objective, items, guidance, seed, teacher, *memory))
    return plan, tasks[0], tasks[1]


def default_classifier(backbone: str) -> list[str]:
    """The classifier to learn with if none was named: the zoo's for its own, the paper's for ImageNet."""
    return ["zoo:vgg-128"] if backbone.startswith("fashion-") else ["mobilenet_v3_large"]


def taught(
    chosen: argparse.Namespace,
    backbone: Any,
    items: Sequence[str],
    guidance: float,
    seed: int,
    count: int,
    workers: Workers,
) -> Any:
    """Make the teacher's samples, or find them in the cache."""
    from tqdm import tqdm

    from .. import named
    from ..teacher import Teacher

    name, _, steps = chosen.teacher.partition(":")
    if not steps.isdecimal():
        raise ValueError(f"--teacher is written SOLVER:NFE, such as ddim:200, not {chosen.teacher}")
    table = named.solver(name, whole("the NFE of --teacher", int(steps)))(backbone.schedule)
    whole_path = any(spec.startswith("trajectory") for spec in chosen.objective)
    teacher = Teacher(backbone, table, items, chosen.cache, guidance, seed, count, whole_path)
    if workers.rank == 0:
        with tqdm(total=count, unit="sample", desc="teacher") as bar:
            for made in teacher.make():
                bar.update(made - bar.n)
    workers.add(torch.zeros(1))  # nobody reads them before they are all there
    return teacher


def tell(out: Path) -> None:
    """Print what was learned and how to use it."""
    for line in lines(out):
        print(line)


def lines(out: Path) -> Iterator[str]:
    """What a run came to."""
    from ..parameters import NAME, read

    runs = read(out / NAME)["provenance"]["runs"]
    for nfe, run in runs.items():
        yield (
            f"NFE {nfe}: held-out loss {run['held_out']:.4f} at step {run['step']} of {run['steps']}, "
            f"{run['evaluations']} evaluations of the network, started from {run['start']}"
        )
    yield f"learned: {out}    (ds.load({str(out)!r}, nfe={next(iter(runs))}))"
