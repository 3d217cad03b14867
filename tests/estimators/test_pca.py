"""PCA against scikit-learn and LAPACK, over kinds of data, solvers and formulations."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose, assert_array_equal
from scipy.stats import multivariate_normal
from sklearn.base import clone
from sklearn.decomposition import PCA as Oracle  # noqa: N811
from sklearn.exceptions import ConvergenceWarning, NotFittedError

from dualpca import PCA, DCProblem
from dualpca.formulations import formulation
from dualpca.functions import HalfSquare, Lp, Power, Spectral
from dualpca.solvers import DCA, ProximalGradient, ZeroFPR

DIRECT = ["lapack", "gram"]
KRYLOV = ["krylov"]
ITERATIVE = ["dca", "proximal_gradient", "zerofpr", "simultaneous"]
SOLVERS = ["auto", *DIRECT, *KRYLOV, *ITERATIVE]
LETTERS = ["d", "l", "g", "m", "n", "o", "p", "q", "k", "holder_dual"]
TRANSPOSED = ["nT", "gT", "oT", "kT"]


def matrix(N, d, *, rank=None, ratio=0.5, offset=1.0, seed=0, dtype=np.float64):
    """Rows with singular values ratio^i and a mean: gaps that every solver closes quickly."""
    rng = np.random.default_rng(seed)
    rank = min(N, d) if rank is None else rank
    U = np.linalg.qr(rng.standard_normal((N, rank)))[0]
    V = np.linalg.qr(rng.standard_normal((d, rank)))[0]
    sigma = 10 * np.maximum(ratio ** np.arange(rank), 1e-2)
    return ((U * sigma) @ V.T + offset * rng.standard_normal(d)).astype(dtype)


def precise(s=None, **options):
    """PCA that iterates as far as float64 goes in these tests."""
    return PCA(s, **{"tol": 1e-10, "max_iter": 5000, "random_state": 0, **options})


def numpy_of(array):
    return array.numpy() if hasattr(array, "numpy") else np.asarray(array)


def aligned(V, reference):
    """The rows of V with the signs of the reference's."""
    return V * np.where(np.sum(V * reference, axis=1) < 0, -1, 1)[:, None]


def assert_same_spectrum(pca, oracle, rtol=1e-6):
    scale = oracle.explained_variance_[0]
    assert pca.n_components_ == oracle.n_components_
    assert_allclose(pca.mean_, oracle.mean_, rtol=rtol, atol=rtol * np.sqrt(scale))
    assert_allclose(pca.explained_variance_, oracle.explained_variance_, rtol=0, atol=rtol * scale)
    assert_allclose(
        pca.explained_variance_ratio_, oracle.explained_variance_ratio_, rtol=0, atol=rtol
    )
    assert_allclose(
        pca.singular_values_,
        oracle.singular_values_,
        rtol=0,
        atol=rtol * oracle.singular_values_[0],
    )
    assert_allclose(pca.noise_variance_, oracle.noise_variance_, rtol=0, atol=rtol * scale)


def assert_same_axes(pca, oracle, rtol=1e-6):
    """Axes that carry variance agree up to sign; the others complete an orthonormal system."""
    V = numpy_of(pca.components_)
    assert V.shape == oracle.components_.shape
    assert_allclose(V @ V.T, np.eye(len(V)), rtol=0, atol=rtol)
    k = int(np.sum(oracle.explained_variance_ > 1e-12 * oracle.explained_variance_[0]))
    assert_allclose(aligned(V[:k], oracle.components_[:k]), oracle.components_[:k], atol=rtol)


def assert_same_model(pca, oracle, X, fresh, rtol=1e-6):
    """Everything scikit-learn's PCA offers, on new rows."""
    assert_same_spectrum(pca, oracle, rtol)
    assert_same_axes(pca, oracle, rtol)
    scale = np.sqrt(oracle.explained_variance_[0])
    k = int(np.sum(oracle.explained_variance_ > 1e-12 * oracle.explained_variance_[0]))
    scores, expected = pca.transform(fresh), oracle.transform(fresh)
    assert scores.shape == expected.shape
    assert_allclose(aligned(scores.T[:k], expected.T[:k]), expected.T[:k], atol=rtol * scale)
    if k == len(oracle.components_):  # null axes are anyone's choice, and so is their projection
        back = oracle.inverse_transform(expected)
        assert_allclose(pca.inverse_transform(scores), back, rtol=rtol, atol=rtol * scale)
    trained = pca.inverse_transform(pca.transform(X))
    assert_allclose(
        trained, oracle.inverse_transform(oracle.transform(X)), rtol=rtol, atol=rtol * scale
    )
    covariance = oracle.get_covariance()
    assert_allclose(pca.get_covariance(), covariance, rtol=0, atol=rtol * scale**2)
    assert_array_equal(pca.get_feature_names_out(), oracle.get_feature_names_out())


def assert_same_likelihood(pca, oracle, fresh, rtol=1e-6):
    precision = oracle.get_precision()
    assert_allclose(pca.get_precision(), precision, atol=rtol * np.max(np.abs(precision)))
    assert_allclose(pca.score_samples(fresh), oracle.score_samples(fresh), rtol=rtol)
    assert_allclose(pca.score(fresh), oracle.score(fresh), rtol=rtol)


SHAPES = {
    "tall": ({"N": 60, "d": 8}, 3),
    "tall, one component": ({"N": 60, "d": 8}, 1),
    "wide": ({"N": 9, "d": 50}, 3),
    "square": ({"N": 12, "d": 12}, 4),
    "rank-deficient": ({"N": 40, "d": 10, "rank": 5}, 3),
    "rank-deficient and wide": ({"N": 12, "d": 40, "rank": 5}, 3),
    "s = rank": ({"N": 40, "d": 10, "rank": 4, "offset": 0.0}, 4),
    "s above the rank": ({"N": 40, "d": 10, "rank": 4}, 7),
    "s = d": ({"N": 30, "d": 5}, 5),
    "s = N": ({"N": 5, "d": 30}, 5),
    "one feature": ({"N": 20, "d": 1}, 1),
    "two rows": ({"N": 2, "d": 5}, 1),
    "two rows and two components": ({"N": 2, "d": 5}, 2),
}


