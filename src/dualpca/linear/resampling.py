"""How many components data has: parallel analysis, and cross-validation of cells."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import islice
from typing import Any

import numpy as np
import scipy.sparse as sp
from array_api_compat import device

from .._memory import ensure
from ..linalg import Array, namespace, power_of_two, to_numpy
from ..operators import Centered, Operator, as_operator
from ..progress import phase, stopped
from ..solvers.spectral import SPECTRAL
from ..solvers.subspace import FIRST, choose
from .missing import Completion, fit_missing
from .selection import Selection, above, most_left_out

#: The relative residual of leading values of permuted tables. Their errors are its square where values
#: differ, and they vary by more than 1e-3 from one permutation to the next in tables of 10^7 cells.
TOL = 1e-3

#: Variances of permuted tables are rounded by less; that of a single column is the same in all of them.
ROUNDING = 1e-5

#: Columns are permuted anew for every so many tables. Those between shift each column by a random number
#: of rows, which leaves the permutations of one table independent and uniform, and is copied as a whole.
FRESH = 10

#: So many columns are centred at once.
COLUMNS = 64

#: The components of left-out cells change by less than this at the end.
EM_TOL = 1e-3

#: "cv" tries up to so many components by default: each takes an EM for each fold.
MOST = 10


def by_data(
    method: str,
    X: Any,
    center: Array | None,
    energy: float,
    values: Callable[[int], Array],
    **options: Any,
) -> Selection:
    """Return the choice of a method of BY_DATA, with the arguments of :func:`parallel`."""
    if method == "cv":
        return cross_validated(to_numpy(X).astype(float), center=center is not None, **options)
    return parallel(X, center, energy, values, **options)


def parallel(
    X: Any,
    center: Array | None,
    energy: float,
    values: Callable[[int], Array],
    *,
    seed: int,
    n_permutations: int = 100,
    quantile: float = 0.95,
) -> Selection:
    """``theta_k > quantile of theta_k(X with every column permuted on its own)``, k = 1, 2, ...

    Parallel analysis (Horn 1965) by permutation (Buja and Eyuboglu 1992). X is an array or a sparse
    matrix, ``center`` is subtracted from its rows, ``energy`` is ``||X - 1 c^T||_F^2`` and ``values(s)``
    returns its s leading eigenvalues theta. Twice as many are asked for until one is not above its
    quantile; the first permutation may tell.
    """
    N, d = X.shape
    limit, passes = min(N - (center is not None), d), 0
    # Dense tables are near 1, where float32 squares are safe.
    unit = 1.0 if sp.issparse(X) else float(power_of_two((energy / (N * d)) ** 0.5))
    s = min(FIRST, limit)
    while True:
        observed, null = to_numpy(values(s)).astype(float), []
        tables = islice(permuted(X, center, unit, np.random.default_rng(seed)), n_permutations)
        with phase("permutations"):
            for theta, read in leading_values(tables, s, energy / unit**2, seed):
                null.append((1 + ROUNDING) * unit**2 * theta)
                passes += read
                if stopped() or (len(null) == 1 and s < limit and (observed > null[0]).all()):
                    break
        threshold = np.quantile(null, quantile, axis=0)
        if stopped() or s == limit or not (observed > threshold).all():
            return above("parallel", observed / (N - 1), threshold / (N - 1), passes)
        s = min(2 * s, limit)


def leading_values(
    tables: Iterator[Operator], s: int, energy: float, seed: int
) -> Iterator[tuple[np.ndarray, int]]:
    """Yield the s leading eigenvalues of ``X^T X`` of each table, all of one energy, and its passes.

    The axes of a table are the start for the next one: where columns have different variances, those
    of large variance carry the leading axes of every permutation.
    """
    start: Array | None = None
    given: dict[str, Any] = {"tol": TOL, "energy": energy}
    for X in tables:
        name, _ = choose(X, s, dense=not X.sparse, **given)
        result = SPECTRAL[name](X, s, seed=seed, start=start, **given)
        start = result.ritz.V
        yield to_numpy(result.ritz.theta).astype(float), X.passes


def permuted(
    X: Any, center: Array | None, unit: float, rng: np.random.Generator
) -> Iterator[Operator]:
    """Yield ``(X - 1 c^T) / unit`` with each column permuted on its own; dense ones in float32.

    Dense tables share their memory: the next one overwrites the last.
    """
    N, d = X.shape
    if sp.issparse(X):
        yield from _permuted_sparse(sp.csc_array(X), center, rng)
        return
    ensure(
        12 * N * d, f"permuted copies of {N:,} x {d:,} numbers", "give a fraction of the variance"
    )
    twice, data = np.empty((d, 2 * N), dtype=np.float32), to_numpy(X)
    c = np.zeros(d) if center is None else to_numpy(center).astype(float)
    for j in range(0, d, COLUMNS):
        some = slice(j, j + COLUMNS)
        twice[some, :N] = ((data[:, some] - c[some]) / unit).T
    # New memory for every table would cost more than its copy, in pages that are touched first.
    table, xp, place = np.empty((d, N), dtype=np.float32), namespace(X), device(X)
    while True:
        rng.permuted(twice[:, :N], axis=1, out=twice[:, :N])
        twice[:, N:] = twice[:, :N]
        for _ in range(FRESH):
            for j, first in enumerate(rng.integers(N, size=d).tolist()):
                table[j] = twice[j, first : first + N]
            yield as_operator(xp.asarray(table, device=place)).T


def _permuted_sparse(X: Any, center: Array | None, rng: np.random.Generator) -> Iterator[Operator]:
    N, _ = X.shape
    stored = np.diff(X.indptr)
    while True:
        rows = np.concatenate([rng.choice(N, k, replace=False) for k in stored])
        for _ in range(FRESH):
            shifted = (rows + np.repeat(rng.integers(N, size=len(stored)), stored)) % N
            Y = as_operator(sp.csc_array((X.data, shifted, X.indptr), shape=X.shape).tocsr())
            yield Y if center is None else Centered(Y, Y.asarray(center)[:, None])


def cross_validated(
    X: np.ndarray,
    *,
    center: bool,
    seed: int,
    n_folds: int = 10,
    max_components: int | None = None,
) -> Selection:
    """``mean_ij (x_ij - x_ij(q))^2``, x_ij(q) filled by q components without the fold of cell ij.

    Element-wise k-fold cross-validation by EM (Bro, Kjeldahl, Smilde and Kiers 2008). Each fold takes
    about the same number of cells from every column.
    """
    N, d = X.shape
    most = most_left_out(N - center, d, MOST if max_components is None else max_components)
    rng = np.random.default_rng(seed)
    folds = rng.permuted((np.arange(N)[:, None] + np.arange(d)) % n_folds, axis=0)
    errors = np.zeros(most + 1)
    with phase("cross-validation"):
        for fold in range(n_folds):
            table = np.where(folds == fold, np.nan, X)
            mean = np.nanmean(table, axis=0) if center else np.zeros(d)
            errors[0] += np.sum((np.where(np.isnan(table), mean, X) - X) ** 2)
            model, operator = Completion.constant(mean), as_operator(table)
            options: dict[str, Any] = {"shrink": False, "center": center, "tol": EM_TOL}
            for q in range(1, most + 1):
                model = fit_missing(operator, q, mean, start=model, **options).model
                errors[q] += np.sum((model(table) - X) ** 2)
    return Selection("cv", int(np.argmin(errors)), np.arange(most + 1), errors / (N * d))
