"""The functions and problems of sparse PCA: the laws of all functions, oracles, DCA and duality."""

import math

import function_laws as laws
import numpy as np
import pytest
from function_laws import COLUMN, GAMMAS, SEEDS, TALL, WIDE, at_least, close, dot
from function_values import (
    combinations,
    domain_points,
    each,
    entry,
    into_domain,
    parameter,
    points,
    reference,
    top_k,
)
from scipy.optimize import minimize, minimize_scalar
from tests.loops import at, over

from dualpca import PCA, DCProblem, as_operator, solve
from dualpca.formulations import block_sparse, formulation, gpower, optimal_value, sparse
from dualpca.functions import (
    Ball,
    ElasticNet,
    HalfSquare,
    HardSquare,
    Lp,
    ReversedHuber,
    SoftSquare,
    Spectral,
)
from dualpca.functions.sparse import KSupport, TopK
from dualpca.operators import Kernel
from dualpca.solvers import DCA

INF = math.inf
BOTH = [False, True]
COUNTS = [1, 2, 5, (1, 2, 3)]
THRESHOLDS = [0.0, 0.4, (0.1, 0.5, 1.5)]
NORMS = [kind(k, positive) for kind in (TopK, KSupport) for k in COUNTS for positive in BOTH]
PENALTIES = [
    kind(gamma, positive)
    for kind in (SoftSquare, ElasticNet, HardSquare, ReversedHuber)
    for gamma in THRESHOLDS
    for positive in BOTH
]
ALL = [*NORMS, *map(Ball, NORMS), *map(HalfSquare, NORMS), *PENALTIES]


# A tuple fits the three columns of TALL; numbers are tried on every shape.
CASES = [(f, TALL) for f in ALL] + [
    (f, shape) for f in ALL for shape in (WIDE, COLUMN) if not isinstance(parameter(f), tuple)
]
every_seed = over("seed", SEEDS)
both_signs = over("positive", BOTH)


def every_function(law):
    """A law for each function on all of its shapes: one case for each function."""
    cases = {}
    for f, shape in CASES:
        cases.setdefault(str(f), []).append((f, shape))
    looped = over(("f", "shape"), cases, by="function")(law)
    return pytest.mark.parametrize("function", cases)(looped)


# The laws of all functions.


@every_function
@every_seed
def test_values_and_conjugates(f, shape, seed):
    laws.value_and_domain(f, shape, seed)
    laws.subgradient_inequality(f, shape, seed)
    laws.fenchel_young_inequality(f, shape, seed)
    laws.fenchel_young_equality(f, shape, seed)
    laws.biconjugate(f, shape, seed)


@pytest.mark.parametrize("f", ALL, ids=str)
def test_other_arrays(f):
    for kind, dtype in [
        ("numpy", "float32"),
        ("torch", "float64"),
        ("torch", "float32"),
        ("device", "float64"),
    ]:
        with at(kind=kind, dtype=dtype):
            laws.same_on_other_arrays(f, TALL, kind, dtype, 0)


@pytest.mark.slow
@every_function
def test_proximal_maps(f, shape):
    """Every gamma on TALL, one of them on the other shapes."""
    for gamma, seed in GAMMAS if shape == TALL else GAMMAS[1:2]:
        with at(gamma=gamma, seed=seed):
            laws.moreau(f, shape, gamma, seed)
            laws.prox_optimality(f, shape, gamma, seed)


@over("gauge", NORMS)
def test_projections(gauge):
    laws.projection_is_idempotent_and_leaves_the_ball_alone(Ball(gauge), seed=0)


@over("dtype", ["float64", "float32"])
@over("gauge", [g for g in NORMS if isinstance(g, TopK) or not g.positive])
def test_extreme_scales(gauge, dtype):
    laws.homogeneity_at_extreme_scales(gauge, dtype)


@over("f", ALL)
def test_no_function_claims_to_be_unitarily_invariant(f):
    assert not f.unitarily_invariant
    assert not f.one_pass


# Oracles.


