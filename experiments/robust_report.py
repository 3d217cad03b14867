"""The comparison as Markdown: one table for each part, medians over the seeds."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from .robust_catalogue import CLEAN, OURS
from .robust_verdict import verdict

Record = dict[str, Any]
Table = dict[tuple[str, ...], dict[str, list[Record]]]

TITLES = {
    "haystack": (
        "Haystacks",
        "Sine of the largest angle between the inliers' subspace and the one found (seconds).",
    ),
    "digits": ("Digits", "Mean squared error per pixel on clean test rows (seconds)."),
    "mnist": ("MNIST", "Mean squared error per pixel on clean test rows (seconds); one split."),
    "classics": (
        "Classics",
        "Known outliers flagged / known outliers, other rows flagged (seconds). For bus, whose "
        "outliers are not agreed on: rows flagged of all.",
    ),
    "outliers": (
        "Labelled outlier sets",
        "Area under the ROC curve of the score (seconds). The score is ours as score_samples has it; of "
        "rrcov and RobPy the larger of the score and the orthogonal distance, each over its cut-off; "
        "of MinCovDet the Mahalanobis distance; of PyOD's PCA, at its defaults, and KPCA, with k "
        "components, decision_scores_; otherwise the orthogonal distance. Columns are standardised "
        "by median and MAD.",
    ),
}


def report(found: dict[str, Any]) -> str:
    """The whole text."""
    machine, records = found["machine"], found["records"]
    versions = ", ".join(f"{name} {number}" for name, number in machine["versions"].items())
    lines = [
        "# Robust PCA beside its peers",
        "",
        f"Seeds: {machine['seeds']}{', quick sizes' if machine['quick'] else ''}; medians; "
        f"{machine['cores']} cores, one thread each; {versions}; {machine['R']}. "
        f"A fit may take {machine['limit']:.0f} s. The whole run took {machine['minutes']} minutes.",
        "",
        "Times are of the fit alone, rrcov's taken inside R, with the BLAS named above. PcaHubert has "
        "its default mcd = TRUE (plain MCD where there are at most kmax columns) and "
        "kmax = max(10, k). MinCovDet flags by the chi-squared quantile 0.975 of all columns. RobPy "
        "is its ROBPCA with alpha = 0.5, whose centre is the mean. FMS, Tyler, PCP and spherical PCA "
        "are centred by the spatial median and do not flag.",
        "",
    ]
    lines += [f"- {note}" for note in found["notes"]] + [""] * bool(found["notes"])
    for part, (title, caption) in TITLES.items():
        mine = [r for r in records if r["part"] == part]
        if mine:
            lines += [f"## {title}", "", caption, "", *_part(part, mine)]
    return "\n".join(lines).rstrip() + "\n"


def _part(part: str, records: Sequence[Record]) -> list[str]:
    cells = _cells(records)
    lines = _table(
        cells, {"classics": _flags_entry, "outliers": _auc_entry}.get(part, _error_entry)
    )
    if part == "haystack":
        lines += verdict(cells) + _overall_rates(records)
    elif part == "classics":
        lines += _flagged_rows(cells)
    elif part == "outliers":
        lines += _mean_auc(cells)
    else:
        lines += ["Outliers flagged, other rows flagged:", "", *_table(cells, _rates_entry)]
    return lines + _first_seed_only(records) + _notes(records)


def _cells(records: Sequence[Record]) -> Table:
    """Records by cell, then by method."""
    cells: Table = {}
    for record in records:
        row = cells.setdefault(tuple(record["cell"].values()), {})
        row.setdefault(record["method"], []).append(record)
    return cells


def median(records: Sequence[Record], key: str) -> float | None:
    """The median over the seeds that have a number."""
    numbers = [r[key] for r in records if r.get(key) is not None]
    return float(np.median(numbers)) if numbers else None


def _table(cells: Table, entry: Callable[[Sequence[Record]], str]) -> list[str]:
    """Rows are cells, columns are the methods with an entry somewhere."""
    names = list(dict.fromkeys(name for row in cells.values() for name in row))
    shown = {key: {n: entry(row[n]) for n in names if n in row} for key, row in cells.items()}
    names = [n for n in names if any(row.get(n, "-") != "-" for row in shown.values())]
    names.sort(key=lambda name: (name != OURS, name == CLEAN))
    heads = list(next(iter(next(iter(cells.values())).values()))[0]["cell"])
    lines = [
        "| " + " | ".join(heads + names) + " |",
        "|" + " --- |" * len(heads + names),
    ]
    for key, row in shown.items():
        lines.append("| " + " | ".join([*key, *(row.get(n, "-") for n in names)]) + " |")
    return [*lines, ""]


def seconds_words(seconds: float | None) -> str:
    """Seconds in words, or nothing."""
    if seconds is None:
        return ""
    return f" ({1000 * seconds:.3g} ms)" if seconds < 1 else f" ({seconds:.3g} s)"


def _number_entry(records: Sequence[Record], key: str, digits: str) -> str:
    value = median(records, key)
    failed = sum(r.get("note", "").startswith("failed") for r in records)
    if value is None:
        return "failed" if failed else "-"
    also = f", failed at {failed} of {len(records)}" if failed else ""
    return f"{value:{digits}}{seconds_words(median(records, 'seconds'))}{also}"


def _error_entry(records: Sequence[Record]) -> str:
    return _number_entry(records, "error", ".2g" if records[0]["part"] == "haystack" else ".4f")


def _auc_entry(records: Sequence[Record]) -> str:
    return _number_entry(records, "auc", ".3f")


def _rates_entry(records: Sequence[Record]) -> str:
    recall, false = median(records, "recall"), median(records, "false positives")
    return "-" if recall is None or false is None else f"{recall:.1%}, {false:.1%}"


def _flags_entry(records: Sequence[Record]) -> str:
    first = records[0]
    if "flagged" not in first:
        return "failed" if first.get("note", "").startswith("failed") else "-"
    seconds = seconds_words(median(records, "seconds"))
    known = set(first["outliers"])
    if not known:
        return f"{len(first['flagged'])} of {first['rows']}{seconds}"
    hit = len(known.intersection(first["flagged"]))
    return f"{hit}/{len(known)}, {len(first['flagged']) - hit}{seconds}"


def _flagged_rows(cells: Table) -> list[str]:
    """Exactly which rows each method flags at the first seed, and whether the seeds agree."""
    lines = ["Rows flagged, counted from 1:", ""]
    for key, row in cells.items():
        known = next(iter(row.values()))[0]["outliers"]
        lines.append(f"- {', '.join(key)}; known outliers: {_ranges(known) or 'not agreed on'}")
        for name, records in row.items():
            found = [tuple(r["flagged"]) for r in records if "flagged" in r]
            if found:
                differ = "" if len(set(found)) == 1 else f" (seeds differ: {len(set(found))} sets)"
                lines.append(f"  - {name}: {_ranges(found[0]) or 'none'}{differ}")
    return [*lines, ""]


def _ranges(numbers: Sequence[int]) -> str:
    """1, 2, 3, 7 as "1-3, 7"."""
    runs: list[list[int]] = []
    for number in numbers:
        if runs and number == runs[-1][1] + 1:
            runs[-1][1] = number
        else:
            runs.append([number, number])
    return ", ".join(str(a) if a == b else f"{a}-{b}" for a, b in runs)


def _overall_rates(records: Sequence[Record]) -> list[str]:
    """Median over the cells up to 45 % of what is flagged."""
    lines = ["Outliers flagged, other rows flagged, medians over all cells up to 45 %:", ""]
    few = [r for r in records if r["fraction"] <= 0.45]
    for name in dict.fromkeys(r["method"] for r in few):
        entry = _rates_entry([r for r in few if r["method"] == name])
        if entry != "-":
            lines.append(f"- {name}: {entry}")
    return [*lines, ""]


def _mean_auc(cells: Table) -> list[str]:
    """The mean over the sets, of the methods that took them all."""
    means = {}
    for name in dict.fromkeys(name for row in cells.values() for name in row):
        found = [median(row.get(name, []), "auc") for row in cells.values()]
        numbers = [number for number in found if number is not None]
        if len(numbers) == len(cells):
            means[name] = float(np.mean(numbers))
    ordered = sorted(means.items(), key=lambda item: -item[1])
    words = ", ".join(f"{name} {mean:.3f}" for name, mean in ordered)
    return [f"Mean over the {len(cells)} sets, of the methods that took them all: {words}.", ""]


def _first_seed_only(records: Sequence[Record]) -> list[str]:
    last = max(r["seed"] for r in records)
    seeds: dict[str, int] = {}
    for r in records:
        seeds[r["method"]] = max(seeds.get(r["method"], 0), r["seed"])
    names = [name for name, seed in seeds.items() if seed < last]
    return [f"At the first seed only: {', '.join(names)}.", ""] if names else []


def _notes(records: Sequence[Record]) -> list[str]:
    """Why an entry is missing, once for each method and reason."""
    found: dict[tuple[str, str], list[str]] = {}
    for r in records:
        if r.get("note"):
            note = re.sub(r"[\d.]+e[-+]\d+", "...", r["note"])  # numbers that differ by seed
            names = found.setdefault((r["method"], note), [])
            if (name := " ".join(r["cell"].values())) not in names:
                names.append(name)
    lines = []
    for (method, note), names in found.items():
        more = f" and {len(names) - 3} more" if len(names) > 3 else ""
        lines.append(f"- {method}: {note} ({'; '.join(names[:3])}{more})")
    return [*lines, ""] if lines else []
