"""Data with known spectra, and gradients from all eigenvectors, for the tests of derivatives."""

import torch


def matrix(sigma, shape, seed, dtype=torch.float64):
    """A matrix with these singular values and random singular vectors."""
    draw = torch.Generator().manual_seed(seed)
    k = len(sigma)
    U, V = (
        torch.linalg.qr(torch.randn(n, k, dtype=torch.float64, generator=draw))[0] for n in shape
    )
    return ((U * torch.as_tensor(sigma, dtype=torch.float64)) @ V.T).to(dtype)


def gaussian(shape, seed):
    """Standard normal entries in float64."""
    return torch.randn(shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


def dense_gradient(A, s, G):
    """``d <G, V V^T> / dA`` from all eigenvectors of ``A^T A``, without gaps inside the subspace."""
    values, W = torch.linalg.eigh(A.T @ A)
    values, W = values.flip(0), W.flip(1)
    inside, outside = W[:, :s], W[:, s:]
    gaps = values[None, :s] - values[s:, None]
    Y = outside @ ((outside.T @ (G + G.T) @ inside) / gaps)
    return (A @ inside) @ Y.T + (A @ Y) @ inside.T


def relative(A, B):
    """``||A - B|| / ||B||``."""
    A, B = A.detach().double(), B.detach().double()
    return float((A - B).norm() / B.norm())
