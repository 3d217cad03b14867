"""Turn models into JSON and named arrays, and back; only registered classes are made."""

import math
import operator
from dataclasses import fields
from functools import cache, partial
from numbers import Real
from types import NoneType
from typing import Any

import numpy as np
import scipy.sparse as sp
from array_api_compat import is_array_api_obj
from sklearn.pipeline import Pipeline

from ..kernels.features import Nystroem, RandomFourier, pairwise
from ..kernels.pairwise import KERNELS
from ..linalg import to_numpy
from ..linear.drift import Checkpoint
from ..linear.forgetting import Gathered
from ..linear.incremental import Sums
from ..linear.selection import Selection
from ..losses import LOSSES
from ..robust.followed import Followed
from ..robust.online import RobustStream
from ..solvers import SOLVERS
from .fitted import MAX_JOBS, check_compressed
from .tensorfile import NAMES

_SPARSE = (sp.csr_array, sp.csr_matrix, sp.csc_array, sp.csc_matrix)
SPARSE = {kind.__name__: kind for kind in _SPARSE}

#: The steps of a pipeline that do nothing.
BYPASSES = (None, "passthrough")
_SPARSE_PARTS = ("data", "indices", "indptr")


@cache
def estimator_classes() -> dict[str, type]:
    """Return the estimators by name; they are imported late because they import :mod:`.models`."""
    from .. import estimators

    return {name: getattr(estimators, name) for name in estimators.__all__}


def object_classes() -> dict[str, type]:
    """Return the frozen dataclasses that parameters and fitted attributes may be, by name."""
    registered = (type(entry) for entry in (*LOSSES.values(), *SOLVERS.values()))
    streams = (Sums, Checkpoint, Gathered, RobustStream, Followed)
    held = (*streams, Nystroem, RandomFourier, Selection)
    return {kind.__name__: kind for kind in (*registered, *held)}


def _may_be_fitted(kind: type, key: str) -> bool:
    """Return whether an attribute may come from a fit: it hides nothing of the class."""
    named = key.startswith("_") or key.endswith("_")
    return named and not key.startswith("__") and not hasattr(kind, key)


def _belongs_to_sklearn(key: str) -> bool:
    """Return whether an attribute belongs to scikit-learn's callbacks or metadata routing."""
    return "_callback" in key or key == "_metadata_request"


