"""Fashion-MNIST from the folder of its four idx files, as images of 32 x 32 between -1 and 1."""

from __future__ import annotations

import gzip
import hashlib
import os
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor
from torch.nn import functional

from ..checks import check_choice

CLASSES = (
    "t-shirt/top",
    "trouser",
    "pullover",
    "dress",
    "coat",
    "sandal",
    "shirt",
    "sneaker",
    "bag",
    "ankle boot",
)
SPLITS = {"train": ("train", 60_000), "test": ("t10k", 10_000)}
FOLDER = "/usr/share/datasets/fashion-mnist"
VARIABLE = "DUALSOLVER_FASHION_MNIST"


@dataclass(frozen=True, eq=False)
class Images:
    """Pictures (N, 1, 32, 32) uint8 with the class of each (N,), and the hash of the files they came from."""

    pictures: Tensor
    classes: Tensor
    hash: str

    def __len__(self) -> int:
        return len(self.pictures)


def folder(given: str | Path | None = None) -> Path:
    """Return where the dataset is: what was given, else the environment variable, else Debian's folder."""
    found = Path(given or os.environ.get(VARIABLE) or FOLDER)
    if not any(found.glob("t10k-images*")):
        raise ValueError(
            f"no Fashion-MNIST in {found}: install the Debian package dataset-fashion-mnist, "
            f"or name a folder of its idx files with --data or {VARIABLE}"
        )
    return found


def read(split: str, given: str | Path | None = None) -> Images:
    """Read the "train" or the "test" images; the hash is of the unpacked content of both files."""
    check_choice("split", split, tuple(SPLITS))
    prefix, count = SPLITS[split]
    place = folder(given)
    pictures = _unpacked(place, f"{prefix}-images-idx3-ubyte")
    classes = _unpacked(place, f"{prefix}-labels-idx1-ubyte")
    flat = torch.frombuffer(bytearray(_payload(pictures, (count, 28, 28), place)), dtype=torch.uint8)
    labels = torch.frombuffer(bytearray(_payload(classes, (count,), place)), dtype=torch.uint8)
    padded = functional.pad(flat.view(count, 1, 28, 28), (2, 2, 2, 2))
    return Images(padded, labels.long(), hashlib.sha256(pictures + classes).hexdigest())


def scaled(pictures: Tensor) -> Tensor:
    """Turn uint8 pictures into float32 images in [-1, 1].

    >>> scaled(torch.tensor([0, 255], dtype=torch.uint8)).tolist()
    [-1.0, 1.0]
    """
    return pictures.float() / 127.5 - 1


def _unpacked(place: Path, name: str) -> bytes:
    packed = place / f"{name}.gz"
    try:
        return gzip.decompress(packed.read_bytes()) if packed.exists() else (place / name).read_bytes()
    except (OSError, EOFError) as error:
        raise ValueError(f"cannot read {name} in {place}: {error}; install the dataset again") from None


def _payload(content: bytes, shape: tuple[int, ...], place: Path) -> bytes:
    """What follows the header of an idx file: two zeros, type 8 (unsigned byte), rank, the sizes."""
    header = bytes([0, 0, 8, len(shape)]) + b"".join(size.to_bytes(4, "big") for size in shape)
    payload = content[len(header) :]
    if not content.startswith(header) or len(payload) != torch.Size(shape).numel():
        raise ValueError(f"{place} does not hold Fashion-MNIST: expected an idx file of shape {shape}")
    return payload
