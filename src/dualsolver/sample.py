"""The sampling loop: there is only this one, for images, for symbols and for the diffusers scheduler."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from weakref import WeakKeyDictionary

import torch
from torch import Tensor

from .prediction import Network, Predict, Prediction, combine, paired
from .table import Table, fold

Row = Sequence[Sequence[float | Tensor]]


@dataclass(frozen=True, eq=False)
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
    of_state, of_query = (weights[: len(known)] for weights in row)
    query = combine(of_query, known)
    return (query if row[0] is row[1] else combine(of_state, known)), query


def rows(table: Table) -> list[Row]:
    """The weights row by row: numbers, or 0-dim tensors where a gradient is wanted.

    Two equal rows of numbers are one object, which `advance` computes once; so are the last two, because
    nobody reads the state after the sample.
    """
    pairs: list[Row]
    if table.weights.requires_grad and torch.is_grad_enabled():
        pairs = [[list(state.unbind()), list(query.unbind())] for state, query in table.weights.unbind()]
    else:
        pairs = [
            [query, query] if state == query else [state, query] for state, query in table.weights.tolist()
        ]
    return [*pairs[:-1], [pairs[-1][1], pairs[-1][1]]]


def steps(predict: Predict, noise: Tensor, table: Table) -> Iterator[Step]:
    """Yield a `Step` after each evaluation: the loop itself, for previews, progress bars and early exits.

    noise: (B, ...), what sampling starts from (`Schedule.prior` scales it). States are float32, or float64
    if the noise is.
    """
    if not isinstance(table, Table):
        raise ValueError(
            f"sample takes a Table, not {type(table).__name__}: call the solver on a schedule first"
        )
    if not (torch.is_tensor(noise) and noise.is_floating_point() and noise.ndim):
        raise ValueError(f"noise must be a tensor of floating-point numbers, batch first, not {noise!r:.80}")
    state = query = noise.float() if noise.dtype in (torch.float16, torch.bfloat16) else noise
    past: tuple[Tensor, ...] = ()
    for i, row in enumerate(rows(table)):
        prediction = paired(predict(query, table.t[i]), query)
        past = (*prediction, *past)
        state, query = advance(row, state, past)
        past = past[: 2 * (table.window - 1)]  # what the next evaluation will not see goes now
        yield Step(i, table.t[i], prediction, state, query)


def sample(predict: Predict, noise: Tensor, table: Table) -> Tensor:
    """Run a table on a predict function and return the sample, in the shape and dtype of the noise.

    >>> import dualsolver as ds
    >>> schedule = ds.Flow()
    >>> predict = ds.wrap(lambda x, time: x, schedule)   # your network goes here
    >>> table = ds.SOLVERS["dpmpp"](nfe=5)(schedule)
    >>> ds.sample(predict, torch.zeros(1, 3, 8, 8), table).shape
    torch.Size([1, 3, 8, 8])
    """
    predict, table = prepared(predict, table)
    for step in steps(predict, noise, table):
        final = step.query
    return final.to(noise.dtype)


_PREPARED: WeakKeyDictionary[Table, tuple[Network, Table]] = WeakKeyDictionary()  # for the last network


def prepared(network: Predict, table: Table) -> tuple[Predict, Table]:
    """Fold the conversion of a `Network`'s output into the table, where that saves work.

    A conversion takes two terms an evaluation. What was found is kept for as long as the table lives, unless
    the table carries gradients: it usually serves many batches.
    """
    if not (isinstance(network, Network) and isinstance(table, Table)):
        return network, table
    known, folded = _PREPARED.get(table, (None, table))
    if known is not network:
        check_same_schedule(network, table)
        folded = fold(table, network.basis(table.t[:-1]))
        folded = folded if folded.terms <= table.terms + 2 * table.nfe else table
        if not (table.weights.requires_grad or table.t.requires_grad):
            _PREPARED[table] = network, folded
    return (network if folded is table else network.native), folded


def check_same_schedule(network: Network, table: Table) -> None:
    """Refuse a table that was made for another schedule than the network's."""
    for name, rate in zip(("alpha", "sigma"), network.schedule(table.t), strict=True):
        if not torch.allclose(rate, getattr(table, name), rtol=1e-6, atol=1e-9):
            raise ValueError(
                f"the table was made for another schedule: its {name} differs from that of {network.schedule}"
            )


def trajectory(predict: Predict, noise: Tensor, table: Table) -> Tensor:
    """Return every point that the network looked at and the sample: (M + 1, B, ...), the one at t[i] at i."""
    predict, table = prepared(predict, table)
    return torch.stack([noise, *(step.query.to(noise.dtype) for step in steps(predict, noise, table))])


def defects(table: Table) -> Tensor:
    """What a table makes of a network that always predicts the same pair, less what it should: (M, 2).

    A method is consistent if a constant (data, noise) leads to alpha data + sigma noise at every time; the
    two columns are what is too much of either. The predictor's residuals of Dual-Solver are such gains.
    """
    pair = torch.eye(2, dtype=torch.float64)
    rates = torch.stack([table.alpha, table.sigma], 1)
    return (trajectory(lambda x, t: Prediction(pair[0], pair[1]), rates[0], table) - rates)[1:]


def canonical(table: Table) -> Tensor:
    """Return the unique form of a table: queries 1 to M in terms of (x_T, data_0, ..., data_{M-1}).

    Representations are not unique, because query_i = alpha_i data_i + sigma_i noise_i always; this runs the
    table on symbols, with noise eliminated, so that methods are equal if their (M, 1 + M) matrices are.
    """
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
