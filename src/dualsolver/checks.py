"""Checks of what users hand in: one ValueError that names the field, the value and what it should be."""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor


def check_choice(name: str, value: object, choices: Sequence[object]) -> None:
    """Refuse a value that is not among the choices, and name them."""
    if not any(type(value) is type(choice) and value == choice for choice in choices):
        raise ValueError(f"{name} must be one of {', '.join(map(repr, choices))}, not {value!r}")


def whole(name: str, value: Any, least: int = 1, most: float = math.inf) -> int:
    """Return a whole number (NumPy's too) from `least` to `most`."""
    try:
        found = operator.index(value)
    except TypeError:
        found = least - 1
    if isinstance(value, bool) or found < least:
        raise ValueError(f"{name} must be a whole number >= {least}, not {value!r}")
    if found > most:
        raise ValueError(f"{name} must be a whole number up to {most}, not {value!r}")
    return found


def number(name: str, value: Any, above: float = -math.inf) -> float:
    """Return a finite number greater than `above`; text and booleans are not numbers."""
    try:
        found = math.nan if isinstance(value, str | bool) else float(value)
    except (TypeError, ValueError, OverflowError):
        found = math.nan
    if not (math.isfinite(found) and found > above):
        bound = f" greater than {above:g}" * math.isfinite(above)
        raise ValueError(f"{name} must be a finite number{bound}, not {value!r}")
    return found


def check_device(name: str) -> None:
    """Refuse a device that torch does not know or that this machine does not have."""
    try:
        torch.empty(0, device=name)
    except (RuntimeError, AssertionError) as error:
        reason = str(error).splitlines()[0].split(". ")[0]
        raise ValueError(f"no device {name}: {reason}") from None


def numbers(name: str, values: Any, length: int | None = None) -> Tensor:
    """Return a list (or vector) of finite numbers as float64, with the gradient that it may carry."""
    if isinstance(values, Tensor) and values.ndim == 1 and bool(values.isfinite().all()):
        found = values.to(torch.float64)
    elif isinstance(values, str) or not (isinstance(values, Sequence) or getattr(values, "ndim", 0) == 1):
        raise ValueError(f"{name} must be a list of numbers, not {values!r}")
    else:
        items = [number(f"{name}[{i}]", v) for i, v in enumerate(values)]
        found = torch.tensor(items, dtype=torch.float64)
    if length is not None and len(found) != length:
        raise ValueError(f"{name} must hold {length} numbers, not {len(found)}")
    return found


def tensor(name: str, value: Any) -> Tensor:
    """Return a number, a tensor or nested lists of numbers as a float64 tensor on the CPU."""
    try:
        return torch.as_tensor(value, dtype=torch.float64, device="cpu")
    except (TypeError, ValueError, RuntimeError):
        raise ValueError(f"{name} must be a number or a tensor of numbers, not {value!r:.80}") from None


def falling(name: str, values: Any, length: int | None = None) -> Tensor:
    """Return strictly decreasing times: at least two, or exactly `length`."""
    t = numbers(name, values, length)
    if len(t) < 2 or not bool((t.diff() < 0).all()):
        raise ValueError(f"{name} must be at least two strictly decreasing times, not {t.tolist()}")
    return t
