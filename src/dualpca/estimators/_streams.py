"""Streams: PCA that continues with batches of rows, and what has drifted since a checkpoint."""

from __future__ import annotations

from abc import ABC, abstractmethod
from numbers import Integral
from typing import Any, Self

import scipy.sparse as sp
from sklearn.exceptions import NotFittedError
from sklearn.utils.validation import check_is_fitted

from ..linalg import Array, namespace
from ..linear.drift import Checkpoint, Drift, drift_since
from ..linear.forgetting import Gathered, Weights, batch_weights, check_forget, fading
from ..linear.incremental import Sums, leading_components, sums_of, with_batch
from ..linear.selection import BY_DATA
from ..operators import Operator, as_operator
from ..operators.block_ops import dense
from . import _base as base
from ._fit_context import restored_on_error
from ._missing import decompose_incomplete, summary_of


class DriftMixin(ABC):
    """Estimators whose subspace is compared with that at a checkpoint."""

    @abstractmethod
    def _sums_held(self) -> Sums:
        """Return the sums whose leading axes the components are."""

    @property
    def memory_(self) -> float:
        """How many rows the model remembers: the sum of the weights that ``forget`` leaves to them."""
        self._check_begun("memory_")
        return float(self._sums_held().rows)

    def _check_begun(self, name: str) -> None:
        if "components_" not in vars(self):
            raise AttributeError(f"{name} is known after fit, or partial_fit, has found components")

    def checkpoint(self) -> Self:
        """Let :attr:`drift_` count from the present components on.

        The first is that of the first batch, or of :meth:`fit`.

        Returns
        -------
        self
        """
        model: Any = self
        check_is_fitted(self, "components_")
        model._checkpoint = Checkpoint.of(model._principal[0], self._sums_held())
        return self

    @property
    def drift_(self) -> Drift:
        """How far the components have turned since the last :meth:`checkpoint`."""
        checkpoint = vars(self).get("_checkpoint")
        if checkpoint is None:
            raise AttributeError("drift_ is known after partial_fit has found components")
        model: Any = self
        return drift_since(
            checkpoint, model._principal[0], self._sums_held(), **self._drift_details()
        )

    def _forget_batches(self) -> None:
        """Drop what a stream has left, before a fit."""
        for name in ("_state", "_stream", "_checkpoint", "_gathered", "_changed"):
            vars(self).pop(name, None)

    def _drift_details(self) -> dict[str, Any]:
        return {}

    def _check_kind(self, X: Any, method: str) -> None:
        if "components_" not in vars(self) and hasattr(self, "n_features_in_"):
            raise NotFittedError(
                f"{type(self).__name__}.partial_fit has seen too few rows for components; give it more "
                f"rows before {method}"
            )
        super()._check_kind(X, method)  # type: ignore[misc]


