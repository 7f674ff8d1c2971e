"""Metrics: pure functions on features, and accumulators that give the same under any split into batches.

Features come from `features`, one row an image. Everything runs in float64.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import reduce
from operator import add

import torch
from torch import Tensor

from .checks import whole
from .statistics import Statistics


@dataclass(frozen=True, eq=False)
class Moments:
    """Count, mean and scatter (the sum of squared deviations) of features; `+` merges two.

    >>> x = torch.tensor([[0.0, 1.0], [2.0, 5.0], [4.0, 0.0]])
    >>> (Moments.of(x[:1]) + Moments.of(x[1:])).mean.tolist()
    [2.0, 2.0]
    """

    count: int
    mean: Tensor
    scatter: Tensor

    @classmethod
    def of(cls, features: Tensor) -> Moments:
        """Moments of one batch, (N, D)."""
        features = rows("features", features)
        mean = features.mean(0)
        centred = features - mean
        return cls(len(features), mean, centred.T @ centred)

    @classmethod
    def over(cls, batches: Iterable[Tensor]) -> Moments:
        """Moments of all batches together."""
        found = [cls.of(batch) for batch in batches]
        if not found:
            raise ValueError("moments of no batch at all: give at least one")
        return reduce(add, found)

    def __add__(self, other: Moments) -> Moments:
        """Merge as Chan, Golub and LeVeque do: nothing is subtracted that is large."""
        count = self.count + other.count
        apart = other.mean - self.mean
        mean = self.mean + apart * (other.count / count)
        between = torch.outer(apart, apart) * (self.count * other.count / count)
        return Moments(count, mean, self.scatter + other.scatter + between)

    def statistics(self, source: str | None = None) -> Statistics:
        """Mean and covariance (divided by N - 1); `source` is a hash of what the features were made of."""
        if self.count < 2:
            raise ValueError(f"a covariance needs at least 2 images, not {self.count}")
        return Statistics(self.mean, self.scatter / (self.count - 1), self.count, source)


def frechet(first: Statistics, second: Statistics) -> float:
    """Return |mu1 - mu2|^2 + tr(S1 + S2 - 2 (S1^1/2 S2 S1^1/2)^1/2), the Frechet distance of two Gaussians.

    The symmetric product has the eigenvalues of S1 S2, which is not symmetric; no matrix root is iterated.

    >>> unit = torch.eye(2, dtype=torch.float64)
    >>> frechet(Statistics(torch.zeros(2), unit), Statistics(torch.ones(2), 4 * unit))
    4.0
    """
    if first.mu.shape != second.mu.shape:
        raise ValueError(
            f"features of {len(first.mu)} and of {len(second.mu)} numbers cannot be compared: "
            "use the same feature network for both"
        )
    values, vectors = torch.linalg.eigh(first.sigma)
    root = (vectors * values.clamp(min=0).sqrt()) @ vectors.T
    product = root @ second.sigma @ root
    apart = (first.mu - second.mu).square().sum()
    if not bool((product.sum() + apart).isfinite()):  # max(0, NaN) would be the best of all distances
        raise ValueError("the statistics hold numbers too large to compare: they are not of images' features")
    cross = torch.linalg.eigvalsh((product + product.T) / 2).clamp(min=0).sqrt().sum()
    total = apart + first.sigma.trace() + second.sigma.trace() - 2 * cross
    return max(0.0, float(total))


def precision_recall(real: Tensor, generated: Tensor, k: int = 3, block: int = 1024) -> tuple[float, float]:
    """Return (precision, recall): the share of generated rows within the real manifold, and the reverse.

    A set's manifold is the union of balls around its rows, each reaching to the k-th nearest other row
    (Kynkaanniemi et al., 2019). Distances are made `block` rows at a time.

    >>> line = torch.arange(10.0)[:, None]
    >>> precision_recall(line, line[:5] + 0.1)
    (1.0, 0.8)
    """
    real, generated = rows("real", real), rows("generated", generated)
    if real.shape[1] != generated.shape[1]:
        raise ValueError(f"real rows have {real.shape[1]} numbers and generated ones {generated.shape[1]}")
    centre = real.mean(0)  # what is squared stays small
    real, generated = real - centre, generated - centre
    return _inside(generated, real, k, block), _inside(real, generated, k, block)


def rows(name: str, features: Tensor) -> Tensor:
    """Check features, at least one finite row, and return them as float64."""
    if not isinstance(features, Tensor) or features.ndim != 2 or not features.numel():
        found = tuple(features.shape) if isinstance(features, Tensor) else type(features).__name__
        raise ValueError(f"{name} must be a tensor (N, D) with a row an image, not {found}")
    if not bool(features.isfinite().all()):
        raise ValueError(f"{name} hold a number that is not finite")
    return features.detach().to("cpu", torch.float64)


def _inside(points: Tensor, centres: Tensor, k: int, block: int) -> float:
    """The share of points that are in a ball of the centres' manifold."""
    k = whole("k", k)
    if len(centres) <= k:
        raise ValueError(f"the {k}-th nearest neighbour needs more than {k} rows, not {len(centres)}")
    near = [_squares(part, centres).kthvalue(k + 1).values for part in _blocks(centres, block)]  # 0 is itself
    reach = torch.cat(near)
    found = [(_squares(part, centres) <= reach).any(1) for part in _blocks(points, block)]
    return torch.cat(found).double().mean().item()


def _blocks(x: Tensor, size: int) -> list[Tensor]:
    return [x[i : i + size] for i in range(0, len(x), whole("block", size))]


def _squares(a: Tensor, b: Tensor) -> Tensor:
    """Squared distances of all pairs: (N, D), (M, D) -> (N, M)."""
    return (a.square().sum(1)[:, None] + b.square().sum(1) - 2 * a @ b.T).clamp(min=0)


@dataclass(frozen=True)
class Accuracy:
    """How many images were taken for their class; `+` merges two.

    >>> Accuracy.of(torch.tensor([[0.1, 0.9], [0.8, 0.2]]), torch.tensor([1, 1])).share
    0.5
    """

    right: int
    count: int

    @classmethod
    def of(cls, logits: Tensor, classes: Tensor) -> Accuracy:
        """logits: (N, classes), classes: (N,) whole numbers."""
        if logits.ndim != 2 or classes.shape != logits.shape[:1]:
            found = f"{tuple(logits.shape)} and {tuple(classes.shape)}"
            raise ValueError(f"logits and classes must have shapes (N, C) and (N,), not {found}")
        return cls(int((logits.argmax(1) == classes).sum()), len(classes))

    def __add__(self, other: Accuracy) -> Accuracy:
        return Accuracy(self.right + other.right, self.count + other.count)

    @property
    def share(self) -> float:
        """Right ones divided by all."""
        return self.right / whole("the number of images", self.count)
