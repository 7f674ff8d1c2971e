"""Prompts from files: one a line, MSCOCO's official JSON (a caption an image, by a seed), MJHQ-30K's."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import torch

from .checks import whole


def prompts(path: str | Path) -> list[str]:
    """The prompts of a file: a JSON of MSCOCO or of MJHQ-30K by what is in it, else one a line."""
    if Path(path).suffix != ".json":
        return read(path)
    found = _object(path, "prompts neither as MSCOCO nor as MJHQ-30K has them")
    if "annotations" in found:
        return coco(path)
    if not found:
        raise ValueError(f"{path} is empty: it must hold a prompt an entry")
    return [_text(path, name, row, "prompt") for name, row in sorted(found.items())]


def _object(path: str | Path, otherwise: str) -> dict[str, Any]:
    """The JSON object in a file."""
    try:
        found = json.loads(Path(path).read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise ValueError(f"{path} has {otherwise}: {error}") from None
    if not isinstance(found, dict):
        raise ValueError(f"{path} has {otherwise}: it is a {type(found).__name__}, not an object")
    return found


def _text(path: str | Path, where: str, row: Any, key: str) -> str:
    """A text of an entry, with something in it that can be written in any file."""
    text = row.get(key) if isinstance(row, dict) else None
    if not isinstance(text, str) or any("\ud800" <= letter <= "\udfff" for letter in text):
        raise ValueError(f"{path}: {where}.{key} must be a text, not {text!r:.80}")
    return text


def read(path: str | Path) -> list[str]:
    """The prompts of a text file, one a line; empty lines are left out."""
    try:
        lines = Path(path).read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise ValueError(f"no prompts in {path}: {error}") from None
    found = [line.strip() for line in lines if line.strip()]
    if not found:
        raise ValueError(f"{path} is empty: write one prompt a line")
    return found


def coco(path: str | Path, count: int | None = None, seed: int = 0) -> list[str]:
    """One caption of each image of an MSCOCO captions file, images and captions drawn by the seed.

    The file is annotations/captions_*.json: a list of {"image_id", "id", "caption"}. Its own order does not
    matter; white space within a caption becomes single spaces.
    """
    found = _object(path, "no captions as MSCOCO has them")
    rows = found.get("annotations")
    if not isinstance(rows, list):
        raise ValueError(f"{path}: annotations must be a list, not {rows!r:.80}")
    texts = {}
    for i, row in enumerate(rows):
        where = f"annotations[{i}]"
        text = _text(path, where, row, "caption")
        image, caption = (whole(f"{path}: {where}.{key}", row.get(key), 0) for key in ("image_id", "id"))
        texts[image, caption] = " ".join(text.split())
    images: dict[int, list[str]] = {}
    for (image, _), text in sorted(texts.items()):
        if text:
            images.setdefault(image, []).append(text)
    if not images:
        raise ValueError(f"{path}: annotations holds no caption with a text")
    if count is not None and count > len(images):
        raise ValueError(f"{path} has captions of {len(images)} images, not {count}")
    generator = torch.Generator().manual_seed(seed)
    order = torch.randperm(len(images), generator=generator)[:count]
    ids = list(images)
    chosen = [images[ids[i]] for i in order.tolist()]
    return [texts[int(torch.randint(len(texts), (), generator=generator))] for texts in chosen]
