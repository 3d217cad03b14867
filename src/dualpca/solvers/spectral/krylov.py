"""Block Krylov with thick restart: DCA with memory.

DCA on (l) moves from W to the polar factor of ``X^T X W`` and forgets where it came from; here the
same objective is minimised over the span of all iterates so far.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ...linalg import Array
from ...operators import Operator
from ...progress import phase, stopped
from .base import SpectralSolver, is_explicit_on_gpu, narrow_side
from .certificate import FAILURE
from .costs import expected_steps, step_seconds, sweep_seconds, wide_block
from .lanczos import BLOCK, PATIENCE, block_of, look_beyond
from .ritz import (
    Ritz,
    SubspaceResult,
    measured_pairs,
    right_pairs,
    widened,
)
from .run import Run
from .sample import SHARE, STEPS, begins_with_sample, sampled_axes, start_columns

#: float32 passes serve float64 data down to this ``tol``; below it most steps are in float64 anyway.
MIXED_TOL = 1e-8

#: From this ``tol`` on they are all that float64 data needs: the variances then have seven digits.
ROUNDED_TOL = 1e-3

#: float32 passes stop at this residual where ``tol`` is below it; float64 passes go on from there.
SINGLE_GOAL = 3e-6

#: Steps of a look after a start from a sample, where Ritz vectors beyond s are out of the way.
LOOKS = 3


@dataclass(frozen=True)
class Krylov(SpectralSolver):
    """The s leading right singular vectors of X by block Krylov on its smaller side, one pass a step.

    Passes over float64 data are first in float32 where ``tol`` allows it. Unless it is loose, a
    Rayleigh-Ritz pass in float64 then measures the residual, and float64 passes go on where that is
    above ``tol``.

    Parameters
    ----------
    block : int, optional
        Vectors a step: by default 16 on a CPU and 64 on a GPU, whatever s is, and a few more than s
        where ``tol`` is loose.
    basis : int, optional
        The most vectors kept; beyond it a thick restart keeps the best half. Memory is
        ``min(N, d) * basis`` numbers: by default half of what is available at most.
    verify : bool
        At convergence, look at the complement of the answer from fresh random vectors until the
        certificate is at most ``tol``: a block finds at most ``block`` copies of a repeated singular
        value, and misses the others without a sign. The run goes on with what the look finds.
    """

    block: int | None = None
    basis: int | None = None
    verify: bool = True

    iterative = True

    def __call__(
        self, X: Operator, s: int, *, tol: float, seed: int, max_passes: int = 1000, **options: Any
    ) -> SubspaceResult:
        energy, start = options.get("energy", math.inf), options.get("start")
        A, scale, steps, note = narrow_side(X), mixed_scale(X, tol, energy), 0, X.precision
        start = X.matmul(start) if start is not None and A is not X else start
        single = X.in_float32(scale) if scale is not None else None
        if start is None and begins_with_sample(X, tol):
            columns, kept = min(A.shape[1], start_columns(s)), None if single is None else scale
            with X.blas_limited():
                start = sampled_axes(X, columns, seed, kept)
        if single is not None and scale is not None:
            verified = tol >= SINGLE_GOAL
            given: dict[str, Any] = {"seed": seed, "max_passes": max_passes}
            given |= {"tol": max(tol, SINGLE_GOAL), "energy": energy * scale * scale}
            given["start"] = None if start is None else single.asarray(start)
            solver = replace(self, verify=self.verify and verified)
            first = solver.eigenvectors(narrow_side(single), s, **given)
            steps = first.steps
            if tol >= ROUNDED_TOL:
                ritz = widened(X, right_pairs(single, first, tol), scale, energy)
                if ritz.residual <= tol and ritz.orthonormal:
                    return SubspaceResult(ritz, first.certificate, steps, "float32")
            ritz = measured_pairs(X, first.ritz.V)
            if (verified and ritz.residual <= tol) or steps >= max_passes or stopped():
                return SubspaceResult(ritz, first.certificate, steps, "float32")
            seed, start, note = seed + 1, A.asarray(first.ritz.V), "float32, then float64"
        given = {"seed": seed, "max_passes": max_passes - steps}
        result = self.eigenvectors(A, s, tol=tol, start=start, energy=energy, **given)
        ritz, steps = right_pairs(X, result, tol), steps + result.steps
        return SubspaceResult(ritz, result.certificate, steps, note)

    def eigenvectors(
        self,
        A: Operator,
        s: int,
        *,
        tol: float,
        seed: int,
        max_passes: int = 1000,
        start: Array | None = None,
        energy: float = math.inf,
    ) -> SubspaceResult:
        """Return Ritz pairs of ``A^T A`` from the iterates of ``start``, or of a Gaussian block.

        Residuals come from the recurrence, which knows them without a product. They include what
        rounding may hide: ``ROUNDING eps theta_1`` for each vector.
        """
        rng, steps, failure = np.random.default_rng(seed), 0, FAILURE
        with A.blas_limited():
            while True:
                failure = failure / 2  # one half of it for the start, one for the look
                run = Run(self, A, s, tol, rng, start, energy, failure / 2)
                run.solve(max_passes - steps)
                basis = run.basis
                used = steps + basis.steps
                remainder = None if run.sketched else (basis.Q, basis.K[:, :s])
                patience = min(used + PATIENCE, max_passes - used)
                given: dict[str, Any] = {"tol": tol, "energy": energy, "failure": failure / 2}
                given["columns"] = min(run.b, block_of(basis.V))
                given["max_steps"] = 0 if run.out or not self.verify else patience
                certificate, missed = run.certificate, None
                if certificate is None:
                    with phase("certificate"):
                        certificate, missed = look_beyond(basis, s, **given)
                steps += basis.steps
                V = basis.xp.asarray(basis.V[:, :s], copy=True)
                if missed is None:
                    break
                start = basis.xp.concat([V, missed], axis=1)
        ritz = Ritz(V, run.theta[:s], run.bounds)
        return SubspaceResult(ritz, certificate, steps, "", run.converged, remainder)

    def cost(self, X: Operator, s: int, tol: float, energy: float) -> float:
        if is_explicit_on_gpu(X):  # Chebyshev is quicker there
            return math.inf
        n, b = min(X.shape), max(BLOCK, wide_block(s, tol))
        steps = expected_steps(n, s, tol)
        converted = not X.T.implicit and mixed_scale(X, tol, energy) is not None
        sweep = sweep_seconds(X, b, converted=converted)
        if begins_with_sample(X, tol) and not X.read_seconds:
            start = (1 + STEPS * SHARE) * sweep_seconds(X, start_columns(s), converted=converted)
            thin = sweep_seconds(X, BLOCK, converted=converted)
            return start + LOOKS * thin + step_seconds(1 + LOOKS, n)
        return steps * (sweep + X.read_seconds) + step_seconds(steps, n)


def mixed_scale(X: Operator, tol: float, energy: float) -> float | None:
    """Return the power of two that brings X near 1 in float32; None where passes stay in float64."""
    if "float64" not in str(X.dtype) or tol < MIXED_TOL or not 0 < energy < math.inf:
        return None
    return 2.0 ** -round((math.log2(energy) - math.log2(math.prod(X.shape))) / 2)
