"""`dual-solver zoo list|show|data|train|sample|measure|statistics`: the embedded models."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from ..checks import number, whole
from . import options, sample

LOOKS = 50  # steps between two records of a training


def add(commands: Any) -> None:
    """Add the commands of the zoo to a parser."""
    zoo = commands.add_parser("zoo", help="the embedded models")
    actions = zoo.add_subparsers(metavar="ACTION", required=True)
    _action(actions, "list", _list, "what there is, what for, and how large")
    _named(_action(actions, "show", _show, "the card of a model"))
    train = _dataset(_named(_action(actions, "train", _train, "train a model, or continue where it stopped")))
    train.add_argument("--runs", type=Path, default=Path("runs"), help="where its state is kept (runs)")
    train.add_argument("--further", action="store_true", help="start from the shipped weights, not from none")
    train.add_argument("--steps", type=int, help="in place of the recipe's")
    train.add_argument("--rate", type=float, help="in place of the recipe's")
    train.add_argument("--watch", type=int, default=0, help="measure a generator each time after so many")
    purpose = "sample a generator into pictures, as `dual-solver sample` does"
    drawn = actions.add_parser("sample", help=purpose, description=purpose)
    drawn.add_argument("backbone", metavar="name", help="see `dual-solver zoo list`")
    options.network(drawn)
    sample.arguments(drawn)
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


def _check(chosen: argparse.Namespace) -> None:
    """Refuse what would train nothing, or measure nothing on the way."""
    if chosen.steps is not None:
        whole("--steps", chosen.steps)
    if chosen.rate is not None:
        number("--rate", chosen.rate, above=0)
    if chosen.watch % LOOKS or chosen.watch < 0:
        raise ValueError(f"--watch must be a multiple of {LOOKS} steps, not {chosen.watch}")


def _train(chosen: argparse.Namespace) -> None:
    from tqdm import tqdm

    from ..zoo.fit import fit
    from .interrupt import interruptible

    _check(chosen)
    changes = {name: value for name in ("steps", "rate") if (value := getattr(chosen, name)) is not None}
    training = {"further": chosen.further, "watch": chosen.watch, "changes": changes}
    bar = tqdm(desc=chosen.name, unit="step", mininterval=5, delay=1)  # a mistake shows no bar
    with bar, interruptible() as stop:
        for record, total in fit(chosen.name, chosen.runs, chosen.data, stop=stop, **training):
            if not bar.n:
                bar.initial = record.step  # a continued run's speed is that of its own steps
            bar.total = total
            bar.set_postfix(loss=f"{record.loss:.4f}", refresh=False)
            bar.update(record.step - bar.n)


def _measure(chosen: argparse.Namespace) -> None:
    from ..zoo import entries, measure
    from ..zoo.data import read

    command, kind = f"dual-solver zoo measure {chosen.name}", entries.entry(chosen.name).kind
    if entries.entry(chosen.name).data == "emoji":
        from ..zoo.emoji import measure as emoji

        command += f" --count {chosen.count}" * (kind in ("pixart", "sana"))
        return _carded(chosen.name, *emoji.figures(chosen.name, chosen.count, chosen.data, print), command)
    train, test = (read(split, chosen.data) for split in ("train", "test"))
    if kind in ("classifier", "autoencoder"):
        found = {"classifier": measure.classifier, "autoencoder": measure.autoencoder}[kind](
            chosen.name, test
        )
    else:
        found = measure.generator(chosen.name, train, test, chosen.count, told=print)
        command += f" --count {chosen.count}"
        measure.picture(chosen.name)
    return _carded(chosen.name, found, train.hash, command)


def _carded(name: str, figures: dict[str, float], data: str, command: str) -> None:
    from ..zoo.cards import card

    for what, value in figures.items():
        print(f"{value:12.4f}  {what}")
    print(card(name, data, figures, command))


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
    from ..zoo.entries import entry
    from ..zoo.fit import dataset
    from ..zoo.references import make

    read = dataset(entry(chosen.name))
    print(make(chosen.name, {split: read(split, chosen.data) for split in ("train", "test")}))
