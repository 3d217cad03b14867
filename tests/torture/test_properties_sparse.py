"""Sparse PCA, principal component pursuit and the preprocessor: what each is alone in."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import numpy as np
import scipy.sparse as sp
from hypothesis import strategies as st
from laws import SLACK, Truth, close, datasets, eps_of, law, quiet, turn

from dualpca import PCA, Preprocessor, PrincipalComponentPursuit, SparsePCA, as_operator


def sparse_model(X, data, weights=None, **options):
    options = {"n_components": data.s, "n_nonzero": min(3, data.d), "random_state": 0, **options}
    with quiet():
        return SparsePCA(**options).fit(X, sample_weight=weights)


untied = datasets(
    rows=(3, 30), columns=(2, 9), kinds=("gaussian", "graded", "unlike_columns", "heavy")
)
methods = st.sampled_from(("deflation", "block", "reconstruction"))


@law(
    "sparse loadings: unit, few, within PCA's variance",
    few=20,
    data=datasets(columns=(2, 9)),
    method=methods,
    positive=st.booleans(),
)
def test_sparse_components_are_what_they_say(data, method, positive):
    X = data.X
    model = sparse_model(X, data, method=method, positive=positive)
    V, truth, k = model.components_, Truth(X), min(3, data.d)
    length = np.linalg.norm(V, axis=1)
    close(length[length > 0], np.ones((length > 0).sum()), 1e-12, "lengths")
    assert (model.n_nonzero_ <= k).all()
    assert (np.count_nonzero(V, axis=1) == model.n_nonzero_).all()
    assert not positive or (V >= 0).all()
    slack = truth.rounding(eps_of(X)) + 1e-12 * truth.values[0]
    held = model.cumulative_variance_ratio_ * truth.values.sum()
    assert (np.diff(held) >= -slack).all(), f"cumulative variances fall: {held}"
    assert (held <= np.cumsum(truth.values)[: len(held)] + slack).all()
    added = np.cumsum(model.explained_variance_) * (data.N - 1)
    assert (added <= np.cumsum(truth.values)[: len(added)] + slack).all()
    Q = np.linalg.svd(V, full_matrices=False)
    if Q[1].min(initial=1.0) > 1e-3:
        close(held[-1], truth.captured(V), 1e3 * slack, "the variance in the span")
        rows = truth.mean + (X - truth.mean) @ Q[2].T @ Q[2]
        back = model.inverse_transform(model.transform(X))
        close(back, rows, 1e-9 * np.abs(X).max(), "projections")


@law("as many nonzeros as features: PCA", few=20, data=untied)
def test_without_sparsity_sparse_pca_is_pca(data):
    X = data.X
    model, truth = sparse_model(X, data, n_nonzero=data.d), Truth(X)
    held = model.cumulative_variance_ratio_[-1] * truth.values.sum()
    best = truth.values[: data.s].sum()
    close(held, best, 1e-5 * best + truth.rounding(eps_of(X)), "variances held")


@law("one nonzero: the feature of largest variance", few=20, data=untied)
def test_one_nonzero_is_the_feature_of_largest_variance(data):
    X = data.X
    model, truth = sparse_model(X, data, n_nonzero=1), Truth(X)
    variances = (truth.A**2).sum(axis=0)
    close(
        model.explained_variance_[0] * (data.N - 1),
        variances.max(),
        truth.rounding(eps_of(X)) + 1e-12 * variances.max(),
        "variances",
    )


@law(
    "sparse PCA knows C alone",
    few=8,
    many=40,
    data=untied,
    method=methods,
    how=st.sampled_from(("rows", "translation", "power of two", "weights", "blocks", "csr")),
)
def test_sparse_pca_knows_the_covariance_alone(data, method, how):
    """The order of rows, their place and unit, and how they are given leave C as it is.

    To rounding, which decides between components that are equally good: where these share what is left
    of a low rank. So few components of full rank are asked for. Alternating least squares stops short.
    """
    data = replace(data, N=data.N + data.d, s=min(data.s, 2))
    X, rng, w = data.X, data.rng, None
    if how == "weights":
        w = rng.integers(1, 4, data.N)
        X, other = np.repeat(X, w, axis=0), X
    else:
        other = {
            "rows": lambda: rng.permutation(X),
            "translation": lambda: X + np.abs(X).max() * rng.standard_normal(data.d),
            "power of two": lambda: 2.0 ** rng.integers(-30, 30) * X,
            "blocks": lambda: as_operator([X[:1], X[1:]]),
            "csr": lambda: sp.csr_array(X),
        }[how]()
    one = sparse_model(X, data, method=method, tol=1e-9)
    two = sparse_model(other, data, w, method=method, tol=1e-9)
    truth = Truth(X)
    loss = truth.size**2 * eps_of(X) * SLACK if how == "csr" else 0.0
    slack = (truth.rounding(eps_of(X)) + loss) / max(truth.values.sum(), 1e-300)
    close(
        one.cumulative_variance_ratio_,
        two.cumulative_variance_ratio_,
        100 * slack + (1e-3 if method == "reconstruction" else 1e-7),
        "shares of the variance",
    )


@law("more nonzeros hold more, along a path", few=15, data=untied)
def test_variance_rises_along_a_path_of_nonzeros(data):
    """Of the first component, which starts where the one before it ended and climbs."""
    X, sizes = data.X, list(range(1, data.d + 1))
    with quiet():
        path = SparsePCA(1, random_state=0).path(X, sizes)
    held = np.array([m.explained_variance_[0] for m in path])
    slack = Truth(X).rounding(eps_of(X)) / (data.N - 1) + 1e-12 * held.max()
    assert (np.diff(held) >= -slack).all(), f"variances {held}"


# Principal component pursuit


def pursued(X, **options):
    with quiet():
        return PrincipalComponentPursuit(random_state=0, max_iter=3000, **options).fit(X)


def price(L, S, lam):
    return float(np.linalg.svd(L, compute_uv=False).sum() + lam * np.abs(S).sum())


ordinary = datasets(rows=(2, 20), columns=(1, 15), offsets=(0.0, 1.0))


@law("pursuit: L + S is X, and nothing is cheaper", few=12, many=40, data=ordinary)
def test_no_other_split_is_cheaper(data):
    X, lam = data.X, 1 / np.sqrt(max(data.N, data.d))
    model = pursued(X)
    L, S, size = model.low_rank_, model.sparse_, np.linalg.norm(X)
    assert np.linalg.norm(X - L - S) <= 1.01 * model.gap_ * size + 1e-13 * size
    S = X - L  # feasible
    cost, slack = price(L, S, lam), 1e-5 * (price(X, 0 * X, lam) + lam * np.abs(X).sum()) + 1e-300
    assert cost <= min(price(X, 0 * X, lam), price(0 * X, X, lam)) + slack
    for step in (1e-3, 0.1):
        move = step * np.abs(X).max() * data.rng.standard_normal(X.shape)
        U, sigma, Vt = np.linalg.svd(move, full_matrices=False)
        for D in (
            move,
            sigma[0] * np.outer(U[:, 0], Vt[0]),
            move * (data.rng.random(X.shape) < 0.1),
        ):
            assert price(L + D, S - D, lam) >= cost - slack


@law(
    "pursuit of permuted, flipped, scaled, transposed X",
    few=20,
    many=80,
    data=ordinary,
    how=st.sampled_from(("rows", "columns", "signs", "scale", "transpose", "float32")),
)
def test_pursuit_commutes_with_what_leaves_both_norms(data, how):
    X, rng = data.X, data.rng
    rows, columns = rng.permutation(data.N), rng.permutation(data.d)
    signs, c = rng.choice([-1.0, 1.0], data.d), float(rng.uniform(-1e3, 1e3))
    there, back = {
        "rows": (X[rows], lambda L: L[np.argsort(rows)]),
        "columns": (X[:, columns], lambda L: L[:, np.argsort(columns)]),
        "signs": (X * signs, lambda L: L * signs),
        "scale": (c * X, lambda L: L / c),
        "transpose": (np.ascontiguousarray(X.T), lambda L: L.T),
        "float32": (X.astype(np.float32), lambda L: L.astype(float)),
    }[how]
    one, other = pursued(X), pursued(there, **({"tol": 1e-5} if how == "float32" else {}))
    lam = 1 / np.sqrt(max(data.N, data.d))
    L = back(other.low_rank_)
    first, second = price(one.low_rank_, X - one.low_rank_, lam), price(L, X - L, lam)
    accuracy = 3e-3 if how == "float32" else 1e-5
    close(first, second, accuracy * (first + price(X, X, lam)) + 1e-300, "prices")


# Preprocessor

scalings = st.sampled_from(("standard", "robust"))


@law("scaled columns come back", few=20, data=datasets(), scaling=scalings, single=st.booleans())
def test_scaled_rows_come_back(data, scaling, single):
    X = data.X.astype(np.float32 if single else np.float64)
    model = Preprocessor(scaling=scaling).fit(X)
    Z = model.transform(X)
    slack = SLACK * eps_of(X) * np.abs(X).max()
    close(model.inverse_transform(Z), X, slack + np.abs(Z).max() * eps_of(X), "rows")
    assert Z.dtype == X.dtype
    Z = Z.astype(float)
    spread = X.astype(float).std(axis=0) > 1e3 * slack
    if scaling == "standard":
        close(Z.mean(axis=0), np.zeros(data.d), 1e-3, "means")
        close(Z.std(axis=0)[spread], np.ones(spread.sum()), 2e-2, "deviations")
    else:
        close(np.median(Z, axis=0)[spread], np.zeros(spread.sum()), 1e-2, "medians")


@law(
    "scaled columns forget their place and unit",
    few=20,
    data=datasets(offsets=(0.0, 1.0)),
    scaling=scalings,
)
def test_scaled_columns_forget_place_unit_and_order(data, scaling):
    X, rng = data.X, data.rng
    c = rng.choice([-1.0, 1.0], data.d) * 10.0 ** rng.uniform(-3, 3, data.d)
    t = np.abs(X * c).max(axis=0) * rng.uniform(-3, 3, data.d)
    rows, columns = rng.permutation(data.N), rng.permutation(data.d)
    spread = X.std(axis=0) > 1e-6 * np.abs(X).max(axis=0).clip(1e-300)
    one = Preprocessor(scaling=scaling).fit(X).transform(X)
    other = Preprocessor(scaling=scaling).fit_transform((X * c + t)[rows][:, columns])
    expected = (one * np.sign(c))[rows][:, columns]
    size = max(1.0, float(np.abs(one).max()))
    close(other[:, spread[columns]], expected[:, spread[columns]], 1e-6 * size, "scaled rows")


@law(
    "missing cells become medians, in every form",
    few=15,
    data=datasets(rows=(6, 40), columns=(1, 8)),
    scaling=st.sampled_from(("none", "standard", "robust")),
)
def test_missing_cells_become_the_medians(data, scaling):
    X, rng = data.X, data.rng
    gaps = rng.random(X.shape) < 0.2
    gaps[0] = False
    Y = np.where(gaps, np.nan, X)
    model = Preprocessor(scaling=scaling, missing="impute").fit(Y)
    assert model.n_filled_ == gaps.sum()
    back = model.inverse_transform(model.transform(Y))
    expected = np.where(gaps, np.nanmedian(Y, axis=0), X)
    close(back, expected, SLACK * eps_of(X) * np.abs(X).max(), "filled rows")
    cuts = sorted({0, data.N // 2, data.N // 2 + 1, data.N})
    blocks = as_operator([Y[a:b] for a, b in pairwise(cuts)])
    other = Preprocessor(scaling=scaling, missing="impute").fit(blocks)
    slack = 1e-9 * max(1.0, float(np.abs(model.transform(Y)).max()))
    close(other.transform(blocks).todense(), model.transform(Y), slack, "rows in blocks")


@law("standard scaling leaves the correlations", data=datasets(columns=(2, 12), offsets=(0.0, 1.0)))
def test_pca_of_scaled_columns_is_pca_of_the_correlations(data):
    X = data.X
    if (X.std(axis=0) <= 1e-6 * np.abs(X).max()).any():
        return
    Z = Preprocessor(scaling="standard").fit_transform(X)
    values = np.linalg.eigvalsh(np.corrcoef(X, rowvar=False))[::-1][: data.s]
    found = PCA(data.s, solver="lapack").fit(Z).explained_variance_ * (data.N - 1) / data.N
    close(found, values, 1e-6 * data.d, "eigenvalues of the correlations")


@law("a rotation after whitening stays white", data=datasets(rows=(20, 40), columns=(2, 6)))
def test_whitened_scores_stay_white_when_turned(data):
    X = data.X
    T = PCA(data.s, whiten=True).fit_transform(X) @ turn(data.rng, data.s)
    variances = PCA(data.s).fit(T).explained_variance_
    some = Truth(X).values[: data.s] > 1e-10 * Truth(X).size ** 2
    if some.all():
        close(variances, np.ones(data.s), 1e-4, "variances")
