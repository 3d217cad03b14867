"""The leading singular subspace by Krylov or Chebyshev: either side, and passes at less precision."""

from __future__ import annotations

import math

from ...linalg import Array, namespace, on_gpu
from ...operators import Operator
from ...operators.gpu import Tf32
from ...progress import stopped
from .chebyshev import Chebyshev
from .gram import right_from_left
from .krylov import Krylov, KrylovResult
from .relation import ROUNDING
from .ritz import Found, Ritz, rayleigh_ritz

__all__ = ["by_chebyshev", "by_krylov", "mixed_scale"]

#: float32 passes serve float64 data down to this ``tol``; below it most steps are in float64 anyway.
MIXED_TOL = 1e-8

#: What float32 passes are asked for, where ``tol`` is below it: float64 passes go on from there.
SINGLE_GOAL = 3e-6


def mixed_scale(X: Operator, tol: float, energy: float) -> float | None:
    """The power of two that brings the entries of X near 1 in float32; None where float64 stays."""
    if "float64" not in str(X.dtype) or tol < MIXED_TOL or not 0 < energy < math.inf:
        return None
    return 2.0 ** -round(math.log2(energy / math.prod(X.shape)) / 2)


def by_krylov(
    X: Operator,
    s: int,
    *,
    tol: float,
    max_steps: int,
    seed: int,
    scale: float | None = None,
    energy: float = math.inf,
) -> Found:
    """The s leading right singular vectors of X by block Krylov on its smaller side.

    ``scale`` asks for passes over ``scale X`` in float32 first; a Rayleigh-Ritz pass in float64 then
    measures what they reached, and float64 passes go on where that is above ``tol``. ``energy`` is
    ``||X||_F^2``.
    """
    narrow = X.float32_copy(scale) if scale is not None else None
    if scale is None or narrow is None:
        found = Krylov(max_steps=max_steps)(_small(X), s, tol=tol, seed=seed, energy=energy)
        return Found(_ritz(X, found, tol), found.certificate, found.steps, str(X.dtype))
    options = Krylov(max_steps=max_steps, verify=tol >= SINGLE_GOAL)
    first = options(
        _small(narrow), s, tol=max(tol, SINGLE_GOAL), seed=seed, energy=energy * scale**2
    )
    del narrow
    ritz = _measured(X, first.V)
    enough = ritz.residual <= tol and options.verify
    if enough or first.steps >= max_steps or stopped():
        return Found(ritz, first.certificate, first.steps, "float32")
    start = _small(X).asarray(first.V)
    found = Krylov(max_steps=max_steps - first.steps)(
        _small(X), s, tol=tol, seed=seed + 1, start=start, energy=energy
    )
    steps = first.steps + found.steps
    return Found(_ritz(X, found, tol), found.certificate, steps, "float32, then float64")


def by_chebyshev(
    X: Operator,
    s: int,
    *,
    tol: float,
    max_steps: int,
    seed: int,
    scale: float | None = None,
    energy: float = math.inf,
) -> Found:
    """The s leading right singular vectors of X by Chebyshev filters on its smaller side.

    On a GPU the filters are in TF32, of ``scale X`` in float32 where X is float64; Rayleigh-Ritz
    passes in the precision of X measure what they reached. ``energy`` is ``||X||_F^2``.
    """
    narrow = (X.float32_copy(scale) if scale is not None else None) or X
    gpu = "float32" in str(narrow.dtype) and on_gpu(narrow.like)
    fast = Tf32(narrow) if gpu else narrow
    found = Chebyshev(max_steps)(
        _small(X), s, tol=tol, seed=seed, fast=None if fast is X else _small(fast), energy=energy
    )
    kind = "tf32" if gpu else str(narrow.dtype)
    note = str(X.dtype) if fast is X else f"{kind} and {X.dtype}"
    ritz = found.ritz.leading(s)
    if X.shape[1] > X.shape[0]:
        ritz = _measured(X, ritz.V)
    return Found(ritz, found.certificate, found.steps, note.replace("torch.", ""))


def _small(X: Operator) -> Operator:
    """X or X^T, whichever has the fewer columns."""
    return X.T if X.shape[1] > X.shape[0] else X


def _measured(X: Operator, V: Array) -> Ritz:
    V = X.asarray(V)
    return rayleigh_ritz(X, X.rmatmul(V) if X.shape[1] > X.shape[0] else V)


def _ritz(X: Operator, found: KrylovResult, tol: float) -> Ritz:
    """The Ritz pairs of the recurrence, or measured in one more pass where rounding might show."""
    wide = X.shape[1] > X.shape[0]
    eps = float(namespace(found.V).finfo(found.V.dtype).eps)
    lost = not found.theta[-1] * max(tol, eps) > ROUNDING * eps * found.theta[0]
    if not lost and not X.T.implicit:
        ritz = Ritz(found.V, X.asarray(found.theta), X.asarray(found.residuals))
        if wide:
            Q, R = found.rest
            growth = math.sqrt(found.theta[0] / found.theta[-1])
            known = growth * ritz.residual <= tol
            ritz = right_from_left(X, ritz, X.asarray(R), None if known else Q)
        else:
            ritz = ritz.signed()
        if ritz.residual <= tol and (not wide or ritz.orthonormal):
            return ritz
    return _measured(X, found.V)
