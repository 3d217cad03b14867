"""Robust PCA: flags and subspaces that do not depend on unit, place, axes, order or form of the rows."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import assume
from hypothesis import strategies as st
from laws import close, contaminated, law, projector, quiet, turn
from sklearn.base import clone
from sklearn.metrics.pairwise import rbf_kernel

from dualpca import RobustKernelPCA, RobustPCA, as_operator

#: What a converged fit may differ by: in a projector, and in distances over their limit.
ACCURACY = 1e-4

LOSSES = ("geman_mcclure", "l1", "huber", "cauchy", "welsch", "tukey")
losses = st.sampled_from(LOSSES)


def fitted(X, s, weights=None, **options):
    """DCA to the end, so that what it starts from is forgotten."""
    options = {"tol": 1e-8, "max_iter": 2000, "random_state": 0, **options}
    with quiet():
        return RobustPCA(s, **options).fit(X, sample_weight=weights)


def same_flags(one, other, accuracy=ACCURACY, order=slice(None), scale=1.0):
    """Equal flags, but for rows at the very limit; distances in their units."""
    a, b = one.orthogonal_distances_[order], np.asarray(other.orthogonal_distances_) / scale
    limit = one.limits_[1]
    size = max(float(np.abs(a).max()), limit)
    close(a, b, accuracy * size, "orthogonal distances")
    close(other.limits_[1] / scale, limit, accuracy * size, "limits")
    sure = np.abs(a - limit) > 2 * accuracy * size
    assert np.array_equal(one.outliers_[order][sure], other.outliers_[sure])


def same_fit(one, other, image=lambda V: V, **how):
    close(projector(image(one.components_)), projector(other.components_), ACCURACY, "projectors")
    same_flags(one, other, **how)


def similar(one, other, order=None):
    """The same fit to statistical accuracy, and the same flags of rows that are clear.

    Other pairs of rows make other directions, and so another start; the lengths that rows are divided
    by and the scale of the loss are set there. A row at the limit may be in the refit or not, which
    moves those far out along the subspace.
    """
    if hasattr(one, "components_") and hasattr(other, "components_"):
        close(projector(one.components_), projector(other.components_), 0.1, "projectors")
    order = np.arange(one.n_samples_) if order is None else order
    for first, second, rows in ((one, other, order), (other, one, np.argsort(order))):
        share = first.orthogonal_distances_[rows] / first.limits_[1]
        assert second.outliers_[share > 2].all()
    assert (one.outliers_[order] != other.outliers_).mean() <= 0.1


few_rows = {"few": 6, "many": 25}


@law(
    "flags do not change with 2^k X",
    **few_rows,
    data=contaminated(),
    power=st.integers(-40, 40),
    loss=losses,
)
def test_a_power_of_two_changes_no_flag(data, power, loss):
    X, c = data.X, 2.0**power
    one, other = (fitted(Y, data.s, loss=loss) for Y in (X, c * X))
    assert np.array_equal(one.outliers_, other.outliers_)
    assert np.array_equal(one.predict(X), other.predict(c * X))
    same_fit(one, other, scale=c)


@law(
    "flags do not change with c X",
    **few_rows,
    data=contaminated(),
    c=st.floats(1e-6, 1e6),
    loss=losses,
)
def test_a_factor_changes_no_flag(data, c, loss):
    X, c = data.X, -c
    one, other = (fitted(Y, data.s, loss=loss) for Y in (X, c * X))
    same_fit(one, other, scale=abs(c))
    close(other.mean_, c * one.mean_, ACCURACY * np.abs(c * X).max(), "centres")


@law(
    "flags do not change with a translation",
    **few_rows,
    data=contaminated(),
    far=st.sampled_from((1.0, 100.0, 1e6)),
    loss=losses,
)
def test_a_translation_changes_no_flag(data, far, loss):
    X, t = data.X, far * data.rng.standard_normal(data.d)
    one, other = (fitted(Y, data.s, loss=loss) for Y in (X, X + t))
    same_fit(one, other)
    close(other.mean_ - t, one.mean_, ACCURACY * np.abs(X).max(), "centres")


@law(
    "flags do not change with a rotation",
    **few_rows,
    data=contaminated(),
    loss=losses,
    how=st.sampled_from(("turn", "order", "signs")),
)
def test_a_rotation_changes_no_flag(data, loss, how):
    X, rng, d = data.X, data.rng, data.d
    Q = {
        "turn": lambda: turn(rng, d),
        "order": lambda: np.eye(d)[rng.permutation(d)],
        "signs": lambda: np.diag(rng.choice([-1.0, 1.0], d)),
    }[how]()
    one, other = (fitted(Y, data.s, loss=loss) for Y in (X, X @ Q))
    same_fit(one, other, lambda V: V @ Q)


@law("flags do not change with the order of rows", **few_rows, data=contaminated())
def test_the_order_of_rows_changes_no_flag(data):
    X, order = data.X, data.rng.permutation(data.N)
    one, other = (fitted(Y, data.s) for Y in (X, X[order]))
    similar(one, other, order)


@law(
    "flags do not change with the seed", **few_rows, data=contaminated(), seed=st.integers(1, 1000)
)
def test_the_seed_changes_no_flag(data, seed):
    X = data.X
    similar(fitted(X, data.s), fitted(X, data.s, random_state=seed))


@law("flags do not change with zero columns", **few_rows, data=contaminated())
def test_zero_columns_change_no_flag(data):
    X = data.X
    wide = np.hstack([X, np.zeros((data.N, 3))])
    # By density they do: the noise has one variance in more directions, each row more noise for it.
    one, other = (fitted(rows, data.s, flag="orthogonal") for rows in (X, wide))
    same_fit(one, other, lambda V: np.hstack([V, np.zeros((len(V), 3))]))


@law("clear outliers are flagged, good rows are not", **few_rows, data=contaminated())
def test_clear_outliers_are_flagged(data):
    """Those whose distance from the true plane is far beyond that of any good row."""
    X = data.X
    model = fitted(X, data.s)
    good = ~data.bad
    A = X - X[good].mean(axis=0)
    V = np.linalg.svd(A[good] - A[good].mean(axis=0), full_matrices=False)[2][: data.s]
    distance = np.linalg.norm(A - A @ V.T @ V, axis=1)
    clear = distance > 4 * distance[good].max()
    assert model.outliers_[clear].all()
    assert model.outliers_[good].mean() <= 0.1


@law(
    "what a fit says of its rows, it says of them as new ones",
    few=10,
    many=25,
    data=contaminated(),
    loss=losses,
    flag=st.sampled_from(("density", "orthogonal", "score")),
    contamination=st.sampled_from(("auto", 0.1, 0.25)),
)
def test_training_rows_are_judged_like_new_ones(data, loss, flag, contamination):
    X = data.X
    model = fitted(X, data.s, loss=loss, flag=flag, contamination=contamination)
    score, orthogonal = model.distances(X)
    size = np.abs(X).max()
    close(orthogonal, model.orthogonal_distances_, 1e-10 * size, "orthogonal distances")
    close(score, model.score_distances_, 1e-6 * np.abs(score).max(), "score distances")
    assert np.array_equal(model.predict(X) == -1, model.outliers_)
    assert np.array_equal(model.decision_function(X) < 0, model.outliers_)
    assert ((model.weights_ >= 0) & (model.weights_ <= 1)).all()
    if contamination != "auto":
        assert abs(model.outliers_.sum() - contamination * data.N) <= 1
    contributions, squares = model.contributions(X), -2 * model.score_samples(X)
    if model.flags_by_ == "density":
        squares += 2 * model._log_peak
    else:
        squares = model.score_samples(X) ** 2
    assert (contributions >= 0).all()
    close(contributions.sum(axis=1), squares, 1e-7 * squares.max(), "sums of contributions")
    T = model.transform(X)
    rows = (X - model.mean_) @ model.components_.T
    close(T, rows, 1e-10 * size, "scores")


@law("rows of weight 0 are not there", few=8, many=25, data=contaminated(), loss=losses)
def test_a_weight_of_zero_is_removal(data, loss):
    X, keep = data.X, data.rng.random(data.N) < 0.8
    keep[: 4 * data.s + 8] = True
    ones = np.ones(keep.sum())
    one, other = (
        fitted(X, data.s, keep.astype(float), loss=loss),
        fitted(X[keep], data.s, ones, loss=loss),
    )
    close(one.components_, other.components_, 1e-9, "components")
    assert np.array_equal(one.outliers_[keep], other.outliers_)
    assert np.array_equal(one.predict(X), other.predict(X))
    assert not one.weights_[~keep].any()


@law("a weight of m is the row m times, in robust PCA", **few_rows, data=contaminated())
def test_whole_weights_are_repeated_robust_rows(data):
    """Where neither lengths of rows nor the scale of the loss are set at the start."""
    X, w = data.X, data.rng.integers(1, 4, data.N)
    options = {"loss": "l1", "normalize": False}
    one, other = fitted(X, data.s, w, **options), fitted(np.repeat(X, w, axis=0), data.s, **options)
    first = np.cumsum(w) - w
    close(projector(one.components_), projector(other.components_), 1e-3, "projectors")
    size = np.abs(X).max()
    close(one.orthogonal_distances_, other.orthogonal_distances_[first], 1e-3 * size, "distances")
    close(one.limits_[1], other.limits_[1], 1e-3 * size, "limits")


@pytest.mark.parametrize("model", [RobustPCA(1), RobustKernelPCA(1, kernel="linear")])
def test_rows_of_large_weight_outvote_the_others(model):
    """30 rows of weight 20 on a line, 70 of weight 1 on another: as if they were 600 of 670."""
    rng = np.random.default_rng(0)
    X = 0.1 * rng.standard_normal((100, 4))
    X[:30, 0] += 3 * rng.standard_normal(30)
    X[30:, 1] += 3 * rng.standard_normal(70)
    X[30:, 2:] += 8.0
    w = np.where(np.arange(100) < 30, 20, 1)
    model.set_params(random_state=0)
    repeated = clone(model).fit(np.repeat(X, w, axis=0)).outliers_[np.cumsum(w) - w]
    assert repeated[30:].all()
    with quiet():
        weighted = model.fit(X, sample_weight=w).outliers_
    assert np.array_equal(weighted, repeated)


@law("weights of 1 are no weights", **few_rows, data=contaminated())
def test_weights_of_one_are_no_weights(data):
    X = data.X
    similar(fitted(X, data.s), fitted(X, data.s, np.ones(data.N)))


@law(
    "robust solvers agree",
    **few_rows,
    data=contaminated(),
    loss=losses,
    solver=st.sampled_from(("dca", "irls", "dual")),
)
def test_robust_solvers_agree(data, loss, solver):
    X = data.X
    same_fit(fitted(X, data.s, loss=loss), fitted(X, data.s, loss=loss, solver=solver))


@pytest.mark.parametrize("form", ["csr", "blocks", "memory map", "float32", "Fortran order"])
@law("flags do not change with the form of the data", few=3, many=10, data=contaminated())
def test_every_form_of_the_data_has_the_same_flags(form, tmp_path_factory, data):
    X = data.X.astype(np.float32).astype(float)
    path = tmp_path_factory.mktemp("rows") / "X.npy"
    np.save(path, X)
    other = {
        "csr": lambda: sp.csr_array(X),
        "blocks": lambda: as_operator([X[a:b] for a, b in pairwise((0, 7, 20, data.N))]),
        "memory map": lambda: np.load(path, mmap_mode="r"),
        "float32": lambda: X.astype(np.float32),
        "Fortran order": lambda: np.asfortranarray(X),
    }[form]()
    # float32 ends where its rounding allows.
    one, two = fitted(X, data.s), fitted(other, data.s, tol=1e-5 if form == "float32" else 1e-8)
    close(projector(one.components_), projector(two.components_), 1e-3, "projectors")
    same_flags(one, two, 1e-3)


# Robust kernel PCA


def kernel_fitted(X, s, weights=None, **options):
    options = {"tol": 1e-7, "max_iter": 2000, "random_state": 0, **options}
    with quiet():
        return RobustKernelPCA(s, **options).fit(X, sample_weight=weights)


@law("robust kernel PCA with a linear kernel is robust PCA", **few_rows, data=contaminated())
def test_a_linear_kernel_is_robust_pca(data):
    """Coordinates in feature space are others than those of the rows, and so are directions."""
    X = data.X
    similar(fitted(X, data.s, np.ones(data.N)), kernel_fitted(X, data.s, kernel="linear"))


@law(
    "robust RBF flags know distances alone",
    few=8,
    many=25,
    data=contaminated(),
    how=st.sampled_from(("scale", "translation", "rotation", "signs", "zeros", "precomputed")),
)
def test_robust_rbf_flags_know_distances_alone(data, how):
    X, rng = data.X, data.rng
    one = kernel_fitted(X, data.s)
    other = {
        "scale": lambda: 2.0 ** rng.integers(-20, 20) * X,
        "translation": lambda: X + 3 * rng.standard_normal(data.d),
        "rotation": lambda: X @ turn(rng, data.d),
        "signs": lambda: X * rng.choice([-1.0, 1.0], data.d),
        "zeros": lambda: np.hstack([X, np.zeros((data.N, 2))]),
        "precomputed": lambda: rbf_kernel(X, gamma=one.gamma_),
    }[how]()
    if how == "precomputed":  # no rows are drawn for a median before the start
        one = kernel_fitted(X, data.s, gamma=one.gamma_)
        two = kernel_fitted(other, data.s, kernel="precomputed", gamma=1.0)
    else:
        two = kernel_fitted(other, data.s)
    # Coordinates in feature space are found to rounding: where starts disagree, or a refit is as good as
    # the fit, another one may be taken.
    assume(one.refitted_ == two.refitted_ and min(one.agreement_, two.agreement_) > 0.95)
    same_flags(one, two, 1e-3)
    T, T2 = one.transform(X), two.transform(other)
    close(T @ T.T, T2 @ T2.T, 1e-2, "inner products of scores")
    assert np.array_equal(one.predict(X) == -1, one.outliers_)


@law(
    "rows of weight 0 are not there, in feature space",
    **few_rows,
    data=contaminated(),
    kernel=st.sampled_from(("rbf", "linear")),
)
def test_a_weight_of_zero_is_removal_in_feature_space(data, kernel):
    X, keep = data.X, data.rng.random(data.N) < 0.8
    keep[: 4 * data.s + 8] = True
    options = {"kernel": kernel, "gamma": 0.05}
    one = kernel_fitted(X, data.s, keep.astype(float), **options)
    other = kernel_fitted(X[keep], data.s, np.ones(keep.sum()), **options)
    # Coordinates in feature space are others without the rows, and so are the directions of starts:
    # where starts disagree, or a refit is as good as the fit, another one may be taken.
    assume(one.refitted_ == other.refitted_ and min(one.agreement_, other.agreement_) > 0.95)
    accuracy = 1e-3 * max(float(np.abs(other.orthogonal_distances_).max()), other.limits_[1])
    close(one.orthogonal_distances_[keep], other.orthogonal_distances_, accuracy, "distances")
    close(one.limits_[1], other.limits_[1], accuracy, "limits")
    T, T2 = one.transform(X), other.transform(X)
    close(T @ T.T, T2 @ T2.T, 1e-2 * np.abs(T2).max() ** 2, "inner products of scores")
