"""Transcripts in the documentation: the commands run, and print what the page shows."""

import re
import shutil
import sys
from pathlib import Path

import pytest

from dualpca.cli import main

ROOT = Path(__file__).resolve().parents[2]
PAGES = [
    page
    for page in (ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")))
    if "```console\n" in page.read_text(encoding="utf-8")
]
CONSOLE = re.compile(r"^```console\n(.*?)^```$", re.MULTILINE | re.DOTALL)
NUMBER = re.compile(r"[-+]?\d[\d,]*\.?\d*(?:e[-+]\d+)?")


def commands(page):
    """Yield the arguments of each command and the text that the page shows below it."""
    for block in CONSOLE.findall(page.read_text(encoding="utf-8")):
        for part in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
            line, _, shown = part.partition("\n")
            yield line.split()[1:], shown


def assert_same(printed, shown):
    """The same words, and numbers that agree to two digits: rounding differs between machines."""
    assert re.sub(r"\s+", " ", NUMBER.sub("#", printed)) == re.sub(
        r"\s+", " ", NUMBER.sub("#", shown)
    )
    pairs = zip(NUMBER.findall(printed), NUMBER.findall(shown), strict=True)
    for ours, theirs in pairs:
        assert float(ours.replace(",", "")) == pytest.approx(
            float(theirs.replace(",", "")), rel=0.02, abs=2e-3
        )


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_transcripts(page, tmp_path, monkeypatch, capsys):
    for data in (ROOT / "examples").glob("*.csv"):
        shutil.copy(data, tmp_path)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    for arguments, shown in commands(page):
        with pytest.raises(SystemExit) as exit:
            main(arguments)
        printed = capsys.readouterr()
        assert exit.value.code == 0, printed.err
        assert_same(printed.err + printed.out, shown)


def test_there_are_transcripts():
    assert {page.name for page in PAGES} >= {"README.md", "flags.md", "follow.md"}
