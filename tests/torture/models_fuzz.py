"""Model files with headers of any content and a right checksum."""

from __future__ import annotations

import copy
import json
import random
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.pipeline import make_pipeline

import dualpca
from dualpca import (
    PCA,
    KernelPCA,
    Preprocessor,
    PrincipalComponentPursuit,
    RobustKernelPCA,
    RobustPCA,
    SparsePCA,
)
from dualpca.io import tensorfile as _tensorfile
from dualpca.io.codec import Encoder
from dualpca.io.models import ModelFileError, load, read_header

__all__ = ["ModelFileError", "forge", "sound", "use"]

D = 4
ROWS = np.random.default_rng(0).standard_normal((12, D)) @ np.diag([3.0, 2, 1, 0.5])

KEYS = ("__class__", "__dict__", "__reduce__", "transform", "_validate_params", "../../x", "$", "")
CLASSES = ("os.system", "builtins.eval", "subprocess.Popen", "Pipeline", "PCA", "KernelPCA", "L1")

#: What is put anywhere in a header.
VALUES: tuple[Any, ...] = (
    *(
        None,
        True,
        -1,
        0,
        1,
        10**9,
        2**63,
        10**400,
        -0.5,
        1e308,
        [],
        {},
        "",
        "x",
        "../../x",
        "\ud800",
    ),
    *("os.system", "__import__('os').system('false')", [[[[]]]], [1, "a"], "\x1b[31m", "a" * 10**5),
    *({"$": kind} for kind in ("array", "estimator", "kernel", "random_state", "sparse", "call")),
    {"$": "float", "value": "nan"},
    {"$": "float", "value": "inf"},
    {"$": "tuple", "items": [1, 2, 3]},
    {"$": "dict", "items": [["a", 1], ["a", 2]]},
    {"$": "names", "values": ["a", "b"]},
    {"$": "kernel", "options": {"metric": "rbf", "gamma": "x"}},
    {"$": "kernel", "options": {"metric": "rbf", "n_jobs": 10**6}},
    {"$": "object", "class": "Huber", "fields": {"scale": 1.0}},
    {"$": "object", "class": "DCA", "fields": {}},
    {"$": "object", "class": "Nystroem", "fields": {"landmarks": 1, "kernel": 2, "root": 3}},
    {"$": "pipeline", "steps": [["a", "passthrough"]], "params": {"memory": "/tmp/x"}},
    {"$": "estimator", "class": "PCA", "params": {}, "fitted": {}},
)


def fitted() -> list[Any]:
    """A model of each class."""
    models = [
        PCA(2, random_state=np.random.RandomState(0)),
        RobustPCA(2, random_state=0),
        SparsePCA(2, random_state=0),
        KernelPCA(2, kernel="rbf", fit_inverse_transform=True, random_state=0),
        KernelPCA(2, kernel="poly", approximation="nystroem", n_landmarks=5, random_state=0),
        RobustKernelPCA(2, random_state=0),
        RobustKernelPCA(2, approximation="rff", n_random_features=8, random_state=0),
        PrincipalComponentPursuit(),
        make_pipeline(Preprocessor("robust", "impute"), RobustPCA(2, random_state=0)),
    ]
    return [model.fit(ROWS) for model in models]


def sound(folder: Path) -> list[bytes]:
    """Model files, and their parts for :func:`forge`."""
    found = []
    for number, model in enumerate(fitted()):
        path = folder / f"sound{number}.dualpca"
        dualpca.save(model, path, notes={"source": "x.csv", "ids": ["a"]}, overwrite=True)
        found.append(path.read_bytes())
        encoder = Encoder()
        header = {"format": "dualpca model", "version": 1, "dualpca": dualpca.__version__}
        header |= {"class": type(model).__name__, "notes": {}, "model": encoder.model(model)}
        PARTS.append((header, encoder.tensors))
    return found


PARTS: list[tuple[dict[str, Any], dict[str, np.ndarray]]] = []


def places(tree: Any) -> list[tuple[Any, Any]]:
    """All containers in a tree with the keys in them."""
    items = (
        tree.items()
        if isinstance(tree, dict)
        else enumerate(tree)
        if isinstance(tree, list)
        else ()
    )
    return [place for key, value in items for place in [(tree, key), *places(value)]]


def forge(rng: random.Random, path: Path, folder: Path) -> None:
    """A file whose header or arrays say something else, with the checksum that fits."""
    header, tensors = copy.deepcopy(rng.choice(PARTS))
    for _ in range(rng.choice((1, 1, 2, 4))):
        if rng.random() < 0.3 and tensors:
            change_array(rng, tensors)
        else:
            change_tree(rng, header)
    head, arrays = _tensorfile.header_of(tensors, json.dumps(header))
    if rng.random() < 0.2:
        layout = json.loads(head[8:])
        change_tree(rng, {"": {k: v for k, v in layout.items() if k != "__metadata__"}}, layout)
        text = json.dumps(layout, separators=(",", ":")).encode()
        head = len(text).to_bytes(8, "little") + text
    with open(path, "wb") as file:
        _tensorfile.write(file, head, arrays)


def change_tree(rng: random.Random, tree: dict[str, Any], layout: Any = None) -> None:
    found = places(tree)[layout is not None :]
    if not found:
        return
    holder, key = rng.choice(found)
    match rng.randrange(6):
        case 0 | 1:
            holder[key] = copy.deepcopy(rng.choice(VALUES))
        case 2 if isinstance(holder, dict):
            holder[rng.choice((*KEYS, *holder))] = holder.pop(key)
        case 3:
            del holder[key]
        case 4:
            other, place = rng.choice(found)
            holder[key] = copy.deepcopy(other[place]) if other is not holder or place != key else 0
        case 5:
            holder[key] = rng.choice(CLASSES)


def change_array(rng: random.Random, tensors: dict[str, np.ndarray]) -> None:
    name = rng.choice(list(tensors))
    array = tensors[name]
    match rng.randrange(7):
        case 0:
            array = array.T
        case 1:
            array = array.reshape(-1)[: rng.randrange(array.size + 1)]
        case 2:
            array = array.reshape((1,) * rng.randrange(1, 5) + array.shape)
        case 3:
            array = array.astype(rng.choice(["f4", "i8", "u1", "?", "f2"]))
        case 4 if array.dtype.kind == "f" and array.size:
            array = array.copy()
            array.reshape(-1)[rng.randrange(array.size)] = rng.choice(
                [np.nan, np.inf, 1e308, -1e-320]
            )
        case 5:
            array = np.concatenate([array.reshape(-1)] * 3)
        case 6:
            array = tensors[rng.choice(list(tensors))]
    tensors[name] = array


def use(path: Path) -> None:
    """Load a model and ask it what it can do; a model that was loaded has to answer."""
    read_header(path)
    model = load(path)
    if not hasattr(model, "n_features_in_"):
        return
    row = np.full((2, model.n_features_in_), 0.5)
    with np.errstate(all="ignore"):
        scores = np.asarray(model.transform(row))
    assert scores.shape[0] == 2
    assert len(list(model.get_feature_names_out())) == scores.shape[1]
    assert not np.isnan(scores).any()
    repr(model)
