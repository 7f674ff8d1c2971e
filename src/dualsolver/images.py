"""Images as files: PNG by their number, the .npz that ADM's evaluation reads, and reading either."""

from __future__ import annotations

import io
import os
import zipfile
from collections.abc import Sequence
from pathlib import Path

import torch
from torch import Tensor

from .extras import needs

KINDS = (".png", ".jpg", ".jpeg", ".webp")


def to_bytes(images: Tensor) -> Tensor:
    """Images (B, C, H, W) as uint8 (B, H, W, C); vectors (B, D), such as the toy's, are a row of pixels.

    >>> to_bytes(torch.tensor([[0.0, 0.5, 1.2]]))[0, 0, :, 0].tolist()
    [0, 128, 255]
    """
    if images.ndim == 2:
        images = images[:, None, None]
    return (images.float().clamp(0, 1) * 255).round().to("cpu", torch.uint8).permute(0, 2, 3, 1).contiguous()


def png_path(folder: Path, index: int) -> Path:
    """Where an image is kept."""
    return folder / "images" / f"{index:06}.png"


def png(image: Tensor) -> bytes:
    """An image (H, W, 1 or 3) of bytes as a PNG file."""
    with needs("evaluate"):
        from PIL import Image
    buffer = io.BytesIO()
    Image.fromarray((image[..., 0] if image.shape[-1] == 1 else image).numpy()).save(buffer, "PNG")
    return buffer.getvalue()


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
    partial = target.with_name(f".{target.name}.{os.getpid()}.partial")
    try:
        with zipfile.ZipFile(partial, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
            with archive.open("arr_0.npy", "w", force_zip64=True) as file:
                header = {"descr": "|u1", "fortran_order": False, "shape": (count, *first.shape)}
                np.lib.format.write_array_header_1_0(file, header)
                for i in range(count):
                    file.write(opened(png_path(folder, i)).numpy().tobytes())
            if classes:
                with archive.open("arr_1.npy", "w") as file:
                    np.save(file, np.asarray(classes, dtype=np.int64))
        os.replace(partial, target)
    finally:
        partial.unlink(missing_ok=True)
    return target


def read(source: str, count: int) -> Tensor:
    """The first `count` images of a folder, or of an .npz with arr_0: (N, C, H, W) in [0, 1]."""
    with needs("evaluate"):
        import numpy as np
    path = Path(source)
    if path.is_dir():
        files = sorted(file for file in path.iterdir() if file.suffix.lower() in KINDS)[:count]
        pictures = [opened(file) for file in files]
        if len({picture.shape for picture in pictures}) > 1:
            raise ValueError(f"the images in {path} differ in size: resize them to one")
        found = torch.stack(pictures) if pictures else torch.empty(0)
    else:
        try:
            with np.load(path, allow_pickle=False) as file:
                found = torch.from_numpy(file["arr_0"][:count])
        except (OSError, ValueError, KeyError, zipfile.BadZipFile) as error:
            raise ValueError(f"{path} is no folder of images and no .npz with arr_0: {error}") from None
    if not len(found) or found.dtype != torch.uint8 or found.ndim != 4:
        raise ValueError(f"{path} holds no images: {found.dtype} {tuple(found.shape)}")
    return found.permute(0, 3, 1, 2).float() / 255
