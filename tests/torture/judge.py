"""The judge of a fit: products in float64 of data centred in extended precision, and LAPACK."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import scipy.linalg
import scipy.sparse as sp

from dualpca.kernels.features import feature_operator

#: Rounding that no certificate speaks of, in units of eps.
SLACK = 100


class Judge:
    """What is true of some data: ``A = X - 1 mean^T`` over ``scale``, the largest magnitude."""

    def __init__(self, X: np.ndarray, *, center: bool = True) -> None:
        if X.dtype not in (np.float32, np.float64):
            X = X.astype(np.float64)  # what estimators make of it
        X = X.astype(np.longdouble)
        self.slack = SLACK * max(1.0, np.sqrt(max(X.shape) / 1000))  # sums round with their length
        largest = np.abs(X).max()
        self.scale = np.exp2(np.floor(np.log2(largest))) if largest > 0 else np.longdouble(1)
        self.X = X / self.scale
        # About entries of the middle first: no digit of the spread is lost to the rounding of a sum.
        middle = np.sort(self.X, axis=0)[len(X) // 2] if center else np.zeros_like(self.X[0])
        A = self.X - middle
        rest = A.mean(axis=0) if center else np.zeros_like(middle)
        self.mean, A = middle + rest, A - rest
        spread = np.abs(A).max()
        self.spread = np.exp2(np.floor(np.log2(spread))) if spread > 0 else np.longdouble(1)
        self.A = (A / self.spread).astype(np.float64)

    @property
    def unit(self) -> Any:
        """The length of 1 in A, in the units of X."""
        return self.scale * self.spread

    @property
    def offset(self) -> float:
        """How much larger than the spread the entries are."""
        return float(1 / self.spread)


def eps_of(*arrays: Any) -> float:
    return float(max(np.finfo(np.asarray(a).dtype).eps for a in arrays))


def finite(model: Any) -> None:
    """No fitted attribute holds NaN or infinity."""
    for name, value in vars(model).items():
        if not name.endswith("_") or name.startswith("_"):
            continue
        if isinstance(value, (float, np.ndarray, np.generic, list, tuple)):
            array = np.asarray(value)
            if array.dtype.kind == "f":
                assert np.isfinite(array).all(), f"{name} is not finite: {array.ravel()[:6]}"


def signs(V: np.ndarray) -> None:
    """In each row the entry of largest magnitude is positive; ties within rounding are free."""
    size = np.abs(V).max(axis=1, initial=0)
    largest = V.max(axis=1, initial=0)
    assert (largest >= (1 - 3e3 * eps_of(V)) * size).all(), f"signs: {largest - size}"


def orthonormal(V: np.ndarray) -> None:
    W = V.astype(np.float64)
    off = np.abs(W @ W.T - np.eye(len(W))).max(initial=0)
    assert off <= SLACK * eps_of(V), f"orthonormal only to {off:.1e}"


def certified(
    C: Any,
    V: np.ndarray,
    best: float,
    model: Any,
    slack: float,
    values: Any,
    dropped: float = 0.0,
) -> None:
    """The residual and the captured variance of orthonormal columns V, C being a function ``V -> C V``.

    ``slack`` is the rounding that no certificate speaks of, ``dropped`` the share of the largest value
    below which values count as 0.
    """
    Z = C(V)
    size = np.linalg.norm(Z)
    if best == 0:
        assert np.abs(values).max(initial=0) == 0 or np.abs(values).max() <= slack
        return
    residual = np.linalg.norm(Z - V @ (V.T @ Z)) / size if size > 0 else 1.0
    assert residual <= 1.05 * model.residual_ + slack, (
        f"residual {residual:.2e} where residual_={model.residual_:.2e}"
    )
    captured = np.einsum("ij,ij->j", V, Z)
    shortfall = 1 - captured.sum() / best
    assert shortfall <= model.variance_shortfall_ + slack, (
        f"shortfall {shortfall:.2e} where variance_shortfall_={model.variance_shortfall_:.2e}"
    )
    wrong = np.abs(np.asarray(values) - captured).max()
    limit = 1.05 * model.residual_ * np.linalg.norm(captured) + (slack + dropped) * captured.max()
    assert wrong <= limit, f"variances off by {wrong / captured.max():.1e} of the largest"


def reached(model: Any, tol: float, told: list[str], attribute: str = "residual_") -> None:
    """A residual above ``tol`` is told in a ConvergenceWarning, with its value.

    A decomposition that is right to rounding has nothing to tell.
    """
    value = getattr(model, attribute)
    direct = getattr(model, "solver_", "").startswith(("lapack", "gram", "none"))
    eps = eps_of(getattr(model, "components_", getattr(model, "eigenvectors_", 1.0)))
    if value > max(1.02 * tol, SLACK * eps if direct else 0.0):
        assert told, f"{attribute}={value:.1e} above tol={tol:.0e} without a warning"
    for message in told:
        number = float(re.search(r"(?:residual|gap) of ([-+.\de]+)", message).group(1).rstrip("."))
        assert abs(number - value) <= 0.06 * value, f"{message!r} where {attribute}={value:.3e}"


def scores(model: Any, data: Any, true: np.ndarray, judge: Judge, eps: float) -> np.ndarray:
    """transform gives the true scores to the rounding of the data, and rows come back finite."""
    T = np.asarray(model.transform(data))
    assert np.isfinite(T).all(), "scores are not finite"
    assert T.shape == true.shape, f"scores have shape {T.shape}, not {true.shape}"
    sizes = np.linalg.norm(judge.A, axis=1) + judge.offset * np.sqrt(judge.A.shape[1])
    wrong = np.abs(T.astype(np.longdouble) / judge.unit - true).max(axis=1, initial=0)
    assert (wrong <= judge.slack * eps * sizes).all(), f"scores off by {(wrong / sizes).max():.1e}"
    back = np.asarray(model.inverse_transform(T))
    assert back.shape == judge.A.shape
    assert np.isfinite(back).all(), "inverse_transform is not finite"
    return T


def centre(model: Any, judge: Judge, eps: float) -> None:
    mean = np.asarray(model.mean_)
    wrong = np.abs(mean.astype(np.longdouble) / judge.scale - judge.mean)
    least = np.finfo(mean.dtype).smallest_subnormal / judge.scale
    assert wrong.max() <= judge.slack * eps + least, (
        f"mean_ off by {float(wrong.max()):.1e} of the largest entry"
    )


def judge_pca(model: Any, X: np.ndarray, data: Any, tol: float, told: list[str]) -> None:
    judge, V = Judge(X, center=model.center), np.asarray(model.components_)
    n, eps = model.n_components_, eps_of(V)
    orthonormal(V)
    signs(V)
    centre(model, judge, eps)
    sigma2 = np.linalg.svd(judge.A, compute_uv=False) ** 2
    values = model.singular_values_.astype(np.longdouble) ** 2 / judge.unit**2
    W = V.T.astype(np.float64)
    certified(
        lambda V: judge.A.T @ (judge.A @ V), W, sigma2[:n].sum(), model, judge.slack * eps, values
    )
    reached(model, tol, told)
    if not model.whiten:
        scores(model, data, judge.A @ W, judge, eps)
    else:
        assert np.isfinite(model.transform(data)).all()
    if isinstance(model.n_components, float):
        share = sigma2[:n].sum() / max(sigma2.sum(), 1e-300)
        assert sigma2.sum() == 0 or share >= model.n_components - 1e-6


def squared_distances(judge: Judge) -> np.ndarray:
    """``||x - y||^2`` over ``scale^2`` from differences, in extended precision."""
    return np.stack([((judge.X - row) ** 2).sum(axis=1) for row in judge.X])


def bandwidth(model: Any, X: np.ndarray) -> None:
    """The median heuristic, where all pairs of different rows are in it."""
    if model.kernel != "rbf" or model.gamma != "median" or len(X) > 1000:
        return
    judge = Judge(X)
    distances = squared_distances(judge)
    apart = distances[distances > 0]
    if apart.size:
        ratio = float(np.median(apart) * model.gamma_ * judge.scale**2)
        assert abs(ratio - 1) <= 1e-3, f"gamma_ is {ratio:.1e} times 1 / median ||x - y||^2"


def kernel_matrix(model: Any, X: np.ndarray) -> tuple[np.ndarray, Any]:
    """The centred K in float64 from differences of rows, and its unit."""
    if model.kernel == "linear":
        judge = Judge(X)
        return judge.A @ judge.A.T, judge.unit**2
    judge = Judge(X)
    gamma = np.longdouble(model.gamma_) * judge.scale**2
    K = np.exp(-gamma * squared_distances(judge)).astype(np.float64)
    K = K - K.mean(axis=0)
    return K - K.mean(axis=1)[:, None], 1.0


def judge_kernel_pca(model: Any, X: np.ndarray, data: Any, tol: float, told: list[str]) -> None:
    bandwidth(model, X)
    if model.approximation is not None:
        judge_nystroem(model, X, data, tol, told)
        return
    K, unit = kernel_matrix(model, X)
    H = np.asarray(model.eigenvectors_)
    eps = eps_of(H)
    orthonormal(H.T)
    signs(H.T)
    theta = np.linalg.eigvalsh(K)[::-1]
    n = H.shape[1]
    dropped = 2e-7 if eps > 1e-10 else 1e-12
    values = model.eigenvalues_.astype(np.longdouble) / unit
    best = theta[:n].clip(0).sum()
    slack = Judge(X).slack
    if best > slack * eps * len(K):
        W = H.astype(np.float64)
        certified(lambda V: K @ V, W, best, model, slack * eps, values, dropped)
    reached(model, tol, told)
    T = model.transform(data)
    assert np.isfinite(T).all(), "scores are not finite"
    assert T.shape == (len(X), n)


def judge_nystroem(model: Any, X: np.ndarray, data: Any, tol: float, told: list[str]) -> None:
    """PCA of the features; and a projection of K has no larger eigenvalues than K."""
    Phi = feature_operator(model.features_, data).todense()
    pca = model.pca_
    V = np.asarray(pca.components_)
    eps = eps_of(V)
    judge = Judge(Phi)
    orthonormal(V)
    sigma2 = np.linalg.svd(judge.A, compute_uv=False) ** 2
    values = model.eigenvalues_.astype(np.longdouble) / judge.unit**2
    W = V.T.astype(np.float64)
    n = V.shape[0]
    certified(
        lambda V: judge.A.T @ (judge.A @ V), W, sigma2[:n].sum(), model, judge.slack * eps, values
    )
    reached(pca, tol, told)
    if len(X) <= 1000:
        K, unit = kernel_matrix(model, X)
        theta = np.linalg.eigvalsh(K)[::-1][:n].clip(0)
        above = model.eigenvalues_.astype(np.longdouble) / unit - theta
        assert (above <= 10 * np.sqrt(eps) * np.linalg.norm(K, 2) + SLACK * eps * len(K)).all()
    T = model.transform(data)
    assert np.isfinite(T).all(), "scores are not finite"
    assert T.shape == (len(X), n)


def judge_robust(model: Any, X: np.ndarray, data: Any, tol: float, told: list[str]) -> None:
    V = np.asarray(model.components_)
    eps = eps_of(V)
    orthonormal(V)
    signs(V)
    if told:
        reached(model, tol, told)
    judge = Judge(X, center=False)
    W = V.T.astype(np.float64)
    rows = (np.asarray(X).astype(np.longdouble) - model._origin) / judge.unit
    if model.center is not None:
        rows = rows - model._mean_rest.astype(np.longdouble) / judge.unit
    rows = rows.astype(np.float64)
    scores(model, data, rows @ W, judge, eps)
    distances = np.linalg.norm(rows - (rows @ W) @ W.T, axis=1)
    sizes = np.linalg.norm(rows, axis=1) + judge.offset * np.sqrt(X.shape[1])
    wrong = np.abs(np.asarray(model.orthogonal_distances_) / judge.unit - distances) / sizes
    # Sparse rows are not centred: their distances come from squares, to half of the digits.
    limit = 4 * np.sqrt(eps) * judge.slack / SLACK if sp.issparse(data) else judge.slack * eps
    assert wrong.max() <= limit, f"orthogonal_distances_ off by {float(wrong.max()):.1e}"
    flags(model, data, len(X))


def flags(model: Any, data: Any, N: int) -> None:
    assert model.outliers_.shape == (N,)
    assert model.outliers_.dtype == bool
    weights = np.asarray(model.weights_)
    assert ((weights >= 0) & (weights <= 1 + 1e-6)).all()
    assert np.isfinite(model.score_samples(data)).all(), "score_samples is not finite"
    assert set(np.unique(model.predict(data))) <= {-1, 1}


def judge_robust_kernel(model: Any, X: np.ndarray, data: Any, tol: float, told: list[str]) -> None:
    bandwidth(model, X)
    if told:
        reached(model, tol, told)
    T = model.transform(data)
    assert T.shape == (len(X), model.n_components_)
    assert np.isfinite(T).all(), "scores are not finite"
    if model.kernel == "rbf":  # rows and the centre lie in the unit ball
        longest = np.linalg.norm(T.astype(float), axis=1).max()
        assert longest <= 2 + 1e-2, f"scores of length {longest:.1e}, beyond the unit ball"
    flags(model, data, len(X))


def judge_sparse(model: Any, X: np.ndarray, data: Any, tol: float, told: list[str]) -> None:
    V = np.asarray(model.components_)
    eps, d = eps_of(V), V.shape[1]
    norms = np.linalg.norm(V.astype(np.float64), axis=1)
    assert (np.abs(norms[norms > 0] - 1) <= SLACK * eps).all(), f"lengths {norms}"
    signs(V)
    reached(model, model.tol, told)
    if model.penalty == "cardinality":
        assert (np.count_nonzero(V, axis=1) <= max(1, round(model.n_nonzero * d))).all()
    if model.positive:
        assert (V >= 0).all()
    judge = Judge(X)
    centre(model, judge, eps)
    W = V.T.astype(np.float64)
    condition = np.linalg.norm(W, 2) * np.linalg.norm(np.linalg.pinv(W, rcond=1e-6), 2)
    T = np.asarray(model.transform(data))
    back = np.asarray(model.inverse_transform(T))
    assert T.shape == (len(X), V.shape[0])
    assert np.isfinite(T).all(), "scores are not finite"
    assert np.isfinite(back).all(), "inverse_transform is not finite"
    total = np.linalg.norm(judge.A) ** 2
    if total > 0 and condition < 1e3:
        P = scipy.linalg.orth(W, rcond=1e-6)
        kept = np.linalg.norm(judge.A @ P) ** 2 / total
        wrong = abs(kept - float(model.cumulative_variance_ratio_[-1]))
        assert wrong <= condition * judge.slack * eps, (
            f"cumulative_variance_ratio_ off by {wrong:.1e}"
        )


def judge_pursuit(model: Any, X: np.ndarray, data: Any, tol: float, told: list[str]) -> None:
    V = np.asarray(model.components_)
    eps = eps_of(V)
    orthonormal(V)
    signs(V)
    judge = Judge(X, center=False)
    L, S = (
        np.asarray(a).astype(np.longdouble) / judge.unit for a in (model.low_rank_, model.sparse_)
    )
    size = np.linalg.norm(judge.A)
    gap = np.linalg.norm((judge.A - L - S).astype(float)) / size if size > 0 else 0.0
    assert gap <= 1.05 * model.gap_ + SLACK * eps, f"gap {gap:.1e} where gap_={model.gap_:.1e}"
    sigma = np.linalg.svd(L.astype(np.float64), compute_uv=False)[: len(V)]
    found = model.singular_values_.astype(np.longdouble) / judge.unit
    wrong = np.abs(found - sigma).max(initial=0)
    least = np.finfo(V.dtype).smallest_subnormal / judge.unit * np.sqrt(X.size)
    assert wrong <= SLACK * max(eps, tol) * size + least, f"singular values off by {wrong:.1e}"
    if told:
        reached(model, model.tol, told, "gap_")
    T = model.transform(data)
    assert T.shape == (len(X), len(V))
    assert np.isfinite(T).all(), "scores are not finite"
    assert np.isfinite(model.inverse_transform(T)).all(), "inverse_transform is not finite"


JUDGES = {
    "PCA": judge_pca,
    "KernelPCA": judge_kernel_pca,
    "RobustPCA": judge_robust,
    "RobustKernelPCA": judge_robust_kernel,
    "SparsePCA": judge_sparse,
    "PrincipalComponentPursuit": judge_pursuit,
}
