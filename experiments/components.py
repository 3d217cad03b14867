"""How often each method finds the true number of components.

``python -m experiments.components [--repeats 20] [--cv-repeats 20] [--out results]`` draws tables with
three spikes above unit noise, asks every method of :func:`dualpca.n_components`, and
:class:`dualpca.RobustPCA` where rows are ruined, and writes ``components.md``.
"""

from __future__ import annotations

import argparse
import warnings
from pathlib import Path

import numpy as np

import dualpca
from dualpca.linear.selection import METHODS

SHAPES = {"tall": (300, 20), "square": (60, 60), "wide": (40, 160)}

#: A spike is ``1 + strength sqrt(d / N)``; from strength 1 on one can be detected (Baik et al. 2005).
STRENGTHS = (16.0, 8.0, 4.0)

#: The degrees of freedom of heavy-tailed cells, the share of ruined rows, and their distance in noise.
DF, RUINED, AWAY = 4, 0.15, 6.0


def table(shape: tuple[int, int], kind: str, rng: np.random.Generator) -> np.ndarray:
    """Return rows of a spiked covariance, with Gaussian or heavy-tailed cells, or ruined rows."""
    N, d = shape
    axes = np.linalg.qr(rng.standard_normal((d, len(STRENGTHS))))[0]
    spikes = np.sqrt(np.array(STRENGTHS) * (d / N) ** 0.5)
    X = rng.standard_normal((N, len(spikes))) * spikes @ axes.T
    if kind == "heavy-tailed":
        return X + rng.standard_t(DF, shape) * ((DF - 2) / DF) ** 0.5
    X += rng.standard_normal(shape)
    if kind == "ruined rows":
        bad = rng.permutation(N)[: round(RUINED * N)]
        place = rng.standard_normal(d)
        X[bad] = AWAY * d**0.5 * place / np.linalg.norm(place) + rng.standard_normal((len(bad), d))
    return X


def number(X: np.ndarray, method: str, robust: bool) -> int:
    """Return the number of components by a method, of all rows or of the least outlying half."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of doubtful fits, which the table counts
        if robust:
            return dualpca.RobustPCA(method, random_state=0).fit(X).selection_.n_components
        return dualpca.n_components(X, method, random_state=0).n_components


def cells(repeats: int, cv_repeats: int) -> list[tuple[str, str, dict[str, str]]]:
    """Return for each kind of data and shape how often each method was right, and its mean number."""
    rows = []
    for kind, robust in (
        ("Gaussian", False),
        ("heavy-tailed", False),
        ("ruined rows", False),
        ("ruined rows", True),
    ):
        for name, shape in SHAPES.items():
            found: dict[str, str] = {}
            for method in METHODS:
                if method == "mle" and (robust or shape[0] < shape[1]):
                    found[method] = "-"
                    continue
                count = cv_repeats if method == "cv" else repeats
                rngs = (np.random.default_rng([seed, *shape]) for seed in range(count))
                n = np.array([number(table(shape, kind, rng), method, robust) for rng in rngs])
                right = np.mean(n == len(STRENGTHS))
                found[method] = f"{right:.0%} ({n.mean():.1f})".replace("%", " %")
            what = f"{kind}, RobustPCA" if robust else kind
            rows.append((what, f"{name}, {shape[0]} x {shape[1]}", found))
            print(*rows[-1], flush=True)
    return rows


def main() -> None:
    """Write the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=20)
    parser.add_argument("--cv-repeats", type=int, default=20)
    parser.add_argument("--out", type=Path, default=Path("results"))
    options = parser.parse_args()
    lines = ["| data | shape | " + " | ".join(METHODS) + " |", "|---" * (len(METHODS) + 2) + "|"]
    for kind, shape, found in cells(options.repeats, options.cv_repeats):
        lines.append(f"| {kind} | {shape} | " + " | ".join(found[m] for m in METHODS) + " |")
    options.out.mkdir(parents=True, exist_ok=True)
    (options.out / "components.md").write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
