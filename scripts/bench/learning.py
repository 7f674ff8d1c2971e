"""What a learning step costs: seconds and peak memory over NFE, against two plain ways; and of DiT-XL/2.

Weights are random (a step costs the same): a DiT-S/2 of 33 M parameters, where only the solver's loop is of
interest, and DiT-XL/2 with its autoencoder and a MobileNetV3, the paper's case. Every row is a process of its
own; memory is what the step needed at most beyond what the loaded networks hold.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import torch
from diffusers import AutoencoderKL, DiTTransformer2DModel
from torch import Tensor, nn
from torch.nn.attention import SDPBackend, sdpa_kernel

import dualsolver as ds
from common import THREADS, alone, answer, forget_peak, peak, seconds, table
from dualsolver.backbones.base import Backbone
from dualsolver.draws import draw
from dualsolver.objectives import HardLabel, Outcome
from dualsolver.task import Task

NFES, GUIDANCE = (3, 5, 9, 20), 1.5
FORM = {"sample_size": 32, "patch_size": 2, "in_channels": 4, "out_channels": 8, "norm_type": "ada_norm_zero"}
SIZES = {
    "S": {"num_attention_heads": 6, "attention_head_dim": 64, "num_layers": 12},
    "XL": {"num_attention_heads": 16, "attention_head_dim": 72, "num_layers": 28},
}
WIDTHS = (128, 256, 512, 512)  # of Stable Diffusion's autoencoder, which DiT-XL/2 uses


class RandomDiT(Backbone):
    """A DiT in diffusers' form with random weights; of size S without an autoencoder."""

    def __init__(self, size: str, dtype: torch.dtype) -> None:
        self.name, self.schedule, self.kind, self.dtype = f"random-{size}", ds.VP.linear(), "noise", dtype
        self.shape, self.classes = (4, 32, 32), tuple(map(str, range(1000)))
        self.transformer = DiTTransformer2DModel(**FORM, **SIZES[size]).to(dtype).eval().requires_grad_(False)
        self.vae: Any = None
        if size == "XL":
            kinds = {
                f"{way}_block_types": (f"{way.title()}{part}Block2D",) * 4
                for way, part in (("down", "Encoder"), ("up", "Decoder"))
            }
            self.vae = AutoencoderKL(
                block_out_channels=WIDTHS, layers_per_block=2, latent_channels=4, **kinds
            )
            self.vae.eval().requires_grad_(False)

    def conditions(self, items: Sequence[Any]) -> Tensor:
        return torch.tensor([int(item) for item in items])

    def null(self, condition: Tensor) -> Tensor:
        return torch.full_like(condition, 1000)

    def model(self, x: Tensor, time: Tensor, condition: Tensor) -> Tensor:
        output: Tensor = self.transformer(x, timestep=time, class_labels=condition).sample
        return output[:, :4]

    def decode(self, latents: Tensor, clamp: bool = True) -> Tensor:
        return latents[:, :3] if self.vae is None else self.vae.decode(latents.float() / 0.18215).sample


def classifier(size: str) -> Any:
    """What the images are judged by."""
    if size == "S":
        return nn.Sequential(nn.AdaptiveAvgPool2d(4), nn.Flatten(), nn.Linear(48, 1000)).requires_grad_(False)
    from torchvision.models import mobilenet_v3_large

    found: nn.Module = mobilenet_v3_large().eval().requires_grad_(False)
    return found


WAYS = {
    "autograd": "plain autograd",
    "checkpointed": "every call checkpointed",
    "kept": "ours",
    "recomputed": "ours, `--recompute`",
}


def one(size: str, nfe: int, batch: int, way: str, dtype: str, steps: int) -> dict[str, float]:
    """Seconds a step (the fastest), MB beyond the loaded networks, and MB of these."""
    torch.manual_seed(0)
    torch.set_num_threads(THREADS)
    backbone = RandomDiT(size, getattr(torch, dtype))
    objective = HardLabel(classifier(size))
    act = plainly if way in ("autograd", "checkpointed") else step
    call = partial(act, backbone, objective, way in ("checkpointed", "recomputed"), nfe, batch)
    loaded = forget_peak()
    taken = [seconds(call) for _ in range(steps)]
    return {"seconds": min(taken), "peak": peak() - loaded, "loaded": loaded}


def step(backbone: Backbone, objective: HardLabel, recompute: bool, nfe: int, batch: int) -> None:
    """The gradient of a step as `fit` takes it."""
    task = Task(backbone, objective, backbone.classes, GUIDANCE, recompute=recompute)
    task.loss(ds.DualSolver(nfe), range(batch), batch, True)


def plainly(backbone: Backbone, objective: HardLabel, recompute: bool, nfe: int, batch: int) -> None:
    """The same by `ds.sample` and `backward`, with nothing thought of."""
    noise, items = draw(backbone.shape, backbone.classes, 0, range(batch))
    condition, table = backbone.conditions(items), ds.DualSolver(nfe)(backbone.schedule)
    predict = backbone.predict(condition, GUIDANCE, recompute)
    with sdpa_kernel(SDPBackend.MATH):  # as in `Task`: on CPU its backward is the faster one
        states = ds.trajectory(predict, noise, table)
        made = Outcome(table, states, condition, partial(backbone.decode, clamp=False), items)
        torch.autograd.backward(objective(made, None).mean())


def measured() -> str:
    """A row for each NFE, and the case of full size."""
    rows, full = [], []
    for nfe in NFES:
        found = [alone("learning", "S", nfe, 1, way, "float32", 3) for way in WAYS]
        rows.append((str(nfe), *(x for way in found for x in (way["seconds"], way["peak"]))))
    for dtype in ("float32", "bfloat16"):
        found = alone("learning", "XL", 3, 1, "recomputed", dtype, 1)
        full.append((dtype, found["seconds"], found["peak"], found["loaded"]))
    titles = ["NFE", *(f"{way}{unit}" for way in WAYS.values() for unit in (": s", ", MB"))]
    return "\n\n".join(
        [
            "**A learning step** of DiT-S/2, batch 1, guidance, float32: seconds, and peak memory beyond "
            "the loaded networks'",
            table(titles, rows),
            "**DiT-XL/2** with autoencoder and classifier, NFE 3, batch 1, recomputed",
            table(["network in", "s a step", "MB", "MB loaded"], full),
        ]
    )


if __name__ == "__main__":
    answer(one)
