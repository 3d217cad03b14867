"""Every solver against LAPACK, to the accuracy it certifies; every choice that `auto` makes."""

import numpy as np
import pytest
import scipy.sparse as sp
from spectra import gaussian, matrix, spectra
from threadpoolctl import threadpool_limits

from dualpca import PCA, as_operator, native_available
from dualpca.operators import Weighted, centered
from dualpca.operators.matrix import THREADED, row_parts
from dualpca.operators.row_blocks import RowBlocked
from dualpca.operators.views import check_energy
from dualpca.solvers.spectral.costs import LOOSE
from dualpca.solvers.spectral.direct import growth
from dualpca.solvers.spectral.krylov import MIXED_TOL, Krylov, mixed_scale
from dualpca.solvers.subspace import choose, costs

NAMES = [*spectra(), "gaussian"]


def case(name, dtype="float64", side="tall", seed=3):
    A = gaussian(seed) if name == "gaussian" else matrix(spectra()[name], seed)
    return np.ascontiguousarray(A if side == "tall" else A.T).astype(dtype)


def judged(A, model, s):
    """Shortfall and residual of the components, from scratch in float64, and the singular values."""
    A = A.astype(np.float64)
    sigma = np.linalg.svd(A, compute_uv=False)
    V = np.linalg.qr(model.components_.astype(np.float64).T)[0]
    Z = A.T @ (A @ V)
    residual = np.linalg.norm(Z - V @ (V.T @ Z)) / np.linalg.norm(Z)
    best = np.sum(sigma[:s] ** 2)
    return 1 - np.linalg.norm(A @ V) ** 2 / best, residual, sigma


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("side", ["tall", "wide"])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("solver", ["lapack", "gram", "krylov", "auto", "dca", "zerofpr"])
@pytest.mark.parametrize("tol", [1e-1, 1e-4])
def test_agreement_with_lapack_on_every_spectrum(name, side, dtype, solver, tol):
    s = 5
    A = case(name, dtype, side)
    options = {"solver": solver, "tol": tol, "center": False, "max_iter": 20_000, "random_state": 0}
    model = PCA(s, **options).fit(A)
    eps = float(np.finfo(dtype).eps)
    shortfall, residual, sigma = judged(A, model, s)
    assert residual <= model.residual_ * 1.05 + 20 * eps
    assert model.residual_ <= tol * 1.02
    assert shortfall <= model.variance_shortfall_ + 20 * eps
    captured = np.sum(model.singular_values_.astype(float) ** 2)
    # A loose tol takes float32 for float64 data, and says so.
    digits = float(np.finfo("float32").eps) if "float32" in model.solver_ and tol >= 1e-3 else eps
    expected = (1 - shortfall) * np.sum(sigma[:s] ** 2)
    assert captured == pytest.approx(expected, rel=50 * digits + 1e-12)
    np.testing.assert_allclose(model.components_ @ model.components_.T, np.eye(s), atol=100 * eps)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("side", ["tall", "wide"])
@pytest.mark.parametrize("solver", ["gram", "krylov"])
def test_sixteen_digits_where_they_are_asked_for(name, side, solver):
    A = case(name, side=side)
    model = PCA(5, solver=solver, tol=1e-11, center=False, random_state=0).fit(A)
    shortfall, _, sigma = judged(A, model, 5)
    assert abs(shortfall) < 1e-13
    np.testing.assert_allclose(model.singular_values_, sigma[:5], rtol=1e-10)


