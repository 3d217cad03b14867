"""The rates by which spectral solvers estimate their cost, and the estimates that they share.

A cost counts floating-point operations at the rates below, which two cores of a server with AVX-512
reached. docs/performance.md tells how they were measured. A machine that is faster at all of them alike
makes the same choice.
"""

from __future__ import annotations

import math

from ...operators import Operator
from .lanczos import BLOCK

#: Operations a second in float32, by C kernels and by NumPy; float64 does half.
SQUARE, NUMPY_SQUARE = 750e9, 420e9  # X^T X, counting 2 N d^2 although symmetry halves the work
WIDE, NUMPY_WIDE = 430e9, 250e9  # X^T (X W) with many columns
THIN, NUMPY_THIN = 170e9, 93e9  # C W with 16 columns, counting n^2 16
#: So many operations could be done while an entry is read by C kernels, read and converted from float64,
#: or read by NumPy.
READ, CONVERT, NUMPY_READ = 10, 46, 50
#: That factor more where kernels read strips of columns.
STRIPS = 2
#: Seconds for each stored entry of a sparse matrix and column, in X^T (X W).
SPARSE, SCIPY_SPARSE = 0.4e-9, 1.0e-9  # by C kernels and by SciPy
#: Seconds for each product of two stored entries in a sparse X^T X.
SPARSE_SQUARE = 4e-9
#: Seconds of LAPACK's symmetric eigenvectors in float64: all for each n^3; few for each n^3, and for each
#: n^2 and vector; and the share of these that float32 takes.
EIGH, EIGH_FEW, EIGH_VECTOR, EIGH_SINGLE = 1.3e-10, 0.4e-10, 3.5e-10, 0.6

#: One H200 GPU: operations a second of float32 and of TF32 products, and bytes a second of a TF32 pass.
GPU_SQUARE, GPU_TF32, GPU_BYTES = 50e12, 280e12, 3.6e12
#: Seconds of its eigenvectors for each n, which launching them takes, and for each n^3.
GPU_LAUNCH, GPU_EIGH = 1.3e-5, 1e-12
#: Seconds that a pass and a fit cost there besides.
GPU_STEP, GPU_FIT = 4e-4, 4e-3

#: Seconds that a Krylov step costs besides the pass and the projected eigenproblems.
STEP = 1e-3

#: From this ``tol`` on, blocks of up to WIDEST are a little wider than s: such a run takes few steps.
LOOSE, WIDEST = 2e-2, 64


def sweep_seconds(X: Operator, b: int, *, converted: bool) -> float:
    """Return the seconds of ``X^T (X W)`` with b columns; ``converted`` float64 rows become float32."""
    (N, d), kernels = X.shape, X.uses_kernels
    if X.entries < N * d:
        return (SPARSE if kernels else SCIPY_SPARSE) * X.entries * b
    single = X.precision == "float32" or (converted and kernels)
    read = NUMPY_READ if not kernels else CONVERT if X.precision != "float32" and single else READ
    read *= STRIPS if kernels and d > N else 1
    operations = d * d * (2 * b + read / 2) if X.T.implicit else N * d * (4 * b + read)
    rate = WIDE if kernels else NUMPY_WIDE
    return operations / (rate if single else rate / 2)


def square_seconds(X: Operator, *, single: bool) -> float:
    """Return the seconds of the smaller Gram matrix of a dense X."""
    N, d = X.shape
    rate = SQUARE if X.grams_by_kernels else NUMPY_SQUARE
    return 2 * N * d * min(N, d) / (rate if single else rate / 2)


def eigh_seconds(n: int, s: int, *, single: bool = False) -> float:
    """Return the seconds that LAPACK takes for s eigenvectors of an n x n matrix."""
    few = EIGH_FEW * n**3 + EIGH_VECTOR * s * n**2
    return min(few, EIGH * n**3) * (EIGH_SINGLE if single else 1.0)


def wide_block(s: int, tol: float) -> int:
    """Return the columns of a block a little wider than s, where ``tol`` is loose; else 0."""
    enough = BLOCK * -(-(s + 4) // BLOCK)
    return enough if tol >= LOOSE and enough <= WIDEST else 0


def expected_steps(n: int, s: int, tol: float) -> float:
    """Return the Krylov steps to a certified ``tol`` on a spectrum without a gap, such as a Gaussian's.

    Where ``tol`` is loose the block is wider than s, and such a run needs few.
    """
    digits = math.log10(1 / min(max(tol, 1e-16), 0.9))
    if wide_block(s, tol):
        # 2, 5, 9, 14 at 0.3, 0.1, 0.03, 0.01, and 3 for the look at the complement.
        return min(n / BLOCK, 3 + max(1.5, 8 * digits - 2.5))
    return min(n / BLOCK, 5 + 1.5 * s / BLOCK + 7 * max(digits, 1.0))


def step_seconds(steps: float, n: int) -> float:
    """Return the seconds besides the passes: orthogonalisation, and eigenproblems of few vectors."""
    basis = steps * BLOCK
    return steps * STEP + 3e-12 * n * basis**2 + 1.1 * EIGH * basis**3
