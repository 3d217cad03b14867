"""
Outlier map: which rows are bad, and how
========================================

The map places each row by its distance within the subspace and its distance from it. Rows above the
solid line are flagged.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_wine
from sklearn.pipeline import make_pipeline

from dualpca import Preprocessor, RobustPCA
from dualpca.plots import OutlierMapDisplay

X = load_wine().data

# %%
# The map shows the training rows, and the numbers of the five farthest flagged ones.

model = make_pipeline(Preprocessor(scaling="robust"), RobustPCA(3, random_state=0)).fit(X)
fig, ax = plt.subplots(layout="constrained")
OutlierMapDisplay.from_estimator(model, annotate=5, ax=ax)
plt.show()

# %%
# New rows can be drawn too. One of these has a typing error: a decimal point is missing.

new = X[:20].copy()
new[7, 0] *= 10
fig, ax = plt.subplots(layout="constrained")
names = np.array([f"bottle {i}" for i in range(20)])
OutlierMapDisplay.from_estimator(model, new, row_names=names, annotate=1, ax=ax)
ax.set_yscale("log")
plt.show()
