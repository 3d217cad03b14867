"""How many components a spectrum has: rules that need the eigenvalues of ``X^T X`` alone."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.special import gammaln

from ..solvers.solve import user_stacklevel


@dataclass(frozen=True, eq=False)
class Selection:
    """How many components were chosen, and by what.

    Attributes
    ----------
    method : str
    n_components : int
        The number; 0 where no component stands out.
    numbers : int array
        The numbers of components that were judged.
    statistic : float array
        What the method computes for each of them: the variance of that component ("parallel",
        "gavish-donoho", "broken-stick"), the log-likelihood ("profile") or log-evidence ("mle") of so
        many components, or their mean squared error of prediction ("gcv", "cv").
    threshold : float array or None
        What variances must exceed; None for methods that take the largest or smallest statistic.
    n_passes : int
        The passes over permuted tables, as many as one of X costs each; 0 for other methods.
    """

    method: str
    n_components: int
    numbers: np.ndarray
    statistic: np.ndarray
    threshold: np.ndarray | None = None
    n_passes: int = 0

    def at_least_one(self) -> int:
        """Return the number of components for a model, which has one at least."""
        if not self.n_components:
            warnings.warn(
                f"no component stands out from noise by n_components={self.method!r}; the first one is "
                "kept, and selection_ has the numbers",
                UserWarning,
                stacklevel=user_stacklevel(),
            )
        return max(self.n_components, 1)


@dataclass(frozen=True)
class Spectrum:
    """All eigenvalues theta of ``X^T X``, decreasing, of N rows, n = N - 1 if centred, and d columns."""

    theta: np.ndarray
    N: float
    n: float
    d: int

    @property
    def variances(self) -> np.ndarray:
        """The variances of all components, without the one that centring may leave no variance."""
        return self.theta[: max(int(min(self.n, self.d)), 1)] / (self.N - 1)


def above(method: str, variances: np.ndarray, threshold: np.ndarray, passes: int = 0) -> Selection:
    """Return the number of components before the first whose variance is within its threshold."""
    within = np.append(variances <= threshold, True)
    numbers = np.arange(1, len(variances) + 1)
    return Selection(method, int(np.argmax(within)), numbers, variances, threshold, passes)


def gavish_donoho(spectrum: Spectrum, noise: float | None = None) -> Selection:
    """``sigma_k > lambda(beta) sqrt(max(n, d)) noise``, or ``omega(beta) median(sigma)``.

    The hard threshold of singular values with the least asymptotic error of the matrix that is left
    (Gavish and Donoho 2014); the median stands for a ``noise`` that is not known.
    """
    variances, large = spectrum.variances, max(spectrum.n, spectrum.d)
    beta = min(spectrum.n, spectrum.d) / large
    square = 2 * (beta + 1) + 8 * beta / (beta + 1 + math.sqrt(beta**2 + 14 * beta + 1))
    if noise is None:
        median = float(np.median(np.sqrt(variances))) ** 2
        limit = square * median / marchenko_pastur_median(beta)
    else:
        limit = square * large * noise**2 / (spectrum.N - 1)
    return above("gavish-donoho", variances, np.full(len(variances), limit))


def marchenko_pastur_median(beta: float) -> float:
    """Return the median of the Marchenko-Pastur law, of eigenvalues ``1 + beta - 2 sqrt(beta) cos t``."""
    edges = np.linspace(0.0, math.pi, 2**14 + 1)
    t = (edges[1:] + edges[:-1]) / 2
    density = 2 * np.sin(t) ** 2 / (math.pi * (1 + beta - 2 * math.sqrt(beta) * np.cos(t)))
    below = np.append(0.0, np.cumsum(density)) * edges[1]
    return 1 + beta - 2 * math.sqrt(beta) * math.cos(float(np.interp(0.5, below, edges)))


def broken_stick(spectrum: Spectrum) -> Selection:
    """``variance_k > total / p sum_{i=k}^p 1 / i``, the k-th piece of a stick broken at random.

    Jackson (1993), after MacArthur; p is the number of components.
    """
    variances = spectrum.variances
    pieces = np.cumsum(1.0 / np.arange(len(variances), 0, -1))[::-1] / len(variances)
    return above("broken-stick", variances, pieces * variances.sum())


def profile(spectrum: Spectrum) -> Selection:
    """``max_q sum_{k<=q} log phi(v_k; m_1, s) + sum_{k>q} log phi(v_k; m_2, s)`` of variances v.

    The profile likelihood of two groups of variances with a common spread s (Zhu and Ghodsi 2006).
    """
    v = spectrum.variances
    p = len(v)
    if p < 3:
        raise ValueError(
            f"n_components='profile' splits a scree in two groups, and X of {spectrum.N:g} rows and "
            f"{spectrum.d} columns has {p} variances; it needs 3 at least: give a number"
        )
    v = v - v.mean()  # else the sums of squares would lose the digits of a flat scree
    q, sums = np.arange(1, p), np.cumsum(v)[:-1]
    total = float(v @ v)
    squares = total - sums**2 / q - sums**2 / (p - q)
    s2 = np.maximum(squares / (p - 2), max(np.finfo(float).eps * total, np.finfo(float).tiny))
    value = -0.5 * p * np.log(2 * math.pi * s2) - 0.5 * squares / s2
    return Selection("profile", int(np.argmax(value)) + 1, q, value)


def gcv(spectrum: Spectrum, max_components: int | None = None) -> Selection:
    """``N d ||X - X_q||^2 / ((n - q) (d - q))^2``, at its first minimum.

    Generalised cross-validation of the cells (Josse and Husson 2012); missMDA takes the first minimum
    too, since near full rank little is left of both parts of the fraction.
    """
    (N, n, d), theta = (spectrum.N, spectrum.n, spectrum.d), spectrum.theta
    q = np.arange(most_left_out(n, d, max_components) + 1)
    left = np.append(np.cumsum(theta[::-1])[::-1], 0.0)[q]
    value = N * d * left / ((n - q) * (d - q)) ** 2
    rises = np.append(np.diff(value) >= 0, True)
    return Selection("gcv", int(np.argmax(rises)), q, value)


def most_left_out(n: float, d: int, max_components: int | None) -> int:
    """Return the most components that leave residuals to predict cells by."""
    most = int(min(n, d)) - 1
    if most < 1:
        raise ValueError(
            f"X leaves {most + 1} component at most, so that there is none to leave out; give a number"
        )
    return most if max_components is None else min(most, max_components)


def minka(spectrum: Spectrum) -> Selection:
    """Return the rank that maximises Laplace's approximation of the evidence (Minka 2000, eq. 30)."""
    variances = spectrum.theta / (spectrum.N - 1)
    if len(variances) == 1:
        return Selection("mle", 1, np.ones(1, dtype=int), np.zeros(1))
    scaled = variances / (variances[0] or 1.0)  # a unit adds the same to the evidence of every rank
    ranks = np.arange(1, len(scaled))
    evidence = np.array([_log_evidence(scaled, int(rank), round(spectrum.N)) for rank in ranks])
    return Selection("mle", int(np.argmax(evidence)) + 1, ranks, evidence)


