"""What robust PCA does to clean rows of many kinds: flags, loss of accuracy, and warnings.

``python -m experiments.robust_clean [--seeds 5] [--out results]`` fits rows without outliers and writes
robust_clean.md: the share of training rows and of new rows that are flagged at the default quantile
0.999, the squared error of new rows over that of PCA with as many components, and how often the fit
warned. The digits need no download.
"""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
from sklearn.datasets import load_digits

from dualpca import PCA, RobustPCA

#: Rows, columns and components; there are NEW more rows to measure.
SIZES = ((1000, 30, 5), (200, 20, 4), (80, 300, 4))
NEW = 2000

Rng = np.random.Generator
Kind = Callable[[Rng, int, int, int], np.ndarray]


def factors(
    scores: Callable[[Rng, int, int], np.ndarray],
    noise: Callable[[Rng, int, int], np.ndarray] = lambda rng, n, d: rng.normal(size=(n, d)),
    level: float = 0.3,
) -> Kind:
    """Rows ``Y A + level E``, with scores Y of s factors and noise E."""

    def rows(rng: Rng, n: int, d: int, s: int) -> np.ndarray:
        A = rng.normal(size=(s, d)) * (0.85 ** np.arange(s))[:, None]
        return scores(rng, n, s) @ A + level * noise(rng, n, d)

    return rows


def groups(count: int) -> Callable[[Rng, int, int], np.ndarray]:
    """Scores in equal groups, whose centres are 3 standard deviations from the middle on average."""
    return lambda rng, n, s: (
        3 * rng.normal(size=(count, s))[rng.integers(count, size=n)] + rng.normal(size=(n, s))
    )


def _gaussian(rng: Rng, n: int, s: int) -> np.ndarray:
    return rng.normal(size=(n, s))


def _elliptic_t(nu: float) -> Kind:
    """Gaussian rows, each divided by the root of its own chi-squared number."""
    base = factors(_gaussian)
    return lambda rng, n, d, s: base(rng, n, d, s) / np.sqrt(rng.chisquare(nu, size=(n, 1)) / nu)


def _digits(rng: Rng, n: int, d: int, s: int) -> np.ndarray:
    X = load_digits().data
    return X[rng.permutation(len(X))[:n]]


#: Rows by kind; all are good.
KINDS: dict[str, Kind] = {
    "Gaussian": factors(_gaussian),
    "Gaussian, little noise": factors(_gaussian, level=1e-3),
    "Gaussian, much noise": factors(_gaussian, level=2.0),
    "uniform": factors(lambda rng, n, s: rng.uniform(-1, 1, (n, s))),
    "Laplace": factors(
        lambda rng, n, s: rng.laplace(size=(n, s)), lambda rng, n, d: rng.laplace(size=(n, d))
    ),
    "exponential": factors(lambda rng, n, s: rng.exponential(size=(n, s))),
    "t5 scores": factors(lambda rng, n, s: rng.standard_t(5, (n, s))),
    "t5 scores and noise": factors(
        lambda rng, n, s: rng.standard_t(5, (n, s)), lambda rng, n, d: rng.standard_t(5, (n, d))
    ),
    "t5, elliptic": _elliptic_t(5),
    "t3 scores": factors(lambda rng, n, s: rng.standard_t(3, (n, s))),
    "t3, elliptic": _elliptic_t(3),
    "lognormal scores": factors(lambda rng, n, s: rng.lognormal(size=(n, s))),
    "lognormal columns": lambda rng, n, d, s: np.exp(0.5 * factors(_gaussian)(rng, n, d, s)),
    "Poisson": lambda rng, n, d, s: rng.poisson(rng.uniform(1, 10, d), (n, d)).astype(float),
    "Poisson, lognormal rates": lambda rng, n, d, s: rng.poisson(
        np.exp(1 + 0.3 * factors(_gaussian, level=0.0)(rng, n, d, s))
    ).astype(float),
    "yes or no": lambda rng, n, d, s: (factors(_gaussian)(rng, n, d, s) > 0).astype(float),
    "half of the scores 0": factors(
        lambda rng, n, s: rng.normal(size=(n, s)) * (rng.random((n, s)) < 0.5)
    ),
    "two groups": factors(groups(2)),
    "three groups": factors(groups(3)),
    "unequal noise": factors(
        _gaussian, lambda rng, n, d: rng.normal(size=(n, d)) * np.geomspace(0.1, 3, d)
    ),
    "on a curve": factors(
        lambda rng, n, s: (
            np.column_stack([rng.normal(size=(n, s - 1)), np.zeros(n)])
            + rng.normal(size=(n, 1)) ** 2 * (np.arange(s) == s - 1)
        )
    ),
    "images of digits": _digits,
}


def attempt(kind: str, size: tuple[int, int, int], seed: int) -> tuple[float, float, float, bool]:
    """Shares of flagged training and new rows, the error over that of PCA, and whether it warned."""
    N, d, s = size
    count = min(N + NEW, 1797) if kind == "images of digits" else N + NEW
    rows = KINDS[kind](np.random.default_rng([seed, N, d]), count, d, s)
    X, new = rows[:N], rows[N:]
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        model = RobustPCA(s, random_state=seed).fit(X)
    plain = PCA(s, random_state=seed).fit(X)
    errors = [
        float(((new - fit.inverse_transform(fit.transform(new))) ** 2).sum())
        for fit in (model, plain)
    ]
    flagged = float((model.predict(new) < 0).mean())
    doubts = any(issubclass(w.category, UserWarning) for w in said)
    return float(model.outliers_.mean()), flagged, errors[0] / errors[1], doubts


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--out", type=Path, default=Path("results"))
    args = parser.parse_args(arguments)
    heads = [f"{N} x {d}, {s}" for N, d, s in SIZES]
    lines = ["| good rows | " + " | ".join(heads) + " |", "|---" * (len(SIZES) + 1) + "|"]
    for kind in KINDS:
        cells = []
        for size in SIZES:
            runs = range(args.first, args.first + args.seeds)
            found = np.mean([attempt(kind, size, seed) for seed in runs], axis=0)
            warned = f", warned {found[3]:.0%}" if found[3] else ""
            cells.append(f"{found[0]:.2%}, {found[1]:.2%}, {found[2]:.3f}{warned}")
        lines.append(f"| {kind} | " + " | ".join(cells) + " |")
        print(lines[-1], flush=True)
    args.out.mkdir(parents=True, exist_ok=True)
    (args.out / "robust_clean.md").write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
