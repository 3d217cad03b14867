"""Bounds, exchanges and branch and bound of sparse PCA against brute force over all supports."""

from __future__ import annotations

import itertools
import json

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.datasets import load_breast_cancer, load_digits, load_wine
from sklearn.exceptions import ConvergenceWarning
from tests.loops import over

from dualpca import SparsePCA, as_operator, cli, load, save
from dualpca.progress import Listener, listening
from dualpca.report import write_report
from dualpca.sparse import active as _active
from dualpca.sparse.bounds import SMALL, bound_above, nystroem_bound, threshold_bound, upper_bound
from dualpca.sparse.branch import best_support
from dualpca.sparse.deflation import DeflatedGram, unit
from dualpca.sparse.search import _exchanged

#: The lower triangle of the correlations of the pit props (Jeffers 1967).
PIT_PROPS = """
.954
.364 .297
.342 .284 .882
-.129 -.118 -.148 .220
.313 .291 .153 .381 .364
.496 .503 -.029 .174 .296 .813
.424 .419 -.054 -.059 .004 .090 .372
.592 .648 .125 .137 -.039 .211 .465 .482
.545 .569 -.081 -.014 .037 .274 .679 .557 .526
.084 .076 .162 .097 -.091 -.036 -.113 .061 .085 -.319
-.019 -.036 .220 .169 -.145 .024 -.232 -.357 -.127 -.368 .029
.134 .144 .126 .015 -.208 -.329 -.424 -.202 -.076 -.291 .007 .184
"""

#: Optima that the literature reports.
PUBLISHED = {"pit props": {5: 3.40615, 10: 4.17264}, "wine": {5: 3.43978, 10: 4.59429}}


def pit_props():
    C = np.eye(13)
    rows = [line.split() for line in PIT_PROPS.strip().splitlines()]
    for i, row in enumerate(rows, start=1):
        C[i, :i] = C[:i, i] = np.array(row, dtype=float)
    return C


CORRELATIONS = {
    "pit props": pit_props(),
    "wine": np.corrcoef(load_wine().data.T),
    "breast cancer": np.corrcoef(load_breast_cancer().data.T),
}


def root(C):
    theta, V = np.linalg.eigh(C)
    return (V * np.sqrt(np.maximum(theta, 0.0))) @ V.T


def random_rows(seed, d):
    """Rows of one of several kinds, some standardised, fewer or more than features."""
    rng = np.random.default_rng(seed)
    N = int(rng.integers(4, 50))
    X = rng.standard_normal((N, d))
    if seed % 4 == 1:
        X = X @ (rng.standard_normal((d, d)) * 0.9 ** np.arange(d))
    elif seed % 4 == 2:
        X = X + rng.standard_normal((N, 3)) @ rng.standard_normal((3, d))
    elif seed % 4 == 3:
        X = X * rng.uniform(0.3, 2, d)
    X = X - X.mean(axis=0)
    return X / X.std(axis=0) if seed % 2 else X


