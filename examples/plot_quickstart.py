"""
Quick start
===========

PCA computes components of the handwritten digits at the accuracy that was asked for. The model says how
close it is to the optimum, and what that cost.
"""

import matplotlib.pyplot as plt
from sklearn.datasets import load_digits

from dualpca import PCA

X, digit = load_digits(return_X_y=True)
pca = PCA(n_components=10, random_state=0)
scores = pca.fit_transform(X)
print(f"{pca.explained_variance_ratio_.sum():.1%} of the variance, by {pca.solver_}")

# %%
# ``residual_`` is the relative residual that was reached, and ``variance_shortfall_`` an upper bound on
# the share of the best captured variance that is missing. The full SVD tells what is missing in truth.

full = PCA(n_components=10, solver="lapack").fit(X)
captured = pca.explained_variance_.sum() / full.explained_variance_.sum()
print(
    f"residual {pca.residual_:.1e}, asked for {pca.tol:.0e}; {pca.n_passes_} passes over the data"
)
print(f"missing: at most {pca.variance_shortfall_:.1e}, in truth {max(0, 1 - captured):.1e}")

# %%
# The picture shows the first two scores, coloured by digit.

fig, ax = plt.subplots(figsize=(7, 5), layout="constrained")
for d in range(10):
    ax.scatter(*scores[digit == d, :2].T, s=10, color=f"C{d}", label=str(d))
ax.set_xlabel("component 1")
ax.set_ylabel("component 2")
ax.legend(title="digit", loc="center left", bbox_to_anchor=(1, 0.5))
plt.show()
