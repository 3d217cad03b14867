"""Masked arrays, dates and sparse indices out of range are refused at every door, before any work."""

import numpy as np
import pytest
import scipy.sparse as sp

from dualpca import (
    PCA,
    KernelPCA,
    Preprocessor,
    PrincipalComponentPursuit,
    RobustKernelPCA,
    RobustPCA,
    SparsePCA,
    as_operator,
    solve,
)
from dualpca.formulations import formulation as make_formulation

N, D = 40, 6
A = np.random.default_rng(0).standard_normal((N, D)) + np.arange(D)

ESTIMATORS = {
    "PCA": PCA(2),
    "KernelPCA": KernelPCA(2, kernel="rbf", fit_inverse_transform=True),
    "nystroem": KernelPCA(2, kernel="rbf", approximation="nystroem", n_landmarks=20),
    "RobustPCA": RobustPCA(2),
    "RobustKernelPCA": RobustKernelPCA(2, kernel="rbf"),
    "SparsePCA": SparsePCA(2, n_nonzero=3),
    "PrincipalComponentPursuit": PrincipalComponentPursuit(),
    "Preprocessor": Preprocessor("standard", "impute"),
}
FITTING = ("fit", "fit_transform", "partial_fit")
ROWS = ("transform", "score_samples", "score", "distances", "predict", "decision_function")
DOORS = [
    (name, method)
    for name, estimator in ESTIMATORS.items()
    for method in (*FITTING, *ROWS, "contributions", "inverse_transform")
    if hasattr(estimator, method)
]
WEIGHTED = ("PCA", "KernelPCA", "nystroem", "RobustPCA", "RobustKernelPCA", "SparsePCA")
SPARSE = tuple(name for name in ESTIMATORS if name != "PrincipalComponentPursuit")


def fresh(name):
    estimator = ESTIMATORS[name]
    return type(estimator)(**estimator.get_params(deep=False))


def door(name, method):
    """The method, of an estimator that was fitted where that is needed."""
    estimator = fresh(name)
    return getattr(estimator if method in FITTING else estimator.fit(A), method)


def scores_or_rows(name, method, rows):
    """What the method takes: all columns, or as many as there are components."""
    if method != "inverse_transform" or name == "Preprocessor":
        return rows
    return rows[:, : fresh(name).fit(A).transform(A).shape[1]]


def masked():
    mask = np.zeros(A.shape, dtype=bool)
    mask[3, 0] = True
    return np.ma.MaskedArray(A, mask=mask)


def dates():
    days = np.arange(N * D).reshape(N, D).astype("datetime64[D]")
    days[3, 0] = "NaT"
    return days


@pytest.mark.parametrize(("name", "method"), DOORS)
def test_a_mask_is_not_lost(name, method):
    X = scores_or_rows(name, method, masked())
    with pytest.raises(ValueError, match=r"1 entries are masked.*filled"):
        door(name, method)(X)


@pytest.mark.parametrize(("name", "method"), DOORS)
def test_missing_dates_are_no_numbers(name, method):
    X = scores_or_rows(name, method, dates())
    with pytest.raises(ValueError, match=r"type datetime64\[D\].*NaT is NaN"):
        door(name, method)(X)


@pytest.mark.parametrize("name", WEIGHTED)
@pytest.mark.parametrize(
    ("weights", "told"),
    [(np.ma.masked_less(np.arange(N), 3), "masked"), (dates()[:, 0], "datetime64")],
)
def test_weights_are_numbers_too(name, weights, told):
    with pytest.raises(ValueError, match=f"^sample_weight .*{told}"):
        fresh(name).fit(A, sample_weight=weights)


def objects():
    """NaT of numpy among Python objects, which float() would take for a number."""
    cells = A.astype(object)
    cells[3, 0] = np.datetime64("NaT")
    return cells


def frame(library):
    days = dates()[:, 0].astype("datetime64[ns]")
    return pytest.importorskip(library).DataFrame({"a": A[:, 0], "b": A[:, 1], "day": days})


@pytest.mark.parametrize(
    "make",
    [
        objects,
        lambda: objects().tolist(),
        lambda: dates() - dates()[0, 1],
        lambda: list(dates()),
        lambda: frame("pandas"),
        lambda: frame("polars"),
    ],
    ids=["objects", "lists", "durations", "list of rows", "pandas", "polars"],
)
@pytest.mark.parametrize("name", ["PCA", "Preprocessor"])
def test_dates_in_other_clothes(make, name):
    with pytest.raises(ValueError, match=r"(?i)type (date|time).*NaT is NaN"):
        fresh(name).fit(make())


def test_masked_rows_in_a_list():
    with pytest.raises(ValueError, match="masked"):
        PCA(2).fit(list(masked()))


