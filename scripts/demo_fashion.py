"""Sample the embedded fashion-dit by three solvers at four budgets: a picture and a table (`make demo`)."""

from __future__ import annotations

from pathlib import Path

import torch
from torch import Tensor
from tqdm import tqdm

import dualsolver as ds
from dualsolver import features
from dualsolver.backbones import Backbone
from dualsolver.metrics import Accuracy
from dualsolver.pictures import grid, save_png
from dualsolver.zoo import generate, measure

MODEL, COUNT, BATCH, SHOWN = "fashion-dit", 300, 100, 20
BUDGETS = (3, 5, 10, 50)
SOLVERS = {"DDIM": ds.DDIM, "DPM-Solver++(2M)": ds.DPMpp, "UniPC": ds.UniPC}
PICTURE = Path("runs/demo/fashion.png")


def run(backbone: Backbone, solver: ds.Solver, classes: Tensor, bar: tqdm[None]) -> Tensor:
    """Return the images, one row of the bar an evaluation of a batch."""
    found = []
    for batch in generate.images(backbone, solver, classes, backbone.guidance, batch=BATCH):
        found.append(batch)
        bar.update(solver.nfe * len(batch))
    return torch.cat(found)


def main() -> None:
    """Print the distances, save the picture."""
    backbone, judge = ds.zoo.load(MODEL), features.of(ds.zoo.load("judge"))
    classes = torch.arange(COUNT) % 10
    print(f"\n{MODEL}: Frechet distance to the real test images (accuracy), by the judge, {COUNT} images")
    print(f"{'solver':<20}" + "".join(f"{f'NFE {nfe}':>16}" for nfe in BUDGETS))
    rows = []
    with tqdm(total=len(SOLVERS) * COUNT * sum(BUDGETS), unit="eval", leave=False) as bar:
        for name, solver in SOLVERS.items():
            cells = []
            for nfe in BUDGETS:
                images = run(backbone, solver(nfe), classes, bar)
                rows.append(images[:SHOWN])
                seen = measure.look(judge, [images])
                right = Accuracy.of(seen.logits, classes).share
                cells.append(f"{measure.distance(seen, 'judge'):.2f} ({right:.0%})")
            tqdm.write(f"{name:<20}" + "".join(f"{cell:>16}" for cell in cells))
    save_png(PICTURE, grid(torch.cat(rows), columns=SHOWN))
    print(f"picture: {PICTURE} (a row a solver and budget, in the table's order; same noise in every row)")


if __name__ == "__main__":
    main()
