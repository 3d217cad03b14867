"""Who is in the tables: one line a method, at the end of this file.

A method is a stream of steps, each with an iterate and the quantity that its own stopping test compares
with the tolerance. The paper's protocol ends at the first step that passes; equal accuracy is read from
the steps behind it. A method without iterates to look at (ARPACK, ours) is a stream of one step that
has passed, and turns its tolerance instead, from loose to tight.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from benchmarks.methods import OUR_TOLERANCES
from benchmarks.work import CountedMatrix, CountedOperator, Work
from scipy.sparse.linalg import svds

import dualpca
from dualpca import DCProblem
from dualpca.formulations import formulation, optimal_value
from dualpca.solvers import DCA, ProximalGradient, Solver, ZeroFPR

from .engine import STARTS
from .gkl import KRYLOV_DIMENSION, MAX_RESTARTS, golub_kahan
from .iterations import ITERATIONS

#: ARPACK's tolerances, relative to the eigenvalues of X^T X, from loose to tight; 0 is rounding.
ARPACK_TOLERANCES = (1e-1, 1e-2, 1e-4, 1e-8, 0.0)


@dataclass
class Task:
    """A matrix, the number of components, a seed, the singular values, a start, and the work so far."""

    A: np.ndarray
    s: int
    seed: int
    sigma: np.ndarray
    start: str = STARTS[0]
    work: Work = field(default_factory=Work)

    @property
    def rng(self) -> np.random.Generator:
        return np.random.default_rng(self.seed)


class Step(NamedTuple):
    """An iterate, W or H as the method has it, and what its stopping test compares with ``tol``."""

    variable: np.ndarray
    quantity: float


Steps = Callable[[Task, float], Iterator[Step]]


@dataclass(frozen=True)
class Method:
    """A stream of steps.

    Parameters
    ----------
    name : str
        As in the published tables.
    steps : callable
        ``steps(task, tol)``.
    left : bool
        Whether its variable is H, a basis of left singular vectors.
    max_iter : int
        The limit that the reference implementation has by default.
    knobs : sequence of float
        Tolerances from loose to tight, of a method without iterates.
    scaled : bool
        Whether its first step depends on the size of its start.
    """

    name: str
    steps: Steps
    left: bool = False
    max_iter: int = 10**6
    knobs: tuple[float, ...] = ()
    scaled: bool = False


def begin(problem: DCProblem, s: int, seed: int, start: str) -> np.ndarray:
    """W as a run begins: orthonormal, or independent N(0, 1) or uniform entries as they come."""
    if start == STARTS[0]:
        return problem.start(s, seed)
    rng, shape = np.random.default_rng(seed), (problem.X.shape[1], s)
    return rng.standard_normal(shape) if start == "randn" else rng.random(shape)


def _first_order(name: str, solver: Solver, letter: str, max_iter: int) -> Method:
    """PG or ZeroFPR, tested as the paper's experiments are: ``max|W - prox|/gamma``.

    The first step is 1/L0, ``L0 = ||grad f(W + 1) - grad f(W)|| / ||1||``. On (l) and (q) the gradient
    grows as W does, so that L0 does not; on (n) and (o) it has the same size everywhere, so that a
    larger W has a smaller L0, a longer step and a test that is passed earlier.
    """

    def steps(task: Task, tol: float) -> Iterator[Step]:
        problem = formulation(letter, CountedMatrix(task.A, task.work))
        for iterate in solver(problem, begin(problem, task.s, task.seed, task.start)):
            assert iterate.fixed_point is not None
            yield Step(iterate.point.W, iterate.fixed_point)

    return Method(name, steps, letter in "moq", max_iter, scaled=letter in "no")


def _pg(letter: str) -> Method:
    return _first_order(f"PG ({letter})", ProximalGradient(), letter, 10_000)


def _zerofpr(letter: str) -> Method:
    return _first_order(f"ZeroFPR ({letter})", ZeroFPR(), letter, 1000)


def _dca(letter: str) -> Method:
    """The library's DCA on X itself, tested by the relative residual of X^T X."""

    def steps(task: Task, tol: float) -> Iterator[Step]:
        problem = formulation(letter, CountedMatrix(task.A, task.work))
        for iterate in DCA()(problem, problem.start(task.s, task.seed)):
            yield Step(iterate.point.W, iterate.point.residual)

    return Method(f"DCA ({letter}), ours", steps)


