"""Stacked kernel PCA: stationary by autodiff, equal to plain transcriptions, the same rows come out."""

from __future__ import annotations

import re
from functools import partial

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose, assert_array_equal
from sklearn import decomposition
from sklearn.base import clone
from sklearn.datasets import load_digits
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics.pairwise import pairwise_kernels
from tests.loops import over

import dualpca
from dualpca import DeepKernelPCA, KernelPCA
from dualpca.kernels.deep import DeepProblem, Level
from dualpca.kernels.deep_solver import maximize
from dualpca.kernels.features import nystroem, random_fourier
from dualpca.kernels.gradients import DERIVATIVES, Rows, pullback
from dualpca.kernels.pairwise import pairwise
from dualpca.progress import Listener, listening

torch = pytest.importorskip("torch")

X = load_digits().data[:80] / 16
NEW = load_digits().data[80:100] / 16

#: Levels whose kernels are known by numbers alone, so that an oracle can evaluate them.
RBF = {"kernel": "rbf", "gamma": 0.05}
STACKS = {
    "rbf, rbf": [(6, RBF), (3, {"kernel": "rbf", "gamma": 0.2})],
    "linear, rbf": [(5, {"kernel": "linear"}), (3, {"kernel": "rbf", "gamma": 0.1})],
    "rbf, linear": [(5, RBF), (3, {"kernel": "linear"})],
    "rbf, poly": [(5, RBF), (3, {"kernel": "poly", "gamma": 0.1, "degree": 2, "coef0": 1})],
    "laplacian, rbf": [
        (5, {"kernel": "laplacian", "gamma": 0.05}),
        (3, {"kernel": "rbf", "gamma": 0.2}),
    ],
    "three levels": [
        (8, RBF),
        (5, {"kernel": "rbf", "gamma": 0.1}),
        (3, {"kernel": "rbf", "gamma": 0.2}),
    ],
}
CASES = [(name, coupling) for name in STACKS for coupling in (0.1, 0.5)]


def model_of(name, **options):
    levels = [KernelPCA(s, **kernel) for s, kernel in STACKS[name]]
    return DeepKernelPCA(levels, **{"random_state": 0, **options})


def kernel(U, V, kernel, gamma=None, degree=3, coef0=1):
    """The kernels of the stacks in torch, by their definitions."""
    if kernel == "rbf":
        squares = (U**2).sum(1)[:, None] + (V**2).sum(1)
        return torch.exp(-gamma * (squares - 2 * U @ V.T))
    if kernel == "poly":
        return (gamma * U @ V.T + coef0) ** degree
    if kernel == "laplacian":
        return torch.exp(-gamma * (U[:, None] - V[None]).abs().sum(-1))
    return U @ V.T


def centred(K):
    K = K - K.mean(axis=0)
    return K - K.mean(axis=1)[:, None]


def stacked_by_hand(name):
    """Kernel PCA of each level after the other, by LAPACK: hidden features and traces."""
    rows, H, totals = X, [], []
    for s, params in STACKS[name]:
        K = centred(
            pairwise_kernels(
                rows, metric=params["kernel"], **{k: v for k, v in params.items() if k != "kernel"}
            )
        )
        totals.append(np.trace(K))
        H.append(np.linalg.eigh(K)[1][:, ::-1][:, :s])
        rows = np.sqrt(len(X) - 1) * H[-1]
    return H, totals


def objective(H, name, coupling, totals):
    """The objective of the docstring, in torch."""
    below, value = torch.tensor(X), 0.0
    for j, (h, (_, params), total) in enumerate(zip(H, STACKS[name], totals, strict=True)):
        K = kernel(below, below, **params)
        K = K - K.mean(dim=0)
        K = K - K.mean(dim=1, keepdim=True)
        value = value + coupling**j * torch.trace(h.T @ K @ h) / (2 * total)
        below = np.sqrt(len(X) - 1) * h
    return value


def hidden(model):
    return [
        torch.tensor(h / np.sqrt(len(X) - 1), requires_grad=True) for h in model.hidden_features_
    ]


