"""
A ring with bad rows
====================

Of 400 rows, 350 lie on a ring, 30 in a blob inside it and 20 anywhere. The pictures show the distance
from the subspace of kernel PCA and of robust kernel PCA.
"""

import matplotlib.pyplot as plt
import numpy as np

from dualpca import KernelPCA, RobustKernelPCA

GAMMA, S = 1.0, 6

rng = np.random.default_rng(0)
angle = rng.uniform(0, 2 * np.pi, 400)
X = 2 * np.c_[np.cos(angle), np.sin(angle)] + 0.1 * rng.standard_normal((400, 2))
X[:30] = 0.2 * rng.standard_normal((30, 2))
X[30:50] = rng.uniform(-3.5, 3.5, (20, 2))
bad = np.abs(np.hypot(*X.T) - 2) > 0.35  # one of the 20 came to lie on the ring

plain = KernelPCA(S, kernel="rbf", gamma=GAMMA).fit(X)
robust = RobustKernelPCA(S, kernel="rbf", gamma=GAMMA, random_state=0).fit(X)


def distance(rows):
    """Return the distance in feature space from the subspace of plain kernel PCA, where k(x, x) = 1."""
    cross = np.exp(-GAMMA * ((rows[:, None] - X) ** 2).sum(axis=2)).mean(axis=1)
    inner = np.exp(-GAMMA * ((X[:, None] - X) ** 2).sum(axis=2)).mean()
    size2 = 1 - 2 * cross + inner
    return np.sqrt(np.clip(size2 - (plain.transform(rows) ** 2).sum(axis=1), 0, None))


# %%
# Plain kernel PCA flags nothing. For comparison its furthest rows are taken, as many as the robust model
# flags.

distances = distance(X)
count = int(robust.outliers_.sum())
flags = {
    "kernel PCA": distances >= np.sort(distances)[-count],
    "robust kernel PCA": robust.outliers_,
}
grid = np.stack(np.meshgrid(*2 * [np.linspace(-3.6, 3.6, 120)]), axis=-1).reshape(-1, 2)
fields = {"kernel PCA": distance(grid), "robust kernel PCA": robust.distances(grid)[1]}

fig, axes = plt.subplots(1, 2, figsize=(9, 4.4), layout="constrained", sharey=True)
for ax, (name, flagged) in zip(axes, flags.items(), strict=True):
    ax.contourf(*grid.T.reshape(2, 120, 120), fields[name].reshape(120, 120), 12, cmap="Greys")
    ax.scatter(*X[~flagged].T, s=9, color="C0", label="not flagged")
    ax.scatter(*X[flagged].T, s=14, color="C3", marker="^", label="flagged")
    hits, wrong = int((flagged & bad).sum()), int((flagged & ~bad).sum())
    ax.set_title(f"{name}: {hits} of {bad.sum()} bad rows, {wrong} others", fontsize=10)
    ax.set_aspect("equal")
    print(f"{name}: {hits} of {bad.sum()} bad rows flagged, {wrong} of {(~bad).sum()} others")
axes[0].legend(loc="lower left", fontsize=8)
plt.show()
