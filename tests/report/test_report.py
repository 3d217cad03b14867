"""The report: its numbers are the model's, its HTML is sound, and names from data stay text."""

import base64
import hashlib
import io
import json
import re
import struct
import sys
import zlib
from functools import cache
from html.parser import HTMLParser
from itertools import pairwise

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.decomposition import PCA as Reduction  # noqa: N811
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import StandardScaler

from dualpca import (
    PCA,
    KernelPCA,
    Preprocessor,
    PrincipalComponentPursuit,
    RobustKernelPCA,
    RobustPCA,
    SparsePCA,
    as_operator,
)
from dualpca.inspect import FittedModel
from dualpca.operators import Kernel
from dualpca.report import report, write_report
from dualpca.report._pictures import png
from dualpca.report._row_sections import is_far

pytest.importorskip("plotly")

VOID = {"meta", "link", "input", "img", "br"}
HOSTILE = [
    "<img src=x onerror=alert(1)>",
    "</script><script>alert(2)</script>",
    "{{x}} ${y} $z",
    "=1+1",
    "w" * 200,
    '" onfocus="alert(3)',
    "<b>bold</b> & <a href='http://x.example'>link</a>",
    "<!-- a",
    "line\u2028end\x00\ud800 \u202egnp",
]


class Page(HTMLParser):
    """Elements with their attributes and text, in order; tags must nest."""

    def __init__(self, page):
        super().__init__(convert_charrefs=True)
        self.found, self.open = [], []
        self.feed(page)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        entry = {
            "tag": tag,
            "attrs": dict(attrs),
            "text": "",
            "inside": [e["tag"] for e in self.open],
        }
        self.found.append(entry)
        if tag not in VOID:
            self.open.append(entry)

    def handle_endtag(self, tag):
        assert self.open.pop()["tag"] == tag

    def handle_data(self, data):
        for entry in self.open:
            entry["text"] += data

    def all(self, *tags):
        return [entry for entry in self.found if entry["tag"] in tags]

    def one(self, name):
        (entry,) = [e for e in self.found if e["attrs"].get("id") == name]
        return entry


def numbers_of(page):
    """The numbers of the page, with those of its figures by what they show."""
    found = json.loads(Page(page).one("data")["text"])
    figures = found["figures"]
    bars = figures["scree-plot"][0]["data"]
    found["further"] = bars.pop()["y"] if len(bars) % 2 else None
    found["scree"] = [
        {"name": bar["name"], "share": bar["y"], "cumulative": line["y"]}
        for bar, line in zip(bars[::2], bars[1::2], strict=True)
    ]
    if "map-plot" in figures:
        lines = {"limits": {}, "dividers": {}}
        for shape in figures["map-plot"][0]["layout"]["shapes"]:
            kind = "dividers" if shape["line"].get("dash") else "limits"
            up = shape.get("yref") == "paper"
            lines[kind]["score" if up else "orthogonal"] = shape["x0" if up else "y0"]
        for curve in figures["map-plot"][0]["data"]:
            if curve.get("mode") == "lines":
                lines["limits"] = {"score": max(curve["x"]), "orthogonal": max(curve["y"])}
        found["map"] = lines
    if "loadings-plot" in figures:
        found["bars"] = [variant["data"][0] for variant in figures["loadings-plot"]]
    if "convergence-plot" in figures:
        line = figures["convergence-plot"][0]["data"][0]
        found["convergence"] = {"passes": line["x"], "residual": line["y"]}
    if "scores-plot" in figures:
        found["traces"] = figures["scores-plot"][0]["data"]
    return found


def contaminated(n=120, d=8, bad=15):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n, 3)) @ rng.standard_normal((3, d)) + 0.1 * rng.standard_normal(
        (n, d)
    )
    X[:bad] += 4 * rng.standard_normal((bad, d))
    return X


