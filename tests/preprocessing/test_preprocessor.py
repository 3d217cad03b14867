"""Preprocessor against StandardScaler, scipy's MAD and plain numpy, on every kind of data."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose, assert_array_equal
from scipy.stats import median_abs_deviation
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils import estimator_checks
from sklearn.utils.estimator_checks import parametrize_with_checks

from dualpca import PCA, Preprocessor, RobustPCA
from dualpca.estimators import preprocessor as module
from dualpca.operators import Blocks, Kernel, Matrix, Operator

SCALINGS = ["none", "standard", "robust"]
EVERY = [Preprocessor(scaling, missing) for scaling in SCALINGS for missing in ("refuse", "impute")]
CHECKED = [Preprocessor(), Preprocessor("robust", "impute")]  # by scikit-learn

KEPT_APART = [
    "check_transformer_get_feature_names_out",
    "check_transformer_get_feature_names_out_pandas",
    "check_set_output_transform",
    "check_set_output_transform_pandas",
    "check_set_output_transform_polars",
    "check_global_output_transform_pandas",
    "check_global_set_output_transform_polars",
    "check_param_validation",
    "check_dataframe_column_names_consistency",
    "check_inplace_ensure_writeable",
    "check_n_features_in",
    "check_n_features_in_after_fitting",
]


@parametrize_with_checks(CHECKED)
def test_checks_of_scikit_learn(estimator, check):
    check(estimator)


@pytest.mark.filterwarnings("ignore:X (does not have valid|has) feature names:UserWarning")
@pytest.mark.parametrize("check", KEPT_APART)
@pytest.mark.parametrize("estimator", CHECKED, ids=str)
def test_checks_that_scikit_learn_keeps_apart(estimator, check):
    pytest.importorskip("polars" if "polars" in check else "pandas")
    getattr(estimator_checks, check)("Preprocessor", clone(estimator))


def table(N=300, d=6, seed=0, holes=0.0):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((N, d)) * 10.0 ** np.arange(d) + 5.0
    X[rng.random(X.shape) < holes] = np.nan
    return X


def mad_scale(X):
    return median_abs_deviation(X, axis=0, scale="normal", nan_policy="omit")


def kinds(X, tmp_path):
    """The same rows in every form that is not in memory."""
    import pyarrow as pa
    import zarr

    mapped = np.memmap(tmp_path / "rows", dtype=X.dtype, mode="w+", shape=X.shape)
    mapped[:] = X
    stored = zarr.create_array(
        store=str(tmp_path / "rows.zarr"),
        overwrite=True,
        shape=X.shape,
        chunks=(64, X.shape[1]),
        dtype=X.dtype,
    )
    stored[:] = X
    names = [f"x{j}" for j in range(X.shape[1])]
    return {
        "memmap": mapped,
        "zarr": stored,
        "arrow": pa.table({name: X[:, j] for j, name in enumerate(names)}),
        "blocks": Blocks([X[:100], X[100:130], X[130:]]),
        "operator": Matrix(X),
    }


@pytest.mark.parametrize("holes", [0.0, 0.1])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_standard_is_that_of_scikit_learn(dtype, holes):
    X = table(holes=holes).astype(dtype)
    model = Preprocessor("standard", "impute").fit(X)
    oracle = StandardScaler().fit(X.astype(float))
    assert_allclose(model.center_, oracle.mean_, rtol=1e-12)
    assert_allclose(model.scale_, oracle.scale_, rtol=1e-12)
    assert model.n_filled_ == np.isnan(X).sum()
    filled = np.where(np.isnan(X), np.nanmedian(X.astype(float), axis=0), X)
    out = model.transform(X)
    assert out.dtype == dtype
    assert_allclose(out, oracle.transform(filled), rtol=1e-6 if dtype == np.float32 else 1e-12)


@pytest.mark.parametrize("holes", [0.0, 0.1])
def test_robust_is_median_and_mad(holes):
    X = table(holes=holes)
    model = Preprocessor("robust", "impute").fit(X)
    assert_allclose(model.center_, np.nanmedian(X, axis=0))
    assert_allclose(model.scale_, mad_scale(X), rtol=1e-12)
    assert_array_equal(model.fill_, model.center_)


def test_columns_without_spread_keep_their_scale():
    X = np.column_stack(
        [np.full(7, 0.1), np.arange(7.0), [3.0, 3, 3, 3, 3, 3, 10], [0.1 * 3, *[0.3] * 6]]
    )
    standard, robust = Preprocessor("standard").fit(X), Preprocessor("robust").fit(X)
    assert standard.scale_[0] == robust.scale_[0] == 1
    assert standard.scale_[3] == robust.scale_[3] == 1  # 0.1 * 3 differs from 0.3 by rounding
    assert_allclose(standard.scale_[1:3], X[:, 1:3].std(axis=0))
    # Six of seven are equal: the MAD is 0, and the seventh is 7 off.
    assert_allclose(robust.scale_[2], np.sqrt(1 / 7) * 7)
    assert np.abs(standard.transform(X)[:, 0]).max() < 1e-15


@pytest.mark.parametrize("share", [0.001, 0.1, 0.45])
def test_a_column_that_is_mostly_one_value(share):
    """Its scale is the deviation of what differs; wild cells do not move it, and it is not tiny."""
    rng = np.random.default_rng(0)
    x = np.where(rng.permutation(2000) < share * 2000, 3.0, 0.0)
    scale = Preprocessor("robust").fit(x[:, None]).scale_[0]
    assert scale == pytest.approx(np.sqrt((x**2).mean()))
    assert Preprocessor("robust").fit(sp.csr_array(x[:, None])).scale_[0] == pytest.approx(scale)
    if share > 0.01:
        wild = x.copy()
        wild[np.flatnonzero(x)[:10]] = 1e9
        assert Preprocessor("robust").fit(wild[:, None]).scale_[0] == pytest.approx(scale)
    assert Preprocessor("robust").fit(x[:, None] + 5).scale_[0] == pytest.approx(scale)


def test_an_offset_keeps_the_digits():
    small = np.random.default_rng(0).standard_normal((1000, 3))
    model = Preprocessor("standard").fit(small + 1e7)
    assert_allclose(model.scale_, small.std(axis=0), rtol=1e-7)
    narrow = (small * 100 + 1e6).astype(np.float32)
    out = Preprocessor("standard").fit_transform(narrow)
    wide = narrow.astype(float)
    assert_allclose(out, (wide - wide.mean(axis=0)) / wide.std(axis=0), atol=1e-6)


@pytest.mark.parametrize("estimator", EVERY, ids=str)
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_there_and_back(estimator, dtype):
    X = table(holes=0.1 if estimator.missing == "impute" else 0.0).astype(dtype)
    model = clone(estimator).fit(X)
    filled = X if model.fill_ is None else np.where(np.isnan(X), model.fill_, X)
    back = model.inverse_transform(model.transform(X))
    assert back.dtype == dtype
    assert_allclose(back, filled, rtol=1e-5 if dtype == np.float32 else 1e-12, atol=1e-5)


def test_missing_cells_are_counted_and_named():
    pandas = pytest.importorskip("pandas")
    X = pandas.DataFrame(table(50, 4), columns=["age", "height", "weight", "shoe"])
    X.loc[3:7, "height"] = np.nan
    X.loc[3, "age"] = np.nan
    for scaling in SCALINGS:
        with pytest.raises(
            ValueError, match=r"6 missing .*5 of 50 rows.*'height' \(5\), 'age' \(1\);.*impute"
        ):
            Preprocessor(scaling).fit(X)
    model = Preprocessor("standard").fit(X.iloc[10:])
    with pytest.raises(ValueError, match=r"6 missing .*5 of 50 rows"):
        model.transform(X)
    with pytest.raises(ValueError, match=r"2 missing .*column 1 \(2\)"):
        Preprocessor().fit([[1.0, np.nan], [2.0, np.nan], [3.0, 4.0]])


@pytest.mark.parametrize("estimator", EVERY, ids=str)
def test_infinite_values_are_always_refused(estimator):
    X = table(40, 3)
    model = clone(estimator).fit(X)
    X[3, 2] = np.inf
    X[4, 2] = -np.inf
    for method in (clone(estimator).fit, model.transform):
        with pytest.raises(ValueError, match=r"2 infinite values .*column 2 \(2\)"):
            method(X)
    with pytest.raises(ValueError, match=r"2 infinite values .*column 2 \(2\)"):
        clone(estimator).fit(sp.csr_array(X))


def test_what_cannot_be_learnt_is_refused():
    X = table(30, 3)
    X[:, 1] = np.nan
    with pytest.raises(ValueError, match="1 columns of X have no value but NaN: column 1; drop"):
        Preprocessor(missing="impute").fit(X)
    with pytest.raises(NotFittedError):
        Preprocessor().transform(X)
    with pytest.raises(ValueError, match="inverse_transform expects 2"):
        Preprocessor().fit(np.eye(2)).inverse_transform(np.eye(3))
    with pytest.raises(TypeError, match="columns are implicit"):
        Preprocessor().fit(Kernel.from_matrix(np.eye(3)))
    with pytest.raises(TypeError, match="no rows"):
        Preprocessor("standard").fit(np.eye(3)).inverse_transform(Kernel.from_matrix(np.eye(3)))


def forms(X):
    """Rows in memory, sparse, and in blocks of both kinds."""
    thirds = np.array_split(X, 3)
    return [
        X,
        sp.csr_array(X),
        sp.csc_array(X),
        Blocks(thirds),
        Blocks([sp.csr_array(A) for A in thirds]),
    ]


@pytest.mark.parametrize("holes", [0.0, 0.2])
@pytest.mark.parametrize("power", [-1000, -700, 0, 700, 1000])
def test_tiny_and_huge_columns_are_scaled_as_others_are(power, holes):
    X = table(60, 3, holes=holes)
    X[rng_mask(X.shape)] = 0.0
    unit = 2.0**power  # all numbers are those of X but for their exponents
    for scaling in ("standard", "robust"):
        for plain, scaled in zip(forms(X), forms(X * unit), strict=True):
            known = Preprocessor(scaling, "impute").fit(plain)
            model = Preprocessor(scaling, "impute").fit(scaled)
            assert_array_equal(model.scale_, known.scale_ * unit)
            assert_array_equal(model.fill_, known.fill_ * unit)
            if known.center_ is not None:
                assert_array_equal(model.center_, known.center_ * unit)
            out, expected = model.transform(scaled), known.transform(plain)
            if isinstance(out, Operator):
                out, expected = out.todense(), expected.todense()
            out, expected = (A.toarray() if sp.issparse(A) else A for A in (out, expected))
            assert_array_equal(out, expected)


def rng_mask(shape):
    return np.random.default_rng(7).random(shape) < 0.3


def test_a_tiny_column_is_not_divided_by_zero():
    X = np.array([[1.0], [2.0], [4.0]])
    out = Preprocessor("standard").fit_transform(1e-200 * X)
    assert_allclose(out, StandardScaler().fit_transform(X), rtol=1e-12)


def test_tiny_and_huge_columns_keep_apart():
    X = table(60, 3)
    units = np.array([1e-250, 1.0, 1e250])
    for plain, scaled in zip(forms(X), forms(X * units), strict=True):
        known = Preprocessor("standard").fit(plain).scale_
        assert_allclose(Preprocessor("standard").fit(scaled).scale_ / units, known, rtol=1e-12)


@pytest.mark.parametrize("scaling", ["standard", "robust"])
def test_spread_below_the_digits_of_float64_is_none(scaling):
    X = np.zeros((100, 3))
    X[:40, 0], X[3, 1], X[::2, 2] = 5e-324, 5e-324, 1e-310
    for data in forms(X):
        model = Preprocessor(scaling).fit(data)
        assert_array_equal(model.scale_, 1.0)


@pytest.mark.parametrize("scaling", ["standard", "robust"])
@pytest.mark.parametrize("split", [1, 2, 3])
def test_differences_that_overflow_are_refused(scaling, split):
    X = np.array([[1.0, 1.5e308], [2.0, -1.5e308], [3.0, -1.5e308], [4.0, 1.5e308]])
    for data in (X, Blocks([X[:split], X[split:]])):
        with pytest.raises(ValueError, match=r"column 1 are too large .*divide X by"):
            Preprocessor(scaling).fit(data)
    with pytest.raises(ValueError, match="column 0 are too large"):
        Preprocessor(missing="impute").fit([[1.7e308], [1.7e308]])  # whose median is not computed


def with_zeros(N=200, seed=1):
    """Columns from nearly empty to full; NaN is stored."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((N, 6)) * [1, 2, 3, 4, 5, 6] + [0, 0, 0, 0, 0, 9]
    X[rng.random(X.shape) > [0.02, 0.2, 0.45, 0.6, 0.9, 1.0]] = 0.0
    return X


