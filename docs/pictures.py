"""Draw the pictures of README.md and of the guides again: `python docs/pictures.py`.

Each is the figure of a gallery example, which runs as it is.
"""

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


def main():
    for picture, example in PICTURES.items():
        runpy.run_path(str(HERE.parent / "examples" / example))
        plt.gcf().savefig(HERE / picture, dpi=110)
        plt.close("all")


if __name__ == "__main__":
    main()
