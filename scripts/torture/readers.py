"""What the package reads: a file of each kind, how it is read, and how it is changed."""

from __future__ import annotations

import io
import json
import os
import random
import zipfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from mutations import SECRET, Mutation, either, of_bytes, of_json, of_safetensors, of_text

import dualsolver as ds
from dualsolver import captions, images
from dualsolver.backbones import load as load_backbone
from dualsolver.classifiers.weights import fit_in, read_weights
from dualsolver.fit import Recipe, State
from dualsolver.learn import Plan, agree, read_state
from dualsolver.metrics import Moments
from dualsolver.parameters import read as read_artifact
from dualsolver.statistics import Statistics
from dualsolver.tally import Book, Tally
from dualsolver.teacher import Teacher

Change = Callable[[bytes, random.Random], Mutation]


class Reader(NamedTuple):
    """A whole file, what reads it, how it is changed, and its share of all mutations.

    read: gives what the file says, in a form that compares with `==`.
    """

    path: Path
    read: Callable[[Path], Any]
    change: Change
    share: int = 1


class Evil:
    """Runs code if it is unpickled."""

    def __reduce__(self) -> Any:
        return os.system, (f"touch /tmp/{SECRET}",)


def readers(folder: Path, pipeline: Path) -> dict[str, Reader]:
    """Write a file of each kind; `pipeline` is a folder with a tiny DiTPipeline."""
    parts = (artifacts, runs, prompts, arrays, tensors)
    found = {name: one for part in parts for name, one in part(folder).items()}
    return found | configs(pipeline)


def artifacts(folder: Path) -> dict[str, Reader]:
    """Learned solvers and fixed ones, each with a schedule of another family."""
    learned = ds.DualSolver(3), ds.DualSolver(5)
    solvers: dict[str, tuple[Any, ds.Schedule]] = {
        "dual": (learned, ds.VP.scaled_linear(steps=50)),
        "bns": (ds.BNS(3), ds.Flow(3.0)),
        "ds": (ds.DS(4), ds.VE(0.02, 10.0)),
        "fixed": (ds.DPMpp(4), ds.VP.cosine(40)),
    }
    found, change = {}, either(of_json, of_json, of_json, of_bytes)
    for name, (solver, schedule) in solvers.items():
        options: dict[str, Any] = {"backbone": "toy", "guidance": 1.5, "runs": {"3": {"step": 1}}}
        path = ds.save(solver, folder / name, schedule, "noise", **options)
        found[f"artifact, {name}"] = Reader(path, tables, change, 8)
    return found


def tables(path: Path) -> Any:
    """Everything that an artifact makes; for a table that cannot be made, the reason."""
    found: list[Any] = []
    for nfe in sorted(map(int, read_artifact(path)["solvers"])):
        solver, schedule, info = ds.load(path, nfe=nfe)
        try:
            with torch.no_grad():
                table = solver(schedule or ds.VP.linear())
            found.append((nfe, table.t.tolist(), table.weights.tolist(), info))
        except ValueError as error:
            found.append((nfe, str(error), info))
    return found


def runs(folder: Path) -> dict[str, Reader]:
    """The plan and the state of a run of learning."""
    recipe = Recipe(steps=4)
    plan = Plan((3,), "dual", {}, recipe, None, {"backbone": "toy", "seed": 0, "objective": {"sample": 1.0}})
    agree(plan, folder)
    raw = [0.1 * i for i in range(5)]
    state = State(2, 40, "own", raw, raw, [raw, raw], -1.5, 1, raw)
    path = folder / "nfe-3" / "state.json"
    path.parent.mkdir()
    path.write_text(json.dumps(vars(state)))
    either_way = either(of_json, of_json, of_bytes)
    return {
        "plan of a run": Reader(folder / "plan.json", lambda path: agree(plan, path.parent), either_way, 2),
        "state of a run": Reader(path, lambda path: vars(read_state(path)), either_way, 4),
    }


