"""Tables of people who look for bad rows: the right rows, and the right reasons."""

import json

import numpy as np
import pytest

from dualpca.cli import main


def run(capsys, *arguments, code=0):
    """Run a command in this process; what it wrote to both streams."""
    with pytest.raises(SystemExit) as exit:
        main([str(argument) for argument in arguments])
    out, err = capsys.readouterr()
    assert exit.value.code == code, (out, err)
    return out, err


def cars(N=300, seed=0):
    """Columns of different units that follow one size, and two more factors."""
    rng = np.random.default_rng(seed)
    size, engine, year = rng.standard_normal((3, N))
    noise = rng.standard_normal((6, N))
    return {
        "mpg": 24 - 6 * size - 2 * engine + 2 * year + noise[0],
        "displacement": 200 + 90 * size + 20 * engine + 15 * noise[1],
        "horsepower": 105 + 30 * size + 20 * engine + 5 * noise[2],
        "weight": 3000 + 700 * size + 100 * noise[3],
        "acceleration": 15.5 - 1.5 * engine + 0.5 * noise[4],
        "price": 30_000 + 8_000 * size + 9_000 * engine + 6_000 * year + 1_500 * noise[5],
    }


def write(path, columns):
    lines = [",".join(["car", *columns])]
    cells = zip(*columns.values(), strict=True)
    for i, row in enumerate(cells):
        texts = ["" if np.isnan(v) else f"{v:.6g}" for v in row]
        lines.append(",".join([f"car {i}", *texts]))
    path.write_text("\n".join(lines) + "\n")


@pytest.mark.parametrize("column", list(cars(2)))
def test_a_slip_of_the_decimal_point_is_named(tmp_path, capsys, monkeypatch, column):
    monkeypatch.chdir(tmp_path)
    table = cars()
    right = table[column][17]
    table[column][17] *= 1000
    write(tmp_path / "cars.csv", table)
    found = json.loads(run(capsys, "outliers", "cars.csv", "--json")[0])["table"]
    assert found[0]["id"] == "car 17"
    first = found[0]["reasons"][0]
    assert first["variable"] == column
    assert first["share"] > 0.95
    assert abs(first["expected"] - right) < 0.5 * abs(right)
    assert len(found) < 8
    text, _ = run(capsys, "outliers", "cars.csv", "-o", "-")
    assert f"{column} " in text.splitlines()[1]
    assert "instead of" in text.splitlines()[1]


def test_columns_are_scaled_unless_asked_not_to(tmp_path, capsys, monkeypatch):
    """In raw units the price is the first component, and a broken acceleration is not seen."""
    monkeypatch.chdir(tmp_path)
    table = cars()
    broken = [3, 50, 120]
    table["acceleration"][broken] += 12
    write(tmp_path / "cars.csv", table)
    out, err = run(capsys, "outliers", "cars.csv", "--json")
    assert {row["id"] for row in json.loads(out)["table"]} == {f"car {i}" for i in broken}
    out, err = run(capsys, "fit", "cars.csv")
    assert "--scale none" in err
    out, err = run(capsys, "fit", "cars.csv", "--scale", "none", "-n", 2, "-o", "raw.dualpca")
    assert "column 'price' holds 9" in err
    assert "use --scale robust" in err
    assert "Preprocessor" not in err


