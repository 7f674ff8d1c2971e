"""The artifact: learned solvers as one readable JSON, with where they come from.

The file is named and laid out as diffusers' `save_pretrained` does it, but needs only this package to read.
"""

from __future__ import annotations

import json
import logging
import math
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from .checks import check_choice, whole
from .files import write_whole
from .interpolate import interpolate
from .prediction import KINDS
from .schedule import Schedule, from_config
from .solvers import SOLVERS, Solver
from .solvers.base import Fixed

logger = logging.getLogger(__name__)

NAME = "scheduler_config.json"
CLASS = "DualSolverScheduler"  # what diffusers makes of the file
FORMAT = 1
WRITTEN_BY_DIFFUSERS = ("_diffusers_version", "_use_default_values")
KEYS = ("format", "solver", "prediction", "schedule", "provenance", "solvers")  # and diffusers' own "_..."


def save(
    solver: Solver | Sequence[Solver],
    folder: str | Path,
    schedule: Schedule | None = None,
    prediction: str | None = None,
    **provenance: Any,
) -> Path:
    """Write one solver, or several of one class at different NFEs, into `folder`/scheduler_config.json.

    schedule and prediction ("noise", "data", "velocity") are what they were learned for; None leaves them
    open. provenance: anything that JSON can hold, such as backbone="...", guidance=1.5, seed=0.
    """
    check_choice("prediction", prediction, (None, *KINDS))
    if not isinstance(schedule, Schedule | None):
        raise ValueError(f"schedule must be a Schedule or None, not {schedule!r}")
    content = content_of(*(solver if isinstance(solver, Sequence) else [solver]))
    content["schedule"], content["prediction"] = schedule.config() if schedule else None, prediction
    content["provenance"] |= provenance
    if bad := _not_finite(content):
        raise ValueError(f"{bad} is not finite: it cannot be saved")
    try:
        text = json.dumps(content, indent=2)
    except (TypeError, ValueError, RecursionError) as error:
        raise ValueError(f"cannot be written as JSON: {error}") from None
    path = Path(folder) / NAME
    write_whole(path, lists_on_one_line(text) + "\n")
    return path


def content_of(*solvers: Solver) -> dict[str, Any]:
    """Return the content of an artifact: solvers of one class, with schedule and prediction left open."""
    from . import __version__

    registered: dict[object, str] = {kind: name for name, kind in SOLVERS.items()}
    names = {registered.get(type(s)) for s in solvers}
    if len(names) != 1 or None in names:
        raise ValueError(
            f"a file holds solvers of one registered class, not {[type(s).__name__ for s in solvers]}"
        )
    if len({s.nfe for s in solvers}) < len(solvers):
        raise ValueError(f"a file holds one solver an NFE, not {[s.nfe for s in solvers]}")
    return {
        "_class_name": CLASS,
        "format": FORMAT,
        "solver": names.pop(),
        "prediction": None,
        "schedule": None,
        "provenance": {"version": __version__},
        "solvers": {str(s.nfe): s.values() for s in sorted(solvers, key=lambda s: s.nfe)},
    }


def load(
    folder: str | Path, nfe: int | None = None, fallback: str | None = None
) -> tuple[Solver, Schedule | None, dict[str, Any]]:
    """Read (solver, schedule, info) from a folder that `save` wrote; info is the provenance.

    nfe may be left out if the file holds one solver. Between two learned NFEs the parameters are
    interpolated, with a log line; elsewhere an error names what is there, unless `fallback` names a fixed
    solver to use instead.
    """
    path = Path(folder) / NAME if Path(folder).is_dir() else Path(folder)
    content = read(path)
    schedule = (
        None if content["schedule"] is None else _named(path, "schedule", from_config, content["schedule"])
    )
    info = {**content["provenance"], "prediction": content["prediction"]}
    solvers = {solver.nfe: solver for solver in solvers_of(path, content)}
    return choose(solvers, nfe, str(path), fallback), schedule, info


def choose(solvers: Mapping[int, Solver], nfe: int | None, where: str, fallback: str | None = None) -> Solver:
    """Pick the solver for an NFE from those learned: as it is, interpolated, or the named fallback."""
    held = ", ".join(map(str, solvers))
    if fallback is not None:
        check_choice("fallback", fallback, tuple(name for name, kind in SOLVERS.items() if is_fixed(kind)))
    if nfe is None:
        if len(solvers) > 1:
            raise ValueError(f"{where} holds NFE {held}: say which one, as nfe=...")
        return next(iter(solvers.values()))
    nfe = whole("nfe", nfe)
    if nfe in solvers:
        return solvers[nfe]
    first = next(iter(solvers.values()))
    if isinstance(first, Fixed) and isinstance(first.grid, str | None):
        return first.at(nfe=nfe)  # nothing in it was learned for an NFE
    try:
        return _between(solvers, nfe, where, held)
    except ValueError:
        if fallback is None:
            raise
    logger.warning("NFE %d was not learned (%s holds NFE %s): using %s", nfe, where, held, fallback)
    return SOLVERS[fallback](nfe=nfe)


