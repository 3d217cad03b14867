"""Solvers of DC problems, run by :func:`solve`, and spectral solvers of the eigenproblem of X^T X."""

from .base import Iterate, Point, Solver
from .dca import DCA, IRLS, Anderson, SimultaneousIteration
from .proximal import ProximalGradient, ZeroFPR
from .solve import SOLVERS, Result, solve
from .spectral import SPECTRAL, Chebyshev, Gram, Krylov, Lapack, SpectralSolver
from .spectral.lanczos import certify
from .spectral.ritz import Ritz, SubspaceResult, rayleigh_ritz, ritz_pairs

__all__ = ["DCA", "IRLS", "Anderson", "ProximalGradient", "SimultaneousIteration", "ZeroFPR"]
__all__ += ["SOLVERS", "Iterate", "Point", "Result", "Solver", "solve"]
__all__ += ["SPECTRAL", "Chebyshev", "Gram", "Krylov", "Lapack", "SpectralSolver"]
__all__ += ["Ritz", "SubspaceResult", "certify", "rayleigh_ritz", "ritz_pairs"]
