"""The solvers. To add one: a file with a class that makes a `Table`, and a line here; the tests find it."""

from .base import Solver, SolverClass
from .bns import BNS
from .ddim import DDIM
from .dpmpp import DPMpp
from .ds import DS
from .dual import DualSolver
from .euler import Euler
from .heun import Heun
from .unipc import UniPC

SOLVERS: dict[str, SolverClass] = {
    "ddim": DDIM,
    "euler": Euler,
    "dpmpp": DPMpp,
    "unipc": UniPC,
    "heun": Heun,
    "bns": BNS,
    "ds": DS,
    "dual": DualSolver,
}

__all__ = ["BNS", "DDIM", "DS", "SOLVERS", "DPMpp", "DualSolver", "Euler", "Heun", "Solver", "UniPC"]
