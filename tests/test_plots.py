"""Plots: what they draw is what the model says, and nothing else is touched."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.decomposition import PCA as Oracle  # noqa: N811
from sklearn.exceptions import NotFittedError

from dualpca import PCA, KernelPCA, RobustPCA
from dualpca.linalg import to_numpy
from dualpca.plots import outlier_map, scree, weights

pytest.importorskip("matplotlib")

from matplotlib.colors import same_color
from matplotlib.figure import Figure

BAD = 12


def rows(seed=0, n=80, d=6, bad=BAD, dtype=np.float64):
    """Rows near a plane, the first ones off it."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, 2)) @ np.random.default_rng(7).standard_normal((2, d))
    X += 0.1 * rng.standard_normal(X.shape)
    X[:bad] += 5 * rng.standard_normal((bad, d))
    return X.astype(dtype)


def fitted(X=None, **options):
    return RobustPCA(2, **{"random_state": 0, **options}).fit(rows() if X is None else X)


@pytest.fixture(scope="module")
def model():
    return fitted()


@pytest.fixture(scope="module")
def flat():
    """As many components as features: rows are flagged by their score distances."""
    X = np.random.default_rng(1).standard_normal((80, 2))
    X[:BAD] += 20
    found = fitted(X)
    assert found.flags_by_ == "score"
    return found


@pytest.fixture(autouse=True)
def no_pyplot_state():
    from matplotlib import pyplot, rcParams

    before = dict(rcParams)
    yield
    assert pyplot.get_fignums() == []
    assert dict(rcParams) == before


def points(ax):
    """The points that are not flagged, and those that are."""
    good, flagged = (np.asarray(kind.get_offsets()) for kind in ax.collections)
    return good, flagged


def legend(ax):
    return [text.get_text() for text in ax.get_legend().get_texts()]


def horizontal(ax, style):
    lines = [line for line in ax.lines if line.get_linestyle() == style]
    return [line.get_ydata()[0] for line in lines if line.get_ydata()[0] == line.get_ydata()[1]]


def vertical(ax, style):
    lines = [line for line in ax.lines if line.get_linestyle() == style]
    return [line.get_xdata()[0] for line in lines if line.get_xdata()[0] == line.get_xdata()[1]]


def assert_map(ax, score, orthogonal, flagged):
    """All rows are there, each at its distances and among its kind, and the legend counts them."""
    score, orthogonal, flagged = (to_numpy(a) for a in (score, orthogonal, flagged))
    places = np.column_stack([score, orthogonal])
    good, bad = points(ax)
    assert len(good) + len(bad) == len(places)
    assert_array_equal(good, places[~flagged])
    assert_array_equal(bad, places[flagged])
    n = int(flagged.sum())
    assert legend(ax)[:2] == [f"not flagged ({len(flagged) - n})", f"flagged ({n})"]


# the outlier map


def test_map_of_the_training_rows(model):
    ax = outlier_map(model)
    assert model.outliers_.sum() == BAD
    assert_map(ax, model.score_distances_, model.orthogonal_distances_, model.outliers_)
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("score distance", "orthogonal distance")
    ax.figure.canvas.draw()


def test_map_of_other_rows(model):
    fresh = rows(seed=3, n=30, bad=5)
    ax = outlier_map(model, fresh)
    assert_map(ax, *model.distances(fresh), model.predict(fresh) == -1)


def test_map_of_one_good_row_has_no_flagged_point(model):
    ax = outlier_map(model, rows()[-1:], annotate=3)
    assert [len(kind) for kind in points(ax)] == [1, 0]
    assert legend(ax)[:2] == ["not flagged (1)", "flagged (0)"]
    assert not ax.texts
    ax.figure.canvas.draw()


def test_lines_where_orthogonal_distances_flag(model):
    ax = outlier_map(model)
    assert horizontal(ax, "--") == [model.orthogonal_cutoff_]
    assert vertical(ax, "--") == [model.score_cutoff_]
    assert horizontal(ax, "-") == [-model.offset_]
    assert vertical(ax, "-") == []
    assert legend(ax)[2:] == ["cut-offs at 0.975", "flagging limit"]


def test_lines_where_score_distances_flag(flat):
    ax = outlier_map(flat)
    assert horizontal(ax, "--") == [flat.orthogonal_cutoff_]
    assert vertical(ax, "--") == [flat.score_cutoff_]
    assert horizontal(ax, "-") == []
    assert vertical(ax, "-") == [-flat.offset_]
    assert_map(ax, flat.score_distances_, flat.orthogonal_distances_, flat.outliers_)


