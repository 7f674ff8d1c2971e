"""Arrays from .npz files, checked by their headers before anything is read; nothing is ever unpickled."""

from __future__ import annotations

import math
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from .extras import needs


def read(path: str | Path, names: Sequence[str], rows: int | None = None) -> dict[str, Any]:
    """Return those of the named arrays that a file has; with `rows`, the first of each.

    An array takes the memory that its archive says and no more, whatever its header wants.
    """
    with needs("evaluate"):
        import numpy  # noqa: F401
    found = {}
    try:
        with zipfile.ZipFile(path) as archive:
            for name in names:
                if f"{name}.npy" in archive.namelist():
                    found[name] = _named(name, archive, rows)
    except FileNotFoundError:
        raise ValueError(f"no file {path}") from None
    except (zipfile.BadZipFile, EOFError, NotImplementedError, OSError, ValueError) as error:
        raise ValueError(f"{path} is no readable .npz ({error}): fetch it again") from None
    return found


def _named(name: str, archive: zipfile.ZipFile, rows: int | None) -> Any:
    """Read an array, and let every complaint name it."""
    try:
        with archive.open(f"{name}.npy") as file:
            return _array(file, archive.getinfo(f"{name}.npy").file_size, rows)
    except Exception as error:  # zip, deflate and NumPy's header have their own ways to be damaged
        raise ValueError(f"{name}: {str(error).strip() or type(error).__name__}") from None


def _array(file: Any, size: int, rows: int | None) -> Any:
    import numpy as np

    version = np.lib.format.read_magic(file)
    readers = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}
    if version not in readers:
        raise ValueError(f"version {version} of the format is not read")
    shape, columns_first, dtype = readers[version](file)
    if dtype.hasobject:
        raise ValueError("it holds pickled objects, which are not opened")
    if size - file.tell() != math.prod(shape) * dtype.itemsize:
        raise ValueError(f"its shape {shape} of {dtype} does not fit its {size} bytes")
    if rows is not None and shape and not columns_first:
        shape = (min(rows, shape[0]), *shape[1:])
    data = file.read(math.prod(shape) * dtype.itemsize)
    return np.frombuffer(bytearray(data), dtype).reshape(shape, order="F" if columns_first else "C")