def brute_force(C, k):
    """The largest eigenvalue on k features."""
    sets = np.array(list(itertools.combinations(range(len(C)), k)))
    parts = np.array_split(sets, len(sets) // 5000 + 1)
    return max(np.linalg.eigvalsh(C[S[:, :, None], S[:, None, :]])[:, -1].max() for S in parts)


def fit(X, k, **options):
    """The model of one component, its variance and the bound, of X as it is."""
    model = SparsePCA(1, n_nonzero=k, center=False, **options).fit(X)
    scale = len(X) - 1
    return model, model.explained_variance_[0] * scale, model.upper_bound_[0] * scale


# Bounds.


def no_support_is_above_the_bounds(seed, d):
    X = random_rows(seed, d)
    C = X.T @ X
    optima = [0.0, *(brute_force(C, k) for k in range(1, d + 1))]
    for k in range(1, d + 1):
        best = optima[k]
        least = best * (1 - 1e-12)
        model, variance, bound = fit(X, k)
        assert bound >= least
        assert variance <= best * (1 + 1e-12)
        assert model.gap_[0] == pytest.approx(1 - variance / bound, abs=1e-12)
        for most in (0, SMALL):  # without thresholds, and with
            assert upper_bound(C, k, most)[0] >= least
            assert upper_bound(C, k, most)[1] >= optima[k - 1] * (1 - 1e-12)
            for level in (0.9 * best, best):
                assert bound_above(C, k, level, most)[0] >= least
        V = np.random.default_rng(seed).standard_normal((d, min(3, d)))
        assert nystroem_bound(np.diag(C), V, C @ V, k) >= least


@over(("seed", "d"), [(seed, 2 + seed % 7) for seed in range(21)])
def test_no_support_is_above_the_bounds(seed, d):
    no_support_is_above_the_bounds(seed, d)


@pytest.mark.slow
@over(("seed", "d"), [(seed, 2 + seed % 15) for seed in range(500)])
def test_no_support_of_500_matrices_is_above_the_bounds(seed, d):
    no_support_is_above_the_bounds(seed, d)


@pytest.mark.parametrize("k", [1, 2, 5, 9])
def test_a_threshold_bounds_by_the_eigenvalue_that_it_leaves(k):
    C = np.cov(random_rows(2, 9).T)
    bound, rho = threshold_bound(C, k)
    soft = np.sign(C) * np.maximum(np.abs(C) - rho, 0)
    assert bound == pytest.approx(np.linalg.eigvalsh(soft)[-1] + k * rho, rel=1e-12)
    grid = np.linspace(0, np.abs(C).max(), 200)
    values = [
        np.linalg.eigvalsh(np.sign(C) * np.maximum(np.abs(C) - r, 0))[-1] + k * r for r in grid
    ]
    assert bound <= min(values) * (1 + 1e-3)
    assert threshold_bound(C, 9)[0] == pytest.approx(np.linalg.eigvalsh(C)[-1], rel=1e-12)


def test_features_that_are_left_out_are_in_no_better_support():
    d, k, left_out = 9, 3, 0
    for seed in range(12):
        C = np.cov(random_rows(seed, d).T)
        values = {
            S: np.linalg.eigvalsh(C[np.ix_(S, S)])[-1] for S in itertools.combinations(range(d), k)
        }
        best = max(values.values())
        for level in (0.8 * best, 0.999 * best):
            bound, kept = bound_above(C, k, level)
            assert bound >= best * (1 - 1e-12)
            for S, value in values.items():
                assert value <= level or set(S) <= set(kept.tolist())
            left_out += d - len(kept)
    assert left_out > 0


@pytest.mark.parametrize("deflation", ["projection", "orthogonal", "schur"])
@pytest.mark.parametrize("way", ["whole", "active", "passes"])
def test_bounds_of_later_components_are_those_of_the_deflated_matrix(deflation, way, monkeypatch):
    monkeypatch.setattr(_active, "ALL", 1500 if way == "whole" else 5)
    monkeypatch.setattr(_active, "ACTIVE", 0 if way == "passes" else 4000)
    X = random_rows(2, 9)
    model = SparsePCA(3, n_nonzero=(2, 3, 4), center=False, deflation=deflation).fit(X)
    left, taken = X.copy(), np.zeros((9, 0))
    for w, k, bound, gap in zip(
        model.components_, (2, 3, 4), model.upper_bound_, model.gap_, strict=True
    ):
        C, scale = left.T @ left, len(X) - 1
        assert bound * scale >= brute_force(C, k) * (1 - 1e-12)
        assert gap == pytest.approx(1 - w @ C @ w / (bound * scale), abs=1e-12)
        if deflation == "schur":
            u = left @ w / np.linalg.norm(left @ w)
            left = left - np.outer(u, u @ left)
        else:
            v = w - taken @ (taken.T @ w) if deflation == "orthogonal" else w
            v = v / np.linalg.norm(v)
            taken = np.column_stack([taken, v])
            left = left - np.outer(left @ v, v)


@pytest.mark.parametrize("options", [{"method": "block"}, {"penalty": "l1"}, {"positive": True}])
def test_every_method_has_a_bound(options):
    X = random_rows(6, 10)
    model = SparsePCA(2, n_nonzero=3, center=False, alpha=0.2, **options).fit(X)
    k = int(model.n_nonzero_[0]) if "penalty" in options else 3
    assert model.upper_bound_[0] * (len(X) - 1) >= brute_force(X.T @ X, k) * (1 - 1e-12)
    assert ((model.gap_ >= 0) & (model.gap_ < 1)).all()


def test_without_variance_there_is_no_gap():
    with pytest.warns(UserWarning, match="no variance"):
        model = SparsePCA(2, n_nonzero=1).fit(np.ones((5, 3)))
    assert_array_equal(model.gap_, 0)
    assert_allclose(model.upper_bound_, 0, atol=1e-15)


@pytest.mark.parametrize("scale", [1e-150, 1e150])
def test_bounds_scale_with_the_data(scale):
    X = random_rows(2, 8)
    one, other = (SparsePCA(2, n_nonzero=3, certify=True).fit(c * X) for c in (1.0, scale))
    assert_allclose(other.upper_bound_ / scale**2, one.upper_bound_, rtol=1e-9)
    assert_array_equal(other.components_ != 0, one.components_ != 0)


def test_many_features_cost_no_further_pass():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((200, 3000))
    X[:, 5:15] += 3 * rng.standard_normal((200, 1))
    counted = as_operator(X)
    columns = []
    bounds = _active.ActiveColumns.bounds

    def noting(self, *args):
        before = self.X.passes
        answer = bounds(self, *args)
        columns.append(self.X.passes - before)
        return answer

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_active.ActiveColumns, "bounds", noting)
        model = SparsePCA(2, n_nonzero=10).fit(counted)
        other = SparsePCA(2, n_nonzero=10).fit(sp.csr_array(X))
    assert columns == [0, 0]
    C = np.cov(X[:, 5:15].T)
    assert model.upper_bound_[0] >= np.linalg.eigvalsh(C)[-1]
    assert model.gap_[0] < 0.3
    assert_allclose(other.upper_bound_, model.upper_bound_, rtol=1e-6)


