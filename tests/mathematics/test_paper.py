"""The paper's pseudocode, transcribed literally, against the one DCA loop; and its theorems."""

import numpy as np
import pytest

from dualpca import DCProblem, as_operator, solve
from dualpca.formulations import FORMULATIONS, formulation, robust
from dualpca.operators import Kernel
from dualpca.solvers import DCA, IRLS, ProximalGradient, SimultaneousIteration, rayleigh_ritz

STEPS = 8


def data(seed, N=30, d=18):
    rng = np.random.default_rng(seed)
    return rng.standard_normal((N, d)) * 0.85 ** np.arange(d)


def compact_svd(Y):
    """The paper's SVD-bar: singular values above rounding."""
    U, sigma, Vt = np.linalg.svd(Y, full_matrices=False)
    keep = sigma > 1e-13 * sigma[0]
    return U[:, keep], sigma[keep], Vt[keep]


def compact_eig(S):
    """The paper's EIG-bar."""
    lam, V = np.linalg.eigh((S + S.T) / 2)
    keep = lam > 1e-13 * lam[-1]
    return V[:, keep], lam[keep]


# The algorithms, line by line.


def algorithm_1(X, W):
    while True:
        U, _, Vt = compact_svd(X.T @ X @ W)
        W = U @ Vt
        yield W


def algorithm_2(K, H):
    while True:
        U, _, Vt = compact_svd(K @ H)
        H = U @ Vt
        yield H


def algorithm_3(X, W):
    while True:
        U, sigma, Vt = compact_svd(X.T @ X @ W)
        W = U @ np.diag(sigma ** (1 / 3)) @ Vt
        yield W


def algorithm_4(K, H):
    while True:
        V, lam = compact_eig(H.T @ K @ H)
        H = K @ H @ V @ np.diag(lam ** (-1 / 3)) @ V.T
        yield H


def algorithm_5(X, W):
    while True:
        XW = X @ W
        Y = np.empty_like(XW)
        for i in range(X.shape[0]):
            Y[i] = XW[i] / np.sqrt(np.linalg.norm(X[i]) ** 2 - np.linalg.norm(XW[i]) ** 2)
        U, _, Vt = compact_svd(X.T @ Y)
        W = U @ Vt
        yield W


def algorithm_6(K, H):
    while True:
        V, lam = compact_eig(H.T @ K @ H)
        Y = K @ H @ V @ np.diag(lam**-0.5) @ V.T
        H = np.empty_like(Y)
        for i in range(K.shape[0]):
            H[i] = Y[i] / np.sqrt(K[i, i] - np.linalg.norm(Y[i]) ** 2)
        yield H


def iteration_l(K, H):
    while True:
        V, lam = compact_eig(H.T @ K @ H)
        H = K @ H @ V @ np.diag(lam**-0.5) @ V.T
        yield H


def iteration_m(K, H):
    while True:
        U, _, Vt = compact_svd(K @ H)
        H = U @ Vt
        yield H


def iteration_n(K, H):
    while True:
        V, lam = compact_eig(H.T @ K @ H)
        H = K @ H @ V @ np.diag(lam**-0.5) @ V.T
        H = H / np.linalg.norm(H)
        yield H


def iteration_o(K, H):
    while True:
        U, _, Vt = compact_svd(np.trace(H.T @ K @ H) ** -0.5 * K @ H)
        H = U @ Vt
        yield H


def iteration_p(K, H):
    while True:
        V, lam = compact_eig(H.T @ K @ H)
        H = np.sum(np.sqrt(lam)) * K @ H @ V @ np.diag(lam**-0.5) @ V.T
        H = H / np.linalg.norm(H)
        yield H


def iteration_q(K, H):
    while True:
        U, sigma, Vt = compact_svd(K @ H)
        H = np.trace(H.T @ K @ H) ** -0.5 * np.sum(sigma) * U @ Vt
        yield H


def literal_robust(X):
    return robust(X, epsilon=0.0)


