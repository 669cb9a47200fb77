"""PyTorch modules seen from inside: against the house on equal weights, whole Jacobians of torch.func, and differences."""

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402
from torch.func import jacrev  # noqa: E402
from torch.nn import functional as F  # noqa: E402
from torch_cases import one_thread  # noqa: E402, F401

from overparam.adapters import from_torch  # noqa: E402
from overparam.adapters.torch_inside import TorchInside  # noqa: E402
from overparam.audits.subject import inside_of  # noqa: E402
from overparam.core.network import Params, Trace, Unseen  # noqa: E402, Unseen
from overparam.networks import FullyConnected  # noqa: E402

RNG = np.random.default_rng(0)


def normal(*shape):
    return RNG.standard_normal(shape)


def close(found, expected, digits=1e-12):
    assert found.shape == expected.shape
    assert found.dtype == np.float64
    np.testing.assert_allclose(found, expected, rtol=0, atol=digits * max(1.0, np.abs(expected).max()))


def all_close(found, expected, digits=1e-12):
    """Of traces and of weights by name."""
    if isinstance(found, Trace):
        close(found.output, expected.output, digits)
        for name in ("pre_activations", "activations"):
            for a, b in zip(getattr(found, name), getattr(expected, name), strict=True):
                close(a, b, digits)
    else:
        assert found.keys() == expected.keys()
        for name in found:
            close(found[name], expected[name], digits)


class Functions(nn.Module):
    """ReLUs written in every way, some in place, one of them after a tensor that is used again."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.first, self.last = nn.Linear(4, 6), nn.Linear(6, 2)
        self.middle = nn.ModuleList(nn.Linear(6, 6) for _ in range(8))
        self.module, self.leaky = nn.ReLU(inplace=True), nn.LeakyReLU(0.2)

    def forward(self, x):
        ways = [
            self.module, self.leaky, F.relu, torch.relu, lambda h: h.relu(), lambda h: h.clamp(min=0),
            lambda h: torch.clamp_min(h, 0.0), lambda h: F.leaky_relu(h, negative_slope=0.3, inplace=True),
        ]  # fmt: skip
        h = self.first(x)
        torch.relu_(h)  # what it gives is not looked at: h itself has changed
        for layer, way in zip(self.middle, ways, strict=True):
            h = way(layer(h)) + 0.5 * h
        return self.last(F.threshold(h, 0.0, 0.0))


def cnn(pool=nn.AvgPool2d):
    torch.manual_seed(1)
    module = nn.Sequential(
        nn.Conv2d(1, 3, 3, padding=1), nn.BatchNorm2d(3), nn.ReLU(inplace=True), pool(2), nn.Conv2d(3, 4, 2),
        nn.LeakyReLU(0.1), nn.Flatten(), nn.Dropout(0.5), nn.Linear(16, 2),
    )  # fmt: skip
    module[1].running_mean.copy_(torch.tensor([0.3, -0.2, 0.1]))
    module[1].running_var.copy_(torch.tensor([0.5, 2.0, 1.0]))
    return module


def seen(module, X, **options):
    return inside_of(from_torch(module, X[:1].astype(np.float32), **options), None, X)


def test_it_is_the_house_network_on_equal_weights():
    """Every method, with the network's own signs and with others."""
    net, d, m = FullyConnected(width=5, depth=3, outputs=2, trained="all"), 4, 5
    module = nn.Sequential(
        nn.Linear(d, m, bias=False), nn.ReLU(), nn.Linear(m, m, bias=False), nn.ReLU(), nn.Linear(m, m, bias=False),
        nn.ReLU(), nn.Linear(m, 2, bias=False),
    )  # fmt: skip
    X, maps = normal(7, d), {"0.weight": "A", "2.weight": "W1", "4.weight": "W2", "6.weight": "B"}
    torch_inside = TorchInside(from_torch(module, X[:1].astype(np.float32)), None, X, memory=1)  # row by row
    assert len(torch_inside._X) == 7
    W = torch_inside.weights
    house = inside_of(net, Params({maps[name]: array for name, array in W.items()}, {}), X)
    assert (torch_inside.widths, torch_inside.slopes, torch_inside.unseen) == ((m,) * 3, (0.0,) * 3, ())
    assert (torch_inside.samples, torch_inside.inputs, torch_inside.outputs) == (7, d, 2)

    def renamed(weights):
        return {maps[name]: array for name, array in weights.items()}

    W = {name: array + 0.2 * normal(*array.shape) for name, array in W.items()}
    some = {name: normal(*W[name].shape) for name in ("2.weight", "6.weight")}
    cotangent = Trace(normal(7, 2), (normal(7, m), None, normal(7, m)), (None, normal(7, m), None))
    for gates in (None, tuple(normal(7, m) for _ in range(3))):
        all_close(torch_inside.trace(W, gates), house.trace(renamed(W), gates))
        all_close(torch_inside.along(W, some, gates), house.along(renamed(W), renamed(some), gates))
        slope = torch_inside.gradient(W, cotangent, gates)
        all_close(renamed(slope), house.gradient(renamed(W), cotangent, gates))
        for start, end in ((-1, 0), (-1, 3), (0, 2), (1, 3), (0, 3)):
            V, U = normal(7, house.size(start)), normal(7, house.size(end))
            close(torch_inside.push(W, start, V, end, gates), house.push(renamed(W), start, V, end, gates))
            close(torch_inside.pull(W, end, U, start, gates), house.pull(renamed(W), end, U, start, gates))
            slope = torch_inside.push_gradient(W, start, V, end, U, gates)
            all_close(renamed(slope), house.push_gradient(renamed(W), start, V, end, U, gates))


