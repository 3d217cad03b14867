"""Principal component pursuit: seconds and errors beside full SVDs and the package pyrpca, as Markdown.

``python -m benchmarks.pursuit [--shapes 500x500 1000x1000 2000x500] [--repeats 3]``

The uniform problems of Candes, Li, Ma and Wright (2011), Section 4.1: ``L = A B^T`` of a rank that is
0.05 of the smaller side, and 5 % of the entries of S are 1 or -1.
"""

from __future__ import annotations

import argparse
import importlib.util
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from dualpca.estimators.pursuit import PrincipalComponentPursuit
from dualpca.pursuit.admm import Shrinkage, Triplets, pursue, svd_triplets

from .measure import PAUSE

SCALES = ("N(0, 1/n)", "N(0, 1)")
OURS, FULL, PEER = "ours", "full SVDs", "pyrpca"


class FullSVD(Shrinkage):
    """The same by a full SVD each time."""

    def __call__(self, Z: np.ndarray, tau: float, accuracy: float) -> Triplets:
        return svd_triplets(Z, tau)

    def certify(self, *found: Any) -> bool:
        return True


def planted(N: int, d: int, scale: str, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """L and S with the entries of A and B from ``scale``, n being the rows of each."""
    rng = np.random.default_rng(seed)
    r = max(1, min(N, d) // 20)
    A, B = rng.standard_normal((N, r)), rng.standard_normal((d, r))
    L = A @ B.T / (np.sqrt(N * d) if scale == SCALES[0] else 1.0)
    S = np.zeros(N * d)
    places = rng.choice(N * d, N * d // 20, replace=False)
    S[places] = rng.choice([-1.0, 1.0], len(places))
    return L, S.reshape(N, d)


def methods() -> dict[str, Callable[[np.ndarray], np.ndarray]]:
    """From X to L; the peer where it is installed."""

    def full(X: np.ndarray) -> np.ndarray:
        lam = 1 / np.sqrt(max(X.shape))
        found = pursue(X, lam=lam, mu=None, tol=1e-7, max_iter=1000, shrink=FullSVD(0))
        return found.L

    found = {
        OURS: lambda X: PrincipalComponentPursuit(random_state=0).fit(X).low_rank_,
        FULL: full,
    }
    if importlib.util.find_spec("pyrpca"):
        from pyrpca import rpca_pcp_ialm

        found[PEER] = lambda X: rpca_pcp_ialm(X, 1 / np.sqrt(max(X.shape)), verbose=False)[0]
    return found


def missing() -> str:
    """Who is not there, and how to get it."""
    return "" if PEER in methods() else "pyrpca is not installed: pip install 'dualpca[race]'"


def race(shapes: list[tuple[int, int]], repeats: int) -> None:
    """One line for each problem and method: median seconds, their ratio to ours, and the error of L."""
    print("| shape | entries of A, B | method | seconds | times ours | relative error of L |")
    print("|---|---|---|---|---|---|")
    for N, d in shapes:
        for scale in SCALES:
            L, S = planted(N, d, scale)
            seconds: dict[str, list[float]] = {}
            errors: dict[str, float] = {}
            for _ in range(repeats):
                for name, solve in methods().items():
                    time.sleep(PAUSE)
                    begun = time.perf_counter()
                    found = solve(L + S)
                    seconds.setdefault(name, []).append(time.perf_counter() - begun)
                    errors[name] = float(np.linalg.norm(found - L) / np.linalg.norm(L))
            ours = np.median(seconds[OURS])
            for name, taken in seconds.items():
                ratio = np.median(taken) / ours
                print(
                    f"| {N} x {d} | {scale} | {name} | {np.median(taken):.2f} | {ratio:.1f} | "
                    f"{errors[name]:.1e} |",
                    flush=True,
                )


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--shapes", nargs="*", default=["500x500", "1000x1000", "2000x500"])
    parser.add_argument("--repeats", type=int, default=3)
    asked = parser.parse_args(arguments)
    if missing():
        print(missing(), file=sys.stderr)
    race([(int(a), int(b)) for a, b in (s.split("x") for s in asked.shapes)], asked.repeats)


if __name__ == "__main__":
    main()
