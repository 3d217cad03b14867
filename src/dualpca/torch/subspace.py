"""PCA and robust PCA as differentiable functions of the data."""

from __future__ import annotations

from numbers import Integral
from typing import Any, NamedTuple

import torch

from ..linalg import eps, fix_signs
from ..losses import Loss, as_loss
from .functions import Eigenbasis, Subspace, full_precision
from .problems import MAX_STEPS, Robust, Squares, Tensor

#: The default of ``tol`` in each precision.
TOL = {torch.float64: 1e-10, torch.float32: 1e-5}


def principal_subspace(
    X: Tensor, s: int, *, center: bool = True, tol: float | None = None, random_state: int = 0
) -> Tensor:
    """Return an orthonormal basis V of the leading subspace, with the derivative of the subspace.

    The derivative exists where ``sigma_s > sigma_{s+1}``, whatever values repeat among the first s. It is
    that of ``V V^T``: the loss must not depend on the basis, as in ``V @ V.T`` or ``X @ V @ V.T``. A
    loss that does is refused in the backward pass.

    Parameters
    ----------
    X : tensor of shape (n_samples, n_features)
        float32 or float64, on any device.
    s : int
        The number of components.
    center : bool
        Subtract the mean of each feature; the derivative goes through the mean.
    tol : float, optional
        The relative residual of the subspace, as ``tol`` of :class:`dualpca.PCA`: 1e-10 in float64 and
        1e-5 in float32 by default. The derivative is computed to the same accuracy.
    random_state : int
        The seed of random starts.

    Returns
    -------
    V : tensor of shape (n_features, s)

    Raises
    ------
    GapError
        In the backward pass, if no gap at the cut can be proved.

    Examples
    --------
    >>> import torch
    >>> from dualpca.torch import principal_subspace
    >>> X = torch.tensor([[2.0, 0.0], [0.0, 1.0]], dtype=torch.float64, requires_grad=True)
    >>> V = principal_subspace(X, 1, center=False)
    >>> V.abs().tolist()
    [[1.0], [0.0]]
    >>> (V @ V.T)[0, 1].backward()
    >>> X.grad.tolist()
    [[0.0, 0.667], [0.333, 0.0]]
    """
    return _subspace(_centered(X, s, center)[0], s, tol, random_state)


def pca_projector(
    X: Tensor, s: int, *, center: bool = True, tol: float | None = None, random_state: int = 0
) -> Tensor:
    """Return ``V V^T``, the projector on the leading subspace, a matrix of n_features x n_features.

    For many features use :func:`principal_subspace` or :func:`pca_project`, which do not form it.

    Parameters
    ----------
    X, s, center, tol, random_state
        As in :func:`principal_subspace`.

    Returns
    -------
    P : tensor of shape (n_features, n_features)

    Examples
    --------
    >>> import torch
    >>> from dualpca.torch import pca_projector
    >>> X = torch.diag(torch.tensor([3.0, 3.0, 1.0], dtype=torch.float64))
    >>> pca_projector(X, 2, center=False).round().tolist()  # the two equal values do no harm
    [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 0.0]]
    """
    V = principal_subspace(X, s, center=center, tol=tol, random_state=random_state)
    with full_precision(V):
        return V @ V.mT


def pca_project(
    X: Tensor,
    s: int,
    rows: Tensor | None = None,
    *,
    center: bool = True,
    tol: float | None = None,
    random_state: int = 0,
) -> Tensor:
    """Return the rows projected on the affine leading subspace, ``mean + (rows - mean) V V^T``.

    Parameters
    ----------
    X, s, center, tol, random_state
        As in :func:`principal_subspace`.
    rows : tensor of shape (n_rows, n_features), optional
        What is projected; X itself by default.

    Returns
    -------
    projected : tensor like rows

    Examples
    --------
    >>> import torch
    >>> from dualpca.torch import pca_project
    >>> X = torch.tensor([[0.0, 1.0], [2.0, 1.0], [1.0, 1.5], [1.0, 0.5]], dtype=torch.float64)
    >>> pca_project(X, 1).tolist()
    [[0.0, 1.0], [2.0, 1.0], [1.0, 1.0], [1.0, 1.0]]
    """
    A, mean = _centered(X, s, center)
    _check_length("rows", rows, X)
    V = _subspace(A, s, tol, random_state)
    with full_precision(V):
        return ((A if rows is None else rows - mean) @ V) @ V.mT + mean


