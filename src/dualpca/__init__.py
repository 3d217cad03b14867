"""Principal component analysis through difference-of-convex duality.

The mathematics layer speaks the paper's letters: functions, operators, ``DCProblem``,
``FORMULATIONS`` and ``solve``. The estimators speak scikit-learn's words: ``PCA`` and ``KernelPCA``.
"""

from .estimators import PCA, KernelPCA
from .formulations import CLASSICAL, FORMULATIONS, formulation, optimal_value
from .functions import Ball, Function, HalfSquare, Norm, Power, Spectral
from .losses import RowHyperbola, RowSemicircle
from .norms import KyFan, KyFanDual, Lp
from .operators import Blocks, Centered, Kernel, Matrix, Operator, Weighted, as_operator, centered
from .problem import DCProblem
from .solvers import (
    DCA,
    IRLS,
    SOLVERS,
    ProximalGradient,
    Result,
    SimultaneousIteration,
    ZeroFPR,
    rayleigh_ritz,
    solve,
)

__version__ = "0.1.0"

__all__ = [
    "CLASSICAL",
    "DCA",
    "FORMULATIONS",
    "IRLS",
    "PCA",
    "SOLVERS",
    "Ball",
    "Blocks",
    "Centered",
    "DCProblem",
    "Function",
    "HalfSquare",
    "Kernel",
    "KernelPCA",
    "KyFan",
    "KyFanDual",
    "Lp",
    "Matrix",
    "Norm",
    "Operator",
    "Power",
    "ProximalGradient",
    "Result",
    "RowHyperbola",
    "RowSemicircle",
    "SimultaneousIteration",
    "Spectral",
    "Weighted",
    "ZeroFPR",
    "as_operator",
    "centered",
    "formulation",
    "optimal_value",
    "rayleigh_ritz",
    "solve",
]
