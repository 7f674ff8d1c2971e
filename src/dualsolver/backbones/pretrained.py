"""Parts of a diffusers pipeline, from a folder or a hub id: configs, networks, schedule, decoder."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, Self

import torch
from diffusers import AutoencoderKL, ConfigMixin
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from ..checks import check_choice, number, whole
from ..hub import loaded
from ..schedule import VP, Flow, Schedule

PICKLE = "pickle"  # the variant that stands for pickled files
REVISIONS = {name: "refs/pr/1" for name in ("facebook/DiT-XL-2-256",)}  # main has pickles only
KINDS = {"epsilon": "noise", "sample": "data", "v_prediction": "velocity", "flow_prediction": "velocity"}


class _Config(ConfigMixin):  # type: ignore[misc]  # diffusers is untyped
    config_name = "config.json"


class _SchedulerConfig(ConfigMixin):  # type: ignore[misc]
    config_name = "scheduler_config.json"


class _Index(ConfigMixin):  # type: ignore[misc]
    config_name = "model_index.json"


def read_config(source: str, part: str) -> dict[str, Any]:
    """Return the config of a component ("transformer", "scheduler"), or the pipeline's index for ""."""
    reader: Any = {"": _Index, "scheduler": _SchedulerConfig}.get(part, _Config)
    config = loaded(source, part, lambda: reader.load_config(source, subfolder=part or None))
    return dict(config)


def component(
    cls: Any, source: str, part: str, variant: str | None, dtype: torch.dtype, device: torch.device
) -> Any:
    """Load a network, frozen and in eval mode; one without files of the variant loads its plain ones."""
    *others, last = _choices(source, part, variant)
    options: dict[str, Any] = {"subfolder": part, "torch_dtype": dtype}
    if variant != PICKLE and not Path(source).is_dir():
        options["revision"] = REVISIONS.get(source)
    for choice in others:
        with suppress(OSError):
            return _ready(cls.from_pretrained(source, **choice, **options), source, part, device)
    network = loaded(source, part, lambda: cls.from_pretrained(source, **last, **options))
    return _ready(network, source, part, device)


def around(cls: Any, source: str, variant: str | None, **parts: Any) -> Any:
    """Load what is left of a pipeline around the parts that are there already."""
    if variant not in (None, PICKLE):
        with suppress(OSError, ValueError):  # like a network, it may have no files of the variant
            return cls.from_pretrained(source, variant=variant, **parts)
    return loaded(source, "text encoders", lambda: cls.from_pretrained(source, **parts))


def _choices(source: str, part: str, variant: str | None) -> list[dict[str, Any]]:
    """What to ask `from_pretrained` for, in turn. In a folder one can look; a damaged file is no missing one.

    Pickled files only when asked for by name, though torch opens them without running code.
    """
    kinds = [(None, False)] if variant == PICKLE else [(variant, True), (None, True)][variant is None :]
    choices = [{"variant": name, "use_safetensors": safe} for name, safe in kinds]
    folder = Path(source, part)
    if not folder.is_dir():
        return choices
    files = [path.name for path in folder.glob("*.*")]
    for (name, safe), choice in zip(kinds, choices, strict=True):
        named = [file for file in files if (f".{name}" in file if name else file.count(".") == 1)]
        if any(file.endswith(".safetensors" if safe else ".bin") for file in named):
            return [choice]
    pickled = f"; variant={PICKLE!r} takes its pickles" * any(file.endswith(".bin") for file in files)
    raise ValueError(f"no weights in {folder}: it holds {', '.join(sorted(files)) or 'nothing'}{pickled}")


def _ready(network: Any, source: str, part: str, device: torch.device) -> Any:
    lacking = [name for name, value in network.named_parameters() if value.is_meta]
    if lacking:
        raise ValueError(f"cannot load {part} of {source}: the file lacks {lacking[0]}, of the config")
    return network.to(device).eval().requires_grad_(False)