X = contaminated()
MODELS = {
    "PCA": PCA(3, random_state=0),
    "RobustPCA": RobustPCA(3, random_state=0),
    "orthogonal": RobustPCA(3, flag="orthogonal", random_state=0),
    "one": RobustPCA(1, random_state=0),
    "flat": RobustPCA(8, random_state=0),
    "KernelPCA": KernelPCA(3, kernel="rbf", gamma=0.05),
    "preimages": KernelPCA(3, kernel="rbf", gamma=0.05, fit_inverse_transform=True),
    "RobustKernelPCA": RobustKernelPCA(3, gamma=0.05, random_state=0),
    "nystroem": RobustKernelPCA(
        3, gamma=0.05, approximation="nystroem", n_landmarks=40, random_state=0
    ),
    "SparsePCA": SparsePCA(3, n_nonzero=4, random_state=0),
    "scaled": make_pipeline(StandardScaler(), RobustPCA(3, random_state=0)),
}
ROBUST = [name for name, m in MODELS.items() if hasattr(m, "predict") or name == "scaled"]
KEYS = [(name, given) for name in MODELS for given in (False, True)]


@cache
def fitted(name):
    return clone(MODELS[name]).fit(X)


@cache
def page_of(name, given=True):
    return report(fitted(name), X if given else None)


@pytest.fixture(params=KEYS, ids=lambda key: f"{key[0]}-{'X' if key[1] else 'alone'}")
def page(request):
    return page_of(*request.param)


def test_html_is_sound(page):
    found = Page(page)
    names = [e["attrs"]["id"] for e in found.found if "id" in e["attrs"]]
    assert len(names) == len(set(names))
    for tag in ("main", "nav", "header", "footer", "h1", "title", "dialog"):
        assert len(found.all(tag)) == 1
    levels = [int(e["tag"][1]) for e in found.all("h1", "h2", "h3") if "dialog" not in e["inside"]]
    assert levels[0] == 1
    assert all(b - a <= 1 for a, b in pairwise(levels))
    for e in found.found:  # what refers to an element finds it
        for name in ("aria-labelledby", "for"):
            assert e["attrs"].get(name, names[0]) in names
        link = e["attrs"].get("href") or e["attrs"].get("src") or "data:"
        assert link.startswith("data:") or link[1:] in names
        assert not any(name.startswith("on") for name in e["attrs"])
    for e in found.all("select", "input"):
        assert "label" in e["inside"]


def test_every_figure_says_what_it_shows(page):
    found = Page(page)
    for e in found.found:
        if e["attrs"].get("class") == "plot":
            assert e["attrs"]["role"] == "img"
            assert re.search(r"\d", e["attrs"]["aria-label"])
    assert len(found.all("figcaption")) == len(found.all("figure")) > 0
    assert all(e["text"] for e in found.all("figcaption", "caption"))
    assert all(e["attrs"].get("alt") for e in found.all("img"))


def test_policy_allows_these_scripts_alone(page):
    found = Page(page)
    (policy,) = [e["attrs"]["content"] for e in found.all("meta") if "http-equiv" in e["attrs"]]
    allowed = set(re.findall("'sha256-([^']+)'", policy))
    run = [e["text"] for e in found.all("script") if "type" not in e["attrs"]]
    digests = {base64.b64encode(hashlib.sha256(t.encode()).digest()).decode() for t in run}
    assert allowed == digests
    assert "default-src 'none'" in policy
    assert "unsafe-eval" not in policy


@pytest.mark.parametrize("name", MODELS)
def test_numbers_are_those_of_the_model(name):
    model, found = fitted(name), numbers_of(page_of(name))
    inner = model[-1] if isinstance(model, Pipeline) else model
    close = {"rtol": 1e-5, "atol": 1e-9}
    np.testing.assert_allclose(found["scree"][0]["share"], inner.explained_variance_ratio_, **close)
    np.testing.assert_allclose(np.array(found["scores"]).T, model.transform(X), **close)
    assert found["rows"]["index"] == list(range(len(X)))
    if hasattr(inner, "components_"):
        used = [int(v[1:]) for v in found["loadings"]["names"]]
        values = np.array(found["loadings"]["values"])
        np.testing.assert_allclose(values, inner.components_[:, used], **close)
        for loadings, bars in zip(inner.components_, found["bars"], strict=True):
            top = [int(v[1:]) for v in bars["text"]]
            np.testing.assert_allclose(bars["x"], loadings[top], **close)
            largest = np.sort(np.abs(loadings))[::-1][: len(top)]
            np.testing.assert_allclose(np.abs(bars["x"]), largest, **close)
    else:
        assert "loadings" not in found
    if hasattr(inner, "predict"):
        Z = model[0].transform(X) if isinstance(model, Pipeline) else X
        assert (np.array(found["rows"]["flagged"]) == (inner.predict(Z) == -1)).all()
        np.testing.assert_allclose(found["rows"]["distances"], inner.distances(Z), **close)
        drawn = found["map"]["dividers"]
        if inner.flags_by_ != "density":  # one line is both
            drawn[inner.flags_by_] = found["map"]["limits"][inner.flags_by_]
        assert [drawn["score"], drawn["orthogonal"]] == pytest.approx(inner.limits_, 1e-5)
    else:
        assert "map" not in found
    record = getattr(inner, "convergence_", None)
    if record is not None:
        both = [found["convergence"]["passes"], found["convergence"]["residual"]]
        np.testing.assert_allclose(np.transpose(both), record, **close)


