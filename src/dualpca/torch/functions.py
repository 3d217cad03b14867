"""The derivatives: of a subspace, of the equation that they solve, and of a small eigenbasis.

Each is a ``torch.autograd.Function`` for reverse and forward mode, ``torch.func`` and ``vmap``. Backward
and jvp consist of differentiable operations and of these functions, so that there are derivatives of any
order. Only ``forward`` looks at numbers: it alone gets plain tensors under every transform.
"""

from __future__ import annotations

from typing import Any

import torch

from ..linalg import eigh, eps
from .complement import GapError
from .problems import Squares, Tensor, off

#: Eigenvalues within this many units of rounding of the largest one are equal.
TIED = 1e3

#: What is below this many roots of eps of a gradient counts as its rounding.
NOISE = 10

#: A right side of this many eps of the gradient is rounding: the loss does not depend on the subspace.
ZERO = 8


def looped(function: Any, info: Any, in_dims: Any, *inputs: Any) -> tuple[Any, Any]:
    """``vmap`` one by one: each item of the batch is a problem of its own."""

    def item(i: int) -> Any:
        dims = zip(inputs, in_dims, strict=True)
        return function.apply(*(x if dim is None else x.select(dim, i) for x, dim in dims))

    items = [item(i) for i in range(info.batch_size)]
    if isinstance(items[0], tuple):
        return tuple(torch.stack(parts) for parts in zip(*items, strict=True)), (0,) * len(items[0])
    return torch.stack(items), 0


def full_precision(A: Tensor) -> Any:
    """Return a context in which autocast does not round products to half precision."""
    return torch.autocast(A.device.type, enabled=False)


class Subspace(torch.autograd.Function):
    """``A -> W`` with the derivative of the span: dW is orthogonal to W."""

    @staticmethod
    def forward(A: Tensor, problem: Squares) -> Tensor:
        with full_precision(A):
            return problem.fit(A).contiguous()

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Tensor) -> None:
        A, ctx.problem = inputs
        ctx.save_for_backward(A, output)
        ctx.save_for_forward(A, output)

    @staticmethod
    def backward(ctx: Any, G: Tensor) -> Any:
        A, W = ctx.saved_tensors
        with full_precision(A):
            return ctx.problem.pullback(A, W, Solution.apply(A, W, G, ctx.problem, True)), None

    @staticmethod
    def jvp(ctx: Any, dA: Tensor, _: Any) -> Tensor:
        A, W = ctx.saved_tensors
        with full_precision(A):
            R = ctx.problem.pushforward(A, W, dA)
            return Solution.apply(A, W, R, ctx.problem, False)

    @staticmethod
    def vmap(info: Any, in_dims: Any, *inputs: Any) -> tuple[Any, Any]:
        return looped(Subspace, info, in_dims, *inputs)


class Solution(torch.autograd.Function):
    """``L^{-1}((I - W W^T) G)``; with ``invariant``, G must not depend on the basis of the span of W."""

    @staticmethod
    def forward(A: Tensor, W: Tensor, G: Tensor, problem: Squares, invariant: bool) -> Tensor:
        if invariant:
            check_invariant(W, G)
        with full_precision(A):
            R = off(W, off(W, G))
            if float(R.norm()) <= ZERO * eps(W) * float(G.norm()):
                return torch.zeros_like(G)
            return problem.solve(A, W, R).contiguous()

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Tensor) -> None:
        A, W, G, ctx.problem, _ = inputs
        ctx.save_for_backward(A, W, G, output)
        ctx.save_for_forward(A, W, G, output)

    @staticmethod
    def backward(ctx: Any, dY: Tensor) -> Any:
        A, W, G, Y = ctx.saved_tensors
        with full_precision(A):
            adjoint = inverse(A, W, dY, ctx.problem)
            return *torch.func.vjp(imbalance(Y, ctx.problem), A, W, G)[1](adjoint), None, None

    @staticmethod
    def jvp(ctx: Any, dA: Tensor, dW: Tensor, dG: Tensor, *_: Any) -> Tensor:
        A, W, G, Y = ctx.saved_tensors
        with full_precision(A):
            R = torch.func.jvp(imbalance(Y, ctx.problem), (A, W, G), (dA, dW, dG))[1]
            return inverse(A, W, R, ctx.problem)

    @staticmethod
    def vmap(info: Any, in_dims: Any, *inputs: Any) -> tuple[Any, Any]:
        return looped(Solution, info, in_dims, *inputs)


