"""
PCALayer: an autoencoder whose code is a leading subspace
=========================================================

An encoder maps digits to 32 numbers, PCALayer projects them on the leading subspace of the batch, and
a decoder maps them back. The gradient goes through the subspace. Beside it is PCA of the pixels with as
many components: the same projection, without an encoder.
"""

import matplotlib.pyplot as plt
import torch
from sklearn.datasets import load_digits

from dualpca import PCA
from dualpca.torch import PCALayer

torch.manual_seed(0)
X = torch.tensor(load_digits().data / 16, dtype=torch.float32)
train, test = X[:1500], X[1500:]
n_components = 4

network = torch.nn.Sequential(
    torch.nn.Linear(64, 128),
    torch.nn.ReLU(),
    torch.nn.Linear(128, 32),
    PCALayer(n_components),
    torch.nn.Linear(32, 128),
    torch.nn.ReLU(),
    torch.nn.Linear(128, 64),
)
optimizer = torch.optim.Adam(network.parameters(), lr=3e-3)
history = []
for _ in range(40):
    network.train()
    for batch in train[torch.randperm(len(train))].split(250):
        optimizer.zero_grad()
        loss = (network(batch) - batch).square().mean()
        loss.backward()
        optimizer.step()
    network.eval()  # the running subspace serves new rows
    with torch.no_grad():
        history.append(float((network(test) - test).square().mean()))

pca = PCA(n_components).fit(train.numpy())
linear = torch.tensor(pca.inverse_transform(pca.transform(test.numpy())))
error = float((linear - test).square().mean())

fig = plt.figure(figsize=(10, 4), layout="constrained")
curve, pictures = fig.subfigures(1, 2)
ax = curve.subplots()
ax.plot(range(1, len(history) + 1), history, label="autoencoder with PCALayer")
ax.axhline(error, color="gray", label="PCA of the pixels")
ax.set(xlabel="epoch", ylabel="mean squared error of new digits", ylim=(0, None))
ax.legend()
with torch.no_grad():
    rows = {"digit": test[:6], "PCALayer": network(test[:6]), "PCA": linear[:6]}
axes = pictures.subplots(3, 6)
for line, (name, images) in zip(axes, rows.items(), strict=True):
    for place, image in zip(line, images, strict=True):
        place.imshow(image.reshape(8, 8), cmap="gray_r", vmin=0, vmax=1)
        place.set(xticks=[], yticks=[])
    line[0].set_ylabel(name)
plt.show()
