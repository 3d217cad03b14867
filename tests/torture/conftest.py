"""The seed in the header, and tables of what was tried at the end, where this folder is run by itself.

TORTURE_TABLE=path writes the tables there too, in Markdown.
"""

from __future__ import annotations

import os
import platform
from collections import Counter
from pathlib import Path

import pytest

VERDICTS = ("passed", "warned", "refused", "failed")


def pytest_collection_modifyitems(items):
    """Random data has columns of any spread, and models say so."""
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.filterwarnings("ignore:column .* holds"))


def pytest_report_header():
    from scale import LARGE, SEED

    return f"torture: TORTURE_SEED={SEED} TORTURE={int(LARGE)}"


def table(head, rows):
    yield "| " + " | ".join(head) + " |"
    yield "|---" + "|---:" * (len(head) - 1) + "|"
    for row in rows:
        yield "| " + " | ".join(f"{n:,}" if isinstance(n, int) else n for n in row) + " |"


def told(terminalreporter):
    """What each test recorded, and whether it passed."""
    for outcome, reports in terminalreporter.stats.items():
        for report in reports:
            if getattr(report, "when", None) == "call":
                yield dict(getattr(report, "user_properties", ())), outcome == "passed"


def summary(records):
    """Three tables: numbers by estimator and verdict, executions by property and target, faults."""
    cases, runs, bad, faults = Counter(), Counter(), Counter(), Counter()
    for record, passed in records:
        if "estimator" in record:
            cases[record["estimator"], record.get("verdict", "failed") if passed else "failed"] += 1
        for kind in ("property", "fuzz"):
            if kind in record:
                runs[kind, record[kind]] += record.get("executions", 0)
                bad[kind, record[kind]] += not passed
        if "fault" in record:
            faults[record["fault"], passed] += 1
    names = sorted({name for name, _ in cases})
    if names:
        rows = [[name, *(cases[name, verdict] for verdict in VERDICTS)] for name in names]
        rows = [[row[0], sum(row[1:]), *row[1:]] for row in rows]
        rows.append(
            ["all", *(sum(column) for column in zip(*(row[1:] for row in rows), strict=True))]
        )
        yield "numbers", table(["estimator", "tried", *VERDICTS], rows)
    for kind, title in (("property", "properties"), ("fuzz", "untrusted input")):
        rows = [[name, n, bad[k, name]] for (k, name), n in sorted(runs.items()) if k == kind]
        if rows:
            rows.append(["all", sum(row[1] for row in rows), sum(row[2] for row in rows)])
            yield title, table([kind, "executions", "failed"], rows)
    rows = [
        [name, faults[name, True] + faults[name, False], faults[name, True]]
        for name in sorted({name for name, _ in faults})
    ]
    if rows:
        rows.append(["all", sum(row[1] for row in rows), sum(row[2] for row in rows)])
        yield "faults", table(["fault", "injected", "survived"], rows)


def pytest_terminal_summary(terminalreporter):
    from scale import LARGE, SEED

    written = [f"TORTURE_SEED={SEED} TORTURE={int(LARGE)}, Python {platform.python_version()}", ""]
    tables = [(title, list(lines)) for title, lines in summary(told(terminalreporter))]
    folder = str(Path(__file__).parent)
    alone = all(folder in str(Path(arg).resolve()) for arg in terminalreporter.config.args)
    for title, lines in tables if alone else []:
        terminalreporter.section(title)
        for line in lines:
            terminalreporter.write_line(line)
        written += [f"## {title}", "", *lines, ""]
    target = os.environ.get("TORTURE_TABLE")
    if target and alone and tables:
        Path(target).parent.mkdir(parents=True, exist_ok=True)
        Path(target).write_text("\n".join(written))
