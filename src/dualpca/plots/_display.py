"""The base of the displays: the model and the rows they take, the axes they draw on."""

from __future__ import annotations

from numbers import Integral
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from array_api_compat import is_array_api_obj
from sklearn.exceptions import NotFittedError
from sklearn.pipeline import Pipeline

from ..inspect import FittedModel
from ..linalg import to_numpy

if TYPE_CHECKING:
    from matplotlib.axes import Axes


class Display:
    """Numbers of a fitted model and their drawing; ``ax_`` and ``figure_`` hold the last one.

    ``needs`` holds what models must have: a method, and perhaps an attribute of fitted models, each
    with its name in words. ``models`` names estimators that have them.
    """

    models: ClassVar[str] = "RobustPCA or RobustKernelPCA"
    needs: ClassVar[dict[str, str]] = {"distances": "outlier distances"}
    ax_: Any
    figure_: Any

    @classmethod
    def _opened(cls, model: Any, ax: Any) -> FittedModel:
        """Return the model to draw; refuse wrong axes and models that lack what is drawn."""
        check_axes(ax)
        estimator = model.steps[-1][1] if isinstance(model, Pipeline) else model
        name, fitted = type(estimator).__name__, None
        for attribute, words in cls.needs.items():
            if not hasattr(estimator, attribute):
                raise TypeError(
                    f"model is a {name}, which has no {words}; give {cls.__name__} a fitted {cls.models}"
                )
            try:
                fitted = FittedModel(model)
            except NotFittedError as error:
                raise NotFittedError(
                    f"model, a {name}, is not fitted; call fit(X) before {cls.__name__}"
                ) from error
        assert fitted is not None
        return fitted

    def _axes(self, ax: Any, layout: Any = "constrained") -> Axes:
        """Return the axes given, or those of a new figure, and remember them."""
        check_axes(ax)
        if ax is None:
            from matplotlib.figure import Figure

            ax = Figure(layout=layout).subplots()
        self.ax_, self.figure_ = ax, ax.figure
        return ax


def check_axes(ax: Any) -> None:
    """Refuse what is not axes, and say what to install if matplotlib is missing."""
    try:
        import matplotlib.figure  # noqa: F401
    except ImportError as error:
        raise ImportError("plots need matplotlib: pip install 'dualpca[plot]'") from error
    if ax is not None and not hasattr(ax, "scatter"):
        raise TypeError(f"ax is a {type(ax).__name__}; give one matplotlib Axes")


def check_count(name: str, value: Any, things: str, least: int = 0) -> int:
    """Return a number of things as an int."""
    if not isinstance(value, Integral) or isinstance(value, bool) or value < least:
        raise ValueError(f"{name}={value!r} counts {things}; give an integer, {least} or more")
    return int(value)


def check_columns(n: int, **columns: np.ndarray | None) -> None:
    """Refuse columns, given by name, that are not n numbers."""
    for name, values in columns.items():
        if values is not None and values.shape != (n,):
            raise ValueError(f"{name} has shape {values.shape} for {n} rows; give one for each row")


def check_rows(name: str, values: Any, X: Any) -> None:
    """Refuse values of another number than the rows of X, if X has a shape."""
    rows = getattr(X, "shape", (None,))[0]
    if hasattr(values, "__len__") and isinstance(rows, int) and len(values) != rows:
        raise ValueError(
            f"{name} has length {len(values)} for {rows} rows; give one for each row of X"
        )


def checked_names(row_names: Any, n: int) -> list[str]:
    """Return the names of n rows: by default their numbers, from 0."""
    names = [str(name) for name in (range(n) if row_names is None else row_names)]
    if len(names) != n:
        raise ValueError(f"row_names has length {len(names)} for {n} rows; give one for each row")
    return names


def host(values: Any) -> np.ndarray:
    """Return numbers or names of any kind as a NumPy array."""
    return to_numpy(values) if is_array_api_obj(values) else np.asarray(values)