# The search.


def test_an_exchange_is_found_if_and_only_if_there_is_one():
    for seed in range(30):
        C = DeflatedGram(as_operator(random_rows(seed, 8)))
        rng = np.random.default_rng(seed)
        full, S = C.block(np.arange(8)), np.sort(rng.choice(8, 1 + seed % 6, replace=False))
        theta, V = np.linalg.eigh(full[np.ix_(S, S)])
        if len(S) > 1 and theta[-1] - theta[-2] < 1e-6 * theta[-1]:
            continue
        w = np.zeros((8, 1))
        w[S, 0] = V[:, -1]
        swaps = [
            [*np.delete(S, i), j] for i in range(len(S)) for j in np.setdiff1d(np.arange(8), S)
        ]
        best = max(np.linalg.eigvalsh(full[np.ix_(T, T)])[-1] for T in swaps)
        new = _exchanged(C, w)
        assert (new is not None) == (best > theta[-1] * (1 + 1e-9))
        if new is not None:
            assert np.count_nonzero(new) == len(S)
            assert theta[-1] < float(np.vdot(new, full @ new)) <= best * (1 + 1e-12)


@pytest.mark.parametrize("name", ["pit props", "wine"])
def test_the_default_is_optimal_for_every_number_of_nonzeros_and_seed(name):
    C = CORRELATIONS[name]
    X = root(C)
    for k in range(1, len(C) + 1):
        best = brute_force(C, k)
        model, variance, bound = fit(X, k)
        assert variance == pytest.approx(best, rel=1e-9)
        assert bound >= best * (1 - 1e-12)
        assert k != 5 or model.gap_[0] <= 0.05
        if k in PUBLISHED[name]:
            assert variance == pytest.approx(PUBLISHED[name][k], abs=1e-5)
    for seed in range(3):
        again = fit(X, 4, random_state=seed)[0]
        assert_array_equal(again.components_, fit(X, 4)[0].components_)


@pytest.mark.slow
def test_the_default_is_optimal_on_breast_cancer():
    C = CORRELATIONS["breast cancer"]
    X = root(C)
    for k in range(1, 31):
        model, variance, _ = fit(X, k)
        _, proven, bound = fit(X, k, certify=True)
        assert bound == pytest.approx(proven, rel=1e-8)
        assert variance == pytest.approx(proven, rel=1e-8)
        assert k != 5 or model.gap_[0] <= 0.05


def is_optimal(seed, most):
    rng = np.random.default_rng(1000 + seed)
    d = int(rng.integers(6, most + 1))
    k, X = int(rng.integers(2, d - 1)), random_rows(seed, d)
    return fit(X, k)[1] >= brute_force(X.T @ X, k) * (1 - 1e-9)


def test_the_default_is_optimal_on_nearly_all_random_matrices():
    assert sum(is_optimal(seed, 11) for seed in range(40)) >= 39


@pytest.mark.slow
def test_the_default_is_optimal_on_200_random_matrices():
    assert sum(is_optimal(seed, 18) for seed in range(200)) >= 196


# Branch and bound.


@pytest.mark.parametrize("name", ["pit props", "wine"])
def test_certify_proves_every_number_of_nonzeros(name):
    C = CORRELATIONS[name]
    for k in range(1, len(C) + 1):
        model, variance, bound = fit(root(C), k, certify=True)
        assert model.gap_[0] <= 1e-8
        assert variance == pytest.approx(brute_force(C, k), rel=1e-9)
        assert bound >= variance * (1 - 1e-12)