class PrincipalComponents(NamedTuple):
    """Mean, components (rows, by decreasing variance) and their variances."""

    mean: Tensor
    components: Tensor
    explained_variance: Tensor


def principal_components(
    X: Tensor, s: int, *, center: bool = True, tol: float | None = None, random_state: int = 0
) -> PrincipalComponents:
    """Return mean, components and variances, each of them differentiable one by one.

    Signs are those of :class:`dualpca.PCA`: the entry of largest magnitude is positive. The derivative
    of a component exists where its eigenvalue differs from all others; a GapError is raised in the
    backward pass if the loss depends on components with equal ones. Variances need the gap at the cut
    only; of equal ones, only symmetric functions have a derivative.

    Parameters
    ----------
    X, s, center, tol, random_state
        As in :func:`principal_subspace`.

    Returns
    -------
    mean : tensor of shape (n_features,)
        Zeros where ``center=False``.
    components : tensor of shape (s, n_features)
    explained_variance : tensor of shape (s,)
        Divided by ``n_samples - 1``.

    Examples
    --------
    >>> import torch
    >>> from dualpca.torch import principal_components
    >>> X = torch.tensor([[2.0, 0.0], [-2.0, 0.0], [0.0, 1.0], [0.0, -1.0]], dtype=torch.float64)
    >>> mean, components, variance = principal_components(X, 2)
    >>> components.tolist(), variance.tolist()
    ([[1.0, 0.0], [0.0, 1.0]], [2.667, 0.667])
    >>> scores = (X - mean) @ components.T
    """
    A, mean = _centered(X, s, center)
    V = _subspace(A, s, tol, random_state)
    with full_precision(V):
        Y = (A @ V).double()  # squares of float32 keep their digits
        theta, U = Eigenbasis.apply(Y.mT @ Y, eps(A))
        V = V @ U.to(V.dtype)
        V = V * fix_signs(V.detach())[None, :]
    variance = theta.to(V.dtype) / max(X.shape[0] - 1, 1)
    return PrincipalComponents(mean, V.mT, variance)


def robust_subspace(
    X: Tensor,
    s: int,
    loss: str | Loss,
    *,
    center: Tensor | None = None,
    start: Tensor | None = None,
    epsilon: float = 0.0,
    tol: float | None = None,
    max_iter: int = MAX_STEPS,
    random_state: int = 0,
) -> Tensor:
    """Return a basis of the subspace where the DCA of robust PCA stays, with its derivative.

    The subspace is a local minimum of ``sum_i c^2 psi((||(I - V V^T)(x_i - center)||^2 + epsilon^2) /
    c^2)``. The derivative follows from the implicit function theorem, by products with X only. As that of
    :func:`principal_subspace`, it is for losses that do not depend on the basis.

    Parameters
    ----------
    X : tensor of shape (n_samples, n_features)
    s : int
        The number of components.
    loss : Loss
        A loss with its scale c, such as ``dualpca.losses.Cauchy(scale=0.5)``; the scale is a constant.
        :class:`dualpca.RobustPCA` has one in ``loss_``, in units of rows of length 1 unless
        ``normalize=False``.
    center : tensor of shape (n_features,), optional
        What is subtracted from each row; the derivative goes through it. Nothing by default.
    start : tensor of shape (n_features, s), optional
        Where DCA starts, such as ``RobustPCA(...).fit(X).components_.T``. By default the principal axes
        of the rows divided by their lengths.
    epsilon : float
        A constant that keeps the losses "l1", "lp" and "log" smooth, which need it.
    tol : float, optional
        The relative residual of the fixed point, as in :func:`principal_subspace`.
    max_iter : int
        The most iterations; a ConvergenceWarning names the residual if that is not enough.
    random_state : int
        The seed of random starts.

    Returns
    -------
    V : tensor of shape (n_features, s)

    Raises
    ------
    GapError
        In the backward pass, if the minimum is not strict.

    Examples
    --------
    >>> import torch
    >>> from dualpca.losses import Cauchy
    >>> from dualpca.torch import robust_subspace
    >>> X = torch.randn(100, 4, dtype=torch.float64) * torch.tensor([3.0, 2.0, 0.1, 0.1])
    >>> X[:10, 3] += 20.0
    >>> V = robust_subspace(X, 2, Cauchy(scale=0.3))
    >>> bool((V @ V.T)[3, 3] < 0.01)
    True
    """
    loss = as_loss(loss)
    if loss.scale is None and not loss.homogeneous:
        raise ValueError(
            f"loss={loss!r} has no scale, which would depend on X; give one, as in "
            f"{type(loss).__name__}(scale=0.5) from dualpca.losses"
        )
    if loss.singular and not epsilon > 0:
        raise ValueError(
            f"epsilon={epsilon} leaves loss={loss!r} without a derivative at 0; give a small length, "
            "such as 1e-3 of that of a typical row"
        )
    tol = _checked(X, s, tol)
    if start is not None and tuple(start.shape) != (X.shape[1], s):
        raise ValueError(
            f"start has shape {tuple(start.shape)}; expected {(X.shape[1], s)}, as "
            "RobustPCA(s).fit(X).components_.T has"
        )
    _check_length("center", center, X)
    start = None if start is None else start.detach().to(X)
    A = X if center is None else X - center
    options: dict[str, Any] = {"loss": loss, "epsilon": float(epsilon), "max_iter": max_iter}
    return Subspace.apply(A, Robust(s, tol, random_state, start=start, **options))


