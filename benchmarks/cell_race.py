"""Holes, wrong cells and bad rows: PCA and RobustPCA beside their peers, means over seeds.

``python -m benchmarks.cell_race [--only PART ...] [--seeds 5] [--out results]`` writes cell_race.md and
cell_race.json. Parts: settings (A09 and ALYZ covariances with bad rows and cells), holes (cells deleted
from complete tables) and scale (one large table, process times; not run unless it is asked for).
"""

from __future__ import annotations

import argparse
import json
import sys
import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from dualpca import PCA, RobustPCA

from .cell_methods import BY_GCV, HOLES, MISSMDA, OURS, SETTINGS, SHRINK, Found, Method, why_not
from .cell_tables import CASES, DELETED, Table, complete_tables, low_rank, setting, with_holes
from .race import finite

GAMMAS = (0, 1, 2, 3, 4, 5, 7, 10)
KINDS = tuple((kind, p) for kind in ("A09", "ALYZ") for p in (20, 200))

#: The table of the part scale: rows, columns, components, shares of missing and of wrong cells.
LARGE = (100_000, 200, 5, 0.1, 0.05)

PARTS = ("settings", "holes", "scale")
CLEAN = "PCA of the truth"

Record = dict[str, Any]
Lines = dict[tuple[Any, ...], dict[str, tuple[float, float]]]


def log(line: str) -> None:
    """A line of progress."""
    print(line, file=sys.stderr, flush=True)


def sine(axes: np.ndarray, true: np.ndarray) -> float:
    """The sine of the largest angle between two subspaces."""
    Q = np.linalg.qr(axes)[0]
    return float(np.linalg.norm(true - Q @ (Q.T @ true), 2))


def judged(method: Method, table: Table, measure: Callable[[Found, Table], float]) -> Record:
    """An error and the angle, or a note of why there is none."""
    begun = time.process_time()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found = method(table.X, table.k)
    except Exception as failure:  # a peer's failure is a result
        return {"note": f"failed: {type(failure).__name__}: {failure}"[:200]}
    seconds = time.process_time() - begun
    return {"error": measure(found, table), "sine": sine(found.axes, table.axes), "cpu": seconds}


def fit_error(found: Found, table: Table) -> float:
    """The mean square of fitted values minus truth, in the cells that are judged."""
    return float(((found.fitted - table.truth)[table.judged] ** 2).mean())


def fill_error(found: Found, table: Table) -> float:
    """The root mean square of fillings minus truth over that of the table about its column means."""
    spread = np.sqrt(((table.truth - table.truth.mean(axis=0)) ** 2).mean())
    return float(np.sqrt(((found.full - table.truth)[table.judged] ** 2).mean()) / spread)


def settings_part(methods: dict[str, Method], seeds: int) -> Iterator[Record]:
    """Every method on A09 and ALYZ covariances, beside PCA of the truth."""
    series = [(case, gamma) for case in CASES for gamma in GAMMAS if case != "missing"]
    series.append(("missing", 0))
    for seed in range(seeds):
        for kind, p in KINDS:
            for case, gamma in series:
                table = setting(kind, p, case, gamma, seed)
                head = {"part": "settings", "table": f"{kind}, p = {p}", "case": case}
                head |= {"gamma": gamma if case != "missing" else "", "seed": seed}
                clean = Table(table.truth, table.truth, table.k, table.judged, table.axes)
                told = judged(SETTINGS["medians, PCA"], clean, fit_error)
                yield head | {"method": CLEAN} | told
                for name, method in methods.items():
                    if name != MISSMDA or case == "missing":  # it refuses complete tables
                        yield head | {"method": name} | judged(method, table, fit_error)
            log(f"settings: {kind}, p = {p}, seed {seed}")


