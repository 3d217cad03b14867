"""
Convergence: what accuracy costs
================================

The display draws the residual by passes over the data. Every solver stops by the same residual, so one
picture can compare fits.
"""

import matplotlib.pyplot as plt
from sklearn.datasets import load_digits

from dualpca import PCA, RobustPCA
from dualpca.plots import ConvergenceDisplay

X = load_digits(n_class=4).data

# %%
# Three solvers solve the same problem.

fig, ax = plt.subplots(layout="constrained")
for solver in ("krylov", "zerofpr", "dca"):
    model = PCA(10, solver=solver, tol=1e-6, max_iter=2000, random_state=0).fit(X)
    ConvergenceDisplay.from_estimator(model, name=solver, ax=ax)
plt.show()

# %%
# Robust fits take DCA, or DCA with Anderson acceleration. They fit subspace and centre in turns, so the
# residual rises each time that the centre has moved.

fig, ax = plt.subplots(layout="constrained")
for solver in ("dca", "anderson"):
    model = RobustPCA(10, solver=solver, tol=1e-5, random_state=0).fit(X)
    ConvergenceDisplay.from_estimator(model, name=solver, ax=ax)
plt.show()
