"""One data set in every form it may come in: each estimator finds the same in all of them."""

import functools
import hashlib
from itertools import combinations, product

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import clone

import dualpca.operators
import dualpca.operators.dask.distributed
from dualpca import (
    PCA,
    KernelPCA,
    PrincipalComponentPursuit,
    RobustKernelPCA,
    RobustPCA,
    SparsePCA,
    as_operator,
)

da = pytest.importorskip("dask.array")
dask = pytest.importorskip("dask")
h5py = pytest.importorskip("h5py")
pd = pytest.importorskip("pandas")
pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")
dd = pytest.importorskip("dask.dataframe")
torch = pytest.importorskip("torch")
zarr = pytest.importorskip("zarr")

N, D, S = 203, 12, 3
BAD = np.arange(N) % 20 == 7
NAMES = [f"x{j}" for j in range(D)]


@pytest.fixture(autouse=True)
def _small_blocks(monkeypatch):
    """Files are read in many blocks, the last one shorter."""
    monkeypatch.setattr(dualpca.operators, "BLOCK", 37 * D * 8)


def data(dtype="float64"):
    """Three directions, noise, a mean; every twentieth row is far off all of them."""
    rng = np.random.default_rng(0)
    A = rng.standard_normal((N, S)) * [6, 4, 2.5] @ np.linalg.qr(rng.standard_normal((D, S)))[0].T
    A += 0.1 * rng.standard_normal((N, D)) + rng.standard_normal(D)
    A[BAD] += 2 * rng.standard_normal((BAD.sum(), D))
    return A.astype(dtype)


def mapped(A, path):
    np.save(path / "X.npy", A)
    return np.load(path / "X.npy", mmap_mode="r")


def stored_zarr(A, path):
    return zarr.open_array(zarr.create_array(path / "zarr", data=A, chunks=(10, 5)).store, mode="r")


def stored_hdf5(A, path):
    with h5py.File(path / "X.h5", "w") as file:
        file["X"] = A
    return h5py.File(path / "X.h5", "r")["X"]


def table(A):
    return pa.table(list(np.ascontiguousarray(A.T)), names=NAMES)


def parquet(A, path):
    pq.write_table(table(A), path / "X.parquet", row_group_size=17)
    return pq.ParquetFile(path / "X.parquet")


def chunked(A, chunks=(31, D)):
    return da.from_array(A, chunks=chunks)


def frame(A):
    return dd.from_pandas(pd.DataFrame(A, columns=NAMES), npartitions=5, sort=False)


KINDS = {
    "array": lambda A, path: A,
    "csr": lambda A, path: sp.csr_array(A),
    "torch": lambda A, path: torch.asarray(A),
    "memmap": mapped,
    "zarr": stored_zarr,
    "hdf5": stored_hdf5,
    "arrow": lambda A, path: table(A),
    "parquet": parquet,
    "dask": lambda A, path: chunked(A),
    "dask in 2-D chunks": lambda A, path: chunked(A, (50, 5)),
    "dask data frame": lambda A, path: frame(A),
    "dask of csr": lambda A, path: chunked(A).map_blocks(sp.csr_array),
}
ON_CLUSTER = {
    "dask": lambda A, path: chunked(A, (71, D)),
    "persisted": lambda A, path: chunked(A, (71, D)).persist(),
    "persisted in 2-D chunks": lambda A, path: chunked(A, (71, 5)).persist(),
    "persisted csr": lambda A, path: chunked(A, (71, D)).map_blocks(sp.csr_array).persist(),
    "data frame": lambda A, path: frame(A),
}

#: The residual that is asked for, in either precision.
TOL = {"float64": 1e-9, "float32": 2e-5}

