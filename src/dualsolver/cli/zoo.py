"""`dual-solver zoo list|show|data|train|sample|measure|statistics`: the embedded models."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any


def add(commands: Any) -> None:
    """Add the commands of the zoo to a parser."""
    zoo = commands.add_parser("zoo", help="the embedded models")
    actions = zoo.add_subparsers(metavar="ACTION", required=True)
    _action(actions, "list", _list, "what there is, what for, and how large")
    _named(_action(actions, "show", _show, "the card of a model"))
    train = _dataset(_named(_action(actions, "train", _train, "train a model, or continue where it stopped")))
    train.add_argument("--runs", type=Path, default=Path("runs"), help="where its state is kept (runs)")
    train.add_argument("--further", action="store_true", help="start from the shipped weights, not from none")
    sample = _named(_action(actions, "sample", _sample, "sample a generator into a picture"))
    sample.add_argument("--solver", default="ddim", help="ddim, dpmpp, unipc, ... (ddim)")
    sample.add_argument("--nfe", type=int, default=20, help="evaluations of the network (20)")
    sample.add_argument("--guidance", type=float, help="guidance scale (the paper's)")
    sample.add_argument("--classes", help="numbers or names, with commas (all ten)")
    sample.add_argument("--count", type=int, default=8, help="images of each class (8)")
    sample.add_argument("--seed", type=int, default=0, help="the first image's seed (0)")
    sample.add_argument("--out", type=Path, default=Path("samples.png"))
    measure = _dataset(_named(_action(actions, "measure", _measure, "measure a model and write its card")))
    measure.add_argument("--count", type=int, default=2000, help="images of a generator (2000)")
    data = _action(actions, "data", _data, "make the captioned emoji from packages, fetched if need be")
    data.add_argument("name", choices=["emoji"])
    data.add_argument("--sources", type=Path, default=Path(".cache/emoji"), help="packages (.cache/emoji)")
    data.add_argument("--out", type=Path, default=Path("runs/emoji"), help="where to (runs/emoji)")
    _dataset(
        _named(_action(actions, "statistics", _statistics, "write the real images' statistics in a network"))
    )


def _action(actions: Any, name: str, run: Any, purpose: str) -> argparse.ArgumentParser:
    parser: argparse.ArgumentParser = actions.add_parser(name, help=purpose, description=purpose)
    parser.add_argument("--threads", type=int, default=1, help="of torch (1)")
    parser.set_defaults(run=run)
    return parser


def _named(parser: argparse.ArgumentParser) -> argparse.ArgumentParser:
    parser.add_argument("name", help="see `dual-solver zoo list`")
    return parser


def _dataset(parser: argparse.ArgumentParser) -> argparse.ArgumentParser:
    parser.add_argument("--data", help="the folder of Fashion-MNIST's idx files, or of the emoji")
    return parser


def _list(chosen: argparse.Namespace) -> None:
    from ..zoo import entries, names, registry

    for name, found in entries.ENTRIES.items():
        files = registry.home(name).rglob("*.safetensors")
        size = f"{sum(file.stat().st_size for file in files) / 1e6:5.1f} MB"
        print(f"{name:17} {found.kind:12} {size if name in names() else 'untrained'}  {found.purpose}")


def _show(chosen: argparse.Namespace) -> None:
    from ..zoo import path

    print((path(chosen.name) / "README.md").read_text(), end="")


def _train(chosen: argparse.Namespace) -> None:
    from tqdm import tqdm

    from ..zoo.fit import fit
    from .interrupt import interruptible

    bar = tqdm(desc=chosen.name, unit="step", mininterval=5)
    with bar, interruptible() as stop:
        for record, total in fit(chosen.name, chosen.runs, chosen.data, stop=stop, further=chosen.further):
            if not bar.n:
                bar.initial = record.step  # a continued run's speed is that of its own steps
            bar.total = total
            bar.set_postfix(loss=f"{record.loss:.4f}", refresh=False)
            bar.update(record.step - bar.n)


def _sample(chosen: argparse.Namespace) -> None:
    import torch
    from tqdm import tqdm

    from ..checks import check_choice, whole
    from ..solvers import SOLVERS
    from ..zoo import entries, generate, load
    from ..zoo.pictures import grid, save_png

    check_choice("the model to sample", entries.entry(chosen.name).kind, tuple(generate.GUIDANCE))
    check_choice("--solver", chosen.solver, tuple(SOLVERS))
    solver, backbone = SOLVERS[chosen.solver](whole("--nfe", chosen.nfe)), load(chosen.name)
    wanted = chosen.classes.split(",") if chosen.classes else range(10)
    classes = backbone.conditions([int(c) if str(c).isdigit() else c for c in wanted])
    classes = classes.repeat(whole("--count", chosen.count))
    scale = generate.guidance_of(chosen.name) if chosen.guidance is None else chosen.guidance
    batches = generate.images(backbone, solver, classes, scale, chosen.seed, batch=20)
    bar = tqdm(batches, total=-(-len(classes) // 20), unit="batch", leave=False)
    save_png(chosen.out, grid(torch.cat(list(bar)), columns=len(classes) // chosen.count))
    print(f"{chosen.out}: {len(classes)} images, {chosen.solver} with {chosen.nfe} evaluations")


def _measure(chosen: argparse.Namespace) -> None:
    from ..zoo import entries, measure
    from ..zoo.cards import card
    from ..zoo.data import read

    kind, test = entries.entry(chosen.name).kind, read("test", chosen.data)
    train = read("train", chosen.data)
    command = f"dual-solver zoo measure {chosen.name}"
    if kind in ("classifier", "autoencoder"):
        found = {"classifier": measure.classifier, "autoencoder": measure.autoencoder}[kind](
            chosen.name, test
        )
    else:
        found = measure.generator(chosen.name, train, test, chosen.count, told=print)
        command += f" --count {chosen.count}"
    for what, value in found.items():
        print(f"{value:12.4f}  {what}")
    print(card(chosen.name, train.hash, found, command))


def _data(chosen: argparse.Namespace) -> None:
    from tqdm import tqdm

    from ..zoo.emoji import data

    with tqdm(unit="picture", leave=False, mininterval=1) as bar:
        for _ in data.build(chosen.sources, chosen.out):
            bar.update()
    made = data.read("all", chosen.out)
    held = sum(row.held_out for row in made.rows)
    print(f"{chosen.out}: {len(made)} pictures, {held} of them held out, sha256 {made.hash}")


def _statistics(chosen: argparse.Namespace) -> None:
    from ..zoo.data import read
    from ..zoo.references import make

    print(make(chosen.name, {split: read(split, chosen.data) for split in ("train", "test")}))
