"""What the paper claims, as margins that are positive where a claim holds, and whether they are.

A claim is a sentence and a function from numbers to margins, one a seed for every place that it speaks of.
The same function reads the paper's numbers, so it can be tested on what it was made from.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import torch

from .found import HIGHER, Estimate, Found, estimate

Margins = Callable[[Found], Mapping[str, Sequence[float]]]  # where -> a margin a seed


class Claim(NamedTuple):
    """A sentence of the paper (or, if `ours`, of this project), for some kinds of backbone or for all."""

    says: str
    margins: Margins
    kinds: tuple[str, ...] = ("dit", "gmdit", "pixart", "sana")
    ours: bool = False

    def verdicts(self, found: Found) -> dict[str, Estimate]:
        """The margin at every place that was measured."""
        return {where: estimate(margins) for where, margins in self.margins(found).items() if margins}


def sentence(margins: Mapping[str, Estimate]) -> str:
    """Say where a claim held.

    >>> sentence({"NFE 3": Estimate(2.0, 0.1, 3), "NFE 5": Estimate(0.1, 0.3, 3)})
    'Held at NFE 3 (by 2 ± 0.1); open at NFE 5 (0.1 ± 0.3).'
    """
    words = {1: ("held at", "by "), -1: ("the opposite at", "by "), 0: ("open at", "")}
    parts = []
    for sign, (word, by) in words.items():
        places = [f"{where} ({by}{_shown(m)})" for where, m in margins.items() if m.sign == sign]
        if places:
            parts.append(f"{word} {', '.join(places)}")
    text = "; ".join(parts) or "not measured"
    alone = " One seed alone: no errors." * any(margin.seeds == 1 for margin in margins.values())
    return text[0].upper() + text[1:] + "." + alone


def _shown(margin: Estimate) -> str:
    size = abs(margin.mean) if margin.sign else margin.mean
    return f"{size:.3g}" if margin.seeds == 1 else f"{size:.3g} ± {margin.error:.2g}"


def better(metric: str, row: str, than: Sequence[str], columns: Sequence[str]) -> Margins:
    """How much better a row is than the best of the others, by mean, that are named."""
    sign = 1 if metric in HIGHER else -1

    def margins(found: Found) -> Mapping[str, Sequence[float]]:
        result = {}
        for column in columns:
            others = [other for other in than if found.seeds(metric, other, column)]
            if others:
                means = {other: sign * found.mean(metric, other, column) for other in others}
                best = found.seeds(metric, max(means, key=lambda other: means[other]), column)
                ours = found.seeds(metric, row, column)
                result[place(column)] = [sign * (ours[s] - best[s]) for s in ours if s in best]
        return result

    return margins


def behind(metric: str, row: str, than: Sequence[str], columns: Sequence[str]) -> Margins:
    """How much worse a row is than the best of the others."""
    ahead = better(metric, row, than, columns)
    return lambda found: {where: [-m for m in margins] for where, margins in ahead(found).items()}


def place(column: str) -> str:
    """A column's name outside of its table."""
    return f"NFE {column}" if column.isdigit() else column


def middle(metric: str, columns: Sequence[str]) -> Margins:
    """Whether a metric is best at classifiers of a moderate accuracy: the V-shape.

    The margin is positive where the parabola fitted to the values over the ranks by accuracy has its best
    point between the ends.
    """
    sign = -1 if metric in HIGHER else 1

    def margin(values: Sequence[float]) -> float:
        x = torch.linspace(-1, 1, len(values), dtype=torch.float64)
        y = sign * torch.tensor(values, dtype=torch.float64)
        _, slope, bend = (
            torch.linalg.lstsq(torch.stack([x**0, x, x**2], 1), y[:, None]).solution[:, 0].tolist()
        )
        return float(2 * bend - abs(slope))

    return _by_rank(metric, columns, margin)


def falls(metric: str, columns: Sequence[str]) -> Margins:
    """Whether a metric falls with the classifier's accuracy: minus Spearman's correlation."""

    def margin(values: Sequence[float]) -> float:
        y = torch.tensor(values, dtype=torch.float64)
        ranks = (y[:, None] > y).double().sum(1) + (y[:, None] == y).double().sum(1) / 2
        both = torch.stack([torch.arange(len(values), dtype=torch.float64), ranks])
        return float(torch.corrcoef(both)[0, 1].nan_to_num())  # equal values have no correlation

    return _by_rank(metric, columns, margin)


def _by_rank(metric: str, columns: Sequence[str], margin: Callable[[Sequence[float]], float]) -> Margins:
    """Margins of the values over classifiers from the most accurate to the least, a margin a seed."""

    def margins(found: Found) -> Mapping[str, Sequence[float]]:
        result = {}
        for column in columns:
            known = [row for row in found.rows("top-5") if found.seeds(metric, row, column)]
            known.sort(key=lambda row: -found.mean("top-5", row, ""))
            seeds = [found.seeds(metric, row, column) for row in known]
            common = set.intersection(*map(set, seeds)) if len(seeds) > 3 else set()
            result[place(column)] = [margin([values[s] for values in seeds]) for s in sorted(common)]
        return result

    return margins


def closing(metric: str, rows: Sequence[str], first: str, last: str) -> Margins:
    """By how much the spread between rows shrinks from one column to another."""

    def margins(found: Found) -> Mapping[str, Sequence[float]]:
        values = {c: [found.seeds(metric, row, c) for row in rows] for c in (first, last)}
        common = set.intersection(*(set(v) for many in values.values() for v in many))
        spread = {
            c: {s: max(v[s] for v in many) - min(v[s] for v in many) for s in common}
            for c, many in values.items()
        }
        return {f"NFE {first} to {last}": [spread[first][s] - spread[last][s] for s in sorted(common)]}

    return margins