@pytest.mark.parametrize("name", ROBUST)
def test_the_drawn_limit_separates_flagged_rows(name):
    found = numbers_of(page_of(name))
    limits = found["map"]["limits"]
    size2 = np.zeros(len(X))
    for kind, distances in zip(("score", "orthogonal"), found["rows"]["distances"], strict=True):
        if kind in limits:
            size2 += (np.array(distances) / limits[kind]) ** 2
    assert ((size2 > 1) == found["rows"]["flagged"]).all()


def test_without_rows_the_training_distances_are_shown():
    model, found = fitted("RobustPCA"), numbers_of(page_of("RobustPCA", False))
    np.testing.assert_allclose(
        found["rows"]["distances"][1], model.orthogonal_distances_, rtol=1e-5
    )
    assert found["rows"]["flagged"] == model.outliers_.tolist()
    assert "scores" not in found
    assert numbers_of(page_of("PCA", False))["rows"] is None


@pytest.mark.parametrize("name", ["RobustPCA", "scaled"])
def test_rows_are_explained_by_their_contributions(name):
    model, found = fitted(name), numbers_of(page_of(name))
    Z, inner = (X, model) if name == "RobustPCA" else (model[0].transform(X), model[-1])
    shares = inner.contributions(Z)
    shares /= shares.sum(axis=1, keepdims=True)
    expected = inner.expected(Z)
    if name == "scaled":
        expected = model[0].inverse_transform(expected)
    for i, details in enumerate(found["rows"]["details"]):
        variables = [int(found["rows"]["variables"][j][1:]) for j, *_ in details]
        told = np.array([rest for _, *rest in details])
        assert told[:, 2].sum() == pytest.approx(1.0, abs=1e-4)  # eight of eight variables
        assert (np.diff(told[:, 2]) <= 0).all()
        np.testing.assert_allclose(told[:, 0], X[i, variables], rtol=1e-5)
        np.testing.assert_allclose(told[:, 1], expected[i, variables], rtol=1e-5, atol=1e-9)
        np.testing.assert_allclose(told[:, 2], shares[i, variables], rtol=1e-4, atol=1e-6)


def test_plain_variances_stand_beside_robust_ones():
    robust, plain = numbers_of(page_of("RobustPCA"))["scree"]
    assert (robust["name"], plain["name"]) == ("RobustPCA", "plain PCA")
    np.testing.assert_allclose(plain["share"], PCA(3).fit(X).explained_variance_ratio_, rtol=1e-5)
    np.testing.assert_allclose(plain["cumulative"], np.cumsum(plain["share"]), rtol=1e-4)
    assert len(numbers_of(page_of("PCA"))["scree"]) == 1
    kernel = numbers_of(page_of("RobustKernelPCA"))["scree"][1]
    expected = KernelPCA(3, kernel="rbf", gamma=0.05).fit(X).explained_variance_ratio_
    np.testing.assert_allclose(kernel["share"], expected, rtol=1e-4)
    sparse = fitted("SparsePCA")
    shown = numbers_of(page_of("SparsePCA"))["scree"][0]["cumulative"]
    np.testing.assert_allclose(shown, sparse.cumulative_variance_ratio_, rtol=1e-5)


def test_same_input_same_page():
    again = report(fitted("RobustPCA"), X, max_points=40)
    assert again == report(fitted("RobustPCA"), X, max_points=40)
    assert again != report(fitted("RobustPCA"), X, max_points=40, random_state=1)


