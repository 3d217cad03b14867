"""
Control chart: when new rows leave a model
==========================================

Hotelling's T2 and the squared prediction error of new rows, over the limits of the fit. The limits do not
depend on the new rows.
"""

import matplotlib.pyplot as plt
import numpy as np

from dualpca import PCA
from dualpca.control import calibrate, out_of_control
from dualpca.plots import ControlChartDisplay

rng = np.random.default_rng(0)
process = rng.standard_normal((3, 8))


def measured(n):
    return rng.standard_normal((n, 3)) @ process + 0.2 * rng.standard_normal((n, 8))


# %%
# A model of good rows, and new ones in which the sixth sensor drifts from the 40th day on.

old, new = measured(500), measured(60)
new[40:, 5] += np.linspace(0, 4, 20)
model = calibrate(PCA(3).fit(old), old)
days = np.datetime64("2026-03-01") + np.arange(60)
fig, ax = plt.subplots(figsize=(9, 4.5), layout="constrained")
ControlChartDisplay.from_estimator(model, new, time=days, annotate=3, ax=ax)
plt.show()

# %%
# The rows that are out of control, and the variables that did it.

print(out_of_control(model, new)["words"].tail().to_string())
