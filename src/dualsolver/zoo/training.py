"""The training loop of the zoo: a generator of records that can be stopped and continued to the same bits.

Everything random in a step comes from a seed made of the recipe's seed and the step's number, and all state
is in one file that is replaced at once. So a run that was killed continues as if it had not been.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.attention import SDPBackend, sdpa_kernel

from ..files import write_whole


@dataclass(frozen=True)
class Recipe:
    """How to train: AdamW, a warm-up and then half a cosine to zero, and an average of the weights."""

    steps: int
    batch: int = 128
    rate: float = 1e-3
    warmup: int = 200
    decay: float = 0.01
    ema: float = 0.999
    seed: int = 0
    bf16: bool = False  # autocast: multiplications in bfloat16, weights and their average in float32
    augment: int = 0  # see `augment.augmented`

    def rate_at(self, step: int) -> float:
        """The learning rate of a step.

        >>> [round(Recipe(steps=100, warmup=10).rate_at(step), 6) for step in (0, 9, 55, 100)]
        [0.0001, 0.001, 0.0005, 0.0]
        """
        if step < self.warmup:
            return self.rate * (step + 1) / self.warmup
        done = (step - self.warmup) / max(1, self.steps - self.warmup)
        return self.rate * (1 + math.cos(math.pi * min(1.0, done))) / 2


class Record(NamedTuple):
    """What is known after `step` steps; `loss` is the mean since the record before."""

    step: int
    loss: float
    rate: float


Loss = Callable[[nn.Module, Tensor], Tensor]  # (model, indices of the examples) -> scalar


def seed_of(*parts: int) -> int:
    """A 32-bit seed from several numbers: torch's CPU generator ignores all higher bits of a seed."""
    return int.from_bytes(hashlib.sha256(repr(parts).encode()).digest()[:4], "big")


@lru_cache(maxsize=2)
def _order(count: int, seed: int, epoch: int) -> Tensor:
    return torch.randperm(count, generator=torch.Generator().manual_seed(seed_of(seed, 1, epoch)))


