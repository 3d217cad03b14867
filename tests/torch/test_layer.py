"""PCALayer: training and evaluation, running statistics, state, shapes and precisions."""

import copy
import io

import pytest
import torch
from dense import gaussian, matrix, relative
from tests.loops import over
from torch.autograd import gradcheck

from dualpca.torch import GapError, PCALayer, pca_project, principal_components

pytestmark = pytest.mark.filterwarnings("ignore:.torch.jit.script:DeprecationWarning")


def batches(count, seed=0, rows=64):
    """Batches of one Gaussian distribution with decreasing variances in turned axes."""
    turn = torch.linalg.qr(gaussian((6, 6), 99))[0]
    scale = torch.tensor([6.0, 4, 2, 0.3, 0.2, 0.1], dtype=torch.float64)
    return [(gaussian((rows, 6), seed + i) * scale) @ turn + 3 for i in range(count)]


def test_training_projects_on_the_batch():
    X = batches(1)[0]
    assert relative(PCALayer(2)(X), pca_project(X, 2)) < 1e-12
    mean, components, _ = principal_components(X, 2)
    assert relative(PCALayer(2, output="scores")(X), (X - mean) @ components.T) < 1e-12
    plain = PCALayer(2, center=False)(X)
    assert relative(plain, pca_project(X, 2, center=False)) < 1e-12


@over("output", ["projection", "scores"])
def test_gradcheck(output):
    X = gaussian((10, 5), 0).requires_grad_()
    layer = PCALayer(2, output=output, track_running_stats=False)
    assert gradcheck(layer, X, check_forward_ad=True, fast_mode=True)


def test_equal_variances_do_no_harm_to_the_projection():
    X = matrix([3.0] * 4 + [0.5], (20, 6), 0).requires_grad_()
    layer = PCALayer(4, center=False)
    assert gradcheck(layer, X, fast_mode=True)
    scores = PCALayer(4, center=False, output="scores")(X)
    with pytest.raises(GapError, match="no derivative one by one"):
        (scores * gaussian((20, 4), 1)).sum().backward()


def test_running_statistics_of_the_first_batch_are_its_own():
    X = batches(1)[0]
    layer = PCALayer(3, momentum=0.3)
    expected = layer(X)
    mean, components, variance = principal_components(X, 3)
    assert relative(layer.running_mean, mean) < 1e-12
    assert relative(layer.running_components, components) < 1e-9
    assert relative(layer.running_variance, variance) < 1e-9
    assert relative(layer.eval()(X), expected) < 1e-9


@over("momentum", [None, 0.2])
def test_running_statistics_are_the_leading_part_of_the_running_covariance(momentum):
    """Where batches have rank 3, nothing is cut off, and the covariance is the average."""
    made = [matrix([5.0, 3, 1], (20, 6), seed) for seed in (0, 0, 0)]
    made = [factor * X for factor, X in zip((1, 2, 3), made, strict=True)]
    layer = PCALayer(3, momentum=momentum, center=False)
    expected, mean = torch.zeros(6, 6, dtype=torch.float64), torch.zeros(6, dtype=torch.float64)
    for i, X in enumerate(made):
        layer(X)
        m = 1 / (i + 1) if momentum is None or i == 0 else momentum
        expected = (1 - m) * expected + m * X.T @ X / 19
        mean = (1 - m) * mean
    V, variance = layer.running_components, layer.running_variance
    assert relative(V.T @ (variance[:, None] * V), expected) < 1e-10
    assert torch.equal(layer.running_mean, mean)
    assert int(layer.num_batches_tracked) == 3


def test_running_subspace_finds_that_of_all_rows():
    made = batches(40)
    layer = PCALayer(3, momentum=None)
    for X in made:
        layer(X)
    everything = principal_components(torch.cat(made), 3)
    cosines = torch.linalg.svdvals(layer.running_components @ everything.components.T)
    assert float(cosines.min()) > 1 - 1e-3
    assert relative(layer.running_mean, everything.mean) < 1e-10
    assert relative(layer.running_variance, everything.explained_variance) < 0.05
    new = batches(1, seed=77)[0]
    left = (layer.eval()(new) - new).norm() / (new - new.mean(0)).norm()
    assert float(left) < 0.1


