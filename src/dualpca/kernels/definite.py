"""Whether a kernel is positive semidefinite: by its name, or by the ends of the spectrum of K."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any

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


def definite_by_name(model: Any) -> bool:
    """Whether the kernel matrix has no negative eigenvalue, whatever the rows."""
    kernel = model.kernel if isinstance(model.kernel, str) else "a function"
    if kernel in ("poly", "polynomial"):
        return model.coef0 >= 0 and float(model.degree).is_integer()
    if kernel == "additive_chi2":  # minus a squared distance, which centring makes an inner product
        return bool(model.center)
    return kernel in ("linear", "rbf", "laplacian", "cosine", "chi2")


@dataclass(frozen=True)
class Ends:
    """The least eigenvalue of K on the components, the least of all, and the largest."""

    asked: float
    least: float
    largest: float

    def __mul__(self, scale: float) -> Ends:
        return Ends(self.asked * scale, self.least * scale, self.largest * scale)


def ends_of_spectrum(K: Operator, V: np.ndarray, seed: int) -> Ends:
    """Ritz values of K on the leading eigenvectors V, and on a Krylov space orthogonal to them.

    ``K.sweep`` is the product with the kernel matrix. No eigenvalue beside V is above the last of V, so
    that a negative one of that size is at an end of what is left, which block Lanczos from random
    vectors finds first.
    """
    N, s = V.shape
    asked = np.linalg.eigvalsh(_symmetric(V.T @ K.sweep(V))) if s else np.zeros(1)
    basis, images = V, []
    block = np.random.default_rng(seed).standard_normal((N, BLOCK)).astype(V.dtype)
    for _ in range(STEPS):
        block = block[:, : N - basis.shape[1]]
        if not block.shape[1]:
            break
        for _ in range(2):  # twice, as the first difference leaves the rounding of what cancels
            block = np.linalg.qr(block - basis @ (basis.T @ block))[0]
        basis = np.concatenate([basis, block], axis=1)
        block = np.asarray(K.sweep(block))
        images.append(block)
    others = asked
    if images:
        others = np.linalg.eigvalsh(_symmetric(basis[:, s:].T @ np.concatenate(images, axis=1)))
    low, high = min(asked[0], others[0]), max(asked[-1], others[-1])
    return Ends(float(asked[0]), float(low), float(high))


def _symmetric(S: np.ndarray) -> np.ndarray:
    S = S.astype(np.float64)
    return (S + S.T) / 2


def check_definite(
    model: Any, theta: np.ndarray, ends: Ends, noise: float = 0.0, *, by_size: bool = False
) -> None:
    """Refuse negative eigenvalues of K, or tell of them, beside the ``theta`` that were asked for.

    They count as rounding up to SLIGHT times the largest and up to ``noise``. Of the kernels that go by
    name those are refused of which a component would be negative, as scikit-learn does; a matrix or
    a function of the user's, and solvers that find eigenvalues ``by_size``, also where a negative one
    is as large as a component. The others are told of: theta is then the same for the nearest positive
    semidefinite matrix.
    """
    slight = SLIGHT["float32" if theta.dtype == np.float32 else "float64"]
    limit = max(slight * ends.largest, noise)
    if -ends.least <= limit:
        return
    by_name = isinstance(model.kernel, str) and model.kernel != "precomputed"
    least = limit if by_name and not by_size else -ends.least
    sound = int((theta > least).sum())
    what = (
        f"kernel={model.kernel!r} is not positive semidefinite on this data: its "
        f"{'matrix' if model.center is None or model.center is False else 'centred matrix'} has the "
        f"eigenvalue {ends.least:.3g}"
    )
    if -ends.asked > limit or (least > limit and sound < len(theta)):
        fewer = f"ask for n_components={sound}" if sound else "use other parameters"
        raise ValueError(
            f"{what}, and the last of {len(theta)} components would have {_last(theta, ends):.3g}; "
            f"{fewer}, or take a kernel that is positive semidefinite, such as 'rbf'"
        )
    warnings.warn(
        f"{what}, {-ends.least / ends.largest:.1e} of the largest; negative eigenvalues count as 0, "
        "which is the nearest positive semidefinite matrix. Use other parameters or another kernel "
        "where that is too far",
        PositiveSpectrumWarning,
        stacklevel=user_stacklevel(),
    )


def _last(theta: np.ndarray, ends: Ends) -> float:
    return float(theta[-1]) if theta[-1] > 0 else ends.asked
