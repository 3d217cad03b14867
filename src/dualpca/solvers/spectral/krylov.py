"""Block Krylov with thick restart: DCA with memory.

DCA on (l) moves from W to the polar factor of ``X^T X W`` and forgets where it came from; here the
same objective is minimised over the span of all iterates so far.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from ..._memory import SMALL, available, ensure, itemsize
from ...linalg import Array, on_gpu
from ...operators import Operator
from ...progress import phase, report_step
from .certificate import FAILURE, Certificate
from .complement import PATIENCE, easiest, look_beyond
from .relation import ROUNDING, Relation
from .ritz import relative_residual

__all__ = ["Krylov", "KrylovResult"]


@dataclass(frozen=True)
class KrylovResult:
    """Ritz vectors V of ``A^T A``, their values and residuals, and a certificate of what they miss.

    Residuals come from the recurrence, in which they are known without a product, and include
    what rounding may hide: ``ROUNDING eps theta_1`` a vector. ``rest`` are Q and R with
    ``A^T A V - V Theta = Q R``.
    """

    V: Array
    theta: np.ndarray
    residuals: np.ndarray
    steps: int
    converged: bool
    rest: tuple[Array, np.ndarray]
    certificate: Certificate

    @property
    def residual(self) -> float:
        """``||A^T A V - V Theta||_F / ||A^T A V||_F``."""
        return relative_residual(self.residuals, self.theta)

    @property
    def shortfall(self) -> float:
        """An upper bound on the relative shortfall in captured variance."""
        return self.certificate.shortfall(len(self.theta))


class Solved(NamedTuple):
    """Ritz values, their vectors in the basis, residual norms, and how the run ended."""

    theta: np.ndarray
    S: np.ndarray
    residuals: np.ndarray
    converged: bool
    out: bool


@dataclass(frozen=True)
class Krylov:
    """The s leading eigenvectors of ``C = X^T X`` (or X X^T) in blocks, one pass a step.

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
    max_steps : int
        Give up after so many passes.
    """

    block: int | None = None
    basis: int | None = None
    verify: bool = True
    max_steps: int = 1000

    def __call__(
        self,
        A: Operator,
        s: int,
        *,
        tol: float,
        seed: int,
        start: Array | None = None,
        energy: float = math.inf,
    ) -> KrylovResult:
        """Ritz pairs of ``A^T A`` from the iterates of ``start``, or of a Gaussian block.

        ``energy`` is ``||A||_F^2``, which certifies spectra that decay without another pass.
        """
        rng, steps, failure = np.random.default_rng(seed), 0, FAILURE
        with A.blas_limited():
            while True:
                run = _Run(self, A, s, tol, rng, start)
                solved = run.solve(self.max_steps - steps)
                basis, failure = run.relation, failure / 2
                run.keep(solved)
                rest = basis.Q, basis.K[:, :s]
                with phase("certificate"):
                    look = look_beyond(
                        basis,
                        s,
                        tol=tol,
                        energy=energy,
                        columns=min(run.b, block_of(basis.V)),
                        max_steps=self._patience(solved, steps + basis.steps),
                        failure=failure,
                    )
                steps += basis.steps
                V = basis.xp.asarray(basis.V[:, :s], copy=True)
                if look.missed is None:
                    break
                start = basis.xp.concat([V, look.missed], axis=1)
        size = ROUNDING * basis.eps * max(solved.theta[0], 0.0)
        return KrylovResult(
            V,
            solved.theta[:s],
            np.hypot(solved.residuals[:s], size),
            steps,
            solved.converged,
            rest,
            look.certificate,
        )

    def _patience(self, solved: Solved, steps: int) -> int:
        """Passes that a look at the complement may take."""
        if not self.verify or solved.out:
            return 0
        return min(steps + PATIENCE, self.max_steps - steps)


#: Vectors a step: 16 cost a CPU no more than 8 (float32, 4000 x 2000: 4.9 ms, 24 of them 6.9 ms);
#: a GPU wants more.
BLOCK, GPU_BLOCK = 16, 64

#: From this ``tol`` on, blocks of up to WIDEST are a little wider than s: such a run takes few steps.
LOOSE, WIDEST = 1e-2, 64


def block_of(like: Array) -> int:
    """Columns of a block of arrays of this kind."""
    return GPU_BLOCK if on_gpu(like) else BLOCK


def wide_block(s: int, tol: float) -> int:
    """Columns of a block that is a little wider than s, where ``tol`` is loose; else 0."""
    enough = 8 * -(-(s + 4) // 8)
    return enough if tol >= LOOSE and enough <= WIDEST else 0


class _Run:
    """A :class:`Relation` that grows until the residual is at most ``tol``."""

    def __init__(
        self,
        options: Krylov,
        A: Operator,
        s: int,
        tol: float,
        rng: np.random.Generator,
        start: Array | None,
    ) -> None:
        self.options, self.A, self.s, self.tol = options, A, s, tol
        n = A.shape[1]
        self.b = self._block(start)
        if start is None:
            start = A.asarray(rng.standard_normal((n, self.b)))
        self.limit = min(n, max(options.basis or self._room(start), s + 4 * self.b))
        width = min(n, self.limit + max(2 * self.b, start.shape[1]))
        what = f"{width:,} vectors of {n:,} numbers, for {s:,} components,"
        nbytes = width * n * itemsize(start) + 8 * width**2
        ensure(nbytes, what, "ask for fewer components", start)
        self.relation = Relation(A, start, width, rng)

    def _room(self, start: Array) -> int:
        """Vectors to keep: more save passes, as long as they take half of the memory at most."""
        wanted = max(2 * self.s, self.s + 40 * self.b)
        nbytes = start.shape[0] * itemsize(start)
        if wanted * nbytes < SMALL or on_gpu(start) or (left := available()) is None:
            return wanted
        return min(wanted, left // (2 * nbytes))

    def _block(self, start: Array | None) -> int:
        like = self.A.like if start is None else start
        block = self.options.block or block_of(like)
        if self.options.block is None and start is None:
            block = max(block, wide_block(self.s, self.tol))
        return max(1, min(block, self.A.shape[1]))

    def solve(self, max_steps: int) -> Solved:
        """Grow the basis until the residual is at most ``tol``, or ``max_steps`` passes are made."""
        basis, s, check, before = self.relation, self.s, 0, (0, 1.0)
        while True:
            basis.expand()
            out = basis.steps >= max_steps
            crowded = basis.m + basis.Q.shape[1] > self.limit
            if basis.m < s or not (basis.complete or out or crowded or basis.steps >= check):
                continue
            theta, S, r = basis.ritz()
            residual = relative_residual(r[:s], theta[:s])
            told = np.hypot(r[:s], ROUNDING * basis.eps * max(theta[0], 0.0))
            told = relative_residual(told, theta[:s])
            out = report_step("krylov", told, self.tol, self.A.passes) or out
            remaining = self._remaining(before, residual)
            before = (basis.steps, residual)
            check = basis.steps + max(1, min(int(0.8 * remaining), basis.steps))
            rounding = np.full(s, math.hypot(2 * ROUNDING * basis.eps * theta[0], basis.lost))
            floor = relative_residual(rounding, theta[:s])  # more steps add to it
            if basis.complete or out or residual <= max(self.tol, floor):
                return Solved(theta, S, r, basis.complete or residual <= self.tol, out)
            if crowded:
                keep = min(basis.m, max(s + self.b, (s + self.limit) // 2))
                basis.restart(theta[:keep], S[:, :keep])

    def keep(self, solved: Solved) -> None:
        """Keep the Ritz vectors whose complement is easiest to certify, and room to look at it."""
        s, b, basis = self.s, self.b, self.relation
        k = basis.m
        if not basis.complete:
            most = max(s, min(k, self.limit - 4 * b))
            sizes = [s, *(k for k in (s + b // 2, s + b, s + 2 * b, s + 4 * b) if s < k <= most)]
            K = basis.K @ solved.S[:, : sizes[-1]]
            k = easiest(solved.theta, K, s, sizes, self.tol)
        basis.restart(solved.theta[:k], solved.S[:, :k])

    def _remaining(self, before: tuple[int, float], residual: float) -> float:
        """Steps still to go, as residuals fall geometrically: most tests can be skipped."""
        if residual <= self.tol:
            return 0.0
        steps, last = before
        if not residual < last:
            return 4.0
        rate = np.log(last / residual) / (self.relation.steps - steps)
        return float(np.log(residual / max(self.tol, 1e-300)) / rate)
