"""What is raced: matrices, already centred where dense, so that every method solves one problem."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp


@dataclass(frozen=True)
class Case:
    """A matrix and the number of components asked of it; ``make`` returns None without the data.

    Cases of one matrix share the function ``make``, by which the race knows not to make it again.
    """

    name: str
    s: int
    make: Callable[[], Any]
    quick: bool = False


def _centre(A: np.ndarray) -> np.ndarray:
    return A - A.mean(axis=0)


@lru_cache
def gaussian(N: int, d: int) -> Callable[[], np.ndarray]:
    """Independent standard normal entries; one function for each shape."""
    return lambda: _centre(np.random.default_rng(0).standard_normal((N, d)))


@lru_cache(maxsize=1)
def _rotations(N: int) -> tuple[np.ndarray, np.ndarray]:
    """Two random orthogonal matrices: seconds of QR, so the spectra share them."""
    rng = np.random.default_rng(0)
    U, V = (np.linalg.qr(rng.standard_normal((N, N)))[0] for _ in range(2))
    return U, V


def spectrum(sigma: Callable[[np.ndarray], np.ndarray], N: int = 3500) -> Callable[[], np.ndarray]:
    """The singular values ``sigma(1..N)`` between random orthogonal matrices."""

    def make() -> np.ndarray:
        U, V = _rotations(N)
        return _centre((U * sigma(np.arange(1, N + 1))) @ V.T)

    return make


def data_folder() -> Path | None:
    """The folder named by DUALPCA_DATA."""
    folder = os.environ.get("DUALPCA_DATA")
    return Path(folder) if folder else None


def _file(name: str) -> Path | None:
    folder = data_folder()
    return folder / name if folder and (folder / name).exists() else None


def mnist() -> np.ndarray | None:
    """The 60,000 training images, grey values in [0, 1]."""
    path = _file("mnist.npz")
    if path is None:
        return None
    return _centre(np.load(path)["x_train"].reshape(60000, 784).astype(np.float64) / 255)


def glove() -> np.ndarray | None:
    """The vectors of 100,000 words, 50 numbers each."""
    path = _file("glove50_100k.npz")
    return None if path is None else _centre(np.load(path)["vectors"].astype(np.float64))


def single_cell() -> sp.csr_array | None:
    """Counts of genes in single cells; not centred, so that the matrix stays sparse."""
    path = _file("pbmc3k_counts.npz")
    if path is None:
        return None
    parts = np.load(path)
    arrays = {key: parts[key] for key in parts.files}
    return sp.csr_array(
        (arrays["data"].astype(np.float64), arrays["indices"], arrays["indptr"]),
        shape=tuple(arrays["shape"]),
    )


def sparse() -> sp.csr_array:
    """0.5 % of the entries uniform, columns scaled by 1/sqrt(1 + j); not centred."""
    rng = np.random.default_rng(0)
    A = sp.random_array((100_000, 20_000), density=0.005, rng=rng, format="csr")
    return A @ sp.diags_array(1.0 / np.sqrt(1 + np.arange(20_000)))


CASES = [
    Case("gaussian 4000x2000", 20, gaussian(4000, 2000), quick=True),
    Case("gaussian 2000x4000", 20, gaussian(2000, 4000), quick=True),
    Case("gaussian 4500x4500", 20, gaussian(4500, 4500)),
    Case("gaussian 3000x2000", 20, gaussian(3000, 2000)),
    Case("gaussian 2000x3000", 20, gaussian(2000, 3000)),
    Case("gaussian 3500x3500", 20, gaussian(3500, 3500)),
    Case("decay 3500", 20, spectrum(lambda i: 100 * 0.9**i), quick=True),
    Case("linear to 100, 3500", 20, spectrum(lambda i: 500 - (i - 1) * 400 / 3499)),
    Case("linear to 0, 3500", 20, spectrum(lambda i: 500 - (i - 1) * (500 - 1e-8) / 3499)),
    *(Case(f"gaussian 2000x2000, s={s}", s, gaussian(2000, 2000)) for s in (10, 40, 80)),
    *(Case(f"gaussian 2000x{d}, s=30", 30, gaussian(2000, d)) for d in (500, 2000, 6000)),
    *(Case(f"mnist, s={s}", s, mnist, quick=s == 50) for s in (30, 50, 100, 150)),
    *(Case(f"glove, s={s}", s, glove, quick=s == 20) for s in (10, 15, 20, 30)),
    Case("single cell", 50, single_cell, quick=True),
    Case("sparse 100000x20000", 20, sparse),
    Case("wide 100x200000", 10, gaussian(100, 200_000), quick=True),
]
