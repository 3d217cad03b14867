"""What the constants of the choice between subspaces do: each is changed by itself.

``python -m experiments.robust_constants [--seeds 3] [--jobs 2] [--out results]`` fits the cells of the
grid and some rings with bad rows inside for every setting, and writes robust_constants.md.
"""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from dualpca import RobustKernelPCA
from dualpca.robust import choice

from .robust_grid import attempt, cells

#: The constants of choice.py and the values that they are compared with.
OTHERS: dict[str, tuple[float, ...]] = {
    "VARY": (1.0, 2.0, 3.0),
    "COVER": (0.4, 0.5),
    "LOW_COVER": (0.1, 0.3),
    "NEARLY": (1.1, 1.3, 1.6),
    "LOST": (0.05, 0.1, 1.0),
    "HELD": (1.5, 3.0),
    "BEYOND": (1.0, 1.5),
    "MORE": (0.0, 0.05),
    "GUARD": (0.1, 0.2, 0.5),
    "MAJORITY": (0.4, 2.0),
    "GAP": (0.01, 0.05),
    "INFORMATIVE": (0.3, 0.7),
    "FEW_AXES": (1.0, 2.5),
    "COUNTED": (0.5, 1.0),
    "LITTLE": (0.6, 1.0),
    "FAR": (1.5, 3.0),
}


def settings() -> Iterator[dict[str, float]]:
    """The constants as they are, and with one of them changed."""
    yield {}
    for name, values in OTHERS.items():
        yield from ({name: value} for value in values)


def ring(seed: int, approximation: str | None) -> tuple[float, float]:
    """The shares of flagged rows among 30 within a ring, and among the 270 on it."""
    rng = np.random.default_rng(seed)
    angle = rng.uniform(0, 2 * np.pi, 270)
    good = np.column_stack([np.cos(angle), np.sin(angle)]) + 0.05 * rng.standard_normal((270, 2))
    X = np.vstack([0.2 * rng.standard_normal((30, 2)), good])
    model = RobustKernelPCA(
        4, kernel="rbf", gamma=2.0, approximation=approximation, n_landmarks=60, random_state=0
    ).fit(X)
    return float(model.outliers_[:30].mean()), float(model.outliers_[30:].mean())


def fit(changed: dict[str, float], task: Any) -> Any:
    """One cell or one ring, with constants changed."""
    before = {name: getattr(choice, name) for name in changed}
    vars(choice).update(changed)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            if isinstance(task[0], str):
                record = attempt(task)
                return record["good"], record["bad"], record["success"]
            return ring(*task)
    finally:
        vars(choice).update(before)


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--out", type=Path, default=Path("results"))
    args = parser.parse_args(arguments)
    grid = [("RobustPCA", cell) for cell in cells(range(args.first, args.first + args.seeds))]
    rings = [(seed, kind) for seed in range(10) for kind in (None, "nystroem")]
    lines = [
        "| constant | grid | worst kind | ring: found | ring: false |",
        "|---|---|---|---|---|",
    ]
    with ProcessPoolExecutor(args.jobs) as pool:
        for changed in settings():
            found = list(pool.map(partial(fit, changed), grid, chunksize=8))
            kinds = {(good, bad) for good, bad, _ in found}
            shares = {k: np.mean([s for g, b, s in found if (g, b) == k]) for k in kinds}
            worst = min(shares, key=lambda k: shares[k])
            bad, good = np.mean(list(pool.map(partial(fit, changed), rings)), axis=0)
            name = ", ".join(f"{n} = {v:g}" for n, v in changed.items()) or "as it is"
            total = np.mean([s for _, _, s in found])
            kind = f"{worst[0]}, {worst[1]}: {shares[worst]:.3f}"
            lines.append(f"| {name} | {total:.4f} | {kind} | {bad:.2f} | {good:.3f} |")
            print(lines[-1], flush=True)
    args.out.mkdir(parents=True, exist_ok=True)
    (args.out / "robust_constants.md").write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
