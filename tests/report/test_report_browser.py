"""The report in a browser: it draws, answers to mouse and keyboard, and keeps to itself."""

import json
from itertools import pairwise

import numpy as np
import pytest
from tests.browser import Visits, chromium

from dualpca import PCA, RobustPCA
from dualpca.inspect import FittedModel
from dualpca.report import write_report

pytest.importorskip("plotly")
pytestmark = pytest.mark.browser

HOSTILE = [
    "<img src=x onerror=alert(1)>",
    "</script><script>alert(2)</script>",
    "{{x}}",
    "=1+1",
    "w" * 200,
    "<b>bold</b> & <a href='http://x.example'>link</a>",
    r"US$ $\frac{$",  # plotly would have it set by MathJax, which is not there
]

#: The contrast of each text with what is behind it, by WCAG's formula, where it is less than 4.5.
CONTRAST = """() => {
  const parse = (c) => { const m = c.match(/[\\d.]+/g).map(Number);
    return m.length > 3 ? m : [...m, 1]; };
  const light = (c) => { const [r, g, b] = c.slice(0, 3).map((v) => {
    v /= 255; return v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4; });
    return 0.2126 * r + 0.7152 * g + 0.0722 * b; };
  const behind = (e) => { for (; e; e = e.parentElement) {
    const c = parse(getComputedStyle(e).backgroundColor); if (c[3] > 0) return c; }
    return [255, 255, 255, 1]; };
  const poor = [];
  let seen = 0;
  for (const e of document.querySelectorAll("body *")) {
    const own = [...e.childNodes].some((n) => n.nodeType === 3 && n.textContent.trim());
    if (!own || !e.getClientRects().length || e.closest("script")) continue;
    const style = getComputedStyle(e), svg = e instanceof SVGElement;
    const front = parse(svg ? style.fill : style.color);
    const [a, b] = [light(front), light(behind(svg ? e.closest(".plot") : e))].sort((x, y) => y - x);
    seen += 1;
    if ((a + 0.05) / (b + 0.05) < 4.5) poor.push([e.tagName, e.textContent.slice(0, 30)]);
  }
  return [seen, poor];
}"""


@pytest.fixture(scope="module")  # its event loop would hinder the tests of other modules
def browser():
    with chromium() as found:
        yield found


def contaminated(n=150):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n, 3)) @ rng.standard_normal((3, 16))
    X += 0.1 * rng.standard_normal(X.shape)
    X[:12] += 4 * rng.standard_normal((12, 16))
    return X


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder, X = tmp_path_factory.mktemp("report"), contaminated()
    model = RobustPCA(3, random_state=0).fit(X)
    names = [f"sample {chr(65 + i % 26)}{i // 26}" for i in range(len(X))]  # no numbers of rows
    variables = [f"variable {j}" for j in range(16)]
    plain = write_report(
        model, folder / "plain.html", X, row_names=names, feature_names=variables, image_shape=True
    )
    hostile = write_report(
        model,
        folder / "hostile.html",
        X,
        title=HOSTILE[0],
        row_names=[*HOSTILE, *names[len(HOSTILE) :]],
        labels=[HOSTILE[i % len(HOSTILE)] for i in range(len(X))],
        feature_names=[*HOSTILE, *variables[len(HOSTILE) :]],
        notes={name: name for name in HOSTILE},
    )
    single = X.copy()
    single[30, 4] += 20
    single[30, 5] = np.nan
    cells = write_report(
        RobustPCA(3, cells=True, random_state=0).fit(single),
        folder / "cells.html",
        single,
        row_names=[*names[:30], *HOSTILE[1:3], *names[32:]],
        feature_names=[*variables[:4], HOSTILE[0], *variables[5:]],
    )
    named = FittedModel(model, [*HOSTILE, *variables[len(HOSTILE) :]])
    return {"plain": plain, "hostile": hostile, "cells": cells, "model": named}


@pytest.fixture
def visit(browser):
    """Open a file; at the end nothing was logged, no dialogue opened, nothing else was asked for."""
    visits = Visits(browser)
    yield visits
    visits.close()


@pytest.fixture(scope="module")
def page(browser, files):
    """The plain report in a light window, for tests that leave it as they found it."""
    visits = Visits(browser)
    yield visits(files["plain"], color_scheme="light")
    visits.close()


