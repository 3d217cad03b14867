"""How a number of components was chosen."""

from __future__ import annotations

from typing import Any, ClassVar

from ..linear.selection import METHODS, Selection
from ._display import BLUE, VERMILION, Display, check_axes, ink, legend

#: What the statistic of a method is.
STATISTICS = {
    **dict.fromkeys(METHODS, "variance"),
    **{"profile": "log-likelihood", "mle": "log-evidence"},
    **dict.fromkeys(("gcv", "cv"), "mean squared error of a cell"),
}


class SelectionDisplay(Display):
    """The statistic that a number of components was chosen by, its threshold, and the number.

    Parameters
    ----------
    selection : Selection
        The answer of :func:`dualpca.n_components`, or the ``selection_`` of a model.

    Attributes
    ----------
    ax_, figure_ : matplotlib Axes and Figure
    line_ : matplotlib Line2D
        The statistic by number of components.
    threshold_line_ : matplotlib Line2D or None
        None for methods that have no threshold.
    number_line_ : matplotlib Line2D
        The number that was chosen.

    Examples
    --------
    >>> import dualpca
    >>> from sklearn.datasets import load_iris
    >>> from dualpca.plots import SelectionDisplay
    >>> selection = dualpca.n_components(load_iris().data, "broken-stick")
    >>> display = SelectionDisplay.from_selection(selection)
    >>> int(display.number_line_.get_xdata()[0])
    1
    """

    models: ClassVar = "PCA or RobustPCA with n_components='parallel' or another method"
    needs: ClassVar = {"fit": "fit", "selection_": "selection_"}

    def __init__(self, selection: Selection) -> None:
        if not isinstance(selection, Selection):
            raise TypeError(
                f"selection is a {type(selection).__name__}; give dualpca.n_components(X, method) or the "
                f"selection_ of a fitted {self.models}"
            )
        self.selection = selection

    @classmethod
    def from_estimator(cls, model: Any, *, ax: Any = None, **kwargs: Any) -> SelectionDisplay:
        """Draw the choice of a fitted estimator or pipeline; see :meth:`plot`."""
        return cls(cls._opened(model, ax).estimator.selection_).plot(ax, **kwargs)

    @classmethod
    def from_selection(
        cls, selection: Selection, *, ax: Any = None, **kwargs: Any
    ) -> SelectionDisplay:
        """Draw the answer of :func:`dualpca.n_components`; see :meth:`plot`."""
        check_axes(ax)
        return cls(selection).plot(ax, **kwargs)

    def plot(self, ax: Any = None, **kwargs: Any) -> SelectionDisplay:
        """Draw the statistic, with ``kwargs`` as options of ``Axes.plot``."""
        ax, chosen = self._axes(ax), self.selection
        from matplotlib.ticker import MaxNLocator

        name = STATISTICS[chosen.method]
        style = {"color": BLUE, "marker": ".", "label": name, **kwargs}
        (self.line_,) = ax.plot(chosen.numbers, chosen.statistic, **style)
        self.threshold_line_ = None
        if chosen.threshold is not None:
            dashed: dict[str, Any] = {"color": VERMILION, "linestyle": "--", "label": "threshold"}
            (self.threshold_line_,) = ax.plot(chosen.numbers, chosen.threshold, **dashed)
        dotted: dict[str, Any] = {"color": ink(), "linestyle": ":", "linewidth": 1}
        label = f"{chosen.method}: {chosen.n_components}"
        self.number_line_ = ax.axvline(chosen.n_components, label=label, **dotted)
        what = "component" if chosen.threshold is not None else "components"
        ax.set(xlabel=what, ylabel=name)
        ax.xaxis.set_major_locator(MaxNLocator(integer=True))
        legend(ax)
        return self