def holes_part(methods: dict[str, Method], seeds: int) -> Iterator[Record]:
    """Every method on tables with deleted cells."""
    for seed in range(seeds):
        for name, (truth, k) in complete_tables(seed).items():
            for at_random in (True, False):
                for share in DELETED:
                    table = with_holes(truth, k, share, at_random, seed)
                    case = "at random" if at_random else "large values more often"
                    head = {"part": "holes", "table": f"{name}, k = {k}", "case": case}
                    head |= {"share": share, "seed": seed}
                    for label, method in methods.items():
                        yield head | {"method": label} | judged(method, table, fill_error)
            log(f"holes: {name}, seed {seed}")


def scale_part(size: Sequence[Any]) -> Iterator[Record]:
    """Process times of fits of one large table with holes and wrong cells, over PCA's without them."""
    n, p, k, holes, wrong = size
    rng = np.random.default_rng(0)
    variances, U = low_rank(np.eye(p) + 0.5, k, 0.9)
    truth = rng.standard_normal((n, p)) * np.sqrt(variances) @ U.T
    X = np.where(rng.random((n, p)) < wrong, truth + 8, truth)
    X[rng.random((n, p)) < holes] = np.nan
    usual = 0.0
    PCA(k, random_state=0).fit(truth)  # the first fit touches new memory
    for name, model, data in (
        ("PCA of the truth", PCA(k, random_state=0), truth),
        (SHRINK, PCA(k, missing="shrink", random_state=0), X),
        (OURS, RobustPCA(k, cells=True, random_state=0), X),
    ):
        begun = time.process_time()
        model.fit(data)
        seconds = time.process_time() - begun
        usual = usual or seconds
        head = {"part": "scale", "table": f"{n} x {p}, k = {k}", "case": "", "method": name}
        log(f"scale: {name}: {seconds:.3g} s")
        found = {"sine": sine(model.components_.T, U[:, :k]), "cpu": seconds}
        yield head | found | {"ratio": seconds / usual}


def in_order(values: Iterable[Any]) -> list[Any]:
    """Each value once, as it comes first."""
    return list(dict.fromkeys(values))


def means(records: Sequence[Record], *keys: str) -> Lines:
    """The means over all else of error and sine: by quantity and keys, then by method.

    With them come the standard errors of the means of seeds.
    """
    values: dict[tuple[Any, ...], dict[str, dict[int, list[float]]]] = {}
    for quantity in ("error", "sine"):
        for record in records:
            line = values.setdefault((quantity, *(record[key] for key in keys)), {})
            seeds = line.setdefault(record["method"], {})
            seeds.setdefault(record["seed"], []).append(record.get(quantity, np.nan))

    def summary(seeds: dict[int, list[float]]) -> tuple[float, float]:
        each = [float(np.mean(v)) for v in seeds.values()]
        spread = float(np.std(each, ddof=1)) if len(each) > 1 else np.nan
        return float(np.mean(each)), spread / len(each) ** 0.5

    return {line: {m: summary(v) for m, v in of.items()} for line, of in values.items()}


def tabulated(found: Lines, quantity: str, *keys: str) -> list[str]:
    """A Markdown table, the least of each line in bold; PCA of the truth does not count."""
    lines = [line for line in found if line[0] == quantity]
    methods = in_order(name for line in lines for name in found[line])
    rows = ["| " + " | ".join([*keys, *methods]) + " |", "|---" * (len(keys) + len(methods)) + "|"]
    for line in lines:
        counted = (v for name, (v, _) in found[line].items() if name != CLEAN and v == v)
        least = min(counted, default=np.nan)
        shown = []
        for name in methods:
            v, error = found[line].get(name, (np.nan, np.nan))
            mean = f"**{v:.3g}**" if v == least and name != CLEAN else f"{v:.3g}"
            shown.append("" if v != v else f"{mean} ± {error:.1g}" if error == error else mean)
        rows.append("| " + " | ".join([*map(str, line[1:]), *shown]) + " |")
    return rows


