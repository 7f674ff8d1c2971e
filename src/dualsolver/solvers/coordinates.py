"""The learned scalars of Dual-Solver: raw and unbounded where they are learned, real everywhere else."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor, nn
from torch.nn.functional import softplus

from ..checks import check_choice, number, numbers

NAMES = {"natural": ("gamma", "tau_u", "tau_v", "kappa_u", "kappa_v"), "direct": ("A", "P_u", "P_v")}


def letter(name: str) -> str:
    """The letter without its side: tau of tau_u."""
    return name.partition("_")[0]


class Coordinates:
    """Which scalars there are, which of them are learned, and how raw values become real ones.

    Raw zeros are gamma = kappa = 0 and tau = softplus(1) = 1.313, or A = 1 and P = 0.
    """

    def __init__(
        self,
        parametrisation: str,
        domain: str,
        bound: float | None,
        fixed: Mapping[str, float] | None,
        shared: bool,
    ) -> None:
        check_choice("parametrisation", parametrisation, tuple(NAMES))
        check_choice("domain", domain, ("loglinear", "mix"))
        check_choice("shared", shared, (True, False))
        if parametrisation == "direct" and (shared or domain != "loglinear"):
            raise ValueError("shared and domain are about (gamma, tau, kappa): they do not go with 'direct'")
        self.parametrisation, self.domain, self.shared = parametrisation, domain, shared
        self.bound = None if bound is None else number("bound", bound, above=0)
        self.names = NAMES[parametrisation]
        if not isinstance(fixed, Mapping | None):
            raise ValueError(f'fixed must map names to values, such as {{"kappa": 0.0}}, not {fixed!r}')
        self.fixed = {name: self._fixed(name, value) for name, value in (fixed or {}).items()}

    def _fixed(self, name: str, value: float) -> float:
        check_choice("a name in fixed", name, tuple(dict.fromkeys(map(letter, self.names))))
        found = number(
            f"fixed {name}", value, above=0 if name == "tau" and self.domain == "loglinear" else -1e300
        )
        if name == "tau" and self.domain == "mix" and not 0 <= found <= 1:
            raise ValueError(f"fixed tau must lie in [0, 1] in domain 'mix', not {value!r}")
        return found

    def raw(self, length: int) -> nn.ParameterDict:
        """Make the learned parameters of `length` steps, at their start."""
        learned = [name for name in self.names if length and self._source(name) == name]
        return nn.ParameterDict(
            {name: nn.Parameter(torch.zeros(length, dtype=torch.float64)) for name in learned}
        )

    def real(self, raw: nn.ParameterDict, length: int) -> dict[str, Tensor]:
        """Return the real values of every scalar: (length,) each."""
        found = {}
        for name in self.names if length else ():
            source = self._source(name)
            if source is None:
                found[name] = torch.full((length,), self.fixed[letter(name)], dtype=torch.float64)
            else:
                found[name] = self._squash(letter(name), raw[source])
        return found

    def take(
        self, part: str, raw: nn.ParameterDict, lists: Mapping[str, Sequence[float]], length: int
    ) -> None:
        """Set raw parameters so that the real values are the given lists."""
        names = self.names if length or lists else ()
        if not isinstance(lists, Mapping) or set(lists) != set(names):
            found = ", ".join(lists) if isinstance(lists, Mapping) and lists else repr(lists)
            raise ValueError(f"{part} must hold {', '.join(names) or 'nothing'}, not {found}")
        given = {name: numbers(f"{part}.{name}", lists[name], length) for name in names}
        for name in raw:
            raw[name].data = self._unsquash(f"{part}.{name}", letter(name), given[name].detach())
        for name, value in self.real(raw, length).items():
            if not torch.allclose(value, given[name], rtol=1e-9, atol=1e-12):
                raise ValueError(f"{part}.{name} = {given[name].tolist()} contradicts fixed or shared")

    def _source(self, name: str) -> str | None:
        """The raw parameter that a value comes from: its own, its twin's if shared, none if fixed."""
        if letter(name) in self.fixed:
            return None
        return name.replace("_v", "_u") if self.shared else name

    def _squash(self, kind: str, raw: Tensor) -> Tensor:
        if kind == "tau":
            return softplus(raw + 1, threshold=40) if self.domain == "loglinear" else torch.sigmoid(raw + 3)
        if kind == "A":
            return 1 + raw
        return raw if kind == "P" or self.bound is None else self.bound * torch.tanh(raw)

    def _unsquash(self, name: str, kind: str, value: Tensor) -> Tensor:
        if kind == "tau":
            return self._raw_tau(name, value)
        if kind == "A":
            return value - 1
        if kind == "P" or self.bound is None:
            return value
        if bool((value.abs() > self.bound * (1 + 1e-12)).any()):
            raise ValueError(
                f"{name} = {value.tolist()} goes beyond bound={self.bound}: pass a larger bound or None"
            )
        return torch.atanh((value / self.bound).clamp(-1, 1)).clamp(-20, 20)  # tanh(20) is 1 in float64

    def _raw_tau(self, name: str, value: Tensor) -> Tensor:
        if self.domain == "mix":
            if not bool(((value > 0) & (value < 1)).all()):
                raise ValueError(
                    f"{name} = {value.tolist()} must lie between 0 and 1; use fixed for the ends"
                )
            return torch.logit(value) - 3
        if not bool((value > 0).all()):
            raise ValueError(f"{name} = {value.tolist()} must be positive")
        return value + torch.log(-torch.expm1(-value)) - 1
