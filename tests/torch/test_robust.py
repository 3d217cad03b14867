"""Derivatives of robust subspaces: finite differences, PCA as the case of squares, lost rows."""

import pytest
import torch
from dense import gaussian, matrix, relative
from tests.loops import over
from torch.autograd import gradcheck, gradgradcheck

from dualpca import RobustPCA, losses
from dualpca.formulations import robust
from dualpca.operators import Matrix
from dualpca.torch import GapError, pca_projector, robust_projector, robust_subspace

pytestmark = pytest.mark.filterwarnings("ignore:.torch.jit.script:DeprecationWarning")

LOSSES = [
    *((kind(scale=1.5), 0.0) for kind in (losses.Cauchy, losses.GemanMcClure, losses.Welsch)),
    *((kind(scale=1.5), 0.0) for kind in (losses.Huber, losses.Tanh)),
    (losses.Tukey(scale=4.0), 0.0),
    *((loss, 0.5) for loss in (losses.L1(), losses.PowerLoss(p=0.5), losses.Log())),
    (losses.Square(), 0.0),
]


def contaminated(seed, shape=(15, 5)):
    """Rows near a plane, and three that are not."""
    X = gaussian(shape, seed) * torch.tensor([4.0, 3.0] + [0.5] * (shape[1] - 2))
    X[:3] += 3 * gaussian((3, shape[1]), seed + 1)
    return X


def test_every_loss_is_among_the_cases():
    assert {type(loss) for loss, _ in LOSSES} >= {type(loss) for loss in losses.LOSSES.values()}


@over(("loss", "epsilon"), LOSSES)
def test_gradcheck(loss, epsilon):
    X, center = contaminated(0).requires_grad_(), 0.1 * gaussian((5,), 2)
    center.requires_grad_()

    def projector(X, center):
        return robust_projector(X, 2, loss, center=center, epsilon=epsilon)

    assert gradcheck(projector, (X, center), check_forward_ad=True, fast_mode=True)


def test_gradgradcheck():
    X = contaminated(0, (10, 4)).requires_grad_()
    assert gradgradcheck(
        lambda X: robust_projector(X, 2, losses.Cauchy(scale=1.5)), X, fast_mode=True
    )


@over("seed", range(3))
def test_squares_are_pca(seed):
    X, G = gaussian((40, 9), seed), gaussian((9, 9), seed + 1)
    A = X.clone().requires_grad_()
    results = robust_projector(A, 3, losses.Square()), pca_projector(A, 3, center=False)
    gradients = [torch.autograd.grad((P * G).sum(), A)[0] for P in results]
    assert relative(*results) < 1e-10
    assert relative(*gradients) < 1e-7


@over(("loss", "epsilon"), LOSSES)
def test_the_subspace_is_a_fixed_point_of_dca(loss, epsilon):
    X = contaminated(3, (60, 8))
    V = robust_subspace(X, 2, loss, epsilon=epsilon)
    problem = robust(Matrix(X), epsilon, loss)
    step = problem.G.conjugate.subgradient(problem.pullback(V)[1])
    assert relative(step @ step.T, V @ V.T) < 1e-9


def test_rows_without_weight_have_no_gradient():
    """Tukey's loss drops rows beyond its scale, and their gradient is 0."""
    X = matrix([9.0, 8, 0.1, 0.1], (40, 6), 0)
    X[:4] = 50 * gaussian((4, 6), 1)
    A = X.clone().requires_grad_()
    start = pca_projector(X[4:], 2, center=False)[:, :2]
    V = robust_subspace(A, 2, losses.Tukey(scale=1.0), start=start)
    gradient = torch.autograd.grad((V @ V.T * gaussian((6, 6), 2)).sum(), A)[0]
    far = (X - X @ V @ V.T).norm(dim=1) > 1.0
    assert int(far.sum()) >= 3
    assert float(gradient[far].abs().max()) == 0
    assert float(gradient[~far].abs().max()) > 0


def test_starts_from_a_fitted_model():
    X = contaminated(0, (200, 6))
    model = RobustPCA(2, normalize=False, refit=False, random_state=0, center="mean").fit(X.numpy())
    start = torch.tensor(model.components_.T)
    V = robust_subspace(X, 2, model.loss_, center=torch.tensor(model.mean_), start=start, tol=1e-10)
    cosines = torch.linalg.svdvals(start.T @ V)
    assert float(cosines.min()) > 0.999


def test_no_strict_minimum_is_an_error_and_no_nan():
    X = torch.eye(6, dtype=torch.float64, requires_grad=True)
    P = robust_projector(X, 2, losses.Huber(scale=10.0))  # squares here
    assert bool(torch.isfinite(P).all())
    with pytest.raises(GapError, match="strict minimum"):
        (P * gaussian((6, 6), 0)).sum().backward()


@over(
    ("given", "message"),
    [
        ({"loss": "cauchy"}, "has no scale"),
        ({"loss": "l1"}, "epsilon=0.0"),
        ({"loss": "plain"}, "loss='plain' is unknown"),
        ({"loss": losses.Cauchy(scale=1.0), "start": torch.ones(5, 3)}, "start has shape"),
        ({"loss": losses.Cauchy(scale=1.0), "center": torch.ones(1)}, "center has shape"),
    ],
)
def test_bad_input_is_refused(given, message):
    with pytest.raises(ValueError, match=message):
        robust_subspace(contaminated(0), 2, **given)


def test_torch_func():
    X, G = contaminated(0), gaussian((5, 5), 4)

    def f(X):
        return (robust_projector(X, 2, losses.Cauchy(scale=1.5)) * G).sum()

    A = X.clone().requires_grad_()
    expected = torch.autograd.grad(f(A), A)[0]
    batch = torch.stack([X, 2 * X])
    assert relative(torch.func.grad(f)(X), expected) < 1e-12
    assert relative(torch.func.vmap(torch.func.grad(f))(batch)[0], expected) < 1e-12
