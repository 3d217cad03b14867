"""The cell map of the report: its numbers are those of the model, whatever the size of the table."""

import json
import re

import numpy as np
import pytest
from sklearn.pipeline import make_pipeline

from dualpca import PCA, Preprocessor, RobustPCA
from dualpca.cells import flagged_cells
from dualpca.inspect import FittedModel

pytest.importorskip("plotly")

from dualpca.report import report


def messy(n=120, d=10):
    rng = np.random.default_rng(4)
    X = rng.standard_normal((n, 2)) @ rng.standard_normal((2, d))
    X = 100 + 10.0 ** np.linspace(-2, 4, d) * (X + 0.2 * rng.standard_normal(X.shape))
    X[rng.random(X.shape) < 0.03] = np.nan
    X[9, 3] = 100 + 30 * 10.0 ** np.linspace(-2, 4, d)[3]
    return X


def fitted(X, components=2):
    model = RobustPCA(components, cells=True, random_state=0)
    return make_pipeline(Preprocessor("robust", missing="keep"), model).fit(X)


def numbers(page):
    found = re.search(r'<script type="application/json" id="data">(.*?)</script>', page, re.DOTALL)
    return json.loads(found[1])


def section(page):
    return re.search(r'<section id="cells".*?</section>', page, re.DOTALL)[0]


def test_cells_are_those_of_the_model():
    X = messy()
    model = fitted(X)
    page = report(model, X, row_names=[f"car {i}" for i in range(len(X))])
    cells, found = numbers(page)["cells"], flagged_cells(FittedModel(model), X)
    assert cells["first"] == len(found.row)
    fit = FittedModel(model).cells(X)
    for k, (i, j, value, expected, residual) in enumerate(cells["list"]):
        row, column = cells["rows"][i], int(cells["variables"][j][1:])
        assert cells["names"][i] == f"car {row}"
        if k < cells["first"]:
            assert (row, column) == (found.row[k], found.variable[k])
        for ours, theirs in ((value, X), (expected, fit.expected), (residual, fit.residuals)):
            known = theirs[row, column]
            assert (ours is None) == bool(np.isnan(known))
            assert ours is None or ours == pytest.approx(known, rel=1e-5)
    assert len(cells["list"]) - cells["first"] == 60 * 10
    assert sum(cells["sizes"]) == len(X)
    text = section(page)
    assert f"Farthest off is x3 of car 9: {X[9, 3]:,.0f}" in text.replace("<br>", "")
    assert text.count("<button") == len(found.row)
    assert "Look at the single cells" in page


def test_a_large_table_stays_small():
    X = messy(3000, 70)
    model = fitted(X)
    page = report(model, X, max_points=50)
    cells = numbers(page)["cells"]
    assert (len(cells["sizes"]), cells["width"]) == (60, 60)
    assert sum(cells["sizes"]) == 3000
    assert "the farthest 200 of" in section(page)
    assert section(page).count("<button") == 200
    assert "Columns are in blocks too" in section(page)


def test_sections_without_cells():
    X = messy()
    page = report(fitted(X))
    assert "no rows were given" in section(page)
    whole = np.nan_to_num(X)
    assert 'id="cells"' not in report(RobustPCA(2, random_state=0).fit(whole), whole)


def test_reports_of_tables_with_holes():
    """Every section that reads rows takes what the model takes."""
    X = messy()
    for model in (PCA(2, missing="shrink"), RobustPCA(2, missing="shrink", random_state=0)):
        whole = make_pipeline(Preprocessor("robust", missing="keep"), model).fit(X)
        page = numbers(report(whole, X))
        assert "cells" not in page
        shown = page["figures"]["scree-plot"][0]["data"]
        assert all(np.isfinite(trace["y"]).all() for trace in shown)
        assert np.isfinite(np.array(page["scores"], dtype=float)).all()
    names = {trace["name"] for trace in shown}
    assert "plain PCA" in names
    assert "not fitted" in names
