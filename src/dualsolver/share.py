"""What is written beside a learned scheduler so that others can use it: a card, and code to load it by."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from .files import write_whole
from .parameters import NAME, lists_on_one_line

STUB = "dual_solver_scheduler"
CODE = '''"""Loaded by diffusers with trust_remote_code=True; needs `pip install dual-solver[diffusers]`."""

from dualsolver.diffusers import DualSolverScheduler

__all__ = ["DualSolverScheduler"]
'''


def write_share(folder: Path, config: str, name: str | None = None) -> None:
    """Write a scheduler's config, its card and its stub; `name` is the repository that they will be in."""
    write_whole(folder / NAME, lists_on_one_line(config))
    write_whole(folder / f"{STUB}.py", CODE)
    write_whole(folder / "README.md", card(json.loads(config), name or "FOLDER"))


def write_portable(pipeline: str | Path) -> None:
    """Let a saved pipeline be loaded by those who have not imported this package.

    diffusers imports no module that a pipeline's index names; it runs the stub beside the config, with
    trust_remote_code=True. `pipe.save_pretrained(folder)` comes first.
    """
    index, stub = Path(pipeline) / "model_index.json", Path(pipeline) / "scheduler" / f"{STUB}.py"
    if not (index.exists() and stub.exists()):
        raise ValueError(f"{pipeline} holds no pipeline saved with a DualSolverScheduler")
    found = json.loads(index.read_text())
    found["scheduler"] = [STUB, "DualSolverScheduler"]
    found.pop("_name_or_path", None)  # a path of this machine is nobody's business
    write_whole(index, json.dumps(found, indent=2) + "\n")


def card(config: Mapping[str, Any], name: str) -> str:
    """The card of a config, in the hub's form, written from its provenance."""
    return "\n".join(_card(config, name)) + "\n"


def _card(config: Mapping[str, Any], name: str) -> Iterator[str]:
    provenance, nfes = config["provenance"], ", ".join(sorted(config["solvers"], key=int))
    backbone = provenance.get("backbone")
    yield from ("---", "library_name: diffusers", "tags: [dual-solver, scheduler, few-step-sampling]")
    if "/" in str(backbone):
        yield f"base_model: {backbone}"
    yield from ("---", "", f"# {config['solver']} for {backbone or 'a diffusers pipeline'}", "")
    yield f"A few-step sampler made by Dual-Solver for {nfes} network evaluations; the network is unchanged."
    yield from ("", "```python", "# pip install 'dual-solver[diffusers]'")
    yield "from dualsolver.diffusers import DualSolverScheduler"
    yield from ("", f"pipe.scheduler = DualSolverScheduler.from_pretrained({name!r})")
    guidance = f", guidance_scale={scale}" if (scale := provenance.get("guidance")) is not None else ""
    yield from (f"images = pipe(..., num_inference_steps={nfes.split(', ')[-1]}{guidance}).images", "```", "")
    schedule = (config["schedule"] or {}).get("type", "the pipeline's")
    yield f"It predicts {config['prediction'] or 'what the pipeline says'} on the schedule {schedule}."
    yield from ("", "| provenance | |", "|---|---|")
    for key, value in provenance.items():
        yield f"| {key} | {_cell(value)} |"


def _cell(value: Any) -> str:
    text = value if isinstance(value, str) else json.dumps(value)
    return str(text).replace("|", "\\|").replace("\n", " ")
