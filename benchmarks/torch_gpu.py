"""Derivatives of the leading subspace on a GPU: their accuracy, and backward beside forward.

``python -m benchmarks.torch_gpu`` compares gradients with those of the CPU in float64 and with the
formula from all eigenvectors, then times forward and backward at 20,000 x 4,096 with 50 components:
medians of rounds in which both are taken in turn, after a warm-up. ``--device cpu --scale 0.05`` tries
the code.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable
from typing import Any

import torch

from dualpca.losses import Cauchy
from dualpca.solvers.spectral.lanczos import Lanczos
from dualpca.torch import (
    GapError,
    pca_projector,
    principal_components,
    principal_subspace,
    robust_subspace,
)

Tensor = torch.Tensor


def spectra(s: int, d: int) -> dict[str, Tensor]:
    """Singular values by name."""
    i = torch.arange(1, d + 1, dtype=torch.float64)
    return {
        "1/i": 1 / i,
        "1/sqrt(i)": i**-0.5,
        f"{s} equal": torch.where(i <= s, 5.0, 2 - i / d),
        "low rank and noise": torch.where(i <= s, 3 - i / s, 0.1),
        "graded": 10.0 ** (-8 * (i - 1) / (d - 1)),
    }


def matrices(N: int, d: int, s: int, device: str) -> dict[str, Tensor]:
    """Matrices with these spectra and a Gaussian one, in float64."""
    draw = torch.Generator(device).manual_seed(0)

    def gaussian(n: int, k: int) -> Tensor:
        return torch.randn(n, k, generator=draw, device=device, dtype=torch.float64)

    U, V = (torch.linalg.qr(gaussian(n, d))[0] for n in (N, d))
    made = {name: (U * sigma.to(device)) @ V.T for name, sigma in spectra(s, d).items()}
    return {**made, "gaussian": gaussian(N, d)}


def target(d: int, like: Tensor) -> Tensor:
    """A fixed matrix T of 64 columns; the loss is ``<V V^T T, T'>`` with the columns of T shifted."""
    draw = torch.Generator().manual_seed(1)
    return torch.randn(d, 64, generator=draw, dtype=torch.float64).to(like)


def loss_of(V: Tensor, T: Tensor) -> Tensor:
    """A loss of the subspace."""
    return ((V @ (V.mT @ T)) * T.roll(1, 1)).sum()


def exact(X: Tensor, s: int, T: Tensor) -> Tensor:
    """The gradient of that loss from all eigenvectors of ``X^T X`` in float64."""
    X, T = X.double(), T.double()
    values, W = torch.linalg.eigh(X.T @ X)
    values, W = values.flip(0), W.flip(1)
    G = T @ T.roll(1, 1).T
    inside, outside = W[:, :s], W[:, s:]
    quotient = values[None, :s] - values[s:, None]
    Y = outside @ ((outside.T @ ((G + G.T) @ inside)) / quotient)
    return (X @ inside) @ Y.T + (X @ Y) @ inside.T


def synchronize(device: str) -> None:
    """Wait until the device has finished."""
    if device != "cpu":
        torch.cuda.synchronize()


def seconds(f: Callable[[], Any], device: str) -> tuple[Any, float]:
    """What f returns, and the time until the device has finished."""
    synchronize(device)
    begun = time.perf_counter()
    result = f()
    synchronize(device)
    return result, time.perf_counter() - begun


def relative(A: Tensor, B: Tensor) -> float:
    """``||A - B|| / ||B||``."""
    return float((A.cpu().double() - B.cpu().double()).norm() / B.cpu().double().norm())


def check(device: str) -> None:
    """Gradients on the device beside those of the CPU, and gradcheck there."""
    N, d, s = 2000, 300, 20
    for name, X in matrices(N, d, s, "cpu").items():
        T, found = target(d, X), {}
        for place in ("cpu", device):
            A = X.to(place).requires_grad_()
            gradients = [
                torch.autograd.grad(loss_of(principal_subspace(A, s), T.to(place)), A)[0],
            ]
            if "equal" not in name:
                components = principal_components(A, 3).components
                gradients += torch.autograd.grad((components @ T.to(place)).square().sum(), A)
            if name == "low rank and noise":
                V = robust_subspace(A, s, Cauchy(scale=0.05))
                gradients += torch.autograd.grad(loss_of(V, T.to(place)), A)
            found[place] = gradients
        pairs = zip(found[device], found["cpu"], strict=True)
        errors = ", ".join(f"{relative(there, here):.1e}" for there, here in pairs)
        print(f"{name}: gradients on {device} and on the CPU differ by {errors}", flush=True)
    X = torch.randn(30, 12, dtype=torch.float64, device=device, requires_grad=True)
    passed = torch.autograd.gradcheck(lambda A: pca_projector(A, 4), X, fast_mode=True)
    print(f"gradcheck on {device}: {passed}", flush=True)


def measure(X: Tensor, s: int, rounds: int, device: str) -> tuple[float, float, Tensor, int]:
    """Medians of forward and backward, the gradient, and the steps of block Lanczos in backward."""
    T = target(X.shape[1], X)
    forward, backward, steps, expand = [], [], [0], Lanczos.expand

    def counted(self: Lanczos) -> None:
        steps[0] += 1
        expand(self)

    for k in range(rounds + 1):
        A = X.clone().requires_grad_()
        loss, first = seconds(
            lambda A=A, k=k: loss_of(principal_subspace(A, s, random_state=k), T), device
        )
        steps[0], Lanczos.expand = 0, counted  # type: ignore[method-assign]
        try:
            (gradient,), second = seconds(
                lambda loss=loss, A=A: torch.autograd.grad(loss, A), device
            )
        finally:
            Lanczos.expand = expand  # type: ignore[method-assign]
        if k:  # the first round warms up
            forward.append(first)
            backward.append(second)
    return statistics.median(forward), statistics.median(backward), gradient, steps[0]


def main() -> None:
    """All of it, or a small version to try the code."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--scale", type=float, default=1.0, help="shrink both sides by this factor")
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    device = options.device
    print(torch.cuda.get_device_name() if device != "cpu" else "CPU", torch.__version__, flush=True)
    check(device)
    N, d, s = int(20_000 * options.scale), int(4096 * options.scale), 50
    print("| data | precision | forward, ms | backward, ms | ratio | steps | error |")
    print("|---|---|---|---|---|---|---|")
    for name, X in matrices(N, d, s, device).items():
        centered = X - X.mean(0)
        reference = exact(centered, s, target(d, X))
        for dtype in (torch.float64, torch.float32):
            row = f"| {name} | {str(dtype)[6:]} | "
            try:
                forward, backward, gradient, steps = measure(X.to(dtype), s, options.rounds, device)
            except GapError:  # rounding of float32 hides the gap
                print(row + "refused | | | | |", flush=True)
                continue
            row += f"{1e3 * forward:.1f} | {1e3 * backward:.1f} | {backward / forward:.2f} | "
            print(f"{row}{steps} | {relative(gradient, reference):.1e} |", flush=True)


if __name__ == "__main__":
    main()