def flagged_point(page, name):
    """The middle of the point of a row on the outlier map, in the window."""
    page.locator("#map-plot").scroll_into_view_if_needed()
    place = page.evaluate(
        """(name) => {
          const rows = JSON.parse(document.getElementById("data").textContent).rows;
          const plot = document.getElementById("map-plot"), i = rows.name.indexOf(name);
          const box = plot.getBoundingClientRect(), { xaxis, yaxis } = plot._fullLayout;
          return [box.left + xaxis._offset + xaxis.d2p(rows.distances[0][i]),
                  box.top + yaxis._offset + yaxis.d2p(rows.distances[1][i])];
        }""",
        name,
    )
    return place


def farthest(page):
    return page.locator("button[data-row]").first.inner_text()


def test_a_click_on_an_outlier_shows_its_row(page):
    name = farthest(page)
    page.mouse.move(*flagged_point(page, name))
    page.mouse.click(*flagged_point(page, name))
    panel = page.locator("#row")
    panel.wait_for(state="visible")
    assert page.locator("#row-title").inner_text() == f"Row {name}"
    text = panel.inner_text()
    assert "variable " in text
    numbers = json.loads(page.locator("#data").text_content())
    at = panel.locator("dt", has_text="Row in the data").locator("xpath=following-sibling::dd[1]")
    assert at.inner_text() == str(numbers["rows"]["name"].index(name) + 1)
    assert "Orthogonal distance" in text
    assert panel.locator("tbody tr").count() == 8
    assert panel.locator("img").count() == 3
    assert panel.locator("img").first.evaluate("(e) => e.naturalWidth") == 4
    title = page.locator("#row-title")
    assert title.evaluate("(e) => getComputedStyle(e).outlineStyle") == "none"
    above, table = panel.locator("dl, p").last.bounding_box(), panel.locator("table").bounding_box()
    assert table["y"] - (above["y"] + above["height"]) >= 8
    page.keyboard.press("Escape")
    panel.wait_for(state="hidden")


def test_the_keyboard_opens_a_row_and_returns(page):
    button = page.locator("button[data-row]").nth(2)
    button.focus()
    assert button.evaluate("(e) => getComputedStyle(e).outlineStyle") != "none"
    name = button.inner_text()
    page.keyboard.press("Enter")
    assert page.locator("#row-title").inner_text() == f"Row {name}"
    assert page.evaluate("document.activeElement.id") == "row-title"
    page.keyboard.press("Escape")
    assert button.evaluate("(e) => e === document.activeElement")


def test_every_control_is_reached_by_tab(page):
    wanted = page.evaluate(
        "document.querySelectorAll('select, input, summary, button[data-row]').length"
    )
    reached = set()
    for _ in range(wanted + 40):
        page.keyboard.press("Tab")
        reached.add(
            page.evaluate(
                "[...document.querySelectorAll('select, input, summary, button[data-row]')]"
                ".indexOf(document.activeElement)"
            )
        )
    assert len(reached - {-1}) == wanted


def test_menus_and_switches_redraw(page):
    numbers = json.loads(page.locator("#data").text_content())
    page.locator("#scores-x").select_option("2")
    page.locator("#loadings-component").select_option("1")
    log = page.locator("#log")
    before = log.is_checked()
    log.check()
    page.locator("#arrows").check()
    drawn = page.evaluate(
        """() => [
          document.getElementById("scores-plot").data[1].x,
          document.getElementById("loadings-plot").data[0].x,
          document.getElementById("map-plot").layout.yaxis.type,
          document.getElementById("scores-plot").layout.annotations.length,
          document.getElementById("scores-plot").getAttribute("aria-label"),
        ]"""
    )
    flagged = np.flatnonzero(numbers["rows"]["flagged"])
    assert drawn[0] == [numbers["scores"][2][i] for i in flagged]
    assert drawn[1] == numbers["figures"]["loadings-plot"][1]["data"][0]["x"]
    assert drawn[2:4] == ["log", 16]
    assert "component 3 and component 2" in drawn[4]
    ticks = page.locator("#map-plot .ytick text").all_text_contents()
    assert len(ticks) >= 2
    assert all(b > a for a, b in pairwise(map(float, ticks)))
    log.uncheck()
    assert page.evaluate("document.getElementById('map-plot').layout.yaxis.type") == "linear"
    log.set_checked(before)
    page.locator("#arrows").uncheck()
    page.locator("#scores-x").select_option("0")
    assert (
        page.evaluate("document.getElementById('scores-plot')._fullLayout.annotations.length") == 0
    )


