"""The report of the race: tables in Markdown, all ratios at a glance, and time against accuracy.

``python -m benchmarks.report [results/race.json]`` writes race.md, race-overview.png and
race-<dtype>.png beside it.
"""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

from .explore import TARGETS
from .methods import OURS

Rows = Sequence[dict[str, Any]]

#: A ratio of this, or its inverse, has the strongest colour of the overview.
STRONGEST = 8

#: Shortfalls below this are rounding of the judge.
FLOOR = 1e-16


def number(value: float | None, digits: str = ".3g") -> str:
    """A number, or a dash where there is none."""
    return "-" if value is None else format(value, digits)


def ratios(rows: Rows) -> list[float]:
    """Those of the cells that both ours and a peer met."""
    return [row["ratio"] for row in rows if row["ratio"] is not None]


def geometric_mean(values: Sequence[float]) -> float | None:
    return math.exp(sum(map(math.log, values)) / len(values)) if values else None


def row_line(row: dict[str, Any]) -> str:
    """One cell as a line of the terminal."""
    mine = row["methods"].get(OURS, {})
    return (
        f"{row['case']:24s} {row['dtype']} {row['target']:.0e}  ours {number(row['ours']):>7s} s"
        f" ({mine.get('solver', '-')}, {number(mine.get('peak_mb'), '.0f')} MB)"
        f"  {row['fastest peer'] or 'no peer'} {number(row['peer'])} s"
        f"  ratio {number(row['ratio'], '.2f')}{' =' if row['same kernel'] else ''}"
    )


def summary(rows: Rows) -> list[str]:
    """Geometric mean and minimum of the ratios, overall and by target, dtype and kernel."""
    groups: list[tuple[str, Rows]] = [("all cells", rows)]
    for target in sorted({row["target"] for row in rows}, reverse=True):
        groups.append((f"target {target:.0e}", [r for r in rows if r["target"] == target]))
    for dtype in sorted({row["dtype"] for row in rows}):
        groups.append((dtype, [r for r in rows if r["dtype"] == dtype]))
    groups.append(("same kernel", [r for r in rows if r["same kernel"]]))
    groups.append(("other kernels", [r for r in rows if not r["same kernel"]]))
    lines = ["| cells | number | geometric mean | minimum |", "|---|---|---|---|"]
    for name, group in groups:
        known = ratios(group)
        mean, least = geometric_mean(known), min(known, default=None)
        lines.append(f"| {name} | {len(known)} | {number(mean, '.2f')} | {number(least, '.2f')} |")
    alone = sum(row["peer"] is None for row in rows)
    missed = sum(row["ours"] is None for row in rows)
    lines += ["", f"Cells that no peer met: {alone}. Cells that ours did not meet: {missed}."]
    return lines


def cells_table(rows: Rows) -> list[str]:
    """Every cell: ours, the fastest peer, their ratio and peak memory."""
    lines = [
        "| case | dtype | target | ours (s) | fastest peer | peer (s) | ratio | solver | passes "
        "| certificate | reached | ours (MB) | peer (MB) |",
        "|---" * 13 + "|",
    ]
    for row in rows:
        mine = row["methods"].get(OURS, {})
        theirs = row["methods"].get(row["fastest peer"], {})
        cells = (
            row["case"],
            row["dtype"],
            f"{row['target']:.0e}",
            number(row["ours"]),
            row["fastest peer"] or "-",
            number(row["peer"]),
            number(row["ratio"], ".2f") + (" =" if row["same kernel"] else ""),
            mine.get("solver", "-").split(":")[0],
            number(mine.get("n_passes"), "d"),
            number(mine.get("variance_shortfall"), ".1e"),
            number(mine.get("reached"), ".1e"),
            number(mine.get("peak_mb"), ".0f"),
            number(theirs.get("peak_mb"), ".0f"),
        )
        lines.append("| " + " | ".join(cells) + " |")
    return lines


def methods_table(rows: Rows, names: Sequence[str]) -> list[str]:
    """Every method in every cell: seconds, knob in brackets; one run is marked by an asterisk."""

    def entry(row: dict[str, Any], name: str) -> str:
        found = row["methods"].get(name)
        if found is None:
            return "-"
        knob = "" if found["knob"] is None else f" ({found['knob']:g})"
        return f"{found['seconds']:.3g}{'*' if found['repeats'] == 1 else ''}{knob}"

    lines = [
        "| case | dtype | target | " + " | ".join(names) + " |",
        "|---" * (3 + len(names)) + "|",
    ]
    for row in rows:
        head = [row["case"], row["dtype"], f"{row['target']:.0e}"]
        lines.append("| " + " | ".join(head + [entry(row, name) for name in names]) + " |")
    return lines


