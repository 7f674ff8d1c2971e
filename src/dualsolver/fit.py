"""Learning a solver: the network stays frozen, the gradient goes through `sample` to a few dozen scalars."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor
from torch.nn.utils import parameters_to_vector, vector_to_parameters

from .checks import check_choice, number, whole
from .solvers.base import Learned
from .task import Task
from .task import Workers as Workers


@dataclass(frozen=True)
class Recipe:
    """How the scalars are moved: AdamW, its rate falling as a cosine, on fresh samples each step.

    clip: the largest norm of a gradient; start: "own" initial values or the "best" of `starts`; average: the
    weight of the past in the running mean of the scalars, which is what is judged and kept; held_out: on how
    many samples it is judged, before the first step, every `every` steps and after the last.
    """

    steps: int = 20_000
    batch: int = 10
    rate: float = 2e-3
    last_rate: float = 1e-4
    decay: float = 0.01
    clip: float = 1.0
    average: float = 0.0
    start: str = "own"
    held_out: int = 100
    every: int = 500

    def __post_init__(self) -> None:
        for name in ("steps", "batch", "held_out", "every"):
            whole(name, getattr(self, name))
        for name in ("rate", "last_rate", "decay", "clip", "average"):
            number(name, getattr(self, name))
        check_choice("start", self.start, ("own", "best"))

    def rate_at(self, step: int) -> float:
        """The cosine from the first rate to the last."""
        share = (1 + math.cos(math.pi * step / self.steps)) / 2
        return self.last_rate + (self.rate - self.last_rate) * share


PRESETS = {
    "paper": Recipe(),
    "fast": Recipe(steps=400, batch=20, rate=2e-2, last_rate=2e-4, decay=0.0, start="best", every=50),
}


@dataclass(frozen=True)
class Record:
    """One step: the loss of its batch, the gradient's norm before clipping, and the rate.

    evaluations: of the network until now, an image each: forward, recomputed and backward ones, without
    those for the held-out loss; held_out: that loss after the step, when it was taken.
    """

    step: int
    loss: float
    gradient: float
    rate: float
    evaluations: int
    held_out: float | None


@dataclass
class State:
    """All that a run needs to go on, as plain numbers. `best_raw` are the best scalars so far."""

    step: int = 0
    evaluations: int = 0
    start: str = ""
    raw: list[float] = field(default_factory=list)
    mean: list[float] = field(default_factory=list)
    moments: list[list[float]] = field(default_factory=list)  # AdamW's two
    best: float = math.inf
    best_step: int = 0
    best_raw: list[float] = field(default_factory=list)


def fit(
    solver: Learned, task: Task, held: Task, recipe: Recipe, state: State, workers: Workers | None = None
) -> Iterator[Record]:
    """Learn in place, from where `state` stands, and yield a record each step; `state` is then up to date.

    `put(solver, state.best_raw)` makes it the best solver so far: by the loss on `held`, a task like the
    other with a seed of its own.
    """
    workers = workers or Workers()
    if not state.raw:
        state.raw = state.mean = parameters_to_vector(solver.parameters()).tolist()
        _judge(solver, held, recipe, state, workers)
    raw, optimizer = _optimizer(recipe, state)
    while state.step < recipe.steps:
        put(solver, state.raw)
        optimizer.param_groups[0]["lr"] = rate = recipe.rate_at(state.step)
        indices = range(state.step * recipe.batch, (state.step + 1) * recipe.batch)
        loss, gradient = _gradient(solver, task, indices, workers)
        norm = _checked(solver, task, state.step, loss, gradient)
        raw.grad = gradient * min(1.0, recipe.clip / (norm + 1e-6))
        optimizer.step()
        _note(state, raw, optimizer, recipe, cost(solver.nfe, task.recompute))
        due = state.step % recipe.every == 0 or state.step == recipe.steps
        seen = _judge(solver, held, recipe, state, workers) if due else None
        yield Record(state.step, loss, norm, rate, state.evaluations, seen)


def cost(nfe: int, recompute: bool = False) -> int:
    """Evaluations of the network for one image's gradient; the first one has no backward."""
    return nfe + (nfe - 1) * (2 if recompute else 1)


def put(solver: Learned, raw: Sequence[float]) -> None:
    """Make these the raw scalars of a solver."""
    vector_to_parameters(torch.tensor(raw, dtype=torch.float64), solver.parameters())


def _optimizer(recipe: Recipe, state: State) -> tuple[Tensor, torch.optim.Optimizer]:
    """AdamW on all scalars as one vector, with the moments of the state."""
    raw = torch.tensor(state.raw, dtype=torch.float64, requires_grad=True)
    optimizer = torch.optim.AdamW([raw], lr=recipe.rate, weight_decay=recipe.decay)
    if state.moments:
        first, second = (torch.tensor(m, dtype=torch.float64) for m in state.moments)
        optimizer.state[raw] = {
            "step": torch.tensor(float(state.step)),
            "exp_avg": first,
            "exp_avg_sq": second,
        }
    return raw, optimizer


def _gradient(solver: Learned, task: Task, indices: Sequence[int], workers: Workers) -> tuple[float, Tensor]:
    """The loss of a batch and its gradient in all scalars, from all workers."""
    parameters = list(solver.parameters())
    solver.zero_grad()
    share = indices[workers.rank :: workers.count]
    loss = task.loss(solver, share, len(indices), True, workers)
    grads = [torch.zeros_like(p) if p.grad is None else p.grad for p in parameters]
    total = workers.add(torch.cat([torch.tensor([loss], dtype=torch.float64), parameters_to_vector(grads)]))
    if task.objective.logarithm:
        return math.log(total[0].item()), total[1:] / total[0]
    return total[0].item(), total[1:]


def held_out(solver: Learned, held: Task, recipe: Recipe, workers: Workers) -> float:
    """The loss on the held-out samples."""
    share = range(recipe.held_out)[workers.rank :: workers.count]
    loss = held.loss(solver, share, recipe.held_out, False, workers)
    loss = workers.add(torch.tensor([loss], dtype=torch.float64)).item()
    return math.log(loss) if held.objective.logarithm else loss


def _judge(solver: Learned, held: Task, recipe: Recipe, state: State, workers: Workers) -> float:
    """The held-out loss of the mean scalars; they are kept if they are the best so far."""
    put(solver, state.mean)
    loss = held_out(solver, held, recipe, workers)
    if loss < state.best:
        state.best, state.best_step, state.best_raw = loss, state.step, state.mean
    return loss


def _note(state: State, raw: Tensor, optimizer: torch.optim.Optimizer, recipe: Recipe, cost: int) -> None:
    """Bring the state up to date after a step."""
    state.step += 1
    state.evaluations += recipe.batch * cost
    state.raw = raw.tolist()
    past = recipe.average
    state.mean = [past * m + (1 - past) * r for m, r in zip(state.mean, state.raw, strict=True)]
    state.moments = [optimizer.state[raw][name].tolist() for name in ("exp_avg", "exp_avg_sq")]


def _checked(solver: Learned, task: Task, step: int, loss: float, gradient: Tensor) -> float:
    """Return the norm of the gradient, if it and the loss are finite."""
    norm = float(gradient.norm())
    if not math.isfinite(loss + norm):
        values = [x.tolist() for x in solver.parameters()]
        raise FloatingPointError(
            f"step {step} (seed {task.seed}) has loss {loss} and a gradient of norm {norm}, "
            f"with raw scalars {values}: "
            "lower the rate, or start from another solver; the best one so far is kept"
        )
    return norm
