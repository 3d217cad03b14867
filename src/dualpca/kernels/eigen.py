"""Eigenpairs of the centred kernel matrix, and what there is to say of their accuracy."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from dataclasses import replace
from numbers import Integral
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from ..estimators._base import seed
from ..linalg import norm
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
from .definite import check_definite, definite_by_name, ends_of_spectrum

#: What a run is asked for that looks for negative eigenvalues only.
LOOK = {"solver": "auto", "formulation": None, "tol": 1e-2}


def kernel_eigenpairs(
    model: Any, rows: Operator, K: Operator, total: float, equal: Callable[[], bool]
) -> SubspaceResult:
    """Ritz pairs of ``K = X X^T`` on an orthonormal H, explicit whatever the formulation.

    ``equal`` tells whether all rows are the same, where K does not tell them apart.
    """
    N, n, eps = rows.shape[0], model.n_components, float(np.finfo(rows.dtype).eps)
    fraction = n is not None and not isinstance(n, Integral)
    s = min(int(n), N) if isinstance(n, Integral) else N
    energy = K.energy()
    rounding = 2 * eps * max(energy - total, 0.0) / np.sqrt(N)
    start, named = seed(model.random_state), definite_by_name(model)
    direct = model.formulation is None and model.solver in ("auto", "lapack", "krylov")

    def check(theta: np.ndarray, V: np.ndarray, view: Operator, scale: float) -> float:
        """The largest magnitude of a negative eigenvalue, where these are small enough to go on."""
        ends = ends_of_spectrum(view.T, V, start) * scale**-2
        check_definite(model, theta, ends, 10 * rounding, by_size=not direct)
        return max(-ends.least, 0.0)

    # Centring is exact to this; rows that differ by less are one row.
    if total <= 100 * eps * energy:
        zeros = np.zeros(1 if fraction else s, dtype=rows.dtype)
        H = np.eye(N, len(zeros), dtype=rows.dtype)
        if not named:
            check(zeros, H[:, :0], rows, 1.0)
        lost = not equal()
        ritz = Ritz(H, zeros, zeros + np.float32(lost))
        if lost:
            _warn_of_rounding(model, ritz.residual, rows.dtype)
        certificate = Certificate.of_norms(zeros, zeros, ceiling=0.0)
        return SubspaceResult(ritz, certificate, steps=0, note="none")
    # Solvers square eigenvalues: far from 1 these are brought near it, which is exact by a power of 2.
    near = 1e-9 < total < 1e9
    scale = 1.0 if near else 2.0 ** -round(math.log2(total) / 2)
    view = rows if near else Weighted(rows, rows.asarray(np.full(N, scale)))
    options = {
        "dense": False,
        "energy": total * scale**2,
        "solver": model.solver,
        "formulation": model.formulation,
        "tol": model.tol,
        "max_iter": model.max_iter,
        "seed": start,
    }

    def found_by(**options: Any) -> SubspaceResult:
        with warnings.catch_warnings():  # told below, with what else is known
            warnings.simplefilter("ignore", ConvergenceWarning)
            if fraction:
                found = growing_subspace(view.T, float(n) * total * scale**2, **options)
            else:
                found = leading_subspace(view.T, s, **options)
        theta, residuals = (
            (np.asarray(a, dtype=float) / scale**2).astype(rows.dtype)
            for a in (found.ritz.theta, found.ritz.residuals)
        )
        kept = len(theta)
        if fraction:
            kept = min(kept, int((np.cumsum(theta, dtype=float) <= n * total).sum()) + 1)
        return replace(found, ritz=Ritz(found.ritz.V, theta, residuals).leading(kept))

    # First-order solvers find eigenvalues by their size: negative ones are looked for before.
    first = options if direct or named else {**options, **LOOK}
    found = found_by(**first)
    negative = 0.0 if named else check(found.ritz.theta, found.ritz.V, view, scale)
    if first is not options:
        found = found_by(**options)
    # The trace of K is less than its positive eigenvalues by the negative ones, known to a factor of 2.
    energy = found.certificate.energy + 2 * N * negative * scale**2
    found = replace(found, certificate=replace(found.certificate, energy=energy))
    return _with_rounding(model, found, rounding, named)


def _with_rounding(
    model: Any, found: SubspaceResult, rounding: float, named: bool
) -> SubspaceResult:
    """What was found with the rounding of K in its residuals, and the warning that these deserve.

    Entries of K of size k are off by about eps k, so that its product with a vector is by eps k sqrt(N).
    That matters where centring takes most of K away; a residual, of the same rounded K, is blind to it.
    """
    ritz, eps = found.ritz, float(np.finfo(found.ritz.theta.dtype).eps)
    name = found.note.split()[0].rstrip(":")
    direct = name in ("lapack", "gram")
    least = max(model.tol, DIRECT_ROUNDING * eps if direct else 0.0)
    size = norm(ritz.theta)
    lost = rounding * np.sqrt(len(ritz.theta)) / size if size > 0 else 0.0
    negative = norm(ritz.residuals[ritz.theta == 0])
    if lost > DIRECT_ROUNDING * eps:
        ritz = replace(ritz, residuals=np.hypot(ritz.residuals, rounding).astype(ritz.V.dtype))
        found = replace(found, ritz=ritz, certificate=found.certificate.at_least(lost**2))
    if not named and negative > 1.01 * least * math.hypot(size, negative):
        warnings.warn(
            f"{name} reached a residual of {ritz.residual:.1e}, above tol={model.tol:.1e}: "
            f"kernel={model.kernel!r} has small negative eigenvalues on this data, which come out as "
            "zero; ask for fewer n_components, or raise tol",
            ConvergenceWarning,
            stacklevel=user_stacklevel(),
        )
    elif 10 * lost > ritz.residual > least:
        _warn_of_rounding(model, ritz.residual, ritz.V.dtype)
    else:
        warn_above(ritz.residual, least, name, None if direct else model.max_iter)
    return found


def _warn_of_rounding(model: Any, residual: float, dtype: Any) -> None:
    warnings.warn(
        f"kernel={model.kernel!r} hardly differs between the rows of X, so that the rounding of {dtype} "
        f"leaves a residual of {residual:.1e}, above tol={model.tol:.1e}; use other parameters, such as "
        "a larger gamma, centre X, or give float64",
        ConvergenceWarning,
        stacklevel=user_stacklevel(),
    )


def all_equal(X: Any, counted: np.ndarray) -> bool:
    """Whether all rows that count are the same."""
    X = X[counted]
    return (X[np.zeros(X.shape[0], dtype=int)] != X).sum() == 0


def filled_up(values: np.ndarray, counted: np.ndarray) -> np.ndarray:
    """What belongs to the rows that count, with 0 for the others."""
    if counted.all():
        return values
    whole = np.zeros((len(counted), *values.shape[1:]), dtype=values.dtype)
    whole[counted] = values
    return whole
