"""What came of one attempt, and the table of all of them."""

from __future__ import annotations

import os
import platform
from collections.abc import Iterable
from typing import NamedTuple


class Outcome(NamedTuple):
    """What was tried, what was wrong (nothing if it held), and a number: what it means goes with the check.

    skipped: why it could not be tried here.
    """

    check: str
    wrong: str = ""
    value: float | None = None
    skipped: str = ""


MEANING = {  # the start of a check's name -> how its numbers are shown
    "kill": lambda x: f"{100 * x:.1f} % more work at most",
    "mutated": lambda x: f"{x:.0f} ms and less to answer",
    "same image": lambda x: "bitwise" if x == 0 else f"to rounding: {x:.1e} at most, of 1",
}


def table(outcomes: Iterable[Outcome]) -> str:
    """A row a check: how often it was tried, how often it held, and its numbers."""
    rows: dict[str, list[Outcome]] = {}
    for outcome in outcomes:
        rows.setdefault(outcome.check, []).append(outcome)
    lines = ["| check | tried | held | measured |", "|---|---|---|---|"]
    for check, found in rows.items():
        tried = [one for one in found if not one.skipped]
        held = sum(not one.wrong for one in tried)
        values = [one.value for one in tried if one.value is not None]
        show = next((show for start, show in MEANING.items() if check.startswith(start)), str)
        said = show(max(values)) if values else next((one.skipped for one in found if one.skipped), "")
        lines.append(f"| {check} | {len(tried)} | {held} | {said} |")
    return "\n".join(lines) + "\n"


def machine() -> str:
    """What this ran on."""
    import torch

    versions = f"Python {platform.python_version()}, torch {torch.__version__}"
    return f"{platform.system()} on {platform.machine()}, {os.cpu_count()} cores, {versions}"
