"""Principal component pursuit: recovery, optimality by duality, an independent reference, and laws."""

from __future__ import annotations

import re
import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from benchmarks import pursuit as benchmark
from numpy.testing import assert_allclose, assert_array_equal
from scipy.optimize import linprog
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning, NotFittedError

from dualpca import as_operator
from dualpca.estimators.pursuit import PrincipalComponentPursuit
from dualpca.pursuit import l1_fit
from dualpca.pursuit.admm import Shrinkage, count_above, gram_triplets, pursue, svd_triplets
from dualpca.pursuit.l1_fit import l1_scores


def planted(N, d, r, share, seed=0, *, unit=True):
    rng = np.random.default_rng(seed)
    L = rng.standard_normal((N, r)) @ rng.standard_normal((r, d))
    L = L if unit else L / np.sqrt(N * d)
    S = rng.choice([-1.0, 1.0], (N, d)) * (rng.random((N, d)) < share)
    return L, S


def reference(X, tol, max_iter=20_000):
    """Algorithm 1 of the source with full SVDs and its fixed mu, transcribed."""
    lam, mu = 1 / np.sqrt(max(X.shape)), X.size / (4 * np.abs(X).sum())
    S, Y = np.zeros_like(X), np.zeros_like(X)
    for _ in range(max_iter):
        U, sigma, Vt = np.linalg.svd(X - S + Y / mu, full_matrices=False)
        L = (U * np.maximum(sigma - 1 / mu, 0)) @ Vt
        T = X - L + Y / mu
        last, S = S, np.sign(T) * np.maximum(np.abs(T) - lam / mu, 0)
        Y = Y + mu * (X - L - S)
        gap, move = np.linalg.norm(X - L - S), np.linalg.norm(S - last)
        if max(gap, move) <= tol * np.linalg.norm(X):
            return L, S
    raise AssertionError("the reference did not converge")


def distance(A, B):
    return float(np.linalg.norm(np.asarray(A) - B) / np.linalg.norm(B))


def fitted(X, **options):
    return PrincipalComponentPursuit(random_state=0, **options).fit(X)


@pytest.mark.parametrize("seed", [0, 1])
@pytest.mark.parametrize("unit", [True, False])
@pytest.mark.parametrize("shape", [(150, 150), (300, 100), (100, 300)])
def test_planted_parts_are_recovered(shape, unit, seed):
    L, S = planted(*shape, 5, 0.05, seed, unit=unit)
    model = fitted(L + S)
    assert distance(model.low_rank_, L) <= 2e-6
    assert distance(model.sparse_, S) <= 2e-6
    assert model.n_components_ == 5
    assert model.gap_ <= 1e-7
    assert model.dual_residual_ <= 1e-7
    assert model.residual_ == max(model.gap_, model.dual_residual_)
    assert (model.n_samples_, model.n_passes_) == (shape[0], model.n_iter_)


@pytest.mark.parametrize("unit", [True, False])
def test_the_uniform_problem_of_the_source(unit):
    rng = np.random.default_rng(4)
    L = rng.standard_normal((500, 25)) @ rng.standard_normal((25, 500))
    L = L if unit else L / 500
    S = np.zeros(250_000)
    S[rng.choice(250_000, 12_500, replace=False)] = rng.choice([-1.0, 1.0], 12_500)
    model = fitted(L + S.reshape(500, 500))
    assert distance(model.low_rank_, L) <= 1e-6
    assert model.n_components_ == 25
    assert_array_equal(np.abs(model.sparse_).ravel() > 1e-3, S != 0)


@pytest.mark.parametrize("unit", [True, False])
def test_float32_stays_and_reports_what_it_reached(unit):
    L, S = planted(200, 150, 5, 0.05, unit=unit)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = fitted((L + S).astype(np.float32), tol=0.0)
    arrays = (model.low_rank_, model.sparse_, model.components_, model.singular_values_)
    assert {a.dtype for a in arrays} == {np.dtype(np.float32)}
    assert model.transform((L + S).astype(np.float32)).dtype == np.float32
    assert 0 < model.gap_ <= 2e-6
    assert distance(model.low_rank_, L) <= 5e-5