@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("case", SHAPES)
def test_agrees_with_scikit_learn(case, solver):
    shape, s = SHAPES[case]
    X, fresh = matrix(**shape), np.random.default_rng(1).standard_normal((7, shape["d"]))
    pca = precise(s, solver=solver).fit(X)
    assert_same_model(pca, Oracle(s, svd_solver="full").fit(X), X, fresh)
    assert pca.residual_ <= 1e-10
    assert pca.n_samples_ == shape["N"]
    assert pca.n_features_in_ == shape["d"]
    assert pca.solver_.split()[0].rstrip(":") == ("lapack" if solver == "auto" else solver)


@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("whiten", [False, True])
def test_likelihood_agrees_with_scikit_learn(solver, whiten):
    X, fresh = matrix(60, 8), matrix(15, 8, seed=1)
    # Not whitened: scikit-learn's covariance multiplies whitened axes by the variance twice.
    oracle = Oracle(3, svd_solver="full").fit(X)
    assert_same_likelihood(precise(3, solver=solver, whiten=whiten).fit(X), oracle, fresh)


def test_likelihood_without_noise_is_that_of_a_gaussian():
    X, fresh = matrix(60, 6), matrix(15, 6, seed=1)
    pca = PCA(solver="lapack").fit(X)
    gaussian = multivariate_normal(X.mean(axis=0), np.cov(X.T))
    assert_allclose(pca.score_samples(fresh), gaussian.logpdf(fresh), rtol=1e-6)
    assert_allclose(pca.get_precision() @ pca.get_covariance(), np.eye(6), atol=1e-8)


@pytest.mark.parametrize("letter", LETTERS + TRANSPOSED)
@pytest.mark.parametrize("solver", ["auto", *ITERATIVE])
@pytest.mark.parametrize("shape", [(50, 8), (9, 40)], ids=["tall", "wide"])
def test_every_formulation_gives_the_same_components(letter, solver, shape):
    X = matrix(*shape)
    pca = precise(3, solver=solver, formulation=letter).fit(X)
    oracle = Oracle(3, svd_solver="full").fit(X)
    assert_same_model(pca, oracle, X, matrix(*shape, seed=1))
    assert pca.residual_ <= 1e-10
    assert pca.solver_.split()[0].rstrip(":") == ("dca" if solver == "auto" else solver)


@pytest.mark.parametrize(
    "chosen",
    [
        lambda X: formulation("k", X),
        lambda X: formulation("g", X),
        lambda X: DCProblem(Spectral(Power(3)), HalfSquare(Lp(2)), X),
        lambda X: DCProblem(Spectral(Power(3)), HalfSquare(Lp(2)), X).dual,
    ],
    ids=["k", "g", "Schatten 3", "its dual"],
)
def test_formulation_of_your_own(chosen):
    X = matrix(50, 8)
    pca = precise(3, formulation=chosen).fit(X)
    assert_same_axes(pca, Oracle(3, svd_solver="full").fit(X))


def test_formulation_of_your_own_is_given_the_centred_data():
    X, seen = matrix(50, 8), []

    def spy(operator):
        seen.append(operator)
        return formulation("n", operator)

    PCA(2, formulation=spy).fit(X)
    (operator,) = seen
    assert_allclose(operator @ np.eye(8), X - X.mean(axis=0), atol=1e-12)


@pytest.mark.parametrize(
    "solver",
    [DCA(), ZeroFPR(memory=3), ProximalGradient(gamma=0.05)],
    ids=lambda s: type(s).__name__,
)
def test_solver_objects(solver):
    X = matrix(50, 8)
    pca = precise(3, solver=solver).fit(X)
    assert_same_axes(pca, Oracle(3, svd_solver="full").fit(X))
    assert pca.solver_.split()[0].rstrip(":") == type(solver).__name__


@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("n_components", [None, 0.5, 0.9, 0.999, "mle"])
@pytest.mark.parametrize("shape", [(50, 6), (60, 12)])
def test_choice_of_the_number_of_components(n_components, solver, shape):
    X = matrix(*shape, ratio=0.6)
    X = X + 0.05 * np.random.default_rng(2).standard_normal(shape)
    pca = precise(n_components, solver=solver).fit(X)
    oracle = Oracle(n_components, svd_solver="full").fit(X)
    assert_same_model(pca, oracle, X, matrix(*shape, seed=1))
    assert pca.components_.shape[0] == pca.n_components_ == len(pca.explained_variance_)


@pytest.mark.parametrize("n_components", [None, 0.5, 0.99])
def test_choice_of_the_number_of_components_of_wide_data(n_components):
    X = matrix(8, 30, ratio=0.7)
    oracle = Oracle(n_components, svd_solver="full").fit(X)
    assert_same_spectrum(PCA(n_components).fit(X), oracle)


@pytest.mark.parametrize("seed", range(8))
def test_minka_agrees_with_scikit_learn(seed):
    rng = np.random.default_rng(seed)
    N, d, k = rng.integers(30, 200), rng.integers(3, 20), rng.integers(1, 3)
    X = 3 * rng.standard_normal((N, k)) @ rng.standard_normal((k, d)) + rng.standard_normal((N, d))
    expected = Oracle("mle", svd_solver="full").fit(X).n_components_
    assert PCA("mle").fit(X).n_components_ == expected