def test_filled_cells_are_told(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    table = cars()
    table["weight"][[5, 6]] = np.nan
    table["mpg"][6] = 400
    write(tmp_path / "cars.csv", table)
    out, _ = run(capsys, "outliers", "cars.csv", "--missing", "impute", "--json", "--all")
    rows = {row["id"]: row for row in json.loads(out)["table"]}
    assert rows["car 6"]["filled"] == rows["car 5"]["filled"] == 1
    assert rows["car 7"]["filled"] == 0
    assert rows["car 6"]["reasons"][0]["variable"] == "mpg"
    assert all(row["reasons"] for row in rows.values())  # of every row, not of flagged ones alone
    run(capsys, "outliers", "cars.csv", "--missing", "impute", "--all", "-o", "all.csv")
    line = next(
        line for line in (tmp_path / "all.csv").read_text().splitlines() if "car 5," in line
    )
    assert ",1," in line


@pytest.mark.parametrize("seed", range(5))
def test_the_number_of_components_does_not_depend_on_the_seed(tmp_path, capsys, monkeypatch, seed):
    monkeypatch.chdir(tmp_path)
    write(tmp_path / "cars.csv", cars())
    told = json.loads(run(capsys, "fit", "cars.csv", "-n", "auto", "--seed", seed, "--json")[0])
    assert told["components"] == 2
    assert sum(told["explained_variance_ratio"]) >= 0.8


def test_loadings_are_exported(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write(tmp_path / "cars.csv", cars())
    run(capsys, "fit", "cars.csv", "-n", 2, "-q")
    out, _ = run(capsys, "inspect", "cars.dualpca", "--loadings", "loadings.csv")
    assert "loadings: loadings.csv" in out
    lines = (tmp_path / "loadings.csv").read_text().splitlines()
    assert lines[0] == "variable,pc1,pc2"
    assert [line.split(",")[0] for line in lines[1:]] == list(cars(2))
    _, err = run(capsys, "inspect", "cars.dualpca", "--loadings", "loadings.csv", code=5)
    assert "--force" in err
    run(capsys, "fit", "cars.csv", "-n", 2, "-m", "kernel", "-q", "-o", "k.dualpca")
    _, err = run(capsys, "inspect", "k.dualpca", "--loadings", "k.csv", code=2)
    assert "has no loadings" in err


def test_messages_speak_of_options(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write(tmp_path / "cars.csv", cars())
    _, err = run(capsys, "fit", "cars.csv", "-n", 50, "-q", code=2)
    assert "--components 50 must be between 1 and 6" in err
    assert "n_components" not in err


def test_columns_that_are_mostly_one_value_do_not_flag(tmp_path, capsys, monkeypatch):
    """A yes-or-no column has no spread in most rows: all others would be outliers."""
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    table = cars()
    table["weight"][6] *= 10
    table["member"] = (rng.random(300) < 0.7).astype(float)
    table["doors"] = rng.choice([0.0, 0, 0, 1, 2], 300)
    write(tmp_path / "cars.csv", table)
    out, err = run(capsys, "outliers", "cars.csv", "-o", "-")
    assert "left out member, doors, since most of the cells" in err
    assert out.splitlines()[1].split(",")[1] == "car 6"
    assert len(out.splitlines()) < 6
    run(capsys, "fit", "cars.csv", "-q")
    run(capsys, "outliers", "cars.dualpca", "cars.csv", "-q")  # which has those columns too
    out, err = run(
        capsys, "fit", "cars.csv", "--keep", "*", "--id", "car", "-n", 3, "-o", "all.dualpca"
    )
    assert "8 columns" in out


def test_one_model_for_all_commands(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    table = cars()
    table["mpg"][[9, 20]] += 40
    write(tmp_path / "cars.csv", table)
    alone = json.loads(run(capsys, "outliers", "cars.csv", "--json")[0])
    fitted = json.loads(run(capsys, "fit", "cars.csv", "--json")[0])
    through = json.loads(run(capsys, "outliers", "cars.dualpca", "cars.csv", "--json")[0])
    shown = json.loads(run(capsys, "report", "cars.csv", "--json")[0])
    assert alone["flagged"] == fitted["flagged"] == through["flagged"] == shown["flagged"]
    assert alone["components"] == fitted["components"] == shown["components"]
    assert alone["table"] == through["table"]


def test_few_rows_and_many_flags_are_told(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write(tmp_path / "few.csv", cars(5))
    assert "5 rows are too few" in run(capsys, "fit", "few.csv", "-n", 1)[1]
    table = cars()
    for column in table.values():
        column[:90] += 15 * column.std() * np.random.default_rng(1).standard_normal(90)
    write(tmp_path / "many.csv", table)
    assert "of the rows are flagged: perhaps" in run(capsys, "fit", "many.csv", "-n", 2)[1]


def test_categories_name_no_rows(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    lines = [f"{'yes' if i % 2 else 'no'},part {i},{i % 7},{i * i % 11}" for i in range(30)]
    (tmp_path / "parts.csv").write_text("ok,part,a,b\n" + "\n".join(lines) + "\n")
    _, err = run(capsys, "fit", "parts.csv", "-n", 1)
    assert "rows are named by column 'part'" in err
    assert "left out text column: ok" in err


def test_percents_of_a_model_are_told(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    X = rng.standard_normal((40, 2)) @ rng.standard_normal((2, 3)) + 8
    for name, sign in (("fit.csv", "%"), ("new.csv", "")):
        lines = [f"{a:.3f},{b:.3f},{c:.2f}{sign}" for a, b, c in X]
        (tmp_path / name).write_text("a,b,margin\n" + "\n".join(lines) + "\n")
    run(capsys, "fit", "fit.csv", "-n", 1, "-q")
    _, err = run(capsys, "transform", "fit.dualpca", "new.csv", "-o", "s.csv")
    assert "warning: margin: percents" in err
    _, err = run(capsys, "transform", "fit.dualpca", "fit.csv", "-o", "t.csv")
    assert "warning" not in err
