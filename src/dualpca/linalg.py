"""Algebra of thin factors.

A thin factor is a ``d x s`` array of any array-API namespace, or an implicit ``W = Gamma^T A`` (see
:class:`dualpca.operators.Representer`) that knows its Gram matrix, its inner products and how to be
multiplied by a small matrix. The rest of the package treats both alike through these functions.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import singledispatch
from typing import Any

import array_api_compat.numpy as numpy_namespace
import numpy as np
from array_api_compat import array_namespace, device, is_cupy_array, is_torch_array

Array = Any  # a two-dimensional array of some namespace, or an implicit thin factor


def is_implicit(W: Array) -> bool:
    """Whether W is the implicit ``Gamma^T A``, which does not hold its entries."""
    return hasattr(W, "coefficients")


def namespace(*arrays: Array) -> Any:
    """Return the array-API namespace of the arrays; an implicit factor has none."""
    if {*map(type, arrays)} == {np.ndarray}:  # at once, as small fits ask for it often
        return numpy_namespace
    if any(is_implicit(a) for a in arrays):
        raise TypeError(
            "an entrywise function was asked of the implicit W = Gamma^T A, of which only inner "
            "products are known; use a unitarily invariant function such as Spectral(...) "
            "(Proposition 3.5, kernelizability for unitarily invariant G)"
        )
    return array_namespace(*arrays)


def asarray_like(values: Any, like: Array) -> Array:
    """Return ``values`` in the namespace, dtype and device of ``like``."""
    xp = namespace(like)
    return xp.asarray(values, dtype=like.dtype, device=device(like))


def is_single(A: Any) -> bool:
    """Whether an array, an operator or a dtype is float32, in any namespace."""
    dtype = getattr(A, "dtype", A)
    return dtype == np.float32 if isinstance(dtype, np.dtype) else "float32" in str(dtype)


def finfo(A: Any) -> np.finfo:
    """Return numpy's limits of float32 or float64, whichever an array, operator or dtype is."""
    return np.finfo(np.float32 if is_single(A) else np.float64)


def eps(A: Any) -> float:
    """Return the machine epsilon of an array, an operator or a dtype."""
    return float(finfo(A).eps)


@singledispatch
def to_numpy(A: Array) -> np.ndarray:
    """Copy a small array to the host."""
    if hasattr(A, "get"):  # cupy
        return A.get()
    try:
        return np.asarray(A.cpu() if hasattr(A, "cpu") else A)
    except RuntimeError:  # a device that only hands out numbers
        flat = namespace(A).reshape(A, (-1,))
        return np.array([float(flat[i]) for i in range(flat.shape[0])]).reshape(A.shape)


# The next four take arrays with a row for each row of the data; a kind whose rows are not in the memory
# of this process registers its own way.


@singledispatch
def over_blocks(A: Array, f: Callable[[int, Array], Any]) -> list[Any]:
    """Return ``f(i, block)`` for the i-th block of rows of A, computed where the block is."""
    return [f(0, A)]


@singledispatch
def map_row_blocks(A: Array, f: Callable[[Array], Array]) -> Array:
    """Return ``f(A)``, with one number a row, computed where the rows are."""
    return f(A)


@singledispatch
def host_sample(A: Array) -> np.ndarray:
    """Copy A to the host; of distributed rows, only those that :func:`sampled_rows` names."""
    return to_numpy(A)


@singledispatch
def sampled_rows(A: Array) -> np.ndarray:
    """Return the indices of the rows of :func:`host_sample`, in order and the same each time."""
    return np.arange(A.shape[0])


def total(A: Array) -> float:
    """Return the sum of all entries, in float64."""

    def block_sum(i: int, block: Array) -> float:
        xp = namespace(block)
        return float(xp.sum(xp.astype(block, xp.float64, copy=False)))

    return sum(over_blocks(A, block_sum))


def largest(A: Array) -> float:
    """Return the largest entry."""
    return max(over_blocks(A, lambda i, block: float(namespace(block).max(block))))


def at_least(A: Array, low: float) -> Array:
    """Return A with ``low`` in the place of smaller entries."""
    return np.maximum(A, low) if type(A) is np.ndarray else namespace(A).clip(A, low, None)


def power_of_two(sizes: Any) -> Any:
    """Return the largest power of two up to each size; 1/2 for 0 and what is not finite.

    Dividing by it rounds nothing, and brings numbers of that size near 1, where squares are safe.
    """
    return np.ldexp(0.5, np.frexp(np.where(np.isfinite(sizes), sizes, 0.0))[1])


