"""Laws tried by hypothesis: data of many kinds, the decorator that counts, and what "the same" means."""

from __future__ import annotations

import inspect
import warnings
import zlib
from collections.abc import Callable
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.linalg
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st
from scale import LARGE, SEED, count

from dualpca import PCA

#: The solvers of PCA.
SOLVERS = (
    "auto",
    "lapack",
    "gram",
    "krylov",
    "chebyshev",
    "dca",
    "anderson",
    "proximal_gradient",
    "zerofpr",
    "simultaneous",
)
#: Those that take no formulation.
DIRECT = SOLVERS[:5]

#: Rounding, in units of eps and of the largest number that went into a sum.
SLACK = 200

KINDS = (
    "gaussian",
    "graded",
    "pairs",
    "heavy",
    "integers",
    "low_rank",
    "mostly_zero",
    "unlike_columns",
    "repeated_rows",
    "constant_column",
)


def law(name: str, /, few: int = 8, many: int = 120, **strategies: Any) -> Callable:
    """A test that tries the decorated law on what the strategies draw, and records how often."""

    def decorate(check: Callable) -> Callable:
        others = [p for p in inspect.signature(check).parameters if p not in strategies]

        def test(record_property: Callable, **given_by_pytest: Any) -> None:
            tried = []
            where = f"{check.__name__}{sorted(map(str, given_by_pytest.values()))}"

            @seed(SEED * 2**32 + zlib.crc32(where.encode()))
            @settings(
                max_examples=count(few, many),
                derandomize=not LARGE,
                database=None,
                phases=(Phase.generate, Phase.shrink),
                suppress_health_check=list(HealthCheck),
            )
            @given(**strategies)
            def each(**drawn: Any) -> None:
                tried.append(1)
                check(**given_by_pytest, **drawn)

            try:
                each()
            finally:
                record_property("property", name)
                record_property("executions", len(tried))

        names = ["record_property", *others]
        kind = inspect.Parameter.KEYWORD_ONLY
        test.__signature__ = inspect.Signature([inspect.Parameter(n, kind) for n in names])
        test.__name__, test.__doc__, test.__module__ = (
            check.__name__,
            check.__doc__,
            check.__module__,
        )
        return test

    return decorate


