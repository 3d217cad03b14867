"""Minka's choice of dimension for probabilistic PCA."""

from __future__ import annotations

import numpy as np
from scipy.special import gammaln

__all__ = ["minka_dimension"]


def minka_dimension(spectrum: np.ndarray, n_samples: int) -> int:
    """Return the rank that maximises Laplace's approximation of the evidence (Minka 2000, eq. 30).

    Parameters
    ----------
    spectrum : array of shape (n_features,)
        Variances in decreasing order.
    n_samples : int
    """
    spectrum = spectrum / (spectrum[0] or 1.0)  # a unit adds the same to the evidence of every rank
    evidence = [_log_evidence(spectrum, rank, n_samples) for rank in range(1, len(spectrum))]
    return int(np.argmax(evidence)) + 1 if evidence else 1


def _log_evidence(spectrum: np.ndarray, rank: int, n_samples: int) -> float:
    d = len(spectrum)
    tiny = 1e-15
    if spectrum[rank - 1] < tiny:
        return -np.inf
    i = np.arange(1, rank + 1)
    uniform = -rank * np.log(2.0) + np.sum(
        gammaln((d - i + 1) / 2) - np.log(np.pi) * (d - i + 1) / 2
    )
    fit = -np.sum(np.log(spectrum[:rank])) * n_samples / 2
    noise = max(tiny, np.sum(spectrum[rank:]) / (d - rank))
    fit -= np.log(noise) * n_samples * (d - rank) / 2
    m = d * rank - rank * (rank + 1) / 2
    volume = np.log(2 * np.pi) * (m + rank) / 2
    inner = spectrum.copy()
    inner[rank:] = noise
    hessian = 0.0
    for k in range(rank):
        gap = spectrum[k] - spectrum[k + 1 :]
        curvature = 1 / inner[k + 1 :] - 1 / inner[k]
        with np.errstate(divide="ignore", invalid="ignore"):
            hessian += np.sum(np.log(gap * curvature)) + np.log(n_samples) * (d - 1 - k)
    value = uniform + fit + volume - hessian / 2 - rank * np.log(n_samples) / 2
    return float(value) if np.isfinite(value) else -np.inf