@pytest.mark.parametrize("form", [sp.csr_array, sp.csc_array, sp.csr_matrix, sp.coo_array])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_sparse_is_scaled_as_dense_would_be_and_not_centred(form, dtype):
    X = with_zeros().astype(dtype)
    for scaling in ("standard", "robust"):
        model, dense = Preprocessor(scaling).fit(form(X)), Preprocessor(scaling).fit(X)
        assert model.center_ is None
        assert_allclose(model.scale_, dense.scale_, rtol=1e-12)
        out = model.transform(form(X))
        assert sp.issparse(out)
        assert out.dtype == dtype
        assert_allclose(out.toarray(), X / dense.scale_, rtol=1e-6)
        assert_allclose(model.inverse_transform(out).toarray(), X, rtol=1e-6)
    oracle = StandardScaler(with_mean=False).fit(sp.csr_array(X.astype(float)))
    assert_allclose(Preprocessor("standard").fit(form(X)).scale_, oracle.scale_, rtol=1e-12)


def test_missing_cells_of_sparse_data():
    X = with_zeros()
    X[[1, 5, 9], [0, 3, 5]] = np.nan
    S = sp.csr_array(X)
    with pytest.raises(ValueError, match=r"3 missing cells .* in 3 of 200 rows"):
        Preprocessor().fit(S)
    for scaling in SCALINGS:
        model = Preprocessor(scaling, "impute").fit(S)
        assert_allclose(model.fill_, np.nanmedian(X, axis=0))
        scale = 1.0 if model.scale_ is None else model.scale_
        for A in (S, S.tocsc()):
            out = model.transform(A)
            assert out.nnz == S.nnz
            assert_allclose(out.toarray(), np.where(np.isnan(X), model.fill_, X) / scale)
    assert_array_equal(S.toarray(), X)  # the user's is as it was
    with pytest.raises(ValueError, match="fitted on dense data"):
        Preprocessor("standard").fit(np.eye(6)).transform(sp.csr_array(np.eye(6)))