KERNEL = {"kernel": "rbf", "gamma": 0.002, "random_state": 0}
FEATURES = {
    "nystroem": {"approximation": "nystroem", "n_landmarks": 20, **KERNEL},
    "rff": {"approximation": "rff", "n_random_features": 30, **KERNEL},
}
ESTIMATORS = {
    "PCA": PCA(S),
    "PCA gram": PCA(S, solver="gram"),
    "PCA krylov": PCA(S, solver="krylov", random_state=0),
    "PCA o": PCA(S, formulation="o", random_state=0),
    "PCA without centre": PCA(S, center=False, solver="gram"),
    "RobustPCA": RobustPCA(S, random_state=0),
    "KernelPCA nystroem": KernelPCA(S, **FEATURES["nystroem"]),
    "KernelPCA rff": KernelPCA(S, **FEATURES["rff"]),
    "RobustKernelPCA nystroem": RobustKernelPCA(S, **FEATURES["nystroem"]),
    "RobustKernelPCA rff": RobustKernelPCA(S, quantile=0.9, **FEATURES["rff"]),
    "SparsePCA": SparsePCA(1, n_nonzero=5, random_state=0),
}


def fit(name, dtype, X, weights=None, tol=0.0):
    # Robust kernel PCA takes long to more digits.
    tol = max(tol, TOL[dtype], 1e-5 if name.startswith("RobustKernel") else 0.0)
    return clone(ESTIMATORS[name]).set_params(tol=tol).fit(X, sample_weight=weights)


@functools.cache
def reference(name, dtype, weighted=False):
    """The model of the numpy array."""
    return fit(name, dtype, data(dtype), WEIGHTS if weighted else None)


def numbers(X):
    """X as a float64 numpy array, brought here from wherever it is."""
    return np.asarray(X, dtype=float)


def is_lazy(X):
    return hasattr(X, "__dask_graph__")


class Axes:
    """The leading eigenvectors U of the scatter of rows, by LAPACK, and how far a fit may be off.

    A fit with a relative residual r has ``||C V - V Theta|| <= error = r ||Theta||``, rounding of the
    products added. Davis and Kahan (1970): the sine of the angle between span V and span U is at
    most the error over the gap behind the last eigenvalue, and that between a column and its
    eigenvector at most the error over the distance to the nearest other eigenvalue.
    """

    def __init__(self, rows, s, residual, eps, weights=None, center=True):
        weights = np.ones(len(rows)) if weights is None else weights
        self.mean = np.average(rows, axis=0, weights=weights) if center else np.zeros(rows.shape[1])
        _, sigma, Vt = np.linalg.svd((rows - self.mean) * np.sqrt(weights)[:, None])
        values = np.zeros(rows.shape[1])
        values[: len(sigma)] = sigma**2
        self.values, self.U = values[:s], Vt[:s].T
        # Products are rounded at the size of the rows as they come, before the mean is taken off.
        size = float(weights @ (rows**2).sum(axis=1))
        self.error = residual * np.linalg.norm(self.values) + eps * size
        apart = (
            np.abs(values[:s, None] - values[None, :]) + np.diag(np.full(len(values), np.inf))[:s]
        )
        self.angles = self.error / (apart.min(axis=1) - self.error)
        self.angle = self.error / (values[s - 1] - values[s] - self.error)
        assert (np.append(self.angles, self.angle) < 0.05).all()  # else the test would say nothing


def sine(V, U):
    """Of the largest angle between the spans of orthonormal columns."""
    return np.linalg.norm(V - U @ (U.T @ V), 2)


def image(model, A):
    """What linear PCA is done of: the rows, or their features; and the rounding of its products."""
    eps = 4 * float(np.finfo(A.dtype).eps)
    sums = np.sqrt(max(A.shape))  # of so many terms
    if not hasattr(model, "features_"):
        return numbers(A), eps * sums
    # Errors of the kernels are multiplied by K_ZZ^{-1/2}.
    root = getattr(model.features_, "root", np.zeros((1, 1)))
    return numbers(model.features_(A)), eps * (sums + np.linalg.norm(root, 2))


def check(model, name, A, X, weights=None):
    """The model of X against LAPACK and the model of the numpy array A."""
    same = reference(name, str(A.dtype), weights is not None)
    rows, eps = image(same, A)
    if "Robust" in name:
        check_robust(model, same, A, X, rows, eps, weights)
    elif name == "SparsePCA":
        check_sparse(model, rows, eps, weights)
    else:
        check_pca(model, same, A, X, rows, eps, weights)