def test_the_remedies_work():
    pca = PCA(2).fit(np.ma.compress_rows(masked()))
    np.testing.assert_allclose(pca.mean_, np.delete(A, 3, axis=0).mean(axis=0))
    filled = Preprocessor(missing="impute").fit(masked().filled(np.nan))
    assert filled.n_filled_ == 1
    days = (dates() - np.datetime64("2000-01-01")) / np.timedelta64(1, "D")
    assert np.isnan(days[3, 0])
    assert np.isnan(days).sum() == 1


def test_a_mask_that_hides_nothing_is_no_obstacle():
    X = np.ma.MaskedArray(A, mask=np.zeros(A.shape, dtype=bool))
    np.testing.assert_array_equal(PCA(2).fit(X).components_, PCA(2).fit(A).components_)
    image = as_operator(X) @ np.eye(D)
    assert type(image) is np.ndarray
    np.testing.assert_array_equal(image, A)


@pytest.mark.parametrize("wrap", [lambda X: X, lambda X: [X, X]], ids=["array", "blocks"])
@pytest.mark.parametrize("make", [masked, dates, lambda: broken("csr", "beyond")])
def test_operators_refuse_them_as_well(wrap, make):
    with pytest.raises(ValueError, match=r"masked|datetime64|broken indices"):
        as_operator(wrap(make()))


def test_solve_refuses_them_as_well():
    with pytest.raises(ValueError, match="masked"):
        solve(make_formulation("l", masked()), s=2)


def broken(kind, how):
    """A sparse matrix with indices as a file or a cast may leave them."""
    X = sp.csr_array(np.where(np.abs(A) > 1, A, 0)).asformat(kind)
    size = X.shape[0] if kind == "csc" else X.shape[1]
    if kind == "coo":
        X.coords[1][5] = {"beyond": size, "negative": -1}[how]
    elif how in ("beyond", "negative"):
        X.indices[5] = {"beyond": size, "negative": -1}[how]
    elif how == "falling":
        X.indptr[2] = X.indptr[3] + 1
    elif how == "too long":
        X.indptr[-1] += 7
    else:
        X.indptr[0] = 1
    return X


BROKEN = [
    (kind, how)
    for kind in ("csr", "csc", "bsr", "coo")
    for how in ("beyond", "negative", "falling", "too long", "late")
    if kind != "coo" or how in ("beyond", "negative")
]


@pytest.mark.parametrize(("kind", "how"), BROKEN)
def test_sparse_indices_out_of_range(kind, how):
    with pytest.raises(ValueError, match=r"broken indices.*coo_array"):
        PCA(2).fit(broken(kind, how))


@pytest.mark.parametrize("kind", ["csr", "csc"])
@pytest.mark.parametrize("name", SPARSE)
def test_sparse_indices_at_every_door(name, kind):
    model = fresh(name)
    if name == "KernelPCA":
        model.set_params(fit_inverse_transform=False)  # which needs dense rows
    model.fit(sp.csr_array(A))
    for method in ("fit", "transform"):
        with pytest.raises(ValueError, match="broken indices"):
            getattr(model, method)(broken(kind, "beyond"))


@pytest.mark.parametrize("center", [True, False])
def test_a_sparse_file_that_is_only_read(tmp_path, center):
    whole = sp.csr_array(np.where(np.abs(A) > 1, A, 0))
    parts = []
    for name in ("data", "indices", "indptr"):
        np.save(tmp_path / name, getattr(whole, name))
        parts.append(np.load(tmp_path / f"{name}.npy", mmap_mode="r"))
    X = sp.csr_array(tuple(parts), shape=whole.shape)
    assert not X.indices.flags.writeable
    found, expected = (PCA(2, center=center, tol=1e-10).fit(Z) for Z in (X, whole.toarray()))
    np.testing.assert_allclose(found.explained_variance_, expected.explained_variance_, rtol=1e-8)
    np.testing.assert_allclose(found.transform(X), expected.transform(whole.toarray()), atol=1e-6)


@pytest.mark.parametrize("kind", ["csr", "csc"])
def test_memory_beyond_the_last_entry_is_not_counted(kind):
    X = sp.csr_array(np.where(np.abs(A) > 1, A, 0)).asformat(kind)
    dense = X.toarray()
    X.data, X.indices = np.append(X.data, [50.0, 70.0]), np.append(X.indices, [0, 10**6])
    for center in (True, False):
        found, expected = (PCA(2, center=center).fit(Z) for Z in (X, dense))
        np.testing.assert_allclose(
            found.explained_variance_ratio_, expected.explained_variance_ratio_, rtol=1e-6
        )
