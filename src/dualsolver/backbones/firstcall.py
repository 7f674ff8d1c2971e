"""What a diffusers pipeline tells its network: it runs up to its first call of it, and no further."""

from __future__ import annotations

import math
from collections.abc import Mapping
from inspect import signature
from typing import Any, NamedTuple, NoReturn

import torch
from torch import Tensor, nn

AS_GIVEN = {"clean_caption": False, "use_resolution_binning": False}  # what some do to prompts and sizes


class Call(NamedTuple):
    """The first call: latents, what timesteps are divided by, and the other arguments by name.

    Those inside a dict are named "outer.inner".
    """

    x: Tensor
    divisor: float
    told: dict[str, Any]


class _Reached(Exception):
    def __init__(self, arguments: dict[str, Any]) -> None:
        self.arguments = arguments


def first_call(pipeline: Any, network: nn.Module, prompts: list[str], size: tuple[int, int]) -> Call:
    """Run a pipeline on prompts, with guidance, up to its first call of the network.

    size: height and width in latents.
    """

    def stop(module: nn.Module, given: tuple[Any, ...], named: dict[str, Any]) -> NoReturn:
        raise _Reached(signature(module.forward).bind(*given, **named).arguments)

    known = signature(type(pipeline).__call__).parameters
    height, width = (side * pipeline.vae_scale_factor for side in size)
    options: dict[str, Any] = {name: value for name, value in AS_GIVEN.items() if name in known}
    options |= {"height": height, "width": width, "generator": torch.Generator()}  # not the global one
    handle = network.register_forward_pre_hook(stop, with_kwargs=True)
    pipeline.set_progress_bar_config(disable=True)
    try:
        pipeline(prompt=prompts, guidance_scale=2.0, **options)
    except _Reached as reached:
        told = flat(reached.arguments)
    except Exception as error:  # whatever a pipeline may raise
        reason = str(error).strip().partition("\n")[0]
        raise ValueError(f"{type(pipeline).__name__} does not run on prompts alone: {reason}") from None
    finally:
        handle.remove()
    first = next(iter(signature(network.forward).parameters))
    x, time = told.pop(first), told.pop("timestep", None)
    if not (isinstance(x, Tensor) and isinstance(time, Tensor)) or list in map(type, told.values()):
        raise ValueError(f"{type(pipeline).__name__} gives its network no tensors of a batch: use ds.wrap")
    return Call(x, divisor(float(pipeline.scheduler.timesteps[0]), float(time.flatten()[0])), told)


def divisor(timestep: float, time: float) -> float:
    """What a pipeline divides its scheduler's timesteps by: 1 or 1000, whatever half precision rounds.

    >>> divisor(999.0, 1.0)
    1000.0
    """
    for found in (1.0, 1000.0):
        if math.isclose(timestep, found * time, rel_tol=0.01):
            return found
    raise ValueError(f"the pipeline makes {time:g} of the timestep {timestep:g}: use ds.wrap")


def flat(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Name what is inside dicts "outer.inner".

    >>> flat({"a": 1, "b": {"c": 2}, "d": {}})
    {'a': 1, 'b.c': 2, 'd': {}}
    """
    found: dict[str, Any] = {}
    for name, value in arguments.items():
        inside = value.items() if isinstance(value, Mapping) else ()
        found |= {f"{name}.{key}": x for key, x in inside} or {name: value}
    return found


def nested(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Undo `flat`.

    >>> nested({"a": 1, "b.c": 2, "d": {}})
    {'a': 1, 'b': {'c': 2}, 'd': {}}
    """
    found: dict[str, Any] = {}
    for name, value in arguments.items():
        outer, dot, inner = name.partition(".")
        if dot:
            found.setdefault(outer, {})[inner] = value
        else:
            found[outer] = value
    return found
