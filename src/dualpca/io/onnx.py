"""``transform`` as an ONNX graph, to be run where there is no Python."""

from __future__ import annotations

import os
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.base import BaseEstimator
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import normalize
from sklearn.utils.extmath import row_norms
from sklearn.utils.validation import check_is_fitted

from ..estimators import KernelPCA, Preprocessor, RobustKernelPCA, SparsePCA
from ..estimators._scores import ScoresMixin
from ..kernels.features import Nystroem
from ..kernels.pairwise import shifted_rows
from ..linalg import to_numpy
from .files import check_free, written

__all__ = ["to_onnx"]

#: The version of the operators, and of the format: those of ONNX 1.12 and onnxruntime 1.12.
OPSET, IR = 17, 8

#: What protobuf holds, with some room for the graph.
LIMIT = 2**31 - 2**20

#: The kernels that standard operators have.
KERNELS = ("linear", "poly", "polynomial", "rbf", "sigmoid", "cosine", "precomputed")


def to_onnx(
    model: Any,
    path: str | os.PathLike[str] | None = None,
    *,
    dtype: str | None = None,
    overwrite: bool = False,
) -> Any:
    """``model.transform`` as an ONNX model with the input "X" and the output "scores".

    The number of rows is free. Rows are not checked as ``transform`` checks them: NaN and infinity
    come out as NaN, unless a Preprocessor fills them. Kernels are computed in float64 whatever the
    type of the input, as scikit-learn computes distances. In float64 the scores are those of
    ``transform`` within 1e-9 of the largest one, in float32 within 1e-4 (1e-3 with landmarks,
    where ``transform`` itself keeps so many digits).

    Parameters
    ----------
    model : PCA, RobustPCA, SparsePCA, KernelPCA, RobustKernelPCA, Preprocessor, or Pipeline of them
        Fitted. Kernels may be "linear", "poly", "rbf", "sigmoid", "cosine" and "precomputed", exact
        or by landmarks, and random Fourier features. PrincipalComponentPursuit solves a linear program
        for each row, which ONNX has no operators for.
    path : str or path, optional
        A file to write as well, whole or not at all.
    dtype : {"float32", "float64"}, optional
        The type of the input and of the scores; by default that of the components, and float64 of a
        Preprocessor by itself.
    overwrite : bool
        Whether an existing file is replaced.

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
    dtype = dtype or _dtype(steps[-1])
    graph = _Graph(dtype)
    value = "X"
    for step in steps:
        value = _transform(graph, step, value)
    result = graph.finish(value, steps[0].n_features_in_, _columns(steps[-1]))
    onnx.checker.check_model(result, full_check=True)
    if path is not None:
        with written(path, overwrite=overwrite) as file:
            file.write(result.SerializeToString())
    return result


def _steps(model: Any) -> list[Any]:
    """The estimators in their order, each of which has a graph."""
    parts = [part for _, part in model.steps] if isinstance(model, Pipeline) else [model]
    steps = []
    for part in parts:
        if isinstance(part, Pipeline):
            steps += _steps(part)
        elif part is not None and part != "passthrough":
            steps.append(part)
    for step in steps:
        name = type(step).__name__
        if not isinstance(step, (ScoresMixin, KernelPCA, RobustKernelPCA, Preprocessor)):
            raise TypeError(
                f"transform of {name} has no ONNX graph; give a PCA, RobustPCA, SparsePCA, KernelPCA, "
                "RobustKernelPCA, Preprocessor, or a pipeline of these"
            )
        check_is_fitted(step)
        kernel = getattr(step, "kernel", "linear")
        if not isinstance(kernel, str) or kernel not in KERNELS:
            raise ValueError(
                f"kernel={kernel!r} of {name} has no ONNX graph; use one of {', '.join(KERNELS)}"
            )
    if not steps:
        raise ValueError("the pipeline has no step; give one that ends in an estimator of dualpca")
    return steps


def _dtype(step: BaseEstimator) -> str:
    fitted: Any = next(
        (v for v in map(vars(step).get, ("components_", "explained_variance_")) if v is not None),
        np.empty(0),
    )
    return "float32" if "float32" in str(fitted.dtype) else "float64"


def _columns(step: Any) -> int:
    return step.n_features_in_ if isinstance(step, Preprocessor) else step._n_features_out


class _Graph:
    """Nodes and constants, in the order they are needed."""

    def __init__(self, dtype: str) -> None:
        self.dtype, self.nodes, self.constants, self.bytes = dtype, [], [], 0  # type: ignore[var-annotated]

    def add(self, operator: str, *inputs: str, **attributes: Any) -> str:
        """The value of an operator."""
        from onnx import helper

        output = f"{operator.lower()}{len(self.nodes)}"
        self.nodes.append(helper.make_node(operator, list(inputs), [output], **attributes))
        return output

    def constant(self, values: Any, dtype: Any = None) -> str:
        """An array of numbers; sparse ones are stored in full."""
        from onnx import numpy_helper

        dtype = np.dtype(dtype or self.dtype)
        self.bytes += int(np.prod(np.shape(values), dtype=object)) * dtype.itemsize
        if self.bytes > LIMIT:
            raise ValueError(
                f"the model takes more than the {LIMIT} bytes of an ONNX file; fit it with "
                "approximation='nystroem' and fewer landmarks"
            )
        values = values.toarray() if sp.issparse(values) else to_numpy(np.asarray(values))
        name = f"constant{len(self.constants)}"
        array = np.ascontiguousarray(values, dtype=dtype).reshape(np.shape(values))
        self.constants.append(numpy_helper.from_array(array, name))
        return name

    def cast(self, value: str, dtype: Any) -> str:
        from onnx import helper

        return self.add("Cast", value, to=helper.np_dtype_to_tensor_dtype(np.dtype(dtype)))

    def finish(self, value: str, columns: int, out: int) -> Any:
        from onnx import helper

        from .. import __version__

        kind = helper.np_dtype_to_tensor_dtype(np.dtype(self.dtype))
        self.nodes.append(helper.make_node("Identity", [value], ["scores"]))
        graph = helper.make_graph(
            self.nodes,
            "transform",
            [helper.make_tensor_value_info("X", kind, ["n", columns])],
            [helper.make_tensor_value_info("scores", kind, ["n", out])],
            self.constants,
        )
        return helper.make_model(
            graph,
            opset_imports=[helper.make_opsetid("", OPSET)],
            ir_version=IR,
            producer_name="dualpca",
            producer_version=__version__,
        )


def _transform(graph: _Graph, step: Any, X: str) -> str:
    if isinstance(step, Preprocessor):
        return _preprocess(graph, step, X)
    if isinstance(step, ScoresMixin):
        return _affine(graph, step, X, graph.dtype)
    wide = graph.cast(X, "float64")
    origin = step._kernel_shift
    if origin is not None:
        wide = graph.add("Sub", wide, graph.constant(origin, float))
    if step.approximation is not None:
        return graph.cast(_features(graph, step, wide), graph.dtype)
    K = wide if step.kernel == "precomputed" else _kernel(graph, step, wide, step.X_fit_)
    if isinstance(step, RobustKernelPCA):
        A, offset = step.axes_coef_.astype(float), step._offset
    else:
        A, offset = step._coefficients.astype(float), step._offset
    scores = graph.add("MatMul", K, graph.constant(A, "float64"))
    scores = graph.add("Sub", scores, graph.constant(offset, "float64"))
    return graph.cast(scores, graph.dtype)


def _preprocess(graph: _Graph, step: Preprocessor, X: str) -> str:
    wide = graph.cast(X, "float64")
    if step.fill_ is not None:
        wide = graph.add("Where", graph.add("IsNaN", wide), graph.constant(step.fill_, float), wide)
    if step.center_ is not None:
        wide = graph.add("Sub", wide, graph.constant(step.center_, float))
    if step.scale_ is not None and len(step.scale_) == 1:  # a single factor would be fused
        wide = graph.add("MatMul", wide, graph.constant(1 / step.scale_[:, None], float))
    elif step.scale_ is not None:
        wide = graph.add("Div", wide, graph.constant(step.scale_, float))
    return graph.cast(wide, graph.dtype)


def _affine(graph: _Graph, step: Any, X: str, dtype: Any, scale: float = 1.0) -> str:
    """``(scale X - origin) W`` of the linear estimators, as their ``_scores`` have it.

    Factors are multiplied into constants: onnxruntime fuses those of products, rounded to float32.
    """
    V = to_numpy(step.components_).astype(float)
    W = np.linalg.pinv(V) if isinstance(step, SparsePCA) else V.T / to_numpy(step._scale()).T
    if step._is_centered:
        origin = to_numpy(step._origin).astype(float) / scale
        near = origin.astype(dtype).astype(float)
        X = graph.add("Sub", X, graph.constant(near, dtype))
        if (rest := (origin - near).astype(dtype)).any():  # far from 0, float32 rounds the origin
            X = graph.add("Sub", X, graph.constant(rest, dtype))
    return graph.add("MatMul", X, graph.constant(scale * W, dtype))


def _features(graph: _Graph, step: Any, X: str) -> str:
    """PCA of the features of landmarks, or of random ones, in float64."""
    phi = step.features_
    if isinstance(phi, Nystroem):
        K = _kernel(graph, step, X, phi.landmarks)
        return _affine(
            graph, step.pca_, graph.add("MatMul", K, graph.constant(phi.root, float)), float
        )
    phases = graph.add("MatMul", X, graph.constant(phi.frequencies, float))
    count = phi.frequencies.shape[1]
    offset = np.zeros(count)
    offset[-1] = phi.offset or 0.0
    phases = graph.add("Add", phases, graph.constant(offset, float))
    sines = graph.add("Sin", phases)
    if phi.offset is not None:  # the last cosine has no sine
        ends = (graph.constant([n], np.int64) for n in (0, count - 1, 1))
        sines = graph.add("Slice", sines, *ends)
    # A cosine is a sine a quarter further on: many releases of ONNX Runtime have no Cos in float64.
    quarter = graph.add("Add", phases, graph.constant([np.pi / 2], float))
    both = graph.add("Concat", graph.add("Sin", quarter), sines, axis=1)
    return _affine(graph, step.pca_, both, float, np.sqrt(2 / phi.dimension))


def _kernel(graph: _Graph, step: Any, X: str, Y: Any) -> str:
    """``k(X, Y)`` in float64."""
    Y = (Y if sp.issparse(Y) else np.asarray(Y)).astype(np.float64)
    Y = shifted_rows(Y, step._kernel_shift)
    if step.kernel == "cosine":
        X, Y = _unit(graph, X), normalize(Y)
    if step.kernel in ("linear", "cosine"):
        return graph.add("MatMul", X, graph.constant(Y.T, float))
    if step.kernel == "rbf":
        squares = graph.constant(row_norms(Y, squared=True)[None, :], float)
        products = graph.add("MatMul", X, graph.constant(-2 * Y.T, float))
        apart = graph.add("Add", graph.add("Add", _squares(graph, X), squares), products)
        apart = graph.add("Max", apart, graph.constant(0.0, float))  # rounding
        return graph.add("Exp", graph.add("Mul", apart, graph.constant(-step.gamma_, float)))
    inner = graph.add("MatMul", X, graph.constant(step.gamma_ * Y.T, float))
    inner = graph.add("Add", inner, graph.constant(step.coef0, float))
    if step.kernel == "sigmoid":
        return graph.add("Tanh", inner)
    return graph.add("Pow", inner, graph.constant(step.degree, float))


def _squares(graph: _Graph, X: str) -> str:
    """``||x||^2`` of each row, a column."""
    return graph.add("ReduceSum", graph.add("Mul", X, X), graph.constant([1], np.int64), keepdims=1)


def _unit(graph: _Graph, X: str) -> str:
    """Rows of length 1; rows of zeros stay so."""
    length = graph.add("Sqrt", _squares(graph, X))
    zero = graph.add("Equal", length, graph.constant(0.0, float))
    return graph.add("Div", X, graph.add("Where", zero, graph.constant(1.0, float), length))
