"""Eigenpairs of the centred kernel matrix, and the warnings that their accuracy deserves."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from dataclasses import replace
from numbers import Integral
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from ..linalg import norm, power_of_two
from ..operators import Operator, Weighted
from ..solvers import Ritz
from ..solvers.solve import user_stacklevel
from ..solvers.spectral.certificate import Certificate
from ..solvers.subspace import (
    DIRECT_ROUNDING,
    SubspaceResult,
    growing_subspace,
    leading_subspace,
    warn_above,
)
from .definite import check_definite, ends_of_spectrum

#: The options of a run that only looks for negative eigenvalues.
LOOK = {"solver": "auto", "formulation": None, "tol": 1e-2}


def kernel_eigenpairs(
    rows: Operator,
    K: Operator,
    total: float,
    n: Any,
    kernel: Any,
    *,
    definite: bool,
    centered: bool,
    equal: Callable[[], bool],
    **options: Any,
) -> SubspaceResult:
    """Return Ritz pairs of ``X X^T`` on an orthonormal H, explicit whatever the formulation.

    ``rows`` is the centred and weighted X, K is X before that, ``total`` is the trace of ``X X^T``, and n
    is ``n_components``. The ``kernel`` is ``definite`` if it has no negative eigenvalue whatever the
    rows; ``equal`` tells whether all rows are the same if K does not tell them apart.
    """
    N, eps, tol = rows.shape[0], float(np.finfo(rows.dtype).eps), options["tol"]
    fraction = n is not None and not isinstance(n, Integral)
    s = min(int(n), N) if isinstance(n, Integral) else N
    energy = K.energy()
    rounding = 2 * eps * max(energy - total, 0.0) / np.sqrt(N)
    direct = options["formulation"] is None and options["solver"] in ("auto", "lapack", "krylov")

    def check(theta: np.ndarray, V: np.ndarray, view: Operator, scale: float) -> float:
        """Return the largest magnitude of a negative eigenvalue; raise an error if it is too large."""
        ends = ends_of_spectrum(view.T, V, options["seed"], scale)
        check_definite(kernel, centered, theta, ends, 10 * rounding, by_size=not direct)
        return max(-ends.least, 0.0)

    # Centring is exact to this; rows that differ by less are one row.
    if total <= 100 * eps * energy:
        zeros = np.zeros(1 if fraction else s, dtype=rows.dtype)
        H = np.eye(N, len(zeros), dtype=rows.dtype)
        if not definite:
            check(zeros, H[:, :0], rows, 1.0)
        lost = not equal()
        ritz = Ritz(H, zeros, zeros + np.float32(lost))
        if lost:
            _warn_of_rounding(kernel, ritz, tol)
        certificate = Certificate.of_norms(zeros, zeros, ceiling=0.0)
        return SubspaceResult(ritz, certificate, steps=0, note="none")
    # Solvers square eigenvalues: a total far from 1 is brought near it, exactly by a power of 2.
    view, scale = rows, 1.0
    if not 1e-9 < total < 1e9:
        scale = 1 / float(power_of_two(math.sqrt(total)))
        view = Weighted(rows, rows.asarray(np.full(N, scale)))
    options |= {"dense": False, "energy": total * scale**2}

    def solve_with(**options: Any) -> SubspaceResult:
        with warnings.catch_warnings():  # _with_rounding warns, and knows more
            warnings.simplefilter("ignore", ConvergenceWarning)
            if fraction:
                result = growing_subspace(view.T, float(n) * total * scale**2, **options)
            else:
                result = leading_subspace(view.T, s, **options)
        ritz, count = result.ritz, result.ritz.theta.shape[0]
        theta, residuals = (
            (np.asarray(a, dtype=float) / scale**2).astype(rows.dtype)
            for a in (ritz.theta, ritz.residuals)
        )
        if fraction:
            count = min(count, int((np.cumsum(theta, dtype=float) <= n * total).sum()) + 1)
        return replace(result, ritz=Ritz(ritz.V, theta, residuals).leading(count))

    # First-order solvers find eigenvalues by their size, so that negative ones are looked for before.
    look_first = not (direct or definite)
    result = solve_with(**{**options, **LOOK} if look_first else options)
    negative = 0.0 if definite else check(result.ritz.theta, result.ritz.V, view, scale)
    if look_first:
        result = solve_with(**options)
    # The trace of K is less than its positive eigenvalues by the negative ones, known to a factor of 2.
    energy = result.certificate.energy + 2 * N * negative * scale**2
    result = replace(result, certificate=replace(result.certificate, energy=energy))
    return _with_rounding(result, rounding, kernel, definite, tol, options["max_iter"])


def _with_rounding(
    result: SubspaceResult, rounding: float, kernel: Any, definite: bool, tol: float, max_iter: int
) -> SubspaceResult:
    """Return the result with the rounding of K in its residuals, and warn if these are above ``tol``.

    Entries of K of size k are off by about eps k, so that a product with a vector is by eps k sqrt(N).
    That matters where centring takes most of K away; a residual, of the same rounded K, is blind to it.
    """
    ritz, eps = result.ritz, float(np.finfo(result.ritz.theta.dtype).eps)
    name = result.note.split()[0].rstrip(":")
    direct = name in ("lapack", "gram")
    least = max(tol, DIRECT_ROUNDING * eps if direct else 0.0)
    size = norm(ritz.theta)
    lost = rounding * np.sqrt(len(ritz.theta)) / size if size > 0 else 0.0
    negative = norm(ritz.residuals[ritz.theta == 0])
    if lost > DIRECT_ROUNDING * eps:
        ritz = replace(ritz, residuals=np.hypot(ritz.residuals, rounding).astype(ritz.V.dtype))
        result = replace(result, ritz=ritz, certificate=result.certificate.at_least(lost**2))
    if not definite and negative > 1.01 * least * math.hypot(size, negative):
        warnings.warn(
            f"{name} reached a residual of {ritz.residual:.1e}, above tol={tol:.1e}: "
            f"kernel={kernel!r} has small negative eigenvalues on this data, which come out as "
            "zero; ask for fewer n_components, or raise tol",
            ConvergenceWarning,
            stacklevel=user_stacklevel(),
        )
    elif 10 * lost > ritz.residual > least:
        _warn_of_rounding(kernel, ritz, tol)
    else:
        warn_above(ritz.residual, least, name, None if direct else max_iter)
    return result


def _warn_of_rounding(kernel: Any, ritz: Ritz, tol: float) -> None:
    warnings.warn(
        f"kernel={kernel!r} hardly differs between the rows of X, so that the rounding of "
        f"{ritz.V.dtype} leaves a residual of {ritz.residual:.1e}, above tol={tol:.1e}; use other "
        "parameters, such as a larger gamma, centre X, or give float64",
        ConvergenceWarning,
        stacklevel=user_stacklevel(),
    )


def nonzero(theta: np.ndarray) -> np.ndarray:
    """Return which of the decreasing eigenvalues are more than rounding."""
    return theta > (2e-7 if "float32" in str(theta.dtype) else 1e-12) * theta[0]


def all_equal(X: Any) -> bool:
    """Return whether all rows are the same."""
    return (X[np.zeros(X.shape[0], dtype=int)] != X).sum() == 0


def in_all_rows(values: np.ndarray, present: np.ndarray | None) -> np.ndarray:
    """Return the values of the rows that are present (all if None), with 0 for the other rows."""
    if present is None:
        return values
    whole = np.zeros((len(present), *values.shape[1:]), dtype=values.dtype)
    whole[present] = values
    return whole
