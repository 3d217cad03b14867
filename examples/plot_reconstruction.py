"""
Reconstructions: what a model keeps of images
=============================================

The display shows rows as images, their reconstructions from the components, and the residuals.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits

from dualpca import PCA, RobustPCA
from dualpca.plots import ReconstructionDisplay

rng = np.random.default_rng(0)
X = load_digits().data
bad = rng.choice(np.arange(8, len(X)), 300, replace=False)
X[bad] += 30 * rng.standard_normal((300, 64))

# %%
# One row in six of these digits is ruined. Plain PCA and robust PCA rebuild good rows.

robust, plain = RobustPCA(10, random_state=0).fit(X), PCA(10).fit(X)
good = np.flatnonzero(~robust.outliers_)
fig, ax = plt.subplots(figsize=(8, 5.5), layout="compressed")
ReconstructionDisplay.from_estimator(
    robust, X, image_shape=(8, 8), rows=good[:8], beside=plain, ax=ax
)
plt.show()

# %%
# Flagged rows lose most of their content.

fig, ax = plt.subplots(figsize=(8, 3.5), layout="compressed")
ReconstructionDisplay.from_estimator(robust, X, image_shape=(8, 8), rows=bad[:8], ax=ax)
plt.show()
