"""solve: what tol means, the reference behaviour of PG and ZeroFPR, traces, errors, backends."""

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

from dualpca import FORMULATIONS, DCProblem, as_operator, solve
from dualpca.formulations import formulation, robust, sparse
from dualpca.functions import Ball, HalfSquare, Lp, Spectral
from dualpca.operators import Blocks, Kernel
from dualpca.solvers import DCA, IRLS, ProximalGradient, ZeroFPR, rayleigh_ritz

PCA_LETTERS = [name for name in FORMULATIONS if not name.startswith(("robust", "sparse"))]
SOLVER_NAMES = ["dca", "proximal_gradient", "zerofpr", "simultaneous"]


def data(seed=0, N=60, d=30):
    rng = np.random.default_rng(seed)
    return rng.standard_normal((N, d)) * 0.9 ** np.arange(d)


def true_residual(A, W):
    """||X^T X Q - Q Q^T X^T X Q|| / ||X^T X Q||, from scratch."""
    Q = np.linalg.qr(W)[0]
    Z = A.T @ (A @ Q)
    return np.linalg.norm(Z - Q @ (Q.T @ Z)) / np.linalg.norm(Z)


def image(problem, X, W):
    """The primal variable: W itself, or the image of a dual one, on the side of X's rows."""
    if not problem.F.one_pass:
        problem, W = problem.dual, problem.to_dual(W)
    return W if problem.X is X else np.asarray(X.T @ W)


DUALS = ("m", "o", "q", "holder_dual")
# Simultaneous iteration is defined on the primal problems of PCA whose W has no scale to be found.
SCALED = ("p", "k")
PAIRS = [
    (a, b)
    for a in SOLVER_NAMES
    for b in PCA_LETTERS
    if a != "simultaneous" or b not in DUALS + SCALED
]


@pytest.mark.parametrize(("solver", "letter"), PAIRS)
@pytest.mark.parametrize("tol", [1e-2, 1e-4, 1e-7])
def test_tol_is_the_residual_for_every_solver_and_formulation(solver, letter, tol):
    A = data()
    X = as_operator(A)
    problem = formulation(letter, X)
    result = solve(problem, solver, s=4, tol=tol, random_state=0, max_iter=20000)
    assert result.converged
    assert result.residual <= tol
    side = A.T if problem.X is X.T and problem.F.one_pass else A
    W = result.W if problem.F.one_pass else problem.to_dual(result.W)
    if isinstance(solver, str) and solver == "dca" and not problem.F.one_pass:
        # H came from the primal W that was tested; the image is one step further.
        assert true_residual(side, W) <= tol
    elif problem.G.known_by_span:
        assert true_residual(side, W) == pytest.approx(result.residual, rel=1e-6, abs=1e-13)
    else:  # the scale of W may be further from the solution than its span
        assert true_residual(side, W) <= result.residual * (1 + 1e-6) + 1e-13


@pytest.mark.parametrize("solver", ["dca", "zerofpr"])
@pytest.mark.parametrize("letter", ["l", "n", "o", "k"])
def test_tol_does_not_depend_on_the_scale_of_the_data(solver, letter):
    reached = []
    for scale in (1e-5, 1.0, 1e5):
        problem = formulation(letter, scale * data(1))
        result = solve(problem, solver, s=3, tol=1e-5, random_state=2, max_iter=50000)
        reached.append(result.residual)
    assert max(reached) <= 1e-5
    if solver == "dca":
        # A Fenchel gap of 1e-10 has fewer digits than a residual.
        np.testing.assert_allclose(reached, reached[0], rtol=1e-3 if letter in "ko" else 1e-6)


def test_tol_does_not_depend_on_the_step():
    problem = formulation("n", data(1))
    for gamma in (0.1, 1.0, 100.0):
        result = solve(
            problem, ProximalGradient(gamma=gamma), s=3, tol=1e-6, random_state=0, max_iter=90000
        )
        assert true_residual(data(1), result.W) <= 1e-6
    # The paper's own test does: a long step passes it far from the solution.
    loose = solve(
        problem, ProximalGradient(gamma=100.0), s=3, tol=1e-2, stop="paper", random_state=0
    )
    assert loose.iterations < 10
    assert loose.residual > 1e-2


def test_not_converging_is_a_warning_with_the_residual():
    problem = formulation("l", data())
    with pytest.warns(
        ConvergenceWarning, match=r"DCA stopped at max_iter=3 with a residual of [\d.e-]+"
    ) as w:
        result = solve(problem, s=3, tol=1e-9, max_iter=3, random_state=0)
    assert not result.converged
    assert result.iterations == 3
    assert f"{result.residual:.1e}" in str(w[0].message)
    assert true_residual(data(), result.W) == pytest.approx(result.residual)


