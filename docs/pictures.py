"""Draw the pictures of README.md and of the guides again: `python docs/pictures.py`.

Each is the figure of a gallery example, which runs as it is, but for the one of the race, which is drawn
from the table of performance.md, and the one of the report, a screenshot.
"""

import re
import runpy
from pathlib import Path

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt

HERE = Path(__file__).resolve().parent
PICTURES = {
    "robust-digits.png": "plot_robust_digits.py",
    "robust-kernel.png": "plot_kernel_rings.py",
}
TARGETS = {"1e-02": "o", "1e-04": "s", "1e-08": "^"}
COLOURS = {"float32": "#0072b2", "float64": "#d55e00"}


def race():
    """Draw how many times faster than the fastest peer each cell of the table is."""
    line = re.compile(
        r"^\| (?P<case>[^|]+?) \| (?P<dtype>float\d\d) \| (?P<target>1e-\d\d) \| [^|]+\| [^|]+\| [^|]+"
        r"\| (?P<ratio>[\d.]+)",
        re.MULTILINE,
    )
    cells = [m.groupdict() for m in line.finditer((HERE / "performance.md").read_text("utf-8"))]
    cases = list(dict.fromkeys(cell["case"] for cell in cells))
    figure, axes = plt.subplots(figsize=(7, 6.5), layout="constrained")
    for cell in cells:
        place = len(cases) - cases.index(cell["case"]) + 0.18 * (cell["dtype"] == "float32")
        axes.plot(
            float(cell["ratio"]),
            place,
            TARGETS[cell["target"]],
            color=COLOURS[cell["dtype"]],
            markersize=5,
            alpha=0.85,
        )
    axes.axvline(1, color="black", linewidth=1)
    axes.set_xscale("log", base=2)
    ticks = [0.5, 1, 2, 4, 8, 16]
    axes.set_xticks(ticks, [f"{t:g}" for t in ticks])
    axes.set_yticks(range(1, len(cases) + 1), cases[::-1])
    axes.set_xlabel("seconds of the fastest peer / seconds of PCA, at equal accuracy")
    for name, mark in TARGETS.items():
        axes.plot([], [], mark, color="grey", label=f"target {name}")
    for name, colour in COLOURS.items():
        axes.plot([], [], "o", color=colour, label=name)
    axes.legend(ncols=5, loc="lower center", bbox_to_anchor=(0.36, 1.0), frameon=False, fontsize=9)
    axes.grid(alpha=0.3)
    figure.savefig(HERE / "race.png", dpi=100)
    plt.close(figure)


def main():
    for picture, example in PICTURES.items():
        runpy.run_path(str(HERE.parent / "examples" / example))
        plt.gcf().savefig(HERE / picture, dpi=110)
        plt.close("all")
    race()


if __name__ == "__main__":
    main()
