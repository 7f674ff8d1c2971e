"""What a diffusers scheduler of ours is made of: an artifact, and what a pipeline says where that is open."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

from .backbones.pretrained import KINDS, schedule_of
from .checks import check_choice
from .hub import artifact
from .parameters import KEYS, checked, content_of, is_fixed, read
from .schedule import VP, Flow, Schedule, from_config, same_rates
from .solvers import SOLVERS

logger = logging.getLogger(__name__)

NATIVE = {"noise": "epsilon", "data": "sample"}  # velocity has two names in diffusers
BETAS = {"vp-linear": "linear", "vp-scaled-linear": "scaled_linear"}


def content(solver: Any) -> dict[str, Any]:
    """Return an artifact's content from a folder, a hub id, a fixed solver's name, or solvers themselves.

    >>> content("dpmpp")["solvers"]["10"]["order"]
    2
    """
    if isinstance(solver, str) and solver in SOLVERS and is_fixed(SOLVERS[solver]):
        return content_of(SOLVERS[solver](nfe=10))
    if isinstance(solver, str | Path):
        return read(artifact(str(solver)))
    solvers = solver if isinstance(solver, Sequence) else [solver]
    return content_of(*solvers)


def joined(config: Mapping[str, Any], given: dict[str, Any]) -> dict[str, Any]:
    """Join a config, ours or another scheduler's, with the arguments that overrule it."""
    given = dict(given)
    if native := given.pop("prediction_type", None):
        check_choice("prediction_type", native, tuple(KINDS))
        given.setdefault("prediction", KINDS[native])
    schedule, prediction = given.get("schedule"), given.get("prediction")
    if isinstance(schedule, Schedule):
        schedule = given["schedule"] = schedule.config()
    foreign = {k: v for k, v in config.items() if k not in KEYS}
    fallback = foreign.pop("fallback", None)
    if "solver" in given:
        own = content(given.pop("solver"))
        fallback = own.get("fallback") or fallback
    elif "format" in config:
        own = checked("the scheduler's config", {k: v for k, v in config.items() if k != "fallback"})
    else:
        raise ValueError("say which solver: from_config(config, solver=FOLDER or the name of a fixed one)")
    there = of_pipeline(config)
    if there is not None:
        there = from_config(schedule) if schedule else there[0], prediction or there[1]
    own = settled({k: own[k] for k in KEYS} | given, there)
    return foreign | ({"prediction_type": native} if native else {}) | {"fallback": fallback} | own


def of_pipeline(config: Mapping[str, Any]) -> tuple[Schedule, str] | None:
    """What a scheduler's config says of (schedule, prediction), if it says anything."""
    if "format" not in config:
        return schedule_of(config) if any(not key.startswith("_") for key in config) else None
    if config.get("schedule") is None or config.get("prediction") is None:
        return None
    return from_config(config["schedule"]), config["prediction"]


def settled(own: Mapping[str, Any], pipeline: tuple[Schedule, str] | None) -> dict[str, Any]:
    """Return the content with its schedule and prediction filled in, those given before the pipeline's.

    own: an artifact's content; pipeline: its (schedule, prediction), to compare with and to fill in.
    """
    found = dict(own)
    if pipeline is None:
        return found
    schedule, prediction = pipeline
    if found["prediction"] is None:
        found["prediction"] = prediction
    elif found["prediction"] != prediction:
        logger.warning(
            "the solver was learned for a network that predicts %s, but the pipeline says %s: using %s",
            *(found["prediction"], prediction, found["prediction"]),
        )
    if found["schedule"] is None:
        found["schedule"] = schedule.config()
    elif not same_rates(from_config(found["schedule"]), schedule):
        logger.warning(
            "the solver was learned for the schedule %s, but the pipeline has %s: using the first",
            *(from_config(found["schedule"]), schedule),
        )
    return found


def diffusers_keys(schedule: Schedule, prediction: str) -> dict[str, Any]:
    """What diffusers' own schedulers and pipelines read of a config, so that one can switch to them.

    >>> diffusers_keys(Flow(3.0), "velocity")["prediction_type"]
    'flow_prediction'
    """
    keys: dict[str, Any] = {"num_train_timesteps": train_steps(schedule)}
    if isinstance(schedule, Flow):
        shifts = {"flow_shift": schedule.shift, "shift": schedule.shift}
        return keys | shifts | {"use_flow_sigmas": True, "prediction_type": "flow_prediction"}
    keys["prediction_type"] = NATIVE.get(prediction, "v_prediction")
    config = schedule.config()
    if config["type"] in BETAS:
        ends = {name: config[name] for name in ("beta_start", "beta_end")}
        return keys | ends | {"beta_schedule": BETAS[config["type"]]}
    if config["type"] == "vp-cosine":
        return keys | {"beta_schedule": "squaredcos_cap_v2"}
    return keys | ({"trained_betas": config["betas"]} if config["type"] == "vp-betas" else {})


def train_steps(schedule: Schedule) -> int:
    """How many times diffusers says that the network was trained at."""
    zero, one = schedule.model_time(torch.tensor([0.0, 1.0])).tolist()
    return round(one - zero) if isinstance(schedule, VP | Flow) else 1000
