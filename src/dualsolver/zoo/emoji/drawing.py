"""Drawing the emoji of three styles as RGB pictures of 32 x 32 on white."""

from __future__ import annotations

import io
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from ...extras import needs
from .sources import archive, files

SIZE, STRIKE = 32, 109  # pixels; the one size at which the font holds bitmaps, of 136 x 128
FONT = "NotoColorEmoji.ttf"
FOLDERS = {"twemoji": "img/twitter/64/", "fluent 3d": "assets/"}


class Noto:
    """The glyphs of the font; what it does not know as one glyph is None."""

    def __init__(self, folder: Path) -> None:
        with needs("evaluate"):
            from PIL import ImageFont, features
        if not features.check("raqm"):
            raise ValueError("Pillow is built without libraqm, which emoji of several characters need")
        content = dict(files(archive("noto", folder)))
        font = next(data for name, data in content.items() if name.endswith(FONT))
        self._font = ImageFont.truetype(io.BytesIO(font), STRIKE, layout_engine=ImageFont.Layout.RAQM)
        self._width = self._font.getlength("\N{GRINNING FACE}")

    def __call__(self, emoji: str) -> Tensor | None:
        from PIL import Image, ImageDraw

        if self._font.getlength(emoji) != self._width:
            return None
        side = int(self._width)
        canvas = Image.new("RGBA", (side, side), (0, 0, 0, 0))
        draw = ImageDraw.Draw(canvas)
        draw.text((0, side // 2), emoji, font=self._font, embedded_color=True, anchor="lm")
        return shrunk(canvas)


class Files:
    """The pictures of a package with a file an emoji, named by its code points."""

    def __init__(self, style: str, folder: Path) -> None:
        pictures = ((name, data) for name, data in files(archive(style, folder)) if FOLDERS[style] in name)
        self._content: Mapping[str, bytes] = {key(Path(name).stem): data for name, data in pictures}

    def __call__(self, emoji: str) -> Tensor | None:
        from PIL import Image

        found = self._content.get(key("-".join(f"{ord(c):x}" for c in emoji)))
        return None if found is None else shrunk(Image.open(io.BytesIO(found)).convert("RGBA"))


def key(name: str) -> str:
    """Code points without those that only ask for a colourful picture.

    >>> key("2764-FE0F"), key("00a9-fe0f")
    ('2764', 'a9')
    """
    return "-".join(part.lstrip("0") for part in name.lower().split("-") if part != "fe0f")


def shrunk(picture: Any) -> Tensor:
    """Put an RGBA picture on white and shrink it, as light adds up: (3, 32, 32) uint8."""
    from PIL import Image

    white = Image.new("RGBA", picture.size, "white")
    white.alpha_composite(picture)
    small = white.convert("RGB").resize((SIZE, SIZE), Image.Resampling.LANCZOS)
    return (
        torch.frombuffer(bytearray(small.tobytes()), dtype=torch.uint8).view(SIZE, SIZE, 3).permute(2, 0, 1)
    )
