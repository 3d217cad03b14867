"""Block Krylov with thick restart: DCA with memory.

DCA on (l) moves from W to the polar factor of ``X^T X W`` and forgets where it came from; here the
same objective is minimised over the span of all iterates so far.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from array_api_compat import device, is_numpy_array

from .._memory import SMALL, available, ensure, itemsize
from ..linalg import Array, column_norms, namespace, norm, on_gpu, to_numpy
from ..operators import Operator
from ..progress import reached
from .certificate import relative_shortfall, shortfall_bound, unseen
from .ritz import relative_residual

__all__ = ["Krylov", "KrylovResult"]


@dataclass(frozen=True)
class KrylovResult:
    """Ritz vectors V of ``A^T A``, and the Ritz values of these and of some more behind them.

    Residuals come from the recurrence, in which they are known without a product, and include
    what rounding may hide: ``ROUNDING eps theta_1`` a vector. ``rest`` are Q and R with
    ``A^T A V - V Theta = Q R``. What ended before its time is not ``verified``: there may be more
    variance elsewhere than ``shortfall`` knows of.
    """

    V: Array
    all_theta: np.ndarray
    all_residuals: np.ndarray
    steps: int
    converged: bool
    rest: tuple[Array, np.ndarray]
    caution: float = 1.0
    verified: bool = True

    @property
    def theta(self) -> np.ndarray:
        """The Ritz values of V."""
        return self.all_theta[: self.V.shape[1]]

    @property
    def residuals(self) -> np.ndarray:
        """``||A^T A v - theta v||`` for each of V."""
        return self.all_residuals[: self.V.shape[1]]

    @property
    def residual(self) -> float:
        """``||A^T A V - V Theta||_F / ||A^T A V||_F``."""
        return relative_residual(self.residuals, self.theta)

    @property
    def shortfall(self) -> float:
        """An upper bound on the relative shortfall in captured variance."""
        known = relative_shortfall(self.all_theta, self.all_residuals, self.V.shape[1])
        return max(self.caution * known, unseen(self.V.dtype)) if self.theta.sum() > 0 else 0.0


#: Directions of a block up to so many eps of its size are rounding, and random ones take their place.
NULL = 8.0

#: Rounding leaves the recurrence true to this many eps of its largest Ritz value a vector.
ROUNDING = 4.0


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
        Near convergence, inject fresh random vectors and go two more steps, until the captured variance
        rises by no more than the certificate: a block finds at most ``block`` copies of a repeated
        singular value, and misses the others without a sign.
    max_steps : int
        Give up after so many passes.
    """

    block: int | None = None
    basis: int | None = None
    verify: bool = True
    max_steps: int = 1000

    def __call__(
        self, A: Operator, s: int, *, tol: float, seed: int, start: Array | None = None
    ) -> KrylovResult:
        """Ritz pairs of ``A^T A`` from the iterates of ``start``, or of a Gaussian block."""
        with A.alone():
            return _Run(self, A, s, tol, seed, start).run()


#: Vectors a step: 16 cost a CPU no more than 8 (float32, 4000 x 2000: 4.9 ms, 24 of them 6.9 ms);
#: a GPU wants more.
BLOCK, GPU_BLOCK = 16, 64

#: From this ``tol`` on, blocks of up to WIDEST are a little wider than s: such a run takes few steps,
#: and verifying it would take as many again. What it may then miss is the spread of a cluster of more
#: singular values than the block has vectors. The sum of the residuals is of that size (it was 1.22
#: times below in the worst of 2184 runs); CAUTION times that sum is then the certificate.
LOOSE, WIDEST, CAUTION = 1e-2, 64, 3.0

#: Random vectors injected to see what a block may have missed.
INJECTED = 8


