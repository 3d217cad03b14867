"""PCA in river: rows are dictionaries and come one by one. It needs ``pip install 'dualpca[river]'``."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Hashable
from typing import Any

import numpy as np

from . import control, estimators
from .inspect import FittedModel

try:
    from river import base
except ImportError as error:
    raise ImportError("river is not installed: pip install 'dualpca[river]'") from error

__all__ = ["PCA", "RobustPCA"]


class _Follower(base.Transformer, base.AnomalyDetector):
    """Rows that wait, and the model of those before, whose columns are the keys of the first rows."""

    n_components: int
    warm_up: int

    def _reset(self) -> None:
        self._waiting: list[dict[Hashable, float]] = []
        self._names: list[Hashable] = []
        self._fitted: FittedModel | None = None
        self._limits: tuple[float, float] = (np.inf, np.inf)

    @abstractmethod
    def _together(self) -> int:
        """Return how many rows the model learns together."""

    @abstractmethod
    def _made(self) -> Any:
        """Return a new estimator."""

    @abstractmethod
    def _learned(self) -> None:
        """Set the limits of the model."""

    @property
    def model(self) -> Any:
        """The estimator, with ``components_``, ``drift_`` and so on; None before it is fitted."""
        return None if self._fitted is None else self._fitted.estimator

    @property
    def features(self) -> list[Hashable]:
        """The keys that are columns of the model: those of the first ``warm_up`` rows."""
        return list(self._names)

    def learn_one(self, x: dict[Hashable, Any]) -> None:
        """Learn a row; keys that are missing are missing cells.

        Parameters
        ----------
        x : dict
            Numbers by keys. Keys that none of the first ``warm_up`` rows had are ignored.
        """
        row = {key: _number(key, value) for key, value in x.items()}
        if self._fitted is not None:
            row = {key: value for key, value in row.items() if key in self._names}
        if all(np.isnan(value) for value in row.values()):
            return
        self._waiting.append(row)
        if len(self._waiting) < (self.warm_up if self._fitted is None else self._together()):
            return
        if self._fitted is None:
            # Sorted, so that the order of keys has no influence.
            self._names = sorted({key for row in self._waiting for key in row}, key=str)
        model = self._made() if self._fitted is None else self._fitted.estimator
        model.partial_fit(np.array([self._cells(row) for row in self._waiting]))
        self._waiting = []
        if hasattr(model, "components_"):
            self._fitted = FittedModel(model)
            self._learned()

    def transform_one(self, x: dict[Hashable, Any]) -> dict[Hashable, Any]:
        """Return the scores of a row.

        Parameters
        ----------
        x : dict

        Returns
        -------
        scores : dict
            Numbers by "pc1", "pc2" and so on; zeros before the model is fitted. A missing cell is what
            the model makes of the others.
        """
        row = self._row(x)
        scores = np.zeros(self.n_components)
        if row is not None and self._fitted is not None:
            scores = self._fitted.scores(row)[0]
        return {f"pc{k + 1}": float(score) for k, score in enumerate(scores)}

    def score_one(self, x: dict[Hashable, Any]) -> float:
        """Return how far a row is from the model, in units of the limit: above 1 it is flagged.

        Parameters
        ----------
        x : dict

        Returns
        -------
        score : float
            0 before the model is fitted, and for a row without any key of the model.
        """
        row = self._row(x)
        if row is None or self._fitted is None:
            return 0.0
        return self._far(*(np.sqrt(part[0]) for part in control.statistics(self._fitted, row)))

    @abstractmethod
    def _far(self, score: float, orthogonal: float) -> float:
        """Return the two distances in units of the limits."""

    def _row(self, x: dict[Hashable, Any]) -> np.ndarray | None:
        """Return a row for the model; None if nothing of it is known, or there is no model."""
        row = self._cells({key: _number(key, value) for key, value in x.items()})
        return None if not row or np.isnan(row).all() else np.array([row])

    def _cells(self, row: dict[Hashable, float]) -> list[float]:
        return [row.get(name, np.nan) for name in self._names]


class PCA(_Follower):
    """PCA that learns row by row.

    Parameters
    ----------
    n_components : int
        The number of components.
    forget : float or None
        The weight of a row halves with each so many rows that come after it; None never forgets.
    every : int
        Rows that are learned together. The model is the same, and is renewed less often: a renewal takes
        about 3 ms, for one row as for 20.
    warm_up : int
        Rows before the first model, which decide which keys there are.

    Notes
    -----
    Scale the rows before it, as with ``StandardScaler() | PCA()``. Signs and order of the components
    follow the rules of :class:`dualpca.PCA` at each row, so that a score may change its sign.

    Examples
    --------
    >>> import numpy as np
    >>> from dualpca.river import PCA
    >>> rng = np.random.default_rng(0)
    >>> model = PCA(n_components=1, forget=500)
    >>> for t in rng.standard_normal(200):
    ...     model.learn_one({"a": t, "b": 2 * t, "c": 0.1 * rng.standard_normal()})
    >>> {name: round(abs(score), 1) for name, score in model.transform_one({"a": 1, "b": 2}).items()}
    {'pc1': 2.2}
    >>> model.score_one({"a": 1, "b": -2, "c": 0}) > 1 > model.score_one({"a": 1, "b": 2, "c": 0})
    True
    """

    def __init__(
        self, n_components: int = 2, forget: float | None = None, every: int = 10, warm_up: int = 50
    ) -> None:
        self.n_components, self.forget = n_components, forget
        self.every, self.warm_up = every, warm_up
        self._reset()

    def _together(self) -> int:
        return self.every

    def _made(self) -> Any:
        return estimators.PCA(self.n_components, forget=self.forget, missing="em", random_state=0)

    def _learned(self) -> None:
        assert self._fitted is not None
        control.calibrate(self._fitted.model)
        self._limits = control.limits(self._fitted)

    def _far(self, score: float, orthogonal: float) -> float:
        t2, spe = self._limits
        return max(_ratio(score**2, t2), _ratio(orthogonal**2, spe))


class RobustPCA(_Follower):
    """Robust PCA that learns row by row: bad rows do not move it, and have a score above 1.

    Parameters
    ----------
    n_components : int
        The number of components.
    forget : float or None
        As in :class:`PCA`.
    quantile : float
        Rows beyond this quantile of good rows have a score above 1.
    warm_up : int
        Rows before the first model, which decide which keys there are.

    Notes
    -----
    The model is renewed every 50 rows. ``model.drift_`` tells of turned components and new regimes. Scale
    the rows before it.

    Examples
    --------
    >>> import numpy as np
    >>> from dualpca.river import RobustPCA
    >>> rng = np.random.default_rng(0)
    >>> model = RobustPCA(n_components=1)
    >>> for i, t in enumerate(rng.standard_normal(200)):
    ...     noise = 5 if i % 5 == 0 else 0.1
    ...     model.learn_one({"a": t, "b": 2 * t, "c": noise * rng.standard_normal()})
    >>> model.score_one({"a": 1, "b": 2, "c": 3}) > 1 > model.score_one({"a": 1, "b": 2, "c": 0})
    True
    """

    def __init__(
        self,
        n_components: int = 2,
        forget: float | None = None,
        quantile: float = 0.999,
        warm_up: int = 50,
    ) -> None:
        self.n_components, self.forget = n_components, forget
        self.quantile, self.warm_up = quantile, warm_up
        self._reset()

    def _together(self) -> int:
        return int(self.model.until_renewal_)

    def _made(self) -> Any:
        return estimators.RobustPCA(
            self.n_components,
            forget=self.forget,
            quantile=self.quantile,
            missing="em",
            random_state=0,
        )

    def _learned(self) -> None:
        assert self._fitted is not None
        limits = (self._fitted.limits[kind] for kind in ("score", "orthogonal"))
        within, beside = (np.inf if limit is None else limit for limit in limits)
        self._limits = within, beside

    def _far(self, score: float, orthogonal: float) -> float:
        within, beside = self._limits
        return float(np.hypot(_ratio(score, within), _ratio(orthogonal, beside)))


def _ratio(part: float, limit: float) -> float:
    return float(part / limit) if limit > 0 else float("inf" if part > 0 else 0)


def _number(key: Hashable, value: Any) -> float:
    """Return the value of a key as a number, NaN where there is none."""
    if value is None:
        return np.nan
    try:
        number = float(value)
    except (TypeError, ValueError):
        raise ValueError(
            f"{key!r} has the value {value!r}, which is no number; encode it, or select the keys of "
            "numbers with river.compose.SelectType(float, int)"
        ) from None
    if np.isinf(number):
        raise ValueError(f"{key!r} is infinite; leave it out, or give None for a missing cell")
    return number
