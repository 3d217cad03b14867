"""Turning the knobs: every method from loose to tight, once each, without wasted time.

A method stops once it meets the tightest target. It also stops, after at least one run, once the next
would take longer than ``cap`` seconds or than SLOW times the fastest peer that met the tightest target;
ours is held to the cap only. A direct method is not run where a corner of the data predicts that it
takes twice that long. Where a target is then met by no peer, or not by ours, those stopped go
on, with PATIENCE times the cap.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from .judge import Judge
from .measure import measured, predicted, warm_up
from .methods import Method, components, facts

TARGETS = (1e-2, 1e-4, 1e-8)
SLOW = 1.2
PATIENCE = 4


@dataclass(frozen=True)
class Explored:
    """One run: its knob, seconds, judged shortfall, peak memory in MB and a model's own facts."""

    knob: Any
    seconds: float
    shortfall: float
    peak_mb: float | None
    facts: dict[str, Any]


@dataclass
class Trail:
    """The runs of one method on one matrix, and why there are no more."""

    method: Method
    runs: list[Explored] = field(default_factory=list)
    ended: str = ""
    over: bool = False
    _predicted: float | None = None

    def fastest(self, target: float) -> Explored | None:
        """The fastest run that meets the target."""
        meets = [run for run in self.runs if run.shortfall <= target]
        return min(meets, key=lambda run: run.seconds) if meets else None

    def advance(self, A: Any, s: int, judge: Judge, limit: float) -> None:
        """Run the remaining knobs until the tightest target is met or ``limit`` seconds passed."""
        while not self.over:
            if self.runs and self._next_seconds() > limit:
                self.ended = f"stopped: about {self._next_seconds():.3g} s, over {limit:.3g} s"
                return
            try:
                if self._too_slow(A, s, limit):
                    return
                self._run(A, s, judge)
            except Exception as error:  # a method that fails is out of this case, and said to be
                self._end(f"failed: {type(error).__name__}: {str(error)[:80]}")

    def _next_seconds(self) -> float:
        """What the next knob takes if seconds grow as they did last."""
        last = self.runs[-1].seconds
        if len(self.runs) == 1 or self.method.kind == "ours":
            return last
        return last * min(max(1.0, last / self.runs[-2].seconds), 2.0)

    def _too_slow(self, A: Any, s: int, limit: float) -> bool:
        if self.method.side is None:
            return False
        if self._predicted is None:
            self._predicted = predicted(self.method, A, s)
        if self._predicted <= 2 * limit:  # the prediction may be twice too high
            return False
        self.ended = f"not run: about {self._predicted:.0f} s, from a corner of the data"
        return True

    def _run(self, A: Any, s: int, judge: Judge) -> None:
        knob = self.method.knobs[len(self.runs)]
        seconds, found, peak_mb = measured(self.method, A, s, knob)
        shortfall = judge.shortfall(components(found))
        self.runs.append(Explored(knob, seconds, shortfall, peak_mb, facts(found)))
        if shortfall <= TARGETS[-1]:
            self._end("met the tightest target")
        elif len(self.runs) == len(self.method.knobs):
            self._end("at its tightest knob")

    def _end(self, reason: str) -> None:
        self.ended, self.over = reason, True


def fastest_of(trails: Sequence[Trail], target: float, kind: str = "peer") -> float:
    """Seconds of the fastest run of a kind of method to meet the target; infinite without one."""
    runs = [trail.fastest(target) for trail in trails if trail.method.kind == kind]
    return min((run.seconds for run in runs if run), default=math.inf)


def explore(methods: Sequence[Method], A: Any, s: int, judge: Judge, *, cap: float) -> list[Trail]:
    """The trail of every method."""
    trails = [Trail(method) for method in methods]
    for method in methods:
        warm_up(method, A, s)
    _round(trails, A, s, judge, cap)
    unmet = {kind for kind in ("peer", "ours") if math.isinf(fastest_of(trails, TARGETS[-1], kind))}
    _round([t for t in trails if t.method.kind in unmet], A, s, judge, PATIENCE * cap)
    return trails


def _round(trails: Sequence[Trail], A: Any, s: int, judge: Judge, cap: float) -> None:
    for trail in trails:
        peers = math.inf if trail.method.kind == "ours" else fastest_of(trails, TARGETS[-1])
        trail.advance(A, s, judge, min(cap, SLOW * peers))
