"""Images as files: where one is kept, the .npz that ADM's evaluation reads, and reading either."""

from __future__ import annotations

import zipfile
from collections.abc import Sequence
from pathlib import Path

import torch
from torch import Tensor

from . import npz
from .extras import needs
from .files import whole_file

KINDS = (".png", ".jpg", ".jpeg", ".webp")


def png_path(folder: Path, index: int) -> Path:
    """Where an image is kept."""
    return folder / "images" / f"{index:06}.png"


def opened(path: Path) -> Tensor:
    """The bytes (H, W, 1 or 3) of an image file."""
    with needs("evaluate"):
        import numpy as np
        from PIL import Image
    with Image.open(path) as image:
        array = np.array(image if image.mode == "L" else image.convert("RGB"))
    return torch.from_numpy(array if array.ndim == 3 else array[..., None])


def pack(folder: Path, count: int, classes: Sequence[int]) -> Path:
    """Pack the PNG files of a folder into an .npz in ADM's layout: arr_0 (N, H, W, C) and arr_1, the classes.

    One image is in memory at a time.
    """
    with needs("evaluate"):
        import numpy as np
    first = opened(png_path(folder, 0))
    target = folder / f"samples_{'x'.join(map(str, (count, *first.shape)))}.npz"
    with (
        whole_file(target) as whole,
        zipfile.ZipFile(whole, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive,
    ):
        with archive.open("arr_0.npy", "w", force_zip64=True) as file:
            header = {"descr": "|u1", "fortran_order": False, "shape": (count, *first.shape)}
            np.lib.format.write_array_header_1_0(file, header)
            for i in range(count):
                file.write(opened(png_path(folder, i)).numpy().tobytes())
        if classes:
            with archive.open("arr_1.npy", "w") as file:
                np.save(file, np.asarray(classes, dtype=np.int64))
    return target


def read(source: str, count: int) -> Tensor:
    """The first `count` images of a folder, or of an .npz with arr_0: (N, C, H, W) in [0, 1]."""
    path = Path(source)
    if path.is_dir():
        files = sorted(file for file in path.iterdir() if file.suffix.lower() in KINDS)[:count]
        pictures = [opened(file) for file in files]
        if len({picture.shape for picture in pictures}) > 1:
            raise ValueError(f"the images in {path} differ in size: resize them to one")
        found = torch.stack(pictures) if pictures else torch.empty(0)
    else:
        try:
            array = npz.read(path, ["arr_0"], count)["arr_0"]
        except (ValueError, KeyError) as error:
            raise ValueError(f"{path} is no folder of images and no .npz with arr_0: {error}") from None
        if array.dtype != "uint8" or array.ndim != 4:
            raise ValueError(
                f"{path}: arr_0 must hold images, uint8 (N, H, W, C), not {array.dtype} {array.shape}"
            )
        found = torch.from_numpy(array)
    if not len(found) or found.dtype != torch.uint8 or found.ndim != 4:
        raise ValueError(f"{path} holds no images: {found.dtype} {tuple(found.shape)}")
    return found.permute(0, 3, 1, 2).float() / 255