@pytest.mark.parametrize("contamination", ["auto", 0.1, 0.3])
def test_the_limit_separates_the_points(contamination):
    model = fitted(contamination=contamination)
    ax = outlier_map(model)
    good, bad = points(ax)
    (limit,) = horizontal(ax, "-")
    assert good[:, 1].max() <= limit < bad[:, 1].min()


def test_every_line_and_point_is_in_sight(model):
    ax = outlier_map(model)
    (left, right), (low, high) = ax.get_xlim(), ax.get_ylim()
    places = np.concatenate(points(ax))
    assert left <= places[:, 0].min() <= places[:, 0].max() <= right
    assert low <= places[:, 1].min() <= places[:, 1].max() <= high
    assert all(low < y < high for y in horizontal(ax, "--") + horizontal(ax, "-"))
    assert all(left < x < right for x in vertical(ax, "--"))


def test_a_logarithmic_scale_can_be_set(model):
    ax = outlier_map(model)
    ax.set_yscale("log")
    ax.figure.canvas.draw()
    assert ax.get_ylim()[0] > 0


@pytest.mark.parametrize("draw", [outlier_map, weights])
def test_flagged_rows_differ_in_colour_and_marker(model, draw):
    good, bad = draw(model).collections
    assert not same_color(good.get_facecolor(), bad.get_facecolor())
    shapes = [kind.get_paths()[0].vertices for kind in (good, bad)]
    assert shapes[0].shape != shapes[1].shape


@pytest.mark.parametrize("annotate", [0, 1, 4, BAD, 1000])
def test_annotated_rows_are_the_farthest_flagged_ones(model, annotate):
    ax = outlier_map(model, annotate=annotate)
    named = [int(text.get_text()) for text in ax.texts]
    assert len(named) == min(annotate, BAD)
    farthest = np.argsort(-model.orthogonal_distances_)[: len(named)]
    assert_array_equal(named, farthest)
    for text, i in zip(ax.texts, named, strict=True):
        assert text.xy == (model.score_distances_[i], model.orthogonal_distances_[i])


def test_annotated_rows_by_score_distance(flat):
    ax = outlier_map(flat, annotate=3)
    farthest = np.argsort(-flat.score_distances_)[:3]
    assert [int(text.get_text()) for text in ax.texts] == farthest.tolist()


def test_names_stay_within_the_axes(model):
    ax = outlier_map(model, annotate=BAD)
    ax.figure.canvas.draw()
    box = ax.get_window_extent()
    for text in ax.texts:
        extent = text.get_window_extent()
        assert box.x0 <= extent.x0 <= extent.x1 <= box.x1


def as_series(names):
    import pandas as pd

    return pd.Series(names, index=np.arange(len(names))[::-1])


@pytest.mark.parametrize("kind", [list, tuple, np.array, as_series])
def test_labels_name_rows_by_position(model, kind):
    ax = outlier_map(model, labels=kind([f"sample {i}" for i in range(80)]), annotate=3)
    farthest = np.argsort(-model.orthogonal_distances_)[:3]
    assert [text.get_text() for text in ax.texts] == [f"sample {i}" for i in farthest]


def test_labels_are_those_of_other_rows(model):
    ax = outlier_map(model, rows(seed=3, n=30, bad=1), labels=range(100, 130), annotate=1)
    assert [text.get_text() for text in ax.texts] == ["100"]


def test_names_do_not_cover_each_other(model):
    """Two flagged rows close together, at the right edge."""
    fresh = rows()[[0, 0, -1]]
    fresh[1] += 1e-3
    ax = outlier_map(model, fresh, labels=["first", "second", "third"], annotate=2)
    ax.figure.canvas.draw()
    first, second = (text.get_window_extent() for text in ax.texts)
    assert not first.overlaps(second)


def test_a_row_whose_distance_overflows_is_counted():
    X = rows(dtype=np.float32)
    model = fitted(X)
    X[0] *= 1e22
    assert np.isinf(model.distances(X)[0][0])
    ax = outlier_map(model, X, annotate=3)
    ax.figure.canvas.draw()
    assert legend(ax)[1] == f"flagged ({BAD})"
    assert np.isfinite(ax.get_xlim()).all()
    assert ax.get_xlim()[1] < 1e3


# the scree plot


def test_scree_of_an_array():
    variances = RobustPCA(random_state=0).scree(rows())
    ax = scree(variances)
    heights = [bar.get_height() for bar in ax.patches]
    assert_allclose(heights, variances / variances.sum())
    assert_allclose([bar.get_center()[0] for bar in ax.patches], np.arange(1, len(variances) + 1))
    (line,) = ax.lines
    assert_allclose(line.get_ydata(), np.cumsum(heights))
    assert_allclose(line.get_ydata()[-1], 1)
    assert_array_equal(line.get_xdata(), np.arange(1, len(variances) + 1))
    assert set(legend(ax)) == {"each component", "cumulative"}
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("component", "share of variance")
    ax.figure.canvas.draw()
    assert all(tick == round(tick) for tick in ax.get_xticks())