@pytest.mark.slow
def test_loose_runs_are_certified_too():
    below, ratios = [], []
    for seed in range(3):
        i = np.arange(300)
        sigmas = {
            **spectra(300),
            "forty close": np.where(i < 40, 10 - 0.35 * i / 300, 5.0),
            "thirty": np.where(i < 30, 10 - 0.05 * i / 3, 3.0),
        }
        cases = {name: matrix(sigma, 10 * seed + 7, (400, 300)) for name, sigma in sigmas.items()}
        cases["gaussian"] = gaussian(seed, (400, 300))
        for name, A in cases.items():
            sigma2 = np.linalg.svd(A, compute_uv=False) ** 2
            for s in (1, 12, 20, 50):
                for tol in (0.3, 0.03, LOOSE):
                    found = Krylov()(as_operator(A), s, tol=tol, seed=seed)
                    truth = 1 - np.linalg.norm(A @ found.ritz.V) ** 2 / sigma2[:s].sum()
                    if truth > found.shortfall() + 1e-13:
                        below.append((name, seed, s, tol, truth, found.shortfall()))
                    if truth > 1e-12:
                        ratios.append(found.shortfall() / truth)
    assert not below
    assert np.median(ratios) <= 100


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["dense", "few columns", "csr", "csc"])
@pytest.mark.parametrize("solver", ["gram", "krylov"])
def test_the_same_subspace_whatever_the_number_of_threads(kind, solver, monkeypatch):
    rng = np.random.default_rng(0)
    if kind == "dense":
        A = rng.standard_normal((1500, 300)) * 0.97 ** np.arange(300)
    elif kind == "few columns":
        A = rng.standard_normal((40_000, 60)) * 0.9 ** np.arange(60)
    else:
        A = sp.random_array((6000, 700), density=0.1, rng=rng, format=kind)
        assert A.nnz >= THREADED
    models = []
    for count in (1, 2, 5):
        monkeypatch.setenv("OMP_NUM_THREADS", str(count))
        with threadpool_limits(count):
            models.append(PCA(4, solver=solver, tol=1e-9, random_state=0).fit(A))
    for model in models[1:]:
        np.testing.assert_allclose(model.components_, models[0].components_, atol=1e-7)
        np.testing.assert_allclose(
            model.explained_variance_, models[0].explained_variance_, rtol=1e-12
        )


def test_parts_of_a_sparse_matrix_are_views_that_make_up_the_whole(monkeypatch):
    monkeypatch.setattr("dualpca.operators.matrix.threads", lambda: 3)
    A = sp.random_array((4000, 900), density=0.1, rng=np.random.default_rng(0), format="csr")
    parts = row_parts(A)
    assert len(parts) == 3
    assert all(np.shares_memory(part.data, A.data) for _, part in parts)
    assert (sp.vstack([part for _, part in parts]) != A).nnz == 0
    assert max(part.nnz for _, part in parts) < 0.4 * A.nnz
    for data in (A, A.tocsc()):
        X, dense = as_operator(data), A.toarray()
        W, H = np.ones((900, 2)), np.ones((4000, 2))
        before = X.passes
        np.testing.assert_allclose(X @ W, dense @ W)
        np.testing.assert_allclose(X.T @ H, dense.T @ H)
        np.testing.assert_allclose(X.sweep(W, lambda Y, rows: 2 * Y), 2 * dense.T @ (dense @ W))
        assert X.passes - before == 3


@pytest.mark.parametrize("size", [1e-140, 1e-25, 1e25, 1e140])
@pytest.mark.parametrize("shape", [(3000, 300), (300, 3000), (4000, 40)])
def test_products_in_float32_of_numbers_that_have_no_square_there(shape, size):
    X = np.random.default_rng(0).standard_normal(shape)
    for solver in ("gram", "krylov", "auto"):
        plain, model = (
            PCA(3, tol=1e-2, solver=solver, random_state=0).fit(c * X) for c in (1, size)
        )
        variance = model.explained_variance_ / size / size
        np.testing.assert_allclose(variance, plain.explained_variance_, rtol=1e-6)
        assert model.residual_ <= 1e-2
        assert model.variance_shortfall_ <= 1e-2


def test_equal_rows_less_their_mean_are_zeros():
    """The mean of rows of small integers is exact: nothing is left, and nothing has underflowed."""
    X = centered(as_operator(np.tile(np.arange(1.0, 9.0), (16, 1))))
    assert X.energy() == 0
    check_energy(0.0, X)
    with pytest.raises(ValueError, match="underflow"):
        check_energy(0.0, centered(as_operator(1e-170 * np.tile(np.arange(1.0, 9.0), (16, 1)))))


needs_kernels = pytest.mark.skipif(not native_available(), reason="float32 passes need C kernels")


