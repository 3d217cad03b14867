"""The levels of DeepKernelPCA: which they are, and the fit of one after another, which is the start."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from sklearn.base import clone

from ..kernels.deep import DeepProblem, Level
from ..kernels.gradients import DERIVATIVES
from ..linalg import Array
from ..operators import Kernel
from ..progress import phase
from .kernel_pca import KernelPCA

#: The levels where none are given.
LEVELS = (
    {"n_components": 20, "kernel": "rbf", "gamma": "median"},
    {"n_components": 10, "kernel": "rbf", "gamma": "median"},
)


def level_models(levels: Any) -> list[KernelPCA]:
    """Return an unfitted kernel PCA for each level; refuse what is none."""
    given = LEVELS if levels is None else levels
    if not len(given):
        raise ValueError("levels is empty; give at least one KernelPCA, or None for two RBF levels")
    models = []
    for j, level in enumerate(given, start=1):
        if not isinstance(level, (KernelPCA, dict)):
            raise TypeError(
                f"levels holds {level!r} at level {j}; give a KernelPCA, or a dict of its parameters"
            )
        model = KernelPCA(**level) if isinstance(level, dict) else clone(level)
        model._validate_params()
        if j > 1 and (callable(model.kernel) or model.kernel not in DERIVATIVES):
            raise ValueError(
                f"kernel={model.kernel!r} at level {j} has no derivative here, which the level below "
                f"needs; use one of {', '.join(map(repr, DERIVATIVES))}"
            )
        models.append(model)
    return models


def stacked(
    models: list[KernelPCA], X: Any, coupling: float, tol: float, seed: int
) -> tuple[DeepProblem, list[Array]]:
    """Fit the models one after another; return the problem of all and their hidden features."""
    numbers = np.random.default_rng(seed).integers(2**31, size=len(models))
    unit = float(np.sqrt(X.shape[0] - 1))
    rows: Any = X
    H: list[Array] = []
    levels: list[Level] = []
    for model, number in zip(models, numbers, strict=True):
        model.set_params(tol=min(model.tol, tol), random_state=int(number))
        model.set_params(remove_zero_eig=True, fit_inverse_transform=False)
        with phase("start"):
            model.fit(rows)
        if not model.eigenvalues_[0] > 0:
            raise ValueError(
                f"the rows of level {len(H) + 1} are all the same to its kernel, which leaves no "
                "components; give rows that differ, or other parameters, such as a larger gamma"
            )
        if H:
            features = model.features_ if model.approximation else None
            level = Level(model._kernel_function(shift=False), features, 1.0, model.center)
            levels.append(replace(level, total=level.trace(rows)))
        if model.approximation is None:
            H.append(model.eigenvectors_.astype(float))
        else:
            H.append(np.linalg.qr(np.asarray(model.transform(rows), dtype=float))[0])
        rows = unit * H[-1]
    first = models[0]
    total = float(first.eigenvalues_.sum() / first.explained_variance_ratio_.sum())
    exact = first.approximation is None
    K = (first._kernel_operator(X) if exact else Kernel.linear(first._features(X))).K

    def product(h: Array) -> Array:
        return np.asarray(K.matmul(K.asarray(h)), dtype=float) / total

    return DeepProblem(product, total, first.center, tuple(levels), coupling, unit), H
