"""The scalars of Dual-Solver's equations, one step an entry, from the rates c (current) and n (next).

Written so that nothing needs L^-1 or B alone: for every gamma B * (L^-1(u_n) - L^-1(u_c)) is
Q_u = alpha_n - A alpha_c, and likewise Q_v = sigma_n - A sigma_c. Every `where` gets values that are finite
on its unused side too, because a NaN there would still reach the gradient.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from .base import Rates


class Pair(NamedTuple):
    """One value for the data integral (u) and one for the noise integral (v)."""

    u: Tensor
    v: Tensor


def carry(gamma: Tensor, c: Rates, n: Rates) -> Tensor:
    """A = (sigma_n / sigma_c)^gamma for gamma >= 0, (alpha_n / alpha_c)^-gamma for gamma < 0.

    At gamma = 0 the gradient is the one from the right. A = 0 for gamma > 0 at sigma_n = 0.
    """
    clean = n.sigma == 0
    ratio = torch.where(clean, 1.0, n.sigma / c.sigma)
    above, below = _by_sign(gamma)
    right = torch.where(clean & (gamma > 0), 0.0, ratio**above)
    left = (n.alpha / _nonzero(c.alpha)) ** -below
    return torch.where(gamma >= 0, right, left)


def increments(A: Tensor, c: Rates, n: Rates) -> Pair:
    """(Q_u, Q_v) = (alpha_n - A alpha_c, sigma_n - A sigma_c)."""
    return Pair(n.alpha - A * c.alpha, n.sigma - A * c.sigma)


def residuals(gamma: Tensor, tau: Pair, kappa: Pair, c: Rates, n: Rates, domain: str) -> Pair:
    """(P_u, P_v) = B K = (kappa_u (sqrt(B) du)^2, kappa_v (sqrt(B) dv)^2), which vanish at sigma_n = 0.

    Squared last, because du = 0 happens (gamma = -1, VE) and its logarithm has no gradient.
    """
    clean = n.sigma == 0
    half = torch.where(gamma >= 0, _nonzero(n.sigma).log() * gamma / 2, -n.alpha.log() * gamma / 2)
    d = domain_step(gamma, tau, c, n, domain)
    gone = clean & (gamma > 0)
    return Pair(*(torch.where(gone, 0.0, k * (half.exp() * x) ** 2) for k, x in zip(kappa, d, strict=True)))


def domain_step(gamma: Tensor, tau: Pair, c: Rates, n: Rates, domain: str) -> Pair:
    """(du, dv), du = L(y_n) - L(y_c), for L = log(1 + tau y) / tau or, in "mix", (1 - tau) y + tau log y.

    The log-linear difference is log1p(tau (y_n - y_c) / (1 + tau y_c)) / tau: exact from tau = 1e-12 on.
    """
    return Pair(
        *(
            torch.log1p(t * dy / (1 + t * y)) / t if domain == "loglinear" else (1 - t) * dy + t * dlog
            for t, (y, dy, dlog) in zip(tau, _arguments(gamma, c, n), strict=True)
        )
    )


def _arguments(gamma: Tensor, c: Rates, n: Rates) -> list[tuple[Tensor, Tensor, Tensor]]:
    """For u and v: y at c, y_n - y_c, and log(y_n / y_c), y being the argument of L (Eq. def_L)."""
    a, s = _nonzero(c.alpha).log(), c.sigma.log()
    da, ds = _log_ratios(c, n)
    right, (above, _) = gamma >= 0, _by_sign(gamma)
    log_u = torch.where(right, a - gamma * s, (1 + gamma) * a)
    log_v = torch.where(right, (1 - gamma) * s, s + gamma * a)
    step_u = torch.where(right, da - gamma * ds, (1 + gamma) * da)
    step_v = torch.where(right, (1 - gamma) * ds, ds + gamma * da)
    y_u = torch.where(c.alpha > 0, log_u.exp(), 0.0)  # alpha_c = 0 comes with gamma >= 0 only
    y_v = log_v.exp()
    to_u = torch.where(c.alpha > 0, y_u * torch.expm1(step_u), n.alpha * _nonzero(n.sigma) ** -above)
    to_v = torch.where(n.sigma > 0, y_v * torch.expm1(step_v), -y_v)
    return [(y_u, to_u, step_u), (y_v, to_v, step_v)]


def step_ratio(gamma: Tensor, tau: Pair, p: Rates, c: Rates, n: Rates, domain: str) -> Pair:
    """(1 / r_u, 1 / r_v) = (du / du_previous, dv / dv_previous), both in the L of the current step.

    Where an argument is constant (v at gamma = 1, u at gamma = -1 and, in VE, at gamma = 0) this is 0 / 0;
    the limit is the ratio of the steps in log sigma or log alpha, to which the argument's logarithm tends.
    """
    before, after = domain_step(gamma, tau, p, c, domain), domain_step(gamma, tau, c, n, domain)
    (da_before, ds_before), (da, ds) = _log_ratios(p, c), _log_ratios(c, n)
    of_sigma = ds / ds_before
    of_alpha = torch.where((gamma < 0) & (da_before != 0), da / _nonzero(da_before), of_sigma)
    limits = (of_alpha, of_sigma)
    return Pair(
        *(
            torch.where(x == 0, limit, y / _nonzero(x))
            for x, y, limit in zip(before, after, limits, strict=True)
        )
    )


def _log_ratios(c: Rates, n: Rates) -> tuple[Tensor, Tensor]:
    """log(alpha_n / alpha_c), log(sigma_n / sigma_c), with 0 in place of what is infinite."""
    return (
        n.alpha.log() - _nonzero(c.alpha).log(),
        torch.where(n.sigma > 0, _nonzero(n.sigma).log() - c.sigma.log(), 0.0),
    )


def _by_sign(gamma: Tensor) -> tuple[Tensor, Tensor]:
    """gamma on its own side of 0, else 0; clamp would have no gradient at 0, where gamma starts."""
    return torch.where(gamma >= 0, gamma, 0.0), torch.where(gamma < 0, gamma, 0.0)


def _nonzero(x: Tensor) -> Tensor:
    return torch.where(x == 0, 1.0, x)