def test_zero_tolerance_ends_in_float64():
    L, S = planted(60, 50, 3, 0.05)
    model = fitted(L + S, tol=0.0)
    assert model.gap_ <= 1e-14
    assert distance(model.low_rank_, L) <= 1e-12


HARD = {
    "noise": lambda rng: rng.standard_normal((90, 60)),
    "noisy": lambda rng: sum(planted(60, 90, 4, 0.1)) + 0.1 * rng.standard_normal((60, 90)),
    "mean": lambda rng: 20 + rng.standard_normal((50, 40)) ** 3,
    "too many errors": lambda rng: sum(planted(60, 60, 6, 0.3, unit=False)),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", HARD)
def test_the_transcribed_algorithm_finds_the_same(name):
    X = HARD[name](np.random.default_rng(0))
    L, S = reference(X, 1e-10)
    model = fitted(X, tol=1e-9)
    assert distance(model.low_rank_, L) <= 1e-6
    assert distance(model.sparse_, S) <= 1e-6


@pytest.mark.parametrize("mu", [None, 0.02, 2.0])
def test_the_penalty_does_not_move_the_solution(mu):
    L, S = planted(80, 60, 3, 0.05)
    model = fitted(L + S, mu=mu, max_iter=5000)
    assert distance(model.low_rank_, L) <= 2e-6


@pytest.mark.parametrize("lam", [None, 0.08, 0.3])
@pytest.mark.parametrize("name", ["planted", *HARD])
def test_optimality_by_duality(name, lam):
    """``<X, Y> <= ||L||_* + lam ||S||_1`` for every Y with ``||Y||_2 <= 1`` and ``|Y_ij| <= lam``."""
    rng = np.random.default_rng(1)
    X = sum(planted(200, 150, 5, 0.05)) if name == "planted" else HARD[name](rng)
    lam = 1 / np.sqrt(max(X.shape)) if lam is None else lam
    found = pursue(X, lam=lam, mu=None, tol=1e-9, max_iter=10_000, shrink=Shrinkage(0))
    Y = found.Y
    assert np.abs(Y).max() <= lam * (1 + 1e-12)
    spectral = np.linalg.norm(Y, 2)
    assert spectral <= 1 + 1e-6
    primal = np.linalg.norm(found.L, "nuc") + lam * np.abs(found.S).sum()
    bound = float((X * Y).sum()) / max(spectral, 1.0)
    assert abs(primal - bound) <= 1e-6 * primal
    support = np.abs(found.S) > 1e-6 * np.abs(X).max()
    assert_allclose(Y[support], lam * np.sign(found.S[support]), atol=1e-9)
    U, sigma, V = found.triplets
    assert_allclose((U * sigma) @ V.T, found.L, atol=1e-10 * np.abs(X).max())
    clear = sigma > 1e-3 * sigma.max() if sigma.size else slice(None)
    assert_allclose((Y @ V)[:, clear], U[:, clear], atol=1e-4)


def test_transpose():
    L, S = planted(150, 90, 4, 0.05)
    assert_allclose(fitted((L + S).T).low_rank_.T, fitted(L + S).low_rank_, atol=1e-5)


@pytest.mark.parametrize("c", [1e-200, -0.3, 7.0, 1e200])
def test_scale(c):
    L, S = planted(150, 90, 4, 0.05)
    one, other = fitted(L + S), fitted(c * (L + S))
    assert_allclose(other.low_rank_ / c, one.low_rank_, atol=1e-5)
    assert_allclose(other.sparse_ / c, one.sparse_, atol=1e-5)
    assert_allclose(other.singular_values_ / abs(c), one.singular_values_, rtol=1e-5)


def test_powers_of_two_change_no_digit():
    X = sum(planted(60, 40, 3, 0.05))
    assert_array_equal(fitted(4 * X, mu=0.25).low_rank_, 4 * fitted(X, mu=1.0).low_rank_)


def test_row_order():
    L, S = planted(150, 100, 4, 0.05)
    order = np.random.default_rng(0).permutation(150)
    one, other = fitted(L + S), fitted((L + S)[order])
    assert_allclose(other.low_rank_, one.low_rank_[order], atol=1e-5)
    assert_allclose(other.components_, one.components_, atol=1e-5)


def test_components_are_singular_vectors_with_signs():
    L, S = planted(120, 100, 6, 0.05)
    model = fitted(L + S)
    V = model.components_
    assert_allclose(V @ V.T, np.eye(6), atol=1e-12)
    assert np.all(V[np.arange(6), np.abs(V).argmax(axis=1)] > 0)
    sigma = np.linalg.svd(model.low_rank_, compute_uv=False)
    assert_allclose(model.singular_values_, sigma[:6], rtol=1e-10)
    assert sigma[6] <= 1e-10 * sigma[0]
    assert_allclose(model.low_rank_ @ V.T @ V, model.low_rank_, atol=1e-10)


def test_deterministic():
    X = sum(planted(200, 120, 5, 0.05))
    first, second = fitted(X), fitted(X)
    assert_array_equal(first.low_rank_, second.low_rank_)
    assert_array_equal(first.components_, second.components_)
    third = clone(first).set_params(random_state=1).fit(X)
    assert_allclose(third.low_rank_, first.low_rank_, atol=1e-5)


def spectrum(N, d, sigma, seed=0):
    rng = np.random.default_rng(seed)
    k = len(sigma)
    U = np.linalg.qr(rng.standard_normal((N, k)))[0]
    return (U * sigma) @ np.linalg.qr(rng.standard_normal((d, k)))[0].T


@pytest.mark.parametrize("shape", [(300, 200), (200, 300)])
@pytest.mark.parametrize(
    "sigma",
    [
        np.r_[np.linspace(9, 3, 10), np.linspace(0.6, 0.1, 190)],
        np.r_[np.linspace(9, 3, 30), np.linspace(0.6, 0.1, 170)],
        np.r_[np.full(18, 2.0), np.full(182, 0.9)],
        np.linspace(3, 0, 200),
        np.linspace(0.9, 0, 200),
        np.zeros(200),
        np.r_[1e6, np.linspace(3, 0.1, 199)],
    ],
    ids=["few", "more", "clusters", "no gap", "none above", "zero", "wide"],
)
def test_shrinkage_is_that_of_the_full_svd(shape, sigma):
    Z = spectrum(*shape, sigma)
    U, values, V = svd_triplets(Z, 1.0)
    exact = (U * (values - 1)) @ V.T
    shrink = Shrinkage(0)
    for _ in range(2):  # cold, then warm
        found = shrink(Z, 1.0, 1e-6)
        U, values, V = found
        assert shrink.certify(Z, 1.0, found, 1e-6)
        assert np.linalg.norm((U * (values - 1)) @ V.T - exact) <= 2e-6 * max(1, sigma[0] / 1e3)
        Z = Z + 1e-9 * np.random.default_rng(1).standard_normal(shape)
    U, values, V = gram_triplets(Z, 1.0)
    assert_allclose((U * (values - 1)) @ V.T, exact, atol=1e-6)


def test_what_a_subspace_missed_is_seen_and_found():
    sigma = np.r_[np.full(4, 5.0), np.full(196, 0.1)]
    Z = np.zeros((300, 200))
    Z[:150, :100] = spectrum(150, 100, sigma[:100])
    shrink = Shrinkage(0)
    assert shrink(Z, 1.0, 1e-8)[1].shape == (4,)
    shrink.basis = np.linalg.svd(Z)[2][:10].T  # blind to the columns that come now
    shrink.has_random = False
    Z[150:, 100:] = spectrum(150, 100, sigma[:100], 1)
    found = shrink(Z, 1.0, 1e-8)
    assert found[1].shape == (4,)
    assert not shrink.certify(Z, 1.0, found, 1e-8)
    found = shrink(Z, 1.0, 1e-8)
    assert found[1].shape == (8,)
    assert shrink.certify(Z, 1.0, found, 1e-8)


def test_the_iterations_go_on_after_something_was_missed():
    class Doubting(Shrinkage):
        doubts, after = 0, ()

        def __call__(self, *step):
            found = super().__call__(*step)
            if self.doubts == 1:
                self.after += (self.exact,)
            return found

        def certify(self, *step):
            if self.doubts == 0:
                self.doubts, self.basis, self.use_gram = 1, None, True
                return False
            return super().certify(*step)

    L, S = planted(150, 120, 4, 0.05)
    shrink = Doubting(0)
    found = pursue(L + S, lam=0.08, mu=None, tol=1e-7, max_iter=1000, shrink=shrink)
    assert shrink.after[0]  # the step after the doubt is by the Gram matrix
    assert found.converged
    assert distance(found.L, L) <= 2e-6


@pytest.mark.parametrize(("N", "d", "k"), [(20, 12, 3), (20, 7, 1), (10, 30, 8), (6, 5, 4)])
@pytest.mark.parametrize("kind", ["normal", "sparse", "whole numbers"])
def test_scores_minimise_the_sum_of_absolute_residuals(N, d, k, kind):
    rng = np.random.default_rng(d)
    V = np.linalg.qr(rng.standard_normal((d, k)))[0]
    X = {
        "normal": rng.standard_normal((N, d)),
        "sparse": rng.standard_normal((N, k)) @ V.T + 5.0 * (rng.random((N, d)) < 0.1),
        "whole numbers": rng.integers(-2, 3, (N, d)).astype(float),
    }[kind]
    T = l1_scores(X, V)
    cost = np.r_[np.zeros(k), np.ones(2 * d)]
    bounds = [(None, None)] * k + [(0, None)] * (2 * d)
    for x, t in zip(X, T, strict=True):
        best = linprog(cost, A_eq=np.c_[V, np.eye(d), -np.eye(d)], b_eq=x, bounds=bounds).fun
        assert np.abs(x - V @ t).sum() <= best + 1e-8 * max(np.abs(x).sum(), 1)


def test_scores_of_rows_in_the_subspace_and_of_zero():
    V = np.linalg.qr(np.random.default_rng(0).standard_normal((9, 4)))[0]
    T = np.random.default_rng(1).standard_normal((6, 4))
    T[2] = 0
    assert_allclose(l1_scores(T @ V.T, V), T, atol=1e-12)
    assert_allclose(l1_scores(T @ np.eye(4), np.eye(4)), T, atol=1e-12)


@pytest.mark.parametrize("unit", [True, False])
def test_transform_of_training_rows_is_the_low_rank_part(unit):
    L, S = planted(200, 120, 5, 0.05, unit=unit)
    model = fitted(L + S)
    scores = model.low_rank_ @ model.components_.T
    size = np.abs(scores).max()
    assert_allclose(model.transform(L + S), scores, atol=1e-5 * size)
    assert_array_equal(clone(model).fit_transform(L + S), model.transform(L + S))
    assert_allclose(model.inverse_transform(scores), model.low_rank_, atol=1e-10)


def test_transform_of_new_rows_withstands_bad_entries():
    L, S = planted(260, 120, 5, 0.05)
    model = fitted((L + S)[:200])
    rows = model.inverse_transform(model.transform((L + 100 * S)[200:]))
    assert_allclose(rows, L[200:], atol=1e-4)
    assert_array_equal(model.get_feature_names_out()[:1], ["principalcomponentpursuit0"])


def test_batches_of_rows_change_nothing(monkeypatch):
    X = sum(planted(40, 30, 3, 0.05))
    model = fitted(X)
    whole = model.transform(X)
    monkeypatch.setattr(l1_fit, "BATCH", 100)
    assert_allclose(model.transform(X), whole, atol=1e-8)


def test_rows_left_unfinished_are_told(monkeypatch):
    X = np.random.default_rng(0).standard_normal((20, 10))
    model = fitted(X)
    monkeypatch.setattr(l1_fit, "MAX_STEPS", 1)
    with pytest.warns(ConvergenceWarning, match="of 20 rows were not fitted"):
        assert model.transform(X).shape == (20, model.n_components_)


@pytest.mark.parametrize("shape", [(10, 6), (200, 150), (1, 4), (4, 1), (1, 1)])
def test_zero(shape):
    model = fitted(np.zeros(shape))
    assert model.n_components_ == 0
    assert model.components_.shape == (0, shape[1])
    assert model.singular_values_.shape == (0,)
    assert not model.low_rank_.any()
    assert not model.sparse_.any()
    assert model.gap_ == 0
    assert model.transform(np.ones(shape)).shape == (shape[0], 0)
    assert_array_equal(model.inverse_transform(np.zeros((3, 0))), np.zeros((3, shape[1])))
    assert model.get_feature_names_out().shape == (0,)


@pytest.mark.parametrize("lam", [1e-3, 0.7, 100.0])
def test_one_row_and_one_column(lam):
    """``min ||l|| + lam ||s||_1, l + s = x``: small lam leaves all to s, large lam all to l."""
    x = np.array([[3.0, -1.0, 0.5, 0.0, 10.0]])
    for X in (x, x.T):
        model = fitted(X, lam=lam, tol=1e-10, max_iter=100_000)
        value = np.linalg.norm(model.low_rank_) + lam * np.abs(model.sparse_).sum()
        # l is x clipped to a level: the best of many is an oracle.
        clipped = [np.clip(X, -c, c) for c in np.linspace(0, 10, 20_001)]
        best = min(np.linalg.norm(l) + lam * np.abs(X - l).sum() for l in clipped)
        assert value <= best + 1e-6
        assert_allclose(model.low_rank_ + model.sparse_, X, atol=1e-8)
        assert model.n_components_ == int(lam > 1e-3)


def test_constant_columns_are_low_rank():
    X = np.tile(np.arange(1.0, 21.0), (50, 1))
    X[3, 4], X[7, 11] = 90.0, -40.0
    model = fitted(X)
    assert model.n_components_ == 1
    assert_allclose(model.low_rank_, np.tile(np.arange(1.0, 21.0), (50, 1)), atol=1e-4)


def test_arrays_of_torch():
    torch = pytest.importorskip("torch")
    L, S = planted(150, 100, 4, 0.05)
    X = torch.asarray(L + S)
    model = fitted(X)
    for name in ("low_rank_", "sparse_", "components_", "singular_values_"):
        assert isinstance(getattr(model, name), torch.Tensor), name
    assert distance(model.low_rank_, L) <= 2e-6
    scores = model.transform(X)
    assert scores.dtype == torch.float64
    assert_allclose(scores, fitted(L + S).transform(L + S), atol=1e-4)
    assert fitted(X.to(torch.float32)).low_rank_.dtype == torch.float32
    with pytest.raises(ValueError, match="same namespace"):
        model.transform(L + S)


def test_memory_map_and_whole_numbers(tmp_path):
    X = np.random.default_rng(0).integers(0, 9, (30, 12))
    file = np.memmap(tmp_path / "x", dtype="float64", mode="w+", shape=X.shape)
    file[:] = X
    expected = fitted(X.astype(float)).low_rank_
    assert_allclose(fitted(file).low_rank_, expected, atol=1e-6)
    assert_array_equal(np.asarray(file), X)
    assert_allclose(fitted(X).low_rank_, expected, atol=1e-6)


def test_data_is_left_as_it_was():
    X = sum(planted(100, 100, 3, 0.05))
    copy = X.copy()
    fitted(X).transform(X)
    assert_array_equal(X, copy)


def test_verbose(capsys):
    X = sum(planted(40, 30, 2, 0.05))
    model = fitted(X, verbose=2)
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == model.n_iter_ == len(model.convergence_)
    found = re.match(r"PrincipalComponentPursuit: pursuit, pass (\d+), residual (\S+) ", lines[-1])
    assert int(found[1]) == model.n_iter_
    assert_allclose(float(found[2]), max(model.gap_, model.dual_residual_), rtol=0.06)
    fitted(X)
    assert capsys.readouterr().err == ""


def test_warning_at_max_iter_tells_the_gap():
    L, S = planted(60, 50, 3, 0.05)
    with pytest.warns(
        ConvergenceWarning, match=r"max_iter=3 with a gap of \d.* above tol"
    ) as caught:
        model = fitted(L + S, max_iter=3)
    assert caught[0].filename == __file__
    assert model.n_iter_ == 3
    sigma = np.linalg.svd(model.low_rank_, compute_uv=False)
    assert_allclose(model.singular_values_, sigma[: model.n_components_], rtol=1e-10)
    gap = np.linalg.norm(L + S - model.low_rank_ - model.sparse_) / np.linalg.norm(L + S)
    assert_allclose(model.gap_, gap, rtol=1e-8)


@pytest.mark.parametrize(
    ("options", "name"),
    [
        ({"lam": 0.0}, "lam"),
        ({"lam": "auto"}, "lam"),
        ({"mu": -1.0}, "mu"),
        ({"tol": -1e-3}, "tol"),
        ({"max_iter": 0}, "max_iter"),
        ({"verbose": -1}, "verbose"),
    ],
)
def test_bad_parameters_are_named(options, name):
    with pytest.raises(ValueError, match=f"'{name}' parameter"):
        fitted(np.eye(3), **options)


def test_bad_data_is_refused():
    with pytest.raises(TypeError, match="Sparse data was passed"):
        fitted(sp.csr_array(np.eye(4)))
    with pytest.raises(TypeError, match="dense array"):
        fitted(as_operator(np.eye(4)))
    with pytest.raises(ValueError, match="NaN"):
        fitted(np.array([[1.0, np.nan]]))
    model = fitted(np.eye(4))
    with pytest.raises(ValueError, match="expecting 4 features"):
        model.transform(np.eye(3))
    with pytest.raises(ValueError, match="inverse_transform expects"):
        model.inverse_transform(np.ones((2, model.n_components_ + 1)))
    with pytest.raises(NotFittedError):
        PrincipalComponentPursuit().transform(np.eye(4))


def test_benchmark(capsys):
    benchmark.main(["--shapes", "60x40", "--repeats", "1"])
    lines = [line for line in capsys.readouterr().out.splitlines() if "| ours |" in line]
    assert len(lines) == 2
    assert all(float(line.split("|")[-2]) < 1e-5 for line in lines)
    L, S = benchmark.planted(100, 60, benchmark.SCALES[1])
    assert np.linalg.matrix_rank(L) == 3
    assert np.count_nonzero(S) == 300


def test_full_svds_give_the_same_path():
    X = sum(planted(200, 150, 5, 0.05))
    options = {"lam": 0.07, "mu": None, "tol": 1e-7, "max_iter": 1000}
    ours = pursue(X, shrink=Shrinkage(0), **options)
    full = pursue(X, shrink=benchmark.FullSVD(0), **options)
    assert abs(ours.iterations - full.iterations) <= 3
    assert distance(ours.L, full.L) <= 1e-6
    assert count_above(ours.triplets[1], 0.0) == 5


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_singular_values_that_overflow_are_refused(dtype):
    X = np.full((30, 8), np.finfo(dtype).max / 2, dtype=dtype)
    with pytest.raises(ValueError, match=r"X has entries so large, .* divide X by its largest"):
        PrincipalComponentPursuit().fit(X)
