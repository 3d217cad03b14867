"""What commands print: words for people, JSON for machines."""

from __future__ import annotations

import io
import json
import math
import sys
from collections.abc import Sequence
from typing import Any

import numpy as np
from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from ..io.tables.table import counted, printable
from .inputs import NotedModel

#: The most components, and loadings of each, that are printed.
COMPONENTS, LOADINGS = 12, 3


def as_json(value: Any) -> None:
    """Print one JSON object."""
    text = json.dumps(_plain(value), indent=2, ensure_ascii=False)
    # Letters stay; characters that a terminal would obey are escaped.
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
    return value if value is None or isinstance(value, (bool, int, float, str)) else str(value)


def table(head: Sequence[str], rows: Sequence[Sequence[str]], indent: int = 2) -> str:
    """Return a table in columns, numbers to the right; no line is wrapped or coloured."""
    grid = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="")
    for name, *cells in zip(head, *rows, strict=True):
        right = all(_is_number(cell) for cell in cells)
        grid.add_column(Text(printable(name)), justify="right" if right else "left", no_wrap=True)
    for row in rows:
        grid.add_row(*(Text(printable(cell)) for cell in row))
    console = Console(file=io.StringIO(), width=2**20, color_system=None)
    with console.capture() as capture:
        console.print(Padding(grid, (0, 0, 0, indent), expand=False))
    return "".join(f"{line.rstrip()}\n" for line in capture.get().splitlines())


def _is_number(text: str) -> bool:
    try:
        float(text.rstrip(" %"))
    except ValueError:
        return False
    return True


def facts(fitted: NotedModel) -> dict[str, Any]:
    """Return what there is to say about a model, as JSON has it."""
    model = fitted.estimator
    attributes = {
        "solver": "solver_",
        "residual": "residual_",
        "variance_shortfall": "variance_shortfall_",
        "passes": "n_passes_",
        "iterations": "n_iter_",
        "agreement_of_starts": "agreement_",
        "refitted": "refitted_",
    }
    measured = hasattr(model, "residual_")
    known: dict[str, Any] = {
        "estimator": fitted.name,
        "components": fitted.n_components,
        "features": fitted.n_features,
        "explained_variance": model.explained_variance_,
        "explained_variance_ratio": model.explained_variance_ratio_,
        "tol": model.tol,
        "within_tol": bool(model.residual_ <= 1.01 * model.tol) if measured else None,
    }
    known |= {word: getattr(model, a) for word, a in attributes.items() if hasattr(model, a)}
    if fitted.is_robust:
        known |= {"flagged": int(model.outliers_.sum()), "rows": len(model.outliers_)}
    return {**fitted.notes, **known}


def summary(fitted: NotedModel) -> str:
    """Return a model in words."""
    model, known = fitted.estimator, facts(fitted)
    rows = f"{counted(known['rows'], 'row')}, " if "rows" in known else ""
    source = f" of {printable(known['source'])}" if known.get("source") else ""
    lines = [
        f"{fitted.name}{source}: {rows}{counted(fitted.n_features, 'column')}, "
        f"{counted(fitted.n_components, 'component')}\n"
    ]
    ratio = np.asarray(model.explained_variance_ratio_, dtype=float)
    total = np.cumsum(ratio)
    head = ["component", "variance", "share", "sum"]
    cells = [
        [str(j + 1), f"{model.explained_variance_[j]:.4g}", f"{ratio[j]:.1%}", f"{total[j]:.1%}"]
        for j in range(min(len(ratio), COMPONENTS))
    ]
    if fitted.is_linear:
        head.append("largest loadings")
        for j, row in enumerate(cells):
            leading = fitted.leading(j, LOADINGS)
            row.append(", ".join(f"{loading:+.2f} {name}" for name, loading in leading))
    lines.append(table(head, cells))
    if len(ratio) > COMPONENTS:
        lines.append(f"  and {len(ratio) - COMPONENTS} more, {total[-1]:.1%} together\n")
    if fitted.is_robust:
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
