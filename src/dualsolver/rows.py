"""The rows of a table as a run uses them: plain numbers, and as few weighted terms as possible.

A term, one tensor read and added, is what a step costs outside the network.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from .table import Table

Weights = Sequence[float | Tensor]


class Row(NamedTuple):
    """What one evaluation adds up: `state` weighs (state, *past) and `query` (new state, state, *past).

    Without `state` the query is carried on, and the new state's place stays empty.
    """

    state: Weights | None
    query: Weights


def rows(table: Table) -> list[Row]:
    """The weights row by row: numbers, or 0-dim tensors where a gradient is wanted.

    Nobody reads the state after the sample, so the last row has none.
    """
    if table.weights.requires_grad and torch.is_grad_enabled():
        pairs = [(state.unbind(), query.unbind()) for state, query in table.weights.unbind()]
        found = [Row(state, (0.0, *query)) for state, query in pairs]
    else:
        pairs = table.weights.tolist()
        found = [_shortest(state, query) for state, query in pairs]
    return [*found[:-1], Row(None, (0.0, *pairs[-1][1]))]


def _shortest(state: list[float], query: list[float]) -> Row:
    """Build the query on the new state, as predictor-correctors do on paper, if that leaves fewer terms."""
    if state == query:
        return Row(None, [0.0, *query])
    carry = query[0] / state[0] if state[0] else 0.0
    pairs = [(q, carry * s) for s, q in zip(state, query, strict=True)]
    rest = [0.0 if abs(q - old) < 1e-14 * (abs(q) + abs(old)) else q - old for q, old in pairs]
    shorter = rest.count(0.0) > query.count(0.0) + 1
    return Row(state, [carry, *rest] if shorter else [0.0, *query])


class Sides(NamedTuple):
    """Which sides of a prediction are converted; the others stay native: x for data, the output for noise."""

    data: bool
    noise: bool


def cheapest(table: Table, bases: Tensor) -> tuple[Table, Sides]:
    """Decide what a run on a network's native output takes least terms for: to convert it, or to fold it in.

    bases: (M, 2, 2), the matrices that take (x, output) to (data, noise).
    """
    folded = fold(table, bases)
    if folded.weights.requires_grad and torch.is_grad_enabled():
        return folded, Sides(False, False)  # where every weight is a term, zeros too
    of_data, of_noise = (bases != 0).sum((0, 2)).tolist()
    used = Sides(*(bool((table.weights[:, :, k::2] != 0).any()) for k in (1, 2)))
    converting = terms(table) + of_data * used.data + of_noise * used.noise
    if terms(folded) <= converting:
        return folded, Sides(False, False)
    return table, used


def terms(table: Table) -> int:
    """How many weighted terms a run adds up."""
    return sum(bool(w != 0.0) for row in rows(table) for w in (*(row.state or ()), *row.query))


def fold(table: Table, bases: Tensor) -> Table:
    """Rewrite a table of (data, noise) for the pairs (x, native output) that they are made of.

    Where the state is the query, the two weights on it become one, unless rows that are equal by chance may
    have different gradients.
    """
    ages = torch.arange(table.nfe)[:, None] - torch.arange(table.window)  # which evaluation each pair is of
    pairs = table.weights[:, :, 1:].reshape(table.nfe, 2, table.window, 2)
    pairs = torch.einsum("irkp,ikpq->irkq", pairs, bases[ages.clamp(min=0)]).flatten(2)
    equal = (table.weights[:, 0] == table.weights[:, 1]).all(-1) & (not table.weights.requires_grad)
    same = torch.cat([equal.new_ones(1), equal[:-1]])[:, None, None]  # the state was the query
    first = torch.where(same, 0.0, pairs[:, :, :1])
    weights = torch.cat([table.weights[:, :, :1] + (pairs[:, :, :1] - first), first, pairs[:, :, 1:]], 2)
    return Table(table.t, table.alpha, table.sigma, weights)
