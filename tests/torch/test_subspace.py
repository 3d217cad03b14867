"""Derivatives of leading subspaces: finite differences, dense formulas, invariance, gaps, torch.func."""

import math

import numpy as np
import pytest
import torch
from dense import dense_gradient, gaussian, matrix, relative
from tests.loops import at, over
from torch.autograd import gradcheck, gradgradcheck
from torch.func import grad, hessian, jacfwd, jacrev, vmap

from dualpca import PCA
from dualpca.operators import Matrix
from dualpca.solvers.spectral.lanczos import Lanczos
from dualpca.torch import (
    GapError,
    complement,
    pca_project,
    pca_projector,
    principal_components,
    principal_subspace,
)
from dualpca.torch.functions import Solution
from dualpca.torch.problems import Squares

CUDA = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")

# Forward mode of torch compiles functions by its own old compiler.
pytestmark = pytest.mark.filterwarnings("ignore:.torch.jit.script:DeprecationWarning")

#: 20 problems: tall and wide, centred and not, repeated values inside the subspace and outside of it.
PROBLEMS = {
    **{f"tall {s}": (gaussian((12, 7), s), s, s % 2 == 0) for s in range(1, 7)},
    **{f"wide {s}": (gaussian((5, 9), s), s, False) for s in (1, 2, 4, 5)},
    "whole space": (gaussian((7, 7), 0), 7, True),
    **{
        f"20 equal, {k}": (matrix([5.0] * 20 + [2.0] * k, (30, 24), k), 20, False)
        for k in (1, 3, 4)
    },
    **{
        f"some equal {s}": (matrix([3.0, 2, 2, 2, 1, 1, 0.5], (10, 8), s), s, False) for s in (4, 6)
    },
    **{f"rank 3, {c}": (matrix([3.0, 3, 3], (9, 6), c), 3, bool(c)) for c in (0, 1)},
    "identity": (matrix([1.0] * 6, (6, 6), 0), 6, False),
    "large mean": (gaussian((8, 5), 3) + 1e3, 2, True),
}


def test_there_are_twenty_problems():
    assert len(PROBLEMS) == 20
    sigma = torch.linalg.svdvals(PROBLEMS["20 equal, 4"][0])
    assert float(sigma[0] / sigma[19]) < 1 + 1e-12


@over("name", list(PROBLEMS))
def test_gradcheck(name):
    X, s, center = PROBLEMS[name]
    X = X.clone().requires_grad_()
    options = {"check_forward_ad": True, "fast_mode": True}
    assert gradcheck(lambda X: pca_projector(X, s, center=center), X, **options)


@over("name", ["tall 2", "wide 2", "some equal 4"])
def test_gradgradcheck(name):
    X, s, center = PROBLEMS[name]
    X = X.clone().requires_grad_()
    assert gradgradcheck(lambda X: pca_projector(X, s, center=center), X, fast_mode=True)


def test_gradcheck_entry_by_entry():
    X = matrix([4.0, 4, 4, 1, 0.5], (8, 6), 0).requires_grad_()
    assert gradcheck(lambda X: pca_projector(X, 3), X, check_forward_ad=True)
    assert gradcheck(
        lambda X: tuple(principal_components(X, 2)), gaussian((8, 6), 0).requires_grad_()
    )


SPECTRA = {
    "power": lambda i: 1 / i,
    "slow": lambda i: i**-0.5,
    "equal": lambda i: torch.where(i <= 20, 5.0, 2 - i / 100),
    "graded": lambda i: 10.0 ** (-8 * i / len(i)),
    "low rank": lambda i: torch.where(i <= 25, 1 + i / 10, 0.0),
}


@over(("name", "shape"), [(n, shape) for n in SPECTRA for shape in ((400, 150), (120, 300))])
def test_equals_the_formula_from_all_eigenvectors(name, shape):
    i = torch.arange(1, min(shape) + 1, dtype=torch.float64)
    sigma = SPECTRA[name](i).sort(descending=True).values
    s = 25 if name == "low rank" else 20
    X, G = matrix(sigma, shape, 0), gaussian((shape[1], shape[1]), 1)
    A = X.clone().requires_grad_()
    found = torch.autograd.grad((pca_projector(A, s, center=False) * G).sum(), A)[0]
    assert relative(found, dense_gradient(X, s, G)) < 1e-8