@pytest.mark.parametrize("k", [1, 2, 4, 6, 9])
@both_signs
@every_seed
def test_k_support_is_the_infimal_convolution(k, positive, seed):
    """The least ``sum_I ||v_I||`` over decompositions into parts on all supports, by a convex solver."""
    rng = np.random.default_rng(seed)
    d = 4
    w = rng.standard_normal(d) * (rng.random(d) < 0.8)
    w = abs(w) if positive else w
    supports = list(combinations(d, min(k, d)))
    where = np.array([[i in part for i in range(d)] for part in supports], dtype=float)

    def total(v):
        V = v.reshape(where.shape) * where
        return np.sqrt((V**2).sum(axis=1) + 1e-14).sum()

    found = minimize(
        total,
        (where / where.sum(axis=0) * w).ravel(),
        method="SLSQP",
        constraints={"type": "eq", "fun": lambda v: (v.reshape(where.shape) * where).sum(0) - w},
        options={"maxiter": 500, "ftol": 1e-13},
    )
    assert KSupport(k, positive)(w[:, None]) == pytest.approx(found.fun, rel=2e-5)


@pytest.mark.slow
@pytest.mark.parametrize("k", [1, 2, 3])
@both_signs
@every_seed
def test_gauges_are_the_suprema_of_their_duals(k, positive, seed):
    """By Nelder-Mead from values alone."""
    h = np.random.default_rng(seed).standard_normal(3)
    lift = np.abs if positive else np.asarray
    top, support = TopK(k, positive), KSupport(k, positive)
    found = laws.maximum(lambda w: lift(w) @ h / support(lift(w)), seed)
    assert top(h) == pytest.approx(found, rel=1e-5)
    # Of z, entries below 0 gain nothing against lift(h) >= 0.
    found = laws.maximum(lambda z: lift(z) @ lift(h) / top(lift(z)), seed)
    assert support(lift(h)) == pytest.approx(found, rel=1e-5)


@over("f", PENALTIES)
def test_conjugates_of_penalties_are_suprema(f):
    """Entry by entry, on a grid and then by bounded search around its best point."""
    gammas = each(f.gamma, 3)
    H = np.random.default_rng(0).standard_normal((4, 3))
    H = into_domain(f.conjugate, H)
    total = 0.0
    for h, gamma in zip(H.ravel(), gammas * 4, strict=True):
        lowest = 0.0 if f.positive and isinstance(f, (ElasticNet, ReversedHuber)) else -9.0

        def loss(w, h=h, gamma=gamma):
            return entry(f, max(w, 0) if f.positive else w, gamma) - h * w

        grid = np.linspace(lowest, 9, 1801)
        best = grid[np.argmin([loss(w) for w in grid])]
        bounds = (max(best - 0.02, lowest), best + 0.02)
        found = minimize_scalar(loss, bounds=bounds, method="bounded", options={"xatol": 1e-10})
        total -= min(found.fun, loss(best))
    assert f.conjugate(H) == pytest.approx(total, rel=1e-7, abs=1e-9)


@every_seed
def test_end_points_of_k(seed):
    for z in points((6, 1), seed):
        assert close(TopK(1)(z), Lp(INF)(z))
        assert close(KSupport(1)(z), Lp(1)(z))
        for k in (6, 7, 100):
            assert close(TopK(k)(z), Lp(2)(z))
            assert close(KSupport(k)(z), Lp(2)(z))
            np.testing.assert_allclose(
                KSupport(k).subgradient(z), Lp(2).subgradient(z), rtol=0, atol=1e-14
            )


@over("k", COUNTS)
@both_signs
@every_seed
def test_gauge_duality_and_homogeneity(k, positive, seed):
    top, support = TopK(k, positive), KSupport(k, positive)
    assert top.dual == support
    assert support.dual == top
    assert Ball(support).conjugate == top
    assert HalfSquare(top).conjugate == HalfSquare(support)
    assert len({top, TopK(k, positive), support}) == 2
    for Z in points(TALL, seed):
        assert top(2.5 * Z) == pytest.approx(2.5 * top(Z), rel=1e-13)
        for W in domain_points(support, TALL, seed + 1):
            assert at_least(top(Z) * support(W), dot(Z, W), 1e-12)
            assert support(2.5 * W) == pytest.approx(2.5 * support(W), rel=1e-13)
            assert at_least(support(W) + support(abs(W[::-1])), support(W + abs(W[::-1])))


