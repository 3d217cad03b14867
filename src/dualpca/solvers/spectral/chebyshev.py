"""Chebyshev-filtered subspace iteration: DCA with a polynomial instead of a memory.

DCA on (l) multiplies W by ``C = X^T X`` and makes it orthonormal; here W is multiplied by a Chebyshev
polynomial of C, which is small on the eigenvalues that are not wanted. There is no basis to keep
orthogonal and no eigenproblem beyond that of one block: what a GPU wants, on which a pass with 128
columns costs no more than one with 16 and less than an eigenproblem of size 256.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from array_api_compat import device

from ... import progress
from ..._memory import ensure, itemsize
from ...linalg import Array, invert_lower, namespace, orthonormalize, standard_normal, to_numpy
from ...operators import Operator
from ...operators.gpu import matmul_precision
from .certificate import Certificate, rounding_floor
from .complement import certify
from .krylov import block_of
from .relation import ROUNDING
from .ritz import Ritz, relative_residual, ritz_pairs

__all__ = ["Chebyshev", "Filtered"]


@dataclass(frozen=True)
class Filtered:
    """Ritz pairs of ``A^T A``, s of them and some more, measured in the precision of A."""

    ritz: Ritz
    s: int
    steps: int
    certificate: Certificate

    @property
    def residual(self) -> float:
        """``||C V - V Theta||_F / ||C V||_F`` of the first s."""
        return self.ritz.leading(self.s).residual

    @property
    def shortfall(self) -> float:
        """An upper bound on the relative shortfall in captured variance of the first s."""
        return self.certificate.shortfall(self.s)


#: The degree of the first filter and the highest of any; it may double from one to the next.
FIRST, LONGEST = 4, 32

#: A growth below this says that the eigenvalues from the s-th to the last of the block are one cluster:
#: nothing is lost among them, and the filter is to cut below it.
CLUSTER = 0.06

#: Columns may come to differ by this factor before they are told apart again.
SPREAD = 100.0


def columns(s: int, n: int) -> int:
    """Columns of the block, a multiple of 64: those beyond s make the filter steep."""
    return min(n, 64 * math.ceil((s + 28) / 64))


@dataclass(frozen=True)
class Chebyshev:
    """The s leading eigenvectors of ``C = X^T X`` from filters and Rayleigh-Ritz passes in turn.

    Parameters
    ----------
    max_steps : int
        Give up after so many passes.
    """

    max_steps: int = 1000

    def __call__(
        self,
        A: Operator,
        s: int,
        *,
        tol: float,
        seed: int,
        fast: Operator | None = None,
        energy: float = math.inf,
    ) -> Filtered:
        """Ritz pairs of ``A^T A``.

        ``fast`` is a multiple of A at less precision: it serves all passes but those that measure the
        residual and certify the answer, for as long as that goes on falling. ``energy`` is
        ``||A||_F^2``.
        """
        like = A.like
        with A.blas_limited(), matmul_precision(like, "ieee"):
            ritz, image, steps, done = self._run(A, s, tol, seed, A if fast is None else fast, like)
            theta, r = _numbers(ritz)
            known = {"energy": energy, "floor": rounding_floor(like.dtype)}
            certificate = Certificate.of_norms(theta, r, **known)
            if done and certificate.shortfall(s) > tol:
                columns, before = block_of(like), A.passes
                certificate = certify(
                    A, ritz, image, s, tol=tol, energy=energy, columns=columns, seed=seed + 1
                )
                steps += A.passes - before
        return Filtered(ritz.signed(), s, steps, certificate)

    def _run(
        self, A: Operator, s: int, tol: float, seed: int, fast: Operator, probe: Array
    ) -> tuple[Ritz, Array, int, bool]:
        """Ritz pairs, their images, the passes they took, and whether they meet ``tol``."""
        n, width = A.shape[1], columns(s, A.shape[1])
        what = f"4 blocks of {width:,} vectors of {n:,} numbers, for {s:,} components,"
        ensure(4 * n * width * itemsize(probe), what, "ask for fewer components", probe)
        eps = float(namespace(probe).finfo(probe.dtype).eps)
        P = fast.sweep(standard_normal((n, width), fast.asarray(probe), seed))
        steps, most, before, last = 1, FIRST, math.inf, math.inf
        sure, same = False, str(fast.dtype) == str(A.dtype)
        while True:
            X = A if sure else fast
            ritz, image = ritz_pairs(X, orthonormalize(P))
            steps += 1
            theta, r = _numbers(ritz)
            if not theta[0] > 0:
                return ritz, image, steps, True
            cut = max(float(theta[-1]), eps * float(theta[0]))
            if _growth(theta[s - 1] / cut) < CLUSTER:
                cut /= 2
            growth = _growth(theta[s - 1] / cut)
            residual = relative_residual(r[:s], theta[:s])
            stalled, out = residual > 0.5 * before, steps + 1 >= self.max_steps
            out = progress.report_step("chebyshev", residual, tol, A.passes) or out
            P = image * (2 / cut) - ritz.V  # of degree 1, whose pass is done
            if X is A:
                final = ritz, image
            elif stalled or out or residual <= 0.7 * tol * math.cosh(growth):
                kept = min(n, 16 * math.ceil((s + 8) / 16))
                final = ritz_pairs(A, orthonormalize(A.asarray(P[:, :kept])))
                steps += 1
            else:
                final = None
            if final is not None:
                measured, reached, floor = _with_rounding(A, final[0], s, ROUNDING * eps)
                done = reached <= max(tol, floor)
                if done or out:
                    return measured, final[1], steps, done
                if fast is not A and reached > 0.5 * last:
                    P, fast, most, before = A.asarray(P), A, FIRST, math.inf  # its rounding shows
                    sure = True
                    continue
                residual = last = reached
            wanted = math.acosh(max(residual / (0.5 * tol), 1.0)) / growth if tol > 0 else LONGEST
            degree = min(max(2, math.ceil(wanted)), most, LONGEST, self.max_steps - steps)
            apart = max(_growth(theta[0] / cut) - growth, 1e-9)
            every = max(1, int(math.log(SPREAD) / apart))
            sure = same and wanted <= degree  # then what it reaches is measured at once
            P = _filter(fast, ritz.V, P, cut, degree, every)
            steps, most, before = steps + degree - 1, 2 * most, residual


def _numbers(ritz: Ritz) -> tuple[np.ndarray, np.ndarray]:
    """Ritz values and the norms of the residuals, in one transfer."""
    both = to_numpy(namespace(ritz.theta).stack([ritz.theta, ritz.residuals])).astype(float)
    return both[0], both[1]


def _with_rounding(A: Operator, ritz: Ritz, s: int, rounding: float) -> tuple[Ritz, float, float]:
    """The same with what rounding may hide in the residuals; that of the first s; its floor."""
    theta, r = _numbers(ritz)
    r = np.hypot(r, rounding * theta[0])
    floor = relative_residual(np.full(s, 2 * rounding * theta[0]), theta[:s])
    return (
        Ritz(ritz.V, ritz.theta, A.asarray(r)),
        relative_residual(r[:s], theta[:s]),
        floor,
    )


def _growth(ratio: float) -> float:
    """The logarithm of how much a degree of the filter adds at ``ratio`` times the cut."""
    return math.acosh(max(2 * ratio - 1, 1 + 1e-6))


def _filter(A: Operator, V: Array, P: Array, cut: float, degree: int, every: int) -> Array:
    """``T_degree(2 C / cut - I) V`` from ``P = T_1 V``.

    On the way columns are told apart by a matrix from the right, which leaves span and recurrence.
    """
    for k in range(1, degree):
        if k % every == 0:
            P, V = _conditioned(P, V)
        P, V = A.sweep(P) * (4 / cut) - 2 * P - V, P
    return P


def _conditioned(P: Array, V: Array) -> tuple[Array, Array]:
    """``P M`` with nearly orthonormal columns, and ``V M``.

    M is the inverse of a Cholesky factor in float64, of the Gram matrix of normalised columns moved
    away from singular ones.
    """
    xp = namespace(P)
    wide = xp.astype(P, xp.float64, copy=False)
    S = wide.T @ wide
    size = xp.sqrt(xp.linalg.diagonal(S))
    size = 1 / xp.where(size > 0, size, xp.ones_like(size))
    eye = xp.eye(S.shape[0], dtype=S.dtype, device=device(S))
    L = xp.linalg.cholesky(S * size[:, None] * size[None, :] + 1e-14 * S.shape[0] * eye)
    M = size[:, None] * invert_lower(L, eye).T
    return (
        xp.astype(wide @ M, P.dtype, copy=False),
        xp.astype(xp.astype(V, xp.float64, copy=False) @ M, P.dtype, copy=False),
    )
