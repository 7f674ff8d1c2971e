"""Telling a head that was trained from one that was only initialised."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor, nn

LIMIT = 2.0  # of sqrt(n) times the Kolmogorov-Smirnov distance; chance exceeds it once in 1500
LEAST, MOST = 500, 200_000  # entries to look at: what was trained is told from chance; it takes no time


def head(network: nn.Module) -> nn.Linear | nn.Conv2d:
    """Return the last linear (or convolutional) layer that a network registered: its head."""
    layers = [m for m in network.modules() if isinstance(m, nn.Linear | nn.Conv2d)]
    if not layers:
        raise ValueError(f"a {type(network).__name__} has no linear layer that could be a classifier's head")
    return layers[-1]


def check_trained(name: str, network: nn.Module) -> None:
    """Refuse a network whose head looks as initialisation leaves it."""
    reason = untrained(head(network))
    if reason:
        raise ValueError(
            f"the head of {name} was never trained ({reason}): take weights that were saved with it"
        )


def untrained(layer: nn.Linear | nn.Conv2d) -> str:
    """Say why a head looks untrained, or nothing.

    Initialisation draws every entry alone from one of three shapes; training does not keep any of them: rows
    and columns get scales of their own, which makes tails. So a head is untrained if its entries
    (1) are all equal (zeros, as some transformers start), or
    (2) follow a uniform distribution whose ends are the largest entry (the framework's own start, Kaiming,
        Xavier), whatever the bias is, or
    (3) follow a normal distribution, whole or cut at two deviations, while the bias is still constant,
    in a Kolmogorov-Smirnov test over up to 200,000 entries; with fewer than 500 only (1) is looked at.

    It cannot see a head that was trained too briefly or on something else, a trained head on a random trunk,
    or a normal start without a bias (small heads without one end close to normal). The hash of an official
    file sees all of these.
    """
    weight = layer.weight.detach()
    values = weight.flatten()[:: max(1, weight.numel() // MOST)].double().cpu()
    if not bool(values.isfinite().all()):
        return "it holds numbers that are not finite"
    if bool((values == values[0]).all()):
        return f"all its weights are {values[0].item():g}"
    if len(values) < LEAST:
        return ""
    if follows(values / values.abs().max(), lambda x: (x + 1) / 2):
        return "its weights are uniform random numbers"
    still = layer.bias is not None and bool((layer.bias == layer.bias[0]).all())
    if still and (follows(values / values.std(), normal) or follows(2 * values / values.abs().max(), cut)):
        return "its weights are normal random numbers and its bias is constant"
    return ""


def follows(values: Tensor, distribution: Callable[[Tensor], Tensor]) -> bool:
    """Kolmogorov-Smirnov: is the empirical distribution as close as that of as many draws would be?

    >>> follows(torch.linspace(-1, 1, 999), lambda x: (x + 1) / 2)
    True
    >>> follows(torch.linspace(-1, 1, 999), normal)
    False
    """
    expected = distribution(values.sort().values)
    steps = torch.arange(len(values) + 1, dtype=torch.float64) / len(values)
    distance = torch.maximum((expected - steps[:-1]).abs(), (expected - steps[1:]).abs()).max().item()
    return distance * math.sqrt(len(values)) < LIMIT


def normal(x: Tensor) -> Tensor:
    """The distribution function of N(0, 1)."""
    found: Tensor = torch.special.ndtr(x)
    return found


def cut(x: Tensor) -> Tensor:
    """The distribution function of N(0, 1) between -2 and 2."""
    low, high = torch.special.ndtr(torch.tensor([-2.0, 2.0], dtype=torch.float64)).unbind()
    found: Tensor = (torch.special.ndtr(x) - low) / (high - low)
    return found