# Which problem each belongs to. Row (l) of the table is DCA on (m), (n) on (o), (p) on (q); rows
# (m), (o), (q) are DCA on the transposed (l), (n), (p).
PRIMAL = [
    (algorithm_1, FORMULATIONS["l"]),
    (algorithm_3, FORMULATIONS["k"]),
    (algorithm_5, literal_robust),
]
KERNELISED = [
    (algorithm_2, FORMULATIONS["g"]),
    (algorithm_4, FORMULATIONS["holder_dual"]),
    (algorithm_6, lambda X: literal_robust(X).dual),
    (iteration_l, FORMULATIONS["m"]),
    (iteration_m, FORMULATIONS["g"]),
    (iteration_n, FORMULATIONS["o"]),
    (iteration_o, lambda X: FORMULATIONS["n"](X.T)),
    (iteration_p, FORMULATIONS["q"]),
    (iteration_q, lambda X: FORMULATIONS["p"](X.T)),
]


def ids(pairs):
    return [algorithm.__name__ for algorithm, _ in pairs]


@pytest.mark.parametrize(("algorithm", "build"), PRIMAL, ids=ids(PRIMAL))
@pytest.mark.parametrize("s", [1, 4])
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_primal_algorithms_iterate_by_iterate(algorithm, build, s, seed):
    X = data(seed)
    W0 = np.linalg.qr(np.random.default_rng(seed).standard_normal((X.shape[1], s)))[0]
    ours = DCA()(build(as_operator(X)), W0)
    for _, iterate, expected in zip(range(STEPS), ours, algorithm(X, W0), strict=False):
        np.testing.assert_allclose(
            iterate.point.W, expected, atol=1e-10 * np.abs(expected).max(), rtol=0
        )


@pytest.mark.parametrize(("algorithm", "build"), KERNELISED, ids=ids(KERNELISED))
@pytest.mark.parametrize("s", [1, 4])
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_kernelised_algorithms_from_K_alone(algorithm, build, s, seed):
    X = data(seed)
    K = X @ X.T
    H0 = np.linalg.qr(np.random.default_rng(seed).standard_normal((X.shape[0], s)))[0]
    operators = [Kernel.from_matrix(K), Kernel.linear(as_operator(X))]
    if algorithm is not algorithm_6:
        operators.append(as_operator(X))
    for operator in operators:
        ours = DCA()(build(operator), H0)
        for _, iterate, expected in zip(range(STEPS), ours, algorithm(K, H0), strict=False):
            np.testing.assert_allclose(
                iterate.point.W, expected, atol=1e-10 * np.abs(expected).max(), rtol=0
            )


@pytest.mark.parametrize("seed", [0, 1])
def test_irls_of_the_appendix(seed):
    X, s = data(seed), 3
    W = W0 = np.linalg.qr(np.random.default_rng(seed).standard_normal((X.shape[1], s)))[0]
    ours = IRLS()(literal_robust(as_operator(X)), W0)
    for _, iterate in zip(range(STEPS), ours, strict=False):
        beta = [np.linalg.norm(x - W @ W.T @ x) for x in X]
        B = np.diag(np.array(beta) ** -0.5)
        U = np.linalg.svd(X.T @ B)[0]
        W = U[:, :s]
        np.testing.assert_allclose(iterate.point.W @ iterate.point.W.T, W @ W.T, atol=1e-10)
        # It minimises ||BX - BX W W^T||: no other subspace does better.
        other = np.linalg.qr(W + 0.1 * np.random.default_rng(9).standard_normal(W.shape))[0]
        error = np.linalg.norm(B @ X - B @ X @ W @ W.T)
        assert error <= np.linalg.norm(B @ X - B @ X @ other @ other.T)


def test_irls_refuses_what_has_no_row_weights():
    with pytest.raises(ValueError, match="IRLS reweights rows"):
        next(IRLS()(formulation("l", data(0)), np.eye(18)[:, :2]))


