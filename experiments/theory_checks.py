"""The theorems as computations on random problems: the error that each leaves, rounding where it holds.

The formulas are those of the paper, written out with NumPy and held against the library's functions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import islice
from typing import Any

import numpy as np

from dualpca import DCProblem
from dualpca.formulations import formulation, optimal_value
from dualpca.solvers import DCA, ProximalGradient

from .claims import Check, verdict
from .engine import Cell, Context, Results, Table
from .iterations import ITERATIONS

#: Primals and duals of Theorem 3.1 and Proposition 3.3.
PAIRS = {"l": "m", "n": "o", "p": "q", "k": "holder_dual"}

#: Steps that bring DCA to rounding: the subspace gains a factor of (4/5)^2 in each.
STEPS = 150

#: Fixed steps of PG, in units of the first step of the reference implementation.
MULTIPLES = (1.0, 1e3, 1e6)

#: Errors up to this are rounding.
ROUNDING = 1e-8


def problem(cell: Cell, context: Context) -> tuple[np.ndarray, int, int]:
    """A matrix with singular values 10, 8, 6.4, ..., the number of components, a seed."""
    rng, N, d = np.random.default_rng(cell["problem"]), cell["N"], cell["d"]
    U, V = (np.linalg.qr(rng.standard_normal((n, min(N, d))))[0] for n in (N, d))
    return (U * 10 * 0.8 ** np.arange(min(N, d))) @ V.T, cell["s"], cell["problem"]


def limit(problem: DCProblem, s: int, seed: int) -> np.ndarray:
    """Where DCA arrives from a random start."""
    *_, last = islice(DCA()(problem, problem.start(s, seed)), STEPS)
    return last.point.W


def best(letter: str, X: np.ndarray, s: int) -> float:
    """The optimum of a pair, from the singular values."""
    return optimal_value(letter, np.linalg.svd(X, compute_uv=False), s)


def sine(A: np.ndarray, B: np.ndarray) -> float:
    """Of the largest angle between the column spaces."""
    Q, R = np.linalg.qr(A)[0], np.linalg.qr(B)[0]
    return float(np.linalg.norm(R - Q @ (Q.T @ R), 2))


def duality(X: np.ndarray, s: int, seed: int) -> float:
    """Primal and dual, each solved from a start of its own, and the image of one in the other."""
    worst = 0.0
    for letter, dual in PAIRS.items():
        primal, other, optimum = formulation(letter, X), formulation(dual, X), best(letter, X, s)
        W, H = limit(primal, s, seed), limit(other, s, seed + 1)
        values = [primal.objective(_inside(primal, W)), other.objective(_inside(other, H))]
        values.append(other.objective(_inside(other, primal.to_dual(W))))
        values.append(primal.objective(_inside(primal, primal.to_primal(H))))
        worst = max(worst, *(abs(value / optimum - 1) for value in values))
    return worst


def _inside(problem: DCProblem, W: np.ndarray) -> np.ndarray:
    """W but for rounding that puts it outside of the unit ball."""
    return W if np.isfinite(problem.G(W)) else W * (1 - 1e-12)


def shared(X: np.ndarray, s: int, seed: int) -> float:
    """The spaces that (l) and (n), and (o) and (q), arrive at from different starts."""
    found = [limit(formulation(letter, X), s, seed + i) for i, letter in enumerate("lnoq")]
    return max(sine(found[0], found[1]), sine(found[2], found[3]))


def _dual_from_kernel(letter: str, K: np.ndarray, H: np.ndarray) -> float:
    """``F*(H) - g*(sqrt(lambda(H^T K H)))``, nothing but K and H in it."""
    root = np.sqrt(np.maximum(np.linalg.eigvalsh(H.T @ K @ H), 0))
    half = 0.5 * float(np.sum(H**2))
    return {
        "l": half - float(np.sum(root)),
        "n": -float(np.sum(root)),
        "p": -0.5 * float(np.sum(root)) ** 2,
        "k": half - 0.75 * float(np.sum(root ** (4 / 3))),
    }[letter]


def kernelised(X: np.ndarray, s: int, seed: int) -> float:
    """The duals at random H, from the kernel matrix and from X."""
    rng, worst = np.random.default_rng(seed), 0.0
    for letter, dual in PAIRS.items():
        H = rng.standard_normal((len(X), s))
        H = 0.9 * H / np.linalg.norm(H)  # in the unit ball, which is the domain of (o) and (q)
        explicit = formulation(dual, X).objective(H)
        worst = max(worst, abs(_dual_from_kernel(letter, X @ X.T, H) / explicit - 1))
    return worst


def out_of_sample(X: np.ndarray, s: int, seed: int) -> float:
    """Theorem 3.8: new rows from K and X x alone, for a W that attains the optimum of the primal."""
    K, new = X @ X.T, np.random.default_rng(seed).standard_normal((X.shape[1], 7))
    worst = 0.0
    for letter, dual in PAIRS.items():
        primal = formulation(letter, X)
        H = limit(formulation(dual, X), s, seed)
        lam, V = np.linalg.eigh(H.T @ K @ H)
        root = np.sqrt(lam)
        mu = {"l": np.ones(s), "n": np.ones(s), "p": np.full(s, np.sum(root)), "k": np.cbrt(root)}
        A = (V * (mu[letter] / root)) @ V.T @ H.T
        scores, W = A @ (X @ new), X.T @ A.T
        attained = abs(primal.objective(_inside(primal, W)) / best(letter, X, s) - 1)
        wanted = primal.to_primal(H).T @ new
        apart = float(np.linalg.norm(scores - wanted) / np.linalg.norm(wanted))
        worst = max(worst, attained, apart)
    return worst


def _simultaneous(K: np.ndarray, Q: np.ndarray) -> Iterator[np.ndarray]:
    """Simultaneous iteration: a product and a QR decomposition."""
    while True:
        yield Q
        Q = np.linalg.qr(K @ Q)[0]


def same_as_simultaneous(X: np.ndarray, s: int, seed: int) -> float:
    """Theorem 3.11: the spaces of Algorithms 1 and 2, step by step, and those of the iteration."""
    worst = 0.0
    for name, K in (("Algorithm 1", X.T @ X), ("Algorithm 2", X @ X.T)):
        Q = np.linalg.qr(np.random.default_rng(seed).standard_normal((len(K), s)))[0]
        pairs = zip(ITERATIONS[name](K, Q), _simultaneous(K, Q), strict=False)
        worst = max(worst, *(sine(step[0], basis) for step, basis in islice(pairs, 30)))
    return worst


def shifted(X: np.ndarray, s: int, seed: int) -> float:
    """PG on (l) with a fixed step gamma, and simultaneous iteration on ``I + gamma X^T X``."""
    found = formulation("l", X)
    W, gamma = found.start(s, seed), 0.1
    bases = islice(_simultaneous(np.eye(len(W)) + gamma * X.T @ X, W), 1, 31)
    steps = ProximalGradient(gamma)(found, W)
    return max(sine(step.point.W, Q) for step, Q in zip(steps, bases, strict=False))


def large_steps(X: np.ndarray, s: int, seed: int) -> float:
    """PG with steps up to 10^6 times the usual: the largest rise of the objective, and what is missing.

    On (n) and (o), whose smooth parts are concave and not smooth, so that no step is too large.
    """
    worst = 0.0
    for letter in "no":
        found, optimum = formulation(letter, X), best("n", X, s)
        W = found.start(s, seed)
        F, Z = found.pullback(W)
        ones = np.ones_like(W)
        first = np.linalg.norm(ones) / np.linalg.norm(found.pullback(W + ones)[1] - Z)
        for multiple in MULTIPLES:
            steps = islice(ProximalGradient(multiple * first)(found, W), STEPS)
            values = np.array([-F, *(-step.point.F for step in steps)])
            rises = float(np.max(np.diff(values))) / abs(optimum)
            worst = max(worst, rises, abs(values[-1] / optimum - 1))
    return worst


CHECKS: dict[str, Callable[[np.ndarray, int, int], float]] = {
    "duality": duality,
    "shared minimisers": shared,
    "kernelisation": kernelised,
    "out of sample": out_of_sample,
    "simultaneous iteration": same_as_simultaneous,
    "shifted matrix": shifted,
    "large steps": large_steps,
}


def measure(
    prepared: tuple[np.ndarray, int, int], cell: Cell, method: str, context: Context
) -> dict[str, Any]:
    """The error of one theorem on one problem."""
    return {"error": CHECKS[method](*prepared)}


def worst(results: Results, method: str) -> float:
    """Over the problems."""
    return max(results(method, cell)["error"] for cell in results.cells)


def to_rounding(method: str) -> Check:
    """Whether a theorem holds to rounding on every problem."""

    def run(results: Results) -> tuple[str, str]:
        error = worst(results, method)
        return verdict(
            error < ROUNDING
        ), f"largest error {error:.0e} of {len(results.cells)} problems"

    return run


def tables(results: Results) -> list[Table]:
    """The largest error of each theorem."""
    rows = [[method, f"{worst(results, method):.0e}"] for method in CHECKS]
    return [Table("Largest error over the problems", ["theorem", "error"], rows)]


def summary(results: Results) -> tuple[str, str, str]:
    """The largest error of all."""
    largest = max(worst(results, method) for method in CHECKS)
    return "proofs", f"computations, to {largest:.0e}", "rounding"
