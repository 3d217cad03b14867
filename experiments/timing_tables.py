"""Timings told: the paper's protocol beside the published numbers, equal accuracy, and orderings."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Iterator
from typing import Any

from benchmarks.explore import TARGETS

from .engine import STARTS, Cell, Results, Table

PAPER = "paper"

#: Where a time is read: under the paper's protocol, or at a shortfall of captured variance.
WHERE = (PAPER, *(str(target) for target in TARGETS))

#: Methods of this library, which no published table has; the first goes beside the paper's DCA.
OUR_DCA = "DCA (l), ours"
OURS = ("krylov", "auto")


def printed(value: str, std: str) -> dict[str, Any]:
    """A published time in the form of a measured one."""
    if value == "/":
        return {"capped": True, "mean": None, "std": None}
    deviation = float(std) / 1000 if std else None
    return {"capped": False, "mean": float(value) / 1000, "std": deviation}


def seconds(results: Results, method: str, cell: Cell, at: str = PAPER) -> float:
    """Seconds under the paper's protocol, or to a target ("0.0001"); infinite over the cap.

    From another start it is the time from the first, in proportion to the products with the data, so
    that only their number differs; a target that was not looked for from there has the first's time.
    """
    found = results(method, cell)
    time, cost = _timed(found, at)
    other = found["starts"].get(results.start) if "starts" in found else None
    if other is None or at not in (PAPER, *other["targets"]):
        return time
    theirs, work = _timed(other, at)
    if math.isinf(theirs) or work is None:
        return math.inf
    if math.isinf(time) and found["paper"] is not None:  # the rate of a run that did not get there
        time, cost = found["paper"]["seconds"], found["paper"]
    return theirs if cost is None else time * work["readings"] / cost["readings"]


def _timed(found: dict[str, Any], at: str) -> tuple[float, dict[str, Any] | None]:
    """Seconds, infinite over the cap, and the cost of the run that was looked at."""
    if at == PAPER:
        return (math.inf if found["capped"] else found["mean"]), found.get("paper")
    cost = found["targets"].get(at)
    return (math.inf if cost is None else cost["seconds"]), cost


def head(results: Results, cell: Cell) -> str:
    """A cell by the settings in which the cells differ; by all where there is one."""
    cells = results.cells
    keys = [key for key in cell if len({str(other.get(key)) for other in cells}) > 1] or list(cell)
    return ", ".join(f"{key}={cell[key]}" if key != "spectrum" else cell[key] for key in keys)


def number(value: float | None, digits: int = 3) -> str:
    """A few significant digits; "/" for what did not end in time."""
    if value is None or math.isinf(value):
        return "/"
    return f"{value:.{digits}g}" if abs(value) < 1000 else f"{value:.0f}"


def published_ms(results: Results, method: str, cell: Cell) -> float | None:
    """The published mean in milliseconds, infinite where it is "/", None where there is none."""
    found = results.published(method, cell)
    if found is None:
        return None
    return math.inf if found[0] == "/" else float(found[0])


def tables(results: Results, methods: list[str]) -> list[Table]:
    """Protocol, ratios to svds, accuracy reached there, equal accuracy, orderings."""
    cells = results.cells
    heads = [head(results, cell) for cell in cells]
    both = [f"{name}: {kind}" for name in heads for kind in ("published", "ours")]
    protocol, ratios, reached, equal = [], [], [], []
    for method in methods:
        protocol.append([method])
        ratios.append([method])
        reached.append([method])
        equal.append([method])
        for cell in cells:
            printed = results.published(method, cell)
            found = results(method, cell)
            protocol[-1] += [_printed(printed), _ours(found)]
            theirs = _ratio(
                published_ms(results, method, cell), published_ms(results, "svds", cell)
            )
            ours = _ratio(*(seconds(results, m, cell) for m in (method, "svds")))
            ratios[-1] += [theirs, ours]
            reached[-1].append(_reached(found))
            targets = [found["targets"].get(str(target)) for target in TARGETS]
            times = [number(t and 1000 * t["seconds"]) for t in targets]
            equal[-1].append(", ".join(times))
            equal[-1].append("/" if targets[-1] is None else _products(targets[-1]))
    wanted = ", ".join(f"{target:.0e}" for target in TARGETS)
    twice = [f"{name}: {kind}" for name in heads for kind in ("ms", "products")]
    return [
        Table("The paper's protocol: milliseconds", ["method", *both], protocol),
        Table("The paper's protocol: time relative to svds", ["method", *both], ratios),
        Table(
            "The paper's protocol: captured variance missing when it stops; products with the data",
            ["method", *heads],
            reached,
        ),
        Table(
            f"Equal accuracy: milliseconds until {wanted} of the captured variance are missing; "
            "products for the last",
            ["method", *twice],
            equal,
        ),
        *_starts(results, methods),
        *_orderings(results, [m for m in methods if results.published(m, cells[0])]),
    ]


def _starts(results: Results, methods: list[str]) -> list[Table]:
    """What the own test asks for from each start, and the loosest target."""
    rows = []
    for method in methods:
        cells = [results(method, cell) for cell in results.cells]
        if "starts" in cells[0]:
            for start in STARTS:
                row = [method, start]
                for found in cells:
                    seen = found["starts"].get(start, found)
                    target = seen["targets"].get(str(TARGETS[0]))
                    row += [_reached(seen), "/" if target is None else f"{target['readings']}"]
                rows.append(row)
    if not rows:
        return []
    heads = [head(results, cell) for cell in results.cells]
    kinds = ("its test", f"{TARGETS[0]:.0e}")
    title = (
        "The start: captured variance missing where the own test stops and products with the data "
        f"until then; products until {TARGETS[0]:.0e} is missing"
    )
    header = ["method", "start", *(f"{name}: {kind}" for name in heads for kind in kinds)]
    return [Table(title, header, rows)]


def _printed(printed: tuple[str, str] | None) -> str:
    if printed is None:
        return ""
    return f"{printed[0]}({printed[1]})" if printed[1] else printed[0]


def _ours(found: dict[str, Any]) -> str:
    if found["capped"]:
        return "/"
    mean = number(1000 * found["mean"])
    return mean if found["std"] is None else f"{mean}({number(1000 * found['std'], 2)})"


def _products(cost: dict[str, Any]) -> str:
    """Readings of the data, and columns multiplied where these were counted."""
    return f"{cost['readings']}" + (f" ({cost['columns']})" if cost["columns"] else "")


def _reached(found: dict[str, Any]) -> str:
    if found["paper"] is None:
        return "/"
    text = f"{max(found['shortfall'], 0):.1e}; {_products(found['paper'])}"
    return f"/ ({text})" if found["capped"] else text


def _ratio(a: float | None, b: float | None) -> str:
    if a is None or b is None:
        return ""
    if math.isinf(b):
        return "/" if math.isinf(a) else "< 1"
    return "/" if math.isinf(a) else f"{a / b:.2f}"


def verdicts(results: Results, methods: list[str]) -> Iterator[tuple[str, str, Cell, str]]:
    """Each pair of published methods in each cell: whether our order is the published one."""
    for cell in results.cells:
        for a, b in itertools.combinations(methods, 2):
            theirs = _order(*(_value(results.published(m, cell)) for m in (a, b)))
            ours = _order(*(_measured(results(m, cell)) for m in (a, b)))
            if theirs == 0:
                yield a, b, cell, "undecided"
            elif ours == 0:
                both = all(results(m, cell)["capped"] for m in (a, b))
                yield a, b, cell, "both over the cap" if both else "too close"
            else:
                yield a, b, cell, "agree" if theirs == ours else "differ"


def _value(printed: tuple[str, str] | None) -> tuple[float, float]:
    if printed is None:
        return math.nan, 0.0
    if printed[0] == "/":
        return math.inf, 0.0
    return float(printed[0]), float(printed[1] or 0)


def _measured(found: dict[str, Any]) -> tuple[float, float]:
    if found["capped"]:
        return math.inf, 0.0
    return 1000 * found["mean"], 1000 * (found["std"] or 0.0)


def _order(a: tuple[float, float], b: tuple[float, float]) -> int:
    """-1 where a is faster, 1 where b is, 0 where their deviations overlap or one is not known."""
    if a[0] == b[0] or math.isnan(a[0] + b[0]):
        return 0
    if not math.isinf(a[0] + b[0]) and abs(a[0] - b[0]) < math.hypot(a[1], b[1]):
        return 0
    return -1 if a[0] < b[0] else 1


#: Verdicts that do not go by their first letter.
LETTERS = {"too close": "c", "both over the cap": "o"}


def _orderings(results: Results, methods: list[str]) -> list[Table]:
    """Which pairs are ordered as published: a letter for each cell, above the diagonal."""
    if len(methods) < 2:
        return []
    letters: dict[tuple[str, str], str] = {}
    for a, b, _, verdict in verdicts(results, methods):
        letters[a, b] = letters.get((a, b), "") + LETTERS.get(verdict, verdict[0])
    rows = [[a, *(letters.get((a, b), "") for b in methods[1:])] for a in methods[:-1]]
    title = (
        "Orderings under the paper's protocol, a letter for each column of the tables: a agree, "
        "d differ, u undecided in print (within the published deviations, or both over 5 s), "
        f"c too close here, o both over {results.cap:g} s here"
    )
    return [Table(title, ["", *methods[1:]], rows)]


def remark(results: Results) -> str:
    """What every timing table can say of itself."""
    methods = [m for m in results.experiment.methods if results.published(m, results.cells[0])]
    count = Counter(verdict for *_, verdict in verdicts(results, methods))
    sentences = []
    if methods:
        sentences.append(
            f"Of {sum(count.values())} pairs of published methods {count['agree']} are ordered as "
            f"published, {count['differ']} are not, {count['undecided']} are undecided in print, "
            f"{count['too close']} are too close here, and of {count['both over the cap']} both are "
            f"over {results.cap:g} s."
        )
    first = results.cells[0]
    loose = {m: results(m, first)["shortfall"] for m in methods or timed(results)}
    known = {m: max(v, 0.0) for m, v in loose.items() if v is not None and not _capped(results, m)}
    if len(known) > 1:
        worst, best = max(known, key=known.__getitem__), min(known, key=known.__getitem__)
        sentences.append(
            f"At the paper's tolerance, {worst} stops with {known[worst]:.1e} of the captured variance "
            f"missing and {best} with {known[best]:.1e} ({head(results, first)})."
        )
    return " ".join(sentences)


def summary(results: Results) -> tuple[str, str, str]:
    """The fastest published method beside svds, in print and here, and what its test lets it miss."""
    cell, methods = results.cells[0], timed(results)
    printed = [m for m in methods if published_ms(results, m, cell)]
    rivals = [m for m in (printed or methods) if m not in ("svds", *OURS)]
    here = min(rivals, key=lambda m: seconds(results, m, cell))
    ratio = _ratio(*(seconds(results, m, cell) for m in (here, "svds")))
    ours = (
        f"{here} {ratio} of svds, {_missing(results, here, cell)} missing ({head(results, cell)})"
    )
    if not printed:
        return "a figure without its data", ours, "only the shape can be compared"
    there = min(rivals, key=lambda m: published_ms(results, m, cell) or math.inf)
    theirs = _ratio(*(published_ms(results, m, cell) for m in (there, "svds")))
    count = Counter(verdict for *_, verdict in verdicts(results, printed))
    why = (
        f"{count['agree']} orderings agree, {count['differ']} differ; machine, language and what is not "
        f"given in print; svds misses {_missing(results, 'svds', cell)}"
    )
    return f"{there} {theirs} of svds", ours, why


def _missing(results: Results, method: str, cell: Cell) -> str:
    """The captured variance that a method lacks where it stops, or at the cap."""
    found = results(method, cell)["shortfall"]
    return "?" if found is None else f"{max(found, 0.0):.0e}"


def timed(results: Results) -> list[str]:
    """The methods that were timed."""
    return [m for m in results.experiment.methods if "targets" in results(m, results.cells[0])]


def _capped(results: Results, method: str) -> bool:
    return results(method, results.cells[0])["capped"]