def class_names(source: str, count: int) -> tuple[str, ...]:
    """The names of the classes, from `id2label` in model_index.json (the first of each); else numbers."""
    labels = read_config(source, "").get("id2label") or {str(i): str(i) for i in range(count)}
    if not isinstance(labels, dict) or set(labels) != {str(i) for i in range(len(labels))}:
        raise ValueError(f"{source}: id2label must name the classes 0, 1, 2 and so on, not {labels!r:.80}")
    return tuple(str(labels[str(i)]).split(",")[0].strip() for i in range(len(labels)))


def schedule_of(config: Mapping[str, Any]) -> tuple[Schedule, str]:
    """Return the schedule of a diffusers scheduler's config, and what its network predicts.

    >>> schedule_of({"beta_schedule": "linear", "beta_start": 1e-4, "beta_end": 0.02})
    (vp-linear(beta_start=0.0001, beta_end=0.02, steps=1000), 'noise')
    >>> schedule_of({"shift": 3.0, "use_dynamic_shifting": False})[0]
    flow(shift=3.0, time_scale=1000.0)
    """
    prediction = config.get("prediction_type", "epsilon")
    check_choice("prediction_type", prediction, tuple(KINDS))
    if config.get("rescale_betas_zero_snr"):
        raise ValueError(
            "rescale_betas_zero_snr leaves no data at t = 1, where a noise prediction says nothing of it: "
            "give ds.wrap a schedule of your own"
        )
    steps = whole("num_train_timesteps", config.get("num_train_timesteps", 1000))
    if "sigma_data" in config:
        raise ValueError(
            "an EDM scheduler scales what its network sees: wrap the network with ds.wrap and ds.VE instead"
        )
    shifted = "shift" in config and not {"beta_schedule", "trained_betas"} & config.keys()  # FlowMatch*
    flow = "Flow" in str(config.get("_class_name", "")) or config.get("use_flow_sigmas") or shifted
    if flow or prediction == "flow_prediction":
        shift = config.get("flow_shift", config.get("shift", 1.0))
        shift = 1.0 if shift is None else number("shift", shift)
        return Flow(shift, time_scale=float(steps)), "velocity"
    if config.get("trained_betas") is not None:
        return VP.from_betas(config["trained_betas"]), KINDS[prediction]
    return _from_betas(config, steps), KINDS[prediction]


def _from_betas(config: Mapping[str, Any], steps: int) -> Schedule:
    name = config.get("beta_schedule", "linear")
    check_choice("beta_schedule", name, ("linear", "scaled_linear", "squaredcos_cap_v2"))
    if name == "squaredcos_cap_v2":
        return VP.cosine(steps)
    family = VP.linear if name == "linear" else VP.scaled_linear
    return family(config.get("beta_start", 1e-4), config.get("beta_end", 0.02), steps)


class Decoder:
    """An autoencoder's decoder: latents as the network sees them -> float32 images in [0, 1]."""

    def __init__(
        self, source: str, variant: str | None, device: torch.device, kind: Any = AutoencoderKL
    ) -> None:
        self.vae: nn.Module = component(kind, source, "vae", variant, torch.float32, device)
        self.config: Any = self.vae.config  # defaults included, which the JSON may lack

    def __call__(self, latents: Tensor, clamp: bool) -> Tensor:
        """latents: (B, C, H, W) -> (B, channels, height, width)."""
        shift = self.config.get("shift_factor") or 0.0
        shifted = latents.float() / self.config.scaling_factor + shift
        images: Tensor = self.vae.decode(shifted).sample / 2 + 0.5  # type: ignore[operator]
        return images.clamp(0, 1) if clamp else images

    def recompute(self) -> Self:
        """Keep only what goes between the blocks for the backward pass: AutoencoderDC cannot by itself."""
        blocks: Any = self.vae.decoder.up_blocks  # type: ignore[union-attr]
        for block in blocks:
            block.forward = partial(checkpoint, block.forward, use_reentrant=False)
        return self
