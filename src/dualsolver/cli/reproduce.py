"""`dual-solver reproduce`: the paper's tables and figures, measured again."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from ..checks import check_choice, whole
from .interrupt import interruptible

WORDS = ("all", "list", "page")  # that stand for no experiment of their own


def add(commands: Any) -> None:
    """Add the command to a parser."""
    purpose = "measure the paper's tables and figures again"
    parser = commands.add_parser("reproduce", help=purpose, description=purpose)
    parser.set_defaults(run=_reproduce)
    one, many = parser.add_argument, {"nargs": "+", "metavar": ""}
    one("name", nargs="+", help="experiments; or list, what each costs; all; page, what is stored as a page")
    one("--backbone", default="fashion-dit", help="a name of the zoo, a pipeline folder or a hub id")
    one("--budget", default="quick", help="quick (default) or full, the paper's")
    one(
        "--spend",
        default=[],
        help="in place of the budget's, such as seeds=1 count=500 steps=50 teacher=ddim:20",
        **many,
    )
    one("--guidance", type=float, help="guidance scale (the paper's for the backbone)")
    one("--classifier", help="in place of the suite's: the first is the one to learn through", **many)
    one("--features", help="in place of LPIPS by AlexNet, VGG and SqueezeNet: three feature networks", **many)
    one("--network", help="who measures, as in evaluate: judge, validation or NAME=statistics.npz")
    one("--real", help="for precision and recall, as in evaluate: a folder, an .npz with arr_0")
    one("--clip", help="CLIP scores by models of open_clip: NAME=FILE or a folder", **many)
    one("--prompts", help="of a text backbone: a prompt a line, or MSCOCO's or MJHQ's JSON")
    one("--dtype", help="of the network: float32, bfloat16 or float16")
    one("--device", default="cpu")
    one("--batch", type=int, default=100, help="images a call when measuring (100)")
    one("--recompute", action="store_true", help="keep no activations when learning: less memory")
    one("--threads", type=int, default=1, help="of torch (1); to use more cores, start the command again")
    one("--out", type=Path, default=Path("docs/results"), help="where results are kept (docs/results)")
    one("--work", type=Path, default=Path("runs/reproduce"), help="where work goes on (runs/reproduce)")


def _reproduce(chosen: argparse.Namespace) -> None:
    from ..experiments import EXPERIMENTS
    from ..experiments.budget import BUDGETS
    from ..experiments.page import page
    from ..files import write_whole

    check_choice("the budget", chosen.budget, tuple(BUDGETS))
    for name in chosen.name:
        check_choice("the experiment", name, (*EXPERIMENTS, *WORDS))
    if "page" in chosen.name:
        path = chosen.out.with_suffix(".md")
        write_whole(path, page(chosen.out, chosen.budget))
        return print(path)
    listed = "list" in chosen.name
    setting = _setting(chosen, listed)
    everything = {name: one for name, one in EXPERIMENTS.items() if setting.kind in one.kinds}
    if not set(WORDS) & set(chosen.name):
        for name in chosen.name:
            check_choice(f"the experiment on {setting.name}", name, tuple(everything))
        everything = {name: everything[name] for name in chosen.name}
    for line in (_listed if listed else _run)(chosen, list(everything.values()), setting):
        print(line)
    return None


def _setting(chosen: argparse.Namespace, planned: bool) -> Any:
    """What was asked for, on what is the suite's where nothing was."""
    from .. import named
    from ..experiments.budget import BUDGETS, changed
    from ..experiments.setting import Setting
    from ..experiments.suite import suite_of

    suite = suite_of(chosen.backbone)
    if chosen.classifier:
        suite = suite._replace(classifiers=tuple(chosen.classifier))
    if chosen.features:
        check_choice("the number of feature networks", len(chosen.features), (3,))
        suite = suite._replace(features=dict(zip(suite.features, chosen.features, strict=True)))
    given = {"network": chosen.network, "real": chosen.real, "clips": chosen.clip}
    suite = suite._replace(**{name: value for name, value in given.items() if value is not None})
    return Setting(
        chosen.backbone,
        suite,
        changed(BUDGETS[chosen.budget], named.options(chosen.spend)),
        chosen.guidance,
        chosen.prompts,
        chosen.dtype,
        chosen.device,
        whole("--batch", chosen.batch),
        chosen.recompute,
        planned,
    )


