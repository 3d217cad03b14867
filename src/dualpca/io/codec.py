"""Models as JSON and named arrays, and back: only the classes that are listed here are made."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from dataclasses import fields
from functools import partial
from numbers import Real
from types import NoneType
from typing import Any

import numpy as np
import scipy.sparse as sp
from array_api_compat import is_array_api_obj
from sklearn.pipeline import Pipeline

from .. import estimators, losses, solvers
from ..kernels.features import Nystroem, RandomFourier, pairwise
from ..kernels.pairwise import KERNELS
from ..linalg import to_numpy
from ..linear.incremental import Sums
from .fitted import JOBS, check_compressed
from .tensorfile import NAMES

ESTIMATORS = {name: getattr(estimators, name) for name in estimators.__all__}

_LOSSES = ("L1", "Cauchy", "GemanMcClure", "Huber", "Log", "PowerLoss", "Tukey", "Welsch")
_SOLVERS = ("DCA", "IRLS", "Anderson", "ProximalGradient", "SimultaneousIteration", "ZeroFPR")

#: The frozen dataclasses that parameters and fitted attributes may be.
OBJECTS = {
    **{name: getattr(losses, name) for name in _LOSSES},
    **{name: getattr(solvers, name) for name in _SOLVERS},
    **{kind.__name__: kind for kind in (Sums, Nystroem, RandomFourier)},
}

SPARSE = {
    kind.__name__: kind for kind in (sp.csr_array, sp.csr_matrix, sp.csc_array, sp.csc_matrix)
}


class Encoder:
    """Values as what JSON has; ``tensors`` collects the arrays by the name of where they were.

    What JSON has not is an object with the key "$" for its kind.
    """

    def __init__(self) -> None:
        self.tensors: dict[str, np.ndarray] = {}

    def model(self, model: Any, name: str = "") -> dict[str, Any]:
        """An estimator of dualpca, or a pipeline of them."""
        inside = f"{name}." if name else ""
        kind = type(model)
        if kind is Pipeline:
            given = model.get_params(deep=False)
            del given["memory"]  # a folder of pickles, which fit would read
            steps = [
                [
                    step,
                    part
                    if part is None or part == "passthrough"
                    else self.model(part, inside + step),
                ]
                for step, part in given.pop("steps")
            ]
            options = {key: self.value(v, inside + key) for key, v in given.items()}
            return {"$": "pipeline", "steps": steps, "params": options}
        if ESTIMATORS.get(kind.__name__) is not kind:
            where = f"step {name!r}" if name else "model"
            raise TypeError(
                f"{where} is a {kind.__name__}, which a model file does not hold: estimators of dualpca "
                "and pipelines of them; scale with dualpca.Preprocessor, or use joblib.dump"
            )
        params = model.get_params(deep=False)
        fitted = {
            key: v for key, v in vars(model).items() if key not in params and not _left_out(key)
        }
        for key in fitted:
            if not _fits(kind, key):
                raise TypeError(
                    f"{inside}{key} is an attribute that a model file does not hold: those of fits begin "
                    "or end with '_' and hide no method; delete it, or use joblib.dump"
                )
        return {
            "$": "estimator",
            "class": kind.__name__,
            "params": {key: self.value(v, inside + key) for key, v in params.items()},
            "fitted": {key: self.value(v, inside + key) for key, v in fitted.items()},
        }

    def value(self, value: Any, name: str) -> Any:
        """Anything that an estimator may hold."""
        if value is None or isinstance(value, bool):
            return value
        if isinstance(value, str):
            return str(value)
        if isinstance(value, np.generic):
            return {"$": "scalar", "tensor": self._keep(np.asarray(value), name)}
        if isinstance(value, int):
            return int(value)
        if isinstance(value, float):
            return value if math.isfinite(value) else {"$": "float", "value": repr(value)}
        if isinstance(value, list):
            return [self.value(v, f"{name}.{i}") for i, v in enumerate(value)]
        if isinstance(value, tuple):
            return {"$": "tuple", "items": self.value(list(value), name)}
        if isinstance(value, dict):
            items = [
                [self.value(k, f"{name} key"), self.value(v, f"{name}.{k}")]
                for k, v in value.items()
            ]
            return {"$": "dict", "items": items}
        if sp.issparse(value) and type(value).__name__ in SPARSE:
            parts = {k: self.value(getattr(value, k), f"{name}.{k}") for k in _SPARSE_PARTS}
            shape = [int(n) for n in value.shape]
            return {"$": "sparse", "class": type(value).__name__, "shape": shape, **parts}
        if is_array_api_obj(value):
            return self._array(to_numpy(value), name)
        return self._object(value, name)

    def _array(self, array: np.ndarray, name: str) -> dict[str, Any]:
        if array.dtype == object and array.ndim == 1 and all(isinstance(v, str) for v in array):
            return {"$": "names", "values": [str(v) for v in array]}
        by_columns = array.ndim > 1 and abs(array.strides[0]) < abs(array.strides[-1])
        # Products round differently when an array is stored by columns, so that is kept.
        stored: dict[str, Any] = {"$": "array"}
        stored["tensor"] = self._keep(array.T if by_columns else array, name)
        if by_columns:
            stored["by_columns"] = True
        if array.dtype.newbyteorder("S").str[0] == "<":
            stored["big_endian"] = True
        return stored

    def _keep(self, array: np.ndarray, name: str) -> str:
        if array.dtype.newbyteorder("<").str not in NAMES:
            raise TypeError(
                f"{name} has dtype {array.dtype}, which a model file does not hold; give real numbers "
                "of at most 64 bits, or use joblib.dump"
            )
        while name in self.tensors:  # steps of a pipeline may be named like attributes
            name += "'"
        self.tensors[name] = array
        return name

    def _object(self, value: Any, name: str) -> dict[str, Any]:
        kind = type(value)
        if OBJECTS.get(kind.__name__) is kind:
            parts = {
                f.name: self.value(getattr(value, f.name), f"{name}.{f.name}")
                for f in fields(value)
            }
            return {"$": "object", "class": kind.__name__, "fields": parts}
        if ESTIMATORS.get(kind.__name__) is kind:
            return self.model(value, name)
        if (
            kind is np.random.RandomState
            and value.get_state(legacy=False)["bit_generator"] == "MT19937"
        ):
            return {"$": "random_state", "state": self.value(list(value.get_state()[1:]), name)}
        if kind is partial and value.func is pairwise and not value.args:
            options = {k: self.value(v, f"{name}.{k}") for k, v in value.keywords.items()}
            return {"$": "kernel", "options": options}
        what = "a function" if callable(value) else f"a {kind.__name__}"
        shown = " ".join(repr(value).split())[:80]
        raise TypeError(
            f"{name}={shown} is {what}, which a model file does not hold; give it by name "
            "or as numbers, text, lists, or a loss or solver of dualpca, or use joblib.dump"
        )


_SPARSE_PARTS = ("data", "indices", "indptr")


def _left_out(key: str) -> bool:
    """Whether an attribute is of scikit-learn's callbacks or of its metadata routing."""
    return "_callback" in key or key == "_metadata_request"