def losses(found: Lines, ours: Sequence[str]) -> str:
    """How often, and where, another method has an error that is smaller by more than 2 %."""
    lost, lines = [], [line for line in found if line[0] == "error"]
    for line in lines:
        mine = min((v for name, (v, _) in found[line].items() if name in ours), default=np.nan)
        others = {n: v for n, (v, _) in found[line].items() if n not in (*ours, CLEAN) and v == v}
        if not others:  # the line is not finished
            continue
        best = min(others, key=lambda name: others[name])
        if others[best] < 0.98 * mine:
            place = ", ".join(str(word) for word in line[1:] if word != "")
            lost.append(f"- {place}: {mine:.3g} against {others[best]:.3g} ({best})")
    head = f"{' or '.join(ours)} has an error more than 2 % above the best other method's in "
    return "\n".join([f"{head}{len(lost)} of {len(lines)} lines.", "", *lost])


def report(found: Record) -> str:
    """The tables of all parts that were run."""
    by_part = {part: [r for r in found["records"] if r["part"] == part] for part in PARTS}
    text = ["# Holes, wrong cells and bad rows", ""]
    text += [
        f"Means over the seeds 0 to {found['seeds'] - 1} ± standard errors; the least is bold.",
        "",
    ]
    text += [f"- {note}" for note in found["notes"]] + [""]
    for part, ours, first in (
        ("settings", [OURS], ("case", "gamma")),
        ("holes", [SHRINK, BY_GCV], ("case",)),
    ):
        records = by_part[part]
        if not records:
            continue
        last = "gamma" if part == "settings" else "share"
        overall, every = means(records, *first), means(records, "table", "case", last)
        text += [f"## {part.capitalize()}", "", losses(every, ours), ""]
        for quantity, words in (("error", "Error"), ("sine", "Sine of the largest angle")):
            text += [f"### {words}, means", "", *tabulated(overall, quantity, *first), ""]
            text += [f"### {words}", "", *tabulated(every, quantity, "table", "case", last), ""]
    if by_part["scale"]:
        text += [
            "## Scale",
            "",
            "| table | method | ratio of process times | sine |",
            "|---" * 4 + "|",
        ]
        for r in by_part["scale"]:
            text.append(f"| {r['table']} | {r['method']} | {r['ratio']:.3g} | {r['sine']:.3g} |")
    failed = in_order(
        f"- {r['table']}, {r['case']}, {r['method']}: {r['note']}"
        for r in found["records"]
        if "note" in r
    )
    text += ["", "## Failures", "", *failed] if failed else []
    return "\n".join(text).rstrip() + "\n"


def available(methods: dict[str, Method], notes: list[str]) -> dict[str, Method]:
    """The methods that can be run here; the others leave a note."""
    missing = {name: reason for name in methods if (reason := why_not(name))}
    notes += [f"{name}: skipped, {reason}." for name, reason in missing.items()]
    return {name: method for name, method in methods.items() if name not in missing}


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the parts that are asked for and write the two files."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--only", nargs="+", choices=PARTS, default=PARTS[:2], help="parts to run")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--rows", type=int, default=LARGE[0], help="rows of the part scale")
    parser.add_argument("--out", type=Path, default=Path("results"), help="folder to write to")
    asked = parser.parse_args(arguments)
    notes: list[str] = []
    records: list[Record] = []
    asked.out.mkdir(parents=True, exist_ok=True)
    series = {
        "settings": lambda: settings_part(available(SETTINGS, notes), asked.seeds),
        "holes": lambda: holes_part(available(HOLES, notes), asked.seeds),
        "scale": lambda: scale_part((asked.rows, *LARGE[1:])),
    }

    def write() -> None:
        found = {"seeds": asked.seeds, "notes": notes, "records": records}
        (asked.out / "cell_race.json").write_text(json.dumps(found, indent=1) + "\n")
        (asked.out / "cell_race.md").write_text(report(found))

    for part in asked.only:
        for record in series[part]():
            records.append(finite(record))
            if len(records) % 50 == 0:
                write()  # so that what was run is never lost
        write()
    log("\n".join([*notes, f"wrote {asked.out / 'cell_race.md'}"]))


if __name__ == "__main__":
    main()
