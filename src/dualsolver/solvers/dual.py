"""Dual-Solver (the paper): learned prediction type (gamma), domain (tau), residual (kappa), and times."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, Self

import torch
from torch import Tensor, nn
from torch.nn.functional import softplus

from ..schedule import Schedule
from ..table import Table
from .base import Learned, Nodes, Rates, check_choice, finished, numbers, twice
from .formulas import Pair, carry, increments, residuals, step_ratio

KINDS = ("p1", "p1c2", "p2", "p2c2")
NAMES = {"natural": ("gamma", "tau_u", "tau_v", "kappa_u", "kappa_v"), "direct": ("A", "P_u", "P_v")}


class Scalars(NamedTuple):
    """What a step is made of: the factor A on the state, the increments Q and the residuals P."""

    A: Tensor
    Q: Pair
    P: Pair


class DualSolver(Learned):
    """The predictors and the corrector of Eqs. fo-pred, so-pred and so-corr, for `nfe` evaluations.

    kind: "p1c2" (first-order predictor, second-order corrector: the method), "p1", "p2" or "p2c2".
    parametrisation: "natural" learns (gamma, tau, kappa); "direct" learns what they amount to, (A, P_u, P_v).
    domain: "loglinear", log(1 + tau y) / tau, the method; "mix", (1 - tau) y + tau log y, the ablation.
    bound: |gamma| and |kappa| stay below it, as in the paper's code; None lets them go anywhere.
    fixed: values that are not learned, such as {"gamma": 0.0}, {"tau": 1.0} or {"kappa": 0.0}.
    shared: tau_v is tau_u and kappa_v is kappa_u.
    lower_order_final: a second-order predictor ends with a first-order step, as in the paper's code.
    t: the nfe + 1 initial times, uniform from 0.999 to 0.001 if not given; the two ends are never learned.

    Starts at gamma = kappa = 0: the predictor is DDIM, the corrector a trapezoid in (alpha, sigma).

    >>> from dualsolver.schedule import VP
    >>> DualSolver(nfe=5)(VP.linear()).weights.shape
    torch.Size([5, 2, 5])
    """

    def __init__(
        self,
        nfe: int,
        kind: str = "p1c2",
        parametrisation: str = "natural",
        domain: str = "loglinear",
        bound: float | None = 2.0,
        fixed: Mapping[str, float] | None = None,
        shared: bool = False,
        lower_order_final: bool = True,
        t: Sequence[float] | Tensor | None = None,
    ) -> None:
        super().__init__(nfe, t)
        check_choice("kind", kind, KINDS)
        check_choice("parametrisation", parametrisation, tuple(NAMES))
        check_choice("domain", domain, ("loglinear", "mix"))
        if bound is not None and not bound > 0:
            raise ValueError(f"bound must be positive or None, not {bound}")
        if parametrisation == "direct" and (shared or domain != "loglinear"):
            raise ValueError("shared and domain are about (gamma, tau, kappa): they do not go with 'direct'")
        self.kind, self.parametrisation, self.domain = kind, parametrisation, domain
        self.bound, self.shared, self.lower_order_final = bound, shared, lower_order_final
        self.fixed = {name: float(value) for name, value in (fixed or {}).items()}
        for name in self.fixed:
            check_choice("a name in fixed", name, tuple(dict.fromkeys(map(_letter, NAMES[parametrisation]))))
        self.predictor = self._raw(nfe)
        self.corrector = self._raw(nfe - 1 if self.corrects else 0)

    @property
    def corrects(self) -> bool:
        """Whether there is a corrector."""
        return self.kind.endswith("c2")

    @property
    def convergence(self) -> int:
        return 1 if self.kind == "p1" else 2

    def forward(self, schedule: Schedule) -> Table:
        at = self.nodes(schedule)
        c, n = at.rates(slice(None, -1)), at.rates(slice(1, None))
        predict = self._predict(at, self._scalars(self.predictor, c, n))
        if not self.corrects:
            return finished("Dual-Solver", at, twice(predict))
        stay = predict.new_tensor([[1.0, 0.0, 0.0, 0.0, 0.0]])
        state = torch.cat(
            [stay, _correct(self._scalars(self.corrector, at.rates(slice(None, -2)), at.rates(slice(1, -1))))]
        )
        after = torch.cat([torch.zeros_like(predict[:, :1]), predict[:, 1:]], 1)
        return finished("Dual-Solver", at, torch.stack([state, predict[:, :1] * state + after], 1))

    def _scalars(self, raw: nn.ParameterDict, c: Rates, n: Rates) -> Scalars:
        real = self._real(raw, len(c.alpha))
        if self.parametrisation == "direct":
            return Scalars(real["A"], increments(real["A"], c, n), Pair(real["P_u"], real["P_v"]))
        self._check_ends(real["gamma"], c, n)
        gamma, tau, kappa = (
            real["gamma"],
            Pair(real["tau_u"], real["tau_v"]),
            Pair(real["kappa_u"], real["kappa_v"]),
        )
        A = carry(gamma, c, n)
        return Scalars(A, increments(A, c, n), residuals(gamma, tau, kappa, c, n, self.domain))

    def _check_ends(self, gamma: Tensor, c: Rates, n: Rates) -> None:
        if bool(((gamma < 0) & (c.alpha == 0)).any()):
            raise ValueError(
                f"gamma = {gamma[0].item()} < 0 has no limit in a step from alpha = 0: "
                "start below the last time, or fix gamma at 0 or more"
            )
        if self.domain == "mix" and bool(((c.alpha == 0) | (n.sigma == 0)).any()):
            raise ValueError("domain 'mix' takes log y, which is infinite where alpha = 0 or sigma = 0")

    def _predict(self, at: Nodes, step: Scalars) -> Tensor:
        """Eq. fo-pred, and from the second step on Eq. so-pred if the kind is p2: (M, 3 or 5)."""
        A, Q, P = step
        row = torch.stack([A, Q.u + P.u, Q.v + P.v], 1)
        if self.kind == "p1":
            return row
        row = torch.cat([row, torch.zeros_like(row[:, :2])], 1)
        i = torch.arange(1, max(1, self.nfe - self.lower_order_final))
        if self.kind == "p1c2" or len(i) == 0:
            return row
        ratio = self._ratio(at, i)
        slope_u, slope_v = (Q.u + P.u)[i] / 2 * ratio.u, (Q.v + P.v)[i] / 2 * ratio.v
        second = torch.stack([A[i], Q.u[i] + slope_u, Q.v[i] + slope_v, -slope_u, -slope_v], 1)
        return torch.cat([row[:1], second, row[1 + len(i) :]])

    def _ratio(self, at: Nodes, i: Tensor) -> Pair:
        """1 / r of Eq. so-pred; the direct form has no L and takes the ratio of half-log-SNR steps."""
        if self.parametrisation == "direct":
            h = (at.alpha / at.sigma).log().diff()
            return Pair(h[i] / h[i - 1], h[i] / h[i - 1])
        p, c, n = at.rates(i - 1), at.rates(i), at.rates(i + 1)
        real = {name: value[i] for name, value in self._real(self.predictor, self.nfe).items()}
        if bool(((real["gamma"] > 0) & (n.sigma == 0)).any()):
            raise ValueError(
                "p2 with gamma > 0 has no limit at sigma = 0: use lower_order_final, or end above it"
            )
        return step_ratio(real["gamma"], Pair(real["tau_u"], real["tau_v"]), p, c, n, self.domain)

    # Values: raw parameters are all zero at the start; squashing gives the real ones.

    def _raw(self, length: int) -> nn.ParameterDict:
        learned = (
            [name for name in NAMES[self.parametrisation] if self._source(name) == name] if length else []
        )
        return nn.ParameterDict(
            {name: nn.Parameter(torch.zeros(length, dtype=torch.float64)) for name in learned}
        )

    def _source(self, name: str) -> str | None:
        """The raw parameter that a value comes from: its own, its twin's if shared, none if fixed."""
        if _letter(name) in self.fixed:
            return None
        return name.replace("_v", "_u") if self.shared else name

    def _real(self, raw: nn.ParameterDict, length: int) -> dict[str, Tensor]:
        real = {}
        for name in NAMES[self.parametrisation]:
            source = self._source(name)
            if source is None:
                real[name] = torch.full((length,), self.fixed[_letter(name)], dtype=torch.float64)
            else:
                real[name] = self._squash(_letter(name), raw[source]) if length else torch.zeros(0).double()
        return real

    def _squash(self, letter: str, raw: Tensor) -> Tensor:
        if letter == "tau":
            return softplus(raw + 1, threshold=40) if self.domain == "loglinear" else torch.sigmoid(raw + 3)
        if letter == "A":
            return 1 + raw
        return raw if letter == "P" or self.bound is None else self.bound * torch.tanh(raw)

    def _unsquash(self, name: str, value: Tensor) -> Tensor:
        letter = _letter(name)
        if letter == "tau":
            return _raw_tau(name, value, self.domain)
        if letter == "A":
            return value - 1
        if letter == "P" or self.bound is None:
            return value
        if bool((value.abs() > self.bound).any()):
            raise ValueError(
                f"{name} = {value.tolist()} goes beyond bound={self.bound}: pass a larger bound or None"
            )
        return torch.atanh(value / self.bound).clamp(-20, 20)  # tanh(20) is 1 in float64

    def values(self) -> dict[str, Any]:
        """Return the options, the times and the real values: everything that `from_values` takes."""
        return {
            **{name: getattr(self, name) for name in OPTIONS},
            "t": self.times().tolist(),
            "predictor": _lists(self._real(self.predictor, self.nfe)),
            "corrector": _lists(self._real(self.corrector, self.nfe - 1)) if self.corrects else {},
        }

    @classmethod
    def from_values(
        cls,
        kind: str,
        t: Sequence[float],
        predictor: Mapping[str, Sequence[float]],
        corrector: Mapping[str, Sequence[float]] | None = None,
        **options: Any,
    ) -> Self:
        """Take real values (gamma, tau > 0, kappa; or A, P) and times literally.

        predictor: nfe numbers a name; corrector: nfe - 1 numbers a name, for the kinds that have one.
        options: those of the class, such as parametrisation, domain, bound, fixed, shared.
        """
        if unknown := options.keys() - set(OPTIONS):
            raise ValueError(f"unknown option {sorted(unknown)}: choose from {', '.join(OPTIONS)}")
        solver = cls(len(t) - 1, kind, t=t, **options)
        solver._take("predictor", predictor, solver.nfe)
        solver._take("corrector", corrector or {}, solver.nfe - 1 if solver.corrects else 0)
        return solver

    def _take(self, part: str, lists: Mapping[str, Sequence[float]], length: int) -> None:
        names = NAMES[self.parametrisation] if length or lists else ()
        if set(lists) != set(names):
            raise ValueError(
                f"{part} must hold {', '.join(names) or 'nothing'}, not {', '.join(lists) or 'nothing'}"
            )
        given = {name: numbers(f"{part}.{name}", lists[name], length) for name in names}
        raw: nn.ParameterDict = getattr(self, part)
        for name in raw:
            raw[name].data = self._unsquash(f"{part}.{name}", given[name])
        for name, value in self._real(raw, length).items():
            if names and not torch.allclose(value, given[name], rtol=1e-9, atol=1e-12):
                raise ValueError(f"{part}.{name} = {given[name].tolist()} contradicts fixed or shared")


OPTIONS = ("kind", "parametrisation", "domain", "bound", "fixed", "shared", "lower_order_final")


def _letter(name: str) -> str:
    return name.rpartition(".")[2].partition("_")[0]


def _lists(real: Mapping[str, Tensor]) -> dict[str, list[float]]:
    return {name: value.tolist() for name, value in real.items()}


def _raw_tau(name: str, value: Tensor, domain: str) -> Tensor:
    if domain == "mix":
        if not bool(((value > 0) & (value < 1)).all()):
            raise ValueError(f"{name} = {value.tolist()} must lie between 0 and 1; use fixed for the ends")
        return torch.logit(value) - 3
    if not bool((value > 0).all()):
        raise ValueError(f"{name} = {value.tolist()} must be positive")
    return value + torch.log(-torch.expm1(-value)) - 1


def _correct(step: Scalars) -> Tensor:
    """Eq. so-corr for the steps c -> n, with what is known at n first: (M - 1, 5)."""
    A, Q, P = step
    half_u, half_v = (Q.u + P.u) / 2, (Q.v + P.v) / 2
    return torch.stack([A, half_u, half_v, Q.u - half_u, Q.v - half_v], 1)
