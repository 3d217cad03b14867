"""Hostile names in the report: in the HTML, in Chromium, and on displays."""

from __future__ import annotations

import json
import random
from html.parser import HTMLParser

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scale import SEED, count, tries
from tests.browser import Visits, chromium

from dualpca import RobustPCA
from dualpca.report import report, write_report

pytest.importorskip("plotly")

#: Parts of names that mean something to HTML, JavaScript, plotly, templates, spreadsheets or terminals.
PARTS = [
    *(
        "<script>window.bad=1</script>",
        "</script>",
        "<!--",
        "-->",
        "<![CDATA[",
        "]]>",
        "<svg onload=bad()>",
    ),
    *(
        "<img src=x onerror='window.bad=1'>",
        "javascript:window.bad=1",
        '"><a href="javascript:bad()">',
    ),
    *(
        "' onmouseover='bad()",
        "{{7*7}}",
        "${7*7}",
        "%{x}",
        "<extra></extra>",
        "<%= 7 %>",
        "{% x %}",
    ),
    *(
        "\u2028",
        "\u2029",
        "\u202e",
        "\u2066",
        "\u0000",
        "\x1b[31m",
        "\x9b",
        "\r\n",
        "\t",
        "\\",
        "\\u003c",
    ),
    *("__proto__", "constructor", "toString", "hasOwnProperty", "=1+1", "@x", "&lt;", "&", "$x^2$"),
    *(
        "</title>",
        "</style>",
        "<base href=//x.example>",
        "<b>",
        "w" * 3000,
        "\U0001f600",
        "\u0301" * 50,
    ),
    "<meta http-equiv=refresh content='0;url=http://x.example'>",
]
NAMES = st.lists(
    st.sampled_from(PARTS) | st.text(st.characters(codec="utf-8"), max_size=5), max_size=4
)
NAMES = NAMES.map("".join)


class Tags(HTMLParser):
    """The elements of a page and the names of their attributes."""

    def __init__(self, page):
        super().__init__()
        self.found, self.scripts, self._in = [], [], False
        self.feed(page)
        self.close()

    def handle_starttag(self, tag, attrs):
        self.found.append((tag, *sorted(name for name, _ in attrs)))
        self._in = tag == "script"

    def handle_endtag(self, tag):
        self._in = False

    def handle_data(self, data):
        if self._in:
            self.scripts.append(data)


@pytest.fixture(scope="module")
def fitted():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((30, 2)) @ rng.standard_normal((2, 5)) + 0.1 * rng.standard_normal(
        (30, 5)
    )
    X[:6] += 4 * rng.standard_normal((6, 5))
    return RobustPCA(2, random_state=0).fit(X), X


def named(fitted, name, **options):
    model, X = fitted
    return report(
        model,
        X,
        title=name or None,
        row_names=[f"{name}{i}" for i in range(len(X))],
        labels=[f"{name}{i % 2}" for i in range(len(X))],
        feature_names=[f"{name}{j}" for j in range(X.shape[1])],
        notes={name: name},
        **options,
    )


def plainly(text):
    """Without what is shown as a replacement character: control characters and the like."""
    return "".join(c for c in text if c.isprintable() and c != "\ufffd")


def test_no_name_becomes_an_element_of_the_report(fitted, record_property):
    plain, executions = Tags(named(fitted, "a")), []
    known = {a for _, *names in plain.found for a in names}

    @tries(15, 400)
    @given(NAMES)
    def law(name):
        executions.append(1)
        page = named(fitted, name)
        page.encode()
        found = Tags(page)
        assert [tag for tag, *_ in found.found] == [tag for tag, *_ in plain.found]
        assert {a for _, *names in found.found for a in names} <= known
        for data in found.scripts:
            if data.lstrip().startswith("{"):
                assert not set("<>&\u2028\u2029") & set(data)
                shown = json.loads(data)["rows"]["name"][0]
                assert plainly(shown) == plainly(f"{name}0")

    law()
    record_property("fuzz", "names in the report")
    record_property("executions", len(executions))


def test_no_name_runs_in_a_browser(fitted, tmp_path, record_property):
    rng, (model, X) = random.Random(SEED), fitted
    pages = count(1, 12)
    with chromium() as browser:
        for number in range(pages):
            pick = [part + "".join(rng.sample(PARTS, rng.randrange(3))) for part in PARTS]
            names = [pick[(i + number) % len(pick)] for i in range(len(X))]
            path = tmp_path / f"{number}.html"
            write_report(
                model,
                path,
                X,
                title=names[0],
                row_names=names,
                labels=[names[i % 7] for i in range(len(X))],
                feature_names=names[:5],
                notes={name: name for name in names},
            )
            visits = Visits(browser)
            page = visits(path)
            page.locator("#arrows").check()
            rows = page.locator("button[data-row]")
            for row in range(min(3, rows.count())):
                rows.nth(row).click()
                page.keyboard.press("Escape")
            assert page.evaluate("window.bad") is None
            assert page.evaluate("({}).polluted") is None
            assert page.evaluate("Object.getPrototypeOf({}) === Object.prototype")
            assert page.locator(".plot").locator("image, img, a[href], script").count() == 0
            shown = page.locator("h1").text_content()
            assert plainly(shown).split() == plainly(names[0]).split()
            visits.close()
    record_property("fuzz", "names in the report, in Chromium")
    record_property("executions", pages)


def test_names_on_displays_are_no_formulas(fitted, record_property):
    pytest.importorskip("matplotlib")
    from matplotlib import pyplot

    from dualpca.plots import OutlierMapDisplay, ScoresDisplay

    model, X = fitted
    tried = count(2, 20)
    parts = [part for part in PARTS if part.isprintable() and part.isascii()]
    rng = random.Random(SEED)
    for _ in range(tried):
        names = [rng.choice(["$\\frac{1$", "$$", "a$b$c", *parts]) for _ in range(len(X))]
        for display in (
            ScoresDisplay.from_estimator(model, X, labels=names),
            OutlierMapDisplay.from_estimator(model, X, row_names=names),
        ):
            display.figure_.canvas.draw()
            pyplot.close(display.figure_)
    record_property("fuzz", "names on displays")
    record_property("executions", 2 * tried)
