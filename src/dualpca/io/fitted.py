"""Whether a loaded model can work: its parameters, the shapes of its arrays, and one row as a trial."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from numbers import Integral, Real
from typing import Any

import numpy as np
from sklearn.pipeline import Pipeline

#: The letters of counts, and the shapes of arrays: N rows, d columns, k components.
COUNTS = {"n_features_in_": "d", "n_components_": "k", "n_samples_": "N"}
SHAPES = {
    **dict.fromkeys(
        ("mean_", "_mean_rest", "fill_", "center_", "scale_", "feature_names_in_"), "d"
    ),
    **dict.fromkeys(("singular_values_", "explained_variance_", "explained_variance_ratio_"), "k"),
    **dict.fromkeys(("cumulative_variance_ratio_", "n_nonzero_", "eigenvalues_"), "k"),
    **dict.fromkeys(("score_distances_", "orthogonal_distances_", "outliers_", "weights_"), "N"),
    **{"components_": "kd", "X_fit_": "Nd", "low_rank_": "Nd", "sparse_": "Nd"},
}
NUMBERS = (
    *("residual_", "variance_shortfall_", "noise_variance_", "agreement_", "gap_", "gamma_"),
    *("dual_residual_", "score_cutoff_", "orthogonal_cutoff_", "offset_", "n_iter_", "n_passes_"),
)

#: Numbers and arrays that are never negative, but for rounding of arrays relative to their largest.
NOT_NEGATIVE = (
    *("residual_", "variance_shortfall_", "noise_variance_", "gap_", "dual_residual_", "gamma_"),
    *("score_cutoff_", "orthogonal_cutoff_", "n_iter_", "n_passes_"),
)
NOT_NEGATIVE_ARRAYS = (
    *("singular_values_", "explained_variance_", "explained_variance_ratio_", "n_nonzero_"),
    *("cumulative_variance_ratio_", "eigenvalues_", "weights_", "scale_"),
    *("score_distances_", "orthogonal_distances_"),
)
ROUNDING = 1e-3

#: The most threads that a file may ask for.
JOBS = 1024

#: A trial row has at most so many numbers where no array of the model has as many.
TRIAL = 2**20


def check_compressed(matrix: Any) -> None:
    """A ValueError where a CSR or CSC matrix would have SciPy read or write beyond its arrays.

    SciPy's own check looks at nothing where the last pointer is 0.
    """
    pointers = matrix.indptr
    if pointers[0] != 0 or (pointers[1:] < pointers[:-1]).any():
        raise ValueError("the pointers of a sparse matrix do not increase from 0")
    matrix.check_format(full_check=True)


def estimators(model: Any) -> Iterator[Any]:
    """The model, or those in a pipeline, that have been fitted."""
    steps = [step for _, step in model.steps] if isinstance(model, Pipeline) else [model]
    for step in steps:
        if isinstance(step, Pipeline):
            yield from estimators(step)
        elif hasattr(step, "n_features_in_"):
            yield step


#: The attributes of version-1 files that have other names now.
RENAMED = {"_origin": "_kernel_shift", "_near": "_start_rows"}


def upgrade_version_1(model: Any) -> None:
    """Give a model from a version-1 file the attributes that version 2 has."""
    for estimator in estimators(model):
        fitted = vars(estimator)
        if type(estimator).__name__ == "RobustKernelPCA" and "dual_coef_" in fitted:
            fitted["axes_coef_"] = fitted.pop("dual_coef_")
        if type(estimator).__name__.startswith("Robust") and estimator.n_components is None:
            estimator.n_components = "auto"
        for old, new in RENAMED.items():
            if old in fitted:
                fitted[new] = fitted.pop(old)
        if hasattr(estimator, "kernel"):
            fitted.setdefault("_kernel_shift", None)
        if type(estimator).__name__ == "KernelPCA":
            theta, variance = fitted["eigenvalues_"], fitted["explained_variance_"]
            with np.errstate(
                all="ignore"
            ):  # a variance was theta / n; check_fitted judges the others
                n = np.divide(theta[0], variance[0])
                fitted["explained_variance_"] = variance * (n / (n - 1) if n > 1 else 1.0)
            fitted["n_components_"] = len(theta)
            if "eigenvectors_" not in fitted:
                fitted["n_samples_"] = fitted["pca_"].n_samples_
                continue
            A, mean = fitted["_coefficients"], fitted.pop("_row_mean", None)
            if mean is not None:  # scores were K A - K share sum(A) - offset
                A = fitted["_coefficients"] = A - fitted["_share"][:, None] * A.sum(axis=0)
                del fitted["_all_mean"]
            fitted["_offset"] = np.zeros_like(theta) if mean is None else mean @ A
            fitted["n_samples_"] = len(fitted["eigenvectors_"])


def check_parameters(model: Any) -> None:
    """A ValueError where parameters of a fitted model are out of range."""
    for estimator in estimators(model):
        estimator._validate_params()


def check_fitted(model: Any) -> None:
    """A ValueError where a model from a file could not transform rows."""
    if isinstance(model, Pipeline):
        if not model.steps:
            raise ValueError("the pipeline has no steps")
        model._validate_steps()
    check_parameters(model)
    for estimator in estimators(model):
        _check_shapes(vars(estimator))
        if abs(getattr(estimator, "n_jobs", None) or 1) > JOBS:
            raise ValueError(f"n_jobs={estimator.n_jobs} is more than {JOBS}")
        _check_by_trial(estimator)


def _check_shapes(found: dict[str, Any]) -> None:
    sizes: dict[str, int] = {}
    for name, letter in COUNTS.items():
        if name in found:
            value = sizes[letter] = found[name]
            if isinstance(value, bool) or not isinstance(value, Integral) or value < 0:
                raise ValueError(f"{name} is {value!r}, no count")
    for name, letters in SHAPES.items():
        shape = getattr(found.get(name), "shape", None)
        if found.get(name) is None or (shape == () and name == "center_"):
            continue
        expected = tuple(sizes.setdefault(a, n) for a, n in zip(letters, shape or (), strict=False))
        if shape != expected or len(shape) != len(letters):
            raise ValueError(f"{name} has shape {shape}, which contradicts the others")
    if not all(isinstance(name, str) for name in found.get("feature_names_in_", ())):
        raise ValueError("feature_names_in_ has what is no text")
    for name in NUMBERS:
        if name in found and not isinstance(found[name], Real):
            raise ValueError(f"{name} is {found[name]!r}, no number")
    for name in NOT_NEGATIVE:
        if name in found and not found[name] >= 0:
            raise ValueError(f"{name} is {found[name]!r}, which must not be negative")
    for name in NOT_NEGATIVE_ARRAYS:
        values: Any = found.get(name)
        if getattr(values, "size", 0) and values.min() < -ROUNDING * abs(values.max()):
            raise ValueError(f"{name} has {values.min()!r}, which must not be negative")


def _check_by_trial(model: Any) -> None:
    """A row of zeros is mapped to finite scores, and back; one of ones does not fail."""
    d = int(model.n_features_in_)
    sizes = [n for v in vars(model).values() for n in getattr(v, "shape", ())]
    if d > max(TRIAL, *sizes, 0):
        raise ValueError(f"n_features_in_ is {d}, and no array has as many columns")
    row = np.zeros((2, d))
    row[1] = 1.0  # which may overflow, in a kernel of large rows say
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        try:
            told = [model.transform(row)]
            if hasattr(model, "outliers_") and getattr(model, "kernel", "") != "precomputed":
                told += [*model.distances(row), model.predict(row)]
            if "components_" in vars(model):
                told.append(model.inverse_transform(told[0]))
        except Exception as error:
            raise ValueError(f"a row cannot be transformed ({error})") from None
    told = [np.asarray(value) for value in told]  # frames, where set_output asks for them
    if told[0].ndim != 2 or told[0].shape[0] != 2:
        raise ValueError(f"two rows are transformed to the shape {told[0].shape}")
    if not all(np.isfinite(value[:1]).all() for value in told):
        raise ValueError("a row of zeros is transformed to numbers that are not finite")
