"""The paper's figures as experiments, and two tables that it lacks."""

from __future__ import annotations

from itertools import product

from . import figures
from .claims import Claim, better, closing
from .experiment import Column, Experiment, Row, always, nfes
from .tables import BASELINES, DUAL

EULER = {name: Row("euler", "", {"prediction": name}) for name in ("noise", "velocity", "data")}
SCHEMES = {
    "Interp. (3,5), (5,7), (7,9)": Row(among=(3, 5, 7, 9)),
    "Interp. (3,6), (6,9)": Row(among=(3, 6, 9)),
    "Interp. (3,9)": Row(among=(3, 9)),
}
SCALES = (0.7, 1.0, 1.5, 2.0)
LEARNABLE, BY = (
    ("bns", "ds", "dual"),
    ("sample", "trajectory", "feature", "soft-label", "classification"),
)
ROWS = {**BASELINES, **DUAL}

INTERPOLATION = Experiment(
    "interpolation",
    "Interpolation across NFEs",
    always({**BASELINES, "Each NFE learned": Row(), **SCHEMES}),
    nfes(3, 4, 5, 6, 7, 8, 9),
    ("frechet",),
    claims=(
        Claim(
            "Interpolated parameters do not match those learned at each NFE.",
            better("frechet", "Each NFE learned", ["Interp. (3,5), (5,7), (7,9)"], "468"),
        ),
        Claim(
            "They still outperform the other solvers.",
            better("frechet", "Interp. (3,5), (5,7), (7,9)", [*BASELINES], "468"),
        ),
    ),
    draw=figures.interpolated,
)

DISCRETISATION = Experiment(
    "discretisation",
    "Discretisation discrepancy",
    always(EULER),
    nfes(3, 5, 9, 20, 50),
    ("frechet",),
    claims=(
        Claim(
            "Noise, velocity and data prediction agree in continuous time, not in few steps.",
            closing("frechet", [*EULER], "3", "50"),
        ),
    ),
    draw=figures.discrepancy,
)

LEARNED = Experiment(
    "learned-parameters",
    "Learned parameters",
    always({"Dual-Solver-C": Row()}),
    nfes(3, 5, 7, 9),
    ("similarity",),
    claims=(
        Claim(
            "The parameter curves are similar across NFEs: they correlate with those of the NFE before.",
            lambda found: {
                f"NFE {nfe}": [*found.seeds("similarity", "Dual-Solver-C", nfe).values()] for nfe in "579"
            },
        ),
    ),
    draw=figures.learned,
)

SAMPLES = Experiment(
    "samples",
    "Sampling results",
    always({name: ROWS[name] for name in ("DPM-Solver++", "Dual-Solver-C", "BNS-Solver", "DS-Solver")}),
    nfes(3, 5),
    (),
    draw=figures.samples,
)

ANY = Experiment(
    "any-objective",
    "Any solver by any objective",
    lambda setting: {
        f"{solver}, {by}": Row(solver, by)
        for solver, by in product(LEARNABLE, BY)
        if by != "soft-label" or setting.suite.objective == "hard-label"
    },
    nfes(3, 5),
    ("frechet",),
    claims=tuple(
        Claim(
            f"Learned by {by}, Dual-Solver is better than BNS and DS.",
            better("frechet", f"dual, {by}", [f"bns, {by}", f"ds, {by}"], "35"),
            ours=True,
        )
        for by in BY
    ),
)

TRANSFER = Experiment(
    "guidance",
    "Transfer across guidance scales, NFE 5",
    always(
        {
            "DPM-Solver++": BASELINES["DPM-Solver++"],
            **{f"learned at x {scale:g}": Row(guidance=scale) for scale in SCALES},
        }
    ),
    tuple(Column(5, scale) for scale in SCALES),
    ("frechet",),
    claims=(
        *(
            Claim(
                f"Sampled at x {scale:g}, the solver learned there is better than those learned elsewhere.",
                better(
                    "frechet",
                    f"learned at x {scale:g}",
                    [f"learned at x {other:g}" for other in SCALES if other != scale],
                    [Column(5, scale).label],
                ),
                ours=True,
            )
            for scale in SCALES
        ),
        Claim(
            "The solver learned at the scale itself is better than DPM-Solver++ at the others, too.",
            better(
                "frechet", "learned at x 1", ["DPM-Solver++"], [Column(5, scale).label for scale in SCALES]
            ),
            ours=True,
        ),
    ),
)

FIGURES = (INTERPOLATION, DISCRETISATION, LEARNED, SAMPLES, ANY, TRANSFER)