@pytest.mark.parametrize("scheme", ["dark", "light"])
def test_text_stands_out(page, scheme):
    page.emulate_media(color_scheme=scheme)
    page.evaluate("document.querySelectorAll('details').forEach((e) => { e.open = true; })")
    page.locator("button[data-row]").first.click()
    seen, poor = page.evaluate(CONTRAST)
    assert seen > 200
    assert poor == []
    page.keyboard.press("Escape")
    page.evaluate("document.querySelectorAll('details').forEach((e) => { e.open = false; })")


def test_figures_follow_the_colour_scheme(page):
    colours = (
        "() => [getComputedStyle(document.body).backgroundColor,"
        " document.getElementById('map-plot').layout.paper_bgcolor,"
        " document.getElementById('map-plot').data[0].marker.color]"
    )
    light = page.evaluate(colours)
    page.emulate_media(color_scheme="dark")
    page.wait_for_function(
        "() => document.getElementById('map-plot').layout.paper_bgcolor !== '#ffffff'"
    )
    dark = page.evaluate(colours)
    assert light[0] == "rgb(255, 255, 255)"
    assert all(a != b for a, b in zip(light, dark, strict=True))
    page.emulate_media(color_scheme="light")


@pytest.mark.parametrize("name", ["plain", "hostile", "cells"])
def test_a_phone_scrolls_down_only(visit, files, name):
    page = visit(files[name], viewport={"width": 360, "height": 700})
    assert page.evaluate("document.documentElement.scrollWidth") <= 360
    page.evaluate("document.querySelectorAll('details').forEach((e) => { e.open = true; })")
    assert page.evaluate("document.documentElement.scrollWidth") <= 360
    page.locator("button[data-row]").first.click()
    assert page.evaluate(
        "() => { const e = document.getElementById('row'); return e.scrollWidth <= e.clientWidth; }"
    )
    assert page.evaluate("document.documentElement.scrollWidth") <= 360
    lines = page.locator("td.number, dialog td").evaluate_all(
        "(all) => all.map((e) => [e.textContent, e.getClientRects().length && (() => {"
        " const range = document.createRange(); range.selectNodeContents(e);"
        " return new Set([...range.getClientRects()].map((box) => box.top)).size; })()])"
    )
    assert len(lines) > 50
    assert [text for text, count in lines if count > 1] == []


def test_print(visit, files):
    page = visit(files["plain"], color_scheme="dark")
    page.evaluate("window.before = null")
    page.evaluate(
        """() => addEventListener("beforeprint", () => {
          window.before = [
            [...document.querySelectorAll("details")].every((e) => e.open),
            document.getElementById("map-plot").layout.paper_bgcolor,
            document.getElementById("map-plot").layout.width,
          ]; })"""
    )
    pdf = page.pdf(format="A4")
    assert pdf.startswith(b"%PDF")
    assert page.evaluate("window.before") == [True, "#ffffff", 640]
    assert page.evaluate("document.querySelectorAll('details[open]').length") == 0
    assert page.evaluate("document.getElementById('map-plot').layout.paper_bgcolor") != "#ffffff"
    page.emulate_media(media="print")
    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    page.set_viewport_size({"width": 680, "height": 900})  # A4 less its margins
    assert page.evaluate("document.documentElement.scrollWidth") <= 680


def test_names_are_shown_as_text(visit, files):
    page = visit(files["hostile"])
    shown = page.locator("button[data-row]").all_inner_texts()
    assert set(HOSTILE) <= set(shown)
    for name in HOSTILE:
        page.locator("button[data-row]").nth(shown.index(name)).click()
        assert page.locator("#row-title").inner_text() == f"Row {name}"
        page.keyboard.press("Escape")
    assert page.locator("h1").inner_text() == HOSTILE[0]
    page.locator("#arrows").check()
    drawn = page.locator(".plot")
    assert drawn.locator("image, img, a[href], script").count() == 0
    ticks = page.evaluate(
        "[...document.querySelectorAll('#loadings-plot .ytick text')].map((e) => e.textContent)"
    )
    wanted = [name for name, _ in files["model"].leading(0, 12)]
    assert ticks == [name if len(name) <= 28 else name[:27] + "…" for name in wanted]
    page.mouse.move(*flagged_point(page, HOSTILE[5]))
    hover = page.locator("#map-plot .hovertext")
    hover.wait_for()
    assert HOSTILE[5][:47] in hover.text_content()
    assert hover.locator("a").count() == 0


