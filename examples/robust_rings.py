"""A ring with bad rows: the distance from the subspace of kernel PCA, and of robust kernel PCA."""

from pathlib import Path

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt
import numpy as np

from dualpca import KernelPCA, RobustKernelPCA

FIGURE = Path(__file__).resolve().parents[1] / "docs" / "robust-kernel.png"
GAMMA, S = 1.0, 6


def rows(seed=0):
    """400 rows of which 50 are bad: 30 in a blob inside the ring, 20 anywhere but near it."""
    rng = np.random.default_rng(seed)
    angle = rng.uniform(0, 2 * np.pi, 400)
    X = 2 * np.c_[np.cos(angle), np.sin(angle)] + 0.1 * rng.standard_normal((400, 2))
    X[:30] = 0.2 * rng.standard_normal((30, 2))
    X[30:50] = rng.uniform(-3.5, 3.5, (20, 2))
    return X, np.abs(np.hypot(*X.T) - 2) > 0.35


def distance(model, X):
    """The orthogonal distance in feature space of plain kernel PCA, where k(x, x) = 1."""
    train = model.X_fit_
    cross = np.exp(-GAMMA * ((X[:, None] - train) ** 2).sum(axis=2)).mean(axis=1)
    inner = np.exp(-GAMMA * ((train[:, None] - train) ** 2).sum(axis=2)).mean()
    size2 = 1 - 2 * cross + inner
    return np.sqrt(np.clip(size2 - (model.transform(X) ** 2).sum(axis=1), 0, None))


def main():
    X, bad = rows()
    plain = KernelPCA(S, kernel="rbf", gamma=GAMMA).fit(X)
    robust = RobustKernelPCA(S, kernel="rbf", gamma=GAMMA, random_state=0).fit(X)
    far = distance(plain, X)
    count = int(robust.outliers_.sum())
    flags = {
        "kernel PCA": far >= np.sort(far)[-count],  # as many rows as the robust one flags
        "robust kernel PCA": robust.outliers_,
    }
    grid = np.stack(np.meshgrid(*2 * [np.linspace(-3.6, 3.6, 120)]), axis=-1).reshape(-1, 2)
    fields = {"kernel PCA": distance(plain, grid), "robust kernel PCA": robust.distances(grid)[1]}
    fig, axes = plt.subplots(1, 2, figsize=(9, 4.4), layout="constrained", sharey=True)
    for ax, (name, flagged) in zip(axes, flags.items(), strict=True):
        ax.contourf(*grid.T.reshape(2, 120, 120), fields[name].reshape(120, 120), 12, cmap="Greys")
        ax.scatter(*X[~flagged].T, s=9, color="C0", label="not flagged")
        ax.scatter(*X[flagged].T, s=14, color="C3", marker="^", label="flagged")
        found, wrong = int((flagged & bad).sum()), int((flagged & ~bad).sum())
        ax.set_title(f"{name}: {found} of {bad.sum()} bad rows, {wrong} others", fontsize=10)
        ax.set_aspect("equal")
        print(f"{name}: {found} of {bad.sum()} bad rows flagged, {wrong} of {(~bad).sum()} others")
    axes[0].legend(loc="lower left", fontsize=8)
    fig.savefig(FIGURE, dpi=110)
    plt.close(fig)


if __name__ == "__main__":
    main()
