"""A start from a sample of the rows: near the answer, quick, and not to be fooled by rare rows."""

import itertools

import numpy as np
import pytest
import scipy.sparse as sp
from tests.loops import at

from dualpca import PCA, as_operator
from dualpca.operators import Blocks, Matrix, centered
from dualpca.solvers.spectral import sample
from dualpca.solvers.spectral.chebyshev import Chebyshev
from dualpca.solvers.spectral.sample import is_tall, sampled_axes


def tall(seed, N=6000, d=120, decay=0.9):
    rng = np.random.default_rng(seed)
    return rng.standard_normal((N, d)) * decay ** np.arange(d)


def missed(A, components, s):
    """The relative shortfall in captured variance, from scratch."""
    values = np.linalg.eigvalsh(A.T @ A)[::-1]
    return 1 - np.linalg.norm(A @ np.linalg.qr(components.T)[0]) ** 2 / values[:s].sum()


def stored(folder, A):
    np.save(folder / "rows.npy", A)
    return np.load(folder / "rows.npy", mmap_mode="r")


def test_tall_data_whose_rows_can_be_taken():
    A = np.ones((90, 10))
    assert is_tall(as_operator(A))
    assert is_tall(centered(as_operator(A)))
    assert is_tall(as_operator(sp.csr_array(A)))
    assert not is_tall(as_operator(A.T))
    assert not is_tall(as_operator(A).T.T.T)
    assert not is_tall(as_operator(A[:79]))
    assert not is_tall(as_operator(sp.linalg.aslinearoperator(A)))


@pytest.mark.parametrize("kind", ["dense", "sparse", "centred", "blocks"])
def test_the_axes_of_a_sample_are_near_those_of_all_rows(kind):
    for seed in range(5):
        A = tall(seed)
        X = {
            "dense": lambda A=A: as_operator(A),
            "sparse": lambda A=A: as_operator(sp.csr_array(A)),
            "centred": lambda A=A: centered(as_operator(A + 1)),
            "blocks": lambda A=A: Blocks([A[:1000], A[1000:]]),
        }[kind]()
        P = sampled_axes(X, 24, seed)
        with at(seed=seed):
            assert P.shape == (120, 24)
            rows = A - A.mean(axis=0) if kind == "centred" else A
            U, _, _ = np.linalg.svd(rows @ np.linalg.qr(P[:, :16])[0], full_matrices=False)
            best = np.linalg.svd(rows, compute_uv=False)[:5]
            captured = np.linalg.svd(U[:, :5].T @ rows, compute_uv=False)
            assert np.sum(captured**2) >= 0.95 * np.sum(best**2)


def test_the_same_seed_takes_the_same_rows():
    X = as_operator(tall(0))
    np.testing.assert_array_equal(sampled_axes(X, 16, 3), sampled_axes(X, 16, 3))
    assert not np.array_equal(sampled_axes(X, 16, 3), sampled_axes(X, 16, 4))


def test_files_are_read_less_often(tmp_path, monkeypatch):
    X = stored(tmp_path, tall(1))
    options = {"solver": "krylov", "tol": 1e-3, "random_state": 0}
    model = PCA(5, **options).fit(X)
    monkeypatch.setattr(sample, "is_tall", lambda X: False)
    other = PCA(5, **options).fit(X)
    assert model.n_passes_ < other.n_passes_
    np.testing.assert_allclose(model.components_, other.components_, atol=2e-2)


@pytest.mark.parametrize(
    ("kind", "tol"),
    [("file", 0.1), ("file", 1e-2), ("file", 1e-4)]
    + [(kind, tol) for kind in ("float32", "float64") for tol in (0.3, 0.1)],
)
@pytest.mark.parametrize("held_by", [1, 3])
def test_a_component_that_no_sample_sees(tmp_path, kind, tol, held_by, monkeypatch):
    """A few rows hold the largest variance; the look at the complement finds it."""
    taken = []
    of = Blocks if kind == "file" else Matrix
    take = of.take
    monkeypatch.setattr(of, "take", lambda X, rows: taken.append(rows) or take(X, rows))
    missing = 0
    for seed in range(6):
        A = tall(seed, decay=0.99)
        rows = np.arange(held_by) * 1777 + 11
        A[rows] = 0
        A[rows, -1] = 400.0
        model = PCA(4, center=False, solver="krylov", tol=tol, random_state=seed)
        model.fit(stored(tmp_path, A) if kind == "file" else A.astype(kind))
        truth = missed(A, model.components_, 4)
        missing += not np.isin(rows, taken[-1]).any()
        with at(seed=seed):
            assert truth <= min(tol, model.variance_shortfall_ + 1e-13)
            assert model.residual_ <= tol
    assert missing >= 3  # most samples did not hold those rows


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_a_loose_fit_of_tall_rows_takes_one_pass_and_a_look(dtype):
    """The residual and the shortfall that it states hold, and float64 rows are read no more often."""
    for seed, decay, tol in itertools.product(range(4), (0.9, 0.97, 1.0), (0.3, 0.05)):
        A = tall(seed, decay=decay).astype(dtype)
        model = PCA(5, center=False, solver="krylov", tol=tol, random_state=seed).fit(A)
        V, wide = model.components_.T.astype(float), A.astype(float)
        image = wide.T @ (wide @ V)
        residual = np.linalg.norm(image - V * model.singular_values_**2) / np.linalg.norm(image)
        with at(seed=seed, decay=decay, tol=tol):
            # Rounding of float32 products is relative to the image, not to the residual.
            assert residual <= model.residual_ + np.finfo(np.float32).eps
            assert model.residual_ <= tol
            assert missed(wide, V.T, 5) <= model.variance_shortfall_
            np.testing.assert_allclose(V.T @ V, np.eye(5), atol=30 * np.finfo(dtype).eps)
            assert decay == 1.0 or model.n_passes_ <= 7


def test_filters_start_from_a_sample_too():
    A = tall(2, decay=0.97)
    assert is_tall(as_operator(A))
    result = Chebyshev()(as_operator(A), 6, tol=1e-6, seed=0)
    assert missed(A, result.ritz.V.T, 6) <= min(1e-9, result.shortfall())


def test_a_sample_of_few_rows_holds_them_all():
    A = tall(3, N=100, d=10)
    assert sample.SHARE * 100 < 10
    P = sampled_axes(as_operator(A), 8, 0)
    assert np.linalg.matrix_rank(P) == 8
