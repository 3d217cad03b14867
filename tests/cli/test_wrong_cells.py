"""Tables with holes, a typo and a broken row: the command line says which is which."""

import csv
import json

import numpy as np
import pytest

from dualpca.cli import main

NAMES = ["mpg", "weight", "power", "price", "length", "width", "height", "torque", "tank", "range"]
UNITS = np.array([5, 400, 30, 6000, 15, 6, 5, 40, 8, 90.0])


def run(capsys, *arguments, code=0):
    with pytest.raises(SystemExit) as exit:
        main([str(argument) for argument in arguments])
    out, err = capsys.readouterr()
    assert exit.value.code == code, (out, err)
    return out, err


@pytest.fixture
def cars(tmp_path, monkeypatch):
    """The table that was written: car 17 has a weight times 10, car 40 is broken, 4 % are holes."""
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(2)
    X = rng.standard_normal((150, 2)) @ rng.standard_normal((2, 10))
    X = 10 * UNITS + UNITS * (X + 0.2 * rng.standard_normal(X.shape))
    X[rng.random(X.shape) < 0.04] = np.nan
    X[17, 1] = 42_000
    X[40] = 10 * UNITS + 8 * UNITS * rng.standard_normal(10)
    lines = [",".join(["car", *NAMES])]
    for i, row in enumerate(X):
        lines.append(",".join([f"car {i}", *("" if np.isnan(v) else f"{v:.6g}" for v in row)]))
    (tmp_path / "cars.csv").write_text("\n".join(lines) + "\n")
    return X


def test_a_typo_a_broken_row_and_holes(cars, tmp_path, capsys):
    out, err = run(capsys, "fit", "cars.csv", "--cells")
    holes = int(np.isnan(cars).sum())
    assert f"{holes} missing cells are completed by the model" in err
    assert "flagged: 1 of 150 rows, " in out
    assert "list them with: dualpca outliers cars.dualpca cars.csv\n" in out
    out, _ = run(
        capsys, "outliers", "cars.dualpca", "cars.csv", "--json", "--cell-table", "cells.csv"
    )
    told = json.loads(out)
    assert [row["id"] for row in told["table"]] == ["car 40"]
    worst = told["cells"][0]
    assert (worst["row"], worst["id"]) == (18, "car 17")
    assert (worst["column"], worst["value"]) == ("weight", 42_000)
    assert abs(worst["expected"] - 4000) < 2000
    assert worst["scales"] > 50
    sizes = [abs(cell["scales"]) for cell in told["cells"]]
    assert sizes == sorted(sizes, reverse=True)
    for cell in told["cells"]:
        given = cars[cell["row"] - 1, NAMES.index(cell["column"])]
        assert cell["value"] == pytest.approx(given, rel=1e-5)
    assert 40 not in [cell["row"] - 1 for cell in told["cells"]]
    with open("cells.csv") as file:
        written = list(csv.DictReader(file))
    assert len(written) == told["single_cells"]
    assert [line["column"] for line in written[:200]] == [c["column"] for c in told["cells"]]


def test_pipes_and_terminals(cars, capsys, monkeypatch):
    run(capsys, "fit", "cars.csv", "--cells", "-q")
    out, err = run(capsys, "outliers", "cars.dualpca", "cars.csv")
    assert [line.split(",")[1] for line in out.splitlines()[1:]] == ["car 40"]  # one table alone
    assert "--cell-table FILE writes them all" in err
    monkeypatch.setattr("sys.stdout.isatty", lambda: True, raising=False)
    out, _ = run(capsys, "outliers", "cars.dualpca", "cars.csv")
    lines = out.splitlines()
    head = next(i for i, line in enumerate(lines) if "expected" in line)
    assert lines[head].split() == ["row", "id", "column", "value", "expected", "scales"]
    assert lines[head + 1].split()[:4] == ["18", "car", "17", "weight"]
    assert len(lines) <= head + 1 + 20 + 1
    out, _ = run(
        capsys, "outliers", "cars.dualpca", "cars.csv", "-o", "rows.csv", "--cell-table", "-"
    )
    assert out.splitlines()[0] == "row,id,column,value,expected,scales"


def test_what_is_fitted(cars, capsys):
    for method, name in (("robust", "RobustPCA"), ("plain", "PCA")):
        out, _ = run(capsys, "fit", "cars.csv", "-m", method, "--missing", "shrink", "-f", "--json")
        assert json.loads(out)["estimator"] == name
        out, _ = run(capsys, "inspect", "cars.dualpca")
        assert "missing='shrink'" in out
        assert "missing cells keep" in out
        out, err = run(capsys, "transform", "cars.dualpca", "cars.csv", "--missing", "shrink")
        scores = np.array([line.split(",")[1:] for line in out.splitlines()[1:]], dtype=float)
        assert np.isfinite(scores).all()
        assert "completed by the model" in run(capsys, "transform", "cars.dualpca", "cars.csv")[1]
        assert (
            "fitted without --missing em"
            in run(capsys, "transform", "cars.dualpca", "cars.csv", "--missing", "em", code=2)[1]
        )
    out, _ = run(capsys, "outliers", "cars.csv", "--missing", "em", "--json")
    assert {row["id"] for row in json.loads(out)["table"]} >= {"car 17", "car 40"}
    assert "cells" not in json.loads(out)
    out, err = run(capsys, "fit", "cars.csv", "--cells", "--missing", "drop", "-f")
    assert "rows dropped for missing cells" in out
    assert "completed" not in err


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--cells", "-m", "plain"), "--cells is for --method robust; --method is plain"),
        (("--missing", "em", "-m", "sparse"), "--missing em is for --method robust or plain"),
        (("--missing", "shrink", "-m", "robust-kernel"), "--missing shrink is for"),
        (("--cells", "--missing", "impute"), "leave it out, or give drop"),
        (("--cells", "--missing", "shrink"), "leave it out, or give drop"),
    ],
)
def test_options_that_do_not_go_together(cars, capsys, options, words):
    _, err = run(capsys, "fit", "cars.csv", *options, code=2)
    assert words in err


def test_tables_of_cells_need_cells(cars, capsys):
    run(capsys, "fit", "cars.csv", "--missing", "shrink", "-q")
    options = ("cars.dualpca", "cars.csv", "--cell-table", "cells.csv")
    assert "--cells" in run(capsys, "outliers", *options, code=2)[1]
    _, err = run(capsys, "outliers", "cars.csv", "--cells", "--cell-table", "-", code=2)
    assert "both go to the pipe" in err
    run(capsys, "fit", "cars.csv", "--cells", "-q", "-f")
    out, err = run(capsys, "outliers", "cars.dualpca")  # without data rows alone are known
    assert out.splitlines()[1].startswith("41,")


def test_a_column_mostly_missing_is_no_constant(cars, tmp_path, capsys):
    """Its cells vary, so that a model that completes the others can use it; medians would not."""
    lines = (tmp_path / "cars.csv").read_text().splitlines()
    rng = np.random.default_rng(0)
    more = [f"{v:.4f}" if i % 5 < 2 else "" for i, v in enumerate(rng.standard_normal(150))]
    text = [",".join(pair) for pair in zip(lines, ["rare", *more], strict=True)]
    (tmp_path / "wide.csv").write_text("\n".join(text) + "\n")
    out, _ = run(capsys, "fit", "wide.csv", "--missing", "shrink", "--json")
    assert json.loads(out)["features"] == 11
    out, _ = run(capsys, "fit", "wide.csv", "--missing", "impute", "--json", "-f")
    assert json.loads(out)["features"] == 10
