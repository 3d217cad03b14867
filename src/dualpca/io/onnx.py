"""``transform`` as an ONNX graph, which runs without Python."""

import os
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import normalize
from sklearn.utils.extmath import row_norms
from sklearn.utils.validation import check_is_fitted

from ..estimators import Preprocessor
from ..kernels.features import Nystroem
from ..kernels.pairwise import shifted_rows
from ..linalg import to_numpy
from .files import check_free, written

__all__ = ["to_onnx"]

#: The version of the operators, and of the format: those of ONNX 1.12 and onnxruntime 1.12.
OPSET, IR = 17, 8

#: The size limit of protobuf, less some room for the graph.
LIMIT = 2**31 - 2**20

#: The kernels that standard operators can compute.
KERNELS = ("linear", "poly", "polynomial", "rbf", "sigmoid", "cosine", "precomputed")


def to_onnx(
    model: Any,
    path: str | os.PathLike[str] | None = None,
    *,
    dtype: str | None = None,
    overwrite: bool = False,
) -> Any:
    """Return ``model.transform`` as an ONNX model with the input "X" and the output "scores".

    The number of rows is free. The graph does not check rows as ``transform`` does: NaN and infinity
    come out as NaN, unless a Preprocessor fills them. Kernels are computed in float64 whatever the
    type of the input, as in scikit-learn. In float64 the scores agree with ``transform`` within 1e-9
    of the largest one, in float32 within 1e-4 (1e-3 with landmarks, the precision of ``transform``).

    Parameters
    ----------
    model : PCA, RobustPCA, SparsePCA, KernelPCA, RobustKernelPCA, Preprocessor, or Pipeline of them
        A fitted model. Kernels may be "linear", "poly", "rbf", "sigmoid", "cosine" and "precomputed",
        exact or by landmarks, or random Fourier features. PrincipalComponentPursuit solves a linear
        program for each row, for which ONNX has no operators.
    path : str or path, optional
        A file to write as well, whole or not at all.
    dtype : {"float32", "float64"}, optional
        The type of the input and of the scores; by default that of the components, and float64 for a
        Preprocessor alone.
    overwrite : bool
        Whether to replace an existing file.

    Returns
    -------
    onnx.ModelProto

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from dualpca import PCA
    >>> from dualpca.io.onnx import to_onnx
    >>> X = load_digits().data
    >>> graph = to_onnx(PCA(3).fit(X), dtype="float32")
    >>> import onnxruntime
    >>> session = onnxruntime.InferenceSession(graph.SerializeToString())
    >>> session.run(None, {"X": X.astype("float32")})[0].shape
    (1797, 3)
    """
    try:
        import onnx
    except ImportError as error:
        raise ImportError("to_onnx needs onnx: pip install 'dualpca[onnx]'") from error
    if dtype not in (None, "float32", "float64"):
        raise ValueError(f"dtype={dtype!r} is unknown; give 'float32', 'float64' or None")
    if path is not None:
        check_free(path, overwrite)
    steps = _steps(model)
    if not steps:
        raise ValueError("the pipeline has no step; give one that ends in an estimator of dualpca")
    last, value = steps[-1], "X"
    fitted = getattr(last, "components_", getattr(last, "explained_variance_", np.empty(0)))
    graph = _Graph(onnx, dtype or ("float32" if "float32" in str(fitted.dtype) else "float64"))
    for step in steps:
        value = _transform(graph, step, value)
    width = len(fitted) or last.n_features_in_
    result = graph.finish(value, steps[0].n_features_in_, width)
    onnx.checker.check_model(result, full_check=True)
    if path is not None:
        with written(path, overwrite=overwrite) as file:
            file.write(result.SerializeToString())
    return result