def test_irls_and_dca_share_fixed_points():
    X = as_operator(data(3))
    problem = robust(X)
    W = solve(problem, "irls", s=2, tol=1e-10, random_state=0, max_iter=5000).W
    again = next(DCA()(problem, W)).point.W
    np.testing.assert_allclose(again @ again.T, W @ W.T, atol=1e-8)


@pytest.mark.parametrize("letter", ["l", "g"])
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_dca_and_simultaneous_iteration_span_the_same_subspaces(letter, seed):
    problem = formulation(letter, data(seed))
    W0 = problem.start(4, seed)
    pairs = zip(range(12), DCA()(problem, W0), SimultaneousIteration()(problem, W0), strict=False)
    for _, a, b in pairs:
        Q, R = a.point.W, b.point.W
        np.testing.assert_allclose(Q @ Q.T, R @ R.T, atol=1e-10)


@pytest.mark.parametrize("letter", ["l", "n", "p", "k", "robust"])
def test_primal_and_dual_iterates_correspond(letter):
    # Proposition 2.5: from H0 in dF(X W0), the dual iterates map to the primal ones.
    problem = FORMULATIONS[letter](as_operator(data(1)))
    W0 = problem.start(3, 0)
    primal, dual = DCA()(problem, W0), DCA()(problem.dual, problem.to_dual(W0))
    np.testing.assert_allclose(problem.to_primal(problem.to_dual(W0)), next(primal).point.W)
    for _, a, b in zip(range(STEPS), primal, dual, strict=False):
        np.testing.assert_allclose(problem.to_primal(b.point.W), a.point.W, atol=1e-9)


@pytest.mark.parametrize("gamma", [1e-2, 1.0, 100.0])
def test_proximal_gradient_on_l_is_simultaneous_iteration_on_the_shifted_matrix(gamma):
    X = data(2)
    problem = formulation("l", X)
    W0 = Q = problem.start(4, 0)
    for _, iterate in zip(range(10), ProximalGradient(gamma=gamma)(problem, W0), strict=False):
        Q = np.linalg.qr(Q + gamma * X.T @ (X @ Q))[0]
        W = iterate.point.W
        np.testing.assert_allclose(W.T @ W, np.eye(4), atol=1e-10)
        np.testing.assert_allclose(W @ W.T, Q @ Q.T, atol=1e-9)


def test_proximal_gradient_becomes_dca_as_gamma_grows():
    problem = formulation("l", data(2))
    W0 = problem.start(4, 0)
    for _, a, b in zip(
        range(6), ProximalGradient(gamma=1e12)(problem, W0), DCA()(problem, W0), strict=False
    ):
        np.testing.assert_allclose(a.point.W, b.point.W, atol=1e-8)


@pytest.mark.parametrize("letter", ["l", "g"])
def test_linear_rate_of_algorithms_1_and_2(letter):
    # The sine of the largest angle shrinks by (sigma_{s+1}/sigma_s)^2 a step (Trefethen, Bau 28.4).
    rng = np.random.default_rng(0)
    U, V = (np.linalg.qr(rng.standard_normal((20, 20)))[0] for _ in range(2))
    sigma = np.array([5.0, 4.0, 3.0, 2.4] + [1.0] * 16)
    X, s = (U * sigma) @ V.T, 3
    exact = (V if letter == "l" else U)[:, :s]
    problem = formulation(letter, X)
    sines = []
    for _, iterate in zip(range(30), DCA()(problem, problem.start(s, 1)), strict=False):
        W = iterate.point.W
        sines.append(np.linalg.norm(W - exact @ (exact.T @ W), 2))
    rates = np.array(sines[16:]) / np.array(sines[15:-1])
    np.testing.assert_allclose(rates, (2.4 / 3.0) ** 2, rtol=1e-2)


