"""Difficult matrices x estimators x solvers x precisions x forms: right, refused or warned of.

A sample of all combinations: the large one has every pair of a matrix and a way to fit it, and is another
each day. TORTURE_SEED=n repeats one, and a failure names its own.
"""

from __future__ import annotations

import re
import signal
import warnings
from contextlib import contextmanager

import numpy as np
import pytest
from cases import sample
from judge import JUDGES, finite
from scale import LARGE, SEED
from sklearn.exceptions import ConvergenceWarning

CASES = None if LARGE else 150

#: Processor seconds after which a case hangs: an ordinary one, and one of 10^5 to 10^6 rows or columns.
PATIENCE, LONG_PATIENCE = 30, 300


def parameters() -> list:
    cases = sample(CASES, SEED, bulky=LARGE)
    return [pytest.param(case, id=str(case)) for case in cases]


@contextmanager
def patience(seconds: float):
    """An AssertionError after so many processor seconds."""

    def ring(number, frame):
        raise AssertionError(f"still running after {seconds} s")

    before = signal.signal(signal.SIGPROF, ring)
    signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)


def verdict(case) -> str:
    """ "passed", "warned" or "refused"; an AssertionError where a case is none of these."""
    X = case.array()
    before = X.copy()
    model = case.model(X)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            data = case.data(X)
            model.fit(data)
        except (ValueError, TypeError) as error:
            refused(case, X, model, error)
            warned(caught)
            return "refused"
        told = warned(caught)
        finite(model)
        JUDGES[type(model).__name__](model, X, data, getattr(model, "tol", 0.0), told)
        warned(caught)
    dtype = model.transform(data).dtype
    if X.dtype.isnative:
        assert (dtype == np.float32) == (X.dtype == np.float32), f"{X.dtype} became {dtype}"
    assert (before == X).all(), "X was changed"
    return "warned" if told else "passed"


def refused(case, X, model, error) -> None:
    """An error is right where the input is at fault, and names the argument."""
    names = "|".join(["X", "Found array", "the data", *model.get_params()])
    assert re.search(rf"\b({names})\b", str(error)), f"the error names no argument: {error!r}"
    assert case.may_refuse(X), f"refused without reason: {error!r}"


def warned(caught) -> list[str]:
    """The ConvergenceWarnings; others than plain UserWarnings are failures."""
    others = [w for w in caught if w.category not in (ConvergenceWarning, UserWarning)]
    assert not others, f"{others[0].category.__name__}: {others[0].message} ({others[0].filename})"
    return [str(w.message) for w in caught if w.category is ConvergenceWarning]


@pytest.mark.skipif(not hasattr(signal, "SIGPROF"), reason="needs interval timers")
@pytest.mark.parametrize("case", parameters())
def test_right_refused_or_warned(case, record_property):
    record_property("estimator", case.estimator.__name__)
    try:
        with patience(LONG_PATIENCE if case.difficult.bulky else PATIENCE):
            found = verdict(case)
    except BaseException as error:
        error.add_note(f"TORTURE_SEED={SEED} TORTURE={int(LARGE)}: {case}")
        raise
    record_property("verdict", found)