def _steps(model: Any) -> list[Any]:
    """Return the estimators of a pipeline in order; refuse those without a graph."""
    if isinstance(model, Pipeline):
        return [step for _, part in model.steps for step in _steps(part)]
    if model is None or model == "passthrough":
        return []
    name, kernel = type(model).__name__, getattr(model, "kernel", "linear")
    if not isinstance(model, Preprocessor) and not hasattr(model, "score_map"):
        raise TypeError(
            f"transform of {name} has no ONNX graph; give a PCA, RobustPCA, SparsePCA, KernelPCA, "
            "RobustKernelPCA, Preprocessor, or a pipeline of these"
        )
    check_is_fitted(model)
    if not isinstance(kernel, str) or kernel not in KERNELS:
        known = ", ".join(KERNELS)
        raise ValueError(f"kernel={kernel!r} of {name} has no ONNX graph; use one of {known}")
    if getattr(model, "cells", False):
        raise ValueError(
            f"cells=True of {name} fits the scores of each row robustly, which has no ONNX graph; export "
            "a fit of impute(X) without it"
        )
    return [model]


class _Graph:
    """The nodes and constants of a graph, in the order of their use."""

    def __init__(self, onnx: Any, dtype: str) -> None:
        self.onnx, self.dtype = onnx, dtype
        self.nodes: list[Any] = []
        self.constants: list[Any] = []
        self.bytes = 0

    def add(self, operator: str, *inputs: Any, dtype: Any = float, **attributes: Any) -> str:
        """Add a node and return the name of its output; inputs are names, or constants of a dtype."""
        names = [v if isinstance(v, str) else self.constant(v, dtype) for v in inputs]
        output = f"{operator.lower()}{len(self.nodes)}"
        self.nodes.append(self.onnx.helper.make_node(operator, names, [output], **attributes))
        return output

    def constant(self, values: Any, dtype: Any) -> str:
        """Add a constant array, dense, and return its name."""
        dtype = np.dtype(dtype)
        self.bytes += int(np.prod(np.shape(values), dtype=object)) * dtype.itemsize
        if self.bytes > LIMIT:
            raise ValueError(
                f"the model takes more than the {LIMIT} bytes of an ONNX file; fit it with "
                "approximation='nystroem' and fewer landmarks"
            )
        values = values.toarray() if sp.issparse(values) else to_numpy(np.asarray(values))
        name = f"constant{len(self.constants)}"
        array = np.ascontiguousarray(values, dtype=dtype).reshape(np.shape(values))
        self.constants.append(self.onnx.numpy_helper.from_array(array, name))
        return name

    def cast(self, value: str, dtype: Any) -> str:
        return self.add("Cast", value, to=self._code(dtype))

    def _code(self, dtype: Any) -> int:
        return self.onnx.helper.np_dtype_to_tensor_dtype(np.dtype(dtype))

    def finish(self, value: str, columns: int, width: int) -> Any:
        """Return the model whose output is a value of so many columns."""
        from .. import __version__

        helper, kind = self.onnx.helper, self._code(self.dtype)
        self.nodes.append(helper.make_node("Identity", [value], ["scores"]))
        inputs = [helper.make_tensor_value_info("X", kind, ["n", columns])]
        outputs = [helper.make_tensor_value_info("scores", kind, ["n", width])]
        graph = helper.make_graph(self.nodes, "transform", inputs, outputs, self.constants)
        producer = {"producer_name": "dualpca", "producer_version": __version__}
        operators = [helper.make_opsetid("", OPSET)]
        return helper.make_model(graph, opset_imports=operators, ir_version=IR, **producer)


def _transform(graph: _Graph, step: Any, X: str) -> str:
    """Add the ``transform`` of an estimator; all but linear ones compute in float64."""
    if not isinstance(step, Preprocessor) and not hasattr(step, "kernel"):
        return _affine(graph, step, X, graph.dtype)
    X = graph.cast(X, "float64")
    if isinstance(step, Preprocessor):
        X = _preprocess(graph, step, X)
    elif step.approximation is not None:
        X = _features(graph, step, X)
    else:
        origin, weights, offset = step.score_map()
        K = X if step.kernel == "precomputed" else _kernel(graph, step, X, step.X_fit_, origin)
        X = _shifted(graph, graph.add("MatMul", K, weights), offset)
    return graph.cast(X, graph.dtype)


