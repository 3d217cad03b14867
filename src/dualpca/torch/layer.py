"""PCA as a layer of a network."""

from __future__ import annotations

from typing import Any

import torch

from ..linalg import fix_signs
from .functions import full_precision
from .problems import Tensor
from .subspace import TOL, is_integer, principal_components, principal_subspace

#: What a layer may return.
OUTPUTS = ("projection", "scores")


class PCALayer(torch.nn.Module):
    """Project each batch on its own leading subspace, and on a running one in evaluation.

    Parameters
    ----------
    n_components : int
        The dimension of the subspace.
    n_features : int, optional
        The length of rows; by default that of the first batch.
    output : {"projection", "scores"}
        "projection" returns rows of n_features, ``mean + (x - mean) V V^T``: its derivative needs the
        gap at the cut only. "scores" returns rows of n_components, ``(x - mean) V`` with signs fixed,
        whose derivative needs distinct leading variances too.
    center : bool
        Subtract the mean of each feature.
    momentum : float or None
        The weight of a new batch in the running statistics; None averages all batches alike.
    track_running_stats : bool
        Without, evaluation uses the statistics of the batch as well.
    tol, random_state
        As in :func:`principal_subspace`.

    Attributes
    ----------
    running_mean : buffer of shape (n_features,)
    running_components : buffer of shape (n_components, n_features)
        The leading eigenvectors of the running covariance of rank n_components.
    running_variance : buffer of shape (n_components,)
    num_batches_tracked : buffer, an integer

    Examples
    --------
    >>> import torch
    >>> from dualpca.torch import PCALayer
    >>> layer = PCALayer(2)
    >>> X = torch.randn(50, 5) * torch.tensor([5.0, 3.0, 1.0, 1.0, 1.0])
    >>> layer(X).shape, torch.linalg.matrix_rank(layer(X) - X.mean(0), tol=1e-3).item()
    (torch.Size([50, 5]), 2)
    >>> layer.eval()(X[:3]).shape
    torch.Size([3, 5])
    """

    running_mean: Any  # None before the first batch
    running_components: Any
    running_variance: Any
    num_batches_tracked: Any

    def __init__(
        self,
        n_components: int,
        n_features: int | None = None,
        *,
        output: str = "projection",
        center: bool = True,
        momentum: float | None = 0.1,
        track_running_stats: bool = True,
        tol: float | None = None,
        random_state: int = 0,
    ) -> None:
        super().__init__()
        if not (is_integer(n_components) and n_components >= 1):
            raise ValueError(f"n_components={n_components!r} must be an integer, 1 or more")
        if output not in OUTPUTS:
            raise ValueError(f"output={output!r} is unknown; choose one of {', '.join(OUTPUTS)}")
        if momentum is not None and not 0 <= momentum <= 1:
            raise ValueError(f"momentum={momentum} must be between 0 and 1, or None")
        self.n_components, self.n_features = n_components, n_features
        self.output, self.center, self.momentum = output, center, momentum
        self.track_running_stats = track_running_stats
        self.tol, self.random_state = tol, random_state
        for name in ("running_mean", "running_components", "running_variance"):
            self.register_buffer(name, None)
        count = torch.tensor(0, dtype=torch.long) if track_running_stats else None
        self.register_buffer("num_batches_tracked", count)
        if n_features is not None:
            self._make_buffers(n_features, torch.zeros(()))

    def extra_repr(self) -> str:
        names = ("output", "center", "momentum", "track_running_stats")
        rest = ", ".join(f"{name}={getattr(self, name)!r}" for name in names)
        return f"{self.n_components}, {self.n_features}, {rest}"

    def forward(self, X: Tensor) -> Tensor:
        """Return the projection or the scores of the rows of X, of shape (..., n_features)."""
        if self.n_features is not None and X.shape[-1] != self.n_features:
            raise ValueError(
                f"X has {X.shape[-1]} features where PCALayer has n_features={self.n_features}; give "
                "rows of that length, or make another layer"
            )
        rows = X.reshape(-1, X.shape[-1])
        # Half precision has no digits for squares: as batch norms do, compute in float32.
        rows = rows if rows.dtype in TOL else rows.float()
        with full_precision(rows):
            mean, V = self._subspace(rows)
            scores = (rows - mean) @ V
            result = scores if self.output == "scores" else scores @ V.mT + mean
        return result.reshape(*X.shape[:-1], result.shape[-1]).to(X.dtype)

    def _subspace(self, rows: Tensor) -> tuple[Tensor, Tensor]:
        """Return the mean and the basis: of the batch in training, else the running ones."""
        if self.training or not self.track_running_stats:
            mean, V, variance = self._of_batch(rows)
            if self.training and self.track_running_stats:
                self._update(mean.detach(), V.detach(), variance.detach())
            return mean, V
        if int(self.num_batches_tracked) == 0:
            raise RuntimeError(
                "PCALayer has seen no batch in training mode and has no running subspace; call train() "
                "and run a batch, or load a state dict"
            )
        return self.running_mean.to(rows), self.running_components.to(rows).mT

    def _of_batch(self, rows: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return mean, basis and variances of the batch."""
        options: dict[str, Any] = {"tol": self.tol, "random_state": self.random_state}
        if self.output == "scores":
            found = principal_components(rows, self.n_components, center=self.center, **options)
            return found.mean, found.components.mT, found.explained_variance
        mean = rows.mean(0) if self.center else torch.zeros_like(rows[0])
        A = rows - mean
        V = principal_subspace(A, self.n_components, center=False, **options)
        squares = torch.linalg.vector_norm(A.detach() @ V.detach(), dim=0) ** 2
        return mean, V, squares / max(rows.shape[0] - 1, 1)

    @torch.no_grad()
    def _update(self, mean: Tensor, V: Tensor, variance: Tensor) -> None:
        """``(1 - m) old + m new`` for the mean and for the covariance, cut to its leading part."""
        if self.running_mean is None:
            self._make_buffers(len(mean), mean)
        self.num_batches_tracked += 1
        count = int(self.num_batches_tracked)
        m = 1 / count if self.momentum is None or count == 1 else self.momentum
        old, components = self.running_variance.to(V), self.running_components.to(V)
        parts = [((1 - m) * old).sqrt() * components.mT, (m * variance).sqrt() * V]
        _, sigma, components = torch.linalg.svd(torch.cat(parts, dim=1).mT, full_matrices=False)
        components = components[: self.n_components]
        self.running_components.copy_(components * fix_signs(components.mT)[:, None])
        self.running_variance.copy_(sigma[: self.n_components] ** 2)
        self.running_mean.lerp_(mean.to(self.running_mean), m)

    def _make_buffers(self, n_features: int, like: Tensor) -> None:
        self.n_features, s = n_features, self.n_components
        if self.track_running_stats:
            self.running_mean = like.new_zeros(n_features)
            self.running_components = like.new_zeros(s, n_features)
            self.running_variance = like.new_zeros(s)

    def _load_from_state_dict(self, state_dict: Any, prefix: str, *arguments: Any) -> None:
        stored = state_dict.get(f"{prefix}running_mean")
        if self.running_mean is None and stored is not None:
            self._make_buffers(len(stored), stored)
        super()._load_from_state_dict(state_dict, prefix, *arguments)
