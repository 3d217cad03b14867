"""Plots: what they draw is what the model says, and nothing else is touched."""

from __future__ import annotations

import subprocess
import sys
from itertools import pairwise

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.decomposition import PCA as Oracle  # noqa: N811
from sklearn.exceptions import NotFittedError
from sklearn.pipeline import make_pipeline

from dualpca import (
    PCA,
    KernelPCA,
    Preprocessor,
    PrincipalComponentPursuit,
    RobustKernelPCA,
    RobustPCA,
    SparsePCA,
    n_components,
)
from dualpca.control import calibrate, limits
from dualpca.linalg import to_numpy
from dualpca.plots import (
    BiplotDisplay,
    ControlChartDisplay,
    ConvergenceDisplay,
    OutlierMapDisplay,
    ReconstructionDisplay,
    ScoresDisplay,
    ScreeDisplay,
    SelectionDisplay,
    WeightsDisplay,
)

pytest.importorskip("matplotlib")

from matplotlib import pyplot, rcParams
from matplotlib.colors import same_color
from matplotlib.figure import Figure
from matplotlib.text import Text

BAD = 12


def outlier_map(*args, **kwargs):
    return OutlierMapDisplay.from_estimator(*args, **kwargs).ax_


def weights(*args, **kwargs):
    return WeightsDisplay.from_estimator(*args, **kwargs).ax_


def scree(*args, **kwargs):
    return ScreeDisplay.from_estimator(*args, **kwargs).ax_


def shares_of(*args, **kwargs):
    return ScreeDisplay.from_variances(*args, **kwargs).ax_


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
def closed_figures():
    before = dict(rcParams)
    yield
    pyplot.close("all")
    assert dict(rcParams) == before


def points(ax):
    """The points that are not flagged, and those that are."""
    good, flagged = (np.asarray(kind.get_offsets()) for kind in ax.collections)
    return good, flagged


def legend(ax):
    return [text.get_text() for text in ax.get_legend().get_texts()]


def extent(text):
    """Of a name, without the line that may lead to it."""
    text.get_window_extent()  # which puts it in its place
    return Text.get_window_extent(text)


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
    ax.figure.draw_without_rendering()


def test_map_of_other_rows(model):
    fresh = rows(seed=3, n=30, bad=5)
    ax = outlier_map(model, fresh)
    assert_map(ax, *model.distances(fresh), model.predict(fresh) == -1)


def test_map_of_one_good_row_has_no_flagged_point(model):
    ax = outlier_map(model, rows()[-1:], annotate=3)
    assert [len(kind) for kind in points(ax)] == [1, 0]
    assert legend(ax)[:2] == ["not flagged (1)", "flagged (0)"]
    assert not ax.texts
    ax.figure.draw_without_rendering()


def test_lines_where_orthogonal_distances_flag():
    model = fitted(flag="orthogonal")
    ax = outlier_map(model)
    assert horizontal(ax, "--") == [model.limits_[1]]
    assert vertical(ax, "--") == [model.limits_[0]]
    assert horizontal(ax, "-") == [-model.offset_]
    assert vertical(ax, "-") == []
    assert legend(ax)[2:] == ["kinds of rows", "flagging limit"]


def test_lines_where_score_distances_flag(flat):
    ax = outlier_map(flat)
    assert horizontal(ax, "--") == [flat.limits_[1]]
    assert vertical(ax, "--") == [flat.limits_[0]]
    assert horizontal(ax, "-") == []
    assert vertical(ax, "-") == [-flat.offset_]
    assert_map(ax, flat.score_distances_, flat.orthogonal_distances_, flat.outliers_)


@pytest.mark.parametrize("contamination", ["auto", 0.1, 0.3])
def test_the_limit_separates_the_points(contamination):
    model = fitted(contamination=contamination, flag="orthogonal")
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
    ax.figure.draw_without_rendering()
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
    ax.figure.draw_without_rendering()
    box = ax.get_window_extent()
    for text in ax.texts:
        here = extent(text)
        assert box.x0 <= here.x0 <= here.x1 <= box.x1
        assert box.y0 <= here.y0 <= here.y1 <= box.y1


def as_series(names):
    import pandas as pd

    return pd.Series(names, index=np.arange(len(names))[::-1])


@pytest.mark.parametrize("kind", [list, tuple, np.array, as_series])
def test_names_of_rows_by_position(model, kind):
    ax = outlier_map(model, row_names=kind([f"sample {i}" for i in range(80)]), annotate=3)
    farthest = np.argsort(-model.orthogonal_distances_)[:3]
    assert [text.get_text() for text in ax.texts] == [f"sample {i}" for i in farthest]


def test_names_are_those_of_other_rows(model):
    ax = outlier_map(model, rows(seed=3, n=30, bad=1), row_names=range(100, 130), annotate=1)
    assert [text.get_text() for text in ax.texts] == ["100"]


def test_names_do_not_cover_each_other(model):
    """Two flagged rows close together, at the right edge."""
    fresh = rows()[[0, 0, -1]]
    fresh[1] += 1e-3
    ax = outlier_map(model, fresh, row_names=["first", "second", "third"], annotate=2)
    ax.figure.draw_without_rendering()
    first, second = (extent(text) for text in ax.texts)
    assert not first.overlaps(second)


