"""k-diffusion's calling convention, which ComfyUI has, too: a model(x, sigma) that returns data.

Its coordinates are those of a variance-exploding schedule. With X = x / alpha and s = sigma / alpha,

    x = alpha data + sigma noise    <=>    X = data + s noise,

so the model sees (X, s) and its data makes the same pair (data, noise): the run is that of the schedule that
it was learned for, to rounding. Flows are the same in both: X = x and s = t.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from .checks import falling
from .extras import needs
from .parameters import load
from .prediction import Predict, Prediction, basis
from .sample import steps
from .schedule import VE, Flow, Schedule, at_noise_level, noise_level
from .solvers.base import Fixed
from .table import Table

Denoiser = Callable[..., Tensor]


def denoiser(model: Denoiser, schedule: Schedule, extra_args: Mapping[str, Any] | None = None) -> Predict:
    """Turn model(x, sigma, **extra_args) -> data into a predict function for `sample` and for learning.

    >>> from dualsolver.schedule import VP
    >>> predict = denoiser(lambda x, sigma: x / (1 + sigma[:, None] ** 2), VP.linear())  # of N(0, 1)
    >>> predict(torch.ones(1, 2), torch.tensor(0.5)).data.shape
    torch.Size([1, 2])
    """

    def predict(x: Tensor, t: Tensor) -> Prediction:
        alpha, sigma = schedule(t)
        level = noise_level(schedule, alpha, sigma).to(x)
        data = model(x / shrinkage(schedule, alpha), level.expand(len(x)), **(extra_args or {}))
        of_x, of_data = basis("data", schedule, t)[1]
        return Prediction(data, of_x * x + of_data * data)

    return predict


def shrinkage(schedule: Schedule, alpha: Tensor) -> Tensor:
    """What data is multiplied by that k-diffusion leaves as it is."""
    return torch.ones_like(alpha) if isinstance(schedule, Flow) else alpha


@torch.no_grad()
def sample_dual(
    model: Denoiser,
    x: Tensor,
    sigmas: Tensor,
    extra_args: Mapping[str, Any] | None = None,
    callback: Callable[[dict[str, Any]], Any] | None = None,
    disable: bool | None = None,
    *,
    solver: str | Path,
    fallback: str | None = None,
) -> Tensor:
    """Sample as k-diffusion's `sample_euler` and its like do, with what was learned in the folder `solver`.

    A learned solver keeps its own times: of sigmas, which must go from noise to 0, it reads the length. For
    lengths that were not learned `fallback` names a fixed solver, which takes the sigmas literally. In
    ComfyUI: `KSAMPLER(sample_dual, extra_options={"solver": FOLDER})`.
    """
    with needs("diffusers"):
        from tqdm import tqdm
    levels = falling("sigmas", sigmas.tolist())
    table, schedule = table_for(levels, solver, fallback)
    state = entered(x, schedule, levels[0], noise_level(schedule, table.alpha[0], table.sigma[0]))
    shown = noise_level(schedule, table.alpha, table.sigma).to(x.device, torch.float32)
    factors = shrinkage(schedule, table.alpha)

    def native(seen: Tensor, sigma: Tensor, **more: Any) -> Tensor:
        return model(seen.to(x.dtype), sigma, **more)

    run = steps(denoiser(native, schedule, extra_args), state, table)
    for step in tqdm(run, total=table.nfe, disable=disable):
        if callback is not None:
            i, data = step.index, step.prediction.data
            seen = {"x": state / factors[i], "denoised": data}
            callback({"i": i, "sigma": shown[i], "sigma_hat": shown[i], **seen})
        state = step.query
    return (state / factors[-1]).to(x.dtype)


def table_for(levels: Tensor, folder: str | Path, fallback: str | None) -> tuple[Table, Schedule]:
    """Make the table of as many steps as there are levels to go down."""
    solver, schedule, _ = load(folder, len(levels) - 1, fallback)
    if schedule is None:
        raise ValueError(f"{folder} leaves the schedule open: save it with schedule=...")
    if isinstance(solver, Fixed):
        return solver.on(at_noise_level(schedule, levels).tolist())(schedule), schedule
    table = solver(schedule)
    own = noise_level(schedule, table.alpha[0], table.sigma[0])
    if levels[-1] > 0 or levels[0] < 0.9 * own:
        raise ValueError(
            f"a learned solver goes from noise, at sigma = {own:.4g}, to 0, but sigmas from "
            f"{levels[0]:.4g} to {levels[-1]:.4g}: take a fixed one for a part of the way"
        )
    return table, schedule


def entered(x: Tensor, schedule: Schedule, level: Tensor, own: Tensor) -> Tensor:
    """The state that x at a noise level is in the schedule's coordinates, where the run starts at its `own`.

    Both levels are noise to a learned solver, so only the variance-exploding scale has to follow.
    """
    if isinstance(schedule, Flow):
        return x
    return x * (own / level) if isinstance(schedule, VE) else x / (1 + level**2).sqrt()
