"""The data: Gaussian matrices, given spectra, MNIST and GloVe, and digits in their place."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path

import numpy as np
from sklearn.datasets import fetch_openml, load_digits

from .engine import Cell, Context, MissingDataError
from .robust_data import Pictures, contaminated

#: The spectra of Table 6 by their published names, as functions of i = 1..N and N.
SPECTRA: dict[str, Callable[[np.ndarray, int], np.ndarray]] = {
    "100*0.9^i": lambda i, N: 100 * 0.9**i,
    "500-(i-1)*400/(N-1)": lambda i, N: 500 - (i - 1) * 400 / (N - 1),
    "500-(i-1)*(500-1e-8)/(N-1)": lambda i, N: 500 - (i - 1) * (500 - 1e-8) / (N - 1),
}


def gaussian(cell: Cell, context: Context) -> np.ndarray:
    """Independent standard normal entries."""
    return np.random.default_rng(0).standard_normal((cell["N"], cell["d"]))


@lru_cache(maxsize=1)
def _rotations(N: int) -> tuple[np.ndarray, np.ndarray]:
    """Two random orthogonal matrices: seconds of QR, so the spectra share them."""
    rng = np.random.default_rng(0)
    U, V = (np.linalg.qr(rng.standard_normal((N, N)))[0] for _ in range(2))
    return U, V


def spectrum(cell: Cell, context: Context) -> np.ndarray:
    """The singular values of a column of Table 6 between random orthogonal matrices."""
    N = cell["N"]
    U, V = _rotations(N)
    return (U * SPECTRA[cell["spectrum"]](np.arange(1, N + 1), N)) @ V.T


def folder(context: Context) -> Path | None:
    """The folder of the data: as asked for, or that of DUALPCA_DATA."""
    named = context.data or os.environ.get("DUALPCA_DATA")
    return Path(named) if named else None


def _file(context: Context, name: str) -> Path | None:
    where = folder(context)
    return where / name if where is not None and (where / name).is_file() else None


@lru_cache(maxsize=1)
def _mnist(path: Path | None) -> tuple[np.ndarray, np.ndarray]:
    if path is not None:
        with np.load(path) as file:
            parts = [[file.get(f"{kind}_{part}") for part in ("train", "test")] for kind in "xy"]
        if any(array is None for pair in parts for array in pair):
            raise MissingDataError(f"{path} must hold x_train, y_train, x_test and y_test")
        X, y = (np.concatenate(pair) for pair in parts)
        return X.reshape(len(X), -1), y
    try:
        X, y = fetch_openml("mnist_784", version=1, return_X_y=True, as_frame=False)
    except Exception as error:
        raise MissingDataError(
            "MNIST is not there: set DUALPCA_DATA (or pass --data) to a folder with mnist.npz "
            f"(x_train, y_train, x_test, y_test); fetching it from OpenML failed: {error}"
        ) from error
    return X.astype(np.uint8), y.astype(int)


def pictures(context: Context, dtype: type = np.float64) -> tuple[np.ndarray, np.ndarray]:
    """All 70000 pictures of MNIST, pixels in [0, 1], and their labels; digits for a reduced run."""
    if context.quick:
        X, y = load_digits(return_X_y=True)
        return X / 16, y
    X, y = _mnist(_file(context, "mnist.npz"))
    return X.astype(dtype) / dtype(255), y


def mnist(cell: Cell, context: Context) -> np.ndarray:
    """The 60000 training pictures, pixels in [0, 1], not centred."""
    return pictures(context)[0][: cell["N"]]


def glove(cell: Cell, context: Context) -> np.ndarray:
    """100000 word vectors of 50 numbers, not centred."""
    if context.quick:
        return load_digits().data[:, : cell["d"]] / 16
    path = _file(context, "glove50_100k.npz")
    if path is None:
        raise MissingDataError(
            "the GloVe vectors are not there: set DUALPCA_DATA (or pass --data) to a folder with "
            "glove50_100k.npz (vectors, 100000 x 50)"
        )
    with np.load(path) as file:
        return file["vectors"].astype(np.float64)


@lru_cache(maxsize=1)
def contaminated_pictures(context: Context) -> tuple[Pictures, np.ndarray, np.ndarray]:
    """The paper's 80/20 split and 15 % of contaminated training rows; labels of both parts."""
    X, y = pictures(context, np.float32)
    found = contaminated(X, 0)
    y = y[np.random.default_rng(0).permutation(len(y))]  # the split draws its permutation first
    return found, y[: len(found.X)], y[len(found.X) :]