def test_a_sample_keeps_flagged_rows():
    model, found = fitted("RobustPCA"), numbers_of(report(fitted("RobustPCA"), X, max_points=40))
    drawn = np.array(found["rows"]["index"])
    assert len(drawn) == len(set(drawn)) == 40
    assert set(np.flatnonzero(model.outliers_)) <= set(drawn)
    np.testing.assert_allclose(np.array(found["scores"]).T, model.transform(X)[drawn], rtol=1e-5)
    few = np.array(numbers_of(report(model, X, max_points=8))["rows"]["index"])
    far = np.argsort(-model.orthogonal_distances_)[:4]
    assert set(few) & set(np.flatnonzero(model.outliers_)) == set(far)


def test_kinds_of_input_agree(tmp_path):
    model = fitted("RobustPCA")
    expected = numbers_of(report(model, X, max_points=40))
    np.save(tmp_path / "X.npy", X)
    mapped = np.load(tmp_path / "X.npy", mmap_mode="r")
    for given in (X.tolist(), mapped, as_operator(mapped), as_operator([X[:50], X[50:]])):
        found = numbers_of(report(model, given, max_points=40))
        assert found["rows"]["index"] == expected["rows"]["index"]
        for name in ("distances", "variables"):
            assert np.shape(found["rows"][name]) == np.shape(expected["rows"][name])
        np.testing.assert_allclose(found["scores"], expected["scores"], rtol=1e-4, atol=1e-7)
    thin = sp.random_array((80, 12), density=0.3, rng=np.random.default_rng(0), format="csr")
    pca = PCA(2).fit(thin)
    scores = np.array(numbers_of(report(pca, thin))["scores"]).T
    np.testing.assert_allclose(scores, pca.transform(thin.toarray()), rtol=1e-4, atol=1e-7)


def test_torch_tensors():
    torch = pytest.importorskip("torch")
    A = torch.asarray(X)
    found = numbers_of(report(RobustPCA(3, random_state=0).fit(A), A, max_points=40))
    expected = numbers_of(report(fitted("RobustPCA"), X, max_points=40))
    np.testing.assert_allclose(found["scores"], expected["scores"], rtol=1e-4, atol=1e-7)


def test_files_are_not_loaded_whole():
    taken = []

    class Watched(type(as_operator([X]))):
        def take(self, rows):
            taken.append(len(rows))
            return super().take(rows)

        def todense(self):
            raise AssertionError("the whole file was asked for")

    report(fitted("RobustPCA"), Watched([X[:50], X[50:]]), max_points=30)
    assert taken == [30]


def test_data_frames_name_rows_and_variables():
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(
        X, index=[f"r{i}" for i in range(len(X))], columns=[f"v{j}" for j in range(8)]
    )
    found = numbers_of(report(RobustPCA(3, random_state=0).fit(frame), frame, max_points=40))
    assert set(found["rows"]["name"]) <= set(frame.index)
    assert set(found["loadings"]["names"]) <= set(frame.columns)
    table = pytest.importorskip("pyarrow").Table.from_pandas(frame, preserve_index=False)
    streamed = numbers_of(report(RobustPCA(3, random_state=0).fit(table), table, max_points=40))
    np.testing.assert_allclose(streamed["scores"], found["scores"], rtol=1e-4, atol=1e-7)


def test_rows_are_counted_from_1_where_nothing_names_them():
    expected = [f"row {i}" for i in range(1, len(X) + 1)]
    model = fitted("RobustPCA")
    for rows in (numbers_of(page_of("RobustPCA"))["rows"], numbers_of(report(model))["rows"]):
        assert rows["name"] == expected
        assert not rows["named"]
    named = numbers_of(report(model, X, row_names=range(len(X))))["rows"]
    assert named["name"] == [str(i) for i in range(len(X))]
    assert named["named"]
    farthest = np.argmax(model.orthogonal_distances_)
    assert f"Farthest is row {farthest + 1}:" in page_of("RobustPCA")
    assert f"Farthest is row {farthest}:" in report(model, X, row_names=range(len(X)))


def test_an_index_that_only_counts_names_no_rows():
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(X)
    model = PCA(2).fit(X)
    assert numbers_of(report(model, frame))["rows"]["name"][:2] == ["row 1", "row 2"]
    later = numbers_of(report(model, frame[50:]))["rows"]  # its index tells something
    assert later["name"][:2] == ["50", "51"]
    assert later["named"]