@needs_kernels
@pytest.mark.parametrize("scale", [1e-30, 1.0, 1e30])
@pytest.mark.parametrize("offset", [0.0, 1.0, 1e6])
@pytest.mark.parametrize("side", ["tall", "wide"])
def test_float32_passes_answer_in_float64(scale, offset, side):
    A = (case("power", side=side) + offset) * scale
    Xc = centered(as_operator(A))
    found = Krylov()(Xc, 4, tol=1e-4, max_passes=500, seed=0, energy=Xc.energy())
    assert found.note == "float32"
    centred = A - A.mean(axis=0)
    sigma = np.linalg.svd(centred, compute_uv=False)
    assert found.ritz.V.dtype == np.float64
    assert found.ritz.residual <= 1e-4
    # The Ritz values err by the square of the residual: float32 alone would leave 1e-7.
    atol = (3e-8 if offset < 2 else 1e-6) * sigma[0] ** 2
    np.testing.assert_allclose(found.ritz.theta, sigma[:4] ** 2, rtol=0, atol=atol)


@needs_kernels
@pytest.mark.parametrize("name", ["gaussian", "slow", "cluster", "two ties"])
def test_float64_passes_go_on_where_float32_is_not_enough(name):
    A = case(name)
    X = as_operator(A)
    found = Krylov()(X, 6, tol=MIXED_TOL, max_passes=500, seed=0, energy=X.energy())
    assert found.note == "float32, then float64"
    assert found.ritz.residual <= MIXED_TOL
    sigma = np.linalg.svd(A, compute_uv=False)
    np.testing.assert_allclose(found.ritz.theta, sigma[:6] ** 2, rtol=1e-12)
    assert mixed_scale(X, MIXED_TOL / 10, X.energy()) is None
    assert mixed_scale(as_operator(A.astype("f")), 1e-3, 1.0) is None


@pytest.mark.parametrize("solver", ["krylov", "chebyshev", "gram"])
@pytest.mark.parametrize("power", [-513, 498])
def test_energies_near_the_ends_of_the_range(solver, power):
    """A power of two changes nothing but the variances: the energy is 7e-305 or 4e+304."""
    A = matrix(spectra()["decay"], 3)
    options = {"solver": solver, "tol": 1e-4, "center": False, "random_state": 0}
    expected = PCA(5, **options).fit(A)
    found = PCA(5, **options).fit(A * 2.0**power)
    assert found.n_passes_ == expected.n_passes_
    assert found.residual_ == pytest.approx(expected.residual_, rel=1e-6)
    assert found.variance_shortfall_ == pytest.approx(expected.variance_shortfall_, rel=1e-6)
    np.testing.assert_allclose(found.components_, expected.components_, atol=1e-12)
    np.testing.assert_allclose(
        found.singular_values_, expected.singular_values_ * 2.0**power, rtol=1e-12
    )


@needs_kernels
@pytest.mark.parametrize("weighted", [False, True])
def test_x_in_float32_is_centred_scaled_and_weighted(weighted):
    rng = np.random.default_rng(0)
    A = rng.standard_normal((200, 30)) + 1e5
    b = rng.uniform(1, 2, 200)
    for X in (centered(as_operator(A)), as_operator(A)):
        X = Weighted(X, b) if weighted else X
        single = X.in_float32(0.25)
        assert str(single.dtype) == "float32"
        for side in (single, single.T):
            assert side.like.dtype == side.sweep(side.asarray(np.ones((side.shape[1], 2)))).dtype
            assert side.like.dtype == np.float32
        exact = 0.25 * X.todense()
        np.testing.assert_allclose(single.todense(), exact, atol=2e-7 * np.abs(exact).max())
    assert as_operator(sp.csr_array(A)).in_float32(1.0) is None
    assert as_operator([A[:50], A[50:]]).in_float32(1.0) is None


@pytest.mark.parametrize("name", [*NAMES, "positive", "tall"])
def test_rounding_of_a_float32_gram_matrix_is_within_its_bound(name):
    rng = np.random.default_rng(1)
    if name == "positive":
        A = np.abs(rng.standard_normal((5000, 200)))
    elif name == "tall":
        A = rng.standard_normal((50_000, 40))
    else:
        A = case(name)
    X = as_operator(A.astype(np.float32))
    exact = X.gram()
    error = np.linalg.norm(X.gram(single=True) - exact, 2)
    size = np.sqrt(np.linalg.norm(exact, 2) * np.trace(exact))
    assert 0 < error <= growth(X) * np.finfo(np.float32).eps * size