def test_a_sparse_matrix_that_stores_nothing():
    empty = sp.csr_array((5, 3))
    for scaling in ("standard", "robust"):
        prepared = Preprocessor(scaling=scaling).fit(empty)
        assert prepared.scale_.tolist() == [1.0, 1.0, 1.0]
        assert prepared.transform(empty).nnz == 0


def test_a_sparse_number_stored_in_parts_is_one_number():
    parts = sp.csr_array((np.array([1.0, 2.0, 3.0]), np.array([0, 0, 0]), np.array([0, 2, 3])))
    assert_allclose(Preprocessor("standard").fit(parts).scale_, [1.0])
    assert_allclose(Preprocessor("robust").fit(parts).transform(parts).toarray(), [[3.0], [3.0]])


@pytest.mark.parametrize("kind", ["memmap", "zarr", "arrow", "blocks", "operator"])
@pytest.mark.parametrize("estimator", EVERY, ids=str)
def test_what_is_not_in_memory_becomes_an_operator(estimator, kind, tmp_path):
    X = table(holes=0.1 if estimator.missing == "impute" else 0.0)
    data = kinds(X, tmp_path)[kind]
    inside, outside = clone(estimator).fit(X), clone(estimator).fit(data)
    for name in ("fill_", "center_", "scale_"):
        a, b = getattr(inside, name), getattr(outside, name)
        assert (a is None) == (b is None)
        if a is not None:
            assert_allclose(b, a, rtol=1e-12)
    out = outside.transform(data)
    assert isinstance(out, Operator)
    assert_allclose(out.todense(), inside.transform(X), rtol=1e-9, atol=1e-12)
    assert_allclose(out.take(np.array([3, 250])), inside.transform(X)[[3, 250]], atol=1e-9)
    named = kind == "arrow"
    assert (out.names == [f"x{j}" for j in range(6)]) if named else out.names is None
    assert hasattr(outside, "feature_names_in_") == named
    back = outside.inverse_transform(out)
    assert_allclose(back.todense(), inside.inverse_transform(inside.transform(X)), rtol=1e-9)


