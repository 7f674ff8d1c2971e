"""Reference statistics: mean and covariance of a feature network on a set of images, and their .npz files.

The layout is ADM's: `mu` and `sigma`, and for sFID `mu_s` and `sigma_s`; `count` and `hash` are ours and
optional.
"""

from __future__ import annotations

import io
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from .checks import whole
from .extras import needs
from .files import write_whole
from .npz import read

NAMES = ("mu", "sigma", "mu_s", "sigma_s", "count", "hash")


@dataclass(frozen=True, eq=False)
class Statistics:
    """mu: (D,), sigma: (D, D), float64; of how many images, a hash of what they were, and those of sFID."""

    mu: Tensor
    sigma: Tensor
    count: int | None = None
    source: str | None = None
    spatial: Statistics | None = None

    def __post_init__(self) -> None:
        for name in ("mu", "sigma"):
            value = torch.as_tensor(getattr(self, name)).to(torch.float64)
            object.__setattr__(self, name, value)
            if not bool(value.isfinite().all()):
                raise ValueError(f"Statistics.{name} holds a number that is not finite")
        if self.mu.ndim != 1 or not len(self.mu) or self.sigma.shape != (*self.mu.shape, *self.mu.shape):
            found = f"{tuple(self.mu.shape)} and {tuple(self.sigma.shape)}"
            raise ValueError(f"mu and sigma must have shapes (D,) and (D, D), not {found}")
        if not torch.allclose(self.sigma, self.sigma.T, rtol=1e-4, atol=1e-8):
            raise ValueError("sigma must be symmetric: it is a covariance")

    def save(self, path: str | Path) -> None:
        """Write an .npz that ADM's and other evaluation code reads; float64."""
        with needs("evaluate"):
            import numpy as np
        parts: dict[str, Any] = {"mu": self.mu.cpu().numpy(), "sigma": self.sigma.cpu().numpy()}
        if self.spatial is not None:
            parts |= {"mu_s": self.spatial.mu.cpu().numpy(), "sigma_s": self.spatial.sigma.cpu().numpy()}
        extra = {"count": self.count, "hash": self.source}
        parts |= {name: np.asarray(value) for name, value in extra.items() if value is not None}
        buffer = io.BytesIO()
        np.savez_compressed(buffer, **parts)
        write_whole(Path(path), buffer.getvalue())

    @classmethod
    def load(cls, path: str | Path) -> Statistics:
        """Read any .npz with `mu` and `sigma`; nothing in it is ever unpickled."""
        if not Path(path).exists():
            raise ValueError(f"no statistics at {path}")
        parts = read(path, NAMES)
        if missing := {"mu", "sigma"} - parts.keys():
            raise ValueError(f"{path} lacks {' and '.join(sorted(missing))}: it must have mu and sigma")
        try:
            known = {name: _numbers(name, parts[name]) for name in NAMES[:4] if name in parts}
            spatial = {"mu_s", "sigma_s"} <= known.keys()
            return cls(
                known["mu"],
                known["sigma"],
                whole("count", _single("count", parts["count"])) if "count" in parts else None,
                str(_single("hash", parts["hash"])) if "hash" in parts else None,
                _spatial(known["mu_s"], known["sigma_s"]) if spatial else None,
            )
        except ValueError as error:
            raise ValueError(f"{path}: {error}") from None


def _numbers(name: str, array: Any) -> Tensor:
    if array.dtype.kind not in "fiu":
        raise ValueError(f"{name} must hold real numbers, not {array.dtype}")
    return torch.from_numpy(array.astype("float64"))


def _single(name: str, array: Any) -> Any:
    if array.size != 1:
        raise ValueError(f"{name} must be a single value, not an array of shape {array.shape}")
    return array.item()


def _spatial(mu: Tensor, sigma: Tensor) -> Statistics:
    """Those of sFID, whose complaints name the arrays as they are in the file."""
    try:
        return Statistics(mu, sigma)
    except ValueError as error:
        raise ValueError(f"mu_s and sigma_s: {error}") from None
