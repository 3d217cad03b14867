"""From options to an estimator."""

from __future__ import annotations

from typing import Any

from .. import PCA, KernelPCA, RobustKernelPCA, RobustPCA, SparsePCA
from ..robust.starts import MOST, components_for
from .options import Approximation, FitOptions, Method
from .run import RefusedError


def checked(options: FitOptions) -> Any:
    """The estimator that was asked for, its parameters in range; what it does not have is refused."""
    found = _estimator(options)
    found._validate_params()
    return found


def _estimator(options: FitOptions) -> Any:
    method, n = options.method, _components(options.components)
    given: dict[str, Any] = {"n_components": n, "random_state": options.seed}
    if options.tol is not None:
        given["tol"] = options.tol
    takes = {
        "quantile": (options.quantile, {Method.robust, Method.robust_kernel}),
        "nonzero": (options.nonzero, {Method.sparse}),
        "kernel": (options.kernel, {Method.kernel, Method.robust_kernel}),
        "gamma": (options.gamma, {Method.kernel, Method.robust_kernel}),
        "approximation": (options.approximation, {Method.kernel, Method.robust_kernel}),
    }
    for name, (value, methods) in takes.items():
        if value is not None and method not in methods:
            told = " or ".join(sorted(methods))
            raise RefusedError(f"--{name} is for --method {told}; --method is {method}")
    if options.quantile is not None:
        given["quantile"] = options.quantile
    if n is None and method in (Method.robust, Method.robust_kernel):
        given["n_components"] = "auto"
    if method is Method.robust:
        return RobustPCA(**given)
    if method is Method.plain:
        return PCA(**given)
    if method is Method.sparse:
        if isinstance(n, float):
            raise RefusedError(f"--components {n}: sparse components are counted; give 5")
        k = "0.25" if options.nonzero is None else options.nonzero
        return SparsePCA(**given, n_nonzero=_number("--nonzero", k, "12 or 0.25"))
    given["kernel"] = options.kernel or "rbf"
    gamma = options.gamma or "median"
    words = ("median", "scale")
    given["gamma"] = gamma if gamma in words else _number("--gamma", gamma, "0.1, median or scale")
    if options.approximation not in (None, Approximation.none):
        given["approximation"] = str(options.approximation)
    if method is Method.robust_kernel:
        return RobustKernelPCA(**given)
    given["n_components"] = MOST if n is None else n
    return KernelPCA(**given)


def sized(model: Any, X: Any) -> Any:
    """The estimator with what depends on the data: components from the robust scree, landmarks."""
    if getattr(model, "approximation", None) == "nystroem":
        model.n_landmarks = min(model.n_landmarks, X.shape[0])
    if model.n_components is None and isinstance(model, (PCA, SparsePCA)):
        variances = RobustPCA(random_state=model.random_state).scree(X)
        model.n_components = components_for(variances, "auto", min(X.shape))
    return model


def _components(text: str) -> int | float | None:
    if text == "auto":
        return None
    n = _number("--components", text, "5, 0.9 or auto")
    if not (n >= 1 if isinstance(n, int) else 0 < n < 1):
        raise RefusedError(f"--components {text} is out of range; give 5, 0.9 or auto")
    return n


def _number(option: str, text: str, such_as: str) -> int | float:
    try:
        return int(text)
    except ValueError:
        pass
    try:
        return float(text)
    except ValueError:
        raise RefusedError(f"{option} {text!r} is no number; give {such_as}") from None