def test_minka_of_two_features_and_of_deficient_rank():
    rng = np.random.default_rng(0)
    line = rng.standard_normal((40, 1)) @ rng.standard_normal((1, 2))
    assert PCA("mle").fit(line + 0.01 * rng.standard_normal((40, 2))).n_components_ == 1
    assert PCA("mle").fit(matrix(40, 6, rank=2, offset=0.0)).n_components_ <= 2


def test_fraction_is_reached_and_not_exceeded_by_need():
    X = matrix(60, 10, ratio=0.8)
    for fraction in np.linspace(0.05, 0.99, 20):
        ratio = PCA(fraction).fit(X).explained_variance_ratio_
        assert ratio.sum() > fraction
        assert ratio[:-1].sum() <= fraction


@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("shape", [(40, 8), (8, 40)], ids=["tall", "wide"])
def test_uncentred_agrees_with_the_svd(solver, shape):
    X, fresh = matrix(*shape), matrix(*shape, seed=1)
    pca = precise(3, center=False, solver=solver).fit(X)
    _, sigma, Vt = np.linalg.svd(X, full_matrices=False)
    variance = sigma**2 / (shape[0] - 1)
    assert_allclose(aligned(pca.components_, Vt[:3]), Vt[:3], atol=1e-6)
    assert_allclose(pca.singular_values_, sigma[:3], rtol=1e-6)
    assert_allclose(pca.explained_variance_, variance[:3], rtol=1e-6)
    assert_allclose(pca.explained_variance_ratio_, (variance / variance.sum())[:3], rtol=1e-6)
    assert_allclose(pca.noise_variance_, variance[3:].mean(), rtol=1e-6)
    assert_array_equal(pca.mean_, np.zeros(shape[1]))
    assert_allclose(pca.transform(fresh), fresh @ pca.components_.T, atol=1e-10)
    projector = pca.components_.T @ pca.components_
    assert_allclose(pca.inverse_transform(pca.transform(fresh)), fresh @ projector, atol=1e-10)


@pytest.mark.parametrize("kind", [sp.csr_array, sp.csc_array, sp.csr_matrix, sp.coo_array])
@pytest.mark.parametrize("solver", ["auto", "gram", *KRYLOV, *ITERATIVE])
@pytest.mark.parametrize("shape", [(80, 12), (12, 80)], ids=["tall", "wide"])
def test_sparse_agrees_with_dense(kind, solver, shape):
    rng = np.random.default_rng(0)
    dense = matrix(*shape) * (rng.random(shape) < 0.3)
    dense[:, :3] *= np.array([8, 5, 3])
    fresh = matrix(*shape, seed=1) * (rng.random(shape) < 0.3)
    pca = precise(3, solver=solver).fit(kind(dense))
    oracle = Oracle(3, svd_solver="full").fit(dense)
    assert_same_model(pca, oracle, dense, fresh)
    expected = oracle.transform(fresh)
    assert_allclose(aligned(pca.transform(kind(fresh)).T, expected.T), expected.T, atol=1e-6)
    assert isinstance(pca.components_, np.ndarray)
    assert_allclose(clone(pca).fit_transform(kind(dense)), pca.transform(kind(dense)), atol=1e-9)


@pytest.mark.parametrize("solver", ["auto", "gram", "dca"])
def test_sparse_uncentred(solver):
    dense = matrix(60, 10) * (np.random.default_rng(0).random((60, 10)) < 0.4)
    pca = precise(2, solver=solver, center=False).fit(sp.csr_array(dense))
    assert_allclose(pca.transform(sp.csr_array(dense)), dense @ pca.components_.T, atol=1e-10)
    _, sigma, Vt = np.linalg.svd(dense, full_matrices=False)
    assert_allclose(pca.singular_values_, sigma[:2], rtol=1e-6)
    assert_allclose(aligned(pca.components_, Vt[:2]), Vt[:2], atol=1e-6)


def test_sparse_data_is_left_sparse(monkeypatch):
    def refuse(*args, **kwargs):
        raise AssertionError("sparse data was made dense")

    X = sp.random_array((50, 400), density=0.05, rng=0, format="csr")
    monkeypatch.setattr(sp.csr_array, "toarray", refuse)
    monkeypatch.setattr(sp.csr_array, "todense", refuse)
    assert PCA(2, solver="dca", tol=1e-2, random_state=0).fit(X).transform(X).shape == (50, 2)


@pytest.mark.parametrize("solver", SOLVERS)
def test_float32_stays_float32_and_close(solver):
    X = matrix(60, 8, dtype=np.float32)
    pca = PCA(3, solver=solver, tol=1e-6, max_iter=5000, random_state=0).fit(X)
    oracle = Oracle(3, svd_solver="full").fit(X.astype(np.float64))
    fresh = matrix(20, 8, seed=1, dtype=np.float32)
    assert_same_model(pca, oracle, X, fresh, rtol=1e-4)
    for array in (
        pca.components_,
        pca.explained_variance_,
        pca.explained_variance_ratio_,
        pca.singular_values_,
        pca.mean_,
        pca.transform(fresh),
        pca.fit_transform(X),
        pca.inverse_transform(pca.transform(fresh)),
        pca.get_covariance(),
        pca.get_precision(),
        pca.score_samples(fresh),
    ):
        assert array.dtype == np.float32


def test_eigenvalues_of_float32_have_more_digits_than_squaring_leaves():
    X = matrix(400, 30, ratio=0.9, offset=0.0, dtype=np.float32)
    expected = Oracle(10, svd_solver="full").fit(X.astype(np.float64)).explained_variance_
    for solver in DIRECT:
        assert_allclose(PCA(10, solver=solver).fit(X).explained_variance_, expected, rtol=2e-6)