@pytest.mark.parametrize("n", [3, 30, 1001])
@pytest.mark.parametrize("given", [True, False])
def test_equal_rows_do_not_vary(n, given):
    A = np.tile(np.random.default_rng(n).standard_normal(5), (n, 1))
    for model in (PCA(2), RobustPCA(2, random_state=0), KernelPCA(2)):
        found = Page(report(model.fit(A), A if given else None)).one("scree")["text"]
        both = (
            "Most rows are equal" if model.__class__ is RobustPCA and not given else "do not vary"
        )
        assert both in found
        assert "100.0\u00a0%" not in found
    varied = A + 1e-9 * np.random.default_rng(0).standard_normal(A.shape)
    assert not FittedModel(PCA(2).fit(varied)).has_no_variance


def test_most_rows_equal_and_new_rows_equal():
    A = np.vstack([np.full((20, 4), 0.1), np.eye(4)[:3]])
    most = Page(report(RobustPCA(2, random_state=0).fit(A), A)).one("scree")["text"]
    assert "Most rows are equal" in most
    shares = PCA(2).fit(A).explained_variance_ratio_
    assert f"{100 * shares.sum():.1f}\u00a0% into the first 2" in most
    new = Page(report(fitted("RobustPCA"), np.tile(X[30], (9, 1)))).one("scree")["text"]
    assert "The rows of this report do not vary" in new
    assert "plain" not in new


def test_one_of_a_thing_is_singular():
    rng = np.random.default_rng(0)
    A = rng.standard_normal((30, 1))
    pages = [
        report(RobustPCA(1, random_state=0).fit(A), A, labels=["a"] * 30),
        report(RobustPCA(1, random_state=0).fit(A), A[:1]),
        report(PCA(1).fit(A), A[:1], image_shape=(1, 1)),
        *(report(fitted("RobustPCA"), X, max_points=m) for m in (2, 3, 17)),
        report(fitted("one"), X),
    ]
    for page in pages:
        for e in Page(page).all("figcaption", "p", "li", "dd", "caption", "h3"):
            assert not re.search(
                r"(?<![\d.,])1 (rows|others|loadings|components|variables|passes|labels|cells)\b"
                r"|(first|all|farthest) 1\b",
                e["text"],
            )
    assert "Symbols stand for labels: a." in pages[0]
    assert "A sample of 2 of 120 rows with 1 of " in pages[3]


def test_the_solver_and_its_reason_are_told():
    big = np.random.default_rng(0).standard_normal((1200, 300))
    for model in (PCA(2, random_state=0), PCA(2, solver="gram"), PCA(299)):
        found = Page(report(model.fit(big)))
        assert f"Solver: {model.solver_}." in [e["text"] for e in found.all("li")]


def test_axes_are_logarithmic_where_a_row_is_far_beyond_its_limit():
    def ticked(model, rows):
        return "checked" in Page(report(model, rows)).one("log")["attrs"]

    for name in ("RobustPCA", "orthogonal", "flat"):
        model = fitted(name)
        kinds = FittedModel(model).limits
        edges = [
            line if limit is None else limit
            for limit, line in zip(kinds.values(), model.limits_, strict=True)
        ]
        good = X[~model.outliers_]
        for factor in (1, 1e3):
            rows = np.vstack([good, factor * X[:1]])
            far = [
                max(d) > 20 * e for d, e in zip(model.distances(rows), edges, strict=True) if e > 0
            ]
            assert ticked(model, rows) == any(far)
        assert not ticked(model, good)
        assert ticked(model, rows)
    lines = (2.0, 0.0)
    wild = np.array([[1.0, 5.0], [np.inf, 9.0]])
    assert not is_far(wild, {"score": None, "orthogonal": 0.0}, lines)
    assert is_far(wild, {"score": 0.04, "orthogonal": None}, lines)


def test_missing_cells_are_said_to_be_missing(tmp_path):
    holes = X.copy()
    holes[20, 3] = np.nan
    model = make_pipeline(
        Preprocessor(scaling="robust", missing="impute"), RobustPCA(3, random_state=0)
    ).fit(holes)
    page = report(model, holes)
    rows = numbers_of(page)["rows"]
    told = {rows["variables"][j]: rest for j, *rest in rows["details"][20]}
    assert told["x3"][0] is None
    assert "1 missing cell filled by medians" in page
    np.save(tmp_path / "X.npy", holes)
    streamed = numbers_of(report(model, np.load(tmp_path / "X.npy", mmap_mode="r")))
    np.testing.assert_allclose(streamed["scores"], numbers_of(page)["scores"], rtol=1e-4, atol=1e-7)
    assert "scaling robust" in page


