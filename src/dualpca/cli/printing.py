"""What commands print: words for people, JSON for machines."""

import io
import json
import sys
from collections.abc import Sequence
from typing import Any

import numpy as np
from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from ..io.tables.table import counted, printable
from .fitting import NotedModel

#: The most components, and loadings of each, that are printed.
COMPONENTS, LOADINGS = 12, 3

#: What JSON calls fitted attributes.
ATTRIBUTES = {
    **{"explained_variance": "explained_variance_", "residual": "residual_", "solver": "solver_"},
    **{"explained_variance_ratio": "explained_variance_ratio_", "passes": "n_passes_"},
    **{"variance_shortfall": "variance_shortfall_", "iterations": "n_iter_"},
    **{"agreement_of_starts": "agreement_", "refitted": "refitted_"},
    **{"upper_bound": "upper_bound_", "gap": "gap_", "nodes": "n_nodes_"},
}

#: Columns of these characters alone are numbers.
NUMERIC = set("+-.,e0123456789 %")


def say(text: str) -> None:
    """Print one line, in which characters that a terminal would obey are escaped."""
    sys.stdout.write(printable(text) + "\n")


def print_json(value: dict[str, Any]) -> None:
    """Print one JSON object, with null for numbers that are not finite."""
    text = json.dumps(value, default=lambda v: v.tolist() if hasattr(v, "tolist") else str(v))
    finite = json.loads(text, parse_constant=lambda _: None)
    text = json.dumps(finite, indent=2, ensure_ascii=False)
    # Letters stay; characters that a terminal would obey are escaped.
    escaped = (c if c.isprintable() or c == "\n" else json.dumps(c)[1:-1] for c in text)
    sys.stdout.write("".join(escaped) + "\n")


def text_table(head: Sequence[str], rows: Sequence[Sequence[str]], indent: int = 2) -> str:
    """Return a table in columns, numbers to the right; no line is wrapped or coloured."""
    grid = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="")
    for name, *cells in zip(head, *rows, strict=True):
        right = all(set(cell) <= NUMERIC for cell in cells)
        grid.add_column(Text(printable(name)), justify="right" if right else "left", no_wrap=True)
    for row in rows:
        grid.add_row(*(Text(printable(cell)) for cell in row))
    console = Console(file=io.StringIO(), width=2**20, color_system=None)
    with console.capture() as capture:
        console.print(Padding(grid, (0, 0, 0, indent), expand=False))
    return "".join(f"{line.rstrip()}\n" for line in capture.get().splitlines())


def listing(columns: dict[str, Any]) -> list[dict[str, Any]]:
    """Return a line for each row, by the names of the columns, as Python has them."""
    cells = (c.tolist() if hasattr(c, "tolist") else list(c) for c in columns.values())
    return [dict(zip(columns, row, strict=True)) for row in zip(*cells, strict=True)]


def print_rows(columns: dict[str, Any], writer: Any) -> None:
    """Write the columns of rows to a file, or print them as a table if there is no writer."""
    rows = [list(row.values()) for row in listing(columns)]
    if writer is not None:
        with writer:
            writer.write(columns)
    elif rows:
        cells = [[f"{v:.4g}" if isinstance(v, float) else str(v) for v in row] for row in rows]
        sys.stdout.write(text_table(list(columns), cells, indent=0))


def facts(fitted: NotedModel) -> dict[str, Any]:
    """Return what there is to say about a model, as JSON has it."""
    model = fitted.estimator
    known: dict[str, Any] = {"estimator": fitted.name, "components": fitted.n_components}
    known |= {"features": fitted.n_features, "tol": model.tol}
    if (selection := getattr(model, "selection_", None)) is not None:
        known["components_chosen_by"] = selection.method
    known["within_tol"] = bool(model.residual_ <= 1.01 * model.tol)
    known |= {word: getattr(model, a) for word, a in ATTRIBUTES.items() if hasattr(model, a)}
    if fitted.is_robust and len(model.outliers_) == fitted.n_samples:  # else of the last rows only
        known |= {"flagged": int(model.outliers_.sum()), "rows": len(model.outliers_)}
    if fitted.has_cells:
        known["flagged_cells"] = int(model.cell_outliers_.sum())
    return {**fitted.notes, **known}


def print_summary(fitted: NotedModel) -> None:
    """Print a model in words."""
    model, known = fitted.estimator, facts(fitted)
    rows = f"{counted(known['rows'], 'row')}, " if "rows" in known else ""
    source = f" of {known['source']}" if known.get("source") else ""
    width, k = counted(fitted.n_features, "column"), counted(fitted.n_components, "component")
    chosen = known.get("components_chosen_by")
    say(f"{fitted.name}{source}: {rows}{width}, {k}{f', chosen by {chosen}' if chosen else ''}")
    shares = np.asarray(model.explained_variance_ratio_, dtype=float)
    total = fitted.cumulative_shares
    head = ["component", "variance", "share", "sum"]
    cells = [
        [str(j + 1), f"{model.explained_variance_[j]:.4g}", f"{shares[j]:.1%}", f"{total[j]:.1%}"]
        for j in range(min(len(shares), COMPONENTS))
    ]
    if fitted.is_linear:
        head.append("largest loadings")
        for j, row in enumerate(cells):
            leading = fitted.leading(j, LOADINGS)
            row.append(", ".join(f"{loading:+.2f} {name}" for name, loading in leading))
    sys.stdout.write(text_table(head, cells))
    if len(shares) > COMPONENTS:
        say(f"  and {len(shares) - COMPONENTS} more, {total[-1]:.1%} together")
    if "flagged" in known:
        single = f", {counted(known['flagged_cells'], 'cell')}" if fitted.has_cells else ""
        say(f"flagged: {known['flagged']:,} of {known['rows']:,} rows{single}")
    within = "within" if known["within_tol"] else "ABOVE"
    say(
        f"accuracy: residual {model.residual_:.1e}, {within} tol {model.tol:.0e}; "
        f"{model.n_passes_} passes over the data"
    )
    if "gap" in known:
        say(
            f"of the most variance with as few columns, components miss at most {max(model.gap_):.2%}, "
            "each in what those before it leave"
        )
    if known.get("dropped_rows"):
        say(f"rows dropped for missing cells: {known['dropped_rows']:,}")