@pytest.mark.parametrize("dtype", [np.int8, np.int64, np.uint8, np.bool_, np.float16])
def test_other_real_dtypes_become_float64(dtype):
    X = np.random.default_rng(0).integers(0, 100, (30, 5)).astype(dtype)
    pca = precise(2).fit(X)
    assert pca.components_.dtype == np.float64
    assert_same_model(
        pca, Oracle(2, svd_solver="full").fit(X.astype(float)), X, X[:5].astype(float)
    )


@pytest.mark.parametrize("solver", SOLVERS)
def test_offset_a_million_times_the_spread(solver):
    spread = matrix(60, 8, offset=0.0)
    X = spread + 1e6 * np.abs(spread).max()
    fresh = matrix(10, 8, seed=1, offset=0.0) + X.mean(axis=0)
    oracle = Oracle(3, svd_solver="full").fit(X)
    # The data itself is rounded at 1e6 eps = 2e-10 of its spread, and so is the residual.
    pca = PCA(3, solver=solver, tol=1e-9, max_iter=5000, random_state=0).fit(X)
    assert_same_model(pca, oracle, X, fresh)


@pytest.mark.parametrize("solver", SOLVERS)
def test_offset_a_thousand_times_the_spread_in_float32(solver):
    spread = matrix(60, 8, offset=0.0)
    X = (spread + 1e3 * np.abs(spread).max()).astype(np.float32)
    oracle = Oracle(3, svd_solver="full").fit(X.astype(np.float64))
    pca = PCA(3, solver=solver, tol=2e-5, max_iter=5000, random_state=0).fit(X)
    assert_same_spectrum(pca, oracle, rtol=1e-3)
    assert_same_axes(pca, oracle, rtol=1e-3)
    expected = oracle.transform(X).T
    scores = pca.transform(X)
    assert scores.dtype == np.float32
    assert_allclose(aligned(scores.T, expected), expected, atol=1e-3 * np.abs(expected).max())


@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("scale", [1e-150, 1e-30, 1e30, 1e150])
def test_extreme_scales(solver, scale):
    X = matrix(40, 6)
    plain, scaled = (precise(2, solver=solver).fit(A) for A in (X, X * scale))
    assert_allclose(aligned(scaled.components_, plain.components_), plain.components_, atol=1e-6)
    assert_allclose(scaled.singular_values_ / scale, plain.singular_values_, rtol=1e-6)


@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("value", [0.0, 0.1, 1e6])
def test_constant_rows_have_no_variance(solver, value):
    X = np.full((20, 4), value)
    pca = PCA(2, solver=solver, random_state=0).fit(X)
    assert_allclose(pca.explained_variance_, 0, atol=1e-20 * (1 + value**2))
    assert_allclose(pca.transform(X), 0, atol=1e-9 * (1 + value))
    assert np.all(np.isfinite(pca.explained_variance_ratio_))
    assert_allclose(pca.inverse_transform(pca.transform(X)), X, rtol=1e-12)


@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.int16])
@pytest.mark.parametrize("solver", SOLVERS)
def test_memory_map(tmp_path, dtype, solver):
    X = (10 * matrix(60, 8)).astype(dtype)
    np.save(tmp_path / "X.npy", X)
    mapped = np.load(tmp_path / "X.npy", mmap_mode="r")
    tol = 1e-5 if dtype == np.float32 else 1e-10
    options = {"solver": solver, "tol": tol, "max_iter": 50_000, "random_state": 0}
    pca = PCA(3, **options).fit(mapped)
    oracle = Oracle(3, svd_solver="full").fit(X.astype(np.float64))
    assert_same_model(pca, oracle, X.astype(np.float64), mapped, rtol=1e-4 if tol > 1e-6 else 1e-6)
    expected = np.float32 if dtype == np.float32 else np.float64
    assert pca.components_.dtype == expected
    assert pca.fit_transform(mapped).dtype == expected
    assert_array_equal(mapped, X)


@pytest.mark.parametrize("solver", ["gram", "krylov", "dca", "zerofpr"])
@pytest.mark.parametrize("shape", [(700, 9), (9, 700)], ids=["tall", "wide"])
def test_memory_map_in_many_blocks(tmp_path, monkeypatch, solver, shape):
    monkeypatch.setattr("dualpca.operators.block_ops.BLOCK_BYTES", 1)
    X = matrix(*shape)
    np.save(tmp_path / "X.npy", X)
    mapped = np.load(tmp_path / "X.npy", mmap_mode="r")
    pca = precise(3, solver=solver).fit(mapped)
    assert_same_model(pca, Oracle(3, svd_solver="full").fit(X), X, mapped)


def test_memory_map_with_missing_values_far_down(tmp_path):
    X = matrix(5000, 8)
    X[4321, 5] = np.nan
    np.save(tmp_path / "X.npy", X)
    with pytest.raises(ValueError, match=r"NaN.*imputer"):
        PCA(2).fit(np.load(tmp_path / "X.npy", mmap_mode="r"))


def foreign_arrays():
    torch = pytest.importorskip("torch")
    strict = pytest.importorskip("array_api_strict")
    return {
        "torch": (torch.asarray, torch.Tensor),
        "strict": (strict.asarray, type(strict.ones(1))),
    }


