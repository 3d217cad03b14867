"""
A file instead of an array
==========================

A memory map is read block by block, and so are zarr, HDF5, Parquet and Arrow files. The components are
those of the array in memory; the cost is counted in readings of the file.
"""

from pathlib import Path
from tempfile import TemporaryDirectory

import matplotlib.pyplot as plt
import numpy as np

from dualpca import PCA, as_operator

N, D, S = 40_000, 200, 5
rng = np.random.default_rng(0)
axes = np.linalg.qr(rng.standard_normal((D, S)))[0]
folder = TemporaryDirectory()
path = Path(folder.name) / "rows.npy"
file = np.lib.format.open_memmap(path, mode="w+", dtype=np.float32, shape=(N, D))
for start in range(0, N, 10_000):  # nothing of the size of the file is in memory here either
    scores = rng.standard_normal((10_000, S)) * np.arange(S, 0, -1)
    file[start : start + 10_000] = scores @ axes.T + 0.5 * rng.standard_normal((10_000, D))
file.flush()
del file
print(f"{path.stat().st_size / 2**20:.0f} MiB on disk")

# %%
# ``PCA(S).fit(np.load(path, mmap_mode="r"))`` is enough: blocks have 32 MiB unless ``block_bytes`` says
# otherwise. ``auto`` prefers a Gram matrix for files of so few columns, which takes one reading; Krylov
# takes a reading a step.

X = as_operator(np.load(path, mmap_mode="r"), block_bytes=2**22)
whole = PCA(S).fit(np.load(path))
models = {solver: PCA(S, solver=solver, random_state=0).fit(X) for solver in ("auto", "krylov")}
for solver, model in models.items():
    cosines = np.linalg.svd(model.components_ @ whole.components_.T, compute_uv=False)
    print(
        f"{solver:<7} {model.n_passes_:>2} passes, residual {model.residual_:.0e}, "
        f"least cosine to the subspace in memory {cosines.min():.6f}; {model.solver_}"
    )

# %%
# Scores are computed block by block as well, into an array of N times 5.

scores = models["auto"].transform(X)
fig, ax = plt.subplots(figsize=(6, 4), layout="constrained")
ax.bar(np.arange(1, S + 1), scores.var(axis=0), color="C0", label="variance of the scores")
ax.plot(np.arange(1, S + 1), np.arange(S, 0, -1) ** 2 + 0.25, "k_", ms=30, label="as drawn")
ax.set_xlabel("component")
ax.legend()
plt.show()
folder.cleanup()