@over(("name", "coupling"), CASES)
def test_stationary_by_autodiff(name, coupling):
    model = model_of(name, coupling=coupling).fit(X)
    totals = stacked_by_hand(name)[1]
    H = hidden(model)
    value = objective(H, name, coupling, totals)
    assert_allclose(value.item(), model.objective_, rtol=1e-10)
    value.backward()
    for j, h in enumerate(H):
        Z, h = h.grad.numpy() / coupling**j, h.detach().numpy()
        Z = Z - Z.mean(axis=0)
        assert_allclose(h.T @ h, np.eye(h.shape[1]), atol=1e-12)
        assert_allclose(h.sum(axis=0), 0, atol=1e-12)
        Lambda = np.diag(model.multipliers_[j])
        assert np.linalg.norm(Z - h @ Lambda) <= 2e-6 * np.linalg.norm(Z)
        assert (np.diff(model.multipliers_[j]) <= 1e-12).all()
        assert (h.max(axis=0) >= -h.min(axis=0)).all()
    assert model.residual_ <= 1e-6


@over(("name", "coupling"), CASES)
def test_the_objective_never_falls_and_no_move_raises_it(name, coupling):
    model = model_of(name, coupling=coupling).fit(X)
    assert (np.diff(model.objectives_) >= -1e-13).all()
    start, totals = stacked_by_hand(name)
    first = float(objective([torch.tensor(h.copy()) for h in start], name, coupling, totals))
    assert_allclose(model.objectives_[0], first, rtol=1e-6)
    if name == "rbf, linear":  # hidden features are white: every direction is as good
        assert_allclose(model.objective_, first)
    else:
        assert model.objective_ > first
    rng = np.random.default_rng(0)
    H = [h.detach().numpy() for h in hidden(model)]
    for _ in range(5):
        moved = []
        for h in H:
            V = rng.standard_normal(h.shape)
            U, _, Vt = np.linalg.svd(
                h + 1e-3 * (V - V.mean(axis=0)) / np.linalg.norm(V), full_matrices=False
            )
            moved.append(torch.tensor(U @ Vt))
        assert float(objective(moved, name, coupling, totals)) < model.objective_ + 1e-12


def dca_by_hand(name, coupling, shift, steps):
    """``H_j = polar(dJ/dH_j c^(1-j) + shift H_j)`` for all levels at once, from the stacked start."""
    start, totals = stacked_by_hand(name)
    H = [torch.tensor(h.copy(), requires_grad=True) for h in start]
    for _ in range(steps):
        objective(H, name, coupling, totals).backward()
        new = []
        for j, h in enumerate(H):
            Z = h.grad.numpy() / coupling**j
            U, _, Vt = np.linalg.svd(
                Z - Z.mean(axis=0) + shift * h.detach().numpy(), full_matrices=False
            )
            new.append(torch.tensor(U @ Vt, requires_grad=True))
        H = new
    return [h.detach().numpy() for h in H], objective(H, name, coupling, totals).item()


@pytest.mark.parametrize("name", ["rbf, rbf", "linear, rbf"])
def test_plain_dca_by_hand_ends_at_the_same_levels(name):
    model = model_of(name, coupling=0.05, tol=1e-9).fit(X)
    H, value = dca_by_hand(name, 0.05, 0.005, 800)
    assert_allclose(model.objective_, value, rtol=1e-8)
    for ours, theirs in zip(hidden(model), H, strict=True):
        ours = ours.detach().numpy()
        assert np.linalg.norm(theirs - ours @ (ours.T @ theirs)) < 1e-3


@over(
    "params",
    [
        RBF,
        {"kernel": "linear"},
        {"kernel": "poly", "degree": 2},
        {"kernel": "rbf", "center": False},
    ],
)
def test_one_level_is_kernel_pca(params):
    one, plain = (
        DeepKernelPCA([KernelPCA(4, **params)]).fit(X),
        KernelPCA(4, **params, tol=1e-6).fit(X),
    )
    assert_allclose(one.explained_variance_, plain.explained_variance_, rtol=1e-9)
    assert_allclose(one.explained_variance_ratio_, plain.explained_variance_ratio_, rtol=1e-9)
    assert_allclose(one.transform(NEW), plain.transform(NEW), atol=1e-5)
    assert_allclose(one.fit_transform(X), plain.fit_transform(X), atol=1e-5)


def test_without_coupling_the_levels_are_fitted_one_after_another():
    model = model_of("three levels", coupling=0).fit(X)
    rows, new, unit = X, NEW, np.sqrt(len(X) - 1)
    for (s, params), ours in zip(STACKS["three levels"], model.transform_levels(NEW), strict=True):
        oracle = decomposition.KernelPCA(s, **params, eigen_solver="dense").fit(rows)
        scale = unit / np.sqrt(oracle.eigenvalues_)
        rows, new = oracle.transform(rows) * scale, oracle.transform(new) * scale
        assert_allclose(np.abs(ours), np.abs(new), atol=2e-4)
        rows, new = (A * np.sign(np.sum(new * ours, axis=0)) for A in (rows, new))
    assert model.n_iter_ == 1