@pytest.mark.parametrize("kind", ["torch", "strict"])
@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("solver", SOLVERS)
def test_arrays_of_other_namespaces_stay_there(kind, dtype, solver):
    make, cls = foreign_arrays()[kind]
    X, fresh = matrix(60, 8, dtype=dtype), matrix(10, 8, seed=1, dtype=dtype)
    tol = 1e-10 if dtype == "float64" else 1e-5
    options = {"solver": solver, "tol": tol, "max_iter": 50_000, "random_state": 0}
    here, there = PCA(3, **options).fit(X), PCA(3, **options).fit(make(X))
    there_fresh = make(fresh)
    pairs = [
        (here.components_, there.components_),
        (here.explained_variance_, there.explained_variance_),
        (here.explained_variance_ratio_, there.explained_variance_ratio_),
        (here.singular_values_, there.singular_values_),
        (here.mean_, there.mean_),
        (here.transform(fresh), there.transform(there_fresh)),
        (here.fit_transform(X), there.fit_transform(make(X))),
        (
            here.inverse_transform(here.transform(fresh)),
            there.inverse_transform(there.transform(there_fresh)),
        ),
        (here.get_covariance(), there.get_covariance()),
        (here.get_precision(), there.get_precision()),
        (here.score_samples(fresh), there.score_samples(there_fresh)),
    ]
    for ours, theirs in pairs:
        assert isinstance(theirs, cls)
        assert str(theirs.dtype).rsplit(".", 1)[-1] == dtype
        tolerance = (1e-8 if dtype == "float64" else 1e-3) * np.abs(ours).max()
        assert_allclose(numpy_of(theirs), ours, atol=tolerance)
    assert isinstance(there.score(there_fresh), float)
    assert_allclose(there.noise_variance_, here.noise_variance_, rtol=1e-3)


@pytest.mark.parametrize("kind", ["torch", "strict"])
@pytest.mark.parametrize("letter", LETTERS)
def test_every_formulation_on_other_namespaces(kind, letter):
    make, cls = foreign_arrays()[kind]
    X = matrix(40, 8)
    pca = precise(2, formulation=letter).fit(make(X))
    assert isinstance(pca.components_, cls)
    assert_same_axes(pca, Oracle(2, svd_solver="full").fit(X))


@pytest.mark.parametrize("kind", ["torch", "strict"])
@pytest.mark.parametrize("n_components", [0.9, "mle", None])
def test_choice_of_the_number_on_other_namespaces(kind, n_components):
    make, _ = foreign_arrays()[kind]
    X = matrix(40, 8, ratio=0.7)
    assert PCA(n_components).fit(make(X)).n_components_ == PCA(n_components).fit(X).n_components_


@pytest.mark.parametrize("kind", ["torch", "strict"])
def test_whitening_and_offset_on_other_namespaces(kind):
    make, _ = foreign_arrays()[kind]
    X = matrix(40, 8) + 1e6
    scores = numpy_of(PCA(2, whiten=True).fit_transform(make(X)))
    assert_allclose(scores, PCA(2, whiten=True).fit_transform(X), atol=1e-6)


@pytest.mark.parametrize("kind", ["torch", "strict"])
def test_integers_of_other_namespaces_become_float64(kind):
    make, _ = foreign_arrays()[kind]
    X = np.random.default_rng(0).integers(0, 9, (30, 5))
    pca = PCA(2).fit(make(X))
    assert str(pca.components_.dtype).endswith("float64")
    assert_same_axes(pca, Oracle(2, svd_solver="full").fit(X))
    assert_allclose(numpy_of(pca.transform(make(X))), PCA(2).fit(X).transform(X), atol=1e-9)


def test_mixed_namespaces_are_refused():
    torch = pytest.importorskip("torch")
    X = matrix(20, 5)
    here, there = PCA(2).fit(X), PCA(2).fit(torch.asarray(X))
    for pca, data in ((here, torch.asarray(X)), (there, X), (there, X.tolist())):
        for method in (pca.transform, pca.score_samples):
            with pytest.raises(ValueError, match=rf"{method.__name__}\(\).*same namespace"):
                method(data)
    with pytest.raises(ValueError, match=r"inverse_transform\(\).*same namespace"):
        there.inverse_transform(np.ones((3, 2)))


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_data_frames(library):
    frames = pytest.importorskip(library)
    X, fresh = matrix(40, 3), matrix(5, 3, seed=1)
    names = ["height", "width", "depth"]

    def frame(A):
        return frames.DataFrame({name: A[:, i] for i, name in enumerate(names)})

    pca = PCA(2).fit(frame(X))
    assert_array_equal(pca.feature_names_in_, names)
    assert_allclose(pca.components_, PCA(2).fit(X).components_, rtol=0, atol=1e-13)
    assert_allclose(pca.transform(frame(fresh)), PCA(2).fit(X).transform(fresh), rtol=1e-12)
    out = pca.set_output(transform=library).transform(frame(fresh))
    assert isinstance(out, frames.DataFrame)
    assert list(out.columns) == ["pca0", "pca1"]
    with pytest.raises(ValueError, match="feature names"):
        pca.transform(frame(fresh).rename({"width": "girth"}, **_axis(library)))


def _axis(library):
    return {"axis": 1} if library == "pandas" else {}


def test_refitting_without_names_forgets_them(tmp_path):
    pandas = pytest.importorskip("pandas")
    np.save(tmp_path / "X.npy", matrix(40, 3))
    pca = PCA(2).fit(pandas.DataFrame(matrix(40, 3), columns=list("abc")))
    pca.fit(np.load(tmp_path / "X.npy", mmap_mode="r"))
    assert not hasattr(pca, "feature_names_in_")


@pytest.mark.parametrize("solver", SOLVERS)
def test_signs_make_the_largest_entry_positive(solver):
    for seed in range(5):
        V = precise(3, solver=solver).fit(matrix(40, 8, seed=seed)).components_
        assert np.all(V[np.arange(3), np.argmax(np.abs(V), axis=1)] > 0)


def test_signs_of_tied_entries_go_to_the_first():
    t = np.linspace(-1, 1, 30)[:, None]
    for solver in ("lapack", "gram", "dca", "simultaneous"):  # others are not exact to rounding
        (v,) = precise(1, solver=solver).fit(t * np.array([[1.0, -1.0, 1.0]])).components_
        assert_allclose(v, np.array([1, -1, 1]) / np.sqrt(3), atol=1e-9)


