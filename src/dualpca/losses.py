"""The losses of robust PCA: ``rho(r) = psi(r^2)`` with psi concave and nondecreasing.

Each of them makes ``F(Y) = -sum_i psi(||X_i||^2 - ||Y_i||^2)`` convex, so that robust PCA is a DC problem
of the paper's form (:class:`dualpca.functions.RowLoss`); the paper's own is :class:`L1`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from array_api_compat import is_numpy_array

from .linalg import Array, is_single, namespace

__all__ = [
    "L1",
    "LOSSES",
    "Cauchy",
    "GemanMcClure",
    "Huber",
    "Log",
    "Loss",
    "PowerLoss",
    "Square",
    "Tanh",
    "Tukey",
    "Welsch",
    "as_loss",
]


@dataclass(frozen=True)
class Loss(ABC):
    """``c^2 psi(r^2 / c^2)`` with the scale c; ``psi' <= 1``, or unbounded at 0 (:attr:`singular`).

    Parameters
    ----------
    scale : float, optional
        c, in units of the residuals. Estimators set it from the data where it is None.
    """

    scale: float | None = None

    #: whether psi' is unbounded at 0, so that a row in the subspace needs an epsilon
    singular = False
    #: the default epsilon of a singular loss, as a share of the median row norm
    smoothing = 1e-6
    #: whether c only multiplies the loss, so that there is nothing to set from the data
    homogeneous = False
    #: c over the largest residual of a good row: Tukey's biweight has no weight left at c
    tuning = 1.0

    def __post_init__(self) -> None:
        if self.scale is not None and not 0 < self.scale < float("inf"):
            raise ValueError(f"scale={self.scale} must be a positive number, or None")

    @property
    def c(self) -> float:
        """The scale, or 1 where it was not set."""
        return 1.0 if self.scale is None else float(self.scale)

    @property
    def for_kernels(self) -> tuple[int, float, float] | None:
        """The number of psi in the C kernels, c^2 and the exponent; None where they do not know it."""
        number = KERNELS.get(type(self))
        return None if number is None else (number, self.c**2, getattr(self, "p", 1.0))

    @abstractmethod
    def psi(self, v: Array) -> Array:
        """``psi(v)``, v >= 0."""

    @abstractmethod
    def slope(self, v: Array) -> Array:
        """``psi'(v)``: half the weight of a row with the squared residual ``c^2 v``."""

    def maximizer(self, h: Array, alpha: Array) -> Array:
        """``argmax_t h t + c^2 psi((alpha^2 - t^2) / c^2)`` over ``0 <= t <= alpha``.

        Bisection finds it, as the derivative decreases; losses with a closed form override this.
        """
        xp = namespace(h)
        low, high = xp.zeros_like(alpha), alpha
        for _ in range(32 if is_single(h) else 64):
            t = (low + high) / 2
            gap = xp.clip(alpha * alpha - t * t, float(xp.finfo(h.dtype).smallest_normal), None)
            rising = h > 2 * t * self.slope(gap / self.c**2)
            low, high = xp.where(rising, t, low), xp.where(rising, high, t)
        return (low + high) / 2

    def conjugate_value(self, h: Array, alpha: Array) -> Array:
        """``max_t h t + c^2 psi((alpha^2 - t^2) / c^2)`` over ``0 <= t <= alpha``."""
        t = self.maximizer(h, alpha)
        gap = namespace(h).clip((alpha - t) * (alpha + t), 0.0, None) / self.c**2
        return h * t + self.c**2 * where_positive(self.psi, gap)

    def conjugate_weight(self, h: Array, alpha: Array) -> Array:
        """Return :meth:`maximizer` over h, or 0 where h is 0."""
        return where_positive(lambda h: self.maximizer(h, alpha) / h, h)

    def at(self, scale: float) -> Loss:
        """Return the same loss with another scale."""
        return replace(self, scale=scale)


