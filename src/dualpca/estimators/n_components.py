"""How many components to take, as a function of the data."""

from __future__ import annotations

from numbers import Integral, Real
from typing import Any

from sklearn.utils._param_validation import Interval

from ..linear.selection import BY_DATA, METHODS, Selection
from ._base import COUNT
from .pca import PCA

#: The options of each method, and what they may be.
OPTIONS: dict[str, dict[str, Any]] = {
    "parallel": {
        "n_permutations": COUNT,
        "quantile": Interval(Real, 0, 1, closed="both"),
    },
    "cv": {"n_folds": Interval(Integral, 2, None, closed="left"), "max_components": COUNT},
    "gcv": {"max_components": COUNT},
    "gavish-donoho": {"noise": Interval(Real, 0, None, closed="neither")},
}


def n_components(
    X: Any,
    method: str = "parallel",
    *,
    center: bool = True,
    n_permutations: int | None = None,
    quantile: float | None = None,
    noise: float | None = None,
    n_folds: int | None = None,
    max_components: int | None = None,
    random_state: Any = None,
) -> Selection:
    """Return how many components X has by a method, and what that was chosen by.

    Parameters
    ----------
    X : array, sparse matrix, data frame, file or dask array of shape (n_samples, n_features)
        In memory for "parallel"; in memory and dense for "cv".
    method : str
        "parallel": components with more variance than those of X with every column permuted on its own;
        "gavish-donoho": the optimal hard threshold of singular values;
        "profile": the profile likelihood of a scree of two groups;
        "broken-stick": more variance than the pieces of a stick broken at random;
        "gcv": the first minimum of the generalised cross-validation of cells;
        "cv": the minimum of the k-fold cross-validation of cells;
        "mle": Minka's maximum likelihood estimate, which needs n_samples >= n_features.
    center : bool
        Subtract the mean of each feature, as in :class:`dualpca.PCA`.
    n_permutations, quantile : int and float, optional
        How many tables "parallel" permutes, 100, and the quantile of their variances to exceed, 0.95.
    noise : float, optional
        The standard deviation of the noise of a cell, for "gavish-donoho", where it is known.
    n_folds : int, optional
        The folds of "cv", 10.
    max_components : int, optional
        The most components that "cv" (10) and "gcv" (all but one) try.
    random_state : int, RandomState instance or None
        The seed of permutations and folds.

    Returns
    -------
    selection : Selection
        With ``n_components``, which is 0 where no component stands out, and ``statistic`` and
        ``threshold`` for each of ``numbers``. :class:`dualpca.plots.SelectionDisplay` draws it.

    Examples
    --------
    >>> import numpy as np
    >>> import dualpca
    >>> rng = np.random.default_rng(0)
    >>> X = rng.standard_normal((200, 3)) @ rng.standard_normal((3, 20))
    >>> X += rng.standard_normal(X.shape)
    >>> dualpca.n_components(X, random_state=0).n_components
    3
    >>> dualpca.n_components(X, "gavish-donoho", noise=1.0).n_components
    3
    >>> dualpca.PCA("parallel", random_state=0).fit(X).n_components_
    3
    """
    if method not in METHODS:
        raise ValueError(f"method={method!r} is unknown; give one of {', '.join(METHODS)}")
    given = {"n_permutations": n_permutations, "quantile": quantile, "noise": noise}
    given |= {"n_folds": n_folds, "max_components": max_components}
    options, known = {k: v for k, v in given.items() if v is not None}, OPTIONS.get(method, {})
    for name, value in options.items():
        if name not in known:
            takes = " and ".join(known) or "none of its own"
            raise TypeError(f"{name}={value!r} is no option of method={method!r}; it takes {takes}")
        if not known[name].is_satisfied_by(value) or isinstance(value, bool):
            raise ValueError(f"{name}={value!r} must be {known[name]}")
    model = PCA(method, center=center, random_state=random_state)
    model._validate_params()
    _, data = model._decompose(X, None, **(options if method in BY_DATA else {}))
    selection = data.select(method, **options)
    assert selection is not None  # methods have names, and names select
    return selection
