"""The residual of a fit by the passes over its data."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from ._display import Display, host, legend

#: Residuals below the rounding of float64 are drawn there: a logarithmic axis has no 0.
FLOOR = float(np.finfo(float).eps)


class ConvergenceDisplay(Display):
    """The residual of a fit after each of its passes over the data.

    To draw several fits on the same axes, give the ``ax_`` of the first as ``ax`` to the others.

    Parameters
    ----------
    convergence : sequence of (passes, residual), or array of shape (k, 2)
        The ``convergence_`` of an estimator.
    tol : float, optional
        The residual to reach.
    name : str
        The name of the fit in the legend.

    Attributes
    ----------
    ax_, figure_ : matplotlib Axes and Figure
    line_ : matplotlib Line2D
    tol_line_ : matplotlib Line2D or None
        None without a positive ``tol``, or if the axes have its line already.

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

    models: ClassVar = "PCA, RobustPCA or another estimator of dualpca"
    needs: ClassVar = {"fit": "fit", "convergence_": "convergence_"}

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
        """Draw the residuals of a fitted estimator or pipeline; see :meth:`plot`.

        ``name`` stands in the legend; by default it is the class of the estimator.
        """
        fitted = cls._opened(model, ax)
        tol = getattr(fitted.estimator, "tol", None)
        called = fitted.name if name is None else name
        return cls(fitted.estimator.convergence_, tol=tol, name=called).plot(ax, **kwargs)

    def plot(self, ax: Any = None, **kwargs: Any) -> ConvergenceDisplay:
        """Draw the residuals, with ``kwargs`` as options of ``Axes.plot``."""
        ax = self._axes(ax)
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
