"""The cell map: what it draws are the residuals of the model, holes in grey, the worst rows first."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.pipeline import make_pipeline

from dualpca import PCA, Preprocessor, RobustPCA

pytest.importorskip("matplotlib")

from matplotlib import pyplot
from matplotlib.colors import to_rgb

from dualpca.plots import CellMapDisplay


@pytest.fixture(scope="module")
def table():
    rng = np.random.default_rng(3)
    X = rng.standard_normal((90, 2)) @ rng.standard_normal((2, 8))
    X += 0.1 * rng.standard_normal(X.shape)
    X[5, 2], X[6, 1], X[7, 0] = X[5, 2] + 30, X[6, 1] - 20, np.nan
    model = make_pipeline(
        Preprocessor("robust", missing="keep"), RobustPCA(2, cells=True, random_state=0)
    )
    return model.fit(X), X


@pytest.fixture(autouse=True)
def closed():
    yield
    pyplot.close("all")


def test_rows_and_marks(table):
    model, X = table
    names = [f"row ${i}" for i in range(len(X))]
    display = CellMapDisplay.from_estimator(model, X, row_names=names, lines=90)
    residuals = model[-1].cell_residuals_[display.cells.order]
    drawn = display.image_.get_array().reshape(residuals.shape)
    assert_array_equal(drawn.mask, np.isnan(residuals))
    assert_allclose(drawn.filled(np.nan), residuals, atol=1e-9)
    assert display.ax_.get_ylim() == (90, 0)
    labels = [text.get_text() for text in display.ax_.get_yticklabels()]
    assert labels[0] == "row $5"
    assert display.marks_ == []  # so many lines have no room for them
    few = CellMapDisplay.from_estimator(model, X, lines=20, names=list("abcdefgh"))
    assert [text.get_text() for text in few.ax_.get_xticklabels()] == list("abcdefgh")
    pluses, minuses = (marks.get_offsets() - 0.5 for marks in few.marks_)
    assert [2, 0] in pluses.tolist()
    assert [1, 1] in minuses.tolist()
    assert max(pluses[:, 1].max(), minuses[:, 1].max()) < 10  # blocks have none
    assert sum(int(name.split()[0]) for name in few.line_names()[10:]) == 80


def test_colours_tell_the_side_and_holes(table):
    model, X = table
    display = CellMapDisplay.from_estimator(model, X, lines=90)
    display.figure_.draw_without_rendering()
    colours = display.image_.to_rgba(display.image_.get_array().reshape(90, 8))
    above, below = colours[0, 2], colours[1, 1]
    assert above[0] > above[2]
    assert below[2] > below[0]
    red, green, blue = to_rgb(display.ax_.get_facecolor())
    assert red == green == blue < 0.9
    at = int(np.flatnonzero(display.cells.order == 7)[0])
    assert colours[at, 0, 3] == 0  # the grey behind it is seen


def test_training_rows_need_no_data(table):
    model, X = table
    one, two = (
        CellMapDisplay.from_estimator(model, rows, lines=12, columns=3) for rows in (None, X)
    )
    assert_allclose(one.cells.cells.residual, two.cells.cells.residual, atol=1e-9)
    assert one.group_names() == ["x0 to x1", "x2 to x4", "x5 to x7"]


def test_what_it_refuses(table):
    model, X = table
    with pytest.raises(TypeError, match="RobustPCA with cells=True"):
        CellMapDisplay.from_estimator(RobustPCA(2).fit(np.nan_to_num(X)))
    with pytest.raises(TypeError, match="residuals of cells"):
        CellMapDisplay.from_estimator(PCA(2).fit(np.nan_to_num(X)))
    with pytest.raises(ValueError, match="names has length 2 for 8 columns"):
        CellMapDisplay.from_estimator(model, names=["a", "b"])
    with pytest.raises(ValueError, match="lines"):
        CellMapDisplay.from_estimator(model, lines=1)
