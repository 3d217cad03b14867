"""Look at the complement of a subspace from fresh random vectors, for what a solver may have missed."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from ... import progress
from ...linalg import Array
from ...operators import Operator
from .certificate import FAILURE, Certificate, ceiling_of, rounding_floor
from .relation import ROUNDING, Relation
from .ritz import Ritz

__all__ = ["Look", "certify", "easiest", "look_beyond"]

#: Steps beyond those of the run that a look may take: bounds on flat spectra fall slowly.
PATIENCE = 24

#: What is missed counts as missed from this share of ``tol`` on.
WORTHWHILE = 0.25

#: A look ends where so many steps have not brought the certificate down by a tenth.
STALLED = 6


class Look(NamedTuple):
    """A certificate, and directions of the complement with more variance than the s-th, if any."""

    certificate: Certificate
    missed: Array | None


def look_beyond(
    relation: Relation,
    s: int,
    *,
    tol: float,
    energy: float,
    columns: int,
    max_steps: int,
    failure: float = FAILURE,
    searching: bool = True,
) -> Look:
    """Certify the first s columns of V, which hold Ritz vectors, by block Lanczos on its complement.

    The look ends as soon as the certified shortfall is at most ``tol``, or after ``max_steps`` passes.
    While ``searching`` it also ends where it finds variance that the s Ritz vectors miss. V keeps its
    columns; T, Q and K are used up. Listeners are told of the shortfall, not of a residual.
    """
    k, eps = relation.m, relation.eps
    theta = np.diagonal(relation.T)[:k].copy()
    captured, rounding = float(theta[:s].sum()), ROUNDING * eps * max(float(theta[0]), 0.0)
    K = np.vstack([relation.K, math.hypot(rounding, relation.lost) * np.eye(k)])
    floor = rounding_floor(relation.V.dtype)
    # The energy is a sum of squares, from which that of the mean was subtracted.
    energy += floor * (energy + relation.A.removed_energy)
    known = Certificate(theta, K, math.inf, energy, floor)
    if relation.complete:
        return Look(Certificate(theta, K[:0], 0.0, energy, floor), None)
    if not captured > 0 or known.shortfall(s) <= tol:
        return Look(known, None)
    R = relation.turn_to_complement(columns)
    best, bounds, aim = known, [math.inf] * STALLED, max(tol, floor)
    for _ in range(max_steps):
        if not relation.room:
            break
        last = relation.Q.shape[1]
        relation.expand()
        T = relation.T[k : relation.m, k : relation.m]
        xi, S = np.linalg.eigh(T)
        largest = np.sort(np.r_[theta[:s], xi])[::-1][:s]
        gain = float(largest.sum()) - captured
        if searching and gain > max(WORTHWHILE * tol, 2 * floor) * captured:
            found = min(len(xi), R.shape[1])
            U = relation.V[:, k : relation.m] @ relation.array(S[:, -found:])
            return Look(best, U)
        ceiling = float(xi[-1]) if relation.complete else ceiling_of(xi, S, R, last, failure)
        if ceiling + rounding < best.ceiling:
            best = Certificate(theta, K, ceiling + rounding, energy, floor)
        bound = best.shortfall(s)
        if bound <= max(aim, 1.5 * gain / captured) or relation.complete:
            break
        bounds.append(bound)
        if math.isfinite(bounds[-STALLED]) and bound > 0.9 * bounds[-STALLED]:
            break
        told = math.isfinite(bound)
        if told and progress.report_step("krylov", bound, tol, relation.A.passes):
            break
    return Look(best, None)


def easiest(theta: np.ndarray, K: np.ndarray, s: int, sizes: list[int], tol: float) -> int:
    """How many Ritz vectors to keep, so that their complement is the easiest to certify.

    The more are kept, the lower the ceiling of their complement is. But Ritz vectors that have not
    converged are coupled to it, and the certificate has to assume that it has more variance there: as
    many are kept as do no harm if the ceiling is the s-th Ritz value itself.
    """
    for k in reversed(sizes[1:]):
        if Certificate(theta[:k], K[:, :k], float(theta[s - 1])).shortfall(s) <= 0.5 * tol:
            return k
    return sizes[0]


def certify(
    A: Operator,
    ritz: Ritz,
    image: Array,
    s: int,
    *,
    tol: float,
    energy: float,
    columns: int,
    seed: int,
) -> Certificate:
    """The certificate of the first s Ritz vectors, of which ``image = A^T A V`` is known."""
    with A.blas_limited(), progress.phase("certificate"):
        width = min(A.shape[1], ritz.V.shape[1] + (PATIENCE + 1) * columns)
        relation = Relation.of_ritz(A, ritz, image, width, np.random.default_rng(seed))
        look = look_beyond(
            relation,
            s,
            tol=tol,
            energy=energy,
            columns=columns,
            max_steps=PATIENCE,
            searching=False,
        )
    return look.certificate
