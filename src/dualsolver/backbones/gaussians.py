"""Gaussian mixtures as a network's output: K Gaussians a pixel, over the velocity noise - data.

`means` (B, K, C, H, W), `logweights` (B, K, 1, H, W) summing to one over K, and `logstds`, one isotropic
standard deviation a sample, (B, 1, 1, 1, 1). All sums run in float32 at least, whatever the network's dtype.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor


def mixture_nll(means: Tensor, logweights: Tensor, logstds: Tensor, target: Tensor) -> Tensor:
    """Return -log sum_k w_k N(target; mean_k, s^2 I) in nats, averaged over pixels and channels: (B,).

    target: (B, C, H, W). Divided by C, too, so that the value does not depend on the latent's size.

    >>> target, means = torch.zeros(1, 2, 4, 4), torch.zeros(1, 1, 2, 4, 4)
    >>> mixture_nll(means, torch.zeros(1, 1, 1, 4, 4), torch.zeros(1, 1, 1, 1, 1), target)  # log(2 pi) / 2
    tensor([0.9189])
    """
    means, logweights, logstds, target = (_wide(x) for x in (means, logweights, logstds, target))
    channels = target.shape[1]
    distance = ((target[:, None] - means) * (-logstds).exp()).square().sum(2, keepdim=True)
    logs = logweights - distance / 2 - channels * (logstds + math.log(2 * math.pi) / 2)
    return -torch.logsumexp(logs, 1).mean((1, 2, 3)) / channels


def mean_velocity(means: Tensor, logweights: Tensor) -> Tensor:
    """Return sum_k w_k mean_k, the mean of the mixture: (B, C, H, W). The deviations do not enter.

    >>> means = torch.tensor([-1.0, 1.0]).view(1, 2, 1, 1, 1)
    >>> mean_velocity(means, torch.zeros(1, 2, 1, 1, 1)).item()
    0.0
    """
    return (_wide(logweights).softmax(1) * _wide(means)).sum(1)


def _wide(x: Tensor) -> Tensor:
    return x.float() if x.dtype in (torch.float16, torch.bfloat16) else x
