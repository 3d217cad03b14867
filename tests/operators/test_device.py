"""Host data multiplied on a torch device; "cpu" runs the same code, a GPU the copies besides."""

import numpy as np
import pytest
import scipy.sparse as sp
import torch

from dualpca import PCA, RobustPCA, as_operator
from dualpca.operators import gpu as module

DEVICES = ["cpu", *(["cuda"] if torch.cuda.is_available() else [])]


@pytest.fixture(params=DEVICES)
def place(request):
    return request.param


def rows(dtype="float64", N=700, d=30):
    rng = np.random.default_rng(0)
    A = rng.standard_normal((N, d)) / np.arange(1, d + 1) + 2
    A = A.astype(dtype)
    A.flags.writeable = False
    return A


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("kind", ["array", "fortran", "strided", "memmap", "list"])
def test_products_are_those_of_the_array(place, kind, dtype, tmp_path, monkeypatch):
    A = rows(dtype)
    np.save(tmp_path / "x.npy", A)
    data = {
        "array": lambda: A,
        "fortran": lambda: np.asfortranarray(A),
        "strided": lambda: np.repeat(A, 2, axis=0)[::2],
        "memmap": lambda: np.load(tmp_path / "x.npy", mmap_mode="r"),
        "list": lambda: [A[:100], A[100:]],
    }[kind]()
    monkeypatch.setattr(module, "FACTOR", 1)
    monkeypatch.setattr("dualpca.operators.block_ops.BLOCK_BYTES", 64 * A.itemsize * A.shape[1])
    X = as_operator(data, device=place)
    W = torch.ones((A.shape[1], 2), dtype=getattr(torch, dtype), device=place)
    want = A.astype(float)
    rtol = 1e-12 if dtype == "float64" else 1e-5
    for got, expected in (
        (X @ W, want @ np.ones((30, 2))),
        (X.sweep(W), want.T @ (want @ np.ones((30, 2)))),
        (X.row_norms(), np.linalg.norm(want, axis=1)),
        (X.gram(), want.T @ want),
        (X.take(np.array([3, 99, 650])), want[[3, 99, 650]]),
    ):
        assert got.device.type == place
        assert np.allclose(got.cpu().numpy(), expected, rtol=rtol, atol=0)
    assert X.passes == (4 if kind in ("array", "fortran", "strided") else X.passes)


@pytest.mark.parametrize(
    "model", [PCA(5, random_state=0), PCA(5, solver="krylov", random_state=0), RobustPCA(5)]
)
def test_fits_are_those_of_the_array(place, model):
    A = rows()
    model.set_params(random_state=0)
    want = model.fit(A).components_
    fitted = model.fit(as_operator(A, device=place))
    assert isinstance(fitted.components_, torch.Tensor)
    assert fitted.components_.device.type == place
    cosines = np.linalg.svd(want @ fitted.components_.cpu().numpy().T, compute_uv=False)
    assert cosines.min() > 1 - 10 * model.tol**2 - 1e-12
    scores = fitted.transform(as_operator(A, device=place))
    assert scores.shape == (700, 5)
    assert scores.device.type == place


def test_what_it_does_not_take():
    for X in (sp.csr_array(np.eye(3)), torch.eye(3)):
        with pytest.raises(ValueError, match=r"device='cpu' takes dense numpy data and files"):
            as_operator(X, device="cpu")


def test_read_only_columns_in_order_are_multiplied_and_left_as_they_are(place):
    A = np.asfortranarray(rows())
    A.flags.writeable = False
    W = torch.ones((30, 2), dtype=torch.float64, device=place)
    got = (as_operator(A, device=place) @ W).cpu().numpy()
    assert np.allclose(got, A @ np.ones((30, 2)), rtol=1e-12, atol=0)
    assert np.array_equal(A, rows())
