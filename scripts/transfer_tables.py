"""The tables of docs/objections.md, made of what scripts/transfer.py has measured."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

MEASURED = Path(__file__).parent.parent / "docs" / "measured" / "transfer.json"

TEXT = """Frechet distances to real test images in the features of the zoo's judge, {images:,} images each,
standard errors in brackets; smaller is better. Learned at home, which is `{home[0]}` at guidance {home[1]},
by `{objective}` through the classifier `{home[2]}`. By
`python scripts/transfer.py --count {images}`.

**Cost.** Learning at home took {spent}{time}.

**Other guidance scales**

{guidance}

**Other models**, each at its guidance scale. The fine-tune saw {tuning:,} more batches, of mirrored pictures.
The sibling has another schedule, another kind of prediction and other weights.

{models}

**Seeds.** Learned again at home from other samples:

{seeds}
"""


def page(path: Path = MEASURED) -> str:
    """The tables in Markdown, or that there are none yet."""
    if not path.exists():
        return "*Not measured yet: `python scripts/transfer.py` writes what belongs here.*\n"
    found = json.loads(path.read_text())
    spent = [f"{count:,} evaluations for NFE {nfe}" for nfe, count in found["evaluations"].items()]
    made = {
        "spent": " and ".join(spent),
        "time": f", {found['seconds'] / 60:.0f} minutes in all" if found["seconds"] else "",
        "guidance": targets("guidance", found["guidance"]),
        "models": targets("model", found["models"]),
        "seeds": seeds(found["seeds"]),
    }
    return TEXT.format(**found | made)


def targets(key: str, rows: list[dict[str, Any]]) -> str:
    """A row for each target and NFE, a column for each solver."""
    titles = [key, "NFE", *rows[0]["figures"]]
    return table(
        titles,
        (
            [str(row[key]), nfe, *(cell(values[nfe]) for values in row["figures"].values())]
            for row in rows
            for nfe in next(iter(row["figures"].values()))
        ),
    )


def seeds(runs: list[Mapping[str, list[float]]]) -> str:
    """A row for each NFE, a column for each seed."""
    titles = ["NFE", *(f"seed {i}" for i in range(len(runs)))]
    return table(titles, ([nfe, *(cell(run[nfe]) for run in runs)] for nfe in runs[0]))


def table(titles: list[str], rows: Iterator[list[str]]) -> str:
    """A table in Markdown."""
    return "\n".join(f"| {' | '.join(cells)} |" for cells in (titles, ["---"] * len(titles), *rows))


def cell(value: list[float]) -> str:
    """A figure and its standard error."""
    return f"{value[0]:.2f} ({value[1]:.2f})"


if __name__ == "__main__":
    MEASURED.with_suffix(".md").write_text(page())