@over(("name", "coupling"), CASES)
def test_training_rows_come_out_as_they_were(name, coupling):
    model = model_of(name, coupling=coupling, tol=1e-9)
    scores = model.fit_transform(X)
    size = np.abs(scores).max()
    assert_allclose(model.transform(X[::-1])[::-1], scores, atol=1e-6 * size)
    for told, own in zip(model.transform_levels(X[40:60]), model.hidden_features_, strict=True):
        assert_allclose(told, own[40:60], atol=1e-5)
    assert_allclose(scores.var(axis=0, ddof=1), model.explained_variance_, rtol=1e-6)


@over("name", ["rbf, rbf", "rbf, poly", "three levels"])
def test_new_rows_are_stationary_points_of_their_energy(name):
    """The energy of a row, with the levels of the training rows, is written out in torch."""
    coupling, unit = 0.1, np.sqrt(len(X) - 1)
    model = model_of(name, coupling=coupling, tol=1e-8).fit(X)
    totals, told = stacked_by_hand(name)[1], model.transform_levels(NEW)
    H = [h.detach() for h in hidden(model)]
    h = [torch.tensor(u / unit, requires_grad=True) for u in told]
    means = level_means(model, H, name, coupling, totals)
    below, fitted, value = torch.tensor(NEW), torch.tensor(X), 0.0
    for j, (_, params) in enumerate(STACKS[name]):
        f = kernel(below, fitted, **params) @ H[j] / totals[j] - torch.tensor(means[j])
        quadratic = (h[j] ** 2 * torch.tensor(model.multipliers_[j])).sum()
        value = value + coupling**j * ((h[j] * f).sum() - quadratic / 2)
        below, fitted = unit * h[j], unit * H[j]
    value.backward()
    for j, part in enumerate(h):
        size = np.linalg.norm(part.detach().numpy() * model.multipliers_[j])
        assert np.linalg.norm(part.grad.numpy()) <= 1e-6 * size


def level_means(model, H, name, coupling, totals):
    """The means of the gradients by rows, which centring takes away."""
    parts = [h.clone().requires_grad_() for h in H]
    below, value = torch.tensor(X), 0.0
    for j, (h, (_, params)) in enumerate(zip(parts, STACKS[name], strict=True)):
        value = value + coupling**j * torch.trace(h.T @ kernel(below, below, **params) @ h) / (
            2 * totals[j]
        )
        below = np.sqrt(len(X) - 1) * h
    value.backward()
    return [h.grad.numpy().mean(axis=0) / coupling**j for j, h in enumerate(parts)]


# ---------------------------------------------------------------------------------------------------
# Features


def feature_maps(U):
    rng = np.random.default_rng(1)
    for metric in DERIVATIVES:
        params = {"metric": metric, "gamma": 0.3, "degree": 3, "coef0": 0.5}
        k = partial(pairwise, **params)
        yield Rows(U[:7], k)
        if metric in ("rbf", "linear"):
            yield nystroem(U, k, np.arange(6))
    for D in (8, 9):
        yield random_fourier(U.shape[1], D, 0.3, rng)


def test_pullbacks_are_derivatives():
    rng = np.random.default_rng(0)
    U = rng.standard_normal((12, 4))
    for phi in feature_maps(U):
        B, V, step = rng.standard_normal((12, phi.dimension)), rng.standard_normal(U.shape), 1e-5
        slope = np.sum(B * (phi(U + step * V) - phi(U - step * V))) / (2 * step)
        assert_allclose(
            np.sum(pullback(phi, U, B, phi(U)) * V), slope, rtol=1e-7, err_msg=repr(phi)[:40]
        )


@pytest.mark.parametrize("approximation", ["nystroem", "rff", "orf"])
def test_features_at_both_levels(approximation):
    options = {"approximation": approximation, "n_landmarks": 50, "n_random_features": 200}
    levels = [
        {"n_components": 4, **RBF, **options},
        {"n_components": 2, "kernel": "rbf", **options},
    ]
    model = DeepKernelPCA(levels, random_state=0, coupling=0.05, max_iter=5000)
    scores = model.fit_transform(X)
    assert model.residual_ <= 1e-6
    assert_allclose(model.transform(X), scores, atol=1e-4 * np.abs(scores).max())
    assert (np.diff(model.objectives_) >= -1e-13).all()
    H = [h / np.sqrt(len(X) - 1) for h in model.hidden_features_]
    for h in H:
        assert_allclose(h.T @ h, np.eye(h.shape[1]), atol=1e-12)