def check_pca(model, same, A, X, rows, eps, weights):
    pca = getattr(model, "pca_", model)
    assert pca.residual_ <= 1.01 * model.tol
    axes = Axes(rows, S, pca.residual_, eps, weights, model.center)
    V = numbers(pca.components_).T
    signs = np.sign((V * axes.U).sum(axis=0))
    assert (np.linalg.norm(V * signs - axes.U, axis=0) <= np.sqrt(2) * axes.angles).all()
    assert (np.sign(np.take_along_axis(V, np.abs(V).argmax(axis=0)[None], 0)) == 1).all()
    assert (np.abs(numbers(pca.singular_values_) ** 2 - axes.values) <= axes.error).all()
    size = np.linalg.norm(rows, axis=1)
    assert (np.abs(numbers(pca.mean_) - axes.mean) <= eps * size.max()).all()
    scores = model.transform(X)
    assert is_lazy(scores) == is_lazy(X)
    expected = (rows - axes.mean) @ axes.U * signs
    apart = np.linalg.norm(rows - axes.mean, axis=1)[:, None]
    allowed = np.sqrt(2) * axes.angles * apart + eps * size[:, None]
    assert (np.abs(numbers(scores) - expected) <= allowed).all()
    if pca is model:
        back = numbers(model.inverse_transform(scores))
        nearest = axes.mean + (rows - axes.mean) @ axes.U @ axes.U.T
        assert (np.abs(back - nearest) <= 2 * axes.angle * apart + 2 * eps * size[:, None]).all()


def check_sparse(model, rows, eps, weights):
    """Of all supports the one with the most variance, and its leading eigenvector."""
    weights = np.ones(len(rows)) if weights is None else weights
    centred = rows - np.average(rows, axis=0, weights=weights)
    C = (centred.T * weights) @ centred
    best = max(combinations(range(D), 5), key=lambda J: np.linalg.eigvalsh(C[np.ix_(J, J)])[-1])
    w = numbers(model.components_)[0]
    assert tuple(np.nonzero(w)[0]) == best
    values, U = np.linalg.eigh(C[np.ix_(best, best)])
    error = model.residual_ * values[-1] + eps * float(weights @ (rows**2).sum(axis=1))
    angle = error / (values[-1] - values[-2] - error)
    assert angle < 0.05
    assert 1 - abs(w[list(best)] @ U[:, -1]) <= angle**2 + eps
    assert abs(float(model.explained_variance_[0]) * (weights.sum() - 1) - values[-1]) <= error


def check_robust(model, same, A, X, rows, eps, weights):
    flagged = numbers(same.outliers_) > 0
    assert flagged[BAD].any() if "Kernel" in type(model).__name__ else (flagged == BAD).all()
    assert ((numbers(model.outliers_) > 0) == flagged).all()
    labels = model.predict(X)
    assert is_lazy(labels) == is_lazy(X)
    assert (numbers(labels) == np.where(flagged, -1, 1)).all()
    pca, other = getattr(model, "pca_", model), getattr(same, "pca_", same)
    assert model.residual_ <= 1.01 * model.tol
    good = ~flagged
    axes = Axes(rows[good], S, model.tol, eps, None if weights is None else weights[good])
    V, U = numbers(pca.components_).T, numbers(other.components_).T
    assert sine(V, U) <= 2 * axes.angle
    if pca is model:  # flagged and refitted: PCA of the others
        assert sine(V, axes.U) <= axes.angle
    # Scores that are off by the angle have a scatter that is off by twice that of their size.
    middle = numbers(other.mean_)
    apart = np.linalg.norm(rows - middle, axis=1)
    slack = 2 * axes.angle + eps
    variances = numbers(other.explained_variance_)
    error = 4 * slack * np.mean(apart[good] ** 2)
    assert (np.abs(numbers(pca.explained_variance_) - variances) <= error).all()
    off = slack * apart[good].max() + eps * np.linalg.norm(rows, axis=1).max()
    assert np.linalg.norm(numbers(pca.mean_) - middle) <= off
    gap = np.abs(np.diff(variances)).min()
    turned = np.sqrt(2) * error / (gap - error) + slack
    assert turned < 0.2
    assert np.linalg.norm(V - U, axis=0).max() <= turned
    scores = model.transform(X)
    assert is_lazy(scores) == is_lazy(X)
    assert (
        np.abs(numbers(scores) - numbers(same.transform(A))) <= turned * apart[:, None] + off
    ).all()
    for mine, theirs, scale in (
        (model.orthogonal_distances_, same.orthogonal_distances_, 1.0),
        (model.score_distances_, same.score_distances_, 1 / np.sqrt(variances.min())),
    ):
        assert is_lazy(mine) == is_lazy(X)
        allowed = scale * (turned * apart + off) + np.abs(numbers(theirs)) * error / variances.min()
        assert (np.abs(numbers(mine) - numbers(theirs)) <= allowed).all()
    w = numbers(model.weights_)
    assert w.max() == 1
    assert w[flagged].max() < np.median(w[good])


