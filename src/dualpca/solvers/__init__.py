"""Solvers of DC problems, run by :func:`solve`, and spectral solvers of the eigenproblem of X^T X."""

from .base import Iterate, Point, Solver
from .dca import DCA, IRLS, Anderson, SimultaneousIteration
from .proximal import ProximalGradient, ZeroFPR
from .solve import SOLVERS, Result, solve
from .spectral import SPECTRAL, Chebyshev, Gram, Krylov, Lapack, SpectralSolver
from .spectral.lanczos import certify
from .spectral.ritz import Ritz, SubspaceResult, rayleigh_ritz, ritz_pairs

__all__ = [
    "DCA",
    "IRLS",
    "SOLVERS",
    "SPECTRAL",
    "Anderson",
    "Chebyshev",
    "Gram",
    "Iterate",
    "Krylov",
    "Lapack",
    "Point",
    "ProximalGradient",
    "Result",
    "Ritz",
    "SimultaneousIteration",
    "Solver",
    "SpectralSolver",
    "SubspaceResult",
    "ZeroFPR",
    "certify",
    "rayleigh_ritz",
    "ritz_pairs",
    "solve",
]