@over("s", [1, 10, 40])
def test_centring_is_part_of_the_derivative(s):
    X, G = gaussian((300, 60), 0) + 5, gaussian((60, 60), 1)
    A = X.clone().requires_grad_()
    found = torch.autograd.grad((pca_projector(A, s) * G).sum(), A)[0]
    expected = dense_gradient(X - X.mean(0), s, G)
    assert relative(found, expected) < 1e-7
    assert float(found.sum(0).abs().max()) < 1e-12 * float(found.abs().max()) * 300


def test_equals_autograd_through_eigh_where_gaps_are_large():
    X, T = matrix([8.0, 6, 4, 2, 1], (20, 8), 0), gaussian((8, 3), 1)
    A = X.clone().requires_grad_()
    values, W = torch.linalg.eigh(A.T @ A)
    V = W[:, -3:]
    expected = torch.autograd.grad(((V @ (V.T @ T)) ** 3).sum(), A, retain_graph=True)[0]
    V = principal_subspace(A, 3, center=False)
    assert relative(torch.autograd.grad(((V @ (V.T @ T)) ** 3).sum(), A)[0], expected) < 1e-10
    C = principal_components(A, 3, center=False)
    turned = (C.components * torch.arange(1, 4)[:, None]).square().sum(0) @ T
    plain = (W[:, -3:].flip(1).T * torch.arange(1, 4)[:, None]).square().sum(0) @ T
    expected, found = (
        torch.autograd.grad(f.sum(), A, retain_graph=True)[0] for f in (plain, turned)
    )
    assert relative(found, expected) < 1e-10
    expected = torch.autograd.grad((values.flip(0)[:3] ** 2 / 19**2).sum(), A)[0]
    found = torch.autograd.grad((C.explained_variance**2).sum(), A)[0]
    assert relative(found, expected) < 1e-10


def test_finite_differences_at_repeated_values():
    """Central differences of an independent projector, where eigh's own derivative is not finite."""
    X, E, G = matrix([3.0] * 5 + [1.0] * 3, (12, 8), 0), gaussian((12, 8), 1), gaussian((8, 8), 2)

    def dense(X):
        W = torch.linalg.svd(X)[2][:5].T
        return (W @ W.T * G).sum()

    A = X.clone().requires_grad_()
    found = torch.autograd.grad((pca_projector(A, 5, center=False) * G).sum(), A)[0]
    h = 1e-5
    difference = (dense(X + h * E) - dense(X - h * E)) / (2 * h)
    assert math.isclose(float((found * E).sum()), float(difference), rel_tol=1e-7)


def test_turned_data_has_a_turned_gradient():
    """At Q X R the gradient of <R^T G R, V V^T> is Q times that of <G, V V^T> at X times R."""
    X, G = matrix([4.0, 4, 3, 1, 1], (15, 9), 0), gaussian((9, 9), 1)
    Q, R = (torch.linalg.qr(gaussian((n, n), n))[0] for n in (15, 9))

    def gradient(X, G):
        return grad(lambda X: (pca_projector(X, 3, center=False) * G).sum())(X)

    assert relative(gradient(Q @ X @ R, R.T @ G @ R), Q @ gradient(X, G) @ R) < 1e-9


def test_the_basis_of_the_subspace_does_not_matter():
    """Where leading values are equal, V is any basis; the equation has the same answer turned."""
    X = matrix([4.0, 4, 4, 1, 1], (15, 9), 0)
    V, G = principal_subspace(X, 3, center=False), gaussian((9, 3), 1)
    turn, problem = torch.linalg.qr(gaussian((3, 3), 2))[0], Squares(3, 1e-12)
    plain = Solution.apply(X, V, G, problem, False)
    assert relative(Solution.apply(X, V @ turn, G @ turn, problem, False), plain @ turn) < 1e-9


def test_a_loss_of_the_basis_is_refused():
    X = gaussian((10, 6), 0).requires_grad_()
    V = principal_subspace(X, 3)
    with pytest.raises(ValueError, match="depends on the basis"):
        (V * gaussian((6, 3), 1)).sum().backward()


@over(("sigma", "s"), [([3.0, 2, 2, 1], 2), ([1.0] * 6, 3), ([2.0, 1], 3), ([0.0, 0], 1)])
def test_no_gap_at_the_cut_is_an_error_and_no_nan(sigma, s):
    X = matrix(sigma, (9, 6), 0).requires_grad_()
    P = pca_projector(X, s, center=False)
    assert bool(torch.isfinite(P).all())
    with pytest.raises(GapError, match="gap at the cut"):
        P[0, 1].backward()


