"""What robust estimators fit: rows with their weights, a sample of them, and a centre that is given."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ..estimators._base import check_energy, check_number, checked_weights, seed, validated
from ..linalg import Array, to_numpy
from ..operators import Matrix, Selected, as_operator
from ..operators.row_blocks import RowBlocked
from .center import fixed_center
from .starts import take_sample


@dataclass(frozen=True)
class Prepared:
    """All rows, those that count with their weights, and a sample of these about its origin.

    ``present`` tells those of positive weight, where there are others; spread over a cluster they stay
    among the rows.

    ``fixed`` is the centre where it is not to be fitted, ``about`` the same relative to the origin.
    """

    whole: RowBlocked
    rows: RowBlocked
    present: np.ndarray | None
    weights: Array | None
    fixed: np.ndarray | None
    sample: Matrix
    origin: np.ndarray
    rng: np.random.Generator

    @property
    def about(self) -> np.ndarray | None:
        return None if self.fixed is None else self.fixed - self.origin


def prepare(model: Any, X: Any, sample_weight: Any) -> Prepared:
    """Check the parameters and the data, then draw the sample."""
    model._validate_params()
    check_number(model.n_components)
    whole = as_operator(validated(model, X, reset=True, rows=2))
    assert isinstance(whole, RowBlocked)
    if whole.is_distributed and isinstance(model.solver, str) and model.solver == "dual":
        raise ValueError(
            "solver='dual' iterates on a row for each row of X, which dask data keeps on the cluster; "
            "use 'auto', 'anderson' or 'dca', which find the same subspace"
        )
    weights = checked_weights(sample_weight, whole)
    present: np.ndarray | None = None
    rows: RowBlocked = whole
    if weights is not None and not whole.is_distributed:
        weights = to_numpy(weights).astype(float)
        if not (weights > 0).all():
            present = weights > 0
            weights = weights[present]
            rows = Selected(whole, present)
    rng = np.random.default_rng(seed(model.random_state))
    sample, origin = take_sample(rows, weights, rng)
    with np.errstate(over="ignore", under="ignore"):
        energy = sample.energy()
    check_energy(energy, sample)
    fixed = fixed_center(model.center, rows, weights)
    return Prepared(whole, rows, present, weights, fixed, sample, origin, rng)