@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("shape", [(60, 8), (9, 50)], ids=["tall", "wide"])
def test_whitened_scores_have_unit_variance(solver, shape):
    X, fresh = matrix(*shape), matrix(*shape, seed=1)
    pca = precise(3, solver=solver, whiten=True)
    scores = pca.fit_transform(X)
    assert_allclose(np.cov(scores.T), np.eye(3), atol=1e-6)
    oracle = Oracle(3, svd_solver="full", whiten=True).fit(X)
    expected = oracle.transform(fresh)
    assert_allclose(aligned(pca.transform(fresh).T, expected.T), expected.T, rtol=1e-6, atol=1e-6)
    assert_allclose(
        pca.inverse_transform(pca.transform(fresh)), oracle.inverse_transform(expected), atol=1e-5
    )
    plain = precise(3, solver=solver).fit(X)
    assert_array_equal(pca.components_, plain.components_)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_whitening_directions_without_variance(dtype):
    X = matrix(20, 6, rank=2, offset=0.0, dtype=dtype)
    X = X - X.mean(axis=0)
    for solver in ("lapack", "gram"):
        for scale in (1e-7, 1.0, 1e7):
            pca = PCA(5, whiten=True, solver=solver).fit(scale * X)
            scores = pca.transform(scale * X)
            assert_allclose(np.var(scores[:, :2], axis=0, ddof=1), 1, rtol=1e-3)
            assert_allclose(scores[:, 2:], 0, atol=100 * np.finfo(dtype).eps)
            # Rows off the subspace are not blown up by the rounding that stands for its variance.
            off = pca.transform((scale * (X + 1)).astype(dtype))
            assert np.abs(off[:, 2:]).max() < 100
            assert_allclose(pca.inverse_transform(scores), scale * X, atol=1e-4 * scale)


@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("options", [{}, {"whiten": True}, {"center": False}], ids=str)
def test_fit_transform_is_transform_after_fit(solver, options):
    X = matrix(60, 8)
    pca = PCA(3, solver=solver, random_state=0, **options)
    scores = pca.fit_transform(X)
    assert_allclose(scores, pca.transform(X), rtol=0, atol=1e-12 * np.abs(scores).max())
    assert_array_equal(clone(pca).fit(X).components_, pca.components_)


@pytest.mark.parametrize("solver", SOLVERS)
def test_all_components_reconstruct(solver):
    X, fresh = matrix(30, 5), matrix(8, 5, seed=1)
    for whiten in (False, True):
        pca = precise(solver=solver, whiten=whiten).fit(X)
        assert_allclose(pca.inverse_transform(pca.transform(fresh)), fresh, atol=1e-9)


def test_data_are_left_alone():
    X = matrix(30, 5)
    for data in (X, X + 1e9, sp.csr_array(X)):
        before = data.copy()
        for solver in ("auto", "gram", "dca", "zerofpr"):
            PCA(2, solver=solver, tol=1e-2, random_state=0).fit_transform(data)
        assert_array_equal(*(sp.csr_array(A).toarray() for A in (data, before)))


def independent_residual(pca, X):
    """||C V - V Theta|| / ||C V|| from scratch, Theta being the Rayleigh quotients of V."""
    Xc = X - X.mean(axis=0) if pca.center else X
    V = np.asarray(pca.components_, dtype=np.float64).T
    Z = Xc.T @ (Xc @ V)
    theta = np.sum(V * Z, axis=0)
    return np.linalg.norm(Z - V * theta) / np.linalg.norm(Z)


@pytest.mark.parametrize("solver", ITERATIVE)
@pytest.mark.parametrize("letter", [None, "n", "o", "q", "k"])
@pytest.mark.parametrize("tol", [1e-2, 1e-5])
@pytest.mark.parametrize("center", [True, False])
def test_residual_is_what_it_says_and_within_tol(solver, letter, tol, center):
    X = matrix(80, 12, ratio=0.8)
    pca = PCA(
        3,
        solver=solver,
        formulation=letter,
        tol=tol,
        max_iter=20_000,
        center=center,
        random_state=0,
    ).fit(X)
    assert pca.residual_ <= 1.01 * tol
    assert_allclose(pca.residual_, independent_residual(pca, X), rtol=1e-6, atol=1e-13)


@pytest.mark.parametrize("solver", ["auto", *DIRECT])
def test_residual_of_direct_solvers_is_rounding(solver):
    X = matrix(80, 12, ratio=0.8)
    assert PCA(3, solver=solver).fit(X).residual_ < 1e-12
    assert PCA(3, solver=solver).fit(X.astype(np.float32)).residual_ < 1e-5


@pytest.mark.parametrize("solver", ITERATIVE)
@pytest.mark.parametrize("letter", ["l", "o"])
def test_too_few_iterations_warn_of_the_residual_reached(solver, letter):
    X = matrix(80, 12, ratio=0.8)
    pca = PCA(3, solver=solver, formulation=letter, tol=1e-8, max_iter=3, random_state=0)
    with pytest.warns(ConvergenceWarning, match="max_iter=3") as caught:
        pca.fit(X)
    (warning,) = caught
    assert f"{pca.residual_:.1e}" in str(warning.message)
    assert "tol=1.0e-08" in str(warning.message)
    assert warning.filename == __file__
    assert pca.residual_ > 1e-8
    assert pca.n_iter_ == 3
    assert_allclose(pca.residual_, independent_residual(pca, X), rtol=1e-6)


@pytest.mark.parametrize("solver", ITERATIVE)
def test_looser_tol_costs_fewer_iterations(solver):
    X = matrix(80, 12, ratio=0.8)
    loose, tight = (
        PCA(3, solver=solver, tol=tol, max_iter=20_000, random_state=0).fit(X)
        for tol in (1e-1, 1e-8)
    )
    assert loose.n_iter_ < tight.n_iter_
    assert loose.n_passes_ < tight.n_passes_


