"""Every solver at its best: what the validation network chooses, what the judge says; and the presets."""

from __future__ import annotations

import math
import tomllib
from collections.abc import Mapping, Sequence
from functools import cache
from importlib.resources import files
from itertools import product
from pathlib import Path

from .. import plot
from .claims import Claim, Margins
from .experiment import LOSS, Column, Experiment, Results, Row, always, learning, nfes
from .found import Found
from .setting import Setting

FIXED = {"DDIM": "ddim", "DPM-Solver++": "dpmpp", "UniPC": "unipc"}
GRIDS = ("uniform", "half_log_snr", "karras")  # uniform times are those of diffusers' trailing
LEARNED = {"BNS-Solver": Row("bns", "sample"), "DS-Solver": Row("ds", "trajectory")}
MIXED = ("hard-label defects=1", "hard-label soft-label")
RATES = (0.1, 0.3, 1.0, 3.0)
BY = ("sample", "trajectory", "feature", "soft-label", "classification", *MIXED)
FLOOR, STEPS = "DDIM, 100 steps", 100
FAST, PAPER = "fast, 400 steps of 20", "paper, 20,000 steps of 10"
RATIOS = {  # the paper's, of Dual-Solver to DPM-Solver++ and to the better of BNS and DS, by NFE
    "dit": ({"3": 0.28, "5": 0.16, "9": 0.60}, {"3": 0.37, "5": 0.46, "9": 0.88}),
    "gmdit": ({"3": 0.11, "5": 0.39, "9": 0.90}, {"3": 0.20, "5": 0.55, "9": 1.08}),
}


def fixed(title: str, grid: str) -> dict[str, Row]:
    """A fixed solver on a grid."""
    return {f"{title}, {grid}": Row(FIXED[title], "", {"grid": grid})}


def learned(title: str, rate: float) -> dict[str, Row]:
    """A learned peer at a factor on the preset's rate."""
    row = LEARNED[title]
    return {f"{title}, rate x {rate:g}": Row(row.solver, row.objective, rate=rate)}


def dual(objective: str) -> dict[str, Row]:
    """Dual-Solver by an objective."""
    return {f"Dual-Solver, {objective}": Row(objective=objective)}


def merged(parts: Sequence[Mapping[str, Row]]) -> dict[str, Row]:
    """The rows of all parts, each once."""
    return {name: row for part in parts for name, row in part.items()}


CHOICES = Experiment(
    "choices",
    "Choices, by the validation network",
    lambda setting: merged(
        [
            *(fixed(*pair) for pair in product(FIXED, GRIDS)),
            *(learned(*pair) for pair in product(LEARNED, RATES)),
            *(dual(objective) for objective in BY),
            {
                "Dual-Solver, consistent end": Row(options={"consistent_end": True}),
                "Dual-Solver, three classifiers": Row(through=" + ".join(setting.suite.classifiers[:3])),
                "Dual-Solver, views": Row(through=f"views:{setting.suite.classifiers[0]}"),
            },
        ]
    ),
    nfes(3, 5),
    ("frechet", "accuracy", "pixel mean", "pixel deviation", "pixel clipped"),
    kinds=("dit", "gmdit"),
    who=("chooser",),
)


@cache
def chosen() -> Mapping[str, Mapping[str, str | float]]:
    """By kind of backbone, the grid, the rate's factor or the objective that was chosen for each solver."""
    return tomllib.loads(files(__package__).joinpath("chosen.toml").read_text())


def peers(setting: Setting) -> dict[str, Row]:
    """Fixed solvers on the paper's grid and the chosen one; Dual-Solver by three objectives at most."""
    choice = chosen()[setting.kind]
    return merged(
        [
            *(fixed(title, grid) for title in FIXED for grid in ("uniform", str(choice[title]))),
            *(learned(title, float(choice[title])) for title in LEARNED),
            *(dual(objective) for objective in ("classification", "trajectory", str(choice["Dual-Solver"]))),
            {FLOOR: Row("ddim", "", nfe=STEPS)},
        ]
    )


