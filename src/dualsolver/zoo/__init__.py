"""The embedded models: `load` and `path` by name; `names` says which there are."""

from .registry import load, names, path

__all__ = ["load", "names", "path"]
