"""PCA: invariances, identities and the certificate, on data of many kinds."""

from __future__ import annotations

import numpy as np
from hypothesis import strategies as st
from laws import (
    DIRECT,
    SLACK,
    SOLVERS,
    Truth,
    close,
    datasets,
    eps_of,
    fitted,
    law,
    quiet,
    same_model,
    turn,
)

from dualpca import PCA

solvers = st.sampled_from(SOLVERS)
centred = st.booleans()


@law("PCA of rotated columns is PCA, rotated", data=datasets(), solver=solvers, center=centred)
def test_rotation_of_the_columns_rotates_the_components(data, solver, center):
    X, Q = data.X, turn(data.rng, data.d)
    one, other = (fitted(Y, data.s, solver=solver, center=center) for Y in (X, X @ Q))
    same_model(one, other, Truth(X @ Q, center), lambda V: V @ Q)


@law("PCA does not know the order of rows", data=datasets(), solver=solvers, center=centred)
def test_the_order_of_rows_does_not_matter(data, solver, center):
    X = data.X
    one, other = (
        fitted(Y, data.s, solver=solver, center=center) for Y in (X, data.rng.permutation(X))
    )
    same_model(one, other, Truth(X, center))


@law("PCA of permuted columns is PCA, permuted", data=datasets(), solver=solvers, center=centred)
def test_the_order_of_columns_is_that_of_the_loadings(data, solver, center):
    X, order = data.X, data.rng.permutation(data.d)
    one, other = (fitted(Y, data.s, solver=solver, center=center) for Y in (X, X[:, order]))
    same_model(one, other, Truth(X[:, order], center), lambda V: V[:, order])


@law("PCA of columns with other signs", data=datasets(), solver=solvers, center=centred)
def test_signs_of_columns_are_signs_of_loadings(data, solver, center):
    X, signs = data.X, data.rng.choice([-1.0, 1.0], data.d)
    one, other = (fitted(Y, data.s, solver=solver, center=center) for Y in (X, X * signs))
    same_model(one, other, Truth(X * signs, center), lambda V: V * signs)


@law(
    "PCA of X and of 2^k X have the same components to the bit",
    data=datasets(),
    power=st.integers(-60, 60),
    solver=solvers,
    center=centred,
)
def test_a_power_of_two_changes_no_digit_of_the_components(data, power, solver, center):
    """But for the first step of proximal gradient, which adds 1 to every entry of W."""
    X, c = data.X, 2.0**power
    one, other = (fitted(Y, data.s, solver=solver, center=center) for Y in (X, c * X))
    same_model(one, other, Truth(c * X, center), scale=c)
    if solver not in ("proximal_gradient", "zerofpr"):
        assert np.array_equal(one.components_, other.components_)
        assert np.array_equal(c * one.singular_values_, other.singular_values_)


@law(
    "PCA of X and of c X have the same components",
    data=datasets(),
    c=st.floats(1e-9, 1e9) | st.floats(-1e9, -1e-9),
    solver=solvers,
    center=centred,
)
def test_a_factor_scales_the_variances_alone(data, c, solver, center):
    X = data.X
    one, other = (fitted(Y, data.s, solver=solver, center=center) for Y in (X, c * X))
    same_model(one, other, Truth(c * X, center), scale=c)


@law(
    "PCA of translated rows is PCA",
    data=datasets(),
    far=st.sampled_from((1.0, 30.0, 1e4)),
    solver=solvers,
)
def test_translation_moves_the_mean_alone(data, far, solver):
    X = data.X
    t = far * data.scale * data.rng.standard_normal(data.d)
    one, other = (fitted(Y, data.s, solver=solver) for Y in (X, X + t))
    same_model(one, other, Truth(X + t))
    close(other.mean_ - t, one.mean_, SLACK * eps_of(X) * np.abs(X + t).max(), "means")


@law("zero columns get zero loadings", data=datasets(), solver=solvers, center=centred)
def test_appended_zero_columns_have_no_loadings(data, solver, center):
    X = data.X
    wide = np.hstack([X, np.zeros((data.N, 3))])
    one, other = (fitted(Y, data.s, solver=solver, center=center) for Y in (X, wide))
    truth = Truth(wide, center)
    same_model(one, other, truth, lambda V: np.hstack([V, np.zeros((len(V), 3))]))


@law("float32 rows: float64 of the same to float32", data=datasets(), solver=solvers)
def test_float32_is_float64_to_its_accuracy(data, solver):
    X = data.X.astype(np.float32)
    one = fitted(X.astype(float), data.s, solver=solver)
    other = fitted(X, data.s, solver=solver, tol=1e-5)
    assert other.components_.dtype == other.transform(X).dtype == np.float32
    same_model(one, other, Truth(X))


@law("every solver finds the subspace of LAPACK", data=datasets(), one=solvers, other=solvers)
def test_solvers_agree_with_one_another(data, one, other):
    X = data.X
    same_model(fitted(X, data.s, solver=one), fitted(X, data.s, solver=other), Truth(X))


@law(
    "every formulation finds the subspace of LAPACK",
    few=20,
    data=datasets(),
    letter=st.sampled_from([a + b for a in ("d", *"lgmnopqk", "holder_dual") for b in ("", "T")]),
    solver=st.sampled_from(("dca", "anderson")),
)
def test_formulations_agree_with_lapack(data, letter, solver):
    X = data.X
    one = fitted(X, data.s, solver=solver, formulation=letter)
    same_model(one, fitted(X, data.s), Truth(X))


