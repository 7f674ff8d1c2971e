"""An experiment: rows and columns of cells, the paper's tables of the same form, and the paper's claims."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise, product
from pathlib import Path
from typing import Any, NamedTuple

from .cells import Cell, Classify, Learn, Measure
from .claims import Claim
from .curves import similarity
from .found import Found
from .setting import Setting
from .suite import stamped

Get = Callable[[Cell], Mapping[str, Any] | None]  # what a cell came to, if it was made
LOSS, SIMILARITY = "cross-entropy", "similarity"  # of what was learned; all other metrics are of images
CLASSIFIER = ("top-1", "top-5", "gflops")
LEARNING = ("held_out", "evaluations")  # of the run


@dataclass(frozen=True)
class Row:
    """A method: a fixed solver, or one learned by an objective.

    objective: "" for a fixed solver, "classification", or a name of `dual-solver learn`; through: the
    classifier or feature network, if it is not the setting's; among: the NFEs that it was learned at, to
    interpolate between (each NFE itself if empty); guidance, rate: factors on the scale that it is learned at
    and on the recipe's rates; preset: its recipe, if not the budget's; nfe: its own, in every column.
    """

    solver: str = "dual"
    objective: str = "classification"
    options: Mapping[str, Any] = field(default_factory=dict)
    through: str = ""
    among: tuple[int, ...] = ()
    guidance: float = 1.0
    rate: float = 1.0
    preset: str = ""
    nfe: int | None = None


class Column(NamedTuple):
    """An NFE; or the factor on the guidance scale that is sampled at, at an NFE that the title names."""

    nfe: int
    guidance: float | None = None

    @property
    def label(self) -> str:
        """What stands above it."""
        return str(self.nfe) if self.guidance is None else f"guidance x {self.guidance:g}"

    @property
    def factor(self) -> float:
        """The factor on the guidance scale."""
        return 1.0 if self.guidance is None else self.guidance


def nfes(*counts: int) -> tuple[Column, ...]:
    """Columns of NFEs."""
    return tuple(map(Column, counts))


def always(rows: Mapping[str, Row]) -> Callable[[Setting], Mapping[str, Row]]:
    """The same rows in every setting."""
    return lambda setting: rows


@dataclass(frozen=True)
class Experiment:
    """A table or figure of the paper.

    columns: the paper's; metrics: what is shown, the paper's first; tables: labels of the paper's tables;
    draw: makes its figures; wide: all metrics side by side, not one below the other; who: who of the suite
    measures, the figures of the first without its name; seeds: of a row in a column, if not the budget's;
    derive: adds numbers that come of others.
    """

    name: str
    title: str
    rows: Callable[[Setting], Mapping[str, Row]]
    columns: tuple[Column, ...]
    metrics: tuple[str, ...]
    tables: tuple[str, ...] = ()
    claims: Sequence[Claim] = ()
    kinds: tuple[str, ...] = ("dit", "gmdit", "pixart", "sana")
    wide: bool = False
    draw: Callable[[Results, Path], list[Path]] | None = None
    who: tuple[str, ...] = ("network",)
    seeds: Callable[[Setting, Row, Column], Sequence[int]] | None = None
    derive: Callable[[Found], None] | None = None

    def at(self, setting: Setting) -> Setting:
        """The setting with this experiment's own budget."""
        return replace(setting, budget=setting.budget.of(self.name))

    def measure(self, setting: Setting, row: Row, column: Column, seed: int) -> Measure:
        """The cell of a row's images in a column."""
        seen = {"precision", "recall"} & set(self.metrics)
        return measured(setting, row, column, seed, setting.budget.keep if seen else 0, self.who)

    def cells(self, setting: Setting) -> Iterator[Cell]:
        """Everything that has to be made, what is learned before what is measured."""
        setting = self.at(setting)
        for (_, row), column, seed in self._places(setting):
            measure = self.measure(setting, row, column, seed)
            yield from measure.learned
            if self._images():
                yield measure
        if set(CLASSIFIER) & set(self.metrics):
            yield from (Classify(stamped(row.through)) for row in self.rows(setting).values())

    def found(self, setting: Setting, get: Get) -> Found:
        """Gather the numbers of the cells that are there."""
        setting, found = self.at(setting), Found()
        for (name, row), column, seed in self._places(setting):
            measure = self.measure(setting, row, column, seed)
            parts = [(get(measure) or {}).get("figures", {})] if self._images() else []
            parts += [get(measure.learned[0]) or {}] if len(measure.learned) == 1 else []
            for metric in self.metrics:
                for value in (part[metric] for part in parts if metric in part):
                    value, error = value if isinstance(value, list) else (value, None)
                    found.add(metric, name, column.label, value, seed, error)
        if SIMILARITY in self.metrics:
            self._compare(found, setting, get)
        for metric, (name, row) in product(CLASSIFIER, self.rows(setting).items()):
            known = get(Classify(stamped(row.through))) if metric in self.metrics else None
            if known and known[metric] is not None:
                found.add(metric, name, "", known[metric])
        if self.derive:
            self.derive(found)
        return found

    def _compare(self, found: Found, setting: Setting, get: Get) -> None:
        """Compare what was learned in a column with what was learned in the one before."""
        for (name, row), seed in product(self.rows(setting).items(), setting.budget.seeds):
            for before, column in pairwise(self.columns):
                both = [get(learning(setting, row, c.nfe, seed)) for c in (before, column)]
                if all(both):
                    value = similarity(*(known["values"] for known in both if known))
                    found.add(SIMILARITY, name, column.label, value, seed)

    def _places(self, setting: Setting) -> Iterator[tuple[tuple[str, Row], Column, int]]:
        for (name, row), column in product(self.rows(setting).items(), self.columns):
            seeds = self.seeds(setting, row, column) if self.seeds else setting.budget.seeds
            yield from (((name, row), column, seed) for seed in seeds)

    def _images(self) -> bool:
        return bool(set(self.metrics) - {LOSS, SIMILARITY, *CLASSIFIER, *LEARNING})


