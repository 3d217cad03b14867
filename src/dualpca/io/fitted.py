"""Check that a loaded model can work: its parameters, its arrays, and a transform of two rows."""

import warnings
from collections.abc import Iterator
from numbers import Integral, Real
from typing import Any

import numpy as np
from sklearn.pipeline import Pipeline

#: Counts, and the letter of each: N rows, d columns, k components.
COUNTS = {"n_features_in_": "d", "n_components_": "k", "n_samples_": "N"}

#: Fitted attributes by shape; "" is a number, and "+" says that no entry is negative.
SHAPES = {
    "": "agreement_ offset_",
    "+": "residual_ variance_shortfall_ noise_variance_ gap_ dual_residual_ gamma_ score_cutoff_ "
    "orthogonal_cutoff_ n_iter_ n_passes_ n_nodes_",
    "d": "mean_ _mean_rest fill_ center_ feature_names_in_",
    "d+": "scale_ cell_scales_",
    "k+": "singular_values_ explained_variance_ explained_variance_ratio_ n_nonzero_ "
    "cumulative_variance_ratio_ eigenvalues_ upper_bound_",
    "N": "outliers_",
    "N+": "score_distances_ orthogonal_distances_ weights_",
    "kd": "components_",
    "kk": "rotation_",
    "Nd": "X_fit_ low_rank_ sparse_",
}

#: An array may have negative entries of this size relative to its largest one, by rounding.
ROUNDING = 1e-3

#: The most threads that a file may ask for.
MAX_JOBS = 1024

#: A trial row has at most this many numbers where no array of the model has as many.
TRIAL = 2**20


def check_compressed(matrix: Any) -> None:
    """Raise a ValueError where SciPy would read or write beyond the arrays of a CSR or CSC matrix.

    SciPy's own check looks at nothing where the last pointer is 0.
    """
    pointers = matrix.indptr
    if pointers[0] != 0 or (pointers[1:] < pointers[:-1]).any():
        raise ValueError("the pointers of a sparse matrix do not increase from 0")
    matrix.check_format(full_check=True)


def _fitted_steps(model: Any) -> Iterator[Any]:
    if isinstance(model, Pipeline):
        for _, step in model.steps:
            yield from _fitted_steps(step)
    elif hasattr(model, "n_features_in_"):
        yield model


#: The attributes of version-1 files that have other names now.
RENAMED = {"_origin": "_kernel_shift", "_near": "_start_rows"}


def upgrade_version_1(model: Any) -> None:
    """Give a model from a version-1 file the attributes that version 2 has."""
    for estimator in _fitted_steps(model):
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
            with np.errstate(all="ignore"):  # a variance was theta / n; check_fitted judges others
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
    """Raise a ValueError where a parameter of a fitted model is out of range."""
    for estimator in _fitted_steps(model):
        estimator._validate_params()


def check_fitted(model: Any) -> None:
    """Raise a ValueError where a model from a file cannot transform rows."""
    if isinstance(model, Pipeline):
        if not model.steps:
            raise ValueError("the pipeline has no steps")
        model._validate_steps()
    check_parameters(model)
    for estimator in _fitted_steps(model):
        _check_attributes(vars(estimator))
        if abs(getattr(estimator, "n_jobs", None) or 1) > MAX_JOBS:
            raise ValueError(f"n_jobs={estimator.n_jobs} is more than {MAX_JOBS}")
        if not {"_state", "_gathered"} & vars(estimator).keys() or "components_" in vars(estimator):
            _try_transform(estimator)  # the others wait for more rows of a stream


def _check_attributes(fitted: dict[str, Any]) -> None:
    sizes: dict[str, int] = {}
    for name, letter in COUNTS.items():
        if name in fitted:
            count = sizes[letter] = fitted[name]
            if isinstance(count, bool) or not isinstance(count, Integral) or count < 0:
                raise ValueError(f"{name} is {count!r}, no count")
    for shape, names in SHAPES.items():
        for name in names.split():
            if name in fitted:
                if "_stream" in fitted:  # the rows of the last batch, not of all
                    shape = shape.replace("N", "M")
                each = name == "gap_" and "upper_bound_" in fitted  # of each sparse component
                _check_attribute(name, fitted[name], "k+" if each else shape, sizes)
    if not all(isinstance(name, str) for name in fitted.get("feature_names_in_", ())):
        raise ValueError("feature_names_in_ holds a value that is no text")


def _check_attribute(name: str, value: Any, expected: str, sizes: dict[str, int]) -> None:
    letters = expected.removesuffix("+")
    if not letters and not isinstance(value, Real):
        raise ValueError(f"{name} is {value!r}, no number")
    if letters and value is not None:
        shape = getattr(value, "shape", None)
        fits = tuple(sizes.setdefault(a, n) for a, n in zip(letters, shape or (), strict=False))
        single = name == "center_" and shape == ()
        if not single and (shape != fits or len(shape) != len(letters)):
            raise ValueError(f"{name} has shape {shape}, which contradicts the others")
    if expected.endswith("+") and value is not None and np.size(value):
        low = value.min() if letters else value
        if low < -ROUNDING * abs(value.max()) if letters else not low >= 0:
            raise ValueError(f"{name} has {low!r}, which must not be negative")


def _try_transform(model: Any) -> None:
    """Require that a row of zeros has finite scores, distances and image, and that ones do not fail."""
    d = int(model.n_features_in_)
    sizes = [n for v in vars(model).values() for n in getattr(v, "shape", ())]
    if d > max(TRIAL, *sizes, 0):
        raise ValueError(f"n_features_in_ is {d}, and no array has as many columns")
    rows = np.stack([np.zeros(d), np.ones(d)])  # ones may overflow, in a kernel of large rows say
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        try:
            answers = [model.transform(rows)]
            if hasattr(model, "outliers_") and getattr(model, "kernel", "") != "precomputed":
                answers += [*model.distances(rows), model.predict(rows)]
            if "components_" in vars(model):
                answers.append(model.inverse_transform(answers[0]))
        except Exception as error:
            raise ValueError(f"a row cannot be transformed ({error})") from None
    answers = [np.asarray(value) for value in answers]  # frames, where set_output asks for them
    if answers[0].ndim != 2 or len(answers[0]) != 2:
        raise ValueError(f"two rows are transformed to the shape {answers[0].shape}")
    if not all(np.isfinite(value[:1]).all() for value in answers):
        raise ValueError("a row of zeros is transformed to numbers that are not finite")