def test_infinity_and_gaps_in_a_file_are_found_as_they_are_read(tmp_path):
    good, bad = table(), table(holes=0.1)
    model = Preprocessor("standard").fit(kinds(good, tmp_path)["arrow"])
    out = model.transform(kinds(bad, tmp_path)["arrow"])
    with pytest.raises(ValueError, match=r"missing cells .*'x"):
        out.todense()
    with pytest.raises(ValueError, match=r"missing cells .* of 300 rows"):
        Preprocessor().fit(Blocks([bad[:50], bad[50:]]))


def test_numpy_may_ask_for_all_rows():
    X = table()
    out = Preprocessor("standard").fit_transform(Blocks([X]))
    assert_allclose(np.asarray(out), StandardScaler().fit_transform(X), atol=1e-12)
    assert_allclose(StandardScaler().fit(out).scale_, 1.0)
    sparse = Preprocessor().fit_transform(Blocks([sp.csr_array(X)]))
    with pytest.raises(TypeError, match="take"):
        np.asarray(sparse)


def test_medians_of_files_come_from_a_sample(monkeypatch):
    monkeypatch.setattr(module, "SAMPLE_ROWS", 2000)
    X = np.random.default_rng(0).standard_normal((20_000, 3)) * [1, 2, 3] + 4
    model = Preprocessor("robust").fit(Blocks([X[:9000], X[9000:]]))
    again = Preprocessor("robust").fit(Blocks([X]))
    assert_array_equal(model.center_, again.center_)
    assert not np.array_equal(model.center_, np.median(X, axis=0))
    assert_allclose(model.center_, np.median(X, axis=0), atol=0.2)
    assert_allclose(model.scale_, mad_scale(X), rtol=0.1)


