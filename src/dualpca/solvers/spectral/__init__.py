"""Solvers of the eigenproblem of X^T X: one class and one entry of ``SPECTRAL`` for each."""

from .base import SpectralSolver
from .chebyshev import Chebyshev
from .direct import Gram, Lapack
from .krylov import Krylov

__all__ = ["SPECTRAL", "Chebyshev", "Gram", "Krylov", "Lapack", "SpectralSolver"]

#: The spectral solvers by name.
SPECTRAL: dict[str, SpectralSolver] = {
    "lapack": Lapack(),
    "gram": Gram(),
    "krylov": Krylov(),
    "chebyshev": Chebyshev(),
}
