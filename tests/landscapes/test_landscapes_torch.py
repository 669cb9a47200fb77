"""Objectives of PyTorch modules against PyTorch's own derivatives, in both modes of batch norm, the module unchanged."""

import numpy as np
import pytest

import overparam as op
from overparam.landscapes import hessian_extremes, landscape, negative_curvature, objective_of, surface

torch = pytest.importorskip("torch")
from torch import nn  # noqa: E402


@pytest.fixture(autouse=True)
def one_thread():
    """Threads that wait for each other take most of the time of networks this small."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


def images(n=12):
    draws = np.random.default_rng(0)
    return draws.standard_normal((n, 1, 6, 6)), np.arange(n) % 3


def module(dropout=0.0):
    torch.manual_seed(0)
    return nn.Sequential(
        nn.Conv2d(1, 3, 3), nn.BatchNorm2d(3), nn.ReLU(), nn.Dropout(dropout), nn.Flatten(), nn.Linear(48, 3)
    ).double()


def own_loss(model, flat, X, y):
    """Mean cross-entropy at a flat vector of weights, by PyTorch alone."""
    parts = torch.split(flat, [p.numel() for p in model.parameters()])
    named = {name: part.view_as(p) for (name, p), part in zip(model.named_parameters(), parts, strict=True)}
    return nn.functional.cross_entropy(torch.func.functional_call(model, named, (torch.tensor(X),)), torch.tensor(y))


@pytest.mark.parametrize("mode", ["eval", "train"])
@pytest.mark.parametrize("chunk", [None, 12])
def test_derivatives_are_those_of_torch(mode, chunk):
    X, y = images()
    model = module()
    objective = objective_of(op.from_torch(model, X), (X, y), objective="cross-entropy", mode=mode, chunk=chunk)
    w = objective.start
    other = module().train(mode == "train")
    H = torch.autograd.functional.hessian(lambda flat: own_loss(other, flat, X, y), w).numpy()
    g = torch.autograd.functional.jacobian(lambda flat: own_loss(other, flat, X, y), w).numpy()
    assert objective.value(w) == pytest.approx(float(own_loss(other, w, X, y).detach()), rel=1e-12)
    np.testing.assert_allclose(objective.flat(objective.gradient(w)), g, atol=1e-12)
    for place in (0, 30, objective.size - 1):
        e = objective.vector(np.eye(objective.size)[place])
        np.testing.assert_allclose(objective.flat(objective.hessian_product(w, e)), H[place], atol=1e-11)
    ends, exact = hessian_extremes(objective, steps=60), np.linalg.eigvalsh(H)
    assert ends.smallest == pytest.approx(exact[0], abs=1e-8)
    assert ends.largest == pytest.approx(exact[-1], abs=1e-8)


def test_chunks_and_kept_graphs_change_nothing():
    X, y = images()
    whole = objective_of(op.from_torch(module(), X), (X, y), objective="cross-entropy")
    parts = objective_of(op.from_torch(module(), X), (X, y), objective="cross-entropy", chunk=5)
    poor = objective_of(op.from_torch(module(), X, memory=1), (X, y), objective="cross-entropy", chunk=5)
    assert whole.keeps
    assert not poor.keeps
    v = whole.normal(1)
    first = whole.flat(whole.hessian_product(whole.start, v))
    again = whole.flat(whole.hessian_product(whole.start, v))  # from the graph that was kept
    np.testing.assert_array_equal(first, again)
    for other in (parts, poor):
        np.testing.assert_allclose(other.flat(other.hessian_product(other.start, v)), first, atol=1e-13)
    moved = whole.vector(whole.flat(whole.start) + 0.1)
    assert np.abs(whole.flat(whole.hessian_product(moved, v)) - first).max() > 1e-3  # other weights, another graph


class Odd(nn.Module):
    """Layers of every kind that have a second derivative of their own, and some that have none."""

    def __init__(self):
        super().__init__()
        self.first = nn.Conv2d(1, 4, 3, stride=2, padding=1)
        self.second = nn.Conv2d(4, 4, 3, padding="same", groups=2, bias=False)
        self.third = nn.Conv2d(4, 6, (2, 1), dilation=(2, 1), padding=(1, 0))
        self.line = nn.Linear(3, 3)
        self.last = nn.Linear(54, 3, bias=False)

    def forward(self, x):
        h = nn.functional.relu(self.second(torch.relu(self.first(x))), inplace=True)
        h = torch.tanh(self.third(torch.tanh(h)))
        return self.last(torch.tanh(self.line(h)).relu().reshape(len(x), -1))


def test_layers_of_every_kind():
    X, y = images()
    torch.manual_seed(1)
    model = Odd().double()
    objective = objective_of(op.from_torch(model, X), (X, y), objective="cross-entropy")
    H = torch.autograd.functional.hessian(lambda flat: own_loss(model, flat, X, y), objective.start).numpy()
    for seed in (1, 2):
        v = objective.normal(seed)
        np.testing.assert_allclose(
            objective.flat(objective.hessian_product(objective.start, v)), H @ v.numpy(), atol=1e-11
        )
    u, v = objective.normal(1), objective.normal(2)
    plane = surface(objective, None, (u, v), extent=0.1, points=3)
    corner = float(own_loss(model, objective.start + 0.1 * u - 0.1 * v, X, y).detach())
    assert plane.values[0, 2] == pytest.approx(corner, rel=1e-12)


def test_a_module_that_views_its_inputs():
    X, y = images()

    class Views(nn.Module):
        def __init__(self):
            super().__init__()
            self.line = nn.Linear(36, 3)

        def forward(self, x):
            return self.line(x.permute(0, 2, 3, 1).contiguous().view(len(x), -1) + x.view(len(x), -1))

    X = np.repeat(X, 2, axis=1)[:, :, :3, :6]
    objective = objective_of(op.from_torch(Views().double(), X), (X, y))
    u, v = objective.normal(1), objective.normal(2)
    plane = surface(objective, None, (u, v), extent=0.1, points=3)
    assert plane.values[0, 0] == pytest.approx(objective.value(objective.start - 0.1 * u - 0.1 * v), rel=1e-12)


def test_the_module_is_as_it_was():
    X, y = images()
    model = module(dropout=0.5).train()
    before = {name: value.clone() for name, value in model.state_dict().items()}
    random = torch.get_rng_state()
    network = op.from_torch(model, X)
    landscape(network, (X, y), objective="cross-entropy", mode="train", points=3, oja_steps=4, layer_steps=0)
    assert all(layer.training for layer in model.modules())
    assert all(p.grad is None for p in model.parameters())
    assert torch.equal(torch.get_rng_state(), random)
    for name, value in model.state_dict().items():
        assert torch.equal(value, before[name]), name


def test_the_surface_is_the_loss_of_moved_modules():
    X, y = images()
    objective = objective_of(op.from_torch(module(), X), (X, y), objective="cross-entropy")
    u, v = objective.unit(objective.normal(1)), objective.unit(objective.normal(2))
    plane = surface(objective, None, (u, v), extent=(0.5, 0.3), points=3)
    other = module().eval()
    for i, b in enumerate((-0.3, 0.0, 0.3)):
        for j, a in enumerate((-0.5, 0.0, 0.5)):
            expected = float(own_loss(other, objective.start + a * u + b * v, X, y).detach())
            assert plane.values[i, j] == pytest.approx(expected, rel=1e-12)


def test_losses_of_torch_and_squared():
    X, y = images()
    named = objective_of(op.from_torch(module(), X), (X, y), objective="cross-entropy")
    given = objective_of(op.from_torch(module(), X), (X, y), objective=nn.CrossEntropyLoss(), chunk=5)
    assert given.value(given.start) == pytest.approx(named.value(named.start), rel=1e-12)
    below = landscape(
        op.from_torch(module(), X), (X, y), objective=lambda u, t: nn.functional.cross_entropy(u, t) - 5, points=3,
        oja_steps=4, layer_steps=0,
    )  # fmt: skip
    assert below.last.here == pytest.approx(named.value(named.start) - 5, rel=1e-12)
    assert below.last.decreases[0] == pytest.approx((below.last.here - below.last.least[0]) / -below.last.here)
    assert below.last.decreases[0] > 0
    squared = objective_of(op.from_torch(module(), X), (X, y), loss="sum")
    targets = np.eye(3)[y] - 1 / 3
    outputs = op.from_torch(module(), X).apply(None, X)
    assert squared.value(squared.start) == pytest.approx(0.5 * np.sum((outputs - targets) ** 2), rel=1e-12)


def test_the_same_network_in_jax_agrees():
    draws = np.random.default_rng(0)
    X, y = draws.standard_normal((15, 4)), np.sign(draws.standard_normal(15))
    model = nn.Sequential(nn.Linear(4, 6), nn.ReLU(), nn.Linear(6, 1)).double()
    in_torch = objective_of(op.from_torch(model, X), (X, y), objective="cross-entropy")
    names = {name: value.detach().numpy() for name, value in model.named_parameters()}

    def apply(w, x):
        import jax

        return (jax.nn.relu(x @ w["0.weight"].T + w["0.bias"]) @ w["2.weight"].T + w["2.bias"])[:, 0]

    in_jax = objective_of(apply, (X, y), names, objective="cross-entropy")
    v = {name: np.ones_like(value) for name, value in names.items()}
    a = in_torch.named(in_torch.hessian_product(in_torch.start, in_torch.vector(v)))
    b = in_jax.named(in_jax.hessian_product(in_jax.start, in_jax.vector(v)))
    for name in names:
        np.testing.assert_allclose(a[name], b[name], atol=1e-12)


def test_negative_curvature_is_that_of_the_dense_hessian():
    X, y = images()
    objective = objective_of(op.from_torch(module(), X), (X, y), objective="cross-entropy", mode="train")
    other = module().train()
    H = torch.autograd.functional.hessian(lambda flat: own_loss(other, flat, X, y), objective.start).numpy()
    found = negative_curvature(objective, steps=200)
    assert found.curvature == pytest.approx(np.linalg.eigvalsh(H)[0], rel=1e-3)
    noisy = [negative_curvature(objective, steps=30, smoothing=0.02, batch=8, key=1).curvature for _ in range(2)]
    assert noisy[0] == noisy[1]


def test_bad_input_is_one_line():
    X, y = images()
    network = op.from_torch(module(), X)
    for arguments, words in (
        ({"objective": "hinge"}, "`objective` is 'hinge'; expected 'squared', 'cross-entropy', or a function"),
        ({"objective": lambda u, t: u}, "expected one number, the mean over rows"),
    ):
        with pytest.raises(ValueError, match=words):
            objective_of(network, (X, y), **arguments).value(None)
    objective = objective_of(network, (X, y))
    with pytest.raises(ValueError, match="the weights have NaN"):
        objective.vector(torch.full((objective.size,), torch.nan))
    broken = module()
    late = op.from_torch(broken, X)
    broken[5].bias.data[0] = torch.nan
    with pytest.raises(ValueError, match="the weights have NaN"):
        objective_of(late, (X, y))
    with pytest.raises(ValueError, match="one of which has a single row"):
        objective_of(network, (X, y), mode="train", chunk=11)
    with pytest.raises(ValueError, match="the module takes samples of shape"):
        objective_of(network, (X[:, :, :5], y))
    with pytest.raises(ValueError, match="has 3 outputs and the targets"):
        objective_of(network, (X, y % 2))
    with pytest.raises(ValueError, match="which needs classes"):
        objective_of(
            op.from_torch(nn.Linear(2, 1), X[:, 0, 0, :2]), (X[:, 0, 0, :2], X[:, 0, 0, 2]), objective="cross-entropy"
        )
