"""Sparse PCA of the pit props beside published figures: ``python -m experiments.pitprops``.

The data is a correlation matrix (Jeffers 1967); its square root serves as X. Variance is in percent of
the 13 that the matrix has: *adjusted* after Zou, Hastie and Tibshirani (2006), *span* the variance of
the projection on the loadings after Shen and Huang (2008).
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

from dualpca import SparsePCA

from .robust_data import data_folder

#: Nonzeros of the six components; the method, and the adjusted variance and that in the span of the
#: loadings printed there.
PUBLISHED = {
    (7, 4, 4, 1, 1, 1): ("SPCA, Zou et al. 2006, Table 3", 75.77, 80.22),
    (6, 2, 1, 2, 1, 1): ("TPower, Yuan and Zhang 2013", 72.02, 77.00),
}

WAYS = {
    "deflation, projection": {"deflation": "projection"},
    "deflation, orthogonal": {"deflation": "orthogonal"},
    "deflation, schur": {"deflation": "schur"},
    "block": {"method": "block", "n_starts": 50},
    "reconstruction": {"method": "reconstruction", "n_starts": 50},
}


def root(path: Path) -> np.ndarray:
    """A symmetric X with ``X^T X`` the correlation matrix in the file."""
    C = np.loadtxt(path, delimiter=",", skiprows=1, usecols=range(1, 14))
    theta, V = np.linalg.eigh(C)
    return (V * np.sqrt(np.maximum(theta, 0.0))) @ V.T


def explained(X: np.ndarray, pattern: tuple[int, ...], **options: object) -> tuple[float, float]:
    """Adjusted variance and variance in the span, in percent."""
    model = SparsePCA(len(pattern), n_nonzero=pattern, center=False, random_state=0)
    model.set_params(**options).fit(X)
    adjusted = float(model.explained_variance_ratio_.sum())
    return 100 * adjusted, 100 * float(model.cumulative_variance_ratio_[-1])


def main() -> None:
    folder = data_folder()
    path = None if folder is None else folder / "classic" / "elasticnet_pitprops.csv"
    if path is None or not path.exists():
        sys.exit(
            "pit props not found: set DUALPCA_DATA to a folder with classic/elasticnet_pitprops.csv"
        )
    X = root(path)
    print("| nonzeros | method | adjusted | span |\n|---|---|---|---|")
    for pattern, (name, adjusted, span) in PUBLISHED.items():
        told = "-".join(map(str, pattern))
        print(f"| {told} | {name} | {adjusted:.2f} | {span:.2f} |")
        for way, options in WAYS.items():
            print(
                "| {} | ours, {} | {:.2f} | {:.2f} |".format(
                    told, way, *explained(X, pattern, **options)
                )
            )


if __name__ == "__main__":
    main()