def test_the_best_iterate_is_returned_where_tol_is_out_of_reach():
    A = data(0, 40, 6)
    problem, seen = formulation("n", A), []
    options = {"s": 3, "tol": 0.0, "max_iter": 150, "random_state": 0, "callback": seen.append}
    with pytest.warns(ConvergenceWarning, match="max_iter=150"):
        result = solve(problem, "zerofpr", **options)
    assert result.residual == min(r.residual for r in seen) < 1e-12
    assert true_residual(A, result.W) <= 1e-12


def test_a_W_that_spans_nothing_is_no_solution():
    from dualpca.linalg import residual

    X, W = data(), np.zeros((30, 3))
    assert residual(W, X.T @ X @ np.ones((30, 3))) == 1.0
    assert residual(W, W) == 0.0


def test_result_trace_callback_and_progress(capsys):
    problem, seen = formulation("n", data()), []
    result = solve(
        problem,
        s=3,
        tol=1e-6,
        random_state=0,
        trace=True,
        callback=seen.append,
        verbose=2,
        max_iter=999,
    )
    assert list(result.trace) == seen
    assert [r.iteration for r in seen] == list(range(1, result.iterations + 1))
    assert seen[-1].residual == result.residual <= 1e-6 < seen[-2].residual
    assert seen[-1].passes == result.passes
    assert seen[-1].objective == pytest.approx(result.objective, rel=1e-12)
    assert np.all(np.diff([r.objective for r in seen]) <= 1e-12)
    assert np.all(np.diff([r.seconds for r in seen]) >= 0)
    err = capsys.readouterr().err
    assert len(err.splitlines()) == result.iterations
    assert all(line.startswith("DCA: dca, pass ") for line in err.splitlines())
    assert f"residual {result.residual:.1e} (tol 1e-06)" in err.splitlines()[-1]
    assert "residual" in err
    assert err.endswith("\n")
    quiet = solve(problem, s=3, tol=1e-6, random_state=0, max_iter=999)
    assert quiet.trace == ()
    assert capsys.readouterr().err == ""


def test_passes_are_one_a_step_on_rows_and_one_product_with_K_on_kernels():
    A = data()
    blocks = Blocks([A[:25], A[25:]])
    for X, extra in ((as_operator(A), 1), (blocks, 1), (Kernel.from_matrix(A @ A.T), 1)):
        for letter in ("l", "n", "p", "k", "robust"):
            problem = FORMULATIONS[letter](X)
            before = X.passes
            result = solve(problem, s=3, tol=1e-3, random_state=0, max_iter=9999)
            assert X.passes - before <= result.iterations + extra + 1
            assert result.passes <= result.iterations + extra
    # DCA on a dual runs as its rotated primal: still one pass a step.
    result = solve(formulation("o", blocks), s=3, tol=1e-4, random_state=0)
    assert result.passes == result.iterations + 1


def test_dual_result_is_a_dual_solution():
    for letter in ("m", "o", "q", "holder_dual"):
        problem = formulation(letter, as_operator(data()))
        result = solve(problem, s=3, tol=1e-8, random_state=0, max_iter=9999)
        assert result.W.shape == (60, 3)
        assert result.objective == pytest.approx(
            problem.dual.objective(problem.to_dual(result.W)), rel=1e-10
        )


