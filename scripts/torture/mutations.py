"""Changes of files: of their bytes, of the JSON in them, of arrays; each says what an error has to name."""

from __future__ import annotations

import copy
import json
import random
from collections.abc import Callable
from typing import Any, NamedTuple

SECRET = "torture-secret"  # in every path and address that a mutation brings in: nobody may look for it
ODD: list[Any] = [
    *(
        None,
        True,
        False,
        "",
        "x",
        "NaN",
        "1",
        [],
        {},
        [[]],
        [1],
        [None],
        {"a": 1},
        "\ud800",
        "\0",
        "é" * 1000,
    ),
    *(0, 1, -1, 7, 2**31, 2**63, 10**12, 10**30, -0.0, 0.5, 1e-300, 1e300, -1e300, 1e-5),
    *(f"/tmp/{SECRET}", f"file:///tmp/{SECRET}", f"https://{SECRET}.invalid/x", f"../../{SECRET}"),
    *("__import__('os').system('true')", "${jndi:ldap://x}", "!!python/object", "os.system", [0] * 5000),
]
NOT_FINITE = ["NaN", "Infinity", "-Infinity", "1e999", "-1e999", "1" * 5000]


class Mutation(NamedTuple):
    """A changed file; `names` are words of which an error must have one; `same`: it means what it meant."""

    content: bytes
    names: tuple[str, ...] = ()
    same: bool = False
    said: str = ""


def of_bytes(content: bytes, chance: random.Random) -> Mutation:
    """Flip, cut, repeat, insert or exchange some bytes."""
    data, kind = bytearray(content), chance.choice(("flip", "cut", "repeat", "insert", "zero", "append"))
    at = chance.randrange(len(data))
    if kind == "flip":
        for _ in range(chance.choice((1, 1, 4, 32))):
            data[chance.randrange(len(data))] ^= 1 << chance.randrange(8)
    elif kind == "cut":
        del data[at : at + chance.choice((1, 8, len(data)))]
    elif kind == "repeat":
        data[at:at] = data[at : at + 64]
    elif kind == "zero":
        data[at : at + 16] = bytes(len(data[at : at + 16]))
    else:
        data[at if kind == "insert" else len(data) :] = chance.randbytes(chance.choice((1, 8, 256)))
    return Mutation(bytes(data), said=f"{kind} at byte {at}")


def of_json(content: bytes, chance: random.Random) -> Mutation:
    """Change one place of a JSON document, or its form alone."""
    document = json.loads(content)
    place, parent = chance.choice(list(places(document)))
    key, said = place[-1], ".".join(map(str, place))
    names = tuple(str(part) for part in place if isinstance(part, str))[-2:]
    kind = chance.choice(CHANGES)
    if kind == "odd":
        parent[key] = copy.deepcopy(chance.choice(ODD))
    elif kind == "delete":
        del parent[key]
    elif kind == "rename" and isinstance(parent, dict):
        parent[f"{key}x"] = parent.pop(key)
    elif kind == "add" and isinstance(parent, dict):
        parent["surprise"], names = chance.choice(ODD), ("surprise", *names)
    elif kind == "grow" and isinstance(parent, list):
        parent.insert(key, copy.deepcopy(parent[key]))
    elif kind == "not finite":
        parent[key] = "@here@"
        text = json.dumps(document).replace('"@here@"', chance.choice(NOT_FINITE))
        return Mutation(text.encode(), (), said=f"not finite at {said}")
    elif kind == "twice" and isinstance(parent, dict):
        parent["@twice@"] = parent[key]
        text = json.dumps(document).replace('"@twice@"', json.dumps(key))
        return Mutation(text.encode(), names, said=f"twice {said}")
    else:
        return same_json(document, chance)
    return Mutation(json.dumps(document).encode(), names, said=f"{kind} at {said}")


CHANGES = ("odd",) * 6 + ("delete", "rename", "add", "grow", "not finite", "twice", "form")


def same_json(document: Any, chance: random.Random) -> Mutation:
    """The same document in another form: indented, packed, its keys in another order, with white space."""
    form = chance.choice(("indent", "packed", "order", "space", "ascii"))
    forms: dict[str, dict[str, Any]] = {
        "indent": {"indent": chance.randrange(9)},
        "packed": {"separators": (",", ":")},
        "ascii": {"ensure_ascii": chance.random() < 0.5},
    }
    if form == "order":
        document = shuffled(document, chance)
    text = json.dumps(document, **forms.get(form, {}))
    return Mutation((f" \n{text}\r\n\t" if form == "space" else text).encode(), same=True, said=form)


def shuffled(value: Any, chance: random.Random) -> Any:
    """The same objects with their keys in another order."""
    if isinstance(value, list):
        return [shuffled(one, chance) for one in value]
    if not isinstance(value, dict):
        return value
    keys = list(value)
    chance.shuffle(keys)
    return {key: shuffled(value[key], chance) for key in keys}


def places(value: Any, above: tuple[Any, ...] = ()) -> Any:
    """Every place in a document: its path, and the object or list that it is in."""
    items = value.items() if isinstance(value, dict) else enumerate(value)
    for key, inner in list(items):
        yield (*above, key), value
        if isinstance(inner, dict | list):
            yield from places(inner, (*above, key))


def either(*ways: Callable[[bytes, random.Random], Mutation]) -> Callable[[bytes, random.Random], Mutation]:
    """One of several ways to change a file."""
    return lambda content, chance: chance.choice(ways)(content, chance)


def of_text(content: bytes, chance: random.Random) -> Mutation:
    """Lines added that mean nothing, or the bytes changed."""
    if chance.random() < 0.7:
        return of_bytes(content, chance)
    lines = content.split(b"\n")
    lines.insert(chance.randrange(len(lines)), chance.choice((b"", b"  ", b"\t")))
    return Mutation(chance.choice((b"\n", b"\r\n")).join(lines), same=True, said="lines")


def of_safetensors(content: bytes, chance: random.Random) -> Mutation:
    """Change the JSON header of a safetensors file, what is packed in its metadata, or the bytes."""
    if chance.random() < 0.4:
        return of_bytes(content, chance)
    length = int.from_bytes(content[:8], "little")
    header, data = json.loads(content[8 : 8 + length]), content[8 + length :]
    notes, names = header.get("__metadata__", {}), ()
    packed = [name for name, text in notes.items() if text[:1] in '[{"']
    if packed and chance.random() < 0.6:
        name = chance.choice(packed)
        inner = of_json(b'{"x": %s}' % notes[name].encode(), chance)
        found = inner.content.decode().strip()
        if found.startswith('{"x": ') and found.endswith("}"):
            notes[name] = found[6:-1]
        said = f"{name}: {inner.said}"
        text = json.dumps(header).encode()
    else:
        inner = of_json(json.dumps(header).encode(), chance)
        text, said = inner.content, f"header: {inner.said}"
    return Mutation(len(text).to_bytes(8, "little") + text + data, names, said=said)
