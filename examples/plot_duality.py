r"""
A problem and its dual
======================

Formulation (n) of the paper is a difference of convex functions; its Toland dual (o) is another one. DCA
lowers both objectives at once, and at the end the gap is zero.

.. math::

   \min_{\|W\|_{S_\infty} \le 1} -\|X W\|_{S_2}
   \qquad\text{and}\qquad
   \min_{\|H\|_{S_2} \le 1} -\|X^\top H\|_{S_1}
"""

import matplotlib.pyplot as plt
import numpy as np

from dualpca import FORMULATIONS, as_operator, solve
from dualpca.formulations import optimal_value
from dualpca.solvers import DCA

rng = np.random.default_rng(0)
A = rng.standard_normal((300, 80)) * 0.97 ** np.arange(80)
X, S = as_operator(A), 5
problem = FORMULATIONS["n"](X)
dual = problem.dual
print(problem.G, problem.F, sep="\n")
print(dual.G, dual.F, sep="\n")

# %%
# The optimal value is known in closed form: minus the root of the sum of the leading squared singular
# values. A primal solution gives a dual one, :math:`H \in \partial F(X W)`, and the other way round.

optimum = optimal_value("n", np.linalg.svd(A, compute_uv=False), S)
W = solve(problem, "dca", s=S, tol=1e-10, max_iter=5000, random_state=0).W
H = problem.to_dual(W)
print(f"optimum  {optimum:.12f}")
print(f"primal   {problem.objective(W):.12f}")
print(f"dual     {dual.objective(H):.12f}")
print(f"and back {problem.objective(problem.to_primal(H)):.12f}")

# %%
# Along the way the dual objective at :math:`H_k \in \partial F(X W_k)` lies between the primal ones at
# :math:`W_k` and :math:`W_{k+1}`.

primal_gap, dual_gap = [], []
iterates = DCA()(problem, problem.start(S, random_state=0))
for _, iterate in zip(range(200), iterates, strict=False):
    W = iterate.point.W
    primal_gap.append(problem.objective(W) - optimum)
    dual_gap.append(dual.objective(problem.to_dual(W)) - optimum)

fig, ax = plt.subplots(figsize=(6, 4), layout="constrained")
ax.semilogy(primal_gap, label="primal (n)")
ax.semilogy(dual_gap, "--", label="dual (o)")
ax.set_xlabel("iteration")
ax.set_ylabel("objective above the optimum")
ax.legend()
plt.show()
