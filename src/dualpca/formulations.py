"""The formulations of PCA by the paper's letters: Figures 1 and 2, Hoelder, robust and sparse pairs."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from .functions.base import Ball, Function, HalfSquare, Power, Spectral
from .functions.norms import Lp
from .functions.rows import RowLoss
from .functions.sparse import HardSquare, KSupport, SoftSquare, TopK
from .linalg import Array, gram, host_sample, is_single, largest, namespace, norm
from .losses import Loss, as_loss
from .operators import Operator, as_operator
from .problem import DCProblem

__all__ = [
    "CLASSICAL",
    "FORMULATIONS",
    "Classical",
    "block_sparse",
    "formulation",
    "gpower",
    "optimal_value",
    "sparse",
]


def _l(X: Operator) -> DCProblem:
    """``minimize -1/2 ||XW||_{S_2}^2 over ||W||_{S_inf} <= 1``: (l), and (d) relaxed to its hull."""
    return DCProblem(Spectral(Ball(Lp(math.inf))), HalfSquare(Lp(2)), X)


def _n(X: Operator) -> DCProblem:
    """``minimize -||XW||_{S_2} over ||W||_{S_inf} <= 1``: (n)."""
    return DCProblem(Spectral(Ball(Lp(math.inf))), Lp(2), X)


def _p(X: Operator) -> DCProblem:
    """``minimize 1/2 ||W||_{S_inf}^2 - ||XW||_{S_2}``: (p)."""
    return DCProblem(Spectral(HalfSquare(Lp(math.inf))), Lp(2), X)


def _k(X: Operator) -> DCProblem:
    """``minimize 1/4 ||W||_{S_4}^4 - 1/2 ||XW||_{S_2}^2``: (k), the primal of Proposition 3.3."""
    return DCProblem(Spectral(Power(4)), HalfSquare(Lp(2)), X)


def row_epsilon(norms: Array, loss: Loss) -> float:
    """Return the default epsilon of :func:`robust` for rows of these norms."""
    if not loss.singular:
        return 0.0
    share = 1e-3 if is_single(norms) else loss.smoothing
    sample = np.sort(host_sample(norms))
    return share * float(sample[len(sample) // 2])


def robust(
    X: Operator, epsilon: float | None = None, loss: Any = "l1", mass: Array | None = None
) -> DCProblem:
    """``minimize sum_i m_i rho(||X_i - W W^T X_i||) over ||W||_{S_inf} <= 1``: Proposition 4.1.

    The DC problem has ``F(Y) = -sum_i m_i psi(||X_i||^2 + epsilon^2 - ||Y_i||^2)``, which is minus the
    loss of the reconstruction errors where W^T W = I. ``loss`` is a name of
    :data:`dualpca.losses.LOSSES` or an instance; the paper's is ``rho(r) = r``. ``epsilon`` keeps the
    weight of a fitted row finite (the remark in Appendix C). By default it is 1e-6 of the median row
    norm (1e-3 in float32, where smaller gaps are rounding, and for "log"), 0 for losses without need.
    """
    loss = as_loss(loss)
    norms = X.row_norms()
    xp = namespace(norms)
    epsilon = row_epsilon(norms, loss) if epsilon is None else epsilon
    longest = largest(norms)
    if not longest <= float(xp.finfo(norms.dtype).max) ** 0.5 / 2:
        raise ValueError(
            f"X has a row of norm {longest:.1e}, whose square overflows {norms.dtype}; divide X by its "
            "largest magnitude"
        )
    alpha = X.persist_rows(xp.sqrt(norms**2 + epsilon**2))[0] if epsilon else norms
    return DCProblem(Spectral(Ball(Lp(math.inf))), RowLoss(alpha, loss, mass), X)


def _sparse_l1(X: Operator) -> DCProblem:
    """``minimize 1/2 ||W||_1^2 - ||XW||_{S_2}``, entrywise l1: the paper's first sparse formulation.

    It is degenerate. Along each ray the least value is minus half the square of ``||XW||/||W||_1``, a
    convex function over the l1 norm, which is largest at an extreme point of the l1 ball: a solution
    has one nonzero entry and the optimum is ``-1/2 max_i ||X_{:,i}||^2``, whatever the number of
    columns. DCA may also stop at another entry. Use :func:`sparse`, the k-sparse ball, instead.
    """
    return DCProblem(HalfSquare(Lp(1)), Lp(2), X)


def sparse(X: Any, k: int, positive: bool = False) -> DCProblem:
    """``minimize delta_C(w) - 1/2 ||Xw||^2``, C the hull of the k-sparse unit vectors.

    The second formulation of the paper's section on sparse PCA (Beck 2021), for one column w; a
    maximiser of a convex function over C is among the k-sparse unit vectors. DCA keeps the k largest
    entries of ``X^T X w`` and normalises them.

    Parameters
    ----------
    X : Operator or array
    k : int
        How many entries of w may differ from 0.
    positive : bool
        Whether they must be nonnegative.

    Returns
    -------
    DCProblem

    Examples
    --------
    >>> import numpy as np
    >>> from dualpca.solvers import DCA
    >>> from dualpca.formulations import sparse
    >>> problem = sparse(np.diag([3.0, 2.0, 1.0]), k=2)
    >>> next(DCA()(problem, np.ones((3, 1)))).point.W.T
    array([[0.914, 0.406, 0.   ]])
    """
    return DCProblem(Ball(KSupport(k, positive)), HalfSquare(Lp(2)), as_operator(X))


def block_sparse(X: Any, k: int | tuple[int, ...], positive: bool = False) -> DCProblem:
    """``minimize -1/2 sum_j ||(X^T U)_j||_(k_j)^2 over ||U||_{S_inf} <= 1``, U of N rows.

    ``||.||_(k)`` is the l2 norm of the k largest entries (:class:`TopK`). Several k-sparse components at
    once, in the manner of Journee, Nesterov, Richtarik and Sepulchre (2010). The dual is
    ``1/2 sum_j ||w_j||_sp^2 - ||XW||_{S_1}`` with the k-support norm, so the sparse loadings of U are
    ``W = problem.to_dual(U)``, up to their lengths; k is a number for all columns, or one for each.
    """
    return _on_scores(HalfSquare(TopK(k, positive)), X)


def gpower(
    X: Any, gamma: float | tuple[float, ...], penalty: str = "l1", positive: bool = False
) -> DCProblem:
    """``minimize -1/2 sum_ij [|(X^T U)_ij| - gamma_j]_+^2 over ||U||_{S_inf} <= 1``: penalty "l1".

    With "l0", ``[(X^T U)_ij^2 - gamma_j]_+`` instead of the square. GPower (Journee, Nesterov, Richtarik
    and Sepulchre 2010, Sections 2.3 and 2.4, with mu_j = 1), on the hull of their Stiefel manifold. The
    dual of "l1" is ``1/2 ||W||^2 + sum_j gamma_j ||w_j||_1 - ||XW||_{S_1}``, so the sparse loadings of
    U are ``W = problem.to_dual(U)``, up to their lengths. With "l1" they vanish where ``gamma_j`` is
    the largest column norm of X, with "l0" its square.
    """
    kinds = {"l1": SoftSquare, "l0": HardSquare}
    if penalty not in kinds:
        raise ValueError(f"penalty={penalty!r} is unknown; choose 'l1' or 'l0'")
    return _on_scores(kinds[penalty](gamma, positive), X)


def _on_scores(F: Function, X: Any) -> DCProblem:
    return DCProblem(Spectral(Ball(Lp(math.inf))), F, as_operator(X).T)


#: The DC formulations. (m), (o), (q) and the Hoelder dual are duals; (g) is (l) on the transpose.
FORMULATIONS: dict[str, Callable[[Operator], DCProblem]] = {
    "d": _l,
    "l": _l,
    "g": lambda X: _l(X.T),
    "m": lambda X: _l(X).dual,
    "n": _n,
    "o": lambda X: _n(X).dual,
    "p": _p,
    "q": lambda X: _p(X).dual,
    "k": _k,
    "holder_dual": lambda X: _k(X).dual,
    "robust": robust,
    "robust_dual": lambda X: robust(X).dual,
    "sparse_l1": _sparse_l1,
}


def formulation(name: str, X: Any) -> DCProblem:
    """Return a formulation of the paper by its letter; a trailing ``T`` transposes X.

    Parameters
    ----------
    name : str
        A key of :data:`FORMULATIONS`, or one with ``T`` behind it: ``"nT"`` is (n) on the transpose
        (Remark 3.4).
    X : Operator or array

    Returns
    -------
    DCProblem

    Examples
    --------
    >>> import numpy as np
    >>> from dualpca import as_operator
    >>> from dualpca.formulations import formulation
    >>> X = as_operator(np.ones((5, 3)))
    >>> formulation("n", X).dual == formulation("o", X)
    True
    >>> formulation("l", X).X.shape, formulation("lT", X).X.shape
    ((5, 3), (3, 5))
    """
    operator = as_operator(X)
    if name in FORMULATIONS:
        return FORMULATIONS[name](operator)
    if isinstance(name, str) and name.endswith("T") and name[:-1] in FORMULATIONS:
        return FORMULATIONS[name[:-1]](operator.T)
    raise ValueError(
        f"formulation={name!r} is not in the catalogue; choose one of {', '.join(FORMULATIONS)}, "
        "or one of them with 'T' appended for the transpose"
    )


def optimal_value(name: str, sigma: Array, s: int) -> float:
    """Return the optimal value of a formulation of PCA from the singular values (decreasing).

    (l), (m), (p), (q), (d), (g): ``-1/2 sum sigma_i^2``; (n), (o): ``-sqrt(sum sigma_i^2)``; (k) and
    its dual: ``-1/4 sum sigma_i^4``; sums over the s largest (Proposition 3.2).
    """
    top = sigma[:s]
    xp = namespace(top)
    name = name.removesuffix("T")
    if name in ("n", "o"):
        return -math.sqrt(float(xp.sum(top**2)))
    if name in ("k", "holder_dual"):
        return -0.25 * float(xp.sum(top**4))
    if name in ("d", "l", "g", "m", "p", "q"):
        return -0.5 * float(xp.sum(top**2))
    raise ValueError(f"formulation={name!r} has no closed-form optimum in the singular values")


@dataclass(frozen=True)
class Classical:
    """A classical box of Figure 1: an objective of X and its variables, and a global minimiser.

    ``minimizer(U, sigma, V)`` takes the s leading singular triplets of X and returns the variables;
    ``constraint`` names what they must satisfy.
    """

    formula: str
    constraint: str
    objective: Callable[..., float]
    minimizer: Callable[[Array, Array, Array], tuple[Array, ...]]


#: The classical boxes of Figure 1 that are not DC problems as they stand, on a dense array X.
#: (h), (i), (j) on the transpose are three of the four formulations on X X^T.
CLASSICAL: dict[str, Classical] = {
    "a": Classical(
        "||X - A||^2",
        "rank(A) = s",
        lambda X, A: norm(X - A) ** 2,
        lambda U, sigma, V: ((U * sigma[None, :]) @ V.T,),
    ),
    "b": Classical(
        "||X - B W^T||^2",
        "W^T W = I",
        lambda X, B, W: norm(X - B @ W.T) ** 2,
        lambda U, sigma, V: (U * sigma[None, :], V),
    ),
    "c": Classical(
        "||X - X W W^T||^2",
        "W^T W = I",
        lambda X, W: norm(X - (X @ W) @ W.T) ** 2,
        lambda U, sigma, V: (V,),
    ),
    "e": Classical(
        "||X - H C^T||^2",
        "H^T H = I",
        lambda X, H, C: norm(X - H @ C.T) ** 2,
        lambda U, sigma, V: (U, V * sigma[None, :]),
    ),
    "f": Classical(
        "||X - H H^T X||^2",
        "H^T H = I",
        lambda X, H: norm(X - H @ (H.T @ X)) ** 2,
        lambda U, sigma, V: (U,),
    ),
    "h": Classical(
        "||X^T X - A||^2",
        "rank(A) = s",
        lambda X, A: norm(gram(X) - A) ** 2,
        lambda U, sigma, V: ((V * sigma[None, :] ** 2) @ V.T,),
    ),
    "i": Classical(
        "||X^T X - W W^T||^2",
        "none",
        lambda X, W: norm(gram(X) - W @ W.T) ** 2,
        lambda U, sigma, V: (V * sigma[None, :],),
    ),
    "j": Classical(
        "1/2 ||W W^T||^2 - ||X W||^2",
        "none",
        lambda X, W: 0.5 * norm(gram(W)) ** 2 - norm(X @ W) ** 2,
        lambda U, sigma, V: (V * sigma[None, :],),
    ),
}
