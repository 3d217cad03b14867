"""Sparse components of ``C = X^T X``: DCA with several starts, deflation, and the block method.

By deflation and the block method components are fixed points of DCA on a formulation of
:mod:`dualpca.formulations`, before they are refitted: with ``z = C w / ||X w||``, a step is
``w = F'(z)``, normalised, where F is ``HalfSquare(TopK(k))`` (the k-sparse ball), ``HardSquare`` or
``SoftSquare`` (the penalties l0 and l1 of GPower). "reconstruction" alternates least squares.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.sparse.linalg

from ..functions.base import Function
from ..progress import report_step
from .images import fit_images, polar_images, scores_of, single_images, unit
from .quadratic import RANK, Deflation, Quadratic, adjusted_variances, cumulative_variances

#: Starts of a component found by deflation, where none are asked for: they share the work.
STARTS = 8

#: DCA steps from all starts before the best goes on alone.
EXPLORE = 6

#: From so many nonzeros on Lanczos finds the leading eigenvector on a support before LAPACK does.
LANCZOS = 100

#: On wider supports DCA goes on step by step: their matrix would not be small.
WIDEST = 4000


@dataclass(frozen=True)
class Rule:
    """How components are found.

    ``make(j, top)`` is the F of component j, where ``top`` is the largest length of a feature, and with
    None for j that of all of them, in columns.
    """

    method: str
    n_components: int
    make: Callable[[int | None, float], Function]
    deflation: str
    refit: bool  # whether F shrinks, so that loadings are fitted again on their support
    positive: bool
    n_starts: int
    tol: float
    max_iter: int
    seed: int


@dataclass(frozen=True)
class Found:
    """Loadings in columns, the DCA step that they are a fixed point of, and how that went.

    The lengths of the columns are those of the iteration.
    """

    W: np.ndarray
    step: Callable[[np.ndarray], np.ndarray]
    residual: float
    iterations: int


def sparse_components(C: Quadratic, rule: Rule, warm: np.ndarray | None = None) -> Found:
    """The components of C by the rule; ``warm`` has a start for each."""
    return (_deflation if rule.method == "deflation" else _joint)(C, rule, warm)


def refitted(C: Quadratic, rule: Rule, W: np.ndarray) -> np.ndarray:
    """The best loadings on the supports of W, which a penalty has shrunk; W where none has."""
    if not rule.refit:
        return W
    if rule.method != "deflation":
        pattern, least = W != 0, 0.0 if rule.positive else -np.inf

        def advance(V: np.ndarray, CV: np.ndarray) -> np.ndarray:
            return np.where(pattern, np.maximum(polar_images(V, CV), least), 0.0)

        return _repeat(C, advance, W, rule).W
    W, floor = W.copy(), _floor(C)
    for j in np.flatnonzero(W.any(axis=0)):
        W[:, [j]] = _eigenvector(C, W[:, [j]], rule)
        z = C @ W[:, j]
        if float(W[:, j] @ z) > floor:
            C.deflate(W[:, j], z, rule.deflation)
        else:  # the better loadings before it have left nothing
            W[:, j] = 0.0
    return W


def images(rule: Rule, W: np.ndarray, CW: np.ndarray) -> np.ndarray:
    """Z in columns, such that the loadings are a fixed point where ``W = F'(Z)`` up to lengths."""
    if rule.method != "deflation":
        return JOINT[rule.method](W, CW)
    taken, Z = Deflation(len(W)), np.zeros_like(W)
    for j in range(W.shape[1]):
        w, z = W[:, j], taken.corrected(W[:, j], CW[:, j])
        if np.any(w != 0):
            Z[:, j] = single_images(w[:, None], z[:, None])[:, 0]
            taken.take(w, z, rule.deflation)
    return Z


def _floor(C: Quadratic) -> float:
    """Up to here the variance of a component is rounding."""
    return RANK * max(float(C.variances.max(initial=0.0)), 0.0) * len(C.variances)


def _deflation(C: Quadratic, rule: Rule, warm: np.ndarray | None) -> Found:
    n, s = len(C.variances), rule.n_components
    rng = np.random.default_rng(rule.seed)
    V = _leading(C, rng.standard_normal((n, min(n, s + 4))), steps=4)
    floor, W, worst, total = _floor(C), np.zeros((n, s)), 0.0, 0
    functions: list[Function] = []
    for j in range(s):
        variances = np.maximum(C.variances, 0.0)
        F = rule.make(j, float(np.sqrt(variances.max(initial=0.0))))
        functions.append(F)
        if variances.sum() <= floor:
            continue
        V = _leading(C, V, steps=1)
        extra = [] if warm is None else [warm[:, [j]]]
        starts = _starts(V, variances, rule, rng)
        w, z, residual, iterations = _component(C, F, np.column_stack([*extra, starts]), rule)
        worst, total = max(worst, residual), total + iterations
        if float(w @ z) <= floor:
            continue
        W[:, j] = w
        C.deflate(w, z, rule.deflation)

    def step(Z: np.ndarray) -> np.ndarray:
        return np.column_stack([F.subgradient(Z[:, [j]]) for j, F in enumerate(functions)])

    return Found(W, step, worst, total)