class Encoder:
    """Turn values into JSON; ``tensors`` collects the arrays, named after their places.

    A value that JSON cannot express becomes an object whose key "$" names its kind.
    """

    def __init__(self) -> None:
        self.tensors: dict[str, np.ndarray] = {}

    def model(self, model: Any, name: str = "") -> dict[str, Any]:
        """Encode an estimator of dualpca, or a pipeline of them."""
        prefix, kind = f"{name}." if name else "", type(model)
        params = model.get_params(deep=False) if hasattr(model, "get_params") else {}
        if kind is Pipeline:
            del params["memory"]  # a folder of pickles, which fit would read
            parts = params.pop("steps")
            steps = [[n, s if s in BYPASSES else self.model(s, prefix + n)] for n, s in parts]
            return {"$": "pipeline", "steps": steps, "params": self._values(params, prefix)}
        if estimator_classes().get(kind.__name__) is not kind:
            where = f"step {name!r}" if name else "model"
            raise TypeError(
                f"{where} is a {kind.__name__}, which a model file cannot hold; give an estimator of "
                "dualpca or a pipeline of them (scale with dualpca.Preprocessor), or use joblib.dump"
            )
        attributes = vars(model).items()
        fitted = {k: v for k, v in attributes if k not in params and not _belongs_to_sklearn(k)}
        for key in fitted:
            if not _may_be_fitted(kind, key):
                raise TypeError(
                    f"{prefix}{key} is an attribute that a model file cannot hold: attributes of fits "
                    "begin or end with '_' and hide no method; delete it, or use joblib.dump"
                )
        stored = {"params": self._values(params, prefix), "fitted": self._values(fitted, prefix)}
        return {"$": "estimator", "class": kind.__name__, **stored}

    def _values(self, values: dict[str, Any], prefix: str) -> dict[str, Any]:
        return {key: self.value(v, prefix + key) for key, v in values.items()}

    def value(self, value: Any, name: str) -> Any:
        """Encode anything that an estimator may hold."""
        match value:
            case None | bool():
                return value
            case str():
                return str(value)
            case np.generic():
                return {"$": "scalar", "tensor": self._keep(np.asarray(value), name)}
            case int():
                return int(value)
            case float():
                return value if math.isfinite(value) else {"$": "float", "value": repr(value)}
            case list():
                return [self.value(v, f"{name}.{i}") for i, v in enumerate(value)]
            case tuple():
                return {"$": "tuple", "items": self.value(list(value), name)}
            case dict():
                items = [
                    [self.value(k, f"{name} key"), self.value(v, f"{name}.{k}")]
                    for k, v in value.items()
                ]
                return {"$": "dict", "items": items}
        if sp.issparse(value) and type(value).__name__ in SPARSE:
            parts = self._values({k: getattr(value, k) for k in _SPARSE_PARTS}, f"{name}.")
            shape = [int(n) for n in value.shape]
            return {"$": "sparse", "class": type(value).__name__, "shape": shape, **parts}
        if is_array_api_obj(value):
            return self._array(to_numpy(value), name)
        return self._object(value, name)

    def _array(self, array: np.ndarray, name: str) -> dict[str, Any]:
        if array.dtype == object and array.ndim == 1 and all(isinstance(v, str) for v in array):
            return {"$": "names", "values": [str(v) for v in array]}
        # The order in memory is kept because products round differently with it.
        by_columns = array.ndim > 1 and abs(array.strides[0]) < abs(array.strides[-1])
        big_endian = array.dtype.newbyteorder("S").str[0] == "<"
        stored = {"$": "array", "tensor": self._keep(array.T if by_columns else array, name)}
        flags = {"by_columns": by_columns, "big_endian": big_endian}
        return {**stored, **{flag: True for flag, is_set in flags.items() if is_set}}

    def _keep(self, array: np.ndarray, name: str) -> str:
        if array.dtype.newbyteorder("<").str not in NAMES:
            raise TypeError(
                f"{name} has dtype {array.dtype}, which a model file cannot hold; give real numbers "
                "of at most 64 bits, or use joblib.dump"
            )
        while name in self.tensors:  # a step of a pipeline may be named like an attribute
            name += "'"
        self.tensors[name] = array
        return name

    def _object(self, value: Any, name: str) -> dict[str, Any]:
        kind = type(value)
        if object_classes().get(kind.__name__) is kind:
            parts = {f.name: getattr(value, f.name) for f in fields(value)}
            stored = self._values(parts, f"{name}.")
            return {"$": "object", "class": kind.__name__, "fields": stored}
        if estimator_classes().get(kind.__name__) is kind:
            return self.model(value, name)
        if kind is np.random.RandomState:
            state = value.get_state(legacy=False)
            if state["bit_generator"] == "MT19937":
                stored = self.value(list(value.get_state()[1:]), name)
                return {"$": "random_state", "state": stored}
        if kind is partial and value.func is pairwise and not value.args:
            return {"$": "kernel", "options": self._values(value.keywords, f"{name}.")}
        noun = "a function" if callable(value) else f"a {kind.__name__}"
        shown = " ".join(repr(value).split())[:80]
        raise TypeError(
            f"{name}={shown} is {noun}, which a model file cannot hold; give it by name "
            "or as numbers, text, lists, or a loss or solver of dualpca, or use joblib.dump"
        )