def indices(count: int, recipe: Recipe, step: int) -> Tensor:
    """Which examples a step sees: (batch,). Every epoch visits each example once, in another order."""
    epoch, start = divmod(step, count // recipe.batch)
    return _order(count, recipe.seed, epoch)[start * recipe.batch :][: recipe.batch]


class Run:
    """A model in training: its average, optimiser, step and log; `save` and `load` keep them in one file."""

    def __init__(
        self,
        model: nn.Module,
        recipe: Recipe,
        path: Path | None = None,
        earlier: Sequence[list[int]] = (),  # the plans of the run that the model's weights come from
    ) -> None:
        self.model, self.recipe, self.path = model, recipe, path
        self.average = {name: value.detach().clone() for name, value in model.state_dict().items()}
        self.optimizer = torch.optim.AdamW(
            model.parameters(), recipe.rate, betas=(0.9, 0.99), weight_decay=recipe.decay, fused=True
        )
        self.step, self.log = 0, list[list[float]]()
        self.losses = list[float]()  # since the last record
        self.plans = [*earlier, [0, recipe.steps]]  # from which step on the recipe ended at which one
        if path is not None and path.exists():
            self.load()

    def save(self) -> None:
        """Write model, average, moments, step and log, all or nothing."""
        from safetensors.torch import save

        if self.path is None:
            return
        tensors = {f"model.{k}": v for k, v in self.model.state_dict().items()}
        tensors |= {f"average.{k}": v for k, v in self.average.items()}
        for i, moments in self.optimizer.state_dict()["state"].items():
            tensors |= {f"moments.{i}.{k}": v for k, v in moments.items()}
        about = {"step": self.step, "recipe": asdict(self.recipe), "log": self.log, "plans": self.plans}
        about["losses"] = self.losses
        whole = {k: v.contiguous() for k, v in tensors.items()}
        write_whole(self.path, save(whole, {"run": json.dumps(about)}))

    def load(self) -> None:
        """Continue where the file stands; of the recipe only the number of steps may differ."""
        from safetensors import safe_open

        assert self.path is not None
        try:
            with safe_open(self.path, "pt") as file:
                about = json.loads(file.metadata()["run"])
                tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
            other = about["recipe"] | {"steps": self.recipe.steps} != asdict(self.recipe)
            if not other:
                self._take(about, _parts(tensors))
        except Exception as error:  # a damaged file can be so in many ways
            reason = f"{type(error).__name__}: {error}".splitlines()[0]
            raise ValueError(f"{self.path} is damaged ({reason}): delete it to train anew") from None
        if other:
            raise ValueError(f"{self.path} belongs to another recipe; move it away to train anew")

    def _take(self, about: dict[str, Any], parts: dict[str, dict[str, Tensor]]) -> None:
        self.step, self.log, self.average = about["step"], about["log"], parts["average"]
        self.plans, self.losses = about["plans"], about.get("losses", [])
        if self.plans[-1][1] != self.recipe.steps:
            self.plans.append([self.step, self.recipe.steps])
        self.model.load_state_dict(parts["model"])
        moments: dict[int, dict[str, Tensor]] = {}
        for name, value in parts.get("moments", {}).items():
            i, _, key = name.partition(".")
            moments.setdefault(int(i), {})[key] = value
        groups = self.optimizer.state_dict()["param_groups"]
        self.optimizer.load_state_dict({"state": moments, "param_groups": groups})


def _parts(tensors: dict[str, Tensor]) -> dict[str, dict[str, Tensor]]:
    parts: dict[str, dict[str, Tensor]] = {}
    for name, value in tensors.items():
        part, _, rest = name.partition(".")
        parts.setdefault(part, {})[rest] = value
    return parts


def train(
    run: Run,
    loss: Loss,
    count: int,
    every: int = 50,
    stop: Callable[[], bool] = lambda: False,
    stepped: Callable[[], None] = lambda: None,
) -> Iterator[Record]:
    """Take steps until the recipe's last and yield a `Record` after each `every`; saving is the caller's.

    `stop` is asked between steps, so that what interrupts a run never leaves half a step; `stepped` is called
    after each, when the run can be saved.
    """
    recipe, losses = run.recipe, run.losses
    run.model.train()
    while run.step < recipe.steps and not stop():
        losses.append(_step(run, loss, indices(count, recipe, run.step)))
        run.step += 1
        if run.step % every == 0 or run.step == recipe.steps:
            record = Record(run.step, sum(losses) / len(losses), recipe.rate_at(run.step))
            run.log.append([record.step, round(record.loss, 5)])
            losses.clear()
            yield record
        stepped()


def _step(run: Run, loss: Loss, chosen: Tensor) -> float:
    recipe = run.recipe
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed_of(recipe.seed, 2, run.step))
        run.optimizer.zero_grad()
        with sdpa_kernel(SDPBackend.MATH):  # fused attention takes 4 times as long on 16 tokens in bfloat16
            with torch.autocast("cpu", torch.bfloat16, enabled=recipe.bf16):
                value = loss(run.model, chosen)
            torch.autograd.backward(value)
    nn.utils.clip_grad_norm_(run.model.parameters(), 1.0)
    for group in run.optimizer.param_groups:
        group["lr"] = recipe.rate_at(run.step)
    run.optimizer.step()
    _average(run)
    found = value.item()
    if not math.isfinite(found):
        raise ValueError(f"the loss is {found} at step {run.step}: lower the rate {recipe.rate}")
    return found


@torch.no_grad()
def _average(run: Run) -> None:
    """Move the average towards the weights; early on it forgets faster, so that it holds no initial ones."""
    keep = min(run.recipe.ema, (1 + run.step) / (10 + run.step))
    old, new = list[Tensor](), list[Tensor]()
    for name, value in run.model.state_dict().items():
        if value.is_floating_point():
            old.append(run.average[name])
            new.append(value)
        else:
            run.average[name].copy_(value)
    torch._foreach_lerp_(old, new, 1 - keep)