@over(("sigma", "s"), [([3.0, 2, 2, 1], 2), ([1.0] * 6, 3), ([2.0, 1], 3)])
def test_no_gap_is_an_error_in_forward_mode_too(sigma, s):
    X, direction = matrix(sigma, (9, 6), 0), gaussian((9, 6), 1)
    with pytest.raises(GapError, match="gap at the cut"):
        torch.func.jvp(lambda X: pca_projector(X, s, center=False), (X,), (direction,))


def test_a_small_gap_is_told_from_none_in_each_precision():
    sigma = [1.0] * 4 + [1 - 1e-6] * 4
    T = gaussian((10, 1), 1)
    X = matrix(sigma, (20, 10), 0).requires_grad_()
    V = principal_subspace(X, 4, center=False)
    found = torch.autograd.grad(((V.T @ T) ** 2).sum(), X)[0]
    assert relative(found, dense_gradient(X.detach(), 4, T @ T.T)) < 1e-6
    single = X.detach().float().requires_grad_()
    V = principal_subspace(single, 4, center=False)
    with pytest.raises(GapError, match="float64"):
        ((V.T @ T.float()) ** 2).sum().backward()


def test_float32_stays_float32():
    X = matrix([5.0] * 4 + [1.0] * 4, (200, 30), 0)
    G = gaussian((30, 30), 1)
    A = X.float().requires_grad_()
    P = pca_projector(A, 4, center=False)
    found = torch.autograd.grad((P * G.float()).sum(), A)[0]
    assert P.dtype == found.dtype == torch.float32
    assert relative(found, dense_gradient(X, 4, G)) < 1e-4


def test_components_are_those_of_pca():
    X = gaussian((80, 12), 0) * torch.arange(12, 0, -1)
    model = PCA(4, tol=1e-10).fit(X.numpy())
    mean, components, variance = principal_components(X, 4)
    np.testing.assert_allclose(components, model.components_, atol=1e-10)
    np.testing.assert_allclose(variance, model.explained_variance_, rtol=1e-10)
    np.testing.assert_allclose(mean, model.mean_, atol=1e-12)
    rows = X[:5]
    expected = model.inverse_transform(model.transform(rows.numpy()))
    np.testing.assert_allclose(pca_project(X, 4, rows), expected, atol=1e-9)


def test_projected_rows_have_the_derivative_of_the_projector():
    X, G = gaussian((9, 6), 0).requires_grad_(), gaussian((9, 6), 1)
    direct = torch.autograd.grad((pca_project(X, 2) * G).sum(), X)[0]
    A = X - X.mean(0)
    whole = torch.autograd.grad(((A @ pca_projector(X, 2) + X.mean(0)) * G).sum(), X)[0]
    assert relative(direct, whole) < 1e-12
    with pytest.raises(ValueError, match="rows has shape"):
        pca_project(X, 2, X[:, :1])


class TestComponents:
    """Vector-valued outputs: a derivative where gaps allow, an error where they do not."""

    X = matrix([3.0, 2, 2, 2, 0.5], (12, 7), 0)

    def test_gradcheck_of_first_and_second_order(self):
        X = gaussian((9, 6), 0).requires_grad_()
        for check in (gradcheck, gradgradcheck):
            assert check(lambda X: tuple(principal_components(X, 3)), X, fast_mode=True)
        assert gradcheck(
            lambda X: tuple(principal_components(X, 3)), X, check_forward_ad=True, fast_mode=True
        )

    def test_tied_components_one_by_one_are_refused(self):
        X = self.X.clone().requires_grad_()
        C = principal_components(X, 4, center=False).components
        with pytest.raises(GapError, match="components 1 and"):
            (C * gaussian((4, 7), 1)).sum().backward()

    def test_tied_components_that_are_not_used_do_no_harm(self):
        X, G = self.X.clone().requires_grad_(), gaussian((7, 7), 1)
        C = principal_components(X, 4, center=False).components
        first = torch.autograd.grad((torch.outer(C[0], C[0]) * G).sum(), X)[0]
        assert relative(first, dense_gradient(self.X, 1, G)) < 1e-9

    def test_products_with_tied_variances_are_refused(self):
        """The gradient of sum_i theta_i c_i c_i^T has terms that components alone do not show."""
        X, G = self.X.clone().requires_grad_(), gaussian((7, 7), 1)
        _, C, variance = principal_components(X, 4, center=False)
        with pytest.raises(GapError, match="no derivative one by one"):
            ((C.T * variance) @ C * G).sum().backward()

    def test_products_with_distinct_variances_are_exact(self):
        """sum_i theta_i c_i c_i^T is A^T A where no component is left out."""
        X, G = gaussian((9, 5), 0), gaussian((5, 5), 1)
        A = X.clone().requires_grad_()
        _, C, variance = principal_components(A, 5, center=False)
        found = torch.autograd.grad(((C.T * variance) @ C * G).sum(), A)[0]
        assert relative(found, X @ (G + G.T) / 8) < 1e-10

    def test_variances_need_no_gaps_among_them(self):
        """The sum of tied variances is ``||A V||^2 / (N - 1)``, whose derivative is ``2 A V V^T``."""
        X = self.X.clone().requires_grad_()
        variance = principal_components(X, 4, center=False).explained_variance
        found = torch.autograd.grad(variance.sum(), X)[0]
        expected = 2 * self.X @ pca_projector(self.X, 4, center=False) / 11
        assert relative(found, expected) < 1e-10


