"""From a user's data to an operator: validation before any work is done."""

from __future__ import annotations

import warnings
from importlib import import_module
from numbers import Integral, Real
from typing import Any

import numpy as np
import scipy.sparse as sp
from array_api_compat import array_namespace, device, is_array_api_obj, is_numpy_array
from sklearn.utils import check_random_state
from sklearn.utils._param_validation import Interval, RealNotInt, StrOptions
from sklearn.utils.validation import _check_n_features, validate_data

from ..linalg import is_single, to_numpy, total
from ..linear.rotation import ROTATIONS
from ..operators import Operator, as_operator, as_rows, centered, in_memory, is_streamed
from ..operators.centering import by_weights, minus_center
from ..operators.readable import check_readable
from ..preprocessing.columns import is_finite
from ..solvers.solve import user_stacklevel

#: Numbers that parameters may be.
COUNT = Interval(Integral, 1, None, closed="left")
FRACTION = Interval(RealNotInt, 0, 1, closed="neither")
NOT_NEGATIVE = Interval(Real, 0, None, closed="left")

#: What ``forget`` may be: nothing, a factor for each batch, or a half-life in rows; but not 1.
FORGET = [None, Interval(Real, 0, None, closed="neither")]

#: What ``rotation`` may be.
ROTATION = [StrOptions(set(ROTATIONS)), None]

#: The parameters that all iterative estimators share.
ITERATION_CONSTRAINTS: dict[str, Any] = {
    "tol": [NOT_NEGATIVE],
    "max_iter": [COUNT],
    "random_state": ["random_state"],
    "verbose": ["verbose"],
}


def seed(random_state: Any) -> int:
    """Return an integer seed from scikit-learn's ``random_state``."""
    return int(check_random_state(random_state).randint(np.iinfo(np.int32).max))


def validated(
    estimator: Any,
    X: Any,
    *,
    reset: bool,
    sparse: bool = True,
    rows: int = 1,
    only_numpy: bool = False,
    streamed: bool = True,
    finite: bool = True,
) -> Any:
    """Return X as a finite float matrix of its own kind, checked against the fit unless ``reset``.

    numpy, pandas, polars, lists and scipy.sparse go through scikit-learn. Operators, SciPy's too, and
    data that is not in memory come back as operators that are read by rows, unless ``streamed`` is
    false. Arrays of other namespaces stay where they are, or become numpy arrays if ``only_numpy``.
    NaN and infinity are refused if ``finite``.
    """
    check_readable(X)
    if streamed and not in_memory(X):
        return _streamed(estimator, X, reset=reset, rows=rows, finite=finite)
    if is_array_api_obj(X) and not is_numpy_array(X):
        if not only_numpy:
            _check_shape(X, rows)
            validate_data(estimator, X, reset=reset, skip_check_array=True)  # names and number
            if finite and "float" in str(X.dtype):
                check_finite(type(estimator).__name__, X)
            return X
        X = np.asarray(X)
    try:
        with np.errstate(over="ignore", invalid="ignore"):  # the sum that reveals NaN may overflow
            return validate_data(
                estimator,
                X,
                reset=reset,
                accept_sparse=["csr", "csc"] if sparse else False,
                dtype=[np.float64, np.float32],
                ensure_min_samples=rows,
                ensure_all_finite=finite,
                copy=False,
            )
    except ValueError as error:
        for sign, remedy in _REMEDIES.items():
            if sign in str(error):
                first = str(error).splitlines()[0]  # the rest speaks of other libraries
                raise ValueError(f"{first}\n{remedy}{_text_columns(X)}") from error
        raise


_REMEDIES = {
    "contains NaN": "Put an imputer before it, such as dualpca.Preprocessor(missing='impute') in a "
    "pipeline, or drop the rows.",
    "contains infinity": "Replace infinite values in X, or drop their rows, before fitting.",
    "could not convert string": "X holds text; encode those columns as numbers, or drop them",
}


def _text_columns(X: Any) -> str:
    """Return the names of the columns of a data frame that hold text, to end a sentence with."""
    kinds: Any = getattr(X, "dtypes", None)
    if not hasattr(kinds, "items"):
        return ""
    names = [str(name) for name, kind in kinds.items() if getattr(kind, "kind", "O") in "OUS"]
    return f": {', '.join(names[:10])}{', ...' if len(names) > 10 else ''}" if names else ""


