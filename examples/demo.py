"""PCA of the handwritten digits beside scikit-learn, by one float64 yardstick; and with bad rows."""

from pathlib import Path

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt
import numpy as np
from sklearn import decomposition
from sklearn.datasets import load_digits

import dualpca

ROOT = Path(__file__).resolve().parents[1]
FIGURE = ROOT / "results" / "demo.png"
S = 10

METHODS = {
    "dualpca auto": dualpca.PCA(S, tol=1e-6, random_state=0),
    "dualpca (n), dca": dualpca.PCA(S, formulation="n", solver="dca", tol=1e-6, random_state=0),
    "sklearn full": decomposition.PCA(S, svd_solver="full"),
    "sklearn arpack": decomposition.PCA(S, svd_solver="arpack", random_state=0),
    "sklearn randomized": decomposition.PCA(S, svd_solver="randomized", random_state=0),
}


def measure(X, components):
    """Captured share of the variance and relative residual ||CW - W(W'CW)|| / ||CW||."""
    W, _ = np.linalg.qr(np.asarray(components, dtype=np.float64).T)
    XW = X @ W
    CW = X.T @ XW
    captured = np.sum(XW**2) / np.sum(X**2)
    residual = np.linalg.norm(CW - W @ (W.T @ CW)) / np.linalg.norm(CW)
    return captured, residual


def compare(data):
    """Fit every method and print the table."""
    X = data - data.mean(axis=0)
    sigma = np.linalg.svd(X, compute_uv=False)  # LAPACK
    optimum = np.sum(sigma[:S] ** 2) / np.sum(X**2)
    print(f"digits: {X.shape[0]} rows, {X.shape[1]} columns; {S} components")
    print(f"optimum by LAPACK: {optimum:.12f} of the variance\n")
    print(f"{'method':<20}{'captured':>16}{'shortfall':>12}{'residual':>12}{'passes':>8}")
    for name, model in METHODS.items():
        model.fit(data)
        captured, residual = measure(X, model.components_)
        passes = getattr(model, "n_passes_", "-")
        shortfall = 1 - captured / optimum
        print(f"{name:<20}{captured:>16.12f}{shortfall:>12.1e}{residual:>12.1e}{passes:>8}")
    print("\nshortfall: relative to the optimum; magnitudes near 1e-16 are rounding.")


def draw(model, data, digit):
    """Scatter of the first two components, coloured by digit."""
    scores = model.transform(data)
    fig, ax = plt.subplots(figsize=(7, 5.5), layout="constrained")
    for d in range(10):
        ax.scatter(*scores[digit == d, :2].T, s=10, color=f"C{d}", label=str(d))
    for axis, i in ((ax.xaxis, 0), (ax.yaxis, 1)):
        share = float(model.explained_variance_ratio_[i])
        axis.set_label_text(f"component {i + 1} ({share:.1%} of the variance)")
    ax.set_title("Digits, first two principal components")
    ax.legend(title="digit", loc="center left", bbox_to_anchor=(1, 0.5))
    FIGURE.parent.mkdir(exist_ok=True)
    fig.savefig(FIGURE, dpi=150)
    plt.close(fig)


def with_bad_rows(data):
    """One row in seven ruined in the training half; errors on the other half, which is clean."""
    rng = np.random.default_rng(0)
    data = rng.permutation(data / 16)
    train, test = data[: len(data) // 2].copy(), data[len(data) // 2 :]
    bad = rng.random(len(train)) < 0.15
    clean = train[~bad]
    train[bad] += 15 * rng.standard_normal((int(bad.sum()), data.shape[1]))
    robust = dualpca.RobustPCA(S, random_state=0)
    print(f"\nbad rows: {bad.sum()} of {len(train)} with noise of 15 times the pixels' range")
    print(f"{'method':<20}{'error on clean rows':>22}")
    for name, model, rows in (
        ("PCA, clean rows", dualpca.PCA(S), clean),
        ("PCA", dualpca.PCA(S), train),
        ("RobustPCA", robust, train),
    ):
        model.fit(rows)
        error = np.mean((test - model.inverse_transform(model.transform(test))) ** 2)
        print(f"{name:<20}{error:>22.4f}")
    found, wrong = robust.outliers_[bad].sum(), robust.outliers_[~bad].sum()
    print(f"flagged: {found} of {bad.sum()} bad rows, {wrong} of {(~bad).sum()} good ones")


def main():
    data, digit = load_digits(return_X_y=True)
    compare(data)
    with_bad_rows(data)
    draw(METHODS["dualpca auto"], data, digit)
    print(f"figure: {FIGURE.relative_to(ROOT)}")


if __name__ == "__main__":
    main()
