"""
Convergence: what accuracy costs
================================

The residual by passes over the data. Every solver stops by the same residual, so that fits can be
compared on one picture.
"""

import matplotlib.pyplot as plt
from sklearn.datasets import load_digits

from dualpca import PCA, RobustPCA
from dualpca.plots import ConvergenceDisplay

X = load_digits(n_class=4).data

# %%
# Three solvers of the same problem.

fig, ax = plt.subplots(layout="constrained")
for solver in ("krylov", "zerofpr", "dca"):
    model = PCA(10, solver=solver, tol=1e-6, max_iter=2000, random_state=0).fit(X)
    ConvergenceDisplay.from_estimator(model, name=solver, ax=ax)
plt.show()

# %%
# Robust fits by DCA, and by DCA with Anderson acceleration. Subspace and centre are fitted in turns: the
# residual rises each time that the centre has moved.

fig, ax = plt.subplots(layout="constrained")
for solver in ("dca", "anderson"):
    model = RobustPCA(10, solver=solver, tol=1e-5, random_state=0).fit(X)
    ConvergenceDisplay.from_estimator(model, name=solver, ax=ax)
plt.show()