def test_relus_written_in_every_way_are_caught():
    module, X = Functions().double(), normal(3, 4)
    inside = seen(module, X)
    assert inside.slopes == (0.0, 0.0, 0.2, 0.0, 0.0, 0.0, 0.0, 0.0, 0.3, 0.0)
    assert inside.widths == (6,) * 10
    assert inside.exact
    W, x = inside.weights, torch.tensor(X)
    trace = inside.trace(W)
    close(trace.output, module(x).detach().numpy())
    for g, h, slope in zip(trace.pre_activations, trace.activations, inside.slopes, strict=True):
        close(h, np.where(g > 0, g, slope * g))
    whole = jacrev(module)(x).detach().numpy()
    V = normal(3, 4)
    close(inside.push(W, -1, V, 10), np.stack([whole[i, :, i] @ V[i] for i in range(3)]))


@pytest.mark.parametrize("pool", [nn.AvgPool2d, nn.MaxPool2d])
def test_a_convolutional_module(pool):
    """Batch norm with its running averages, dropout off, whatever mode the module is in."""
    module, X = cnn(pool), normal(4, 1, 6, 6)
    rows = X.reshape(4, -1)
    inside = inside_of(from_torch(module, X[:1].astype(np.float32)), None, rows)  # rows take the example's shape
    W, step = inside.weights, 1e-6
    assert inside.widths == (108, 16)
    assert inside.slopes == (0.0, 0.1)
    assert inside.exact == (pool is nn.AvgPool2d)
    assert inside.unseen in ((), (Unseen("maximum", ("max pooling",)),))
    module.eval()
    expected = module.double()(torch.tensor(X)).detach().numpy()
    module.float().train()
    close(inside.trace(W).output, expected, 1e-6)

    direction = {name: normal(*array.shape) for name, array in W.items()}
    there, back = ({name: W[name] + s * direction[name] for name in W} for s in (step, -step))
    moved, ahead, behind = inside.along(W, direction), inside.trace(there), inside.trace(back)
    close(moved.output, (ahead.output - behind.output) / (2 * step), 1e-7)
    for layer in range(2):
        change = ahead.pre_activations[layer] - behind.pre_activations[layer]
        close(moved.pre_activations[layer], change / (2 * step), 1e-7)
    gates, V, U = inside.gates(inside.trace(W)), normal(4, 108), normal(4, 2)
    value = [np.sum(U * inside.push(w, 0, V, 2, gates)) for w in (there, back)]
    slope = inside.push_gradient(W, 0, V, 2, U)
    total = sum(np.sum(slope[name] * direction[name]) for name in W)
    assert total == pytest.approx((value[0] - value[1]) / (2 * step), rel=1e-6)
    close(np.sum(inside.push(W, 0, V, 2) * U, 1), np.sum(inside.pull(W, 2, U, 0) * V, 1))
    cotangent = Trace(U, (None, normal(4, 16)), (normal(4, 108), None))
    slope = inside.gradient(W, cotangent)
    forward = np.sum(U * moved.output) + np.sum(cotangent.pre_activations[1] * moved.pre_activations[1])
    forward += np.sum(cotangent.activations[0] * moved.activations[0])
    assert sum(np.sum(slope[name] * direction[name]) for name in W) == pytest.approx(forward, rel=1e-10)


def test_the_module_stays_as_it_was():
    module, X = cnn(), normal(3, 1, 6, 6)
    module[4].weight.requires_grad_(False)
    module[0].weight.grad = torch.ones_like(module[0].weight)
    module[2].eval()
    before = {name: tensor.clone() for name, tensor in module.state_dict().items()}
    random = torch.get_rng_state()
    modes = [layer.training for layer in module.modules()]
    inside = seen(module, X)
    W = inside.weights
    assert "4.weight" not in W
    U = normal(3, 2)
    inside.trace(W)
    inside.push_gradient(W, 0, normal(3, 108), 2, U)
    inside.gradient(W, Trace(U, (), ()))
    inside.along(W, W)
    assert [layer.training for layer in module.modules()] == modes
    assert all(torch.equal(tensor, before[name]) for name, tensor in module.state_dict().items())
    assert torch.equal(module[0].weight.grad, torch.ones_like(module[0].weight))
    assert module[8].weight.grad is None
    assert torch.equal(torch.get_rng_state(), random)
    assert not any(layer._forward_hooks for layer in module.modules())


