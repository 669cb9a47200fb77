"""Gradients of single samples in factors, against derivatives of one sample at a time."""

from __future__ import annotations

from dataclasses import replace

import jax
import numpy as np
import pytest
from away_cases import deep, jacobian, moved, subject_of, unit_rows

from overparam.audits import convergence_9_10_gradients as gradients
from overparam.audits.conditions import hidden_alone
from overparam.audits.convergence_9_10_gradients import gradients_at_start
from overparam.audits.gradient_factors import kernel_by_layers, layer_factors, sample_squares
from overparam.audits.subject import Subject
from overparam.networks import Convolutional, Residual


def one_by_one(subject: Subject, weights, U: np.ndarray) -> np.ndarray:
    """‖∂(u_iᵀf(x_i))/∂W‖² by weight and sample, of JAX's reverse mode on the network itself."""
    with jax.enable_x64(True):
        params = subject.params

        def value(trained, x, u):
            return (subject.network.apply(replace(params, trained=trained), x[None]).reshape(-1) * u).sum()

        slope = jax.jit(jax.grad(value))
        slopes = [slope(dict(weights), x, u) for x, u in zip(subject.X, U, strict=True)]
    return np.array([[float((np.asarray(slope[name]) ** 2).sum()) for slope in slopes] for name in subject.places])


@pytest.mark.parametrize("outputs", [1, 3])
def test_all_samples_of_a_deep_network(outputs: int) -> None:
    subject = deep(n=5, outputs=outputs)
    W = moved(subject, 0.2)
    U = np.random.default_rng(1).standard_normal((5, outputs))
    found, rows = sample_squares(subject, W, U, most=1)
    J = np.einsum("nk,nkp->np", U, jacobian(subject, W)).reshape(5, 3, 64)
    np.testing.assert_allclose(found, (J**2).sum(axis=2).T, rtol=1e-10)
    assert rows.tolist() == list(range(5))


def test_skips_count_too() -> None:
    subject = subject_of(Residual(width=8, depth=4, outputs=2), unit_rows(4, 3))
    U = np.random.default_rng(1).standard_normal((4, 2))
    found, rows = sample_squares(subject, subject.weights, U, most=1)
    np.testing.assert_allclose(found, one_by_one(subject, subject.weights, U), rtol=1e-10)
    assert len(rows) == 4


def test_where_gradients_do_not_come_in_factors_the_largest_samples_are_looked_at() -> None:
    subject = subject_of(Convolutional(4, 3, (3, 3), outputs=2), unit_rows(5, 9))
    U = np.random.default_rng(1).standard_normal((5, 2))
    assert layer_factors(subject, subject.weights, [U]) is None
    found, rows = sample_squares(subject, subject.weights, U, most=3)
    assert rows.tolist() == np.argsort(-(U**2).sum(axis=1))[:3].tolist()
    np.testing.assert_allclose(found, one_by_one(subject, subject.weights, U)[:, rows], rtol=1e-10)


def test_a_weight_used_twice_is_noticed() -> None:
    """Its shape is that of a layer, and the formula is wrong for it."""
    torch = pytest.importorskip("torch")
    import overparam as op

    class Tied(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.inner, self.last = (torch.nn.Linear(a, b, bias=False) for a, b in ((3, 6), (6, 6), (6, 1)))

        def forward(self, x):
            h = torch.relu(self.first(x))
            return self.last(torch.relu(self.inner(torch.relu(self.inner(h)))))

    torch.manual_seed(0)
    X = unit_rows(4, 3)
    module = op.from_torch(Tied().double(), torch.tensor(X[:1]))
    subject = Subject(module, None, X, np.ones((4, 1)), (0.1,))
    U = np.ones((4, 1))
    factors = layer_factors(subject, subject.weights, [U])
    assert factors is not None
    assert len(sample_squares(subject, subject.weights, U, most=2)[1]) == 2
    assert kernel_by_layers(subject, subject.weights) is None


def test_biases_are_factors_and_said_to_move() -> None:
    torch = pytest.importorskip("torch")
    import overparam as op

    torch.manual_seed(0)
    layers = torch.nn.Sequential(
        torch.nn.Linear(3, 6), torch.nn.ReLU(), torch.nn.Linear(6, 6), torch.nn.ReLU(), torch.nn.Linear(6, 2)
    ).double()
    X = unit_rows(4, 3)
    module = op.from_torch(layers, torch.tensor(X[:1]))
    subject = Subject(module, None, X, np.ones((4, 2)), (0.1,))
    U = np.random.default_rng(2).standard_normal((4, 2))
    found, rows = sample_squares(subject, subject.weights, U, most=1)
    assert len(rows) == 4
    for i in range(4):
        layers.zero_grad()
        (layers(torch.tensor(X[i])) * torch.tensor(U[i])).sum().backward()
        expected = {name: float((p.grad**2).sum()) for name, p in layers.named_parameters()}
        np.testing.assert_allclose(found[:, i], [expected[name] for name in subject.places], rtol=1e-10)
    K = kernel_by_layers(subject, subject.weights)
    assert K is not None
    J = []
    for i in range(4):
        for r in range(2):
            layers.zero_grad()
            layers(torch.tensor(X[i]))[r].backward()
            J.append(np.concatenate([p.grad.numpy().ravel() for p in layers.parameters()]))
    np.testing.assert_allclose(K, np.array(J) @ np.array(J).T, rtol=1e-10, atol=1e-12)
    told = hidden_alone(subject)
    assert told.status == "unmet"
    assert "0.weight" in told.detail
    assert hidden_alone(deep()).status == "met"


def test_the_adversary_finds_at_least_what_the_others_do() -> None:
    subject = deep(n=4, outputs=2)
    found = [f for f in gradients.gradient_bounds(subject) if f.law.name == gradients.SAMPLES.name]
    kinds = {f.moment: f.values for f in found}
    assert (kinds["adversarial"] >= kinds["random"]).all()
    assert (kinds["adversarial"] >= kinds["training"]).all()
    assert (kinds["adversarial"] > kinds["random"]).any()


def test_the_start_asks_for_enough_width() -> None:
    """Lemma 9.3 is likely only where δm/n is large."""
    for n, status in ((2, "met"), (40, "unmet")):
        told = [c for c in gradients_at_start(deep(n=n))[0].range if c.statement.startswith("δ m/n")]
        assert [c.status for c in told] == [status], told
