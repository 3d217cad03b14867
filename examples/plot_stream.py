"""
A stream: a fault, a drift and a new regime
===========================================

Eight sensors over time. ``RobustPCA.partial_fit`` flags a burst of bad rows, follows a slow rotation, and
announces a jump as a new regime.
"""

import matplotlib.pyplot as plt
import numpy as np

from dualpca import RobustPCA

rng = np.random.default_rng(0)
before, later, jumped = (np.linalg.qr(rng.standard_normal((8, 2)))[0].T for _ in range(3))


def sensors(row):
    """Return what the sensors say at a row: two causes, and noise."""
    turned = np.deg2rad(np.clip((row - 1500) / 2500, 0, 1) * 20)
    axes = np.cos(turned) * before + np.sin(turned) * later if row < 5000 else jumped
    return 5 * rng.standard_normal(2) @ axes + 0.5 * rng.standard_normal(8)


X = np.array([sensors(row) for row in range(6000)])
X[800:840] += 5 * rng.standard_normal((40, 8))  # a fault

# %%
# The model forgets with a half-life of 400 rows. A batch is flagged by the model of the rows before it.

batch, times, angles, flags, regimes = 50, [], [], [], []
model = RobustPCA(2, forget=400, random_state=0)
for start in range(0, len(X), batch):
    model.partial_fit(X[start : start + batch])
    drift = model.drift_
    times.append(start + batch)
    angles.append(drift.angles[0])
    flags.append(model.outliers_.mean())
    if drift.changed:
        regimes.append(start + batch)
        model.checkpoint()  # angles count from here on

# %%
# Shares of flagged rows, and the largest angle to the components at the last checkpoint.

fig, (top, bottom) = plt.subplots(2, sharex=True, figsize=(9, 5), layout="constrained")
top.fill_between(times, flags, step="pre")
top.set_ylabel("share of flagged rows")
bottom.plot(times, angles)
bottom.set_ylabel("degrees since checkpoint")
bottom.set_xlabel("row")
for ax in (top, bottom):
    for at in regimes:
        ax.axvline(at, color="C3", linestyle="--")
top.text(900, 0.75, "fault")
bottom.text(2700, 14, "drift")
if regimes:
    bottom.text(regimes[-1] + 60, 60, "new regime", color="C3")
plt.show()

# %%
# The fault, rows 800 to 839, is most of one batch. Of the other rows before the jump few are flagged.

shares = np.array(flags)
quiet = np.delete(shares[:100], 800 // batch)
print(
    f"flagged: {shares[800 // batch]:.0%} of the batch with the fault, {quiet.mean():.1%} of others"
)
print(f"new regimes announced at rows {regimes}; the jump was at row 5000")