def test_precomputed_kernels():
    K = X @ X.T
    model = RobustKernelPCA(3, kernel="precomputed", random_state=0).fit(K)
    found = numbers_of(report(model, K, max_points=40))
    drawn = found["rows"]["index"]
    np.testing.assert_allclose(
        found["rows"]["distances"][1], model.orthogonal_distances_[drawn], rtol=1e-5
    )
    np.testing.assert_allclose(np.array(found["scores"]).T, model.transform(K)[drawn], rtol=1e-4)
    with pytest.raises(ValueError, match="give the matrix of the fit"):
        report(model, K[:50])


def test_float32_and_rows_that_overflow():
    bad = X.astype(np.float32)
    bad[0] = 1e30
    model = fitted("RobustPCA")
    found = numbers_of(report(model, bad))
    assert found["rows"]["flagged"][0]


def test_names_from_data_stay_text():
    n = len(HOSTILE)
    names = [*HOSTILE, *map(str, range(n, len(X)))]
    variables = (HOSTILE * 2)[:8]
    notes = {hostile: hostile for hostile in HOSTILE}
    page = report(
        fitted("RobustPCA"),
        X,
        title=HOSTILE[0],
        row_names=names,
        labels=[HOSTILE[i % n] for i in range(len(X))],
        feature_names=variables,
        notes=notes,
    )
    page.encode()  # no half characters
    found = Page(page)  # tags nest, so none came from a name
    plain = Page(report(fitted("RobustPCA"), X, labels=["a"] * len(X), notes={"a": "a"}))
    for tag in ("script", "img", "b", "section"):
        assert len(found.all(tag)) == len(plain.all(tag))
    allowed = set("<>&\u2028") & set(found.one("data")["text"])
    assert not allowed
    assert numbers_of(page)["rows"]["name"][:8] == HOSTILE[:8]
    assert found.all("h1")[0]["text"] == HOSTILE[0]
    cells = [e["text"] for e in found.all("button") if "data-row" in e["attrs"]]
    assert set(HOSTILE[:8]) <= set(cells)


def test_summary_tells_parameters_notes_and_certificate():
    model = RobustPCA(3, loss="l1", refit=False, random_state=0).fit(X)
    page = report(
        model, X[:50], notes={"source": "a.csv", "dropped": ["id", "note"], "label": None}
    )
    text = Page(page).one("summary")["text"]
    for words in (
        "120 rows, 8 variables",
        "50 rows",
        "loss=l1",
        "refit=False",
        "a.csv",
        "id, note",
    ):
        assert words in text
    assert "quantile" not in text
    assert "Column of labels" not in text
    assert f"{model.n_passes_} passes over the data" in text
    assert "No second fit" in text
    assert Page(page).all("h1")[0]["text"] == "RobustPCA of a.csv"
    shortfall = f"{fitted('PCA').variance_shortfall_:.2g}"
    assert shortfall in Page(page_of("PCA")).one("summary")["text"]


def test_an_early_stop_is_told():
    model = RobustPCA(3, random_state=0, max_iter=300).fit(X)
    model.residual_ = 0.5  # as if max_iter had ended it
    assert "raise max_iter" in Page(report(model)).one("summary")["text"]


def test_sections_that_make_no_sense_say_why():
    found = Page(page_of("KernelPCA"))
    assert "no loadings" in found.one("loadings")["text"]
    assert "RobustPCA does" in found.one("outliers")["text"]
    assert "no rows were given" in Page(page_of("PCA", False)).one("scores")["text"]
    pictures = Page(report(fitted("RobustKernelPCA"), X, image_shape=(2, 4)))
    assert "no way back" in pictures.one("reconstructions")["text"]


def test_pictures_show_rows_and_reconstructions():
    image = pytest.importorskip("PIL.Image")
    rng = np.random.default_rng(0)
    A = rng.random((30, 2)) @ rng.random((2, 16)) + 0.01 * rng.random((30, 16))
    model = PCA(2).fit(A)
    found = Page(report(model, A, image_shape=True))
    assert len(found.all("img")) == 2 + 12 * 3
    kept = numbers_of(report(model, A, image_shape=(4, 4)))["rows"]["pictures"]
    back = model.inverse_transform(model.transform(A))
    for i in (0, 29):
        low = min(A[i].min(), back[i].min())
        high = max(A[i].max(), back[i].max())
        for address, row in zip(kept[str(i)], (A[i], back[i]), strict=False):
            code = base64.b64decode(address.removeprefix("data:image/png;base64,"))
            seen = np.asarray(image.open(io.BytesIO(code)), dtype=float)
            expected = 255 * (row.reshape(4, 4) - low) / (high - low)
            assert np.abs(seen - expected).max() <= 0.5 + 1e-6