def _log_evidence(spectrum: np.ndarray, rank: int, n_samples: int) -> float:
    d, tiny = len(spectrum), 1e-15
    if spectrum[rank - 1] < tiny:
        return -np.inf
    sizes = d - np.arange(rank)
    uniform = np.sum(gammaln(sizes / 2) - np.log(np.pi) * sizes / 2) - rank * np.log(2.0)
    model = spectrum.copy()
    model[rank:] = max(tiny, spectrum[rank:].mean())
    fit = -np.sum(np.log(model)) * n_samples / 2
    i, j = np.triu_indices(rank, 1, d)
    volume = np.log(2 * np.pi) * (len(i) + rank) / 2
    with np.errstate(divide="ignore", invalid="ignore"):
        hessian = np.log((spectrum[i] - spectrum[j]) * (1 / model[j] - 1 / model[i]) * n_samples)
    value = uniform + fit + volume - hessian.sum() / 2 - rank * np.log(n_samples) / 2
    return float(value) if np.isfinite(value) else -np.inf


#: The methods that need the spectrum alone, and those that need the data.
BY_SPECTRUM: dict[str, Callable[..., Selection]] = {
    "gavish-donoho": gavish_donoho,
    "profile": profile,
    "broken-stick": broken_stick,
    "gcv": gcv,
    "mle": minka,
}
BY_DATA = ("parallel", "cv")
METHODS = (*BY_DATA, *BY_SPECTRUM)
