"""What fits tell while they run: convergence_, verbose, listeners, scikit-learn's callbacks."""

import threading
import warnings

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.pipeline import make_pipeline

import dualpca
from dualpca import PCA, KernelPCA, RobustKernelPCA, RobustPCA, SparsePCA
from dualpca.progress import Listener, Printer, Step, listening, report_step, seconds_left

callback = pytest.importorskip("sklearn.callback", reason="scikit-learn before 1.9")


def data(N=300, d=40, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((N, d)) * 0.9 ** np.arange(d)
    X[:10] += 20 * rng.standard_normal((10, d))
    return X


MODELS = {
    "krylov": PCA(5, solver="krylov", tol=1e-8, random_state=0),
    "chebyshev": PCA(5, solver="chebyshev", tol=1e-8, random_state=0),
    "dca": PCA(5, solver="dca", tol=1e-6, random_state=0),
    "zerofpr": PCA(5, solver="zerofpr", formulation="n", tol=1e-6, random_state=0),
    "robust": RobustPCA(5, tol=1e-8, random_state=0),
    "robust irls": RobustPCA(5, solver="irls", tol=1e-6, random_state=0),
    "robust dual": RobustPCA(5, solver="dual", tol=1e-4, random_state=0),
    "kernel": KernelPCA(5, kernel="rbf", solver="krylov", tol=1e-8, random_state=0),
    "nystroem": KernelPCA(
        5, kernel="rbf", approximation="nystroem", n_landmarks=90, solver="krylov", random_state=0
    ),
    "robust kernel": RobustKernelPCA(5, gamma=0.01, tol=1e-6, random_state=0),
    "robust rff": RobustKernelPCA(
        5, gamma=0.01, approximation="rff", n_random_features=90, tol=1e-6, random_state=0
    ),
    "robust nystroem": RobustKernelPCA(
        5, gamma=0.01, approximation="nystroem", n_landmarks=60, tol=1e-6, random_state=0
    ),
    "sparse": SparsePCA(3, n_nonzero=8, random_state=0),
    "block": SparsePCA(3, n_nonzero=8, method="block", random_state=0),
}


class Log(Listener):
    def __init__(self, stop_after=None):
        self.steps, self.read, self.stop_after = [], [], stop_after

    def step(self, step):
        self.steps.append(step)
        return self.stop_after is not None and len(self.steps) >= self.stop_after

    def rows(self, done, total):
        self.read.append((done, total))


class Hooks:
    """A callback of scikit-learn's that notes its calls, and stops after some iterations."""

    def __init__(self, stop_after=None):
        self.events, self.stop_after, self.fitted = [], stop_after, None

    def setup(self, estimator, context):
        self.events.append("setup")

    def teardown(self, estimator, context):
        self.events.append("teardown")

    def on_fit_task_begin(self, estimator, context, *, X=None):
        self.events.append(("begin", context.task_name, context.task_id))
        assert X is not None

    def on_fit_task_end(self, estimator, context, *, fitted_estimator=None):
        self.events.append(("end", context.task_name, context.task_id))
        if context.parent is None:
            self.fitted = fitted_estimator
        return context.parent is not None and context.task_id + 1 == self.stop_after


@pytest.mark.parametrize("name", MODELS)
def test_convergence_ends_where_the_fit_ended(name):
    model = clone(MODELS[name]).fit(data())
    assert len(model.convergence_) >= 2
    told = np.array(model.convergence_)
    assert told.shape == (len(model.convergence_), 2)
    assert np.isfinite(told).all()
    assert told[-1, 1] == model.residual_
    assert (np.diff(told[:, 0]) >= 0).all()
    if not isinstance(model, SparsePCA):
        assert told[-1, 0] == model.n_passes_


@pytest.mark.parametrize("solver", ["gram", "lapack"])
def test_direct_solvers_have_one_row(solver):
    model = PCA(5, solver=solver).fit(data())
    assert_array_equal(model.convergence_, [[model.n_passes_, model.residual_]])


def test_convergence_of_every_way_to_fit():
    X = data()
    model = PCA(5, solver="krylov", random_state=0)
    again = clone(model)
    again.fit_transform(X)
    assert_array_equal(again.convergence_, model.fit(X).convergence_)
    for one in clone(model).path(X, [3, 5]):
        assert_array_equal(one.convergence_[:-1], model.convergence_[:-1])
    part = PCA(5).partial_fit(X)
    assert_array_equal(part.convergence_, [[part.n_passes_, part.residual_]])
    first, second = SparsePCA(2, random_state=0).path(X, [9, 4])
    for one in (first, second):
        assert one.convergence_[0][0] == 1
        assert one.convergence_[-1][1] == one.residual_
    assert len(second.convergence_) > 1


@pytest.mark.parametrize("name", MODELS)
def test_listeners_hear_what_convergence_tells(name):
    log = Log()
    with listening(log):
        model = clone(MODELS[name]).fit(data())
    main = [(step.passes, step.residual) for step in log.steps if not step.phase]
    told = model.convergence_
    assert len(told) - 1 <= len(main) <= len(told)
    assert main[: len(told) - 1] == told[: len(main)][: len(told) - 1]
    assert all(isinstance(step, Step) and step.seconds >= 0 for step in log.steps)
    assert all(step.tol > 0 and step.solver for step in log.steps)


def test_listening_changes_no_digit():
    for model in MODELS.values():
        silent = clone(model).fit_transform(data())
        with listening(Log()):
            assert_array_equal(clone(model).fit_transform(data()), silent)


def test_rows_of_a_file_are_told(tmp_path):
    np.save(tmp_path / "x.npy", data(50_000, 40))
    log = Log()
    with listening(log):
        PCA(3).fit(dualpca.as_operator(np.load(tmp_path / "x.npy", mmap_mode="r")))
    assert {total for _, total in log.read} == {50_000}
    done = [rows for rows, _ in log.read]
    assert done.count(50_000) >= 2
    assert min(done) < 50_000


@pytest.mark.parametrize("name", MODELS)
def test_a_stopped_fit_keeps_the_best_iterate(name):
    X, log = data(), Log(stop_after=2)
    model = clone(MODELS[name])
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # that it was stopped is no news to who stopped it
        with listening(log):
            model.fit(X)
    scores = model.transform(X)
    assert np.isfinite(scores).all()
    assert scores.shape == (300, model.n_components if name != "kernel" else 5)
    if isinstance(model, PCA):
        assert model.residual_ > model.tol
        # measured anew, in float64
        V = model.components_.T
        Z = (X - X.mean(0)).T @ ((X - X.mean(0)) @ V)
        left = np.linalg.norm(Z - V @ (V.T @ Z)) / np.linalg.norm(Z)
        assert_allclose(left, model.residual_, rtol=1e-6)
        if name in ("dca", "zerofpr"):  # the others build on their last iterate
            assert model.residual_ <= 1.01 * min(residual for _, residual in model.convergence_)
        # the certificate holds, though it was cut short too
        sigma2 = np.linalg.svd(X - X.mean(0), compute_uv=False)[:5] ** 2
        real = 1 - np.sum(((X - X.mean(0)) @ V) ** 2) / sigma2.sum()
        assert real / (1 - real) <= model.variance_shortfall_ * (1 + 1e-9) + 1e-14


class Interrupt(Listener):
    def step(self, step):
        raise KeyboardInterrupt


@pytest.mark.parametrize("name", MODELS)
def test_an_interrupted_fit_leaves_the_model_as_it_was(name):
    X, model = data(), clone(MODELS[name])
    with listening(Interrupt()), pytest.raises(KeyboardInterrupt):
        model.fit(X)
    assert not [attribute for attribute in vars(model) if attribute.endswith("_")]
    before = model.fit(X).transform(X)
    with listening(Interrupt()), pytest.raises(KeyboardInterrupt):
        model.fit(3 * data(seed=1)[:200])
    assert_array_equal(model.transform(X), before)
    assert_array_equal(model.fit(X).transform(X), before)


@pytest.mark.parametrize("solver", ["dca", "krylov", "chebyshev", "zerofpr"])
@pytest.mark.parametrize("count", [1, 2])
def test_a_stopped_fit_does_not_certify_itself(solver, count):
    rng = np.random.default_rng(1)
    X = rng.standard_normal((300, 120)) * np.r_[np.full(20, 3.0), np.full(100, 2.0)]
    X -= X.mean(0)
    optimum = np.sum(np.linalg.svd(X, compute_uv=False)[:10] ** 2)
    for tol in (1e-8, 1e-2):
        with listening(Log(stop_after=count)):
            model = PCA(10, solver=solver, tol=tol, random_state=0).fit(X)
        captured = np.sum((X @ model.components_.T) ** 2)
        assert optimum / captured - 1 <= model.variance_shortfall_ * (1 + 1e-9)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that max_iter was too small
        model = PCA(10, solver=solver, tol=1e-8, max_iter=count, random_state=0).fit(X)
    captured = np.sum((X @ model.components_.T) ** 2)
    assert optimum / captured - 1 <= model.variance_shortfall_ * (1 + 1e-9)


class Once(Listener):
    """Stops the n-th step of a phase, and no other."""

    def __init__(self, phase, n=1):
        self.phase, self.n, self.after = phase, n, []

    def step(self, step):
        if self.n == 0:
            self.after.append(step)
        if step.phase != self.phase or self.n == 0:
            return False
        self.n -= 1
        return self.n == 0


def test_a_stop_ends_what_would_have_gone_on():
    X = np.random.default_rng(0).standard_normal((900, 300))
    once = Once("")
    with listening(once):  # no float64 stage after the float32 one
        PCA(5, solver="krylov", tol=1e-6, random_state=0).fit(X)
    assert once.after == []
    once = Once("")
    with listening(once):  # no more components for a fraction
        PCA(0.9, solver="krylov", random_state=0).fit(X)
    assert once.after == []


def test_a_stop_in_the_start_is_none_of_the_rest():
    X, once = data(1500), Once("start")
    model = RobustKernelPCA(3, gamma=0.01, max_iter=2, tol=1e-9, random_state=0)
    with listening(once), pytest.warns(UserWarning, match="max_iter=2"):
        model.fit(X)
    assert once.after
    passes = [passes for passes, _ in model.convergence_]
    assert passes == sorted(passes)


def test_a_path_has_no_model_to_show():
    hooks = Hooks()
    PCA(solver="krylov").set_callbacks(hooks).path(data(), [1, 2])
    assert hooks.fitted is None
    assert hooks.events[-1] == "teardown"


def test_solve_stops_where_its_callback_says_so():
    problem = dualpca.formulations.formulation("n", data())
    seen = []

    def enough(record):
        seen.append(record)
        return len(seen) == 3

    result = dualpca.solve(problem, s=3, tol=1e-12, random_state=0, callback=enough)
    assert result.stopped
    assert not result.converged
    assert result.iterations == 3
    assert result.residual == min(record.residual for record in seen)


@pytest.mark.parametrize("name", MODELS)
def test_callbacks_of_scikit_learn(name):
    X, hooks = data(), Hooks()
    model = clone(MODELS[name]).set_callbacks(hooks).fit(X)
    assert hooks.events[0] == "setup"
    assert hooks.events[1][:2] == ("begin", "fit")
    assert hooks.events[-2][:2] == ("end", "fit")
    assert hooks.events[-1] == "teardown"
    inner = hooks.events[2:-2]
    assert len(inner) >= 4
    for number, (begin, end) in enumerate(zip(inner[::2], inner[1::2], strict=True)):
        assert begin[0] == "begin"
        assert end == ("end", begin[1], begin[2])
        assert begin[2] == number
    assert_array_equal(hooks.fitted.transform(X), model.transform(X))
    assert_array_equal(clone(MODELS[name]).fit(X).transform(X), model.transform(X))


def test_callbacks_stop_a_fit():
    hooks = Hooks(stop_after=3)
    model = PCA(5, solver="dca", tol=1e-14, random_state=0).set_callbacks(hooks).fit(data())
    assert model.n_iter_ == 3
    assert model.residual_ > 1e-14
    assert hooks.events[-1] == "teardown"


def test_callbacks_are_torn_down_where_a_fit_fails():
    hooks = Hooks()
    model = PCA(2).set_callbacks(hooks)
    with pytest.raises(ValueError, match="NaN"):
        model.fit(np.full((5, 3), np.nan))
    assert hooks.events[-1] == "teardown"
    assert not hasattr(model, "_callback_fit_ctx")


def test_progress_bar_of_scikit_learn(capsys):
    model = PCA(3, solver="krylov").set_callbacks(callback.ProgressBar()).fit(data())
    assert "PCA - fit" in capsys.readouterr().out
    assert model.components_.shape == (3, 40)


def test_callbacks_reach_a_step_of_a_pipeline(capsys):
    pipe = make_pipeline(PCA(10), RobustPCA(3, random_state=0))
    pipe.set_callbacks(callback.ProgressBar()).fit(data())
    assert "RobustPCA" in capsys.readouterr().out


def test_verbose_lines(capsys):
    X = data()
    model = RobustPCA(3, verbose=2, random_state=0).fit(X)
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) >= len(model.convergence_) - 1 > 2
    assert all(line.startswith("RobustPCA: ") for line in lines)
    RobustPCA(3, verbose=1, random_state=0).fit(X)
    assert 1 <= len(capsys.readouterr().err.splitlines()) <= len(lines)
    RobustPCA(3, random_state=0).fit(X)
    assert capsys.readouterr() == ("", "")


