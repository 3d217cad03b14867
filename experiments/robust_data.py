"""Data of the comparison: haystack models, contaminated digits, the classics, labelled outlier sets.

Files are looked for under the folder that the environment variable DUALPCA_DATA names.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from scipy.stats import median_abs_deviation
from sklearn.datasets import load_digits

#: Kinds of outliers, and their norm relative to the inliers' (root mean square).
OUTLIERS = {
    "isotropic": ("isotropic", 1.0),
    "large-norm": ("isotropic", 10.0),
    "line": ("line", 1.0),
    "line x10": ("line", 10.0),
    "cluster": ("cluster", 1.0),
    "cluster x10": ("cluster", 10.0),
    "subspace": ("subspace", 1.0),
}

#: Standard deviation of the noise that is added to a contaminated picture, whose pixels are in [0, 1].
PIXEL_NOISE = 15.0


@dataclass(frozen=True)
class Haystack:
    """Rows, the basis (s x d) of the inliers' subspace, and which rows are outliers."""

    X: np.ndarray
    basis: np.ndarray
    outlier: np.ndarray


def haystack(
    kind: str,
    fraction: float,
    seed: int,
    *,
    noise: float,
    offset: float,
    N: int,
    d: int,
    s: int,
) -> Haystack:
    """Gaussian inliers in a random s-dimensional subspace beside a fraction of outliers.

    The inliers have root mean square norm 1, the noise on every row has ``noise``, and the centre is
    a random point of norm ``offset``. A cluster's rows are about 0.05 of its norm apart from its
    centre.
    """
    rng = np.random.default_rng([seed, round(100 * fraction)])
    shape, norm = OUTLIERS[kind]
    count = round(fraction * N)
    basis = _orthonormal(rng, s, d)
    inliers = rng.normal(size=(N - count, s)) @ basis / np.sqrt(s)
    direction = _orthonormal(rng, 1, d)
    if shape == "isotropic":
        outliers = rng.normal(size=(count, d)) / np.sqrt(d)
    elif shape == "line":
        outliers = rng.normal(size=(count, 1)) * direction
    elif shape == "cluster":
        outliers = direction + 0.05 * rng.normal(size=(count, d)) / np.sqrt(d)
    else:
        outliers = rng.normal(size=(count, s)) @ _orthonormal(rng, s, d) / np.sqrt(s)
    X = np.vstack([inliers, norm * outliers])
    X += noise / np.sqrt(d) * rng.normal(size=X.shape) + offset * _orthonormal(rng, 1, d)
    order = rng.permutation(N)
    return Haystack(X[order], basis, order >= N - count)


def _orthonormal(rng: np.random.Generator, s: int, d: int) -> np.ndarray:
    return np.linalg.qr(rng.normal(size=(d, s)))[0].T


def sine(basis: np.ndarray, components: np.ndarray) -> float:
    """Sine of the largest principal angle from span(basis), orthonormal, to span(components)."""
    Q = np.linalg.qr(components.T)[0]
    V = basis.T
    return float(np.linalg.norm(V - Q @ (Q.T @ V), 2))


@dataclass(frozen=True)
class Pictures:
    """Training rows, the same uncontaminated, the contaminated ones, and clean test rows."""

    X: np.ndarray
    clean: np.ndarray
    outlier: np.ndarray
    test: np.ndarray


def contaminated(pictures: np.ndarray, seed: int, rows: int | None = None) -> Pictures:
    """An 80/20 split, 15 % of whose training rows get N(0, 15²) added to every pixel.

    ``rows`` keeps that many training rows only.
    """
    rng = np.random.default_rng(seed)
    order = rng.permutation(len(pictures))
    cut = round(0.8 * len(pictures))
    clean, test = pictures[order[:cut][:rows]], pictures[order[cut:]]
    outlier = np.zeros(len(clean), dtype=bool)
    outlier[rng.choice(len(clean), round(0.15 * len(clean)), replace=False)] = True
    X = clean.copy()
    X[outlier] += PIXEL_NOISE * rng.normal(size=X[outlier].shape)
    return Pictures(X, clean, outlier, test)


def digits() -> np.ndarray:
    """scikit-learn's digits, pixels in [0, 1]."""
    return load_digits().data / 16


def data_folder() -> Path | None:
    """The folder of DUALPCA_DATA, or None where it is not set or not there."""
    name = os.environ.get("DUALPCA_DATA")
    return Path(name) if name and Path(name).is_dir() else None


def mnist(folder: Path) -> np.ndarray | None:
    """The 70000 pictures as rows, pixels in [0, 1], or None without the file."""
    path = folder / "mnist.npz"
    if not path.exists():
        return None
    with np.load(path) as file:
        X = np.concatenate([file["x_train"], file["x_test"]])
    return X.reshape(len(X), -1) / 255


@dataclass(frozen=True)
class Classic:
    """A small data set of the literature; ``outlier`` is None where the outliers are not agreed on."""

    name: str
    X: np.ndarray
    ks: tuple[int, ...]
    outlier: np.ndarray | None


def classics(folder: Path) -> Iterator[Classic]:
    """Octane, hbk and bus (without its ninth column, columns divided by their MAD), as far as present."""
    if (path := folder / "classic" / "rrcov_octane.csv").exists():
        X = _csv(path)[:, 2:]
        yield Classic("octane", X, (2,), _rows(len(X), [25, 26, *range(36, 40)]))
    if (path := folder / "classic" / "robustbase_hbk.csv").exists():
        X = _csv(path)[:, 1:]
        yield Classic("hbk", X, (2, 3), _rows(len(X), range(1, 15)))
    if (path := folder / "classic" / "rrcov_bus.csv").exists():
        X = np.delete(_csv(path)[:, 1:], 8, axis=1)
        yield Classic("bus", X / median_abs_deviation(X, axis=0, scale="normal"), (3,), None)


def _csv(path: Path) -> np.ndarray:
    """A table with a header line; row names in quotes or not, as numbers."""
    lines = path.read_text().replace('"', "").splitlines()[1:]
    return np.array([line.split(",") for line in lines], dtype=float)


def _rows(N: int, numbers: range | list[int]) -> np.ndarray:
    """True at the rows of these numbers, counted from 1."""
    return np.isin(np.arange(1, N + 1), list(numbers))


def outlier_sets(folder: Path) -> Iterator[tuple[str, np.ndarray, np.ndarray]]:
    """Name, rows and which are anomalies.

    Columns are standardised by median and MAD, by median and standard deviation where the MAD is 0;
    constant columns are dropped.
    """
    for path in sorted((folder / "outliers").glob("*.npz")):
        with np.load(path) as file:
            X, y = np.asarray(file["X"], dtype=float), np.asarray(file["y"]).ravel() > 0
        X = X[:, np.ptp(X, axis=0) > 0]
        scale = median_abs_deviation(X, axis=0, scale="normal")
        scale = np.where(scale > 0, scale, X.std(axis=0))
        yield path.stem, (X - np.median(X, axis=0)) / scale, y
