"""
Weights: what each row counts in a robust fit
=============================================

The display shows the weight of each training row in the loss; the largest is 1. Rows far from the
subspace count little. The l1 loss of the paper weighs a row by one over its distance, so a few
rows next to the subspace count most.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_iris

from dualpca import RobustPCA
from dualpca.plots import WeightsDisplay

rng = np.random.default_rng(0)
X = load_iris().data
X[:15] += 3 * rng.standard_normal((15, 4))

fig, axes = plt.subplots(1, 2, figsize=(10, 4), layout="constrained", sharey=True)
for ax, loss in zip(axes, ("geman_mcclure", "l1"), strict=True):
    WeightsDisplay.from_estimator(RobustPCA(2, loss=loss, random_state=0).fit(X), ax=ax)
    ax.set_title(f'loss="{loss}"')
plt.show()