def wide_block(s: int, tol: float) -> int:
    """Columns of a block that is a little wider than s, where ``tol`` is loose; else 0."""
    enough = 8 * -(-(s + 4) // 8)
    return enough if tol >= LOOSE and enough <= WIDEST else 0


def _spread(R: np.ndarray) -> float:
    """The smallest over the largest entry of the diagonal."""
    diagonal = np.abs(np.diagonal(R))
    return float(diagonal.min() / diagonal.max())


class _Run:
    """The relation ``C V = V T + Q B E^T`` (E: the last block of V) and what grows it."""

    def __init__(
        self, options: Krylov, A: Operator, s: int, tol: float, seed: int, start: Array | None
    ) -> None:
        self.options, self.A, self.s, self.tol = options, A, s, tol
        self.n = A.shape[1]
        self.rng = np.random.default_rng(seed)
        self.b = self._block(start)
        self.quick = start is None and tol >= LOOSE and self.b >= min(s, self.n)
        self.verify = options.verify and not self.quick
        if start is None:
            start = A.asarray(self.rng.standard_normal((self.n, self.b)))
        self.xp = namespace(start)
        self.eps = float(self.xp.finfo(start.dtype).eps)
        self.limit = min(self.n, max(options.basis or self._room(start), s + 4 * self.b))
        width = min(self.n, self.limit + max(2 * self.b, start.shape[1]))
        what = f"{width:,} vectors of {self.n:,} numbers, for {s:,} components,"
        nbytes = width * self.n * itemsize(start) + 8 * width**2
        ensure(nbytes, what, "ask for fewer components", start)
        # Basis vectors lie one behind the other, so that any number of them is one matrix.
        self.V = self.xp.zeros((width, self.n), dtype=start.dtype, device=device(start)).T
        self.T = np.zeros((width, width))
        self.m = 0  # columns of V whose image is known
        self.recent = 0  # C maps V[:, recent:] to what was not yet coupled to V[:, :recent]
        self.steps = 0
        self.lost = 0.0  # what images were cut by, in the Frobenius norm
        self.next = self._orthonormal(start, norm(start))[0]
        self.lost = 0.0  # a start may be cut

    def _room(self, start: Array) -> int:
        """Vectors to keep: more save passes, as long as they take half of the memory at most."""
        wanted = max(2 * self.s, self.s + 40 * self.b)
        nbytes = self.n * itemsize(start)
        if wanted * nbytes < SMALL or on_gpu(start) or (left := available()) is None:
            return wanted
        return min(wanted, left // (2 * nbytes))

    def _block(self, start: Array | None) -> int:
        probe = self.A.asarray(np.zeros((1, 1))) if start is None else start
        host = is_numpy_array(probe) or str(device(probe)) == "cpu"
        block = self.options.block or (BLOCK if host else GPU_BLOCK)
        if self.options.block is None and start is None:
            block = max(block, wide_block(self.s, self.tol))
        return max(1, min(block, self.n))

    def _array(self, values: np.ndarray) -> Array:
        values = np.ascontiguousarray(values)
        return self.xp.asarray(values, dtype=self.V.dtype, device=device(self.V))

    def _project(self, Z: Array, first: int = 0) -> tuple[Array, Array]:
        """Z minus its part in V, by matrix products; and that part.

        The first time only from column ``first`` on, where the others hold no more than rounding;
        then from all of V, again and again while that takes half of Z or more ("twice is enough").
        """
        V = self.V[:, : self.m]
        H = V[:, first:].T @ Z
        Z = Z - V[:, first:] @ H
        if first:
            zeros = self.xp.zeros((first, Z.shape[1]), dtype=Z.dtype, device=device(Z))
            H = self.xp.concat([zeros, H], axis=0)
        size = norm(Z)
        for _ in range(4):
            rest = V.T @ Z
            Z, H, before = Z - V @ rest, H + rest, size
            size = norm(Z)
            if size > 0.5 * before:
                break
        return Z, H

    def _cholesky_qr(self, Z: Array, scale: float) -> tuple[Array, Array] | None:
        """QR by the Cholesky factor of a float64 Gram matrix; None where that might lose digits."""
        xp = self.xp
        if not 0 < scale < np.inf:
            return None
        R = scale * np.eye(Z.shape[1])
        Q = xp.astype(Z / scale, xp.float64, copy=False)
        floor = 100 * self.eps
        for _ in range(1 if self.eps > 1e-10 else 2):  # the first leaves eps64 cond(Z)^2
            try:
                factor = np.linalg.cholesky(to_numpy(Q.T @ Q)).T
            except np.linalg.LinAlgError:
                return None
            diagonal = np.diagonal(factor)
            if not diagonal.min() > max(1e-4 * diagonal.max(), floor):
                return None
            inverse = np.ascontiguousarray(np.linalg.inv(factor))
            Q = Q @ xp.asarray(inverse, dtype=Q.dtype, device=device(Q))
            R = factor @ R
        return xp.astype(Q, self.V.dtype, copy=False), R

    def _orthonormal(self, Z: Array, scale: float) -> tuple[Array, Array]:
        """``Q, B`` of a block ``Q B`` that is orthogonal to V; directions of rounding become random."""
        room = self.n - self.m
        if room >= Z.shape[1]:
            quick = self._cholesky_qr(Z, scale)
            if quick is not None and self.m and _spread(quick[1]) < 1e-2:
                # R^{-1} magnified what rounding left of V in the block.
                again = self._cholesky_qr(self._project(quick[0])[0], 1.0)
                quick = None if again is None else (again[0], quick[1])
            if quick is not None:
                return quick
        U, sigma, _ = self.xp.linalg.svd(Z, full_matrices=False)
        Q = U[:, :room]  # the complement of V may have fewer dimensions than the block
        null = to_numpy(sigma)[None, : Q.shape[1]] <= NULL * self.eps * scale
        random = self.rng.standard_normal(Q.shape) / np.sqrt(self.n)
        Q = self.xp.where(self._array(null) > 0, self._array(random), Q)
        for _ in range(2 if Q.shape[1] else 0):
            # Small singular values magnified what rounding left of V in the block.
            Q = self.xp.linalg.qr(self._project(Q)[0], mode="reduced")[0]
        B = Q.T @ Z
        self.lost = math.hypot(self.lost, norm(Z - Q @ B))
        return Q, B

    def expand(self) -> None:
        """One pass: V and T grow by a block; ``next`` follows, coupled to it by B."""
        Q = self.next
        m, self.m = self.m, self.m + Q.shape[1]
        self.V[:, m : self.m] = Q
        Z = self.A.sweep(Q)
        self.steps += 1
        scale = norm(Z)
        Z, H = self._project(Z, self.recent)
        self.recent = m
        column = to_numpy(H).astype(np.float64)
        self.T[: self.m, m : self.m] = column
        self.T[m : self.m, : self.m] = column.T
        self.next, B = self._orthonormal(Z, scale)
        self.B = to_numpy(B).astype(np.float64)

    def inject(self) -> None:
        """Widen the next block by random vectors, which see what the iterates so far could not."""
        width = min(self.b, INJECTED, self.n - self.m - self.next.shape[1])
        random = self._array(self.rng.standard_normal((self.n, width)) / np.sqrt(self.n))
        random = self._project(random)[0]
        both = self.xp.concat([self.next, random], axis=1)
        self.next = self.xp.linalg.qr(both, mode="reduced")[0]
        self.recent = 0

    def ritz(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Ritz values (decreasing), their vectors in V, and the norms of the residuals."""
        theta, S = np.linalg.eigh(self.T[: self.m, : self.m])
        theta, S = theta[::-1].copy(), S[:, ::-1]
        if self.m >= self.n:
            return theta, S, np.zeros(self.m)
        r = column_norms(self.B @ S[self.m - self.B.shape[1] :])
        return theta, S, np.hypot(r, self.lost)

    def _rest(self, S: np.ndarray) -> tuple[Array, np.ndarray]:
        if self.m >= self.n:
            return self.next, np.zeros((self.next.shape[1], S.shape[1]))
        return self.next, self.B @ S[self.m - self.B.shape[1] :]

    def restart(self, theta: np.ndarray, S: np.ndarray) -> None:
        """Keep the best Ritz vectors and the block that follows: the relation still holds."""
        keep = min(self.m, max(self.s + self.b, (self.s + self.limit) // 2))
        theta, S = theta[:keep], S[:, :keep]
        self.V[:, :keep] = self.V[:, : self.m] @ self._array(S)
        self.T[:] = 0
        self.T[:keep, :keep] = np.diag(theta)
        self.m, self.recent = keep, 0

    def run(self) -> KrylovResult:
        s, check, before = self.s, 0, (0, 1.0)
        watch: tuple[int, float, float] | None = None  # step, captured, bound at the injection
        while True:
            self.expand()
            full, out = self.m >= self.n, self.steps >= self.options.max_steps
            crowded = self.m + self.next.shape[1] > self.limit
            if self.m < s or not (full or out or crowded or self.steps >= check):
                continue
            theta, S, r = self.ritz()
            captured = max(float(theta[:s].sum()), 0.0)
            residual = relative_residual(r[:s], theta[:s])
            told = np.hypot(r[:s], ROUNDING * self.eps * max(theta[0], 0.0))
            told = relative_residual(told, theta[:s])
            out = reached("krylov", told, self.tol, self.A.passes) or out
            bound = max(shortfall_bound(theta, r, s), unseen(self.V.dtype) * captured)
            remaining = self._remaining(before, residual)
            before = (self.steps, residual)
            check = self.steps + max(1, min(int(0.8 * remaining), self.steps))
            missed = watch is not None and captured - watch[1] > watch[2]
            settled = watch is not None and self.steps >= watch[0] + 2 and not missed
            if full or out or (residual <= self.tol and (settled or not self.verify)):
                V = self.V[:, : self.m] @ self._array(S[:, :s])
                residuals = np.hypot(r, ROUNDING * self.eps * max(theta[0], 0.0))
                known, caution = (s, CAUTION) if self.quick else (len(theta), 1.0)
                done = full or settled or (residual <= self.tol and not self.verify)
                return KrylovResult(
                    V,
                    theta[:known],
                    residuals[:known],
                    self.steps,
                    residual <= self.tol,
                    self._rest(S[:, :s]),
                    caution,
                    done,
                )
            if crowded:
                self.restart(theta, S)
            near = remaining == 0 or (remaining <= 4 and residual < 0.3)
            if self.verify and near and (watch is None or missed):
                self.inject()
                watch, check = (self.steps, captured, bound), self.steps + 2
            elif watch is not None:
                check = max(check, watch[0] + 2)

    def _remaining(self, before: tuple[int, float], residual: float) -> float:
        """Steps still to go, as residuals fall geometrically: most tests can be skipped."""
        if residual <= self.tol:
            return 0.0
        steps, last = before
        if not residual < last:
            return 4.0
        rate = np.log(last / residual) / (self.steps - steps)
        return float(np.log(residual / max(self.tol, 1e-300)) / rate)