@pytest.mark.parametrize("kind", [np.asarray, sp.csr_array, sp.csc_array])
@pytest.mark.parametrize("real", [np.float32, np.float64])
def test_long_sums_of_a_gram_matrix_round_within_their_bound(kind, real):
    A = (np.random.default_rng(0).standard_normal((200_000, 5)) + 1).astype(real)
    exact = sum(block.T @ block for block in np.split(A.astype(np.longdouble), 100))
    X = as_operator(kind(A))
    single = kind is np.asarray and real is np.float32
    error = np.linalg.norm((X.gram(single=single) - exact).astype(float), 2)
    exact = exact.astype(float)
    size = np.sqrt(np.linalg.norm(exact, 2) * np.trace(exact))
    assert error <= growth(X) * np.finfo(real if single else float).eps * size


def test_what_is_taken_out_of_a_sparse_gram_matrix_is_in_the_residual():
    A = np.random.default_rng(0).standard_normal((100_000, 12)) * 0.7 ** np.arange(12) + 3
    model = PCA(3, solver="gram", tol=1e-9).fit(sp.csr_array(A))
    A = (A - A.mean(axis=0, dtype=np.longdouble)).astype(float)
    V = model.components_.T
    Z = A.T @ (A @ V)
    assert np.linalg.norm(Z - V @ (V.T @ Z)) <= model.residual_ * np.linalg.norm(Z)


def test_the_plan_is_the_cheapest_and_says_why():
    for shape in ((4000, 2000), (2000, 9000), (60_000, 784), (300_000, 50), (5000, 5000)):
        for s in (5, 50):
            for tol in (1e-1, 1e-3, 1e-8):
                if s > min(shape) / 2:
                    continue
                X = as_operator(np.broadcast_to(np.float32(1), shape))
                seconds = costs(X, s, tol, 1.0)
                chosen, reason = choose(X, s, dense=True, tol=tol, energy=1.0)
                assert chosen == min(seconds, key=seconds.get)
                assert all(name in reason for name in seconds)
    tall, square = (as_operator(np.broadcast_to(1.0, n)) for n in ((10**6, 100), (8000, 8000)))
    assert choose(tall, 10, dense=True, tol=1e-4, energy=1.0)[0] == "gram"
    assert choose(square, 10, dense=True, tol=1e-2, energy=1.0)[0] == "krylov"
    assert choose(square, 7000, dense=True, tol=1e-2, energy=1.0)[0] == "lapack"
    sparse = as_operator(sp.eye_array(3000, format="csr"))
    assert choose(sparse, 2000, dense=False, tol=1e-2, energy=1.0)[0] != "lapack"


def test_wide_data_needs_no_matrix_of_its_columns(monkeypatch):
    gram = RowBlocked.gram

    def refuse(self, *args, **options):
        assert self.shape[1] < 100, "a d x d matrix was made"
        return gram(self, *args, **options)

    monkeypatch.setattr(RowBlocked, "gram", refuse)
    A = np.random.default_rng(0).standard_normal((60, 20_000), dtype=np.float32)
    model = PCA(3, solver="krylov", random_state=0).fit(A)
    centred = A.astype(float) - A.astype(float).mean(axis=0)
    sigma = np.linalg.svd(centred, compute_uv=False)
    np.testing.assert_allclose(model.singular_values_, sigma[:3], rtol=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("solver", ["dca", "zerofpr", "simultaneous"])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("tol", [1e-1, 1e-2, 1e-4])
def test_first_order_solvers_are_certified_on_slow_decay(solver, dtype, tol):
    for seed in range(3):
        rng = np.random.default_rng(seed)
        A = (rng.standard_normal((600, 400)) * 0.995 ** np.arange(400)).astype(dtype)
        options = {"solver": solver, "tol": tol, "max_iter": 5000, "center": False}
        model = PCA(8, **options, random_state=seed).fit(A)
        shortfall, _, _ = judged(A, model, 8)
        assert shortfall <= model.variance_shortfall_ + np.finfo(dtype).eps
        assert model.variance_shortfall_ <= 100 * max(shortfall, 1e-6)
