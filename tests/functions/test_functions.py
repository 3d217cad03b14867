"""Laws of convex functions, over the list of all functions."""

import dataclasses
import math
from fractions import Fraction
from functools import partial

import function_laws as laws
import numpy as np
import pytest
import torch
from function_laws import COLUMN, GAMMAS, KINDS, SEEDS, SQUARE, TALL, WIDE, close, dot
from function_values import domain_points, into_domain, points, reference
from scipy.optimize import minimize_scalar
from tests.loops import over

from dualpca import as_operator
from dualpca.functions import (
    Ball,
    Function,
    HalfSquare,
    KyFan,
    KyFanDual,
    Lp,
    Norm,
    Power,
    RowLoss,
    RowLossConjugate,
    Spectral,
)
from dualpca.functions.rows import RowFunction
from dualpca.losses import L1, LOSSES, PowerLoss, as_loss
from dualpca.operators import Blocks, Centered, Kernel, Matrix, centered


@pytest.fixture(autouse=True, scope="module")
def one_thread():
    """Small arrays: torch's threads would only wait for each other."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


INF = math.inf
EXPONENTS = [1, "4/3", "3/2", 2, 3, 4, INF]
POWERS = ["4/3", "3/2", 2, 3, 4]
NORMS = [Lp(p) for p in EXPONENTS] + [K(k) for K in (KyFan, KyFanDual) for k in (1, 2, 3)]
ENTRYWISE = [
    *NORMS,
    *(Ball(norm) for norm in NORMS),
    *(HalfSquare(norm) for norm in NORMS),
    *(Power(p) for p in POWERS),
]
SUMS = [
    2.5 * Power(3),
    Power(4) + 0.7 * Power(2),
    3.0 * HalfSquare(Lp(2)) + Lp(1),
    Power("3/2") + Power(2),
]
ENTRYWISE += [g for f in SUMS for g in (f, f.conjugate)]
# Lewis' lemma needs no more of them: a norm without a kink and one with, balls, squares, sums.
SPECTRAL = [
    Spectral(g)
    for g in (
        Lp(1),
        Lp(3),
        KyFan(2),
        Ball(KyFanDual(2)),
        HalfSquare(Lp(INF)),
        Power(3),
        Power(4) + 0.7 * Power(2),
    )
]
ROWS = [
    partial(kind, loss=loss if loss.homogeneous else loss.at(1.3))
    for kind in (RowLoss, RowLossConjugate)
    for loss in LOSSES.values()
]

SHAPES = [TALL, WIDE, SQUARE, COLUMN]


def alphas(n):
    """Radii of the row functions: of different sizes."""
    return np.random.default_rng(n).uniform(0.5, 4.0, n)


def label(f):
    if isinstance(f, RowFunction):
        return f"{type(f).__name__}({type(f.loss).__name__})"
    for part in ("g", "f", "norm", "p", "k"):
        if hasattr(f, part):
            inner = getattr(f, part)
            return f"{type(f).__name__}({label(inner) if hasattr(inner, 'conjugate') else inner})"
    return repr(f)


# (function, shape): every function on every kind of matrix it can tell apart.
FUNCTIONS = (
    [(f, TALL) for f in ENTRYWISE]
    + [(f, shape) for f in SPECTRAL for shape in SHAPES]
    + [(row(alphas(shape[0])), shape) for row in ROWS for shape in (TALL, WIDE, COLUMN)]
)


def each_of(functions):
    """A law for each function on all of its shapes: one case for each function."""
    cases = {}
    for f, shape in functions:
        cases.setdefault(label(f), []).append((f, shape))

    def decorate(law):
        looped = over(("f", "shape"), cases, by="function")(law)
        return pytest.mark.parametrize("function", cases)(looped)

    return decorate


every_function = each_of(FUNCTIONS)
every_prox = each_of([(f, shape) for f, shape in FUNCTIONS if f.has_prox])
every_seed = over("seed", SEEDS)
every_gamma = over(("gamma", "seed"), GAMMAS)


# Values, subgradients, conjugates.


@every_function
@every_seed
def test_value_and_domain(f, shape, seed):
    laws.value_and_domain(f, shape, seed)


@every_function
@every_seed
def test_subgradient_inequality(f, shape, seed):
    laws.subgradient_inequality(f, shape, seed)


@every_function
@every_seed
def test_fenchel_young(f, shape, seed):
    laws.fenchel_young_inequality(f, shape, seed)
    laws.fenchel_young_equality(f, shape, seed)


@over(("f", "shape"), FUNCTIONS)
@every_seed
def test_biconjugate(f, shape, seed):
    laws.biconjugate(f, shape, seed)


@pytest.mark.slow
@pytest.mark.parametrize("f", ENTRYWISE, ids=label)
@every_seed
def test_conjugate_is_the_supremum(f, seed):
    """f*(h) = sup <w, h> - f(w), found without derivatives from the values of f."""
    h = np.random.default_rng(seed).standard_normal(3)
    if isinstance(f, (Ball, Norm)):
        gauge = f.norm if isinstance(f, Ball) else f
        support = laws.maximum(lambda w: w @ h / reference(gauge, w), seed)
        if isinstance(f, Ball):
            assert close(f.conjugate(h), support, 1e-5)
        else:
            assert f.conjugate(h / support * (1 - 1e-4)) == 0
            assert f.conjugate(h / support * (1 + 1e-4)) == INF
    else:
        assert close(f.conjugate(h), laws.maximum(lambda w: w @ h - reference(f, w), seed), 1e-5)


@over("row", ROWS)
@every_seed
def test_conjugate_of_rows_is_the_supremum(row, seed):
    """On one row of three entries, searched along rays: both functions are radial."""
    f = row(np.array([1.7]))
    h = np.random.default_rng(seed).standard_normal((1, 3))
    unit = h / np.linalg.norm(h)
    reach = 1.7 * (1 - 1e-12)
    if isinstance(f, RowLossConjugate):
        h, reach = 1.5 * unit, 1e3  # inside the domain of the conjugate, a ball of radius 1.7
    found = max(
        -minimize_scalar(
            lambda t: reference(f, t * unit) - t * dot(unit, h),
            bounds=bound,
            method="bounded",
            options={"xatol": 1e-12},
        ).fun
        for bound in [(0, reach), (0, reach / 100)]
    )
    assert close(f.conjugate(h), float(np.squeeze(found)), 1e-6)


# The paper's tables.

DUAL_NORMS = [
    (Lp(1), Lp(INF)),
    (Lp("4/3"), Lp(4)),
    (Lp("3/2"), Lp(3)),
    (Lp(2), Lp(2)),
    (KyFan(1), KyFanDual(1)),
    (KyFan(2), KyFanDual(2)),
    (KyFan(3), KyFanDual(3)),
]
TABLE_2 = [
    *((HalfSquare(norm), HalfSquare(dual)) for norm, dual in DUAL_NORMS),
    *((Ball(norm), dual) for norm, dual in DUAL_NORMS),
    *((Ball(dual), norm) for norm, dual in DUAL_NORMS),
    (Power("4/3"), Power(4)),
    (Power("3/2"), Power(3)),
    (Power(2), Power(2)),
]
TABLE_3 = [
    (Spectral(Ball(Lp(INF))), Spectral(Lp(1))),
    (Spectral(Lp("4/3")), Spectral(Ball(Lp(4)))),
    (Spectral(Lp("3/2")), Spectral(Ball(Lp(3)))),
    (Spectral(Lp(2)), Spectral(Ball(Lp(2)))),
    (Spectral(Lp(3)), Spectral(Ball(Lp("3/2")))),
    (Spectral(Lp(4)), Spectral(Ball(Lp("4/3")))),
    (Spectral(Lp(INF)), Spectral(Ball(Lp(1)))),
    (Spectral(HalfSquare(Lp(INF))), Spectral(HalfSquare(Lp(1)))),
    (Spectral(Power("4/3")), Spectral(Power(4))),
    (Spectral(Power("3/2")), Spectral(Power(3))),
    (Spectral(Power(2)), Spectral(Power(2))),
]


@over(("f", "conjugate"), TABLE_2 + TABLE_3)
def test_conjugate_pairs_of_the_tables(f, conjugate):
    assert f.conjugate == conjugate
    assert conjugate.conjugate == f


@every_seed
def test_ball_penalty_of_table_2(seed):
    """-sqrt(alpha^2 - ||x||^2) and alpha sqrt(||y||^2 + 1), row by row."""
    rng = np.random.default_rng(seed)
    alpha, unit = rng.uniform(0.5, 4.0, 7), rng.standard_normal(TALL)
    unit /= np.linalg.norm(unit, axis=1, keepdims=True)
    size, slope = rng.random(7) * alpha, rng.exponential(size=7)
    f = RowLoss(alpha)
    assert close(f(unit * size[:, None]), -np.sqrt(alpha**2 - size**2).sum())
    assert isinstance(f.conjugate, RowLossConjugate)
    assert close(f.conjugate(unit * slope[:, None]), (alpha * np.sqrt(slope**2 + 1)).sum())
    g = RowLossConjugate(alpha)
    assert isinstance(g.conjugate, RowLoss)
    assert close(g.conjugate(unit * size[:, None]), f(unit * size[:, None]), 1e-12)


@every_seed
@over(
    ("f", "schatten"),
    [
        (Spectral(Lp(1)), lambda W: np.linalg.norm(W, "nuc")),
        (Spectral(Lp(2)), lambda W: np.linalg.norm(W, "fro")),
        (Lp(2), lambda W: np.linalg.norm(W, "fro")),
        (Spectral(Lp(INF)), lambda W: np.linalg.norm(W, 2)),
        (Spectral(KyFan(1)), lambda W: np.linalg.norm(W, 2)),
        (Spectral(KyFan(9)), lambda W: np.linalg.norm(W, "nuc")),
        (Spectral(Power(4)), lambda W: np.linalg.norm(W.T @ W) ** 2 / 4),
    ],
)
def test_schatten_norms(f, schatten, seed):
    for shape in SHAPES:
        for W in points(shape, seed):
            assert close(f(W), schatten(W))


# Proximal maps.

NO_PROX_NORMS = {Lp("4/3"), Lp("3/2"), Lp(3), Lp(4), KyFanDual(1), KyFanDual(2), KyFanDual(3)}
NO_PROX_BALLS = {Lp("4/3"), Lp("3/2"), Lp(3), Lp(4), KyFan(1), KyFan(2), KyFan(3)}
NO_PROX = (
    NO_PROX_NORMS
    | {Ball(norm) for norm in NO_PROX_BALLS}
    | {HalfSquare(norm) for norm in NO_PROX_NORMS | NO_PROX_BALLS}
)


def test_functions_without_a_prox():
    functions = {f for f, _ in FUNCTIONS} | {Spectral(g) for g in ENTRYWISE}
    without = {f for f in functions if not f.has_prox}
    rows = {f for f in functions if isinstance(f, RowFunction)}
    assert without - rows == NO_PROX | {Spectral(g) for g in NO_PROX}
    assert without & rows == {f for f in rows if not isinstance(f.loss, L1)}


@over("f", [*NO_PROX, *map(Spectral, NO_PROX)])
def test_no_prox_raises(f):
    with pytest.raises(TypeError, match="here"):
        f.prox(np.ones(TALL), 1.0)


@every_prox
@every_gamma
def test_moreau(f, shape, gamma, seed):
    laws.moreau(f, shape, gamma, seed)


@every_prox
@every_gamma
def test_prox_optimality(f, shape, gamma, seed):
    laws.prox_optimality(f, shape, gamma, seed)


SMOOTH = [
    (f, shape)
    for f, shape in FUNCTIONS
    if isinstance(getattr(f, "g", f), (Power, RowFunction)) and f.has_prox
]


@over(("f", "shape"), SMOOTH)
@every_gamma
def test_prox_equation(f, shape, gamma, seed):
    """(W - P)/gamma is the gradient at P: to rounding, where objectives would show its square.

    Where the gradient is steep, by its inverse, the gradient of the conjugate.
    """
    g = getattr(f, "g", f)
    steep = isinstance(g, RowLoss) or (isinstance(g, Power) and g.p < 2)
    for W in points(shape, seed):
        P = f.prox(W, gamma)
        G = (W - P) / gamma
        left, right = (P, f.conjugate.subgradient(G)) if steep else (G, f.subgradient(P))
        size = (1 + abs(W).max()) * max(1, 1 / gamma)
        np.testing.assert_allclose(left, right, rtol=0, atol=1e-13 * size)


@over("gamma", [1e-8, 1e-3, 1.0, 1e3, 1e8])
@over("p", ["5/2", 3, 4, 7, 20])
def test_power_prox_is_the_root_at_every_scale(p, gamma):
    """``t + gamma t^(p-1) = v`` to rounding, wherever the root lies between 0 and v."""
    q = float(Fraction(p) - 1)
    for scale in (1e-30, 1e-8, 1.0, 1e8, 1e30):
        v = scale * np.array([[1.0, 2.0, 0.0, 1e-3, 3.0]])
        t = Power(p).prox(-v, gamma)
        assert (t <= 0).all()
        t = np.abs(t)
        np.testing.assert_allclose(t + gamma * t**q, v, rtol=1e-13)


def test_power_prox_of_a_vanishing_step_is_the_identity():
    W = np.array([[1e10, -2e10, 0.0]])
    with np.errstate(over="ignore"):  # of W / gamma
        np.testing.assert_allclose(Power(4).prox(W, 1e-300), W, rtol=1e-15)


@over(("f", "shape"), FUNCTIONS)
def test_indicators_are_zero_wherever_they_are_finite(f, shape):
    assert f.indicator is isinstance(getattr(f, "g", f), Ball)
    inside = [f(W) for W in domain_points(f, shape, 0)]
    assert f.indicator is (set(inside) == {0.0})


@over(
    ("dtype", "beyond", "feasible"),
    [
        ("float64", 1e-10, True),
        ("float64", 1e-8, False),
        ("float32", 2e-5, True),
        ("float32", 1e-3, False),
    ],
)
@over("kind", ["numpy", "torch", "strict"])
@over("norm", [Lp(1), Lp(2), Lp(INF)])
def test_balls_forgive_the_rounding_of_their_dtype(norm, kind, dtype, beyond, feasible):
    W = np.random.default_rng(0).standard_normal(TALL)
    W *= (1 + beyond) / reference(norm, W)
    assert Ball(norm)(KINDS[kind](W, dtype)) == (0.0 if feasible else INF)


@over("f", [f for f in ENTRYWISE if isinstance(f, Ball) and f.has_prox])
@every_seed
def test_projection_is_idempotent_and_leaves_the_ball_alone(f, seed):
    laws.projection_is_idempotent_and_leaves_the_ball_alone(f, seed)


# Invariance.


def orthogonal(rng, n):
    return np.linalg.qr(rng.standard_normal((n, n)))[0]


@every_function
@every_seed
def test_unitary_invariance(f, shape, seed):
    """Where claimed, f(UWV) = f(W) and the subgradient turns along; elsewhere a counterexample."""
    rng = np.random.default_rng(seed)
    rotations = [(orthogonal(rng, shape[0]), orthogonal(rng, shape[1])) for _ in range(20)]
    W = into_domain(f, rng.standard_normal(shape), 1 - 1e-6)
    assert f.unitarily_invariant is (isinstance(f, Spectral) or f in INVARIANT)
    if f.unitarily_invariant:
        G = f.subgradient(W)
        for U, V in rotations[:3]:
            assert close(f(U @ W @ V), f(W))
            np.testing.assert_allclose(f.subgradient(U @ W @ V), U @ G @ V, rtol=0, atol=1e-9)
    else:
        # On the edge of a ball, which rotations leave from a flat W or from a sparse one.
        far = 1e3 if f.indicator else 1.0
        edge = [into_domain(f, far * A, 1 - 1e-6) for A in (W, np.eye(*shape))]
        assert any(not close(f(U @ A @ V), f(A), 1e-3) for A in edge for U, V in rotations)


INVARIANT = {Lp(2), Ball(Lp(2)), HalfSquare(Lp(2)), Power(2)}


@over(("f", "shape"), FUNCTIONS)
def test_degree_of_homogeneity(f, shape):
    """``f(t W) = t^degree f(W)`` where f claims it; balls are 0 inside, at any factor below 1."""
    W = into_domain(f, np.random.default_rng(0).standard_normal(shape))
    kind = getattr(f, "g", f)
    assert (f.degree is None) is not isinstance(kind, (Norm, Ball, HalfSquare, Power))
    assert (f.degree == INF) is f.indicator
    assert not f.known_by_span
    if f.degree is not None:
        assert isinstance(f.degree, float)
        for t in (0.3, 0.9):
            assert close(f(t * W), t**f.degree * f(W))


@over(("f", "shape"), FUNCTIONS)
def test_rotation_invariance(f, shape):
    """Of f(WV) = f(W), where f claims it."""
    rng = np.random.default_rng(0)
    W, V = into_domain(f, rng.standard_normal(shape)), orthogonal(rng, shape[1])
    claimed = f.unitarily_invariant or isinstance(f, RowFunction)
    assert f.rotation_invariant is claimed
    if claimed:
        assert close(f(W @ V), f(W))


@over("row", ROWS)
@every_seed
def test_row_functions_are_invariant_from_the_right(row, seed):
    rng = np.random.default_rng(seed)
    f = row(alphas(7))
    W, V = into_domain(f, rng.standard_normal(TALL)), orthogonal(rng, 3)
    assert close(f(W @ V), f(W))
    np.testing.assert_allclose(f.subgradient(W @ V), f.subgradient(W) @ V, rtol=0, atol=1e-9)


# Exponents and arguments.


@over("make", [Lp, Power])
@over(
    ("p", "q"),
    [(4, Fraction(4, 3)), ("4/3", 4), (3, Fraction(3, 2)), (1.5, 3), (2, 2), (7, Fraction(7, 6))],
)
def test_exponents_are_exact(make, p, q):
    f = make(p)
    dual = f.dual if make is Lp else f.conjugate
    assert isinstance(f.p, Fraction)
    assert dual.p == q
    assert isinstance(dual.p, Fraction)
    again = dual.dual if make is Lp else dual.conjugate
    assert again == f
    assert again.p == Fraction(p)
    assert hash(again) == hash(f)


@over("f", [*ENTRYWISE[::4], SPECTRAL[0]])
def test_functions_cannot_be_changed(f):
    for field in dataclasses.fields(f):
        with pytest.raises(dataclasses.FrozenInstanceError):
            setattr(f, field.name, None)


METHODS = {
    Function: ["__call__", "subgradient", "conjugate"],
    Norm: ["__call__", "subgradient", "dual"],
}


@pytest.mark.parametrize(
    ("base", "missing"), [(base, name) for base, names in METHODS.items() for name in names]
)
def test_functions_without_a_part_are_refused(base, missing):
    """Complete it can be made; without one of its parts it is refused by the name of that part."""
    parts = dict.fromkeys(METHODS[base])
    complete = type("Complete", (base,), parts)()
    assert isinstance(complete, Function)
    claims = ("unitarily_invariant", "rotation_invariant", "one_pass", "indicator", "known_by_span")
    assert [getattr(complete, claim) for claim in claims] == [False] * 5  # unless it says so
    assert base is Norm or complete.has_prox is True  # by Moreau's identity
    del parts[missing]
    with pytest.raises(TypeError, match=missing):
        type("Partial", (base,), parts)()


def test_orthonormal_factors_are_known_by_their_span():
    assert Spectral(Ball(Lp(INF))).known_by_span
    assert not Spectral(Ball(Lp(2))).known_by_span
    assert not Ball(Lp(INF)).known_by_span


def test_end_points_of_the_exponents():
    assert Lp(1).dual.p == INF
    assert Lp(INF).dual.p == 1
    assert Lp(INF).dual == Lp(1)
    assert Lp("1").conjugate == Ball(Lp(np.inf))
    assert Lp() == Lp(2)
    assert Power() == Power(2)


@pytest.mark.parametrize(
    ("make", "argument", "error", "words"),
    [
        (Lp, 0.5, ValueError, r"p=1/2"),
        (Lp, 0, ValueError, r"p=0"),
        (Lp, -3, ValueError, r"p=-3"),
        (Lp, "1/2", ValueError, r"p=1/2"),
        (Lp, -INF, ValueError, r"p=-inf"),
        (Lp, "1/0", TypeError, r"p='1/0'"),
        (Lp, "two", TypeError, r"p='two'"),
        (Lp, None, TypeError, r"p=None"),
        (Lp, math.nan, TypeError, r"p=nan"),
        (Lp, [2], TypeError, r"p=\[2\]"),
        (Power, 1, ValueError, r"p=1 "),
        (Power, INF, ValueError, r"p=inf"),
        (Power, -INF, ValueError, r"p=-inf"),
        (Power, 0.5, ValueError, r"p=1/2"),
        (Power, "two", TypeError, r"p='two'"),
        (KyFan, 0, ValueError, r"k=0"),
        (KyFan, -1, ValueError, r"k=-1"),
        (KyFan, 1.5, TypeError, r"k=1.5"),
        (KyFan, "two", TypeError, r"k='two'"),
        (KyFanDual, 0, ValueError, r"k=0"),
        (KyFanDual, -1, ValueError, r"k=-1"),
        (KyFanDual, 1.5, TypeError, r"k=1.5"),
        (KyFanDual, "two", TypeError, r"k='two'"),
    ],
)
def test_bad_arguments(make, argument, error, words):
    with pytest.raises(error, match=words):
        make(argument)


# Pulled back through the data.

N, D, S = 150, 6, 3


def pullback_operators():
    """(name, operator factory, dense matrix): rows in one block and in several."""
    rng = np.random.default_rng(7)
    X = rng.standard_normal((N, D))
    centre = rng.standard_normal((D, 1))
    return {
        "matrix": (lambda: Matrix(X), X),
        "centered": (lambda: Centered(as_operator(X), centre), X - centre.T),
        "mean": (lambda: centered(as_operator(X)), X - X.mean(axis=0)),
        "blocks": (lambda: Blocks([X[:20], X[20:21], X[21:]]), X),
        "shifted": (lambda: centered(as_operator(X + 1e3)), X - X.mean(axis=0)),
    }


@pytest.fixture
def many_blocks(monkeypatch):
    """Blocks of 64 rows, the least there are."""
    monkeypatch.setattr("dualpca.operators.block_ops.BLOCK_BYTES", 1)


PULLED = ENTRYWISE + SPECTRAL + [row(alphas(N)) for row in ROWS]
PULLBACK = pullback_operators()
ONE_PASS = {Lp(2), HalfSquare(Lp(2))}


@pytest.mark.usefixtures("many_blocks")
@pytest.mark.parametrize("f", PULLED, ids=label)
@over(("operator", "seed"), [(name, i) for i, name in enumerate(PULLBACK)])
def test_pullback(f, operator, seed):
    factory, dense = PULLBACK[operator]
    W = 0.05 * np.random.default_rng(seed).standard_normal((D, S))
    W = W * min(1.0, _scale_into(f, dense @ W))
    X = factory()
    before = X.passes
    value, Z = f.pullback(X, W)
    assert f.one_pass is (f in ONE_PASS or isinstance(f, RowFunction))
    assert X.passes - before == (1 if f.one_pass else 2)
    assert isinstance(value, float)
    assert close(value, f(dense @ W), 1e-9)
    Z_dense = dense.T @ f.subgradient(dense @ W)
    np.testing.assert_allclose(Z, Z_dense, rtol=0, atol=1e-8 * (1 + abs(Z_dense).max()))


def _scale_into(f, Y):
    """The factor that takes Y into the domain of f."""
    inside = into_domain(f, Y)
    factor = np.linalg.norm(inside, axis=1) / np.linalg.norm(Y, axis=1)
    return float(factor.min())


@over("f", PULLED)
@every_seed
def test_pullback_through_a_kernel(f, seed):
    """W = Phi^T A: the same value and Phi^T df, at one product with K for every function."""
    rng = np.random.default_rng(seed)
    Phi, A = rng.standard_normal((N, 8)), 1e-4 * rng.standard_normal((N, S))
    A = A * min(1.0, _scale_into(f, Phi @ (Phi.T @ A)))
    X = Kernel.from_matrix(Phi @ Phi.T)
    value, Z = f.pullback(X, X.T @ A)
    assert X.passes == 1
    Y = Phi @ (Phi.T @ A)
    assert close(value, f(Y))
    Z_dense = Phi.T @ f.subgradient(Y)
    np.testing.assert_allclose(
        Phi.T @ Z.coefficients, Z_dense, rtol=0, atol=1e-7 * (1 + abs(Z_dense).max())
    )


@every_seed
def test_power_2_needs_inner_products_only(seed):
    """It is unitarily invariant, so that it is defined where the entries of W are not known."""
    rng = np.random.default_rng(seed)
    Phi, A = rng.standard_normal((N, 8)), rng.standard_normal((N, S))
    W, dense = Kernel.from_matrix(Phi @ Phi.T).T @ A, Phi.T @ A
    f = Power(2)
    assert close(f(W), f(dense), 1e-12)
    np.testing.assert_array_equal(f.subgradient(W).coefficients, A)
    np.testing.assert_allclose(Phi.T @ f.prox(W, 0.3).coefficients, f.prox(dense, 0.3), rtol=1e-12)


@every_seed
def test_pullback_at_zero(seed):
    X = as_operator(np.random.default_rng(seed).standard_normal((N, D)))
    for f in (Lp(2), HalfSquare(Lp(2))):
        value, Z = f.pullback(X, np.zeros((D, S)))
        assert value == 0
        np.testing.assert_array_equal(Z, 0)


@over("error", [0.0, -1e-20, 1e-20])
def test_pullback_is_not_negative_where_the_data_are_nothing_but_rounding(error):
    class Rounding:
        def sweep(self, W):
            return error * W

    value, Z = HalfSquare(Lp(2)).pullback(Rounding(), np.ones((D, S)))
    assert value == pytest.approx(max(error, 0) * D * S / 2, rel=1e-12, abs=0)
    np.testing.assert_array_equal(Z, error * np.ones((D, S)))


# Other arrays.


@every_function
@over(
    ("kind", "dtype", "seed"),
    [
        ("numpy", "float32", 0),
        ("torch", "float64", 1),
        ("torch", "float32", 2),
        ("strict", "float64", 3),
    ],
)
def test_other_arrays(f, shape, kind, dtype, seed):
    laws.same_on_other_arrays(f, shape, kind, dtype, seed)


@pytest.mark.parametrize(("kind", "dtype"), [("strict", "float32"), ("device", "float64")])
@over("f", ENTRYWISE + SPECTRAL + [row(alphas(7)) for row in ROWS])
def test_other_devices(f, kind, dtype):
    laws.same_on_other_arrays(f, TALL, kind, dtype, 3)


@over("dtype", ["float64", "float32"])
@over("f", [Lp(2), Lp(3), Lp(INF), KyFan(2)])
def test_norms_at_extreme_scales(f, dtype):
    laws.homogeneity_at_extreme_scales(f, dtype)


@over("row", ROWS)
def test_mass_counts_rows(row):
    """A mass of 3 is the row three times; of the conjugate, with a third of H each."""
    rng = np.random.default_rng(0)
    alpha, mass = alphas(4), np.array([1, 3, 2, 1])
    once, repeated = row(alpha, mass=mass.astype(float)), row(np.repeat(alpha, mass))
    Y = into_domain(row(alpha), rng.standard_normal((4, 2)))
    share = mass[:, None] if isinstance(once, RowLossConjugate) else 1
    copies = np.repeat(Y / share, mass, axis=0)
    assert close(once(Y), repeated(copies))
    total = np.add.reduceat(repeated.subgradient(copies), np.cumsum(mass) - mass, axis=0)
    np.testing.assert_allclose(once.subgradient(Y), total / share, rtol=1e-9, atol=1e-9)


def test_losses_refuse_bad_parameters():
    with pytest.raises(ValueError, match=r"scale=-1.* positive"):
        LOSSES["huber"].at(-1)
    with pytest.raises(ValueError, match=r"p=2.* \(0, 2\)"):
        PowerLoss(p=2)
    with pytest.raises(ValueError, match=r"loss='l3' is unknown; choose one of l1, lp"):
        as_loss("l3")


@pytest.mark.parametrize("loss", LOSSES.values(), ids=lambda loss: type(loss).__name__)
def test_psi_is_concave_and_nondecreasing(loss):
    v = np.logspace(-6, 6, 400)
    slope = loss.slope(v)
    assert (slope >= 0).all()
    assert (np.diff(slope) <= 0).all()
    rise, slack = np.diff(loss.psi(v)) / np.diff(v), 1e-9
    assert (rise <= slope[:-1] * (1 + slack) + 1e-12).all()
    assert (rise >= slope[1:] * (1 - slack) - 1e-12).all()


def test_alpha_zero_and_rounding_beyond_the_domain():
    """A row of norm 0 keeps a finite weight; a row beyond alpha by rounding keeps a finite value."""
    f = RowLoss(np.array([0.0, 1.0, 2.0]))
    Y = np.array([[0.0, 0.0], [0.6, 0.8 * (1 + 1e-15)], [1.0, 0.0]])
    assert np.isfinite(f(Y))
    assert f(Y) == pytest.approx(-math.sqrt(3), abs=1e-7)
    assert np.isfinite(f.subgradient(Y)).all()
    np.testing.assert_array_equal(f.subgradient(Y)[0], 0)


def test_a_proximal_map_without_a_formula_is_refused():
    with pytest.raises(TypeError, match="prox"):
        Lp(3).half_square_prox(np.ones((2, 1)), 1.0)
