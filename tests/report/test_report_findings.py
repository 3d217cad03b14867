"""What the report says of a model in words: rows and reasons, kinds, further components, the date."""

import json
import re
import time
from importlib import resources

import numpy as np
import pytest
from sklearn.pipeline import make_pipeline

import dualpca
from dualpca import PCA, KernelPCA, Preprocessor, RobustKernelPCA, RobustPCA, SparsePCA, as_operator
from dualpca.report import report
from dualpca.report._html import column, number, table
from dualpca.report._pictures import BLUE, ORANGE
from dualpca.report._words import reasons

pytest.importorskip("plotly")


def correlated(n=150, d=8):
    """Rows near a plane, in variables of a few units."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n, 2)) @ rng.standard_normal((2, d))
    return X + 0.1 * rng.standard_normal((n, d)) + 10


def spoiled(X):
    """A copy in which some single cells are wrong, and where."""
    X, cells = X.copy(), {3: 1, 40: 5, 77: 5, 90: 5, 120: 0}
    for size, (i, j) in enumerate(cells.items(), 3):
        X[i, j] += 20.0 * size
    return X, cells


def numbers(page):
    found = re.search(r'<script type="application/json" id="data">(.*?)</script>', page, re.DOTALL)
    return json.loads(found[1])


def text(page, name):
    """The text of one section, without its tags."""
    body = page.split(f'<section id="{name}"')[1].split("</section>")[0]
    return re.sub(r"<[^>]+>", " ", body).replace("\u00a0", " ").replace("&#x27;", "'")


@pytest.fixture(scope="module")
def messy():
    X, cells = spoiled(correlated())
    model = RobustPCA(2, random_state=0).fit(X)
    return model, X, cells, report(model, X)


# the headline and the reasons


def test_the_worst_rows_are_told_with_what_is_wrong(messy):
    _, X, cells, page = messy
    told = re.findall(r'<li><button type="button" data-row="(\d+)">[^<]*</button>([^<]*)', page)
    by_row = {int(i): words for i, words in told}
    assert [int(i) for i, _ in told[:5]] == [120, 90, 77, 40, 3]  # the farthest first
    clean = correlated()
    for i, j in cells.items():
        found = re.search(
            rf"times the limit: x{j} is ([\d.]+), above the expected ([\d.]+)", by_row[i]
        )
        value, expected = map(float, found.groups())
        assert value == pytest.approx(X[i, j], rel=1e-3)
        assert expected == pytest.approx(clean[i, j], abs=0.6)
    assert "x5 alone sets 3 of the" in text(page, "summary")


def test_the_headline_counts(messy):
    model, X, _, page = messy
    n = int(model.outliers_.sum())
    share = 100 * model.explained_variance_ratio_.sum()
    words = f"{n} of {len(X)} rows ({100 * n / len(X):.1f} %) do not fit the others. "
    assert words + f"2 components hold {share:.1f} %" in text(page, "summary")


@pytest.mark.filterwarnings("ignore:column 0 holds")
def test_next_steps_fit_the_model():
    X = correlated()
    steep = X * np.array([1000.0, *[1.0] * 7])
    assert "Component 1 is almost x0 alone" in text(report(PCA(2).fit(steep), steep), "summary")
    scaled = make_pipeline(Preprocessor("robust"), PCA(2)).fit(steep)
    assert "alone" not in text(report(scaled, steep), "summary").split("The fit")[0]
    assert "fit RobustPCA to see" in text(report(PCA(2).fit(X), X), "summary")
    assert "fit RobustKernelPCA to see" in text(report(KernelPCA(2).fit(X), X), "summary")
    assert "Give the report the rows" in text(report(PCA(2).fit(X)), "summary")
    model = RobustPCA(2, random_state=0).fit(X)
    good = text(report(model, X[~model.outliers_]), "summary")
    assert "none of which is flagged" in good
    assert "No row needs a look" in good


def test_reasons_that_are_spread_say_so():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((80, 2)) @ rng.standard_normal((2, 60)) + 0.1 * rng.standard_normal(
        (80, 60)
    )
    X[0] += rng.choice([-1.0, 1.0], 60)
    page = report(RobustPCA(2, random_state=0).fit(X), X)
    assert (
        "smaller shares of many others" in text(page, "summary").split("row 1 ")[1].split("row ")[0]
    )


def test_expected_values_are_told_without_rounding():
    details = [(0, 16.0, -1.8e-15, 0.5), (1, 85_500.0, 602.1234, 0.3), (2, 0.0012, 0.0011, 0.2)]
    assert reasons(details, "abc") == [
        "a is 16, above the expected 0 (50\u00a0%)",
        "b is 85,500, above the expected 602.1 (30\u00a0%)",
        "c is 0.0012, above the expected 0.0011 (20\u00a0%)",
    ]
    assert reasons([(0, 1.0, 1.0, 1.0)], "a") == ["a is 1 (100\u00a0%)"]
    assert reasons([(0, np.nan, 2.0, 1.0)], "a") == ["a is missing (100\u00a0%)"]
    assert reasons([(0, 1.0, None, None)], "a") == []


# the kinds of rows


@pytest.mark.parametrize("flag", ["density", "orthogonal", "score"])
@pytest.mark.parametrize("kernel", [False, True])
def test_kinds_are_those_of_the_model(flag, kernel):
    X, _ = spoiled(correlated())
    options = {"flag": flag, "random_state": 0}
    model = (RobustKernelPCA(2, gamma=0.01, **options) if kernel else RobustPCA(2, **options)).fit(
        X
    )
    page = report(model, X)
    assert numbers(page)["rows"]["kind"] == model.row_kinds_.tolist()
    told = re.findall(
        r'<th scope="row">([\w ]+)</th><td>[^<]*</td><td class="number">(\d+)</td>', page
    )
    assert len(told) == 4
    assert {kind: int(n) for kind, n in told} == {
        kind: int((model.row_kinds_ == kind).sum()) for kind, _ in told
    }


def test_kinds_of_other_rows(messy):
    model, *_ = messy
    center, axis = model.mean_, model.components_[0] * model.explained_variance_[0] ** 0.5
    beside = np.linalg.svd(model.components_)[2][-1] * 50 * model.noise_variance_**0.5
    new = np.array([center, center + 50 * axis, center + beside, center + beside + 50 * axis])
    kinds = numbers(report(model, new))["rows"]["kind"]
    assert kinds == ["regular", "good leverage", "orthogonal outlier", "bad leverage"]


# figures


@pytest.mark.parametrize("contamination", ["auto", 0.02])
@pytest.mark.parametrize("flag", ["density", "orthogonal", "score"])
def test_points_and_lines_are_clear_of_the_frame(flag, contamination):
    X, _ = spoiled(correlated())
    model = RobustPCA(2, flag=flag, contamination=contamination, random_state=0).fit(X)
    for k, variant in enumerate(numbers(report(model, X))["figures"]["map-plot"]):
        layout, points = variant["layout"], [t for t in variant["data"] if t["mode"] == "markers"]
        for axis in "xy":
            at = [s[f"{axis}0"] for s in layout["shapes"] if s.get(f"{axis}ref") != "paper"]
            at += [v for trace in points for v in trace[axis]]
            low, high = layout[f"{axis}axis"]["range"]
            places = np.log10(at) if k else np.array(at)
            room = 0.02 * (high - low)
            assert low + (room if k else 0) < places.min() <= places.max() < high - room


def test_one_colour_for_positive():
    css = resources.files("dualpca.report").joinpath("report.css").read_text(encoding="utf-8")
    for name, colour in (("positive", ORANGE), ("negative", BLUE)):
        code = re.search(rf"--{name}: #([0-9a-f]{{6}})", css)[1]
        assert [int(code[i : i + 2], 16) for i in (0, 2, 4)] == colour.tolist()
    model = PCA(2).fit(correlated())
    for figure in numbers(report(model))["figures"]["loadings-plot"]:
        (bars,) = figure["data"]
        signs = ["--positive" if value > 0 else "--negative" for value in bars["x"]]
        assert bars["marker"]["color"] == signs


def spectra(n=60, d=120):
    rng = np.random.default_rng(0)
    at = np.linspace(0, 1, d)
    shapes = np.exp(-(((at - np.array([[0.3], [0.6]])) / 0.1) ** 2))
    return rng.gamma(2.0, size=(n, 2)) @ shapes + 0.01 * rng.standard_normal((n, d))


def test_loadings_of_variables_in_order_are_a_line():
    X = spectra()
    waves = [f"{1100 + 2.5 * j}" for j in range(120)]
    model = PCA(2, random_state=0).fit(X)
    for names, places in ((waves, np.array(waves, dtype=float)), (None, np.arange(120))):
        figures = numbers(report(model, X, feature_names=names))["figures"]["loadings-plot"]
        for loadings, figure in zip(model.components_, figures, strict=True):
            above, below, line = figure["data"]
            np.testing.assert_allclose(line["x"], places)
            np.testing.assert_allclose(line["y"], loadings, atol=1e-6)
            np.testing.assert_allclose(np.add(above["y"], below["y"]), line["y"], atol=1e-6)
            assert min(above["y"]) == max(below["y"]) == 0
    shuffled = np.random.default_rng(1).permutation(120)
    mixed = PCA(2, random_state=0).fit(X[:, shuffled])
    for page in (
        report(mixed),
        report(model, image_shape=(10, 12)),
        report(PCA(2).fit(correlated())),
    ):
        (bars,) = numbers(page)["figures"]["loadings-plot"][0]["data"]
        assert bars["type"] == "bar"


# further components


def test_the_scree_goes_on_beyond_the_model():
    X = spoiled(correlated())[0]
    for small, whole in ((PCA(2), PCA(8)), (KernelPCA(2), KernelPCA(10))):
        bars = numbers(report(small.fit(X), X))["figures"]["scree-plot"][0]["data"]
        more = whole.fit(X).explained_variance_ratio_[2:]
        assert bars[-1]["name"] == "not fitted"
        np.testing.assert_allclose(bars[-1]["y"], more, rtol=1e-3, atol=1e-6)
        assert bars[-1]["x"] == list(range(3, 3 + len(more)))
    model = RobustPCA(2, random_state=0).fit(X)
    page = report(model, X)
    more = np.array(numbers(page)["figures"]["scree-plot"][0]["data"][-1]["y"])
    assert model.explained_variance_ratio_.sum() + more.sum() == pytest.approx(1, abs=1e-5)
    variances = RobustPCA(random_state=0).scree(X)[2:]
    np.testing.assert_allclose(more / more.sum(), variances / variances.sum(), rtol=1e-4)
    assert "components that were not fitted: they divide the rest" in text(page, "scree")


def test_no_further_components_where_they_are_not_known():
    X = spoiled(correlated())[0]
    robust, plain = RobustPCA(2, random_state=0).fit(X), PCA(2).fit(X)
    sparse = SparsePCA(2, n_nonzero=3, random_state=0).fit(X)
    weights = np.linspace(0, 1, len(X))
    for model, rows in (
        *((robust, rows) for rows in (None, X[:50], X[::-1], as_operator([X[:50], X[50:]]))),
        *((plain, rows) for rows in (None, X[:50], 2 * X + np.arange(8) * X)),
        *((PCA(8).fit(X), rows) for rows in (None, X)),
        *((sparse, rows) for rows in (None, X)),
        (PCA(2).fit(X, sample_weight=weights), X),
    ):
        assert "not fitted" not in text(report(model, rows), "scree")


# the summary


def test_the_date_is_that_of_the_environment(monkeypatch):
    model = PCA(2, random_state=7).fit(correlated())
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "86399")
    page = report(model)
    assert f"1970-01-01 by dualpca {dualpca.__version__}" in text(page, "summary")
    assert f"Written 1970-01-01 by dualpca {dualpca.__version__}." in page
    assert "random_state=7" in text(page, "summary")
    assert page == report(model)
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "86400")
    assert report(model) == page.replace("1970-01-01", "1970-01-02")
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "tomorrow")
    with pytest.raises(ValueError, match=r"SOURCE_DATE_EPOCH='tomorrow' is no number .* give an"):
        report(model)
    monkeypatch.delenv("SOURCE_DATE_EPOCH")
    days = [time.strftime("%Y-%m-%d", time.gmtime())]
    page = report(model)
    days.append(time.strftime("%Y-%m-%d", time.gmtime()))  # midnight may have come in between
    assert any(f"{day} by dualpca" in page for day in days)


def test_a_fit_without_a_seed_is_told():
    X = correlated()
    assert "none was given" in text(report(PCA(2).fit(X)), "summary")
    generator = PCA(2, random_state=np.random.RandomState(0)).fit(X)
    assert "a generator" in text(report(generator), "summary")


def test_kernel_and_gamma_are_named():
    X = correlated()
    model = RobustKernelPCA(2, gamma="median", random_state=0).fit(X)
    assert f"rbf, gamma = {model.gamma_:.4g} (median)" in text(report(model), "summary")
    poly = KernelPCA(2, kernel="poly", gamma=0.5, degree=2).fit(X)
    assert "poly, gamma = 0.5, degree = 2, coef0 = 1" in text(report(poly), "summary")
    landmarks = KernelPCA(2, kernel="rbf", gamma=0.1, approximation="nystroem", n_landmarks=50)
    assert "by 50 landmarks" in text(report(landmarks.fit(X)), "summary")
    assert "Kernel" not in text(report(PCA(2).fit(X)), "summary")


def test_passes_of_summary_and_convergence_agree():
    X = spoiled(correlated())[0]
    models = [PCA(2), RobustPCA(2), KernelPCA(2), RobustKernelPCA(2), SparsePCA(2, n_nonzero=3)]
    for model in models:
        page = report(model.set_params(random_state=0).fit(X))
        told = [set(re.findall(r"[\d,]+ pass", text(page, s))) for s in ("summary", "convergence")]
        assert len(told[0]) == 1
        assert told[0] == told[1]
        title = numbers(page)["figures"]["convergence-plot"][0]["layout"]["xaxis"]["title"]["text"]
        steps = isinstance(model, SparsePCA)
        assert title == ("steps" if steps else "passes over the data")
    assert f"after {model.convergence_[-1][0]} step" in text(page, "convergence")


# numbers


@pytest.mark.parametrize(
    "value", [0.0, 1.0, -3.14159, 0.012345, 999.9, 1234.5, -98765.4, 1e8, 3e-9, 7e15]
)
def test_numbers_keep_four_digits_and_separate_thousands(value):
    shown = number(value)
    assert float(shown.replace(",", "")) == pytest.approx(value, rel=5e-4)
    if 1000 <= abs(value) < 1e9:
        assert shown == f"{round(value):,}"


def test_columns_have_as_many_decimals():
    shown = column([754.21, 1672.4, 2.718, 0.0, -12.0, 1.0])  # that in the middle is 12
    assert shown == ["754.2", "1,672.4", "2.7", "0.0", "-12.0", "1.0"]
    assert column([1e-9, 2e-9, 0.0]) == ["1e-09", "2e-09", "0"]
    assert column([5.0, 1e-7, np.inf, np.nan]) == ["5.00", "1e-07", "beyond range", "missing"]
    assert column([]) == []


def test_columns_of_numbers_are_marked():
    page = table(
        "c",
        ["Row", "n", "words", "%"],
        [["a", "1,000", "b", "3.0\u00a0%"], ["2", "-1e-05", "7", ""]],
    )
    heads = re.findall(r'<th scope="col"([^>]*)>', page)
    assert [bool(kind) for kind in heads] == [False, True, False, True]
    assert page.count('<td class="number">') == 5
    assert table("c", ["Row", "n"], []).count("<tr>") == 1


def test_the_flagged_table_has_values_beside_what_was_expected(messy):
    _, _, cells, page = messy
    flagged = text(page, "outliers").split("a name opens the row")[1]
    for i, j in cells.items():
        row = flagged.split(f"row {i + 1} ")[1].split("row ")[0]
        assert re.search(rf"x{j} is [\d,.]+, above the expected [\d.]+ \(\d+ %\)", row)