def test_a_row_whose_distance_overflows_is_counted():
    X = rows(dtype=np.float32)
    model = fitted(X)
    X[0] *= 1e22
    assert np.isinf(model.distances(X)[0][0])
    ax = outlier_map(model, X, annotate=3)
    ax.figure.draw_without_rendering()
    assert legend(ax)[1] == f"flagged ({BAD})"
    assert np.isfinite(ax.get_xlim()).all()
    assert ax.get_xlim()[1] < 1e3


# the scree plot


def test_scree_of_an_array():
    variances = RobustPCA(random_state=0).scree(rows())
    ax = shares_of(variances)
    heights = [bar.get_height() for bar in ax.patches]
    assert_allclose(heights, variances / variances.sum())
    assert_allclose([bar.get_center()[0] for bar in ax.patches], np.arange(1, len(variances) + 1))
    (line,) = ax.lines
    assert_allclose(line.get_ydata(), np.cumsum(heights))
    assert_allclose(line.get_ydata()[-1], 1)
    assert_array_equal(line.get_xdata(), np.arange(1, len(variances) + 1))
    assert set(legend(ax)) == {"each component", "cumulative"}
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("component", "share of variance")
    ax.figure.draw_without_rendering()
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
    heights = [
        [bar.get_height() for bar in shares_of(c * np.arange(5, 0, -1)).patches] for c in (1, 9)
    ]
    assert_allclose(*heights)


@pytest.mark.parametrize(
    ("variances", "shares"),
    [([2], [1]), ([3, 1], [0.75, 0.25]), ([0, 0], [0, 0]), ([1, -1e-17], [1, 0])],
)
def test_scree_of_few_or_no_variances(variances, shares):
    assert_allclose([bar.get_height() for bar in shares_of(variances).patches], shares)
    assert_allclose([bar.get_height() for bar in shares_of(as_series(variances)).patches], shares)


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
    ax.figure.draw_without_rendering()


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
        heights = [bar.get_height() for bar in shares_of(model.explained_variance_).patches]
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


