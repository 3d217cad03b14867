"""Fits that are interrupted, told nonsense, or whose data changes: as before, or an error, or right."""

from __future__ import annotations

import inspect
import os
import sys
from contextlib import suppress

import numpy as np
import pytest
import scipy.sparse as sp
from faults import MODELS, STREAMED, data, dice, fit, learned, made, marks, script
from scale import LARGE, SEED, count

import dualpca
from dualpca import PCA, PrincipalComponentPursuit
from dualpca.operators import Blocks
from dualpca.progress import Listener, listening

PACKAGE = os.path.dirname(dualpca.__file__)


class Interrupter:
    """Ctrl-C at the n-th call of a function of the package, in whatever it is doing then.

    Not in a generator, which may be one that is being disposed of: Python lets no error out of that.
    """

    def __init__(self, at=None):
        self.calls, self.at = 0, at

    def __call__(self, frame, event, argument):
        code = frame.f_code
        if event != "call" or code.co_flags & inspect.CO_GENERATOR:
            return
        if code.co_filename.startswith(PACKAGE):
            self.calls += 1
            if self.calls == self.at:
                sys.setprofile(None)
                raise KeyboardInterrupt

    def __enter__(self):
        sys.setprofile(self)
        return self

    def __exit__(self, *_):
        sys.setprofile(None)