def imbalance(Y: Tensor, problem: Squares) -> Any:
    """``(A, W, G) -> (I - W W^T) G - L(Y)``, which is 0 at the solution Y."""
    return lambda A, W, G: off(W, G) - problem.curvature(A, W)(Y)


def inverse(A: Tensor, W: Tensor, R: Tensor, problem: Squares) -> Tensor:
    """``L^{-1}(R)`` in all of space, where L is the identity on the span of W."""
    return Solution.apply(A, W, R, problem, False) + W @ (W.mT @ R)


def check_invariant(W: Tensor, G: Tensor) -> None:
    """Refuse the gradient of a loss that tells bases of the same subspace apart."""
    S = W.mT @ G
    turned, size = float((S - S.mT).norm()), float(G.norm())
    if turned > NOISE * eps(W) ** 0.5 * size:
        raise ValueError(
            f"the loss depends on the basis V of the subspace, by {turned / size:.1e} of its gradient, "
            "and only the subspace has a derivative here; use V in products such as V @ V.T, or take "
            "principal_components"
        )


class Eigenbasis(torch.autograd.Function):
    """``T = U Diag(theta) U^T``, theta decreasing; ``unit`` is the relative rounding of T."""

    @staticmethod
    def forward(T: Tensor, unit: float) -> tuple[Tensor, Tensor]:
        return eigh(T)

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: tuple[Tensor, Tensor]) -> None:
        ctx.unit = inputs[1]
        ctx.save_for_backward(*output)
        ctx.save_for_forward(*output)

    @staticmethod
    def backward(ctx: Any, dtheta: Tensor, dU: Tensor) -> Any:
        theta, U = ctx.saved_tensors
        turn = U.mT @ dU
        # Not turn - turn^T alone: of sum_i theta_i u_i u_i^T that is 0 for equal theta, its quotient not.
        gaps = Gaps.apply(theta, turn.abs() + turn.mT.abs(), ctx.unit)
        D = torch.diag_embed(dtheta) + (turn - turn.mT) / (2 * gaps)
        return U @ D @ U.mT, None

    @staticmethod
    def jvp(ctx: Any, dT: Tensor, _: Any) -> tuple[Tensor, Tensor]:
        theta, U = ctx.saved_tensors
        S = U.mT @ ((dT + dT.mT) / 2) @ U
        dtheta = S.diagonal(dim1=-2, dim2=-1)
        return dtheta, U @ (S / Gaps.apply(theta, S, ctx.unit))

    @staticmethod
    def vmap(info: Any, in_dims: Any, *inputs: Any) -> tuple[Any, Any]:
        return looped(Eigenbasis, info, in_dims, *inputs)


class Gaps(torch.autograd.Function):
    """``theta_j - theta_i``, and infinity for i = j and where both are equal to rounding.

    A quotient by it is 0 there, as it should be if nothing depends on the two eigenvectors. It is
    refused if ``used_ij`` is not 0: then they have no derivative.
    """

    @staticmethod
    def forward(theta: Tensor, used: Tensor, unit: float) -> Tensor:
        gaps = theta[None, :] - theta[:, None]
        tied = gaps.abs() <= TIED * unit * theta.abs().max()
        some = used.abs() > NOISE * unit**0.5 * used.abs().max()
        refused = (tied & some).triu(1).nonzero().tolist()
        if refused:
            i, j = refused[0]
            raise GapError(
                f"components {i} and {j}, counted from 0, have the same eigenvalue {float(theta[i]):.6g} "
                "to rounding and no derivative one by one; use pca_projector or principal_subspace, or a "
                "loss without these components"
            )
        return torch.where(tied, torch.inf, gaps)

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Tensor) -> None:
        ctx.save_for_backward(output)
        ctx.save_for_forward(output)

    @staticmethod
    def backward(ctx: Any, G: Tensor) -> Any:
        G = torch.where(torch.isinf(ctx.saved_tensors[0]), 0.0, G)
        return G.sum(-2) - G.sum(-1), None, None

    @staticmethod
    def jvp(ctx: Any, dtheta: Tensor, *_: Any) -> Tensor:
        change = dtheta[..., None, :] - dtheta[..., :, None]
        return torch.where(torch.isinf(ctx.saved_tensors[0]), 0.0, change)

    @staticmethod
    def vmap(info: Any, in_dims: Any, *inputs: Any) -> tuple[Any, Any]:
        return looped(Gaps, info, in_dims, *inputs)
