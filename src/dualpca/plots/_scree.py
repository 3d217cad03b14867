"""The share of each component in the variance."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from ._display import BLUE, VERMILION, Display, check_axes, host, ink, legend

#: Negative variances of at most this share of the largest are rounding, in single precision.
ROUNDING = 1e-6


class ScreeDisplay(Display):
    """The share of each component in the variance, and of the first k together.

    Parameters
    ----------
    shares : array of shape (n_components,)
        The shares of the model.
    plain : array of shape (n_components,), optional
        The shares of plain PCA, to draw beside those of a robust model.

    Attributes
    ----------
    ax_, figure_ : matplotlib Axes and Figure
    bars_ : list of matplotlib BarContainer
        The bars of the model, and of plain PCA.
    lines_ : list of matplotlib Line2D
        The cumulative shares.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from dualpca import RobustPCA
    >>> from dualpca.plots import ScreeDisplay
    >>> X = load_iris().data
    >>> display = ScreeDisplay.from_estimator(RobustPCA(2, random_state=0).fit(X), X)
    >>> [len(bars) for bars in display.bars_]
    [2, 2]
    """

    models: ClassVar = "PCA, RobustPCA or KernelPCA, or call ScreeDisplay.from_variances"
    needs: ClassVar = {"fit": "fit", "explained_variance_ratio_": "explained_variance_ratio_"}

    def __init__(self, shares: Any, *, plain: Any = None) -> None:
        self.shares = _shares("shares", shares)
        self.plain = None if plain is None else _shares("plain", plain)
        if self.plain is not None and len(self.plain) != len(self.shares):
            raise ValueError(
                f"plain has {len(self.plain)} shares beside {len(self.shares)} of the model; give as "
                "many of both"
            )

    @classmethod
    def from_estimator(
        cls, model: Any, X: Any = None, *, ax: Any = None, **kwargs: Any
    ) -> ScreeDisplay:
        """Draw the shares of a fitted model in the variance of its data.

        They reach 1 only if no direction is left out.

        Parameters
        ----------
        model : estimator with ``explained_variance_ratio_``, or pipeline
        X : array, sparse matrix, data frame, file or dask array, optional
            The training rows of a robust model; plain PCA of them is drawn beside it.
        ax, **kwargs
            For :meth:`plot`.
        """
        fitted = cls._opened(model, ax)
        if X is not None and not fitted.is_robust:
            raise ValueError(
                f"X is for plain PCA beside a robust model, and model is a {fitted.name}; leave X out"
            )
        plain = None if X is None else fitted.plain_shares(X)
        return cls(fitted.shares, plain=plain).plot(ax, **kwargs)

    @classmethod
    def from_variances(cls, variances: Any, *, ax: Any = None, **kwargs: Any) -> ScreeDisplay:
        """Draw the shares of variances in their sum.

        With ``RobustPCA().scree(X)`` the drawing helps to choose ``n_components``.

        Examples
        --------
        >>> from dualpca.plots import ScreeDisplay
        >>> display = ScreeDisplay.from_variances([6.0, 3.0, 1.0])
        >>> [round(float(bar.get_height()), 2) for bar in display.bars_[0]]
        [0.6, 0.3, 0.1]
        """
        check_axes(ax)
        values = _shares("variances", variances)
        return cls(values / (values.sum() or 1.0)).plot(ax, **kwargs)

    def plot(self, ax: Any = None, **kwargs: Any) -> ScreeDisplay:
        """Draw the shares, with ``kwargs`` as options of ``Axes.bar``."""
        ax = self._axes(ax)
        from matplotlib.ticker import MaxNLocator

        series: list[Any] = [(self.shares, "each component", "cumulative", BLUE, "-")]
        if self.plain is not None:
            series = [
                (self.shares, "robust", "robust, cumulative", BLUE, "-"),
                (self.plain, "plain", "plain, cumulative", VERMILION, "--"),
            ]
        self.bars_, self.lines_ = [], []
        width, number = 0.8 / len(series), np.arange(1, len(self.shares) + 1)
        for i, (shares, name, together, colour, dashes) in enumerate(series):
            place = number + (i - (len(series) - 1) / 2) * width
            style = {"color": colour, "alpha": 0.7, "label": name, **kwargs}
            self.bars_.append(ax.bar(place, shares, width, **style))
            line = {"linestyle": dashes, "marker": ".", "label": together}
            line["color"] = ink() if self.plain is None else colour
            self.lines_ += ax.plot(number, np.cumsum(shares), **line)
        ax.set(xlabel="component", ylabel="share of variance", ylim=(0, 1.05))
        ax.xaxis.set_major_locator(MaxNLocator(integer=True))
        legend(ax)
        return self


def _shares(name: str, given: Any) -> np.ndarray:
    """Return numbers that are finite and not negative."""
    try:
        values = np.asarray(host(given), dtype=float)
    except (TypeError, ValueError) as error:
        raise TypeError(
            f"{name} is a {type(given).__name__}; give an array, such as RobustPCA().scree(X), or call "
            "ScreeDisplay.from_estimator for models"
        ) from error
    right = values.ndim == 1 and values.size > 0 and np.isfinite(values).all()
    if not right or values.min() < -ROUNDING * values.max():
        raise ValueError(
            f"{name}, of shape {values.shape}, must be a sequence of finite numbers that are not "
            "negative; to draw those of data X give RobustPCA().scree(X)"
        )
    return np.maximum(values, 0.0)