def prompts(folder: Path) -> dict[str, Reader]:
    """Prompts as text, as MSCOCO has them and as MJHQ-30K does."""
    coco = [{"image_id": i // 2, "id": i, "caption": f"a picture of {i} things"} for i in range(8)]
    texts = {
        "prompts.txt": "a red cat\na blue dog\nüber alles\n",
        "coco.json": json.dumps({"info": {"year": 2014}, "annotations": coco}),
        "mjhq.json": json.dumps({f"{i:03x}": {"category": "x", "prompt": f"a cat {i}"} for i in range(8)}),
    }
    found = {}
    for name, text in texts.items():
        (folder / name).write_text(text, encoding="utf-8")
        change = of_text if name.endswith(".txt") else either(of_json, of_json, of_bytes)
        found[f"prompts, {name}"] = Reader(folder / name, written_prompts, change, 4)
    return found


def written_prompts(path: Path) -> list[str]:
    """The prompts, which any file can hold."""
    found = captions.prompts(path)
    "\n".join(found).encode()
    return found


def arrays(folder: Path) -> dict[str, Reader]:
    """Statistics of real images, and images, as .npz."""
    generator = torch.Generator().manual_seed(0)
    rows, others = torch.randn(2, 30, 4, generator=generator, dtype=torch.float64)
    spatial = Moments.of(others).statistics()
    of = Moments.of(rows).statistics("cafe")
    Statistics(of.mu, of.sigma, of.count, of.source, spatial).save(folder / "statistics.npz")
    pictures = torch.randint(0, 256, (3, 4, 4, 3), generator=generator, dtype=torch.uint8)
    np.savez(folder / "images.npz", arr_0=pictures.numpy())
    return {
        "statistics, npz": Reader(folder / "statistics.npz", statistics, either(of_bytes, of_npz), 8),
        "images, npz": Reader(
            folder / "images.npz",
            lambda path: images.read(str(path), 2).tolist(),
            either(of_bytes, of_npz),
            4,
        ),
    }


def statistics(path: Path) -> Any:
    """All numbers of statistics; they are finite."""
    found = Statistics.load(path)
    parts = [found, *([found.spatial] if found.spatial else [])]
    numbers = [x for part in parts for x in (part.mu, part.sigma)]
    assert all(bool(x.isfinite().all()) for x in numbers)
    return [x.tolist() for x in numbers], found.count, found.source


def of_npz(content: bytes, chance: random.Random) -> Mutation:
    """Change an array of an .npz: leave it out; another type, shape or value; the header of a bomb; code."""
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        parts = {name: archive.read(name) for name in archive.namelist()}
    name = chance.choice(list(parts))
    array = np.lib.format.read_array(io.BytesIO(parts[name]))
    kind = chance.choice(
        ("none", "object", "text", "flat", "nan", "complex", "bomb", "packed", "empty", "int")
    )
    if kind == "none":
        del parts[name]
    elif kind == "bomb":
        parts[name] = bomb(array, (10 ** chance.randrange(3, 12), 9))
    elif kind != "packed":
        changed = {
            "object": np.array([Evil()], dtype=object),
            "text": np.array(["x"]),
            "flat": array.reshape(-1)[:-1],
            "nan": array.astype("float64") * np.nan if array.dtype.kind in "fiu" else np.array([np.nan] * 2),
            "complex": array.astype("complex128") if array.dtype.kind in "fiu" else array,
            "empty": np.zeros(0),
            "int": array.reshape(-1)[:0],
        }[kind]
        parts[name] = packed(changed)
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", chance.choice((zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED))) as archive:
        for key, part in parts.items():
            archive.writestr(key, part)
    short = name.removesuffix(".npy")
    return Mutation(buffer.getvalue(), (short,), same=kind == "packed", said=f"{kind} {short}")


def packed(array: Any) -> bytes:
    """An array in NumPy's format, pickled if it holds objects."""
    buffer = io.BytesIO()
    np.lib.format.write_array(buffer, array, allow_pickle=True)
    return buffer.getvalue()


def bomb(array: Any, shape: tuple[int, ...]) -> bytes:
    """An array whose header says that it is larger than it is."""
    buffer = io.BytesIO()
    header = {"descr": np.lib.format.dtype_to_descr(array.dtype), "fortran_order": False, "shape": shape}
    np.lib.format.write_array_header_1_0(buffer, header)
    body: bytes = array.tobytes()
    return buffer.getvalue() + body


def tensors(folder: Path) -> dict[str, Reader]:
    """Sums of images, a teacher's samples, weights of a classifier: safetensors, and .pth."""
    from safetensors.torch import save_file

    facts, features = {"solver": "ddim", "seed": 0}, torch.randn(6, 3)
    book = Book()
    for number in range(3):
        tally = Tally(scores={"clip": (6, 1.5)}, pixels=torch.ones(4).double())
        tally.moments["pixels"] = Moments.of(features)
        book.add(number, tally)
    book.kept["pixels"] = {0: features}
    book.save(folder / "0-of-1.safetensors", facts)
    toy = load_backbone("toy")
    teacher = Teacher(toy, ds.DDIM(2)(toy.schedule), toy.classes, folder, count=10)
    list(teacher.make())
    layer = torch.nn.Linear(3, 2)
    save_file(layer.state_dict(), folder / "weights.safetensors")
    torch.save(layer.state_dict(), folder / "weights.pth")
    sums = Reader(folder / "0-of-1.safetensors", partial(counted, facts=facts), of_safetensors, 6)
    return {
        "sums of images, safetensors": sums,
        "teacher, safetensors": Reader(teacher._path(0), partial(taught, teacher=teacher), of_safetensors, 3),
        "weights, safetensors": Reader(folder / "weights.safetensors", fitted, of_safetensors, 3),
        "weights, pth": Reader(folder / "weights.pth", fitted, either(of_bytes, evil), 3),
    }


def counted(path: Path, facts: dict[str, Any]) -> Any:
    """What a book holds."""
    book = Book.load(path, facts)
    groups = {
        group: (
            tally.scores,
            tally.pixels.tolist(),
            {k: m.scatter.tolist() for k, m in tally.moments.items()},
        )
        for group, tally in sorted(book.groups.items())
    }
    return groups, sorted(book.done), [rows.tolist() for rows in book.rows("pixels")]


def taught(path: Path, teacher: Teacher) -> Any:
    """What a teacher reads of its file."""
    from dualsolver.teacher import _opened

    _opened.cache_clear()
    found = teacher.take([0, 1]).states
    assert bool(found.isfinite().all())
    return found.tolist()


def fitted(path: Path) -> Any:
    """A layer with the weights of a file."""
    layer = torch.nn.Linear(3, 2)
    fit_in(layer, read_weights(path), str(path))
    return [str(parameter.tolist()) for parameter in layer.parameters()]


def evil(content: bytes, chance: random.Random) -> Mutation:
    """Weights with code among them, which runs when they are unpickled."""
    buffer = io.BytesIO()
    torch.save(chance.choice((Evil(), {"weight": Evil()}, [Evil()])), buffer)
    return Mutation(buffer.getvalue(), said="code")


def configs(pipeline: Path) -> dict[str, Reader]:
    """The configs of a pipeline's folder; its weights are read with them."""
    names = (
        "model_index.json",
        "scheduler/scheduler_config.json",
        "transformer/config.json",
        "vae/config.json",
    )
    change = either(of_json, of_json, of_json, of_bytes)
    return {
        f"config, {name}": Reader(pipeline / name, partial(sampled, pipeline=pipeline), change, 1)
        for name in names
    }


def sampled(path: Path, pipeline: Path) -> Any:
    """What a backbone is."""
    found = load_backbone(pipeline)
    return found.shape, found.classes, found.schedule.config(), found.kind, found.fingerprint()
