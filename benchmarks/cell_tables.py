"""Tables with holes, wrong cells and bad rows, whose truth is known: what the cell race is run on."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.stats import rankdata
from sklearn.datasets import load_digits, load_wine
from sklearn.preprocessing import scale

#: Rows of the settings, the components of their signal and the share of variance these hold.
ROWS, COMPONENTS, SHARE = 100, 2, 0.9

#: The share of rows and of cells that each case makes bad, and of cells that it deletes.
CASES = {
    "rows": (0.2, 0.0, 0.0),
    "cells": (0.0, 0.2, 0.0),
    "rows and cells": (0.1, 0.1, 0.0),
    "missing": (0.0, 0.0, 0.2),
}

#: Shares of deleted cells where nothing is wrong.
DELETED = (0.05, 0.1, 0.2, 0.4)


@dataclass(frozen=True)
class Table:
    """X as a method sees it, the truth, k components, the cells that are judged, and the axes, p x k."""

    X: np.ndarray
    truth: np.ndarray
    k: int
    judged: np.ndarray
    axes: np.ndarray


def correlation(kind: str, p: int, rng: np.random.Generator) -> np.ndarray:
    """A09: ``(-0.9)^|i-j|``; ALYZ: random axes with variances from 1 to 100, scaled to a correlation."""
    if kind == "A09":
        return (-0.9) ** np.abs(np.subtract.outer(np.arange(p), np.arange(p)))
    variances = np.concatenate([[1.0], np.sort(rng.uniform(1, 100, p - 2)), [100.0]])
    U = np.linalg.qr(rng.standard_normal((p, p)))[0]
    S = (U * variances) @ U.T
    deviation = np.sqrt(np.diag(S))
    return S / np.outer(deviation, deviation)


def low_rank(S: np.ndarray, k: int, share: float) -> tuple[np.ndarray, np.ndarray]:
    """Return variances and axes, decreasing: the first k hold a share, the others are equal noise."""
    variances, U = np.linalg.eigh(S)
    variances, U, p = variances[::-1].copy(), U[:, ::-1], len(S)
    variances[:k] *= share * p / variances[:k].sum()
    variances[k:] = (1 - share) * p / (p - k)
    return variances, U


def setting(
    kind: str, p: int, case: str, gamma: float, seed: int, n: int = ROWS, k: int = COMPONENTS
) -> Table:
    """Normal rows, some of them moved along the last axis, some cells at gamma deviations, some deleted.

    A bad row is at the Mahalanobis distance ``gamma sqrt(p)``, with a tenth of the usual spread around
    it. Judged are cells that were not changed, of rows that were not moved; deleted cells are judged too.
    """
    rng = np.random.default_rng(seed)
    variances, U = low_rank(correlation(kind, p, rng), k, SHARE)
    truth = rng.standard_normal((n, p)) * np.sqrt(variances) @ U.T
    rows, cells, holes = CASES[case]
    X, moved = truth.copy(), np.arange(n) < rows * n
    far = gamma * np.sqrt(p * variances[-1]) * U[:, -1]
    X[moved] = far + 0.1 * truth[moved]
    wrong = (rng.random((n, p)) < cells) & ~moved[:, None]
    deviation = np.sqrt((U**2) @ variances)
    X[wrong] = np.broadcast_to(gamma * deviation, X.shape)[wrong]
    X[rng.random((n, p)) < holes] = np.nan
    return Table(X, truth, k, ~wrong & ~moved[:, None], U[:, :k])


def complete_tables(seed: int) -> dict[str, tuple[np.ndarray, int]]:
    """Return tables without holes and a number of components for each."""
    rng = np.random.default_rng(seed)
    digits = load_digits().data
    digits = digits[rng.choice(len(digits), 300, replace=False)]
    p = np.arange(20)
    S = 0.8 ** np.abs(np.subtract.outer(p, p))
    return {
        "digits, 300 rows": (digits[:, (digits != 0).mean(axis=0) > 0.05], 10),
        "wine, standardised": (scale(load_wine().data), 3),
        "Gaussian, AR(0.8)": (rng.multivariate_normal(np.zeros(len(p)), S, 200), 5),
    }


def with_holes(truth: np.ndarray, k: int, share: float, at_random: bool, seed: int) -> Table:
    """Delete a share of the cells, all alike, or with chances in proportion to ranks in their column."""
    rng = np.random.default_rng(seed)
    chance = np.full(truth.shape, share)
    if not at_random:
        chance = 2 * share * rankdata(truth, axis=0) / len(truth)
    holes = rng.random(truth.shape) < chance
    axes = np.linalg.svd(truth - truth.mean(axis=0), full_matrices=False)[2][:k].T
    return Table(np.where(holes, np.nan, truth), truth, k, holes, axes)
