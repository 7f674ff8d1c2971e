"""What a diffusers pipeline tells its network: it runs up to its first call of it, and no further."""

from __future__ import annotations

import math
from collections.abc import Mapping
from inspect import signature
from typing import Any, NamedTuple, NoReturn

from torch import Tensor, nn

AS_THEY_ARE = {
    "clean_caption": False,
    "use_resolution_binning": False,
}  # what some do to inputs


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
    options = {name: value for name, value in AS_THEY_ARE.items() if name in known}
    handle = network.register_forward_pre_hook(stop, with_kwargs=True)
    pipeline.set_progress_bar_config(disable=True)
    try:
        pipeline(prompt=prompts, height=height, width=width, guidance_scale=2.0, **options)
    except _Reached as reached:
        told = flat(reached.arguments)
    except Exception as error:  # whatever a pipeline may raise
        reason = str(error).strip().partition("\n")[0]
        raise ValueError(f"{type(pipeline).__name__} does not run on prompts alone: {reason}") from None
    finally:
        handle.remove()
    x, time = told.pop(next(iter(signature(network.forward).parameters))), told.pop("timestep")
    if not isinstance(x, Tensor) or any(isinstance(value, list) for value in told.values()):
        raise ValueError(f"{type(pipeline).__name__} gives its network lists: ds.wrap takes it")
    return Call(x, divisor(float(pipeline.scheduler.timesteps[0]), float(time.flatten()[0])), told)


def divisor(timestep: float, time: float) -> float:
    """What a pipeline divides its scheduler's timesteps by: 1 or 1000, seen through half precision's rounding.

    >>> divisor(999.0, 1.0)
    1000.0
    """
    for found in (1.0, 1000.0):
        if math.isclose(timestep, found * time, rel_tol=0.01):
            return found
    raise ValueError(
        f"the pipeline makes {time:g} of the timestep {timestep:g}: wrap its network with ds.wrap"
    )


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
