"""`dual-solver zoo list|show|train|sample`: the embedded models."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any


def add(commands: Any) -> None:
    """Add the commands of the zoo to a parser."""
    zoo = commands.add_parser("zoo", help="the embedded models")
    actions = zoo.add_subparsers(metavar="ACTION", required=True)
    train = actions.add_parser("train", help="train a model of the zoo, or continue where it stopped")
    train.add_argument("name")
    train.add_argument("--data", help="the folder of Fashion-MNIST's idx files")
    train.add_argument("--runs", type=Path, default=Path("runs"), help="where the state is kept (runs)")
    train.add_argument("--threads", type=int, default=1)
    train.set_defaults(run=_train)


def _train(chosen: argparse.Namespace) -> None:
    import torch
    from tqdm import tqdm

    from ..zoo.fit import fit

    torch.set_num_threads(chosen.threads)
    bar = tqdm(desc=chosen.name, unit="step", mininterval=5)
    for record, total in fit(chosen.name, chosen.runs, chosen.data):
        bar.total = total
        bar.set_postfix(loss=f"{record.loss:.4f}", refresh=False)
        bar.update(record.step - bar.n)
    bar.close()
