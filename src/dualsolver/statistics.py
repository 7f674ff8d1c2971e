"""Reference statistics: mean and covariance of a feature network on a set of images, and their .npz files.

The layout is ADM's: `mu` and `sigma`, and for sFID `mu_s` and `sigma_s`; `count` and `hash` are ours and
optional.
"""

from __future__ import annotations

import io
import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from .extras import needs
from .files import write_whole

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
        if self.mu.ndim != 1 or self.sigma.shape != (*self.mu.shape, *self.mu.shape):
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
        with needs("evaluate"):
            import numpy as np
        try:
            with np.load(path, allow_pickle=False) as file:
                parts = {name: file[name] for name in NAMES if name in file.files}
        except FileNotFoundError:
            raise ValueError(f"no statistics at {path}") from None
        except (AttributeError, EOFError, OSError, TypeError, ValueError, zipfile.BadZipFile) as error:
            raise ValueError(f"{path} is no readable .npz of statistics ({error}): fetch it again") from None
        if missing := {"mu", "sigma"} - parts.keys():
            raise ValueError(f"{path} lacks {' and '.join(sorted(missing))}: it must have mu and sigma")
        count, source = parts.get("count"), parts.get("hash")
        known = {name: torch.from_numpy(parts[name].astype("float64")) for name in NAMES[:4] if name in parts}
        return cls(
            known["mu"],
            known["sigma"],
            None if count is None else int(count),
            None if source is None else str(source),
            cls(known["mu_s"], known["sigma_s"]) if {"mu_s", "sigma_s"} <= known.keys() else None,
        )
