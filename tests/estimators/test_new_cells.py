"""RobustPCA(cells=True) and new rows: wrong cells are corrected whether or not the rows have holes."""

import numpy as np
from numpy.testing import assert_allclose, assert_array_equal

from dualpca import RobustPCA


def test_rows_without_holes_are_corrected_as_rows_with_holes_are():
    rng = np.random.default_rng(0)
    good = rng.standard_normal((120, 2)) @ rng.standard_normal((2, 12))
    good += 0.1 * rng.standard_normal(good.shape)
    X = good.copy()
    wrong = rng.random(X.shape) < 0.05
    X[wrong] += 20
    model = RobustPCA(2, cells=True, random_state=0).fit(X)
    held = X.copy()
    held[0, 0] = np.nan  # a hole in one row says nothing of the others
    completed = model.impute(X)
    assert_allclose(completed[1:], model.impute(held)[1:], rtol=1e-12)
    assert np.abs(completed - good)[wrong].max() < 1
    assert_array_equal(model.predict(X)[1:], model.predict(held)[1:])
    assert_allclose(model.transform(X), model.transform(completed), atol=0.2)
    assert (model.predict(X) == 1).mean() > 0.9
