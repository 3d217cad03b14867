"""How claims are checked: verdicts over all starts, and comparisons of times.

A check is a function of results, and is asked four times: with the times of each start of PG and ZeroFPR,
and with the published numbers in the place of ours.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from .engine import STARTS, Cell, Claim, NotInPrintError, Results
from .timing_tables import PAPER, WHERE, number, seconds

CONFIRMED = "confirmed"
ONLY = "confirmed only under its stopping test"
PART = "confirmed in part"
DEPENDS = "depends on the start"
NOT = "not confirmed"
UNDECIDED = "undecided"
UNCHECKED = "not checked by a run"

#: Every verdict, in the order of the page.
VERDICTS = (CONFIRMED, ONLY, PART, DEPENDS, NOT, UNDECIDED, UNCHECKED)

Check = Callable[[Results], tuple[str, str]]
Times = Callable[[str, Cell], float]


@dataclass(frozen=True)
class Judgement:
    """A claim, its verdict over all starts, the numbers, and whether it holds in print, if known."""

    claim: Claim
    verdict: str
    number: str
    in_print: bool | None


def judge(claim: Claim, results: Results) -> Judgement:
    """The verdict that every start gives; where they differ, that it depends on the start."""
    found = {start: claim.check(results.from_start(start)) for start in STARTS}
    given: dict[str, list[str]] = {}
    for start, (kind, _) in found.items():
        given.setdefault(kind, []).append(start)
    first = found[STARTS[0]][1]
    others = ((start, _differing(first, text)) for start, (_, text) in found.items())
    number = ". ".join([first, *(f"From {start}: {text}" for start, text in others if text)])
    if len(given) == 1:
        return Judgement(claim, found[STARTS[0]][0], number, holds_in_print(claim, results))
    told = "; ".join(f"{kind} from {' and '.join(starts)}" for kind, starts in given.items())
    return Judgement(claim, DEPENDS, f"{told}. {number}", holds_in_print(claim, results))


def _differing(first: str, other: str) -> str:
    """The parts, between semicolons, in which a text differs from the first."""
    known = first.split("; ")
    return "; ".join(part for part in other.split("; ") if part not in known)


def holds_in_print(claim: Claim, results: Results) -> bool | None:
    """The same check on the published numbers; None where these are not enough for it."""
    try:
        kind = claim.check(results.as_printed())[0]
    except NotInPrintError:
        return None
    return None if kind in (UNDECIDED, UNCHECKED) else kind != NOT


def verdict(holds: bool) -> str:
    """Of a claim in which no stopping test is involved."""
    return CONFIRMED if holds else NOT


def check(holds: Callable[[Results], bool], told: Callable[[Results], str]) -> Check:
    """A check from a test and the number that is told."""
    return lambda results: (verdict(holds(results)), told(results))


def above(least: float) -> Callable[[float], bool]:
    """Ratios above this."""
    return lambda ratio: ratio > least


def between(low: float, high: float) -> Callable[[float], bool]:
    """Ratios from one to the other."""
    return lambda ratio: low <= ratio <= high


def of_ratios(
    ratios: Callable[[Results, Times], list[float]], holds: Callable[[float], bool]
) -> Check:
    """Whether all ratios of times hold under the methods' own tests, and at each equal accuracy.

    ``ratios(results, time)`` is asked with the times of the paper's protocol and with those to each
    target; the claim is confirmed where all of them hold. Where neither side ended nothing is known.
    Published are the times of the protocol only.
    """

    def run(results: Results) -> tuple[str, str]:
        parts, kept = [], {}
        for at in (PAPER,) if results.in_print else WHERE:
            found = ratios(results, lambda m, cell, at=at: seconds(results, m, cell, at))
            known = [ratio for ratio in found if not math.isnan(ratio)]
            kept[at] = all(holds(ratio) for ratio in known) if known else None
            where = "its test" if at == PAPER else f"{float(at):.0e}"
            parts.append(f"{where}: {', '.join(_told(ratio) for ratio in found)}")
        if kept[PAPER] is None:
            return UNDECIDED, "; ".join(parts)
        status = CONFIRMED if False not in kept.values() else ONLY
        status = status if kept[PAPER] else NOT
        return status, "; ".join(parts)

    return run


def _told(ratio: float) -> str:
    return "-" if math.isnan(ratio) else "∞" if math.isinf(ratio) else number(ratio, 2)


def over(a: float, b: float) -> float:
    """``a / b`` of two times; not a number where neither ended."""
    if math.isinf(b):
        return math.nan if math.isinf(a) else 0.0
    return a / b


def every(results: Results, cell: Cell) -> bool:
    """All cells."""
    return True


def nth(*indices: int) -> Callable[[Results, Cell], bool]:
    """The cells of these numbers, from 0."""
    return lambda results, cell: list(results.cells).index(cell) in indices


def faster(
    fast: Sequence[str],
    slow: Sequence[str],
    *,
    where: Callable[[Results, Cell], bool] = every,
    least: float = 1.0,
    best: bool = False,
) -> Check:
    """Each of ``fast`` (the best of them) takes less time than each of ``slow``, in every cell.

    The ratios are the smallest time of ``slow`` over the largest (or least) of ``fast``.
    """

    def ratios(results: Results, time: Times) -> list[float]:
        of = min if best else max
        return [
            over(min(time(m, cell) for m in slow), of(time(m, cell) for m in fast))
            for cell in results.cells
            if where(results, cell)
        ]

    return of_ratios(ratios, above(least))


def spread(
    methods: Sequence[str],
    holds: Callable[[float], bool],
    where: Callable[[Results, Cell], bool] = every,
) -> Check:
    """The slowest of these over the fastest."""

    def ratios(results: Results, time: Times) -> list[float]:
        cells = [cell for cell in results.cells if where(results, cell)]
        times = [[time(m, cell) for m in methods] for cell in cells]
        return [over(max(found), min(found)) for found in times]

    return of_ratios(ratios, holds)


def prefers(primal: str, dual: str) -> Check:
    """The primal is the faster for tall matrices, the dual for wide ones; the other over it."""

    def ratios(results: Results, time: Times) -> list[float]:
        tall = [over(time(dual, c), time(primal, c)) for c in results.cells if c["N"] > c["d"]]
        wide = [over(time(primal, c), time(dual, c)) for c in results.cells if c["N"] < c["d"]]
        return tall + wide

    return of_ratios(ratios, above(1))


def growth(methods: Sequence[str], slow: int, fast: int, holds: Callable[[float], bool]) -> Check:
    """Time in the cell of number ``slow`` over time in that of number ``fast``, for each method."""

    def ratios(results: Results, time: Times) -> list[float]:
        cells = results.cells
        return [over(time(m, cells[slow]), time(m, cells[fast])) for m in methods]

    return of_ratios(ratios, holds)


def values(results: Results, method: str, key: str) -> list[Any]:
    """One measured quantity of a method over the cells."""
    return [results(method, cell)[key] for cell in results.cells]


def several(*checks: tuple[str, Check]) -> Check:
    """Named parts of one claim: the worst verdict of those that could be checked, every number."""

    def run(results: Results) -> tuple[str, str]:
        found = []
        for name, part in checks:
            try:
                found.append((name, *part(results)))
            except NotInPrintError as error:
                missing = error
        if not found:
            raise missing
        worst = max((v for _, v, _ in found), key=_WORSE.index)
        return worst, "; ".join(f"{name} ({v}): {text}" for name, v, text in found)

    return run


#: From what says nothing to what says no.
_WORSE = (UNCHECKED, UNDECIDED, CONFIRMED, PART, ONLY, NOT)
