"""Change one symbol at a time in the solver files and see whether the fast tests notice (`make mutants`).

A mutant is one operator, comparison, number, sign or name exchanged in a copy of the package; it dies if a
test fails. Survivors are listed; those that change nothing that anybody can see are explained in EQUIVALENT.
"""

from __future__ import annotations

import argparse
import ast
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent
SOLVERS = Path("src/dualsolver/solvers")
FILES = ("ddim", "euler", "dpmpp", "unipc", "heun", "bns", "ds", "dual", "coordinates", "formulas", "base")
TESTS = (  # the quick ones first: most mutants never see diffusers, which takes seconds to import
    ("identities", "sample", "gradients", "edges", "table"),
    ("parameters", "interpolate", "diffusers", "order"),
)
OPERATORS = {ast.Add: "-", ast.Sub: "+", ast.Mult: "/", ast.Div: "*", ast.Pow: "*"}
COMPARISONS = {ast.Gt: ">=", ast.GtE: ">", ast.Lt: "<=", ast.LtE: "<", ast.Eq: "!=", ast.NotEq: "=="}
NAMES = {"alpha": "sigma", "u": "v", "c": "n", "da": "ds", "alpha_next": "alpha", "sigma_next": "sigma"}
NAMES |= {"right": "left", "above": "below", "before": "after", "of_data": "of_noise", "data": "noise"}
NAMES |= {new: old for old, new in NAMES.items() if new not in NAMES}

EQUIVALENT: dict[str, str] = {}


class Mutant(NamedTuple):
    """One change: the file, the line (from 1), and that line before and after."""

    file: str
    line: int
    before: str
    after: str


def mutants(file: str) -> Iterator[Mutant]:
    """Yield every mutant of a solver file; strings, annotations and error messages are left alone."""
    source = (ROOT / SOLVERS / f"{file}.py").read_text()
    lines = source.splitlines()
    for node in expressions(ast.parse(source)):
        for line, column, old, new in changes(node, lines):
            text = lines[line - 1]
            if text[column : column + len(old)] == old:
                yield Mutant(
                    file, line, text.strip(), (text[:column] + new + text[column + len(old) :]).strip()
                )


def expressions(node: ast.AST) -> Iterator[ast.AST]:
    """Walk the tree without annotations, raised errors and formatted text."""
    for field, value in ast.iter_fields(node):
        if field in ("annotation", "returns", "bases", "decorator_list"):
            continue
        for child in value if isinstance(value, list) else [value]:
            if isinstance(child, ast.AST) and not isinstance(child, ast.Raise | ast.JoinedStr | ast.Import):
                yield child
                yield from expressions(child)


def changes(node: ast.AST, lines: list[str]) -> Iterator[tuple[int, int, str, str]]:
    """Yield (line, column, old, new) for one node."""
    if isinstance(node, ast.BinOp) and type(node.op) in OPERATORS:
        yield from between(node.left, node.right, lines, OPERATORS[type(node.op)])
    elif isinstance(node, ast.Compare) and type(node.ops[0]) in COMPARISONS:
        yield from between(node.left, node.comparators[0], lines, COMPARISONS[type(node.ops[0])])
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        yield node.lineno, node.col_offset, "-", ""
    elif (
        isinstance(node, ast.Constant)
        and not isinstance(node.value, bool)
        and isinstance(node.value, int | float)
    ):
        text = lines[node.lineno - 1][node.col_offset : node.end_col_offset]
        yield node.lineno, node.col_offset, text, repr(node.value + 1)
    elif isinstance(node, ast.Name) and node.id in NAMES and isinstance(node.ctx, ast.Load):
        yield node.lineno, node.col_offset, node.id, NAMES[node.id]
    elif isinstance(node, ast.Attribute) and node.attr in NAMES and isinstance(node.ctx, ast.Load):
        yield node.end_lineno or 0, (node.end_col_offset or 0) - len(node.attr), node.attr, NAMES[node.attr]


def between(
    left: ast.expr, right: ast.expr, lines: list[str], new: str
) -> Iterator[tuple[int, int, str, str]]:
    """The operator that stands between two operands on one line."""
    if left.end_lineno == right.lineno and left.end_col_offset is not None:
        gap = lines[right.lineno - 1][left.end_col_offset : right.col_offset]
        old = gap.strip(" ()")
        yield right.lineno, left.end_col_offset + gap.index(old), old, new


def dies(mutant: Mutant, whole: Path) -> tuple[bool, float]:
    """Run the fast tests on a changed copy; return whether one failed, and the seconds."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(shutil.copytree(whole, Path(name) / "copy"))
        path = folder / SOLVERS / f"{mutant.file}.py"
        lines = path.read_text().splitlines()
        lines[mutant.line - 1] = lines[mutant.line - 1].replace(mutant.before, mutant.after)
        path.write_text("\n".join(lines) + "\n")
        command = [sys.executable, "-m", "pytest", "-x", "-q", "--no-header", "-p", "no:cacheprovider"]
        environment = {**os.environ, "PYTHONPATH": str(folder / "src"), "OMP_NUM_THREADS": "1"}
        start = time.perf_counter()
        for names in TESTS:
            tests = [f"tests/test_{name}.py" for name in names]
            done = subprocess.run([*command, *tests], cwd=folder, env=environment, capture_output=True)
            if done.returncode:
                return True, time.perf_counter() - start
        return False, time.perf_counter() - start


def snapshot(folder: str) -> Path:
    """Copy what the tests need, so that work on the tree does not disturb the run."""
    for name in ("src", "tests"):
        shutil.copytree(
            ROOT / name, Path(folder) / name, ignore=shutil.ignore_patterns("weights", "__pycache__")
        )
    shutil.copy(ROOT / "pyproject.toml", folder)
    return Path(folder)


def main() -> None:
    """Sample mutants with a seed, run them, and print who survived."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=60, help="how many mutants to try (0: all)")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=2)
    arguments = parser.parse_args()
    every = [mutant for file in FILES for mutant in mutants(file)]
    chosen = random.Random(arguments.seed).sample(every, min(arguments.count or len(every), len(every)))
    print(f"{len(chosen)} of {len(every)} mutants, seed {arguments.seed}")
    results = []
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(arguments.jobs) as pool:
        run = partial(dies, whole=snapshot(folder))
        for mutant, (failed, seconds) in zip(chosen, pool.map(run, chosen), strict=True):
            results.append((mutant, failed, seconds))
            verdict = f"dies in {seconds:3.0f} s" if failed else f"SURVIVES {seconds:3.0f} s"
            print(f"{verdict}  {mutant.file}.py:{mutant.line}  {mutant.after}", flush=True)
    survivors = [mutant for mutant, failed, _ in results if not failed]
    late = [mutant for mutant, failed, seconds in results if failed and seconds > 60]
    for mutant in survivors:
        reason = EQUIVALENT.get(mutant.after, "unexplained")
        print(f"survivor {mutant.file}.py:{mutant.line}\n  - {mutant.before}\n  + {mutant.after}\n  {reason}")
    killed = len(results) - len(survivors) - len(late)
    print(
        f"{killed} of {len(results)} died within a minute, {len(survivors)} survived, {len(late)} died later"
    )
    sys.exit(killed < 0.9 * len(results))


if __name__ == "__main__":
    main()
