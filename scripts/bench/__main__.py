"""What Dual-Solver costs: measure all of it, or the named parts, and write docs/measured/bench.md.

Every part says on what it ran. Parts that are not named keep the tables that they have.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import torch

import endtoend
import evaluation
import growth
import learning
import startup
import steps
from common import THREADS, machine, page
from dualsolver.files import write_whole

PARTS = {
    "steps": steps.measured,
    "endtoend": endtoend.measured,
    "learning": learning.measured,
    "evaluation": evaluation.measured,
    "growth": growth.measured,
    "startup": startup.measured,
}
DOCS = Path(__file__).parents[2] / "docs" / "measured"


def main() -> None:
    """Measure, print and write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("parts", nargs="*", metavar="PART", help=f"of {', '.join(PARTS)} (all)")
    parser.add_argument("--out", type=Path, default=DOCS, help="folder of both files (docs/measured)")
    chosen = parser.parse_args()
    if unknown := set(chosen.parts) - set(PARTS):
        parser.error(f"no part {', '.join(sorted(unknown))}: there are {', '.join(PARTS)}")
    store = chosen.out / "bench.json"
    found = json.loads(store.read_text()) if store.exists() else {}
    torch.set_num_threads(THREADS)
    for name in chosen.parts or PARTS:
        where = machine()
        with torch.no_grad():
            found[name] = {"machine": where, "tables": PARTS[name]()}
        print(f"{found[name]['tables']}\n\n{where}\n", flush=True)
        found = {part: found[part] for part in PARTS if part in found}
        write_whole(store, json.dumps(found, indent=1) + "\n")
    write_whole(chosen.out / "bench.md", page(found))
    print(chosen.out / "bench.md")


if __name__ == "__main__":
    main()
