"""
How many components, by four methods
====================================

Each method says how many components it would take, and shows what it decided by.
"""

import matplotlib.pyplot as plt
import numpy as np

import dualpca
from dualpca.plots import SelectionDisplay

rng = np.random.default_rng(0)
X = rng.standard_normal((200, 4)) @ rng.standard_normal((4, 30)) + 2 * rng.standard_normal(
    (200, 30)
)

# %%
# Parallel analysis and Gavish and Donoho compare variances with a threshold; the profile likelihood and
# generalised cross-validation take the best number.

fig, axes = plt.subplots(2, 2, figsize=(9, 7), layout="constrained")
for method, ax in zip(("parallel", "gavish-donoho", "profile", "gcv"), axes.flat, strict=True):
    SelectionDisplay.from_selection(dualpca.n_components(X, method, random_state=0), ax=ax)
plt.show()

# %%
# Estimators take the same names, and keep what the number was chosen by.

model = dualpca.PCA("parallel", random_state=0).fit(X)
print(model.n_components_)
SelectionDisplay.from_estimator(model)
plt.show()
