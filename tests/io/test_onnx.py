"""ONNX graphs run by onnxruntime, beside transform."""

from __future__ import annotations

import sys

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from dualpca import (
    PCA,
    KernelPCA,
    Preprocessor,
    PrincipalComponentPursuit,
    RobustKernelPCA,
    RobustPCA,
    SparsePCA,
)
from dualpca.io import onnx as module
from dualpca.io.onnx import to_onnx

onnx = pytest.importorskip("onnx")
onnxruntime = pytest.importorskip("onnxruntime")

pytestmark = pytest.mark.filterwarnings(
    "ignore:two starts found",
    "ignore:.* of the rows are fl",
    "ignore:kernel='sigmoid' is not positive semidefinite",
)

LINEAR = [
    PCA(3),
    PCA(3, whiten=True),
    PCA(3, center=False),
    RobustPCA(2, random_state=0),
    RobustPCA(2, center=None, random_state=0),
    SparsePCA(2, n_nonzero=3, random_state=0),
    SparsePCA(2, center=False, random_state=0),
    Preprocessor(),
    Preprocessor("standard"),
    Preprocessor("robust", "impute"),
    make_pipeline(Preprocessor("standard", "impute"), RobustPCA(2, random_state=0)),
    make_pipeline("passthrough", make_pipeline(Preprocessor("robust"), PCA(2)), None),
]
KERNELS = [
    *(KernelPCA(3, kernel=k, gamma=0.05) for k in ("linear", "rbf", "poly", "sigmoid", "cosine")),
    KernelPCA(3, kernel="polynomial", degree=2, coef0=0.5, gamma="scale", center=False),
    KernelPCA(2, kernel="rbf", approximation="nystroem", n_landmarks=15, random_state=0),
    KernelPCA(2, kernel="cosine", approximation="nystroem", n_landmarks=4, random_state=0),
    KernelPCA(2, kernel="rbf", approximation="rff", n_random_features=40, random_state=0),
    KernelPCA(2, kernel="rbf", approximation="orf", n_random_features=31, random_state=0),
    RobustKernelPCA(2, random_state=0),
    RobustKernelPCA(2, kernel="linear", center=None, random_state=0),
    RobustKernelPCA(2, approximation="nystroem", n_landmarks=15, random_state=0),
    RobustKernelPCA(2, approximation="rff", n_random_features=30, random_state=0),
    make_pipeline(Preprocessor("standard"), KernelPCA(2, kernel="rbf")),
]

#: What is promised of the largest score: in float64, in float32, and there with landmarks.
DIGITS = {"float64": 1e-9, "float32": 1e-4, "landmarks": 1e-3}


def name_of(model):
    return " ".join(repr(model).split())[:80]


def rows(dtype="float64", N=80, d=6, seed=0, offset=2.0):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((N, 3)) @ rng.standard_normal((3, d)) + 0.1 * rng.standard_normal(
        (N, d)
    )
    return (X + offset).astype(dtype)


def run(graph, X):
    session = onnxruntime.InferenceSession(
        graph.SerializeToString(), providers=["CPUExecutionProvider"]
    )
    return session.run(["scores"], {"X": X})[0]


def close(graph, model, X, tolerance):
    expected = model.transform(X)
    found = run(graph, X)
    assert found.dtype == expected.dtype
    assert found.shape == expected.shape
    assert_allclose(found, expected, rtol=0, atol=tolerance * np.abs(expected).max())


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("model", LINEAR + KERNELS, ids=name_of)
def test_scores_are_those_of_transform(model, dtype):
    model = clone(model).fit(rows(dtype))
    graph = to_onnx(model, dtype=dtype if isinstance(model, Preprocessor) else None)
    onnx.checker.check_model(graph, full_check=True)
    landmarks = dtype == "float32" and getattr(model, "approximation", None) == "nystroem"
    tolerance = DIGITS["landmarks" if landmarks else dtype]
    for N in (1, 7, 100):
        close(graph, model, rows(dtype, N=N, seed=N), tolerance)


@pytest.mark.parametrize("model", LINEAR + KERNELS, ids=name_of)
def test_float32_of_a_model_in_float64(model):
    model = clone(model).fit(rows())
    graph = to_onnx(model, dtype="float32")
    new = rows("float32", seed=1)
    expected = model.transform(new.astype(float))
    found = run(graph, new)
    assert found.dtype == np.float32
    assert_allclose(found, expected, atol=1e-5 * np.abs(expected).max())


def test_missing_cells_are_filled():
    X = rows()
    X[np.random.default_rng(1).random(X.shape) < 0.1] = np.nan
    for scaling in ("none", "standard", "robust"):
        model = make_pipeline(Preprocessor(scaling, "impute"), PCA(2)).fit(X)
        close(to_onnx(model), model, X, 1e-9)
    plain = PCA(2).fit(rows())
    assert np.isnan(run(to_onnx(plain), X)).any()


def test_rows_far_from_zero_keep_their_digits():
    X = (rows(offset=0.0) + 1e5).astype("float32")
    model = RobustPCA(2, random_state=0).fit(X)
    close(to_onnx(model), model, X, 1e-4)


