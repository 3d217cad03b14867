"""The way back from feature space: rows whose features are near a point there."""

from __future__ import annotations

from collections.abc import Callable
from types import MethodType
from typing import Any

import numpy as np
import scipy.linalg
import scipy.sparse as sp
from array_api_compat import is_dask_array
from sklearn.exceptions import NotFittedError
from sklearn.metrics import pairwise_distances_argmin
from sklearn.utils.validation import check_is_fitted

from ..estimators._base import check_scores
from ..linalg import Array
from ..operators.block_ops import as_float
from ..operators.row_blocks import RowBlocked
from .pairwise import shifted_rows

#: Kernel ridge regression learns from at most so many rows.
RIDGE_ROWS = 5000

#: The most steps of the fixed-point iteration, and the relative move at which it stops.
STEPS, MOVE = 200, 1e-7


def fit_ridge(
    kernel: Callable[[Any, Any], np.ndarray], scores: np.ndarray, X: Any, alpha: float
) -> Any:
    """Coefficients of kernel ridge regression of the rows on their scores (Bakir et al. 2004)."""
    K = np.array(kernel(scores, scores))
    K.flat[:: K.shape[0] + 1] += alpha
    return scipy.linalg.solve(K, X, assume_a="pos", overwrite_a=True)


def fixed_point(
    kernel: Callable[[Any, Any], np.ndarray], G: np.ndarray, rows: np.ndarray, start: np.ndarray
) -> np.ndarray:
    """``x = sum_i g_i k(x, x_i) x_i / sum_i g_i k(x, x_i)`` for each column g of G (Mika et al. 1999).

    A stationary point of the distance in feature space from ``sum_i g_i phi(x_i)``, for the RBF kernel.
    A row whose denominator is not positive stays where it is.
    """
    X = np.array(as_float(start))
    moving = np.arange(len(X))
    for _ in range(STEPS):
        weights = kernel(X[moving], rows) * G.T[moving]
        total = weights.sum(axis=1)
        sound = total > 1e-12 * np.abs(weights).sum(axis=1)
        moving, weights, total = moving[sound], weights[sound], total[sound]
        new = (weights @ rows) / total[:, None]
        step = np.linalg.norm(new - X[moving], axis=1)
        X[moving] = new
        moving = moving[step > MOVE * (1 + np.linalg.norm(new, axis=1))]
        if len(moving) == 0:
            break
    return X


class _WithWayBack:
    """A method of models with ``fit_inverse_transform``; asked of others, it tells the remedy.

    NotFittedError, which scikit-learn raises there too, is an AttributeError: ``hasattr`` says no.
    """

    def __init__(self, method: Callable[..., Any]) -> None:
        self.method = method
        self.__doc__ = method.__doc__

    def __get__(self, model: Any, owner: Any = None) -> Any:
        if model is None:
            return self.method
        if not model.fit_inverse_transform:
            raise NotFittedError(
                f"{owner.__name__} was given fit_inverse_transform=False, and has no way back from "
                "scores to rows; set fit_inverse_transform=True and fit dense rows again"
            )
        return MethodType(self.method, model)


class PreimageMixin:
    """inverse_transform of kernel PCA: by ridge regression, or the fixed-point iteration."""

    kernel: Any
    approximation: str | None
    n_features_in_: int
    center: bool
    fit_inverse_transform: bool
    inverse: str
    alpha: float
    eigenvalues_: np.ndarray
    eigenvectors_: np.ndarray
    X_fit_: Any
    features_: Any
    pca_: Any
    _scores: Callable[[Any], np.ndarray]
    _kernel_function: Callable[[], Callable[[Any, Any], np.ndarray]]
    _coefficients: np.ndarray
    _share: np.ndarray

    def _check_inverse(self, X: Any) -> None:
        if not self.fit_inverse_transform:
            return
        if self.kernel == "precomputed" or sp.issparse(X) or getattr(X, "sparse", False):
            raise ValueError(
                "fit_inverse_transform=True needs dense rows to return to, not "
                f"{'a precomputed kernel' if self.kernel == 'precomputed' else 'sparse data'}"
            )
        exact = self.approximation in (None, "nystroem")
        if self.inverse == "fixed_point" and not (self.kernel == "rbf" and exact):
            raise ValueError(
                "inverse='fixed_point' is for kernel='rbf', exact or by 'nystroem'; use inverse='ridge' "
                f"with kernel={self.kernel!r} and approximation={self.approximation!r}"
            )

    def _fit_inverse(self, X: Any, rng: np.random.Generator) -> None:
        few, N = X, X.shape[0]
        if isinstance(X, RowBlocked) or N > RIDGE_ROWS:
            some = np.sort(rng.choice(N, min(N, RIDGE_ROWS), replace=False))
            few = X.take(some) if isinstance(X, RowBlocked) else X[some]
        self.X_transformed_fit_ = self._scores(few)
        if self.inverse == "ridge":
            self.dual_coef_ = fit_ridge(
                self._kernel_function(), self.X_transformed_fit_, few, self.alpha
            )
        else:
            self._near = few

    @_WithWayBack
    def inverse_transform(self, X: Any) -> Array:
        """Rows whose scores are near X, by the way back that ``inverse`` names.

        Parameters
        ----------
        X : array of shape (n_samples, n_components)

        Returns
        -------
        rows : array of shape (n_samples, n_features)
        """
        check_is_fitted(self, "X_transformed_fit_")
        scores = check_scores(X, self.eigenvalues_.shape[0])
        if is_dask_array(scores):
            rows: Any = scores.rechunk({1: -1})
            d, dtype = self.n_features_in_, self.X_transformed_fit_.dtype
            meta = np.empty((0, d), dtype=dtype)
            return rows.map_blocks(self.inverse_transform, chunks=(rows.chunks[0], d), meta=meta)
        if self.inverse == "ridge":
            return self._kernel_function()(scores, self.X_transformed_fit_) @ self.dual_coef_
        # Rows with the nearest scores are where the iteration starts.
        start = self._near[pairwise_distances_argmin(scores, self.X_transformed_fit_)]
        if self.approximation == "nystroem":
            G = self.features_.root @ self.pca_.inverse_transform(scores).T
            return self._fixed_point(G, self.features_.landmarks, start)
        G = self._coefficients @ scores.T
        if self.center:
            G = G + self._share[:, None] * (1 - self._coefficients.sum(axis=0) @ scores.T)
        return self._fixed_point(G, self.X_fit_, start)

    def _fixed_point(self, G: np.ndarray, rows: np.ndarray, start: np.ndarray) -> np.ndarray:
        """About the origin: beside a large mean no move of a row would count."""
        origin = getattr(self, "_origin", None)
        near = (shifted_rows(A, origin) for A in (rows, start))
        X = fixed_point(self._kernel_function(), G, *near)
        return X if origin is None else X + origin