def robust_projector(X: Tensor, s: int, loss: str | Loss, **options: Any) -> Tensor:
    """Return ``V V^T`` of :func:`robust_subspace`, a matrix of n_features x n_features.

    Parameters
    ----------
    X, s, loss
        As in :func:`robust_subspace`.
    **options
        Its other options: center, start, epsilon, tol, max_iter, random_state.

    Returns
    -------
    P : tensor of shape (n_features, n_features)

    Examples
    --------
    >>> import torch
    >>> from dualpca.torch import robust_projector
    >>> X = torch.eye(3, dtype=torch.float64) * torch.tensor([3.0, 2.0, 0.5])
    >>> robust_projector(X, 2, "l1", epsilon=1e-3).diagonal().round().tolist()
    [1.0, 1.0, 0.0]
    """
    V = robust_subspace(X, s, loss, **options)
    with full_precision(V):
        return V @ V.mT


def is_integer(value: Any) -> bool:
    """Whether a value counts something."""
    return isinstance(value, Integral) and not isinstance(value, bool)


def _checked(X: Tensor, s: int, tol: float | None) -> float:
    """Refuse what is no matrix of float32 or float64 with s components; return ``tol``."""
    if not isinstance(X, torch.Tensor):
        raise TypeError(f"X is a {type(X).__name__}; give a torch tensor, or use dualpca.PCA")
    if X.dtype not in TOL:
        raise TypeError(
            f"X has dtype {X.dtype}, in which squares lose their digits; give X.float() or X.double()"
        )
    if X.ndim != 2:
        raise ValueError(
            f"X has shape {tuple(X.shape)}; give a matrix, and use torch.vmap for a batch of them"
        )
    if not is_integer(s):
        raise TypeError(f"s={s!r} counts components; give an integer")
    if not 1 <= s <= min(X.shape):
        raise ValueError(
            f"s={s} must be between 1 and min(n_samples, n_features)={min(X.shape)} for X of shape "
            f"{tuple(X.shape)}"
        )
    if tol is not None and not tol >= 0:
        raise ValueError(f"tol={tol} must be a number >= 0, such as 1e-6")
    return TOL[X.dtype] if tol is None else float(tol)


def _check_length(name: str, given: Tensor | None, X: Tensor) -> None:
    """Refuse rows or a center that would be stretched to the length of the rows of X."""
    if given is not None and given.shape[-1:] != X.shape[1:]:
        raise ValueError(
            f"{name} has shape {tuple(given.shape)} where X has {X.shape[1]} features; give as many"
        )


def _centered(X: Tensor, s: int, center: bool) -> tuple[Tensor, Tensor]:
    """Return ``X - mean`` and the mean, 0 where ``center`` is false."""
    _checked(X, s, None)
    if not center:
        return X, torch.zeros_like(X[0])
    mean = X.mean(0)
    return X - mean, mean


def _subspace(A: Tensor, s: int, tol: float | None, seed: int) -> Tensor:
    return Subspace.apply(A, Squares(s, _checked(A, s, tol), seed))
