"""The captioned emoji: building them from packages, and reading them as pictures, captions and labels."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from ...checks import check_choice
from ...files import write_whole
from ..registry import WEIGHTS, check_bytes, remember
from .sources import SOURCES, archive, digest, files

FOLDER, VARIABLE = "runs/emoji", "DUALSOLVER_EMOJI"
PICTURES, ROWS = "pictures.safetensors", "rows.json"
CAPTIONS = "emoji-captions"  # the folder of those that are shipped
STYLES = ("noto", "twemoji", "fluent 3d")
HELD_OUT, SEED = 0.05, "dual-solver 1"  # the share of compositions that nothing is trained on


@dataclass(frozen=True)
class Row:
    """An emoji in a style: its CLDR name, keywords, characters, and the number of its subgroup."""

    name: str
    tags: tuple[str, ...]
    emoji: str
    style: str
    subgroup: int
    held_out: bool

    @property
    def caption(self) -> str:
        """The name, with the style unless it is Noto's."""
        return styled(self.name, self.style)


@dataclass(frozen=True, eq=False)
class Emoji:
    """Pictures (N, 3, 32, 32) uint8 with the subgroup of each (N,), their rows, and the hash of all of it."""

    pictures: Tensor
    classes: Tensor
    rows: tuple[Row, ...]
    hash: str

    def __len__(self) -> int:
        return len(self.rows)


def styled(text: str, style: str) -> str:
    """A text in a style; Noto goes without saying.

    >>> styled("red heart", "noto"), styled("red heart", "twemoji")
    ('red heart', 'red heart, twemoji')
    """
    return text if style == "noto" else f"{text}, {style}"


def is_held_out(name: str) -> bool:
    """Whether a composition (its name has a colon: tones, hair, families; not flags) is held out.

    >>> [is_held_out(name) for name in ("red heart", "flag: Japan", "woman firefighter: dark skin tone")]
    [False, False, False]
    """
    head, colon, _ = name.partition(":")
    if not colon or head in ("flag", "keycap"):
        return False
    return int(digest(f"{SEED} {name}".encode())[:8], 16) < HELD_OUT * 2**32


def read(split: str, given: str | Path | None = None) -> Emoji:
    """Read the "train" or the "test" emoji (the compositions that are held out), or "all"."""
    check_choice("split", split, ("train", "test", "all"))
    place = Path(given or os.environ.get(VARIABLE) or FOLDER)
    if not (place / ROWS).exists():
        raise ValueError(
            f"no emoji in {place}: make them with dual-solver zoo data emoji --out {place}, "
            f"or name their folder with --data or {VARIABLE}"
        )
    from safetensors.torch import load

    content = (place / PICTURES).read_bytes(), (place / ROWS).read_bytes()
    rows = [Row(**row | {"tags": tuple(row["tags"])}) for row in json.loads(content[1])]
    chosen = [i for i, row in enumerate(rows) if split == "all" or row.held_out == (split == "test")]
    rows = [rows[i] for i in chosen]
    classes = torch.tensor([row.subgroup for row in rows])
    return Emoji(load(content[0])["pictures"][chosen], classes, tuple(rows), digest(b"".join(content)))


def captions(split: str = "train") -> list[str]:
    """The captions of the "train" or of the "test" emoji, in an order drawn once; no data is needed."""
    check_choice("split", split, ("train", "test"))
    found: dict[str, list[str]] = json.loads(check_bytes(CAPTIONS, "captions.json").read_text())
    return found[split]


def ship(emoji: Emoji) -> Path:
    """Write the captions that `captions` reads, with the rights that Unicode has in them."""
    found: dict[str, list[str]] = {"train": [], "test": []}
    for i in torch.randperm(len(emoji), generator=torch.Generator().manual_seed(0)).tolist():
        found["test" if emoji.rows[i].held_out else "train"].append(emoji.rows[i].caption)
    folder = WEIGHTS / CAPTIONS
    write_whole(folder / "captions.json", json.dumps(found, ensure_ascii=False, indent=0) + "\n")
    write_whole(folder / "LICENSE.txt", f"{SOURCES['captions'].rights}\n")
    remember(CAPTIONS)
    return folder


def build(sources: Path, out: Path) -> Iterator[int]:
    """Draw all emoji into a folder, with the rights of what they are made of; yield how many are drawn."""
    from safetensors.torch import save

    from .drawing import Files, Noto

    pictures, rows = list[Tensor](), list[dict[str, Any]]()
    for style in STYLES:
        draw = Noto(sources) if style == "noto" else Files(style, sources)
        for about in named(sources):
            if (picture := draw(about["emoji"])) is not None:
                pictures.append(picture)
                rows.append(about | {"style": style})
                yield len(rows)
    for name in ("captions", *STYLES):
        rights = f"{SOURCES[name].rights}\n\n{_licence(archive(name, sources))}"
        write_whole(out / "licences" / f"{name}.txt", rights)
    write_whole(out / PICTURES, save({"pictures": torch.stack(pictures)}))
    write_whole(out / ROWS, json.dumps(rows, ensure_ascii=False, indent=0) + "\n")


def named(sources: Path) -> list[dict[str, Any]]:
    """All emoji with their names, keywords and subgroups, in the order of Unicode."""
    content = dict(files(archive("captions", sources)))
    found = json.loads(content["package/en/data.json"])
    return [
        {
            "name": one["label"],
            "tags": every.get("tags", []),
            "emoji": one["emoji"],
            "subgroup": every.get("subgroup", 32),  # letters that flags are made of
            "held_out": is_held_out(one["label"]),
        }
        for every in found
        for one in (every, *every.get("skins", ()))
    ]


def _licence(path: Path) -> str:
    """The licence that an archive brings."""
    for name, content in files(path):
        if Path(name).name.lower().split(".")[0] in ("license", "copyright"):
            return content.decode()
    return "The package brings no licence file.\n"
