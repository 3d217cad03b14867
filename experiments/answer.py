"""The short answer at the top of the page: five sentences, every number in them from the results."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence

import numpy as np
from benchmarks.explore import TARGETS

from .claims import CONFIRMED, DEPENDS, NOT, ONLY, PART, UNCHECKED, UNDECIDED, Judgement
from .engine import STARTS, Results
from .methods import METHODS
from .robust_settings import off
from .timing_tables import PAPER, seconds, timed

Judged = Sequence[tuple[Results, Sequence[Judgement]]]

#: The experiments on robust PCA.
ROBUST = ("table-robust-reconstruction", "table-robust-accuracy", "table-pcp")


def answer(judged: Judged) -> str:
    """The verdicts, the theory, the speed, the start and the robust experiments, a sentence each."""
    parts = (_verdicts(judged), _theory(judged), _speed(judged), _start(judged), _robust(judged))
    return " ".join(part for part in parts if part)


def _verdicts(judged: Judged) -> str:
    found = [judgement for _, judgements in judged for judgement in judgements]
    count = Counter(judgement.verdict for judgement in found)
    known = [judgement for judgement in found if judgement.in_print is not None]
    failing = [judgement for judgement in known if not judgement.in_print]
    return (
        f"Of {len(found)} claims {count[CONFIRMED]} are confirmed, {count[ONLY]} only under the paper's "
        f"stopping test, {count[PART]} in part, {count[DEPENDS]} by a start that the paper does not "
        f"name, {count[NOT]} are not confirmed, and {count[UNDECIDED] + count[UNCHECKED]} were not "
        f"decided by a run; of the {len(known)} that the published numbers can decide {len(failing)} do "
        f"not hold in print ({_numbers(failing)})."
    )


def _theory(judged: Judged) -> str:
    for results, judgements in judged:
        if results.experiment.name == "theory":
            errors = [
                results(m, c)["error"] for c in results.cells for m in results.experiment.methods
            ]
            return (
                f"Of the {len(judgements)} claims of the theory (duality, kernelisation, out of sample, "
                f"Theorem 3.11, large steps) {_confirmed(judgements)} are confirmed, with errors up to "
                f"{max(errors):.0e}."
            )
    return ""


def _speed(judged: Judged) -> str:
    """How often PG and ZeroFPR on (n) and (o) are ahead of svds, under their test and behind it."""
    pairs = _pairs(judged)
    if not pairs:
        return ""
    ahead = {
        at: [_ahead(pairs, start, at) for start in STARTS] for at in (PAPER, *map(str, TARGETS))
    }
    tested = " to ".join(str(n) for n in sorted({min(ahead[PAPER]), max(ahead[PAPER])}))
    later = [f"{ahead[str(target)][0]} ({target:.0e} missing)" for target in TARGETS]
    return (
        "Where their own test stops them, PG and ZeroFPR on (n) and (o) are faster than svds in "
        f"{tested} of {len(pairs)} timings, by the start, and at equal accuracy in {', '.join(later)}."
    )


def _start(judged: Judged) -> str:
    """What the own test lets them miss from each start, and the claims that hang on it."""
    pairs = _pairs(judged)
    if not pairs:
        return ""
    told = ", ".join(f"{_missing(pairs, start):.0e} from {start}" for start in STARTS)
    hang = [j for _, judgements in judged for j in judgements if j.verdict == DEPENDS]
    decides = f"which decides {_numbers(hang)}" if hang else "which decides no verdict"
    return (
        f"What that test leaves of the captured variance goes by the start (in the median {told}), "
        f"{decides}."
    )


def _robust(judged: Judged) -> str:
    found = {r.experiment.name: (r, js) for r, js in judged if r.experiment.name in ROBUST}
    if len(found) < len(ROBUST):
        return ""
    judgements = [judgement for _, js in found.values() for judgement in js]
    results = found[ROBUST[0]][0]
    apart = off(results, results.experiment.methods)
    return (
        f"Of the {len(judgements)} claims on robust PCA {_confirmed(judgements)} are confirmed, and the "
        f"reconstruction errors differ from the published ones by at most {apart:.0%}."
    )


def _confirmed(judgements: Sequence[Judgement]) -> int:
    return sum(judgement.verdict == CONFIRMED for judgement in judgements)


def _numbers(judgements: Sequence[Judgement]) -> str:
    """The claims by their numbers."""
    numbers = sorted({judgement.claim.number for judgement in judgements})
    if not numbers:
        return "none"
    return ("claims " if len(numbers) > 1 else "claim ") + ", ".join(map(str, numbers))


def _pairs(judged: Judged) -> list[tuple[Results, str, dict]]:
    """Every timing of a method whose first step depends on its start."""
    return [
        (results, method, cell)
        for results, _ in judged
        if "svds" in results.experiment.methods and "targets" in results("svds", results.cells[0])
        for method in timed(results)
        if METHODS[method].scaled
        for cell in results.cells
    ]


def _ahead(pairs: list[tuple[Results, str, dict]], start: str, at: str) -> int:
    times = (
        [seconds(results.from_start(start), m, cell, at) for m in (method, "svds")]
        for results, method, cell in pairs
    )
    return sum(ours < svds for ours, svds in times)


def _missing(pairs: list[tuple[Results, str, dict]], start: str) -> float:
    """The median over the timings of what is missing where the own test, or the cap, stops them."""
    found = (results(method, cell) for results, method, cell in pairs)
    left = [data["starts"].get(start, data)["shortfall"] for data in found]
    return float(np.median([math.inf if x is None else max(x, 0.0) for x in left]))
