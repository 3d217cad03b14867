"""Eigenpairs of the centred kernel matrix, the warnings that they deserve, and negative eigenvalues."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from dataclasses import replace
from numbers import Integral
from typing import Any, NamedTuple

import numpy as np
from sklearn.exceptions import ConvergenceWarning, PositiveSpectrumWarning

from ..linalg import Array, eps, is_single, norm, power_of_two
from ..operators import Operator, Weighted
from ..solvers import Ritz, SubspaceResult
from ..solvers.solve import user_stacklevel
from ..solvers.spectral.certificate import Certificate
from ..solvers.subspace import DIRECT_ROUNDING, growing_subspace, leading_subspace, warn_above

#: The options of a run that only looks for negative eigenvalues.
LOOK = {"solver": "auto", "formulation": None, "tol": 1e-2}

#: Vectors and steps of the Lanczos run that looks for negative eigenvalues. Kuczynski and Wozniakowski
#: (1992): whatever the spectrum, it misses one that is twice as large as every positive one beside V
#: with a probability below 1e-6, up to 30,000 rows.
BLOCK, LANCZOS_STEPS = 8, 7


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
    noise: float = 0.0,
    **options: Any,
) -> SubspaceResult:
    """Return Ritz pairs of ``X X^T`` on an orthonormal H, explicit whatever the formulation.

    ``rows`` is the centred and weighted X, K is X before that, ``total`` is the trace of ``X X^T``, and n
    is ``n_components``. The ``kernel`` is ``definite`` if it has no negative eigenvalue whatever the
    rows; ``equal()`` returns whether all rows are the same, and is called if K does not differ. K is off
    by its own rounding, or by ``noise`` in the spectral norm where that is more.
    """
    N, tol = rows.shape[0], options["tol"]
    fraction = n is not None and not isinstance(n, Integral)
    s = min(int(n), N) if isinstance(n, Integral) else N
    energy = K.energy()
    rounding = max(2 * eps(rows) * max(energy - total, 0.0) / np.sqrt(N), noise)
    direct = options["formulation"] is None and options["solver"] in ("auto", "lapack", "krylov")

    def check(theta: Array, V: Array, view: Operator, scale: float, noise: float) -> float:
        """Return the largest magnitude of a negative eigenvalue; raise an error if it is too large."""
        ends = ends_of_spectrum(view.T, V, options["seed"], scale)
        check_definite(kernel, centered, theta, ends, noise, by_size=not direct)
        return max(-ends.least, 0.0)

    # Centring is exact to this; rows that differ by less are one row.
    exact = 100 * eps(rows) * energy
    if total <= exact:
        zeros = np.zeros(1 if fraction else s, dtype=rows.dtype)
        H = np.eye(N, len(zeros), dtype=rows.dtype)
        if not definite:
            check(zeros, H[:, :0], rows, 1.0, exact)
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
        both = np.stack([ritz.theta, ritz.residuals]).astype(float) / scale**2
        ritz = Ritz(ritz.V, *both.astype(rows.dtype))
        if fraction:
            count = min(count, int((np.cumsum(ritz.theta, dtype=float) <= n * total).sum()) + 1)
        return replace(result, ritz=ritz.leading(count))

    # First-order solvers find eigenvalues by their size, so that negative ones are looked for before.
    look_first = not (direct or definite)
    result = solve_with(**{**options, **LOOK} if look_first else options)
    negative = 0.0
    if not definite:
        negative = check(result.ritz.theta, result.ritz.V, view, scale, 10 * rounding)
    if look_first:
        result = solve_with(**options)
    # The trace of K is less than its positive eigenvalues by the negative ones, known to a factor of 2.
    energy = result.certificate.energy + 2 * N * negative * scale**2
    result = replace(result, certificate=replace(result.certificate, energy=energy))
    return _with_rounding(result, rounding, noise, kernel, definite, tol, options["max_iter"])


def _with_rounding(
    result: SubspaceResult,
    rounding: float,
    noise: float,
    kernel: Any,
    definite: bool,
    tol: float,
    max_iter: int,
) -> SubspaceResult:
    """Return the result with the rounding of K in its residuals, and warn if these are above ``tol``.

    Entries of K of size k are off by about eps k, so that a product with a vector is by eps k sqrt(N).
    That matters where centring takes most of K away; a residual, of the same rounded K, is blind to it.
    """
    ritz, size = result.ritz, norm(result.ritz.theta)
    name, rounded = result.note.split()[0].rstrip(":"), DIRECT_ROUNDING * eps(ritz.theta)
    direct = name in ("lapack", "gram")
    least = max(tol, rounded if direct else 0.0)
    lost = rounding * np.sqrt(len(ritz.theta)) / size if size > 0 else 0.0
    negative = norm(ritz.residuals[ritz.theta == 0])
    if noise or lost > rounded:
        ritz = ritz.with_residuals(np.hypot(ritz.residuals, rounding))
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
        spent = None if direct else max_iter
        warn_above(ritz.residual, least, name, spent, rounding=eps(ritz.theta))
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
    return theta > (2e-7 if is_single(theta) else 1e-12) * theta[0]


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


def definite_by_name(kernel: Any, degree: float, coef0: float, centered: bool) -> bool:
    """Return whether a kernel has no negative eigenvalue, whatever the rows."""
    if not isinstance(kernel, str):
        return False
    if kernel in ("poly", "polynomial"):
        return coef0 >= 0 and float(degree).is_integer()
    if kernel == "additive_chi2":  # minus a squared distance, which centring makes an inner product
        return centered
    return kernel in ("linear", "rbf", "laplacian", "cosine", "chi2")


class Ends(NamedTuple):
    """The least eigenvalue of K on the components, the least of all, and the largest."""

    of_components: float
    least: float
    largest: float


def ends_of_spectrum(K: Operator, V: np.ndarray, seed: int, scale: float = 1.0) -> Ends:
    """Return Ritz values of ``K / scale^2`` on the leading eigenvectors V and on a Krylov space.

    ``K.sweep`` is the product with the kernel matrix. The Krylov space is orthogonal to V, where no
    eigenvalue exceeds the last one of V: a negative one of that size is then at an end of the spectrum,
    which block Lanczos from random vectors finds first.
    """
    N, s = V.shape
    values = _eigenvalues(V.T @ K.sweep(V)) if s else np.zeros(1)
    least, largest, basis, images = values[0], values[-1], V, []
    block = np.random.default_rng(seed).standard_normal((N, BLOCK)).astype(V.dtype)
    for _ in range(LANCZOS_STEPS):
        block = block[:, : N - basis.shape[1]]
        if not block.shape[1]:
            break
        for _ in range(2):  # the second step removes the rounding of the first
            block = np.linalg.qr(block - basis @ (basis.T @ block))[0]
        basis = np.concatenate([basis, block], axis=1)
        block = np.asarray(K.sweep(block))
        images.append(block)
    if images:
        others = _eigenvalues(basis[:, s:].T @ np.concatenate(images, axis=1))
        least, largest = min(least, others[0]), max(largest, others[-1])
    return Ends(*(float(value) / scale**2 for value in (values[0], least, largest)))


def _eigenvalues(S: np.ndarray) -> np.ndarray:
    S = S.astype(np.float64)
    return np.linalg.eigvalsh((S + S.T) / 2)


def check_definite(
    kernel: Any, centered: bool, theta: Array, ends: Ends, noise: float = 0.0, *, by_size: bool
) -> None:
    """Refuse negative eigenvalues of K beside the eigenvalues ``theta`` of the components, or warn.

    They count as rounding up to ``noise``, and to scikit-learn's share of the largest. A kernel with a
    name is refused if a component would be negative, as scikit-learn does; a matrix or a function of the
    user, and a solver that finds eigenvalues ``by_size``, also if a negative one is as large as a
    component. Otherwise a warning says that theta belongs to the nearest positive semidefinite matrix.
    """
    limit = max((5e-3 if is_single(theta) else 1e-5) * ends.largest, noise)
    if -ends.least <= limit:
        return
    by_name = isinstance(kernel, str) and kernel != "precomputed"
    least = limit if by_name and not by_size else -ends.least
    sound = int((theta > least).sum())
    problem = (
        f"kernel={kernel!r} is not positive semidefinite on this data: its "
        f"{'centred ' if centered else ''}matrix has the eigenvalue {ends.least:.3g}"
    )
    if -ends.of_components > limit or (least > limit and sound < len(theta)):
        last = float(theta[-1]) if theta[-1] > 0 else ends.of_components
        fewer = f"ask for n_components={sound}" if sound else "use other parameters"
        raise ValueError(
            f"{problem}, and the last of {len(theta)} components would have {last:.3g}; {fewer}, or "
            "take a kernel that is positive semidefinite, such as 'rbf'"
        )
    warnings.warn(
        f"{problem}, {-ends.least / ends.largest:.1e} of the largest; negative eigenvalues count as 0, "
        "which is the nearest positive semidefinite matrix. Use other parameters or another kernel "
        "where that is too far",
        PositiveSpectrumWarning,
        stacklevel=user_stacklevel(),
    )
