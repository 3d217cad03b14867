"""Reports of few rows, of too many, of pictures in colour, and those that are refused."""

import base64
import re
import struct
import sys
import zlib

import numpy as np
import pytest
from sklearn.decomposition import PCA as Reduction  # noqa: N811
from sklearn.pipeline import make_pipeline

from dualpca import PCA, RobustPCA, SparsePCA
from dualpca.operators import Kernel
from dualpca.report import report

pytest.importorskip("plotly")


def rows(n=60, d=12):
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
    model = PCA(2).fit(rows())
    monkeypatch.setitem(sys.modules, "plotly.offline", None)
    with pytest.raises(ImportError, match=r"reports need plotly: pip install 'dualpca\[report\]'"):
        report(model)


def test_a_pipeline_that_changes_the_number_of_variables_is_refused():
    model = make_pipeline(Reduction(5), PCA(2)).fit(rows())
    with pytest.raises(ValueError, match=r"makes 5 variables of 12; give one that keeps them"):
        report(model)


def test_an_operator_without_rows_is_refused():
    X = rows()
    with pytest.raises(TypeError, match="X is a Kernel; give the rows themselves"):
        report(PCA(2).fit(X), Kernel.from_matrix(X @ X.T))


def test_more_rows_than_are_drawn_are_told():
    page = report(PCA(2).fit(rows()), rows(), max_points=20)
    assert "A sample of 20 of 60 rows" in section(page, "scores")


def test_pictures_without_rows_are_not_reconstructed():
    page = report(PCA(2).fit(rows()), image_shape=(3, 4))
    assert "no rows were given" in section(page, "reconstructions")
    assert 'id="reconstructions"' not in report(PCA(2).fit(rows()))


def test_loadings_of_pictures_in_colour_are_drawn_by_the_sign_of_their_mean():
    model = PCA(2).fit(rows())
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
    X = rows()
    model = RobustPCA(2, random_state=0).fit(X)
    X[3] = 1e308
    with np.errstate(over="ignore", invalid="ignore"):
        assert any(np.isinf(np.asarray(part)[3]) for part in model.distances(X))
        page = report(model, X)
    assert "1 row lies beyond any axes" in section(page, "outliers")