def test_sparse_files_stay_sparse():
    X = with_zeros()
    blocks = Blocks([sp.csr_array(X[:80]), sp.csr_array(X[80:])])
    model = Preprocessor("standard").fit(blocks)
    out = model.transform(blocks)
    assert out.sparse
    assert model.center_ is None
    assert all(sp.issparse(block) for _, block in out.blocks())
    assert_allclose(out.todense(), X / X.std(axis=0))
    inside = PCA(2, tol=1e-10).fit(Preprocessor("standard").fit_transform(sp.csr_array(X)))
    assert_allclose(PCA(2, tol=1e-10).fit(out).components_, inside.components_, atol=1e-8)


@pytest.mark.parametrize("library", ["torch", "array_api_strict"])
def test_other_array_libraries(library):
    xp = pytest.importorskip(library)
    X = table(holes=0.1)
    model = Preprocessor("robust", "impute").fit(X)
    other = Preprocessor("robust", "impute").fit(xp.asarray(X))
    assert_allclose(other.scale_, model.scale_)
    out = other.transform(xp.asarray(X, dtype=xp.float32))
    assert type(out) is type(xp.asarray(X))
    assert out.dtype == xp.float32
    assert_allclose(np.asarray(out), model.transform(X), rtol=1e-4, atol=1e-5)
    back = np.asarray(other.inverse_transform(out)) - np.where(np.isnan(X), model.fill_, X)
    assert_allclose(back / model.scale_, 0.0, atol=1e-5)