WEIGHTS = 1.0 + np.arange(N) % 3


def case(kind, name):
    """A case of a law; passes on dask cost most, and robust kernel PCA takes most of them."""
    slow = kind.startswith("dask") and name.startswith("RobustKernel")
    return pytest.param(kind, name, marks=pytest.mark.slow if slow else ())


@pytest.mark.parametrize(("kind", "name"), [case(*pair) for pair in product(KINDS, ESTIMATORS)])
def test_same_components(kind, name, tmp_path):
    A = data()
    X = KINDS[kind](A, tmp_path)
    check(fit(name, "float64", X), name, A, X)


@pytest.mark.parametrize(
    ("kind", "name"),
    [("persisted", name) for name in ESTIMATORS if name != "RobustKernelPCA nystroem"]
    + [(kind, "PCA krylov") for kind in ON_CLUSTER if kind != "persisted"]
    + [("persisted csr", "RobustPCA")],
)
def test_same_components_on_a_cluster(kind, name, client, tmp_path):
    A = data()
    X = ON_CLUSTER[kind](A, tmp_path)
    check(fit(name, "float64", X, tol=2e-5 if "Robust" in name else 0.0), name, A, X)


# Robust scatter of float32 features by landmarks has fewer digits than its variances are apart.
FLOAT32 = product(
    ("csr", "torch", "memmap", "arrow", "dask", "dask of csr"),
    sorted(set(ESTIMATORS) - {"RobustKernelPCA nystroem"}),
)


@pytest.mark.parametrize(("kind", "name"), [case(*pair) for pair in FLOAT32])
def test_same_components_of_float32(kind, name, tmp_path):
    A = data("float32")
    X = KINDS[kind](A, tmp_path)
    model = fit(name, "float32", X)
    check(model, name, A, X)
    scores = model.transform(X)
    assert str(scores.dtype).endswith("float32")
    assert numbers(scores).shape == scores.shape


@pytest.mark.parametrize(
    "name", ["PCA gram", "PCA krylov", "RobustPCA", "KernelPCA rff", "SparsePCA"]
)
@pytest.mark.parametrize("kind", ["memmap", "arrow", "torch", "dask", "dask data frame"])
def test_weights(kind, name, tmp_path):
    A = data()
    X = KINDS[kind](A, tmp_path)
    weights = {
        "dask": da.from_array(WEIGHTS, chunks=41),
        "dask data frame": dd.from_pandas(pd.Series(WEIGHTS), npartitions=3, sort=False),
    }.get(kind, WEIGHTS)
    if kind == "dask data frame":
        weights = weights.to_dask_array(lengths=True)
    check(fit(name, "float64", X, weights), name, A, X, WEIGHTS)


@pytest.mark.parametrize("dtype", TOL)
def test_rows_of_no_weight(dtype):
    """They stay among the rows of dask data, weigh nothing and are judged like new ones."""
    A, weights = data(dtype), (np.arange(N) % 4 > 0).astype(float)
    options = {"n_components": S, "random_state": 0, "tol": TOL[dtype]}
    same = RobustPCA(**options).fit(A, sample_weight=weights)
    model = RobustPCA(**options).fit(chunked(A), sample_weight=weights)
    axes = Axes(A[(weights > 0) & ~BAD].astype(float), S, TOL[dtype], image(same, A)[1])
    assert sine(numbers(model.components_).T, axes.U) <= axes.angle
    assert sine(numbers(same.components_).T, axes.U) <= axes.angle
    assert (numbers(model.outliers_) == numbers(same.outliers_)).all()
    assert np.isfinite(numbers(model.weights_)).all()


