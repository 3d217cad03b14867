"""``dualpca follow``: rows are measured, learned and printed as they come, and the model is kept."""

import csv
import io
import json
import os
import signal
import subprocess
import sys

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.pipeline import Pipeline
from tests.limits import HANGS

import dualpca.cli.follow
from dualpca import PCA, Preprocessor, RobustPCA, load
from dualpca.cli import main
from dualpca.cli.follow import Follower
from dualpca.cli.options import FollowOptions, LineOptions
from dualpca.cli.run import INTERRUPTED
from dualpca.cli.tail import Interrupts
from dualpca.io.models import read_header

NAMES = ["flow", "level", "speed", "load", "heat", "noise"]
FIRST = 60


def sensors(n, seed=0, axes=0, spread=0.1):
    """Rows near a plane, in different units."""
    plane = np.random.default_rng(axes).standard_normal((2, 6))
    rng = np.random.default_rng([seed, 1])
    X = 3 * rng.standard_normal((n, 2)) @ plane + spread * rng.standard_normal((n, 6))
    return (X * [1, 10, 0.1, 1, 5, 1] + 20).round(4)


def lines(X, start=0, header=True):
    rows = [f"t{i}," + ",".join(map(repr, row.tolist())) for i, row in enumerate(X, start)]
    return "\n".join([*([",".join(["time", *NAMES])] if header else []), *rows]) + "\n"


def run(capsys, *arguments, code=0):
    with pytest.raises(SystemExit) as exit:
        main(["follow", *map(str, arguments)])
    out, err = capsys.readouterr()
    assert exit.value.code == code, (exit.value.code, out, err)
    return out, err


def table(out):
    return list(csv.DictReader(io.StringIO(out)))


def numbers(rows, *names):
    return np.array([[float(row[name] or "nan") for name in names] for row in rows])


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