@over("k", [1, 2, 3, 5])
@both_signs
def test_subgradient_keeps_k_entries_the_first_of_tied_ones(k, positive):
    Z = np.ones((5, 2))
    Z[2, 1] = 2.0
    kept = TopK(k, positive).subgradient(Z)
    rest = [0, 1, 3, 4][: k - 1]
    assert np.flatnonzero(kept[:, 0]).tolist() == list(range(k))
    assert np.flatnonzero(kept[:, 1]).tolist() == sorted([2, *rest])
    np.testing.assert_allclose(kept * TopK(k, positive)(Z), Z * (kept > 0), rtol=1e-14)
    np.testing.assert_array_equal(TopK(k, positive).subgradient(0 * Z), 0)


@both_signs
def test_k_sparse_unit_vectors_are_the_extreme_points(positive):
    rng = np.random.default_rng(0)
    ball = Ball(KSupport(3, positive))
    vertices = []
    for _ in range(40):
        w = np.zeros((8, 1))
        w[rng.permutation(8)[:3]] = rng.standard_normal((3, 1))
        w = abs(w) if positive else w
        vertices.append(w / np.linalg.norm(w))
        assert KSupport(3, positive)(vertices[-1]) == pytest.approx(1, abs=1e-14)
    mixture = sum(t * v for t, v in zip(rng.dirichlet(np.ones(40)), vertices, strict=True))
    assert ball(mixture) == 0
    dense = np.full((8, 1), 8**-0.5)
    assert ball(dense) == INF
    assert ball(-mixture) == (INF if positive else 0)


def test_vectors_are_one_column():
    z = np.random.default_rng(0).standard_normal(6)
    for f in (TopK(2), KSupport(2), SoftSquare(0.3), ReversedHuber(0.3)):
        assert f(z) == pytest.approx(f(z[:, None]), rel=1e-14)
        np.testing.assert_allclose(f.subgradient(z), f.subgradient(z[:, None])[:, 0], rtol=1e-14)


@pytest.mark.parametrize(
    ("make", "argument", "error", "words"),
    [
        (TopK, 0, ValueError, r"k=0"),
        (KSupport, -1, ValueError, r"k=-1"),
        (TopK, 1.5, TypeError, r"k=1.5"),
        (KSupport, "two", TypeError, r"k='two'"),
        (TopK, (1, 0), ValueError, r"k=0"),
        (SoftSquare, -0.1, ValueError, r"gamma=-0.1"),
        (HardSquare, INF, ValueError, r"gamma=inf"),
        (ElasticNet, math.nan, ValueError, r"gamma=nan"),
        (ReversedHuber, "a", TypeError, r"gamma='a'"),
        (HardSquare, (0.1, None), TypeError, r"gamma=None"),
    ],
)
def test_bad_arguments(make, argument, error, words):
    with pytest.raises(error, match=words):
        make(argument)


@pytest.mark.parametrize("f", [TopK((1, 2)), KSupport((1, 2)), SoftSquare((0.1, 0.2))], ids=str)
def test_one_parameter_for_each_column(f):
    with pytest.raises(
        ValueError, match=r"=\(.*has 2 entries where the matrix has 3 columns; give"
    ):
        f(np.ones(TALL))
    assert type(f)(list(parameter(f))) == f
    assert hash(type(f)(np.array(parameter(f)))) == hash(f)


# The problems.


def data(seed=0, N=30, d=12):
    rng = np.random.default_rng(seed)
    return rng.standard_normal((N, d)) * 0.9 ** np.arange(d)


