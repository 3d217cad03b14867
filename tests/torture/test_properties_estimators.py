"""Every estimator: files, pickles, clones, second fits, rows one by one, and what each is alone in."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from hypothesis import strategies as st
from laws import close, datasets, law, quiet
from sklearn.base import clone

from dualpca import (
    PCA,
    KernelPCA,
    Preprocessor,
    PrincipalComponentPursuit,
    RobustKernelPCA,
    RobustPCA,
    SparsePCA,
    load,
)

ESTIMATORS = {
    "PCA": PCA(),
    "PCA whitened": PCA(whiten=True),
    "PCA krylov": PCA(solver="krylov"),
    "PCA dca": PCA(solver="dca"),
    "KernelPCA linear": KernelPCA(),
    "KernelPCA rbf": KernelPCA(kernel="rbf", gamma="median"),
    "KernelPCA nystroem": KernelPCA(approximation="nystroem", kernel="rbf", n_landmarks=8),
    "KernelPCA rff": KernelPCA(approximation="rff", kernel="rbf", n_random_features=30),
    "RobustPCA": RobustPCA(),
    "RobustPCA score": RobustPCA(flag="score", loss="l1", center="median", contamination=0.1),
    "RobustKernelPCA": RobustKernelPCA(),
    "RobustKernelPCA nystroem": RobustKernelPCA(approximation="nystroem", n_landmarks=12),
    "SparsePCA": SparsePCA(n_nonzero=0.5),
    "SparsePCA block": SparsePCA(n_nonzero=0.5, method="block"),
    "PrincipalComponentPursuit": PrincipalComponentPursuit(max_iter=200),
    "Preprocessor": Preprocessor(scaling="standard"),
    "Preprocessor robust": Preprocessor(scaling="robust", missing="impute"),
}
every = pytest.mark.parametrize("name", list(ESTIMATORS))
plain = datasets(
    rows=(20, 40),
    columns=(6, 10),
    kinds=("gaussian", "graded", "integers", "unlike_columns", "heavy"),
    offsets=(0.0, 1.0),
)


def made(name, s, **options):
    """The estimator with s components and a seed, where it takes them."""
    model = clone(ESTIMATORS[name])
    wanted = {"n_components": min(s, 4), "random_state": 0, **options}
    return model.set_params(**{k: v for k, v in wanted.items() if k in model.get_params()})


def fit(model, X, **more):
    with quiet():
        return model.fit(X, **more)


def outcome(model, X):
    """All that a fitted model says of rows."""
    methods = ("transform", "predict", "score_samples", "distances")
    with quiet():
        found = [getattr(model, m)(X) for m in methods if hasattr(model, m)]
    return [np.asarray(a) for one in found for a in (one if isinstance(one, tuple) else (one,))]


def identical(one, other, X):
    for a, b in zip(outcome(one, X), outcome(other, X), strict=True):
        assert a.dtype == b.dtype
        assert np.array_equal(a, b), f"differ by {np.abs(a - b).max():.1e}"


@every
@law("a saved model transforms to the bit", few=3, many=12, data=plain, single=st.booleans())
def test_a_model_from_a_file_gives_the_same_bits(name, tmp_path_factory, data, single):
    X = data.X.astype(np.float32 if single else np.float64)
    model, path = fit(made(name, data.s), X), tmp_path_factory.mktemp("model") / "m.dualpca"
    model.save(path)
    identical(model, load(path), data.rng.permutation(X)[:9])


@every
@law("a pickled model transforms to the bit", few=2, many=12, data=plain)
def test_a_pickled_model_gives_the_same_bits(name, data):
    X = data.X
    model = fit(made(name, data.s), X)
    identical(model, pickle.loads(pickle.dumps(model)), data.rng.permutation(X)[:9])


@every
@law("clones and second fits give the same bits", few=2, many=12, data=plain, after=plain)
def test_a_clone_and_a_second_fit_forget_the_first(name, data, after):
    X = data.X
    before = X.copy()
    model = fit(made(name, data.s), X)
    copy = clone(model)
    assert copy.get_params() == model.get_params()
    assert not [a for a in vars(copy) if a.endswith("_")], "a clone is fitted"
    identical(model, fit(copy, X), X)
    refitted = fit(fit(copy, after.X), X)
    identical(model, refitted, X)
    extra = set(vars(refitted)) ^ set(vars(model))
    assert not extra, f"attributes {extra} of an earlier fit"
    assert np.array_equal(before, X), "X was changed"


@every
@law("set_params is the constructor", few=2, many=8, data=plain, other=st.integers(1, 4))
def test_set_params_is_the_constructor(name, data, other):
    X = data.X
    late = fit(made(name, other), X)
    late.set_params(**made(name, data.s).get_params())
    identical(fit(late, X), fit(made(name, data.s), X), X)


@every
@law("fit_transform is fit, then transform", few=2, many=12, data=plain)
def test_fit_transform_is_fit_then_transform_for_all(name, data):
    X = data.X
    with quiet():
        together = np.asarray(made(name, data.s).fit_transform(X))
        model = fit(made(name, data.s), X)
        apart = np.asarray(model.transform(X))
    # Exact kernel scores are eigenvectors at once, and kernels times coefficients later.
    size = np.abs(X).max() if "linear" in name or "Kernel" not in name else 1.0
    accuracy = 1e-5 * size if "KernelPCA" in name else 0.0
    close(together, apart, accuracy, "scores")


@every
@law("rows are transformed one by one", few=3, many=12, data=plain)
def test_a_row_does_not_know_the_rows_beside_it(name, data):
    X = data.X
    model = fit(made(name, data.s), X)
    order = data.rng.permutation(data.N)
    for whole, part in zip(outcome(model, X), outcome(model, X[order[:5]]), strict=True):
        slack = 1e-7 * max(1.0, float(np.abs(whole).max(initial=0)))
        if whole.dtype.kind != "i":
            close(whole[order[:5]], part, slack, "outcomes")


@every
@law("float32 stays float32", few=2, many=12, data=plain)
def test_float32_stays_float32_for_all(name, data):
    X = data.X.astype(np.float32)
    model = fit(made(name, data.s), X)
    with quiet():
        T = model.transform(X)
    assert T.dtype == np.float32
    if hasattr(model, "inverse_transform") and "Kernel" not in name:
        assert model.inverse_transform(T).dtype == np.float32


LINEAR = [n for n in ESTIMATORS if "Kernel" not in n and "Preprocessor" not in n]


@pytest.mark.parametrize("name", LINEAR)
@law("transform after inverse_transform, for all", few=4, many=20, data=plain)
def test_scores_of_rows_of_scores_for_all(name, data):
    """Where components are independent; those of SparsePCA need not be."""
    X = data.X
    model = fit(made(name, data.s), X)
    V = np.asarray(model.components_)
    if len(V) == 0 or np.linalg.svd(V, compute_uv=False)[-1] < 1e-3:
        return
    T = np.asarray(model.transform(X))
    with quiet():
        again = model.transform(model.inverse_transform(T))
    accuracy = 1e-6 if "Pursuit" in name else 1e-9
    scale = np.asarray(model._scale()) if "whitened" in name else np.ones((len(V), 1))
    size = max(np.abs(X).max(), np.abs(T).max())
    close((again - T) * scale.T, 0 * T, accuracy * size, "scores")
