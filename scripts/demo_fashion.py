"""Learn a four-step solver for the embedded fashion-dit and show it beside fixed ones (`make demo`)."""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from time import perf_counter

import torch
from torch import Tensor
from tqdm import tqdm

import dualsolver as ds
from dualsolver import cli, features
from dualsolver.backbones import Backbone
from dualsolver.metrics import Accuracy
from dualsolver.pictures import grid, save_png
from dualsolver.zoo import generate, measure

MODEL, COUNT, BATCH, SHOWN = "fashion-dit", 300, 50, 20
SEED = 10**6  # of the first image: none that was learned from
EVEN = "half_log_snr"  # on this grid, too: few steps gain by it, many do not
FIXED: dict[str, Callable[[int], ds.Solver]] = {
    "DDIM": ds.DDIM,
    "DPM-Solver++": ds.DPMpp,
    "UniPC": ds.UniPC,
    "DPM-Solver++ (lambda)": partial(ds.DPMpp, grid=EVEN),
    "UniPC (lambda)": partial(ds.UniPC, grid=EVEN),
}
BUDGETS = (3, 4, 5, 10, 20, 50)
FEW = (*((name, 4) for name in FIXED), ("Dual-Solver", 4), ("DDIM", 20))  # the rows of the first picture
OUT = Path("runs/demo")
LEARN = ["learn", "--backbone", MODEL, "--nfe", "4", "--out", str(OUT / "learned")]


def run(backbone: Backbone, solver: ds.Solver, classes: Tensor, bar: tqdm[None]) -> Tensor:
    """Return the images; the bar counts evaluations."""
    found = []
    for batch in generate.images(backbone, solver, classes, backbone.guidance, SEED, BATCH):
        found.append(batch)
        bar.update(solver.nfe * len(batch))
    return torch.cat(found)


def learned() -> ds.Solver:
    """Learn four steps by the command that anybody would use; a second time they are there already."""
    print(f"\n$ dual-solver {' '.join(LEARN)}", flush=True)
    start = perf_counter()
    if code := cli.main(LEARN):
        sys.exit(code)
    print(f"({perf_counter() - start:.0f} s)")
    return ds.load(OUT / "learned", nfe=4)[0]


def main() -> None:
    """Learn, print the distances, save the pictures."""
    backbone, judge = ds.zoo.load(MODEL), features.of(ds.zoo.load("judge"))
    solvers = {(name, nfe): solver(nfe) for name, solver in FIXED.items() for nfe in BUDGETS}
    solvers["Dual-Solver", 4] = learned()
    classes, rows, cells = torch.arange(COUNT) % 10, {}, {}
    with tqdm(total=COUNT * sum(nfe for _, nfe in solvers), unit="eval", leave=False) as bar:
        for key, solver in solvers.items():
            images = run(backbone, solver, classes, bar)
            rows[key], seen = images[:SHOWN], measure.look(judge, [images])
            right = Accuracy.of(seen.logits, classes).share
            cells[key] = f"{measure.distance(seen, 'judge'):.2f} ({right:.0%})"
    print(f"\n{MODEL}: Frechet distance to the real test images (accuracy), by the judge, {COUNT} images")
    print("(lambda: on a grid uniform in half-log-SNR; else uniform in t)")
    print(f"{'solver':<22}" + "".join(f"{f'NFE {nfe}':>13}" for nfe in BUDGETS))
    for name in (*FIXED, "Dual-Solver"):
        print(f"{name:<22}" + "".join(f"{cells.get((name, nfe), ''):>13}" for nfe in BUDGETS))
    print("\nPictures, a row a solver, the same noise in every row:")
    for file, keys in (("few.png", FEW), ("budgets.png", tuple(rows))):
        save_png(OUT / file, grid(torch.cat([rows[key] for key in keys]), columns=SHOWN))
        print(f"  {OUT / file}: {', '.join(f'{name} {nfe}' for name, nfe in keys)}")


if __name__ == "__main__":
    main()
