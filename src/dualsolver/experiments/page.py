"""The page of results, written from the stored ones alone: no network is loaded and nothing is typed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

from ..zoo.entries import ENTRIES
from . import EXPERIMENTS, Experiment
from .budget import BUDGETS
from .cells import key
from .claims import Claim
from .found import Found
from .render import markdown
from .setting import Setting
from .store import Store
from .suite import suite_of

HEAD = """# The paper, re-measured

Written by `dual-solver reproduce page` from the results in [`results/`](results); no number is typed. Only
what stands under *Why* is written by hand, in `results/why/`. Backbones are the embedded ones, trained on
Fashion-MNIST: their distances are not those of ImageNet, so what can be compared with the paper is which
method is better and by how much, not the numbers themselves.

- Learned: {steps} steps of {batch} samples (rate {rate:g}, from the best of several starts).
- Measured: {count} images, the same noise for all methods of a seed; FID in the features of the `judge`.
- Repeated from {seeds} seeds; ± is the standard error over them, or over parts of the images of a single one.
- A claim is *held* at a place if its margin is above zero by Student's t at 95 %, the *opposite* if it is
  below, and *open* otherwise.
"""


def page(out: Path, budget: str = "quick") -> str:
    """Return the page of all results of the zoo's generators in a folder."""
    return "\n".join(_lines(out, budget)).rstrip() + "\n"


def figures(out: Path, backbone: str, experiment: str) -> list[str]:
    """The figures of an experiment that are there, as the page beside the folder finds them."""
    return [
        f"{out.name}/{backbone}/{path.name}" for path in sorted((out / backbone).glob(f"{experiment}*.png"))
    ]


def results(store: Store, setting: Setting) -> dict[str, Found]:
    """The numbers of every experiment that has any."""
    numbers = {}
    for name, experiment in EXPERIMENTS.items():
        if setting.kind in experiment.kinds:
            numbers[name] = experiment.found(setting, store.get)
    return numbers


def _lines(out: Path, budget: str) -> Iterator[str]:
    chosen = BUDGETS[budget]
    recipe = chosen.recipe
    yield HEAD.format(
        steps=recipe.steps, batch=recipe.batch, rate=recipe.rate, count=chosen.count, seeds=len(chosen.seeds)
    )
    names = [
        name
        for name, entry in ENTRIES.items()
        if entry.kind in ("dit", "gmdit") and (out / f"{name}.json").exists()
    ]
    settings = {name: Setting(name, suite_of(name), chosen) for name in names}
    stores = {name: Store(out / f"{name}.json", Path()) for name in names}
    numbers = {name: results(stores[name], setting) for name, setting in settings.items()}
    yield from _summary(settings, numbers) if settings else ()
    left = []
    for name, experiment in EXPERIMENTS.items():
        body = [
            line
            for who, setting in settings.items()
            for line in _found(out, experiment, setting, stores[who], numbers[who])
        ]
        if not body:
            left.append(f"`{name}`")
            continue
        own = "".join(f", {what} {value}" for what, value in chosen.special.get(name, {}).items())
        how = f"`dual-solver reproduce {name}`" + (f"; here{own[1:]}." if own else "")
        yield from (f"## {experiment.title}", "", how, "", *body)
        if (why := out / "why" / f"{name}.md").exists():
            yield from ("### Why", "", why.read_text())
    if left:
        yield from ("## Not measured yet", "", f"{', '.join(left)}: each by `dual-solver reproduce NAME`.")


def _found(
    out: Path, experiment: Experiment, setting: Setting, store: Store, numbers: Mapping[str, Found]
) -> Iterator[str]:
    """What an experiment came to on a backbone, if half of it or more is made, or a figure drawn."""
    if experiment.name not in numbers:
        return
    drawn, cells = figures(out, setting.name, experiment.name), [*experiment.cells(setting)]
    left = len(store.missing(cells))
    if drawn or 2 * left <= len({key(cell) for cell in cells}):
        yield from markdown(experiment, setting, numbers[experiment.name], drawn)
        if left:
            yield from (f"*Not complete: {left} of its cells are still to be made.*", "")


def _summary(settings: Mapping[str, Setting], numbers: Mapping[str, Mapping[str, Found]]) -> Iterator[str]:
    """A line a claim of the paper: at how many places it held."""
    rows = []
    for experiment in EXPERIMENTS.values():
        for claim in (claim for claim in experiment.claims if not claim.ours):
            cells = [
                _count(claim, numbers[name].get(experiment.name, Found()))
                if setting.kind in claim.kinds
                else ""
                for name, setting in settings.items()
            ]
            if any(cells):
                rows.append(f"| {claim.says} | {' | '.join(cells)} |")
    if rows:
        yield from ("## What held", "", f"| the paper says | {' | '.join(settings)} |")
        yield from ("|---|" + "---|" * len(settings), *rows, "")


def _count(claim: Claim, found: Found) -> str:
    signs = [margin.sign for margin in claim.verdicts(found).values()]
    names = {1: "held", -1: "opposite", 0: "open"}
    return ", ".join(f"{names[sign]} at {signs.count(sign)}" for sign in (1, -1, 0) if sign in signs)
