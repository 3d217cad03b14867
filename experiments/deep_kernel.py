"""Stacked kernel PCA beside kernel PCA on MNIST: ``python -m experiments.deep_kernel``.

Each seed draws training and test rows. A linear classifier (logistic regression of scores that are
scaled to unit variance) learns from as many features of each method: those of the last level, and those
of both levels together. Shares of variance are in percent: that of the first component and of all, in
the feature space of the data (level 1), and in that of the last level. With ``--landmarks M`` every
kernel, also that of one level, goes through M Nystroem features, so that time is linear in the rows.
MNIST is read from the folder DUALPCA_DATA.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from typing import Any

import numpy as np
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from dualpca import DeepKernelPCA, KernelPCA

from .data import pictures
from .engine import Context

#: Components of the two levels.
WIDTHS = (30, 10)
COUPLINGS = (0.0, 0.1, 1.0)
TEST_ROWS = 2000

#: What is measured, in the order of the table.
MEASURED = ("accuracy", "level 1 first", "level 1", "last level")


def split(X: np.ndarray, y: np.ndarray, n: int, seed: int) -> tuple[np.ndarray, ...]:
    """Return n training rows and at most TEST_ROWS others, with their labels."""
    rows = np.random.default_rng(seed).permutation(len(X))[: n + TEST_ROWS]
    return X[rows[:n]], y[rows[:n]], X[rows[n:]], y[rows[n:]]


def accuracy(train: np.ndarray, y: np.ndarray, test: np.ndarray, y_test: np.ndarray) -> float:
    """Return the test accuracy of a linear classifier, in percent."""
    classifier = make_pipeline(StandardScaler(), LogisticRegression(max_iter=5000))
    return 100 * float(classifier.fit(train, y).score(test, y_test))


def level(n_components: int, landmarks: int | None, **options: Any) -> KernelPCA:
    """Return kernel PCA that is not fitted: of all kernels, or of those of landmarks."""
    if landmarks is not None:
        options |= {"approximation": "nystroem", "n_landmarks": landmarks}
    return KernelPCA(n_components, kernel="rbf", gamma="median", **options)


def one_level(
    X: np.ndarray, n_components: int, landmarks: int | None, seed: int
) -> tuple[Any, list[float]]:
    """Fit kernel PCA; return it and its shares of variance."""
    model = level(n_components, landmarks, tol=1e-6, random_state=seed).fit(X)
    shares = 100 * model.explained_variance_ratio_
    return model, [shares[0], shares.sum(), shares.sum()]


def stacked(
    X: np.ndarray, widths: tuple[int, ...], coupling: float, landmarks: int | None, seed: int
) -> tuple[Any, list[float]]:
    """Fit stacked kernel PCA; return it and its shares of variance."""
    levels = [level(s, landmarks) for s in widths]
    model = DeepKernelPCA(levels, coupling=coupling, random_state=seed).fit(X)
    first, last = (100 * model.level_variance_ratios_[j] for j in (0, -1))
    return model, [first.max(), first.sum(), last.sum()]


def compare(
    X: np.ndarray,
    y: np.ndarray,
    n: int,
    seed: int,
    widths: tuple[int, ...] = WIDTHS,
    landmarks: int | None = None,
) -> Iterator[tuple[str, list[float]]]:
    """Yield each method with what MEASURED names, for one draw of rows."""
    train, labels, test, truth = split(X, y, n, seed)
    for count in (widths[-1], sum(widths)):
        model, shares = one_level(train, count, landmarks, seed)
        found = accuracy(model.transform(train), labels, model.transform(test), truth)
        yield f"one level, {count} features", [found, *shares]
    for coupling in COUPLINGS:
        model, shares = stacked(train, widths, coupling, landmarks, seed)
        name = f"two levels, coupling {coupling:g}"
        hidden = [model.hidden_features_, model.transform_levels(test)]
        found = accuracy(hidden[0][-1], labels, hidden[1][-1], truth)
        yield f"{name}, {widths[-1]} features", [found, *shares]
        both = [np.concatenate(levels, axis=1) for levels in hidden]
        found = accuracy(both[0], labels, both[1], truth)
        yield f"{name}, {sum(widths)} features", [found, *shares]


def table(
    X: np.ndarray,
    y: np.ndarray,
    n: int,
    seeds: int,
    widths: tuple[int, ...] = WIDTHS,
    landmarks: int | None = None,
) -> str:
    """Return means and standard deviations over seeds as Markdown; one seed has no deviation."""
    found: dict[str, list[list[float]]] = {}
    for seed in range(seeds):
        for name, values in compare(X, y, n, seed, widths, landmarks):
            found.setdefault(name, []).append(values)
    lines = [f"| {n} rows | {' | '.join(MEASURED)} |", "|---" * (len(MEASURED) + 1) + "|"]
    for name, values in found.items():
        means, deviations = np.mean(values, axis=0), np.std(values, axis=0, ddof=min(seeds - 1, 1))
        pairs = zip(means, deviations, strict=True)
        cells = (f"{m:.2f} ({d:.2f})" if seeds > 1 else f"{m:.2f}" for m, d in pairs)
        lines.append(f"| {name} | {' | '.join(cells)} |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, nargs="+", default=[1000])
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--landmarks", type=int, help="Nystroem features of each level")
    options = parser.parse_args()
    X, y = pictures(Context())
    for n in options.rows:
        print(table(X, y, n, options.seeds, landmarks=options.landmarks), end="\n\n", flush=True)


if __name__ == "__main__":
    main()
