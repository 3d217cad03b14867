"""scikit-learn's own checks on every estimator, with no expected failure."""

from __future__ import annotations

import pytest
from sklearn.utils import estimator_checks
from sklearn.utils.estimator_checks import parametrize_with_checks

from dualpca import PCA, KernelPCA, ZeroFPR

ESTIMATORS = [
    PCA(),
    PCA(n_components=1, formulation="n"),
    PCA(solver="gram"),
    PCA(solver="lapack"),
    PCA(n_components=1, solver="zerofpr"),
    PCA(n_components=1, solver=ZeroFPR(memory=3), formulation="o"),
    PCA(whiten=True),
    PCA(center=False),
    KernelPCA(),
    KernelPCA(kernel="rbf"),
    KernelPCA(kernel="precomputed"),
    KernelPCA(n_components=1, kernel="poly", solver="dca"),
    KernelPCA(n_components=1, kernel="rbf", formulation="n"),
]

OUTSIDE = [
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
    "check_transformer_n_iter",
    "check_estimators_partial_fit_n_features",
]


@parametrize_with_checks(ESTIMATORS)
def test_checks_of_scikit_learn(estimator, check):
    check(estimator)


@pytest.mark.parametrize("name", OUTSIDE)
@pytest.mark.parametrize("estimator", ESTIMATORS, ids=repr)
def test_checks_that_scikit_learn_keeps_apart(estimator, name):
    getattr(estimator_checks, name)(type(estimator).__name__, estimator)
