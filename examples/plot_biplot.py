"""
Biplot: rows and features
=========================

A biplot shows scores, with the loadings of the features as arrows. An arrow points where a feature grows.
"""

import matplotlib.pyplot as plt
from sklearn.datasets import load_wine
from sklearn.pipeline import make_pipeline

from dualpca import PCA, Preprocessor, SparsePCA
from dualpca.plots import BiplotDisplay

wine = load_wine(as_frame=True)
X, cultivar = wine.data, wine.target_names[wine.target]

# %%
# The columns have different units, so they are brought to one scale first.

model = make_pipeline(Preprocessor(scaling="standard"), PCA(2)).fit(X)
fig, ax = plt.subplots(figsize=(8, 6), layout="constrained")
BiplotDisplay.from_estimator(model, X, labels=cultivar, ax=ax)
plt.show()

# %%
# Sparse components have few features each. If they share none, the arrows lie along the axes.

model = make_pipeline(Preprocessor(scaling="standard"), SparsePCA(2, n_nonzero=4, random_state=0))
fig, ax = plt.subplots(figsize=(8, 6), layout="constrained")
BiplotDisplay.from_estimator(model.fit(X), X, labels=cultivar, ax=ax)
plt.show()
