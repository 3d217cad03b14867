"""PCA as a Gaussian model: covariance, precision and likelihood (Tipping and Bishop 1999)."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from array_api_compat import device
from sklearn.utils.validation import check_is_fitted

from .._memory import ensure, itemsize
from ..estimators._base import check_same_kind, validated
from ..linalg import Array, namespace, to_numpy
from ..operators import as_operator
from ..operators.block_ops import dense
from ..operators.row_blocks import RowBlocked


class CovarianceMixin:
    """The covariance of a model with components, their variances and noise around them."""

    components_: Array
    explained_variance_: Array
    noise_variance_: float
    mean_: Array
    n_components_: int
    n_features_in_: int

    def get_covariance(self) -> Array:
        """The model covariance ``V Diag(variance - noise) V^T + noise I`` of probabilistic PCA.

        It does not depend on ``whiten``, which scales scores only; scikit-learn's scales by the
        variance once more there.

        Returns
        -------
        covariance : array of shape (n_features, n_features)
        """
        check_is_fitted(self, "components_")
        V, noise = self.components_, self.noise_variance_ * self._identity()
        excess = namespace(V).clip(self.explained_variance_ - self.noise_variance_, 0.0, None)
        return (V.T * excess[None, :]) @ V + noise

    def get_precision(self) -> Array:
        """The inverse of :meth:`get_covariance`, by the inversion lemma where the noise allows.

        Returns
        -------
        precision : array of shape (n_features, n_features)
        """
        check_is_fitted(self, "components_")
        V, noise = self.components_, self.noise_variance_
        xp = namespace(V)
        if noise == 0:
            return xp.linalg.pinv(self.get_covariance())
        excess = xp.clip(self.explained_variance_ - noise, 0.0, None)
        shrink = excess / (noise * (excess + noise))
        rest = self._identity() / noise
        return rest - (V.T * shrink[None, :]) @ V

    def _identity(self) -> Array:
        V, d = self.components_, self.components_.shape[1]
        xp = namespace(V)
        ensure(
            3 * d * d * itemsize(V),
            f"a covariance of {d:,} x {d:,} numbers and its parts",
            "use components_, explained_variance_ and noise_variance_, which make it up",
            V,
        )
        return xp.eye(d, dtype=V.dtype, device=device(V))


class ProbabilisticMixin(CovarianceMixin):
    """The likelihood of such a model: probabilistic PCA."""

    def score_samples(self, X: Any) -> Array:
        """The log-likelihood of each row under probabilistic PCA.

        It is -inf where the model covariance is singular (no noise left, or directions without
        variance): such a model has no density. Ask for fewer components then.

        Parameters
        ----------
        X : array of shape (n_samples, n_features)

        Returns
        -------
        log_likelihood : array of shape (n_samples,)
        """
        check_is_fitted(self, "components_")
        check_same_kind(X, self.components_, f"{type(self).__name__}.score_samples")
        X = validated(self, X, reset=False, sparse=False)
        operator = as_operator(X)
        assert isinstance(operator, RowBlocked)
        log_det, mean = self._log_determinant(), self.mean_
        constant = self.n_features_in_ * math.log(2 * math.pi) + log_det
        precision = None if log_det == -math.inf else self.get_precision()

        def part(rows: slice, block: Any) -> Array:
            centred = dense(block) - mean
            xp = namespace(centred)
            if precision is None:
                return -math.inf * xp.ones_like(centred[:, 0])
            return -0.5 * (xp.sum(centred * (centred @ precision), axis=1) + constant)

        return operator.map_rows(part)

    def _log_determinant(self) -> float:
        """``log det`` of the model covariance; -inf where it is singular."""
        noise, left = self.noise_variance_, self.n_features_in_ - self.n_components_
        variances = np.maximum(to_numpy(self.explained_variance_).astype(float), noise)
        least = noise if left else variances.min()
        if least <= 10 * self.n_features_in_ * np.finfo(float).eps * variances.max():
            return -math.inf
        return float(np.log(variances).sum() + (left * math.log(noise) if left else 0.0))

    def score(self, X: Any, y: Any = None) -> float:
        """The mean log-likelihood of the rows.

        Parameters
        ----------
        X : array of shape (n_samples, n_features)
        y : ignored

        Returns
        -------
        log_likelihood : float
        """
        values = self.score_samples(X)
        return float(namespace(values).mean(values))
