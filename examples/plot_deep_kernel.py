"""
Levels of kernel PCA, fitted together
=====================================

Two levels of kernel PCA on handwritten digits, with three weights of the second level. The pictures have
the scores of the second level; the titles have the variance that each level holds of its own kernel. A
stronger coupling takes variance from the first level, whose kernel is that of the data, and gives it to
the second one.
"""

import matplotlib.pyplot as plt
from sklearn.datasets import load_digits

from dualpca import DeepKernelPCA, KernelPCA

X, y = load_digits(n_class=5, return_X_y=True)
X, y = X[:300], y[:300]
levels = [KernelPCA(10, kernel="rbf", gamma="median"), KernelPCA(2, kernel="rbf", gamma="median")]

fig, axes = plt.subplots(1, 3, figsize=(11, 4), layout="constrained")
for ax, coupling in zip(axes, (0.0, 0.1, 1.0), strict=True):
    model = DeepKernelPCA(levels, coupling=coupling, random_state=0)
    scores = model.fit_transform(X)
    first, last = (ratios.sum() for ratios in model.level_variance_ratios_)
    points = ax.scatter(*scores.T, c=y, s=12, cmap="tab10", vmax=9)
    ax.set_title(f"coupling {coupling:g}: {first:.0%} and {last:.0%}", fontsize=10)
    print(
        f"coupling {coupling:g}: residual {model.residual_:.0e} after {model.n_iter_} evaluations"
    )
axes[0].legend(*points.legend_elements(), title="digit", fontsize=8)
plt.show()
