"""How alike the parameters of two solvers are, whatever their NFEs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

from ..interpolate import stretch


def similarity(first: Mapping[str, Any], second: Mapping[str, Any]) -> float:
    """The mean correlation of two solvers' predictor parameters over the steps, stretched to one length.

    >>> values = {"gamma": [0.0, 1.0, 0.5], "kappa_u": [1.0, 0.0, 2.0]}
    >>> round(similarity({"predictor": values}, {"predictor": values}), 6)
    1.0
    """
    found = []
    for name, one in first["predictor"].items():
        other = second["predictor"][name]
        length = max(len(one), len(other))
        pair = torch.stack([stretch(torch.tensor(x, dtype=torch.float64), length) for x in (one, other)])
        if bool((pair.std(1) > 0).all()):
            found.append(float(torch.corrcoef(pair)[0, 1]))
    return sum(found) / max(1, len(found))