BATCH, COTANGENT = gaussian((3, 8, 5), 0), gaussian((5, 5), 1)


def loss(X):
    """A function of the projector, for torch.func."""
    return (pca_projector(X, 2) * COTANGENT).sum()


def test_vmap_equals_a_loop():
    expected = torch.stack([grad(loss)(X) for X in BATCH])
    assert relative(vmap(grad(loss))(BATCH), expected) < 1e-14
    assert relative(grad(lambda B: vmap(loss)(B).sum())(BATCH), expected) < 1e-14
    assert relative(vmap(grad(loss), in_dims=1)(BATCH.transpose(0, 1)), expected) < 1e-14
    found = vmap(lambda X: tuple(principal_components(X, 2)))(BATCH)
    for i, X in enumerate(BATCH):
        for batch, one in zip(found, principal_components(X, 2), strict=True):
            assert relative(batch[i], one) < 1e-13


@over("name", ["components", "explained_variance", "mean"])
def test_forward_and_reverse_mode_agree(name):
    def f(X):
        return getattr(principal_components(X, 2), name)

    X = BATCH[0]
    assert relative(jacfwd(f)(X), jacrev(f)(X)) < 1e-12
    assert (
        relative(jacfwd(lambda X: pca_projector(X, 2))(X), jacrev(lambda X: pca_projector(X, 2))(X))
        < 1e-12
    )


def test_hessians_of_forward_and_reverse_over_reverse_agree():
    X = BATCH[0, :6]
    assert relative(hessian(loss)(X), jacrev(jacrev(loss))(X)) < 1e-10


@over(
    ("arguments", "error", "message"),
    [
        ((np.ones((4, 3)), 1), TypeError, "torch tensor"),
        ((torch.ones(4, 3, dtype=torch.float16), 1), TypeError, "float16.*X.float"),
        ((torch.ones(4, 3, dtype=torch.int64), 1), TypeError, "int64"),
        ((torch.ones(2, 4, 3), 1), ValueError, "vmap"),
        ((torch.ones(4, 3), 4), ValueError, "s=4 must be between 1 and"),
        ((torch.ones(4, 3), 0), ValueError, "s=0"),
        ((torch.ones(4, 3), 1.5), TypeError, "integer"),
        ((torch.full((4, 3), math.nan), 1), ValueError, "NaN or infinity"),
        ((torch.full((4, 3), 1e300, dtype=torch.float64), 1), ValueError, "overflow"),
    ],
)
def test_bad_input_is_refused_before_any_work(arguments, error, message):
    for function in (pca_projector, principal_subspace, principal_components):
        with at(function=function), pytest.raises(error, match=message):
            function(*arguments, center=False)


def test_autocast_does_not_round():
    X = gaussian((30, 8), 0).float().requires_grad_()
    expected = torch.autograd.grad(pca_projector(X, 2)[0, 1], X)[0]
    with torch.autocast("cpu", dtype=torch.bfloat16):
        P = pca_projector(X, 2)
    assert P.dtype == torch.float32
    assert torch.equal(torch.autograd.grad(P[0, 1], X)[0], expected)


