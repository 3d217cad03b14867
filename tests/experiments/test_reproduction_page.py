"""The page of the paper's experiments follows from the raw results, its counts from its claims."""

from __future__ import annotations

import gzip
import json
import re
from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from experiments import report, tolerance
from experiments import reproduce as command_module
from experiments.claims import VERDICTS
from experiments.engine import CAP, QUICK_CAP, Context, Results
from experiments.methods import METHODS
from experiments.raw import RAW, read_raw, write_raw
from experiments.report import section, told
from experiments.reproduce import NAMES, kept, load
from experiments.tolerance import TOLERANCES, curve, gaussian_task
from made_up_results import everything, timings

from dualpca.cli import main

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "reproduction.md"


def claims_of(text):
    """The rows of the tables of claims: number, claim, verdict, in print, numbers."""
    rows = [line.strip("| ").split(" | ") for line in text.splitlines()]
    return [row for row in rows if len(row) == 5 and row[0].isdigit() and row[2] in VERDICTS]


def check_counts(text):
    """Every count of the page against its own tables of claims."""
    rows = claims_of(text)
    count = Counter(row[2] for row in rows)
    failing = sum(row[3].strip() == "no" for row in rows)
    told = next(line for line in text.splitlines() if line.startswith("| all |"))
    wanted = [*(count[kind] for kind in VERDICTS), failing]
    assert [int(n) for n in told.strip("| ").split(" | ")[1:-1]] == wanted
    answer = next(line for line in text.splitlines() if line.startswith("**The short answer.**"))
    assert answer.startswith(
        f"**The short answer.** Of {len(rows)} claims {count['confirmed']} are"
    )
    assert f"{count['depends on the start']} by a start" in answer
    assert f"{failing} do not hold in print" in answer
    numbers = re.search(r"not hold in print \((?:claims? )?([\d, ]+|none)\)", answer)[1]
    listed = {row[0] for row in rows if row[3].strip() == "no"}
    assert set(numbers.split(", ")) == (listed or {"none"})


def sentences(text):
    answer = next(line for line in text.splitlines() if line.startswith("**The short answer.**"))
    return re.findall(r"[A-Z][^A-Z].*?\.(?= |$)", answer.removeprefix("**The short answer.** "))


@pytest.mark.parametrize("seed", range(3))
def test_the_counts_are_those_of_the_verdicts(seed):
    text = told(everything(seed), 3)
    assert len(claims_of(text)) == sum(len(load(name).claims) for name in NAMES)
    check_counts(text)
    assert len(sentences(text)) == 5


def test_the_page_follows_from_the_raw_results(tmp_path):
    experiments = everything()
    path = write_raw([results for _, results in experiments], tmp_path / "raw.jsonl.gz")
    again = write_raw([results for _, results in experiments], tmp_path / "again.jsonl.gz")
    assert path.read_bytes() == again.read_bytes()
    found = read_raw(path, load)
    text = told(experiments, 3)
    assert told([(load(name), found(name)) for name in NAMES], 3) == text

    lines = [json.loads(line) for line in gzip.decompress(path.read_bytes()).splitlines()]
    assert {line["experiment"] for line in lines} == set(NAMES)
    for line in lines:  # a theorem that fails
        if line["method"] == "duality":
            line["data"]["error"] = 1.0
    path.write_bytes(gzip.compress("\n".join(map(json.dumps, lines)).encode()))
    found = read_raw(path, load)
    changed = told([(load(name), found(name)) for name in NAMES], 3)
    check_counts(changed)
    verdict = {row[0]: row[2] for row in claims_of(changed)}
    assert verdict["44"] == "not confirmed"

    for line in lines:
        line["version"] += line["experiment"] == "theory"
    path.write_bytes(gzip.compress("\n".join(map(json.dumps, lines[1:])).encode()))
    assert read_raw(path, load)("theory") is None  # of another version
    assert read_raw(path, load)("table-comp") is not None


def test_the_page_of_the_repository_is_that_of_its_raw_results():
    text = PAGE.read_text()
    if not (ROOT / RAW).is_file():
        assert RAW.name not in text  # a page that tells of raw results comes with them
        return
    assert told(kept(), Context().repeats) == text
    check_counts(text)
    assert len(sentences(text)) == 5


