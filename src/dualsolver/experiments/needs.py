"""What experiments need before they start: everything is loaded once, and all that is missing is named."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

from .. import named
from ..judges import judges, real_images
from .cells import Cell, Classify, Learn, Measure, evaluations
from .real import classified
from .setting import Setting
from .suite import RELEASED

MILLISECONDS = 1.0  # a guided evaluation of one image by the zoo's generators in bfloat16, on one core
FLOPS = 1e14  # a second, that a large GPU sustains
SIZES = {"dit": (750e6, 256), "gmdit": (676e6, 256), "pixart": (611e6, 1024), "sana": (592e6, 256)}


def cost(cells: Sequence[Cell], setting: Setting) -> tuple[float, str]:
    """Estimate the time that cells take, and its unit.

    With a released backbone it is hours of a GPU: a pass costs twice the parameters times the tokens, and
    guidance takes two passes. With any other it is minutes on one core, at the speed of the zoo's.
    """
    if setting.backbone not in RELEASED:
        return evaluations(cells) * MILLISECONDS / 60_000, "minutes"
    parameters, tokens = SIZES[setting.kind]
    return evaluations(cells) * 4 * parameters * tokens / FLOPS / 3600, "GPU hours"


def tried(setting: Setting, cells: Sequence[Cell]) -> Iterator[tuple[str, str]]:
    """Load everything that the cells need, once: what it is, and why it could not be loaded, if so."""
    for name, load in _needed(setting, cells).items():
        try:
            load()
        except (ValueError, OSError, ModuleNotFoundError, RuntimeError) as error:
            yield name, str(error).strip().splitlines()[0]
        else:
            yield name, ""


def _needed(setting: Setting, cells: Sequence[Cell]) -> dict[str, Callable[[], Any]]:
    """What to load, by what it is called."""
    suite, keep = setting.suite, any(isinstance(cell, Measure) and cell.keep for cell in cells)
    needed: dict[str, Callable[[], Any]] = {f"the backbone {setting.backbone}": setting.load}
    if setting.kind in ("pixart", "sana"):
        needed["prompts"] = lambda: setting.items
    if any(isinstance(cell, Measure) for cell in cells):
        for networks in {cell.network: None for cell in cells if isinstance(cell, Measure)}:
            names = setting.spec(networks).split(" + ")
            needed[f"who measures, {networks}"] = partial(judges, names, suite.clips, None, 0, setting.device)
    if keep:
        needed["real images, as --real"] = partial(real_images, suite.real or "(none named)", 5)
    for cell in cells:
        if isinstance(cell, Classify):
            needed[cell.classifier] = partial(classified, setting.spec(cell.classifier))
        elif isinstance(cell, Learn) and cell.through:
            needed[f"{cell.objective} by {cell.through}"] = partial(
                _through, cell.objective, setting.spec(cell.through), setting.device
            )
    return needed


def _through(objective: str, name: str, device: str) -> None:
    names = name.split(" + ")
    named.objective(objective.split(), names, name, device, names)
