"""Schedules: how much data and how much noise a sample holds at time t.

``x_t = alpha_t * data + sigma_t * noise`` (Eq. training). Time is continuous and runs from noise down to
data; alpha and sigma are float64 and differentiable in t, because learned solvers learn their times.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

import torch
from torch import Tensor, nn

from .checks import check_choice, falling, number, numbers, tensor, whole

MOST = 1_000_000  # steps: a file cannot ask for a schedule that fills the memory


class Schedule(ABC):
    """``t -> (alpha, sigma)`` with its time range, its inverse, the time its network eats, and grids.

    >>> alpha, sigma = VP.linear()(0.5)
    >>> bool(torch.isclose(alpha**2 + sigma**2, torch.tensor(1.0, dtype=torch.float64)))
    True
    """

    t_min: float = 0.0
    t_max: float = 1.0
    span: tuple[float, float]  # where a grid starts and ends unless told otherwise
    default_grid: str = "uniform"
    shift: float = 1.0  # warps the "shifted" grid, never alpha or sigma
    prior_scale: float = 1.0

    @abstractmethod
    def __call__(self, t: float | Tensor) -> tuple[Tensor, Tensor]:
        """Return (alpha, sigma) at t, float64, of the shape of t."""

    @abstractmethod
    def time(self, half_log_snr: float | Tensor) -> Tensor:
        """Return the t at which log(alpha / sigma) has the given value."""

    @abstractmethod
    def velocity(self, alpha: Tensor, sigma: Tensor) -> tuple[Tensor, Tensor]:
        """Return (a, s) such that a velocity network of this schedule predicts a * data + s * noise.

        In all three families alpha * s - sigma * a = 1, so (data, noise) follow without any division.
        """

    @abstractmethod
    def model_time(self, t: float | Tensor) -> Tensor:
        """Return what the network is given as its time: fractional, differentiable, never rounded."""

    @abstractmethod
    def config(self) -> dict[str, Any]:
        """Return the JSON form, read by `from_config`."""

    def at_model_time(self, time: float | Tensor) -> Tensor:
        """Return the t whose `model_time` (linear in t) is given, float32 rounding at the ends undone.

        >>> round(float(VP.linear().at_model_time(999.0)), 9)
        1.0
        """
        zero, one = self.model_time(torch.tensor([0.0, 1.0])).unbind()
        t = (tensor("time", time) - zero) / (one - zero)
        near = t.clamp(self.t_min, self.t_max)
        return self._checked(torch.where((near - t).abs() < 1e-6 * self.t_max, near, t))

    def half_log_snr(self, t: float | Tensor) -> Tensor:
        """Return lambda = log(alpha / sigma) at t."""
        alpha, sigma = self(t)
        return alpha.log() - sigma.log()

    def prior(self, noise: Tensor) -> Tensor:
        """Scale standard normal noise to what sampling starts from (VE multiplies by sigma_max)."""
        return noise * self.prior_scale

    def grid(
        self, steps: int, kind: str | None = None, start: float | None = None, end: float | None = None
    ) -> Tensor:
        """Return steps + 1 decreasing times from start to end; `GRIDS` has the kinds.

        "shifted" warps the whole grid, its ends included, by `shift`.

        >>> Flow(shift=3.0).grid(2, start=1.0, end=0.0).tolist()
        [1.0, 0.75, 0.0]
        """
        kind = self.default_grid if kind is None else kind
        check_choice("grid", kind, tuple(GRIDS))
        steps = whole("steps", steps)
        first = self.span[0] if start is None else number("start", start)
        last = self.span[1] if end is None else number("end", end)
        if not self.t_min <= last < first <= self.t_max:
            raise ValueError(
                f"a grid from {first} to {last} does not fit: times fall within [{self.t_min}, {self.t_max}]"
            )
        return GRIDS[kind](self, steps, first, last)

    def _checked(self, t: float | Tensor) -> Tensor:
        t = tensor("t", t)  # on the CPU, where all coefficients are made
        if not bool(((t >= self.t_min) & (t <= self.t_max)).all()):
            raise ValueError(f"t = {t.tolist()} leaves the time range [{self.t_min}, {self.t_max}] of {self}")
        return t

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Schedule) and self.config() == other.config()

    def __hash__(self) -> int:
        return hash(repr(self))

    def __repr__(self) -> str:
        arguments = [f"{k}={_short(v)}" for k, v in self.config().items() if k != "type"]
        return f"{self.config()['type']}({', '.join(arguments)})"


def _short(value: Any) -> str:
    return f"<{len(value)} values>" if isinstance(value, list) else repr(value)


class _Curve(Protocol):
    """log alpha as a function of t, and its inverse."""

    def __call__(self, t: Tensor) -> Tensor: ...

    def inverse(self, log_alpha: Tensor) -> Tensor: ...


class _Knots:
    """log alpha linear between the knots k / N; knot 0 is exactly 0, so t = 0 is exactly clean data."""

    def __init__(self, betas: Tensor) -> None:
        self.values = torch.cat([betas.new_zeros(1), torch.log1p(-betas).cumsum(0) / 2])

    def __call__(self, t: Tensor) -> Tensor:
        steps = len(self.values) - 1
        left = (t.detach() * steps).floor().clamp(0, steps - 1).long()
        return self.values[left] + (t * steps - left) * (self.values[left + 1] - self.values[left])

    def inverse(self, log_alpha: Tensor) -> Tensor:
        steps = len(self.values) - 1
        left = torch.searchsorted(-self.values, -log_alpha.detach(), right=True).sub(1).clamp(0, steps - 1)
        slope = self.values[left + 1] - self.values[left]
        return (left + (log_alpha - self.values[left]) / slope) / steps


class _Quadratic:
    """log alpha = -(beta_max - beta_min) t^2 / 4 - beta_min t / 2, the continuous VP-SDE."""

    def __init__(self, beta_min: float, beta_max: float) -> None:
        self.beta_min, self.slope = beta_min, beta_max - beta_min

    def __call__(self, t: Tensor) -> Tensor:
        return -(self.slope * t**2 / 4 + self.beta_min * t / 2)

    def inverse(self, log_alpha: Tensor) -> Tensor:
        half = self.beta_min / 2
        return -2 * log_alpha / (half + (half**2 - self.slope * log_alpha).sqrt())


def check_schedule(value: object) -> None:
    """Refuse what is not a schedule."""
    if not isinstance(value, Schedule):
        raise ValueError(f"a schedule is one of ds.VP, ds.Flow and ds.VE, not {value!r:.80}")


class VP(Schedule):
    """Variance preserving: alpha^2 + sigma^2 = 1. Built by `linear`, `cosine`, `from_betas` and the like.

    A velocity network predicts alpha * noise - sigma * data, which diffusers calls ``v_prediction``.
    """

    def __init__(
        self, curve: _Curve, config: dict[str, Any], end: float, scale: float, offset: float
    ) -> None:
        self._curve, self._config = curve, config
        self._time_scale, self._time_offset = scale, offset
        self.span = (1.0, end)

    @classmethod
    def from_betas(cls, betas: Sequence[float] | Tensor) -> VP:
        """Any discrete schedule: the node after beta_k is t = (k + 1) / N, where the network eats k."""
        betas = numbers("betas", betas)
        return cls._discrete(betas, {"type": "vp-betas", "betas": betas.tolist()})

    @classmethod
    def linear(cls, beta_start: float = 1e-4, beta_end: float = 0.02, steps: int = 1000) -> VP:
        """Betas linear between the two: DDPM, DiT, PixArt."""
        betas = _linspace(whole("steps", steps, most=MOST) - 1, *_bounds(beta_start, beta_end))
        return cls._discrete(betas, _config("vp-linear", beta_start, beta_end, steps))

    @classmethod
    def scaled_linear(cls, beta_start: float = 0.00085, beta_end: float = 0.012, steps: int = 1000) -> VP:
        """Square roots of betas linear between those of the two: Stable Diffusion."""
        first, last = _bounds(beta_start, beta_end)
        betas = _linspace(whole("steps", steps, most=MOST) - 1, first**0.5, last**0.5) ** 2
        return cls._discrete(betas, _config("vp-scaled-linear", beta_start, beta_end, steps))

    @classmethod
    def cosine(cls, steps: int = 1000, offset: float = 0.008, max_beta: float = 0.999) -> VP:
        """alpha = cos(pi/2 (t + offset) / (1 + offset)) at the nodes, betas capped: Improved DDPM."""
        steps, offset = whole("steps", steps, most=MOST), number("offset", offset, above=-1e-300)
        max_beta = number("max_beta", max_beta, above=0)
        angle = (torch.arange(steps + 1, dtype=torch.float64) / steps + offset) / (1 + offset) * math.pi / 2
        alpha_bar = angle.cos() ** 2
        betas = (1 - alpha_bar[1:] / alpha_bar[:-1]).clamp(max=max_beta)
        config = {"type": "vp-cosine", "steps": steps, "offset": offset, "max_beta": max_beta}
        return cls._discrete(betas, config)

    @classmethod
    def continuous(cls, beta_min: float = 0.1, beta_max: float = 20.0, time_scale: float = 999.0) -> VP:
        """The VP-SDE of score-based modelling; its networks eat 999 t."""
        number("beta_max", beta_max, above=number("beta_min", beta_min, above=0))
        number("time_scale", time_scale, above=0)
        config = {
            "type": "vp-continuous",
            "beta_min": beta_min,
            "beta_max": beta_max,
            "time_scale": time_scale,
        }
        return cls(_Quadratic(beta_min, beta_max), config, end=1e-3, scale=time_scale, offset=0.0)

    @classmethod
    def _discrete(cls, betas: Tensor, config: dict[str, Any]) -> VP:
        if len(betas) and betas[-1] == 1:
            raise ValueError(
                "a last beta of 1 (zero terminal SNR) leaves no data at t = 1, and log alpha no value: "
                "use 1 - 2**-24, as diffusers' multistep schedulers do"
            )
        if not len(betas) or not bool(((betas > 0) & (betas < 1)).all()):
            raise ValueError("betas must be a non-empty list of numbers strictly between 0 and 1")
        return cls(_Knots(betas), config, end=1 / len(betas), scale=len(betas), offset=1.0)

    def __call__(self, t: float | Tensor) -> tuple[Tensor, Tensor]:
        log_alpha = self._curve(self._checked(t))
        variance = -torch.expm1(2 * log_alpha)  # 1 - alpha^2 without cancellation at small t
        safe = torch.where(variance > 0, variance, 1.0)  # sqrt has no gradient at 0
        return log_alpha.exp(), torch.where(variance > 0, safe.sqrt(), 0.0)

    def time(self, half_log_snr: float | Tensor) -> Tensor:
        lam = tensor("half_log_snr", half_log_snr)
        t = self._curve.inverse(-0.5 * torch.logaddexp(torch.zeros_like(lam), -2 * lam))
        inside = (t > -1e-9) & (t < 1 + 1e-9)
        return self._checked(torch.where(inside, t.clamp(0.0, 1.0), t))

    def velocity(self, alpha: Tensor, sigma: Tensor) -> tuple[Tensor, Tensor]:
        return -sigma, alpha

    def model_time(self, t: float | Tensor) -> Tensor:
        return torch.as_tensor(t, dtype=torch.float64) * self._time_scale - self._time_offset

    def config(self) -> dict[str, Any]:
        return self._config


def _bounds(beta_start: float, beta_end: float) -> tuple[float, float]:
    return number("beta_start", beta_start, above=0), number("beta_end", beta_end, above=0)


def _config(kind: str, beta_start: float, beta_end: float, steps: int) -> dict[str, Any]:
    return {"type": kind, "beta_start": beta_start, "beta_end": beta_end, "steps": steps}


class Flow(Schedule):
    """Flow matching: alpha = 1 - t, sigma = t (optimal transport). A velocity network gives noise - data."""

    default_grid = "shifted"
    span = (0.999, 0.001)

    def __init__(self, shift: float = 1.0, time_scale: float = 1000.0) -> None:
        self.shift = number("shift", shift, above=0)
        self.time_scale = number("time_scale", time_scale, above=0)

    def __call__(self, t: float | Tensor) -> tuple[Tensor, Tensor]:
        t = self._checked(t)
        return 1 - t, t + 0

    def time(self, half_log_snr: float | Tensor) -> Tensor:
        return self._checked(torch.sigmoid(-tensor("half_log_snr", half_log_snr)))

    def velocity(self, alpha: Tensor, sigma: Tensor) -> tuple[Tensor, Tensor]:
        return -torch.ones_like(alpha), torch.ones_like(sigma)

    def model_time(self, t: float | Tensor) -> Tensor:
        return torch.as_tensor(t, dtype=torch.float64) * self.time_scale

    def config(self) -> dict[str, Any]:
        return {"type": "flow", "shift": self.shift, "time_scale": self.time_scale}


class VE(Schedule):
    """Variance exploding: alpha = 1, and time is sigma itself. A velocity network predicts the noise."""

    default_grid = "karras"

    def __init__(self, sigma_min: float = 0.02, sigma_max: float = 100.0) -> None:
        sigma_min = number("sigma_min", sigma_min, above=0)
        sigma_max = number("sigma_max", sigma_max, above=sigma_min)
        self.t_max = self.prior_scale = sigma_max
        self.span = (sigma_max, sigma_min)

    def __call__(self, t: float | Tensor) -> tuple[Tensor, Tensor]:
        t = self._checked(t)
        return 1 + 0 * t, t + 0  # constant, but with a gradient (of 0) like every rate

    def time(self, half_log_snr: float | Tensor) -> Tensor:
        return self._checked(torch.exp(-tensor("half_log_snr", half_log_snr)))

    def velocity(self, alpha: Tensor, sigma: Tensor) -> tuple[Tensor, Tensor]:
        return torch.zeros_like(alpha), torch.ones_like(sigma)

    def model_time(self, t: float | Tensor) -> Tensor:
        return torch.as_tensor(t, dtype=torch.float64) + 0

    def config(self) -> dict[str, Any]:
        return {"type": "ve", "sigma_min": self.span[1], "sigma_max": self.span[0]}


SCHEDULES: dict[str, Callable[..., Schedule]] = {
    "vp-betas": VP.from_betas,
    "vp-linear": VP.linear,
    "vp-scaled-linear": VP.scaled_linear,
    "vp-cosine": VP.cosine,
    "vp-continuous": VP.continuous,
    "flow": Flow,
    "ve": VE,
}


def from_config(config: Mapping[str, Any]) -> Schedule:
    """Rebuild a schedule from `Schedule.config`."""
    if not isinstance(config, Mapping):
        raise ValueError(f"a schedule's config is an object with a type, not {config!r}")
    kind = str(config.get("type"))
    check_choice("type", kind, tuple(SCHEDULES))
    try:
        schedule = SCHEDULES[kind](**{k: v for k, v in config.items() if k != "type"})
    except TypeError as error:
        raise ValueError(f"schedule {kind!r}: {error}") from None
    if missing := schedule.config().keys() - config.keys():
        raise ValueError(f"schedule {kind!r} lacks {', '.join(sorted(missing))}")
    return schedule


def same_rates(first: Schedule, second: Schedule) -> bool:
    """Whether two schedules have the same rates and network times, whatever their grids."""
    if first.t_max != second.t_max:
        return False
    t = torch.linspace(first.t_min, first.t_max, 21, dtype=torch.float64)
    pairs = zip((*first(t), first.model_time(t)), (*second(t), second.model_time(t)), strict=True)
    return all(torch.allclose(a, b, rtol=1e-5, atol=1e-7) for a, b in pairs)


def _linspace(steps: int, first: float, last: float) -> Tensor:
    return torch.linspace(first, last, steps + 1, dtype=torch.float64)


def _uniform(schedule: Schedule, steps: int, start: float, end: float) -> Tensor:
    return _linspace(steps, start, end)


def _shifted(schedule: Schedule, steps: int, start: float, end: float) -> Tensor:
    s = _linspace(steps, start, end)
    return schedule.shift * s / (1 + (schedule.shift - 1) * s)


def _half_log_snr(schedule: Schedule, steps: int, start: float, end: float) -> Tensor:
    lam = schedule.half_log_snr(torch.tensor([start, end], dtype=torch.float64))
    return _anchored(schedule, _linspace(steps, *_finite(lam, "half_log_snr")), start, end)


def _karras(schedule: Schedule, steps: int, start: float, end: float, rho: float = 7.0) -> Tensor:
    lam = schedule.half_log_snr(torch.tensor([start, end], dtype=torch.float64))
    roots = [math.exp(-x / rho) for x in _finite(lam, "karras")]
    return _anchored(schedule, -rho * _linspace(steps, *roots).log(), start, end)


def _finite(lam: Tensor, kind: str) -> tuple[float, float]:
    if not bool(lam.isfinite().all()):
        raise ValueError(f"a {kind} grid needs alpha > 0 at its start and sigma > 0 at its end")
    return lam[0].item(), lam[1].item()


def _anchored(schedule: Schedule, lam: Tensor, start: float, end: float) -> Tensor:
    """Times of the inner nodes, with the ends as given rather than as the inverse rounds them."""
    ends = torch.tensor([start, end], dtype=torch.float64)
    return torch.cat([ends[:1], schedule.time(lam[1:-1]), ends[1:]])


GRIDS: dict[str, Callable[[Schedule, int, float, float], Tensor]] = {
    "uniform": _uniform,
    "shifted": _shifted,
    "half_log_snr": _half_log_snr,
    "karras": _karras,
}


def noise_level(schedule: Schedule, alpha: Tensor, sigma: Tensor) -> Tensor:
    """Return what diffusers and k-diffusion call sigma: sigma / alpha, but sigma itself for flows."""
    return sigma if isinstance(schedule, Flow) else sigma / alpha


def at_noise_level(schedule: Schedule, levels: Tensor) -> Tensor:
    """Return the times of noise levels, (N,) from 0 up, float32 rounding of the highest undone.

    >>> at_noise_level(VP.linear(), torch.tensor([0.0])).tolist()
    [0.0]
    """
    highest = noise_level(schedule, *schedule(schedule.t_max))
    near = (levels > highest) & (levels < highest * (1 + 1e-5))
    levels = torch.where(near, highest, levels.double())
    if isinstance(schedule, Flow | VE):
        return levels
    inner = torch.where(levels > 0, levels, 1.0)
    return torch.where(levels > 0, schedule.time(-inner.log()), 0.0)


class LearnedTimes(nn.Module):
    """Times as a softmax over step logits, cumulated (Sec. learning_parameters); both ends stay fixed.

    >>> LearnedTimes([1.0, 0.25, 0.0])().detach().round(decimals=9).tolist()
    [1.0, 0.25, 0.0]
    """

    ends: Tensor

    def __init__(self, t: Tensor | Sequence[float]) -> None:
        super().__init__()
        self.logits = nn.Parameter(torch.empty(0, dtype=torch.float64))
        self.set(t)

    def set(self, t: Tensor | Sequence[float]) -> None:
        """Take the given times literally, to rounding."""
        steps = -falling("t", t).detach().diff()
        self.register_buffer("ends", falling("t", t).detach()[[0, -1]])
        self.logits.data = (steps / steps.sum()).log()

    def forward(self) -> Tensor:
        start, end = self.ends[:1], self.ends[1:]
        left = torch.softmax(self.logits, 0).flip(0).cumsum(0).flip(0)[1:]  # summed from the small end:
        return torch.cat([start, end + (start - end) * left, end])  # no cancellation where t is small