@pytest.mark.parametrize("shape", [(3, 5), (2, 4, 3)])
def test_png_round_trip(shape):
    image = pytest.importorskip("PIL.Image")
    pixels = np.random.default_rng(0).integers(0, 256, shape, dtype=np.uint8)
    code = base64.b64decode(png(pixels).split(",")[1])
    assert (np.asarray(image.open(io.BytesIO(code))) == pixels).all()


def test_many_labels_and_many_components():
    rng = np.random.default_rng(0)
    A = rng.standard_normal((60, 40))
    found = numbers_of(report(PCA(30).fit(A), A, labels=np.arange(60) % 25))
    assert len(found["traces"]) == 10
    assert found["traces"][-1]["name"].startswith("other labels (")
    members = [trace["customdata"] for trace in found["traces"]]
    assert sorted(np.concatenate(members)) == list(range(60))
    assert len(found["scores"]) == 20
    assert len(found["scree"][0]["share"]) == 30


def test_write_report(tmp_path):
    path = tmp_path / "a.html"
    assert write_report(fitted("PCA"), path, X) == path
    assert path.read_text(encoding="utf-8") == page_of("PCA")
    path.write_text("mine")
    with pytest.raises(FileExistsError, match="overwrite=True"):
        write_report(fitted("PCA"), path, X)
    assert path.read_text() == "mine"
    with pytest.raises(ValueError, match="max_points"):
        write_report(fitted("PCA"), path, X, overwrite=True, max_points=0)
    assert path.read_text() == "mine"
    write_report(fitted("PCA"), str(path), X, overwrite=True)
    assert [p.name for p in tmp_path.iterdir()] == ["a.html"]
    with pytest.raises(IsADirectoryError, match="folder"):
        write_report(fitted("PCA"), tmp_path)
    with pytest.raises(FileNotFoundError, match="make"):
        write_report(fitted("PCA"), tmp_path / "b" / "a.html")


@pytest.mark.parametrize(
    ("options", "error", "words"),
    [
        ({"row_names": ["a"]}, ValueError, "row_names has length 1 for 120 rows"),
        ({"labels": "abc"}, ValueError, "labels has length 0"),
        ({"feature_names": ["a"]}, ValueError, "feature_names has length 1 for 8 variables"),
        ({"image_shape": True}, ValueError, "image_shape=True does not make an image of 8"),
        ({"image_shape": (3, 3)}, ValueError, r"image_shape=\(3, 3\) does not make"),
        ({"max_points": 1.5}, ValueError, "max_points=1.5"),
        ({"notes": "text"}, TypeError, "notes is a str"),
    ],
)
def test_wrong_options_are_refused(options, error, words):
    with pytest.raises(error, match=words):
        report(fitted("RobustPCA"), X, **options)


def test_wrong_models_are_refused():
    from sklearn.exceptions import NotFittedError

    with pytest.raises(NotFittedError):
        report(PCA(2))
    with pytest.raises(TypeError, match="PrincipalComponentPursuit"):
        report(PrincipalComponentPursuit())
    with pytest.raises(ValueError, match="3 steps"):
        report(make_pipeline(StandardScaler(), StandardScaler(), PCA(2)))
    with pytest.raises(ValueError, match="labels are of rows"):
        report(fitted("PCA"), labels=["a"])
    with pytest.raises(ValueError, match="shape"):
        report(fitted("PCA"), X[0])


# Few rows, too many, pictures in colour, and what is refused.


def plain_rows(n=60, d=12):
    return np.random.default_rng(0).standard_normal((n, d)) / np.arange(1, d + 1)


def section(page, name):
    """The HTML of one section."""
    return page.split(f'id="{name}"')[1].split("</section>")[0]