def odd_arrays():
    """Dask arrays that are unusual in one way each, and the matrix they are."""
    A = data()
    whole, some = chunked(A), np.arange(N) % 3 > 0
    yield "empty chunks", da.concatenate([whole[:0], whole[:90], whole[90:90], whole[90:]]), A
    yield "unknown chunks", whole[da.from_array(some, chunks=31)], A[some]
    none_of_some = some & ~((np.arange(N) >= 31) & (np.arange(N) < 62))
    yield "unknown empty chunks", whole[da.from_array(none_of_some, chunks=31)], A[none_of_some]
    yield "single rows", chunked(A[:40], (1, 4)), A[:40]
    yield "one chunk", chunked(A, (N, D)), A
    yield "integers", chunked((10 * A).astype(int)), (10 * A).astype(int)
    yield "booleans", chunked(A) > 0, A > 0
    yield "fewer rows than columns", chunked(A[:9], (4, D)), A[:9]
    f4 = whole.map_blocks(lambda b: b.astype("f4"), dtype="f8", meta=np.empty((0, 0)))
    yield "float32 that says float64", f4, A.astype("f4")
    sparse = whole.map_blocks(sp.csr_matrix, dtype="f8", meta=np.empty((0, 0)))
    yield "sparse that says dense", sparse, A
    yield "dense that says sparse", whole.map_blocks(lambda b: b, meta=sp.csr_array((0, 0))), A
    yield "coo", whole.map_blocks(sp.coo_array, dtype="f8", meta=np.empty((0, 0))), A
    yield "a transform of others", da.tanh(whole)[:, ::-1] * 2, np.tanh(A)[:, ::-1] * 2


@pytest.mark.parametrize("solver", ["gram", "krylov"])
@pytest.mark.parametrize(("X", "A"), [pytest.param(X, A, id=name) for name, X, A in odd_arrays()])
def test_odd_dask_arrays(X, A, solver):
    name, chunks, keys = X.name, X.chunks, set(X.__dask_graph__())
    model = PCA(S, solver=solver, tol=1e-6, random_state=0).fit(X)
    rows = A.astype(float)
    eps = 4 * float(np.finfo(str(model.components_.dtype)).eps) * np.sqrt(max(A.shape))
    assert str(model.components_.dtype) == ("float32" if A.dtype == np.float32 else "float64")
    check_pca(model, None, A, X, rows, eps, None)
    assert (X.name, set(X.__dask_graph__())) == (name, keys)  # the user's object is as it was
    assert str(X.chunks) == str(chunks)


@pytest.mark.parametrize("kind", ["zarr", "dask", "dask in 2-D chunks"])
def test_a_huge_mean_costs_no_digits(kind, tmp_path):
    A = data() + 1e7
    model = PCA(S, solver="gram").fit(KINDS[kind](A, tmp_path))
    axes = Axes(A - 1e7, S, 1e-12, 0.0)  # what the data has left of them is exact
    assert sine(numbers(model.components_).T, axes.U) <= axes.angle


@pytest.mark.slow
def test_no_more_than_a_sample_comes_here(monkeypatch):
    """Fits and transforms leave what has a row for each row of the data where it is."""
    monkeypatch.setattr("dualpca.operators.dask.row_arrays.SAMPLE_ROWS", 50)
    monkeypatch.setattr("dualpca.robust.sample.ROWS", 100)
    seen = []
    compute, one = da.Array.compute, dualpca.operators.dask.distributed.compute

    def watched(array, **options):
        seen.append(array.shape)
        return compute(array, **options)

    def watched_too(value):
        found = one(value)
        parts = found if isinstance(found, tuple) else (found,)
        seen.extend(part.shape for part in parts if hasattr(part, "shape"))
        taken = [block.shape[0] for part in parts if isinstance(part, list) for _, block in part]
        seen.append((sum(taken),))
        return found

    monkeypatch.setattr(da.Array, "compute", watched)
    monkeypatch.setattr(dualpca.operators.dask.distributed, "compute", watched_too)
    X = chunked(data())
    for name, estimator in ESTIMATORS.items():
        model = clone(estimator).fit(X)
        lazy = [model.transform(X)]
        if name.startswith("Robust"):
            lazy += [model.predict(X), *model.distances(X), model.outliers_, model.weights_]
        else:
            lazy += [model.fit_transform(X)]
        assert all(isinstance(array, da.Array) and array.shape[0] == N for array in lazy)
    lazy = PCA(S).fit(X).score_samples(X), RobustPCA(S, random_state=0).fit(X).contributions(X)
    lazy += (RobustKernelPCA(S, **FEATURES["rff"]).fit_predict(X),)
    assert all(isinstance(array, da.Array) for array in lazy)
    assert len(seen) > 50
    assert max(shape[0] for shape in seen if shape) <= 100