def cross(A: Array, B: Array) -> Array:
    """``A^T B``, a small matrix."""
    return A.cross(B) if is_implicit(A) else A.T @ B


def gram(A: Array) -> Array:
    """``A^T A``, a small matrix."""
    return cross(A, A)


def inner(A: Array, B: Array) -> float:
    """``<A, B>``, the Frobenius inner product."""
    if is_implicit(A):
        return A.inner(B)
    return float(namespace(A, B).sum(A * B))


def norm(A: Array) -> float:
    """``||A||_{S_2}``, the Frobenius norm."""
    if is_implicit(A):
        return math.sqrt(max(inner(A, A), 0.0))
    xp = namespace(A)
    with np.errstate(over="ignore", under="ignore"):
        size = float(xp.linalg.vector_norm(A))
    if 1e-15 < size < 1e15:
        return size
    scale = max_abs(A)  # squares of an extreme scale overflow or vanish
    if scale == 0.0 or not math.isfinite(scale):
        return scale
    return scale * float(xp.linalg.vector_norm(A / scale))


def on_gpu(A: Array) -> bool:
    """Whether an array lives on a GPU."""
    if is_torch_array(A):
        return str(A.device) != "cpu"
    return is_cupy_array(A)


def standard_normal(shape: tuple[int, int], like: Array, seed: int) -> Array:
    """Draw Gaussian entries of the kind, dtype and device of ``like``, on its GPU if it has one."""
    if on_gpu(like) and is_torch_array(like):
        import torch

        draw = torch.Generator(like.device).manual_seed(seed)
        return torch.randn(shape, generator=draw, dtype=like.dtype, device=like.device)
    if on_gpu(like):
        import cupy

        draw = cupy.random.Generator(cupy.random.XORWOW(seed))
        return draw.standard_normal(shape, dtype=like.dtype)
    return asarray_like(np.random.default_rng(seed).standard_normal(shape), like)


def column_norms(A: Array) -> Array:
    """``||A_{:,j}||`` for each column, whatever the scale."""
    xp = namespace(A)
    if not math.prod(A.shape):
        return xp.sum(A, axis=0)
    if is_single(A):
        squares = xp.sum(xp.astype(A, xp.float64) ** 2, axis=0)
        return xp.astype(xp.sqrt(squares), A.dtype)
    scale = xp.max(xp.abs(A))
    scale = xp.where(scale > 0, scale, xp.ones_like(scale))  # no number leaves the device
    A = A / scale
    return scale * xp.sqrt(xp.sum(A * A, axis=0))


def max_abs(A: Array) -> float:
    """``max |A_ij|``; the Frobenius norm if the entries are implicit."""
    if is_implicit(A):
        return norm(A)
    xp = namespace(A)
    return float(xp.max(xp.abs(A))) if math.prod(A.shape) else 0.0


def cholesky(S: Array) -> Array:
    """Return the lower factor of a small positive definite S, unchecked: no host waits for a GPU.

    It has no meaning where S is not positive definite.
    """
    if is_torch_array(S):
        import torch

        return torch.linalg.cholesky_ex(S)[0]
    try:
        return namespace(S).linalg.cholesky(S)
    except np.linalg.LinAlgError:
        return S * math.nan


def raise_diagonal(S: Array, factor: float, term: float) -> Array:
    """Return S with ``factor S_ii + term`` added to each ``S_ii``; the memory of S may be used for it."""
    if is_torch_array(S):  # two small operations of a GPU instead of six
        S.diagonal().mul_(1 + factor).add_(term)
        return S
    xp = namespace(S)
    eye = xp.eye(S.shape[0], dtype=S.dtype, device=device(S))
    return S + eye * (factor * xp.linalg.diagonal(S) + term)


def solve_lower(L: Array, B: Array) -> Array:
    """Return ``L^{-1} B`` of a lower triangular L, by substitution if the namespace has that."""
    if is_torch_array(L):
        import torch

        return torch.linalg.solve_triangular(L, B, upper=False)
    if is_cupy_array(L):
        from cupyx.scipy.linalg import solve_triangular

        return solve_triangular(L, B, lower=True)
    return namespace(L).linalg.solve(L, B)


def eigh(S: Array) -> tuple[Array, Array]:
    """Return the eigenvalues, decreasing, and the eigenvectors of a small symmetric matrix."""
    xp = namespace(S)
    values, vectors = xp.linalg.eigh((S + S.T) / 2)
    return xp.flip(values, axis=0), xp.flip(vectors, axis=1)