@pytest.mark.parametrize(
    "name",
    MODELS,
)
def test_ctrl_c_at_any_call_leaves_the_model_as_it_was(name, record_property):
    """Unfitted where it was; else the old fit, bit for bit; and a new fit is that of a new model."""
    X, other = data(), 2 * data(70, 9, seed=1)
    fresh = learned(fit(made(name), X))
    with Interrupter() as whole:
        fit(made(name), X)
    before, trials, rolled = marks(), count(2, 60), dice(name)
    for trial in range(trials):
        model = made(name) if trial % 2 else fit(made(name), other)
        old = learned(model)
        # A model that was fitted before may make a few calls less.
        at = rolled.randint(1, whole.calls - whole.calls // 20)
        with pytest.raises(KeyboardInterrupt), Interrupter(at):
            fit(model, X)
        assert learned(model) == old, (SEED, trial)
        assert learned(fit(model, X)) == fresh, (SEED, trial)
        assert marks() == before, (SEED, trial)
    record_property("fault", "KeyboardInterrupt at any call")
    record_property("executions", trials)


SIGNALS = """
import os, signal, sys, threading, time
sys.path[:0] = sys.argv[3:]
from faults import MODELS, data, dice, fit, learned, made, marks
name, trials, X, other = sys.argv[1], int(sys.argv[2]), data(), 2 * data(70, 9, seed=1)
fresh, rolled = learned(fit(made(name), X)), dice(name + " signals")
begun = time.perf_counter()
fit(made(name), X)
seconds, before, caught, arrived = time.perf_counter() - begun, marks(), 0, []

def arrive(number, frame):
    arrived.append(number)
    raise KeyboardInterrupt

signal.signal(signal.SIGINT, arrive)
for trial in range(trials):
    model = made(name) if trial % 2 else fit(made(name), other)
    old, ended = learned(model), False
    arrived.clear()
    timer = threading.Timer(rolled.uniform(0, seconds), os.kill, (os.getpid(), signal.SIGINT))
    try:
        timer.start()
        fit(model, X)
        ended = True
        while not arrived:
            time.sleep(1)
    except KeyboardInterrupt:
        caught += not ended
    timer.join()
    if ended:
        assert learned(model) == fresh
    else:  # the signal may have come when all was done but the end
        assert learned(model) in (old, fresh)
    assert learned(fit(model, X)) == fresh
    assert marks() == before, (before, marks())
print(caught)
"""

SLOW = [
    "PCA krylov",
    "RobustPCA",
    "SparsePCA block",
    "RobustKernelPCA",
    "PrincipalComponentPursuit",
]


@pytest.mark.skipif(not (LARGE and hasattr(os, "fork")), reason="the large run on POSIX")
@pytest.mark.parametrize("name", SLOW)
def test_sigint_at_any_time_leaves_the_model_as_it_was(name, record_property):
    trials = 40
    (caught,) = script(SIGNALS, name, trials, os.path.dirname(__file__))
    assert int(caught) > 0
    record_property("fault", "SIGINT at any time")
    record_property("executions", trials)


class Counted:
    """A block that is read, and at its n-th reading does something else."""

    def __init__(self, X, at=0, then=None):
        self.X, self.at, self.then, self.readings = X, at, then, 0

    def __call__(self):
        self.readings += 1
        return self.then(self.X) if self.readings == self.at else self.X

    def operator(self):
        self.readings = 0
        return Blocks([self], shapes=[self.X.shape], dtype=self.X.dtype)


def broken(error):
    def then(X):
        raise error

    return then


def with_nan(X):
    X = X.copy()
    X[:, 2] = np.nan
    return X


FAULTS = {
    "KeyboardInterrupt at a reading": (broken(KeyboardInterrupt()), KeyboardInterrupt),
    "OSError at a reading": (broken(OSError(5, "Input/output error")), OSError),
    "MemoryError at a reading": (broken(MemoryError("no more")), MemoryError),
    "NaN in a later pass": (with_nan, (OSError, ValueError, ArithmeticError)),
    "rows gone in a later pass": (lambda X: X[:-1], ValueError),
    "columns gone in a later pass": (lambda X: X[:, 1:], ValueError),
    "nothing in a later pass": (lambda X: X[:0], ValueError),
    "None in a later pass": (lambda X: None, (ValueError, TypeError)),
}


PAIRS = [(name, fault) for name in STREAMED for fault in FAULTS]


@pytest.mark.parametrize(
    ("name", "fault"), sorted(dice("pairs").sample(PAIRS, count(26, len(PAIRS))))
)
def test_what_fails_at_a_reading_is_told_and_leaves_the_model_as_it_was(
    name, fault, record_property
):
    """At every reading in turn. Where NaN was read, no number of it may be in a model."""
    then, errors = FAULTS[fault]
    X, block = data(), Counted(data())
    model = fit(made(name), block.operator())
    fresh, readings = learned(model), block.readings
    places = range(1, readings + 1)
    if readings > count(3, 40):
        places = sorted(dice(f"{name} {fault}").sample(places, count(3, 40)))
    for at in places:
        changed = Counted(X, at, then).operator()
        if fault.startswith("NaN"):  # only the kind of block may have been asked for
            with suppress(errors):
                fit(model, changed)
        else:
            with pytest.raises(errors) as caught:
                fit(model, changed)
            assert str(caught.value) or isinstance(caught.value, KeyboardInterrupt)
        found = learned(model)
        if fault.startswith("NaN") and at <= 2:  # looked at again, and then they were numbers
            found |= {key: fresh[key] for key in ("n_passes_", "convergence_") if key in fresh}
            fit(model, block.operator())
        assert found == fresh, (at, readings)
    assert learned(fit(model, block.operator())) == fresh
    record_property("fault", fault)
    record_property("executions", len(places))


class Doing(Listener):
    """Does something at the n-th step."""

    def __init__(self, at, then):
        self.at, self.then, self.steps = at, then, 0

    def step(self, step):
        self.steps += 1
        if self.steps == self.at:
            self.then()


@pytest.mark.parametrize("name", MODELS)
def test_a_listener_that_fails_ends_the_fit_with_its_error(name, record_property):
    X, told = data(), Doing(0, None)
    with listening(told):
        model = fit(made(name), X)
    fresh, before = learned(model), marks()

    def fail():
        raise RuntimeError("from the listener")

    places = {1, told.steps // 2 + 1, told.steps} if told.steps else ()
    for at in places:
        with listening(Doing(at, fail)), pytest.raises(RuntimeError, match="from the listener"):
            fit(model, X)
        assert learned(model) == fresh
        assert marks() == before
    record_property("fault", "a listener that raises")
    record_property("executions", len(places))


@pytest.mark.parametrize("value", [np.nan, np.inf, 1e200][: count(1, 3)])
@pytest.mark.parametrize("name", MODELS)
def test_data_that_a_listener_changes_gives_no_model_of_nan(name, value, record_property):
    """The array is the user's own, in memory: an error, or finite numbers."""
    X, told = data(), Doing(0, None)
    with listening(told):
        fit(made(name), X)
    for at in range(1, told.steps + 1, max(1, told.steps // count(2, 10))):
        A, model = X.copy(), made(name)
        try:
            with listening(Doing(at, lambda A=A: A.__setitem__(slice(0, 40), value))):
                fit(model, A)
        except (ValueError, ArithmeticError):
            assert learned(model) == {}
            continue
        for attribute in ("components_", "explained_variance_", "eigenvalues_", "eigenvectors_"):
            assert np.isfinite(getattr(model, attribute, 0.0)).all(), (attribute, at)
    record_property("fault", "data changed during the fit")


def test_blocks_of_other_widths_empty_blocks_and_spent_generators(record_property):
    X = data()
    with pytest.raises(ValueError, match=r"the row blocks have \[11, 12\] columns"):
        Blocks([X, X[:, 1:]])
    with pytest.raises(ValueError, match="blocks is empty"):
        Blocks([])
    with pytest.raises(ValueError, match=r"shape \(0, 12\); give at least one row"):
        Blocks([X[:0], X[:0]])
    expected = PCA(2, random_state=0).fit(Blocks([X]))
    model = PCA(2, random_state=0).fit(Blocks([X[:0], X[:40], X[40:40], X[40:], X[:0]]))
    assert model.components_ == pytest.approx(expected.components_, abs=1e-10)
    with pytest.raises(TypeError, match="sequence"):
        Blocks(block for block in [X])
    record_property("fault", "blocks of other widths, empty ones, a generator")


def test_mixed_blocks_that_turn_sparse_or_dense_between_passes(record_property):
    X = data()
    for first, then in ((X, sp.csr_array(X)), (sp.csr_array(X), X)):
        calls = []

        def block(first=first, then=then, calls=calls):
            calls.append(1)
            return first if len(calls) < 3 else then

        model = PCA(2, solver="krylov", tol=1e-8, random_state=0)
        try:
            fit(model, Blocks([block], shapes=[X.shape], dtype=float))
        except (ValueError, TypeError):
            assert learned(model) == {}
        else:
            expected = PCA(2, random_state=0).fit(X).explained_variance_
            assert model.explained_variance_ == pytest.approx(expected, rel=1e-6)
    record_property("fault", "blocks that turn sparse between passes")


def test_an_operator_is_refused_by_what_holds_all_of_the_data(record_property):
    with pytest.raises(TypeError, match="needs all of X at once; give a dense array"):
        PrincipalComponentPursuit().fit(Blocks([data()]))
    record_property("fault", "an operator where an array is needed")
