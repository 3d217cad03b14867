"""The bootstrap: weights are repeated rows, intervals hold what they should, progress is told."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.datasets import load_wine
from sklearn.pipeline import make_pipeline

from dualpca import PCA, KernelPCA, Preprocessor, RobustPCA, SparsePCA, bootstrap
from dualpca.progress import Listener, listening


def rows(seed=0, n=200, d=8, scales=(5.0, 2.5)):
    rng = np.random.default_rng(seed)
    axes = np.linalg.qr(np.random.default_rng(9).standard_normal((d, len(scales))))[0]
    return rng.standard_normal((n, len(scales))) * scales @ axes.T + rng.standard_normal(
        (n, d)
    ), axes


class Heard(Listener):
    def __init__(self, most=10**9):
        self.steps, self.most = [], most

    def step(self, step):
        if step.solver == "bootstrap":
            self.steps.append(step)
            return len(self.steps) >= self.most


@pytest.mark.parametrize("solver", ["gram", "krylov", "dca"])
def test_resamples_are_fits_to_repeated_rows(solver):
    """The oracle draws the same rows and lets LAPACK decompose them."""
    X, _ = rows()
    model = PCA(2, solver=solver, tol=1e-9, random_state=0).fit(X)
    result = bootstrap(model, X, n=5, random_state=3)
    rng = np.random.RandomState(3)
    for k in range(5):
        counts = rng.multinomial(len(X), np.full(len(X), 1 / len(X)))
        again = np.repeat(X, counts, axis=0)
        _, values, Vt = np.linalg.svd(again - again.mean(axis=0), full_matrices=False)
        V = Vt[:2] * np.sign((Vt[:2] * model.components_).sum(axis=1))[:, None]
        assert_allclose(result.resampled[k], V, atol=1e-6)
        assert_allclose(result.variances[k], values[:2] ** 2 / (len(X) - 1), rtol=1e-6)
        cosines = np.linalg.svd(V @ model.components_.T, compute_uv=False)
        assert_allclose(np.cos(np.radians(result.angles[k])), cosines[::-1], atol=1e-6)


def test_turns_are_angles_of_single_components():
    X, _ = rows()
    model = PCA(2).fit(X)
    result = bootstrap(model, X, n=4, random_state=0)
    for turns, resample in zip(result.turns(), result.resampled, strict=True):
        cosines = [abs(a @ b) for a, b in zip(resample, model.components_, strict=True)]
        assert_allclose(turns, np.degrees(np.arccos(cosines)), atol=1e-5)
    assert_allclose(result.bounds(0.5)[0, 1], result.intervals(0.5)["PC2 low"])


def test_other_rows_than_those_of_the_fit():
    X, _ = rows()
    with pytest.raises(ValueError, match="X has 50 rows, and the model is of 200; give the rows"):
        bootstrap(PCA(2).fit(X), X[:50], n=2)


def test_intervals_hold_the_truth():
    """In data sets of the same kind, the intervals of 90 % hold the true loading about so often."""
    held = []
    for seed in range(25):
        X, axes = rows(seed, 150)
        model = PCA(2).fit(X)
        table = bootstrap(model, X, n=60, random_state=seed).intervals(0.9)
        for k in range(2):
            name, truth = f"PC{k + 1}", axes[:, k] * np.sign(axes[:, k] @ model.components_[k])
            held.append((table[f"{name} low"] <= truth) & (truth <= table[f"{name} high"]))
    assert 0.8 < np.mean(held) < 0.97


def test_components_of_equal_variance():
    """They turn into each other, which signs show and Procrustes takes out; the subspace stays."""
    X, _ = rows(scales=(5.0, 5.0))
    model = PCA(2).fit(X)
    by_sign, turned = (
        bootstrap(model, X, 40, align=align, random_state=0) for align in ("sign", "procrustes")
    )
    spread, less = (result.resampled.std(axis=0).max() for result in (by_sign, turned))
    assert less < 0.3 * spread
    assert by_sign.angles.max() < 15
    assert (np.diff(by_sign.angles, axis=1) <= 0).all()


@pytest.mark.parametrize("kind", [PCA, RobustPCA, SparsePCA])
@pytest.mark.parametrize("rotation", [None, "varimax"])
def test_every_linear_model(kind, rotation):
    X = load_wine(as_frame=True).data
    options = {"n_nonzero": 5} if kind is SparsePCA else {}
    last = kind(3, rotation=rotation, random_state=0, **options)
    model = make_pipeline(Preprocessor("standard"), last).fit(X)
    params = {name: str(value) for name, value in last.get_params().items()}
    result = bootstrap(model, X, n=4, random_state=0)
    assert result.resampled.shape == (4, 3, 13)
    likeness = np.einsum("nkd,kd->nk", result.resampled, result.loadings)
    assert np.median(likeness) > 0.8
    assert list(result.intervals().index) == list(X.columns)
    assert {name: str(value) for name, value in last.get_params().items()} == params
    repeated = bootstrap(model, X, n=4, random_state=0)
    assert_allclose(repeated.resampled, result.resampled)


def test_a_warm_start_takes_fewer_passes():
    X, _ = rows(n=600, d=100, scales=10 * 0.9 ** np.arange(40))
    options = {"solver": "krylov", "tol": 1e-4, "random_state": 0}
    model, (cold, warm) = PCA(30, **options).fit(X), (PCA(30, **options) for _ in range(2))
    warm._begin_from(model)
    weights = np.random.default_rng(0).multinomial(600, np.full(600, 1 / 600)).astype(float)
    for fit in (cold, warm):
        fit.fit(X, sample_weight=weights)
    assert warm.n_passes_ < cold.n_passes_
    assert_allclose(warm.explained_variance_, cold.explained_variance_, rtol=1e-4)


def test_progress_and_an_early_stop(capsys):
    X, _ = rows()
    model, heard = PCA(2).fit(X), Heard()
    with listening(heard):
        bootstrap(model, X, n=4, random_state=0)
    assert [step.value for step in heard.steps] == [0.75, 0.5, 0.25, 0.0]
    assert {step.phase for step in heard.steps} == {"bootstrap"}
    with listening(Heard(most=3)):
        assert len(bootstrap(model, X, n=50, random_state=0).angles) == 3
    bootstrap(model, X, n=2, random_state=0, verbose=2)
    assert "left 5.0e-01" in capsys.readouterr().err


def test_bad_arguments():
    X, _ = rows()
    model = PCA(2).fit(X)
    with pytest.raises(ValueError, match="n=1 counts resamples"):
        bootstrap(model, X, 1)
    with pytest.raises(ValueError, match="align='rotate' is unknown; give 'sign' or 'procrustes'"):
        bootstrap(model, X, align="rotate")
    with pytest.raises(ValueError, match="KernelPCA; give a PCA, RobustPCA or SparsePCA"):
        bootstrap(KernelPCA(2).fit(X), X)
    with pytest.raises(ValueError, match=r"level=95 must be between 0 and 1"):
        bootstrap(model, X, 2).intervals(95)
    with pytest.raises(ValueError, match="X has 50 rows, and the model is of 200"):
        bootstrap(model, X[:50], 2)
