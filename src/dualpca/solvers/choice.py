"""``solver="auto"``: what each solver would cost, and the cheapest.

The model counts floating-point operations at the rates below, measured on two cores of a 2023 server
CPU with OpenBLAS; a faster machine scales all of them alike, so that the choice stays.
docs/performance.md tells how they were measured.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from ..linalg import on_gpu
from ..operators import Operator
from .spectral.chebyshev import columns
from .spectral.gram import KRYLOV_SHARE, KRYLOV_SIDE, krylov_aim, takes_single
from .spectral.krylov import BLOCK, wide_block
from .spectral.truncated import mixed_scale

#: Operations a second, float32; float64 does half.
SQUARE = 350e9  # X^T X, counting 2 N d^2 although symmetry halves the work
THIN = 105e9  # X^T (X W) with 16 columns
#: Seconds for each entry of a sparse matrix and column, in X^T (X W).
SPARSE = 0.45e-9
#: Seconds for each product of two entries in a sparse X^T X.
SPARSE_SQUARE = 4e-9
#: Seconds for each n^3: LAPACK's symmetric eigenvectors, all or few of them, and its SVD (N d^2).
EIGH, EIGH_FEW, SVD = 1.0e-10, 0.4e-10, 4e-10
#: Seconds a Krylov step costs besides the pass and the projected eigenproblems.
STEP = 1.5e-3
#: Up to so many columns or rows a full SVD takes no time worth saving.
SMALL = 200

#: On a GPU, from one H200: operations a second of float32 and of TF32 products, and bytes a second of
#: a TF32 pass.
GPU_SQUARE, GPU_TF32, GPU_BYTES = 50e12, 280e12, 3.6e12
#: Seconds of its eigenvectors for each n, which it takes to launch them, and for each n^3.
GPU_LAUNCH, GPU_EIGH = 1.3e-5, 1e-12
#: Seconds that a pass costs there besides, and a fit.
GPU_STEP, GPU_FIT = 4e-4, 4e-3


@dataclass(frozen=True)
class Plan:
    """The solver, and why."""

    solver: str
    reason: str


def expected_steps(n: int, s: int, tol: float) -> float:
    """Krylov steps to a certified ``tol`` on a spectrum without a gap, as of a Gaussian matrix.

    Where ``tol`` is loose the block is wider than s, and such a run needs few.
    """
    digits = math.log10(1 / min(max(tol, 1e-16), 0.9))
    if wide_block(s, tol):
        # 2, 5, 9, 14 at 0.3, 0.1, 0.03, 0.01, and 3 for the look at the complement.
        return min(n / BLOCK, 3 + max(1.5, 8 * digits - 2.5))
    return min(n / BLOCK, 5 + 1.5 * s / BLOCK + 7 * max(digits, 1.0))


def _besides(steps: float, n: int) -> float:
    """What Krylov does besides the passes: orthogonalisation, and two or three eigenproblems."""
    basis = steps * BLOCK
    return steps * STEP + 3e-12 * n * basis**2 + 2.5 * EIGH * basis**3


def sweeping(X: Operator) -> str:
    """The solver that sweeps X: "chebyshev" for explicit rows on a GPU, else "krylov"."""
    explicit = not (X.implicit or X.T.implicit)
    return "chebyshev" if explicit and on_gpu(X.like) else "krylov"


def _gpu_costs(X: Operator, s: int, tol: float) -> dict[str, float]:
    """Estimated seconds of "gram" and "chebyshev" on a GPU."""
    N, d = X.shape
    n, width = min(N, d), 4 if "float32" in str(X.dtype) else 8
    passes = 4 + 4 * math.log10(1 / min(max(tol, 1e-16), 0.1))
    sweep = 2 * N * d * max(width / GPU_BYTES, 2 * columns(s, n) / GPU_TF32)
    gram = GPU_FIT + 2 * N * d * n / GPU_SQUARE + GPU_LAUNCH * n + GPU_EIGH * n**3
    return {
        "gram": gram + _gram_waiting(X),
        "chebyshev": GPU_FIT + passes * (sweep + GPU_STEP + X.read_seconds),
    }


def _gram_waiting(X: Operator) -> float:
    """A Gram matrix reads the data once; that of the rows once for each block, too often."""
    return math.inf if X.read_seconds and X.shape[1] > X.shape[0] else X.read_seconds


def costs(X: Operator, s: int, tol: float, energy: float) -> dict[str, float]:
    """Estimated seconds of "gram" and of the solver that sweeps X."""
    if sweeping(X) == "chebyshev":
        return _gpu_costs(X, s, tol)
    N, d = X.shape
    n, large = min(N, d), max(N, d)
    steps, b = expected_steps(n, s, tol), max(BLOCK, wide_block(s, tol))
    half = 1.0 if "float32" in str(X.dtype) else 0.5
    eigen = (EIGH_FEW if n > 1000 and s < n else EIGH) * n**3
    if n >= KRYLOV_SIDE and s <= KRYLOV_SHARE * n and not X.T.implicit:  # K goes to LAPACK
        more = expected_steps(n, s, krylov_aim(tol))
        eigen = _besides(more, n) + more * 2 * n * n * b / (2 * THIN * half)
    if X.entries < N * d:
        gram = SPARSE_SQUARE * X.entries**2 / large
        sweep = SPARSE * X.entries * b
    elif X.T.implicit:
        gram, sweep = 0.0, 2 * n * n * b / (THIN * half)
    else:
        gram = 2 * N * d * n / (SQUARE if takes_single(X, tol) else SQUARE * 0.5)
        fast = mixed_scale(X, tol, energy) is not None
        sweep = 4 * N * d * b / (THIN * (1.0 if fast else half))
    return {
        "gram": gram + eigen + _gram_waiting(X),
        "krylov": steps * (sweep + X.read_seconds) + _besides(steps, n),
    }


def plan(X: Operator, s: int, *, dense: bool, tol: float, energy: float) -> Plan:
    """The solver of ``solver="auto"``: LAPACK for small or nearly full problems, else the cheapest."""
    n, large = min(X.shape), max(X.shape)
    if s > n / 2 and dense and large <= 20 * n:
        return Plan(
            "lapack", f"n_components={s} is most of {n}, whose smallest a square would lose"
        )
    if n <= SMALL and dense and large <= 20 * n:
        return Plan("lapack", f"a full SVD is quick with {n} on the smaller side")
    seconds = costs(X, s, tol, energy)
    best = min(seconds, key=seconds.__getitem__)
    told = ", ".join(f"{name} {value:.2g} s" for name, value in seconds.items())
    name = "lapack" if X.T.implicit and best == "gram" else best
    return Plan(name, f"estimated {told}")
