"""Docstrings are plain text, written to be read in the code; this makes Markdown of them for the site."""

from __future__ import annotations

import re
from typing import Any

from griffe import Docstring, Extension, Object

EXAMPLE = re.compile(r"^>>> .*(?:\n.+)*", re.MULTILINE)
ARGUMENT = re.compile(r"(?:^|;\s+)(\w+(?:, \w+)*): ", re.MULTILINE)


class Plain(Extension):
    """Fence the examples, and make a list of the lines that explain arguments."""

    def on_object(self, *, obj: Object, **known: Any) -> None:
        """Rewrite a docstring after its object was loaded."""
        if obj.docstring:
            obj.docstring = Docstring(markdown(obj.docstring.value), parent=obj)


def markdown(text: str) -> str:
    """Turn the text of a docstring into Markdown; its first paragraph explains no arguments."""
    first, *others = EXAMPLE.sub(lambda found: f"```pycon\n{found[0]}\n```", text).split("\n\n")
    return "\n\n".join([first, *map(_listed, others)])


def _listed(paragraph: str) -> str:
    if not ARGUMENT.match(paragraph):
        return paragraph
    return ARGUMENT.sub(r"\n- `\1`: ", paragraph)