def test_many_rows(visit, tmp_path):
    rng = np.random.default_rng(0)
    X = (rng.standard_normal((100_000, 2)) @ rng.standard_normal((2, 12))).astype(np.float32)
    X += 0.1 * rng.standard_normal(X.shape, dtype=np.float32)
    X[:30] += 5
    model = RobustPCA(2, random_state=0).fit(X)
    path = write_report(model, tmp_path / "many.html", X)
    assert path.stat().st_size < 12e6
    page = visit(path)
    drawn = page.evaluate("document.querySelectorAll('#map-plot .point').length")
    assert 4900 <= drawn <= 5000
    assert page.locator("button[data-row]").count() > 0


def test_without_rows(visit, tmp_path):
    path = write_report(PCA(1).fit(contaminated()), tmp_path / "alone.html")
    page = visit(path)
    assert page.locator(".plot").count() >= 2
    assert page.locator("#scores-plot, #map-plot").count() == 0


def test_one_component(visit, tmp_path):
    X = contaminated()
    path = write_report(RobustPCA(1, random_state=0).fit(X), tmp_path / "one.html", X)
    page = visit(path)
    assert page.locator("#scores-plot .point").count() == len(X)
    up = page.evaluate("document.getElementById('scores-plot').data.flatMap((one) => one.y)")
    assert sorted(up) == list(range(1, len(X) + 1))


def test_rows_without_names_are_counted_from_1(visit, tmp_path):
    X = contaminated()
    page = visit(write_report(RobustPCA(3, random_state=0).fit(X), tmp_path / "a.html", X))
    shown = page.locator("button[data-row]").all_inner_texts()
    assert "row 1" in shown  # X[0] is an outlier
    page.locator("button[data-row]").nth(shown.index("row 1")).click()
    assert page.locator("#row-title").inner_text() == "Row 1"
    assert "Row in the data" not in page.locator("#row").inner_text()


def test_the_good_rows_are_seen_beside_far_outliers(visit, tmp_path):
    X = contaminated()
    X[0] *= 1e4
    model = RobustPCA(3, random_state=0).fit(X)
    page = visit(write_report(model, tmp_path / "far.html", X))
    good = page.locator("#map-plot .trace").first.locator(".point")

    def spread():
        assert good.count() == len(X) - model.outliers_.sum()
        tops = good.evaluate_all("(all) => all.map((e) => e.getBoundingClientRect().y)")
        return np.subtract(*np.percentile(tops, [95, 5]))

    assert page.locator("#log").is_checked()
    assert spread() > 10
    page.locator("#log").uncheck()
    assert spread() < 1


def test_a_distance_of_0_keeps_its_place_on_logarithmic_axes(visit, tmp_path):
    X = np.vstack([np.full((20, 4), 0.1), np.eye(4)[:3]])
    path = write_report(RobustPCA(1, random_state=0).fit(X), tmp_path / "zeros.html", X)
    page = visit(path)
    page.locator("#log").check()
    assert page.locator("#map-plot .point").count() == len(X)
    distances = json.loads(page.locator("#data").text_content())["rows"]["distances"]
    zeros = 0
    for name, known in zip("xy", distances, strict=True):
        drawn = page.evaluate(
            "(name) => document.getElementById('map-plot').data.filter((one) => one.customdata)"
            ".flatMap((one) => one.customdata.map((row, k) => [row, one[name][k]]))"
            ".sort((a, b) => a[0] - b[0])",
            name,
        )
        least = min((d for d in known if d > 0), default=np.inf)
        for (_, at), distance in zip(drawn, known, strict=True):
            assert at == distance or distance == 0 < at < least
        zeros += known.count(0)
    assert zeros > 0


@pytest.mark.parametrize("width", [1400, 400])
def test_the_navigation_stays_and_covers_no_heading(visit, files, width):
    page = visit(files["plain"], viewport={"width": width, "height": 800}, reduced_motion="reduce")
    links = page.locator("nav a")
    assert links.count() == 7
    for i in range(links.count()):
        links.nth(i).click()
        bar, link = page.locator("nav").bounding_box(), links.nth(i).get_attribute("href")
        heading = page.locator(f"{link}-title").bounding_box()
        assert bar["y"] >= -1
        assert bar["y"] + bar["height"] <= heading["y"] + 1
        assert heading["y"] + heading["height"] <= 800
    assert page.evaluate("scrollY") > 0
    assert bar["y"] == pytest.approx(0, abs=1)
    assert bar["height"] < 60  # one line, which scrolls by itself on a phone