@pytest.mark.parametrize("solver", SOLVER_NAMES)
def test_deterministic_given_random_state(solver):
    problem = formulation("n", data())
    a, b, c = (solve(problem, solver, s=3, random_state=r) for r in (5, 5, 6))
    np.testing.assert_array_equal(a.W, b.W)
    assert not np.array_equal(a.W, c.W)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({}, "neither W0 nor s was given"),
        ({"s": 0}, "s=0 is out of range; choose 1 <= s <= 30"),
        ({"s": 31}, "s=31 is out of range"),
        ({"s": 2, "tol": -1.0}, "tol=-1.0 must be"),
        ({"s": 2, "tol": float("nan")}, "tol=nan must be"),
        ({"s": 2, "max_iter": 0}, "max_iter=0 must be at least 1"),
        (
            {"s": 2, "stop": "never"},
            "stop='never' is unknown; choose 'residual', 'span' or 'paper'",
        ),
        ({"s": 2, "solver": "newton"}, "solver='newton' is unknown; choose one of dca"),
        ({"s": 2, "stop": "paper"}, "stop='paper' needs a proximal step"),
        ({"W0": np.ones((7, 2))}, "W0 has 7 rows where the problem's variable has 30"),
        ({"W0": np.ones((30, 2)), "s": 3}, "W0 has 2 columns and s=3"),
    ],
)
def test_bad_arguments_are_named(arguments, message):
    with pytest.raises(ValueError, match=message):
        solve(formulation("l", data()), **arguments)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"s": 2.5}, "s=2.5 counts columns; give an integer"),
        ({"s": "2"}, "s='2' counts columns"),
        ({"s": True}, "s=True counts columns"),
        ({"s": 2, "solver": None}, "solver=None is no solver; give a name"),
        ({"s": 2, "solver": DCA}, "is no solver; give a name .* or an instance"),
        ({"W0": [[1.0], [2.0]]}, "W0 is a list; give a matrix with 30 rows"),
    ],
)
def test_arguments_of_the_wrong_type_are_named(arguments, message):
    with pytest.raises(TypeError, match=message):
        solve(formulation("l", data()), **arguments)


@pytest.mark.parametrize("letter", ["l", "o"])
def test_warnings_point_at_the_caller(letter):
    with pytest.warns(ConvergenceWarning) as caught:
        solve(formulation(letter, data()), s=3, tol=1e-9, max_iter=2, random_state=0)
    assert caught[0].filename == __file__


def test_prox_that_does_not_exist_is_named():
    problem = DCProblem(Spectral(Ball(Lp(3))), HalfSquare(Lp(2)), as_operator(data()))
    with pytest.raises(TypeError, match="has no proximal map here; use the 'dca' solver"):
        solve(problem, "proximal_gradient", s=2)
    assert solve(problem, "dca", s=2, tol=1e-6, max_iter=9999).converged


# The reference implementation's iteration and gradient counts (4000 x 2000 Gaussian, s = 20, 1e-3).

COUNTS = {
    ("n", "proximal_gradient"): (31, 32),
    ("n", "zerofpr"): (9, 18),
    ("o", "proximal_gradient"): (4, 5),
    ("o", "zerofpr"): (4, 8),
    ("l", "zerofpr"): (72, 158),
}
#: On (l) and (q) the count follows the gap of the matrix at hand: over nine matrices 55 to 124 and 56
#: to 89 iterations. So (l) takes nine matrices to meet the reference, and (q), with a median of 69
#: (140), stays above its 52 (105).
SEEDS = {"l": 9, "n": 3, "o": 3, "q": 3}


@pytest.mark.slow
def test_counts_of_the_reference_implementation():
    found = {key: [] for key in (*COUNTS, ("q", "zerofpr"))}
    for seed in range(max(SEEDS.values())):
        X = as_operator(np.random.default_rng(seed).standard_normal((4000, 2000)))
        for letter, solver in found:
            if seed < SEEDS[letter]:
                problem = formulation(letter, X)
                result = solve(problem, solver, problem.start(20, seed), tol=1e-3, stop="paper")
                gradients = result.passes // (1 if problem.F.one_pass else 2)
                found[letter, solver].append((result.iterations, gradients))
    medians = {key: np.median(value, axis=0) for key, value in found.items()}
    for key, reference in COUNTS.items():
        for ours, theirs in zip(medians[key], reference, strict=True):
            assert abs(ours - theirs) <= max(2, 0.15 * theirs), (key, medians[key], reference)
    iterations, gradients = medians["q", "zerofpr"]
    assert gradients / iterations == pytest.approx(105 / 52, rel=0.05)
    assert iterations < 1.05 * medians["l", "zerofpr"][0]


def test_zerofpr_takes_the_plain_point_when_no_step_descends():
    # With an impossible decrease asked for, every line search ends at tau = 0.
    problem = formulation("n", data())
    W0 = problem.start(3, 0)
    fixed = ZeroFPR(gamma=0.5, beta=1e12, max_backtracks=3)
    plain = ProximalGradient(gamma=0.5)
    for _, a, b in zip(range(5), fixed(problem, W0), plain(problem, W0), strict=False):
        np.testing.assert_allclose(a.point.W, b.point.W, atol=1e-12)


class MinusSquare(HalfSquare):
    """-||Y||^2/2: no convex F, but it makes f = -F(XW) convex and smooth, where steps matter."""

    def __call__(self, Y):
        return -super().__call__(Y)

    def pullback(self, X, W):
        value, Z = super().pullback(X, W)
        return -value, -Z


