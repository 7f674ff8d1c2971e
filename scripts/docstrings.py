"""Docstrings are plain text, written to be read in the code; this makes Markdown of them for the site."""

from __future__ import annotations

import re
from typing import Any

from griffe import Docstring, Extension, Object

EXAMPLE = re.compile(r"^>>> .*(?:\n.+)*", re.MULTILINE)
ARGUMENT = re.compile(r"^(\w+(?:, \w+)*): ", re.MULTILINE)


class Plain(Extension):
    """Fence the examples, and make a list of the lines that explain arguments."""

    def on_object(self, *, obj: Object, **known: Any) -> None:
        """Rewrite a docstring after its object was loaded."""
        if obj.docstring:
            obj.docstring = Docstring(markdown(obj.docstring.value), parent=obj)


def markdown(text: str) -> str:
    """Turn the text of a docstring into Markdown."""
    text = EXAMPLE.sub(lambda found: f"```pycon\n{found[0]}\n```", text)
    return "\n\n".join(map(_listed, text.split("\n\n")))


def _listed(paragraph: str) -> str:
    if paragraph.startswith(("```", "    ")):
        return paragraph
    return ARGUMENT.sub(r"\n- `\1`: ", paragraph)