@dataclass(frozen=True)
class PowerLoss(Loss):
    """``r^p``, 0 < p < 2: ``psi(v) = v^{p/2}``."""

    p: float = 1.0
    singular = True
    homogeneous = True

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 < self.p < 2:
            raise ValueError(f"p={self.p} is outside (0, 2), where the loss is robust")

    def psi(self, v: Array) -> Array:
        return v ** (self.p / 2)

    def slope(self, v: Array) -> Array:
        return (self.p / 2) * v ** (self.p / 2 - 1)


class L1(Loss):
    """``r``: ``psi(v) = sqrt(v)``, least absolute deviations (Proposition 4.1)."""

    singular = True
    homogeneous = True

    def psi(self, v: Array) -> Array:
        return namespace(v).sqrt(v)

    def slope(self, v: Array) -> Array:
        return 0.5 / namespace(v).sqrt(v)

    def maximizer(self, h: Array, alpha: Array) -> Array:
        return h * self.conjugate_weight(h, alpha)

    def conjugate_value(self, h: Array, alpha: Array) -> Array:
        return alpha * namespace(h).sqrt(self.c**2 + h * h)

    def conjugate_weight(self, h: Array, alpha: Array) -> Array:
        return alpha / namespace(h).sqrt(self.c**2 + h * h)


class Huber(Loss):
    """``r^2`` up to c, then ``2 c r - c^2``: ``psi(v) = v`` up to 1, then ``2 sqrt(v) - 1``."""

    def psi(self, v: Array) -> Array:
        xp = namespace(v)
        return xp.where(v <= 1, v, 2 * xp.sqrt(v) - 1)

    def slope(self, v: Array) -> Array:
        xp = namespace(v)
        return 1 / xp.sqrt(xp.clip(v, 1.0, None))

    def maximizer(self, h: Array, alpha: Array) -> Array:
        xp, c = namespace(h), self.c
        linear = alpha * h / xp.sqrt(4 * c * c + h * h)
        inside = xp.where(h / 2 < alpha, h / 2, alpha)
        return xp.where(4 * alpha * alpha >= 4 * c * c + h * h, linear, inside)


class Log(Loss):
    """``2 log r``: ``psi(v) = log v``, as Tyler's M-estimator; unbounded below at residual 0.

    It locks onto single rows where an epsilon does not keep their residuals from 0.
    """

    singular = True
    smoothing = 1e-3
    homogeneous = True

    def psi(self, v: Array) -> Array:
        return namespace(v).log(v)

    def slope(self, v: Array) -> Array:
        return 1 / v

    def maximizer(self, h: Array, alpha: Array) -> Array:
        return _logarithmic(h, alpha * alpha, self.c**2)


class Cauchy(Loss):
    """``log(1 + r^2/c^2)``: ``psi(v) = log(1 + v)``."""

    def psi(self, v: Array) -> Array:
        return namespace(v).log1p(v)

    def slope(self, v: Array) -> Array:
        return 1 / (1 + v)

    def maximizer(self, h: Array, alpha: Array) -> Array:
        t = _logarithmic(h, alpha * alpha + self.c**2, self.c**2)
        return namespace(h).where(t < alpha, t, alpha)


class GemanMcClure(Loss):
    """``r^2/(c^2 + r^2)``: ``psi(v) = v/(1 + v)``; the weight falls as r^-4."""

    def psi(self, v: Array) -> Array:
        return v / (1 + v)

    def slope(self, v: Array) -> Array:
        return (1 / (1 + v)) ** 2


class Welsch(Loss):
    """``1 - exp(-r^2/c^2)``: ``psi(v) = 1 - exp(-v)``."""

    def psi(self, v: Array) -> Array:
        return -namespace(v).expm1(-v)

    def slope(self, v: Array) -> Array:
        return namespace(v).exp(-v)