@pytest.mark.parametrize(
    "estimator", [RobustPCA(2, random_state=0), PCA(2), KernelPCA(2), Oracle(2)]
)
def test_scree_of_a_model_is_of_all_the_variance(estimator):
    model = estimator.fit(rows())
    ax = scree(model)
    assert_allclose([bar.get_height() for bar in ax.patches], model.explained_variance_ratio_)
    assert ax.lines[0].get_ydata()[-1] < 1


def test_scree_does_not_depend_on_the_unit():
    heights = [[bar.get_height() for bar in scree(c * np.arange(5, 0, -1)).patches] for c in (1, 9)]
    assert_allclose(*heights)


@pytest.mark.parametrize(
    ("variances", "shares"),
    [([2], [1]), ([3, 1], [0.75, 0.25]), ([0, 0], [0, 0]), ([1, -1e-17], [1, 0])],
)
def test_scree_of_few_or_no_variances(variances, shares):
    assert_allclose([bar.get_height() for bar in scree(variances).patches], shares)
    assert_allclose([bar.get_height() for bar in scree(as_series(variances)).patches], shares)


# the weights


@pytest.mark.parametrize("loss", ["l1", "geman_mcclure"])
def test_weights_by_row(loss):
    model = fitted(loss=loss)
    ax = weights(model)
    good, bad = points(ax)
    places = np.column_stack([np.arange(80), model.weights_])
    assert_array_equal(good, places[~model.outliers_])
    assert_array_equal(bad, places[model.outliers_])
    assert legend(ax) == [f"not flagged ({80 - BAD})", f"flagged ({BAD})"]
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("row", "weight in the loss")
    ax.figure.canvas.draw()


def test_rows_left_out_of_the_fit_are_drawn():
    mass = np.ones(80)
    mass[:3] = 0
    model = RobustPCA(2, random_state=0).fit(rows(), sample_weight=mass)
    places = np.concatenate(points(weights(model)))
    assert_array_equal(places[np.isin(places[:, 0], [0, 1, 2]), 1], 0)
    assert sum(map(len, points(outlier_map(model)))) == len(places) == 80


# kinds of arrays


@pytest.mark.parametrize("contamination", ["auto", 0.2])
def test_float32(contamination):
    X = rows(dtype=np.float32)
    model = fitted(X, contamination=contamination)
    assert model.orthogonal_distances_.dtype == np.float32
    distances = model.score_distances_, model.orthogonal_distances_
    assert_map(outlier_map(model), *distances, model.outliers_)
    assert_map(outlier_map(model, X), *model.distances(X), model.predict(X) == -1)
    assert_array_equal(np.sort(np.concatenate(points(weights(model)))[:, 0]), np.arange(80))
    heights = [bar.get_height() for bar in scree(model).patches]
    assert_allclose(heights, model.explained_variance_ratio_)


@pytest.mark.parametrize("library", ["torch", "array_api_strict"])
def test_arrays_of_other_libraries(library):
    from sklearn import config_context

    xp = pytest.importorskip(library)
    X = xp.asarray(rows())
    with config_context(array_api_dispatch=True):
        model = fitted(X)
        assert type(model.outliers_) is type(X)
        distances = model.score_distances_, model.orthogonal_distances_
        assert_map(outlier_map(model, annotate=2), *distances, model.outliers_)
        assert_map(outlier_map(model, X), *model.distances(X), model.predict(X) == -1)
        assert_array_equal(points(weights(model))[1][:, 0], np.arange(BAD))
        ratio = to_numpy(model.explained_variance_ratio_)
        assert_allclose([bar.get_height() for bar in scree(model).patches], ratio)
        heights = [bar.get_height() for bar in scree(model.explained_variance_).patches]
        assert_allclose(heights, ratio / ratio.sum())


def test_data_frames_and_sparse_rows(model):
    import pandas as pd
    import scipy.sparse as sp

    fresh = rows(seed=3, n=30)
    expected = np.concatenate(points(outlier_map(model, fresh)))
    assert_allclose(np.concatenate(points(outlier_map(model, sp.csr_array(fresh)))), expected)
    frame = pd.DataFrame(rows(), columns=list("abcdef"))
    named = fitted(frame)
    drawn = outlier_map(named, pd.DataFrame(fresh, columns=list("abcdef")))
    assert_allclose(np.concatenate(points(drawn)), expected)


