"""What is learned: an objective on the samples that a solver draws from a frozen backbone."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from .backbones.base import Backbone
from .checks import whole
from .draws import draw
from .objectives import Objective, Outcome, Whole
from .prediction import Model, wrap
from .sample import trajectory
from .solvers.base import Learned
from .teacher import Teacher


@dataclass(frozen=True)
class Workers:
    """Who shares the samples of a step: this one's rank, how many there are, and how they add numbers."""

    rank: int = 0
    count: int = 1
    add: Callable[[Tensor], Tensor] = lambda numbers: numbers


@dataclass(frozen=True)
class Task:
    """What is learned: an objective on samples of a backbone.

    items: what conditions are drawn from, classes or prompts; teacher: for the objectives that need one; its
    noise and conditions are then used; recompute: do not keep activations; micro: images a call (the gradient
    is the same, the memory smaller).
    """

    backbone: Backbone
    objective: Objective
    items: Sequence[Any]
    guidance: float = 1.0
    seed: int = 0
    teacher: Teacher | None = None
    recompute: bool = False
    micro: int | None = None

    def __post_init__(self) -> None:
        if self.micro is not None:
            whole("micro", self.micro)
        if self.objective.teacher and self.teacher is None:
            raise ValueError(f"{type(self.objective).__name__} compares with a teacher: give the task one")

    def loss(
        self,
        solver: Learned,
        indices: Sequence[int],
        total: int,
        learn: bool,
        workers: Workers | None = None,
    ) -> float:
        """Return the sum of these samples' losses over `total`; if `learn`, add its gradient, too.

        They are this worker's share of a step with `total` samples.
        """
        found, parts, workers = 0.0, _parts(indices, self.micro or len(indices)), workers or Workers()
        alone = len(parts) == workers.count == 1
        rows = None if alone or not self.objective.whole else self._rows(solver, parts, total, workers)
        places = torch.split(torch.arange(total)[workers.rank :: workers.count], self.micro or total)
        with torch.set_grad_enabled(learn):
            for i, part in enumerate(parts):
                whole = None if rows is None else Whole(rows, places[i].to(rows.device))
                value = self.losses(solver, part, whole).sum() / total
                if learn:
                    torch.autograd.backward(value)
                found += value.item()
        return found

    def losses(self, solver: Learned, indices: Sequence[int], whole: Whole | None = None) -> Tensor:
        """One loss for each of these samples."""
        made, taught = self.outcomes(solver, indices)
        return self.objective(made._replace(whole=whole), taught)

    @torch.no_grad()
    def _rows(self, solver: Learned, parts: Sequence[Sequence[int]], total: int, workers: Workers) -> Tensor:
        """What all samples of the step are to each other, with no graph: (total, K)."""
        mine = torch.cat([self.objective.embed(self.outcomes(solver, part)[0]) for part in parts])
        rows = mine.new_zeros(total, mine.shape[1])
        rows[workers.rank :: workers.count] = mine
        return workers.add(rows).to(rows)

    def outcomes(self, solver: Learned, indices: Sequence[int]) -> tuple[Outcome, Outcome | None]:
        """What the solver and the teacher make of these samples."""
        seed, taught = self.seed, None
        if self.teacher is not None:
            seed, indices = self.teacher.seed, [self._shuffled(i) for i in indices]
            taught = self.teacher.take(indices)
        noise, items = draw(self.backbone.shape, self.items, seed, indices)
        condition = self.backbone.conditions(items)
        network = self.backbone.predict(condition, self.guidance, self.recompute)
        predict = wrap(_quiet_start(network.model), network.schedule, network.kind, network.dtype)
        table = solver(self.backbone.schedule)
        states = trajectory(predict, self.backbone.schedule.prior(noise.to(self.backbone.device)), table)
        return Outcome(table, states, condition, self._decode, items), taught

    def _decode(self, latents: Tensor) -> Tensor:
        return self.backbone.decode(latents, clamp=False)

    def _shuffled(self, index: int) -> int:
        """Go through the teacher's samples in another order each time."""
        assert self.teacher is not None
        epoch, i = divmod(index, self.teacher.count)
        generator = torch.Generator().manual_seed(self.seed + epoch)
        return int(torch.randperm(self.teacher.count, generator=generator)[i])


def _parts(indices: Sequence[int], size: int) -> list[Sequence[int]]:
    return [indices[first : first + size] for first in range(0, len(indices), size)]


def _quiet_start(model: Model) -> Model:
    """Keep no graph of the first evaluation: neither its noise nor its time is learned."""
    return lambda x, time: model(x, time if x.requires_grad else time.detach())
