"""Models on disk: what is loaded answers as what was saved, to the bit, or it is refused."""

from __future__ import annotations

import errno
import json
import os
import pickle
import resource
import subprocess
import sys
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import joblib
import numpy as np
import pytest
import safetensors
import scipy.sparse as sp
from numpy.testing import assert_array_equal
from sklearn import config_context
from sklearn.base import clone
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import StandardScaler

import dualpca
from dualpca import (
    FORMULATIONS,
    PCA,
    DeepKernelPCA,
    KernelPCA,
    KernelSVD,
    Preprocessor,
    PrincipalComponentPursuit,
    RobustKernelPCA,
    RobustPCA,
    SparsePCA,
)
from dualpca.io import tensorfile
from dualpca.io.codec import Decoder, Encoder
from dualpca.io.fitted import upgrade_version_1
from dualpca.io.models import ModelFileError, load, read_header, write_model
from dualpca.losses import LOSSES, Huber, PowerLoss
from dualpca.solvers import DCA, IRLS, Anderson, ProximalGradient, SimultaneousIteration, ZeroFPR

pytestmark = pytest.mark.filterwarnings("ignore:two starts found", "ignore:.* of the rows are fl")

DATA = Path(__file__).parents[1] / "data"


def rows(dtype=np.float64, N=60, d=6, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((N, 3)) @ rng.standard_normal((3, d)) + 0.1 * rng.standard_normal(
        (N, d)
    )
    X[:5] += 4 * rng.standard_normal((5, d))
    return (np.abs(X) + 0.1).astype(dtype)


MODELS = [
    PCA(3),
    PCA(0.9, whiten=True, solver="gram"),
    PCA(2, center=False, formulation="o", solver=ZeroFPR(memory=10), random_state=0),
    PCA("mle"),
    RobustPCA(2, random_state=0),
    RobustPCA(2, loss=Huber(scale=0.1), center=np.full(6, 1.0), flag="score", random_state=0),
    RobustPCA(2, loss=PowerLoss(p=1.5), center=None, init=["pca", "spherical"], random_state=1),
    RobustPCA(2, solver=Anderson(memory=3), contamination=0.1, random_state=0),
    SparsePCA(2, n_nonzero=[3, 2], random_state=0),
    SparsePCA(2, penalty="l1", random_state=0),
    PrincipalComponentPursuit(),
    KernelPCA(3, kernel="rbf", gamma="median", random_state=0),
    KernelPCA(3, kernel="poly", degree=2, fit_inverse_transform=True),
    KernelPCA(3, kernel="rbf", gamma=0.05, fit_inverse_transform=True, inverse="fixed_point"),
    KernelPCA(3, kernel="cosine", center=False),
    KernelPCA(3, kernel="chi2", gamma=0.1),
    KernelPCA(3, kernel="laplacian", kernel_params={"unused": (1, None, 2.5)}),
    KernelPCA(2, kernel="rbf", approximation="nystroem", n_landmarks=20, random_state=0),
    KernelPCA(2, kernel="poly", approximation="nystroem", landmarks=rows()[:9], random_state=0),
    KernelPCA(2, kernel="rbf", approximation="rff", n_random_features=31, random_state=0),
    KernelPCA(
        2,
        kernel="rbf",
        approximation="nystroem",
        n_landmarks=20,
        fit_inverse_transform=True,
        inverse="fixed_point",
        random_state=0,
    ),
    DeepKernelPCA(random_state=0),
    DeepKernelPCA([KernelPCA(3, kernel="poly", degree=2), {"n_components": 2, "kernel": "rbf"}]),
    DeepKernelPCA(
        [
            KernelPCA(3, kernel="rbf", approximation="nystroem", n_landmarks=20),
            KernelPCA(2, kernel="rbf", approximation="nystroem", n_landmarks=20),
        ],
        coupling=0.01,
        random_state=0,
    ),
    KernelSVD(3, kernel="rbf"),
    KernelSVD(2, kernel="exp", gamma=0.01, left_map=rows()[:6, :2], right_map=rows()[6:12, :2]),
    RobustKernelPCA(2, random_state=0),
    RobustKernelPCA(2, kernel="linear", center="mean", random_state=0),
    RobustKernelPCA(2, approximation="nystroem", n_landmarks=20, random_state=0),
    RobustKernelPCA(2, approximation="orf", n_random_features=40, random_state=0),
    Preprocessor("standard"),
    Preprocessor("robust", "impute"),
    make_pipeline(Preprocessor("robust", "impute"), RobustPCA(2, random_state=0)),
    make_pipeline(Preprocessor(), "passthrough", KernelPCA(2, kernel="rbf")),
]

PLAIN = (
    "transform",
    "transform_levels",
    "transform_right",
    "predict",
    "distances",
    "score_samples",
    "decision_function",
    "contributions",
    "score",
)


def name_of(model):
    return " ".join(repr(model).split())[:90]


def answers(model, X):
    """What every public method says of the rows X."""
    told = {name: getattr(model, name)(X) for name in PLAIN if hasattr(model, name)}
    if hasattr(model, "inverse_transform"):
        told["inverse_transform"] = model.inverse_transform(told["transform"])
    for name in ("get_covariance", "get_precision"):
        if hasattr(model, name):
            told[name] = getattr(model, name)()
    told["names"] = list(model.get_feature_names_out())
    return told


def same(a, b):
    """Equal to the bit, of the same type and dtype."""
    assert type(a) is type(b)
    if isinstance(a, (tuple, list)):
        assert len(a) == len(b)
        for x, y in zip(a, b, strict=True):
            same(x, y)
    elif isinstance(a, dict):
        assert list(a) == list(b)
        same(list(a.values()), list(b.values()))
    elif isinstance(a, np.ndarray):
        assert a.dtype == b.dtype
        assert_array_equal(a, b)
    elif sp.issparse(a):
        assert a.dtype == b.dtype
        assert a.shape == b.shape
        for part in ("data", "indices", "indptr"):
            assert_array_equal(getattr(a, part), getattr(b, part))
    elif isinstance(a, np.random.RandomState):
        same(a.get_state(), b.get_state())
    elif isinstance(a, partial):
        assert a.func is b.func
        same(a.keywords, b.keywords)
    elif hasattr(a, "__dict__"):
        same(vars(a), vars(b))
    else:
        assert a == b or (a != a and b != b)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("model", MODELS, ids=name_of)
def test_a_loaded_model_answers_as_the_saved_one(model, dtype, tmp_path):
    X = rows(dtype)
    model = clone(model).fit(X)
    write_model(model, tmp_path / "model")
    copy = load(tmp_path / "model")
    assert type(copy) is type(model)
    new = rows(dtype, seed=1)
    same(answers(copy, new), answers(model, new))
    same(
        {k: v for k, v in vars(copy).items() if k != "steps"},
        {k: v for k, v in vars(model).items() if k != "steps"},
    )
    same(answers(clone(copy).fit(X), new), answers(clone(model).fit(X), new))
    write_model(copy, tmp_path / "again")
    assert (tmp_path / "again").read_bytes() == (tmp_path / "model").read_bytes()


@pytest.mark.parametrize("model", MODELS, ids=name_of)
def test_pickle_and_joblib_keep_working(model, tmp_path):
    X = rows()
    model = clone(model).fit(X)
    joblib.dump(model, tmp_path / "model.joblib")
    for copy in (pickle.loads(pickle.dumps(model)), joblib.load(tmp_path / "model.joblib")):
        same(answers(copy, X), answers(model, X))


@pytest.mark.parametrize("model", MODELS[:-2], ids=name_of)
def test_a_model_that_is_not_fitted_keeps_its_parameters(model, tmp_path):
    write_model(model, tmp_path / "model")
    same(load(tmp_path / "model").get_params(), model.get_params())


def test_precomputed_kernels(tmp_path):
    X = rows()
    for kind in (KernelPCA, RobustKernelPCA):
        model = kind(2, kernel="precomputed", random_state=0).fit(X @ X.T)
        model.save(tmp_path / kind.__name__)
        K = rows(seed=1) @ X.T
        same(load(tmp_path / kind.__name__).transform(K), model.transform(K))


@pytest.mark.parametrize("d", [6, 9000])
def test_partial_fit_goes_on_where_it_was(d, tmp_path):
    batches = np.array_split(np.random.default_rng(0).standard_normal((240, d)), 3)
    model = PCA(2, random_state=0).partial_fit(batches[0]).partial_fit(batches[1])
    model.save(tmp_path / "model")
    copy = load(tmp_path / "model")
    same(
        copy.partial_fit(batches[2]).transform(batches[0]),
        model.partial_fit(batches[2]).transform(batches[0]),
    )
    assert copy.n_samples_ == 240
    assert copy.variance_shortfall_ == model.variance_shortfall_


@pytest.mark.parametrize("at", [1, 9, 40])
@pytest.mark.parametrize("missing", ["error", "shrink"])
def test_a_stream_goes_on_where_it_was(at, missing, tmp_path):
    """Also before there are enough rows for components, of which the first are gathered."""
    X = rows(N=100)
    model = PCA(2, forget=30, missing=missing)
    for batch in np.split(X[:at], range(1, at, 3)):
        model.partial_fit(batch)
    model.save(tmp_path / "model")
    other = load(tmp_path / "model")
    for one in (model, other):
        one.partial_fit(X[at:])
    same(other.components_, model.components_)
    assert other.drift_.significance == model.drift_.significance


@pytest.mark.parametrize("form", [sp.csr_array, sp.csc_array, sp.csr_matrix])
def test_sparse_training_rows(form, tmp_path):
    X = rows()
    X[X < 1] = 0
    for number, model in enumerate(
        [
            KernelPCA(2, kernel="rbf"),
            KernelPCA(2, kernel="rbf", approximation="nystroem", n_landmarks=9, random_state=0),
            RobustKernelPCA(2, kernel="linear", random_state=0),
        ]
    ):
        model.fit(form(X)).save(tmp_path / str(number))
        copy = load(tmp_path / str(number))
        same(vars(copy), vars(model))
        same(copy.transform(form(X)), model.transform(form(X)))


def test_names_of_columns(tmp_path):
    pandas = pytest.importorskip("pandas")
    names = ["höhe", "a.b", 'quote"', "tab\t", "", "日本"]
    X = pandas.DataFrame(rows(), columns=names)
    model = PCA(2).set_output(transform="pandas").fit(X)
    model.save(tmp_path / "model")
    copy = load(tmp_path / "model")
    assert copy.feature_names_in_.dtype == object
    assert list(copy.feature_names_in_) == names
    out = copy.transform(X)
    assert isinstance(out, pandas.DataFrame)
    assert out.equals(model.transform(X))


def test_arrays_of_other_libraries_come_back_as_numpy(tmp_path):
    torch = pytest.importorskip("torch")
    da = pytest.importorskip("dask.array")
    X = rows(np.float32)
    model = PCA(2, solver="gram").fit(torch.asarray(X))
    model.save(tmp_path / "torch")
    copy = load(tmp_path / "torch")
    assert type(copy.components_) is np.ndarray
    assert copy.components_.dtype == np.float32
    assert_array_equal(copy.components_, model.components_.numpy())
    np.testing.assert_allclose(
        copy.transform(X), model.transform(torch.asarray(X)).numpy(), atol=1e-5
    )
    lazy = da.from_array(rows(), chunks=(20, 6))
    spread = RobustPCA(2, random_state=0).fit(lazy)
    spread.save(tmp_path / "dask")
    copy = load(tmp_path / "dask")
    assert_array_equal(copy.outliers_, spread.outliers_.compute())
    assert copy.outliers_.dtype == bool
    same(copy.predict(rows()), spread.predict(rows()))


VALUES = {
    "none": None,
    "bools": [True, False, np.True_],
    "numbers": [0, -1, 2**70, 0.1, -0.0, 5e-324, float("inf"), -float("inf"), float("nan")],
    "scalars": [np.float64(0.1), np.float32(0.1), np.int8(-3), np.uint64(2**64 - 1), np.float16(2)],
    "text": ["", "é", '{"$": "array"}'],
    "nested": {"a": [1, (2, [3, {"b": ()}])], 4: "int key", None: {}, (1, "t"): 0.5},
    "empty": np.zeros((0, 3)),
    "zero dimensional": np.array(2.5),
    "by columns": np.asfortranarray(np.arange(6.0).reshape(2, 3)),
    "view": np.arange(24.0).reshape(4, 6)[1:3, ::2].T,
    "cube": np.arange(24, dtype=np.int16).reshape(2, 3, 4),
    "big-endian": np.arange(4, dtype=">f4"),
    "big-endian matrix": np.arange(6, dtype=">i8").reshape(2, 3).T,
    "bool": np.array([[True, False]]),
    "half": np.array([1.5], dtype=np.float16),
    "special": np.array([np.nan, np.inf, -0.0]),
    "read-only": np.broadcast_to(np.float32(1), (3, 2)),
    "names": np.array(["a", ""], dtype=object),
    "csr": sp.csr_array(np.eye(3)),
    "csc": sp.csc_matrix(np.eye(3, dtype=np.float32)),
    "losses": [replace(loss, scale=0.5) for loss in LOSSES.values()],
    "solvers": [
        DCA(),
        IRLS(),
        Anderson(memory=7),
        ProximalGradient(gamma=0.1),
        SimultaneousIteration(),
        ZeroFPR(memory=10, beta=0.25),
    ],
    "model": PCA(2).fit(rows()),
}


@pytest.mark.parametrize("key", VALUES)
def test_values_of_every_kind(key, tmp_path):
    model = PCA()
    model.value_ = VALUES[key]
    model.save(tmp_path / "model")
    found = load(tmp_path / "model").value_
    same(found, model.value_)
    if isinstance(found, np.ndarray):
        assert found.flags.writeable
        assert found.dtype.str == model.value_.dtype.str


def test_a_random_state_goes_on_from_where_it_was(tmp_path):
    state = np.random.RandomState(3)
    state.standard_normal(5)  # an odd number, so that one Gaussian number is left over
    model = PCA(random_state=state)
    write_model(model, tmp_path / "model")
    copy = load(tmp_path / "model").random_state
    assert_array_equal(copy.standard_normal(9), state.standard_normal(9))
    assert_array_equal(copy.randint(100, size=9), state.randint(100, size=9))


def kernel(x, y):
    return float(x @ y)


class OwnLoss(Huber):
    pass


REFUSED = {
    "kernel=<function kernel": KernelPCA(kernel=kernel),
    "formulation=<function": PCA(formulation=FORMULATIONS["n"]),
    "solver=<function": PCA(solver=lambda problem, W: iter(())),
    "loss=OwnLoss": RobustPCA(loss=OwnLoss()),
    "n_nonzero=range": SparsePCA(n_nonzero=range(1, 3)),
    "center has dtype complex": RobustPCA(center=np.ones(3, dtype=complex)),
    "landmarks has dtype": KernelPCA(landmarks=np.array([[1, None]])),
    "random_state=RandomState": PCA(random_state=np.random.RandomState(np.random.PCG64(0))),
    r"step 'standardscaler' is a StandardScaler.*dualpca.Preprocessor": make_pipeline(
        StandardScaler(), PCA()
    ),
    "model is a StandardScaler": StandardScaler(),
    "model is a int": 3,
}


@pytest.mark.parametrize("words", REFUSED)
def test_what_a_file_does_not_hold_is_refused_before_anything_is_written(words, tmp_path):
    with pytest.raises(TypeError, match=rf"{words}.*joblib"):
        write_model(REFUSED[words], tmp_path / "model")
    assert os.listdir(tmp_path) == []


def test_callbacks_are_left_out(tmp_path):
    callback = pytest.importorskip("sklearn.callback")
    model = PCA(2).set_callbacks(callback.ProgressBar())
    write_model(model, tmp_path / "model")
    assert not hasattr(load(tmp_path / "model"), "_skl_callbacks")


def test_requests_of_metadata_are_left_out(tmp_path):
    with config_context(enable_metadata_routing=True):
        model = RobustPCA(2, random_state=0).set_fit_request(sample_weight=True).fit(rows())
        model.save(tmp_path / "model")
        copy = load(tmp_path / "model")
        assert not hasattr(copy, "_metadata_request")
        same(copy.transform(rows()), model.transform(rows()))
        copy.set_fit_request(sample_weight=True)


@pytest.mark.parametrize("name", ["note", "transform", "__class_getitem__"])
def test_attributes_that_would_not_be_loaded_are_refused(name, tmp_path):
    model = PCA(2)
    setattr(model, name, "mine")
    with pytest.raises(TypeError, match=rf"^a\.{name} is an attribute .*delete it, or use joblib"):
        write_model(Pipeline([("a", model)]), tmp_path / "model")
    assert os.listdir(tmp_path) == []


class Poison:
    """What runs as its pickle is read."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return Path.touch, (self.path,)


def test_no_pickle_of_a_cache_is_read_after_loading(tmp_path):
    cache, ran = tmp_path / "cache", tmp_path / "ran"
    model = Pipeline([("a", Preprocessor("standard")), ("b", PCA(2))], memory=str(cache))
    model.fit(rows())
    write_model(model, tmp_path / "model")
    assert "cache" not in json.dumps(read_header(tmp_path / "model"))

    def change(header):
        header["model"] = Encoder().model(Pipeline([*clone(model).steps]))
        header["model"]["params"]["memory"] = str(cache)

    forged(tmp_path / "forged", change, {})
    poisoned = list(cache.rglob("output.pkl"))
    assert poisoned
    for path in poisoned:
        path.write_bytes(pickle.dumps(Poison(ran)))
    for name in ("model", "forged"):
        copy = load(tmp_path / name)
        assert copy.memory is None
        same(copy.fit(rows()).transform(rows()), Pipeline(model.steps).fit_transform(rows()))
        assert not ran.exists()
    write_model(
        Pipeline([("b", PCA(2))], memory=joblib.Memory(cache, verbose=0)), tmp_path / "object"
    )
    assert load(tmp_path / "object").memory is None


def test_steps_named_like_attributes_keep_apart(tmp_path):
    inner = KernelPCA(2, kernel="rbf", approximation="rff", n_random_features=8, random_state=0)
    model = Pipeline([("a", inner), ("a.pca_", PCA(1))]).fit(rows())
    write_model(model, tmp_path / "model")
    same(load(tmp_path / "model").transform(rows()), model.transform(rows()))


def test_the_header_and_notes(tmp_path):
    notes = {"ids": ["name"], "label": None, "source": "data.csv", "dropped": [1, 2.5, "x"]}
    RobustPCA(2, random_state=0).fit(rows()).save(tmp_path / "model", notes=notes)
    header = read_header(tmp_path / "model")
    assert header["notes"] == notes
    assert header["format"] == "dualpca model"
    assert header["version"] == 2
    assert header["dualpca"] == dualpca.__version__
    assert header["class"] == "RobustPCA"
    assert header["model"]["params"]["loss"] == "geman_mcclure"
    assert header["arrays"]["components_"] == {"shape": [2, 6], "dtype": "F64"}
    with pytest.raises(TypeError, match="notes cannot be written as JSON"):
        write_model(PCA(), tmp_path / "other", notes={"x": object()})
    with pytest.raises(TypeError, match=r"notes=\[1\] is a list"):
        write_model(PCA(), tmp_path / "other", notes=[1])
    assert os.listdir(tmp_path) == ["model"]


@pytest.mark.parametrize("model", MODELS, ids=name_of)
def test_the_file_is_one_of_safetensors(model, tmp_path):
    model = clone(model).fit(rows(np.float32))
    write_model(model, tmp_path / "model")
    header = read_header(tmp_path / "model")
    _, tensors = stored(tmp_path / "model")
    with safetensors.safe_open(tmp_path / "model", framework="numpy") as file:
        assert set(file.keys()) == set(header["arrays"]) == set(tensors)
        for key in file.keys():  # noqa: SIM118 (it is no dict)
            assert_array_equal(file.get_tensor(key), tensors[key])
            assert file.get_tensor(key).dtype == tensors[key].dtype


def stored(path):
    """The text and the arrays of a file."""
    with open(path, "rb") as file:
        text, layout, head = tensorfile.read_header(file, path)
        return text, tensorfile.read_arrays(file, path, layout, head)


# Writing: whole or not at all.


def test_an_existing_file_stays_unless_asked(tmp_path):
    path = tmp_path / "model"
    path.write_text("mine")
    with pytest.raises(FileExistsError, match=r"model exists; .*overwrite=True"):
        write_model(PCA(), path)
    assert path.read_text() == "mine"
    path.chmod(0o600)
    write_model(PCA(3), path, overwrite=True)
    assert load(str(path)).n_components == 3
    assert path.stat().st_mode & 0o777 == 0o600
    with pytest.raises(IsADirectoryError, match="is a folder"):
        write_model(PCA(), tmp_path, overwrite=True)
    with pytest.raises(FileNotFoundError, match=r"in no folder; make .*none first"):
        write_model(PCA(), tmp_path / "none" / "model")
    assert os.listdir(tmp_path) == ["model"]


def test_a_link_stays_a_link(tmp_path):
    write_model(PCA(3), tmp_path / "model")
    (tmp_path / "link").symlink_to(tmp_path / "model")
    write_model(PCA(4), tmp_path / "link", overwrite=True)
    assert (tmp_path / "link").is_symlink()
    assert load(tmp_path / "model").n_components == 4


def test_a_full_disk_leaves_what_was_there(tmp_path):
    path = tmp_path / "model"
    write_model(PCA(3), path)
    before = path.read_bytes()
    large = KernelPCA(2, kernel="rbf", approximation="rff", n_random_features=4000).fit(rows(d=40))
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (2**16, hard))
    try:
        for target in (path, tmp_path / "new"):
            with pytest.raises(OSError, match="File too large") as caught:
                large.save(target, overwrite=True)
            assert caught.value.errno == errno.EFBIG
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert os.listdir(tmp_path) == ["model"]
    assert path.read_bytes() == before


def test_a_failure_at_the_end_leaves_what_was_there(tmp_path, monkeypatch):
    path = tmp_path / "model"
    write_model(PCA(3), path)

    def fail(*paths):
        raise PermissionError(errno.EACCES, "not allowed")

    monkeypatch.setattr(os, "replace", fail)
    with pytest.raises(PermissionError):
        write_model(PCA(4), path, overwrite=True)
    monkeypatch.undo()
    assert os.listdir(tmp_path) == ["model"]
    assert load(path).n_components == 3


# Reading: what is not as it was written is refused.


@pytest.fixture
def written(tmp_path):
    path = tmp_path / "model"
    PCA(1).fit(rows(d=2)).save(path, notes={"source": "x"})
    return path


def refused(path, content, words="."):
    path.write_bytes(content)
    with pytest.raises(ModelFileError, match=words) as caught:
        load(path)
    assert isinstance(caught.value, ValueError)
    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)


def test_any_changed_byte_is_refused(written):
    content = bytearray(written.read_bytes())
    for i in range(len(content)):
        content[i] ^= 1 << (i % 8)
        refused(written, content)
        content[i] ^= 1 << (i % 8)
    for i in range(8 + len(tensorfile.PREFIX), len(content), 97):  # other characters in text
        kept, content[i] = content[i], ord("7") if content[i] != ord("7") else ord("8")
        refused(written, content)
        content[i] = kept


def test_any_length_but_the_right_one_is_refused(written):
    content = written.read_bytes()
    for length in [*range(0, len(content), 13), *range(len(content) - 9, len(content))]:
        refused(written, content[:length], "not a dualpca model|truncated|damaged")
    refused(written, content + b"x", "damaged")


@pytest.mark.parametrize(
    "content", [b"", b"x", b"PK\x03\x04" * 99, b"\xff" * 500, b"{}" * 300, pickle.dumps(PCA())]
)
def test_other_files_are_no_models(content, tmp_path):
    refused(tmp_path / "file", content, "is not a dualpca model file")
    with pytest.raises(ModelFileError, match="is not a dualpca model"):
        read_header(tmp_path / "file")
    with pytest.raises(FileNotFoundError):
        load(tmp_path / "none")


def test_other_safetensors_are_no_models(tmp_path):
    from safetensors.numpy import save_file

    save_file({"weight": np.eye(3)}, tmp_path / "file", metadata={"dualpca": "{}"})
    with pytest.raises(ModelFileError, match="is not a dualpca model file"):
        load(tmp_path / "file")


def forged(path, change=None, tensors=None, text=None):
    """A file with a right checksum whose header says what it likes."""
    if text is None:
        encoder = Encoder()
        tree = encoder.model(PCA(1).fit(rows(d=3)))
        header = {"format": "dualpca model", "version": 2, "dualpca": dualpca.__version__}
        header |= {"class": "PCA", "notes": {}, "model": tree}
        tensors = encoder.tensors if tensors is None else tensors
        change(header)
        if isinstance(header["model"], dict) and header["model"].get("$") == "pipeline":
            header["class"] = "Pipeline"
        text = json.dumps(header)
    with open(path, "xb") as file:
        tensorfile.write(file, *tensorfile.header_of(tensors or {}, text))
    return path


def put(*keys):
    """A change of the header: the last of the arguments at the keys before it."""

    def change(header):
        for key in keys[:-2]:
            header = header[key]
        header[keys[-2]] = keys[-1]

    return change


def drop(*keys):
    def change(header):
        for key in keys[:-1]:
            header = header[key]
        del header[keys[-1]]

    return change


def test_a_future_version_asks_for_an_upgrade(tmp_path):
    path = forged(tmp_path / "model", lambda h: h.update(version=7, model="quite another"))
    for read in (load, read_header):
        with pytest.raises(
            ModelFileError, match="in format 7; this dualpca reads up to 2: upgrade dualpca"
        ):
            read(path)


def test_a_parameter_of_a_later_release_asks_for_an_upgrade(tmp_path):
    def change(header):
        header["dualpca"] = "9.0"
        header["model"]["params"]["later"] = 1

    with pytest.raises(ModelFileError, match=r"dualpca 9\.0.*'later'.*upgrade"):
        load(forged(tmp_path / "model", change))


def test_a_parameter_of_a_later_release_has_its_default_in_older_files(tmp_path):
    model = load(forged(tmp_path / "model", drop("model", "params", "max_iter")))
    assert model.max_iter == PCA().max_iter


FITTED = ("model", "fitted")
LIES = {
    "another class": put("class", "RobustPCA"),
    "a class for a pipeline": put("class", "Pipeline"),
    "a negative residual": put(*FITTED, "residual_", -1.0),
    "a residual that is none": put(*FITTED, "residual_", {"$": "float", "value": "nan"}),
    "a negative shortfall": put(*FITTED, "variance_shortfall_", -1e-12),
    "a negative count": put(*FITTED, "n_passes_", -1),
    "class": put("model", "class", "Popen"),
    "loss": put("model", "params", "tol", {"$": "object", "class": "Kernel", "fields": {}}),
    "kind": put(*FITTED, "mean_", {"$": "_init__", "value": 1}),
    "no kind": put(*FITTED, "mean_", {"value": 1}),
    "no tensor": put(*FITTED, "mean_", {"$": "array", "tensor": "other"}),
    "a tensor twice": put(*FITTED, "mean_", {"$": "array", "tensor": "components_"}),
    "a tensor of nothing": drop(*FITTED, "mean_"),
    "no model": put("model", 3),
    "a value": put("model", {"$": "float", "value": "1"}),
    "no class": drop("model", "class"),
    "no fitted": drop("model", "fitted"),
    "format": put("format", "other"),
    "version": put("version", 0),
    "version text": put("version", "1"),
    "parameter": put("model", "params", "command", "rm"),
    "field": put("model", "params", "tol", {"$": "object", "class": "Huber", "fields": {"x": 1}}),
    "scale": put("model", "params", "tol", {"$": "object", "class": "L1", "fields": {"scale": -1}}),
    "kernel": put("model", "params", "tol", {"$": "kernel", "options": {"metric": "os.system"}}),
    "state": put("model", "params", "tol", {"$": "random_state", "state": [1]}),
    "a method": put(*FITTED, "transform", "hello"),
    "a private method": put(*FITTED, "_validate_params", "hello"),
    "a parameter after fitting": put(*FITTED, "n_components", 7),
    "a dunder": put(*FITTED, "__class__", 3),
    "callbacks": put(*FITTED, "_skl_callbacks", [1]),
    "requests": put(*FITTED, "_metadata_request", {"$": "dict", "items": []}),
    "unhashable": put("model", "params", "tol", {"$": "dict", "items": [[[1], 2]]}),
}


@pytest.mark.parametrize("key", LIES)
def test_a_header_that_lies_is_refused(key, tmp_path):
    with pytest.raises(ModelFileError, match="damaged header"):
        load(forged(tmp_path / "model", LIES[key]))


@pytest.mark.parametrize("name", ["explained_variance_", "singular_values_"])
def test_variances_that_are_negative_are_refused(name, tmp_path):
    model = PCA(2).fit(rows())
    setattr(model, name, -getattr(model, name))
    model.save(tmp_path / "model")
    with pytest.raises(ModelFileError, match=f"{name} has .*, which must not be negative"):
        load(tmp_path / "model")


@pytest.mark.parametrize("read", [load, read_header])
def test_the_class_of_the_header_is_that_of_the_model(read, tmp_path):
    with pytest.raises(ModelFileError, match="it says 'SparsePCA', and the model is a 'PCA'"):
        read(forged(tmp_path / "model", put("class", "SparsePCA")))


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs named pipes")
@pytest.mark.parametrize("read", [load, read_header])
def test_a_pipe_or_device_is_no_model_and_is_not_waited_for(read, tmp_path):
    os.mkfifo(tmp_path / "pipe")
    os.symlink(tmp_path / "pipe", tmp_path / "link")
    for path in (tmp_path / "pipe", tmp_path / "link", "/dev/zero"):
        with pytest.raises(
            ModelFileError, match="is a pipe or a device; a model is read from a pl"
        ):
            read(path)


#: Loads a model and tells by how many bytes the peak of the process grew.
PEAK = """
import sys
from dualpca.io.models import ModelFileError, read_header

def peak():
    with open("/proc/self/status") as lines:
        return 1024 * next(int(line.split()[1]) for line in lines if line.startswith("VmHWM"))

before = peak()
try:
    read_header(sys.argv[1])
except ModelFileError as error:
    print(error, file=sys.stderr)
print(peak() - before)
"""

COSTLY = {  # each took 10 to 60 times its size
    "lists": "[" + "[]," * 2**22 + "0]",
    "objects": "[" + '{"":0},' * 2**21 + "0]",
    "members": "{" + ",".join(f'"{i:06d}":0' for i in range(2**20)) + "}",
    "numbers": "[" + "999," * 2**23 + "0]",
    "text": "[" + '"ab",' * 2**23 + "0]",
}


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="needs /proc")
@pytest.mark.parametrize("kind", COSTLY)
def test_a_header_of_many_parts_is_refused_before_it_takes_memory(kind, tmp_path, monkeypatch):
    monkeypatch.setattr(tensorfile, "_check_cost", lambda text: None)  # to write it
    notes = COSTLY[kind]
    text = f'{{"format":"dualpca model","version":1,"notes":{notes}}}'
    path = forged(tmp_path / "model", text=text)
    done = subprocess.run([sys.executable, "-c", PEAK, path], capture_output=True, text=True)
    assert "has a damaged header (ValueError: it has more than 262144 lists" in done.stderr
    assert int(done.stdout) < 5 * len(text) + 2**24


@pytest.mark.parametrize("names", [["a[0]{:},", "b\\", 'c\\"[[[,', '"', "\u00e9\U0001f600[["]])
def test_signs_within_names_are_no_parts(names, tmp_path):
    names = [f"{name}{i}" for i in range(2**17) for name in names]
    write_model(PCA(), tmp_path / "model", notes={"names": names})
    assert read_header(tmp_path / "model")["notes"]["names"] == names


def test_notes_of_too_many_parts_are_not_written(tmp_path):
    with pytest.raises(ValueError, match=r"more than 262144 lists.*shorten the feature names or n"):
        write_model(PCA(), tmp_path / "model", notes={"x": [[]] * 2**18})
    assert not (tmp_path / "model").exists()


def test_steps_are_models_or_passed_through(tmp_path):
    good = ["passthrough", None, Encoder().model(PCA(2))]
    good.append({"$": "pipeline", "steps": [["b", good[2]]], "params": {}})
    bad = [3, True, "drop", ["passthrough"], {"$": "float", "value": "1"}, {"$": "names"}]
    for number, step in enumerate([*good, *bad]):
        tree = {"$": "pipeline", "steps": [["a", step]], "params": {}}
        path = forged(tmp_path / str(number), put("model", tree), {})
        if number < len(good):
            found = load(path).steps[0][1]
            assert found == step or isinstance(found, (PCA, Pipeline))
        else:
            with pytest.raises(ModelFileError, match="damaged header"):
                load(path)


def test_indices_of_sparse_rows_stay_within_them(tmp_path):
    parts = {"data": np.ones(2), "indices": np.array([0, 10**6]), "indptr": np.array([0, 1, 2])}
    tree = {k: {"$": "array", "tensor": k} for k in parts}
    change = put(
        "model", "fitted", {"X_": {"$": "sparse", "class": "csr_array", "shape": [2, 3], **tree}}
    )
    with pytest.raises(ModelFileError, match="damaged header"):
        load(forged(tmp_path / "model", change, parts))


def test_deep_and_long_headers_are_refused(tmp_path):
    with pytest.raises(ModelFileError, match="damaged header"):
        load(forged(tmp_path / "deep", text="[" * 10**5))
    with pytest.raises(ModelFileError, match="damaged header"):
        load(forged(tmp_path / "no JSON", text="no"))
    with pytest.raises(ModelFileError, match="damaged header"):
        load(forged(tmp_path / "long", text='{"version": 1' + "0" * 5000 + "}"))
    with pytest.raises(ValueError, match="shorten the feature names"):
        write_model(PCA(), tmp_path / "names", notes={"x": "a" * tensorfile.HEADER})
    assert not (tmp_path / "names").exists()


@pytest.mark.parametrize(
    "entry",
    [
        {"dtype": "F64", "shape": [10**12, 10**6], "data_offsets": [0, 8 * 10**18]},
        {"dtype": "F64", "shape": [10**12], "data_offsets": [0, 24]},
        {"dtype": "F64", "shape": [-3], "data_offsets": [0, 24]},
        {"dtype": "F64", "shape": [True, 3], "data_offsets": [0, 24]},
        {"dtype": "F64", "shape": [3], "data_offsets": [8, 32]},
        {"dtype": "F64", "shape": [3], "data_offsets": [24, 0]},
        {"dtype": "O", "shape": [3], "data_offsets": [0, 24]},
        {"dtype": "F64", "shape": 3, "data_offsets": [0, 24]},
        {"dtype": "U8", "shape": [24] + 64 * [1], "data_offsets": [0, 24]},
        {"dtype": "F64", "data_offsets": [0, 24]},
        {"dtype": "F64", "shape": [3]},
        7,
    ],
)
def test_sizes_are_compared_with_the_file_before_memory_is_taken(entry, tmp_path):
    write_model(PCA(), tmp_path / "model")
    text, _ = stored(tmp_path / "model")
    layout = {"__metadata__": {"sha256": "0" * 64, "dualpca": text}, "x": entry}
    head = json.dumps(layout, separators=(",", ":")).encode()
    content = len(head).to_bytes(8, "little") + head + bytes(24)
    refused(tmp_path / "model", content, "damaged header")
    long = (2**62).to_bytes(8, "little") + head
    refused(tmp_path / "model", long, "truncated or damaged")


@pytest.mark.parametrize("shape", [[0, 10**30], "", {}, None, [0.0], [False]])
def test_shapes_that_numpy_has_not_are_refused(shape, tmp_path):
    write_model(PCA(), tmp_path / "model")
    text, _ = stored(tmp_path / "model")
    size = 0 if shape else 8  # as an empty shape would be that of one number
    entry = {"dtype": "F64", "shape": shape, "data_offsets": [0, size]}
    layout = {"__metadata__": {"sha256": "0" * 64, "dualpca": text}, "x": entry}
    head = json.dumps(layout, separators=(",", ":")).encode()
    content = len(head).to_bytes(8, "little") + head + bytes(size)
    refused(tmp_path / "model", content, "damaged header .*(shape|dimension)")


def test_decoding_makes_nothing_but_models():
    with pytest.raises(ValueError, match="no estimator"):
        Decoder({}).model([1, 2])


# Files of the first format stay readable.


@pytest.mark.filterwarnings("ignore:X does not have valid feature names:UserWarning")
@pytest.mark.parametrize("path", sorted(DATA.glob("v1_*.safetensors")), ids=lambda p: p.stem)
def test_files_of_version_1(path):
    model = load(path)
    assert read_header(path)["version"] == 1
    with np.load(path.with_suffix(".npz")) as expected:
        X = expected["X"]
        for name in expected.files:
            if name == "X":
                continue
            # Other machines round otherwise.
            np.testing.assert_allclose(
                getattr(model, name)(X), expected[name], rtol=1e-6, atol=1e-8
            )


@pytest.mark.parametrize("path", sorted(DATA.glob("v1_kernel*.safetensors")), ids=lambda p: p.stem)
def test_kernel_pca_of_version_1_divides_by_one_less(path):
    model = load(path)
    N = model.n_samples_
    assert len(getattr(model, "X_fit_", np.empty(N))) == N
    assert model.n_components_ == len(model.eigenvalues_)
    np.testing.assert_allclose(model.explained_variance_, model.eigenvalues_ / (N - 1), rtol=1e-12)


def test_what_robust_models_of_version_1_called_otherwise():
    model = RobustPCA(2, random_state=0).fit(np.random.default_rng(0).standard_normal((50, 5)))
    model.n_components = None
    upgrade_version_1(model)
    assert model.n_components == "auto"
    kernel = load(DATA / "v1_robust_kernel_pca.safetensors")
    assert kernel.axes_coef_.shape == (kernel.n_samples_, kernel.n_components_)
    assert not hasattr(kernel, "dual_coef_")


def test_there_is_a_file_of_version_1_for_each_class():
    classes = {read_header(path)["class"] for path in DATA.glob("v1_*.safetensors")}
    later = {"DeepKernelPCA", "KernelSVD"}  # came with version 2
    assert classes == {*dualpca.estimators.__all__, "Pipeline"} - later


# Headers of people who mean harm, with a right checksum.


@pytest.mark.parametrize("shape", [[2] * 65, [10**4000] * 3, [2**63]])
def test_shapes_are_not_multiplied_before_they_are_looked_at(shape, tmp_path):
    write_model(PCA(), tmp_path / "model")
    text, _ = stored(tmp_path / "model")
    entry = {"dtype": "F64", "shape": shape, "data_offsets": [0, 8]}
    layout = {"__metadata__": {"sha256": "0" * 64, "dualpca": text}, "x": entry}
    head = json.dumps(layout, separators=(",", ":")).encode()
    refused(
        tmp_path / "model", len(head).to_bytes(8, "little") + head + bytes(8), "shape that is none"
    )


def test_a_key_that_is_there_twice_is_refused(tmp_path):
    header = {"format": "dualpca model", "version": 2, "dualpca": dualpca.__version__}
    header |= {"class": "PCA", "notes": {}, "model": Encoder().model(PCA())}
    text = json.dumps(header).replace('"notes": {}', '"notes": {}, "notes": {"a": 1}')
    with pytest.raises(ModelFileError, match="key twice"):
        load(forged(tmp_path / "model", text=text))


def test_halves_of_characters_in_names_are_refused(tmp_path):
    half = {"$": "names", "values": ["a", "b", "\ud800"]}
    with pytest.raises(ModelFileError, match="surrogates not allowed"):
        load(forged(tmp_path / "model", put(*FITTED, "feature_names_in_", half)))


@pytest.mark.parametrize("position", [-1, 625, 10**9])
def test_a_random_state_does_not_read_beyond_its_numbers(position, tmp_path):
    write_model(PCA(2, random_state=np.random.RandomState(0)), tmp_path / "good")
    encoder = Encoder()
    tree = encoder.model(PCA(2, random_state=np.random.RandomState(0)))
    tree["params"]["random_state"]["state"][1] = position
    with pytest.raises(ModelFileError, match="of 624 numbers"):
        load(forged(tmp_path / "model", put("model", tree), encoder.tensors))


def test_a_scalar_is_one_number(tmp_path):
    scalar = {"$": "scalar", "tensor": "mean_"}
    with pytest.raises(ModelFileError, match="cannot reshape array of size 3"):
        load(forged(tmp_path / "model", put(*FITTED, "mean_", scalar)))


@pytest.mark.parametrize("options", [{"gamma": "x"}, {"n_jobs": 10**6}, {"X": [1]}])
def test_a_kernel_of_a_file_has_numbers_and_few_threads(options, tmp_path):
    kernel = {"$": "kernel", "options": {"metric": "rbf", **options}}
    with pytest.raises(ModelFileError, match="the kernel has"):
        load(forged(tmp_path / "model", put(*FITTED, "kernel_", kernel)))


CONTRADICTIONS = {
    "columns": put(*FITTED, "n_features_in_", 4),
    "many columns": put(*FITTED, "n_features_in_", 10**12),
    "no count": put(*FITTED, "n_features_in_", "3"),
    "components": put(*FITTED, "n_components_", 2),
    "names": put(*FITTED, "feature_names_in_", {"$": "names", "values": ["a"]}),
    "no names": put(*FITTED, "feature_names_in_", [1, 2, 3]),
    "a number": put(*FITTED, "residual_", "small"),
    "no array": put(*FITTED, "explained_variance_", None),
    "a parameter": put("model", "params", "n_components", "os.system"),
    "a negative parameter": put("model", "params", "tol", -1),
}


@pytest.mark.parametrize("key", CONTRADICTIONS)
def test_a_model_that_could_not_transform_is_refused(key, tmp_path):
    with pytest.raises(ModelFileError, match="damaged header"):
        load(forged(tmp_path / "model", CONTRADICTIONS[key]))


@pytest.mark.parametrize("change", ["nan", "infinite", "transposed", "short", "deep"])
def test_arrays_that_do_not_fit_each_other_are_refused(change, tmp_path):
    encoder = Encoder()
    encoder.model(PCA(1).fit(rows(d=3)))
    arrays = encoder.tensors
    W = arrays["components_"].copy()
    W[0, 0] = {"nan": np.nan, "infinite": np.inf}.get(change, W[0, 0])
    arrays["components_"] = {"transposed": W.T, "short": W[:, :2], "deep": W[None]}.get(change, W)
    with pytest.raises(ModelFileError, match="damaged header"):
        load(forged(tmp_path / "model", lambda header: None, arrays))


def test_a_parameter_out_of_range_is_refused_before_anything_is_written(tmp_path):
    model = PCA(1).fit(rows(d=3)).set_params(tol=-1)
    with pytest.raises(ValueError, match="tol"):
        model.save(tmp_path / "model")
    assert list(tmp_path.iterdir()) == []


def test_a_pipeline_of_nothing_is_refused(tmp_path):
    tree = {"$": "pipeline", "steps": [], "params": {}}
    with pytest.raises(ModelFileError, match="no steps"):
        load(forged(tmp_path / "model", put("model", tree), {}))


def test_sparse_pointers_that_go_back_are_refused(tmp_path):
    parts = {"data": np.ones(2), "indices": np.arange(2), "indptr": np.array([0, 10**6, 0])}
    tree = {k: {"$": "array", "tensor": k} for k in parts}
    X = {"$": "sparse", "class": "csr_array", "shape": [2, 3], **tree}
    with pytest.raises(ModelFileError, match="pointers"):
        load(forged(tmp_path / "model", put("model", "fitted", {"X_": X}), parts))


@dataclass(frozen=True)
class Charbonnier(dualpca.losses.Loss):
    """``2 (sqrt(1 + v) - 1)``, which no module of dualpca has."""

    def psi(self, v):
        return 2 * (np.sqrt(1 + v) - 1)

    def slope(self, v):
        return 1 / np.sqrt(1 + v)


def test_a_new_loss_is_a_class_and_one_entry(tmp_path, monkeypatch):
    X = rows()
    model = RobustPCA(2, loss=Charbonnier(), random_state=0).fit(X)
    with pytest.raises(TypeError, match="a Charbonnier, which a model file cannot hold"):
        model.save(tmp_path / "model")
    monkeypatch.setitem(dualpca.losses.LOSSES, "charbonnier", Charbonnier())
    model.save(tmp_path / "model")
    loaded = load(tmp_path / "model")
    assert loaded.loss == model.loss
    assert_array_equal(loaded.transform(X), model.transform(X))
    monkeypatch.delitem(dualpca.losses.LOSSES, "charbonnier")
    with pytest.raises(ModelFileError, match="Charbonnier"):
        load(tmp_path / "model")


# Damaged headers, and names that are not those of plain files.


@pytest.fixture
def model_file(tmp_path):
    """A model file."""
    PCA(2).fit(np.random.default_rng(0).standard_normal((20, 4))).save(tmp_path / "model.dualpca")
    return tmp_path / "model.dualpca"


def rewrite_header(path, change):
    """Change the header of a model file, whose checksum then does not fit."""
    content = path.read_bytes()
    length = int.from_bytes(content[:8], "little")
    head = json.loads(content[8 : 8 + length])
    change(head)
    new = json.dumps(head, separators=(",", ":")).encode()
    path.write_bytes(len(new).to_bytes(8, "little") + new + content[8 + length :])


def test_a_header_without_the_shape_of_an_array_is_refused(model_file):
    def forget(head):
        del next(entry for name, entry in head.items() if name != "__metadata__")["shape"]

    assert read_header(model_file)["class"] == "PCA"
    rewrite_header(model_file, forget)
    with pytest.raises(ModelFileError, match=r"damaged header .*'shape'.*; take another copy"):
        read_header(model_file)


def test_a_header_whose_text_is_a_number_is_refused(model_file):
    rewrite_header(model_file, lambda head: head["__metadata__"].update(dualpca=7))
    with pytest.raises(
        ModelFileError, match=r"damaged header \(TypeError: its metadata is no text\)"
    ):
        read_header(model_file)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs named pipes")
@pytest.mark.parametrize("overwrite", [False, True])
def test_a_named_pipe_is_not_replaced_by_a_file(tmp_path, overwrite):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    model = PCA(2).fit(np.eye(4))
    with pytest.raises(FileExistsError, match=r"pipe is not a plain file; give another name"):
        model.save(pipe, overwrite=overwrite)
    assert pipe.is_fifo()
