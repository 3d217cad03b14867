"""Missing cells and scales, before PCA."""

from __future__ import annotations

from typing import Any

import numpy as np
from array_api_compat import is_array_api_obj, is_numpy_array
from sklearn.base import BaseEstimator, OneToOneFeatureMixin, TransformerMixin
from sklearn.utils._param_validation import StrOptions
from sklearn.utils.validation import check_array, check_is_fitted, validate_data

from ..operators import Operator, as_operator, is_streamed
from ..operators.block_ops import GRAM_FACTOR, as_float
from ..operators.readable import check_readable
from ..operators.row_blocks import RowBlocked
from ..preprocessing.columns import describe, medians, named, refuse
from ..preprocessing.scaling import Backward, Forward, OutputMixin, apply
from ._base import _check_shape, _streamed, check_names
from ._fit_context import restored_on_error
from ._save import SaveMixin

__all__ = ["Preprocessor"]

#: Medians of data that is not in memory are those of a sample of so many rows, or so many numbers.
SAMPLE_ROWS, SAMPLE_NUMBERS = 100_000, 2**25


class Preprocessor(OutputMixin, SaveMixin, OneToOneFeatureMixin, TransformerMixin, BaseEstimator):
    """Fill missing cells and bring columns to one scale: what comes before PCA.

    Cells that are NaN become the median of their column; then ``(x - center_) / scale_``. What is
    not in memory (memory maps, zarr, HDF5, Parquet and Arrow, dask, operators) becomes an operator
    that does so block by block as it is read.

    Parameters
    ----------
    scaling : {"none", "standard", "robust"}
        "standard" takes the mean and the standard deviation (that of n, not n - 1), "robust" the
        median and 1.4826 MAD of the observed cells of each column. Sparse data is scaled but not
        centred. Columns without spread have the scale 1. Where more than half of a column is equal,
        so that its MAD is 0, "robust" takes 1.2533 times the mean absolute deviation from the median.
    missing : {"refuse", "impute"}
        Whether NaN is an error, which tells how many there are and where, or is filled. Infinite
        values are always refused.

    Attributes
    ----------
    fill_ : array of shape (n_features,) or None
        The medians that missing cells become; None where ``missing="refuse"``.
    center_ : array of shape (n_features,) or None
        What is subtracted; None for sparse data and for ``scaling="none"``.
    scale_ : array of shape (n_features,) or None
        What is divided by; None for ``scaling="none"``.
    n_filled_ : int
        The cells of the training data that were missing.
    n_features_in_ : int
    feature_names_in_ : array of shape (n_features,)
        Where the columns have names.

    Notes
    -----
    Fitted attributes are float64 arrays of numpy whatever the data is; float32 data is scaled in
    float64 and comes back as float32. Of data that is not in memory, medians and MADs are those of a
    sample of 100,000 rows, the same at each fit (fewer with more than 335 columns: 256 MB). Where
    there is nothing to do, ``transform`` returns the data itself.

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
        "missing": [StrOptions({"refuse", "impute"})],
    }

    def __init__(self, scaling: str = "none", missing: str = "refuse") -> None:
        self.scaling = scaling
        self.missing = missing

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
            return self._fitted(X)

    def _fitted(self, X: Any) -> Preprocessor:
        self._validate_params()
        X = self._checked(X, reset=True)
        operator = as_operator(X)
        assert isinstance(operator, RowBlocked)
        names = getattr(self, "feature_names_in_", None)
        parts = operator.sum_blocks(lambda rows, block: ([describe(block)],), GRAM_FACTOR)[0]
        found = parts[0]
        for part in parts[1:]:
            found = found + part
        refuse(found, names, self.missing)
        eps = float(np.finfo("float32" if "float32" in str(operator.dtype) else "float64").eps)
        middle = scale = None
        if self.missing == "impute" or self.scaling == "robust":
            middle, scale = medians(_sample(operator) if isinstance(X, Operator) else X, eps)
            empty = np.flatnonzero(np.isnan(middle))
            if len(empty):
                told = ", ".join(named(j, names) for j in empty[:5])
                raise ValueError(
                    f"{len(empty)} columns of X have no value but NaN: {told}; drop them before fitting"
                )
        center = middle
        if self.scaling == "standard":
            center, scale = found.mean, found.deviations(eps)
        if center is not None:
            sound = np.isfinite(center)
            if self.scaling != "none" and scale is not None:
                with np.errstate(over="ignore"):
                    sound &= np.isfinite(scale) & np.isfinite(found.high - found.low)
            if not sound.all():
                raise ValueError(
                    f"the numbers of {named(int(np.argmin(sound)), names)} are too large for float64 to "
                    "hold their differences; divide X by its largest magnitude"
                )
        self.fill_ = middle if self.missing == "impute" else None
        self.center_ = None if self.scaling == "none" or operator.sparse else center
        self.scale_ = None if self.scaling == "none" else scale
        self.n_filled_ = int(found.missing.sum())
        return self

    def _transform(self, X: Any) -> Any:
        check_is_fitted(self, "n_filled_")
        X = self._checked(X, reset=False)
        names = getattr(self, "feature_names_in_", None)
        return apply(Forward(self.fill_, self.center_, self.scale_, names, self.missing), X)

    def inverse_transform(self, X: Any) -> Any:
        """Rows in the units of the data; cells that were filled stay so.

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
            X = check_array(
                X,
                accept_sparse=["csr", "csc"],
                dtype=[np.float64, np.float32],
                ensure_all_finite=False,
            )
        _check_shape(X, 0)
        if X.shape[1] != self.n_features_in_:
            raise ValueError(
                f"X has {X.shape[1]} columns; inverse_transform expects {self.n_features_in_}, one for "
                "each feature"
            )
        X = as_operator(X) if is_streamed(X) else X
        return apply(Backward(self.center_, self.scale_), X)

    def _checked(self, X: Any, *, reset: bool) -> Any:
        """X as floats with any NaN, of its own kind; its operator where it is not in memory."""
        check_readable(X)
        if isinstance(X, RowBlocked) or is_streamed(X):
            operator = as_operator(X)
            if reset:
                self.__dict__.pop("feature_names_in_", None)
                names = getattr(operator, "names", None)
                if names is not None:
                    check_names(self, names, reset=True)
                self.n_features_in_ = operator.shape[1]
            return _streamed(self, operator, reset=False, rows=1)
        if isinstance(X, Operator):
            raise TypeError(f"X is a {type(X).__name__}, of which no rows are known; give its rows")
        if is_array_api_obj(X) and not is_numpy_array(X):
            _check_shape(X, 1)
            validate_data(self, X, reset=reset, skip_check_array=True)
            return as_float(X)
        return validate_data(
            self,
            X,
            reset=reset,
            accept_sparse=["csr", "csc"],
            dtype=[np.float64, np.float32],
            ensure_all_finite=False,
        )

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.input_tags.allow_nan = self.missing == "impute"
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags


def _sample(X: RowBlocked) -> Any:
    """Rows in memory to take medians of."""
    N, d = X.shape
    count = min(N, SAMPLE_ROWS, max(1000, SAMPLE_NUMBERS // d))
    return X.take(np.sort(np.random.default_rng(0).choice(N, count, replace=False)))
