"""Control charts: when new rows leave a model, by Hotelling's T2 and the squared prediction error.

T2 is the squared score distance of a row, within the subspace, and SPE (or Q) its squared distance from
the subspace. Their limits come from the fit, so that what is said of a row does not depend on the rows
beside it.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ._rows import dense_cells, take_rows
from .frames import VARIABLES, frame, in_words, index_of
from .inspect import FittedModel
from .linalg import eps, to_numpy
from .linear.limits import box, jackson_mudholkar, t2_limit

__all__ = ["calibrate", "contributions", "limits", "out_of_control", "statistics"]

#: The quantile of the limits of PCA; those of robust models are at the ``quantile`` of their fit.
QUANTILE = 0.99

#: The limits of SPE by name.
SPE = {"jackson": jackson_mudholkar, "box": box}

#: The two statistics, and by what variables are blamed for them.
PARTS = {"T2": "spread", "SPE": "orthogonal"}


def calibrate(model: Any, X: Any = None, sample_weight: Any = None) -> Any:
    """Learn the limit of SPE from the training rows of a fitted PCA, in one or two passes.

    The variances of the directions left out decide on it, and a fit does not compute them. It sets
    ``residual_powers_``, the sums of these variances, of their squares and of their cubes: exactly up to
    1000 columns, else by 64 random vectors.

    Parameters
    ----------
    model : fitted PCA, or Pipeline that ends in one
        Robust models have limits from their fit.
    X, sample_weight
        The rows of the fit, and their weights; None are all rows of ``partial_fit``, of which the model
        holds what is needed.

    Returns
    -------
    model

    Examples
    --------
    >>> from sklearn.datasets import load_wine
    >>> from sklearn.pipeline import make_pipeline
    >>> from dualpca import PCA, Preprocessor
    >>> from dualpca.control import calibrate, out_of_control
    >>> X = load_wine(as_frame=True).data
    >>> pipeline = make_pipeline(Preprocessor("standard"), PCA(5)).fit(X[:100])
    >>> model = calibrate(pipeline, X[:100])
    >>> new = X[100:110].copy()
    >>> new.loc[104, "ash"] = 22.5  # a slip of the decimal point
    >>> list(out_of_control(model, new)["words"])
    ['ash 22.5 instead of 2.289 (100%)']
    """
    fitted = FittedModel(model)
    if not hasattr(fitted.estimator, "_calibrate"):
        raise ValueError(
            f"model is a {fitted.name}, which is not calibrated; PCA is, and RobustPCA and "
            "RobustKernelPCA have limits from their fit"
        )
    rows = None if X is None else fitted.prepared(X)
    fitted.estimator._calibrate(rows, sample_weight)
    return model


def statistics(model: Any, X: Any = None) -> tuple[np.ndarray, np.ndarray]:
    """Return T2 and SPE of rows.

    Parameters
    ----------
    model : fitted PCA, RobustPCA or RobustKernelPCA, or Pipeline that ends in one
    X : array, sparse matrix, data frame, file or dask array of shape (n_samples, n_features)
        None are the training rows of a robust model.

    Returns
    -------
    t2, spe : arrays of shape (n_samples,)
    """
    fitted = _opened(model)
    if fitted.is_robust:
        pair: Any = fitted.distances(X)[:2]
    else:
        estimator = fitted.estimator
        pair = estimator._distances(estimator._checked(fitted.prepared(X), "statistics"))
    with np.errstate(over="ignore"):
        t2, spe = (to_numpy(a).astype(float) ** 2 for a in pair)
    return t2, spe


def limits(
    model: Any, *, quantile: float | None = None, spe: str = "jackson"
) -> tuple[float, float]:
    """Return the limits of T2 and SPE, beyond which a row is out of control.

    Parameters
    ----------
    model : fitted PCA, RobustPCA or RobustKernelPCA, or Pipeline that ends in one
        A PCA that :func:`calibrate` has seen.
    quantile : float, optional
        The share of good rows within each limit, 0.99 by default; of robust models that of their fit.
    spe : {"jackson", "box"}
        The approximation of the quantile of SPE: Jackson and Mudholkar's, or Box's.

    Returns
    -------
    t2_limit, spe_limit : float
    """
    fitted = _opened(model)
    if fitted.is_robust:
        if quantile is not None:
            raise ValueError(
                f"quantile={quantile} is for PCA; the limits of {fitted.name} come from its fit: fit "
                f"{fitted.name}(quantile={quantile})"
            )
        score, orthogonal = fitted.kind_limits
        return float(score) ** 2, float(orthogonal) ** 2
    q = QUANTILE if quantile is None else quantile
    if not 0 < q < 1:
        raise ValueError(f"quantile={q} must be between 0 and 1, such as 0.99")
    if spe not in SPE:
        raise ValueError(f"spe={spe!r} is unknown; give {' or '.join(map(repr, SPE))}")
    estimator = fitted.estimator
    powers = getattr(estimator, "residual_powers_", None)
    if powers is None:
        raise ValueError(
            "the model has no limit of SPE yet; call dualpca.control.calibrate(model, X) with its "
            "training rows"
        )
    # Rows within a subspace that holds all variance leave it by rounding.
    size = float(np.sum(to_numpy(estimator.explained_variance_)))
    size += float(np.sum(to_numpy(estimator.mean_).astype(float) ** 2))
    rounding = (100 * eps(estimator.components_)) ** 2 * size
    at = max(SPE[spe](q, powers), rounding)
    return t2_limit(q, fitted.n_components, estimator._mass), at


def contributions(model: Any, X: Any, to: str = "SPE") -> np.ndarray:
    """Return what each variable adds to T2 or SPE of rows.

    T2 is ``||S r||^2`` of the centred row r with a symmetric S, and split by the entries of ``S r``, the
    complete decomposition of Alcala and Qin (2009). Of SPE, the variable whose replacement by what the
    others make likely would take most off comes first, then the next one without it, as in
    :meth:`dualpca.RobustPCA.contributions`: their reconstruction-based contributions, one by one.

    Parameters
    ----------
    model : fitted PCA or RobustPCA, or Pipeline that ends in one
    X : array, sparse matrix or data frame of shape (n_samples, n_features)
    to : {"T2", "SPE"}

    Returns
    -------
    contributions : array of shape (n_samples, n_features)
        Nonnegative; a row sums to its statistic.
    """
    fitted = _opened(model)
    if to not in PARTS or not hasattr(fitted.estimator, "_blamed"):
        raise ValueError(
            f"contributions to={to!r} of a {fitted.name} are unknown; give 'T2' or 'SPE', and PCA or "
            "RobustPCA"
        )
    parts = fitted.estimator._blamed(fitted.prepared(X), "contributions", PARTS[to])[0]
    return dense_cells(parts)


def out_of_control(
    model: Any, X: Any, *, quantile: float | None = None, spe: str = "jackson"
) -> Any:
    """Return the rows that are beyond a limit, in their order, and why.

    Parameters
    ----------
    model, X
        As in :func:`statistics`.
    quantile, spe
        As in :func:`limits`.

    Returns
    -------
    table : data frame, or a dictionary of columns where pandas is not installed
        A line for each such row, named as in the index of X, or counted from 0: its ``T2`` and ``SPE``;
        ``beyond``, the statistics that are beyond their limits; and up to three variables in ``words``,
        with the value expected: by the :func:`contributions` to SPE; to T2, where the centre is
        expected; or to both together, each in its units of variance.
    """
    fitted = _opened(model)
    bounds = limits(fitted, quantile=quantile, spe=spe)
    values = np.stack(statistics(fitted, X), axis=1)
    rows = np.flatnonzero((values > bounds).any(axis=1))
    columns: dict[str, Any] = dict(zip(PARTS, values[rows].T, strict=True))
    columns["beyond"] = beyond(values[rows], bounds)
    if hasattr(fitted.estimator, "_blamed"):
        some = len(rows) > 0
        found = reasons(fitted, take_rows(X, rows), values[rows], bounds) if some else []
        columns["words"] = [in_words(row, fitted.feature_names) for row in found]
    return frame(columns, index_of(X, rows))


def beyond(values: np.ndarray, bounds: tuple[float, float]) -> list[str]:
    """Return which statistics of rows, of shape (n, 2), are beyond their limits: "T2 and SPE"."""
    return [" and ".join(np.array(list(PARTS))[row]) for row in values > bounds]


def reasons(
    fitted: FittedModel, X: Any, values: np.ndarray, bounds: tuple[float, float]
) -> list[list[Any]]:
    """Return the variables behind rows X with these statistics, by what is beyond its limit."""
    noisy = fitted.estimator.noise_variance_ > 0
    kinds = np.array([*PARTS.values(), "density" if noisy else "orthogonal"])
    outside = values > bounds
    by = kinds[np.where(outside.all(axis=1), 2, outside[:, 1].astype(int))]
    found: list[list[Any]] = [[] for _ in values]
    for kind in np.unique(by):
        rows = np.flatnonzero(by == kind)
        told = fitted.reasons(take_rows(X, rows), VARIABLES, str(kind))
        for i, row in zip(rows, told, strict=True):
            found[i] = row
    return found


def _opened(model: Any) -> FittedModel:
    fitted = model if isinstance(model, FittedModel) else FittedModel(model)
    if not hasattr(fitted.estimator, "_distances"):
        raise ValueError(
            f"model is a {fitted.name}, which has no T2 and SPE; use PCA or a robust model"
        )
    return fitted