def problems(X):
    peak = np.linalg.norm(X, axis=0).max()
    return [
        *(sparse(X, k, positive) for k in (1, 3, 12) for positive in BOTH),
        *(block_sparse(X, k, positive) for k in (2, (3, 5, 12)) for positive in BOTH),
        *(gpower(X, t * peak, "l1", positive) for t in (0.0, 0.3) for positive in BOTH),
        *(gpower(X, t * peak**2, "l0", positive) for t in (0.0, 0.1) for positive in BOTH),
        formulation("sparse_l1", X),
    ]


def columns(problem):
    return 1 if isinstance(problem.G, Ball) else 3


PROBLEMS = range(len(problems(data())))


def iterates(problem, W, count):
    for iterate, _ in zip(DCA()(problem, W), range(count), strict=False):
        yield iterate.point.W


@pytest.mark.parametrize("which", PROBLEMS)
@over("seed", [0, 1, 2])
def test_dca_never_rises_and_the_dual_lies_between(which, seed):
    """``G(W+) - F(XW+) <= F*(H) - G*(X^T H) <= G(W) - F(XW)``, and equality at a fixed point."""
    problem = problems(data(seed))[which]
    W = problem.start(columns(problem), seed)
    assert problem.objective(W) < INF
    value = problem.objective(W)
    slack = 1e-11 * (1 + abs(value))
    for after in iterates(problem, W, 2000):
        between = problem.dual.objective(problem.to_dual(W))
        below = problem.objective(after)
        assert below <= between + slack
        assert between <= value + slack
        still = np.linalg.norm(after - W) <= 1e-12 * np.linalg.norm(after)
        W, value = after, below
        if still:
            break
    H = problem.to_dual(W)
    assert problem.dual.objective(H) == pytest.approx(value, rel=1e-9)
    assert problem.objective(problem.to_primal(H)) == pytest.approx(value, rel=1e-9)


@over("which", PROBLEMS)
@every_seed
def test_maps_between_primal_and_dual_descend(which, seed):
    """So that inf (P) = inf (D): at arbitrary points of either domain."""
    problem = problems(data(seed))[which]
    assert problem.dual.dual is problem
    rng, s = np.random.default_rng(seed), columns(problem)
    for P in (problem, problem.dual):
        for i in range(20):
            W = P.start(s, i) * rng.exponential() ** (0 if P.G.indicator else 1)
            value = P.objective(W)
            assert value < INF
            assert P.dual.objective(P.to_dual(W)) <= value + 1e-11 * (1 + abs(value))


@every_seed
@over("k", [1, 3, 12])
@both_signs
def test_a_step_keeps_the_k_largest_and_normalises(k, positive, seed):
    X = data(seed)
    problem = sparse(X, k, positive)
    w = np.random.default_rng(seed).standard_normal((12, 1))
    z = X.T @ (X @ w)
    z = np.maximum(z, 0) if positive else z
    kept = np.argsort(-abs(z[:, 0]), kind="stable")[:k]
    expected = np.zeros_like(z)
    expected[kept] = z[kept] / np.linalg.norm(z[kept])
    np.testing.assert_allclose(next(iterates(problem, w, 1)), expected, rtol=0, atol=1e-14)


@pytest.mark.parametrize("k", [1, 2, 3])
@both_signs
def test_sparse_optimum_by_all_supports(k, positive):
    """The best of several starts of DCA is the best eigenvalue of a k x k block; none is below it."""
    X = data(3, 20, 6)
    problem = sparse(X, k, positive)
    S = X.T @ X
    starts = [*np.eye(6)[:, :, None], *(problem.start(1, i) for i in range(20))]
    best = min(problem.objective(list(iterates(problem, w, 100))[-1]) for w in starts)
    blocks = [S[np.ix_(part, part)] for part in combinations(6, k)]
    if positive:
        optimum = max(largest_on_the_orthant(B) for B in blocks)
    else:
        optimum = max(np.linalg.eigvalsh(B)[-1] for B in blocks)
    assert best == pytest.approx(-optimum / 2, rel=1e-9)
    assert min(map(problem.objective, starts)) >= -optimum / 2 * (1 + 1e-9)


