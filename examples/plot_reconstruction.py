"""
Reconstructions: what a model keeps of images
=============================================

Rows as images, what the components make of them, and what is left.
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
# Plain PCA and robust PCA of digits, one row in six of which is ruined.

robust, plain = RobustPCA(10, random_state=0).fit(X), PCA(10).fit(X)
good = np.flatnonzero(~robust.outliers_)
fig, ax = plt.subplots(figsize=(8, 5.5), layout="compressed")
ReconstructionDisplay.from_estimator(
    robust, X, image_shape=(8, 8), rows=good[:8], beside=plain, ax=ax
)
plt.show()

# %%
# Rows that are flagged lose most of what they are.

fig, ax = plt.subplots(figsize=(8, 3.5), layout="compressed")
ReconstructionDisplay.from_estimator(robust, X, image_shape=(8, 8), rows=bad[:8], ax=ax)
plt.show()