def in_view(page):
    """Which rows are within the axes of the scores."""
    return page.evaluate(
        """() => {
          const { scores, rows } = JSON.parse(document.getElementById("data").textContent);
          const { xaxis, yaxis } = document.getElementById("scores-plot")._fullLayout;
          const inside = (value, { range }) => value >= range[0] && value <= range[1];
          return rows.index.map((_, i) => inside(scores[0][i], xaxis) && inside(scores[1][i], yaxis));
        }"""
    )


def test_axes_of_scores_follow_the_good_rows(visit, tmp_path):
    X = contaminated()
    X[:5] *= 1e3
    model = RobustPCA(3, random_state=0).fit(X)
    page = visit(write_report(model, tmp_path / "far.html", X))
    seen, flagged = np.array(in_view(page)), model.outliers_
    assert seen[~flagged].all()
    assert not seen[:5].any()
    outside = int((~seen).sum())
    assert page.locator("#outside").inner_text() == f"{outside} flagged rows lie outside."
    good = page.locator("#scores-plot .trace").first.locator(".point")
    places = good.evaluate_all("(all) => all.map((e) => e.getBoundingClientRect().x)")
    assert np.ptp(places) > 0.8 * page.locator("#scores-plot").bounding_box()["width"]
    page.locator("#all-rows").check()
    assert all(in_view(page))
    assert page.locator("#outside").inner_text() == "All rows are in view."
    page.locator("#all-rows").uncheck()
    assert in_view(page) == seen.tolist()


OVERLAPS = """(texts) => {
  const boxes = texts.map((e) => e.getBoundingClientRect()), found = [];
  boxes.forEach((a, i) => boxes.slice(0, i).forEach((b, j) => {
    if (a.left < b.right - 1 && b.left < a.right - 1 && a.top < b.bottom - 1 && b.top < a.bottom - 1) {
      found.push([texts[i].textContent, texts[j].textContent]);
    } }));
  return found;
}"""


@pytest.mark.parametrize("width", [1400, 400])
def test_labels_do_not_cover_each_other(visit, files, width):
    page = visit(files["plain"], viewport={"width": width, "height": 800})
    page.locator("#arrows").check()
    names = page.locator("#scores-plot .annotation text")
    assert names.filter(has_text="variable").count() >= 4
    for log in (False, True):
        page.locator("#log").set_checked(log)
        for texts in (
            names.filter(has_text="variable"),
            *(
                page.locator(f"#{plot} .{tick} text")
                for plot in ("scree-plot", "scores-plot", "map-plot", "convergence-plot")
                for tick in ("xtick", "ytick")
            ),
            page.locator("#loadings-plot .ytick text"),
        ):
            assert texts.count() >= 2
            assert texts.evaluate_all(OVERLAPS) == []


def test_variables_in_order_are_a_line(visit, tmp_path):
    rng = np.random.default_rng(0)
    at = np.linspace(0, 1, 80)
    X = rng.gamma(2.0, size=(60, 2)) @ np.sin(np.pi * np.outer([1, 2], at))
    X += 0.01 * rng.standard_normal(X.shape)
    names = [str(400 + 5 * j) for j in range(80)]
    model = PCA(2, random_state=0).fit(X)
    page = visit(write_report(model, tmp_path / "line.html", X, feature_names=names))
    assert page.locator("#loadings-plot .bars .point").count() == 0
    drawn = "() => document.getElementById('loadings-plot').data.at(-1)"
    for k in (0, 1):
        page.locator("#loadings-component").select_option(str(k))
        line = page.evaluate(drawn)
        assert line["x"] == [float(name) for name in names]
        np.testing.assert_allclose(line["y"], model.components_[k], atol=1e-5)


def test_a_row_tells_value_expected_value_and_difference(page):
    page.locator("button[data-row]").first.click()
    head = page.locator("#row thead th").all_inner_texts()
    assert head == ["Variable", "Value", "Expected", "Difference", "Share"]
    cells = page.locator("#row tbody td")
    assert set(cells.evaluate_all("(all) => all.map((e) => getComputedStyle(e).textAlign)")) == {
        "right"
    }
    shares = []
    for row in page.locator("#row tbody tr").all():
        value, expected, difference, share = row.locator("td").all_inner_texts()
        assert float(difference) == pytest.approx(float(value) - float(expected), abs=0.02)
        assert difference.startswith(("+", "-"))
        shares.append(float(share.removesuffix("%")))
    assert shares == sorted(shares, reverse=True)
    page.keyboard.press("Escape")


