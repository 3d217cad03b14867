"""What a method is: a fit that is timed and limited, and a reading of what it found."""

from __future__ import annotations

import math
import signal
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import FrameType
from typing import Any

import numpy as np

from .robust_r import Rrcov

PARTS = ("haystack", "digits", "mnist", "classics", "outliers")

#: Seconds below which a fit is timed three times and the median taken; rrcov.R does the same.
SHORT = 0.1


@dataclass(frozen=True)
class Fit:
    """What a method found: a larger score is more outlying, a flag is True at an outlier."""

    seconds: float
    components: np.ndarray | None = None
    mean: np.ndarray | None = None
    flags: np.ndarray | None = None
    scores: np.ndarray | None = None

    def reconstruct(self, X: np.ndarray) -> np.ndarray:
        """X projected onto the affine subspace found."""
        assert self.components is not None
        return self.mean + (X - self.mean) @ self.components.T @ self.components


@dataclass(frozen=True)
class Method:
    """A method in Python.

    ``fit(X, k, seed)`` is what is timed, ``read(model, X, k)`` gives the fields of Fit, ``unfit(N, d)``
    says why a size is not for it, ``load`` raises where its package is missing. A slow method runs at
    the first seed only.
    """

    name: str
    fit: Callable[[np.ndarray, int, int], Any]
    read: Callable[[Any, np.ndarray, int], dict[str, Any]]
    unfit: Callable[[int, int], str] = lambda N, d: ""
    load: Callable[[], Any] = lambda: None
    parts: tuple[str, ...] = PARTS
    slow: bool = False

    def run(self, X: np.ndarray, k: int, seed: int, limit: float) -> Fit:
        """Fit and read; TimeoutError after ``limit`` seconds."""
        seconds: list[float] = []
        with warnings.catch_warnings(), np.errstate(all="ignore"), time_limit(limit):
            warnings.simplefilter("ignore")
            while not seconds or (sum(seconds) < 3 * SHORT and len(seconds) < 3):
                begun = time.perf_counter()
                model = self.fit(X, k, seed)
                seconds.append(time.perf_counter() - begun)
            return Fit(float(np.median(seconds)), **self.read(model, X, k))


@dataclass(frozen=True)
class RMethod:
    """A method of rrcov, timed inside R, for at most ``entries`` entries.

    Its score is the larger of the orthogonal and the score distance, each over its cut-off.
    """

    name: str
    R: Rrcov
    entries: float = math.inf
    slow: bool = False
    parts: tuple[str, ...] = PARTS

    def load(self) -> None:
        """Start R."""
        self.R.start()

    def unfit(self, N: int, d: int) -> str:
        """Why a size is not for it."""
        return f"more than {self.entries:,.0f} entries" if N * d > self.entries else ""

    def run(self, X: np.ndarray, k: int, seed: int, limit: float) -> Fit:
        """Fit in R; TimeoutError after ``limit`` seconds."""
        found = self.R.fit(self.name, X, k, seed, limit)
        scores = found.sd / found.cutoff_sd
        if found.cutoff_od > 0:
            scores = np.maximum(scores, found.od / found.cutoff_od)
        return Fit(found.seconds, found.components, found.mean, found.flags, scores)


@contextmanager
def time_limit(seconds: float) -> Iterator[None]:
    """TimeoutError after so many seconds, as soon as the interpreter has its turn."""

    def stop(number: int, frame: FrameType | None) -> None:
        raise TimeoutError(f"over {seconds:.0f} s")

    before = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
