"""The race of kernel PCA against scikit-learn's, and the price of a robust fit.

``python -m benchmarks.race_methods [--quick] [--case NAME ...]`` prints the ratios and writes
race_methods.json and race_methods.md beside the results of the race, with whose options and rules it
goes. The judge of kernel PCA has the eigenvalue mass of the centred kernel matrix in float64. RobustPCA
is set beside our own PCA: no peer solves its problem, so the ratio says how many plain fits it costs.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from sklearn import decomposition
from sklearn.datasets import load_digits

import dualpca

from .cases import Case, mnist
from .judge import KernelJudge, kernel_reference
from .kernel_scale import rows_of
from .measure import seconds_of, warm_up
from .methods import ITERATIONS, OUR_TOLERANCES, OURS, TOLERANCES, Method, Run
from .race import finite, limits_of, machine, options_of, run_all, selected
from .report import cells_table, in_order, methods_table, number, summary

FULL = {"budget": 240.0, "repeats": 5, "cap": 2.5}
QUICK = {"budget": 30.0, "repeats": 3, "cap": 1.5}

#: Rows of MNIST of which a kernel matrix is made.
ROWS = 3000

#: Robust fits are repeated this often at most: one takes seconds.
ROBUST_REPEATS = 3

#: By the number of components, how many plain fits a robust one may cost.
GOALS = {50: 4.0, 150: 8.0}


def _scaled(make: Callable[[], Any]) -> Callable[[], Any]:
    """Of standard deviation 1 over all entries, so that the default gamma, 1/n_features, suits."""

    def scaled() -> Any:
        X = make()
        return None if X is None else X / X.std()

    return scaled


@lru_cache(maxsize=1)
def _images() -> np.ndarray | None:
    return mnist()


def _some_images() -> np.ndarray | None:
    X = _images()
    return None if X is None else X[:ROWS]


_pictures = _scaled(_some_images)

KERNEL_CASES = [
    Case("kernel digits", 20, _scaled(lambda: load_digits().data), quick=True),
    Case("kernel mixture 2000x20", 20, _scaled(lambda: rows_of(2000, 20).astype(np.float64)), True),
    *(Case(f"kernel mnist {ROWS}, s={s}", s, _pictures) for s in (20, 50)),
]
ROBUST_CASES = [Case(f"robust mnist, s={s}", s, _images, quick=s == 50) for s in GOALS]


def _ours(A: Any, s: int, knob: Any) -> Any:
    return dualpca.KernelPCA(s, kernel="rbf", tol=knob, random_state=0).fit(A)


def _sklearn(solver: str, knob_name: str) -> Run:
    def run(A: Any, s: int, knob: Any) -> Any:
        options = {"eigen_solver": solver, knob_name: knob}
        return decomposition.KernelPCA(s, kernel="rbf", random_state=0, **options).fit(A)

    return run


KERNEL_METHODS = [
    Method(OURS, _ours, OUR_TOLERANCES, kind="ours"),
    Method("sklearn arpack", _sklearn("arpack", "tol"), TOLERANCES),
    Method("sklearn randomized", _sklearn("randomized", "iterated_power"), ITERATIONS),
]
PLAIN = Method("PCA", lambda A, s, knob: dualpca.PCA(s, random_state=0).fit(A), kind="ours")
ROBUST = Method(
    "RobustPCA", lambda A, s, knob: dualpca.RobustPCA(s, random_state=0).fit(A), kind="ours"
)


def robust_ratio(case: Case, dtype: str, A: np.ndarray, repeats: int) -> dict[str, Any]:
    """Median seconds of a robust and of a plain fit, in turns, and their ratio."""
    A = np.ascontiguousarray(A, dtype=dtype)
    times: dict[str, list[float]] = {"PCA": [], "RobustPCA": []}
    for method in (PLAIN, ROBUST):
        warm_up(method, A, case.s)
    for _ in range(repeats):
        for method in (PLAIN, ROBUST):
            times[method.name].append(seconds_of(method, A, case.s, None)[0])
    plain, robust = (float(np.median(times[name])) for name in ("PCA", "RobustPCA"))
    return {
        "case": case.name,
        "dtype": dtype,
        "s": case.s,
        "PCA": plain,
        "RobustPCA": robust,
        "ratio": robust / plain,
        "goal": GOALS.get(case.s),
        "repeats": repeats,
    }


def robust_all(
    cases: Sequence[Case], dtypes: Sequence[str], repeats: int, notes: list[str]
) -> list[dict[str, Any]]:
    """A row for each case and dtype, and a note for each case without data."""
    rows = []
    for case in cases:
        A = case.make()
        if A is None:
            notes.append(f"{case.name} is not raced: no data; set DUALPCA_DATA")
            print(notes[-1], flush=True)
            continue
        for dtype in dtypes:
            row = robust_ratio(case, dtype, A, repeats)
            rows.append(row)
            print(
                f"{row['case']:24s} {dtype}  PCA {row['PCA']:.3g} s  RobustPCA "
                f"{row['RobustPCA']:.3g} s  ratio {row['ratio']:.1f}, goal {number(row['goal'])}",
                flush=True,
            )
    return rows


def robust_table(rows: Sequence[dict[str, Any]]) -> list[str]:
    """Seconds of both, how many plain fits a robust one costs, and how many it may."""
    lines = ["| case | dtype | PCA (s) | RobustPCA (s) | ratio | goal |", "|---" * 6 + "|"]
    for row in rows:
        times = " | ".join(number(row[name]) for name in ("PCA", "RobustPCA"))
        ratio = f"{row['ratio']:.1f} | {number(row['goal'])}"
        lines.append(f"| {row['case']} | {row['dtype']} | {times} | {ratio} |")
    return lines


def markdown(found: dict[str, Any]) -> str:
    """The whole report."""
    names = in_order(trail["method"] for trail in found["explored"])
    parts = [
        "# Kernel PCA and robust PCA",
        "",
        "Kernel PCA with the RBF kernel, gamma 1/n_features, K itself: median seconds to a relative",
        "shortfall in the captured eigenvalue mass of the centred kernel matrix, judged in float64.",
        "The ratio is fastest peer / ours.",
        "",
        *summary(found["rows"]),
        "",
        *cells_table(found["rows"]),
        "",
        *methods_table(found["rows"], names),
        "",
        "RobustPCA beside PCA, both ours: the ratio is RobustPCA / PCA, and the goal is at most that.",
        "",
        *robust_table(found["robust"]),
        "",
        *(f"- {note}" for note in found["notes"]),
    ]
    return "\n".join(parts).rstrip() + "\n"


def main(arguments: Sequence[str] | None = None) -> None:
    args = options_of(__doc__, arguments)
    out: Path = args.out.with_name("race_methods.json")
    kernels, robusts = selected(KERNEL_CASES, args), selected(ROBUST_CASES, args)
    limits = limits_of(args, FULL, QUICK)
    found: dict[str, Any] = {"machine": machine(), "notes": [], "rows": [], "explored": []}
    if kernels:
        judged = (kernel_reference, KernelJudge)
        found = run_all(kernels, args.dtype, KERNEL_METHODS, out, **limits, judged=judged)
    repeats = 1 if args.quick else min(limits["repeats"], ROBUST_REPEATS)
    found["robust"] = finite(robust_all(robusts, args.dtype, repeats, found["notes"]))
    if not (found["rows"] or found["robust"]):
        print("no case of kernel or robust PCA was raced")
        return
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text(json.dumps(found, indent=1))
    out.with_suffix(".md").write_text(markdown(found))
    if found["rows"]:
        print("\n".join(["", *summary(found["rows"])]))
    if found["robust"]:
        print("\n".join(["", *robust_table(found["robust"])]))
    print(f"wrote {out} and {out.with_suffix('.md')}")


if __name__ == "__main__":
    main()
