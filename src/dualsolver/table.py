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

from .checks import tensor


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
            value = tensor(f"Table.{name}", getattr(self, name))
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
        unmade = torch.arange(1, shape[2]) > 2 * torch.arange(1, shape[0] + 1)[:, None]
        if bool((unmade[:, None] & (self.weights[:, :, 1:] != 0)).any()):
            raise ValueError(
                "Table.weights must be 0 where a prediction is not made yet: row i sees i + 1 pairs"
            )

    @property
    def nfe(self) -> int:
        """The number of network evaluations."""
        return len(self.weights)

    @property
    def window(self) -> int:
        """How many predictions are remembered."""
        return (self.weights.shape[-1] - 1) // 2


def check_table(value: object) -> None:
    """Refuse what is not a table."""
    if not isinstance(value, Table):
        raise ValueError(
            f"a Table is needed, not {type(value).__name__}: call the solver on a schedule first"
        )
