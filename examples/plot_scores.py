"""
Scores on two components
========================

The display shows rows on two components, coloured by classes or by a number. It marks the rows that a
robust model flags.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits

from dualpca import PCA, RobustPCA
from dualpca.plots import ScoresDisplay

X, y = load_digits(return_X_y=True)

# %%
# Each class has a colour and a shape. If there are more than ten classes, the rarest share one.

fig, ax = plt.subplots(figsize=(7.5, 5), layout="constrained")
ScoresDisplay.from_estimator(PCA(2).fit(X), X, labels=y, ax=ax)
plt.show()

# %%
# Many different numbers are drawn on a colour scale: here the ink of a digit.

fig, ax = plt.subplots(figsize=(7.5, 5), layout="constrained")
ScoresDisplay.from_estimator(PCA(2).fit(X), X, labels=X.mean(axis=1), equal_aspect=True, ax=ax)
plt.show()

# %%
# A robust model flags rows of noise. Two components alone do not show them: they are far from the
# subspace, not far out within it.

rng = np.random.default_rng(0)
X[:100] = rng.uniform(0, 16, (100, 64))
fig, ax = plt.subplots(figsize=(7.5, 5), layout="constrained")
ScoresDisplay.from_estimator(RobustPCA(10, random_state=0).fit(X), X, ax=ax)
plt.show()
