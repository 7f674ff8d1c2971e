"""What experiments are made of: solvers to learn, figures to measure; each is known by a hash of what it is.

A cell says everything that its outcome depends on, so equal cells of different experiments are one. Names of
shipped models carry the hash of their files, as in "zoo:cnn-8 0123abcd".
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from hashlib import sha256
from typing import Any

from ..fit import Recipe
from ..starts import GRIDS


@dataclass(frozen=True)
class Learn:
    """A solver learned at one NFE.

    weights, prompts: hashes of the backbone's weights and of the prompts, if it is not asked for classes;
    dtype: the network's, if it is not the backbone's usual one.
    through: the classifier or feature network of the objective; fresh: on how many samples, neither learned
    from nor chosen by, its loss is taken at the end if it needs no teacher.
    """

    backbone: str
    weights: str
    dtype: str
    prompts: str
    guidance: float
    solver: str
    options: Mapping[str, Any]
    nfe: int
    objective: str
    through: str
    recipe: Recipe
    seed: int
    fresh: int
    teacher: str = ""
    teacher_count: int = 0


@dataclass(frozen=True)
class Measure:
    """Figures of `count` images by a fixed solver, by a learned one, or by one between two learned ones.

    network: who measures, one or several with " + " between; keep: how many images' features are compared
    for precision and recall.
    """

    backbone: str
    weights: str
    dtype: str
    prompts: str
    guidance: float
    nfe: int
    solver: str
    options: Mapping[str, Any]
    learned: tuple[Learn, ...]
    network: str
    count: int
    keep: int
    seed: int


@dataclass(frozen=True)
class Classify:
    """How well a classifier does on real images, in percent, and what an image costs."""

    classifier: str


Cell = Learn | Measure | Classify


def key(cell: Cell) -> str:
    """A hash of everything that a cell says.

    >>> key(Classify("alexnet")) == key(Classify("alexnet")) != key(Classify("resnet101"))
    True
    """
    content = json.dumps([type(cell).__name__, asdict(cell)], sort_keys=True)
    return sha256(content.encode()).hexdigest()[:16]


def evaluations(cells: Iterable[Cell]) -> int:
    """Guided evaluations that cells take, each cell and teacher counted once; a backward pass is two."""
    unique = {key(cell): cell for cell in cells}.values()
    teachers = {
        (cell.teacher, cell.guidance, cell.objective == "trajectory"): _of_teacher(cell)
        for cell in unique
        if isinstance(cell, Learn) and cell.teacher
    }
    return sum(map(_of_cell, unique)) + sum(teachers.values())


def _of_cell(cell: Cell) -> int:
    if isinstance(cell, Classify):
        return 0
    if isinstance(cell, Measure):
        return cell.count * cell.nfe
    recipe = cell.recipe
    looks = 1 + -(-recipe.steps // recipe.every) + (1 + 2 * len(GRIDS)) * (recipe.start == "best")
    learning = recipe.steps * recipe.batch * (cell.nfe + 2 * (cell.nfe - 1))
    return learning + (looks * recipe.held_out + (not cell.teacher) * cell.fresh) * cell.nfe


def _of_teacher(cell: Learn) -> int:
    return (cell.teacher_count + cell.recipe.held_out) * int(cell.teacher.partition(":")[2])
