"""Dual-Solver (the paper): learned prediction type (gamma), domain (tau), residual (kappa), and times."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, Self

import torch
from torch import Tensor, nn

from ..checks import check_choice
from ..schedule import Schedule
from ..table import Table
from .base import Learned, Nodes, Rates, finished, twice
from .coordinates import Coordinates
from .formulas import Pair, carry, increments, residuals, step_ratio

KINDS = ("p1", "p1c2", "p2", "p2c2")


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
    consistent_end: no residual in the last predictor, whose free gain on data and noise a classifier abuses.
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
        consistent_end: bool = False,
        lower_order_final: bool = True,
        t: Sequence[float] | Tensor | None = None,
    ) -> None:
        super().__init__(nfe, t)
        check_choice("kind", kind, KINDS)
        check_choice("lower_order_final", lower_order_final, (True, False))
        check_choice("consistent_end", consistent_end, (True, False))
        self.kind, self.lower_order_final, self.consistent_end = kind, lower_order_final, consistent_end
        self.coordinates = Coordinates(parametrisation, domain, bound, fixed, shared)
        self.predictor = self.coordinates.raw(self.nfe)
        self.corrector = self.coordinates.raw(self.corrections)

    @property
    def corrections(self) -> int:
        """How many steps are corrected: all but the last, or none."""
        return self.nfe - 1 if self.kind.endswith("c2") else 0

    @property
    def convergence(self) -> int:
        return 1 if self.kind == "p1" else 2

    def forward(self, schedule: Schedule) -> Table:
        at = self.nodes(schedule)
        predict = self._predict(at)
        if not self.corrections:
            return finished("Dual-Solver", at, twice(predict))
        stay = predict.new_tensor([[1.0, 0.0, 0.0, 0.0, 0.0]])
        corrected = self._scalars(self.corrector, at.rates(slice(-2)), at.rates(slice(1, -1)))
        state = torch.cat([stay, _correct(corrected)])
        after = torch.cat([torch.zeros_like(predict[:, :1]), predict[:, 1:]], 1)
        return finished("Dual-Solver", at, torch.stack([state, predict[:, :1] * state + after], 1))

    def _scalars(self, raw: nn.ParameterDict, c: Rates, n: Rates) -> Scalars:
        real = self.coordinates.real(raw, len(c.alpha))
        if "A" in real:
            return Scalars(real["A"], increments(real["A"], c, n), Pair(real["P_u"], real["P_v"]))
        gamma, tau, kappa = (
            real["gamma"],
            Pair(real["tau_u"], real["tau_v"]),
            Pair(real["kappa_u"], real["kappa_v"]),
        )
        self._check_ends(gamma, c, n)
        A = carry(gamma, c, n)
        return Scalars(A, increments(A, c, n), residuals(gamma, tau, kappa, c, n, self.coordinates.domain))

    def _check_ends(self, gamma: Tensor, c: Rates, n: Rates) -> None:
        if bool(((gamma < 0) & (c.alpha == 0)).any()):
            raise ValueError(
                f"gamma = {gamma[0].item()} < 0 has no limit in a step from alpha = 0: "
                "start below the last time, or fix gamma at 0 or more"
            )
        if self.coordinates.domain == "mix" and bool(((c.alpha == 0) | (n.sigma == 0)).any()):
            raise ValueError("domain 'mix' takes log y, which is infinite where alpha = 0 or sigma = 0")

    def _predict(self, at: Nodes) -> Tensor:
        """Eq. fo-pred, and from the second step on Eq. so-pred if the kind is p2: (M, 3 or 5)."""
        A, Q, P = self._scalars(self.predictor, at.rates(slice(-1)), at.rates(slice(1, None)))
        if self.consistent_end:
            P = Pair(*(torch.cat([x[:-1], torch.zeros_like(x[-1:])]) for x in P))
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
        real = {name: value[i] for name, value in self.coordinates.real(self.predictor, self.nfe).items()}
        if "A" in real:
            h = at.half_log_snr().diff()
            return Pair(h[i] / h[i - 1], h[i] / h[i - 1])
        p, c, n = at.rates(i - 1), at.rates(i), at.rates(i + 1)
        if bool(((real["gamma"] > 0) & (n.sigma == 0)).any()):
            raise ValueError(
                "p2 with gamma > 0 has no limit at sigma = 0: use lower_order_final, or end above it"
            )
        tau = Pair(real["tau_u"], real["tau_v"])
        return step_ratio(real["gamma"], tau, p, c, n, self.coordinates.domain)

    def options(self) -> dict[str, Any]:
        """Return the arguments of the class but for nfe and t."""
        c = self.coordinates
        return {
            "kind": self.kind,
            "parametrisation": c.parametrisation,
            "domain": c.domain,
            "bound": c.bound,
            "fixed": c.fixed,
            "shared": c.shared,
            "consistent_end": self.consistent_end,
            "lower_order_final": self.lower_order_final,
        }

    def values(self) -> dict[str, Any]:
        """Return the options, the times and the real values: everything that `from_values` takes."""
        predictor = self.coordinates.real(self.predictor, self.nfe)
        corrector = self.coordinates.real(self.corrector, self.corrections)
        return {
            **self.options(),
            "t": self.times().tolist(),
            "predictor": {name: x.tolist() for name, x in predictor.items()},
            "corrector": {name: x.tolist() for name, x in corrector.items()},
        }

    def tail(self, start: int) -> dict[str, Any]:
        values = self.values()
        for part in ("predictor", "corrector"):
            values[part] = {name: x[start:] for name, x in values[part].items() if x[start:]}
        return values | {"t": values["t"][start:]}

    @classmethod
    def from_values(
        cls,
        kind: str,
        t: Sequence[float],
        predictor: Mapping[str, Sequence[float]],
        corrector: Mapping[str, Sequence[float]] | None = None,
        **options: Any,
    ) -> Self:
        """Take real values (gamma, tau > 0, kappa; or A, P) and times literally, to rounding.

        predictor: nfe numbers a name; corrector: nfe - 1 numbers a name, for the kinds that have one.
        options: those of the class. A value at the bound itself is kept, but has no gradient there.
        """
        solver = cls(cls.steps_of(t), kind, t=t, **options)
        solver.coordinates.take("predictor", solver.predictor, predictor, solver.nfe)
        solver.coordinates.take("corrector", solver.corrector, corrector or {}, solver.corrections)
        return solver

    def extra_repr(self) -> str:
        return ", ".join(f"{k}={v!r}" for k, v in {"nfe": self.nfe, **self.options()}.items())


def _correct(step: Scalars) -> Tensor:
    """Eq. so-corr for the steps c -> n, with what is known at n first: (M - 1, 5)."""
    A, Q, P = step
    half_u, half_v = (Q.u + P.u) / 2, (Q.v + P.v) / 2
    return torch.stack([A, half_u, half_v, Q.u - half_u, Q.v - half_v], 1)
