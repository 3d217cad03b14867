"""The classifier of Table 11."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from joblib import Parallel, delayed
from sklearn.exceptions import ConvergenceWarning
from sklearn.neural_network import MLPClassifier

from .claims import Check, verdict
from .engine import Results
from .robust_settings import CLEAN, DUAL, PLAIN, PRIMAL, RBF, differences, listed

SEEDS, EPOCHS = (0, 1), 100


def accuracy(
    train: np.ndarray, y: np.ndarray, test: np.ndarray, y_test: np.ndarray, seed: int
) -> float:
    """Test accuracy, in percent, of one hidden layer of 20 neurons."""
    network = MLPClassifier((20,), learning_rate_init=3e-3, random_state=seed, max_iter=EPOCHS)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        network.fit(train, y)
    return 100 * network.score(test, y_test)


def accuracies(
    train: np.ndarray, y: np.ndarray, test: np.ndarray, y_test: np.ndarray
) -> dict[str, Any]:
    """Mean and deviation over the seeds, each on a core of its own.

    Features are divided by one number, the median over the training rows of their root mean square,
    which the step size of Adam would otherwise depend on.
    """
    scale = float(np.median(np.sqrt(np.mean(train**2, axis=1))))
    found = Parallel(n_jobs=len(SEEDS))(
        delayed(accuracy)(train / scale, y, test / scale, y_test, seed) for seed in SEEDS
    )
    return {"value": float(np.mean(found)), "std": float(np.std(found, ddof=1)), "runs": found}


def noise(results: Results) -> dict[str, float]:
    """The largest difference between Algorithms 5 and 6, whose features span the same space."""
    printed = [
        float(a[0]) - float(b[0])
        for cell in results.cells
        for a, b in [(results.published(PRIMAL, cell), results.published(DUAL, cell))]
        if a and b
    ]
    here = differences(results, PRIMAL, DUAL)
    return {"here": max(map(abs, here)), "print": max(map(abs, printed))}


def better(results: Results) -> tuple[str, str]:
    """Whether every robust setting is above linear PCA on contaminated data; the least margin."""
    margin = min(min(differences(results, method, PLAIN)) for method in (PRIMAL, DUAL, RBF))
    return verdict(margin > 0), f"least margin over linear PCA {margin:+.2f} points"


def on_par(method: str, beside: str | None = None) -> Check:
    """Whether a setting is not below linear PCA on clean data by more than the noise."""

    def run(results: Results) -> tuple[str, str]:
        found = differences(results, method, CLEAN)
        told = listed(found, "+.2f") + " points"
        if beside and not results.in_print:
            told += f"; {beside}: " + listed(differences(results, beside, CLEAN), "+.2f")
        return verdict(min(found) >= -noise(results)["here"]), told

    return run
