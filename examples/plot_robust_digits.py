"""
Bad rows among digits
=====================

Noise on one row in six ruins PCA. ``RobustPCA`` finds what PCA finds on the good rows alone, and says
which rows are bad.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits

from dualpca import PCA, RobustPCA

rng = np.random.default_rng(0)
data = rng.permutation(load_digits().data / 16)
train, test = data[:898].copy(), data[898:]
bad = rng.random(len(train)) < 0.15
clean = train[~bad]
train[bad] += 15 * rng.standard_normal((bad.sum(), 64))

# %%
# The errors are those of clean rows that no model has seen.

KINDS = {
    "PCA": (PCA, train),
    "RobustPCA": (RobustPCA, train),
    "PCA, told the good rows": (PCA, clean),
}
SIZES = [2, 5, 10, 15, 20, 30]
models = {
    name: [kind(k, random_state=0).fit(rows) for k in SIZES] for name, (kind, rows) in KINDS.items()
}


def rebuilt(model):
    """Return the test rows, rebuilt from their scores."""
    return model.inverse_transform(model.transform(test))


errors = {
    name: [np.mean((test - rebuilt(model)) ** 2) for model in fits] for name, fits in models.items()
}
for name, error in errors.items():
    print(f"{name:<24}" + "".join(f"{e:>9.4f}" for e in error))
robust = models["RobustPCA"][SIZES.index(10)]
hits, wrong = robust.outliers_[bad].sum(), robust.outliers_[~bad].sum()
print(f"flagged with 10 components: {hits} of {bad.sum()} bad rows, {wrong} of {(~bad).sum()} good")

# %%
# On the left are test digits and their reconstructions from 10 components, on the right the error by the
# number of components.

fig, (left, right) = plt.subplots(
    1, 2, figsize=(10, 3.6), width_ratios=[1.6, 1], layout="constrained"
)
rows = {"test digit": test}
rows |= {name: rebuilt(models[name][SIZES.index(10)]) for name in ("PCA", "RobustPCA")}
strips = [
    np.hstack([np.pad(image.reshape(8, 8), 1) for image in images[:8]]) for images in rows.values()
]
left.imshow(np.vstack(strips), cmap="Greys", vmin=0, vmax=1)
left.set_yticks([4.5, 14.5, 24.5], list(rows))
left.set_xticks([])
left.set_title(f"10 components, {bad.mean():.0%} of the training rows bad", fontsize=10)
for (name, error), style in zip(errors.items(), ("C3o-", "C0s-", "k:"), strict=True):
    right.plot(SIZES, error, style, label=name, ms=4)
right.set_xlabel("components")
right.set_title("mean squared error on clean rows", fontsize=10)
right.set_ylim(0, None)
right.legend(fontsize=8)
plt.show()
