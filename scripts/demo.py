"""Sample a problem with a known answer by every solver: a table of errors and a picture (`make demo`)."""

from __future__ import annotations

from pathlib import Path

import matplotlib as mpl
import torch
from torch import Tensor

import dualsolver as ds
from dualsolver.backbones.toy import Mixture

mpl.use("Agg")
from matplotlib import pyplot as plt

SEED, COUNT, BUDGETS, SHOWN = 0, 4000, (3, 5, 10, 20, 50), 10
PICTURE = Path("runs/demo/toy.png")
TOY = Mixture(
    means=[-1.0, 0.2, 1.0], deviations=[0.12, 0.08, 0.15]
)  # a coordinate; two of them make 3 x 3 blobs
SCHEDULES: dict[str, ds.Schedule] = {"VP": ds.VP.linear(), "flow": ds.Flow()}
LEARNED = ("bns", "ds", "dual")


def table_of(name: str, nfe: int, schedule: ds.Schedule) -> ds.Table:
    """The table of a registered solver as it comes; DS takes the form that goes with the schedule."""
    form = {"form": "velocity"} if name == "ds" and isinstance(schedule, ds.Flow) else {}
    table: ds.Table = ds.SOLVERS[name](nfe=nfe, **form)(schedule)
    return table


@torch.no_grad()
def run(name: str, nfe: int, schedule: ds.Schedule, noise: Tensor) -> tuple[Tensor, float]:
    """Return the samples and their RMS distance from the exact end of the same ODE."""
    table = table_of(name, nfe, schedule)
    found = ds.sample(TOY.predict(schedule), noise, table)
    exact = TOY.solution(noise, schedule, table.t[0].item(), table.t[-1].item())
    return found, (found - exact).square().mean().sqrt().item()


def main() -> None:
    """Print the errors, draw the samples."""
    noise = torch.randn(COUNT, 2, dtype=torch.float64, generator=torch.Generator().manual_seed(SEED))
    errors: dict[str, dict[str, list[float]]] = {}
    for label, schedule in SCHEDULES.items():
        print(f"\n{label}: RMS error against the exact solution, {COUNT} points in 2-D, seed {SEED}")
        print(f"{'solver':<24}" + "".join(f"{f'NFE {nfe}':>10}" for nfe in BUDGETS))
        errors[label] = {}
        for name in ds.SOLVERS:
            found = [run(name, nfe, schedule, noise)[1] for nfe in BUDGETS]
            errors[label][name] = found
            title = name + " (not yet learned)" * (name in LEARNED)
            print(f"{title:<24}" + "".join(f"{e:>10.4f}" for e in found), flush=True)
    draw(errors, noise)
    print(f"\npicture: {PICTURE}")


def draw(errors: dict[str, dict[str, list[float]]], noise: Tensor) -> None:
    """One panel a solver with its samples at one budget over the exact ones, and the curves of the errors."""
    figure = plt.figure(figsize=(15, 10.5), layout="constrained")
    above, below = figure.subfigures(2, 1, height_ratios=(2, 1.05))
    above.suptitle(f"VP, {SHOWN} evaluations: exact samples grey, found ones blue", fontsize=13)
    schedule = SCHEDULES["VP"]
    exact = TOY.solution(noise, schedule, 1.0, 0.001)
    for axes, name in zip(above.subplots(2, 4).flat, ds.SOLVERS, strict=True):
        found, error = run(name, SHOWN, schedule, noise)
        axes.scatter(*exact.T, s=2, color="0.75", linewidths=0)
        axes.scatter(*found.T, s=2, color="tab:blue", alpha=0.5, linewidths=0)
        axes.set(xlim=(-1.9, 1.9), ylim=(-1.9, 1.9), xticks=[], yticks=[], aspect="equal")
        axes.set_title(f"{name}{' (not yet learned)' * (name in LEARNED)}   {error:.3f}", fontsize=11)
    for axes, (label, by_name) in zip(below.subplots(1, 2, sharey=True), errors.items(), strict=True):
        for name, values in by_name.items():
            axes.loglog(BUDGETS, values, marker="o", ms=4, ls="--" if name in LEARNED else "-", label=name)
        axes.set(title=f"{label}: RMS error", xlabel="evaluations", xticks=BUDGETS, xticklabels=BUDGETS)
        axes.set_ylim(5e-4, 5)
        axes.minorticks_off()
        axes.grid(alpha=0.3)
    axes.legend(loc="center left", bbox_to_anchor=(1.01, 0.5), frameon=False)
    PICTURE.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(PICTURE, dpi=90)


if __name__ == "__main__":
    main()