class BatchesMixin(DriftMixin):
    """``PCA.partial_fit``: weighted sums of all rows seen, that forget, and their components."""

    forget: float | None
    missing: str
    n_components: Any
    center: bool
    components_: Array
    _gathered: Gathered

    def _sums_held(self) -> Sums:
        model: Any = self
        return model._state or sums_of(self)

    def partial_fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Continue to fit with a batch of rows, of any number down to one.

        Up to 8192 features the result is that of :meth:`fit` on all rows, each with the weight that
        ``forget`` leaves it, whatever the batches are; time and memory of a batch do not depend on the
        rows before it. With more features, ``4 n_components + 64`` rows stand for all rows seen; after
        :meth:`fit`, its components do. Where variance is lost in that way, ``residual_`` and
        ``variance_shortfall_`` are upper bounds for all rows seen, and may be above ``tol`` without a
        warning.

        There are components from the row on that makes them ``n_components``, 2 at least, with a weight
        above 1 in all. ``n_samples_`` counts all rows seen.

        With ``missing=``, a missing cell becomes its conditional mean in the model of the rows before the
        batch, and stays so. The first rows, four for each component and one more, are gathered and
        completed as :meth:`fit` does.

        Parameters
        ----------
        X : array, sparse matrix or data frame of shape (n_samples, n_features)
            Sparse up to 8192 features only.
        y : ignored
        sample_weight : array of shape (n_samples,), optional
            How often each row counts. A half-life goes by rows, whatever their weights.

        Returns
        -------
        self

        Examples
        --------
        >>> import numpy as np
        >>> from sklearn.datasets import load_digits
        >>> from dualpca import PCA
        >>> X = load_digits().data
        >>> pca = PCA(3)
        >>> for batch in np.array_split(X, 10):
        ...     pca = pca.partial_fit(batch)
        >>> bool(np.allclose(pca.components_, PCA(3).fit(X).components_))
        True
        >>> pca = PCA(3, forget=500)
        >>> for row in X:
        ...     pca = pca.partial_fit(row[None, :])
        >>> weights = 0.5 ** (np.arange(len(X))[::-1] / 500)
        >>> bool(np.allclose(pca.mean_, np.average(X, axis=0, weights=weights)))
        True
        """
        model: Any = self
        model._validate_params()
        check_forget(self.forget)
        if self.n_components in BY_DATA:
            raise ValueError(
                f"n_components={self.n_components!r} needs all rows at once; call fit, or give a number"
            )
        with restored_on_error(self):
            self._add_rows(X, sample_weight)
        return self

    def _add_rows(self, X: Any, sample_weight: Any) -> None:
        model: Any = self
        held = self._held()
        X = base.validated(self, X, reset=held is None, finite=not model._completes)
        if held is not None:
            base.check_same_kind(X, held, f"{type(self).__name__}.partial_fit")
        n = self.n_components
        if isinstance(n, Integral):
            base.check_components(int(n), int(n), X.shape[1])
        fitted, rows = hasattr(self, "components_"), as_operator(X)
        if fitted and "_checkpoint" not in vars(self):
            self.checkpoint()
        counts, holes = base.checked_weights(sample_weight, rows, enough=False), 0.0
        weights = batch_weights(rows, counts, self.forget)
        if model._completes and not fitted:
            first = self._gathered_with(X, counts)
            if not first.enough(n):
                self._gathered = first
                return
            X, weights = first.rows, first.weights()
            rows = as_operator(X)
            summary = summary_of(X, getattr(self, "feature_names_in_", None))
            if summary.incomplete:
                model._set(decompose_incomplete(self, X, weights.by_row, summary))
        if model._completes and hasattr(self, "components_"):
            holes = missing_cells(rows, weights)
            rows = as_operator(model._completed(X))
        sums = self._sums_held() if fitted else vars(self).get("_state") or Sums(lost=0.0)
        least, d = self._rows_needed(rows.shape[1]), rows.shape[1]
        s = model._to_compute(max(sums.n_seen + rows.shape[0], least), d)
        given: dict[str, Any] = {"center": self.center}
        sums = with_batch(sums, rows, s, n_components=n, weights=weights, holes=holes, **given)
        if sums.n_seen >= least and sums.rows > 1:
            given |= {"tol": model.tol, "seed": base.seed(model.random_state)}
            model._set(leading_components(sums, rows, s, **given))
            vars(self).pop("_gathered", None)
            if "_checkpoint" not in vars(self):
                self.checkpoint()
        elif fitted:
            raise ValueError(
                f"the rows that forget={self.forget!r} and sample_weight leave weigh {sums.rows:.3g} in "
                "all, and a variance needs more than one: take a larger forget, or larger weights"
            )
        else:
            model._state = sums

    def _held(self) -> Any:
        """Return an array of the kind of the rows seen; None before any."""
        known, state = vars(self), vars(self).get("_state")
        if "components_" in known:
            return self.components_
        if "_gathered" in known:
            return self._gathered.rows
        return None if state is None else state.S if state.R is None else state.R

    def _rows_needed(self, d: int) -> int:
        if self.n_components == "mle":
            return max(2, d)
        return max(2, int(self.n_components)) if isinstance(self.n_components, Integral) else 2

    def _gathered_with(self, X: Any, counts: Any) -> Gathered:
        if isinstance(X, Operator) or sp.issparse(X):
            raise ValueError(
                f"missing={self.missing!r} gathers the first rows of a stream, and X is not a dense "
                "array in memory; begin with fit, or give arrays"
            )
        past, fade = fading(self.forget, X.shape[0])
        later = Gathered.of(X, counts, fade)
        before = vars(self).get("_gathered")
        return later if before is None else before.then(later, past)


def missing_cells(X: Operator, weights: Weights | None) -> float:
    """Return the sum of the weights of the cells that are missing."""

    def part(rows: slice, block: Any) -> tuple[float]:
        xp = namespace(dense(block))
        holes = xp.sum(xp.astype(xp.isnan(dense(block)), xp.float64), axis=1)
        w = 1.0 if weights is None else xp.astype(weights.by_row[rows], xp.float64)
        return (float(xp.sum(holes * w)),)

    return float(X.sum_blocks(part)[0])