@pytest.mark.parametrize("letter", ["l", "n", "p", "k", "m", "o", "q"])
def test_a_step_of_dca_is_one_pass(letter):
    pca = PCA(3, solver="dca", formulation=letter, tol=1e-8, random_state=0).fit(
        matrix(80, 12, ratio=0.8)
    )
    assert pca.n_iter_ > 20
    assert pca.n_iter_ <= pca.n_passes_ <= pca.n_iter_ + 12


@pytest.mark.parametrize("solver", DIRECT)
def test_direct_solvers_take_a_few_passes(solver):
    pca = PCA(3, solver=solver).fit(matrix(80, 12))
    assert pca.n_iter_ == 1
    assert 2 <= pca.n_passes_ <= 6


@pytest.mark.parametrize("solver", ["proximal_gradient", "zerofpr"])
def test_proximal_solvers_take_a_pass_an_iteration_or_more(solver):
    pca = PCA(3, solver=solver, formulation="n", random_state=0).fit(matrix(80, 12))
    assert pca.n_iter_ <= pca.n_passes_ <= 6 * pca.n_iter_ + 10


def test_auto_is_direct_for_small_data_and_dca_for_a_formulation():
    X = matrix(300, 20)
    assert PCA(2).fit(X).solver_.split()[0].rstrip(":") == "lapack"
    assert PCA(2).fit(sp.csr_array(X)).solver_.split()[0].rstrip(":") == "gram"
    assert PCA(2, formulation="n").fit(X).solver_.split()[0].rstrip(":") == "dca"


@pytest.mark.parametrize("s", [3, 400])
@pytest.mark.parametrize("shape", [(700, 600), (600, 700)], ids=["tall", "wide"])
def test_auto_on_larger_data(s, shape):
    X = matrix(*shape, ratio=0.8)
    X += 0.01 * np.random.default_rng(1).standard_normal(shape)
    pca, oracle = precise(s).fit(X), Oracle(s, svd_solver="full").fit(X)
    assert_same_spectrum(pca, oracle)
    assert_allclose(
        aligned(pca.components_[:3], oracle.components_[:3]), oracle.components_[:3], atol=1e-6
    )


@pytest.mark.parametrize("solver", ITERATIVE)
def test_random_state_decides_the_iterates(solver):
    X = matrix(80, 12, ratio=0.8)

    def fit(seed):
        return PCA(3, solver=solver, tol=1e-2, max_iter=20_000, random_state=seed).fit(X)

    assert_array_equal(fit(3).components_, fit(3).components_)
    assert not np.array_equal(fit(3).components_, fit(4).components_)
    generator = np.random.RandomState(5)
    first, second = fit(generator).components_, fit(generator).components_
    assert not np.array_equal(first, second)


def test_fitting_leaves_the_global_random_state_alone():
    state = np.random.get_state()[1].copy()  # noqa: NPY002
    PCA(2, solver="dca", random_state=0).fit(matrix(40, 6))
    assert_array_equal(np.random.get_state()[1], state)  # noqa: NPY002


X = matrix(20, 6)
BAD_PARAMETERS = [
    ({"n_components": 0}, "n_components.*0"),
    ({"n_components": -1}, "n_components.*-1"),
    ({"n_components": 1.5}, r"n_components.*1\.5"),
    ({"n_components": 2.0}, r"n_components.*2\.0"),
    ({"n_components": 1.0}, r"n_components.*1\.0"),
    ({"n_components": 0.0}, r"n_components.*0\.0"),
    ({"n_components": float("nan")}, "n_components.*nan"),
    ({"n_components": "foo"}, "n_components.*'mle'.*'foo'"),
    ({"n_components": True}, "n_components=True"),
    ({"n_components": False}, "n_components"),
    ({"n_components": 7}, r"n_components=7.*min\(n_samples, n_features\)=6.*fewer"),
    ({"tol": -1e-3}, "tol.*-0.001"),
    ({"tol": float("nan")}, "tol.*nan"),
    ({"tol": "small"}, "tol.*'small'"),
    ({"max_iter": 0}, "max_iter.*0"),
    ({"max_iter": 1.5}, r"max_iter.*1\.5"),
    ({"whiten": "yes"}, "whiten.*'yes'"),
    ({"center": None}, "center.*None"),
    ({"random_state": "seed"}, "random_state.*'seed'"),
    ({"solver": "arpack"}, "solver.*'dca'.*'arpack'"),
    ({"solver": "irls"}, "solver.*'dca'.*'irls'"),
    ({"solver": 3}, "solver.*3"),
    ({"formulation": "z"}, "formulation='z'.*choose one of d, l, g"),
    ({"formulation": "zT"}, "formulation='zT'.*choose one of d, l, g"),
    ({"formulation": 3}, "formulation.*3"),
    ({"formulation": lambda X: 3}, "formulation.*returned 3.*DCProblem"),
    ({"solver": "gram", "formulation": "n"}, "solver='gram'.*drop formulation='n'.*dca"),
    ({"solver": "lapack", "formulation": "n"}, "solver='lapack'.*drop formulation='n'.*dca"),
]


@pytest.mark.parametrize(("options", "message"), BAD_PARAMETERS, ids=lambda p: str(p)[:40])
def test_bad_parameters(options, message):
    for method in ("fit", "fit_transform"):
        with pytest.raises((ValueError, TypeError), match=f"(?s){message}"):
            getattr(PCA(**{"n_components": 2, **options}), method)(X)


def test_remedies_name_solvers_that_there_are():
    with pytest.raises(ValueError, match=r"choose one of (.*)") as caught:
        PCA(2, solver="gram", formulation="n").fit(X)
    for name in caught.value.args[0].split("choose one of ")[1].split(", "):
        PCA(2, solver=name, formulation="n", tol=0.1, random_state=0).fit(X)


