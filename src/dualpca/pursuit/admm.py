"""Principal component pursuit by alternating directions, with singular values shrunk on a subspace."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from ..linalg import Array, asarray_like, eigh, max_abs, namespace
from ..progress import report_step

#: Left vectors, values and right vectors: the singular triplets above a threshold, largest first.
Triplets = tuple[Array, Array, Array]

#: The subspace starts with START vectors and keeps a fifth more than the rank, or SPARE more. The Gram
#: matrix replaces it beyond this SHARE of the smaller side, or after STEPS steps.
START, SPARE, SHARE, STEPS = 16, 6, 0.2, 8

#: Singular values below ``sigma_1 / WIDE`` have lost too many digits in a Gram matrix of float64.
WIDE = 1e4

#: Rounding keeps the residuals above this many eps of the data.
FLOOR = 8.0

#: The penalty keeps the gap below the dual residual by this factor. In iteration k it changes at most by
#: PENALTY_STEP and ``1 + PENALTY_DECAY / k^2``, a finite product, which convergence requires (He, Yang
#: and Wang, 2000).
RESIDUAL_BALANCE, PENALTY_STEP, PENALTY_DECAY = 10.0, 5.0, 100.0

#: The error of shrinking, relative to the data in the first iteration and to the residuals later.
FIRST_ACCURACY, ACCURACY = 1e-2, 0.2


def count_above(values: Array, tau: float) -> int:
    """Return how many of the values are above tau."""
    xp = namespace(values)
    return int(xp.sum(xp.astype(values > tau, xp.int64)))


def svd_triplets(Z: Array, tau: float) -> Triplets:
    """Return the triplets of Z above tau from a full SVD."""
    U, sigma, Vt = namespace(Z).linalg.svd(Z, full_matrices=False)
    r = count_above(sigma, tau)
    return U[:, :r], sigma[:r], Vt[:r, :].T


def gram_triplets(Z: Array, tau: float) -> Triplets:
    """Return the triplets of Z above tau from the smaller Gram matrix, in float64."""
    if Z.shape[0] < Z.shape[1]:
        V, sigma, U = gram_triplets(Z.T, tau)
        return U, sigma, V
    xp = namespace(Z)
    wide = xp.astype(Z, xp.float64, copy=False)
    theta, V = eigh(wide.T @ wide)
    if float(theta[0]) > (WIDE * tau) ** 2:
        return svd_triplets(Z, tau)
    sigma = xp.sqrt(xp.clip(theta, 0.0, None))
    r = count_above(sigma, tau)
    U = (wide @ V[:, :r]) / sigma[None, :r]
    U, sigma, V = (xp.astype(a, Z.dtype, copy=False) for a in (U, sigma[:r], V[:, :r]))
    return U, sigma, V


class Shrinkage:
    """The triplets above a threshold of matrices that change little from call to call.

    Subspace iteration from the last right vectors. With ``Z V = U Sigma`` and ``R = Z^T U - V Sigma`` for
    the Ritz triplets above tau, Z is within ``||R||_F`` of a matrix that has them as its own. Shrinking
    singular values expands no distance, so ``||R||_F`` bounds the error of the result unless a
    singular value above tau was missed, which :meth:`certify` rules out.
    """

    def __init__(self, seed: int) -> None:
        self.rng = np.random.default_rng(seed)
        self.basis: Array | None = None
        self.has_random = True  # whether the basis has random vectors
        self.use_gram = False  # whether to skip subspace iteration: the rank is high, or it failed
        self.exact = False  # whether the last triplets are from the Gram matrix

    def __call__(self, Z: Array, tau: float, accuracy: float) -> Triplets:
        triplets = self.iterate(Z, tau, accuracy)
        self.exact = triplets is None
        if triplets is None:
            triplets = gram_triplets(Z, tau)
            V = triplets[2]
            self.use_gram, self.has_random = V.shape[1] > int(SHARE * min(Z.shape)), True
            self.basis = None if self.use_gram else self._widened(V, self._width(V.shape[1]), Z)
        return triplets

    def certify(self, Z: Array, tau: float, triplets: Triplets, accuracy: float) -> bool:
        """Return whether no triplet above tau was missed: ``||Z - U Sigma V^T||_2 <= tau``.

        The norm is from all eigenvalues of a Gram matrix, which the next call uses if one was missed.
        """
        if self.exact:
            return True
        U, sigma, V = triplets
        xp = namespace(Z)
        remainder = xp.astype(Z - (U * sigma[None, :]) @ V.T, xp.float64, copy=False)
        A = remainder if Z.shape[0] >= Z.shape[1] else remainder.T
        if float(xp.max(xp.linalg.eigvalsh(A.T @ A))) <= (tau + accuracy) ** 2:
            return True
        self.basis, self.use_gram = None, True
        return False

    def _width(self, rank: int) -> int:
        return rank + max(SPARE, rank // 5)

    def _widened(self, V: Array | None, width: int, Z: Array) -> Array:
        """Return an orthonormal basis of V and random vectors, or the first vectors of V."""
        xp = namespace(Z)
        old = 0 if V is None else V.shape[1]
        if V is not None and width <= old:
            return V[:, :width]
        new = asarray_like(self.rng.standard_normal((Z.shape[1], width - old)), Z)
        return xp.linalg.qr(new if V is None else xp.concat([V, new], axis=1), mode="reduced")[0]

    def iterate(self, Z: Array, tau: float, accuracy: float) -> Triplets | None:
        """Return the triplets above tau by subspace iteration, or None if it is too slow."""
        xp, limit = namespace(Z), int(SHARE * min(Z.shape))
        if limit < START or self.use_gram:
            return None
        # The Ritz values of random vectors say little before a few products.
        first_test, last = 2 if self.has_random else 0, math.inf
        Q = self._widened(None, START, Z) if self.basis is None else self.basis
        for step in range(STEPS):
            U, T = xp.linalg.qr(Z @ Q, mode="reduced")
            P, sigma, Wt = xp.linalg.svd(T, full_matrices=False)
            r = count_above(sigma, tau)
            B = Z.T @ U
            if r == Q.shape[1]:
                if self._width(r) > limit:
                    return None
                Q = self._widened(B, min(2 * r, limit), Z)
                first_test, last = step + 2, math.inf
                continue
            V = Q @ Wt.T
            residual = (B @ P - V * sigma[None, :])[:, :r]
            error = float(xp.linalg.vector_norm(residual)) if r else 0.0
            if error <= accuracy and step >= first_test:
                self.basis, self.has_random = V[:, : self._width(r)], False
                return U @ P[:, :r], sigma[:r], V[:, :r]
            if error >= last:
                return None
            # The error falls geometrically; give up if it would not reach the accuracy in time.
            if error > accuracy and math.isfinite(last):
                fall = math.log(last / error)
                if math.log(error / max(accuracy, 1e-300)) / fall > STEPS - step:
                    return None
            last = error
            Q = xp.linalg.qr(B, mode="reduced")[0]
        return None


@dataclass(frozen=True)
class PursuitResult:
    """``X = L + S``, the triplets of L, the multiplier Y of the constraint, and relative residuals."""

    L: Array
    S: Array
    Y: Array
    triplets: Triplets
    gap: float
    dual_residual: float
    iterations: int
    converged: bool


def pursue(
    X: Array, shrink: Shrinkage, *, lam: float | None, mu: float | None, tol: float, max_iter: int
) -> PursuitResult:
    """``min ||L||_* + lam ||S||_1, L + S = X``: Candes, Li, Ma, Wright (2011), Algorithm 1.

    ``L = D_{1/mu}(X - S + Y/mu), S = soft_{lam/mu}(X - L + Y/mu), Y += mu (X - L - S)`` with the scaled
    multiplier ``E = Y/mu``, which the second step leaves clipped to ``lam/mu``. The iterations end when
    the gap ``||X - L - S||_F / ||X||_F`` and the error of the dual constraint,
    ``mu ||S - S_last||_F / ||Y||_F``, are both at most tol. The default of lam is
    ``1 / sqrt(max(X.shape))``; if mu is None, it starts as in the source and follows both residuals.
    """
    xp = namespace(X)
    size = xp.linalg.vector_norm
    lam = 1 / math.sqrt(max(X.shape)) if lam is None else lam
    # A power of 2 changes no digit, and squares stay in range.
    unit = 2.0 ** math.floor(math.log2(max_abs(X) or 1.0))
    X, adaptive = X / unit, mu is None
    mu = 1 / (4 * (float(xp.mean(xp.abs(X))) or 1.0)) if mu is None else mu * unit
    scale = float(size(X)) or 1.0
    rounding = FLOOR * float(xp.finfo(X.dtype).eps)
    accuracy = FIRST_ACCURACY * scale
    if shrink.iterate(X, 1 / mu, accuracy) is not None:
        S, E = xp.zeros_like(X), xp.zeros_like(X)
    else:  # the first L would have a high rank: with L = 0 the second step comes first
        E = xp.clip(X, -lam / mu, lam / mu)
        S = X - E
    for k in range(1, max_iter + 1):
        # In place if that is safe: fresh memory of this size costs more than the arithmetic.
        tau, Z = 1 / mu, X - S
        Z += E
        triplets = shrink(Z, tau, accuracy)
        U, sigma, V = triplets
        L = (U * (sigma - tau)[None, :]) @ V.T
        T = X - L
        T += E
        S_change, E_change = S, E
        E = xp.clip(T, -lam * tau, lam * tau)
        S = T - E
        E_change -= E  # L + S - X
        S_change -= S
        change, move, length = (float(size(A)) for A in (E_change, S_change, E))
        gap, dual = change / scale, move / length if length > 0 else 0.0
        stop = report_step("pursuit", max(gap, dual), tol)
        done = gap <= max(tol, rounding) and move <= max(tol * length, rounding * scale)
        balanced = max(move, change / RESIDUAL_BALANCE)
        accuracy = max(ACCURACY * min(change, balanced), 0.1 * rounding * scale)
        if stop or (done and shrink.certify(Z, tau, triplets, accuracy)):
            break
        if adaptive:
            most = min(PENALTY_STEP, 1 + PENALTY_DECAY / k**2)
            ratio = math.sqrt(RESIDUAL_BALANCE * gap / dual) if dual > 0 else most
            ratio = min(max(ratio, 1 / most), most)
            mu, E = mu * ratio, E / ratio
    else:
        done = False
    triplets = U, unit * (sigma - tau), V
    return PursuitResult(unit * L, unit * S, mu * E, triplets, gap, dual, k, done)
