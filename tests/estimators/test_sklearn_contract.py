"""scikit-learn's own checks on every estimator, with no expected failure, and its tools around them."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose, assert_array_equal
from sklearn import config_context
from sklearn.base import clone
from sklearn.compose import ColumnTransformer
from sklearn.datasets import load_iris
from sklearn.decomposition import KernelPCA as Oracle
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression
from sklearn.metrics.pairwise import linear_kernel
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import FeatureUnion, make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils import estimator_checks
from sklearn.utils.estimator_checks import parametrize_with_checks
from tests.loops import over

from dualpca import (
    PCA,
    DeepKernelPCA,
    KernelPCA,
    KernelSVD,
    PrincipalComponentPursuit,
    RobustKernelPCA,
    RobustPCA,
    SparsePCA,
)
from dualpca.solvers import ZeroFPR

ESTIMATORS = [
    PCA(),
    PCA(n_components=1, formulation="n"),
    PCA(solver="gram"),
    PCA(solver="lapack"),
    PCA(solver="krylov"),
    PCA(n_components=1, solver="zerofpr"),
    PCA(n_components=1, solver=ZeroFPR(memory=3), formulation="o"),
    PCA(whiten=True),
    PCA(rotation="promax", whiten=True),
    PCA(center=False),
    KernelPCA(),
    KernelPCA(kernel="rbf"),
    KernelPCA(kernel="precomputed"),
    KernelPCA(n_components=1, kernel="poly", solver="dca"),
    KernelPCA(n_components=1, kernel="rbf", formulation="n"),
    KernelPCA(n_components=1, kernel="precomputed", formulation="o", solver="zerofpr"),
    KernelPCA(kernel="rbf", center=False),
    KernelPCA(kernel="rbf", solver="krylov"),
    KernelPCA(kernel="rbf", approximation="nystroem", n_landmarks=2),
    KernelPCA(2, kernel="rbf", approximation="rff", n_random_features=50),
    KernelPCA(2, kernel="rbf", approximation="orf", n_random_features=50, center=False),
    DeepKernelPCA(),
    DeepKernelPCA([{"n_components": 3, "kernel": "rbf"}, {"n_components": 1, "kernel": "poly"}]),
    DeepKernelPCA(
        [{"n_components": 2, "kernel": "rbf", "approximation": "rff", "n_random_features": 50}]
    ),
    KernelSVD(2),
    KernelSVD(1, kernel="exp", gamma=0.01, center=False),
    RobustKernelPCA(contamination=0.1),
    RobustKernelPCA(1, kernel="linear", contamination=0.1, center="geometric_median"),
    RobustKernelPCA(1, kernel="precomputed", contamination=0.1),
    RobustKernelPCA(1, approximation="nystroem", n_landmarks=2, contamination=0.1),
    RobustKernelPCA(1, approximation="rff", n_random_features=50, contamination=0.1),
    RobustPCA(),
    RobustPCA(contamination=0.1),
    RobustPCA(contamination=0.1, rotation="varimax"),
    RobustPCA(n_components=1, center="geometric_median", init="spherical", contamination=0.1),
    RobustPCA(n_components=1, solver="dual", normalize=False, refit=False, contamination=0.1),
    RobustPCA(
        n_components=1,
        contamination=0.1,
        loss="l1",
        normalize=False,
        center=None,
        init="random",
        refit=False,
        solver="dca",
    ),
    SparsePCA(1),
    SparsePCA(1, rotation="quartimax"),
    SparsePCA(1, deflation="schur", positive=True),
    SparsePCA(1, method="block", penalty="l0"),
    SparsePCA(1, method="reconstruction", n_nonzero=1),
    SparsePCA(1, penalty="l1", center=False),
    PrincipalComponentPursuit(),
]

# The default of each class, and one for each way through its fit.
CHECKED = [
    PCA(),
    PCA(n_components=1, formulation="n"),
    PCA(solver="krylov"),
    KernelPCA(),
    KernelPCA(kernel="precomputed"),
    KernelPCA(n_components=1, kernel="rbf", formulation="n"),
    KernelPCA(kernel="rbf", approximation="nystroem", n_landmarks=2),
    DeepKernelPCA([{"n_components": 2, "kernel": "rbf"}, {"n_components": 1, "kernel": "poly"}]),
    KernelSVD(),
    KernelSVD(1, kernel="exp", gamma=1e-3),
    RobustKernelPCA(contamination=0.1),
    RobustKernelPCA(1, kernel="precomputed", contamination=0.1),
    RobustPCA(),
    RobustPCA(n_components=1, solver="dual", normalize=False, refit=False, contamination=0.1),
    SparsePCA(),
    SparsePCA(1, method="block", penalty="l0"),
    SparsePCA(1, method="reconstruction", positive=True),
    PrincipalComponentPursuit(),
]

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
    "check_get_feature_names_out_error",
    "check_inplace_ensure_writeable",
    "check_n_features_in",
    "check_n_features_in_after_fitting",
    "check_readonly_memmap_input",
    "check_transformer_n_iter",
]

# The checks themselves fit data frames and transform plain arrays, and the other way round.
DOUBT = "ignore:(two starts found|.* of the rows are flagged):UserWarning"
NOTHING_LEFT = "ignore:no variance was left:UserWarning"
UNNAMED = "ignore:X (does not have valid|has) feature names:UserWarning"


def name_of(estimator):
    return " ".join(repr(estimator).split())


def arbitrary(estimator):
    """Checks that compare directions without variance, which every solver may choose as it likes.

    All components are asked for, of fewer rows than features: the same rows twice have more of them.
    Or more digits are compared than ``tol`` asks for, of iterates that start in R^n_samples. The
    equivalence itself is a law in test_weights.py.

    And checks that give no kernel matrix where one is asked for.
    """
    return _compared(estimator) | _no_kernel(estimator)


def _no_kernel(estimator):
    if getattr(estimator, "kernel", None) != "precomputed":
        return {}
    if isinstance(estimator, RobustKernelPCA):
        return {
            "check_outliers_fit_predict": "it fits rows; the check is run with their kernels below"
        }
    if estimator.n_components is None:
        cut = "a kernel matrix cut to integers has negative eigenvalues: scikit-learn's refuses it too"
        return {"check_estimators_dtypes": cut}
    return {}


def _compared(estimator):
    if isinstance(estimator, KernelPCA) and estimator.approximation is None:
        reason = "directions without variance are arbitrary; tol=1e-4 leaves other digits"
    elif isinstance(estimator, (KernelPCA, RobustKernelPCA)):
        reason = "landmarks, features and starts are drawn at random"
    elif isinstance(estimator, RobustPCA):
        reason = (
            "starts draw rows at random; what they converge to is compared in test_robust_pca.py"
        )
    elif isinstance(estimator, SparsePCA) and estimator.n_components is None:
        reason = "the number of components is that of the rows, which are repeated"
    elif not isinstance(estimator, PCA):
        return {}
    elif estimator.n_components is None:
        reason = "directions without variance are arbitrary"
    elif estimator.formulation == "o":
        reason = "tol=1e-4 leaves other digits after another start"
    else:
        return {}
    kinds = ("dense", "sparse")
    failed = {f"check_sample_weight_equivalence_on_{kind}_data": reason for kind in kinds}
    robust = isinstance(estimator, (RobustPCA, RobustKernelPCA))
    if robust and estimator.contamination == "auto":
        clean = "three blobs without an outlier have to have one here"
        outliers = ("train", "train(readonly_memmap=True)", "fit_predict")
        failed |= {f"check_outliers_{check}": clean for check in outliers}
    return failed


@pytest.mark.filterwarnings(DOUBT, NOTHING_LEFT)
@parametrize_with_checks(CHECKED, expected_failed_checks=arbitrary)
def test_checks_of_scikit_learn(estimator, check):
    check(estimator)


@pytest.mark.slow
@parametrize_with_checks([DeepKernelPCA()])
def test_checks_of_scikit_learn_that_take_long(estimator, check):
    check(estimator)


@pytest.mark.filterwarnings(DOUBT)
def test_the_check_of_fit_predict_with_kernels_of_its_rows(monkeypatch):
    rows = estimator_checks.shuffle
    monkeypatch.setattr(
        estimator_checks, "shuffle", lambda X, **options: linear_kernel(rows(X, **options))
    )
    model = RobustKernelPCA(1, kernel="precomputed", contamination=0.1)
    estimator_checks.check_outliers_fit_predict("RobustKernelPCA", model)


def test_the_check_of_types_refuses_what_is_no_kernel_in_scikit_learn_too():
    for model in (KernelPCA(kernel="precomputed"), Oracle(kernel="precomputed")):
        with pytest.raises(ValueError, match=r"eigenvalue"):
            estimator_checks.check_estimators_dtypes("KernelPCA", model)


@pytest.mark.slow
@pytest.mark.filterwarnings(UNNAMED, DOUBT, NOTHING_LEFT)
@pytest.mark.parametrize("check", KEPT_APART)
@pytest.mark.parametrize("estimator", [*CHECKED, DeepKernelPCA()], ids=name_of)
def test_checks_that_scikit_learn_keeps_apart(estimator, check):
    pytest.importorskip("polars" if "polars" in check else "pandas")
    getattr(estimator_checks, check)(type(estimator).__name__, clone(estimator))


@pytest.mark.parametrize("library", ["numpy", "torch", "array_api_strict"])
@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("estimator", [e for e in ESTIMATORS if isinstance(e, PCA)], ids=name_of)
def test_array_api_values(estimator, library, dtype):
    pytest.importorskip(library)
    # Two components, because the data of this check has directions without variance; a tolerance
    # that float32 passes do not serve, because these differ between libraries by their rounding.
    estimator = clone(estimator).set_params(n_components=2)
    if estimator.solver == "krylov" and dtype == "float64":
        estimator.set_params(tol=1e-10)
    estimator_checks.check_array_api_input_and_values(
        "PCA",
        estimator,
        array_namespace=library,
        dtype_name=dtype,
    )


def seeded(estimator):
    return clone(estimator).set_params(random_state=0)


def data_for(estimator):
    X = load_iris().data[::3]
    return X @ X.T if getattr(estimator, "kernel", None) == "precomputed" else X


def attributes(estimator):
    return {k: v for k, v in vars(estimator).items() if k.endswith("_")}


@pytest.mark.parametrize("estimator", ESTIMATORS, ids=name_of)
def test_dispatch_of_array_libraries_changes_nothing_for_numpy(estimator):
    X = data_for(estimator)
    plain = seeded(estimator).fit_transform(X)
    with config_context(array_api_dispatch=True):
        assert_array_equal(seeded(estimator).fit_transform(X), plain)


@pytest.mark.parametrize("estimator", ESTIMATORS, ids=name_of)
def test_clone_and_pickle(estimator):
    X = data_for(estimator)
    model = seeded(estimator).fit(X)
    copy = pickle.loads(pickle.dumps(model))
    assert_allclose(copy.transform(X), model.transform(X), atol=1e-12)
    assert attributes(copy).keys() == attributes(model).keys()
    fresh = clone(model)
    assert fresh.get_params() == model.get_params()
    assert not attributes(fresh)
    assert_allclose(fresh.fit(X).transform(X), model.transform(X), atol=1e-12)


def test_pickle_of_an_estimator_with_a_solver_and_torch_data():
    torch = pytest.importorskip("torch")
    X = torch.asarray(load_iris().data)
    model = PCA(2, solver=ZeroFPR(memory=3), random_state=0).fit(X)
    copy = pickle.loads(pickle.dumps(model))
    assert copy.solver == ZeroFPR(memory=3)
    assert torch.equal(copy.transform(X), model.transform(X))


def test_refitting_forgets_the_first_data():
    rng = np.random.default_rng(0)
    A, B = rng.standard_normal((30, 6)), rng.standard_normal((20, 4))
    for estimator in (PCA(2), KernelPCA(2, kernel="rbf")):
        twice, once = clone(estimator).fit(A).fit(B), clone(estimator).fit(B)
        assert twice.n_features_in_ == 4
        assert_allclose(twice.transform(B), once.transform(B), atol=1e-12)


@pytest.mark.parametrize(
    ("estimator", "grid"),
    [
        (PCA(), {"n_components": [1, 2, 0.9], "solver": ["lapack", "gram"]}),
        (PCA(2, random_state=0), {"formulation": [None, "n", "o"], "whiten": [True, False]}),
        (KernelPCA(2, kernel="rbf"), {"gamma": [0.01, 1.0], "kernel": ["rbf", "linear"]}),
        (KernelPCA(2, solver="dca", random_state=0), {"formulation": ["n", "m"]}),
    ],
    ids=["PCA", "PCA formulations", "KernelPCA", "KernelPCA formulations"],
)
def test_grid_search_over_a_pipeline(estimator, grid):
    X, y = load_iris(return_X_y=True)
    name = type(estimator).__name__.lower()
    pipeline = make_pipeline(StandardScaler(), estimator, LogisticRegression())
    search = GridSearchCV(pipeline, {f"{name}__{k}": v for k, v in grid.items()}, cv=3)
    search.fit(X, y)
    assert np.all(np.isfinite(search.cv_results_["mean_test_score"]))
    assert search.score(X, y) > 0.8
    assert search.best_estimator_[:-1].get_feature_names_out()[0] == f"{name}0"


def test_grid_search_of_a_precomputed_kernel_takes_both_sides_of_each_fold():
    X, y = load_iris(return_X_y=True)
    pipeline = make_pipeline(KernelPCA(2, kernel="precomputed"), LogisticRegression())
    linear = make_pipeline(KernelPCA(2, kernel="linear"), LogisticRegression())
    precomputed = cross_val_score(pipeline, X @ X.T, y, cv=3)
    assert_allclose(precomputed, cross_val_score(linear, X, y, cv=3), atol=1e-12)


def test_cross_validated_likelihood_finds_the_rank():
    rng = np.random.default_rng(0)
    X = 5 * rng.standard_normal((200, 3)) @ rng.standard_normal((3, 12))
    search = GridSearchCV(PCA(), {"n_components": [1, 2, 3, 6, 9]}, cv=3)
    search.fit(X + rng.standard_normal((200, 12)))
    assert search.best_params_ == {"n_components": 3}


def test_inside_unions_and_column_transformers():
    X = load_iris().data
    union = FeatureUnion([("linear", PCA(2)), ("rbf", KernelPCA(3, kernel="rbf"))])
    assert union.fit_transform(X).shape == (150, 5)
    expected = ["linear__pca0", "linear__pca1", *(f"rbf__kernelpca{i}" for i in range(3))]
    assert list(union.get_feature_names_out()) == expected
    columns = ColumnTransformer([("a", PCA(1), [0, 1]), ("b", PCA(1), [2, 3])])
    assert_allclose(columns.fit_transform(X)[:, :1], PCA(1).fit_transform(X[:, :2]))


@pytest.mark.parametrize("library", ["pandas", "polars"])
@pytest.mark.parametrize(
    "estimator", [PCA(2), PCA(2, formulation="n"), KernelPCA(2, kernel="rbf")], ids=name_of
)
def test_frames_in_and_out(estimator, library):
    frames = pytest.importorskip(library)
    data = load_iris()
    table = frames.DataFrame({n: data.data[:, i] for i, n in enumerate(data.feature_names)})
    model = seeded(estimator).set_output(transform=library)
    out = model.fit_transform(table)
    assert isinstance(out, frames.DataFrame)
    assert list(out.columns) == list(model.get_feature_names_out())
    assert_array_equal(model.feature_names_in_, data.feature_names)
    assert_allclose(out.to_numpy(), seeded(estimator).fit_transform(data.data), atol=1e-9)
    assert_allclose(model.transform(table[:5]).to_numpy(), out.to_numpy()[:5], atol=1e-9)


def test_frames_keep_their_index():
    pandas = pytest.importorskip("pandas")
    table = pandas.DataFrame(load_iris().data, index=[f"flower {i}" for i in range(150)])
    table.columns = ["a", "b", "c", "d"]
    for estimator in (PCA(2), KernelPCA(2)):
        out = estimator.set_output(transform="pandas").fit_transform(table)
        assert list(out.index) == list(table.index)


@pytest.mark.filterwarnings(DOUBT)
def test_sparse_tag_tells_the_truth():
    X = sp.csr_array(load_iris().data)
    for estimator in ESTIMATORS:
        if estimator.__sklearn_tags__().input_tags.sparse:
            assert clone(estimator).fit(X).n_features_in_ == 4
        else:
            with pytest.raises((TypeError, ValueError), match=r"(?i)sparse"):
                clone(estimator).fit(X)


@over("estimator", ESTIMATORS)
def test_unfitted(estimator):
    with pytest.raises(NotFittedError):
        clone(estimator).transform(data_for(estimator))
    with pytest.raises(NotFittedError):
        clone(estimator).get_feature_names_out()
