"""The protocol of spectral solvers, and the rates by which they estimate their cost.

A cost counts floating-point operations at the rates below: the geometric mean of two server CPUs, two
cores each, with OpenBLAS. A faster machine scales all of them alike, so that the choice stays the same.
docs/performance.md tells how they were measured.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from typing import ClassVar

from ...linalg import Array, on_gpu
from ...operators import Operator
from .ritz import SubspaceResult

#: Operations a second in float32; float64 does half.
SQUARE = 350e9  # X^T X, counting 2 N d^2 although symmetry halves the work
THIN, NUMPY_THIN = 110e9, 60e9  # X^T (X W) with 16 columns, by C kernels and by NumPy
CONVERTED = 0.6  # of the rate in float32, if rows are converted from float64 as they are read
#: Seconds for each stored entry of a sparse matrix and column, in X^T (X W).
SPARSE, SCIPY_SPARSE = 0.4e-9, 1.0e-9  # by C kernels and by SciPy
#: Seconds for each product of two stored entries in a sparse X^T X.
SPARSE_SQUARE = 4e-9
#: Seconds for each n^3 of LAPACK's symmetric eigenvectors, all or few of them.
EIGH, EIGH_FEW = 1.0e-10, 0.4e-10

#: One H200 GPU: operations a second of float32 and of TF32 products, and bytes a second of a TF32 pass.
GPU_SQUARE, GPU_TF32, GPU_BYTES = 50e12, 280e12, 3.6e12
#: Seconds of its eigenvectors for each n, which launching them takes, and for each n^3.
GPU_LAUNCH, GPU_EIGH = 1.3e-5, 1e-12
#: Seconds that a pass and a fit cost there besides.
GPU_STEP, GPU_FIT = 4e-4, 4e-3


class SpectralSolver(ABC):
    """Computes the s leading right singular vectors of an operator.

    To add one, write a class that is called like this and enter it in ``SPECTRAL``; with a cost,
    ``solver="auto"`` may choose it.
    """

    #: whether it iterates to ``tol``; else it is direct, and rounding alone limits its accuracy
    iterative: ClassVar[bool] = False

    #: whether it decomposes X as one dense array in memory
    needs_dense: ClassVar[bool] = False

    @abstractmethod
    def __call__(
        self,
        X: Operator,
        s: int,
        *,
        tol: float,
        seed: int,
        max_passes: int = 1000,
        start: Array | None = None,
        energy: float = math.inf,
    ) -> SubspaceResult:
        """Return s Ritz pairs of ``X^T X`` with a residual of at most ``tol``, and their certificate.

        ``start`` has columns near the answer, which a solver may begin from. ``energy`` is
        ``||X||_F^2``, which allows passes in less precision and makes certificates cheaper.
        """

    def cost(self, X: Operator, s: int, tol: float, energy: float) -> float:
        """Return the estimated seconds of a call; infinity where the solver is not to be chosen."""
        return math.inf

    def preference(self, X: Operator, s: int) -> str:
        """Return why this solver is best whatever the others cost; "" where costs decide."""
        return ""


def is_explicit_on_gpu(X: Operator) -> bool:
    """Whether X has explicit rows and columns on a GPU."""
    return not (X.implicit or X.T.implicit) and on_gpu(X.like)


def sweep_seconds(X: Operator, b: int, *, converted: bool) -> float:
    """Return the seconds of ``X^T (X W)`` with b columns; ``converted`` float64 rows become float32."""
    (N, d), kernels = X.shape, X.uses_kernels
    if X.entries < N * d:
        return (SPARSE if kernels else SCIPY_SPARSE) * X.entries * b
    rate = THIN if kernels else NUMPY_THIN
    rate *= 1.0 if X.precision == "float32" else CONVERTED if converted and kernels else 0.5
    operations = 2 * d * d * b if X.T.implicit else 4 * N * d * b
    return operations / rate


def eigh_seconds(n: int, s: int) -> float:
    """Return the seconds that LAPACK takes for s eigenvectors of an n x n matrix."""
    return (EIGH_FEW if n > 1000 and s < n else EIGH) * n**3


def narrow_side(X: Operator) -> Operator:
    """Return X or X^T, whichever has fewer columns."""
    return X.T if X.shape[1] > X.shape[0] else X
