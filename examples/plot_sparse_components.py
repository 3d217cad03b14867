"""
Components of few variables
===========================

A principal component mixes every variable. ``SparsePCA`` finds components of a few variables, and says
how much of the variance that costs.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_breast_cancer
from sklearn.preprocessing import StandardScaler

from dualpca import PCA, SparsePCA

data = load_breast_cancer()
X = StandardScaler().fit_transform(data.data)
S = 3
models = {
    "PCA": PCA(S).fit(X),
    "SparsePCA, 8 a component": SparsePCA(S, n_nonzero=8, random_state=0).fit(X),
    "SparsePCA, 8, 4 and 2": SparsePCA(S, n_nonzero=(8, 4, 2), random_state=0).fit(X),
}

# %%
# Sparse components are correlated, so their variances do not add up. The share below is that of the
# projection on their span; PCA's is the largest possible.

for name, model in models.items():
    W, _ = np.linalg.qr(model.components_.T)
    share = np.sum((X @ W) ** 2) / np.sum(X**2)
    counts = np.count_nonzero(model.components_, axis=1).tolist()
    print(f"{name:<26}{share:>7.1%} of the variance, {counts} nonzeros")

# %%
# The picture shows the loadings; blank is zero.

fig, axes = plt.subplots(1, 3, figsize=(9, 7), layout="constrained", sharey=True)
for ax, (name, model) in zip(axes, models.items(), strict=True):
    loadings = np.ma.masked_equal(model.components_.T, 0)
    image = ax.imshow(loadings, cmap="RdBu_r", vmin=-0.7, vmax=0.7, aspect="auto")
    ax.set_title(name, fontsize=10)
    ax.set_xticks(range(S), [f"{i + 1}" for i in range(S)])
    ax.set_xlabel("component")
axes[0].set_yticks(range(X.shape[1]), data.feature_names, fontsize=7)
fig.colorbar(image, ax=axes, label="loading", shrink=0.5)
plt.show()