LIKE = ["csr", "torch", "memmap", "zarr", "arrow", "dask", "dask in 2-D chunks", "dask of csr"]


@pytest.mark.parametrize("kind", LIKE)
def test_other_methods(kind, tmp_path):
    """Each as of the array, to rounding: the models are those of the same arrays."""
    A = data()
    X = KINDS[kind](A, tmp_path)
    models = PCA(solver="gram").path(X, [1, S])
    for model, same in zip(models, PCA(solver="gram").path(A, [1, S]), strict=True):
        assert numbers(model.components_) == pytest.approx(numbers(same.components_), abs=1e-10)
    if kind != "csr":
        assert numbers(model.score_samples(X)) == pytest.approx(same.score_samples(A), rel=1e-9)
        assert model.score(X) == pytest.approx(same.score(A), rel=1e-9)
    parts = PCA(S).partial_fit(X).partial_fit(X), PCA(S).partial_fit(A).partial_fit(A)
    assert numbers(parts[0].components_) == pytest.approx(numbers(parts[1].components_), abs=1e-10)
    model, same = (RobustPCA(S, random_state=0).fit(Y) for Y in (X, A))
    # Flagged rows are refitted by a Gram matrix: the same rows, the same subspace.
    assert numbers(model.contributions(X)) == pytest.approx(same.contributions(A), abs=1e-8)
    assert numbers(model.score_samples(X)) == pytest.approx(same.score_samples(A), abs=1e-8)
    assert (numbers(RobustPCA(S, random_state=0).fit_predict(X)) == same.predict(A)).all()


@pytest.mark.parametrize("inverse", ["ridge", "fixed_point"])
@pytest.mark.parametrize("kind", ["memmap", "zarr", "arrow", "dask", "dask data frame"])
def test_way_back_from_features(kind, inverse, tmp_path):
    A = data()
    X = KINDS[kind](A, tmp_path)
    options = {
        **FEATURES["nystroem"],
        "fit_inverse_transform": True,
        "inverse": inverse,
        "tol": 1e-9,
    }
    model, same = (KernelPCA(S, **options).fit(Y) for Y in (X, A))
    back = model.inverse_transform(model.transform(X))
    assert is_lazy(back) == is_lazy(X)
    assert numbers(back) == pytest.approx(same.inverse_transform(same.transform(A)), abs=1e-4)


@pytest.mark.parametrize("kind", ["zarr", "dask"])
def test_pursuit_has_the_data_in_memory(kind, tmp_path):
    A = data()
    options = {"lam": 0.5, "tol": 1e-4}
    model, same = (
        PrincipalComponentPursuit(**options).fit(Y) for Y in (KINDS[kind](A, tmp_path), A)
    )
    assert isinstance(model.low_rank_, np.ndarray)
    assert model.low_rank_ == pytest.approx(same.low_rank_, abs=1e-10)


FORMULATIONS = [f for f in dualpca.FORMULATIONS if not f.startswith(("robust", "sparse"))]


@pytest.mark.parametrize("kind", ["dask", "zarr"])
@pytest.mark.parametrize("formulation", FORMULATIONS)
def test_formulations(formulation, kind, tmp_path):
    A = data()
    X = KINDS[kind](A, tmp_path)
    model = PCA(S, formulation=formulation, tol=1e-6, random_state=0).fit(X)
    check_pca(model, None, A, X, A, 4e-15 * np.sqrt(N), None)


