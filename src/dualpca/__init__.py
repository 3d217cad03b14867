"""Principal component analysis through difference-of-convex duality."""

from .formulations import CLASSICAL, FORMULATIONS, formulation, optimal_value
from .functions import Ball, Function, HalfSquare, KyFan, KyFanDual, Lp, Norm, Power, Spectral
from .losses import RowHyperbola, RowSemicircle
from .operators import Blocks, Centered, Kernel, Matrix, Operator, Weighted, as_operator, centered
from .problem import DCProblem
from .solvers import (
    DCA,
    IRLS,
    ProximalGradient,
    Result,
    SimultaneousIteration,
    ZeroFPR,
    rayleigh_ritz,
    solve,
)

__version__ = "0.1.0"
