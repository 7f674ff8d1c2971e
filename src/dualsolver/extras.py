"""Optional dependencies: a missing one is named together with the line that installs it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def needs(extra: str) -> Iterator[None]:
    """Turn a failed import inside the block into one line that says which extra to install.

    >>> with needs("evaluate"):
    ...     import a_package_that_is_not_there
    Traceback (most recent call last):
    ModuleNotFoundError: a_package_that_is_not_there is missing: pip install 'dual-solver[evaluate]'
    """
    try:
        yield
    except ModuleNotFoundError as error:
        if error.name is None or error.name.split(".")[0] == "dualsolver":
            raise
        line = f"{error.name.split('.')[0]} is missing: pip install 'dual-solver[{extra}]'"
        raise ModuleNotFoundError(line, name=error.name) from None