def pixels(uri):
    """The bytes of each line of an uncut PNG of 8 bits in three colours, whose filter is 0."""
    content = base64.b64decode(uri)
    width, height, bits, kind = struct.unpack(">IIBB", content[16:26])
    assert (bits, kind) == (8, 2)
    at, packed = 8, b""
    while at < len(content):
        length, name = struct.unpack(">I4s", content[at : at + 8])
        packed += content[at + 8 : at + 8 + length] if name == b"IDAT" else b""
        at += length + 12
    lines = np.frombuffer(zlib.decompress(packed), np.uint8).reshape(height, 3 * width + 1)
    assert not lines[:, 0].any()
    return lines[:, 1:].reshape(height, width, 3)


def test_without_plotly_it_says_what_to_install(monkeypatch):
    model = PCA(2).fit(plain_rows())
    monkeypatch.setitem(sys.modules, "plotly.offline", None)
    with pytest.raises(ImportError, match=r"reports need plotly: pip install 'dualpca\[report\]'"):
        report(model)


def test_a_pipeline_that_changes_the_number_of_variables_is_refused():
    model = make_pipeline(Reduction(5), PCA(2)).fit(plain_rows())
    with pytest.raises(ValueError, match=r"makes 5 variables of 12; give one that keeps them"):
        report(model)


def test_an_operator_without_rows_is_refused():
    X = plain_rows()
    with pytest.raises(TypeError, match="X is a Kernel; give the rows themselves"):
        report(PCA(2).fit(X), Kernel.from_matrix(X @ X.T))


def test_more_rows_than_are_drawn_are_told():
    page = report(PCA(2).fit(plain_rows()), plain_rows(), max_points=20)
    assert "A sample of 20 of 60 rows" in section(page, "scores")


def test_pictures_without_rows_are_not_reconstructed():
    page = report(PCA(2).fit(plain_rows()), image_shape=(3, 4))
    assert "no rows were given" in section(page, "reconstructions")
    assert 'id="reconstructions"' not in report(PCA(2).fit(plain_rows()))


def test_loadings_of_pictures_in_colour_are_drawn_by_the_sign_of_their_mean():
    model = PCA(2).fit(plain_rows())
    page = section(report(model, image_shape=(2, 2, 3)), "loadings")
    uris = re.findall(r"data:image/png;base64,([A-Za-z0-9+/=]+)", page)
    assert len(uris) == 2
    for uri, loadings in zip(uris, model.components_, strict=True):
        mean = loadings.reshape(2, 2, 3).mean(axis=2)
        picture = pixels(uri).astype(int)
        told = np.abs(mean) > 0.1 * np.abs(mean).max()
        assert np.array_equal((picture[..., 0] > picture[..., 2])[told], (mean > 0)[told])


def test_a_component_without_variance_is_led_by_nothing():
    with pytest.warns(UserWarning, match="no variance was left for 1 of n_components=1"):
        model = SparsePCA(1, n_nonzero=2).fit(np.zeros((6, 4)))
    assert not model.components_.any()
    assert "no variance was left for it" in section(report(model), "loadings")


def test_rows_whose_distances_overflow_are_counted():
    X = plain_rows()
    model = RobustPCA(2, random_state=0).fit(X)
    X[3] = 1e308
    with np.errstate(over="ignore", invalid="ignore"):
        assert any(np.isinf(np.asarray(part)[3]) for part in model.distances(X))
        page = report(model, X)
    assert "1 row lies beyond any axes" in section(page, "outliers")


def test_the_choice_of_a_number_is_shown():
    """The method and its number in words, and the threshold of variances as shares in the scree."""
    good = X[15:]
    model = PCA("broken-stick").fit(good)
    page = report(model, good)
    found = model.selection_
    assert f"{found.n_components} component" in Page(page).one("summary")["text"]
    assert "by broken-stick" in Page(page).one("summary")["text"]
    *_, line = json.loads(Page(page).one("data")["text"])["figures"]["scree-plot"][0]["data"]
    assert line["name"] == "threshold"
    shares = found.threshold / found.statistic.sum()
    np.testing.assert_allclose(line["y"], shares[: len(line["y"])], rtol=1e-3)
    for other in (PCA("gcv"), RobustPCA("broken-stick", random_state=0)):
        page = report(other.fit(good), good)
        assert f"by {other.n_components}" in Page(page).one("summary")["text"]
        data = json.loads(Page(page).one("data")["text"])["figures"]["scree-plot"][0]["data"]
        assert all(trace["name"] != "threshold" for trace in data)
