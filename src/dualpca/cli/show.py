"""What commands print: words for people, JSON for machines."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Sequence
from typing import Any

import numpy as np

from ..io.tables.table import counted, printable
from .work import Fitted

#: The most components, loadings and variables that are printed.
COMPONENTS, LOADINGS, VARIABLES = 12, 3, 3


def as_json(value: Any) -> None:
    """One JSON object on standard output."""
    text = json.dumps(_plain(value), indent=2, ensure_ascii=False)
    # Letters stay; what a terminal would obey is written as JSON has it.
    escaped = (c if c.isprintable() or c == "\n" else json.dumps(c)[1:-1] for c in text)
    sys.stdout.write("".join(escaped) + "\n")


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {str(key): _plain(entry) for key, entry in value.items()}
    if isinstance(value, (list, tuple, np.ndarray)):
        return [_plain(entry) for entry in value]
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    return str(value)


def aligned(head: Sequence[str], rows: Sequence[Sequence[str]], indent: str = "  ") -> str:
    """A table in columns, numbers to the right."""
    cells = [[printable(cell) for cell in row] for row in (head, *rows)]
    widths = [max(len(row[j]) for row in cells) for j in range(len(head))]
    right = [all(_numeric(row[j]) for row in cells[1:]) for j in range(len(head))]
    lines = (
        indent
        + "  ".join(
            text.rjust(width) if to_right else text.ljust(width)
            for text, width, to_right in zip(row, widths, right, strict=True)
        ).rstrip()
        for row in cells
    )
    return "\n".join(lines) + "\n"


def _numeric(text: str) -> bool:
    try:
        float(text.rstrip(" %"))
    except ValueError:
        return False
    return True


def facts(fitted: Fitted) -> dict[str, Any]:
    """What there is to say of a model, as JSON has it."""
    model = fitted.estimator
    names = {
        "solver": "solver_",
        "residual": "residual_",
        "variance_shortfall": "variance_shortfall_",
        "passes": "n_passes_",
        "iterations": "n_iter_",
        "agreement_of_starts": "agreement_",
        "refitted": "refitted_",
    }
    found: dict[str, Any] = {
        "estimator": type(model).__name__,
        "components": int(model._n_features_out),
        "features": int(model.n_features_in_),
        "explained_variance": getattr(model, "explained_variance_", None),
        "explained_variance_ratio": getattr(model, "explained_variance_ratio_", None),
        "tol": getattr(model, "tol", None),
        "within_tol": bool(model.residual_ <= 1.01 * model.tol)
        if hasattr(model, "residual_")
        else None,
    }
    found |= {word: getattr(model, name) for word, name in names.items() if hasattr(model, name)}
    if fitted.flags:
        flagged = np.asarray(model.outliers_)
        found |= {"flagged": int(flagged.sum()), "rows": len(flagged)}
    return {**fitted.notes, **found}


def summary(fitted: Fitted) -> str:
    """A model in words."""
    model, known = fitted.estimator, facts(fitted)
    rows = f"{counted(known['rows'], 'row')}, " if "rows" in known else ""
    source = f" of {printable(known['source'])}" if known.get("source") else ""
    lines = [
        f"{known['estimator']}{source}: {rows}{counted(known['features'], 'column')}, "
        f"{counted(known['components'], 'component')}\n"
    ]
    ratio = known["explained_variance_ratio"]
    if ratio is not None:
        ratio, variance = np.asarray(ratio, float), np.asarray(known["explained_variance"], float)
        total = np.cumsum(ratio)
        table = [
            [
                str(j + 1),
                f"{variance[j]:.4g}",
                f"{ratio[j]:.1%}",
                f"{total[j]:.1%}",
                _leading(fitted, j),
            ]
            for j in range(min(len(ratio), COMPONENTS))
        ]
        head = ["component", "variance", "share", "sum", "largest loadings"]
        width = len(head) if hasattr(model, "components_") else len(head) - 1
        lines.append(aligned(head[:width], [row[:width] for row in table]))
        if len(ratio) > COMPONENTS:
            lines.append(f"  and {len(ratio) - COMPONENTS} more, {total[-1]:.1%} together\n")
    if fitted.flags:
        lines.append(f"flagged: {known['flagged']:,} of {known['rows']:,} rows\n")
    if hasattr(model, "residual_"):
        within = "within" if known["within_tol"] else "ABOVE"
        lines.append(
            f"accuracy: residual {model.residual_:.1e}, {within} tol {model.tol:.0e}; "
            f"{model.n_passes_} passes over the data\n"
        )
    if known.get("dropped_rows"):
        lines.append(f"rows dropped for missing cells: {known['dropped_rows']:,}\n")
    return "".join(lines)


def _leading(fitted: Fitted, j: int) -> str:
    components = getattr(fitted.estimator, "components_", None)
    if components is None:
        return ""
    row = np.asarray(components[j], dtype=float)
    names = fitted.names or [f"x{i + 1}" for i in range(len(row))]
    largest = np.argsort(-np.abs(row), kind="stable")[:LOADINGS]
    return ", ".join(f"{row[i]:+.2f} {names[i]}" for i in largest if row[i])


def variables(contributions: np.ndarray, names: list[str]) -> str:
    """The variables behind an orthogonal distance: "height (+62 %), weight (-20 %)"."""
    total = float(np.abs(contributions).sum())
    largest = np.argsort(-np.abs(contributions), kind="stable")[:VARIABLES]
    told = [(names[i], contributions[i] / total) for i in largest if total and contributions[i]]
    return ", ".join(f"{name} ({100 * share:+.2g}%)" for name, share in told)