def largest_on_the_orthant(B):
    """``max w^T B w`` over nonnegative unit w: an eigenvector of a block with no negative entry."""
    best = 0.0
    for size in range(1, len(B) + 1):
        for part in combinations(len(B), size):
            values, vectors = np.linalg.eigh(B[np.ix_(part, part)])
            for value, v in zip(values, vectors.T, strict=True):
                if (v >= 0).all() or (v <= 0).all():
                    best = max(best, value)
    return best


@pytest.mark.parametrize("solver", ["proximal_gradient", "zerofpr"])
@both_signs
def test_proximal_solvers_agree_on_fixed_points(solver, positive):
    problem = sparse(data(1), 3, positive)
    result = solve(problem, solver, s=1, stop="paper", tol=1e-9, max_iter=5000, random_state=0)
    assert result.converged
    assert problem.G(result.W) == 0
    again = next(iterates(problem, result.W, 1))
    np.testing.assert_allclose(again, result.W, rtol=0, atol=1e-6)


def block_objective(X, U, f):
    Y = X.T @ U
    return -sum(f(y, j) for j, y in enumerate(Y.T))


@every_seed
def test_block_objectives_are_their_formulas(seed):
    X = data(seed)
    U = np.linalg.qr(np.random.default_rng(seed).standard_normal((30, 2)))[0]
    k, gamma = (2, 4), (0.3, 0.8)
    for problem, f in [
        (block_sparse(X, k), lambda y, j: top_k(y, k[j]) ** 2 / 2),
        (gpower(X, gamma), lambda y, j: (np.maximum(abs(y) - gamma[j], 0) ** 2).sum() / 2),
        (gpower(X, gamma, "l0"), lambda y, j: np.maximum(y**2 - gamma[j], 0).sum() / 2),
    ]:
        assert problem.objective(U) == pytest.approx(block_objective(X, U, f), rel=1e-12)


@pytest.mark.parametrize(
    "make",
    [lambda X: block_sparse(X, 12), lambda X: gpower(X, 0.0, "l0"), lambda X: gpower(X, 0.0)],
)
def test_without_sparsity_the_block_problems_are_pca(make):
    X = data(4)
    sigma = np.linalg.svd(X, compute_uv=False)
    result = solve(make(X), s=3, tol=1e-7, max_iter=20000, random_state=0)
    assert result.objective == pytest.approx(optimal_value("l", sigma, 3), rel=1e-10)


@pytest.mark.parametrize("penalty", ["l1", "l0"])
def test_gpower_loadings_vanish_above_the_largest_column(penalty):
    X = data(5)
    peak = np.linalg.norm(X, axis=0).max() ** (1 if penalty == "l1" else 2)
    U = np.linalg.qr(np.random.default_rng(0).standard_normal((30, 2)))[0]
    U[:, 0] = X[:, np.argmax(np.linalg.norm(X, axis=0))]
    U = np.linalg.qr(U)[0]
    assert not gpower(X, peak * (1 + 1e-9), penalty).to_dual(U).any()
    assert np.count_nonzero(gpower(X, peak * (1 - 1e-3), penalty).to_dual(U)) == 1


def test_dual_of_the_block_problems_in_closed_form():
    X, W = data(6), np.random.default_rng(0).standard_normal((12, 2))
    nuclear = np.linalg.norm(X @ W, "nuc")
    assert gpower(X, 0.7).dual.objective(W) == pytest.approx(
        (W**2).sum() / 2 + 0.7 * abs(W).sum() - nuclear, rel=1e-12
    )
    half = sum(reference(KSupport(3), w[:, None]) ** 2 for w in W.T) / 2
    assert block_sparse(X, 3).dual.objective(W) == pytest.approx(half - nuclear, rel=1e-12)


def test_penalty_is_checked():
    with pytest.raises(ValueError, match=r"penalty='l2' is unknown; choose 'l1' or 'l0'"):
        gpower(data(), 0.1, "l2")


# The degenerate l1 formulation.