def _check_shape(X: Any, rows: int) -> None:
    if len(X.shape) != 2:
        raise ValueError(f"Expected 2D array, got {len(X.shape)}D array; X.shape={tuple(X.shape)}")
    if rows > X.shape[0] or X.shape[1] < 1:
        raise ValueError(
            f"Found array with shape={tuple(X.shape)} while a minimum of {(rows, 1)} is required"
        )
    if not str(X.dtype).rsplit(".", 1)[-1].startswith(("float", "int", "uint", "bool")):
        raise ValueError(f"X has dtype {X.dtype}; give real numbers, float32 or float64")


def _streamed(estimator: Any, X: Any, *, reset: bool, rows: int, finite: bool) -> Operator:
    """Return the operator of X; at ``fit`` with its column sums, whose pass has seen every entry."""
    if hasattr(type(X), "dtype"):
        _check_shape(X, 0)  # before anything is read
    operator = as_operator(X)
    name = type(estimator).__name__
    if operator.implicit:
        raise TypeError(
            f"X is a {type(operator).__name__}, whose columns are implicit, and {name} needs columns; "
            "give the data, or its kernel matrix to KernelPCA(kernel='precomputed')"
        )
    operator = as_rows(operator)
    _check_shape(operator, rows)
    names = getattr(operator, "names", None)
    if names is None:
        validate_data(estimator, operator, reset=reset, skip_check_array=True)
    else:  # scikit-learn does not look for them in an operator
        check_names(estimator, names, reset=reset)
        _check_n_features(estimator, operator, reset=reset)
    if reset and finite:
        operator.forget()
        with np.errstate(over="ignore", invalid="ignore"):
            # Centring asks for exact sums of float64 first.
            energy = operator.column_sums(exact=not is_single(operator), keep=True)[1]
        if not np.isfinite(energy):
            operator.sum_blocks(lambda rows, block: (check_finite(name, block),))
    return operator


def check_finite(name: str, block: Any) -> int:
    """Refuse NaN and infinity on behalf of the estimator of that name; else return 0."""
    if not is_finite(block):
        raise ValueError(
            f"Input X contains NaN or infinity, which {name} does not accept; use an imputer such as "
            "dualpca.Preprocessor(missing='impute') before it, or drop the rows"
        )
    return 0


def rows_with_norms(estimator: Any, X: Any) -> Operator:
    """Return the operator of :func:`validated` X, for a fit that needs the norms of its rows.

    In memory these tell whether all entries are finite, so that no other pass does.
    """
    late = in_memory(X)
    operator = as_operator(validated(estimator, X, reset=True, rows=2, finite=not late))
    with np.errstate(over="ignore", invalid="ignore"):
        if late and not np.isfinite(total(operator.row_norms())):
            validated(estimator, X, reset=True, rows=2)  # finite norms may overflow
    return operator


def check_names(estimator: Any, names: list[str], *, reset: bool) -> None:
    """Store the names of the columns of a table that is not in memory, or compare them."""
    if reset:
        estimator.feature_names_in_ = np.asarray(names, dtype=object)
        return
    fitted = getattr(estimator, "feature_names_in_", None)
    if fitted is None:
        name = type(estimator).__name__
        message = f"X has feature names, but {name} was fitted without feature names"
        warnings.warn(message, stacklevel=user_stacklevel())
    elif list(fitted) != names:
        others = sorted(set(names) ^ set(fitted)) or ["the same names in another order"]
        raise ValueError(
            "The feature names should match those that were passed during fit; they differ in "
            f"{', '.join(others[:5])}: select and order the columns as they were at fit"
        )