def with_entry(value):
    A = X.copy()
    A[3, 2] = value
    return A


BAD_DATA = {
    "nan": (with_entry(np.nan), "NaN.*imputer"),
    "inf": (with_entry(np.inf), "infinity"),
    "-inf": (with_entry(-np.inf), "infinity"),
    "sparse nan": (sp.csr_array(with_entry(np.nan)), "NaN.*imputer"),
    "empty": (np.empty((0, 6)), r"0 sample.*minimum of 2"),
    "no features": (np.empty((6, 0)), r"0 feature.*minimum of 1"),
    "one row": (X[:1], r"1 sample.*minimum of 2"),
    "vector": (X[0], "Expected 2D array, got 1D"),
    "three axes": (X[None], "3"),
    "scalar": (3.0, "Expected 2D array, got scalar"),
    "strings": (np.array([["a", "b"], ["c", "d"]]), "convert string"),
    "words in a list": ([["a", 1.0], ["b", 2.0]], "convert string"),
    "complex": (X * 1j, "Complex data not supported"),
    "ragged": ([[1.0, 2.0], [3.0]], "inhomogeneous"),
    "None": (None, "Expected 2D array"),
}


@pytest.mark.parametrize("case", BAD_DATA)
def test_bad_data(case):
    data, message = BAD_DATA[case]
    with pytest.raises((ValueError, TypeError), match=f"(?s){message}"):
        PCA(1).fit(data)


@pytest.mark.parametrize("case", ["nan", "inf", "no features", "one row", "vector", "complex"])
@pytest.mark.parametrize("kind", ["torch", "strict"])
def test_bad_data_of_other_namespaces(case, kind):
    messages = {
        "nan": "NaN or infinity.*imputer",
        "inf": "NaN or infinity.*imputer",
        "no features": r"shape=\(6, 0\).*minimum",
        "one row": r"shape=\(1, 6\).*minimum of \(2, 1\)",
        "vector": "Expected 2D array, got 1D",
        "complex": "complex128.*real numbers",
    }
    make, _ = foreign_arrays()[kind]
    with pytest.raises(ValueError, match=messages[case]):
        PCA(1).fit(make(BAD_DATA[case][0]))


def test_memory_map_of_strings(tmp_path):
    np.save(tmp_path / "X.npy", np.array([["a", "b"], ["c", "d"]]))
    with pytest.raises(ValueError, match="real numbers"):
        PCA(1).fit(np.load(tmp_path / "X.npy", mmap_mode="r"))


def test_lapack_refuses_sparse_data():
    with pytest.raises(ValueError, match=r"solver='lapack'.*solver='gram'.*sparse"):
        PCA(1, solver="lapack").fit(sp.csr_array(X))


def test_mle_of_wide_data_is_refused():
    with pytest.raises(ValueError, match=r"n_components='mle'.*6 and 20.*number"):
        PCA("mle").fit(X.T)


METHODS = ["transform", "inverse_transform", "score_samples", "score"]


@pytest.mark.parametrize("method", METHODS)
def test_unfitted(method):
    with pytest.raises(NotFittedError, match="fit"):
        getattr(PCA(2), method)(X)


@pytest.mark.parametrize("method", ["get_covariance", "get_precision", "get_feature_names_out"])
def test_unfitted_without_data(method):
    with pytest.raises(NotFittedError, match="fit"):
        getattr(PCA(2), method)()


@pytest.mark.parametrize("method", ["transform", "score_samples", "score"])
@pytest.mark.parametrize("columns", [5, 7])
def test_wrong_number_of_features(method, columns):
    pca = PCA(2).fit(X)
    with pytest.raises(ValueError, match=f"X has {columns} features.*PCA.*6 features"):
        getattr(pca, method)(np.ones((3, columns)))


def test_wrong_number_of_features_of_other_kinds(tmp_path):
    torch = pytest.importorskip("torch")
    np.save(tmp_path / "X.npy", np.ones((3, 5)))
    message = "X has 5 features.*PCA.*6 features"
    with pytest.raises(ValueError, match=message):
        PCA(2).fit(X).transform(sp.csr_array(np.ones((3, 5))))
    with pytest.raises(ValueError, match=message):
        PCA(2).fit(X).transform(np.load(tmp_path / "X.npy", mmap_mode="r"))
    with pytest.raises(ValueError, match=message):
        PCA(2).fit(torch.asarray(X)).transform(torch.ones((3, 5)))


@pytest.mark.parametrize("shape", [(3, 1), (3, 6), (2,)], ids=str)
def test_wrong_width_of_scores(shape):
    with pytest.raises(ValueError, match=r"shape \(.*inverse_transform.*2 columns"):
        PCA(2).fit(X).inverse_transform(np.ones(shape))


def test_missing_values_at_transform():
    with pytest.raises(ValueError, match=r"(?s)NaN.*imputer"):
        PCA(2).fit(X).transform(with_entry(np.nan))


def test_a_failed_fit_leaves_no_model():
    pca = PCA(7)
    with pytest.raises(ValueError, match="n_components=7"):
        pca.fit(X)
    with pytest.raises(NotFittedError):
        pca.transform(X)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("solver", ["lapack", "gram", "krylov", "chebyshev", "dca"])
@pytest.mark.parametrize("tol", [1e-2, 1e-4])
def test_components_are_orthonormal_to_the_precision_of_the_data(solver, tol, dtype):
    """Also where the products, or the eigenvectors of a Gram matrix, were in float32."""
    X = matrix(800, 700, ratio=0.95, offset=0.0, dtype=dtype)
    V = PCA(8, solver=solver, tol=tol, random_state=0).fit(X).components_.astype(np.float64)
    assert np.abs(V @ V.T - np.eye(8)).max() <= 32 * np.finfo(dtype).eps
