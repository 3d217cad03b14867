"""Block Lanczos: a basis that grows by one pass a step, and its look at the complement of an answer."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from array_api_compat import device, is_numpy_array

from ... import progress
from ...linalg import Array, column_norms, namespace, norm, on_gpu, standard_normal, to_numpy
from ...operators import Operator
from ...operators.block_ops import multiply_transposed, off_rows
from ..base import TINY
from .bases import cholesky_qr
from .certificate import FAILURE, ROUNDING_RISE, Certificate, ceiling_of
from .projected import Eigenpairs
from .ritz import ROUNDING, Block, Ritz, unit_of

#: Vectors a step: 16 cost a CPU no more than 8 (float32, 4000 x 2000: 4.9 ms, 24 of them 6.9 ms);
#: a GPU wants more.
BLOCK, GPU_BLOCK = 16, 64

#: Directions of a block below this many eps of its size are rounding; random ones replace them.
NULL = 8.0

#: A look at the complement may take this many more steps than the run: bounds on flat spectra fall
#: slowly.
PATIENCE = 24

#: A gain of this share of ``tol`` or more counts as variance that the answer misses.
WORTHWHILE = 0.25

#: A test of a look takes as long as a step or two. The next one is due after this share of the steps that
#: a forecast expects, whose bounds do not fall evenly, and after LEAP steps at most.
DUE, LEAP = 0.7, 4

#: A look ends where this many steps have not lowered the certificate by a tenth.
STALLED = 6


class Lanczos:
    """``C V = V T + Q K`` with ``C = A^T A`` and orthonormal (V, Q).

    T is symmetric; K is nonzero only in the columns of the last block of V, or after a restart in all.
    V has ``m`` columns, and room for ``width``.
    """

    def __init__(self, A: Operator, start: Array, width: int, rng: np.random.Generator) -> None:
        """Make room for ``width`` vectors of the kind of ``start``."""
        self.A, self.rng, self.n = A, rng, A.shape[1]
        self.xp = namespace(start)
        self.eps = float(self.xp.finfo(start.dtype).eps)
        # Basis vectors lie one behind the other in memory: any number of them is one matrix.
        self.V = self.xp.empty((width, self.n), dtype=start.dtype, device=device(start)).T
        self.T = np.empty((width, width))
        self.m = 0
        self.recent = 0  # C maps V[:, m:] to vectors orthogonal to V[:, :recent], up to rounding
        self.steps = 0
        self.lost = 0.0  # the Frobenius norm of the parts of images that were cut off
        self.R: np.ndarray | None = None  # the first block of V times R is what it began with

    def begin(self, start: Array) -> None:
        """Begin with a block as Q."""
        self.Q, R = self._orthonormal(start, norm(start))
        self.R = to_numpy(R).astype(np.float64)
        self.K = np.zeros((self.Q.shape[1], 0))
        self.lost = 0.0  # a start may be cut

    def begin_with_ritz(self, block: Block) -> None:
        """Begin with Ritz vectors V whose residuals are known, without a pass and without Q."""
        theta = block.ritz.on_host()[0]
        self.m, self.K = len(theta), block.coupling
        self.V[:, : self.m] = block.ritz.V
        self.T[: self.m, : self.m] = np.diag(theta)

    @property
    def complete(self) -> bool:
        """Whether V spans the whole space."""
        return self.m >= self.n

    def expand(self) -> None:
        """Append Q to V, and compute the next Q and K in one pass."""
        Q = self.Q
        m, self.m = self.m, self.m + Q.shape[1]
        self.V[:, m : self.m] = Q
        H, B = self._split(self.A.sweep(Q), self.recent)
        self.steps, self.recent = self.steps + 1, m
        self.T[: self.m, m : self.m] = H
        self.T[m : self.m, : self.m] = H.T
        self.K = np.zeros((self.Q.shape[1], self.m))
        self.K[:, m:] = B

    def eigenpairs(self) -> Eigenpairs:
        """Return the Ritz values and the coordinates of Ritz vectors in V, computed when asked for."""
        return Eigenpairs(self.T[: self.m, : self.m])

    def residual_norms(self, S: np.ndarray) -> np.ndarray:
        """Return the norms of the residuals of the Ritz vectors ``V S``."""
        if self.complete:
            return np.zeros(S.shape[1])
        return np.hypot(column_norms(self.K @ S), self.lost)

    def restart(self, theta: np.ndarray, S: np.ndarray) -> None:
        """Replace V by the Ritz vectors ``V S``; ``C V = V T + Q K`` still holds."""
        keep = S.shape[1]
        self.V[:, :keep] = multiply_transposed(self._rows(0), self.array(S))
        self.T[:keep, :keep] = np.diag(theta)
        self.K = self.K @ S
        self.m, self.recent, self.R = keep, 0, None

    def half_step(self, largest: float) -> tuple[np.ndarray, float]:
        """Return ``(V, Q)^T N (V, Q)`` for ``N = C V T^{-1} V^T C <= C``, which takes no pass.

        N is the Nystrom approximation of C. T is shifted by what rounding may have taken from it, which
        keeps N below C; its ``largest`` eigenvalue is known. The second result bounds the rounding of
        the trace of N.
        """
        T, K = self.T[: self.m, : self.m], self.K
        unit = math.hypot(ROUNDING * self.eps * largest, self.lost)
        G = np.linalg.solve(T + max(unit, TINY) * np.eye(self.m), K.T)
        size = float(np.linalg.norm(G))
        rounding = unit * (self.m + len(K) * size * (2 + size))
        return np.block([[T, K.T], [K, K @ G]]), rounding

    def turn_to_complement(self, columns: int) -> np.ndarray:
        """Continue from Gaussian vectors Omega instead of Q; return R, ``Q R`` being Omega off V.

        From then on the trailing blocks of T, V and K are those of block Lanczos on the complement of
        the present V.
        """
        columns = min(columns, self.n - self.m)
        if on_gpu(self.V):
            Omega = standard_normal((self.n, columns), self.V, int(self.rng.integers(2**31)))
        else:
            Omega = self.array(self.rng.standard_normal((self.n, columns)))
        return self.turn_to(Omega)

    def turn_to(self, block: Array) -> np.ndarray:
        """Continue from a block instead of Q; return R, ``Q R`` being the block off V."""
        self.recent = 0
        return self._split(block)[1]

    def array(self, values: np.ndarray) -> Array:
        """Return a numpy array in the namespace, dtype and device of V."""
        values = np.ascontiguousarray(values)
        return self.xp.asarray(values, dtype=self.V.dtype, device=device(self.V))

    def _rows(self, first: int) -> Array:
        """Return the vectors of V from ``first`` on as rows, which the C kernels read in threads."""
        return self.V.T[first : self.m, :]

    def _split(self, Z: Array, first: int = 0) -> tuple[np.ndarray, np.ndarray]:
        """Return H and B with ``Z = V H + Q B``, and set Q; ``first`` is that of :meth:`_project`.

        Arrays of a GPU are projected twice without a test, so that the host waits for them once.
        """
        if is_numpy_array(Z):
            scale, gram = norm(Z), None
            Z, H = self._project(Z, first)
        else:
            V, xp = self.V[:, : self.m], self.xp
            H = V.T @ Z
            Z = Z - V @ H
            part = V.T @ Z
            Z = Z - V @ part
            wide = xp.astype(Z, xp.float64, copy=False)
            both = xp.concat([xp.astype(H + part, xp.float64, copy=False), wide.T @ wide], axis=0)
            both = to_numpy(both)
            H, gram = both[: self.m], both[self.m :]
            scale = math.hypot(norm(H), math.sqrt(max(float(np.trace(gram)), 0.0)))
        self.Q, B = self._orthonormal(Z, scale, gram)
        return to_numpy(H).astype(np.float64), to_numpy(B).astype(np.float64)

    def _project(self, Z: Array, first: int = 0) -> tuple[Array, Array]:
        """Return ``Z - V H`` and H, the part of Z in V.

        The first projection uses the columns from ``first`` on, as the others hold only rounding; the
        next ones use all of V, until one removes less than half of Z ("twice is enough").
        """
        Z, H = off_rows(self._rows(first), Z)
        if first:
            zeros = self.xp.zeros((first, Z.shape[1]), dtype=Z.dtype, device=device(Z))
            H = self.xp.concat([zeros, H], axis=0)
        size, rows = norm(Z), self._rows(0)
        for _ in range(4):
            Z, part = off_rows(rows, Z)
            H, before, size = H + part, size, norm(Z)
            if size > 0.5 * before:
                break
        return Z, H

    def _orthonormal(
        self, Z: Array, scale: float, gram: np.ndarray | None = None
    ) -> tuple[Array, Array]:
        """Return Q and B of a block ``Q B`` orthogonal to V; directions of rounding become random."""
        room = self.n - self.m
        if room >= Z.shape[1]:
            factors = cholesky_qr(Z, scale, gram) if 0 < scale < np.inf else None
            diagonal = np.abs(np.diagonal(factors[1])) / scale if factors else np.zeros(1)
            least = float(diagonal.min() / max(diagonal.max(), TINY))
            if factors and self.m and 1e-4 < least < 1e-2:
                # R^{-1} magnified the part of V that rounding left in the block.
                second = cholesky_qr(self._project(factors[0])[0])
                factors = None if second is None else (second[0], factors[1])
            if factors and least > 1e-4 and float(diagonal.min()) > 100 * self.eps:
                return factors
        U, sigma, _ = self.xp.linalg.svd(Z, full_matrices=False)
        Q = U[:, :room]  # the complement of V may have fewer dimensions than the block
        null = to_numpy(sigma)[None, : Q.shape[1]] <= NULL * self.eps * scale
        random = self.rng.standard_normal(Q.shape) / np.sqrt(self.n)
        Q = self.xp.where(self.array(null) > 0, self.array(random), Q)
        for _ in range(2 if Q.shape[1] else 0):
            # Small singular values magnified the part of V that rounding left in the block.
            Q = self.xp.linalg.qr(self._project(Q)[0], mode="reduced")[0]
        B = Q.T @ Z
        self.lost = math.hypot(self.lost, norm(Z - Q @ B))
        return Q, B


def look_beyond(
    basis: Lanczos,
    s: int,
    *,
    tol: float,
    energy: float,
    columns: int,
    max_steps: int,
    failure: float = FAILURE,
    searching: bool = True,
    floor: float | None = None,
) -> tuple[Certificate, Array | None]:
    """Certify the first s columns of V, which hold Ritz vectors, by block Lanczos on its complement.

    Return the certificate, and directions of the complement with more variance than the s-th or None.
    The look ends as soon as the certified shortfall is at most ``tol``, or after ``max_steps`` passes.
    With ``searching`` it also ends where it finds variance that the s Ritz vectors miss. V keeps its
    first columns; T, Q and K are used up. Listeners hear the shortfall. ``floor`` is the shortfall that
    rounding hides, by default that of the products of A.
    """
    k, unit = basis.m, unit_of(basis.A)
    theta = np.diagonal(basis.T)[:k].copy()
    captured, rounding = float(theta[:s].sum()), ROUNDING * unit * max(float(theta[0]), 0.0)
    K = np.vstack([basis.K, math.hypot(rounding, basis.lost) * np.eye(k)])
    K = np.linalg.qr(K)[1]  # it has the same K^T K
    floor = ROUNDING_RISE * unit if floor is None else floor
    energy = energy_at_most(basis.A, energy, floor)
    known = Certificate(theta, K, math.inf, energy, floor)
    if basis.complete:
        return Certificate(theta, K[:0], 0.0, energy, floor), None
    if not captured > 0 or known.shortfall(s) <= tol:
        return known, None
    R = basis.turn_to_complement(columns)
    best, tests, aim, check = known, [(0, math.inf)], max(tol, floor), 1
    for step in range(1, max_steps + 1):
        last = basis.Q.shape[1]
        if basis.m + last > basis.V.shape[1]:  # V has no room for another block
            break
        basis.expand()
        full = basis.complete or basis.m + basis.Q.shape[1] > basis.V.shape[1]
        if step < min(check, max_steps) and not full:
            continue
        T = basis.T[k : basis.m, k : basis.m]
        xi, S = np.linalg.eigh(T)
        largest = np.sort(np.r_[theta[:s], xi])[::-1][:s]
        gain = float(largest.sum()) - captured
        if searching and gain > max(WORTHWHILE * tol, 2 * floor) * captured:
            count = min(len(xi), R.shape[1])
            return best, basis.V[:, k : basis.m] @ basis.array(S[:, -count:])
        ceiling = float(xi[-1])
        if not basis.complete:
            ceiling = ceiling_of(xi, S, R, last, failure, best.ceiling)
        if ceiling + rounding < best.ceiling:
            best = Certificate(theta, K, ceiling + rounding, energy, floor)
        bound, goal = best.shortfall(s), max(aim, 1.5 * gain / captured)
        if bound <= goal or basis.complete:
            break
        tests.append((step, bound))
        earlier = min(value for k, value in tests if k <= max(step - STALLED + 1, 0))
        if math.isfinite(earlier) and bound > 0.9 * earlier:
            break
        ahead = DUE * steps_to(goal, *tests[-2:]) if math.isfinite(bound) else 1.0
        check = step + max(1, min(int(ahead), LEAP))
        tested: dict[str, Any] = {"quantity": "shortfall", "shortfall": bound}
        event = ("krylov", math.nan, tol, basis.A.passes)
        if math.isfinite(bound) and progress.report_step(*event, **tested):
            break
    return best, None


def steps_to(goal: float, before: tuple[int, float], now: tuple[int, float]) -> float:
    """Estimate the steps until a value that falls geometrically is at most ``goal``.

    The value is known after two numbers of steps.
    """
    (first, last), (steps, value) = before, now
    if not value < last:
        return 4.0
    rate = math.log(last / value) / (steps - first)
    return math.log(value / max(goal, TINY)) / rate


def energy_at_most(A: Operator, energy: float, floor: float) -> float:
    """Return the energy and its rounding: it is a sum of squares minus the energy of the mean."""
    return energy + floor * (energy + A.removed_energy)


def certify(
    A: Operator, ritz: Ritz, image: Array, s: int, *, tol: float, energy: float, seed: int
) -> Certificate:
    """Certify the first s Ritz vectors V of A, whose ``image = A^T A V`` is known."""
    return certify_block(A, Block.of_pairs(ritz, image), s, tol=tol, energy=energy, seed=seed)


def certify_block(
    A: Operator,
    block: Block,
    s: int,
    *,
    tol: float,
    energy: float,
    seed: int,
    floor: float | None = None,
) -> Certificate:
    """Certify the first s Ritz vectors of a block of A.

    ``floor`` is the shortfall that rounding hides if they were measured in other precision than A's.
    """
    with A.blas_limited(), progress.phase("certificate"):
        columns, rng = BLOCK, np.random.default_rng(seed)
        width = min(A.shape[1], block.ritz.V.shape[1] + (PATIENCE + 1) * columns)
        basis = Lanczos(A, block.ritz.V, width, rng)
        basis.begin_with_ritz(block)
        given: dict[str, Any] = {"tol": tol, "energy": energy, "columns": columns, "floor": floor}
        return look_beyond(basis, s, max_steps=PATIENCE, searching=False, **given)[0]


def block_of(like: Array) -> int:
    """Return the columns of a block of arrays of this kind."""
    return GPU_BLOCK if on_gpu(like) else BLOCK