def gaps(found: Found) -> None:
    """Add ratios to DPM-Solver++ and to the best learned peer, and the closed share of DPM-Solver++'s gap.

    DPM-Solver++ counts on its better grid; the gap is what lies between it and 100 steps of DDIM.
    """
    rows = found.rows("frechet")
    for row, nfe in product(rows, "359"):
        value, floor = found.mean("frechet", row, nfe), found.mean("frechet", FLOOR, nfe)
        usual, peer = _best(found, nfe, ["DPM-Solver++"]), _best(found, nfe, [*LEARNED])
        if math.isfinite(value + usual + peer + floor):
            found.add("to DPM-Solver++", row, nfe, value / usual)
            found.add("to BNS and DS", row, nfe, value / peer)
            found.add("gap closed", row, nfe, (usual - value) / (usual - floor))


def _best(found: Found, nfe: str, names: Sequence[str], metric: str = "frechet") -> float:
    """The least value of the rows whose names begin so."""
    rows = [row for row in found.rows(metric) if row.startswith(tuple(names))]
    return min((found.mean(metric, row, nfe) for row in rows), default=math.nan)


def at_most(metric: str, bounds: Mapping[str, float]) -> Margins:
    """How far the best Dual-Solver is below a bound at each NFE."""

    def margins(found: Found) -> Mapping[str, Sequence[float]]:
        best = {nfe: _best(found, nfe, ["Dual-Solver"], metric) for nfe in bounds}
        return {f"NFE {nfe}": [bounds[nfe] - v] for nfe, v in best.items() if math.isfinite(v)}

    return margins


def _aims(kind: str) -> list[Claim]:
    usual, peer = RATIOS[kind]
    says = "The best Dual-Solver's ratio to {} is at most the paper's."
    return [
        Claim(says.format("DPM-Solver++"), at_most("to DPM-Solver++", usual), (kind,), True),
        Claim(says.format("the better of BNS and DS"), at_most("to BNS and DS", peer), (kind,), True),
    ]


PEERS = Experiment(
    "peers",
    "Every solver at its best",
    peers,
    nfes(3, 5, 9),
    (
        "frechet",
        "to DPM-Solver++",
        "to BNS and DS",
        "gap closed",
        "frechet (validation)",
        "class loss",
        "accuracy",
        "precision",
        "recall",
        "pixel mean",
        "pixel deviation",
        "pixel clipped",
    ),
    claims=[claim for kind in RATIOS for claim in _aims(kind)],
    kinds=("dit", "gmdit"),
    who=("network", "chooser"),
    derive=gaps,
)


def repeats(setting: Setting, row: Row, column: Column) -> Sequence[int]:
    """All seeds of what is quick; of the paper's recipe, two at NFE 3 and 5 of the DiT and else one."""
    few = 2 if setting.kind == "dit" and column.nfe < 9 else 1
    return setting.budget.seeds[: few if row.preset == "paper" else None]


def falling(results: Results, folder: Path) -> list[Path]:
    """The held-out loss over the evaluations that learning took, a curve a seed; a picture an NFE."""
    experiment, setting, drawn = results.experiment, results.setting, []
    for column in experiment.columns:
        runs = {}
        for name, row in experiment.rows(setting).items():
            for seed in repeats(setting, row, column):
                known = results.get(learning(setting, row, column.nfe, seed))
                if known:
                    runs[f"{name.partition(',')[0]}, seed {seed}"] = [(x, y) for x, y in known["curve"]]
        if runs:
            path = folder / f"{experiment.name}-{column.label}.png"
            drawn.append(plot.curves(runs, path, "evaluations of the network", "held-out loss", log=True))
    return drawn


def reached(found: Found) -> Mapping[str, Sequence[float]]:
    """How far every seed of `fast` is below the mean of `paper`, at each NFE."""
    aims = {nfe: found.mean("held_out", PAPER, nfe) for nfe in "359"}
    return {
        f"NFE {nfe}": [aim - value for value in found.seeds("held_out", FAST, nfe).values()]
        for nfe, aim in aims.items()
        if math.isfinite(aim)
    }


PRESETS = Experiment(
    "presets",
    "The preset fast against the paper's recipe",
    always({FAST: Row(preset="fast"), PAPER: Row(preset="paper")}),
    nfes(3, 5, 9),
    ("held_out", LOSS, "evaluations"),
    claims=[
        Claim("fast reaches the held-out loss of the paper's recipe.", reached, ("dit", "gmdit"), True),
    ],
    kinds=("dit", "gmdit"),
    draw=falling,
    seeds=repeats,
)

CONTEST = (CHOICES, PEERS, PRESETS)
