"""The sampling loop: there is only this one, for images, for symbols and for the diffusers scheduler."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple
from weakref import WeakKeyDictionary

import torch
from torch import Tensor

from .prediction import Network, Predict, Prediction, combine, paired
from .rows import Row, cheapest, rows
from .table import Table, check_table


@dataclass(slots=True, eq=False)  # not frozen: that would take longer than the rest of a step's Python
class Step:
    """What is known after evaluation `index` at time `t`; `prediction.data` is a preview of the sample."""

    index: int
    t: Tensor
    prediction: Prediction
    state: Tensor
    query: Tensor


def advance(row: Row, state: Tensor, past: Sequence[Tensor]) -> tuple[Tensor, Tensor]:
    """Return the new (state, query) from one row of weights and the predictions so far, newest first."""
    known = (state, *past)
    if row.state is None:
        query = combine(row.query, (state, *known))
        return query, query
    new = combine(row.state, known)
    return new, combine(row.query, (new, *known))


class Run(NamedTuple):
    """A table on a predict function, in the form that the loop takes it: all times and weights at hand."""

    look: Callable[[Tensor, Tensor], Prediction]
    times: Sequence[Tensor]
    rows: Sequence[Row]
    window: int

    @classmethod
    def of(cls, look: Predict, table: Table) -> Run:
        return cls(look, table.t[:-1].unbind(), rows(table), table.window)

    def steps(self, noise: Tensor) -> Iterator[Step]:
        """The sampling loop."""
        state = query = _checked(noise)
        past: tuple[Tensor, ...] = ()
        for i, (t, row) in enumerate(zip(self.times, self.rows, strict=True)):
            prediction = self.look(query, t)
            past = (*prediction, *past)
            state, query = advance(row, state, past)
            past = past[: 2 * (self.window - 1)]  # what the next evaluation will not see goes now
            yield Step(i, t, prediction, state, query)


def _checked(noise: Tensor) -> Tensor:
    """Noise in the dtype of the states: float32, or float64 if that is what it comes in."""
    if not (torch.is_tensor(noise) and noise.is_floating_point() and noise.ndim):
        raise ValueError(f"noise must be a tensor of floating-point numbers, batch first, not {noise!r:.80}")
    x = noise.float() if noise.dtype in (torch.float16, torch.bfloat16) else noise
    if not math.isfinite(x.detach().sum().item()):
        raise ValueError("noise must be finite, but holds NaN or infinity")
    return x


def steps(predict: Predict, noise: Tensor, table: Table) -> Iterator[Step]:
    """Yield a `Step` after each evaluation: for previews, progress bars and early exits.

    noise: (B, ...), what sampling starts from (`Schedule.prior` scales it). States are float32, or float64
    if the noise is.
    """
    check_table(table)
    return Run.of(lambda x, t: paired(predict(x, t), x), table).steps(noise)


def sample(predict: Predict, noise: Tensor, table: Table) -> Tensor:
    """Run a table on a predict function and return the sample, in the shape and dtype of the noise.

    >>> import dualsolver as ds
    >>> schedule = ds.Flow()
    >>> predict = ds.wrap(lambda x, time: x, schedule)   # your network goes here
    >>> table = ds.SOLVERS["dpmpp"](nfe=5)(schedule)
    >>> ds.sample(predict, torch.zeros(1, 3, 8, 8), table).shape
    torch.Size([1, 3, 8, 8])
    """
    for step in _steps(predict, noise, table):
        final = step.query
    return final.to(noise.dtype)


def _steps(predict: Predict, noise: Tensor, table: Table) -> Iterator[Step]:
    """The steps of a run whose predictions nobody looks at: those of a `Network` may stay native."""
    if isinstance(predict, Network) and isinstance(table, Table):
        return prepared(predict, table).steps(noise)
    return steps(predict, noise, table)


_PREPARED: WeakKeyDictionary[Table, tuple[Network, Tensor, Run]] = WeakKeyDictionary()


def prepared(network: Network, table: Table) -> Run:
    """Plan a run of a table on a network's native output.

    The plan for the last network is kept for as long as the table lives and stays as it is, because a table
    usually serves many batches; where gradients flow into the table, it is made anew.
    """
    scalars = torch.cat([table.t, table.weights.flatten()])
    known, before, run = _PREPARED.get(table, (None, scalars, None))
    if run is None or known is not network or scalars.requires_grad or not torch.equal(scalars, before):
        check_same_schedule(network, table)
        chosen, sides = cheapest(table, network.basis(table.t[:-1]))
        run = Run.of(partial(network.converted, **sides._asdict()), chosen)
        if not scalars.requires_grad:
            _PREPARED[table] = network, scalars, run
    return run


def check_same_schedule(network: Network, table: Table) -> None:
    """Refuse a table that was made for another schedule than the network's."""
    for name, rate in zip(("alpha", "sigma"), network.schedule(table.t), strict=True):
        if not torch.allclose(rate, getattr(table, name), rtol=1e-6, atol=1e-9):
            raise ValueError(
                f"the table was made for another schedule: its {name} differs from that of {network.schedule}"
            )


def trajectory(predict: Predict, noise: Tensor, table: Table) -> Tensor:
    """Return every point that the network looked at and the sample: (M + 1, B, ...), the one at t[i] at i."""
    return torch.stack([noise, *(step.query.to(noise.dtype) for step in _steps(predict, noise, table))])


def defects(table: Table) -> Tensor:
    """What a table makes of a network that always predicts the same pair, less what it should: (M, 2).

    A method is consistent if a constant (data, noise) leads to alpha data + sigma noise at every time; the
    two columns are what is too much of either. The predictor's residuals of Dual-Solver are such gains.
    """
    check_table(table)
    pair = torch.eye(2, dtype=torch.float64)
    rates = torch.stack([table.alpha, table.sigma], 1)
    return (trajectory(lambda x, t: Prediction(pair[0], pair[1]), rates[0], table) - rates)[1:]


def canonical(table: Table) -> Tensor:
    """Return the unique form of a table: queries 1 to M in terms of (x_T, data_0, ..., data_{M-1}).

    Representations are not unique, because query_i = alpha_i data_i + sigma_i noise_i always; this runs the
    table on symbols, with noise eliminated, so that methods are equal if their (M, 1 + M) matrices are.
    """
    check_table(table)
    if bool((table.sigma[:-1] == 0).any()):
        raise ValueError(
            "canonical needs sigma > 0 at every evaluation: noise is eliminated by dividing by it"
        )
    symbols = iter(torch.eye(1 + table.nfe, dtype=torch.float64)[1:])
    rates = iter(zip(table.alpha, table.sigma, strict=True))

    def symbolic(query: Tensor, t: Tensor) -> Prediction:
        data, (alpha, sigma) = next(symbols), next(rates)
        return Prediction(data, (query - alpha * data) / sigma)

    x_T = torch.eye(1 + table.nfe, dtype=torch.float64)[0]
    return trajectory(symbolic, x_T, table)[1:]
