"""How far a learned solver carries: to other guidance scales, a fine-tune, a sibling model, and across seeds.

Everything is learned and measured by the commands that a user would type, so a run that was killed goes on
where it stopped. It writes docs/measured/transfer.json; scripts/transfer_tables.py makes the tables of it
that docs/objections.md shows.
"""

from __future__ import annotations

import argparse
import json
import time
from dataclasses import dataclass, replace
from pathlib import Path
from shutil import copytree
from typing import Any

from dualsolver import features, zoo
from dualsolver.cli import main as command
from dualsolver.files import write_whole
from dualsolver.metrics import Moments
from dualsolver.parameters import NAME, read
from dualsolver.zoo import data, entries, generators, latents, references
from dualsolver.zoo.fit import finish
from dualsolver.zoo.training import Run, train

RUNS = Path("runs/transfer")
NFES, SEEDS, CLASSIFIER = ("3", "5"), (0, 1, 2), "zoo:vgg-128"
FIXED = {"ddim": "DDIM", "dpmpp": "DPM-Solver++", "unipc": "UniPC"}


@dataclass(frozen=True)
class Target:
    """A model at a guidance scale, and the network (with its statistics) that looks at its images."""

    name: str
    backbone: str
    guidance: float
    network: str = "judge"


HOME = Target("fashion-dit", "fashion-dit", 1.5)
SCALES = [replace(HOME, guidance=scale) for scale in (1.0, 1.5, 2.0, 3.0)]
SIBLING = Target("fashion-gmdit", "fashion-gmdit", 1.4)
STATISTICS = RUNS / "mirrored.npz"
TUNED = Target("fashion-dit, fine-tuned", str(RUNS / "tuned"), 1.5, f"judge={STATISTICS}")


def mirrored(split: str) -> data.Images:
    """The pictures of a split, left and right exchanged: what the fine-tune is trained on."""
    found = data.read(split)
    return replace(found, pictures=found.pictures.flip(-1), hash=f"{found.hash} mirrored")


def tune(target: Target, steps: int) -> None:
    """Train the home model further, on mirrored pictures, unless that is done."""
    folder, state = Path(target.backbone), RUNS / "tuning.safetensors"
    if (folder / "model_index.json").exists():
        return
    clean, images = latents.latents(mirrored("train"), RUNS, "autoencoder")
    found = entries.entry(HOME.backbone)
    task = generators.dit_task(found.options, clean, images)
    shipped = zoo.load(HOME.backbone).transformer.state_dict()
    task.model.load_state_dict({name: value.float() for name, value in shipped.items()})
    run = Run(task.model, replace(found.recipe, steps=steps, rate=3e-4, seed=7), state)
    for record in train(run, task.loss, task.count):
        run.save()
        print(f"fine-tuning, step {record.step} of {steps}: loss {record.loss:.4f}", flush=True)
    copytree(zoo.path("autoencoder"), folder / "vae", dirs_exist_ok=True)
    finish(run, task, folder)


def look(file: Path) -> None:
    """Write what mirrored test pictures look like to the judge."""
    pictures = references.unit(mirrored("test").pictures)
    seen = features.gathered(features.each(features.of(zoo.load("judge")), pictures, 500))
    Moments.of(seen.features).statistics("mirrored").save(file)


def learned(target: Target, chosen: argparse.Namespace, seed: int = 0) -> Path:
    """Learn for a target, by the command; remember how long that took if it was done in one go."""
    folder = RUNS / f"{Path(target.backbone).name}-{target.guidance}-{seed}"
    fresh, start = not folder.exists(), time.monotonic()
    words = ["--backbone", target.backbone, "--guidance", str(target.guidance), "--classifier", CLASSIFIER]
    words += ["--steps", chosen.steps] if chosen.steps else []
    words += ["--nfe", *NFES, "--seed", str(seed), "--threads", chosen.threads, "--dtype", chosen.dtype]
    call("learn", *words, "--out", str(folder))
    if fresh:
        write_whole(folder / "seconds", f"{time.monotonic() - start:.0f}")
    return folder


def measured(target: Target, solver: str, chosen: argparse.Namespace) -> dict[str, list[float]]:
    """NFE -> (Frechet distance, standard error) of a solver on a target, by the command."""
    out = RUNS / "measured" / f"{Path(target.backbone).name}-{target.guidance}"
    words = ["--backbone", target.backbone, "--guidance", str(target.guidance), "--network", target.network]
    words += ["--solver", solver, "--nfe", *NFES, "--count", chosen.count]
    words += ["--threads", chosen.threads, "--dtype", chosen.dtype]
    call("evaluate", *words, "--out", str(out))
    found = {}
    for path in out.rglob("result.json"):
        result = json.loads(path.read_text())
        if (result["solver"], result["count"]) == (Path(solver).name, int(chosen.count)):
            figures = result["figures"]
            found[str(result["nfe"])] = next(figures[name] for name in figures if name.startswith("frechet"))
    return {nfe: found[nfe] for nfe in NFES}


def call(*words: str) -> None:
    """Run a command as it would be typed."""
    print("dual-solver", *words, flush=True)
    if code := command(words):
        raise SystemExit(code)


def row(target: Target, home: Path, chosen: argparse.Namespace) -> dict[str, Any]:
    """All solvers on one target: fixed ones, the one learned at home, and one learned there."""
    solvers = {**{title: name for name, title in FIXED.items()}, "learned at home": str(home)}
    solvers["learned there"] = str(home if target == HOME else learned(target, chosen))
    figures = {title: measured(target, solver, chosen) for title, solver in solvers.items()}
    return {"model": f"{target.name} at {target.guidance}", "guidance": target.guidance, "figures": figures}


def experiment(chosen: argparse.Namespace) -> dict[str, Any]:
    """Learn and measure everything."""
    home, *others = (learned(HOME, chosen, seed) for seed in SEEDS)
    tune(TUNED, chosen.tuning)
    look(STATISTICS)
    provenance = read(home / NAME)["provenance"]
    runs = provenance["runs"]
    seconds = home / "seconds"
    return {
        "images": int(chosen.count),
        "home": [HOME.name, HOME.guidance, CLASSIFIER],
        "objective": ", ".join(provenance["objective"]),
        "tuning": chosen.tuning,
        "evaluations": {nfe: runs[nfe]["evaluations"] for nfe in NFES},
        "seconds": int(seconds.read_text()) if seconds.exists() else None,
        "guidance": [row(target, home, chosen) for target in SCALES],
        "models": [row(target, home, chosen) for target in (HOME, TUNED, SIBLING)],
        "seeds": [measured(HOME, str(folder), chosen) for folder in (home, *others)],
    }


def main() -> None:
    """Run the experiment and write what it found."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", default="10000", help="images of each figure (10000)")
    parser.add_argument("--tuning", type=int, default=2000, help="steps of the fine-tune (2000)")
    parser.add_argument("--steps", help="of learning (those of the fast preset)")
    parser.add_argument("--threads", default="2", help="of torch (2)")
    parser.add_argument("--dtype", default="bfloat16", help="of the network (bfloat16)")
    parser.add_argument("--out", type=Path, default=Path("docs/measured/transfer.json"))
    chosen = parser.parse_args()
    write_whole(chosen.out, json.dumps(experiment(chosen), indent=1) + "\n")


if __name__ == "__main__":
    main()