def test_rows_of_zeros_and_training_rows():
    X = rows()
    X[0] = 0.0
    for kernel in ("cosine", "rbf"):
        model = KernelPCA(3, kernel=kernel, gamma=0.1).fit(X)
        close(to_onnx(model), model, X, 1e-9)


def test_one_column():
    X = rows(d=1)
    scaled = Preprocessor("standard").fit(sp.csr_array(X))  # not centred: a factor alone
    for model in (
        make_pipeline(scaled, PCA(1, center=False).fit(scaled.transform(X))),
        make_pipeline(Preprocessor("robust"), PCA(1, whiten=True)).fit(X),
        KernelPCA(1, kernel="poly", gamma=0.3).fit(X),
        KernelPCA(1, kernel="rbf", approximation="rff", center=False, random_state=0).fit(X),
    ):
        close(to_onnx(model), model, X, 1e-9)


def test_precomputed_kernels():
    X = rows()
    for kind in (KernelPCA, RobustKernelPCA):
        model = kind(2, kernel="precomputed", random_state=0).fit(X @ X.T)
        close(to_onnx(model), model, rows(seed=1) @ X.T, 1e-9)


@pytest.mark.parametrize("approximation", [None, "nystroem"])
@pytest.mark.parametrize("kernel", ["rbf", "cosine", "linear"])
def test_training_rows_may_be_sparse(kernel, approximation):
    X = rows()
    X[X < 1] = 0
    model = KernelPCA(
        2, kernel=kernel, gamma=0.1, approximation=approximation, n_landmarks=5, random_state=0
    )
    close(to_onnx(model.fit(sp.csr_array(X))), model, X, 1e-9)


def test_models_of_torch():
    torch = pytest.importorskip("torch")
    X = rows("float32")
    for model in (PCA(2, whiten=True), RobustPCA(2, random_state=0), SparsePCA(2, random_state=0)):
        model.fit(torch.asarray(X))
        expected = model.transform(torch.asarray(X)).numpy()
        assert_allclose(run(to_onnx(model), X), expected, atol=1e-4 * np.abs(expected).max())


def test_the_graph_says_what_it_is():
    graph = to_onnx(PCA(2).fit(rows("float32")))
    assert graph.producer_name == "dualpca"
    shape = graph.graph.input[0].type.tensor_type.shape.dim
    assert graph.graph.input[0].name == "X"
    assert shape[0].dim_param == "n"
    assert shape[1].dim_value == 6
    assert graph.graph.output[0].type.tensor_type.shape.dim[1].dim_value == 2


def test_a_file_is_written_whole_and_replaces_nothing(tmp_path):
    model = PCA(2).fit(rows())
    to_onnx(model, tmp_path / "model.onnx")
    close(onnx.load(tmp_path / "model.onnx"), model, rows(), 1e-9)
    with pytest.raises(FileExistsError, match="overwrite=True"):
        to_onnx(model, tmp_path / "model.onnx")
    to_onnx(model, tmp_path / "model.onnx", overwrite=True, dtype="float32")
    assert [p.name for p in tmp_path.iterdir()] == ["model.onnx"]


def product(x, y):
    return float(x @ y)


def test_robust_scores_of_cells_have_no_graph():
    model = RobustPCA(2, cells=True, random_state=0).fit(
        np.random.default_rng(0).normal(size=(60, 8))
    )
    with pytest.raises(ValueError, match=r"cells=True of RobustPCA .* no ONNX graph; export"):
        to_onnx(model)


def test_what_has_no_graph_is_refused(monkeypatch):
    X = rows(offset=9.0)
    with pytest.raises(TypeError, match="transform of PrincipalComponentPursuit has no ONNX graph"):
        to_onnx(PrincipalComponentPursuit().fit(X))
    with pytest.raises(TypeError, match="transform of StandardScaler has no ONNX graph"):
        to_onnx(make_pipeline(StandardScaler(), PCA(2)).fit(X))
    for kernel in ("laplacian", "chi2", product):
        with pytest.raises(
            ValueError, match=r"kernel=.* of KernelPCA has no ONNX graph; use one of"
        ):
            to_onnx(KernelPCA(2, kernel=kernel).fit(X))
    with pytest.raises(NotFittedError):
        to_onnx(PCA(2))
    with pytest.raises(ValueError, match="dtype='int8' is unknown"):
        to_onnx(PCA(2).fit(X), dtype="int8")
    with pytest.raises(ValueError, match="has no step"):
        to_onnx(make_pipeline("passthrough"))
    monkeypatch.setattr(module, "LIMIT", 1000)
    with pytest.raises(ValueError, match="more than the 1000 bytes of an ONNX file"):
        to_onnx(KernelPCA(2, kernel="rbf").fit(X))


def test_without_onnx_it_says_what_to_install(monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "onnx", None)
    with pytest.raises(ImportError, match=r"to_onnx needs onnx: pip install 'dualpca\[onnx\]'"):
        to_onnx(PCA(2).fit(rows(offset=9.0)), tmp_path / "model.onnx")
    assert list(tmp_path.iterdir()) == []