@pytest.mark.parametrize("column", ["zero", "repeated"])
def test_a_rank_deficient_start_recovers_here_and_never_with_the_compact_svd(column):
    X = data(4)
    W0 = np.linalg.qr(np.random.default_rng(0).standard_normal((18, 3)))[0]
    W0[:, 2] = 0 if column == "zero" else W0[:, 1]
    literal = algorithm_1(X, W0)
    for _ in range(30):
        W = next(literal)
        assert np.linalg.matrix_rank(W, tol=1e-8) == 2
    problem = formulation("l", X)
    result = solve(problem, "dca", W0, tol=1e-8, max_iter=5000)
    sigma = np.linalg.svd(X, compute_uv=False)
    assert result.objective == pytest.approx(-0.5 * np.sum(sigma[:3] ** 2), rel=1e-10)
    zero = np.zeros((18, 3))
    assert np.linalg.matrix_rank(next(DCA()(problem, zero)).point.W) == 3


# Theorem 3.8: out-of-sample scores from K and kernels with the new point.


def quadratic_features(X):
    """Explicit features of k(x, y) = (x^T y)^2."""
    return np.einsum("ni,nj->nij", X, X).reshape(len(X), -1)


@pytest.mark.parametrize("letter", ["m", "o", "q", "holder_dual", "robust_dual"])
@pytest.mark.parametrize("seed", [0, 1])
def test_out_of_sample_theorem(letter, seed):
    rng = np.random.default_rng(seed)
    X, new = rng.standard_normal((25, 4)), rng.standard_normal((6, 4))
    Phi, phi = quadratic_features(X), quadratic_features(new)
    K, k = (X @ X.T) ** 2, (X @ new.T) ** 2
    operator = Kernel.from_matrix(K)
    if letter == "robust_dual":  # an epsilon that keeps H^T K H far from singular
        problem = robust(operator, epsilon=float(np.median(np.sqrt(np.diag(K))))).dual
    else:
        problem = formulation(letter, operator)
    H = solve(problem, s=3, tol=1e-6, random_state=seed, max_iter=20000).W
    # The theorem, with the eigendecomposition V Diag(lambda) V^T that its proof uses.
    lam, V = np.linalg.eigh(H.T @ K @ H)
    g_conjugate = problem.dual.G.conjugate.g
    mu = g_conjugate.subgradient(np.sqrt(lam))
    scores = V @ np.diag(mu * lam**-0.5) @ V.T @ H.T @ k
    # The same W in explicit feature space.
    W = problem.dual.G.conjugate.subgradient(Phi.T @ H)
    np.testing.assert_allclose(scores, W.T @ phi.T, atol=1e-10 * np.abs(scores).max())
    # And our implicit W = Gamma^T A: its scores are A^T k.
    implicit = problem.to_dual(H)
    np.testing.assert_allclose(
        implicit.coefficients.T @ k, scores, atol=1e-10 * np.abs(scores).max()
    )
    # W solves the primal: the explicit problem has the same objective there.
    explicit = DCProblem(problem.dual.G, problem.dual.F, as_operator(Phi))
    assert explicit.objective(W) == pytest.approx(problem.objective(H), rel=1e-8)


@pytest.mark.parametrize(
    ("letter", "scaled"), [("l", False), ("n", False), ("k", True), ("p", True)]
)
def test_scores_of_k_and_p_are_scaled_and_rayleigh_ritz_repairs_it(letter, scaled):
    A = data(8)
    X = as_operator(A)
    W = solve(formulation(letter, X), s=3, tol=1e-9, random_state=0, max_iter=5000).W
    assert np.allclose(W.T @ W, np.eye(3), atol=1e-6) is not scaled
    ritz = rayleigh_ritz(X, W)
    sigma, Vt = np.linalg.svd(A)[1:]
    np.testing.assert_allclose(np.sqrt(ritz.theta), sigma[:3], rtol=1e-10)
    np.testing.assert_allclose(np.abs(np.sum(ritz.V * Vt[:3].T, axis=0)), 1, atol=1e-10)
