"""The seed in the header, and a table of verdicts at the end, where this folder is run by itself.

It is run by ``make torture`` (TORTURE=1: the large sample; TORTURE=0: a small one), not by ``make test``.
"""

from __future__ import annotations

import os
from collections import Counter

collect_ignore_glob = [] if "TORTURE" in os.environ else ["*.py"]

VERDICTS = ("passed", "warned", "refused", "known to fail", "failed")


def pytest_report_header():
    from test_numbers import LARGE, SEED

    return f"torture: TORTURE_SEED={SEED} TORTURE={int(LARGE)}"


def pytest_terminal_summary(terminalreporter):
    """Cases of each estimator by verdict; those known to fail are counted where they did."""
    counts: Counter[tuple[str, str]] = Counter()
    for outcome, reports in terminalreporter.stats.items():
        for report in reports:
            told = dict(getattr(report, "user_properties", ()))
            if getattr(report, "when", None) != "call" or "estimator" not in told:
                continue
            named = {"xfailed": "known to fail", "failed": "failed"}
            counts[told["estimator"], named.get(outcome, told.get("verdict", "failed"))] += 1
    names = sorted({name for name, _ in counts})
    if not names:
        return
    terminalreporter.section("verdicts")
    terminalreporter.write_line("".join(f"{word:>15}" for word in ("tried", *VERDICTS)).rjust(115))
    for name in names:
        row = [counts[name, verdict] for verdict in VERDICTS]
        terminalreporter.write_line(f"{name:25}" + "".join(f"{n:15}" for n in (sum(row), *row)))