def first_order_wins(rows: Rows, names: Sequence[str]) -> str:
    """Where a first-order method was faster than ours, or than every peer."""
    won: dict[str, list[str]] = {"ours": [], "peer": []}
    for row in rows:
        times = {n: row["methods"][n]["seconds"] for n in names if n in row["methods"]}
        for rival, cells in won.items():
            if times and min(times.values()) < (row[rival] or math.inf):
                best = min(times, key=lambda name: times[name])
                cells.append(f"{row['case']} {row['dtype']} {row['target']:.0e} ({best})")
    ours, peers = ("; ".join(won[rival]) or "none" for rival in ("ours", "peer"))
    return f"Faster than ours: {ours}.\n\nFaster than every peer: {peers}."


def in_order(values: Iterable[Any]) -> list[Any]:
    """Without repetitions, in the order of the first appearance."""
    return list(dict.fromkeys(values))


def markdown(found: dict[str, Any]) -> str:
    """The whole report."""
    rows, explored, host = found["rows"], found["explored"], found["machine"]
    names = in_order(trail["method"] for trail in explored)
    first = in_order(t["method"] for t in explored if t["kind"] == "first-order")
    versions = ", ".join(f"{name} {v}" for name, v in host["versions"].items())
    parts = [
        "# The race",
        "",
        f"{host['cores']} cores, OMP_NUM_THREADS {host['OMP_NUM_THREADS']}; {versions}.",
        "",
        "Median seconds to a relative shortfall in captured variance, judged in float64 outside the",
        "methods. The ratio is fastest peer / ours. `=` marks cells in which both form the Gram",
        "matrix and decompose it. The certificate is the bound that our model states, reached is",
        "what the judge found. Memory is the peak above the start of one run.",
        "",
        *summary(rows),
        "",
        *cells_table(rows),
        "",
        "## Every method",
        "",
        "Median seconds, and the knob that was chosen. An asterisk marks a single run: the method",
        "was over twice slower than the fastest peer, or time was short. A dash marks a target",
        "that was not met; below is why a method went no further.",
        "",
        *methods_table(rows, names),
        "",
    ]
    if first:
        parts += ["## First-order methods", "", first_order_wins(rows, first), ""]
    parts += ["## Stopped, failed and left out", "", *(f"- {note}" for note in found["notes"])]
    for trail in explored:
        if trail["ended"].startswith(("stopped", "failed", "not run", "at its")):
            parts.append(
                f"- {trail['case']}, {trail['dtype']}, {trail['method']}: {trail['ended']}"
            )
    return "\n".join(parts) + "\n"


def figure(found: dict[str, Any], dtype: str, path: Path) -> None:
    """Small multiples, one a case: seconds against the shortfall reached, a line for each method."""
    from matplotlib.figure import Figure

    trails = [t for t in found["explored"] if t["dtype"] == dtype and t["runs"]]
    cases = in_order(t["case"] for t in trails)
    style = _styles(in_order((t["method"], t["kind"]) for t in found["explored"]))
    columns = min(4, len(cases))
    rows = math.ceil(len(cases) / columns)
    fig = Figure(figsize=(3.6 * columns + 0.6, 2.7 * rows + 1.6), layout="constrained")
    axes = fig.subplots(rows, columns, squeeze=False).ravel()
    handles: dict[str, Any] = {}
    for ax, case in zip(axes, cases, strict=False):
        for target in TARGETS:
            ax.axvline(target, color="0.85", linewidth=0.8, zorder=0)
        for trail in (t for t in trails if t["case"] == case):
            runs = [r for r in trail["runs"] if r["shortfall"] is not None]
            x = [max(r["shortfall"], FLOOR) for r in runs]
            line = ax.plot(x, [r["seconds"] for r in runs], **style[trail["method"]])
            handles.setdefault(trail["method"], line[0])
        ax.set(xscale="log", yscale="log", xlim=(2, FLOOR / 3))
        ax.set_title(case, fontsize=9)
        ax.tick_params(which="both", labelsize=7)
    for ax in axes[len(cases) :]:
        ax.set_axis_off()
    fig.supylabel("seconds", fontsize=9)
    fig.suptitle(
        f"{dtype}: seconds against the relative shortfall in captured variance, "
        "tighter to the right; every knob that was tried",
        fontsize=11 if columns > 2 else 8,
    )
    fig.legend(
        handles.values(), handles.keys(), loc="outside lower center", ncols=columns, fontsize=8
    )
    fig.savefig(path, dpi=130)


