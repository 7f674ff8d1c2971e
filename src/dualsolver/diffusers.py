"""A learned solver as a diffusers scheduler: `pipe.scheduler = DualSolverScheduler.from_pretrained(folder)`.

One class for every solver of the registry. No formula lives here: a table is made by the solver, run by
`Stepper`, and what surrounds it is what diffusers' pipelines expect of a scheduler.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, ClassVar

import torch
from torch import Tensor

from .extras import needs

with needs("diffusers"):
    from diffusers import ConfigMixin, SchedulerMixin
    from diffusers.configuration_utils import register_to_config
    from diffusers.schedulers import KarrasDiffusionSchedulers
    from diffusers.utils import BaseOutput

    from .settle import content, diffusers_keys, joined, train_steps

from .checks import number, numbers, whole
from .hub import loaded
from .parameters import FORMAT, KEYS, checked, choose, solvers_of
from .schedule import Flow, Schedule, at_noise_level, from_config, noise_level
from .share import write_share
from .solvers import Solver
from .solvers.base import Fixed
from .stepper import Stepper
from .table import Table

logger = logging.getLogger(__name__)

ARGUMENTS = (*KEYS, "fallback")


@dataclass
class DualSolverSchedulerOutput(BaseOutput):  # type: ignore[misc]  # diffusers is untyped
    """prev_sample: what the network looks at next; pred_original_sample: the data it sees, a preview.

    The last preview is the sample itself: PixArt's pipeline takes it for the result where there is one step.
    """

    prev_sample: Tensor
    pred_original_sample: Tensor


class DualSolverScheduler(SchedulerMixin, ConfigMixin):  # type: ignore[misc]
    """Any solver of the registry, learned or fixed, over diffusers' contract.

    solver: a folder or hub id of learned values, the name of a fixed solver, or a solver (or several) itself;
    it is resolved to numbers at once, and the config holds an artifact as `ds.save` writes it.
    prediction ("noise", "data", "velocity") and schedule (a `Schedule`) win over those of the artifact.
    fallback: the fixed solver for numbers of steps that were not learned.

    >>> import dualsolver as ds
    >>> scheduler = DualSolverScheduler("dpmpp", prediction="velocity", schedule=ds.Flow(shift=3.0))
    >>> scheduler.set_timesteps(4)
    >>> len(scheduler.timesteps), scheduler.config.prediction_type
    (4, 'flow_prediction')
    """

    order = 1  # one call of the network a step, whatever the solver's order
    _compatibles: ClassVar = [
        *(kind.name for kind in KarrasDiffusionSchedulers),
        "FlowMatchEulerDiscreteScheduler",
    ]

    @register_to_config  # type: ignore[untyped-decorator]
    def __init__(
        self,
        solver: Any,
        prediction: str | None = None,
        schedule: Any = None,
        solvers: Any = None,
        provenance: Any = None,
        format: int = FORMAT,
        fallback: str | None = None,
    ) -> None:
        found = {"solver": solver, "solvers": solvers, "provenance": provenance, "format": format}
        found = content(solver) if solvers is None else found
        found["prediction"] = prediction or found.get("prediction")
        schedule = schedule.config() if isinstance(schedule, Schedule) else schedule
        found["schedule"] = schedule or found.get("schedule")
        own = checked("the scheduler's config", {key: found.get(key) for key in KEYS})
        for name in ("schedule", "prediction"):
            if own[name] is None:
                raise ValueError(
                    f"nothing says the {name}: use DualSolverScheduler.from_config(pipe.scheduler.config, "
                    f"solver=...), or give {name}=..."
                )
        self._schedule, self._kind = from_config(own["schedule"]), str(own["prediction"])
        self._solvers = {s.nfe: s for s in solvers_of("the scheduler's config", own)}
        if fallback is not None:
            choose(self._solvers, max(self._solvers), "the scheduler", fallback)  # a wrong name, known now
        derived = diffusers_keys(self._schedule, self._kind)
        self.register_to_config(**own, **derived, fallback=fallback, _use_default_values=[])
        self._chosen: dict[int, Solver] = {}
        self._stepper: Stepper | None = None
        self._begin_index: int | None = None
        self._step_index: int | None = None
        self.num_inference_steps: int | None = None
        self._run: Solver | None = None
        self.timesteps = self.sigmas = torch.empty(0)

    @classmethod
    def load_config(cls, pretrained_model_name_or_path: str | Path, **options: Any) -> Any:
        """Read a config from a folder or the hub; `from_pretrained` begins with it."""
        source, read = pretrained_model_name_or_path, super().load_config
        return loaded(str(source), "the scheduler", lambda: read(source, **options))

    @classmethod
    def from_config(cls, config: Any = None, return_unused_kwargs: bool = False, **given: Any) -> Any:
        """Make a scheduler of a config: ours, or with solver=... that of a pipeline's scheduler.

        Where the artifact leaves schedule and prediction type open, the pipeline's are taken; where they
        disagree, the artifact's, with a warning. prediction=, prediction_type= and schedule= overrule both.
        """
        if not isinstance(config, dict):
            raise ValueError(
                "from_config takes a config such as pipe.scheduler.config: from_pretrained takes a folder "
                f"or a hub id, not {config!r:.80}"
            )
        ours = {name: given.pop(name) for name in (*ARGUMENTS, "prediction_type") if name in given}
        if given and not return_unused_kwargs:
            raise ValueError(
                f"unknown {', '.join(given)}: a scheduler's arguments are {', '.join(ARGUMENTS)}"
            )
        made = super().from_config(joined(config, ours))
        return (made, given) if return_unused_kwargs else made

    def save_pretrained(self, save_directory: str | Path, push_to_hub: bool = False, **options: Any) -> None:
        """Write the artifact, a card, and the stub that `trust_remote_code=True` loads."""
        write_share(Path(save_directory), self.to_json_string(), options.get("repo_id"))
        if push_to_hub:
            super().save_pretrained(str(save_directory), push_to_hub, **options)

    def push_to_hub(self, repo_id: str, **options: Any) -> None:
        """Upload what `save_pretrained` writes to a repository of the hub."""
        with TemporaryDirectory() as folder:
            self.save_pretrained(folder, push_to_hub=True, repo_id=repo_id, **options)

    # what pipelines ask before and between steps

    @property
    def init_noise_sigma(self) -> float:
        """What standard normal noise is multiplied by to start from."""
        return self._schedule.prior_scale

    @property
    def step_index(self) -> int | None:
        """Which step comes next; None until the first."""
        return self._step_index

    @property
    def begin_index(self) -> int | None:
        """Where a run starts, if a pipeline has said so."""
        return self._begin_index

    def set_begin_index(self, begin_index: int = 0) -> None:
        """Say where a run starts: in the middle for image-to-image."""
        self._begin_index = whole("begin_index", begin_index, 0)

    def scale_model_input(self, sample: Tensor, timestep: Any = None) -> Tensor:
        """Return the sample: networks here take it as it is."""
        return sample

    def __len__(self) -> int:
        return train_steps(self._schedule)

    @torch.no_grad()
    def set_timesteps(
        self,
        num_inference_steps: int | None = None,
        device: str | torch.device | None = None,
        sigmas: Sequence[float] | None = None,
        mu: float | None = None,
        timesteps: Sequence[float] | None = None,
    ) -> None:
        """Choose the run: a number of steps, or the nodes themselves as sigmas or timesteps.

        A fixed solver takes given nodes literally, never shifted again, and goes on to sigma = 0. A learned
        one keeps its own and reads their number as the NFE. `mu` is the log of the shift of a flow's grid.
        """
        t = self._given(sigmas, timesteps)
        if t is None and num_inference_steps is None:
            raise ValueError("say how many steps: num_inference_steps, sigmas or timesteps")
        nfe = whole("num_inference_steps", num_inference_steps if t is None else len(t))
        if t is not None and num_inference_steps not in (None, len(t)):
            raise ValueError(f"num_inference_steps = {num_inference_steps}, but {len(t)} nodes are given")
        if t is not None and t[-1] == 0 and len(t) > 1:
            t, nfe = t[:-1], nfe - 1
        solver = self._solver(nfe)
        if isinstance(solver, Fixed):
            table = self._fixed(solver, t, mu)
        else:
            table = solver(self._schedule)
            if t is not None and not torch.allclose(t, table.t[:-1], rtol=1e-3, atol=1e-3):
                logger.warning("a learned solver keeps its own times: only the number of those given is read")
        self._plan(table, device, solver)

    def _given(self, sigmas: Any, timesteps: Any) -> Tensor | None:
        """The times of given sigmas or timesteps, or None."""
        if sigmas is not None and timesteps is not None:
            raise ValueError("give sigmas or timesteps, not both")
        if timesteps is not None:
            return self._schedule.at_model_time(numbers("timesteps", _listed(timesteps)))
        if sigmas is None:
            return None
        return at_noise_level(self._schedule, numbers("sigmas", _listed(sigmas)))

    def _solver(self, nfe: int) -> Solver:
        if nfe not in self._chosen:  # what `choose` logs is said once
            self._chosen[nfe] = choose(self._solvers, nfe, "the scheduler", self.config.fallback)
        return self._chosen[nfe]

    def _fixed(self, solver: Any, t: Tensor | None, mu: float | None) -> Table:
        if t is not None:
            return solver.on([*t.tolist(), 0.0])(self._schedule)  # type: ignore[no-any-return]
        schedule = self._schedule
        if mu is not None and isinstance(schedule, Flow):
            schedule = Flow(math.exp(number("mu", mu)), schedule.time_scale)
        return solver(schedule)  # type: ignore[no-any-return]

    def _plan(self, table: Table, device: Any, solver: Solver) -> None:
        """Forget the last run and show the nodes of the next."""
        self._run, self._from_start = solver, Stepper(table, self._schedule, self._kind)
        self._stepper = self._step_index = self._begin_index = None
        self.num_inference_steps = table.nfe
        times = self._schedule.model_time(table.t[:-1])
        self._times = times.tolist()
        self.timesteps = times.to(torch.float32).to(device)
        self.sigmas = noise_level(self._schedule, table.alpha, table.sigma).to(torch.float32)

    def index_for_timestep(self, timestep: Any) -> int:
        """Return the evaluation that happens at a timestep: the second, if two do.

        An element of `timesteps` is known by its place in memory, without waiting for a GPU.
        """
        if isinstance(timestep, Tensor):
            if timestep.device == self.timesteps.device and _storage(timestep) == _storage(self.timesteps):
                return int(timestep.storage_offset() - self.timesteps.storage_offset())
            timestep = timestep.flatten()[0]
        away = [abs(float(timestep) - t) for t in self._times]
        found = [i for i, d in enumerate(away) if d == min(away)][:2][-1]
        if away[found] > 5e-3 * len(self):
            raise ValueError(f"timestep {float(timestep):g} is none of {[round(t, 2) for t in self._times]}")
        return found

    def step(
        self, model_output: Tensor, timestep: Any, sample: Tensor, return_dict: bool = True
    ) -> DualSolverSchedulerOutput | tuple[Tensor, ...]:
        """Move from `timestep`, where the network saw `sample`, to the next; differentiable.

        Without `return_dict`, as pipelines call it, there is no preview to pay for: a tuple of the sample
        alone, like that of diffusers' multistep schedulers. The last one holds it twice, see the output's.
        """
        if model_output.shape != sample.shape:
            raise ValueError(
                f"the output has shape {tuple(model_output.shape)}, the sample {tuple(sample.shape)}: "
                "take a learned variance off before"
            )
        stepper = self._stepper or self._started(timestep)
        if not stepper.left:
            raise ValueError(f"all {self.num_inference_steps} steps are done: call set_timesteps again")
        data = stepper.preview(model_output, sample) if return_dict and stepper.left > 1 else None
        query = stepper.step(model_output, sample)
        assert self._step_index is not None
        self._step_index += 1
        if return_dict:
            return DualSolverSchedulerOutput(query, query if data is None else data)
        return (query,) if stepper.left else (query, query)

    @torch.no_grad()
    def _started(self, timestep: Any) -> Stepper:
        """Begin a run: a start in the middle makes the table anew, without history."""
        if self._run is None:
            raise ValueError("call set_timesteps before step")
        start = self.index_for_timestep(timestep) if self._begin_index is None else self._begin_index
        if start >= self._from_start.left:
            raise ValueError(f"a start at step {start} leaves none of {self._from_start.left} steps")
        self._stepper, self._step_index = self._from_start, start
        if start:
            self._stepper = Stepper(self._run.rest(self._schedule, start), self._schedule, self._kind)
        return self._stepper

    def add_noise(self, original_samples: Tensor, noise: Tensor, timesteps: Tensor) -> Tensor:
        """Return alpha * data + sigma * noise at timesteps (B,), each of its own sample."""
        rates = self._schedule(self._schedule.at_model_time(timesteps).reshape(-1))
        shape = (-1, *[1] * (original_samples.ndim - 1))
        alpha, sigma = (x.to(original_samples.device, torch.float32).view(shape) for x in rates)
        return (alpha * original_samples + sigma * noise).to(original_samples.dtype)

    def scale_noise(self, sample: Tensor, timestep: Tensor, noise: Tensor) -> Tensor:
        """`add_noise` as flow pipelines call it."""
        return self.add_noise(sample, noise, timestep)


def _listed(values: Any) -> Any:
    return values.tolist() if hasattr(values, "tolist") else list(values)


def _storage(x: Tensor) -> int:
    return x.untyped_storage().data_ptr()
