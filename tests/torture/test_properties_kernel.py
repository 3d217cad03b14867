"""Kernel PCA: invariances of K, identities of scores, weights, and the certificate."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp
from hypothesis import strategies as st
from laws import SLACK, Truth, close, datasets, eps_of, law, quiet, turn
from sklearn.metrics.pairwise import pairwise_kernels

from dualpca import PCA, KernelPCA

SOLVERS = ("auto", "lapack", "krylov", "dca", "anderson", "proximal_gradient", "zerofpr")
solvers = st.sampled_from(SOLVERS)
small = datasets(rows=(3, 30), columns=(1, 8), offsets=(0.0, 1.0))
kernels = st.sampled_from(("linear", "rbf", "poly", "laplacian", "cosine"))


def fitted(X, s, weights=None, **options):
    options = {"tol": 1e-10, "max_iter": 300, "random_state": 0, **options}
    with quiet():
        return KernelPCA(s, **options).fit(X, sample_weight=weights)


def matrix(model, X):
    """K by scikit-learn, in float64."""
    params = {"gamma": model.gamma_, "degree": model.degree, "coef0": model.coef0}
    return pairwise_kernels(X.astype(float), metric=model.kernel, filter_params=True, **params)


class TruthOfKernel(Truth):
    """Centred K by LAPACK; what rounding of K does to it."""

    def __init__(self, K, weights=None, center=True):
        w = np.ones(len(K)) if weights is None else np.asarray(weights, dtype=float)
        share = w / w.sum() if center else 0 * w
        Kc = K - np.outer(np.ones(len(K)), share @ K) - np.outer(K @ share, np.ones(len(K)))
        Kc = Kc + share @ K @ share
        self.K = np.sqrt(w)[:, None] * Kc * np.sqrt(w)
        self.size = float(np.sqrt(np.linalg.norm(K, 2) * w.max()))
        self.values = np.append(np.linalg.eigvalsh(self.K)[::-1].clip(0), 0.0)

    def rounding(self, eps):
        return SLACK * eps * self.size**2


def same_scores(T, T2, truth, eps, *models):
    """The same up to turns within the subspace: ``T T^T`` is K within it."""
    s = T.shape[1]
    norm = float(np.linalg.norm(truth.values[:s]))
    moved = sum(m.residual_ for m in models) * norm + truth.rounding(eps)
    short = sum(m.variance_shortfall_ for m in models if m.residual_ > 1e3 * eps)
    short = short * float(truth.values[:s].sum())
    T, T2 = T.astype(float), T2.astype(float)
    same = 4 * np.sqrt(s) * moved + short + 1e-300
    close((T**2).sum(), (T2**2).sum(), same, "variances held")
    gap = truth.gap(s)
    off = (4 * np.sqrt(2 * s) * moved / gap + 2 * np.sqrt(short / gap)) if gap > 0 else 1.0
    if off < 1:
        close(T @ T.T, T2 @ T2.T, same + 4 * off * truth.values[0], "inner products of scores")


def check(one, other, X, X2, truth, back=lambda T: T):
    """Eigenvalues, and the scores of the training rows."""
    eps = eps_of(one.eigenvalues_, other.eigenvalues_)
    norm = float(np.linalg.norm(truth.values))
    early = [m for m in (one, other) if m.residual_ > 1e3 * eps]
    short = sum(m.variance_shortfall_ for m in early) * float(truth.values.sum())
    moved = (one.residual_ + other.residual_) * norm + truth.rounding(eps) + short
    floor = (2e-7 if eps > 1e-10 else 1e-12) * truth.values[0]  # eigenvalues below it are told as 0
    close(one.eigenvalues_, other.eigenvalues_, 4 * moved + floor + 1e-300, "eigenvalues")
    same_scores(one.transform(X), back(other.transform(X2)), truth, eps, one, other)


@law("KernelPCA with a linear kernel is PCA", few=20, data=small, solver=solvers)
def test_a_linear_kernel_is_pca(data, solver):
    X = data.X
    s = data.s
    one, other = fitted(X, s, solver=solver), PCA(s, solver="lapack").fit(X)
    truth = TruthOfKernel(X @ X.T)
    moved = one.residual_ * np.linalg.norm(truth.values) + truth.rounding(eps_of(X))
    short = one.variance_shortfall_ * truth.values.sum() if one.residual_ > 1e-12 else 0.0
    slack = 4 * moved + short + 1e-12 * truth.values[0] + 1e-300
    close(one.eigenvalues_, other.singular_values_**2, slack, "eigenvalues")
    other.variance_shortfall_ = max(other.variance_shortfall_, 0.0)
    same_scores(one.transform(X), other.transform(X), truth, eps_of(X), one, other)


@law("a precomputed kernel is the kernel", few=20, data=small, kernel=kernels, solver=solvers)
def test_a_precomputed_kernel_is_the_kernel(data, kernel, solver):
    X = data.X / data.scale
    one = fitted(X, data.s, kernel=kernel, gamma=0.1, solver=solver)
    K = matrix(one, X)
    other = fitted(K, data.s, kernel="precomputed", solver=solver)
    check(one, other, X, K, TruthOfKernel(K))
    new = data.rng.permutation(X.ravel()).reshape(X.shape)
    across = pairwise_kernels(
        new, X, metric=kernel, filter_params=True, gamma=0.1, degree=3, coef0=1
    )
    T, T2 = one.transform(new), other.transform(across)
    assert T.shape == T2.shape


@law(
    "out of sample, training rows get their scores",
    few=20,
    data=small,
    kernel=kernels,
    solver=st.sampled_from(("auto", "lapack")),
    center=st.booleans(),
)
def test_training_rows_keep_their_scores_out_of_sample(data, kernel, solver, center):
    X = data.X / data.scale
    model = KernelPCA(data.s, kernel=kernel, gamma=0.1, solver=solver, center=center)
    with quiet():
        T = model.fit_transform(X)
    truth = TruthOfKernel(matrix(model, X), center=center)
    least = np.sqrt(model.eigenvalues_[model.eigenvalues_ > 0]).min(initial=np.inf)
    slack = (truth.rounding(eps_of(X)) + model.residual_ * truth.values[0]) / least + 1e-12
    close(model.transform(X), T, 4 * slack, "scores")


@law(
    "the certificate of kernel PCA bounds the truth",
    few=30,
    many=250,
    data=small,
    kernel=kernels,
    solver=solvers,
    tol=st.sampled_from((1e-2, 1e-4, 1e-8)),
    single=st.booleans(),
)
def test_the_certificate_of_kernel_pca_bounds_the_truth(data, kernel, solver, tol, single):
    X = (data.X / data.scale).astype(np.float32 if single else np.float64)
    model = fitted(X, data.s, kernel=kernel, gamma=0.1, solver=solver, tol=tol)
    truth, H = TruthOfKernel(matrix(model, X)), model.eigenvectors_.astype(float)
    slack = truth.rounding(eps_of(X)) + (2e-7 if single else 1e-12) * truth.values[0]
    Z = truth.K @ H
    wrong, limit = np.linalg.norm(Z - H @ (H.T @ Z)), model.residual_ * np.linalg.norm(Z)
    assert wrong <= 1.01 * limit + slack, f"residual {wrong:.2e}, told {limit:.2e}"
    best = truth.values[: H.shape[1]].sum()
    short, limit = best - np.einsum("ij,ij->", H, Z), model.variance_shortfall_ * best
    assert short <= limit + slack, f"shortfall {short:.2e}, told {limit:.2e}"
    close(H.T @ H, np.eye(H.shape[1]), SLACK * eps_of(model.eigenvectors_), "Gram matrices")
    assert float(np.sum(model.explained_variance_ratio_)) <= 1 + slack / max(
        truth.values[0], 1e-300
    )


@law(
    "distances are all that the RBF kernel knows",
    few=25,
    many=200,
    data=small,
    how=st.sampled_from(("rows", "columns", "signs", "rotation", "translation", "scale", "zeros")),
    gamma=st.sampled_from(("median", "scale", 0.2)),
    solver=solvers,
)
def test_the_rbf_kernel_knows_distances_alone(data, how, gamma, solver):
    """A factor leaves K as it is where gamma follows the data; "scale" counts zero columns."""
    X, rng, d = data.X / data.scale, data.rng, data.d
    order = rng.permutation(data.N) if how == "rows" else np.arange(data.N)
    other = {
        "rows": lambda: X[order],
        "columns": lambda: X[:, rng.permutation(d)],
        "signs": lambda: X * rng.choice([-1.0, 1.0], d),
        "rotation": lambda: X @ turn(rng, d),
        "translation": lambda: X + 3 * rng.standard_normal(d),
        "scale": lambda: 2.0 ** rng.integers(-20, 20) * X,
        "zeros": lambda: np.hstack([X, np.zeros((data.N, 2))]),
    }[how]()
    if gamma == "scale" and how in ("zeros", "rotation", "translation", "signs"):
        gamma = "median"  # the variance of all numbers together is not that of the rows
    if how == "scale" and isinstance(gamma, float):
        gamma = "median"
    one, two = (fitted(Y, data.s, kernel="rbf", gamma=gamma, solver=solver) for Y in (X, other))
    truth = TruthOfKernel(matrix(one, X))
    factor = (np.abs(other).max() / max(np.abs(X).max(), 1e-300)) ** 2 if how == "scale" else 1.0
    if np.ptp(X, axis=0).any():  # equal rows have no median distance
        close(two.gamma_ * factor, one.gamma_, 1e-6 * one.gamma_, "gamma_")
    check(one, two, X, other, truth, lambda T: T[np.argsort(order)])


@law(
    "a weight of m is the row m times, in kernel PCA",
    few=20,
    data=small,
    kernel=kernels,
    solver=solvers,
    center=st.booleans(),
)
def test_whole_weights_are_repeated_rows_in_feature_space(data, kernel, solver, center):
    X = data.X / data.scale
    w = data.rng.integers(0, 4, data.N)
    w[0] += data.s + 1
    options = {"kernel": kernel, "gamma": 0.1, "solver": solver, "center": center}
    s = min(data.s, int((w > 0).sum()))
    one, other = fitted(X, s, w, **options), fitted(np.repeat(X, w, axis=0), s, **options)
    truth = TruthOfKernel(matrix(one, X), w, center)
    check(one, other, X, X, truth)
    close(
        one.explained_variance_, one.eigenvalues_ / (w.sum() - 1), 1e-9 * truth.size**2, "variances"
    )


@law("sparse rows and float32 rows have the same K", few=20, data=small, kernel=kernels)
def test_kernels_of_sparse_and_float32_rows(data, kernel):
    if kernel == "laplacian":
        return
    X = (data.X / data.scale).astype(np.float32)
    options = {"kernel": kernel, "gamma": 0.1, "solver": "lapack"}
    one = fitted(X.astype(float), data.s, **options)
    truth = TruthOfKernel(matrix(one, X))
    other = fitted(sp.csr_array(X.astype(float)), data.s, **options)
    check(one, other, X.astype(float), sp.csr_array(X.astype(float)), truth)
    check(one, fitted(X, data.s, **options), X.astype(float), X, truth)


@law("all rows as landmarks: exact", few=12, data=small, kernel=st.sampled_from(("rbf", "linear")))
def test_with_all_rows_as_landmarks_nystroem_is_exact(data, kernel):
    X = data.X / data.scale
    options = {"kernel": kernel, "gamma": 0.2}
    one = fitted(X, data.s, **options)
    other = fitted(X, data.s, approximation="nystroem", landmarks=X, **options)
    truth = TruthOfKernel(matrix(one, X))
    n = min(len(one.eigenvalues_), len(other.eigenvalues_))
    slack = 1e-6 * truth.size**2
    close(one.eigenvalues_[:n], other.eigenvalues_[:n], slack, "eigenvalues")
    T, T2 = one.transform(X), other.transform(X)
    if truth.gap(n) > 1e-2 * truth.values[0] and T.shape == T2.shape:
        close(T @ T.T, T2 @ T2.T, 1e-3 * truth.size**2, "inner products of scores")


@law("a fraction of the kernel's variance", data=small, fraction=st.floats(0.05, 0.99))
def test_a_fraction_of_the_variance_in_feature_space(data, fraction):
    X = data.X / data.scale
    model = fitted(X, fraction, kernel="rbf", gamma=0.2)
    truth, n = TruthOfKernel(matrix(model, X)), len(model.eigenvalues_)
    slack, total = data.N * truth.rounding(eps_of(X)), truth.values.sum()
    assert truth.values[:n].sum() >= fraction * total - slack
    assert n == 1 or truth.values[: n - 1].sum() <= fraction * total + slack