def _fits(kind: type, key: str) -> bool:
    """Whether an attribute may be one that a fit has left: it hides nothing of the class."""
    named = key.startswith("_") or key.endswith("_")
    return named and not key.startswith("__") and not hasattr(kind, key)


class Decoder:
    """The way back; every array is used once."""

    def __init__(self, tensors: dict[str, np.ndarray]) -> None:
        self.tensors = dict(tensors)
        self.kinds: dict[str, Callable[[dict[str, Any]], Any]] = {
            "array": self._array,
            "dict": self._dict,
            "estimator": self._estimator,
            "float": self._float,
            "kernel": self._kernel,
            "names": self._names,
            "object": self._object,
            "pipeline": self._pipeline,
            "random_state": self._random_state,
            "scalar": self._scalar,
            "sparse": self._sparse,
            "tuple": self._tuple,
        }

    def model(self, tree: Any) -> Any:
        """The estimator or pipeline; what is left of the arrays is an error."""
        model = self._model(tree)
        if self.tensors:
            raise ValueError(f"{', '.join(self.tensors)} belong to nothing")
        return model

    def _model(self, tree: Any) -> Any:
        model = self.value(tree)
        if not isinstance(model, (Pipeline, *ESTIMATORS.values())):
            raise ValueError("the model is no estimator")
        return model

    def value(self, tree: Any) -> Any:
        if isinstance(tree, list):
            return [self.value(v) for v in tree]
        if not isinstance(tree, dict):
            return tree
        return self.kinds[tree["$"]](tree)

    def _values(self, tree: dict[str, Any]) -> dict[str, Any]:
        return {key: self.value(v) for key, v in tree.items()}

    def _float(self, tree: dict[str, Any]) -> float:
        return float(tree["value"])

    def _scalar(self, tree: dict[str, Any]) -> Any:
        array = self.tensors.pop(tree["tensor"])
        if array.ndim:
            raise ValueError(f"a number has the shape {array.shape}")
        return array[()]

    def _tuple(self, tree: dict[str, Any]) -> tuple[Any, ...]:
        return tuple(self.value(tree["items"]))

    def _dict(self, tree: dict[str, Any]) -> dict[Any, Any]:
        return {self.value(k): self.value(v) for k, v in tree["items"]}

    def _names(self, tree: dict[str, Any]) -> np.ndarray:
        return np.array([str(v) for v in tree["values"]], dtype=object)

    def _array(self, tree: dict[str, Any]) -> np.ndarray:
        array = self.tensors.pop(tree["tensor"])
        array = array.T if tree.get("by_columns") else array
        order = array.dtype.newbyteorder(">" if tree.get("big_endian") else "=")
        return array.astype(order, copy=False)

    def _sparse(self, tree: dict[str, Any]) -> Any:
        parts = tuple(self.value(tree[name]) for name in _SPARSE_PARTS)
        matrix = SPARSE[tree["class"]](parts, shape=tuple(tree["shape"]))
        check_compressed(matrix)  # indices out of bounds would read foreign memory
        return matrix

    def _object(self, tree: dict[str, Any]) -> Any:
        return OBJECTS[tree["class"]](**self._values(tree["fields"]))

    def _kernel(self, tree: dict[str, Any]) -> Any:
        options = self._values(tree["options"])
        if options["metric"] not in KERNELS:
            raise ValueError(f"the kernel {options['metric']!r} is unknown")
        for key, v in options.items():
            if key != "metric" and not isinstance(v, (Real, NoneType)):
                raise ValueError(f"the kernel has {key} {v!r}, no number")
        if abs(options.get("n_jobs") or 1) > JOBS:
            raise ValueError(f"the kernel has n_jobs {options['n_jobs']}, more than {JOBS}")
        return partial(pairwise, **options)

    def _random_state(self, tree: dict[str, Any]) -> np.random.RandomState:
        state, stored = np.random.RandomState(), self.value(tree["state"])
        if not 0 <= operator.index(stored[1]) <= 624:  # numpy reads there without looking
            raise ValueError(f"the random state stands at {stored[1]} of 624 numbers")
        state.set_state(("MT19937", *stored))
        return state

    def _pipeline(self, tree: dict[str, Any]) -> Pipeline:
        steps = [
            (str(name), step if step is None or step == "passthrough" else self._model(step))
            for name, step in tree["steps"]
        ]
        options = self._values(tree["params"])
        options.pop("memory", None)  # fit would read pickles there
        return Pipeline(steps, **options)

    def _estimator(self, tree: dict[str, Any]) -> Any:
        kind = ESTIMATORS[tree["class"]]
        for key in tree["fitted"]:
            if not _fits(kind, key) or _left_out(key):
                raise ValueError(f"{key} is no attribute that a fit of {kind.__name__} leaves")
        model = kind(**self._values(tree["params"]))
        vars(model).update(self._values(tree["fitted"]))
        return model
