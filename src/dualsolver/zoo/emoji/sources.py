"""The packages that the emoji are made of: fetched once, checked, and read where they are packed."""

from __future__ import annotations

import hashlib
import io
import subprocess
import tarfile
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

NPM, DEBIAN = ("npm", "pack", "--silent"), ("apt-get", "-o", "APT::Sandbox::User=root", "download", "-q")


@dataclass(frozen=True)
class Source:
    """A package: how to fetch it, the name and the sha256 of its archive, and whose work is in it."""

    fetch: tuple[str, ...]
    archive: str
    sha256: str
    rights: str
    pinned: bool = True  # Debian's version depends on its release


SOURCES = {
    "captions": Source(
        (*NPM, "emojibase-data@17.0.0"),
        "emojibase-data-17.0.0.tgz",
        "d01d0e2ca4e22cb402679532155342c71e2e871f25c32223c013b8b166ebdf5a",
        "emojibase-data, MIT licence; names and keywords of Unicode CLDR, Unicode licence v3",
    ),
    "noto": Source(
        (*DEBIAN, "fonts-noto-color-emoji"),
        "fonts-noto-color-emoji_*.deb",
        "a5ab0f69c7938423862320d9aca5dd187b3fd879d6a9a57dd52e17c3fa8d2751",
        "Noto Color Emoji, Google, SIL Open Font License 1.1",
        pinned=False,
    ),
    "twemoji": Source(
        (*NPM, "emoji-datasource-twitter@16.0.0"),
        "emoji-datasource-twitter-16.0.0.tgz",
        "f64a530c63bca463bd8317fdc4615ce63a53a0c65018e4ce2d848aaba7a28877",
        "Twemoji, Twitter and other contributors, CC-BY 4.0; packed by emoji-datasource-twitter, MIT licence",
    ),
    "fluent 3d": Source(
        (*NPM, "@lobehub/fluent-emoji-3d@1.1.0"),
        "lobehub-fluent-emoji-3d-1.1.0.tgz",
        "c1bb7eee7de090205a232518a9ab4adb3df458bfbe8a1f78232991194c8b2e58",
        "Fluent Emoji, Microsoft, MIT licence; packed by @lobehub/fluent-emoji-3d",
    ),
}


def archive(name: str, folder: Path) -> Path:
    """Return the archive of a source, fetched into the folder if it is not there, with its hash checked."""
    source = SOURCES[name]
    if not (found := sorted(folder.glob(source.archive))):
        folder.mkdir(parents=True, exist_ok=True)
        _run(source.fetch, folder)
        found = sorted(folder.glob(source.archive))
    if not found:
        raise ValueError(f"{' '.join(source.fetch)} left no {source.archive} in {folder}")
    if digest(found[-1].read_bytes()) != source.sha256:
        about = f"{found[-1]} is not the {name} that the shipped models saw"
        if source.pinned:
            raise ValueError(f"{about}: remove it, and it is fetched again")
        warnings.warn(f"{about}: the data will have another hash", stacklevel=2)
    return found[-1]


def digest(content: bytes) -> str:
    """The sha256 of some bytes."""
    return hashlib.sha256(content).hexdigest()


def files(path: Path) -> Iterator[tuple[str, bytes]]:
    """Yield name and content of the files in an archive (.tgz, .deb); nothing of it touches the disk."""
    if path.suffix != ".deb":
        with tarfile.open(path) as packed:
            yield from _members(packed)
        return
    unpacked = subprocess.run(["dpkg-deb", "--fsys-tarfile", path], check=True, capture_output=True).stdout
    with tarfile.open(fileobj=io.BytesIO(unpacked)) as packed:
        yield from _members(packed)


def _members(packed: tarfile.TarFile) -> Iterator[tuple[str, bytes]]:
    for member in packed:
        if member.isfile() and (file := packed.extractfile(member)):
            yield member.name, file.read()


def _run(command: tuple[str, ...], folder: Path) -> None:
    try:
        subprocess.run(command, cwd=folder, check=True, capture_output=True, text=True)
    except FileNotFoundError:
        raise ValueError(f"{command[0]} is missing: put the packages into {folder} by hand") from None
    except subprocess.CalledProcessError as error:
        reason = error.stderr.strip().splitlines()[-1:] or ["no reason given"]
        raise ValueError(f"{' '.join(command)} failed: {reason[0]}") from None