@pytest.mark.parametrize("approximation", ["nystroem", "rff"])
def test_gradients_of_feature_levels_are_derivatives(approximation):
    rng = np.random.default_rng(2)
    U = rng.standard_normal((40, 3))
    phi = (
        nystroem(U, "rbf", np.arange(10), gamma=0.3)
        if approximation == "nystroem"
        else random_fourier(3, 21, 0.3, rng)
    )
    K = U @ U.T
    problem = DeepProblem(lambda h: K @ h, 1.0, False, (Level(None, phi, 2.0, False),), 0.7, 3.0)
    H = [np.linalg.qr(rng.standard_normal((40, s)))[0] for s in (3, 2)]
    state, step = problem.at(H), 1e-5
    V = [rng.standard_normal(h.shape) for h in H]
    values = [
        problem.at([h + t * v for h, v in zip(H, V, strict=True)]).objective for t in (step, -step)
    ]
    slope = sum(0.7**j * np.sum(Z * v) for j, (Z, v) in enumerate(zip(state.Z, V, strict=True)))
    assert_allclose((values[0] - values[1]) / (2 * step), slope, rtol=1e-7)


def test_nystroem_of_all_rows_at_the_first_level_is_the_kernel():
    exact = model_of("rbf, rbf", tol=1e-8).fit(X)
    levels = [KernelPCA(6, **RBF, approximation="nystroem", landmarks=X), exact.levels[1]]
    model = DeepKernelPCA(levels, tol=1e-8, random_state=0).fit(X)
    assert_allclose(model.objective_, exact.objective_, rtol=1e-6)
    assert_allclose(model.transform(NEW), exact.transform(NEW), atol=1e-3)


def test_blocks_of_rows_change_nothing(monkeypatch):
    whole = model_of("rbf, rbf").fit(X)
    monkeypatch.setattr("dualpca.kernels.deep.block_rows", lambda *sizes: 17)
    monkeypatch.setattr("dualpca.estimators._kernels.CHUNK_BYTES", 8 * 80 * 7)
    monkeypatch.setattr("dualpca.estimators.deep_kernel_pca.CHUNK_BYTES", 8 * 80 * 7)
    monkeypatch.setattr("dualpca.estimators._kernels.KERNEL_BYTES", 0)
    parts = model_of("rbf, rbf").fit(X)
    assert_allclose(parts.transform(NEW), whole.transform(NEW), atol=1e-5)


# ---------------------------------------------------------------------------------------------------
# Input, output and errors


def test_kinds_of_rows_and_precomputed_kernels():
    model = model_of("rbf, rbf").fit(X)
    scores = model.transform(NEW)
    sparse = clone(model).fit(sp.csr_array(X))
    assert_allclose(sparse.transform(sp.csr_array(NEW)), scores, atol=1e-5)
    levels = [KernelPCA(6, kernel="precomputed"), model.levels[1]]
    given = DeepKernelPCA(levels, random_state=0).fit(pairwise_kernels(X, **metric(RBF)))
    assert given.__sklearn_tags__().input_tags.pairwise
    assert_allclose(given.transform(pairwise_kernels(NEW, X, **metric(RBF))), scores, atol=1e-5)
    single = clone(model).fit(X.astype(np.float32))
    assert single.transform(NEW.astype(np.float32)).dtype == np.float32
    assert_allclose(single.transform(NEW.astype(np.float32)), scores, atol=1e-4)


def metric(params):
    return {("metric" if key == "kernel" else key): value for key, value in params.items()}


def test_levels_are_estimators_or_dicts_and_stay_as_they_were():
    levels = [KernelPCA(6, **RBF), KernelPCA(3, kernel="rbf", gamma=0.2)]
    dicts = [{"n_components": 6, **RBF}, {"n_components": 3, "kernel": "rbf", "gamma": 0.2}]
    models = [DeepKernelPCA(given, random_state=0).fit(X) for given in (levels, dicts)]
    assert_array_equal(models[0].transform(NEW), models[1].transform(NEW))
    assert not any(hasattr(level, "eigenvalues_") for level in levels)
    assert levels[0].get_params() == KernelPCA(6, **RBF).get_params()
    names = models[0].get_feature_names_out()
    assert list(names) == [f"deepkernelpca{i}" for i in range(3)]
    assert models[0].level_variance_ratios_[0].shape == (6,)
    plain = KernelPCA(6, **RBF).fit(X).explained_variance_ratio_
    assert models[0].level_variance_ratios_[0].sum() < plain.sum()  # kernel PCA holds the most


