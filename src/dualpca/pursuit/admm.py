"""Principal component pursuit by alternating directions, with singular values shrunk on a subspace."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ..linalg import Array, asarray_like, eigh, namespace
from ..progress import report_step

#: Left vectors, values and right vectors: the singular triplets above a threshold, largest first.
Triplets = tuple[Array, Array, Array]

#: The subspace starts with so many vectors, keeps a few more than the rank (a fifth, or this many), and
#: gives way to the Gram matrix beyond this share of the smaller side or after so many steps.
START, SPARE, SHARE, STEPS = 16, 6, 0.2, 8

#: Singular values below ``sigma_1 / WIDE`` have lost too many digits in a Gram matrix of float64.
WIDE = 1e4

#: Rounding keeps the residuals above so many eps of the data.
FLOOR = 8.0

#: The residual of the constraint is kept below that of the dual by this factor, and the penalty moves
#: by at most ``1 + MOVES / k^2`` in iteration k: a finite product, as convergence asks for (He, Yang
#: and Wang, 2000).
LEAN, MOVES, LEAP = 10.0, 100.0, 5.0

#: Shrinking is as accurate as this share of the data at first, and then of the last residuals.
FIRST, SHARP = 1e-2, 0.2


def above(values: Array, tau: float) -> int:
    """How many of the values are above tau."""
    xp = namespace(values)
    return int(xp.sum(xp.astype(values > tau, xp.int64)))


def by_svd(Z: Array, tau: float) -> Triplets:
    """The triplets of Z above tau by a full SVD."""
    U, sigma, Vt = namespace(Z).linalg.svd(Z, full_matrices=False)
    r = above(sigma, tau)
    return U[:, :r], sigma[:r], Vt[:r, :].T


def by_gram(Z: Array, tau: float) -> Triplets:
    """The triplets of Z above tau from the smaller Gram matrix, in float64."""
    if Z.shape[0] < Z.shape[1]:
        V, sigma, U = by_gram(Z.T, tau)
        return U, sigma, V
    xp = namespace(Z)
    wide = xp.astype(Z, xp.float64, copy=False)
    theta, V = eigh(wide.T @ wide)
    if float(theta[0]) > (WIDE * tau) ** 2:
        return by_svd(Z, tau)
    sigma = xp.sqrt(xp.clip(theta, 0.0, None))
    r = above(sigma, tau)
    U = (wide @ V[:, :r]) / sigma[None, :r]
    U, sigma, V = (xp.astype(a, Z.dtype, copy=False) for a in (U, sigma[:r], V[:, :r]))
    return U, sigma, V


class Shrinkage:
    """The triplets above a threshold of matrices that change little from call to call.

    Subspace iteration from the last right vectors. With ``Z V = U Sigma`` and ``R = Z^T U - V Sigma`` for
    the Ritz triplets above tau, Z is within ``||R||_F`` of a matrix that has them as its own; shrinking
    singular values expands no distance, so ``||R||_F`` bounds the error of the result wherever no
    singular value above tau was missed, which :meth:`complete` tells.
    """

    def __init__(self, seed: int) -> None:
        self.rng = np.random.default_rng(seed)
        self.basis: Array | None = None
        self.cold = True  # nothing is known yet of the rank
        self.random = True  # some vectors of the basis are
        self.exact = False

    def __call__(self, Z: Array, tau: float, accuracy: float) -> Triplets:
        found = self._iterate(Z, tau, accuracy)
        self.exact = found is None
        if found is None:
            found = by_gram(Z, tau)
            V, r = found[2], found[1].shape[0]
            self.basis = self._widened(V, self._width(r), Z) if r <= self._limit(Z) else None
            self.cold, self.random = False, True
        return found

    def few(self, Z: Array, tau: float, accuracy: float) -> bool:
        """Whether subspace iteration finds the triplets above tau: they are few, and well apart."""
        return self._iterate(Z, tau, accuracy) is not None

    def complete(self, Z: Array, tau: float, found: Triplets, accuracy: float) -> bool:
        """Whether nothing above tau was missed: ``||Z - U Sigma V^T||_2 <= tau``, from all eigenvalues.

        Where something was, the next call takes the Gram matrix.
        """
        if self.exact:
            return True
        U, sigma, V = found
        xp = namespace(Z)
        rest = xp.astype(Z - (U * sigma[None, :]) @ V.T, xp.float64, copy=False)
        C = rest.T @ rest if Z.shape[0] >= Z.shape[1] else rest @ rest.T
        if float(xp.max(xp.linalg.eigvalsh(C))) <= (tau + accuracy) ** 2:
            return True
        self.basis, self.cold = None, False
        return False

    def _limit(self, Z: Array) -> int:
        return int(SHARE * min(Z.shape))

    def _width(self, rank: int) -> int:
        return rank + max(SPARE, rank // 5)

    def _widened(self, V: Array | None, width: int, Z: Array) -> Array:
        """An orthonormal basis of V and random vectors, or of the first of V."""
        xp = namespace(Z)
        have = 0 if V is None else V.shape[1]
        if V is not None and width <= have:
            return V[:, :width]
        new = asarray_like(self.rng.standard_normal((Z.shape[1], width - have)), Z)
        return xp.linalg.qr(new if V is None else xp.concat([V, new], axis=1), mode="reduced")[0]

    def _iterate(self, Z: Array, tau: float, accuracy: float) -> Triplets | None:
        xp, limit, Q = namespace(Z), self._limit(Z), self.basis
        if limit < START or (Q is None and not self.cold):
            return None
        # The Ritz values of random vectors say little before they were multiplied a few times.
        settled, last = 2 if self.random else 0, math.inf
        Q = self._widened(None, START, Z) if Q is None else Q
        for step in range(STEPS):
            U, T = xp.linalg.qr(Z @ Q, mode="reduced")
            P, sigma, Wt = xp.linalg.svd(T, full_matrices=False)
            r = above(sigma, tau)
            B = Z.T @ U
            if r == Q.shape[1]:
                if self._width(r) > limit:
                    return None
                Q = self._widened(B, min(2 * r, limit), Z)
                settled, last = step + 2, math.inf
                continue
            V = Q @ Wt.T
            residual = (B @ P - V * sigma[None, :])[:, :r]
            error = float(xp.linalg.vector_norm(residual)) if r else 0.0
            if error <= accuracy and step >= settled:
                self.basis, self.random = V[:, : self._width(r)], False
                return U @ P[:, :r], sigma[:r], V[:, :r]
            if error >= last or _steps(error, last, accuracy) > STEPS - step:
                return None
            last = error
            Q = xp.linalg.qr(B, mode="reduced")[0]
        return None


def _steps(error: float, last: float, accuracy: float) -> float:
    """Steps still to go where the error falls geometrically."""
    if error <= accuracy or not math.isfinite(last):
        return 0.0
    return math.log(error / max(accuracy, 1e-300)) / math.log(last / error)


@dataclass(frozen=True)
class Pursued:
    """``X = L + S``, the triplets of L, the multiplier Y of the constraint, and relative residuals."""

    L: Array
    S: Array
    Y: Array
    triplets: Triplets
    gap: float
    dual: float
    iterations: int
    converged: bool

    def scaled(self, c: float) -> Pursued:
        """The solution for ``c X``; Y stays as it is."""
        U, sigma, V = self.triplets
        return replace(self, L=c * self.L, S=c * self.S, triplets=(U, c * sigma, V))


def pursue(
    X: Array,
    *,
    lam: float,
    mu: float | None,
    tol: float,
    max_iter: int,
    shrink: Any,
) -> Pursued:
    """``min ||L||_* + lam ||S||_1, L + S = X``: Candes, Li, Ma, Wright (2011), Algorithm 1.

    ``L = D_{1/mu}(X - S + Y/mu), S = soft_{lam/mu}(X - L + Y/mu), Y += mu (X - L - S)`` with the scaled
    multiplier ``E = Y/mu``, which the second step leaves clipped to ``lam/mu``. It ends when the gap
    ``||X - L - S||_F / ||X||_F`` and ``mu ||S - S_last||_F / ||Y||_F``, by which the dual constraint
    is missed, are both at most tol. Where mu is None it starts as in the source and follows the two.
    """
    xp = namespace(X)
    size = xp.linalg.vector_norm
    fixed = mu is not None
    mu = mu if mu is not None else 1 / (4 * (float(xp.mean(xp.abs(X))) or 1.0))
    scale = float(size(X)) or 1.0
    rounding = FLOOR * float(xp.finfo(X.dtype).eps)
    accuracy = FIRST * scale
    if shrink.few(X, 1 / mu, accuracy):
        S, E = xp.zeros_like(X), xp.zeros_like(X)
    else:  # the first L would have a high rank: with L = 0 the second step comes first
        E = xp.clip(X, -lam / mu, lam / mu)
        S = X - E
    for k in range(1, max_iter + 1):
        # In place where that is safe: fresh memory of this size costs more than the arithmetic.
        tau, Z = 1 / mu, X - S
        Z += E
        found = shrink(Z, tau, accuracy)
        U, sigma, V = found
        L = (U * (sigma - tau)[None, :]) @ V.T
        T = X - L
        T += E
        last, before = S, E
        E = xp.clip(T, -lam * tau, lam * tau)
        S = T - E
        before -= E  # L + S - X
        last -= S
        change, move, length = (float(size(A)) for A in (before, last, E))
        gap, dual = change / scale, move / length if length > 0 else 0.0
        stop = report_step("pursuit", max(gap, dual), tol)
        done = gap <= max(tol, rounding) and move <= max(tol * length, rounding * scale)
        accuracy = max(SHARP * min(change, max(move, change / LEAN)), 0.1 * rounding * scale)
        if stop or (done and shrink.complete(Z, tau, found, accuracy)):
            break
        if not fixed:
            most = min(LEAP, 1 + MOVES / k**2)
            ratio = math.sqrt(LEAN * gap / dual) if dual > 0 else most
            ratio = min(max(ratio, 1 / most), most)
            mu, E = mu * ratio, E / ratio
    else:
        done = False
    return Pursued(L, S, mu * E, (U, sigma - tau, V), gap, dual, k, done)
