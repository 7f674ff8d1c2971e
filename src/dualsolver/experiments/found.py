"""Numbers of a table: by metric, row and column, one a seed."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

STUDENT = {2: 6.31, 3: 2.92, 4: 2.35, 5: 2.13, 6: 2.02}  # one-sided 95 %, by how many values there are
HIGHER = ("clip score", "precision", "recall", "accuracy", "similarity")  # whose higher values are better


class Estimate(NamedTuple):
    """A mean over seeds, its standard error (NaN of one seed), and how many seeds there are."""

    mean: float
    error: float
    seeds: int

    @property
    def sign(self) -> int:
        """1 or -1 where the mean differs from 0 by Student's t at 95 %, else 0; of one value, its sign."""
        bound = 0.0 if self.seeds == 1 else STUDENT.get(self.seeds, 2.0) * self.error
        return int(self.mean > bound) - int(self.mean < -bound)


def estimate(values: Sequence[float]) -> Estimate:
    """Estimate a mean from independent values.

    >>> estimate([1.0, 2.0, 3.0]).mean, round(estimate([1.0, 2.0, 3.0]).error, 3)
    (2.0, 0.577)
    """
    count = len(values)
    mean = math.fsum(values) / count
    spread = math.fsum((x - mean) ** 2 for x in values)
    return Estimate(mean, math.sqrt(spread / (count - 1) / count) if count > 1 else math.nan, count)


class Found:
    """The numbers of an experiment, or of a table of the paper as a single seed.

    The column of what has no columns, such as a classifier's accuracy, is "".
    """

    def __init__(self) -> None:
        self._values: dict[tuple[str, str, str], dict[int, float]] = {}
        self._errors: dict[tuple[str, str, str], float] = {}

    def __bool__(self) -> bool:
        return bool(self._values)

    def add(
        self, metric: str, row: str, column: str, value: float, seed: int = 0, error: float | None = None
    ) -> None:
        """Add a number; its own error counts where it stays alone."""
        self._values.setdefault((metric, row, column), {})[seed] = value
        self._errors[metric, row, column] = math.nan if error is None else error

    def seeds(self, metric: str, row: str, column: str) -> Mapping[int, float]:
        """The values by seed; none if it was not measured."""
        return self._values.get((metric, row, column), {})

    def estimate(self, metric: str, row: str, column: str) -> Estimate | None:
        """Their mean with its error, if there are any."""
        values = list(self.seeds(metric, row, column).values())
        if len(values) == 1:
            return Estimate(values[0], self._errors[metric, row, column], 1)
        return estimate(values) if values else None

    def mean(self, metric: str, row: str, column: str) -> float:
        """Their mean, NaN if there are none."""
        found = self.estimate(metric, row, column)
        return found.mean if found else math.nan

    def rows(self, metric: str) -> list[str]:
        """The rows that have a metric, in the order of their first numbers."""
        return list(dict.fromkeys(row for m, row, _ in self._values if m == metric))