@pytest.mark.parametrize("solver", [ProximalGradient(), ZeroFPR()])
def test_adaptive_step_is_halved_until_descent(solver):
    # L = 36 is seen by one entry in ten, so the first step 1/L0 = 1/11 is longer than 2/L.
    X = as_operator(np.diag([6.0] + [0.1] * 9))
    problem = DCProblem(HalfSquare(Lp(2)), MinusSquare(Lp(2)), X)
    values = [problem.objective(W0 := problem.start(2, 0))]
    for _, iterate in zip(range(400), solver(problem, W0), strict=False):
        values.append(problem.objective(iterate.point.W))
    assert values[-1] <= 1e-6 * values[0]
    assert np.all(np.diff(values[1:]) <= 1e-12)


# Rayleigh-Ritz.


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_rayleigh_ritz_orders_and_signs(dtype):
    A = data(3).astype(dtype)
    X = as_operator(A)
    _, sigma, Vt = np.linalg.svd(A.astype(np.float64), full_matrices=False)
    mixed = Vt[:4].T @ np.random.default_rng(0).standard_normal((4, 4))
    ritz = rayleigh_ritz(X, mixed.astype(dtype))
    eps = np.finfo(dtype).eps
    assert ritz.V.dtype == dtype
    np.testing.assert_allclose(np.sqrt(ritz.theta), sigma[:4], rtol=100 * eps)
    assert ritz.residual < 100 * eps
    largest = np.argmax(np.abs(ritz.V), axis=0)
    assert np.all(ritz.V[largest, range(4)] > 0)
    flipped = rayleigh_ritz(X, -mixed.astype(dtype)[:, ::-1])
    np.testing.assert_allclose(flipped.V, ritz.V, atol=1e4 * eps)


# One code, several array libraries.

BACKENDS = ["numpy", "torch", "array_api_strict"]


def convert(name, A):
    if name == "numpy":
        return A
    module = pytest.importorskip(name)
    return module.asarray(A.copy())


@pytest.mark.slow
@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(
    ("solver", "letter"),
    [(a, b) for a, b in PAIRS if b in ("l", "n", "p", "k", "g", "o", "q")]
    + [(a, "robust") for a in (*SOLVER_NAMES[:3], "irls")],
)
def test_backends_agree(backend, dtype, solver, letter):
    A = data(4)
    eps = float(np.finfo(dtype).eps)
    X = as_operator(convert(backend, A.astype(dtype)))
    build = (lambda X: robust(X, epsilon=1.0)) if letter == "robust" else FORMULATIONS[letter]
    problem, reference = build(X), build(as_operator(A))
    W0 = reference.start(3, 0)
    tol = 1e-9 if dtype == "float64" else 1e-4
    start = convert(backend, np.asarray(W0, dtype=dtype))
    ours = solve(problem, solver, start, tol=tol, max_iter=20000)
    exact = solve(reference, solver, W0, tol=1e-10, max_iter=20000)
    assert type(ours.W) is type(X.data)
    assert str(ours.W.dtype).endswith(dtype)
    W = np.linalg.qr(np.asarray(ours.W, dtype=np.float64))[0]
    Q = np.linalg.qr(exact.W)[0]
    gap = 1e-7 if dtype == "float64" else 3e-3
    assert np.linalg.norm(W - Q @ (Q.T @ W), 2) <= gap
    assert ours.objective == pytest.approx(exact.objective, rel=max(1e-10, 200 * eps))


@pytest.mark.parametrize("backend", BACKENDS)
def test_backends_agree_on_kernels(backend):
    A = data(4, 30, 12)
    K = A @ A.T
    for letter in ("l", "n", "o", "g", "robust_dual"):
        problem = FORMULATIONS[letter](Kernel.from_matrix(convert(backend, K)))
        reference = FORMULATIONS[letter](Kernel.from_matrix(K))
        a = solve(problem, DCA(), s=2, tol=1e-5, random_state=0, max_iter=5000)
        b = solve(reference, DCA(), s=2, tol=1e-5, random_state=0, max_iter=5000)
        assert a.iterations == b.iterations
        assert a.objective == pytest.approx(b.objective, rel=1e-9)


# Data of any scale

EXTREMES = [
    (np.float32, 1e-12),
    (np.float32, 1e9),
    (np.float32, 1e15),
    (np.float64, 1e-80),
    (np.float64, 1e140),
]


@pytest.mark.parametrize("letter", [*PCA_LETTERS, "kT"])
def test_a_problem_of_scaled_data_has_the_objective_times_a_number(letter):
    problem = formulation(letter, data())
    scaled, t, k = problem.scaled(0.125)
    W = 0.5 * problem.start(3, random_state=1)
    assert problem.G(t * W) < np.inf
    assert problem.objective(t * W) == pytest.approx(k * scaled.objective(W), rel=1e-12)


