"""Predictions: the pair (data, noise) that an evaluation yields, whatever the network natively predicts.

``x = alpha * data + sigma * noise`` holds for every pair (Eq. relation_between_predictions), so a pair is a
linear function of (x, output); `basis` is its 2 x 2 matrix. Guidance, clipping and checkpointing wrap a model
or a predict function here and are never a solver's business.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from .checks import check_choice, number
from .schedule import Schedule, check_schedule


class Prediction(NamedTuple):
    """The clean data and the noise that an evaluation sees in x = alpha * data + sigma * noise."""

    data: Tensor
    noise: Tensor


Model = Callable[[Tensor, Tensor], Tensor]
Predict = Callable[[Tensor, Tensor], Prediction]


def combine(weights: Sequence[float | Tensor], tensors: Sequence[Tensor]) -> Tensor:
    """Return sum_k weights[k] * tensors[k], as far as both go.

    Numbers cost one pass a term and nothing where they are 0; 0-dim tensors carry gradients.
    """
    total, fresh = None, False  # fresh: ours to add to in place
    for w, x in zip(weights, tensors, strict=False):
        if isinstance(w, Tensor):
            total, fresh = (w * x if total is None else total + w * x), True
        elif w == 0.0:
            continue
        elif total is None:
            total, fresh = (x, False) if w == 1.0 else (x * w, True)
        else:
            total, fresh = (total.add_(x, alpha=w) if fresh else torch.add(total, x, alpha=w)), True
    return torch.zeros_like(tensors[0]) if total is None else total


def paired(prediction: Any, x: Tensor) -> Prediction:
    """Check what a predict function returned for x, in the dtype of x."""
    if not isinstance(prediction, tuple) or [getattr(p, "shape", 0) for p in prediction] != [x.shape] * 2:
        raise ValueError(
            f"a predict function returns Prediction(data, noise), both of shape {tuple(x.shape)}, "
            f"not {_described(prediction)}: ds.wrap makes one of a network"
        )
    data, noise = prediction
    return Prediction(data.to(x.dtype), noise.to(x.dtype))


def _described(value: Any) -> str:
    if isinstance(value, Tensor):
        return f"a tensor of shape {tuple(value.shape)}"
    return f"({', '.join(map(_described, value))})" if isinstance(value, tuple) else type(value).__name__


def basis(kind: str, schedule: Schedule, t: Tensor) -> Tensor:
    """Return the matrix that takes (x, output) to (data, noise) at t, for every t given: (*t.shape, 2, 2).

    >>> from dualsolver.schedule import Flow
    >>> basis("velocity", Flow(), torch.tensor(0.25)).tolist()  # data = x - t v, noise = x + (1 - t) v
    [[1.0, -0.25], [1.0, 0.75]]
    """
    alpha, sigma = schedule(t)
    entries = KINDS[kind](schedule, alpha, sigma)
    return torch.stack(entries, -1).reshape(*alpha.shape, 2, 2)


def _from_noise(schedule: Schedule, alpha: Tensor, sigma: Tensor) -> tuple[Tensor, ...]:
    if bool((alpha == 0).any()):
        raise ValueError("a noise prediction says nothing of the data where alpha = 0: start at a smaller t")
    return 1 / alpha, -sigma / alpha, torch.zeros_like(alpha), torch.ones_like(alpha)


def _from_data(schedule: Schedule, alpha: Tensor, sigma: Tensor) -> tuple[Tensor, ...]:
    if bool((sigma == 0).any()):
        raise ValueError(
            "a data prediction says nothing of the noise where sigma = 0: evaluate at a larger t"
        )
    return torch.zeros_like(sigma), torch.ones_like(sigma), 1 / sigma, -alpha / sigma


def _from_velocity(schedule: Schedule, alpha: Tensor, sigma: Tensor) -> tuple[Tensor, ...]:
    of_data, of_noise = schedule.velocity(alpha, sigma)  # determinant 1: nothing is divided
    return of_noise, -sigma, -of_data, alpha


KINDS: dict[str, Callable[[Schedule, Tensor, Tensor], tuple[Tensor, ...]]] = {
    "noise": _from_noise,
    "data": _from_data,
    "velocity": _from_velocity,
}


class Network:
    """A predict function made of a network, its schedule and what it predicts; made by `wrap`."""

    def __init__(self, model: Model, schedule: Schedule, kind: str, dtype: torch.dtype | None) -> None:
        check_choice("prediction", kind, tuple(KINDS))
        check_schedule(schedule)
        if not callable(model):
            raise ValueError(
                f"a model is called as model(x, time), but a {type(model).__name__} is not callable"
            )
        self.model, self.schedule, self.kind, self.dtype = model, schedule, kind, dtype
        self._known: dict[float, tuple[float, list[list[float]]]] = {}

    def output(self, x: Tensor, t: Tensor) -> Tensor:
        """The network's native output, in the dtype of x; the one place where dtypes change."""
        if _has_gradient(t):
            time = self.schedule.model_time(t).to(device=x.device, dtype=torch.float32).expand(len(x))
        else:
            time = x.new_full((len(x),), self._at(t)[0], dtype=torch.float32)
        output = self.model(x if self.dtype is None else x.to(self.dtype), time)
        if not isinstance(output, Tensor) or output.shape != x.shape:
            raise ValueError(
                f"the network must return a tensor of shape {tuple(x.shape)} like its input, "
                f"not {_described(output)}: wrap a function that takes the right part of its output"
            )
        return output.to(x.dtype)

    def basis(self, t: Tensor) -> Tensor:
        """The matrix that takes (x, output) to (data, noise) at t."""
        return basis(self.kind, self.schedule, t)

    def __call__(self, x: Tensor, t: Tensor) -> Prediction:
        return self.converted(x, t)

    def converted(self, x: Tensor, t: Tensor, data: bool = True, noise: bool = True) -> Prediction:
        """The prediction; what is not converted stays native: x in place of data, the output of noise."""
        pair = x, self.output(x, t)
        if not (data or noise):
            return Prediction(*pair)
        of_data, of_noise = self.basis(t) if _has_gradient(t) else self._at(t)[1]
        return Prediction(
            combine(of_data, pair) if data else x, combine(of_noise, pair) if noise else pair[1]
        )

    def _at(self, t: Tensor) -> tuple[float, list[list[float]]]:
        """The network's time and the basis at t as numbers, remembered for the times of a run."""
        if len(self._known) > 1000:
            self._known.clear()
        if (key := float(t)) not in self._known:
            self._known[key] = float(self.schedule.model_time(key)), self.basis(t).tolist()
        return self._known[key]