def test_a_basis_without_room_restarts(monkeypatch):
    """With room for four blocks the equation is solved by restarts, to the same gradient."""
    i = torch.arange(1, 601, dtype=torch.float64)
    X, T = matrix(i**-0.5, (700, 600), 0), gaussian((600, 3), 1)
    begun = []
    begin = Lanczos.begin_with_ritz
    monkeypatch.setattr(
        Lanczos, "begin_with_ritz", lambda self, *a: (begun.append(1), begin(self, *a))
    )
    monkeypatch.setattr(complement, "BLOCKS", 4)
    A = X.clone().requires_grad_()
    V = principal_subspace(A, 5, center=False)
    before = len(begun)
    found = torch.autograd.grad(((V.T @ T) ** 2).sum(), A)[0]
    assert len(begun) > before + 1
    assert relative(found, dense_gradient(X, 5, T @ T.T)) < 1e-8


def test_zero_gradients_stay_zero():
    X = gaussian((9, 6), 0).requires_grad_()
    V = principal_subspace(X, 2)
    assert float(torch.autograd.grad((V * 0).sum(), X)[0].abs().max()) == 0
    # A loss that is constant on all subspaces has the gradient 0.
    V = principal_subspace(X, 2)
    assert float(torch.autograd.grad((V * V).sum(), X)[0].abs().max()) == 0
    flat = torch.eye(
        6, dtype=torch.float64, requires_grad=True
    )  # without a gap, which is not asked for
    V = principal_subspace(flat, 2, center=False)
    assert float(torch.autograd.grad((V * V).sum(), flat)[0].abs().max()) == 0


@CUDA
def test_cuda_equals_cpu():
    X, G = gaussian((300, 80), 0), gaussian((80, 80), 1)
    found = []
    for device in ("cpu", "cuda"):
        A = X.to(device).requires_grad_()
        found += torch.autograd.grad((pca_projector(A, 10) * G.to(device)).sum(), A)
    assert found[1].device.type == "cuda"
    assert relative(found[1].cpu(), found[0]) < 1e-8


class TestEquation:
    """``Y Theta - C Y = R`` on the complement, in matrices too large for a basis of all of space."""

    sigma = torch.cat([torch.linspace(3, 2, 12), torch.linspace(1.5, 0.5, 288)]).double()

    def eigenvectors(self, sigma):
        X = matrix(sigma, (320, 300), 0)
        return X, torch.linalg.eigh(X.T @ X)[1].flip(1)

    def solve(self, X, V, R):
        return complement.solve_on_complement(Matrix(X), V, R, tol=1e-10, seed=0)

    def test_few_products_solve_it(self, monkeypatch):
        X, W = self.eigenvectors(self.sigma)
        steps, expand = [], Lanczos.expand
        monkeypatch.setattr(Lanczos, "expand", lambda self: (steps.append(1), expand(self)))
        V, R = W[:, :12], W[:, 12:] @ gaussian((288, 12), 1)
        Y = self.solve(X, V, R)
        left = Y @ (V.T @ X.T @ X @ V) - X.T @ (X @ Y) - R
        assert float(left.norm() / R.norm()) < 2e-10
        assert float((V.T @ Y).abs().max()) < 1e-12
        assert len(steps) <= 10

    @pytest.mark.parametrize("missed", [0, 5, 11])
    def test_a_subspace_that_is_not_leading_is_found_out(self, missed):
        """R does not see the direction that V misses; the Gaussian columns do."""
        X, W = self.eigenvectors(self.sigma)
        chosen = [i for i in range(13) if i != missed]
        V, R = W[:, chosen].contiguous(), W[:, 13:] @ gaussian((287, 12), 1)
        with pytest.raises(GapError, match="gap at the cut"):
            self.solve(X, V, R)

    def test_a_cut_through_equal_values_is_found_out(self):
        X, W = self.eigenvectors(torch.cat([torch.full((30,), 3.0), self.sigma[30:]]))
        V, R = W[:, :12].contiguous(), W[:, 30:] @ gaussian((270, 12), 1)
        with pytest.raises(GapError, match="gap at the cut"):
            self.solve(X, V, R)

    def test_a_rough_subspace_is_refused(self):
        """An angle of 5 degrees to the leading subspace is more than a derivative may be wrong by."""
        X, W = self.eigenvectors(self.sigma)
        V = torch.linalg.qr(W[:, :12] + 0.09 * W[:, 12:24])[0]
        R = W[:, 24:] @ gaussian((276, 12), 1)
        with pytest.raises(GapError, match="relative residual"):
            self.solve(X, V, R)