def _store(chosen: argparse.Namespace, setting: Any) -> Any:
    from ..experiments.store import Store

    return Store(chosen.out / f"{setting.slug}.json", chosen.work)


def _listed(chosen: argparse.Namespace, experiments: Sequence[Any], setting: Any) -> Iterator[str]:
    """What each experiment costs alone, what is left of it, and what all of them cost together."""
    from ..experiments.cells import evaluations, key
    from ..experiments.needs import cost

    store = _store(chosen, setting)
    unit = cost([], setting)[1]
    yield f"{'experiment':20}{'cells':>6}{'left':>6}{'evaluations':>16}{unit:>12}{'left':>10}"
    every = {experiment.name: list(experiment.cells(setting)) for experiment in experiments}
    every["together"] = [cell for cells in every.values() for cell in cells]
    for name, cells in every.items():
        left, count = store.missing(cells), len({key(cell) for cell in cells})
        numbers = f"{evaluations(cells):16,}{cost(cells, setting)[0]:12.1f}{cost(left, setting)[0]:10.1f}"
        yield f"{name:20}{count:6}{len(left):6}{numbers}"


def _run(chosen: argparse.Namespace, experiments: Sequence[Any], setting: Any) -> Iterator[str]:
    """Make what is missing of the experiments; give their tables as Markdown."""
    from ..experiments.experiment import Results
    from ..experiments.page import figures
    from ..experiments.render import markdown

    store = _store(chosen, setting)
    _check(setting, store, experiments)
    cells = [cell for experiment in experiments for cell in experiment.cells(setting)]
    try:
        _fill(store, setting, cells, chosen.work)
    finally:
        store.pack(cells)
    for experiment in experiments:
        found = experiment.found(setting, store.get)
        if experiment.draw:
            experiment.draw(
                Results(experiment, experiment.at(setting), found, store.get), chosen.out / setting.slug
            )
        yield from markdown(experiment, setting, found, figures(chosen.out, setting.slug, experiment.name))


def _check(setting: Any, store: Any, experiments: Sequence[Any]) -> None:
    """Say what is to be done and refuse it now if anything that it needs is not there."""
    from ..experiments.needs import cost, tried

    try:
        setting.load()
    except (OSError, ValueError, ModuleNotFoundError):  # it is among what is missing
        setting = replace(setting, planned=True)
    left = store.missing([cell for experiment in experiments for cell in experiment.cells(setting)])
    print("{} cells to make, about {:.1f} {}".format(len(left), *cost(left, setting)))
    lacking = 0
    for name, reason in tried(setting, left):
        print(f"lacks {name}: {reason}" if reason else f"has {name}")
        lacking += bool(reason)
    if lacking:
        raise ValueError(f"cannot start: {lacking} of the things that it needs are missing")


def _fill(store: Any, setting: Any, cells: Sequence[Any], work: Path) -> None:
    """Make the cells, with a bar in evaluations of the network."""
    from tqdm import tqdm

    from ..experiments.bench import Bench
    from ..experiments.cells import evaluations
    from ..experiments.store import fill

    total = evaluations(cells)
    with interruptible() as asked, tqdm(total=total, unit="evaluation", unit_scale=True) as bar:
        bar.update(total - evaluations(store.missing(cells)))
        last = None
        for cell in fill(store, Bench(setting, work, store.get), cells):
            if cell is not last:
                bar.update(total - evaluations(store.missing(cells)) - bar.n)
                last = cell
            if asked():
                raise KeyboardInterrupt
        bar.update(total - bar.n)
