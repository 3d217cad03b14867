"""
Who sends and who receives
==========================

The nodes of a directed graph send edges as one of three groups and receive them as another one of three.
The adjacency matrix is a kernel that is not symmetric: its left singular vectors show the groups that
send, its right ones those that receive.
"""

import matplotlib.pyplot as plt
import numpy as np

from dualpca import KernelSVD

rng = np.random.default_rng(0)
sends, receives = rng.integers(3, size=(2, 600))
rates = np.array([[0.12, 0.03, 0.03], [0.03, 0.03, 0.12], [0.03, 0.12, 0.03]])
A = (rng.random((600, 600)) < rates[sends][:, receives]).astype(float)

model = KernelSVD(2, kernel="precomputed").fit(A)
left, right = model.transform(A), model.transform_right(A.T)

fig, axes = plt.subplots(1, 2, figsize=(8.5, 4.2), layout="constrained")
for ax, scores, groups, name in (
    (axes[0], left, sends, "left scores, by the group that sends"),
    (axes[1], right, receives, "right scores, by the group that receives"),
):
    ax.scatter(*scores.T, c=groups, s=10, cmap="tab10", vmax=9)
    ax.set_title(name, fontsize=10)
    ax.set_aspect("equal")
print("singular values", model.singular_values_.round(1), "residual", f"{model.residual_:.0e}")
plt.show()