def test_a_file_of_rows_with_features_at_the_first_level(tmp_path):
    np.save(tmp_path / "rows.npy", X)
    levels = [KernelPCA(6, **RBF, approximation="nystroem", n_landmarks=50), KernelPCA(3, **RBF)]
    model = DeepKernelPCA(levels, random_state=0)
    scores = model.fit(X).transform(NEW)
    assert_allclose(
        clone(model).fit(np.load(tmp_path / "rows.npy", mmap_mode="r")).transform(NEW),
        scores,
        atol=1e-5,
    )


def test_equal_rows_are_refused():
    with pytest.raises(ValueError, match=r"the rows of level 1 are all the same"):
        DeepKernelPCA().fit(np.ones((10, 3)))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"levels": []}, "levels is empty"),
        ({"levels": ["rbf"]}, "levels holds 'rbf' at level 1"),
        ({"levels": [{"kernel": "rbf"}, {"kernel": "laplacian"}]}, "kernel='laplacian' at level 2"),
        (
            {"levels": [{"kernel": "rbf"}, {"kernel": "precomputed"}]},
            "kernel='precomputed' at level 2",
        ),
        ({"levels": [{"kernel": "rbf"}, {"kernel": min}]}, "at level 2 has no derivative"),
        ({"levels": [{"kernel": "rfb"}]}, "'kernel' parameter of KernelPCA"),
        ({"levels": 3}, "'levels' parameter"),
        ({"coupling": -1.0}, "'coupling' parameter"),
    ],
)
def test_errors_name_what_is_wrong(options, message):
    with pytest.raises((TypeError, ValueError), match=re.escape(message)):
        DeepKernelPCA(**options).fit(X)


def test_data_that_is_not_in_memory_is_refused_with_a_remedy():
    with pytest.raises(ValueError, match=r"at level 1 .* needs X in memory; use approximation"):
        model_of("rbf, rbf").fit(dualpca.as_operator(X))
    dask = pytest.importorskip("dask.array")
    levels = [KernelPCA(2, **RBF, approximation="nystroem", n_landmarks=9)]
    with pytest.raises(ValueError, match="takes no data on a cluster"):
        DeepKernelPCA(levels).fit(dask.from_array(X, chunks=(40, 64)))


def test_too_few_iterations_are_told_and_listeners_hear_and_stop():
    with pytest.warns(ConvergenceWarning, match=r"DeepKernelPCA reached .*max_iter=3"):
        model_of("rbf, rbf", coupling=0.5, max_iter=3).fit(X)

    class Enough(Listener):
        heard = 0

        def step(self, step):
            self.heard += step.phase == ""
            return step.phase == "" and step.residual < 1e-2

    listener = Enough()
    with listening(listener):
        model = model_of("rbf, rbf", coupling=0.5).fit(X)
    assert listener.heard > 1
    assert 1e-6 < model.residual_ < 1e-2
    assert model.convergence_[-1] == (model.n_iter_, model.residual_)


def test_reports_and_loadings_are_refused_by_name(tmp_path):
    pytest.importorskip("plotly")
    model = model_of("rbf, rbf").fit(X)
    with pytest.raises(TypeError, match="DeepKernelPCA"):
        model.report(tmp_path / "never.html", X)
    with pytest.raises(ValueError, match=r"DeepKernelPCA.*no loadings"):
        model.loadings()
    assert len(model.summary()) == 3


def test_many_evaluations_are_not_needed():
    """Newton takes over: the residual falls from 1e-2 to 1e-6 in few evaluations."""
    model = model_of("rbf, rbf", coupling=0.3).fit(X)
    assert model.n_iter_ < 300
    K = centred(pairwise_kernels(X, **metric(RBF)))
    H, totals = stacked_by_hand("rbf, rbf")
    level = Level(model._above[0][0], None, totals[1], True)
    problem = DeepProblem(
        lambda h: K @ h / totals[0], totals[0], True, (level,), 0.3, np.sqrt(len(X) - 1)
    )
    assert maximize(problem, H, tol=1e-2, max_iter=500).state.residual <= 1e-2