@pytest.mark.parametrize(("real", "scale"), EXTREMES)
@pytest.mark.parametrize("solver", ["dca", "anderson"])
@pytest.mark.parametrize("letter", ["l", "n", "p", "k", "q", "holder_dual"])
def test_powers_of_the_data_outside_the_range_of_floats_change_nothing(letter, solver, real, scale):
    A = data(N=30, d=8)
    problem = formulation(letter, (A * scale).astype(real))
    result = solve(problem, solver, s=2, tol=1e-5, random_state=0)
    assert result.converged
    W = result.W
    V = np.linalg.svd(A.T if problem.is_dual else A)[2][:2].T
    Q = np.linalg.qr(W.astype(float) / np.abs(W).max())[0]
    assert np.linalg.norm(Q - V @ (V.T @ Q)) <= 1e-3
    if letter == "k":  # W = V Diag(sigma) up to a rotation
        sigma = np.linalg.svd(W.astype(float) / scale, compute_uv=False)
        assert sigma == pytest.approx(np.linalg.svd(A)[1][:2], rel=1e-4)


def test_the_trace_of_data_out_of_range_has_its_objective():
    A = data(N=30, d=8)
    problem = formulation("k", (A * 1e12).astype(np.float32))
    result = solve(problem, s=2, tol=1e-5, random_state=0, trace=True)
    best = -0.25 * (np.linalg.svd(A)[1][:2] ** 4).sum()
    assert result.trace[-1].objective / 1e48 == pytest.approx(best, rel=1e-4)


@pytest.mark.parametrize("solver", ["proximal_gradient", "zerofpr"])
@pytest.mark.parametrize("scale", [1e-25, 1e25])
def test_the_first_step_on_data_whose_squares_overflow_ends(solver, scale):
    A = data(N=30, d=8)
    result = solve(
        formulation("l", (A * scale).astype(np.float32)), solver, s=2, tol=1e-4, random_state=0
    )
    assert true_residual(A, result.W.astype(float)) <= 2e-4


@pytest.mark.parametrize(
    ("letter", "options"),
    [
        ("l", {"solver": ProximalGradient(gamma=1.0)}),
        ("l", {"solver": "zerofpr", "stop": "paper"}),
        ("robust", {"solver": "zerofpr"}),
    ],
)
def test_an_overflow_that_no_scaling_undoes_is_a_clear_error(letter, options):
    A = (data(N=30, d=8) * 1e30).astype(np.float32)
    with pytest.raises(ValueError, match="divide X by its largest magnitude"):
        solve(formulation(letter, A), s=2, random_state=0, **options)


@pytest.mark.parametrize("solver", ["dca", "anderson", ProximalGradient(gamma=1.0), "zerofpr"])
def test_data_that_is_zero_is_solved_by_anything(solver):
    result = solve(formulation("l", np.zeros((9, 4))), solver, s=2, random_state=0)
    assert result.converged
    assert result.residual == 0


@pytest.mark.parametrize("solver", ["proximal_gradient", "zerofpr"])
def test_a_start_outside_the_domain_of_a_row_function_ends(solver):
    X = as_operator(data())
    problem = robust(X, epsilon=1.0)
    W0 = 3 * np.eye(30)[:, :2]
    result = solve(problem, solver, W0, tol=1e-3, max_iter=3000)
    assert result.converged
    assert problem.G(result.W) == 0


def test_irls_on_wide_rows_is_that_on_their_gram_matrix():
    X = as_operator(data(N=12, d=40))
    problem = robust(X, epsilon=0.1)
    W0 = problem.start(3, random_state=0)
    W = next(IRLS()(problem, W0)).point.W
    weights = problem.F.weights(X @ W0)
    V = np.linalg.eigh(X.gram(weights))[1][:, :-4:-1]
    assert np.abs(W.T @ W - np.eye(3)).max() <= 1e-12
    assert np.linalg.norm(W - V @ (V.T @ W)) <= 1e-10


def test_a_sparse_start_on_empty_columns_is_left():
    X = np.zeros((3, 6))
    X[:, 1] = 1, -1, 2
    for seed in range(10):
        assert solve(sparse(X, 1), s=1, random_state=seed).objective == pytest.approx(-3)
    nothing = solve(sparse(np.zeros((3, 6)), 1), s=1, random_state=0)
    assert nothing.objective == 0