class Follow:
    """A process that follows its standard input."""

    def __init__(self, *arguments):
        self.process = subprocess.Popen(
            [sys.executable, "-m", "dualpca", "follow", *map(str, arguments)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def give(self, text):
        self.process.stdin.write(text)
        self.process.stdin.flush()

    def line(self):
        """Wait for a line of output."""
        return self.process.stdout.readline().rstrip("\n")

    def end(self):
        out, err = self.process.communicate(timeout=HANGS)
        return self.process.returncode, out, err


@pytest.mark.parametrize("method", ["plain", "robust"])
def test_rows_are_measured_by_the_model_of_those_before(folder, capsys, method):
    X = sensors(300)
    X[200:210, 2] += 8
    (folder / "log.csv").write_text(lines(X))
    options = ["-m", method, "-n", 2, "--first", FIRST, "--batch", 10, "--forget", 150]
    out, _ = run(capsys, "log.csv", "--until-end", *options, "--model", "m.dualpca")
    rows = table(out)
    assert [row["id"] for row in rows] == [f"t{i}" for i in range(300)]
    assert numbers(rows, "row", "line").tolist() == [[i, i + 1] for i in range(1, 301)]

    scale = Preprocessor("robust", "keep").fit(X[:FIRST])
    kind = RobustPCA if method == "robust" else PCA
    model = kind(2, random_state=0, forget=150, missing="em")
    model.partial_fit(scale.transform(X[:FIRST]))
    scores = [model.transform(scale.transform(X[:FIRST]))]
    flags = []
    for start in range(FIRST, 300, 10):
        Z = scale.transform(X[start : start + 10])
        scores.append(model.transform(Z))
        if method == "robust":
            flags.append(model.predict(Z) < 0)
        model.partial_fit(Z)
    assert_allclose(numbers(rows, "pc1", "pc2"), np.concatenate(scores), atol=1e-9)
    if method == "robust":
        assert_array_equal(numbers(rows[FIRST:], "outlier")[:, 0], np.concatenate(flags))
    assert numbers(rows[200:210], "outlier").sum() >= 8
    assert numbers(rows, "outlier").sum() < 25
    kept = load("m.dualpca")
    assert isinstance(kept, Pipeline)
    assert_allclose(kept.transform(X), model.transform(scale.transform(X)), atol=1e-9)


@pytest.mark.parametrize("method", ["plain", "robust"])
def test_a_stream_in_parts_is_the_stream_in_one(folder, capsys, method):
    """A growing file is continued where it was; the model and all that is printed are the same."""
    X, options = sensors(400), ["-m", method, "-n", 2, "--first", FIRST, "--batch", 1]
    (folder / "whole.csv").write_text(lines(X))
    whole, _ = run(capsys, "whole.csv", "--until-end", *options, "--model", "whole.dualpca")
    log, parts = folder / "log.csv", []
    for start, stop in ((0, 150), (150, 151), (151, 400)):
        with log.open("a") as file:
            file.write(lines(X[start:stop], start, header=not start))
        out, _ = run(capsys, "log.csv", "--until-end", *options, "--model", "log.dualpca")
        parts += table(out)
    assert parts == table(whole)
    assert_array_equal(load("log.dualpca").transform(X), load("whole.dualpca").transform(X))
    # The same rows are not learned again; those of another file are.
    out, _ = run(capsys, "log.csv", "--until-end", *options, "--model", "log.dualpca")
    assert table(out) == []
    (folder / "other.csv").write_text(lines(X[:5], 7))
    out, _ = run(capsys, "other.csv", "--until-end", "--model", "log.dualpca")
    assert numbers(table(out), "row", "line")[0].tolist() == [401, 2]


def test_json_lines_say_the_same(folder, capsys):
    X = sensors(150)
    (folder / "log.csv").write_text(lines(X))
    objects = [
        {"time": f"t{i}", **dict(zip(NAMES, map(float, row), strict=True))}
        for i, row in enumerate(X)
    ]
    (folder / "log.jsonl").write_text("".join(json.dumps(row) + "\n" for row in objects))
    options = ["--until-end", "--first", FIRST, "-n", 2]
    out, _ = run(capsys, "log.csv", *options)
    other, _ = run(capsys, "log.jsonl", *options, "--format", "jsonl")
    by_csv, by_json = table(out), [json.loads(line) for line in other.splitlines()]
    assert [row["id"] for row in by_json] == [row["id"] for row in by_csv]
    names = ["row", "pc1", "pc2", "score_distance", "orthogonal_distance", "outlier"]
    assert_array_equal(numbers(by_csv, *names), [[row[name] for name in names] for row in by_json])


def test_a_slow_stream_is_answered_row_by_row(folder):
    X = sensors(FIRST + 3)
    follow = Follow("-", "--first", FIRST, "-n", 2, "--format", "csv", "-q")
    follow.give(lines(X[:FIRST]))
    assert follow.line().startswith("row,line,id,pc1,pc2,")
    assert [follow.line().split(",")[2] for _ in range(FIRST)] == [f"t{i}" for i in range(FIRST)]
    for i in range(FIRST, FIRST + 3):
        follow.give(lines(X[i : i + 1], i, header=False))
        assert follow.line().split(",")[2] == f"t{i}"
    assert follow.end() == (0, "", "")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_saves_the_model_which_goes_on(folder, number):
    X = sensors(200)
    options = ["-", "--model", "m.dualpca", "--first", FIRST, "-m", "plain", "-n", 2]
    options += ["--format", "csv", "--save-every", 1000]
    follow = Follow(*options)
    follow.give(lines(X[:100]))
    for _ in range(101):
        last = follow.line()
    assert last.startswith("100,101,t99,")
    follow.process.send_signal(number)
    code, out, err = follow.end()
    assert (code, out) == (0, ""), err
    assert read_header("m.dualpca")["notes"]["rows"] == 100
    assert load("m.dualpca")[-1].n_samples_ == 100
    follow = Follow(*options)
    follow.give(lines(X[100:], 100))
    code, out, err = follow.end()
    assert code == 0, err
    assert [row["row"] for row in table(out)] == [str(i) for i in range(101, 201)]
    model = load("m.dualpca")
    Z = (X - model[0].center_) / model[0].scale_
    assert_allclose(model[-1].components_, PCA(2, tol=1e-10).fit(Z).components_, atol=1e-8)
    assert os.listdir(folder) == ["m.dualpca"]


def test_a_file_that_grows_is_followed_until_a_signal(folder):
    X, log = sensors(100), folder / "log.csv"
    log.write_text(lines(X[:70]))
    follow = Follow("log.csv", "--model", "m.dualpca", "--first", FIRST, "--format", "jsonl", "-q")
    assert [json.loads(follow.line())["id"] for _ in range(70)][-1] == "t69"
    with log.open("a") as file:
        file.write(lines(X[70:], 70, header=False) + "t100,1,2")  # a line that is not whole
    assert [json.loads(follow.line())["line"] for _ in range(30)][-1] == 101
    follow.process.send_signal(signal.SIGINT)
    assert follow.end() == (0, "", "")
    place = read_header("m.dualpca")["notes"]["follow"]["place"]
    assert place["offset"] == log.stat().st_size - len("t100,1,2")


def test_the_model_is_saved_meanwhile(folder):
    follow = Follow("-", "--model", "m.dualpca", "--first", FIRST, "--save-every", 30, "-q")
    follow.give(lines(sensors(FIRST)))
    for _ in range(FIRST + 1):
        follow.line()
    follow.give(lines(sensors(1), FIRST, header=False))
    follow.line()  # the row after the first save has been printed
    assert read_header("m.dualpca")["notes"]["rows"] == FIRST
    follow.process.kill()
    follow.end()
    assert load("m.dualpca")[-1].n_samples_ == FIRST


def test_a_disk_that_is_full_does_not_end_the_stream(folder, capsys, monkeypatch):
    (folder / "log.csv").write_text(lines(sensors(100)))
    save, tries = dualpca.cli.follow.save, []

    def fails_once(*given, **named):
        tries.append(1)
        if len(tries) == 1:
            raise OSError(28, "No space left on device", "m.dualpca")
        save(*given, **named)

    monkeypatch.setattr(dualpca.cli.follow, "save", fails_once)
    out, err = run(
        capsys,
        "log.csv",
        "--until-end",
        "--first",
        FIRST,
        "--save-every",
        1,
        "--model",
        "m.dualpca",
    )
    assert len(table(out)) == 100
    assert "warning: the model is not saved" in err
    assert read_header("m.dualpca")["notes"]["rows"] == 100


def test_a_reader_that_leaves_ends_the_stream_and_the_model_is_saved(folder):
    follow = Follow("-", "--model", "m.dualpca", "--first", FIRST, "--save-every", 10**6, "-q")
    follow.give(lines(sensors(FIRST)))
    for _ in range(FIRST + 1):
        follow.line()
    follow.process.stdout.close()
    follow.give(lines(sensors(3), FIRST, header=False))
    assert follow.process.wait(HANGS) == 141
    assert read_header("m.dualpca")["notes"]["rows"] == FIRST + 3
    follow.process.stdin.close()
    follow.process.stderr.close()


def test_broken_lines_are_reported_and_skipped(folder, capsys):
    X = sensors(120)
    rows = lines(X).splitlines()
    for at, line in (
        (10, "oops"),
        (70, "t,1,2,3,far,5,6"),
        (80, '"t,1,2'),
        (100, "t,1,2,3,4,5,1e999"),
    ):
        rows.insert(at, line)
    (folder / "log.csv").write_text("\n".join(rows) + "\n")
    out, err = run(capsys, "log.csv", "--until-end", "--first", FIRST)
    assert [row["id"] for row in table(out)] == [f"t{i}" for i in range(120)]
    assert "line 11 is left out: 1 cell where 7 are expected" in err
    assert "line 71 is left out: column 'load': 'far' is no number" in err
    assert "line 81 is left out" in err
    assert "line 101 is left out: column 'noise' is infinite or too large" in err
    _, err = run(capsys, "log.csv", "--until-end", "--first", FIRST, "--reports", 1)
    assert err.count("is left out") == 1
    assert "left out 4 broken lines in all" in err


def test_broken_lines_among_the_first_rows_are_waited_for(folder, capsys):
    good = lines(sensors(100)).splitlines()
    (folder / "log.csv").write_text("\n".join([*good[:20], *["oops"] * 70, *good[20:]]) + "\n")
    out, err = run(capsys, "log.csv", "--until-end", "--first", FIRST, "--reports", 0)
    assert len(table(out)) == 100
    assert "left out 70 broken lines in all" in err
    (folder / "bad.csv").write_text("a,b\n1,2\n" + "oops\n" * 70)
    _, err = run(capsys, "bad.csv", "--until-end", code=3)
    assert "line 3 is left out: 1 cell where 2 are expected" in err
    assert "1 row is too few: a first fit of 1 component by --method robust needs 50" in err
    (folder / "equal.csv").write_text("a,b\n" + "1,2\n" * 60)
    _, err = run(capsys, "equal.csv", "--until-end", code=3)
    assert "all cells of the first rows are equal" in err


def test_a_signal_in_silence_ends_the_wait(folder, capsys):
    (folder / "log.csv").write_text(lines(sensors(100)))
    run(capsys, "log.csv", "--until-end", "--model", "m.dualpca")
    (folder / "silent.csv").write_text("")
    interrupts = Interrupts()
    interrupts.stopped = True
    for model in ("m.dualpca", "none.dualpca"):
        options = FollowOptions(model=folder / model)
        assert Follower("silent.csv", LineOptions(), options, interrupts).run() == INTERRUPTED


@pytest.mark.parametrize(
    "note",
    [
        7,
        {"rows": 3},
        {"made_with": []},
        {"place": {"offset": "far", "line": 1, "start": ""}},
        {"place": {"offset": -1, "line": 1, "start": ""}},
        {"written": {"delimiter": ",", "notations": {"flow": [1, 2, 3, 4, 5]}}},
    ],
)
def test_notes_that_it_did_not_write_are_refused(folder, capsys, note):
    model = PCA(2).fit(sensors(50))
    model.save("m.dualpca", notes={"follow": note})
    (folder / "log.csv").write_text(lines(sensors(100)))
    _, err = run(capsys, "log.csv", "--until-end", "--model", "m.dualpca", code=4)
    assert "has a note 'follow' that `dualpca follow` does not write" in err


@pytest.mark.parametrize("missing", ["em", "shrink", "impute", "drop"])
@pytest.mark.parametrize("method", ["plain", "robust"])
def test_missing_cells(folder, capsys, missing, method):
    X = sensors(200)
    X[5, 1] = X[150, 2] = X[150, 3] = np.nan
    (folder / "log.csv").write_text(lines(X).replace("nan", ""))
    options = ["--until-end", "--first", FIRST, "-n", 2, "--missing", missing, "-m", method]
    out, _ = run(capsys, "log.csv", *options, "--model", "m.dualpca")
    scores = numbers(table(out), "pc1", "pc2", "orthogonal_distance")
    empty = np.isnan(scores).all(axis=1)
    assert_array_equal(np.flatnonzero(empty), [5, 150] if missing == "drop" else [])
    assert np.isfinite(scores[~empty]).all()
    with (folder / "log.csv").open("a") as file:
        file.write("t200,,1,2,3,4,5\n")
    out, _ = run(capsys, "log.csv", *options, "--model", "m.dualpca")
    assert np.isnan(numbers(table(out), "pc1")).all() == (missing == "drop")


def test_a_burst_a_drift_and_a_new_regime_are_told_apart(folder, capsys):
    rng = np.random.default_rng(1)
    A, B, C = (np.linalg.qr(rng.standard_normal((6, 2)))[0].T for _ in range(3))
    angles = np.deg2rad(np.concatenate([np.zeros(600), np.linspace(0, 12, 1800)]))
    turned = [np.cos(angle) * A + np.sin(angle) * B for angle in angles] + [C] * 600
    X = np.stack([7 * rng.standard_normal(2) @ axes for axes in turned])
    X += 0.4 * rng.standard_normal(X.shape)
    X[300:330] += 6 * rng.standard_normal((30, 6))
    (folder / "log.csv").write_text(lines(X))
    options = ["--until-end", "--forget", 300, "-n", 2, "--batch", 25, "--drift", 5]
    out, err = run(capsys, "log.csv", *options)
    rows = table(out)
    events = {int(row["row"]): row["event"] for row in rows if row["event"]}
    told = [line for line in err.splitlines() if line.startswith("dualpca: row ")]
    assert told == [f"dualpca: row {at:,}: {words}" for at, words in events.items()]
    drifts = [at for at, words in events.items() if words.startswith("drift of")]
    regimes = {at: words for at, words in events.items() if words.startswith("new regime")}
    assert drifts
    assert all(600 < at <= 2400 for at in drifts)
    assert list(regimes.values()) == ["new regime 1"]
    assert all(2400 < at <= 2700 for at in regimes)
    flags = numbers(rows, "outlier")[:, 0]
    assert flags[300:330].mean() > 0.9
    assert flags[2400:2450].mean() > 0.8
    assert flags[2700:].mean() < 0.05
    odd, _ = run(capsys, "log.csv", *options, "--flagged", "--why")
    assert [row["row"] for row in table(odd)] == [
        row["row"] for row in rows if row["outlier"] == "1" or row["event"]
    ]
    assert all(bool(row["variables"]) == (row["outlier"] == "1") for row in table(odd))


def test_words_for_people(folder, capsys):
    X = sensors(150)
    X[120, 3] += 30
    (folder / "log.csv").write_text(lines(X))
    out, _ = run(capsys, "log.csv", "--until-end", "--format", "text", "--flagged", "-n", 2)
    head, *rows = out.splitlines()
    assert head.split() == ["row", "id", "pc1", "pc2", "score", "dist", "orth", "dist"]
    (line,) = [row for row in rows if row.split()[1] == "t120"]
    assert "outlier: load" in line
    assert " instead of " in line


@pytest.mark.parametrize("method", ["plain", "robust"])
def test_a_model_of_fit_is_continued(folder, capsys, method):
    (folder / "old.csv").write_text(lines(sensors(200)))
    (folder / "new.csv").write_text(lines(sensors(50, seed=1)))
    with pytest.raises(SystemExit):
        main(["fit", "old.csv", "-m", method, "-n", "2", "-o", "m.dualpca", "-q"])
    capsys.readouterr()
    out, _ = run(capsys, "new.csv", "--until-end", "--model", "m.dualpca")
    rows = table(out)
    assert rows[0]["row"] == "201"
    assert numbers(rows, "outlier").mean() < 0.1
    assert load("m.dualpca")[-1].n_samples_ == 250
    for command in ("inspect", "transform", "monitor"):
        with pytest.raises(SystemExit) as exit:
            main([command, "m.dualpca", *(["new.csv"] if command != "inspect" else [])])
        assert exit.value.code == 0, (command, capsys.readouterr())


def test_columns_are_chosen_once_and_found_by_name(folder, capsys):
    X = sensors(100)
    text = lines(X).splitlines()
    constant = [f"{line},{'valve' if i == 0 else '7'}" for i, line in enumerate(text)]
    (folder / "log.csv").write_text("\n".join(constant) + "\n")
    options = ["--until-end", "--first", FIRST, "--model", "m.dualpca", "--drop", "heat,noise"]
    _, err = run(capsys, "log.csv", *options)
    assert "left out valve, constant in the first rows" in err
    assert load("m.dualpca").feature_names_in_.tolist() == NAMES[:4]
    shuffled = [",".join(line.split(",")[::-1]) for line in constant]
    (folder / "new.csv").write_text("\n".join(shuffled) + "\n")
    out, _ = run(capsys, "new.csv", *options)
    assert numbers(table(out), "outlier").mean() < 0.1


@pytest.mark.parametrize(
    ("options", "words", "code"),
    [
        (
            ["--method", "kernel"],
            "--method kernel learns no rows one by one; use robust or plain",
            2,
        ),
        (["--missing", "refuse"], "--missing refuse would end the stream", 2),
        (["--forget", "0.5"], "--forget 0.5 is no number of rows; give one above 1", 2),
        (["--components", "9"], "9", 2),
        (["--components", "many"], "--components 'many' is no number", 2),
        (["--model", "none/m.dualpca"], "in no folder", 5),
        (["--model", "log.csv"], "is no model of dualpca", 4),
        (
            ["--first", "2000", "--model", "m.dualpca", "--keep", "nothing"],
            "no column 'nothing'",
            3,
        ),
    ],
)
def test_what_cannot_be_is_refused(folder, capsys, options, words, code):
    (folder / "log.csv").write_text(lines(sensors(100)))
    _, err = run(capsys, "log.csv", "--until-end", *options, code=code)
    assert words in err
    assert not (folder / "m.dualpca").exists()


def test_a_model_keeps_what_it_was_made_with(folder, capsys):
    (folder / "log.csv").write_text(lines(sensors(100)))
    made = ["--until-end", "--model", "m.dualpca", "-m", "plain", "-n", 2, "--scale", "standard"]
    run(capsys, "log.csv", *made)
    run(capsys, "log.csv", *made, "--forget", 50)
    assert load("m.dualpca")[-1].forget == 50
    for option, value in (("method", "robust"), ("components", 3), ("scale", "none")):
        _, err = run(
            capsys, "log.csv", "--until-end", "--model", "m.dualpca", f"--{option}", value, code=2
        )
        assert f"--{option} {value}: m.dualpca was not made with it" in err
    (folder / "other.csv").write_text("a,b\n1,2\n3,4\n")
    _, err = run(capsys, "other.csv", "--until-end", "--model", "m.dualpca", code=3)
    assert "the model needs 6 columns that the file does not have" in err


@pytest.mark.parametrize("text", ["", "\n\n", "a,b\n"])
def test_no_rows(folder, capsys, text):
    (folder / "log.csv").write_text(text)
    _, err = run(capsys, "log.csv", "--until-end", code=3)
    assert err.startswith("dualpca: log.csv: ")


@pytest.mark.parametrize(
    ("method", "missing", "components", "least"),
    [
        ("robust", "em", 1, 50),
        ("robust", "drop", 2, 50),
        ("plain", "em", 1, 8),
        ("plain", "em", 3, 16),
        ("plain", "drop", 3, 3),
    ],
)
def test_too_few_rows(folder, capsys, method, missing, components, least):
    """One row fewer than is needed, and one row alone, are refused with the number that is needed."""
    options = ["--until-end", "-m", method, "--missing", missing, "-n", components, "-q"]
    for rows in (1, least - 1):
        (folder / "log.csv").write_text(lines(sensors(rows)))
        _, err = run(capsys, "log.csv", *options, code=3)
        word = "1 row is" if rows == 1 else f"{rows} rows are"
        assert err.startswith(f"dualpca: log.csv: {word} too few: a first fit of")
        if rows > 1:
            assert f"by --method {method} needs {least}; give as many" in err
    (folder / "log.csv").write_text(lines(sensors(least)))
    out, _ = run(capsys, "log.csv", *options)
    assert len(table(out)) == least