class Decoder:
    """Turn what :class:`Encoder` made into a model again; every array is used once."""

    def __init__(self, tensors: dict[str, np.ndarray]) -> None:
        self.tensors = dict(tensors)

    def model(self, tree: Any) -> Any:
        """Return the estimator or pipeline; an array that is left over is an error."""
        model = self._model(tree)
        if self.tensors:
            raise ValueError(f"{', '.join(self.tensors)} belong to nothing")
        return model

    def _model(self, tree: Any) -> Any:
        if not isinstance(tree, dict) or tree["$"] not in ("estimator", "pipeline"):
            raise ValueError("the model is no estimator")
        return self.value(tree)

    def value(self, tree: Any) -> Any:
        """Return the value that a part of the header describes."""
        if isinstance(tree, list):
            return [self.value(v) for v in tree]
        if not isinstance(tree, dict):
            return tree
        match tree["$"]:
            case "float":
                return float(tree["value"])
            case "tuple":
                return tuple(self.value(tree["items"]))
            case "dict":
                return {self.value(k): self.value(v) for k, v in tree["items"]}
            case "names":
                return np.array([str(v) for v in tree["values"]], dtype=object)
            case "object":
                return object_classes()[tree["class"]](**self._values(tree["fields"]))
            case "scalar":
                return self.tensors.pop(tree["tensor"]).reshape(())[()]
            case "array" | "estimator" | "kernel" | "pipeline" | "random_state" | "sparse":
                return getattr(self, "_" + tree["$"])(tree)
            case kind:
                raise ValueError(f"a part of kind {kind!r} cannot be read")

    def _values(self, tree: dict[str, Any]) -> dict[str, Any]:
        return {key: self.value(v) for key, v in tree.items()}

    def _array(self, tree: dict[str, Any]) -> np.ndarray:
        array = self.tensors.pop(tree["tensor"])
        array = array.T if tree.get("by_columns") else array
        order = array.dtype.newbyteorder(">" if tree.get("big_endian") else "=")
        return array.astype(order, copy=False)

    def _sparse(self, tree: dict[str, Any]) -> Any:
        parts = tuple(self.value(tree[name]) for name in _SPARSE_PARTS)
        matrix = SPARSE[tree["class"]](parts, shape=tuple(tree["shape"]))
        check_compressed(matrix)
        return matrix

    def _kernel(self, tree: dict[str, Any]) -> Any:
        options = self._values(tree["options"])
        if options["metric"] not in KERNELS:
            raise ValueError(f"the kernel {options['metric']!r} is unknown")
        for key, v in options.items():
            if key != "metric" and not isinstance(v, (Real, NoneType)):
                raise ValueError(f"the kernel has {key} {v!r}, no number")
        if abs(options.get("n_jobs") or 1) > MAX_JOBS:
            raise ValueError(f"the kernel has n_jobs {options['n_jobs']}, more than {MAX_JOBS}")
        return partial(pairwise, **options)

    def _random_state(self, tree: dict[str, Any]) -> np.random.RandomState:
        state, stored = np.random.RandomState(), self.value(tree["state"])
        if not 0 <= operator.index(stored[1]) <= 624:  # numpy does not check this index
            raise ValueError(f"the random state stands at {stored[1]} of 624 numbers")
        state.set_state(("MT19937", *stored))
        return state

    def _pipeline(self, tree: dict[str, Any]) -> Pipeline:
        steps = [(str(n), s if s in BYPASSES else self._model(s)) for n, s in tree["steps"]]
        options = self._values(tree["params"])
        options.pop("memory", None)  # fit would read pickles there
        return Pipeline(steps, **options)

    def _estimator(self, tree: dict[str, Any]) -> Any:
        kind = estimator_classes()[tree["class"]]
        for key in tree["fitted"]:
            if not _may_be_fitted(kind, key) or _belongs_to_sklearn(key):
                raise ValueError(f"{key} is no attribute that a fit of {kind.__name__} leaves")
        model = kind(**self._values(tree["params"]))
        vars(model).update(self._values(tree["fitted"]))
        return model