class Results(NamedTuple):
    """What an experiment's figures are drawn from."""

    experiment: Experiment
    setting: Setting
    found: Found
    get: Get


def learning(setting: Setting, row: Row, nfe: int, seed: int) -> Learn:
    """The cell of a row that is learned at an NFE."""
    suite, budget = setting.suite, setting.budget
    objective = suite.objective if row.objective == "classification" else row.objective
    through = {"sample": "", "trajectory": "", "feature": suite.features["VGG"]}.get(
        objective.split()[0], suite.classifiers[0]
    )
    forms: dict[str, dict[str, Any]] = {
        "bns": {"tied": setting.flow},
        "ds": {"form": "velocity" if setting.flow else "data"},
    }
    taught = {"soft-label", "sample", "trajectory", "feature"} & {*objective.split()}
    recipe = budget.presets[row.preset] if row.preset else budget.recipe
    recipe = replace(recipe, rate=recipe.rate * row.rate, last_rate=recipe.last_rate * row.rate)
    return Learn(
        setting.name,
        setting.weights,
        setting.precision,
        setting.asked,
        setting.guidance * row.guidance,
        row.solver,
        {**forms.get(row.solver, {}), **row.options},
        nfe,
        objective,
        stamped(row.through or through),
        recipe,
        seed,
        budget.fresh,
        *((budget.teacher, budget.teacher_count) if taught else ()),
    )


def measured(
    setting: Setting, row: Row, column: Column, seed: int, keep: int = 0, who: Sequence[str] = ("network",)
) -> Measure:
    """The cell of a row's images in a column; their seeds are the same for all rows."""
    suite, nfe = setting.suite, row.nfe or column.nfe
    ends = tuple(learning(setting, row, end, seed) for end in _neighbours(row, nfe))
    return Measure(
        setting.name,
        setting.weights,
        setting.precision,
        setting.asked,
        setting.guidance * column.factor,
        nfe,
        row.solver,
        {} if ends else row.options,
        ends,
        " + ".join({stamped(getattr(suite, one) or suite.network): None for one in who}),
        setting.budget.count,
        keep,
        seed,
    )


def _neighbours(row: Row, nfe: int) -> tuple[int, ...]:
    """The NFEs that a row is learned at for this one: none, itself, or those around it."""
    if not row.objective:
        return ()
    if not row.among or nfe in row.among:
        return (nfe,)
    return max(n for n in row.among if n < nfe), min(n for n in row.among if n > nfe)
