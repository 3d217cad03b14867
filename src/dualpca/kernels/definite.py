"""Positive semidefiniteness of a kernel: by its name, or by the ends of the spectrum of K."""

from __future__ import annotations

import warnings
from typing import Any, NamedTuple

import numpy as np
from sklearn.exceptions import PositiveSpectrumWarning

from ..operators import Operator
from ..solvers.solve import user_stacklevel

#: A negative eigenvalue counts as rounding up to this share of the largest, as in scikit-learn.
SLIGHT = {"float64": 1e-5, "float32": 5e-3}

#: Vectors and steps of the Lanczos run that looks for negative eigenvalues. Kuczynski and Wozniakowski
#: (1992): whatever the spectrum, it misses one that is twice as large as every positive one beside V
#: with a probability below 1e-6, up to 30,000 rows.
BLOCK, STEPS = 8, 7


def definite_by_name(kernel: Any, degree: float, coef0: float, centered: bool) -> bool:
    """Return whether a kernel has no negative eigenvalue, whatever the rows."""
    if not isinstance(kernel, str):
        return False
    if kernel in ("poly", "polynomial"):
        return coef0 >= 0 and float(degree).is_integer()
    if kernel == "additive_chi2":  # minus a squared distance, which centring makes an inner product
        return centered
    return kernel in ("linear", "rbf", "laplacian", "cosine", "chi2")


class Ends(NamedTuple):
    """The least eigenvalue of K on the components, the least of all, and the largest."""

    of_components: float
    least: float
    largest: float


def ends_of_spectrum(K: Operator, V: np.ndarray, seed: int, scale: float = 1.0) -> Ends:
    """Return Ritz values of ``K / scale^2`` on the leading eigenvectors V and on a Krylov space.

    ``K.sweep`` is the product with the kernel matrix. The Krylov space is orthogonal to V, where no
    eigenvalue exceeds the last one of V: a negative one of that size is then at an end of the spectrum,
    which block Lanczos from random vectors finds first.
    """
    N, s = V.shape
    values = _eigenvalues(V.T @ K.sweep(V)) if s else np.zeros(1)
    least, largest, basis, images = values[0], values[-1], V, []
    block = np.random.default_rng(seed).standard_normal((N, BLOCK)).astype(V.dtype)
    for _ in range(STEPS):
        block = block[:, : N - basis.shape[1]]
        if not block.shape[1]:
            break
        for _ in range(2):  # the second step removes the rounding of the first
            block = np.linalg.qr(block - basis @ (basis.T @ block))[0]
        basis = np.concatenate([basis, block], axis=1)
        block = np.asarray(K.sweep(block))
        images.append(block)
    if images:
        others = _eigenvalues(basis[:, s:].T @ np.concatenate(images, axis=1))
        least, largest = min(least, others[0]), max(largest, others[-1])
    return Ends(*(float(value) / scale**2 for value in (values[0], least, largest)))


def _eigenvalues(S: np.ndarray) -> np.ndarray:
    S = S.astype(np.float64)
    return np.linalg.eigvalsh((S + S.T) / 2)


def check_definite(
    kernel: Any,
    centered: bool,
    theta: np.ndarray,
    ends: Ends,
    noise: float = 0.0,
    *,
    by_size: bool = False,
) -> None:
    """Refuse negative eigenvalues of K beside the eigenvalues ``theta`` of the components, or warn.

    They count as rounding up to SLIGHT times the largest and up to ``noise``. A kernel with a name is
    refused if a component would be negative, as scikit-learn does; a matrix or a function of the user,
    and a solver that finds eigenvalues ``by_size``, also if a negative eigenvalue is as large as a
    component. Otherwise a warning says that theta belongs to the nearest positive semidefinite matrix.
    """
    slight = SLIGHT["float32" if theta.dtype == np.float32 else "float64"]
    limit = max(slight * ends.largest, noise)
    if -ends.least <= limit:
        return
    by_name = isinstance(kernel, str) and kernel != "precomputed"
    least = limit if by_name and not by_size else -ends.least
    sound = int((theta > least).sum())
    problem = (
        f"kernel={kernel!r} is not positive semidefinite on this data: its "
        f"{'centred ' if centered else ''}matrix has the eigenvalue {ends.least:.3g}"
    )
    if -ends.of_components > limit or (least > limit and sound < len(theta)):
        last = float(theta[-1]) if theta[-1] > 0 else ends.of_components
        fewer = f"ask for n_components={sound}" if sound else "use other parameters"
        raise ValueError(
            f"{problem}, and the last of {len(theta)} components would have {last:.3g}; {fewer}, or "
            "take a kernel that is positive semidefinite, such as 'rbf'"
        )
    warnings.warn(
        f"{problem}, {-ends.least / ends.largest:.1e} of the largest; negative eigenvalues count as 0, "
        "which is the nearest positive semidefinite matrix. Use other parameters or another kernel "
        "where that is too far",
        PositiveSpectrumWarning,
        stacklevel=user_stacklevel(),
    )
