"""Block Krylov with thick restart: DCA with memory.

DCA on (l) moves from W to the polar factor of ``X^T X W`` and forgets where it came from; here the
same objective is minimised over the span of all iterates so far.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ..._memory import SMALL, available, ensure, itemsize
from ...linalg import Array, norm, on_gpu
from ...operators import Operator
from ...progress import phase, report_step, stopped
from .base import SpectralSolver, is_explicit_on_gpu, narrow_side
from .certificate import FAILURE, ROUNDING_RISE, Certificate, leading_ceilings
from .costs import LOOSE, expected_steps, step_seconds, sweep_seconds, wide_block
from .lanczos import BLOCK, PATIENCE, Lanczos, block_of, energy_at_most, look_beyond
from .projected import ALL, Eigenpairs
from .ritz import (
    ROUNDING,
    Ritz,
    SubspaceResult,
    measured_pairs,
    relative_residual,
    right_pairs,
    unit_of,
    widened,
)
from .sample import SHARE, STEPS, begins_with_sample, sampled_axes, start_columns

#: float32 passes serve float64 data down to this ``tol``; below it most steps are in float64 anyway.
MIXED_TOL = 1e-8

#: From this ``tol`` on they are all that float64 data needs: the variances then have seven digits.
ROUNDED_TOL = 1e-3

#: float32 passes stop at this residual where ``tol`` is below it; float64 passes go on from there.
SINGLE_GOAL = 3e-6

#: A look at the complement takes about so many steps with BLOCK columns on spectra without a gap. From
#: this ``tol`` on a run goes on instead, until its own start certifies it, where that is quicker.
LOOK_STEPS, START_TOL = 20, 5e-2

#: Steps of a look after a start from a sample, where Ritz vectors beyond s are out of the way.
LOOKS = 3

#: Columns of a Gaussian start beyond s without which it certifies nothing.
BEYOND = 4


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
            first = replace(self, verify=verified).eigenvectors(narrow_side(single), s, **given)
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
                run = _Run(self, A, s, tol, rng, start, energy, failure / 2)
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


class _Run:
    """A :class:`Lanczos` basis that grows until the residual is at most ``tol``."""

    def __init__(
        self,
        options: Krylov,
        A: Operator,
        s: int,
        tol: float,
        rng: Any,
        start: Array | None,
        energy: float,
        failure: float,
    ) -> None:
        self.A, self.s, self.tol, n = A, s, tol, A.shape[1]
        self.failure, self.verify = failure, options.verify
        self.energy = energy_at_most(A, energy, ROUNDING_RISE * unit_of(A))
        self.certificate: Certificate | None = None  # where no look at the complement is needed
        self.sketched = False
        b = options.block or block_of(A.like if start is None else start)
        if options.block is None and start is None:
            # Passes that wait for the data count more.
            b = max(b, wide_block(s, 2 * tol if A.read_seconds else tol))
        self.b = max(1, min(b, n))
        # Of fewer vectors than components the first Ritz values are poor, and looks find what they miss
        # (Gaussian 2000 x 2000, s = 80, tol 0.3: 40 passes, and 29 so).
        poor = start is None and self.b < s and not A.read_seconds
        self.aim = min(tol, LOOSE) if poor else tol  # the residual to reach
        self._gaussian = start is None and 2 <= s <= self.b - BEYOND and tol >= START_TOL
        if start is None:
            start = A.asarray(rng.standard_normal((n, self.b)))
        self.limit = min(n, max(options.basis or self._affordable(start), s + 4 * self.b))
        self._kept = max(s + self.b, (s + self.limit) // 2)  # by a restart
        self._beyond = [s + k for k in (self.b // 2, self.b, 2 * self.b)]  # what the look may want
        width = min(n, self.limit + max(2 * self.b, start.shape[1]))
        what = f"{width:,} vectors of {n:,} numbers, for {s:,} components,"
        nbytes = width * n * itemsize(start) + 8 * width**2
        ensure(nbytes, what, "ask for fewer components", start)
        self.basis = Lanczos(A, start, width, rng)
        self.basis.begin(start)
        self.converged = self.out = False

    def _affordable(self, start: Array) -> int:
        """Return how many vectors to keep: more save passes, but take half of the memory at most."""
        wanted = max(2 * self.s, self.s + 40 * self.b)
        nbytes = start.shape[0] * itemsize(start)
        if wanted * nbytes < SMALL or on_gpu(start) or (left := available()) is None:
            return wanted
        return min(wanted, left // (2 * nbytes))

    def solve(self, max_steps: int) -> None:
        """Grow the basis until the residual is at most ``tol``, or ``max_steps`` passes are made.

        It goes on beyond ``tol`` where the look at the complement would not get there. The basis then
        holds the leading Ritz vectors, ``theta`` their values and ``bounds`` the norms of the first s
        residuals.
        """
        basis, s, check, before, waited = self.basis, self.s, 0, (0, 1.0), False
        while True:
            basis.expand()
            self.out = basis.steps >= max_steps
            crowded = basis.m + basis.Q.shape[1] > self.limit
            if basis.m < s or not (basis.complete or self.out or crowded or basis.steps >= check):
                continue
            pairs = basis.eigenpairs()
            wanted = basis.m if basis.complete else self._kept if crowded else self._beyond[0]
            self.theta, S = pairs.leading(wanted)
            theta, r = self.theta[:s], basis.residual_norms(S[:, :s])
            residual = relative_residual(r, theta)
            self.bounds = np.hypot(r, ROUNDING * basis.eps * max(theta[0], 0.0))
            bound = relative_residual(self.bounds, theta)
            self.out = report_step("krylov", bound, self.tol, self.A.passes) or self.out
            rounding = np.full(s, math.hypot(2 * ROUNDING * basis.eps * theta[0], basis.lost))
            floor = relative_residual(rounding, theta)  # more steps add to it
            final, wait = basis.complete or self.out or residual <= floor, 0
            if final or residual <= self.aim:
                keep, feasible = self._easiest(pairs)
                # With more Ritz vectors than s out of the way a look takes few steps.
                waited = waited or (feasible and keep == s)
                wait = self._certify_by_start(S) if waited and self.verify and not final else 0
                done = self.certificate is not None or (feasible and not wait)
                if final or not self.verify or done:
                    self.converged = basis.complete or residual <= self.tol
                    return basis.restart(*pairs.leading(keep))
                self.aim = self.aim if wait else 0.5 * residual
            if self._certify_sketch(theta):
                return None
            if wait and not crowded:
                check = basis.steps + wait
                continue
            remaining = self._remaining(before, residual)
            before = (basis.steps, residual)
            # A large eigenproblem takes as long as a few steps: rather one of these too many.
            ahead = 0.7 * remaining + (0.5 if basis.m > ALL else 0.0)
            check = basis.steps + max(1, min(int(ahead), basis.steps))
            if crowded:
                basis.restart(*pairs.leading(self._kept))

    def _certify_sketch(self, theta: np.ndarray) -> bool:
        """Take the eigenvectors of ``N <= C`` where the trace of ``C - N`` is small enough.

        N is that of :meth:`Lanczos.half_step`. The s leading eigenvalues of C exceed those of N by no
        more than the trace in total (Ky Fan), and no ``(C - N) W`` is larger: a bound on variance missed
        and residual without a look at the complement, for spectra that fall fast.
        """
        basis, s = self.basis, self.s
        kernel = self.A.implicit or self.A.T.implicit  # which may be indefinite
        if kernel or not math.isfinite(self.energy):
            return False
        next_block = basis.Q.shape[1] * float(theta[0])  # it holds no more, once theta_1 is found
        beyond = self.energy - float(np.trace(basis.T[: basis.m, : basis.m])) - next_block
        if basis.steps > 2 and beyond > self.tol * self.energy:
            return False
        N, rounding = basis.half_step(float(theta[0]))
        energy, trace = self.energy + rounding, float(np.trace(N))
        left = energy - trace
        if left > self.tol * trace:  # no eigenvalues are as large
            return False
        values, S = Eigenpairs(N).leading(len(N))
        if left > self.tol * norm(values[:s]):
            return False
        width = basis.m + basis.Q.shape[1]
        basis.V[:, basis.m : width] = basis.Q
        basis.m, basis.K = width, np.zeros((0, width))
        basis.restart(values[:s], S[:, :s])
        self.theta, self.bounds = values, np.full(s, left / math.sqrt(s))
        self.certificate = Certificate(
            values, None, math.inf, energy, ROUNDING_RISE * unit_of(self.A)
        )
        self.sketched = self.converged = True
        return True

    def _certify_by_start(self, S: np.ndarray) -> int:
        """Return how many steps to wait for a certificate by the Gaussian start, or 0.

        It is 0 where that has certified ``tol``, and where a look at the complement is quicker.
        """
        basis, s, q = self.basis, self.s, self.basis.steps
        if not self._gaussian or basis.R is None or basis.complete:
            return 0
        theta, T = self.theta[:s], basis.T[: basis.m, : basis.m]
        rounding = math.hypot(ROUNDING * unit_of(self.A) * float(theta[0]), basis.lost)
        known: dict[str, Any] = {"steps": q, "failure": self.failure, "rounding": rounding}
        ceilings = leading_ceilings(T, basis.K, basis.R, theta, S[:, :s], **known)
        if ceilings is None:
            return 0
        left = float(np.clip(ceilings + rounding - theta, 0.0, None).sum())
        floor = ROUNDING_RISE * unit_of(self.A)
        certificate = Certificate(theta, None, math.inf, float(theta.sum()) + left, floor)
        bound = certificate.shortfall(s)
        if bound <= self.tol:
            self.certificate = certificate
            return 0
        # The bounds are those of Chebyshev polynomials, cosh^2(y / 2 q) for some y.
        wait = math.ceil(q * (math.acosh(1 + 2 * bound) / math.acosh(1 + 2 * self.tol) - 1))
        return wait if wait * self.b <= LOOK_STEPS * BLOCK else 0

    def _easiest(self, pairs: Eigenpairs) -> tuple[int, bool]:
        """Return how many Ritz vectors to keep for the look, and whether it might get to ``tol``.

        The more are kept, the lower is the ceiling of their complement. But Ritz vectors that have not
        converged are coupled to it, and the certificate must assume more variance there. The largest
        number is taken that does no harm if the ceiling is the s-th Ritz value itself. If only s are
        left, a look is in vain where the next Ritz value as a ceiling, which none is below, does not
        certify them.
        """
        basis, s = self.basis, self.s
        if basis.complete:
            return basis.m, True

        def harmless(k: int) -> bool:
            theta, S = pairs.leading(k)
            return (
                Certificate(theta, basis.K @ S, float(theta[s - 1])).shortfall(s) <= 0.5 * self.tol
            )

        sizes = [k for k in self._beyond if k <= min(basis.m, self.limit - 4 * self.b)]
        if sizes and harmless(sizes[0]):  # more never do less harm
            return next((k for k in reversed(sizes[1:]) if harmless(k)), sizes[0]), True
        theta, S = pairs.leading(s + 1)
        least = float(theta[s]) if len(theta) > s else 0.0
        known = Certificate(theta[:s], basis.K @ S[:, :s], least, self.energy)
        return s, known.shortfall(s) <= self.tol

    def _remaining(self, before: tuple[int, float], residual: float) -> float:
        """Estimate the steps to go, as residuals fall geometrically: most tests can be skipped."""
        steps, last = before
        if not residual < last:
            return 4.0
        rate = np.log(last / residual) / (self.basis.steps - steps)
        return float(np.log(residual / max(self.aim, 1e-300)) / rate)
