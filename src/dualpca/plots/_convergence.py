"""The residual of a fit by the passes over its data."""

from __future__ import annotations

from typing import Any

import numpy as np

from ._draw import axes, check_axes, legend
from ._model import estimator_of, host

#: Residuals below the rounding of float64 are drawn there: a logarithmic axis has no 0.
FLOOR = float(np.finfo(float).eps)


class ConvergenceDisplay:
    """The residual that a fit reached after so many passes over the data.

    Several fits are drawn on the same axes: give those of the first as ``ax`` to the others.

    Parameters
    ----------
    convergence : sequence of (passes, residual), or array of shape (k, 2)
        The ``convergence_`` of an estimator.
    tol : float, optional
        The residual to reach.
    name : str
        What the legend calls the fit.

    Attributes
    ----------
    ax_, figure_ : matplotlib Axes and Figure
    line_ : matplotlib Line2D
    tol_line_ : matplotlib Line2D or None
        None where ``tol`` is 0 or is not given, or has a line on the axes already.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from dualpca import PCA
    >>> from dualpca.plots import ConvergenceDisplay
    >>> model = PCA(5, solver="krylov", random_state=0).fit(load_digits().data)
    >>> display = ConvergenceDisplay.from_estimator(model)
    >>> bool(display.line_.get_ydata()[-1] <= model.tol)
    True
    """

    def __init__(self, convergence: Any, *, tol: float | None = None, name: str = "fit") -> None:
        self.convergence = np.asarray(host(convergence), dtype=float)
        shape = self.convergence.shape
        if len(shape) != 2 or shape[1] != 2 or shape[0] == 0 or not (self.convergence >= 0).all():
            raise ValueError(
                f"convergence, of shape {shape}, must be rows of passes and residuals that are not "
                "negative; give the convergence_ of a fitted estimator"
            )
        self.tol, self.name = tol, name

    @classmethod
    def from_estimator(
        cls, model: Any, *, name: str | None = None, ax: Any = None, **kwargs: Any
    ) -> ConvergenceDisplay:
        """Draw the residuals of a fit.

        Parameters
        ----------
        model : estimator of dualpca, or pipeline
            Fitted.
        name : str, optional
            What the legend calls the fit: the name of the estimator where it is not given.
        ax : matplotlib Axes, optional
        **kwargs
            For :meth:`plot`.

        Returns
        -------
        display : ConvergenceDisplay
        """
        check_axes(ax)
        give = "PCA, RobustPCA or another estimator of dualpca"
        estimator = estimator_of(model, cls.__name__, "fit", "fit", give)
        called = type(estimator).__name__
        if not hasattr(estimator, "convergence_"):
            raise TypeError(
                f"model is a {called}, which has no convergence_; give {cls.__name__} a fitted {give}"
            )
        tol = getattr(estimator, "tol", None)
        display = cls(estimator.convergence_, tol=tol, name=called if name is None else name)
        return display.plot(ax, **kwargs)

    def plot(self, ax: Any = None, **kwargs: Any) -> ConvergenceDisplay:
        """Draw the residuals.

        Parameters
        ----------
        ax : matplotlib Axes, optional
        **kwargs
            For ``Axes.plot``.

        Returns
        -------
        self
        """
        self.ax_ = ax = axes(ax)
        self.figure_ = ax.figure
        passes, residuals = self.convergence.T
        style = {"marker": ".", "label": self.name, **kwargs}
        (self.line_,) = ax.plot(passes, np.maximum(residuals, FLOOR), **style)
        self.tol_line_ = None
        label = f"tol = {self.tol:g}" if self.tol else "_"
        if self.tol and label not in [line.get_label() for line in ax.lines]:
            dashed: dict[str, Any] = {"linestyle": "--", "linewidth": 1, "label": label}
            self.tol_line_ = ax.axhline(self.tol, color=self.line_.get_color(), **dashed)
        ax.set(xlabel="passes over the data", ylabel="relative residual", yscale="log")
        legend(ax)
        return self