@every_seed
@over("s", [1, 3])
def test_l1_formulation_is_solved_by_one_entry(s, seed):
    X = data(seed)
    problem = formulation("sparse_l1", X)
    assert problem == DCProblem(HalfSquare(Lp(1)), Lp(2), problem.X)
    norms = np.linalg.norm(X, axis=0)
    optimum = -0.5 * norms.max() ** 2

    def single(i, j, size):
        W = np.zeros((12, s))
        W[i, j] = size
        return W

    values = {
        (i, j): min(problem.objective(single(i, j, t * norms[i])) for t in (0.9, 1.0, 1.1))
        for i in range(12)
        for j in range(s)
    }
    assert min(values.values()) == pytest.approx(optimum, rel=1e-12)
    rng = np.random.default_rng(seed)
    for _ in range(200):
        W = rng.standard_normal((12, s)) * (rng.random((12, s)) < rng.random())
        size = abs(W).sum()
        W = W * (np.linalg.norm(X @ W) / size**2) if size else W  # the best point of its ray
        assert problem.objective(W) >= optimum * (1 + 1e-12)
    best = single(int(norms.argmax()), s - 1, norms.max())
    for W in iterates(problem, best, 5):
        np.testing.assert_allclose(W, best, rtol=0, atol=1e-12)


def test_l1_formulation_has_other_fixed_points():
    X = np.diag([3.0, 2.0, 1.0])
    problem = formulation("sparse_l1", X)
    W = np.array([[0.0], [2.0], [0.0]])
    np.testing.assert_allclose(next(iterates(problem, W, 1)), W, atol=1e-14)
    assert problem.objective(W) == pytest.approx(-2.0)
    assert problem.objective(np.array([[3.0], [0.0], [0.0]])) == pytest.approx(-4.5)


def test_l1_formulation_is_not_pca():
    with pytest.raises(ValueError, match=r"formulation='sparse_l1' has other solutions than PCA"):
        PCA(2, formulation="sparse_l1").fit(data())
    with pytest.raises(ValueError, match="no closed-form optimum"):
        optimal_value("sparse_l1", np.ones(3), 2)


@pytest.mark.parametrize("make", [lambda X: formulation("sparse_l1", X), lambda X: sparse(X, 2)])
def test_no_kernel_version(make):
    with pytest.raises(ValueError, match=r"not unitarily invariant.*Proposition 3\.5"):
        make(Kernel.from_matrix(np.eye(5)))


def test_spectral_k_support_norm():
    """Absolutely symmetric on vectors, so a unitarily invariant norm of matrices follows."""
    W = np.random.default_rng(0).standard_normal(TALL)
    sigma = np.linalg.svd(W, compute_uv=False)
    assert Spectral(TopK(2))(W) == pytest.approx(np.linalg.norm(sigma[:2]), rel=1e-13)
    H = Spectral(TopK(2)).subgradient(W)
    assert Spectral(KSupport(2))(H) == pytest.approx(1, rel=1e-12)
    assert dot(H, W) == pytest.approx(Spectral(TopK(2))(W), rel=1e-12)
    problem = DCProblem(Spectral(Ball(KSupport(1))), HalfSquare(Lp(2)), as_operator(data()))
    assert problem.objective(problem.start(2, 0)) < INF


@pytest.mark.parametrize(
    ("make", "s"),
    [
        (lambda X: sparse(X, 2), 1),
        (lambda X: sparse(X, 2, positive=True), 1),
        (lambda X: block_sparse(X, (3, 2)), 2),
        (lambda X: gpower(X, 0.3, "l1"), 2),
        (lambda X: gpower(X, 0.3, "l0"), 2),
        (lambda X: formulation("sparse_l1", X), 2),
    ],
)
def test_solve_stops_at_a_fixed_point_of_dca(make, s):
    """The residual of singular vectors would never reach tol here."""
    problem = make(as_operator(data()))
    result = solve(problem, "dca", s=s, tol=1e-9, max_iter=5000, random_state=0)
    assert result.converged
    step = next(iterates(problem, result.W, 1))
    np.testing.assert_allclose(step, result.W, rtol=0, atol=1e-8 * np.linalg.norm(step))
