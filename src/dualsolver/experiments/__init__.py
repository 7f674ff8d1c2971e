"""The paper's tables and figures as named, runnable experiments; `dual-solver reproduce` runs them."""

from .experiment import Experiment
from .more import FIGURES
from .tables import TABLES

EXPERIMENTS: dict[str, Experiment] = {experiment.name: experiment for experiment in (*TABLES, *FIGURES)}

__all__ = ["EXPERIMENTS", "Experiment"]
