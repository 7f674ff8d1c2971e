"""The paper's tables and figures as named, runnable experiments; `dual-solver reproduce` runs them."""

from .contest import CONTEST
from .experiment import Experiment
from .more import FIGURES
from .tables import TABLES

EXPERIMENTS: dict[str, Experiment] = {one.name: one for one in (*TABLES, *FIGURES, *CONTEST)}

__all__ = ["EXPERIMENTS", "Experiment"]
