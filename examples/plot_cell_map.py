"""
Cell map: a typo in a good row
==============================

Single wrong cells and holes do not make a row bad: with ``cells=True`` a robust fit keeps the others.
The map shows how far each cell is from what the others of its row make likely.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_wine
from sklearn.pipeline import make_pipeline

from dualpca import Preprocessor, RobustPCA
from dualpca.plots import CellMapDisplay

X = load_wine(as_frame=True).data
X.iloc[40, 5] *= 10  # a decimal point is missing
X.iloc[40, 8:10] = np.nan
X.iloc[7] = X.iloc[7].to_numpy()[::-1]  # a row in the wrong order

# %%
# The row in the wrong order and the typo come first; missing cells are grey.

model = make_pipeline(
    Preprocessor("robust", missing="keep"), RobustPCA(3, cells=True, random_state=0)
).fit(X)
fig, ax = plt.subplots(figsize=(7, 6), layout="constrained")
CellMapDisplay.from_estimator(model, X, ax=ax)
plt.show()
