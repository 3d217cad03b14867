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
    f"operators.{name}" for name in ("Operator", "RowBlocked", "as_operator")
}

MATHEMATICS = {"linalg", "losses", "functions", "problem", "formulations"}
NUMERICS = {*MATHEMATICS, "operators", "solvers", "progress", "_memory", *SKLEARN}
METHODS = {"kernels", "robust", "sparse", "pursuit", "linear", "preprocessing"}
ESTIMATORS = {*NUMERICS, *METHODS, "io", "sklearn"}
FRONTS = {*NUMERICS, *METHODS, "estimators", "inspect", "io", "__version__", *FRONT_SKLEARN}

#: What each folder, or module beside the folders, may import besides itself.
LAYERS = {
    "progress": set(),
    "linalg": set(),
    "_memory": {"linalg"},
    "losses": {"linalg"},
    "functions": {"linalg", "losses"},
    "operators": {"linalg", "progress", "_memory"},
    "problem": {"linalg", "functions", "operators", "_memory"},
    "formulations": {"linalg", "losses", "functions", "problem", "operators"},
    "solvers": {"problem", *INTERFACE, "linalg", "progress", "_memory", "sklearn.exceptions"},
    **dict.fromkeys(METHODS, NUMERICS | METHODS),
    "estimators": ESTIMATORS,
    "inspect": {*NUMERICS, *METHODS, "estimators", *FRONT_SKLEARN},
    **dict.fromkeys(("io", "plots", "report"), FRONTS),
}
ALL_OF_THEM = {"__init__", "__main__", "cli"}

#: What is still to be removed; an entry that is not true any more has to go too.
KNOWN = {
    "io/codec.py: dualpca.estimators._kernels.KERNELS",
    "io/onnx.py: dualpca.estimators._scores.ScoresMixin",
    "io/onnx.py: sklearn.base.BaseEstimator",
    "kernels/eigen.py: dualpca.estimators._base.seed",
    "kernels/preimage.py: dualpca.estimators._base.check_scores",
    "kernels/preimage.py: sklearn.utils.validation.check_is_fitted",
    "linear/incremental.py: dualpca.estimators._base.check_number",
    "linear/incremental.py: dualpca.estimators._base.check_same_kind",
    "linear/incremental.py: dualpca.estimators._base.seed",
    "linear/incremental.py: dualpca.estimators._base.validated",
    "linear/likelihood.py: dualpca.estimators._base.check_same_kind",
    "linear/likelihood.py: dualpca.estimators._base.validated",
    "linear/likelihood.py: sklearn.utils.validation.check_is_fitted",
    "plots/_scree.py: sklearn.base.BaseEstimator",
    "preprocessing/scaling.py: sklearn.utils._set_output._wrap_data_with_container",
    "report/__init__.py: dualpca.estimators._base.seed",
    "robust/center.py: dualpca.estimators._base.shifted",
    "robust/data.py: dualpca.estimators._base.check_energy",
    "robust/data.py: dualpca.estimators._base.check_number",
    "robust/data.py: dualpca.estimators._base.checked_weights",
    "robust/data.py: dualpca.estimators._base.seed",
    "robust/data.py: dualpca.estimators._base.validated",
    "robust/distances.py: dualpca.estimators._base.shifted",
    "robust/fit.py: dualpca.estimators._base.check_energy",
    "robust/fit.py: sklearn.utils._param_validation.Interval",
    "robust/fit.py: sklearn.utils._param_validation.RealNotInt",
    "robust/fit.py: sklearn.utils._param_validation.StrOptions",
    "solvers/spectral/chebyshev.py: dualpca.operators.tf32.matmul_precision",
    "solvers/spectral/gram.py: dualpca.operators.Kernel",
    "solvers/spectral/ritz.py: dualpca.operators.Matrix",
    "solvers/spectral/truncated.py: dualpca.operators.tf32.Tf32",
    "solvers/subspace.py: dualpca.formulations.formulation",
}


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
    found = set(violations())
    assert sorted(found - KNOWN) == [], "imports against the layers"
    assert sorted(KNOWN - found) == [], "these are mended: take them off the list"


def test_no_test_module_imports_another():
    for path in sorted(Path(__file__).parents[1].rglob("test_*.py")):
        assert [name for name in imported(path) if name.startswith("test_")] == [], path
