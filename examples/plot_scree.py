"""
Scree: how many components
==========================

The display shows the share of each component in the variance. Plain PCA spends components on the variance
of bad rows, and a robust model does not.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits

from dualpca import RobustPCA
from dualpca.plots import ScreeDisplay

rng = np.random.default_rng(0)
X = load_digits().data
bad = rng.choice(len(X), 180, replace=False)
X[bad] = 60 * rng.standard_normal((180, 1)) * rng.random((1, 64)) + X[bad]

# %%
# ``scree`` gives the robust variances along all axes, to choose ``n_components`` before a fit.

fig, ax = plt.subplots(layout="constrained")
ScreeDisplay.from_variances(RobustPCA(random_state=0).scree(X), ax=ax)
plt.show()

# %%
# A robust model is drawn with plain PCA of the same rows beside it. The bad rows lie along one direction,
# which is nearly all that plain PCA sees.

model = RobustPCA(8, random_state=0).fit(X)
fig, ax = plt.subplots(layout="constrained")
ScreeDisplay.from_estimator(model, X, ax=ax)
plt.show()
