"""Cards: a README.md in the Hub's form beside each model, made of its entry, its log and its figures."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path

from ..files import write_whole
from .entries import entry
from .registry import home, recorded

TAGS = {
    "classifier": ("image-classification", "dual-solver"),
    "autoencoder": ("image-feature-extraction", "diffusers"),
    "dit": ("unconditional-image-generation", "diffusers"),
    "gmdit": ("unconditional-image-generation", "dual-solver"),
    "clip": ("zero-shot-image-classification", "open_clip"),
    "features": ("image-feature-extraction", "dual-solver"),
    "compressor": ("image-feature-extraction", "diffusers"),
    "pixart": ("text-to-image", "diffusers"),
    "sana": ("text-to-image", "diffusers"),
}
FASHION = "the 60,000 training images of Fashion-MNIST (Zalando Research, MIT licence), unpacked"
EMOJI = """10,727 emoji of 32 x 32 drawn by `dual-solver zoo data emoji`: Noto Color Emoji (Google, SIL OFL
1.1), Twemoji (Twitter and other contributors, CC-BY 4.0) and Fluent Emoji (Microsoft, MIT licence), with the
names and keywords of Unicode CLDR (Unicode licence v3); 269 compositions are held out;"""
DATA = {"fashion": ("fashion_mnist", FASHION), "emoji": ("emoji", EMOJI)}

TEMPLATE = """---
license: apache-2.0
library_name: {library}
pipeline_tag: {task}
tags:
- dual-solver
- {kind}
datasets:
- {dataset}
---

# {name}

{purpose}.
{picture}
## Loading

```python
import dualsolver as ds

model = ds.zoo.load("{name}")  # no network, no dataset
```

## Training

```
dual-solver zoo train {name}
```

on {origin} content of sha256
`{data}`. Seed {seed}; the loss is in [`loss.csv`](loss.csv) (it ends at {loss}). {plans}

```json
{recipe}
```

## Figures

{figures}
"""


def card(name: str, data: str, figures: dict[str, float], command: str) -> Path:
    """Write the figures and the card of a model; a picture `grid.png` is shown if it is there."""
    folder, found = home(name), entry(name)
    write_whole(folder / "figures.json", json.dumps(figures, indent=1) + "\n")
    task, library = TAGS[found.kind]
    text = TEMPLATE.format(
        name=name,
        kind=found.kind,
        purpose=found.purpose[0].upper() + found.purpose[1:],
        task=task,
        library=library,
        picture="\n![Samples, a column a class](grid.png)\n" * (folder / "grid.png").exists(),
        data=data,
        dataset=DATA[found.data][0],
        origin=DATA[found.data][1],
        seed=found.recipe.seed,
        loss=(folder / "loss.csv").read_text().strip().rpartition(",")[2],
        plans=" ".join(filter(None, (_plans(folder), found.notes))),
        recipe=json.dumps(asdict(found.recipe) | found.options, indent=1),
        figures=_table(figures) + f"\n\nMeasured by `{command}`; weights `{recorded(name)[:16]}`.",
    )
    path = folder / "README.md"
    write_whole(path, text)
    return path


def _plans(folder: Path) -> str:
    """How the run was planned, where that changed under way or another run followed."""
    (_, steps), *changes = json.loads((folder / "plans.json").read_text())
    if not changes:
        return "One run."
    words = [
        f"from step {step} on as a run of {steps}" if step else f"then {steps} more from those weights"
        for step, steps in changes
    ]
    return f"A new run gives other bits, as this one was planned anew: {steps} steps; {'; '.join(words)}."


def _table(figures: dict[str, float]) -> str:
    rows = [
        f"| {what} | {value:,} |" if isinstance(value, int) else f"| {what} | {value:.4g} |"
        for what, value in figures.items()
    ]
    return "\n".join(["| figure | value |", "|---|---|", *rows])