def _gram(task: Task, left: bool) -> tuple[Any, np.ndarray]:
    """``K = X X^T``, or ``X^T X``, its products counted, and a random orthonormal start."""
    A = task.A
    K = A @ A.T if left else A.T @ A
    task.work.add(K.shape[0])
    return CountedMatrix(K, task.work), np.linalg.qr(task.rng.standard_normal((len(K), task.s)))[0]


def _algorithm(name: str, left: bool) -> Method:
    """Algorithms 1 to 4 given X^T X or K, tested as the iterations of Table 4 are.

    The paper names no test for them; this is the only one it gives for DCA.
    """
    return Method(name, _to_the_optimum(name, left), left=left)


def _iteration(letter: str, left: bool = True) -> Method:
    """A row of Table 4, tested by the relative error of its objective, whose optimum is known."""
    name = f"Iteration ({letter})"
    steps = _to_the_optimum(name, left)
    return Method(name if left else f"{name} on X^T X", steps, left=left)


def _to_the_optimum(name: str, left: bool) -> Steps:
    def steps(task: Task, tol: float) -> Iterator[Step]:
        best = optimal_value(ITERATIONS[name].letter, task.sigma, task.s)
        for H, _, value in ITERATIONS[name](*_gram(task, left)):
            yield Step(H, abs(value - best) / abs(best))

    return steps


def _svds(task: Task, tol: float) -> Iterator[Step]:
    """ARPACK by SciPy, which squares its tolerance where Arpack.jl passes it on."""
    A = CountedOperator(task.A, task.work)
    yield Step(svds(A, k=task.s, tol=math.sqrt(tol), maxiter=1000, rng=task.rng)[2].T, 0.0)


def _krylovkit(task: Task, tol: float) -> Iterator[Step]:
    """KrylovKit's test: the absolute residual of every triplet, when the basis is full."""
    A = CountedOperator(task.A, task.work)
    dimension = KRYLOV_DIMENSION if task.s <= KRYLOV_DIMENSION else 2 * task.s
    for found in golub_kahan(A, task.s, tol, task.rng, dimension):
        yield Step(found.V, float(found.residuals.max()))


def _ours(name: str) -> Method:
    """``PCA(solver=name)``, whose ``tol`` is the relative residual."""

    def steps(task: Task, tol: float) -> Iterator[Step]:
        model = dualpca.PCA(task.s, solver=name, tol=tol, center=False, random_state=task.seed)
        model.fit(task.A)
        task.work.readings += model.n_passes_
        yield Step(model.components_.T, 0.0)

    return Method(name, steps, knobs=OUR_TOLERANCES)


METHODS = {
    method.name: method
    for method in (
        _zerofpr("l"),
        _zerofpr("n"),
        _zerofpr("o"),
        _zerofpr("q"),
        _pg("l"),
        _pg("n"),
        _pg("o"),
        _pg("q"),
        _algorithm("Algorithm 1", left=False),
        _algorithm("Algorithm 2", left=True),
        _algorithm("Algorithm 3", left=False),
        _algorithm("Algorithm 4", left=True),
        _iteration("l"),
        _iteration("m"),
        _iteration("n"),
        _iteration("o"),
        _iteration("p"),
        _iteration("q"),
        _iteration("n", left=False),
        _iteration("o", left=False),
        Method("svds", _svds, knobs=ARPACK_TOLERANCES),
        Method("KrylovKit", _krylovkit, max_iter=MAX_RESTARTS),
        _dca("l"),
        _ours("krylov"),
        _ours("auto"),
    )
}
