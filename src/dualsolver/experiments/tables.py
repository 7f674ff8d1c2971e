"""The paper's tables as experiments."""

from __future__ import annotations

from pathlib import Path

from . import figures
from .claims import Claim, behind, better, falls, middle
from .experiment import Experiment, Row, always, nfes

BASELINES = {
    "DDIM": Row("ddim", ""),
    "DPM-Solver++": Row("dpmpp", ""),
    "BNS-Solver": Row("bns", "sample"),
    "DS-Solver": Row("ds", "trajectory"),
}
DUAL = {"Dual-Solver-R": Row(objective="trajectory"), "Dual-Solver-C": Row()}
KINDS = {"p1": Row(options={"kind": "p1"}), "p1c2": Row(), "p2": Row(options={"kind": "p2"})}
KINDS |= {"p2c2": Row(options={"kind": "p2c2"})}
FIXED = {
    "gamma = 1": Row(options={"fixed": {"gamma": 1.0}}),
    "gamma = 0": Row(options={"fixed": {"gamma": 0.0}}),
    "gamma = -1": Row(options={"fixed": {"gamma": -1.0}}),
    "tau = 1": Row(options={"fixed": {"tau": 1.0}}),
    "kappa = 0": Row(options={"fixed": {"kappa": 0.0}}),
    "tau, kappa shared": Row(options={"shared": True}),
}
TRUNKS = ("AlexNet", "VGG", "SqueezeNet")

MAIN = Experiment(
    "main",
    "Main results",
    always({**BASELINES, **DUAL}),
    nfes(3, 4, 5, 6, 7, 8, 9),
    ("frechet", "clip score"),
    ("dit_fid", "gmdit_fid", "pixart_fid", "sana_fid"),
    (
        Claim(
            "Across all evaluated NFEs, Dual-Solver outperforms the competing solvers on FID.",
            better("frechet", "Dual-Solver-C", [*BASELINES], "3456789"),
            ("dit", "pixart", "sana"),
        ),
        Claim(
            "Across all evaluated NFEs, it outperforms them on the CLIP score.",
            better("clip score", "Dual-Solver-C", [*BASELINES], "3456789"),
            ("pixart", "sana"),
        ),
        Claim(
            "On GM-DiT, it outperforms them at NFE 3 to 6.",
            better("frechet", "Dual-Solver-C", [*BASELINES], "3456"),
            ("gmdit",),
        ),
        Claim(
            "On GM-DiT, it underperforms at NFE 7 to 9.",
            behind("frechet", "Dual-Solver-C", [*BASELINES], "789"),
            ("gmdit",),
        ),
        Claim(
            "On GM-DiT, learned by trajectory regression, it surpasses them at NFE 8 and 9.",
            better("frechet", "Dual-Solver-R", [*BASELINES], "89"),
            ("gmdit",),
        ),
    ),
    draw=figures.curves,
)

CONFIGURATIONS = Experiment(
    "configurations",
    "Predictor-corrector configurations",
    always(KINDS),
    nfes(3, 5, 7, 9),
    ("cross-entropy", "frechet"),
    ("ablation_study1",),
    (
        Claim(
            "p1c2 yields the lowest cross-entropy at NFE 3, 5, 7 and 9.",
            better("cross-entropy", "p1c2", ["p1", "p2", "p2c2"], "3579"),
        ),
        Claim(
            "It has the best FID, too.", better("frechet", "p1c2", ["p1", "p2", "p2c2"], "3579"), ours=True
        ),
    ),
)

PARAMETERS = Experiment(
    "parameters",
    "Parameter settings",
    always({**FIXED, "all learnable": Row()}),
    nfes(3, 5, 7, 9),
    ("cross-entropy", "frechet"),
    ("ablation_study2",),
    (
        Claim(
            "All parameters free yields the lowest cross-entropy at NFE 3 and 5.",
            better("cross-entropy", "all learnable", [*FIXED], "35"),
        ),
        Claim(
            "At NFE 7 and 9, some fixed or shared setting is better.",
            behind("cross-entropy", "all learnable", [*FIXED], "79"),
        ),
        Claim("All free has the best FID.", better("frechet", "all learnable", [*FIXED], "3579"), ours=True),
    ),
)

DOMAIN = Experiment(
    "domain",
    "Domain change functions",
    always({"Type 1": Row(options={"domain": "mix"}), "Type 2": Row()}),
    nfes(3, 5, 7, 9),
    ("frechet",),
    ("domain_change_ablation",),
    (
        Claim("Type 1 is better at NFE 3.", better("frechet", "Type 1", ["Type 2"], "3")),
        Claim("Type 2 is better at NFE 5, 7 and 9.", better("frechet", "Type 2", ["Type 1"], "579")),
    ),
)

OBJECTIVES = Experiment(
    "objectives",
    "Parameter learning methods",
    lambda setting: {
        "Sample": Row(objective="sample"),
        "Trajectory": Row(objective="trajectory"),
        **{
            f"Feature ({name})": Row(objective="feature", through=setting.suite.features[name])
            for name in TRUNKS
        },
        "Soft-label": Row(objective="soft-label"),
        "Hard-label": Row(),
    },
    nfes(3, 5, 7, 9),
    ("frechet",),
    ("learning_strategies",),
    (
        Claim(
            "Feature regression generally outperforms sample and trajectory regression.",
            better("frechet", "Feature (VGG)", ["Sample", "Trajectory"], "3579"),
        ),
        Claim(
            "Soft labels improve over feature regression at NFE 3 and 5.",
            better("frechet", "Soft-label", [f"Feature ({name})" for name in TRUNKS], "35"),
        ),
        Claim(
            "Hard labels achieve the best results across all NFEs.",
            better(
                "frechet",
                "Hard-label",
                ["Sample", "Trajectory", *(f"Feature ({name})" for name in TRUNKS), "Soft-label"],
                "3579",
            ),
        ),
    ),
    ("dit", "gmdit"),
)

CLASSIFIERS = Experiment(
    "classifiers",
    "Classifiers to learn through",
    lambda setting: {name.partition("=")[0]: Row(through=name) for name in setting.suite.classifiers},
    nfes(3, 9),
    ("top-1", "top-5", "frechet", "precision", "recall", "gflops"),
    ("acc-fid-gflops-weights",),
    (
        Claim("FID over accuracy is a V: best at a moderate accuracy.", middle("frechet", "39")),
        Claim("Recall at NFE 3 is best at a moderate accuracy, too.", middle("recall", "3")),
        Claim("Precision at NFE 9 falls with accuracy.", falls("precision", "9")),
    ),
    ("dit", "gmdit"),
    wide=True,
    draw=figures.by_accuracy,
)

CHOSEN = "RN101, openai"

CLIPS = Experiment(
    "clip-models",
    "CLIP models to learn through",
    lambda setting: {
        Path(name.replace("=", ", ")).name: Row(through=name) for name in setting.suite.classifiers
    },
    nfes(3, 6),
    ("frechet",),
    ("clip-coco-fid-flops",),
    (
        Claim(
            "RN101 yields the best FID at NFE 6.",
            lambda found: better("frechet", CHOSEN, [r for r in found.rows("frechet") if r != CHOSEN], "6")(
                found
            ),
        ),
    ),
    ("pixart", "sana"),
)

TABLES = (MAIN, CONFIGURATIONS, PARAMETERS, DOMAIN, OBJECTIVES, CLASSIFIERS, CLIPS)
