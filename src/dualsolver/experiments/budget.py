"""How much experiments spend: quick on a CPU, full as the paper did."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any

from ..checks import check_choice
from ..fit import PRESETS, Recipe


@dataclass(frozen=True)
class Budget:
    """How a solver is learned, of how many images figures are, and from how many seeds both are repeated.

    keep: images for precision and recall; fresh: samples for the cross-entropy of what was learned; dtype:
    the network's ("" for its usual one; the zoo's is twice as fast in bfloat16 on a CPU that multiplies it);
    special: what single experiments spend instead; presets: the recipes of rows that name one.
    """

    recipe: Recipe
    count: int
    keep: int
    fresh: int
    teacher: str
    teacher_count: int
    seeds: tuple[int, ...] = (0, 1, 2)
    dtype: str = ""
    special: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    presets: Mapping[str, Recipe] = field(default_factory=lambda: PRESETS)

    def of(self, experiment: str) -> Budget:
        """The budget of an experiment."""
        found = changed(replace(self, special={}), self.special.get(experiment, {}))
        return replace(found, presets=self.presets)


FAST = {"steps": 400, "every": 50, "held_out": 100, "teacher": "dpmpp:40", "teacher_count": 1000}
BUDGETS = {
    "quick": Budget(
        replace(PRESETS["fast"], steps=100, every=25, held_out=50),
        1000,
        1000,
        500,
        "ddim:50",
        200,
        dtype="bfloat16",
        special={
            "choices": {**FAST, "count": 2000, "seeds": 1},
            "peers": {**FAST, "count": 10_000, "keep": 2000, "seeds": 1},
            "presets": {"seeds": 5},
        },
    ),
    "full": Budget(PRESETS["paper"], 50_000, 10_000, 1000, "ddim:200", 1000),
}


def changed(budget: Budget, changes: Mapping[str, Any]) -> Budget:
    """Return a budget with some of its numbers, or of its recipe's, replaced; seeds is how many.

    >>> changed(BUDGETS["quick"], {"count": 200, "seeds": 2}).seeds
    (0, 1)
    """
    of_recipe, of_budget = ({f.name for f in fields(kind)} for kind in (Recipe, Budget))
    rest = {
        name: {key: value for key, value in special.items() if key not in changes}
        for name, special in budget.special.items()
    }
    budget = replace(budget, special=rest)
    for name, value in changes.items():
        check_choice(
            "what the budget spends", name, sorted(of_recipe | of_budget - {"recipe", "special", "presets"})
        )
        if name == "seeds":
            budget = replace(budget, seeds=tuple(range(int(value))))
        elif name in of_recipe:
            change = {name: type(getattr(budget.recipe, name))(value)}
            presets = {preset: replace(recipe, **change) for preset, recipe in budget.presets.items()}
            budget = replace(budget, recipe=replace(budget.recipe, **change), presets=presets)
        else:
            budget = replace(budget, **{name: type(getattr(budget, name))(value)})
    return budget