@pytest.mark.slow
def test_plots_and_matplotlib_are_imported_on_demand():
    code = (
        "import sys, dualpca; assert 'dualpca.plots' not in sys.modules; import dualpca.plots; "
        "assert not any(name.split('.')[0] == 'matplotlib' for name in sys.modules); "
        "dualpca.plots.ScreeDisplay([0.7, 0.3]); assert 'matplotlib' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


# errors


@pytest.mark.parametrize("draw", [outlier_map, weights])
@pytest.mark.parametrize("other", [PCA(2), KernelPCA(2), Oracle(2)])
def test_models_without_distances(draw, other):
    for model in (other, other.fit(rows())):
        with pytest.raises(TypeError, match=r"model is a (Kernel)?PCA.*give .* a fitted RobustPCA"):
            draw(model)


@pytest.mark.parametrize("draw", [outlier_map, weights])
def test_models_that_are_not_fitted(draw):
    with pytest.raises(NotFittedError, match="RobustPCA instance is not fitted"):
        draw(RobustPCA(2))


@pytest.mark.parametrize("other", [PCA(2), RobustPCA(2), Oracle(2)])
def test_scree_of_models_that_are_not_fitted(other):
    with pytest.raises(NotFittedError, match="PCA instance is not fitted"):
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
        shares_of(variances)


@pytest.mark.parametrize("annotate", [-1, 1.5, "all", None, True])
def test_annotate_counts(model, annotate):
    with pytest.raises(ValueError, match=r"annotate=.* give an integer"):
        outlier_map(model, annotate=annotate)


@pytest.mark.parametrize("annotate", [0, 2])
def test_names_are_one_a_row(model, annotate):
    with pytest.raises(ValueError, match=r"row_names has shape \(3,\) for 80 rows; give one"):
        outlier_map(model, row_names=["a", "b", "c"], annotate=annotate)


def test_other_rows_have_the_same_features(model):
    with pytest.raises(ValueError, match="features"):
        outlier_map(model, rows()[:, :4])


def test_density_draws_an_ellipse_with_the_flagged_rows_outside():
    X = np.random.default_rng(0).standard_normal((200, 6)) * [5, 4, 1, 1, 1, 1]
    model = RobustPCA(2, contamination=0.1, random_state=0).fit(X)
    ax = outlier_map(model)
    (curve,) = [line for line in ax.lines if line.get_label() == "flagging limit"]
    x, y = curve.get_data()
    size2 = (model.score_distances_ / x.max()) ** 2 + (model.orthogonal_distances_ / y.max()) ** 2
    np.testing.assert_array_equal(size2 > 1, model.outliers_)
    np.testing.assert_allclose((x / x.max()) ** 2 + (y / y.max()) ** 2, 1)
    assert legend(ax).count("flagging limit") == 1
    assert f"flagged ({int(model.outliers_.sum())})" in legend(ax)


# plain beside robust


def heights(bars):
    return [bar.get_height() for bar in bars]


def test_plain_shares_are_those_of_pca(model):
    display = ScreeDisplay.from_estimator(model, rows())
    robust, plain = map(heights, display.bars_)
    assert_allclose(robust, model.explained_variance_ratio_)
    assert_allclose(plain, Oracle(2).fit(rows()).explained_variance_ratio_, rtol=1e-6)
    for line, shares in zip(display.lines_, (robust, plain), strict=True):
        assert_allclose(line.get_ydata(), np.cumsum(shares))
    names = ["robust, cumulative", "plain, cumulative", "robust", "plain"]
    assert sorted(legend(display.ax_)) == sorted(names)
    left, right = ([bar.get_x() for bar in bars] for bars in display.bars_)
    assert_allclose(np.subtract(right, left), display.bars_[0][0].get_width())


def test_plain_shares_without_a_centre():
    X = rows() + 3
    display = ScreeDisplay.from_estimator(fitted(X, center=None), X)
    values = np.linalg.svd(X, compute_uv=False) ** 2
    assert_allclose(heights(display.bars_[1]), (values / values.sum())[:2], rtol=1e-6)


@pytest.mark.parametrize("approximation", [None, "nystroem"])
def test_plain_shares_in_feature_space(approximation):
    X = rows()
    model = RobustKernelPCA(
        3, gamma=0.05, approximation=approximation, n_landmarks=80, random_state=0
    ).fit(X)
    plain = ScreeDisplay.from_estimator(model, X).plain
    oracle = KernelPCA(3, kernel="rbf", gamma=0.05, solver="lapack").fit(X)
    assert_allclose(plain, oracle.explained_variance_ratio_, rtol=1e-4)


def test_plain_shares_are_for_robust_models():
    with pytest.raises(ValueError, match="model is a PCA; leave X out"):
        scree(PCA(2).fit(rows()), rows())
    with pytest.raises(ValueError, match="plain has 1 shares beside 2"):
        ScreeDisplay([0.5, 0.2], plain=[0.5])
    with pytest.raises(TypeError, match=r"shares is a PCA; .* call ScreeDisplay\.from_estimator"):
        ScreeDisplay(PCA(2))


# the scores


def where(display):
    """All points of a display but the rings around flagged ones."""
    kinds = [kind for kind in display.points_ if len(kind.get_facecolor())]
    return np.concatenate([np.asarray(kind.get_offsets()) for kind in kinds])


def in_order(places):
    return places[np.lexsort(places.T)]


LINEAR = [PCA(3), RobustPCA(3, random_state=0), SparsePCA(3, random_state=0), Oracle(3)]
KERNELS = [KernelPCA(3, kernel="rbf", gamma=0.1), RobustKernelPCA(3, gamma=0.1, random_state=0)]
MODELS = [*LINEAR, *KERNELS]


@pytest.mark.parametrize("estimator", MODELS)
@pytest.mark.parametrize("components", [(0, 1), (2, 0)])
def test_scores_are_those_of_transform(estimator, components):
    X = rows()
    model = estimator.fit(X)
    display = ScoresDisplay.from_estimator(model, X, components=components)
    T = model.transform(X)[:, components]
    assert_array_equal(display.scores, T)
    assert_array_equal(in_order(where(display)), in_order(T))
    for name, i in zip(
        (display.ax_.get_xlabel(), display.ax_.get_ylabel()), components, strict=True
    ):
        assert name == f"component {i + 1} ({model.explained_variance_ratio_[i]:.1%} of variance)"
    if hasattr(model, "predict"):
        flagged = model.predict(X) == -1
        assert_array_equal(np.asarray(display.points_[1].get_offsets()), T[flagged])
        told = [f"not flagged ({(~flagged).sum()})", f"flagged ({flagged.sum()})"]
        assert legend(display.ax_) == told
    else:
        assert legend(display.ax_) == ["rows (80)"]
    display.figure_.draw_without_rendering()


@pytest.mark.parametrize("kind", [np.array, list, as_series])
def test_each_class_has_its_colour_and_its_points(model, kind):
    y = np.arange(80) % 3
    names = np.array(["a", "b", "c"])[y]
    display = ScoresDisplay.from_estimator(model, rows(), labels=kind(names))
    *classes, rings = display.points_
    T = model.transform(rows())
    for i, of_class in enumerate(classes):
        assert_array_equal(np.asarray(of_class.get_offsets()), T[y == i])
    assert_array_equal(np.asarray(rings.get_offsets()), T[model.outliers_])
    assert legend(display.ax_) == ["a (27)", "b (27)", "c (26)", f"flagged ({BAD})"]
    assert len({tuple(of_class.get_facecolor()[0]) for of_class in classes}) == 3


def test_dollar_signs_in_names_are_not_read_as_formulas(model):
    names = [r"$\frac{$", "$x$", r"US$ $\undefined$"]
    display = ScoresDisplay.from_estimator(model, rows(), labels=np.resize(names, 80))
    display.figure_.draw_without_rendering()  # where a formula would be set
    assert [name.rpartition(" (")[0] for name in legend(display.ax_)[:3]] == sorted(names)


def test_rare_classes_share_a_colour():
    y = np.concatenate([np.repeat(np.arange(9), 8), [20, 21, 22, 20, 21, 22, 23, 24]])
    display = ScoresDisplay(rows()[:, :2], labels=y)
    assert legend(display.plot().ax_) == [f"{i} (8)" for i in range(9)] + ["other labels (8)"]
    assert_array_equal(in_order(where(display)), in_order(rows()[:, :2]))


def test_numbers_have_a_colour_scale():
    y = np.linspace(0.0, 1.0, 80)
    y[3] = np.nan
    display = ScoresDisplay(rows()[:, :2], labels=y).plot()
    (all_of_them,) = display.points_
    assert_array_equal(all_of_them.get_array().filled(np.nan), y)
    assert len(display.figure_.axes) == 2
    display.figure_.draw_without_rendering()
    assert len(all_of_them.get_facecolor()) == 80
    few = ScoresDisplay(rows()[:, :2], labels=np.round(y)).plot()
    assert legend(few.ax_) == ["0 (39)", "1 (40)", "nan (1)"]


def test_aspect():
    display = ScoresDisplay(rows()[:, :2])
    assert display.plot().ax_.get_aspect() == "auto"
    assert display.plot(equal_aspect=True).ax_.get_aspect() == 1


def test_a_precomputed_kernel_flags_training_rows_only():
    X = rows()
    K = np.exp(-0.1 * ((X[:, None] - X) ** 2).sum(axis=2))
    model = RobustKernelPCA(2, kernel="precomputed", random_state=0).fit(K)
    assert_array_equal(ScoresDisplay.from_estimator(model, K).flagged, model.outliers_)
    assert ScoresDisplay.from_estimator(model, K[:5]).flagged is None


@pytest.mark.parametrize("components", [(0, 0), (0,), (0, 1, 2), 1, (0, 1.0), (0, True), "01"])
def test_components_are_two_numbers(model, components):
    with pytest.raises(ValueError, match=r"components=.* give \(0, 1\)"):
        ScoresDisplay.from_estimator(model, rows(), components=components)


@pytest.mark.parametrize("components", [(0, 2), (-1, 0)])
def test_components_are_those_of_the_model(model, components):
    with pytest.raises(ValueError, match=r"model has 2; .* fit more n_components"):
        BiplotDisplay.from_estimator(model, rows(), components=components)


def test_wrong_scores():
    with pytest.raises(ValueError, match=r"scores has shape \(80, 6\); give two columns"):
        ScoresDisplay(rows())
    with pytest.raises(ValueError, match=r"flagged has shape \(3,\) for 80 rows"):
        ScoresDisplay(rows()[:, :2], flagged=[True] * 3)


@pytest.mark.parametrize("display", [ScoresDisplay, BiplotDisplay])
def test_labels_are_one_a_row_before_any_work(display):
    class Unused(PCA):
        def transform(self, X):
            raise AssertionError

    with pytest.raises(ValueError, match=r"labels has shape \(3,\) for 80 rows; give one for each"):
        display.from_estimator(Unused(2).fit(rows()), rows(), labels=[1, 2, 3])


# the biplot


@pytest.mark.parametrize("estimator", LINEAR)
def test_arrows_are_the_longest_loadings(estimator):
    model = estimator.fit(rows())
    display = BiplotDisplay.from_estimator(model, rows(), n_arrows=4)
    loadings = model.components_[:2].T
    longest = np.argsort(-np.hypot(*loadings.T), kind="stable")[:4]
    longest = longest[np.hypot(*loadings[longest].T) > 0]
    assert [name.get_text() for name in display.names_] == [f"x{i}" for i in longest]
    tips = np.array([arrow.xy for arrow in display.arrows_])
    assert_allclose(tips, display.scale_ * loadings[longest])
    assert_array_equal([name.xy for name in display.names_], tips)
    assert display.scale_ > 0
    assert_array_equal(in_order(where(display)), in_order(model.transform(rows())[:, :2]))
    (left, right), (low, high) = display.ax_.get_xlim(), display.ax_.get_ylim()
    assert np.all((left < tips[:, 0]) & (tips[:, 0] < right))
    assert np.all((low < tips[:, 1]) & (tips[:, 1] < high))
    assert display.ax_.get_aspect() == 1


@pytest.mark.parametrize("whiten", [False, True])
def test_rows_are_scores_times_loadings(whiten):
    X = rows(bad=0)
    model = PCA(2, whiten=whiten).fit(X)
    display = BiplotDisplay.from_estimator(model, X)
    found = display.scores @ display.loadings.T + model.mean_
    assert_allclose(found, model.inverse_transform(model.transform(X)), atol=1e-10)


def test_names_of_features_do_not_cover_each_other():
    from sklearn.datasets import load_wine

    X = load_wine(as_frame=True).data
    model = make_pipeline(Preprocessor(scaling="standard"), PCA(2)).fit(X)
    display = BiplotDisplay.from_estimator(model, X, n_arrows=13)
    assert {name.get_text() for name in display.names_} == set(X.columns)
    display.figure_.draw_without_rendering()
    boxes = [extent(name) for name in display.names_]
    assert not any(a.overlaps(b) for i, a in enumerate(boxes) for b in boxes[:i])
    box = display.ax_.get_window_extent()
    assert all(box.x0 <= b.x0 and b.x1 <= box.x1 for b in boxes)
    assert all(box.y0 <= b.y0 and b.y1 <= box.y1 for b in boxes)


def test_no_arrows_and_no_length():
    model = PCA(2).fit(rows())
    assert BiplotDisplay.from_estimator(model, rows(), n_arrows=0).arrows_ == []
    display = BiplotDisplay(rows()[:, :2], np.zeros((3, 2)), "abc").plot()
    assert display.arrows_ == []
    display = BiplotDisplay(np.zeros((4, 2)), np.eye(2), "ab").plot()
    assert len(display.arrows_) == 2
    display.figure_.draw_without_rendering()


def test_wrong_loadings():
    with pytest.raises(ValueError, match=r"loadings has shape \(2, 2\) for 3 feature_names"):
        BiplotDisplay(rows()[:, :2], np.eye(2), "abc")
    with pytest.raises(ValueError, match=r"n_arrows=-1 .* give an integer"):
        BiplotDisplay.from_estimator(PCA(2).fit(rows()), rows(), n_arrows=-1)
    with pytest.raises(TypeError, match="KernelPCA, which has no loadings"):
        BiplotDisplay.from_estimator(KernelPCA(2).fit(rows()), rows())


# convergence


def test_convergence_is_that_of_the_fit():
    model = PCA(3, solver="dca", tol=1e-6, random_state=0).fit(rows())
    display = ConvergenceDisplay.from_estimator(model)
    assert_array_equal(display.line_.get_xydata(), model.convergence_)
    assert display.ax_.get_yscale() == "log"
    assert set(display.tol_line_.get_ydata()) == {model.tol}
    assert legend(display.ax_) == ["PCA", "tol = 1e-06"]


@pytest.mark.parametrize("estimator", [*LINEAR[:3], *KERNELS])
def test_convergence_of_every_estimator(estimator):
    model = make_pipeline(Preprocessor(), estimator).fit(rows())
    display = ConvergenceDisplay.from_estimator(model, name="mine")
    assert_array_equal(display.line_.get_xdata(), np.asarray(model[-1].convergence_)[:, 0])
    assert display.line_.get_label() == "mine"
    display.figure_.draw_without_rendering()


def test_several_fits_on_the_same_axes():
    first = ConvergenceDisplay([[1, 0.1], [2, 1e-3]], tol=1e-2, name="first").plot()
    second = ConvergenceDisplay([[1, 0.2], [3, 0.0]], tol=1e-2, name="second").plot(first.ax_)
    third = ConvergenceDisplay([[4, 1e-9]], tol=1e-4, name="third").plot(first.ax_)
    assert legend(first.ax_) == ["first", "tol = 0.01", "second", "third", "tol = 0.0001"]
    assert second.tol_line_ is None
    assert_array_equal(second.line_.get_ydata(), [0.2, np.finfo(float).eps])
    assert not same_color(first.line_.get_color(), third.line_.get_color())
    assert ConvergenceDisplay([[1, 0.1]], tol=0.0).plot().tol_line_ is None


@pytest.mark.parametrize(
    "wrong", [[], [1, 2], [[1, 2, 3]], [[1, -1]], [[1, np.nan]], np.empty((0, 2))]
)
def test_wrong_convergence(wrong):
    with pytest.raises(ValueError, match=r"convergence, of shape .* give the convergence_"):
        ConvergenceDisplay(wrong)


def test_convergence_of_other_models():
    with pytest.raises(TypeError, match="model is a PCA, which has no convergence_; give"):
        ConvergenceDisplay.from_estimator(Oracle(2).fit(rows()))


# reconstructions


def pictures(display, n, shape):
    """The images of each line of the picture."""
    height, width = shape
    for image in display.images_:
        line = image.get_array()
        assert line.shape == (height, n * (width + 1) - 1)
        yield [np.ma.getdata(line)[:, i * (width + 1) :][:, :width] for i in range(n)]


@pytest.mark.parametrize("estimator", [*LINEAR, KernelPCA(3, fit_inverse_transform=True)])
def test_reconstructions_are_those_of_the_model(estimator):
    X, chosen = rows(), [5, 2, 70]
    model = estimator.fit(X)
    display = ReconstructionDisplay.from_estimator(model, X, image_shape=(2, 3), rows=chosen)
    R = model.inverse_transform(model.transform(X[chosen]))
    lines = list(pictures(display, 3, (2, 3)))
    for line, expected in zip(lines, (X[chosen], R, X[chosen] - R), strict=True):
        assert_allclose(np.array(line).reshape(3, 6), expected, atol=1e-12)
    assert [text.get_text() for text in display.ax_.get_xticklabels()] == ["5", "2", "70"]
    most = np.abs(X[chosen] - R).max()
    assert display.images_[2].get_clim() == pytest.approx((-most, most))
    assert display.images_[0].get_clim() == display.images_[1].get_clim()


def test_another_model_is_drawn_below(model):
    plain = make_pipeline(Preprocessor(scaling="robust"), PCA(2)).fit(rows())
    display = ReconstructionDisplay.from_estimator(
        model, rows(), image_shape=(3, 2), beside=plain, row_names="abcdefgh"
    )
    names = [text.get_text().split("\n")[0] for text in display.ax_.get_yticklabels()]
    assert names == ["data", "RobustPCA", "residual", "PCA", "residual"]
    R = plain.inverse_transform(plain.transform(rows()[:8]))
    assert_allclose(np.array(list(pictures(display, 8, (3, 2)))[3]).reshape(8, 6), R, atol=1e-12)
    display.figure_.draw_without_rendering()
    texts = [*display.ax_.get_yticklabels(), *display.ax_.get_xticklabels()]
    assert [text.get_text() for text in texts[5:]] == list("abcdefgh")
    whole = display.figure_.bbox
    for box in (text.get_window_extent() for text in texts):
        assert whole.x0 <= box.x0 <= box.x1 <= whole.x1
        assert whole.y0 <= box.y0 <= box.y1 <= whole.y1


def test_lines_do_not_overlap_and_all_are_in_sight(model):
    display = ReconstructionDisplay.from_estimator(model, rows(), image_shape=(2, 3))
    boxes = [image.get_extent() for image in display.images_]
    (left, right), (bottom, top) = display.ax_.get_xlim(), display.ax_.get_ylim()
    for (_, _, lower, _), (_, _, _, upper) in pairwise(boxes):
        assert lower < upper  # lines are counted downwards
    assert all(left < a < b < right and top < d < c < bottom for a, b, c, d in boxes)


def test_colours():
    X = np.random.default_rng(0).uniform(0, 255, (9, 12))
    display = ReconstructionDisplay.from_estimator(PCA(2).fit(X), X, image_shape=(2, 2, 3))
    data, _, residual = (image.get_array() for image in display.images_)
    low, high = X[:8].min(), X[:8].max()
    assert_allclose(data[:, :2, :3], (X[0].reshape(2, 2, 3) - low) / (high - low))
    assert_array_equal(data[:, :, 3], [np.arange(23) % 3 != 2] * 2)  # nothing between the images
    rest = display.rows - display.reconstructions["PCA"]
    scaled = (rest[0].reshape(2, 2, 3) / np.abs(rest).max() + 1) / 2
    assert_allclose(residual[:, :2, :3], scaled)
    display.figure_.draw_without_rendering()


def test_rows_of_every_kind(model, tmp_path):
    import pandas as pd
    import polars
    import scipy.sparse as sp

    from dualpca import as_operator

    X, options = rows(), {"image_shape": (2, 3), "rows": [7, 0, 7]}
    np.save(tmp_path / "rows.npy", X)
    mapped = np.load(tmp_path / "rows.npy", mmap_mode="r")
    for kind in (X.tolist(), sp.csr_array(X), mapped, as_operator(X)):
        display = ReconstructionDisplay.from_estimator(model, kind, **options)
        assert_array_equal(display.rows, X[[7, 0, 7]])
    for frame in (pd.DataFrame(X, columns=list("abcdef")), polars.DataFrame(X, list("abcdef"))):
        display = ReconstructionDisplay.from_estimator(fitted(frame), frame, **options)
        assert_array_equal(display.rows, X[[7, 0, 7]])


def test_rows_of_a_table_in_a_file(tmp_path):
    pa = pytest.importorskip("pyarrow")
    import pyarrow.parquet as pq

    pq.write_table(pa.table(dict(zip("abcdef", rows().T, strict=True))), tmp_path / "rows.parquet")
    with pq.ParquetFile(tmp_path / "rows.parquet") as file:
        model = fitted(file)
        display = ReconstructionDisplay.from_estimator(model, file, image_shape=(2, 3), rows=[9, 1])
        assert_array_equal(display.rows, rows()[[9, 1]])
        scores = ScoresDisplay.from_estimator(model, file).scores
        assert_allclose(scores, model.transform(file))
        assert BiplotDisplay.from_estimator(model, file).feature_names == list("abcdef")


@pytest.mark.parametrize("shape", [(2, 2), (6,), (1, 2, 3, 1), (2, 3.5), "ab", 6, None, (-2, -3)])
def test_image_shapes(model, shape):
    with pytest.raises(
        ValueError, match=r"image_shape=.* image of 6 features; give \(height, width"
    ):
        ReconstructionDisplay.from_estimator(model, rows(), image_shape=shape)


@pytest.mark.parametrize("chosen", [[], [80], [-1], [0.5], [True]])
def test_chosen_rows(model, chosen):
    with pytest.raises(ValueError, match=r"rows=.* integers from 0 to 79"):
        ReconstructionDisplay.from_estimator(model, rows(), image_shape=(2, 3), rows=chosen)


@pytest.mark.parametrize("other", [KernelPCA(2), RobustKernelPCA(2, random_state=0)])
def test_no_way_back(model, other):
    with pytest.raises(TypeError, match="no way back from scores to rows; give"):
        ReconstructionDisplay.from_estimator(
            model, rows(), image_shape=(2, 3), beside=other.fit(rows())
        )


def test_wrong_reconstructions():
    with pytest.raises(ValueError, match=r"reconstructions\['mine'\] has shape \(3, 4\)"):
        ReconstructionDisplay(np.ones((2, 4)), {"mine": np.ones((3, 4))}, image_shape=(2, 2))
    with pytest.raises(ValueError, match=r"row_names has shape \(1,\) for 2 rows"):
        ReconstructionDisplay(np.ones((2, 4)), {}, image_shape=(2, 2), row_names=["a"])
    with pytest.raises(ValueError, match=r"rows has shape \(0, 4\)"):
        ReconstructionDisplay(np.ones((0, 4)), {}, image_shape=(2, 2))


# all displays


def reconstruction(model, X, **kwargs):
    return ReconstructionDisplay.from_estimator(model, X, image_shape=(2, 3), **kwargs)


DRAW = {
    "scree": ScreeDisplay.from_estimator,
    "scores": ScoresDisplay.from_estimator,
    "biplot": BiplotDisplay.from_estimator,
    "map": OutlierMapDisplay.from_estimator,
    "convergence": lambda model, X, **kwargs: ConvergenceDisplay.from_estimator(model, **kwargs),
    "reconstruction": reconstruction,
    "weights": lambda model, X, **kwargs: WeightsDisplay.from_estimator(model, **kwargs),
}
every_display = pytest.mark.parametrize("draw", DRAW.values(), ids=DRAW)


@every_display
def test_axes_are_used_or_made(model, draw):
    first, second = Figure().subplots(2)
    display = draw(model, rows(), ax=second)
    assert display.ax_ is second
    assert display.figure_ is second.figure
    assert not first.has_data()
    assert second.has_data()
    assert pyplot.get_fignums() == []
    assert display.plot() is display
    assert display.figure_ is not second.figure
    assert pyplot.get_fignums() == [display.figure_.number]  # so that notebooks show it
    assert pyplot.gcf() is display.figure_
    display.figure_.draw_without_rendering()


@every_display
def test_the_model_is_left_alone(model, draw):
    import pickle

    before = pickle.dumps(model)
    draw(model, rows())
    assert pickle.dumps(model) == before


@every_display
def test_what_is_refused(model, draw, monkeypatch):
    figure = Figure()
    for wrong in (figure, figure.subplots(2), "ax"):
        with pytest.raises(TypeError, match=r"ax is a .*; give one matplotlib Axes"):
            draw(model, rows(), ax=wrong)
    with pytest.raises(NotFittedError, match="RobustPCA instance is not fitted"):
        draw(RobustPCA(2), rows())
    for wrong in ("model", None):
        with pytest.raises(TypeError, match=r"model is a (str|NoneType), which has no .*; give"):
            draw(wrong, rows())
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(ImportError, match=r"pip install 'dualpca\[plot\]'"):
        draw(model, rows())


@every_display
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_arrays_of_torch(draw, dtype):
    from sklearn import config_context

    torch = pytest.importorskip("torch")
    X = torch.asarray(rows(dtype=dtype))
    with config_context(array_api_dispatch=True):
        model = fitted(X)
        display = draw(model, X)
        scores = model.transform(X)
    display.figure_.draw_without_rendering()
    assert not any(torch.is_tensor(value) for value in vars(display).values())
    if isinstance(display, ScoresDisplay):
        assert_array_equal(display.scores, scores.numpy())
        assert_array_equal(display.flagged, model.outliers_.numpy())


@every_display
def test_pipelines_see_what_their_estimator_sees(draw):
    import pandas as pd

    X = pd.DataFrame(10 * rows() + 3, columns=list("abcdef"))
    X.iloc[-1, 2] = np.nan
    first = Preprocessor(scaling="robust", missing="impute")
    model = make_pipeline(first, RobustPCA(2, random_state=0)).fit(X)
    display, expected = draw(model, X), draw(model[-1], first.transform(X))
    if isinstance(display, ReconstructionDisplay):  # in the units of the data
        assert_array_equal(display.rows, X.iloc[:8])
        R = first.inverse_transform(expected.reconstructions["RobustPCA"])
        assert_allclose(display.reconstructions["RobustPCA"], R)
        return
    numbers = {name: v for name, v in vars(expected).items() if isinstance(v, np.ndarray)}
    assert numbers
    for name, value in numbers.items():
        assert_array_equal(getattr(display, name), value)
    if isinstance(display, BiplotDisplay):
        assert display.feature_names == list("abcdef")


@pytest.mark.parametrize(
    ("draw", "labels"),
    [("scores", False), ("scores", True), ("biplot", True), ("map", False), ("weights", False)],
)
def test_of_many_rows_some_are_drawn_and_all_that_are_flagged(draw, labels):
    X = rows(n=2000, bad=300)
    model = fitted(X)
    options = {"labels": np.arange(2000) % 2} if labels else {}
    display = DRAW[draw](model, X, max_points=100, **options)
    flagged = int(model.outliers_.sum())
    assert len(where(display)) == 100 + flagged
    told = legend(display.ax_)
    if labels:
        drawn = [int(text.split(", ")[1].removesuffix(" drawn)")) for text in told[:2]]
        assert sum(drawn) == 100 + flagged
        assert told[2] == f"flagged ({flagged})"
    else:
        assert told[:2] == [f"not flagged ({2000 - flagged}, 100 drawn)", f"flagged ({flagged})"]
    assert len(where(DRAW[draw](model, X, max_points=None, **options))) == 2000


@pytest.mark.parametrize("draw", ["scores", "biplot", "map", "weights"])
@pytest.mark.parametrize("wrong", [0, -1, 1.5, True, "all"])
def test_max_points_counts(model, draw, wrong):
    with pytest.raises(ValueError, match=r"max_points=.* give an integer, 1 or more"):
        DRAW[draw](model, rows(), max_points=wrong)


def test_keywords_reach_the_artists(model):
    good, bad = OutlierMapDisplay.from_estimator(model, s=3, color="green").points_
    assert same_color(good.get_facecolor()[0][:3], "green")
    assert not same_color(bad.get_facecolor()[0][:3], "green")
    display = ScreeDisplay.from_estimator(model, hatch="/")
    assert all(bar.get_hatch() == "/" for bar in display.bars_[0])
    assert ConvergenceDisplay([[1, 1]]).plot(linewidth=5).line_.get_linewidth() == 5
    image, *_ = reconstruction(model, rows(), cmap="viridis").images_
    assert image.get_cmap().name == "viridis"


def test_wrong_numbers():
    with pytest.raises(ValueError, match=r"flagged has shape \(2,\) for 3 rows; give one"):
        WeightsDisplay([1.0, 1.0, 1.0], [True, False])
    with pytest.raises(ValueError, match=r"flagged has shape \(3,\) for 2 rows; give one"):
        OutlierMapDisplay([1, 2], [1, 2], [True] * 3, kind_limits=(1, 1), limits=(None, 1))
    with pytest.raises(ValueError, match=r"limits=\(None, None\).* give one limit"):
        OutlierMapDisplay([1, 2], [1, 2], [True] * 2, kind_limits=(1, 1), limits=(None, None))


def test_a_model_without_shares_has_scores_but_no_scree():
    X = rows()
    model = PrincipalComponentPursuit().fit(X)
    display = ScoresDisplay.from_estimator(model, X)
    assert_allclose(display.scores, model.transform(X)[:, :2])
    assert display.axis_names == ("component 1", "component 2")
    assert display.flagged is None
    wrong = "PrincipalComponentPursuit, which has no explained_variance_ratio_; give ScreeDisplay"
    with pytest.raises(TypeError, match=wrong):
        ScreeDisplay.from_estimator(model)


def test_a_legend_among_many_points_covers_none_of_them():
    scores = np.random.default_rng(0).uniform(-1, 1, (3000, 2))
    display = ScoresDisplay(scores, flagged=scores[:, 0] > 0.9).plot()
    display.figure_.draw_without_rendering()
    box, inside = display.ax_.get_legend().get_window_extent(), display.ax_.get_window_extent()
    assert box.y0 >= inside.y1


def test_control_chart(model):
    X = rows(3, bad=4)
    days = np.datetime64("2026-03-01") + np.arange(len(X))
    display = ControlChartDisplay.from_estimator(model, X, time=days, annotate=2)
    pair = zip((display.t2, display.spe), model.limits_, strict=True)
    for points, (values, limit) in zip(display.points_, pair, strict=True):
        at = points.get_offsets()
        assert_allclose(at[:, 1], values / limit**2)
        assert_allclose(np.diff(at[:, 0]), 1.0)
    beyond = np.maximum(*(points.get_offsets()[:, 1] for points in display.points_)) > 1
    assert_array_equal(display.out, beyond)
    assert display.out[:4].all()
    assert {name.get_text() for name in display.names_} <= set("0123")
    plain = calibrate(PCA(2).fit(X[4:]), X[4:])
    few = ControlChartDisplay.from_estimator(
        plain, X, quantile=0.999, max_points=10, row_names=days
    )
    drawn = few.points_[0].get_offsets()
    assert len(drawn) == 10 + few.out.sum()
    assert few.limits == limits(plain, quantile=0.999)
    text = [f"{day} 12:00" for day in days]
    assert few.__class__(few.t2, few.spe, few.limits, time=text).time.dtype.kind == "M"
    pyplot.close("all")


def test_control_charts_refuse_what_they_cannot_draw(model):
    t2 = np.ones(3)
    with pytest.raises(
        ValueError, match="time holds text such as 'monday'; give numbers, or dates"
    ):
        ControlChartDisplay(t2, t2, (1.0, 1.0), time=["monday", "tuesday", "friday"])
    with pytest.raises(ValueError, match="time is missing in 1 rows"):
        ControlChartDisplay(t2, t2, (1.0, 1.0), time=[1.0, np.nan, 2.0])
    with pytest.raises(ValueError, match=r"time has shape \(2,\) for 3 rows"):
        ControlChartDisplay(t2, t2, (1.0, 1.0), time=[1, 2])
    with pytest.raises(ValueError, match="must be a pair"):
        ControlChartDisplay(t2, t2, (1.0,))
    with pytest.raises(TypeError, match="SparsePCA, which has no T2 and SPE"):
        ControlChartDisplay.from_estimator(SparsePCA(2).fit(rows()), rows())


@pytest.mark.parametrize("method", ["broken-stick", "gcv", "profile"])
def test_selection_draws_what_the_method_computed(method):
    """The statistic, the threshold where there is one, and the number; from models and selections."""
    fit = PCA(method).fit(rows(bad=0))
    chosen = fit.selection_
    for display in (
        SelectionDisplay.from_estimator(fit),
        SelectionDisplay.from_selection(n_components(rows(bad=0), method)),
    ):
        assert_array_equal(display.line_.get_xdata(), chosen.numbers)
        assert_allclose(display.line_.get_ydata(), chosen.statistic)
        assert set(display.number_line_.get_xdata()) == {fit.n_components_}
        if chosen.threshold is None:
            assert display.threshold_line_ is None
        else:
            assert_allclose(display.threshold_line_.get_ydata(), chosen.threshold)


def test_selection_refuses_models_that_chose_nothing():
    for wrong in (PCA(2).fit(rows()), fitted()):
        with pytest.raises(TypeError, match=r"selection is a NoneType; give dualpca\.n_components"):
            SelectionDisplay.from_estimator(wrong)
    with pytest.raises(TypeError, match="has no selection_"):
        SelectionDisplay.from_estimator(KernelPCA(2).fit(rows()))
    with pytest.raises(TypeError, match="selection is a int"):
        SelectionDisplay.from_selection(3)
