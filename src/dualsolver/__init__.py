"""Learned few-step sampling for any pretrained diffusion or flow-matching model.

Five nouns: a `Schedule` says how much data and noise there is at time t; a `Prediction` is the pair
(data, noise) that a network sees; a `Table` holds the scalars of a whole run; a `Solver` makes a table from a
schedule; `sample` runs a table.
"""

from . import zoo
from .interpolate import interpolate, resample
from .parameters import load, save
from .prediction import Prediction, checkpointed, clipped, guided, wrap
from .project import project
from .sample import advance, canonical, defects, sample, steps, trajectory
from .schedule import VE, VP, Flow, Schedule
from .solvers import BNS, DDIM, DS, SOLVERS, DPMpp, DualSolver, Euler, Heun, Solver, UniPC
from .table import Table

__version__ = "0.1.0"

__all__ = [
    "BNS",
    "DDIM",
    "DS",
    "SOLVERS",
    "VE",
    "VP",
    "DPMpp",
    "DualSolver",
    "Euler",
    "Flow",
    "Heun",
    "Prediction",
    "Schedule",
    "Solver",
    "Table",
    "UniPC",
    "advance",
    "canonical",
    "checkpointed",
    "clipped",
    "defects",
    "guided",
    "interpolate",
    "load",
    "project",
    "resample",
    "sample",
    "save",
    "steps",
    "trajectory",
    "wrap",
    "zoo",
]
