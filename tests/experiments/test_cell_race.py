"""The cell race: its tables are what they say, its judges know right from wrong, it tells losses."""

import json

import numpy as np
import pytest
from benchmarks import cell_methods, cell_race
from benchmarks.cell_methods import OURS, SETTINGS, Found
from benchmarks.cell_race import CLEAN, fill_error, fit_error, losses, means, sine
from benchmarks.cell_tables import (
    CASES,
    complete_tables,
    correlation,
    low_rank,
    setting,
    with_holes,
)
from numpy.testing import assert_allclose


@pytest.mark.parametrize("kind", ["A09", "ALYZ"])
def test_signal_holds_its_share_of_the_variance(kind):
    S = correlation(kind, 20, np.random.default_rng(0))
    assert_allclose(np.diag(S), 1)
    assert np.linalg.eigvalsh(S).min() > 0
    variances, U = low_rank(S, 2, 0.9)
    assert_allclose([variances[:2].sum(), variances.sum()], [18, 20])
    assert_allclose(U.T @ U, np.eye(20), atol=1e-12)
    assert_allclose(abs(U[:, 0] @ np.linalg.eigh(S)[1][:, -1]), 1)


@pytest.mark.parametrize("case", CASES)
def test_judged_cells_are_those_that_were_not_changed(case):
    table = setting("A09", 20, case, 5, seed=0, n=400)
    rows, cells, holes = CASES[case]
    there = ~np.isnan(table.X)
    same = table.truth == table.X
    assert same[table.judged & there].all()
    assert not same[~table.judged].any()
    assert 1 - there.mean() == pytest.approx(holes, abs=0.02)
    assert (~table.judged).all(axis=1).mean() == pytest.approx(rows)
    assert (~table.judged).mean() == pytest.approx(rows + (1 - rows) * cells, abs=0.02)


@pytest.mark.parametrize("at_random", [True, False])
def test_holes_have_their_share_and_are_of_large_values_if_asked(at_random):
    for truth, k in complete_tables(0).values():
        table = with_holes(truth, k, 0.2, at_random, seed=1)
        assert table.judged.mean() == pytest.approx(0.2, abs=0.03)
        assert (np.isnan(table.X) == table.judged).all()
        centred = (truth - truth.mean(axis=0))[table.judged].mean()
        assert (centred > 0.1 * truth.std()) != at_random
        assert sine(np.linalg.svd(np.cov(truth.T))[0][:, :k], table.axes) < 1e-6


def test_judges_know_right_from_wrong():
    truth = np.random.default_rng(0).standard_normal((50, 6))
    table = with_holes(truth, 2, 0.3, True, seed=0)
    right = Found(truth, truth, table.axes)
    assert fit_error(right, table) == fill_error(right, table) == 0
    assert sine(right.axes @ [[1.0, 2.0], [0.5, -1.0]], table.axes) < 1e-12
    by_mean = Found(truth + 2, np.broadcast_to(truth.mean(axis=0), truth.shape), table.axes)
    assert fit_error(by_mean, table) == pytest.approx(4)
    assert fill_error(by_mean, table) == pytest.approx(1, abs=0.2)
    other = np.linalg.svd(table.axes.T)[2][2:4].T  # orthogonal to the axes
    assert sine(other, table.axes) == pytest.approx(1)


def test_losses_are_told():
    lines = [("a", 1.0, 0.5, 0.1), ("b", 1.0, 2.0, 0.1)]
    records = [
        {"table": table, "method": method, "seed": 0, "error": error, "sine": 0.0}
        for table, *errors in lines
        for method, error in zip((OURS, "peer", CLEAN), errors, strict=True)
    ]
    said = losses(means(records, "table"), [OURS])
    assert "in 1 of 2 lines" in said
    assert "- a: 1 against 0.5 (peer)" in said


def test_race_runs_and_says_what_is_left_out(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))  # without R
    chosen = {name: SETTINGS[name] for name in ("medians, PCA", OURS, "MacroPCA")}
    monkeypatch.setattr(cell_race, "SETTINGS", chosen)
    monkeypatch.setattr(cell_race, "GAMMAS", (10,))
    monkeypatch.setattr(cell_race, "KINDS", (("A09", 20),))
    cell_race.main(["--only", "settings", "--seeds", "1", "--out", str(tmp_path)])
    found = json.loads((tmp_path / "cell_race.json").read_text())
    assert found["notes"] == ["MacroPCA: skipped, Rscript is not on the path."]
    error = {r["method"]: r["error"] for r in found["records"] if r["case"] == "cells"}
    assert error[OURS] < 1.2 * error[CLEAN] < 0.2 * error["medians, PCA"]
    text = (tmp_path / "cell_race.md").read_text()
    assert "MacroPCA: skipped" in text
    assert "| A09, p = 20 | cells | 10 |" in text


def test_failures_of_peers_are_results():
    def fails(X, k):
        raise ValueError("no")

    table = setting("A09", 20, "cells", 1, seed=0)
    assert cell_race.judged(fails, table, fit_error) == {"note": "failed: ValueError: no"}
    assert cell_methods.why_not("medians, PCA") == ""