# axes and imports


@pytest.mark.parametrize("draw", [outlier_map, scree, weights])
def test_axes_are_used_or_made(model, draw):
    first, second = Figure().subplots(2)
    assert draw(model, ax=second) is second
    assert not first.has_data()
    assert second.has_data()
    assert draw(model).figure is not draw(model).figure


@pytest.mark.parametrize("draw", [outlier_map, scree, weights])
def test_the_model_is_left_alone(model, draw):
    import pickle

    before = pickle.dumps(model)
    draw(model)
    assert pickle.dumps(model) == before


def test_plots_and_matplotlib_are_imported_on_demand():
    code = (
        "import sys, dualpca; assert 'dualpca.plots' not in sys.modules; import dualpca.plots; "
        "assert not any(name.split('.')[0] == 'matplotlib' for name in sys.modules); "
        "dualpca.plots.scree([2.0, 1.0]); assert 'matplotlib.pyplot' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.parametrize("draw", [outlier_map, scree, weights])
def test_without_matplotlib(model, draw, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(ImportError, match=r"pip install 'dualpca\[plot\]'"):
        draw(model)


# errors


@pytest.mark.parametrize("draw", [outlier_map, weights])
@pytest.mark.parametrize("other", [PCA(2), KernelPCA(2), Oracle(2)])
def test_models_without_distances(draw, other):
    for model in (other, other.fit(rows())):
        with pytest.raises(TypeError, match=r"model is a (Kernel)?PCA.*give .* a fitted RobustPCA"):
            draw(model)


@pytest.mark.parametrize("draw", [outlier_map, weights])
def test_models_that_are_not_fitted(draw):
    with pytest.raises(NotFittedError, match=r"model.*RobustPCA.*not fitted; call fit\(X\)"):
        draw(RobustPCA(2))


@pytest.mark.parametrize("other", [PCA(2), RobustPCA(2), Oracle(2)])
def test_scree_of_models_that_are_not_fitted(other):
    with pytest.raises(NotFittedError, match=r"variances is a .*PCA.*call fit\(X\)"):
        scree(other)


@pytest.mark.parametrize(
    ("variances", "error", "message"),
    [
        ("variances", TypeError, "variances is a str; give an array"),
        (None, ValueError, r"variances, of shape \(\)"),
        ({1.0: 2.0}, TypeError, "variances is a dict; give an array"),
        ([], ValueError, r"variances, of shape \(0,\)"),
        (rows(), ValueError, r"variances, of shape \(80, 6\).*give RobustPCA\(\).scree\(X\)"),
        (2.0, ValueError, r"variances, of shape \(\)"),
        ([1.0, np.nan], ValueError, "variances.* finite"),
        ([1.0, -0.5], ValueError, "variances.* not negative"),
        ([-1.0, -0.5], ValueError, "variances.* not negative"),
    ],
)
def test_scree_of_anything_else(variances, error, message):
    with pytest.raises(error, match=message):
        scree(variances)


@pytest.mark.parametrize("annotate", [-1, 1.5, "all", None, True])
def test_annotate_counts(model, annotate):
    with pytest.raises(ValueError, match=r"annotate=.* give an integer"):
        outlier_map(model, annotate=annotate)


@pytest.mark.parametrize("annotate", [0, 2])
def test_labels_are_one_a_row(model, annotate):
    with pytest.raises(ValueError, match="labels has length 3 for 80 rows; give one label"):
        outlier_map(model, labels=["a", "b", "c"], annotate=annotate)


@pytest.mark.parametrize("draw", [outlier_map, scree, weights])
def test_axes_are_axes(model, draw):
    figure = Figure()
    for wrong in (figure, figure.subplots(2), "ax"):
        with pytest.raises(TypeError, match=r"ax is a .*; give one matplotlib Axes"):
            draw(model, ax=wrong)


def test_other_rows_have_the_same_features(model):
    with pytest.raises(ValueError, match="features"):
        outlier_map(model, rows()[:, :4])


def test_flag_both_draws_both_limits():
    X = np.random.default_rng(0).standard_normal((200, 6)) * [5, 4, 1, 1, 1, 1]
    model = RobustPCA(2, flag="both", contamination=0.1, random_state=0).fit(X)
    ax = outlier_map(model)
    assert vertical(ax, "-") == [-model.offset_ * model.limits_[0]]
    assert horizontal(ax, "-") == [-model.offset_ * model.limits_[1]]
    assert legend(ax).count("flagging limit") == 1
    assert f"flagged ({int(model.outliers_.sum())})" in legend(ax)