@pytest.mark.parametrize("solver", ["auto", "irls", "dca", "anderson"])
def test_robust_solvers_on_dask(solver):
    A = data()[:, :6]  # "auto" is IRLS here
    model = RobustPCA(S, solver=solver, random_state=0).fit(chunked(A, (31, 6)))
    same = RobustPCA(S, solver=solver, random_state=0).fit(A)
    axes = Axes(A[~numbers(same.outliers_).astype(bool)], S, 1e-4, 1e-13)
    assert sine(numbers(model.components_).T, numbers(same.components_).T) <= 2 * axes.angle


def small(kind, path, A=None):
    return KINDS[kind](data() if A is None else A, path)


def refused():
    """What no estimator can do, and the words in which it says so."""
    in_memory = r"needs X in memory; use approximation='nystroem'"
    for kind in ("zarr", "hdf5", "parquet", "arrow", "dask", "dask data frame"):
        for estimator in (KernelPCA(S, kernel="rbf"), RobustKernelPCA(S, kernel="rbf")):
            yield estimator, kind, in_memory
    for kind in ("zarr", "dask", "csr"):
        yield PCA(S, solver="lapack"), kind, "solver='lapack' needs a dense array in memory"
    for center in ("median", "geometric_median"):
        yield RobustPCA(S, center=center), "dask", f"center='{center}' needs whole columns"
    yield RobustPCA(S, solver="dual"), "dask", "solver='dual' iterates on a row for each row"
    yield PCA(D + 1), "dask", f"n_components={D + 1} must be between 1 and"
    yield PCA(D + 1), "parquet", f"n_components={D + 1} must be between 1 and"
    back = KernelPCA(S, **FEATURES["nystroem"], fit_inverse_transform=True)
    yield back, "dask of csr", "needs dense rows to return to"


@pytest.mark.parametrize(("estimator", "kind", "match"), list(refused()))
def test_refused(estimator, kind, match, tmp_path):
    with pytest.raises(ValueError, match=match):
        estimator.fit(small(kind, tmp_path))


@pytest.mark.parametrize("estimator", [PCA(S), RobustPCA(S), KernelPCA(S, **FEATURES["rff"])])
@pytest.mark.parametrize("bad", [np.nan, np.inf])
@pytest.mark.parametrize("kind", ["memmap", "zarr", "hdf5", "parquet", "dask", "dask data frame"])
def test_a_bad_number_in_the_last_block(kind, bad, estimator, tmp_path):
    A = data()
    A[N - 1, 2] = bad
    with pytest.raises(
        ValueError, match=r"contains NaN or infinity, which \w+ does not accept; use"
    ):
        clone(estimator).fit(small(kind, tmp_path, A))


def not_numbers():
    A = data()
    text = pd.DataFrame(A, columns=NAMES).assign(t="a")
    yield (
        "data frame",
        dd.from_pandas(text, npartitions=2),
        ValueError,
        r"columns \['t'\] of X are not",
    )
    yield "arrow", pa.Table.from_pandas(text), ValueError, "column 't' has type"
    yield "complex", chunked(A) * 1j, ValueError, "dtype complex128; give real numbers"
    yield "object", chunked(A).astype(object), ValueError, "dtype object; give real numbers"
    yield (
        "masked",
        da.ma.masked_array(chunked(A), chunked(A) > 3),
        ValueError,
        "masked; give matrices",
    )
    yield "a vector", chunked(A)[:, 0], ValueError, "Expected 2D array, got 1D"
    yield "no rows", chunked(A)[:0], ValueError, r"shape=\(0, 12\) while a minimum"
    yield "no columns", chunked(A)[:, :0], ValueError, r"shape=\(203, 0\) while a minimum"
    yield "delayed", dask.delayed(A), TypeError, "X is a dask Delayed.*; give a dask array"
    wrong = chunked(A).map_blocks(lambda b: b[:-1], dtype=float, meta=np.empty((0, 0)))
    yield "wrong chunks", wrong, ValueError, "rows where its chunks say"


@pytest.mark.parametrize(
    ("X", "error", "match"), [pytest.param(*case, id=name) for name, *case in not_numbers()]
)
def test_not_a_matrix_of_numbers(X, error, match):
    with pytest.raises(error, match=match):
        PCA(S).fit(X)