def test_a_search_from_any_support_ends_at_the_best():
    for seed in range(24):
        d, k = 4 + seed % 6, 2 + seed % 3
        C = np.cov(random_rows(seed, d).T)
        w = np.eye(1, d, seed % d).T
        w, bound, _ = best_support(C, k, w, 10**4)
        best = brute_force(C, min(k, d))
        assert np.count_nonzero(w) <= k
        assert float(np.vdot(w, C @ w)) == pytest.approx(best, rel=1e-8)
        assert best * (1 - 1e-12) <= bound <= best * (1 + 1e-8)


def test_certify_proves_each_component_in_what_the_others_leave():
    X = random_rows(2, 9)
    model = SparsePCA(3, n_nonzero=3, certify=True).fit(X)
    assert (model.gap_ <= 1e-8).all()
    free = SparsePCA(3, n_nonzero=3).fit(X)
    assert model.upper_bound_[0] <= free.upper_bound_[0] * (1 + 1e-12)
    assert free.n_nodes_ == 0
    C = np.cov(X.T)
    for w in model.components_:
        assert w @ C @ w == pytest.approx(brute_force(C, 3), rel=1e-8)
        P = np.eye(9) - np.outer(w, w)
        C = P @ C @ P


def test_nodes_run_out():
    X = load_digits().data[:300]
    with pytest.warns(ConvergenceWarning, match=r"left a gap_ of .* after max_nodes=1 nodes"):
        model = SparsePCA(1, n_nonzero=6, certify=True, max_nodes=1).fit(X)
    assert model.n_nodes_ == 1
    assert 0 < model.gap_[0] < SparsePCA(1, n_nonzero=6).fit(X).gap_[0] * (1 + 1e-9)


def test_listeners_hear_of_nodes_and_stop_them():
    class Stop(Listener):
        def __init__(self):
            self.steps = []

        def step(self, step):
            if step.phase == "certificate":
                self.steps.append(step)
                return len(self.steps) == 2
            return None

    stop = Stop()
    with listening(stop):
        model = fit(root(CORRELATIONS["wine"]), 7, certify=True)[0]
    assert [step.passes for step in stop.steps] == [1, 2]
    assert stop.steps[0].solver == "branch and bound"
    assert stop.steps[1].value == pytest.approx(model.gap_[0], rel=1e-6)
    assert model.n_nodes_ == 2


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"method": "block"}, r"certify=True proves .*got method='block'"),
        ({"penalty": "l1"}, r"penalty='l1'"),
        ({"positive": True}, r"positive=True; change these"),
        ({"max_nodes": 0}, r"max_nodes"),
        ({"certify": "yes"}, r"certify"),
    ],
    ids=str,
)
def test_bad_parameters_of_certify(options, words):
    with pytest.raises(ValueError, match=words):
        SparsePCA(**{"n_components": 1, "certify": True, **options}).fit(random_rows(0, 5))


def test_too_many_features_for_a_proof():
    X = np.random.default_rng(0).standard_normal((4, 1501))
    with pytest.raises(ValueError, match=r"at most 1,500 features, got 1,501; choose"):
        SparsePCA(1, n_nonzero=2, certify=True).fit(X)


def test_bounds_are_saved_and_told(tmp_path, capsys):
    model = SparsePCA(2, n_nonzero=3).fit(random_rows(2, 9))
    save(model, tmp_path / "model.dualpca")
    again = load(tmp_path / "model.dualpca")
    assert_array_equal(again.gap_, model.gap_)
    assert_array_equal(again.upper_bound_, model.upper_bound_)
    write_report(again, tmp_path / "report.html")
    page = (tmp_path / "report.html").read_text()
    assert "each one misses at most" in page
    for words in ([], ["--json"]):
        with pytest.raises(SystemExit) as end:
            cli.main(["inspect", str(tmp_path / "model.dualpca"), *words])
        assert not end.value.code
        told = capsys.readouterr().out
        if words:
            assert_allclose(json.loads(told)["gap"], model.gap_)
        else:
            assert f"components miss at most {model.gap_.max():.2%}" in told


def test_kinds_of_arrays_stay():
    torch = pytest.importorskip("torch")
    X = random_rows(2, 9).astype(np.float32)
    model = SparsePCA(2, n_nonzero=3).fit(X)
    assert model.gap_.dtype == model.upper_bound_.dtype == np.float32
    other = SparsePCA(2, n_nonzero=3).fit(torch.asarray(X))
    assert isinstance(other.gap_, torch.Tensor)
    assert_allclose(other.upper_bound_.numpy(), model.upper_bound_, rtol=1e-4)
    assert_allclose(np.linalg.norm(unit(model.components_.T), axis=0), 1, rtol=1e-5)