@law(
    "the residual and the shortfall are at most the certified ones",
    few=40,
    many=600,
    data=datasets(),
    solver=solvers,
    center=centred,
    tol=st.sampled_from((1e-1, 1e-2, 1e-4, 1e-8)),
    single=st.booleans(),
)
def test_the_certificate_bounds_the_truth(data, solver, center, tol, single):
    X = data.X.astype(np.float32 if single else np.float64)
    model = fitted(X, data.s, solver=solver, center=center, tol=tol)
    truth, V = Truth(X, center), np.asarray(model.components_, dtype=float).T
    slack = truth.rounding(eps_of(X))
    Z = truth.A.T @ (truth.A @ V)
    wrong = np.linalg.norm(Z - V @ (V.T @ Z))
    limit = 1.01 * model.residual_ * np.linalg.norm(Z) + slack
    assert wrong <= limit, f"residual {wrong:.2e}, allowed {limit:.2e}, {model.solver_}"
    short = truth.values[: data.s].sum() - np.einsum("ij,ij->", V, Z)
    limit = model.variance_shortfall_ * truth.values[: data.s].sum() + slack
    assert short <= limit, f"shortfall {short:.2e}, allowed {limit:.2e}, {model.solver_}"


@law("components are orthonormal, by decreasing variance", data=datasets(), solver=solvers)
def test_components_are_orthonormal_and_ordered(data, solver):
    X = data.X
    model = fitted(X, data.s, solver=solver)
    V, variances = model.components_, model.explained_variance_
    close(V @ V.T, np.eye(data.s), SLACK * eps_of(V), "Gram matrices of components")
    assert (np.diff(variances) <= 1e-12 * variances[0]).all()
    assert (variances >= 0).all()
    total, truth = float(np.sum(model.explained_variance_ratio_)), Truth(X)
    slack = truth.rounding(eps_of(V)) / max(truth.values.sum(), 1e-300)
    assert total <= 1 + slack, f"ratios sum to {total}"
    largest = np.abs(V).max(axis=1)
    assert (V.max(axis=1) >= (1 - 1e-9) * largest).all(), "the largest entry is not positive"


@law("all variances add up to the total", data=datasets())
def test_the_model_covariance_has_the_total_variance(data):
    X = data.X
    model, truth = fitted(X, data.s), Truth(X)
    total, slack = truth.values.sum() / (data.N - 1), truth.rounding(eps_of(X)) / (data.N - 1)
    full = PCA().fit(X)
    close(full.explained_variance_.sum(), total, slack, "total variances")
    if total > 1e3 * slack:
        close(full.explained_variance_ratio_.sum(), 1.0, slack / total, "sums of ratios")
    if data.d <= data.N:  # else the rest is spread over as many directions as there are rows
        close(np.trace(model.get_covariance()), total, slack, "traces")


@law("transform after inverse_transform changes nothing", data=datasets(), whiten=st.booleans())
def test_scores_of_rows_of_scores_are_the_scores(data, whiten):
    X = data.X
    model = fitted(X, data.s, whiten=whiten)
    deviation = np.sqrt(model.explained_variance_)
    T = data.rng.standard_normal((5, data.s)) * (1.0 if whiten else max(deviation[0], 1e-300))
    back = model.transform(model.inverse_transform(T))
    scale = np.asarray(model._scale())[:, 0] if whiten else np.ones(data.s)
    size = np.abs(model.mean_).max() + np.abs(T * scale).max()
    close((back - T) * scale, 0 * T, SLACK * eps_of(X) * size * data.d, "scores")


@law(
    "inverse_transform after transform projects",
    data=datasets(),
    whiten=st.booleans(),
    center=centred,
)
def test_rows_of_scores_of_rows_are_their_projections(data, whiten, center):
    X = data.X
    model = fitted(X, data.s, whiten=whiten, center=center)
    V, mean = model.components_, model.mean_
    new = np.vstack([X, data.rng.permutation(X.ravel()).reshape(X.shape)])
    expected = mean + (new - mean) @ V.T @ V
    size = SLACK * eps_of(X) * np.abs(new).max() * data.d
    close(model.inverse_transform(model.transform(new)), expected, size, "rows")


@law("fit_transform is fit, then transform", data=datasets(), solver=solvers, whiten=st.booleans())
def test_fit_transform_is_fit_then_transform(data, solver, whiten):
    X = data.X
    with quiet():
        T = PCA(data.s, solver=solver, whiten=whiten, random_state=0).fit_transform(X)
        model = PCA(data.s, solver=solver, whiten=whiten, random_state=0).fit(X)
    assert np.array_equal(T, model.transform(X))


@law("whitened scores have unit covariance", data=datasets(), solver=st.sampled_from(DIRECT))
def test_whitened_scores_have_unit_covariance(data, solver):
    """In directions whose variance is above rounding; elsewhere scores are small."""
    X = data.X
    model, truth = fitted(X, data.s, solver=solver, whiten=True), Truth(X)
    T = model.transform(X)
    variance = truth.values[: data.s]
    some = variance > 1e4 * truth.rounding(eps_of(X))
    least = variance[some].min(initial=np.inf)
    slack = (truth.rounding(eps_of(X)) + model.residual_ * truth.values[0]) / least
    S = np.cov(T, rowvar=False).reshape(data.s, data.s)
    close(S[np.ix_(some, some)], np.eye(some.sum()), SLACK * slack + 1e-9, "covariances")
    assert (np.diag(S) <= 1 + 1e-3).all()