def test_dask_arrays():
    da = pytest.importorskip("dask.array")
    X = table(holes=0.1)
    lazy = da.from_array(X, chunks=(70, 6))
    model, plain = (
        Preprocessor("robust", "impute").fit(lazy),
        Preprocessor("robust", "impute").fit(X),
    )
    assert_allclose(model.scale_, plain.scale_)
    scores = PCA(2, tol=1e-10).fit(model.transform(lazy))
    oracle = PCA(2, tol=1e-10).fit(plain.transform(X))
    assert_allclose(scores.components_, oracle.components_, atol=1e-8)


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_frames_with_gaps(library):
    frames = pytest.importorskip(library)
    X = frames.DataFrame({"count": [1, None, 3, 4], "size": [0.5, 1.5, None, 4.0]})
    if library == "pandas":
        X = X.astype({"count": "Int64"})  # whose gaps are NA
    model = Preprocessor("none", "impute").set_output(transform=library).fit(X)
    assert model.n_filled_ == 2
    out = model.transform(X)
    assert isinstance(out, frames.DataFrame)
    assert list(out.columns) == list(model.get_feature_names_out()) == ["count", "size"]
    assert_allclose(out.to_numpy(), [[1, 0.5], [3, 1.5], [3, 1.5], [4, 4.0]])


@pytest.mark.parametrize("library", ["pandas", "polars"])
@pytest.mark.parametrize("kind", ["memmap", "zarr", "arrow", "blocks"])
def test_set_output_leaves_what_is_not_in_memory_an_operator(library, kind, tmp_path):
    frames = pytest.importorskip(library)
    X = table()
    data = kinds(X, tmp_path)[kind]
    model = Preprocessor("standard").set_output(transform=library)
    for out in (model.fit_transform(data), model.transform(data)):
        assert isinstance(out, Operator)
        assert_allclose(out.todense(), StandardScaler().fit_transform(X), atol=1e-9)
    assert isinstance(
        Preprocessor().set_output(transform=library).fit_transform(X), frames.DataFrame
    )
    pipeline = make_pipeline(Preprocessor("standard"), PCA(2)).set_output(transform=library)
    scores = pipeline.fit(data).transform(data)
    assert isinstance(scores, frames.DataFrame)
    assert list(scores.columns) == ["pca0", "pca1"]


def test_inverse_transform_passes_gaps_of_every_kind():
    pandas = pytest.importorskip("pandas")
    model = Preprocessor("standard").fit([[1.0, 2.0], [3.0, 6.0]])
    rows = [[np.nan, 1.0], [0.0, np.nan]]
    for X in (rows, np.array(rows), pandas.DataFrame(rows)):
        assert_allclose(model.inverse_transform(X), [[np.nan, 6.0], [2.0, np.nan]])
    scaled = Preprocessor("standard").fit(sp.csr_array([[1.0, 2.0], [3.0, 6.0]]))
    back = scaled.inverse_transform(sp.csr_array(rows))
    assert_allclose(back.toarray(), [[np.nan, 2.0], [0.0, np.nan]])


def test_text_is_told_from_numbers():
    pandas = pytest.importorskip("pandas")
    with pytest.raises(ValueError, match="could not convert string"):
        Preprocessor().fit(pandas.DataFrame({"a": [1.0, 2.0], "b": ["x", "y"]}))


@pytest.mark.parametrize("streamed", [False, True])
def test_before_robust_pca_in_a_pipeline(streamed):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((300, 2)) @ rng.standard_normal((2, 8)) + 0.05 * rng.standard_normal(
        (300, 8)
    )
    X[:20] += 3 * rng.standard_normal((20, 8))
    scales = 10.0 ** np.arange(8)
    broken = X * scales
    broken[rng.random(X.shape) < 0.01] = np.nan
    data = Blocks([broken[:100], broken[100:]]) if streamed else broken
    pipeline = make_pipeline(Preprocessor("robust", "impute"), RobustPCA(2, random_state=0)).fit(
        data
    )
    flagged = pipeline.predict(data) < 0
    assert flagged[:20].all()
    assert flagged.mean() < 0.2
    assert pipeline[:1].get_feature_names_out()[0] == "x0"


def test_pickle_and_refit():
    X = table(holes=0.1)
    model = Preprocessor("robust", "impute").fit(X)
    copy = pickle.loads(pickle.dumps(model))
    assert_array_equal(copy.transform(X), model.transform(X))
    pa = pytest.importorskip("pyarrow")
    model.fit(pa.table({"a": [1.0, 2.0]}))
    assert list(model.feature_names_in_) == ["a"]
    model.fit(Matrix(np.eye(3)))
    assert not hasattr(model, "feature_names_in_")
    assert model.n_features_in_ == 3