def _between(solvers: Mapping[int, Solver], nfe: int, where: str, held: str) -> Solver:
    below, above = [n for n in solvers if n < nfe], [n for n in solvers if n > nfe]
    if not below or not above:
        raise ValueError(
            f"NFE {nfe} was not learned: {where} holds NFE {held}; ask for one of them or name a fallback"
        )
    low, high = max(below), min(above)
    solver = interpolate(solvers[low], solvers[high], nfe)
    logger.warning("NFE %d was not learned: interpolated between NFE %d and %d", nfe, low, high)
    return solver


def is_fixed(kind: object) -> bool:
    return isinstance(kind, type) and issubclass(kind, Fixed)


def _not_finite(value: Any, where: str = "") -> str:
    """Name the first number in a nested structure that is not finite."""
    if isinstance(value, float):
        return "" if math.isfinite(value) else where.removeprefix(".")
    if isinstance(value, Mapping):
        return next(filter(None, (_not_finite(v, f"{where}.{k}") for k, v in value.items())), "")
    if isinstance(value, list | tuple):
        return next(filter(None, (_not_finite(v, f"{where}[{i}]") for i, v in enumerate(value))), "")
    return ""


def read(path: Path) -> dict[str, Any]:
    """Read and check the outer shape of an artifact."""
    try:
        text = path.read_bytes()
    except OSError as error:
        raise FileNotFoundError(
            f"{path}: cannot be read ({error.strerror}); is it a folder made by save?"
        ) from None
    try:
        content = json.loads(
            text.decode(), object_pairs_hook=_unique, parse_constant=_refuse, parse_float=_finite
        )
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{path}: not a whole artifact: {error}") from None
    found = checked(path, content if isinstance(content, dict) else {"format": type(content).__name__})
    if (kind := found.get("_class_name")) != CLASS:
        raise ValueError(f"{path}: _class_name is {kind!r}, but this is the file of a {CLASS}")
    return found


def checked(path: Path | str, content: dict[str, Any]) -> dict[str, Any]:
    """Check the outer shape of an artifact; one that diffusers wrote keeps keys of other schedulers."""
    found = content.get("format")
    if type(found) is not int or found != FORMAT:
        raise ValueError(
            f"{path}: format is {found!r}, but this version of dual-solver reads format {FORMAT}"
        )
    foreign = any(key in content for key in WRITTEN_BY_DIFFUSERS)
    keys = [key for key in content if not (key.startswith("_") or (foreign and key not in KEYS))]
    _check_keys(path, "the file", keys, KEYS)
    for key, kind in (("solver", str), ("provenance", dict), ("solvers", dict)):
        if not isinstance(content[key], kind) or not content[key]:
            raise ValueError(f"{path}: {key} must be a non-empty {kind.__name__}, not {content[key]!r}")
    _named(path, "solver", lambda name: check_choice("the name", name, tuple(SOLVERS)), content["solver"])
    _named(path, "prediction", lambda kind: check_choice("it", kind, (None, *KINDS)), content["prediction"])
    return content


def solvers_of(path: Path | str, content: Mapping[str, Any]) -> list[Solver]:
    """Build every solver that an artifact holds, in the order of their NFEs."""
    solvers = []
    for key, values in content["solvers"].items():
        where = f"solvers.{key}"
        if not isinstance(values, dict):
            raise ValueError(f"{path}: {where} must be an object, not {values!r}")
        solver = _named(path, where, lambda given: SOLVERS[content["solver"]].from_values(**given), values)
        _check_keys(path, where, list(values), tuple(solver.values()))
        if str(solver.nfe) != key:
            raise ValueError(f"{path}: {where} holds values for NFE {solver.nfe}")
        solvers.append(solver)
    return sorted(solvers, key=lambda solver: solver.nfe)


def _named(path: Path | str, where: str, build: Any, given: Any) -> Any:
    """Run `build`, and let its complaint say in which file and field."""
    try:
        return build(given)
    except Exception as error:
        raise ValueError(f"{path}: {where}: {error}") from None


def _check_keys(path: Path | str, where: str, found: Sequence[str], wanted: Sequence[str]) -> None:
    if missing := [key for key in wanted if key not in found]:
        raise ValueError(f"{path}: {where} lacks {', '.join(missing)}")
    if extra := [key for key in found if key not in wanted]:
        raise ValueError(f"{path}: {where} has unknown {', '.join(extra)}: remove it")


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError(f"a key is there twice among {', '.join(key for key, _ in pairs)}")
    return found


def _refuse(constant: str) -> float:
    raise ValueError(f"it holds {constant}, but every number must be finite")


def _finite(number: str) -> float:
    return value if math.isfinite(value := float(number)) else _refuse(number)


def lists_on_one_line(text: str) -> str:
    """json.dumps puts each number on a line of its own; a list of numbers reads better on one."""
    return re.sub(
        r"\[\s*\n[\s\d.,eE+-]*\]",
        lambda found: re.sub(r"\s+", " ", found[0]).replace("[ ", "[").replace(" ]", "]"),
        text,
    )
