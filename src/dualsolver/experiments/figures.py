"""The figures of experiments: each function draws results into a folder and returns the files."""

from __future__ import annotations

from pathlib import Path

import torch

from .. import plot
from ..pictures import grid, save_png
from ..solvers import Euler, Solver
from .bench import Bench
from .experiment import Column, Results, measured

SHOWN = 10  # images in a row of samples
NAMES = {"frechet": "FID", "clip score": "CLIP score"}


def curves(results: Results, folder: Path) -> list[Path]:
    """Each metric of images over the NFE, a curve a row."""
    experiment, found, drawn = results.experiment, results.found, []
    for metric in (m for m in experiment.metrics if found.rows(m)):
        runs = {
            row: [
                (float(column.nfe), found.mean(metric, row, column.label))
                for column in experiment.columns
                if found.seeds(metric, row, column.label)
            ]
            for row in found.rows(metric)
        }
        path = folder / f"{experiment.name}-{metric}.png"
        drawn.append(plot.curves(runs, path, "NFE", NAMES.get(metric, metric)))
    return drawn


def by_accuracy(results: Results, folder: Path) -> list[Path]:
    """Distance, precision and recall over the accuracy of the classifier that was learned through."""
    experiment, found, drawn = results.experiment, results.found, []
    for metric in ("frechet", "precision", "recall"):
        runs = {}
        for column in experiment.columns:
            rows = [row for row in found.rows("top-5") if found.seeds(metric, row, column.label)]
            points = [(found.mean("top-5", r, ""), found.mean(metric, r, column.label)) for r in rows]
            if points:
                runs[f"NFE {column.label}"] = sorted(points)
        if runs:
            path = folder / f"{experiment.name}-{metric}.png"
            drawn.append(plot.curves(runs, path, "top-5 accuracy, %", NAMES.get(metric, metric)))
    return drawn


def learned(results: Results, folder: Path) -> list[Path]:
    """The parameters of the first row at every NFE."""
    name = next(iter(results.experiment.rows(results.setting)))
    found = [_solver(results, name, column) for column in results.experiment.columns]
    return [plot.parameters(found, folder / f"{results.experiment.name}.png")]


def interpolated(results: Results, folder: Path) -> list[Path]:
    """The distances over the NFE, and the parameters that were learned and those between them."""
    found = [_solver(results, "Interp. (3,5), (5,7), (7,9)", c) for c in results.experiment.columns]
    parameters = plot.parameters(found, folder / f"{results.experiment.name}-parameters.png")
    return [*curves(results, folder), parameters]


def discrepancy(results: Results, folder: Path) -> list[Path]:
    """Where longer and longer Euler steps end, in the plane of the data and noise predicted first."""
    schedule = results.setting.load().schedule
    start, *ends = (schedule.time(-1 + step / 20).item() for step in range(21))  # in half-log-SNR, to 0
    alpha, sigma = map(float, schedule(start))
    runs = {"exact, if both stay": [tuple(map(float, schedule(end))) for end in ends]}
    for kind in ("noise", "velocity", "data"):
        rows = [Euler(1, grid=(start, end), prediction=kind)(schedule).weights[0, 1].tolist() for end in ends]
        runs[kind] = [(state * alpha + data, state * sigma + noise) for state, data, noise in rows]
    path = folder / f"{results.experiment.name}.png"
    return [plot.curves(runs, path, "share of the predicted data", "share of the predicted noise")]  # type: ignore[arg-type]


def samples(results: Results, folder: Path) -> list[Path]:
    """The same seeds by every row, a row each; a picture a column of the experiment."""
    bench, drawn = Bench(results.setting, folder, results.get), []
    for column in results.experiment.columns:
        images = []
        for row in results.experiment.rows(results.setting).values():
            cell = measured(results.setting, row, column, results.setting.budget.seeds[0], 0)
            images.append(bench.sampling(cell).images(0)[0][:SHOWN].cpu())
        path = folder / f"{results.experiment.name}-{column.label}.png"
        save_png(path, grid(torch.cat(images), SHOWN), scale=1)
        drawn.append(path)
    return drawn


def _solver(results: Results, name: str, column: Column) -> Solver:
    row, seed = results.experiment.rows(results.setting)[name], results.setting.budget.seeds[0]
    cell = measured(results.setting, row, column, seed, 0)
    return Bench(results.setting, Path(), results.get).solver(cell)
