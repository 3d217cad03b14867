"""The command line through its entry point: in pipes, on a pseudo-terminal, and with mistakes."""

import gzip
import json
import os
import pty
import re
import shlex
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.pipeline import Pipeline

import dualpca
from dualpca import PCA, KernelPCA, RobustKernelPCA, RobustPCA, SparsePCA
from dualpca.cli import main
from dualpca.frames import quality
from dualpca.io.models import write_model
from dualpca.io.tables import read

DUALPCA = Path(sys.executable).with_name("dualpca")
RAW = ("--scale", "none")
COLUMNS = ["height", "weight", "age", "dose", "pulse", "x <b>"]


def numbers(N=120, d=6, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((N, 2)) @ rng.standard_normal((2, d)) * 3
    X += 0.1 * rng.standard_normal((N, d))
    X[7] += 9 * rng.standard_normal(d)
    X[40, 3] += 40
    return X


def write_csv(path, X, names=COLUMNS, holes=(), extra=True):
    with open(path, "w") as file:
        file.write(("name,city," if extra else "") + ",".join(names) + "\n")
        for i, row in enumerate(X):
            cells = ["" if (i, j) in holes else repr(float(v)) for j, v in enumerate(row)]
            before = f"person {i},{'Gent' if i % 2 else 'Leuven'}," if extra else ""
            file.write(before + ",".join(cells) + "\n")
    return path


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_csv(tmp_path / "mine.csv", numbers())
    write_csv(tmp_path / "holes.csv", numbers(), holes={(3, 2), (60, 2), (90, 5)})
    return tmp_path


def command(*arguments, stdin=None, code=0):
    """Run the entry point in a pipe; what it wrote to both streams."""
    done = subprocess.run([DUALPCA, *map(str, arguments)], input=stdin, capture_output=True)
    assert done.returncode == code, (done.returncode, done.stdout, done.stderr)
    assert b"Traceback" not in done.stderr
    assert b"\x1b" not in done.stdout + done.stderr  # no colours, no cursor movements in pipes
    return done.stdout.decode(), done.stderr.decode()


def inside(capsys, *arguments, code=0):
    """The same in this process, which is quicker."""
    with pytest.raises(SystemExit) as exit:
        main([str(argument) for argument in arguments])
    out, err = capsys.readouterr()
    assert exit.value.code == code, (exit.value.code, out, err)
    return out, err


#: The command line, which draws each step of a fit; a signal then finds it at the first one.
WATCHED = """
import os, signal, sys, time
from dualpca.cli import main, watch

signal.signal(signal.SIGINT, signal.default_int_handler)  # shells let what is in the background ignore it
step, stands_still = watch.Watch.step, sys.argv.pop(1) == "True"

def drawn(self, told):
    step(self, told)
    self.progress.refresh()
    if stands_still:
        os.write(2, b"standing still")
        while True:
            time.sleep(1)

watch.Watch.step = drawn
main()
"""


def terminal(*arguments, sent=None):
    """Run the command line on a pseudo-terminal, and send a signal to its fit; exit code, all shown."""
    parent, child = pty.openpty()
    environment = {**os.environ, "TERM": "xterm-256color", "COLUMNS": "100", "LINES": "30"}
    command = [sys.executable, "-c", WATCHED, sent is not None, *arguments]
    process = subprocess.Popen(
        list(map(str, command)), stdin=child, stdout=child, stderr=child, env=environment
    )
    os.close(child)
    shown = b""
    while part := read_terminal(parent):
        shown += part
        if sent is not None and b"standing still" in shown:
            process.send_signal(sent)
            sent = None
    os.close(parent)
    return process.wait(), shown.decode()


def read_terminal(parent):
    """What is written next; nothing once the other side is closed."""
    try:
        return os.read(parent, 65536)
    except OSError:
        return b""


# every command, in pipes


@pytest.mark.slow
def test_fit_writes_a_model_that_python_loads(folder):
    out, err = command("fit", *RAW, "mine.csv", "-n", 2)
    assert "RobustPCA of mine.csv: 120 rows, 6 columns, 2 components" in out
    assert "model: mine.dualpca" in out
    assert "left out text column: city" in err
    model = dualpca.load("mine.dualpca")
    expected = RobustPCA(2, random_state=0).fit(numbers())
    assert_allclose(model.components_, expected.components_, rtol=1e-12)
    assert list(model.feature_names_in_) == COLUMNS
    assert f"flagged: {expected.outliers_.sum()} of 120 rows" in out
    assert model.outliers_[[7, 40]].all()


@pytest.mark.slow
def test_json_has_the_numbers_of_the_model(folder):
    out, err = command("fit", *RAW, "mine.csv", "-m", "plain", "-n", "0.9", "--json")
    told, model = json.loads(out), PCA(0.9).fit(numbers())
    assert err == ""
    assert told["estimator"] == "PCA"
    assert told["components"] == model.n_components_
    assert_allclose(told["explained_variance_ratio"], model.explained_variance_ratio_)
    assert_allclose(told["residual"], model.residual_, atol=1e-12)
    assert told["within_tol"] is True
    assert told["left_out"] == ["city"]
    assert told["ids"] == ["name"]


@pytest.mark.slow
def test_transform_in_a_pipe_and_to_files(folder):
    command("fit", *RAW, "mine.csv", "-n", 2, "-q")
    model, X = dualpca.load("mine.dualpca"), numbers()
    out, _ = command("transform", "mine.dualpca", "-", stdin=Path("mine.csv").read_bytes())
    lines = out.splitlines()
    assert lines[0] == "id,pc1,pc2"
    assert [line.split(",")[0] for line in lines[1:3]] == ["person 0", "person 1"]
    found = np.array([line.split(",")[1:] for line in lines[1:]], dtype=float)
    assert_allclose(found, scores_of(model, X))
    command("transform", "mine.dualpca", "mine.csv", "-o", "s.parquet", "--distances")
    table = read("s.parquet", columns=dualpca.io.tables.Columns(ids="id"))
    assert table.names == ["pc1", "pc2", "score_distance", "orthogonal_distance", "outlier"]
    assert_allclose(table.X[:, :2], found)
    assert_allclose(table.X[:, 3], model.orthogonal_distances_, rtol=1e-6, atol=1e-9)
    assert_array_equal(table.X[:, 4], model.outliers_)


def scores_of(model, X):
    return (X - model.mean_) @ model.components_.T


@pytest.mark.slow
def test_columns_are_found_by_name(folder):
    command("fit", *RAW, "mine.csv", "-n", 2, "-q")
    X, order = numbers(), [3, 1, 5, 0, 2, 4]
    write_csv("turned.csv", X[:, order], [COLUMNS[j] for j in order], extra=False)
    out, _ = command("transform", "mine.dualpca", "turned.csv")
    found = np.array([line.split(",")[1:] for line in out.splitlines()[1:]], dtype=float)
    assert_allclose(found, scores_of(dualpca.load("mine.dualpca"), X))
    write_csv("fewer.csv", X[:, :4], COLUMNS[:4])
    _, err = command("transform", "mine.dualpca", "fewer.csv", code=3)
    assert "pulse, x <b>" in err
    assert len(err.splitlines()) == 1


@pytest.mark.slow
def test_outliers_from_data_and_from_a_model(folder):
    out, _ = command("outliers", "mine.csv", "-n", 2)
    lines = out.splitlines()
    assert lines[0] == "row,id,score_distance,orthogonal_distance,variables"
    assert {line.split(",")[1] for line in lines[1:]} >= {"person 7", "person 40"}
    far = [float(line.split(",")[3]) for line in lines[1:]]
    assert far == sorted(far, reverse=True)
    dose = next(line for line in lines if line.split(",")[1] == "person 40")
    assert re.search(r"dose [\d.]+ instead of [\d.]+ \(\d+%\)", dose)
    command("fit", "mine.csv", "-n", 2, "-q")
    again, _ = command("outliers", "mine.dualpca", "mine.csv")
    assert [line.split(",")[:2] for line in again.splitlines()] == [
        line.split(",")[:2] for line in lines
    ]
    alone, _ = command("outliers", "mine.dualpca")
    assert [line.split(",")[0] for line in alone.splitlines()[1:]] == [
        line.split(",")[0] for line in lines[1:]
    ]
    out, _ = command("outliers", "mine.dualpca", "mine.csv", "--json")
    told = json.loads(out)
    assert told["rows"] == 120
    assert [row["row"] for row in told["table"]] == [int(x.split(",")[0]) for x in lines[1:]]


def test_shares_of_variables_are_those_of_the_contributions(folder, capsys):
    inside(capsys, "fit", *RAW, "mine.csv", "-n", 2, "-q")
    out, _ = inside(capsys, "outliers", "mine.dualpca", "mine.csv", "--json")
    row = next(row for row in json.loads(out)["table"] if row["id"] == "person 40")
    parts = dualpca.RobustPCA(2, random_state=0).fit(numbers()).contributions(numbers()[[40]])[0]
    shares = parts / parts.sum()
    assert len(row["reasons"]) == 3
    for reason in row["reasons"]:
        j = COLUMNS.index(reason["variable"])
        assert reason["value"] == numbers()[40, j]
        assert_allclose(reason["share"], shares[j], rtol=1e-6)
    out, _ = inside(capsys, "outliers", "mine.dualpca", "mine.csv", "-o", "-")
    line = next(line for line in out.splitlines() if "person 40" in line)
    name, share = re.search(r"([a-z]+) -?[\d.,]+ instead of -?[\d.,]+ \((\d+)%\)", line).groups()
    assert float(share) == pytest.approx(100 * shares[COLUMNS.index(name)], abs=0.5)


@pytest.mark.slow
def test_inspect(folder):
    command("fit", "holes.csv", "-n", 2, "--missing", "impute", "--scale", "robust", "-q")
    out, _ = command("inspect", "holes.dualpca")
    assert "scaling robust, missing cells impute" in out
    assert "columns: height, weight, age" in out
    told = json.loads(command("inspect", "holes.dualpca", "--json")[0])
    assert told["options"] == {"n_components": 2, "random_state": 0}
    assert told["feature_names"] == COLUMNS
    assert told["preprocessing"] == {"missing": "impute", "scaling": "robust"}


def test_inspect_with_rows(folder, capsys):
    inside(capsys, "fit", "mine.csv", "-n", 2, "-m", "plain", "-q")
    given = ("inspect", "mine.dualpca", "mine.csv", "--bootstrap", 5)
    told = json.loads(inside(capsys, *given, "--json")[0])
    model = dualpca.load("mine.dualpca")
    assert_allclose(told["cos2"], quality(model, numbers(), "variables").iloc[:, :2].T, atol=1e-8)
    found = dualpca.bootstrap(model, numbers(), 5, random_state=0)
    assert_allclose([told["bootstrap"]["low"], told["bootstrap"]["high"]], found.bounds())
    out, _ = inside(capsys, *given)
    assert "in 5 resamples the components turned by" in out
    assert f"{told['cos2'][0][0]:.1%}" in out
    _, err = inside(capsys, *given[:2], *given[3:], code=2)
    assert "--bootstrap 5 resamples rows; give DATA" in err


@pytest.mark.slow
def test_report_of_data_and_of_a_model(folder):
    out, _ = command("report", "mine.csv", "-n", 2, "-o", "a.html")
    assert out == "report: a.html\n"
    page = Path("a.html").read_text()
    assert "person 40" in page
    assert "x <b>" not in page  # escaped
    command("fit", "mine.csv", "-n", 2, "-q")
    _, err = command("report", "mine.dualpca")
    assert "without the data" in err
    assert "person 40" not in Path("mine.html").read_text()
    command("report", "mine.dualpca", "mine.csv", "--force", "--json")
    assert "person 40" in Path("mine.html").read_text()


@pytest.mark.slow
def test_demo(folder):
    out, _ = command("demo", "-o", "here")
    found = re.search(r"flags (\d+) of the (\d+) ruined images and (\d+) of", out)
    assert int(found[1]) == int(found[2]) > 100
    assert int(found[3]) < 20
    assert (folder / "here" / "demo-report.html").stat().st_size > 10**6
    assert out.splitlines()[-1] == (folder / "here" / "demo-report.html").as_uri()
    _, err = command("demo", "-o", "here", code=5)
    assert "exists" in err
    command("demo", "-o", "here", "--force")


# on a terminal


@pytest.mark.slow
def test_progress_and_a_table_on_a_terminal(folder):
    code, shown = terminal("fit", "mine.csv", "-n", 2)
    assert code == 0
    assert "model: mine.dualpca" in shown
    code, shown = terminal("outliers", "mine.dualpca", "mine.csv")
    assert code == 0
    assert re.search(r"row\s+id\s+score_distance", shown)
    assert "rows are flagged by 2 components, beyond the ellipse of" in shown
    for arguments in (
        ("transform", "mine.dualpca", "mine.csv", "-o", "s.csv"),
        ("inspect", "mine.dualpca"),
        ("report", "mine.dualpca", "mine.csv"),
        ("demo",),
        ("reproduce", "nothing"),
    ):
        code, shown = terminal(*arguments)
        assert code == (2 if arguments[0] == "reproduce" else 0), shown
        assert "Traceback" not in shown


@pytest.mark.slow
def test_progress_tells_passes_and_residuals(folder):
    np.save("big.npy", numbers(40_000))
    code, shown = terminal("fit", "big.npy", "-n", 3, "--memory", 1)
    assert code == 0
    assert re.search(r"reading, [\d,]+ rows", shown)
    assert re.search(r"fitting, pass \d+, residual \d.\de-\d+ to 1e-03", shown)
    _, silent = terminal("fit", "big.npy", "-n", 3, "-q", "-f")
    assert "residual 1" not in silent.split("RobustPCA")[0]


@pytest.mark.slow
def test_interrupted_by_the_user(folder):
    np.save("big.npy", numbers(40_000))
    code, shown = terminal("fit", "big.npy", "-n", 3, "--memory", 1, sent=signal.SIGINT)
    assert code == 130
    assert "interrupted; what was not complete is not written" in shown
    assert "Traceback" not in shown
    assert sorted(path.name for path in folder.iterdir()) == ["big.npy", "holes.csv", "mine.csv"]


@pytest.mark.slow
def test_a_reader_that_has_had_enough(folder):
    write_csv("long.csv", numbers(5000))
    command("fit", "long.csv", "-n", 2, "-q")
    line = f"'{DUALPCA}' transform long.dualpca long.csv | head -1; echo ${{PIPESTATUS[0]}}"
    done = subprocess.run(["bash", "-c", line], capture_output=True)
    first, code = done.stdout.decode().splitlines()
    assert first == "id,pc1,pc2"
    assert code in ("0", "141")
    assert b"Traceback" not in done.stderr


# what can be asked


@pytest.mark.parametrize(
    ("options", "kind"),
    [
        ((), RobustPCA),
        (("-m", "plain"), PCA),
        (("-m", "sparse", "-n", 2, "--nonzero", 3), SparsePCA),
        (("-m", "sparse", "-n", 2, "--nonzero", "0.5"), SparsePCA),
        (("-m", "kernel", "--gamma", "0.01"), KernelPCA),
        (("-m", "kernel", "--kernel", "poly", "--approximation", "nystroem"), KernelPCA),
        (("-m", "robust-kernel", "-n", 3, "--gamma", "scale"), RobustKernelPCA),
        (("--quantile", "0.99", "--tol", "1e-5"), RobustPCA),
        (("--dtype", "float32", "-n", "0.8"), RobustPCA),
    ],
)
def test_methods(folder, capsys, options, kind):
    inside(capsys, "fit", *RAW, "mine.csv", "-o", "m.dualpca", *options)
    model = dualpca.load("m.dualpca")
    assert type(model) is kind
    assert model.transform(numbers()).shape[0] == 120
    if "--nonzero" in options:
        assert model.n_nonzero_.max() == 3
    if "--dtype" in options:
        assert model.components_.dtype == np.float32
    inside(capsys, "inspect", "m.dualpca")
    inside(capsys, "report", "m.dualpca", "mine.csv")
    out, _ = inside(capsys, "transform", "m.dualpca", "mine.csv")
    assert len(out.splitlines()) == 121


def test_components_from_the_robust_scree(folder, capsys):
    X = numbers(d=30)
    write_csv("wide.csv", X, [f"v{j}" for j in range(30)])
    for method in ("plain", "sparse", "robust"):
        inside(capsys, "fit", *RAW, "wide.csv", "-m", method, "-o", f"{method}.dualpca", "-q")
    variances = RobustPCA(random_state=0).scree(X)
    wanted = int((np.cumsum(variances) < 0.8 * variances.sum()).sum()) + 1
    for method in ("plain", "sparse", "robust"):
        assert dualpca.load(f"{method}.dualpca").n_components_ == wanted


def test_components_by_a_method(folder, capsys):
    X = numbers(d=8)
    write_csv("wide.csv", X, [f"v{j}" for j in range(8)])
    for method, estimator in (("plain", PCA), ("robust", RobustPCA)):
        given = (*RAW, "wide.csv", "-m", method, "-n", "parallel", "-o", f"{method}.dualpca")
        shown, _ = inside(capsys, "fit", *given)
        assert ", chosen by parallel\n" in shown
        expected = estimator("parallel", random_state=0).fit(X)
        found = dualpca.load(f"{method}.dualpca")
        assert found.n_components_ == expected.n_components_
        assert_allclose(found.selection_.threshold, expected.selection_.threshold)
    told, _ = inside(capsys, "inspect", "plain.dualpca", "--json")
    assert json.loads(told)["components_chosen_by"] == "parallel"
    _, err = inside(capsys, "fit", "wide.csv", "-m", "sparse", "-n", "parallel", code=2)
    assert "--components parallel is for --method plain or robust; --method is sparse" in err
    _, err = inside(capsys, "fit", "wide.csv", "-n", "mle", code=2)
    assert "--components mle is for --method plain; --method is robust" in err


def test_missing_cells(folder, capsys):
    _, err = inside(capsys, "fit", *RAW, "holes.csv", code=3)
    assert "3 missing cells in 3 of 120 rows, most in 'age' (2), 'x <b>' (1)" in err
    assert "--missing impute" in err
    inside(capsys, "fit", *RAW, "holes.csv", "-n", 2, "--missing", "drop", "-o", "drop.dualpca")
    kept = np.delete(numbers(), [3, 60, 90], axis=0)
    expected = RobustPCA(2, random_state=0).fit(kept)
    assert_allclose(dualpca.load("drop.dualpca").components_, expected.components_, rtol=1e-10)
    inside(capsys, "fit", *RAW, "holes.csv", "-n", 2, "--missing", "impute", "-o", "fill.dualpca")
    model = dualpca.load("fill.dualpca")
    assert isinstance(model, Pipeline)
    X = numbers()
    for i, j in ((3, 2), (60, 2), (90, 5)):
        X[i, j] = np.nan
    assert_allclose(model[0].fill_, np.nanmedian(X, axis=0))
    out, _ = inside(capsys, "transform", "fill.dualpca", "holes.csv")
    assert len(out.splitlines()) == 121
    _, err = inside(capsys, "transform", "drop.dualpca", "holes.csv", code=3)
    assert "3 missing cells" in err
    _, err = inside(capsys, "transform", "drop.dualpca", "holes.csv", "--missing", "impute", code=2)
    assert "fitted without --missing impute" in err
    out, _ = inside(capsys, "outliers", "fill.dualpca", "holes.csv")
    assert "person 40" in out


@pytest.mark.parametrize("scale", ["standard", "robust"])
def test_scaling_is_part_of_the_model(folder, capsys, scale):
    inside(capsys, "fit", "mine.csv", "-m", "plain", "-n", 2, "--scale", scale, "-q")
    X, model = numbers(), dualpca.load("mine.dualpca")
    if scale == "standard":
        Z = (X - X.mean(0)) / X.std(0)
    else:
        middle = np.median(X, axis=0)
        Z = (X - middle) / (1.4826022185056018 * np.median(np.abs(X - middle), axis=0))
    V = np.linalg.svd(Z - Z.mean(0))[2][:2]
    assert_allclose(np.abs(model[-1].components_ @ V.T), np.eye(2), atol=1e-7)
    out, _ = inside(capsys, "transform", "mine.dualpca", "mine.csv")
    found = np.array([line.split(",")[1:] for line in out.splitlines()[1:]], dtype=float)
    assert_allclose(np.abs(found), np.abs((Z - Z.mean(0)) @ V.T), rtol=1e-6, atol=1e-6)


def test_columns(folder, capsys):
    inside(capsys, "fit", "mine.csv", "--keep", "height:dose", "--drop", "age", "-n", 1, "-q")
    assert list(dualpca.load("mine.dualpca").feature_names_in_) == ["height", "weight", "dose"]
    inside(
        capsys, "fit", "mine.csv", "--keep", "height,pulse", "--keep", "3-4", "-n", 1, "-q", "-f"
    )
    assert list(dualpca.load("mine.dualpca").feature_names_in_) == ["height", "weight", "pulse"]
    _, err = inside(capsys, "fit", "mine.csv", "--drop", "heigth", "-f", code=3)
    assert "height" in err
    out, _ = inside(capsys, "outliers", "mine.csv", "--id", "city", "--label", "name", "-n", 2)
    assert out.splitlines()[0].startswith("row,id,label,")
    assert ",Leuven,person 40," in out


def test_an_id_column_of_numbers_is_remembered(folder, capsys):
    X = np.column_stack([np.arange(1000, 1120), numbers()])
    write_csv("coded.csv", X, ["code", *COLUMNS], extra=False)
    inside(capsys, "fit", "coded.csv", "--id", "code", "-n", 2, "-q")
    out, _ = inside(capsys, "transform", "coded.dualpca", "coded.csv")
    assert out.splitlines()[1].startswith("1000")
    write_csv("bare.csv", numbers(), extra=False)
    out, _ = inside(capsys, "transform", "coded.dualpca", "bare.csv")
    assert out.splitlines()[0] == "row,pc1,pc2"


FORMATS = ["csv.gz", "tsv", "xlsx", "jsonl", "parquet", "npy", "npz", "zarr", "h5ad"]


@pytest.mark.parametrize("ending", FORMATS)
def test_formats(folder, capsys, ending):
    X, path = numbers(), f"data.{ending}"
    if ending == "csv.gz":
        Path(path).write_bytes(gzip.compress(Path("mine.csv").read_bytes()))
    elif ending == "tsv":
        Path(path).write_text(Path("mine.csv").read_text().replace(",", "\t"))
    elif ending in ("xlsx", "jsonl"):
        frame = pd.read_csv("mine.csv")
        if ending == "xlsx":
            frame.to_excel(path, index=False)
        else:
            frame.to_json(path, orient="records", lines=True, double_precision=15)
    elif ending == "parquet":
        import pyarrow as pa
        import pyarrow.parquet as pq

        pq.write_table(pa.table(dict(zip(COLUMNS, X.T, strict=True))), path)
    elif ending in ("npy", "npz"):
        np.save(path, X) if ending == "npy" else np.savez(path, X)
    elif ending == "zarr":
        import zarr

        zarr.save_array(path, X)
    else:
        import h5py

        with h5py.File(path, "w") as file:
            file["X"] = X
            for group, names in (("obs", [f"c{i}" for i in range(120)]), ("var", COLUMNS)):
                file.create_group(group).attrs["_index"] = "_index"
                file[group]["_index"] = np.array(names, dtype="S")
    inside(capsys, "fit", *RAW, path, "-n", 2, "-o", "m.dualpca", "-q")
    expected = RobustPCA(2, random_state=0).fit(X).components_
    assert_allclose(dualpca.load("m.dualpca").components_, expected, rtol=1e-9)
    inside(capsys, "transform", "m.dualpca", path, "-o", "s.csv")
    inside(capsys, "report", "m.dualpca", path)


@pytest.mark.slow
def test_large_files_are_streamed(folder, capsys):
    X = numbers(30_000)
    write_csv("long.csv", X, extra=False)
    inside(
        capsys, "fit", *RAW, "long.csv", "-m", "plain", "-n", 2, "--memory", 1, "--scores", "s.npy"
    )
    pca = PCA(2).fit(X)
    assert_allclose(np.load("s.npy"), pca.transform(X), rtol=1e-6, atol=1e-6)
    out, _ = inside(capsys, "outliers", "long.csv", "-n", 2, "--memory", 1)
    inside(capsys, "report", "long.csv", "-n", 2, "--memory", 1)
    assert out.startswith("row,score_distance")


def test_less_than_the_accuracy_asked_for_is_exit_code_6(folder, capsys):
    rng = np.random.default_rng(0)
    np.save("flat.npy", rng.standard_normal((400, 60)))
    _, err = inside(capsys, "fit", "flat.npy", "-n", 3, "--tol", "1e-17", code=6)
    assert "warning" in err
    assert Path("flat.dualpca").exists()
    inside(capsys, "outliers", "flat.npy", "-n", 3, "--tol", "1e-17", "--json", code=6)


def test_no_row_is_flagged(folder, capsys):
    X = np.random.default_rng(3).standard_normal((60, 2)) @ np.ones((2, 4)) * 2
    write_csv("good.csv", X + 0.1 * np.random.default_rng(4).uniform(-1, 1, X.shape), list("abcd"))
    out, _ = inside(capsys, "outliers", "good.csv", "-n", 1, "--quantile", "0.999999999")
    assert out == "row,id,score_distance,orthogonal_distance,variables\n"
    out, _ = inside(capsys, "outliers", "good.csv", "-n", 1, "--quantile", "0.999999999", "--json")
    assert json.loads(out)["table"] == []


# mistakes


MISTAKES = [
    (("fit", "nothing.csv"), 3, "check the name"),
    (("fit", "mine.csv", "-n", "many"), 2, "give 5, 0.9, auto or parallel"),
    (("fit", "mine.csv", "-n", "0"), 2, "out of range"),
    (("fit", "mine.csv", "-n", "1.5"), 2, "out of range"),
    (("fit", "mine.csv", "-n", "50"), 2, "--components 50"),
    (("fit", "mine.csv", "--method", "magic"), 2, "robust"),
    (("fit", "mine.csv", "--quantile", "3"), 2, "quantile"),
    (("fit", "mine.csv", "-m", "plain", "--kernel", "rbf"), 2, "--method"),
    (("fit", "mine.csv", "-m", "kernel", "--kernel", "warm"), 2, "kernel"),
    (("fit", "mine.csv", "-m", "kernel", "--gamma", "big"), 2, "median"),
    (("fit", "mine.csv", "-m", "sparse", "-n", "0.5"), 2, "counted"),
    (("fit", "mine.csv", "--nonsense"), 2, "dualpca fit --help"),
    (("fit",), 2, "dualpca fit --help"),
    (("fot", "mine.csv"), 2, "fit"),
    (("fit", "mine.csv", "-o", "no/such/folder.dualpca"), 5, "no folder"),
    (("fit", "mine.csv", "--scores", "scores.xyz"), 2, "csv"),
    (("fit", "mine.csv", "--keep", "name"), 3, "--keep"),
    (("fit", "text.csv"), 3, "no column of numbers"),
    (("fit", "bad.csv"), 3, "'oops'"),
    (("fit", "ragged.csv"), 3, "line 3"),
    (("fit", "empty.csv"), 3, "empty"),
    (("fit", "mine.csv", "--key", "a"), 3, "--key"),
    (("fit", "."), 3, "folder"),
    (("fit", "mine.csv", "--memory", "0"), 2, "--memory"),
    (("transform", "mine.csv", "mine.csv"), 4, "no model"),
    (("transform", "nothing.dualpca", "mine.csv"), 4, "dualpca fit"),
    (("transform", "broken.dualpca", "mine.csv"), 4, "broken.dualpca"),
    (("transform", "good.dualpca", "mine.csv", "--json"), 2, "-o FILE"),
    (("transform", "good.dualpca", "mine.csv", "--distances"), 2, "--method robust"),
    (("transform", "good.dualpca", "mine.csv", "--keep", "age"), 2, "belong to fit"),
    (("outliers", "good.dualpca", "mine.csv"), 2, "--method robust"),
    (("outliers", "mine.csv", "-m", "plain"), 2, "flags no rows"),
    (("outliers", "mine.csv", "mine.csv"), 4, "no model"),
    (("outliers", "good.dualpca", "mine.csv", "-n", "2"), 2, "already"),
    (("inspect", "mine.csv"), 4, "no model"),
    (("inspect", "-"), 2, "pipe"),
    (("report", "mine.csv", "--image", "8by8"), 2, "28x28"),
    (("report", "mine.csv", "--image", "8x8"), 2, "image_shape"),
    (("report", "mine.csv", "--image", "8x0"), 2, "--image '8x0' is no shape"),
    (("report", "mine.csv", "-o", "."), 5, "folder"),
    (("reproduce", "table-nine"), 2, "table-comp"),
    (("demo", "-o", "mine.csv"), 5, "mine.csv"),
]


@pytest.mark.parametrize(("arguments", "code", "remedy"), MISTAKES)
def test_mistakes_are_answered_in_one_line(folder, capsys, arguments, code, remedy):
    Path("text.csv").write_text("a,b\nx,y\nz,w\n")
    Path("bad.csv").write_text("a,b\n" + "1,2\n" * 20 + "3,oops\n")
    Path("ragged.csv").write_text("a,b\n1,2\n1,2,3\n")
    Path("empty.csv").write_text("")
    Path("broken.dualpca").write_text("nothing of the kind")
    PCA(2).fit(numbers()).save("good.dualpca")
    before = sorted(folder.iterdir())
    out, err = inside(capsys, *arguments, code=code)
    lines = [line for line in err.splitlines() if not line.startswith("dualpca: rows are named")]
    lines = [line for line in lines if not line.startswith("dualpca: left out")]
    assert len(lines) == 1, err
    assert lines[0].startswith("dualpca: ")
    assert remedy in lines[0]
    assert out == ""
    assert sorted(folder.iterdir()) == before


@pytest.mark.slow
def test_mistakes_through_the_entry_point(folder):
    for arguments, code in (
        (("fit", "nothing.csv"), 3),
        (("fit", "mine.csv", "--nonsense"), 2),
        (("transform", "mine.csv", "mine.csv"), 4),
        (("inspect", "mine.csv"), 4),
        (("outliers", "mine.csv", "-m", "plain"), 2),
        (("report", "mine.csv", "--image", "huge"), 2),
        (("demo", "-o", "mine.csv"), 5),
        (("reproduce", "table-nine"), 2),
    ):
        out, err = command(*arguments, code=code)
        assert out == ""
        assert len(err.splitlines()) == 1


@pytest.mark.slow
def test_debug_shows_where(folder):
    done = subprocess.run([DUALPCA, "fit", "no.csv", "--debug"], capture_output=True)
    assert done.returncode == 3
    assert b"Traceback" in done.stderr
    assert done.stderr.splitlines()[-1].startswith(b"dualpca: no.csv")


def test_files_are_not_overwritten(folder, capsys):
    for name in ("mine.dualpca", "s.csv", "r.html"):
        Path(name).write_text("precious")
    cases = [
        ("fit", "mine.csv"),
        ("fit", "mine.csv", "-o", "new.dualpca", "--scores", "s.csv"),
        ("outliers", "mine.csv", "-o", "s.csv"),
        ("report", "mine.csv", "-o", "r.html"),
    ]
    for case in cases:
        _, err = inside(capsys, *case, code=5)
        assert "exists" in err
        assert "--force" in err
    for name in ("mine.dualpca", "s.csv", "r.html"):
        assert Path(name).read_text() == "precious"
    assert not Path("new.dualpca").exists()
    for case in cases:
        inside(capsys, *case, "--force")


@pytest.mark.parametrize(
    "model",
    [
        Pipeline([("a", PCA(2)), ("b", RobustPCA(1, random_state=0))]),
        Pipeline([("a", PCA(2))]),
        dualpca.Preprocessor(),
        dualpca.PrincipalComponentPursuit(),
    ],
)
def test_models_from_python_that_it_does_not_take(folder, capsys, model):
    dualpca.save(model.fit(numbers()), "odd.dualpca")
    write_model(PCA(2), "new.dualpca")
    for path in ("odd.dualpca", "new.dualpca"):
        for name in ("inspect", "transform", "outliers", "report"):
            more = () if name == "inspect" else ("mine.csv",)
            _, err = inside(capsys, name, path, *more, code=4)
            assert "load it in Python" in err
            assert len(err.splitlines()) == 1


def test_rows_are_those_of_the_file_after_dropping(folder, capsys):
    write_csv("gaps.csv", numbers(), holes={(0, 0), (1, 3), (20, 1)}, extra=False)
    out, _ = inside(capsys, "fit", "gaps.csv", "-n", 2, "--missing", "drop")
    line = next(line for line in out.splitlines() if line.startswith("list them with"))
    words = line.split("dualpca outliers ")[1].split()
    out, _ = inside(capsys, "outliers", *words, "-q")  # the command that was told works
    found = [int(line.split(",")[0]) for line in out.splitlines()[1:]]
    assert {8, 41} <= set(found)
    assert not {1, 2, 21} & set(found)
    out, _ = inside(capsys, "transform", "gaps.dualpca", "gaps.csv", "--missing", "drop", "-q")
    rows = [int(line.split(",")[0]) for line in out.splitlines()[1:]]
    assert rows == [i for i in range(1, 121) if i not in (1, 2, 21)]
    _, err = inside(capsys, "outliers", "gaps.dualpca")
    assert "counted without 3 that the fit dropped" in err
    _, err = inside(capsys, "transform", "gaps.dualpca", "gaps.csv", code=3)
    assert "fit the model with --missing impute" in err
    assert "--drop" not in err


def test_notes_tell_what_was_assumed(folder, capsys):
    _, err = inside(capsys, "fit", "holes.csv", "--missing", "impute")
    assert "3 missing cells are filled" in err
    assert "'name', which is not analysed" in err
    np.save("x.npy", numbers())
    _, err = inside(capsys, "transform", "holes.dualpca", "x.npy")
    assert "taken in their order" in err
    inside(capsys, "fit", "x.npy", "-q")
    _, err = inside(capsys, "transform", "x.dualpca", "mine.csv")
    assert "taken in their order" in err


def test_formatted_numbers_constants_and_row_numbers_are_told(folder, capsys):
    X = numbers()
    rows = [f'{i + 1};{x[0] * 1e6:,.2f};{x[1]:.3f}%;7;"{x[2]:.4f}"' for i, x in enumerate(X)]
    Path("messy.csv").write_text("n;price;rate;same;x\n" + "\n".join(rows))
    _, err = inside(capsys, "fit", "messy.csv", "-n", 1)
    assert "(thousands ','): price" in err
    assert "%' as -0.0" in err
    assert "left out constant column: same" in err
    assert "named by column 'n', which is not analysed; --id none analyses it" in err
    model = dualpca.load("messy.dualpca")
    assert list(model.feature_names_in_) == ["price", "rate", "x"]
    out, _ = inside(capsys, "transform", "messy.dualpca", "messy.csv")
    assert out.splitlines()[1].startswith("1,")
    inside(capsys, "fit", "messy.csv", "-n", 1, "--id", "none", "-q", "-f")
    names = ["n", "price", "rate", "x"]
    assert list(dualpca.load("messy.dualpca").feature_names_in_) == names
    inside(capsys, "fit", "messy.csv", "-n", 1, "--keep", "price,same,x", "-q", "-f")
    assert list(dualpca.load("messy.dualpca").feature_names_in_) == ["price", "same", "x"]


def test_options_of_lines_are_repeated_for_the_next_command(folder, capsys):
    lines = Path("mine.csv").read_text().splitlines()
    lines[5] += ",more"
    Path("lines.csv").write_text("\n".join(["A title", *lines[:20], "% no row", *lines[20:]]))
    given = ["--skip", "1", "--comment", "%", "--bad-lines", "skip", "--thousands", ","]
    out, err = inside(capsys, "fit", "lines.csv", *given, "-n", 2)
    assert "left out 1 line with too many or too few cells" in err
    hint = next(line for line in out.splitlines() if line.startswith("list them with: "))
    words = shlex.split(hint.removeprefix("list them with: dualpca "))
    assert words[-8:] == [
        "--thousands",
        ",",
        "--comment",
        "%",
        "--skip",
        "1",
        "--bad-lines",
        "skip",
    ]
    listing, _ = inside(capsys, *words)
    assert listing.startswith("row,id,")


def test_pixels_are_kept_though_they_are_constant(folder, capsys):
    X = np.random.default_rng(0).random((60, 9)).round(3)
    X[:, [0, 8]] = 0
    np.savetxt(
        "digits.csv", X, delimiter=",", header=",".join(f"p{j}" for j in range(9)), comments=""
    )
    inside(capsys, "report", "digits.csv", "--image", "3x3", "-n", 2, "-q")
    inside(capsys, "fit", "digits.csv", "-n", 2, "-q")
    _, err = inside(capsys, "report", "digits.dualpca", "--image", "3x3", "-f", code=2)
    assert "fitted without p0, p8: --keep '*' at fit" in err
    inside(capsys, "fit", "digits.csv", "--keep", "*", "-n", 2, "-q", "-f")
    inside(capsys, "report", "digits.dualpca", "digits.csv", "--image", "3x3", "-f", "-q")


@pytest.mark.parametrize("scale", [1e200, 1e-200])
@pytest.mark.parametrize("method", ["robust", "plain"])
def test_numbers_that_overflow_are_no_bug(folder, capsys, scale, method):
    np.save("x.npy", numbers() * scale)
    _, err = inside(capsys, "fit", *RAW, "x.npy", "-m", method, code=2)
    assert "divide X by its largest magnitude" in err
    inside(capsys, "fit", *RAW, "x.npy", "-m", method, "--scale", "robust")


def test_one_row(folder, capsys):
    Path("one.csv").write_text("a,b\n1,2\n")
    _, err = inside(capsys, "fit", "one.csv", "-m", "plain", code=3)
    assert "one.csv has one row" in err


@pytest.mark.slow
def test_scores_on_a_terminal_do_not_run_into_the_bar(folder):
    terminal("fit", "mine.csv", "-n", 2, "-q")
    _, shown = terminal("transform", "mine.dualpca", "mine.csv", "--quiet")
    _, told = terminal("transform", "mine.dualpca", "mine.csv")
    rows = told[told.index("id,pc1,pc2") :]
    assert "\x1b" not in rows
    assert rows.splitlines() == shown.splitlines()


def test_names_of_outputs(folder, capsys):
    X = numbers()
    for name, stem in (("v1.2.csv", "v1.2"), (".hid.csv", ".hid"), ("plain.tab", "plain")):
        write_csv(name, X, extra=False)
        inside(capsys, "fit", *RAW, name, "--delimiter", ",", "-q")
        assert Path(f"{stem}.dualpca").is_file()
    _, err = inside(capsys, "fit", *RAW, "mine.csv", "-o", "a.csv", "--scores", "./a.csv", code=2)
    assert "two names" in err
    inside(capsys, "fit", *RAW, "mine.csv", "-n", 2, "--scores", "s.npy")  # ids stay out of it
    assert_allclose(np.load("s.npy")[:, :2], scores_of(dualpca.load("mine.dualpca"), X))


@pytest.mark.slow
def test_closed_and_narrow_streams(folder):
    name = "gr\u00f6\u00dfe\x1b[31m"
    write_csv("odd.csv", numbers(), [name, *COLUMNS[1:]])
    command("fit", "mine.csv", "-n", 2, "-q")
    cases = (
        (f"'{DUALPCA}' transform mine.dualpca mine.csv -o s.csv >&-", 0),
        (f"'{DUALPCA}' fit mine.csv -f >&-", 0),
        (f"'{DUALPCA}' fit - -f <&-", 3),
        (f"PYTHONIOENCODING=ascii '{DUALPCA}' fit odd.csv", 0),
    )
    for line, code in cases:
        done = subprocess.run(["bash", "-c", line], capture_output=True)
        assert done.returncode == code, done.stderr
        assert b"Error" not in done.stderr
    assert b"\x1b" not in done.stdout
    assert rb"gr\xf6\xdfe" in done.stdout
    assert Path("s.csv").is_file()


@pytest.mark.slow
def test_a_signal_leaves_nothing(folder):
    np.save("big.npy", numbers(40_000))
    code, _ = terminal("fit", "big.npy", "-n", 3, "--memory", 1, sent=signal.SIGTERM)
    assert code == 143
    assert sorted(p.name for p in folder.iterdir()) == ["big.npy", "holes.csv", "mine.csv"]


def test_a_bug_is_told_as_such(folder, capsys, monkeypatch):
    def broken(*_, **__):
        raise RuntimeError("the impossible")

    monkeypatch.setattr("dualpca.cli.fitting.fit_file", broken)
    _, err = inside(capsys, "fit", "mine.csv", "-q", code=1)
    assert err == "dualpca: unexpected RuntimeError: the impossible; --debug shows where\n"


def test_a_full_disk_leaves_nothing(folder, capsys, monkeypatch):
    def full(*_, **__):
        raise OSError(28, "No space left on device", "mine.dualpca")

    monkeypatch.setattr("dualpca.cli.commands.save", full)
    _, err = inside(capsys, "fit", "mine.csv", "-q", code=5)
    assert err.startswith("dualpca: mine.dualpca: No space left on device")


@pytest.mark.parametrize("name", ["fit", "transform", "outliers", "inspect", "report", "demo"])
def test_help_has_examples(capsys, name):
    out, _ = inside(capsys, name, "--help")
    assert "Examples:" in out
    assert f"dualpca {name}" in out


@pytest.mark.slow
def test_version_and_completion(capsys):
    assert inside(capsys, "--version")[0] == f"dualpca {dualpca.__version__}\n"
    environment = {**os.environ, "_DUALPCA_COMPLETE": "source_bash"}
    done = subprocess.run([DUALPCA], env=environment, capture_output=True)
    assert b"_DUALPCA_COMPLETE=complete_bash" in done.stdout


HOSTILE = [
    "\x1b[31mred",
    "[red]x[/red]",
    "a\nmodel: /etc/x",
    "\x9b2J",
    "a\u202eb",
    "[link=http://x]",
]


def shown_safely(text):
    assert all(c.isprintable() or c == "\n" for c in text), ascii(text)


@pytest.mark.slow
def test_names_do_not_reach_the_terminal_as_commands(folder, capsys):
    quoted = ['"' + name.replace('"', '""') + '"' for name in HOSTILE]
    lines = [",".join(["id", *quoted])]
    lines += [
        ",".join([quoted[i % 6], *map(repr, row)]) for i, row in enumerate(numbers().tolist())
    ]
    (folder / "bad\x1b[1m.csv").write_text("\n".join(lines) + "\n")
    for words in (
        ("fit", "bad\x1b[1m.csv", "-o", "m\x1b[0m.dualpca", "--scores", "s\x1b.csv"),
        ("inspect", "m\x1b[0m.dualpca"),
        ("inspect", "m\x1b[0m.dualpca", "--json"),
        ("outliers", "bad\x1b[1m.csv", "--json"),
        ("report", "bad\x1b[1m.csv", "-o", "r\x1b.html"),
    ):
        out, err = inside(capsys, *words)
        shown_safely(out + err)
        assert "\nmodel: /etc" not in out
        if "--json" in words:
            json.loads(out)
    assert "[red]x[/red]" in inside(capsys, "inspect", "m\x1b[0m.dualpca")[0]
    names = json.loads(inside(capsys, "inspect", "m\x1b[0m.dualpca", "--json")[0])["feature_names"]
    assert names == HOSTILE
    code, shown = terminal("outliers", "bad\x1b[1m.csv", "-q")
    assert code == 0
    assert "\\x1b[31mred" in shown
    assert "\x1b[31mred" not in shown
    for words in (("fit", "bad\x1b[1m.csv", "--keep", "\x1b[9m"), ("inspect", "no\x1b[1m")):
        with pytest.raises(SystemExit):
            main([*words, "--debug"])
        shown_safely("".join(capsys.readouterr()))


@pytest.mark.parametrize(
    "notes", [{"ids": 5}, {"ids": [1]}, {"dropped_rows": "many"}, {"source": ["x"]}, {"rows": True}]
)
def test_notes_that_fit_would_not_write_are_refused(folder, capsys, notes):
    PCA(2).fit(numbers()).save(folder / "m.dualpca", notes=notes)
    for words in (("inspect", "m.dualpca"), ("transform", "m.dualpca", "mine.csv")):
        _, err = inside(capsys, *words, code=4)
        assert "among its notes" in err


def test_notes_do_not_stand_in_for_facts(folder, capsys):
    notes = {"estimator": "Other", "components": "x", "explained_variance_ratio": [9], "mine": 1}
    PCA(2, random_state=0).fit(numbers()).save(folder / "m.dualpca", notes=notes)
    assert inside(capsys, "inspect", "m.dualpca")[0].startswith("PCA: 6 columns, 2 components")
    told = json.loads(inside(capsys, "inspect", "m.dualpca", "--json")[0])
    assert (told["estimator"], told["components"], told["mine"]) == ("PCA", 2, 1)


@pytest.mark.slow
def test_a_file_that_unpacks_without_end_is_refused_in_one_line(folder):
    (folder / "zeros.csv.gz").write_bytes(gzip.compress(bytes(70 * 2**20), 1))
    _, err = command("fit", "zeros.csv.gz", code=3)
    assert err.count("\n") == 1
    assert "line 1 cannot be read" in err


@pytest.mark.slow
@pytest.mark.skipif(not os.path.exists("/dev/fd"), reason="no descriptors by name here")
def test_pipes_and_devices(folder):
    """Nothing is waited for where a file should be; what is piped in is read."""
    import zarr

    zarr.create_array("pipe.zarr", data=numbers(), chunks=(len(numbers()), 2))
    (folder / "pipe.zarr/c/0/1").unlink()
    os.mkfifo(folder / "pipe.zarr/c/0/1")
    os.mkfifo(folder / "waits.dualpca")
    assert "is a pipe, socket or device" in command("fit", "pipe.zarr", code=3)[1]
    assert "there is no such file" in command("inspect", "waits.dualpca", code=4)[1]
    assert "is a device" in command("fit", "/dev/zero", code=3)[1]
    content = Path("mine.csv").read_bytes()
    command("fit", "-", "-o", "a.dualpca", stdin=content)
    command("fit", "/dev/stdin", "-o", "b.dualpca", stdin=content)
    assert Path("a.dualpca").stat().st_size > 0 < Path("b.dualpca").stat().st_size
