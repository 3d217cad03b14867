"""Where robust PCA finds the good rows' subspace: a grid of kinds of rows, shares and sizes.

``python -m experiments.robust_grid [--method NAME ...] [--size N d s ...] [--seeds 3] [--jobs 2]
[--out results]`` fits every cell and writes robust_grid.md, .json and .png. A cell succeeds where the
sine of the largest angle to the true subspace is at most 3 times that of PCA of the good rows alone,
plus 0.01. PcaHubert runs where R has rrcov.
"""

from __future__ import annotations

import argparse
import json
import sys
import warnings
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from .robust_data import sine
from .robust_numpy import leading, spherical
from .robust_r import Rrcov

#: Rows, columns and components.
SIZES = ((600, 40, 5), (150, 15, 3), (80, 300, 4), (300, 60, 12), (240, 6, 2))

#: The share of outliers, and their size beside that of the good rows.
SHARES, NORMS = (0.1, 0.25, 0.35, 0.45), (1.0, 3.0, 10.0, 100.0)

#: Root mean square norm of the noise on every row; that of the good rows is 1.
NOISE = 0.1

Rng = np.random.Generator


@dataclass(frozen=True)
class Cell:
    """One problem of the grid."""

    good: str
    bad: str
    share: float
    norm: float
    offset: float
    size: tuple[int, int, int]
    seed: int


def orthonormal(rng: Rng, s: int, d: int) -> np.ndarray:
    """s orthonormal rows of length d, at random."""
    return np.linalg.qr(rng.normal(size=(d, s)))[0].T


def _groups(rng: Rng, n: int, s: int) -> np.ndarray:
    """Scores in three groups, two thirds of the variance between them."""
    centres = rng.normal(size=(3, s))
    return np.sqrt(2) * centres[rng.integers(3, size=n)] + rng.normal(size=(n, s))