def test_numbers_in_tables_are_at_the_right(page):
    page.evaluate("document.querySelectorAll('details').forEach((e) => { e.open = true; })")
    sides = page.locator("td.number").evaluate_all(
        "(all) => all.map((e) => getComputedStyle(e).textAlign)"
    )
    assert len(sides) > 100
    assert set(sides) == {"right"}
    page.evaluate("document.querySelectorAll('details').forEach((e) => { e.open = false; })")


def cell_place(page, row, column):
    """The middle of a cell of the cell map, by the position of its row in the data, in the window."""
    page.locator("#cells-plot").scroll_into_view_if_needed()
    return page.evaluate(
        """([row, column]) => {
          const { cells } = JSON.parse(document.getElementById("data").textContent);
          const { list, rows, first, width, sizes } = cells;
          const y = sizes.findIndex((size, k) => size === 1 && rows[list[first + k * width][0]] === row);
          const plot = document.getElementById("cells-plot"), { xaxis, yaxis } = plot._fullLayout;
          const box = plot.getBoundingClientRect();
          return [box.left + xaxis._offset + xaxis.d2p(column), box.top + yaxis._offset + yaxis.d2p(y)];
        }""",
        [row, column],
    )


@pytest.mark.parametrize("options", [{}, {"viewport": {"width": 360, "height": 700}}])
def test_a_click_on_a_cell_shows_its_numbers(visit, files, options):
    page = visit(files["cells"], **options)
    panel = page.locator("#row")
    page.mouse.move(*cell_place(page, 30, 4))
    page.mouse.click(*cell_place(page, 30, 4))
    panel.wait_for(state="visible")
    assert page.locator("#row-title").inner_text() == f"Row {HOSTILE[1]}, {HOSTILE[0]}"
    names, texts = (panel.locator(kind).all_inner_texts() for kind in ("dt", "dd"))
    facts = dict(zip(names, texts, strict=True))
    assert facts["Row in the data"] == "31"
    assert facts["Column"] == HOSTILE[0]
    assert 15 < float(facts["Value"]) - float(facts["Expected"]) < 25
    assert facts["How far"].startswith("+")
    assert facts["How far"].endswith("scales, flagged")
    assert "Block" not in facts
    page.keyboard.press("Escape")
    panel.wait_for(state="hidden")
    page.mouse.click(*cell_place(page, 30, 5))  # a hole
    panel.wait_for(state="visible")
    assert panel.locator("dd").all_inner_texts()[1:3] == ["variable 5", "missing"]
    assert "How far" not in panel.inner_text()


def test_cells_by_the_keyboard_and_their_rows(visit, files):
    page = visit(files["cells"])
    button = page.locator("button[data-cell]").first
    assert button.inner_text() == HOSTILE[1]  # the worst first
    button.focus()
    page.keyboard.press("Enter")
    assert page.locator("#row-title").inner_text() == f"Row {HOSTILE[1]}, {HOSTILE[0]}"
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    assert page.locator("#row-title").inner_text() == f"Row {HOSTILE[1]}"
    assert "Orthogonal distance" in page.locator("#row").inner_text()
    page.keyboard.press("Escape")
    assert button.evaluate("(e) => e === document.activeElement")


def test_the_cell_map_follows_the_colour_scheme(visit, files):
    page = visit(files["cells"], color_scheme="light")
    colours = (
        "() => { const plot = document.getElementById('cells-plot');"
        " return [plot.layout.plot_bgcolor, ...plot.data[0].colorscale.map((pair) => pair[1])]; }"
    )
    light = page.evaluate(colours)
    page.emulate_media(color_scheme="dark")
    page.wait_for_function(
        "() => document.getElementById('cells-plot').layout.paper_bgcolor !== '#ffffff'"
    )
    dark = page.evaluate(colours)
    assert all(c.startswith("#") for c in (*light, *dark))
    assert all(a != b for a, b in zip(light, dark, strict=True))
    z = page.evaluate("document.getElementById('cells-plot').data[0].z.flat().includes(null)")
    assert z is True  # holes, behind which the grey is seen