@dataclass(frozen=True)
class Data:
    """A small matrix that its fields make again, and a number of components."""

    kind: str
    N: int
    d: int
    s: int
    seed: int
    offset: float
    scale: float

    @property
    def rng(self) -> np.random.Generator:
        """For whatever else a law draws; not the stream of X."""
        return np.random.default_rng([self.seed, 1])

    @property
    def X(self) -> np.ndarray:
        rng, (N, d) = np.random.default_rng([self.seed, 0]), (self.N, self.d)
        A = rng.standard_normal((N, d))
        if self.kind in ("graded", "pairs"):
            n = min(N, d)
            sigma = 0.7 ** np.arange(n) if self.kind == "graded" else 2.0 ** -(np.arange(n) // 2)
            A = A - A.mean(axis=0)
            U, _, Vt = np.linalg.svd(A, full_matrices=False)
            A = (U * sigma) @ Vt * np.sqrt(N)
        elif self.kind == "heavy":
            A = rng.standard_t(1.5, (N, d))
        elif self.kind == "integers":
            A = rng.integers(-3, 4, (N, d)).astype(float)
        elif self.kind == "low_rank":
            r = int(rng.integers(1, min(N, d, 3) + 1))
            A = rng.standard_normal((N, r)) @ rng.standard_normal((r, d))
        elif self.kind == "mostly_zero":
            A = A * (rng.random((N, d)) < 0.2)
        elif self.kind == "unlike_columns":
            A = A * 10.0 ** rng.uniform(-2, 2, d)
        elif self.kind == "repeated_rows":
            A = A[rng.integers(0, max(1, N // 3), N)]
        elif self.kind == "constant_column":
            A[:, int(rng.integers(d))] = 1.0
        move = self.offset * rng.standard_normal(d) * max(float(A.std()), 1e-3)
        return (A + (move if self.offset else 0.0)) * self.scale


@st.composite
def datasets(
    draw: Any,
    rows: tuple[int, int] = (2, 40),
    columns: tuple[int, int] = (1, 30),
    kinds: tuple[str, ...] = KINDS,
    offsets: tuple[float, ...] = (0.0, 1.0, 100.0),
    scales: tuple[float, ...] = (1.0, 1e-4, 3e5),
) -> Data:
    """Small matrices with spectra of all sorts; s is at most the smaller side."""
    N, d = draw(st.integers(*rows)), draw(st.integers(*columns))
    s = draw(st.integers(1, min(N, d, 6)))
    pick = [draw(st.sampled_from(one)) for one in (kinds, offsets, scales)]
    return Data(pick[0], N, d, s, draw(st.integers(0, 2**20)), *pick[1:])


@dataclass(frozen=True)
class Contaminated:
    """Rows near a plane of s dimensions, and some far from it: what flags are about."""

    N: int
    d: int
    s: int
    share: float
    tails: str
    seed: int

    @property
    def rng(self) -> np.random.Generator:
        return np.random.default_rng([self.seed, 1])

    @property
    def bad(self) -> np.ndarray:
        return np.arange(self.N) < self.share * self.N

    @property
    def X(self) -> np.ndarray:
        rng = np.random.default_rng([self.seed, 0])
        shape = (self.N, self.s)
        T = {
            "normal": rng.standard_normal,
            "uniform": lambda size: rng.uniform(-2, 2, size),
            "heavy": lambda size: rng.standard_t(4, size),
        }[self.tails](shape)
        X = T * np.linspace(3, 2, self.s) @ turn(rng, self.d)[: self.s]
        X += 0.1 * rng.standard_normal(X.shape) + 2 * rng.standard_normal(self.d)
        X[self.bad] += 5 * rng.standard_normal((self.bad.sum(), self.d))
        return X


def contaminated(rows: tuple[int, int] = (40, 90)) -> st.SearchStrategy[Contaminated]:
    return st.builds(
        Contaminated,
        N=st.integers(*rows),
        d=st.integers(4, 8),
        s=st.integers(1, 2),
        share=st.sampled_from((0.0, 0.1, 0.2)),
        tails=st.sampled_from(("normal", "uniform", "heavy")),
        seed=st.integers(0, 2**20),
    )


def turn(rng: np.random.Generator, d: int) -> np.ndarray:
    """An orthogonal d x d matrix."""
    return scipy.linalg.qr(rng.standard_normal((d, d)))[0]


@contextmanager
def quiet(*messages: str):
    """Without the warnings of fits that go on to be judged, or those with such messages."""
    with warnings.catch_warnings():
        for message in messages or ("",):
            warnings.filterwarnings("ignore", message, UserWarning)
        yield


def eps_of(*arrays: Any) -> float:
    return float(max(np.finfo(a.dtype).eps for a in arrays))


def close(one: Any, other: Any, atol: float, what: str = "values") -> None:
    """Equal to an absolute tolerance, with the largest difference in the message."""
    one, other = np.asarray(one, dtype=float), np.asarray(other, dtype=float)
    assert one.shape == other.shape, f"{what} of shapes {one.shape} and {other.shape}"
    off = float(np.abs(one - other).max(initial=0.0))
    assert off <= atol, f"{what} differ by {off:.2e}, allowed {atol:.2e}"


class Truth:
    """The covariance of rows by LAPACK in float64, with weights or without; its unit is that of X."""

    def __init__(self, X: np.ndarray, center: bool = True, weights: Any = None) -> None:
        X = np.asarray(X, dtype=float)
        w = np.ones(len(X)) if weights is None else np.asarray(weights, dtype=float)
        self.mass = float(w.sum())
        self.mean = w @ X / self.mass if center else np.zeros(X.shape[1])
        self.A = np.sqrt(w)[:, None] * (X - self.mean)
        self.size = float(np.linalg.norm(X, 2))
        self.values = np.zeros(max(X.shape[1], 1))
        sigma = np.linalg.svd(self.A, compute_uv=False)
        self.values[: len(sigma)] = sigma**2

    def rounding(self, eps: float) -> float:
        """What eps in each entry of X, and in sums of squares, may move eigenvalues by."""
        first = float(np.sqrt(self.values[0]))
        return SLACK * eps * (self.size * first + eps * self.size**2) + SLACK * eps * first**2

    def gap(self, s: int) -> float:
        return float(self.values[s - 1] - self.values[s]) if s < len(self.values) else np.inf

    def captured(self, V: np.ndarray) -> float:
        """The variance within the rows of V, which need not be orthonormal."""
        Q = np.linalg.qr(np.asarray(V, dtype=float).T)[0]
        return float(np.linalg.norm(self.A @ Q) ** 2)


def projector(V: Any) -> np.ndarray:
    """Of the span of orthonormal rows."""
    V = np.asarray(V, dtype=float)
    return V.T @ V


def moved_by(truth: Truth, s: int, eps: float, *models: Any) -> tuple[float, float]:
    """How far the covariance and the variance held may be off, by what the models tell.

    A run that stopped early may be near another eigenspace: its shortfall counts as well.
    """
    norm, best = float(np.linalg.norm(truth.values[:s])), float(truth.values[:s].sum())
    moved = sum(m.residual_ for m in models) * norm + truth.rounding(eps)
    early = [m.variance_shortfall_ for m in models if m.residual_ > 1e3 * eps]
    return moved, sum(early) * best


def same_subspace(one: Any, other: Any, truth: Truth, eps: float, *models: Any) -> None:
    """Two spans of s rows hold the same variance, and where the gap tells so are the same.

    By Davis and Kahan's theorem with the residuals of both models; ``eps`` is that of the coarser.
    """
    s = len(one)
    assert np.shape(one) == np.shape(other)
    moved, short = moved_by(truth, s, eps, *models)
    slack = 2 * np.sqrt(s) * moved + short + 1e-300
    close(truth.captured(one), truth.captured(other), slack, "variances held")
    gap = truth.gap(s)
    if np.isfinite(gap) and gap > 0:
        off = 4 * np.sqrt(2 * s) * moved / gap + 2 * np.sqrt(short / gap) + SLACK * eps
        if off < 1:
            close(projector(one), projector(other), off, "spans")


def same_values(one: Any, other: Any, truth: Truth, eps: float, *models: Any) -> None:
    """Two lists of eigenvalues of the covariance, in its units."""
    moved, short = moved_by(truth, len(one), eps, *models)
    close(one, other, 4 * moved + short + 1e-300, "eigenvalues")


def fitted(X: Any, s: Any, weights: Any = None, solver: Any = "auto", **options: Any) -> PCA:
    """A PCA as accurate as the solver makes it; what it reached is in ``residual_``."""
    options = {"tol": 1e-10, "max_iter": 300, "random_state": 0, **options}
    with quiet():
        return PCA(s, solver=solver, **options).fit(X, sample_weight=weights)


def same_model(
    one: PCA, other: PCA, truth: Truth, image: Callable = lambda V: V, scale: float = 1.0
) -> None:
    """Eigenvalues and the span of ``other`` are those of ``one``, mapped by ``image``."""
    eps = eps_of(one.components_, other.components_)
    same_subspace(image(one.components_), other.components_, truth, eps, one, other)
    ours, theirs = (m.explained_variance_ * (m._mass - 1) for m in (one, other))
    same_values(np.asarray(ours) * scale**2, theirs, truth, eps, one, other)
