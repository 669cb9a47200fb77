"""Chains of linear layers and ReLUs: their products against PyTorch's own Hessian, and what is no chain is not taken for one."""

import numpy as np
import pytest

import overparam as op
from overparam.core.objective import Batch
from overparam.landscapes import objective_of

torch = pytest.importorskip("torch")
from torch import nn  # noqa: E402


@pytest.fixture(autouse=True)
def one_thread():
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


class Other(nn.Module):
    """Two layers and something else that is no link."""

    def __init__(self, between):
        super().__init__()
        self.first, self.last, self.between = nn.Linear(4, 4), nn.Linear(4, 3), between

    def forward(self, x):
        return self.between(self, x)


def doubled_in_place(net, x):
    h = net.first(x)
    h.mul_(2.0)
    return net.last(torch.relu(h))


CHAINS = {
    "mlp": (
        lambda: nn.Sequential(nn.Linear(4, 5), nn.ReLU(), nn.Linear(5, 4, bias=False), nn.ReLU(), nn.Linear(4, 3)),
        3,
    ),
    "flattened": (lambda: nn.Sequential(nn.Flatten(), nn.Linear(4, 5), nn.ReLU(), nn.Dropout(0.5), nn.Linear(5, 3)), 2),
    "two linear": (lambda: nn.Sequential(nn.Linear(4, 5), nn.Linear(5, 4), nn.ReLU(), nn.Linear(4, 3)), 3),
    "one layer": (lambda: nn.Linear(4, 3), 1),
}
OTHERS = {
    "skips": lambda net, x: net.last(torch.relu(net.first(x)) + x),
    "in place": doubled_in_place,
    "relu in place": lambda net, x: net.last(torch.relu_(net.first(x))),
    "ends in a relu": lambda net, x: torch.relu(net.last(torch.relu(net.first(x)))),
    "scales": lambda net, x: 0.5 * net.last(torch.relu(net.first(x))),
    "another activation": lambda net, x: net.last(torch.tanh(net.first(x))),
    "samples moved": lambda net, x: net.last(torch.relu(net.first(x - 1))),
    "shared": lambda net, x: net.last(torch.relu(net.first(torch.relu(net.first(x))))),
    "unused": lambda net, x: nn.functional.linear(torch.relu(net.first(x)), net.last.weight),
    "turned": lambda net, x: nn.functional.linear(net.first(x), net.last.weight.flip(1), net.last.bias),
    "of the values": lambda net, x: net.last(torch.relu(net.first(x)) if x.mean() < 9 else net.first(x)),
}


def rows():
    draws = np.random.default_rng(0)
    return draws.standard_normal((12, 4)), np.arange(12) % 3


def hessian(model, X, y, squared):
    """By PyTorch alone."""
    names = [name for name, _ in model.named_parameters()]
    sizes = [p.numel() for p in model.parameters()]
    targets = torch.tensor(np.eye(3)[y] - 1 / 3)

    def value(flat):
        parts = {n: part.view_as(p) for n, part, p in zip(names, flat.split(sizes), model.parameters(), strict=True)}
        out = torch.func.functional_call(model, parts, (torch.tensor(X),))
        if squared:
            return 0.5 * ((out - targets) ** 2).sum() / len(X)
        return nn.functional.cross_entropy(out, torch.tensor(y))

    flat = torch.cat([p.detach().reshape(-1) for p in model.parameters()])
    return torch.autograd.functional.hessian(value, flat).numpy()


@pytest.mark.parametrize("name", [*CHAINS, *OTHERS])
def test_products_are_those_of_torch(name):
    torch.manual_seed(1)
    make, links = CHAINS.get(name, (lambda: Other(OTHERS[name]), 0))
    model = make().double().eval()
    X, y = rows()
    for squared in (False, True):
        objective = objective_of(
            op.from_torch(model, X), (X, y), objective="squared" if squared else "cross-entropy", chunk=5
        )
        assert len(objective.links) == links
        H, v = hessian(model, X, y, squared), objective.normal(1)
        for w in (objective.start, objective.start, objective.start.clone()):  # kept, and at a new point
            np.testing.assert_allclose(objective.flat(objective.hessian_product(w, v)), H @ v.numpy(), atol=1e-12)


def test_batches_and_contexts_change_nothing():
    torch.manual_seed(1)
    model = CHAINS["mlp"][0]().double()
    X, y = rows()
    objective = objective_of(op.from_torch(model, X), (X, y), objective="cross-entropy")
    w, v = objective.start, objective.normal(1)
    exact = objective.flat(objective.hessian_product(w, v))
    with torch.autocast("cpu", dtype=torch.bfloat16), torch.no_grad():
        np.testing.assert_array_equal(objective.flat(objective.hessian_product(w, v)), exact)
    with torch.inference_mode():
        again = objective.hessian_product(w, v)
    assert not again.is_inference()
    np.testing.assert_array_equal(objective.flat(again), exact)
    drawn = [objective.flat(objective.hessian_product(w, v, Batch(6, 0, step))) for step in range(400)]
    error = np.std(drawn, axis=0, ddof=1) / 20
    assert (np.abs(np.mean(drawn, axis=0) - exact) <= 5 * error + 1e-12).all()


def test_a_loss_that_does_not_curve():
    X, y = rows()
    net = op.from_torch(nn.Linear(4, 3).double(), X)
    objective = objective_of(net, (X, y), objective=lambda outputs, targets: outputs.mean())
    assert len(objective.links) == 1
    assert not objective.hessian_product(objective.start, objective.normal(0)).any()
