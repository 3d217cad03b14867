"""On a GPU: ours beside torch.pca_lowrank, cupy's svds and Gram + eigh, at equal accuracy.

``python -m benchmarks.gpu`` prints a Markdown table; it needs torch with CUDA, and cupy for its rows.
Every method climbs a ladder of its own accuracy; the time of the first rung that meets the target
counts, the median of three runs.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable, Iterator
from typing import Any

import torch

from dualpca import PCA, RobustPCA, as_operator

Method = Callable[[Any, int, float], Any]


def decaying(N: int, d: int, seed: int = 0) -> torch.Tensor:
    """A float32 matrix with singular values that fall like 1/i."""
    generator = torch.Generator("cuda").manual_seed(seed)
    A = torch.randn(N, d, device="cuda", generator=generator)
    scale = 1 / torch.arange(1, d + 1, device="cuda")
    Q = torch.linalg.qr(torch.randn(d, d, device="cuda", generator=generator))[0]
    return (A * scale) @ Q


def gaussian(N: int, d: int, seed: int = 0) -> torch.Tensor:
    """Standard normal entries."""
    return torch.randn(N, d, device="cuda", generator=torch.Generator("cuda").manual_seed(seed))


def seconds(f: Callable[[], Any]) -> tuple[Any, float]:
    """What f returns, and the time until the device has finished."""
    torch.cuda.synchronize()
    begun = time.perf_counter()
    found = f()
    torch.cuda.synchronize()
    return found, time.perf_counter() - begun


def captured(A: torch.Tensor, W: torch.Tensor) -> float:
    """``||A W||^2`` with W made orthonormal, in float64, in row blocks."""
    Q = torch.linalg.qr(W.double())[0]
    return sum(float(((block.double() @ Q) ** 2).sum()) for block in A.split(8192))


def ours(A: torch.Tensor, s: int, tol: float) -> torch.Tensor:
    return PCA(s, center=False, tol=tol, random_state=0).fit(A).components_.T


def lowrank(A: torch.Tensor, s: int, steps: float) -> torch.Tensor:
    torch.manual_seed(0)
    return torch.pca_lowrank(A, q=s + 10, center=False, niter=int(steps))[2][:, :s]


def gram(A: torch.Tensor, s: int, _: float) -> torch.Tensor:
    C = torch.zeros(A.shape[1], A.shape[1], device="cuda", dtype=torch.float64)
    for block in A.split(8192):
        C += (block.T @ block).double()
    return torch.linalg.eigh(C)[1][:, -s:].float()


def svds(A: torch.Tensor, s: int, tol: float) -> torch.Tensor:
    import cupy
    from cupyx.scipy.sparse.linalg import svds as solve

    found = solve(cupy.asarray(A), k=s, tol=tol)[2]
    return torch.as_tensor(found.T, device="cuda")


LADDERS: dict[str, tuple[Method, tuple[float, ...]]] = {
    "ours": (ours, (0.3, 0.1, 3e-2, 1e-2, 3e-3, 1e-3, 3e-4, 1e-4, 1e-5)),
    "torch.pca_lowrank": (lowrank, (0, 1, 2, 4, 8, 16, 32, 64)),
    "Gram + eigh": (gram, (0.0,)),
    "cupy svds": (svds, (1e-1, 1e-2, 1e-3, 0.0)),
}


def climb(
    A: torch.Tensor, s: int, name: str, targets: list[float], best: float
) -> Iterator[tuple[float, float, float, float]]:
    """(target, rung, shortfall, seconds) for each target that the ladder meets."""
    method, rungs = LADDERS[name]
    method(A[: 4 * s + 100, : 4 * s + 100].contiguous(), s, rungs[-1])  # libraries load here
    left = list(targets)
    for rung in rungs:
        W, first = seconds(lambda r=rung: method(A, s, r))
        shortfall = 1 - captured(A, W) / best
        if left and shortfall <= left[0]:
            times = [first, *(seconds(lambda r=rung: method(A, s, r))[1] for _ in range(2))]
            while left and shortfall <= left[0]:
                yield left.pop(0), rung, shortfall, statistics.median(times)
        if not left:
            return


def reference(A: torch.Tensor, s: int) -> float:
    """The captured variance of the best subspace: from a float64 Gram matrix where that is small.

    Beyond, from our own run to 1e-6 in float32, which serves targets far above 1e-7 only.
    """
    if A.shape[1] <= 8192:
        C = sum(block.double().T @ block.double() for block in A.split(8192))
        return float(torch.linalg.eigvalsh(C)[-s:].sum())
    return captured(A, PCA(s, center=False, tol=1e-6, random_state=1).fit(A).components_.T)


def sweep_cost(A: torch.Tensor, s: int) -> tuple[float, float]:
    """Seconds of a pass with s columns, and of reading the matrix once (half of a copy)."""
    X, W = as_operator(A), torch.randn(A.shape[1], s, device="cuda")
    copy = torch.empty_like(A)
    X.sweep(W), copy.copy_(A)
    passes = [seconds(lambda: X.sweep(W))[1] for _ in range(5)]
    copies = [seconds(lambda: copy.copy_(A))[1] for _ in range(5)]
    return statistics.median(passes), statistics.median(copies) / 2


def robust(N: int, d: int, s: int) -> str:
    """RobustPCA of N rows with a tenth of them bad."""
    A = decaying(N, d)
    A[: N // 10] = 10 * torch.randn(N // 10, d, device="cuda")
    model = RobustPCA(s, random_state=0)
    _, took = seconds(lambda: model.fit(A))
    found = float(model.outliers_[: N // 10].double().mean())
    return f"RobustPCA {N} x {d}, {s} components: {took:.1f} s, recall {found:.3f}"


def main() -> None:
    """All of it, or a small version to try the code."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--scale", type=float, default=1.0, help="shrink every side by this factor")
    parser.add_argument(
        "--only", default="", help="comma-separated: decaying, gaussian, pass, robust"
    )
    options = parser.parse_args()

    def side(n: int) -> int:
        return max(300, int(n * options.scale))

    chosen = options.only.split(",") if options.only else ["decaying", "gaussian", "pass", "robust"]
    print(torch.cuda.get_device_name(), flush=True)
    print("| data | method | target | rung | shortfall | seconds |\n|---|---|---|---|---|---|")
    cases: list[tuple[str, Any, int, list[float]]] = [
        ("decaying", lambda: decaying(side(100_000), side(4096)), 50, [1e-2, 1e-4, 1e-8]),
        ("gaussian", lambda: gaussian(side(30_000), side(30_000)), 100, [1e-1, 1e-2]),
    ]
    for name, make, s, targets in cases:
        if name not in chosen:
            continue
        A = make()
        best = reference(A, s)
        for method in LADDERS:
            if name == "gaussian" and method in ("Gram + eigh", "cupy svds"):
                continue
            try:
                for target, rung, shortfall, took in climb(A, s, method, targets, best):
                    print(f"| {name} {tuple(A.shape)} | {method} | {target:g} | {rung:g} | "
                          f"{shortfall:.1e} | {took:.4f} |", flush=True)  # fmt: skip
            except ImportError as error:
                print(f"| {name} | {method} | {error} | | | |")
    if "pass" in chosen:
        pass_, read = sweep_cost(decaying(side(100_000), side(4096)), 50)
        print(f"a pass with 50 columns {pass_ * 1e3:.2f} ms, reading once {read * 1e3:.2f} ms")
    if "robust" in chosen:
        print(robust(side(1_000_000), 784, 50))
    print(f"peak device memory {torch.cuda.max_memory_allocated() / 2**30:.1f} GiB")


if __name__ == "__main__":
    main()
