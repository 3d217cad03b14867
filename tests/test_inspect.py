"""FittedModel: what it says of a model is what the estimator says."""

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.exceptions import NotFittedError
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from dualpca import PCA, KernelPCA, Preprocessor, RobustKernelPCA, RobustPCA, SparsePCA, as_operator
from dualpca.inspect import FittedModel, sample_rows, take_rows


def rows(n=80, d=6, bad=8):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n, 2)) @ rng.standard_normal((2, d))
    X += 0.1 * rng.standard_normal(X.shape)
    X[:bad] += 5 * rng.standard_normal((bad, d))
    return X


X = rows()


@pytest.mark.parametrize("flag", ["orthogonal", "score", "density"])
def test_distances_flags_and_limits_agree_with_predict(flag):
    pipeline = make_pipeline(Preprocessor("robust"), RobustPCA(2, flag=flag, random_state=0)).fit(X)
    model, Z = FittedModel(pipeline), pipeline[0].transform(X)
    measured = model.distances(X)
    assert_array_equal(measured.flagged, pipeline[-1].predict(Z) == -1)
    assert_allclose(measured.normality, pipeline[-1].score_samples(Z))
    for distances, known in zip(measured[:2], pipeline[-1].distances(Z), strict=True):
        assert_allclose(distances, known)
    size2 = sum(
        (distances / limit) ** 2
        for limit, distances in zip(model.limits.values(), measured[:2], strict=True)
        if limit is not None
    )
    assert_array_equal(size2 > 1, measured.flagged)
    assert_allclose(model.reconstruct(X), pipeline.inverse_transform(pipeline.transform(X)))
    assert_allclose(model.scores(X), pipeline.transform(X))


def test_training_rows_are_those_of_the_fit():
    estimator = RobustPCA(2, random_state=0).fit(X)
    measured = FittedModel(estimator).distances()
    assert_array_equal(measured.flagged, estimator.outliers_)
    assert_array_equal(measured.orthogonal, estimator.orthogonal_distances_)


def test_names_come_from_the_argument_the_fit_or_are_counted():
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(X, columns=list("abcdef"))
    assert FittedModel(PCA(2).fit(frame)).feature_names == list("abcdef")
    scaled = make_pipeline(StandardScaler(), PCA(2)).fit(frame)
    assert FittedModel(scaled).feature_names == FittedModel(scaled).input_names == list("abcdef")
    assert FittedModel(PCA(2).fit(X)).feature_names == [f"x{j}" for j in range(6)]
    assert FittedModel(PCA(2).fit(X)).input_names is None
    named = FittedModel(PCA(2).fit(frame), list("uvwxyz"))
    assert {name for name, _ in named.leading(0, 6)} == set("uvwxyz")
    with pytest.raises(ValueError, match="feature_names has length 1 for 6 variables"):
        FittedModel(PCA(2).fit(X), ["a"])


def test_leading_loadings_are_the_largest_that_are_not_zero():
    model = FittedModel(SparsePCA(2, n_nonzero=3, random_state=0).fit(X))
    leading = model.leading(0, 6)
    assert len(leading) == 3
    sizes = [abs(loading) for _, loading in leading]
    assert sizes == sorted(sizes, reverse=True)
    for name, loading in leading:
        assert loading == model.loadings[0, int(name[1:])]


@pytest.mark.parametrize("approximation", [None, "nystroem", "rff"])
def test_plain_shares_are_in_the_same_feature_space(approximation):
    options = {"gamma": 0.05, "approximation": approximation, "n_landmarks": 80}
    robust = RobustKernelPCA(3, **options, random_state=0).fit(X)
    plain = FittedModel(robust).plain_shares(X)
    assert plain.shape == (3,)
    if approximation != "rff":
        oracle = KernelPCA(3, kernel="rbf", gamma=0.05, solver="lapack").fit(X)
        assert_allclose(plain, oracle.explained_variance_ratio_, rtol=1e-4)


def test_precomputed_kernels_measure_their_training_rows_only():
    K = X @ X.T
    model = FittedModel(RobustKernelPCA(2, kernel="precomputed", random_state=0).fit(K))
    assert_array_equal(model.distances(K).flagged, model.estimator.outliers_)
    assert not model.is_invertible
    with pytest.raises(ValueError, match="give the matrix of the fit"):
        model.distances(K[:5])


def test_models_that_are_not_fitted_are_refused():
    for model in (PCA(2), make_pipeline(StandardScaler(), PCA(2))):
        with pytest.raises(NotFittedError):
            FittedModel(model)


@pytest.mark.parametrize(
    "kind", [np.asarray, sp.csr_array, sp.coo_array, as_operator, np.ndarray.tolist]
)
def test_rows_are_taken_in_the_order_asked_for(kind):
    taken = take_rows(kind(X), [5, 2, 5])
    dense = taken.toarray() if sp.issparse(taken) else np.asarray(taken)
    assert_array_equal(dense, X[[5, 2, 5]])


def test_a_sample_holds_the_rows_that_must_be_there():
    always, others = np.array([3, 9]), np.arange(10, 50)
    chosen = sample_rows(always, others, 5, np.random.default_rng(0))
    assert len(chosen) == len(set(chosen)) == 7
    assert {3, 9} <= set(chosen)
    assert (np.diff(chosen) > 0).all()
    assert_array_equal(sample_rows(always, others, 99, np.random.default_rng(0)), [3, 9, *others])


@pytest.mark.parametrize(
    "estimator",
    [
        PCA(2),
        PCA(2, whiten=True),
        PCA(2, center=False),
        RobustPCA(2, random_state=0),
        SparsePCA(2, n_nonzero=3, random_state=0),
        KernelPCA(2, kernel="linear", center=False),
        KernelPCA(2, kernel="linear"),
        RobustKernelPCA(2, kernel="linear", random_state=0),
    ],
)
def test_score_maps_are_the_constants_of_transform(estimator):
    estimator.fit(X)
    origin, weights, offset = estimator.score_map()
    assert weights.dtype == np.float64
    shifted, training = (
        A if origin is None else A - origin for A in (X, getattr(estimator, "X_fit_", X))
    )
    inner = shifted @ training.T if hasattr(estimator, "kernel") else shifted
    scores = inner @ weights - (0.0 if offset is None else offset)
    assert_allclose(scores, estimator.transform(X), rtol=1e-9, atol=1e-9)
