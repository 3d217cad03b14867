"""Principal component analysis through difference-of-convex duality.

The mathematics layer speaks the paper's letters: functions, operators, ``DCProblem``,
``FORMULATIONS`` and ``solve``. The estimators speak scikit-learn's words: ``PCA``, ``KernelPCA``,
``RobustPCA``, ``RobustKernelPCA``, ``SparsePCA``, ``PrincipalComponentPursuit`` and the
``Preprocessor`` before them; ``save`` and ``load`` keep them on disk.
"""

from .estimators import (
    PCA,
    KernelPCA,
    Preprocessor,
    PrincipalComponentPursuit,
    RobustKernelPCA,
    RobustPCA,
    SparsePCA,
)
from .formulations import CLASSICAL, FORMULATIONS, formulation, optimal_value
from .functions import Ball, Function, HalfSquare, Norm, Power, Spectral
from .functions.norms import KyFan, KyFanDual, Lp
from .functions.rows import RowLoss, RowLossConjugate
from .functions.sparse import KSupport, TopK
from .functions.thresholds import ElasticNet, HardSquare, ReversedHuber, SoftSquare
from .io.models import load, save
from .losses import (
    L1,
    LOSSES,
    Cauchy,
    GemanMcClure,
    Huber,
    Log,
    Loss,
    PowerLoss,
    Tukey,
    Welsch,
)
from .operators import Blocks, Centered, Kernel, Matrix, Operator, Weighted, as_operator, centered
from .problem import DCProblem
from .solvers import (
    DCA,
    IRLS,
    SOLVERS,
    Anderson,
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
    "L1",
    "LOSSES",
    "PCA",
    "SOLVERS",
    "Anderson",
    "Ball",
    "Blocks",
    "Cauchy",
    "Centered",
    "DCProblem",
    "ElasticNet",
    "Function",
    "GemanMcClure",
    "HalfSquare",
    "HardSquare",
    "Huber",
    "KSupport",
    "Kernel",
    "KernelPCA",
    "KyFan",
    "KyFanDual",
    "Log",
    "Loss",
    "Lp",
    "Matrix",
    "Norm",
    "Operator",
    "Power",
    "PowerLoss",
    "Preprocessor",
    "PrincipalComponentPursuit",
    "ProximalGradient",
    "Result",
    "ReversedHuber",
    "RobustKernelPCA",
    "RobustPCA",
    "RowLoss",
    "RowLossConjugate",
    "SimultaneousIteration",
    "SoftSquare",
    "SparsePCA",
    "Spectral",
    "TopK",
    "Tukey",
    "Weighted",
    "Welsch",
    "ZeroFPR",
    "as_operator",
    "centered",
    "formulation",
    "load",
    "optimal_value",
    "rayleigh_ritz",
    "save",
    "solve",
]