def test_a_line_on_a_terminal_is_written_anew(capsys, monkeypatch):
    monkeypatch.setattr("sys.stderr.isatty", lambda: True, raising=False)
    with np.errstate(all="raise"):
        PCA(3, solver="dca", tol=1e-6, random_state=0, verbose=True).fit(data())
    shown = capsys.readouterr().err
    assert shown.startswith("\rPCA: ")
    assert shown.count("\n") == 1
    assert shown.endswith("\n")


@pytest.mark.parametrize("model", [PCA(2, verbose=-1), RobustPCA(2, verbose="yes")])
def test_bad_verbose_is_refused(model):
    with pytest.raises(ValueError, match="'verbose' parameter"):
        model.fit(data())


def test_seconds_left_follows_a_geometric_fall():
    steps = [Step("dca", "", k, 10.0**-k, 1e-6, 2.0 * k) for k in range(1, 4)]
    assert_allclose(seconds_left(steps), 6.0)
    assert seconds_left(steps[:1]) is None
    assert seconds_left(steps[::-1]) is None


def test_threads_are_told_apart():
    logs = {}

    def run(name):
        logs[name] = Log()
        with listening(logs[name]):
            MODELS[name].__class__(**MODELS[name].get_params()).fit(data())

    threads = [threading.Thread(target=run, args=(name,)) for name in ("dca", "krylov")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for name, log in logs.items():
        assert {step.solver for step in log.steps if not step.phase} == {name}


def test_nobody_listens_and_nothing_is_told(capsys):
    assert report_step("dca", 1.0, 1e-3) is False
    Printer("x").close()
    assert capsys.readouterr() == ("", "")
    assert Listener().step(None) is None
    assert Listener().rows(1, 2) is None


def test_warnings_still_point_at_the_caller():
    with pytest.warns(UserWarning, match="max_iter=2") as caught:
        PCA(5, solver="dca", max_iter=2).fit(data())
    assert caught[0].filename == __file__
    with pytest.warns(UserWarning, match="max_iter=2") as caught:
        PCA(5, solver="dca", max_iter=2).set_callbacks(Hooks()).fit(data())
    assert caught[0].filename == __file__


def test_a_callback_that_fails_at_the_end_leaves_the_model_as_it_was():
    class Failing(Hooks):
        def on_fit_task_end(self, estimator, context, *, fitted_estimator=None):
            if context.parent is None:
                raise RuntimeError("at the end")

    X, model = data(), PCA(2, random_state=0)
    before = model.fit(3 * X[:200]).components_.copy()
    with pytest.raises(RuntimeError, match="at the end"):
        model.set_callbacks(Failing()).fit(X)
    assert_array_equal(model.components_, before)


@pytest.mark.parametrize("name", ["krylov", "chebyshev", "robust"])
def test_data_that_turns_to_nan_during_a_fit_gives_no_model_of_nan(name):
    class Spoil(Listener):
        def step(self, step):
            X[:] = np.nan

    X, model = data(), clone(MODELS[name])
    with (
        listening(Spoil()),
        pytest.raises((ValueError, FloatingPointError), match=r"NaN|too large"),
    ):
        model.fit(X)
    assert not hasattr(model, "components_")


def test_verbose_without_standard_error_is_silent(monkeypatch):
    monkeypatch.setattr("sys.stderr", None)
    PCA(2, solver="krylov", verbose=2, random_state=0).fit(data())
