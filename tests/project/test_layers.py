"""The layers of the package: what the modules of each folder may import of the others."""

import ast
from pathlib import Path

import dualpca

ROOT = Path(dualpca.__file__).parent

# Numerical parts of scikit-learn, which every layer may use; its base classes are the estimators'.
SKLEARN = {"sklearn.cluster", "sklearn.exceptions", "sklearn.metrics", "sklearn.utils.extmath"}
FRONT_SKLEARN = SKLEARN | {"sklearn.pipeline", "sklearn.preprocessing", "sklearn.utils"}
# The interface of operators; solvers know no concrete one.
INTERFACE = {f"operators.{part}" for part in ("base", "block_ops", "row_blocks")} | {
    f"operators.{name}" for name in ("Operator", "RowBlocked", "as_operator", "from_gram")
}

MATHEMATICS = {"linalg", "losses", "functions", "problem", "formulations"}
NUMERICS = {*MATHEMATICS, "operators", "solvers", "progress", "_memory", *SKLEARN}
METHODS = {"kernels", "robust", "sparse", "pursuit", "linear", "preprocessing"}
ESTIMATORS = {*NUMERICS, *METHODS, "io", "frames", "report", "sklearn"}
FRONTS = {
    *NUMERICS,
    *METHODS,
    "_arguments",
    "_rows",
    "estimators",
    "inspect",
    "cells",
    "control",
    "frames",
    "stability",
    "io",
    "__version__",
    *FRONT_SKLEARN,
}

#: What each folder, or module beside the folders, may import besides itself.
LAYERS = {
    "progress": set(),
    "linalg": set(),
    "native": set(),
    "_arguments": set(),
    "_memory": {"linalg"},
    "losses": {"linalg"},
    "functions": {"linalg", "losses"},
    "operators": {"linalg", "native", "progress", "_memory"},
    "problem": {"linalg", "functions", "operators", "_memory"},
    "formulations": {"linalg", "losses", "functions", "problem", "operators"},
    "solvers": {
        "problem",
        "formulations",
        *INTERFACE,
        "linalg",
        "progress",
        "_memory",
        "sklearn.exceptions",
    },
    **dict.fromkeys(METHODS, NUMERICS | METHODS),
    "robust": {*NUMERICS, *METHODS, "native"},  # rows with wrong cells have kernels of their own
    "estimators": ESTIMATORS,
    "_rows": {"linalg", "operators", "sklearn.utils"},
    "inspect": {"_rows", *NUMERICS, *METHODS, "estimators", *FRONT_SKLEARN},
    "frames": {"_rows", "inspect", "linalg", "operators"},
    "stability": {
        *{"frames", "inspect", "linalg", "operators", "progress", "_arguments", "_memory"},
        "sklearn",
    },
    "cells": {"_rows", "inspect", "linalg", "operators"},
    "control": {"_rows", "frames", "inspect", "linalg", "linear"},
    "river": {"control", "estimators", "inspect"},
    **dict.fromkeys(("io", "plots", "report"), FRONTS),
    "torch": NUMERICS,
}
ALL_OF_THEM = {"__init__", "__main__", "cli"}


def imported(path):
    """The dotted names of all that a file imports, also within its functions."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = []
            if node.level:
                package = ["dualpca", *path.relative_to(ROOT).parent.parts]
                base = package[: len(package) - node.level + 1]
            base += node.module.split(".") if node.module else []
            yield from (".".join([*base, alias.name]) for alias in node.names)


def allowed(name, folder):
    """Whether the modules of the folder may import the dotted name."""
    if not name.startswith(("dualpca.", "sklearn.")):
        return name != "dualpca"
    parts = name.removeprefix("dualpca.").split(".")
    if parts[0] == folder:
        return True
    private = name.startswith("dualpca.") and any(part.startswith("_") for part in parts[1:-1])
    prefixes = {".".join(parts[:i]) for i in range(1, len(parts) + 1)}
    return not private and not prefixes.isdisjoint(LAYERS[folder])


def violations():
    for path in sorted(ROOT.rglob("*.py")):
        relative = path.relative_to(ROOT)
        folder = relative.parts[0].removesuffix(".py")
        if folder not in ALL_OF_THEM:
            yield from (f"{relative}: {n}" for n in imported(path) if not allowed(n, folder))


def test_every_folder_has_its_place():
    folders = {path.stem for path in ROOT.iterdir() if path.suffix in ("", ".py")}
    assert folders - {"__pycache__"} <= LAYERS.keys() | ALL_OF_THEM


def test_no_module_imports_what_lies_above_it():
    assert list(violations()) == [], "imports against the layers"


def test_no_test_module_imports_another():
    for path in sorted(Path(__file__).parents[1].rglob("test_*.py")):
        assert [name for name in imported(path) if name.startswith("test_")] == [], path
