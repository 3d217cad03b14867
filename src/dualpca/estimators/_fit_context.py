"""The context of a fit: parameters, progress, rollback after a failure; and ``save``."""

from __future__ import annotations

import functools
import inspect
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Self

import numpy as np
from array_api_compat import is_numpy_array
from sklearn.base import ClassNamePrefixFeaturesOutMixin, TransformerMixin

from .._memory import refusal
from ..progress import Listener, Step, listening, printing

try:
    from sklearn.callback import CallbackSupportMixin, with_callbacks
except ImportError:  # scikit-learn before 1.9

    class CallbackSupportMixin:  # type: ignore[no-redef]
        """Stands for the mixin of newer versions."""

    def with_callbacks(method: Any) -> Any:
        return method


class _Callbacks(Listener):
    """Makes each step a task of scikit-learn's callback protocol, below the task "fit"."""

    def __init__(self, estimator: Any, context: Any, given: dict[str, Any]) -> None:
        self.estimator, self.context, self.given = estimator, context, given
        context.call_on_fit_task_begin(estimator=estimator, **given)

    def step(self, step: Step) -> bool:
        name = f"{step.phase} {step.solver}".strip()
        task = self.context.subcontext(task_name=name)
        task.call_on_fit_task_begin(estimator=self.estimator, **self.given)
        return bool(task.call_on_fit_task_end(estimator=self.estimator, **self.given))

    def end(self, *, fitted: bool) -> None:
        """End the task "fit"; a path leaves the estimator itself as it was."""
        made: dict[str, Any] = {"reconstruction_attributes": {}} if fitted else {}
        self.context.call_on_fit_task_end(estimator=self.estimator, **made, **self.given)


_NOT_FINITE = (
    "numbers of this fit became infinite or NaN; X was changed while it was read, or its entries are "
    "too large: fit again, on X divided by its largest magnitude"
)


@contextmanager
def restored_on_error(model: Any) -> Iterator[None]:
    """Restore the attributes of the model after a failure inside, which may have set half of them."""
    before = dict(vars(model))
    try:
        yield
    except BaseException as error:
        vars(model).clear()
        vars(model).update(before)
        if isinstance(error, MemoryError) and (message := refusal(error)):
            raise MemoryError(message) from error
        if isinstance(error, np.linalg.LinAlgError):
            raise np.linalg.LinAlgError(f"{error}: {_NOT_FINITE}") from error
        raise


def _check_finite(model: Any) -> None:
    """Refuse a model with NaN, whose every answer would be NaN."""
    for name in ("components_", "eigenvectors_", "explained_variance_", "eigenvalues_"):
        value = vars(model).get(name)
        if is_numpy_array(value) and not np.isfinite(np.sum(value)):
            raise FloatingPointError(f"{type(model).__name__}.{name}: {_NOT_FINITE}")


def reports_progress(fit: Callable[..., Any]) -> Callable[..., Any]:
    """Validate parameters, report progress to listeners, and restore the model after a failure."""

    @functools.wraps(fit)
    def fit_in_context(self: Any, X: Any, *args: Any, **kwargs: Any) -> Any:
        self._validate_params()
        listeners = []
        if hasattr(self, "_skl_callbacks"):
            bound = inspect.signature(fit).bind(self, X, *args, **kwargs).arguments
            given: dict[str, Any] = {name: bound[name] for name in ("X", "y") if name in bound}
            if bound.get("sample_weight") is not None:
                given["metadata"] = {"sample_weight": bound["sample_weight"]}
            context = self._init_callback_context(max_subtasks=None)
            listeners.append(_Callbacks(self, context, given))
        with restored_on_error(self):
            with printing(type(self).__name__, self.verbose), listening(*listeners):
                result = fit(self, X, *args, **kwargs)
            _check_finite(self)
            for listener in listeners:
                listener.end(fitted=not isinstance(result, list))
        return result

    return with_callbacks(fit_in_context)


class SaveMixin:
    """``save`` for estimators; :func:`dualpca.load` is the way back."""

    def save(
        self,
        path: str | os.PathLike[str],
        *,
        notes: dict[str, Any] | None = None,
        overwrite: bool = False,
    ) -> None:
        """Write the model to a file that :func:`dualpca.load` reads.

        Parameters
        ----------
        path, notes, overwrite
            As in :func:`dualpca.save`.
        """
        from ..io.models import save

        save(self, path, notes=notes, overwrite=overwrite)


#: Parameters of scikit-learn's estimators and what they are here, so that an error can say so.
ELSEWHERE = {
    "svd_solver": "solver=, such as 'lapack' or 'gram'",
    "eigen_solver": "solver=, such as 'lapack' or 'krylov'",
    **dict.fromkeys(("copy", "copy_X"), "not needed: X is never written to"),
    **dict.fromkeys(("iterated_power", "n_oversamples", "power_iteration_normalizer"), "tol="),
}


class FitContext(
    SaveMixin, CallbackSupportMixin, ClassNamePrefixFeaturesOutMixin, TransformerMixin
):
    """Transformers that report the progress of their fit, and that can be saved."""

    verbose: int
    n_components_: int

    def __new__(cls, *args: Any, **kwargs: Any) -> Self:
        for name in kwargs.keys() & ELSEWHERE.keys():
            if name not in inspect.signature(cls).parameters:
                raise TypeError(f"{cls.__name__} has no {name}=; here it is {ELSEWHERE[name]}")
        return super().__new__(cls)

    def _validate_params(self) -> None:
        n: Any = getattr(self, "n_components", None)
        if isinstance(n, bool):  # Python counts it among the integers
            raise TypeError(f"n_components={n} is a bool; give a number, such as 1, or None")
        super()._validate_params()  # type: ignore[misc]

    @property
    def _n_features_out(self) -> int:
        return self.n_components_

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()  # type: ignore[misc]
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags

    def loadings(self, scaled: bool = False, X: Any = None) -> Any:
        """Return the loadings as a data frame, as :func:`dualpca.frames.loadings` does."""
        from ..frames import loadings

        return loadings(self, scaled, X)

    def summary(self) -> Any:
        """Return variances and shares as a data frame, as :func:`dualpca.frames.summary` does."""
        from ..frames import summary

        return summary(self)

    def report(self, path: str | os.PathLike[str], X: Any = None, **options: Any) -> Any:
        """Write an HTML page about the model, as :func:`dualpca.report.write_report` does."""
        from ..report import write_report

        return write_report(self, path, X, **options)