class Tukey(Loss):
    """``(1 - (1 - r^2/c^2)^3)/3`` up to c, then 1/3: Tukey's biweight, which drops rows beyond c."""

    tuning = 2.0

    def psi(self, v: Array) -> Array:
        return (1 - namespace(v).clip(1 - v, 0.0, None) ** 3) / 3

    def slope(self, v: Array) -> Array:
        return namespace(v).clip(1 - v, 0.0, None) ** 2


class Square(Loss):
    """``r^2``: ``psi(v) = v``, which is not robust: PCA, and EM where cells are missing."""

    homogeneous = True

    def psi(self, v: Array) -> Array:
        return v

    def slope(self, v: Array) -> Array:
        return namespace(v).ones_like(v)


class Tanh(Loss):
    """``r^2`` up to 1.5 c, constant from 4 c on, and between them a logarithm of a hyperbolic cosine.

    The slope of its root is a hyperbolic tangent (Hampel, Rousseeuw and Ronchetti 1981), with the
    constants of cellPCA (Centofanti, Hubert and Rousseeuw 2026).
    """

    tuning = 0.5
    _b, _c, _q1, _q2, _d = constants = 1.5, 4.0, 1.540793, 0.8622731, 3.7622127

    def psi(self, v: Array) -> Array:
        def log_cosh(z: Array, far: Array) -> Array:
            xp = namespace(z)
            return 2 * (self._d - (self._q1 / self._q2) * xp.log(xp.cosh(far)))

        return self._beyond(v, v, log_cosh)

    def slope(self, v: Array) -> Array:
        one = namespace(v).ones_like(v)
        return self._beyond(v, one, lambda z, far: self._q1 * namespace(z).tanh(far) / z)

    def _beyond(self, v: Array, values: Array, f: Callable[[Array, Array], Array]) -> Array:
        """Return the values, and ``f(z, q2 (4 - z))`` of the few roots z of v that are beyond 1.5."""
        far, xp = v > self._b**2, namespace(v)
        if not is_numpy_array(v):
            z = xp.clip(xp.sqrt(v), self._b, self._c)
            return xp.where(far, f(z, self._q2 * (self._c - z)), values)
        z = xp.clip(xp.sqrt(v[far]), self._b, self._c)
        out = values if values is not v else xp.asarray(v, copy=True)
        out[far] = f(z, self._q2 * (self._c - z))
        return out


def where_positive(f: Callable[[Array], Array], v: Array) -> Array:
    """Return ``f(v)`` where v > 0, else 0, where f need not be defined."""
    xp = namespace(v)
    return xp.where(v > 0, f(xp.where(v > 0, v, xp.ones_like(v))), xp.zeros_like(v))


def _logarithmic(h: Array, reach: Array, c2: float) -> Array:
    """Return the root t of ``h (reach - t^2) = 2 c^2 t``, without cancellation."""
    return h * reach / (c2 + namespace(h).sqrt(c2 * c2 + h * h * reach))


#: The numbers of the losses that the C kernels know; a subclass of one of them may be another loss.
KERNELS: dict[type[Loss], int] = {
    PowerLoss: 0,
    L1: 0,
    Huber: 1,
    Log: 2,
    Cauchy: 3,
    GemanMcClure: 4,
    Welsch: 5,
    Tukey: 6,
    Square: 7,
}

#: The losses by name.
LOSSES: dict[str, Loss] = {
    "l1": L1(),
    "lp": PowerLoss(p=0.5),
    "huber": Huber(),
    "log": Log(),
    "cauchy": Cauchy(),
    "geman_mcclure": GemanMcClure(),
    "welsch": Welsch(),
    "tukey": Tukey(),
    "tanh": Tanh(),
}


def as_loss(loss: Any) -> Loss:
    """Return a loss by name, or as given."""
    if isinstance(loss, Loss):
        return loss
    if isinstance(loss, str) and loss in LOSSES:
        return LOSSES[loss]
    raise ValueError(
        f"loss={loss!r} is unknown; choose one of {', '.join(LOSSES)}, or an instance such as "
        "PowerLoss(p=1.5) or Huber(scale=0.1)"
    )
