"""Missing cells and scales of columns, as a scikit-learn estimator."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from array_api_compat import is_array_api_obj
from sklearn.base import BaseEstimator, OneToOneFeatureMixin, TransformerMixin
from sklearn.utils._param_validation import StrOptions
from sklearn.utils._set_output import _wrap_data_with_container
from sklearn.utils.validation import check_array, check_is_fitted

from ..operators import Operator, as_operator, is_streamed
from ..operators.block_ops import as_float
from ..operators.readable import check_readable
from ..preprocessing import columns
from ._base import _check_shape, validated
from ._fit_context import SaveMixin, restored_on_error

#: Medians of data that is not in memory are those of a sample of this many rows, or numbers.
SAMPLE_ROWS, SAMPLE_NUMBERS = 100_000, 2**25


class _Transform:
    """``transform`` as a table if ``set_output`` asks for one, except of an operator.

    scikit-learn wraps the methods that a transformer defines itself, which would read an operator into
    a table; it leaves inherited methods alone.
    """

    def transform(self, X: Any) -> Any:
        """Return the rows, filled and scaled.

        Parameters
        ----------
        X : array, sparse matrix, data frame, file or dask array of shape (n_samples, n_features)

        Returns
        -------
        X : array or sparse matrix of the same shape and kind, or what ``set_output`` asks for
            An operator for data that is not in memory, whatever ``set_output`` says; NaN and
            infinity there are found as blocks are read.
        """
        rows = self._transform(X)  # type: ignore[attr-defined]
        if isinstance(rows, Operator):
            return rows
        return _wrap_data_with_container("transform", rows, X, self)

    def fit_transform(self, X: Any, y: Any = None) -> Any:
        """Return ``fit(X).transform(X)``; y is ignored."""
        return self.fit(X, y).transform(X)  # type: ignore[attr-defined]


@dataclass(eq=False, repr=False)
class Preprocessor(_Transform, SaveMixin, OneToOneFeatureMixin, TransformerMixin, BaseEstimator):
    """Fill missing cells and bring columns to one scale, before PCA.

    Cells that are NaN become the median of their column; then ``(x - center_) / scale_``. Data that is
    not in memory (memory maps, zarr, HDF5, Parquet and Arrow, dask, operators) becomes an operator
    that does so block by block as it is read.

    Parameters
    ----------
    scaling : {"none", "standard", "robust"}
        "standard" takes the mean and the standard deviation (that of n, not n - 1), "robust" the
        median and 1.4826 MAD of the observed cells of each column. Sparse data is scaled but not
        centred. Columns without spread have the scale 1. If more than half of a column is equal, so
        that its MAD is 0, "robust" takes sqrt(p) times the median deviation of the others, whose share
        is p. A robust model still flags these others, since most rows have no spread there; the command
        line leaves such columns out.
    missing : {"refuse", "impute", "keep"}
        Whether NaN is an error, whose message counts and locates them, is filled, or stays for an
        estimator that takes it (``missing="shrink"``, ``cells=True``). Infinite values are always
        refused.

    Attributes
    ----------
    fill_ : array of shape (n_features,) or None
        The medians that missing cells become; None unless ``missing="impute"``.
    center_ : array of shape (n_features,) or None
        The numbers that are subtracted; None for sparse data and for ``scaling="none"``.
    scale_ : array of shape (n_features,) or None
        The numbers that are divided by; None for ``scaling="none"``.
    n_filled_ : int
        The cells of the training data that were missing.
    n_features_in_ : int
    feature_names_in_ : array of shape (n_features,)
        The names of the columns, if they have any.

    Notes
    -----
    Fitted attributes are float64 arrays of numpy whatever the data is; float32 data is scaled in
    float64 and comes back as float32. Medians and MADs of data that is not in memory are those of a
    sample of 100,000 rows, the same at each fit (fewer with more than 335 columns: 256 MB).
    ``transform`` returns the data itself if nothing would change.

    Examples
    --------
    >>> import numpy as np
    >>> from dualpca import Preprocessor
    >>> X = np.array([[1.0, 10.0], [2.0, np.nan], [3.0, 30.0]])
    >>> prepared = Preprocessor(scaling="standard", missing="impute").fit(X)
    >>> prepared.transform(X).round(2)
    array([[-1.22, -1.  ],
           [ 0.  ,  0.  ],
           [ 1.22,  1.  ]])
    >>> prepared.n_filled_
    1
    """

    _parameter_constraints = {  # noqa: RUF012
        "scaling": [StrOptions({"none", "standard", "robust"})],
        "missing": [StrOptions({"refuse", "impute", "keep"})],
    }

    scaling: str = "none"
    missing: str = "refuse"

    def fit(self, X: Any, y: Any = None) -> Preprocessor:
        """Learn medians, centres and scales.

        Parameters
        ----------
        X : array, sparse matrix, data frame, file or dask array of shape (n_samples, n_features)
        y : ignored

        Returns
        -------
        self
        """
        with restored_on_error(self):
            self._validate_params()
            self._fit(self._checked(X, reset=True))
        return self

    def _fit(self, X: Any) -> None:
        operator = as_operator(X)
        names = getattr(self, "feature_names_in_", None)
        summary = columns.summarize(operator)
        columns.check_cells(summary, names, self.missing)
        eps = float(np.finfo("float32" if "float32" in str(operator.dtype) else "float64").eps)
        median = scale = None
        if self.missing == "impute" or self.scaling == "robust":
            median, scale = columns.medians(
                _sample(operator) if isinstance(X, Operator) else X, eps
            )
            columns.check_not_empty(np.isnan(median), names)
        center = median
        if self.scaling == "standard":
            center, scale = summary.mean, summary.deviations(eps)
        if center is not None:
            sound = np.isfinite(center)
            if self.scaling != "none" and scale is not None:
                with np.errstate(over="ignore"):
                    sound &= np.isfinite(scale) & np.isfinite(summary.high - summary.low)
            if not sound.all():
                name = columns.column_name(int(np.argmin(sound)), names)
                raise ValueError(
                    f"the numbers of {name} are too large for float64 to hold their differences; "
                    "divide X by its largest magnitude"
                )
        self.fill_ = median if self.missing == "impute" else None
        self.center_ = None if self.scaling == "none" or operator.sparse else center
        self.scale_ = None if self.scaling == "none" else scale
        self.n_filled_ = int(summary.missing.sum())

    def _transform(self, X: Any) -> Any:
        check_is_fitted(self, "n_filled_")
        X = self._checked(X, reset=False)
        names = getattr(self, "feature_names_in_", None)
        scaling = columns.Scaling(self.fill_, self.center_, self.scale_, names, self.missing)
        return columns.apply(scaling, X)

    def inverse_transform(self, X: Any) -> Any:
        """Return rows in the units of the data; cells that were filled stay so.

        Parameters
        ----------
        X : array, sparse matrix or operator of shape (n_samples, n_features)

        Returns
        -------
        X : array, sparse matrix or operator of the same shape
        """
        check_is_fitted(self, "n_filled_")
        check_readable(X)
        if not is_array_api_obj(X) and not isinstance(X, Operator):
            X = check_array(X, accept_sparse=["csr", "csc"], ensure_all_finite=False)
        _check_shape(X, 0)
        if X.shape[1] != self.n_features_in_:
            raise ValueError(
                f"X has {X.shape[1]} columns; inverse_transform expects {self.n_features_in_}, one for "
                "each feature"
            )
        X = as_operator(X) if is_streamed(X) else X
        return columns.apply(columns.Scaling(None, self.center_, self.scale_, inverse=True), X)

    def _checked(self, X: Any, *, reset: bool) -> Any:
        """Return X as floats of its own kind, NaN included; its operator if it is not in memory."""
        X = validated(self, X, reset=reset, finite=False)
        return X if isinstance(X, Operator) else as_float(X)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.input_tags.allow_nan = self.missing != "refuse"
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags


def _sample(X: Operator) -> Any:
    """Return rows in memory to take medians of."""
    N, d = X.shape
    count = min(N, SAMPLE_ROWS, max(1000, SAMPLE_NUMBERS // d))
    return X.take(np.sort(np.random.default_rng(0).choice(N, count, replace=False)))