def _styles(methods: Sequence[tuple[str, str]]) -> dict[str, dict[str, Any]]:
    from matplotlib import colormaps

    markers = "osv^D<>pPXh*"
    found: dict[str, dict[str, Any]] = {}
    for i, (name, kind) in enumerate(methods):
        found[name] = {
            "color": colormaps["tab20"]((2 * i) % 20 + i // 10),  # the strong ones, then the pale
            "marker": markers[i % len(markers)],
            "markersize": 3.5,
            "linewidth": 1.0,
            "linestyle": "--" if kind == "first-order" else "-",
        }
        if kind == "ours":
            found[name] |= {"color": "black", "linewidth": 2.4, "markersize": 6, "zorder": 5}
    return found


def cell_text(row: dict[str, Any] | None) -> str:
    """What stands in a cell of the overview."""
    if row is None:
        return ""
    if row["ratio"] is None:
        return "missed" if row["ours"] is None else "alone"
    return f"{row['ratio']:.2f}{' =' if row['same kernel'] else ''}"


def overview(rows: Rows, path: Path) -> None:
    """Every cell of the race: a row a case, a column a dtype and target, the ratio as colour."""
    import numpy as np
    from matplotlib.figure import Figure

    cells = {(row["case"], row["dtype"], row["target"]): row for row in rows}
    cases = in_order(row["case"] for row in rows)
    columns = [(t, r) for t in in_order(row["dtype"] for row in rows) for r in TARGETS]
    table = [[cells.get((case, *column)) for column in columns] for case in cases]
    ratio = [[math.nan if c is None else c["ratio"] or math.nan for c in line] for line in table]
    means = [geometric_mean([x for x in line if x == x]) for line in zip(*ratio, strict=True)]
    texts = [*(list(map(cell_text, line)) for line in table), [number(m, ".2f") for m in means]]
    shades = np.log([*ratio, [math.nan if m is None else m for m in means]]) / math.log(STRONGEST)

    fig = Figure(figsize=(10, 0.3 * len(texts) + 1.9), layout="constrained")
    ax = fig.subplots()
    ax.set_facecolor("0.88")  # cells without a ratio
    image = ax.imshow(shades, cmap="RdBu", vmin=-1, vmax=1, aspect="auto")
    for i, line in enumerate(texts):
        for j, text in enumerate(line):
            pale = not abs(shades[i, j]) > 0.65
            weight = "bold" if i == len(cases) else "normal"
            style = {"color": "black" if pale else "white", "fontsize": 10, "weight": weight}
            ax.text(j, i, text, ha="center", va="center", **style)
    ax.axhline(len(cases) - 0.5, color="black", linewidth=1.5)
    for j in range(len(TARGETS), len(columns), len(TARGETS)):
        ax.axvline(j - 0.5, color="black", linewidth=1.5)
    ax.set_yticks(range(len(texts)), [*cases, "geometric mean"], fontsize=10)
    ax.set_xticks(range(len(columns)), [f"{t}\n{r:.0e}" for t, r in columns], fontsize=10)
    ax.tick_params(length=0, top=True, labeltop=True, bottom=False, labelbottom=False)
    title = "Time of the fastest peer / ours, to a shortfall in captured variance"
    ax.set_title(
        f"{title}\nblue: ours is faster; = both form the Gram matrix; alone: no peer met it"
    )
    bar = fig.colorbar(image, ax=ax, orientation="horizontal", aspect=60, shrink=0.6, pad=0.01)
    ticks = [2.0**k for k in range(-3, 4)]
    bar.set_ticks([math.log(x, STRONGEST) for x in ticks], labels=[f"{x:g}" for x in ticks])
    fig.savefig(path, dpi=150)


def write_report(found: dict[str, Any], folder: Path) -> list[Path]:
    """race.md, the overview and, for each dtype, a figure; returns what was written."""
    folder.mkdir(parents=True, exist_ok=True)
    paths = [folder / "race.md"]
    paths[0].write_text(markdown(found))
    draw: dict[str, Callable[[Path], None]] = {}
    if found["rows"]:
        draw["race-overview.png"] = lambda path: overview(found["rows"], path)
    for dtype in in_order(trail["dtype"] for trail in found["explored"] if trail["runs"]):
        draw[f"race-{dtype}.png"] = lambda path, dtype=dtype: figure(found, dtype, path)
    for name, make in draw.items():
        try:
            make(folder / name)
            paths.append(folder / name)
        except ImportError as error:
            print(f"{name} is not drawn: {error}")
    return paths


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("results", nargs="?", default="results/race.json", type=Path)
    path = parser.parse_args(arguments).results
    for written in write_report(json.loads(path.read_text()), path.parent):
        print(f"wrote {written}")


if __name__ == "__main__":
    main()