def test_evaluation_takes_single_rows_and_changes_nothing():
    layer = PCALayer(2)
    X = batches(1)[0]
    layer(X)
    layer.eval()
    before = copy.deepcopy(layer.state_dict())
    one, all_rows = layer(X[:1]), layer(X)
    assert relative(one, all_rows[:1]) < 1e-12
    assert all(torch.equal(before[name], value) for name, value in layer.state_dict().items())


def test_evaluation_before_training_is_refused():
    for layer in (PCALayer(2), PCALayer(2, n_features=6)):
        with pytest.raises(RuntimeError, match="no batch in training mode"):
            layer.eval()(batches(1)[0])


def test_without_running_statistics_evaluation_uses_the_batch():
    X = batches(1)[0]
    layer = PCALayer(2, track_running_stats=False)
    assert relative(layer.eval()(X), layer.train()(X)) < 1e-12
    assert list(layer.state_dict()) == []


@over("n_features", [None, 6])
def test_state_dict_and_copies(n_features):
    layer = PCALayer(2, n_features)
    X = batches(2)
    layer(X[0])
    other = PCALayer(2)
    file = io.BytesIO()
    torch.save(layer.state_dict(), file)
    file.seek(0)
    other.load_state_dict(torch.load(file, weights_only=True))
    twin = copy.deepcopy(layer)
    expected = layer.eval()(X[1])
    assert torch.equal(other.eval()(X[1]), expected)
    twin.train()(X[1])
    assert torch.equal(layer(X[1]), expected)
    assert int(twin.num_batches_tracked) == 2
    assert "2, 6, output='projection'" in repr(layer)


def test_leading_dimensions_are_rows():
    X = batches(1)[0]
    layer = PCALayer(2, output="scores")
    assert layer(X.reshape(4, 16, 6)).shape == (4, 16, 2)
    assert relative(layer.eval()(X.reshape(4, 16, 6)).reshape(64, 2), layer(X)) < 1e-12
    assert layer(X[0]).shape == (2,)


@over("dtype", [torch.float16, torch.bfloat16, torch.float32])
def test_precisions(dtype):
    """Half precision is computed in float32; the output has the type of the input."""
    X = batches(1)[0].to(dtype).requires_grad_()
    layer = PCALayer(2)
    Y = layer(X)
    Y.float().square().sum().backward()
    assert Y.dtype == X.grad.dtype == dtype
    assert layer.running_mean.dtype == torch.float32
    assert relative(Y, pca_project(X.detach().double(), 2)) < 1e-2
    assert bool(torch.isfinite(X.grad).all())
    double = PCALayer(2, 6).double()
    assert double(X.detach().double()).dtype == double.running_mean.dtype == torch.float64


@over(
    ("make", "message"),
    [
        (lambda: PCALayer(2, output="both"), "output='both'"),
        (lambda: PCALayer(2, momentum=2.0), "momentum=2.0"),
        (lambda: PCALayer(0), "n_components=0"),
        (lambda: PCALayer(1.5), "n_components=1.5"),
        (lambda: PCALayer(2, 5)(batches(1)[0]), "n_features=5"),
        (lambda: PCALayer(7)(batches(1)[0]), "s=7 must be between"),
    ],
)
def test_bad_input_is_refused(make, message):
    with pytest.raises(ValueError, match=message):
        make()


def test_a_network_trains_through_the_layer():
    """An encoder learns to put what matters into the leading subspace."""
    torch.manual_seed(0)
    X = torch.cat(batches(4)).float()
    network = torch.nn.Sequential(torch.nn.Linear(6, 8), PCALayer(2), torch.nn.Linear(8, 6))
    optimizer = torch.optim.Adam(network.parameters(), lr=1e-2)
    history = []
    for _ in range(60):
        optimizer.zero_grad()
        loss = ((network(X) - X) ** 2).mean()
        loss.backward()
        optimizer.step()
        history.append(float(loss.detach()))
    assert history[-1] < 0.5 * history[0]
    assert all(bool(torch.isfinite(p.grad).all()) for p in network.parameters())