def test_the_command_writes_the_raw_results_and_the_page_from_them(tmp_path, monkeypatch, capsys):
    experiments = everything()
    drawn = []
    monkeypatch.setattr(command_module, "ROOT", tmp_path)
    monkeypatch.setattr(report, "draw", lambda results, path: drawn.append(path.name))
    with pytest.raises(SystemExit) as ended:
        main(["reproduce", "all", "--from-raw"])
    assert ended.value.code == 2
    assert "'dualpca reproduce all --docs' writes it" in capsys.readouterr().err
    write_raw([results for _, results in experiments], tmp_path / RAW)
    with pytest.raises(SystemExit) as ended:
        main(["reproduce", "all", "--from-raw"])
    assert ended.value.code == 0
    assert (tmp_path / "docs" / "reproduction.md").read_text() == told(experiments, 3)
    assert "reproduction-fig-tolerance.png" in drawn


@pytest.mark.parametrize("more", [["--quick"], ["--fresh"], ["table-pcp"]])
def test_writing_from_raw_results_is_not_a_run(more, capsys):
    with pytest.raises(SystemExit) as ended:
        main(["reproduce", "all", "--from-raw", *more])
    assert ended.value.code == 2
    assert "use 'dualpca reproduce all --from-raw'" in capsys.readouterr().err


def test_help_lists_the_names_and_the_cap_of_a_reduced_run(monkeypatch, capsys):
    monkeypatch.setenv("COLUMNS", "300")
    monkeypatch.setenv("TERMINAL_WIDTH", "300")
    with pytest.raises(SystemExit) as ended:
        main(["reproduce", "--help"])
    assert ended.value.code == 0
    text = " ".join(capsys.readouterr().out.replace("│", " ").split())
    assert f"{', '.join(NAMES)}; or all." in text
    assert f"at most {QUICK_CAP:g} s where the paper has {CAP:g} s" in text


def test_a_reduced_run_says_its_own_cap():
    results = Results(load("theory"), True, {})
    for cell in load("theory").quick:
        for method in load("theory").methods:
            key = json.dumps([cell, method], sort_keys=True)
            results.records[key] = {"data": {"error": 0.0}, "seconds": 1, "machine": ""}
    assert f"at most {Context.of(True).cap:g} s a run" in section(results, None)
    assert results.cap == Context.of(True).cap
    assert Results(load("theory"), False, {}).cap == Context.of(False).cap == CAP


# Figures.


def hollow(ax):
    """The points that a limit has set."""
    lines = [line for line in ax.lines if line.get_markerfacecolor() == "white"]
    return [tuple(point) for line in lines for point in line.get_xydata()]


@pytest.mark.parametrize(("name", "key"), [("fig-scaling-s", "s"), ("fig-scaling-d", "d")])
def test_capped_methods_are_marked_on_the_axes_of_the_paper(name, key):
    experiment = load(name)
    last = experiment.cells[-1][key]
    slow = ("PG (n)", "krylov")
    results = timings(name, lambda r, m, c: np.inf if m in slow and c[key] == last else 1.0)
    for ax in experiment.figure(results).axes:
        assert (ax.get_xlabel(), ax.get_ylabel()) == (f"${key}$", "Time (ms)")
        assert (ax.get_xscale(), ax.get_yscale()) == ("linear", "log")
        points = hollow(ax)
        assert len(set(points)) == len(slow)  # both are to be seen
        assert all(x == last and y >= 1000 * CAP for x, y in points)


def test_limits_of_iterations_are_marked_in_figure_4(monkeypatch):
    cell = {"N": 50, "d": 50, "s": 10, "matrix": 0}
    short = {"PG (n)": replace(METHODS["PG (n)"], max_iter=40)}
    monkeypatch.setattr(tolerance, "REGISTRY", {**METHODS, **short})
    task = gaussian_task(cell, Context(True))
    found = curve(task, cell, "PG (n)", Context(True))
    limited = found["limited"]
    assert 0 < len(limited) < len(TOLERANCES)
    assert limited == list(TOLERANCES)[-len(limited) :]
    assert len({found["errors"][str(tol)] for tol in limited}) == 1  # the error at the limit

    experiment = load("fig-tolerance")
    results = next(results for one, results in everything() if one.name == "fig-tolerance")
    for one in experiment.cells:
        results("PG (n)", one).update(limited=limited)
    krylov, gradient = experiment.figure(results).axes
    assert sorted(x for x, _ in hollow(gradient)) == sorted(limited)
    assert hollow(krylov) == []
    for ax in (krylov, gradient):
        assert ax.xaxis_inverted()
        assert ax.get_xlabel() == r"$\varepsilon$"
        assert ax.get_ylabel() == r"$|f - f^\star| / |f^\star|$"
