"""Chebyshev-filtered subspace iteration: DCA with a polynomial instead of a memory.

DCA on (l) multiplies W by ``C = X^T X`` and makes it orthonormal; here W is multiplied by a Chebyshev
polynomial of C, which is small on the eigenvalues that are not wanted. There is no basis to keep
orthogonal and no eigenproblem beyond that of one block: what a GPU wants, on which a pass with 128
columns costs no more than one with 16 and less than an eigenproblem of size 256.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ... import progress
from ..._memory import ensure, itemsize
from ...linalg import Array, standard_normal
from ...operators import Operator
from . import costs
from .base import SpectralSolver, is_explicit_on_gpu, narrow_side
from .bases import conditioned
from .certificate import ROUNDING_RISE, Certificate
from .krylov import mixed_scale
from .lanczos import certify_block
from .ritz import (
    ROUNDING,
    Block,
    SubspaceResult,
    block_pairs,
    measured_pairs,
    relative_residual,
    unit_of,
)
from .sample import is_tall, sampled_axes

#: The degree of the first filter and the highest of any; it may double from one to the next.
FIRST, LONGEST = 4, 32

#: A growth below this says that the eigenvalues from the s-th to the last of the block are one cluster:
#: nothing is lost among them, and the filter should cut below it.
CLUSTER = 0.06

#: From this ``tol`` on the products that measure are in TF32 too. Up to three times it a block is wide
#: also after a sample: the energy that it leaves then certifies spectra that decay, without a look
#: (singular values 1/i, s = 50, tol 1e-2: 9 ms with 128 columns and no sample, 25 with 64 and a look).
#: Above that 64 columns do.
TF32_TOL = 1e-2

#: So are those of the look at the complement, where their rounding costs this share of ``tol``.
SHARE_OF_TOL = 0.3

#: Below this share of their rounding unit, or where they stall, filters in TF32 gain no more
#: (singular values 1/i: 2.5e-5, 1.1e-5, 1.0e-5 after one another; float32 goes on to 2.6e-7).
LEVEL = 0.25

#: Columns may come to differ in size by this factor before they are orthogonalised.
SPREAD = 100.0


def columns(s: int, n: int, sampled: bool = False) -> int:
    """Return the columns of the block: those beyond s make the filter steep, fewer do after a sample."""
    return min(n, 32 * math.ceil((s + 12) / 32) if sampled else 64 * math.ceil((s + 28) / 64))


@dataclass(frozen=True)
class Chebyshev(SpectralSolver):
    """The s leading right singular vectors of X by Chebyshev filters on its smaller side.

    Filters and Rayleigh-Ritz passes take turns. On a GPU the filters are in TF32, of X rounded to
    float32 where it is float64; Rayleigh-Ritz passes in the precision of X measure the residual.
    """

    iterative = True

    def __call__(
        self, X: Operator, s: int, *, tol: float, seed: int, max_passes: int = 1000, **options: Any
    ) -> SubspaceResult:
        energy = options.get("energy", math.inf)
        scale = mixed_scale(X, tol, energy)
        fast = ((X.in_float32(scale) if scale is not None else None) or X).with_tf32()
        given: dict[str, Any] = {"tol": tol, "seed": seed, "max_passes": max_passes}
        given |= {"energy": energy, "fast": None if fast is X else narrow_side(fast)}
        result = self.eigenvectors(narrow_side(X), s, **given)
        note = X.precision if fast is X else f"{fast.precision} and {X.precision}"
        note = fast.precision if tol >= TF32_TOL and scale is None else note
        wide = X.shape[1] > X.shape[0]
        ritz = measured_pairs(X, result.ritz.V) if wide else result.ritz
        return SubspaceResult(ritz, result.certificate, result.steps, note)

    def eigenvectors(
        self,
        A: Operator,
        s: int,
        *,
        tol: float,
        seed: int,
        max_passes: int = 1000,
        fast: Operator | None = None,
        energy: float = math.inf,
    ) -> SubspaceResult:
        """Return Ritz pairs of ``A^T A``.

        ``fast`` is a multiple of A in less precision: it serves all passes but those that measure the
        residual and certify the answer, as long as the residual goes on falling.
        """
        fast = A if fast is None else fast
        exact = fast if tol >= TF32_TOL and str(fast.dtype) == str(A.dtype) else A
        with A.blas_limited(), A.ieee_products():
            block, done, steps = _iterate(exact, fast, s, tol, seed, max_passes)
            theta, _ = block.ritz.on_host()
            floor = ROUNDING_RISE * unit_of(exact)
            certificate = Certificate(theta, block.coupling, energy=energy, floor=floor)
            certificate = certificate.with_rounding(ROUNDING * unit_of(exact) * theta[0])
            if done and certificate.shortfall(s) > tol:
                rounding = s * ROUNDING * unit_of(fast) * theta[0]
                looking = fast if rounding <= SHARE_OF_TOL * tol * theta[:s].sum() else A
                before, few = looking.passes, columns(s, A.shape[1], sampled=True)
                given: dict[str, Any] = {"energy": energy, "seed": seed + 1, "floor": floor}
                # The bound takes an eigenproblem of twice as many pairs on the host.
                certificate = certify_block(looking, block.leading(few), s, tol=tol, **given)
                steps += looking.passes - before
        return SubspaceResult(block.ritz.leading(s).signed(), certificate, steps, converged=done)

    def cost(self, X: Operator, s: int, tol: float, energy: float) -> float:
        if not is_explicit_on_gpu(X):
            return math.inf
        (N, d), width = X.shape, 4 if X.precision == "float32" else 8
        passes = 4 + 4 * math.log10(1 / min(max(tol, 1e-16), 0.1))
        sweep = 2 * N * d * max(width / costs.GPU_BYTES, 2 * columns(s, min(N, d)) / costs.GPU_TF32)
        return costs.GPU_FIT + passes * (sweep + costs.GPU_STEP + X.read_seconds)


def _iterate(
    A: Operator, fast: Operator, s: int, tol: float, seed: int, max_passes: int
) -> tuple[Block, bool, int]:
    """Filter a block until its first s columns have a residual of at most ``tol``.

    Return Ritz pairs, whether they meet ``tol``, and the passes.
    """
    unit, steps, tall = unit_of(A), 1, is_tall(A)
    sketching = TF32_TOL <= tol < 3 * TF32_TOL
    n, width, like = A.shape[1], columns(s, A.shape[1], tall and not sketching), A.like
    what = f"4 blocks of {width:,} vectors of {n:,} numbers, for {s:,} components,"
    ensure(4 * n * width * itemsize(like), what, "ask for fewer components", like)
    if tall:
        P, steps = sampled_axes(fast, width, seed), 0
    else:
        P = fast.sweep(standard_normal((n, width), fast.asarray(like), seed))
    most, before, last = FIRST, math.inf, math.inf
    exact, same = False, str(fast.dtype) == str(A.dtype)
    while True:
        X = A if exact else fast
        block = block_pairs(X, P)
        steps += 1
        theta, r = block.ritz.on_host()
        if not theta[0] > 0:
            return block, True, steps
        cut = max(float(theta[-1]), unit * float(theta[0]))
        if _growth(theta[s - 1] / cut) < CLUSTER:
            cut /= 2
        growth = _growth(theta[s - 1] / cut)
        residual = relative_residual(r[:s], theta[:s])
        stalled, out = residual > 0.5 * before, steps + 1 >= max_passes
        out = progress.report_step("chebyshev", residual, tol, A.passes) or out
        reached_fast = stalled or out or residual <= 0.7 * tol * math.cosh(growth)
        final, measuring = block, X is not A and reached_fast
        if measuring:
            width = min(A.shape[1], 16 * math.ceil((s + 8) / 16))
            final = block_pairs(A, A.asarray(_first(block, cut)[:, :width]))
            steps += 1
        if X is A or measuring:
            r, reached, floor = _with_rounding(*final.ritz.on_host(), s, ROUNDING * unit)
            done = reached <= max(tol, floor)
            if done or out:
                return replace(final, ritz=final.ritz.with_residuals(r)), done, steps
        P = _first(block, cut)
        if X is A or measuring:
            if fast is not A and (reached > 0.5 * last or reached < LEVEL * unit_of(fast)):
                P, fast, most, before = A.asarray(P), A, FIRST, math.inf
                exact = True
                continue
            residual = last = reached
        wanted = math.acosh(max(residual / (0.5 * tol), 1.0)) / growth if tol > 0 else LONGEST
        degree = min(max(2, math.ceil(wanted)), most, LONGEST, max_passes - steps)
        difference = max(_growth(theta[0] / cut) - growth, 1e-9)
        every = max(1, int(math.log(SPREAD) / difference))
        exact = same and wanted <= degree  # then the residual is measured at once
        P = _filter(fast, block.ritz.V, P, cut, degree, every)
        steps, most, before = steps + degree - 1, 2 * most, residual


def _first(block: Block, cut: float) -> Array:
    """``T_1(2 C / cut - I) V``, whose pass is done."""
    return block.image * (2 / cut) - block.ritz.V


def _with_rounding(
    theta: np.ndarray, r: np.ndarray, s: int, rounding: float
) -> tuple[np.ndarray, float, float]:
    """Add to the residuals what rounding may hide; return also that of the first s and its floor."""
    r = np.hypot(r, rounding * theta[0])
    floor = relative_residual(np.full(s, 2 * rounding * theta[0]), theta[:s])
    return r, relative_residual(r[:s], theta[:s]), floor


def _growth(ratio: float) -> float:
    """Return the logarithm of the factor by which one degree of the filter grows at ``ratio cut``."""
    return math.acosh(max(2 * ratio - 1, 1 + 1e-6))


def _filter(A: Operator, V: Array, P: Array, cut: float, degree: int, every: int) -> Array:
    """``T_degree(2 C / cut - I) V`` from ``P = T_1 V``.

    On the way columns are orthogonalised by a matrix from the right, which keeps the recurrence.
    """
    for k in range(1, degree):
        if k % every == 0:
            P, V = conditioned(P, V)
        P, V = A.sweep(P) * (4 / cut) - 2 * P - V, P
    return P
