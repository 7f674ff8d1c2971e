"""Tables: a whole sampling run as a few scalars.

After evaluation i, newest predictions first,

    (state, query)  <-  weights[i] @ [state, data_i, noise_i, data_{i-1}, noise_{i-1}, ...]

`query` is where the network looks next (the last one is the sample), `state` is what the solver carries.
Equal rows give DDIM or DPM-Solver++; different rows give predictor-correctors (state is the corrected
sample), BNS (state stays x_T) and Runge-Kutta stages (state stays at the start of the step).
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True, eq=False)
class Table:
    """Times, rates and weights of M evaluations, all float64; a wrong table cannot be built.

    t, alpha, sigma: (M + 1,), evaluation i happens at t[i] and the sample belongs to t[M];
    weights: (M, 2, 1 + 2 K) for a window of K predictions, row 0 for the state and row 1 for the query.
    """

    t: Tensor
    alpha: Tensor
    sigma: Tensor
    weights: Tensor

    def __post_init__(self) -> None:
        for name in ("t", "alpha", "sigma", "weights"):
            value = torch.as_tensor(getattr(self, name)).to(torch.float64)
            object.__setattr__(self, name, value)
            if not bool(value.isfinite().all()):
                where = (~value.isfinite()).nonzero()[0].tolist()
                raise ValueError(f"Table.{name}{where} is not finite: {value[tuple(where)].item()}")
        self._check_shapes()
        if not bool((self.t.diff() <= 0).all()):
            raise ValueError(f"Table.t must never increase, but is {self.t.tolist()}")
        for name in ("alpha", "sigma"):
            if bool((getattr(self, name) < 0).any()):
                raise ValueError(f"Table.{name} must not be negative, but is {getattr(self, name).tolist()}")

    def _check_shapes(self) -> None:
        shape = self.weights.shape
        if len(shape) != 3 or shape[0] < 1 or shape[1] != 2 or shape[2] < 3 or shape[2] % 2 == 0:
            raise ValueError(
                f"Table.weights must have shape (M, 2, 1 + 2 K), M and K >= 1, not {tuple(shape)}"
            )
        for name in ("t", "alpha", "sigma"):
            if getattr(self, name).shape != (shape[0] + 1,):
                found = tuple(getattr(self, name).shape)
                raise ValueError(
                    f"Table.{name} must have shape ({shape[0] + 1},) for {shape[0]} rows, not {found}"
                )

    @property
    def nfe(self) -> int:
        """The number of network evaluations."""
        return len(self.weights)

    @property
    def window(self) -> int:
        """How many predictions are remembered."""
        return (self.weights.shape[-1] - 1) // 2

    @property
    def terms(self) -> int:
        """How many weighted terms a run adds up: what it costs outside the network."""
        weights = self.weights.detach()
        same = (weights[:, 0] == weights[:, 1]).all(-1)
        return int((weights[:, 1] != 0).sum() + (weights[~same, 0] != 0).sum())


def fold(table: Table, bases: Tensor) -> Table:
    """Rewrite a table of (data, noise) for the pairs (query, native output) that they are made of.

    bases: (M, 2, 2), the matrices that take the new pair to (data, noise); no conversion is then left to do
    while sampling. Where the state is the query, the two weights on it become one, unless rows that are equal
    by chance may have different gradients.
    """
    ages = torch.arange(table.nfe)[:, None] - torch.arange(table.window)  # which evaluation each pair is of
    pairs = table.weights[:, :, 1:].reshape(table.nfe, 2, table.window, 2)
    pairs = torch.einsum("irkp,ikpq->irkq", pairs, bases[ages.clamp(min=0)]).flatten(2)
    equal = (table.weights[:, 0] == table.weights[:, 1]).all(-1) & (not table.weights.requires_grad)
    same = torch.cat([equal.new_ones(1), equal[:-1]])[:, None, None]  # the state was the query
    first = torch.where(same, 0.0, pairs[:, :, :1])
    weights = torch.cat([table.weights[:, :, :1] + (pairs[:, :, :1] - first), first, pairs[:, :, 1:]], 2)
    return Table(table.t, table.alpha, table.sigma, weights)