def test_weights_that_do_not_fit():
    X = chunked(data())
    with pytest.raises(
        ValueError, match=r"sample_weight has shape \(3,\); give one weight for each"
    ):
        PCA(S).fit(X, sample_weight=np.ones(3))
    with pytest.raises(ValueError, match=r"smallest entry -1\.0"):
        RobustPCA(S).fit(X, sample_weight=-da.ones(N, chunks=10))


TABLES = ["arrow", "parquet", "dask data frame"]


@pytest.mark.parametrize("estimator", [PCA(S), RobustPCA(S), KernelPCA(S, **FEATURES["nystroem"])])
@pytest.mark.parametrize("kind", TABLES)
def test_names_of_columns(kind, estimator, tmp_path):
    A = data()
    model = clone(estimator).fit(small(kind, tmp_path))
    assert list(model.feature_names_in_) == NAMES
    pandas = pd.DataFrame(A, columns=NAMES)
    for X in (small(kind, tmp_path), table(A), frame(A), pandas):
        assert numbers(model.transform(X)) == pytest.approx(numbers(model.transform(pandas)))
    turned = NAMES[::-1]
    for X in (table(A).select(turned), frame(A)[turned]):
        with pytest.raises(ValueError, match=r"(?s)feature names should match.*order"):
            model.transform(X)
    with pytest.raises(ValueError, match=r"(?s)feature names should match.*x11"):
        model.transform(table(A).select(NAMES[:-1]))
    with pytest.warns(UserWarning, match="does not have valid feature names"):
        model.transform(chunked(A))
    plain = clone(estimator).fit(chunked(A))
    assert not hasattr(plain, "feature_names_in_")
    with pytest.warns(UserWarning, match="was fitted without feature names"):
        plain.transform(table(A))


def test_numbered_columns_have_no_names():
    A = data()
    model = PCA(S).fit(dd.from_pandas(pd.DataFrame(A), npartitions=3, sort=False))
    assert not hasattr(model, "feature_names_in_")
    assert numbers(model.transform(A)) == pytest.approx(numbers(PCA(S).fit_transform(A)))


@pytest.mark.parametrize("estimator", [PCA(S), RobustPCA(S), KernelPCA(S, **FEATURES["rff"])])
@pytest.mark.parametrize("kind", ["memmap", "zarr", "dask", "csr"])
def test_wrong_number_of_columns(kind, estimator, tmp_path):
    model = clone(estimator).fit(data())
    with pytest.raises(ValueError, match=r"X has 5 features, but .* is expecting 12"):
        model.transform(small(kind, tmp_path, data()[:, :5]))


def digest(path):
    files = sorted(p for p in path.rglob("*") if p.is_file())
    return [(p, hashlib.sha256(p.read_bytes()).hexdigest(), p.stat().st_mtime_ns) for p in files]


@pytest.mark.parametrize("kind", ["memmap", "zarr", "hdf5", "parquet"])
def test_files_stay_as_they_are(kind, tmp_path):
    X = small(kind, tmp_path)
    before = digest(tmp_path)
    assert before
    for name, estimator in ESTIMATORS.items():
        model = clone(estimator).fit(X)
        model.transform(X)
        if name.startswith("Robust"):
            model.predict(X)
    assert digest(tmp_path) == before


def test_fit_on_one_kind_transform_another(tmp_path):
    """Axes of the process go with any data of numpy's kind."""
    A = data()
    scores = numbers(PCA(S, solver="gram").fit_transform(A))
    inputs = [small(kind, tmp_path) for kind in KINDS if kind not in {"torch", *TABLES}]
    for X in inputs:
        model = PCA(S, solver="gram").fit(X)
        for other in inputs:
            assert numbers(model.transform(other)) == pytest.approx(scores, abs=1e-10)


def test_an_operator_with_blocks_of_its_own_size(tmp_path):
    A = data()
    X = as_operator(small("memmap", tmp_path), block_bytes=5 * D * 8)
    for name in ("PCA krylov", "RobustPCA", "SparsePCA"):
        check(fit(name, "float64", X), name, A, X)
