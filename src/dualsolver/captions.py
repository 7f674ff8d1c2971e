"""Prompts from files: one a line, MSCOCO's official JSON (a caption an image, by a seed), MJHQ-30K's."""

from __future__ import annotations

import json
from pathlib import Path

import torch


def prompts(path: str | Path) -> list[str]:
    """The prompts of a file: a JSON of MSCOCO or of MJHQ-30K by what is in it, else one a line."""
    if Path(path).suffix != ".json":
        return read(path)
    try:
        found = json.loads(Path(path).read_text(encoding="utf-8"))
        if "annotations" in found:
            return coco(path)
        return [row["prompt"] for _, row in sorted(found.items())]
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise ValueError(
            f"{path} has prompts neither as MSCOCO nor as MJHQ-30K has them: {error!r}"
        ) from None


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
    try:
        rows = json.loads(Path(path).read_text(encoding="utf-8"))["annotations"]
        texts = {(row["image_id"], row["id"]): " ".join(row["caption"].split()) for row in rows}
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ValueError(f"{path} is no captions file of MSCOCO: {error!r}") from None
    images: dict[int, list[str]] = {}
    for (image, _), text in sorted(texts.items()):
        if text:
            images.setdefault(image, []).append(text)
    if count is not None and count > len(images):
        raise ValueError(f"{path} has captions of {len(images)} images, not {count}")
    generator = torch.Generator().manual_seed(seed)
    order = torch.randperm(len(images), generator=generator)[:count]
    ids = list(images)
    chosen = [images[ids[i]] for i in order.tolist()]
    return [texts[int(torch.randint(len(texts), (), generator=generator))] for texts in chosen]
