"""What the zoo holds: one literal table of names, what each is for, its shape and how it is trained."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from ..checks import check_choice
from .training import Recipe


@dataclass(frozen=True)
class Entry:
    """A model of the zoo: its kind ("classifier", "autoencoder", "dit", "gmdit"), options and recipe."""

    kind: str
    purpose: str
    recipe: Recipe
    options: dict[str, Any] = field(default_factory=dict)


JUDGE = "reports figures; never used for learning or choosing"

ENTRIES: dict[str, Entry] = {
    "judge": Entry(
        "classifier",
        JUDGE,
        Recipe(4400, rate=2e-3, decay=0.05, bf16=True, augment=2, seed=1),
        {"family": "resnet", "widths": [32, 64, 128], "depth": 2},
    ),
    "autoencoder": Entry(
        "autoencoder",
        "the latents of both generators: 4 x 8 x 8",
        Recipe(3000, batch=32, rate=1e-3, bf16=True, seed=2),
        {"block_out_channels": [24, 48, 64], "layers_per_block": 1, "norm_num_groups": 8},
    ),
}


def entry(name: str) -> Entry:
    """Return the entry of a name; a wrong name is refused with the ones there are."""
    check_choice("the zoo's model", name, tuple(ENTRIES))
    return ENTRIES[name]
