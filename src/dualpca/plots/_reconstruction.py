"""Rows as images: the data, what a model keeps of it, and what it leaves."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
import scipy.sparse as sp

from .._arguments import check_image_shape, is_count
from .._rows import take_rows
from ..operators import as_operator, is_streamed
from ._display import Display, checked_names, host, short

#: The number of rows that are drawn by default.
DRAWN = 8


class ReconstructionDisplay(Display):
    """Rows as images in columns: the data, and for each model its reconstruction and the residual.

    Data and reconstructions share one scale of grey, from the least to the largest number of the data.
    Residuals share one scale of colours: red if the data is larger, white for 0.

    Parameters
    ----------
    rows : array of shape (n_rows, n_features)
    reconstructions : dict of str to array of shape (n_rows, n_features)
        The reconstructions by the names of the models.
    image_shape : (height, width) or (height, width, 3)
    row_names : sequence of length n_rows, optional
        By default the numbers of the rows, from 0.

    Attributes
    ----------
    ax_, figure_ : matplotlib Axes and Figure
    images_ : list of matplotlib AxesImage
        The lines of the picture, from the top.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from dualpca import PCA
    >>> from dualpca.plots import ReconstructionDisplay
    >>> X = load_digits().data
    >>> display = ReconstructionDisplay.from_estimator(PCA(10).fit(X), X, image_shape=(8, 8))
    >>> [label.get_text() for label in display.ax_.get_yticklabels()]
    ['data', 'PCA', 'residual\\n(within ±9.6)']
    """

    models: ClassVar = "PCA, RobustPCA, SparsePCA, or KernelPCA with fit_inverse_transform=True"
    needs: ClassVar = {"inverse_transform": "way back from scores to rows"}

    def __init__(
        self,
        rows: Any,
        reconstructions: dict[str, Any],
        *,
        image_shape: tuple[int, ...],
        row_names: Any = None,
    ) -> None:
        self.rows = host(rows)
        if self.rows.ndim != 2 or len(self.rows) == 0:
            raise ValueError(
                f"rows has shape {self.rows.shape}; give one row at least, of features"
            )
        self.image_shape = check_image_shape(image_shape, self.rows.shape[1])
        self.reconstructions = {name: host(R) for name, R in reconstructions.items()}
        for name, R in self.reconstructions.items():
            if R.shape != self.rows.shape:
                raise ValueError(
                    f"reconstructions[{name!r}] has shape {R.shape} and rows {self.rows.shape}; "
                    "reconstruct these rows"
                )
        self.row_names = checked_names(row_names, len(self.rows))

    @classmethod
    def from_estimator(
        cls,
        model: Any,
        X: Any,
        *,
        image_shape: tuple[int, ...],
        rows: Any = None,
        beside: Any = None,
        row_names: Any = None,
        ax: Any = None,
        **kwargs: Any,
    ) -> ReconstructionDisplay:
        """Draw rows of X and what ``inverse_transform(transform(X))`` makes of them.

        Parameters
        ----------
        model : fitted estimator with ``inverse_transform``, or pipeline
        X : array, sparse matrix, data frame, file or dask array of shape (n_samples, n_features)
        image_shape : (height, width) or (height, width, 3)
            The shape of the image that a row is, pixels by lines.
        rows : sequence of int, optional
            The rows of X to draw, by default the first eight.
        beside : estimator or pipeline, optional
            Another fitted model, such as plain PCA, to draw below.
        row_names : sequence, optional
            Names of the rows that are drawn, by default their numbers.
        ax, **kwargs
            For :meth:`plot`.
        """
        models: dict[str, Any] = {}
        for source in (model,) if beside is None else (model, beside):
            fitted = cls._opened(source, ax)
            check_image_shape(image_shape, getattr(source, "n_features_in_", fitted.n_features))
            models[fitted.name if fitted.name not in models else f"{fitted.name}, beside"] = fitted
        if is_streamed(X):
            X = as_operator(X)
        chosen = _chosen(rows, X.shape[0] if hasattr(X, "shape") else len(X))
        originals = take_rows(X, chosen)
        display = cls(
            originals.toarray() if sp.issparse(originals) else originals,
            {name: fitted.reconstruct(originals) for name, fitted in models.items()},
            image_shape=image_shape,
            row_names=chosen if row_names is None else row_names,
        )
        return display.plot(ax, **kwargs)

    def plot(self, ax: Any = None, **kwargs: Any) -> ReconstructionDisplay:
        """Draw the images, with ``kwargs`` as options of ``Axes.imshow`` but for the residuals."""
        ax = self._axes(ax, "compressed")  # images keep their shape
        low, high = float(np.nanmin(self.rows)), float(np.nanmax(self.rows))
        residuals = {name: self.rows - R for name, R in self.reconstructions.items()}
        most = max((float(np.nanmax(np.abs(R))) for R in residuals.values()), default=0.0)
        grey: dict[str, Any] = {"cmap": "gray", "vmin": low, "vmax": high, **kwargs}
        signed: dict[str, Any] = {"cmap": "RdBu_r", "vmin": -most or -1.0, "vmax": most or 1.0}
        lines = [("data", self.rows, grey)]
        for name, R in self.reconstructions.items():
            lines += [(name, R, grey), (f"residual\n(within ±{most:.3g})", residuals[name], signed)]
        height, width = (length + 1 for length in self.image_shape[:2])
        self.images_ = []
        for i, (_, values, style) in enumerate(lines):
            picture = self._line(values, style["vmin"], style["vmax"])
            extent = (-0.5, picture.shape[1] - 0.5, (i + 1) * height - 1.5, i * height - 0.5)
            self.images_.append(ax.imshow(picture, extent=extent, interpolation="nearest", **style))
        ax.set(xlim=(-1.5, width * len(self.rows) - 0.5), ylim=(height * len(lines) - 0.5, -1.5))
        middle_x = width * np.arange(len(self.rows)) + (width - 2) / 2
        middle_y = height * np.arange(len(lines)) + (height - 2) / 2
        long = max(map(len, self.row_names)) > 4
        ax.set_xticks(middle_x, list(map(short, self.row_names)), rotation=90 if long else 0)
        for tick in ax.get_xticklabels():
            tick.set_parse_math(False)
        ax.set_yticks(middle_y, [name for name, _, _ in lines])
        ax.tick_params(length=0)
        ax.spines[:].set_visible(False)
        ax.set_xlabel("row")
        return self

    def _line(self, values: np.ndarray, low: float, high: float) -> Any:
        """Return images side by side with an empty pixel between them."""
        images = values.reshape(len(values), *self.image_shape).astype(float)
        gap = ((0, 0), (0, 0), (0, 1)) + ((0, 0),) * (images.ndim - 3)
        padded = np.pad(images, gap, constant_values=np.nan)
        line = np.concatenate(list(padded), axis=1)[:, :-1]
        if line.ndim == 2:
            return np.ma.masked_invalid(line)
        # Colours are numbers from 0 to 1; transparent pixels are not drawn.
        finite = np.isfinite(line).all(axis=2, keepdims=True)
        scaled = np.clip((line - low) / ((high - low) or 1.0), 0.0, 1.0)
        return np.concatenate([np.where(finite, scaled, 0.0), finite], axis=2)


def _chosen(rows: Any, count: int) -> list[int]:
    chosen = list(range(min(DRAWN, count))) if rows is None else list(rows)
    if not chosen or not all(is_count(i, 0, count - 1) for i in chosen):
        raise ValueError(
            f"rows={rows!r} are not numbers of rows of X; give some integers from 0 to {count - 1}"
        )
    return [int(i) for i in chosen]
