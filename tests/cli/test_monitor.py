"""``dualpca monitor``: the rows that leave a model, in order of time, and the chart."""

import json

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose

from dualpca import load
from dualpca.cli import main
from dualpca.control import limits, out_of_control, statistics

NAMES = ["temperature", "pressure", "flow", "speed", "level", "load"]


def days(seed, n, start):
    axes = np.random.default_rng(5).standard_normal((2, 6))
    rng = np.random.default_rng(seed)
    X = 3 * rng.standard_normal((n, 2)) @ axes + 0.3 * rng.standard_normal((n, 6)) + 20
    table = pd.DataFrame(X.round(4), columns=NAMES)
    table.insert(0, "date", [str(np.datetime64(start) + i) for i in range(n)])
    return table


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    days(0, 200, "2026-01-01").to_csv("old.csv", index=False)
    new = days(1, 28, "2026-08-01")
    new.loc[7, "flow"] += 8
    new.loc[20, "level"] -= 9
    new.iloc[::-1].to_csv("new.csv", index=False)
    return tmp_path


def run(capsys, *arguments, code=0):
    with pytest.raises(SystemExit) as exit:
        main([str(argument) for argument in arguments])
    out, err = capsys.readouterr()
    assert exit.value.code == code, (exit.value.code, out, err)
    return out, err


@pytest.mark.parametrize("method", ["plain", "robust", "robust-kernel"])
def test_rows_out_of_control_in_order_of_time(folder, capsys, method):
    pytest.importorskip("matplotlib")
    run(capsys, "fit", "old.csv", "-m", method, "-n", "2", "-o", "m.dualpca")
    out, _ = run(
        capsys, "monitor", "m.dualpca", "new.csv", "--time", "date", "--json", "--draw", "c.svg"
    )
    told, model = json.loads(out), load("m.dualpca")
    X = pd.read_csv("new.csv")[NAMES].to_numpy()
    assert told["rows"] == 28
    assert_allclose(list(told["limits"].values()), limits(model))
    if method != "robust-kernel":
        assert {line["date"] for line in told["table"]} >= {"2026-08-08", "2026-08-21"}
        by_date = {line["date"]: line["reasons"][0]["variable"] for line in told["table"]}
        assert (by_date["2026-08-08"], by_date["2026-08-21"]) == ("flow", "level")
    expected = out_of_control(model, X)
    assert told["out_of_control"] == len(expected)
    assert [line["row"] for line in told["table"]] == [i + 1 for i in expected.index[::-1]]
    assert_allclose([line["T2"] for line in told["table"]], expected["T2"][::-1])
    assert [line["date"] for line in told["table"]] == sorted(
        line["date"] for line in told["table"]
    )
    assert "<svg" in (folder / "c.svg").read_text()


def test_later_rows_change_nothing(folder, capsys):
    """The lines of rows stay as they are when other rows are put behind them."""
    run(capsys, "fit", "old.csv", "-m", "plain", "-n", "2", "-o", "m.dualpca")
    before = run(capsys, "monitor", "m.dualpca", "new.csv")[0].splitlines()
    later = days(2, 30, "2026-09-01")
    later[NAMES] *= 50
    pd.concat([pd.read_csv("new.csv"), later]).to_csv("both.csv", index=False)
    after = run(capsys, "monitor", "m.dualpca", "both.csv")[0].splitlines()
    assert after[: len(before)] == before
    assert len(after) == len(before) + 30


def test_a_table_and_a_sentence(folder, capsys, monkeypatch):
    run(capsys, "fit", "old.csv", "-m", "plain", "-n", "2", "-o", "m.dualpca")
    run(capsys, "monitor", "m.dualpca", "new.csv", "-o", "rows.csv", "--quantile", "0.999")
    table = pd.read_csv("rows.csv")
    X = pd.read_csv("new.csv")[NAMES].to_numpy()
    model = load("m.dualpca")
    values = np.stack(statistics(model, X), axis=1)
    wanted = (values > limits(model, quantile=0.999)).any(axis=1)
    assert list(table["row"]) == list(np.flatnonzero(wanted) + 1)
    assert list(table.columns) == ["row", "id", "T2", "SPE", "beyond", "variables"]
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    out, _ = run(capsys, "monitor", "m.dualpca", "new.csv")
    assert "of 28 rows are out of control, beyond T2 " in out
    assert "flow " in out


@pytest.mark.parametrize(
    ("arguments", "code", "remedy"),
    [
        (["--draw", "chart.txt"], 2, "give a png, svg or pdf"),
        (["--draw", "old.csv"], 2, "give a png, svg or pdf"),
        (["--time", "date", "--label", "date"], 2, "give one"),
        (["--json", "-o", "x.csv"], 2, "leave out -o"),
        (["--quantile", "2"], 2, "must be between 0 and 1"),
        (["--time", "when"], 3, "when"),
        (["--time", "day"], 3, "column day: time holds text such as"),
    ],
)
def test_mistakes(folder, capsys, arguments, code, remedy):
    run(capsys, "fit", "old.csv", "-m", "plain", "-n", "2", "-o", "m.dualpca")
    table = pd.read_csv("new.csv")
    table["day"] = "monday"
    table.to_csv("new.csv", index=False)
    _, err = run(capsys, "monitor", "m.dualpca", "new.csv", *arguments, code=code)
    assert remedy in err


def test_rotations_and_correlations(folder, capsys):
    for method in ("plain", "robust", "sparse"):
        words = ("-m", method, "-n", "3", "--rotation", "varimax", "-o", f"{method}.dualpca")
        run(capsys, "fit", "old.csv", *words)
        assert load(f"{method}.dualpca")[-1].rotation == "varimax"
        out, _ = run(capsys, "inspect", f"{method}.dualpca")
        assert "rotation='varimax'" in out
    _, err = run(capsys, "fit", "old.csv", "-m", "kernel", "--rotation", "varimax", code=2)
    assert "--rotation is for --method robust or plain or sparse" in err
    run(capsys, "inspect", "plain.dualpca", "--loadings", "l.csv", "--scaled")
    table = pd.read_csv("l.csv", index_col=0)
    assert_allclose(table, load("plain.dualpca")[-1].loadings(scaled=True), atol=1e-9)
    _, err = run(capsys, "inspect", "plain.dualpca", "--scaled", code=2)
    assert "give both" in err
    _, err = run(capsys, "inspect", "sparse.dualpca", "--loadings", "s.csv", "--scaled", code=2)
    assert "SparsePCA does not know the variances" in err


def test_models_without_limits(folder, capsys):
    run(capsys, "fit", "old.csv", "-m", "sparse", "-n", "2", "-o", "s.dualpca")
    _, err = run(capsys, "monitor", "s.dualpca", "new.csv", code=2)
    assert "no limits of T2 and SPE; fit with --method robust or plain" in err
    run(capsys, "fit", "old.csv", "-n", "2", "-o", "r.dualpca")
    _, err = run(capsys, "monitor", "r.dualpca", "new.csv", "--quantile", "0.9", code=2)
    assert "come from its fit" in err