def _has_gradient(t: Tensor) -> bool:
    return torch.is_tensor(t) and t.requires_grad and torch.is_grad_enabled()


def wrap(
    model: Model, schedule: Schedule, prediction: str = "velocity", dtype: torch.dtype | None = None
) -> Network:
    """Turn any model(x, time) into a predict function.

    The model is called with x of shape (B, ...) in `dtype` (as it comes if None) and with a float32 vector
    of B equal `schedule.model_time` values. `prediction` says what it returns: "noise", "data" or "velocity"
    (noise - data for flow models, alpha * noise - sigma * data for VP ones).

    >>> from dualsolver.schedule import VP
    >>> predict = wrap(lambda x, time: torch.zeros_like(x), VP.linear(), prediction="data")
    >>> predict(torch.ones(1, 2), torch.tensor(1.0)).data
    tensor([[0., 0.]])
    """
    return Network(model, schedule, prediction, dtype)


def check_guidance(scale: float) -> None:
    """Refuse a guidance scale that is negative or not a number."""
    if number("the guidance scale", scale) < 0:
        raise ValueError(f"the guidance scale must not be negative, but is {scale}")


def guided(
    model: Callable[[Tensor, Tensor, Any], Tensor],
    scale: float,
    condition: Any,
    null: Any,
) -> Model:
    """Classifier-free guidance, null + scale * (condition - null), in one call on a doubled batch.

    `model(x, time, condition)` takes conditions as a tensor, or a tuple or dict of tensors, batch first; the
    doubled batch has the null conditions first. Outputs are combined in float32 at least.
    """
    check_guidance(scale)
    if scale in (0.0, 1.0):
        alone = condition if scale else null
        return lambda x, time: model(x, time, alone)
    both = _cat(null, condition)

    def doubled(x: Tensor, time: Tensor) -> Tensor:
        output = model(torch.cat([x, x]), torch.cat([time, time]), both)
        without, with_condition = _at_least_float32(output).chunk(2)
        return torch.lerp(without, with_condition, scale)

    return doubled


def _cat(first: Any, second: Any) -> Any:
    if isinstance(first, Tensor):
        return torch.cat([first, second])
    if isinstance(first, Mapping):
        return {name: _cat(value, second[name]) for name, value in first.items()}
    if isinstance(first, tuple | list):
        return tuple(_cat(a, b) for a, b in zip(first, second, strict=True))
    raise ValueError(f"conditions are tensors, or tuples or dicts of them, not {_described(first)}")


def _at_least_float32(x: Tensor) -> Tensor:
    return x.float() if x.dtype in (torch.float16, torch.bfloat16) else x


def clipped(predict: Predict, schedule: Schedule, low: float = -1.0, high: float = 1.0) -> Predict:
    """Clamp the predicted data to [low, high] and let the noise follow, so that the pair still makes up x."""
    check_schedule(schedule)
    number("high", high, above=number("low", low))

    def clip(x: Tensor, t: Tensor) -> Prediction:
        data = paired(predict(x, t), x).data.clamp(low, high)
        of_x, of_data = basis("data", schedule, t)[1]
        return Prediction(data, of_x * x + of_data * data)

    return clip


def checkpointed(model: Model) -> Model:
    """Recompute the model in the backward pass instead of keeping its activations.

    Peak memory then no longer grows with the number of evaluations; the price is one more forward each.
    """

    def recompute(x: Tensor, time: Tensor) -> Tensor:
        output: Tensor = checkpoint(model, x, time, use_reentrant=False)
        return output

    return recompute