def _shifted(graph: _Graph, X: str, origin: Any) -> str:
    return X if origin is None else graph.add("Sub", X, origin)


def _preprocess(graph: _Graph, step: Preprocessor, X: str) -> str:
    if step.fill_ is not None:
        X = graph.add("Where", graph.add("IsNaN", X), step.fill_, X)
    X = _shifted(graph, X, step.center_)
    if step.scale_ is not None and len(step.scale_) == 1:  # a single factor would be fused
        return graph.add("MatMul", X, 1 / step.scale_[:, None])
    return X if step.scale_ is None else graph.add("Div", X, step.scale_)


def _affine(graph: _Graph, step: Any, X: str, dtype: Any, scale: float = 1.0) -> str:
    """``(scale X - origin) weights`` of a linear estimator.

    The scale goes into the constants: onnxruntime fuses factors of products, rounded to float32.
    """
    origin, weights, _ = step.score_map()
    if origin is not None:
        origin = origin / scale
        rounded = origin.astype(dtype).astype(float)
        remainder = (origin - rounded).astype(dtype)  # float32 rounds an origin far from 0
        X = graph.add("Sub", X, rounded, dtype=dtype)
        X = graph.add("Sub", X, remainder, dtype=dtype) if remainder.any() else X
    return graph.add("MatMul", X, scale * weights, dtype=dtype)


def _features(graph: _Graph, step: Any, X: str) -> str:
    """PCA of the features of landmarks, or of random features."""
    phi = step.features_
    if isinstance(phi, Nystroem):
        K = _kernel(graph, step, X, phi.landmarks, phi.origin)
        return _affine(graph, step.pca_, graph.add("MatMul", K, phi.root), float)
    count = phi.frequencies.shape[1]
    offset = np.zeros(count)
    offset[-1] = phi.offset or 0.0
    phases = graph.add("MatMul", _shifted(graph, X, phi.origin), phi.frequencies)
    phases = graph.add("Add", phases, offset)
    sines = graph.add("Sin", phases)
    if phi.offset is not None:  # the last cosine has no sine
        sines = graph.add("Slice", sines, [0], [count - 1], [1], dtype=np.int64)
    # cos t = sin(t + pi/2): many releases of ONNX Runtime have no Cos in float64.
    cosines = graph.add("Sin", graph.add("Add", phases, [np.pi / 2]))
    features = graph.add("Concat", cosines, sines, axis=1)
    return _affine(graph, step.pca_, features, float, np.sqrt(2 / phi.dimension))


def _kernel(graph: _Graph, step: Any, X: str, Y: Any, origin: Any) -> str:
    """``k(X - origin, Y - origin)``."""
    X = _shifted(graph, X, origin)
    Y = shifted_rows((Y if sp.issparse(Y) else np.asarray(Y)).astype(np.float64), origin)
    if step.kernel == "linear":
        return graph.add("MatMul", X, Y.T)
    if step.kernel == "cosine":  # rows of zeros stay zero
        length = graph.add("Sqrt", _squares(graph, X))
        length = graph.add("Where", graph.add("Equal", length, 0.0), 1.0, length)
        return graph.add("MatMul", graph.add("Div", X, length), normalize(Y).T)
    if step.kernel == "rbf":
        squares = graph.add("Add", _squares(graph, X), row_norms(Y, squared=True)[None, :])
        distances = graph.add("Add", squares, graph.add("MatMul", X, -2 * Y.T))
        distances = graph.add("Max", distances, 0.0)  # rounding
        return graph.add("Exp", graph.add("Mul", distances, -step.gamma_))
    inner = graph.add("Add", graph.add("MatMul", X, step.gamma_ * Y.T), step.coef0)
    sigmoid = step.kernel == "sigmoid"
    return graph.add("Tanh", inner) if sigmoid else graph.add("Pow", inner, step.degree)


def _squares(graph: _Graph, X: str) -> str:
    """``||x||^2`` of each row, as a column."""
    return graph.add("ReduceSum", graph.add("Mul", X, X), [1], dtype=np.int64, keepdims=1)