def right_singular(Y: Array) -> tuple[Array, Array]:
    """Return the singular values (decreasing) and the right singular vectors of a thin factor.

    They come from the R of a QR. An implicit Y has only its Gram matrix, which halves the digits:
    values below ``sqrt(eps) sigma_1`` become 0.
    """
    if is_implicit(Y):
        lam, V = eigh(gram(Y))
        xp = namespace(lam)
        cut = eps(lam) * lam.shape[0] * max_abs(lam)
        return xp.sqrt(xp.where(lam > cut, lam, xp.zeros_like(lam))), V
    xp = namespace(Y)
    _, R = xp.linalg.qr(Y, mode="reduced")
    _, sigma, Vt = xp.linalg.svd(R, full_matrices=False)
    return sigma, Vt.T


def singular_values(Y: Array) -> Array:
    """``sigma(Y)``, decreasing."""
    return right_singular(Y)[0]


def map_singular_values(Y: Array, f: Callable[[Array], Array]) -> tuple[Array, Array]:
    """``U Diag(f(sigma)) V^T`` for ``Y = U Diag(sigma) V^T``, and ``sigma``.

    An explicit Y goes through its QR, whose Q is orthonormal however small sigma is. An implicit Y
    is multiplied from the right by ``V Diag(f(sigma)/sigma) V^T``, in which 0/0 is 0 (the remark
    after the general kernel iteration, Appendix C).
    """
    if is_implicit(Y):
        sigma, V = right_singular(Y)
        xp = namespace(sigma)
        positive = sigma > 0
        ratio = f(sigma) / xp.where(positive, sigma, xp.ones_like(sigma))
        ratio = xp.where(positive, ratio, xp.zeros_like(ratio))
        return Y @ ((V * ratio[None, :]) @ V.T), sigma
    xp = namespace(Y)
    Q, R = xp.linalg.qr(Y, mode="reduced")
    U, sigma, Vt = xp.linalg.svd(R, full_matrices=False)
    return Q @ ((U * f(sigma)[None, :]) @ Vt), sigma


def orthonormalize(Y: Array) -> Array:
    """Return an orthonormal basis of ``col(Y)``.

    Householder QR completes an explicit Y of low rank to as many columns; an implicit Y loses them. Of
    full rank it becomes its polar factor: rounding would decide on another basis where Y is orthonormal.
    """
    if is_implicit(Y):
        # One round leaves it orthonormal to eps cond(Y)^2, as the Gram matrix squares.
        for _ in range(2):
            sigma, V = right_singular(Y)
            xp = namespace(sigma)
            keep = int(xp.sum(xp.astype(sigma > 0, xp.int64)))
            M = V[:, :keep] / sigma[None, :keep]
            Y = Y @ (M @ V.T if keep == Y.shape[1] else M)
        return Y
    return namespace(Y).linalg.qr(Y, mode="reduced")[0]


def residual(W: Array, Z: Array) -> float:
    """``||Z - W W^T Z||_F / ||Z||_F`` with W orthonormal and ``Z = X^T dF(X W)``.

    ``tol`` bounds this everywhere. If W is not orthonormal, a small matrix T makes W T so, and Z T
    replaces Z: exact if dF is linear up to scale, as in every formulation of PCA.
    """
    G = gram(W)
    xp = namespace(G)
    eye = xp.eye(G.shape[0], dtype=G.dtype, device=device(G))
    # W is orthonormal already after every step of DCA on (l), (n), and without columns.
    if not max_abs(G - eye) <= 100 * eps(G):
        sigma, V = right_singular(W)
        floor = eps(sigma) * sigma.shape[0] * max_abs(sigma)
        keep = int(xp.sum(xp.astype(sigma > floor, xp.int64)))
        if keep == 0:  # W = 0 spans nothing, which is right only if there is nothing to span
            return 0.0 if norm(Z) == 0 else 1.0
        T = V[:, :keep] / sigma[None, :keep]
        W, Z = W @ T, Z @ T
    size = norm(Z)
    return norm(Z - W @ cross(W, Z)) / size if size != 0 else 0.0


def fix_signs(V: Array) -> Array:
    """Return the sign for each column that makes its entry of largest magnitude positive.

    The first of entries that are tied within rounding decides, so that solvers and backends that
    agree to rounding agree in sign.
    """
    xp = namespace(V)
    size = xp.abs(V)
    tied = size >= (1 - 1e3 * eps(V)) * xp.max(size, axis=0)
    first = xp.argmax(xp.astype(tied, xp.int8), axis=0)
    decides = xp.arange(V.shape[0], device=device(V))[:, None] == first[None, :]
    value = xp.sum(V * xp.astype(decides, V.dtype), axis=0)
    return 1 - 2 * xp.astype(value < 0, V.dtype)
