"""What the report says of trust: cos2 of variables, and resamples."""

import re

import numpy as np
import pytest
from sklearn.datasets import load_wine
from sklearn.pipeline import make_pipeline

from dualpca import PCA, KernelPCA, Preprocessor, RobustPCA, SparsePCA, bootstrap
from dualpca.frames import quality
from dualpca.report import report

pytest.importorskip("plotly")


def wine():
    X = load_wine(as_frame=True).data
    return (X - X.mean()) / X.std()


def section(page, name):
    """The rows of all tables of a section, as text."""
    body = re.search(rf'<section id="{name}".*?</section>', page, re.DOTALL)
    if body is None:
        return None
    rows = re.findall(r"<tr>(.*?)</tr>", body[0], re.DOTALL)
    return [[re.sub("<[^>]+>", "", c) for c in re.findall(r"<t[hd].*?</t[hd]>", r)] for r in rows]


@pytest.mark.parametrize("kind", [PCA, RobustPCA, SparsePCA])
def test_cos2_is_that_of_quality(kind):
    X = wine()
    model = make_pipeline(Preprocessor("standard"), kind(3, random_state=0)).fit(X)
    rows, table = section(report(model, X), "quality"), quality(model, X, "variables")
    assert rows[0][1] == ("Largest" if kind is SparsePCA else "Together")
    assert len(rows) == 1 + X.shape[1]
    shares = {}
    for name, whole, *parts in rows[1:]:
        shares[name] = float(whole.split("\xa0")[0])
        told = [float(part.split("\xa0")[0]) for part in parts]
        np.testing.assert_allclose(told, 100 * table.loc[name].iloc[:3], atol=0.051)
    assert list(shares.values()) == sorted(shares.values())


def test_where_there_is_no_cos2():
    X = wine()
    assert section(report(PCA(2).fit(X)), "quality") is not None  # by the covariance of the model
    for model in (SparsePCA(2).fit(X), KernelPCA(2).fit(X)):
        assert section(report(model), "quality") is None


def test_holes():
    X = wine()
    X.iloc[3, 2] = np.nan
    assert section(report(PCA(2, missing="em").fit(X), X), "quality") is not None


def test_resamples_are_those_of_the_bootstrap():
    X = wine()
    model = make_pipeline(Preprocessor("standard"), PCA(2)).fit(X)
    page = report(model, X, bootstrap=10, random_state=5)
    rows = section(page, "stability")
    seed = np.random.RandomState(5).randint(np.iinfo(np.int32).max)
    table = bootstrap(model, X, 10, random_state=seed).intervals()
    loadings = [row for row in rows if len(row) == 6][1:]
    assert len(loadings) == 16
    for k, name, *told, sure in loadings:
        line = table.loc[name]
        expected = [line[f"PC{k}"], line[f"PC{k} low"], line[f"PC{k} high"]]
        np.testing.assert_allclose([float(t) for t in told], expected, atol=5.1e-4)
        assert sure == ("yes" if expected[1] * expected[2] > 0 else "no")
    assert section(report(model, X), "stability") is None


def test_resamples_need_rows():
    model = PCA(2).fit(wine())
    with pytest.raises(ValueError, match="bootstrap=9 resamples rows, and there are none; give X"):
        report(model, bootstrap=9)
    with pytest.raises(ValueError, match="bootstrap=-1 counts resamples"):
        report(model, wine(), bootstrap=-1)
