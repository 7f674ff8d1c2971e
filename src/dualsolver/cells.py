"""A cell: one solver at one NFE on one backbone, sampled, looked at and kept by its content.

STORE/unipc-5-1a2b3c4d/0-of-1.safetensors   sums of the images that process 0 of 1 has made
STORE/unipc-5-1a2b3c4d/images/000017.png    as many of them as were asked for
STORE/unipc-5-1a2b3c4d/result.json          the figures with their provenance
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import torch

from .evaluate import Sampling, evaluate, gathered, report
from .files import write_whole
from .fit import Workers
from .judges import Judges
from .solvers import Solver

RESULT = "result.json"


@dataclass(frozen=True)
class Cell:
    """A solver's name, the solver, what is sampled with it, who judges, and where all cells are kept."""

    name: str
    solver: Solver
    sampling: Sampling
    judges: Judges
    store: Path
    provenance: Mapping[str, Any]

    @cached_property
    def identity(self) -> dict[str, Any]:
        """What the sums depend on. Coefficients are rounded: the last bits differ from machine to machine."""
        job, table = self.sampling, self.sampling.table
        return {
            "weights": job.backbone.fingerprint(),
            "t": _rounded(table.t),
            "coefficients": _rounded(table.weights),
            "items": hashlib.sha256(json.dumps(list(job.items)).encode()).hexdigest()[:16],
            "guidance": job.guidance,
            "seed": job.seed,
            "count": job.count,
            "batch": job.batch,
            "keep": self.judges.keep,
            **self.judges.identity(),
        }

    @cached_property
    def folder(self) -> Path:
        """Where it is kept: equal cells have equal folders, whoever asks for them."""
        digest = hashlib.sha256(json.dumps(self.identity, sort_keys=True).encode()).hexdigest()[:12]
        return self.store / f"{self.name}-{self.solver.nfe}-{digest}"

    def run(self, workers: Workers, write: int = 0) -> Iterator[int]:
        """Make what is missing; yield how many images of this process's share there are."""
        extractors = {name: network.extractor for name, network in self.judges.networks.items()}
        scores = {name: scorer.score for name, scorer in self.judges.scores.items()}
        share = workers.rank, workers.count
        yield from evaluate(
            self.sampling, extractors, self.folder, self.identity, self.judges.keep, *share, scores, write
        )

    def result(self) -> dict[str, Any]:
        """Merge what all processes have, and write and return the figures with their provenance."""
        book = gathered(self.folder, self.identity, self.sampling)
        found = {
            "solver": self.name,
            "nfe": self.solver.nfe,
            "figures": report(book, self.judges.references(), self.judges.real),
            "parameters": self.solver.values(),
            **self.identity,
            "references": self.judges.provenance(),
            **self.provenance,
        }
        write_whole(self.folder / RESULT, json.dumps(found, indent=1) + "\n")
        return found


def _rounded(numbers: torch.Tensor) -> Any:
    """Twelve digits of every number, as nested lists."""
    flat = torch.tensor(
        [float(f"{x:.12g}") for x in numbers.detach().flatten().tolist()], dtype=torch.float64
    )
    return flat.view(numbers.shape).tolist()