def test_what_is_not_seen_is_said():
    attention = nn.TransformerEncoderLayer(4, 2, 8, batch_first=True)
    cases = [
        (nn.Sequential(nn.Linear(4, 5), nn.GELU(), nn.Linear(5, 5), nn.ReLU(), nn.Linear(5, 1)), ["gelu"], (5,)),
        (nn.Sequential(nn.Linear(4, 5), nn.LayerNorm(5), nn.Tanh(), nn.Softmax(1)), ["layer_norm", "tanh", "softmax"], ()),
        (nn.Sequential(nn.Linear(4, 5), nn.PReLU(), nn.Linear(5, 1)), ["prelu"], ()),
        (nn.Sequential(nn.Unflatten(1, (2, 2)), nn.Flatten(), nn.Linear(4, 5), nn.ReLU6(), nn.Linear(5, 1)), ["relu6"], ()),
        (nn.Sequential(nn.Unflatten(1, (1, 4)), attention, nn.Flatten()), ["multi_head_attention_forward", "layer_norm"], (8,)),
    ]  # fmt: skip
    for module, words, widths in cases:
        inside = seen(module, normal(3, 4))
        assert inside.widths == widths
        assert not inside.exact
        assert [each.kind for each in inside.unseen] == ["other"]
        assert list(inside.unseen[0].names) == words

    class Gated(nn.Module):
        def __init__(self):
            super().__init__()
            self.a, self.b = nn.Linear(4, 3), nn.Linear(4, 3)

        def forward(self, x):
            return self.a(x) * F.relu(self.b(x)) / 2.0

    assert seen(Gated(), normal(3, 4)).unseen == (Unseen("product", ("values that depend on the sample",)),)


def test_bad_arguments_are_one_line():
    network = from_torch(cnn(), np.zeros((1, 1, 6, 6), np.float32))
    with pytest.raises(ValueError, match=r"`X` has shape \(3, 35\); expected \(n, 1, 6, 6\)"):
        inside_of(network, None, normal(3, 35))
    tokens = from_torch(nn.Sequential(nn.Embedding(5, 3), nn.Flatten(), nn.Linear(6, 1)), np.zeros((1, 2), int))
    with pytest.raises(ValueError, match="takes integers"):
        inside_of(tokens, None, np.zeros((3, 2), int))
    inside = inside_of(network, None, normal(3, 36))
    with pytest.raises(ValueError, match="start < end ≤ 2"):
        inside.push(inside.weights, 1, normal(3, 16), 1)
    with pytest.raises(ValueError, match=r"`weights` lacks '0\.weight'"):
        inside.trace({})


def test_given_weights_and_float32():
    module, X = cnn(), normal(3, 1, 6, 6)
    network = from_torch(module, X[:1].astype(np.float32))
    params = network.init()
    params.trained["8.weight"][:] = 0.0
    inside = inside_of(network, params, X, dtype="float32")
    bias = module[8].bias.detach().double().numpy()
    close(inside.trace(inside.weights).output, np.tile(bias, (3, 1)))
    exact, short = (inside_of(network, None, X, dtype) for dtype in ("float64", "float32"))
    found, expected = (i.trace(i.weights).output for i in (short, exact))
    assert 0 < np.abs(found - expected).max() < 1e-5


def test_weights_changed_in_place_are_not_taken_for_the_old_ones():
    """Graphs of the last products are kept; and it works where the caller has turned gradients off."""
    module = nn.Sequential(nn.Linear(3, 4, bias=False), nn.ReLU(), nn.Linear(4, 4, bias=False), nn.ReLU())
    module.append(nn.Linear(4, 2, bias=False))
    inside = seen(module, normal(5, 3))
    W, V, U = inside.weights, normal(5, 4), normal(5, 2)
    with torch.inference_mode():
        before, back = inside.push(W, 0, V, 2), inside.pull(W, 2, U, 0)
        W["4.weight"] *= 2
        close(inside.push(W, 0, V, 2), 2 * before)
        W["4.weight"] /= 2
        close(inside.pull(W, 2, U, 0), back)
        other = {name: array + 0.5 for name, array in W.items()}
        assert not np.allclose(inside.push(other, 0, V, 2), before)
        close(inside.push(W, 0, V, 2), before)
        gates = tuple(normal(5, 4) for _ in range(2))
        expected = (gates[1] * (V @ W["2.weight"].T)) @ W["4.weight"].T
        close(inside.push(W, 0, V, 2, gates), expected)
        close(inside.push(W, 0, V, 2), before)