def _leading(C: Quadratic, V: np.ndarray, steps: int) -> np.ndarray:
    """Rough leading eigenvectors of C in the span of V after some steps of subspace iteration."""
    for _ in range(steps):
        V = np.linalg.qr(V)[0]
        CV = C @ V
        _, Q = np.linalg.eigh(V.T @ CV)
        V = CV @ Q[:, ::-1]
    return np.linalg.qr(V)[0]


def _starts(
    V: np.ndarray, variances: np.ndarray, rule: Rule, rng: np.random.Generator
) -> np.ndarray:
    """Leading eigenvectors, features of largest variance, and random vectors, ``n_starts`` in all.

    A penalty might leave nothing of any but the feature of largest variance, which is then among them.
    """
    n, count = len(variances), rule.n_starts
    dense = min(V.shape[1], (count + 1) // 2)
    single = max(min(n, (count - dense + 1) // 2), int(rule.refit))
    E = np.zeros((n, single))
    E[np.argsort(-variances, kind="stable")[:single], np.arange(single)] = 1.0
    R = rng.standard_normal((n, max(count - dense - single, 0)))
    if rule.positive:
        V, R = _positive(V), np.abs(R)
    return np.column_stack([V[:, :dense], E, R])


def _positive(V: np.ndarray) -> np.ndarray:
    """Of each column the positive or the negative part, whichever is longer."""
    longer = (V.clip(0) ** 2).sum(axis=0) >= (V.clip(None, 0) ** 2).sum(axis=0)
    return (V * np.where(longer, 1.0, -1.0)).clip(0)


def _component(
    C: Quadratic, F: Function, W: np.ndarray, rule: Rule
) -> tuple[np.ndarray, np.ndarray, float, int]:
    """w, ``C w``, the length of the last step and the number of steps, from the best of the starts.

    Once a step leaves the support as it is, or is short, w becomes the leading eigenvector on it,
    which no further step on that support could exceed: each of the two raises the objective, and
    there are finitely many supports. Where there is an eigenvector to take, only a step from one
    ends the search: it stays, or the eigenvector that it leads to is no better.
    """
    W = unit(W)
    explored = EXPLORE if W.shape[1] > 1 else 0
    for _ in range(explored):
        W = unit(F.subgradient(single_images(W, C @ W)))
    CW = C @ W
    Z = single_images(W, CW)
    best = int(np.argmax([F(Z[:, [j]]) for j in range(Z.shape[1])]))
    w, Cw = W[:, [best]], CW[:, [best]]
    residual, steps = np.inf, 0
    last, level, settled = (w, Cw), -np.inf, False  # settled: w is an eigenvector on its support
    while steps < rule.max_iter:
        new, steps = unit(F.subgradient(single_images(w, Cw))), steps + 1
        residual = float(np.linalg.norm(new - w))
        short, same = residual <= rule.tol, np.array_equal(new != 0, w != 0)
        if report_step("deflation", residual, rule.tol) or (same and settled):
            break
        w = _eigenvector(C, new, rule) if (short or same) and not rule.refit else new
        Cw, settled = C @ w, w is not new
        if settled:
            value = float(np.vdot(w, Cw))
            if value <= level:  # features are tied: the last eigenvector is a subgradient as well
                (w, Cw), residual = last, 0.0
                break
            last, level = (w, Cw), value
        elif short:
            break
    return w[:, 0], Cw[:, 0], residual, explored + steps


def _eigenvector(C: Quadratic, w: np.ndarray, rule: Rule) -> np.ndarray:
    """The leading eigenvector on the support of w, to rounding.

    w itself where that would not stay positive, on wide supports, and where Lanczos finds none.
    """
    S = np.flatnonzero(w)
    if not 1 < len(S) <= WIDEST:
        return w
    B = C.block(S)
    if len(S) < LANCZOS:
        v = np.linalg.eigh(B)[1][:, -1]
    else:
        try:
            v = scipy.sparse.linalg.eigsh(B, 1, which="LA", v0=w[S, 0], tol=0)[1][:, 0]
        except scipy.sparse.linalg.ArpackNoConvergence:
            return w
    v = v if v @ w[S, 0] >= 0 else -v
    if rule.positive and v.min() < 0:
        return w
    found = np.zeros_like(w)
    found[S, 0] = v
    return found


def _fit_columns(F: list[Any]) -> Callable[[np.ndarray, np.ndarray], np.ndarray]:
    """One loading after the other by its image, the scores fixed: ``||X - T W^T||`` never rises."""

    def advance(W: np.ndarray, CW: np.ndarray) -> np.ndarray:
        W, XT, G = scores_of(W, CW)
        for j, f in enumerate(F):
            if G[j, j] > 0:
                z = (XT[:, [j]] - W @ G[:, [j]]) / G[j, j] + W[:, [j]]
                W[:, [j]] = f.subgradient(z)
        return W

    return advance


#: The images of the methods that find all components together.
JOINT = {"block": polar_images, "reconstruction": fit_images}


def _joint(C: Quadratic, rule: Rule, warm: np.ndarray | None) -> Found:
    """All components together, from principal axes and from these turned at random.

    "reconstruction" goes on from where "block" stops, and from deflation, which it so never falls
    behind in what it maximises.
    """
    n, s = len(C.variances), rule.n_components
    rng = np.random.default_rng(rule.seed)
    top = float(np.sqrt(np.maximum(C.variances, 0.0).max(initial=0.0)))
    F = rule.make(None, top)
    V = _leading(C, rng.standard_normal((n, min(n, s + 4))), steps=8)[:, :s]
    turns = [rng.standard_normal((s, s)) for _ in range(rule.n_starts - 1)]
    starts = [V, *(V @ np.linalg.qr(turn)[0] for turn in turns)]
    starts = [_positive(W) for W in starts] if rule.positive else starts
    if rule.refit:  # a penalty might leave nothing of the axes
        starts.append(_pivots(C, s))
    advance = _polar_step(F)
    tried = [_repeat(C, advance, W, rule) for W in starts]
    if rule.method == "reconstruction":
        many = replace(rule, deflation="projection", n_starts=max(rule.n_starts, STARTS))
        tried.append(_deflation(C.undeflated(), many, None))
        advance = _fit_columns([rule.make(j, top) for j in range(s)])
    if warm is not None:
        tried.append(Found(warm, F.subgradient, np.inf, 0))
    if rule.method == "reconstruction" or warm is not None:
        tried = [_repeat(C, advance, found.W, rule, found.iterations) for found in tried]
    best = max(tried, key=lambda found: _explained(rule, unit(found.W), C))
    return replace(best, step=F.subgradient)


def _pivots(C: Quadratic, s: int) -> np.ndarray:
    """Loadings with orthonormal scores, each of the feature that those before it explain least."""
    W, left, floor = np.zeros((len(C.variances), s)), C.variances, _floor(C)
    for j in range(s):
        i = int(np.argmax(left))
        if left[i] <= floor:
            break
        w = np.zeros(len(W))
        w[i] = 1.0
        w -= W @ (W.T @ (C @ w))
        z = C @ w
        size = float(w @ z)
        W[:, j], left = w / size**0.5, left - (z / size**0.5) ** 2
    return W


def _explained(rule: Rule, W: np.ndarray, C: Quadratic) -> float:
    """What the method is after: the variance in the span, or adjusted variance."""
    if rule.method == "reconstruction":
        return float(cumulative_variances(W, C @ W)[-1])
    return float(adjusted_variances(W, C @ W).sum())


def _polar_step(F: Any) -> Callable[[np.ndarray, np.ndarray], np.ndarray]:
    """Block DCA: ``W = F'(X^T polar(X W))``."""
    return lambda W, CW: F.subgradient(polar_images(W, CW))


def _repeat(
    C: Quadratic, advance: Callable[..., np.ndarray], W: np.ndarray, rule: Rule, before: int = 0
) -> Found:
    """``W = advance(W, C W)`` until the columns turn by no more than ``tol``.

    Their common scale means nothing, and would overflow or vanish with that of the data.
    """
    residual, steps = np.inf, 0
    while residual > rule.tol and steps < rule.max_iter:
        new, steps = advance(W, C @ W), steps + 1
        residual = float(np.linalg.norm(unit(new) - unit(W))) / W.shape[1] ** 0.5
        W = new / (float(np.abs(new).max()) or 1.0)
        if report_step(rule.method, residual, rule.tol):
            break
    return Found(W, lambda Z: Z, residual, before + steps)