def checked_weights(sample_weight: Any, X: Operator, *, enough: bool = True) -> Any:
    """Return the weights of the rows as an array of X's kind, or None.

    They must be ``enough`` for a variance, unless X is a batch of more rows.
    """
    if sample_weight is None:
        return None
    check_readable(sample_weight, "sample_weight")
    given = sample_weight if is_array_api_obj(sample_weight) else np.asarray(sample_weight)
    weights = X.row_vector(given, "sample_weight")
    xp = array_namespace(weights)
    low, mass = float(xp.min(weights)), total(weights)
    if not (low >= 0 and np.isfinite(mass)):
        raise ValueError(
            f"sample_weight has the smallest entry {low} and the sum {mass}; weights must be "
            "finite and not negative"
        )
    if enough and not mass > 1:
        raise ValueError(
            f"sample_weight sums to {mass}, the weights being zero or small; they count rows, and a "
            "variance needs more than one: scale them to sum to n_samples"
        )
    return weights


def centered_rows(
    X: Operator, sample_weight: Any, center: bool
) -> tuple[Operator, Any | None, float]:
    """Return ``Diag(sqrt(w)) (X - 1 mean^T)``, the mean or None, and the sum of the weights w."""
    weights = checked_weights(sample_weight, X)
    Xc = centered(X, weights) if center else X
    mean = Xc.center[:, 0] if center else None  # type: ignore[attr-defined]
    if weights is None:
        return Xc, mean, X.shape[0]
    return by_weights(Xc, weights), mean, total(weights)


def check_components(n_components: int, N: int, d: int) -> None:
    """Refuse more components than X has rows or columns."""
    if n_components > min(N, d):
        raise ValueError(
            f"n_components={n_components} must be between 1 and min(n_samples, n_features)={min(N, d)}; "
            "ask for fewer components"
        )


def nonzeros(n_nonzero: Any, s: int, d: int) -> tuple[int, ...]:
    """Return how many nonzeros each of s components may have among d features."""
    many = not isinstance(n_nonzero, Real) and getattr(n_nonzero, "ndim", 1) > 0
    values = list(n_nonzero) if many else [n_nonzero] * s
    if len(values) != s:
        raise ValueError(
            f"n_nonzero={n_nonzero!r} has {len(values)} entries for n_components={s}; give one number, "
            "or one for each component"
        )
    counts = []
    for k in values:
        number, whole = isinstance(k, Real) and not isinstance(k, bool), isinstance(k, Integral)
        if not number or not 0 < k <= (d if whole else 1):
            raise ValueError(
                f"n_nonzero={n_nonzero!r} has the entry {k!r}; give whole numbers from 1 to "
                f"n_features={d}, or fractions of the features above 0 and up to 1"
            )
        counts.append(int(k) if whole else max(1, round(float(k) * d)))
    return tuple(counts)


def check_same_kind(X: Any, fitted: Any, method: str) -> None:
    """Refuse X of another namespace or device than the fitted arrays it will be multiplied with."""
    if isinstance(X, Operator):
        X = X.like
    elif is_streamed(X) or not is_array_api_obj(X):
        X = np.empty(0)  # lists, data frames and sparse matrices count as numpy
    kinds = [(array_namespace(a), device(a)) for a in (X, fitted)]
    if kinds[0] != kinds[1]:
        given, expected = (f"{xp.__name__} on {place}" for xp, place in kinds)
        raise ValueError(
            f"Inputs passed to {method}() must use the same namespace and the same device as those "
            f"passed to fit(): got {given} where fit() was given {expected}; convert X, or fit again"
        )


def as_given(values: Any, X: Any) -> Any:
    """Return an array with a number for each cell of X: a data frame like X where that is one."""
    if not hasattr(X, "iloc") or hasattr(X, "__dask_graph__"):
        return values
    return type(X)(to_numpy(values), index=X.index, columns=X.columns)


def check_scores(X: Any, columns: int) -> Any:
    """Return scores as an array or a sparse matrix with the right number of columns."""
    check_readable(X)
    if hasattr(X, "__dask_graph__"):
        import_module("dualpca.operators.dask")  # registers such arrays in linalg
    scores = X if is_array_api_obj(X) or sp.issparse(X) else np.asarray(X)
    if scores.ndim != 2 or scores.shape[1] != columns:
        raise ValueError(
            f"X has shape {tuple(scores.shape)}; inverse_transform expects scores with {columns} "
            "columns, one for each component"
        )
    return scores


def shifted(X: Any, mean: Any) -> Operator:
    """Return ``X - 1 mean^T`` as an operator: explicit for dense data, implicit for other data."""
    return minus_center(as_operator(X), mean)