#: Scores of good rows: n x s, of any scale.
GOOD: dict[str, Callable[[Rng, int, int], np.ndarray]] = {
    "gaussian": lambda rng, n, s: rng.normal(size=(n, s)),
    "decaying": lambda rng, n, s: rng.normal(size=(n, s)) * 0.8 ** np.arange(s),
    "t5": lambda rng, n, s: rng.standard_t(5, size=(n, s)),
    "uniform": lambda rng, n, s: rng.uniform(-1, 1, size=(n, s)),
    "sparse": lambda rng, n, s: rng.normal(size=(n, s)) * (rng.random((n, s)) < 0.5),
    "groups": _groups,
    "short": lambda rng, n, s: rng.normal(size=(n, s)) * (np.arange(s) < (s + 1) // 2),
    "skewed": lambda rng, n, s: rng.exponential(size=(n, s)),
}


def _cluster(rng: Rng, n: int, s: int, d: int, basis: np.ndarray) -> np.ndarray:
    return orthonormal(rng, 1, d) + 0.05 * rng.normal(size=(n, d)) / np.sqrt(d)


def _parallel(rng: Rng, n: int, s: int, d: int, basis: np.ndarray) -> np.ndarray:
    """Rows beside the good subspace, all on one side, at a distance of their size within it."""
    away = rng.normal(size=d)
    away -= basis.T @ (basis @ away)
    return rng.normal(size=(n, s)) @ basis / np.sqrt(s) + away / np.linalg.norm(away)


def _clusters(rng: Rng, n: int, s: int, d: int, basis: np.ndarray) -> np.ndarray:
    centres = orthonormal(rng, 2, d)
    return centres[rng.integers(2, size=n)] + 0.05 * rng.normal(size=(n, d)) / np.sqrt(d)


#: Outliers of root mean square norm about 1: n x d.
BAD: dict[str, Callable[[Rng, int, int, int, np.ndarray], np.ndarray]] = {
    "isotropic": lambda rng, n, s, d, basis: rng.normal(size=(n, d)) / np.sqrt(d),
    "line": lambda rng, n, s, d, basis: rng.normal(size=(n, 1)) * orthonormal(rng, 1, d),
    "ray": lambda rng, n, s, d, basis: np.abs(rng.normal(size=(n, 1))) * orthonormal(rng, 1, d),
    "plane": lambda rng, n, s, d, basis: rng.normal(size=(n, 2)) @ orthonormal(rng, 2, d) / 2**0.5,
    "subspace": lambda rng, n, s, d, basis: (
        rng.normal(size=(n, s)) @ orthonormal(rng, s, d) / np.sqrt(s)
    ),
    "cluster": _cluster,
    "clusters": _clusters,
    "parallel": _parallel,
    "heavy": lambda rng, n, s, d, basis: (
        rng.standard_cauchy(size=(n, 1)) * rng.normal(size=(n, d)) / np.sqrt(d)
    ),
}


def cells(seeds: Sequence[int], sizes: Sequence[tuple[int, int, int]] = SIZES) -> Iterator[Cell]:
    """All kinds of outliers beside Gaussian rows, and other good rows beside three kinds of outliers."""
    for size in sizes:
        for seed in seeds:
            for share in SHARES:
                for i, norm in enumerate(NORMS):
                    offset = 3.0 * ((seed + i) % 2)
                    for bad in BAD:
                        yield Cell("gaussian", bad, share, norm, offset, size, seed)
                    if norm in (3.0, 10.0):
                        for good in list(GOOD)[1:] if size[2] > 2 else ("t5", "uniform", "skewed"):
                            for bad in ("line", "cluster", "subspace"):
                                yield Cell(good, bad, share, norm, offset, size, seed)


@dataclass(frozen=True)
class Problem:
    """Rows, the basis (s x d) of the good rows' subspace, and which rows are good."""

    X: np.ndarray
    basis: np.ndarray
    good: np.ndarray


def problem(cell: Cell) -> Problem:
    """The rows of a cell."""
    N, d, s = cell.size
    key = [cell.seed, round(100 * cell.share), round(cell.norm), *cell.size]
    rng = np.random.default_rng([*key, *cell.good.encode(), *cell.bad.encode()])
    count = round(cell.share * N)
    basis = orthonormal(rng, s, d)
    scores = GOOD[cell.good](rng, N - count, s)
    scores /= np.sqrt(np.mean(np.sum((scores - scores.mean(axis=0)) ** 2, axis=1)))
    outliers = cell.norm * BAD[cell.bad](rng, count, s, d, basis)
    X = np.vstack([scores @ basis, outliers])
    X += NOISE / np.sqrt(d) * rng.normal(size=X.shape) + cell.offset * orthonormal(rng, 1, d)
    order = rng.permutation(N)
    return Problem(X[order], basis[scores.any(axis=0)], order < N - count)


def oracle(case: Problem, s: int) -> float:
    """The sine that PCA of the good rows reaches."""
    good = case.X[case.good]
    return sine(case.basis, leading(good - good.mean(axis=0), s))


def _ours(X: np.ndarray, s: int) -> np.ndarray:
    from dualpca import RobustPCA

    return RobustPCA(s, random_state=0).fit(X).components_


def _spherical(X: np.ndarray, s: int) -> np.ndarray:
    return spherical(X, s)[0]


@cache
def _rrcov() -> Rrcov:
    """The R process of this worker."""
    return Rrcov()


def _hubert(name: str) -> Callable[[np.ndarray, int], np.ndarray]:
    return lambda X, s: _rrcov().fit(name, X, s, seed=0, limit=60.0, times=1).components


METHODS: dict[str, Callable[[np.ndarray, int], np.ndarray]] = {
    "RobustPCA": _ours,
    **{name: _hubert(name) for name in ("PcaHubert 0.5", "PcaHubert 0.5, mcd=FALSE")},
    "spherical PCA": _spherical,
}


def attempt(task: tuple[str, Cell]) -> dict[str, Any]:
    """One method on one cell."""
    name, cell = task
    case = problem(cell)
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        try:
            found = sine(case.basis, METHODS[name](case.X, cell.size[2]))
        except Exception as failure:  # a failure is a result
            print(f"{name}, {cell}: {failure!r}", file=sys.stderr)
            found = 1.0
    limit = 3 * oracle(case, cell.size[2]) + 0.01
    return asdict(cell) | {"method": name, "sine": found, "success": bool(found <= limit)}


def table(records: Sequence[dict[str, Any]], key: str) -> str:
    """Shares of success, one line for each value of a field."""
    names = sorted({r["method"] for r in records})
    groups: dict[Any, dict[str, list[bool]]] = defaultdict(lambda: defaultdict(list))
    for r in records:
        value = tuple(r[key]) if isinstance(r[key], list) else r[key]
        groups[value][r["method"]].append(r["success"])
    lines = [f"| {key} | cells | " + " | ".join(names) + " |", "|---" * (len(names) + 2) + "|"]
    for value, by_name in groups.items():
        shares = " | ".join(f"{np.mean(by_name[name]):.3f}" for name in names)
        lines.append(f"| {value} | {len(by_name[names[0]])} | {shares} |")
    return "\n".join(lines)


def picture(records: Sequence[dict[str, Any]], path: Path) -> None:
    """Draw the shares of success by kind and share of outliers, a panel for each method."""
    import matplotlib.pyplot as plt

    names = sorted({r["method"] for r in records})
    rows = [("gaussian", bad) for bad in BAD] + [(good, "") for good in list(GOOD)[1:]]
    figure, axes = plt.subplots(1, len(names), figsize=(4.5 * len(names), 5), squeeze=False)
    for ax, name in zip(axes[0], names, strict=True):
        mine = [r for r in records if r["method"] == name]
        shares = np.array(
            [
                [
                    np.mean(
                        [
                            r["success"]
                            for r in mine
                            if r["good"] == good and bad in ("", r["bad"]) and r["share"] == share
                        ]
                        or [np.nan]
                    )
                    for share in SHARES
                ]
                for good, bad in rows
            ]
        )
        ax.imshow(shares, vmin=0, vmax=1, cmap="viridis", aspect="auto")
        for (i, j), value in np.ndenumerate(shares):
            ax.text(
                j, i, f"{value:.2f}", ha="center", va="center", color="w" if value < 0.6 else "k"
            )
        ax.set(title=name, xlabel="share of outliers", xticks=range(len(SHARES)))
        ax.set_xticklabels([f"{share:.0%}" for share in SHARES])
        ax.set_yticks(range(len(rows)), [bad or f"{good} good rows" for good, bad in rows])
    figure.tight_layout()
    figure.savefig(path, dpi=120)
    plt.close(figure)


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--method", action="append", choices=list(METHODS))
    parser.add_argument("--size", action="append", nargs=3, type=int, metavar=("N", "d", "s"))
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--out", type=Path, default=Path("results"))
    args = parser.parse_args(arguments)
    seeds = range(args.first, args.first + args.seeds)
    sizes = [tuple(size) for size in args.size] if args.size else SIZES
    tasks = [(name, cell) for name in args.method or METHODS for cell in cells(seeds, sizes)]
    with ProcessPoolExecutor(args.jobs) as pool:
        records = list(pool.map(attempt, tasks, chunksize=8))
    text = "\n\n".join(table(records, key) for key in ("good", "bad", "share", "norm", "size"))
    total = ", ".join(
        f"{name} {np.mean([r['success'] for r in records if r['method'] == name]):.4f}"
        for name in sorted({r["method"] for r in records})
    )
    text = f"{len(records)} fits; share of success: {total}\n\n{text}\n"
    print(text)
    args.out.mkdir(parents=True, exist_ok=True)
    (args.out / "robust_grid.md").write_text(text)
    (args.out / "robust_grid.json").write_text(json.dumps(records))
    picture(records, args.out / "robust_grid.png")


if __name__ == "__main__":
    main()
