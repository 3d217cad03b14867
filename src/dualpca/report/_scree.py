"""The scree of a report: shares of the variance, also of components that were not fitted."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

from ..inspect import FittedModel
from ..linalg import to_numpy
from ..operators import Operator, is_streamed
from . import _figures as figures
from . import _html as html
from ._drawn_rows import Data, Rows
from ._section import Section

#: The most components in the table, and of those that were not fitted.
LISTED, MORE = 60, 8

#: Further components are computed of at most this many entries of data: of X, or of a kernel matrix.
CHEAP = 2**22

#: How far the first shares may be from those of the model: in single precision, or at its ``tol``.
SAME = 0.02


def scree(fitted: FittedModel, data: Data | None, rows: Rows | None) -> Section:
    """Return the shares of the variance, those of plain PCA beside those of a robust model."""
    series = [(fitted.name, fitted.shares, fitted.cumulative_shares)]
    plain = _plain_shares(fitted, data.X) if data is not None and fitted.is_robust else None
    varies = plain is None or plain.any()
    k = fitted.n_components
    which = "The component holds" if k == 1 else f"The {k} components hold"
    words = f"{which} {html.percent(series[0][2][-1])} of the variance"
    words += f", the first alone {html.percent(fitted.shares[0])}." if k > 1 else "."
    if fitted.has_no_variance:
        which = "Most rows are equal" if fitted.is_robust and varies else "The rows do not vary"
        words = f"{which}: there is no variance to share."
    elif not varies:
        words += " The rows of this report do not vary."
    if plain is not None and varies:
        name = "plain " + fitted.name.removeprefix("Robust")
        series.append((name, plain, np.cumsum(plain)))
        together = f" and {html.percent(plain.sum())} into the first {len(plain)}"
        words += (
            f" Of the same rows, outliers included, {name} puts {html.percent(plain[0])} into its first "
            f"component{together if len(plain) > 1 else ''}."
        )
    more = further_shares(fitted, data, rows)
    columns = [column for _, *pair in series for column in pair]
    head = [
        f"{html.escape(name)}: {kind}" for name, *_ in series for kind in ("share", "cumulative")
    ]
    listed = [
        [str(i + 1), *(html.percent(c[i]) if i < len(c) else "" for c in columns)]
        for i in range(min(k, LISTED))
    ]
    hint = "Bars are the shares of single components, lines those of the first ones together."
    hint = hint if k > 1 or more is not None else ""
    if more is not None:
        empty = [""] * (len(columns) - 1)
        for i, share in enumerate(more, k + 1):
            listed.append([f"{i}, not fitted", html.percent(share), *empty])
        source = "they are those of the same estimator with more components"
        if fitted.is_robust:
            source = (
                "they divide the rest of the variance as the most central half of the rows does"
            )
        hint += f" Pale bars are components that were not fitted: {source}."
    limits = _limits(fitted, k if more is None else k + len(more))
    if limits is not None:
        hint += f" The dotted line is the threshold of {fitted.estimator.selection_.method}."
    behind = html.table("Shares of the variance", ["Component", *head], listed)
    body = html.figure("scree-plot", words, hint=hint, data=behind)
    return Section(body, {"scree-plot": [figures.scree(series, more, limits)]})


def _limits(fitted: FittedModel, n: int) -> np.ndarray | None:
    """Return the shares that the first n components had to exceed; None where nothing chose by such.

    Those of a robust model are of other variances than its own.
    """
    selection = getattr(fitted.estimator, "selection_", None)
    if selection is None or selection.threshold is None or fitted.is_robust:
        return None
    if fitted.has_no_variance:
        return None
    return selection.threshold[:n] * (fitted.shares[0] / selection.statistic[0])


def _plain_shares(fitted: FittedModel, X: Any) -> np.ndarray | None:
    """Return the shares of plain PCA of the same rows: zeros for equal rows, None if it fails."""
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")  # plain PCA may overflow on rows that a robust fit survives
        try:
            shares = fitted.plain_shares(X)
        except ValueError:
            return None
    return shares if np.isfinite(shares).all() else None


def further_shares(fitted: FittedModel, data: Data | None, rows: Rows | None) -> np.ndarray | None:
    """Return the shares of the components after those of the model; None unless they are cheap.

    They are known only where the rows of the report are those of the fit.
    """
    model, k = fitted.estimator, fitted.n_components
    if data is None or rows is None or fitted.has_no_variance:
        return None
    if is_streamed(data.X) or isinstance(data.X, Operator):
        return None
    n, d = data.shape
    if n != fitted.n_samples or n * d > CHEAP or fitted.is_precomputed:
        return None
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")  # what there is to say of the data was said at the fit
        try:
            if fitted.name == "RobustPCA":
                more = _further_robust_shares(fitted, data.X, rows)
            elif fitted.name == "PCA":
                more = _further_shares(fitted, data.X, min(k + MORE, n - 1, d))
            elif fitted.name == "KernelPCA" and model.approximation is None and n * n <= CHEAP:
                more = _further_shares(fitted, data.X, min(k + MORE, n - 1))
            else:
                return None
        except ValueError:
            return None
    return more if more is not None and len(more) and np.isfinite(more).all() else None


def _further_robust_shares(fitted: FittedModel, X: Any, rows: Rows) -> np.ndarray | None:
    """Return the rest of the variance, divided as in the robust scree of the rows."""
    model, k = fitted.estimator, fitted.n_components
    known = to_numpy(model.orthogonal_distances_)[rows.index]
    assert rows.distances is not None
    if not np.allclose(rows.distances[:, 1], known, rtol=1e-3, atol=1e-6 * known.max()):
        return None
    Z = fitted.prepared(X)
    variances = _again(model).scree(model.impute(Z) if model._completes else Z)
    rest, others = 1.0 - float(fitted.shares.sum()), float(variances[k:].sum())
    return rest * variances[k : k + MORE] / others if rest > 0 and others > 0 else None


def _further_shares(fitted: FittedModel, X: Any, most: int) -> np.ndarray | None:
    """Return the shares after the first ones of the same estimator with more components."""
    k = fitted.n_components
    if most <= k:
        return None
    again = _again(fitted.estimator, n_components=most)
    shares = FittedModel(again.fit(fitted.prepared(X))).shares
    return shares[k:] if np.allclose(shares[:k], fitted.shares, rtol=SAME, atol=1e-6) else None


def _again(model: Any, **changes: Any) -> Any:
    """Return an estimator with the parameters of the model, but for a seed, and a way back to rows."""
    known = model.get_params(deep=False)
    changes |= {"random_state": 0, "fit_inverse_transform": False}
    return type(model)(**known | {name: v for name, v in changes.items() if name in known})
