"""What a learning step costs: time and peak memory over NFE, with and without recomputation; and of DiT-XL/2.

Weights are random (a step costs the same): a DiT-S/2 of 33 M parameters, where only the solver's loop is of
interest, and DiT-XL/2 with its autoencoder and a MobileNetV3, the paper's case. Every row is a process of its
own: `peak` is what the step needed at most beyond what the loaded networks hold.
"""

from __future__ import annotations

import argparse
import json
import platform
import resource
import subprocess
import sys
from collections.abc import Sequence
from time import perf_counter
from typing import Any

import torch
from diffusers import AutoencoderKL, DiTTransformer2DModel
from torch import Tensor, nn

import dualsolver as ds
from dualsolver.backbones.base import Backbone
from dualsolver.fit import Recipe, State, cost, fit
from dualsolver.objectives import HardLabel
from dualsolver.task import Task

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
        return self.transformer(x, timestep=time, class_labels=condition).sample[:, :4]

    def decode(self, latents: Tensor, clamp: bool = True) -> Tensor:
        return latents[:, :3] if self.vae is None else self.vae.decode(latents.float() / 0.18215).sample


def classifier(size: str) -> nn.Module:
    """What the images are judged by."""
    if size == "S":
        return nn.Sequential(nn.AdaptiveAvgPool2d(4), nn.Flatten(), nn.Linear(48, 1000)).requires_grad_(False)
    from torchvision.models import mobilenet_v3_large

    return mobilenet_v3_large().eval().requires_grad_(False)


def peak() -> float:
    """The most memory that this process ever held, in GB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20


def one(size: str, nfe: int, batch: int, recompute: bool, dtype: str, steps: int) -> dict[str, float]:
    """Seconds a step (the fastest) and GB beyond the loaded networks."""
    torch.manual_seed(0)
    torch.set_num_threads(2)
    backbone = RandomDiT(size, getattr(torch, dtype))
    task = Task(backbone, HardLabel(classifier(size)), backbone.classes, 1.5, recompute=recompute)
    state = State(
        raw=(raw := nn.utils.parameters_to_vector(ds.DualSolver(nfe).parameters()).tolist()), mean=raw
    )
    recipe, loaded = Recipe(steps=steps, batch=batch, every=steps + 1, held_out=1), peak()
    records, taken = fit(ds.DualSolver(nfe), task, task, recipe, state), []
    for _ in range(steps - 1 or 1):  # the last one would look at held-out samples, too
        start = perf_counter()
        next(records)
        taken.append(perf_counter() - start)
    return {"seconds": min(taken), "peak": peak() - loaded, "loaded": loaded}


def measured(*case: Any) -> dict[str, float]:
    """Run one case in a process of its own."""
    command = [sys.executable, __file__, "--one", json.dumps(case)]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    found: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return found


def main() -> None:
    """Print a table over NFE, and the case of full size."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--one", type=json.loads, help=argparse.SUPPRESS)
    parser.add_argument("--nfe", type=int, nargs="+", default=[3, 5, 9, 20])
    chosen = parser.parse_args()
    if chosen.one:
        return print(json.dumps(one(*chosen.one)))
    print(f"torch {torch.__version__}, 2 threads, {platform.machine()}; DiT-S/2, batch 4, guidance, float32")
    print(
        f"{'NFE':>4} {'evaluations':>12} {'kept: s':>9} {'GB':>6} {'recomputed: s':>14} {'GB':>6} {'time':>6}"
    )
    for nfe in chosen.nfe:
        kept, again = (measured("S", nfe, 4, recompute, "float32", 4) for recompute in (False, True))
        ratio = again["seconds"] / kept["seconds"]
        print(
            f"{nfe:>4} {4 * cost(nfe):>5} / {4 * cost(nfe, True):<4} "
            f"{kept['seconds']:>9.2f} {kept['peak']:>6.2f} "
            f"{again['seconds']:>14.2f} {again['peak']:>6.2f} {ratio:>6.2f}",
            flush=True,
        )
    for dtype in ("float32", "bfloat16"):
        full = measured("XL", 3, 1, True, dtype, 2)
        print(
            f"DiT-XL/2 with autoencoder and classifier, NFE 3, batch 1, {dtype}, recomputed: "
            f"{full['seconds']:.1f} s a step, {full['peak']:.2f} GB beyond {full['loaded']:.2f} GB loaded",
            flush=True,
        )
    return None


if __name__ == "__main__":
    main()
