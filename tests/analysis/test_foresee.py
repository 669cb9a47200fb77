"""`op.foresee` against explicit Jacobians, linearised descent by hand, PyTorch's own optimiser and closed forms."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest

import overparam as op
from overparam.analysis import Forecast, model_law, prepare_foresee
from overparam.analysis.model_law import LinearDescent
from overparam.analysis.model_runs import ShortRuns, range_told

torch = pytest.importorskip("torch", reason="torch is not installed")
nn = torch.nn

EPS = float(np.finfo(np.float64).eps)
N, D = 12, 3
X = np.random.default_rng(1).standard_normal((N, D))
TWO = np.where(X[:, 0] > 0.2, "b", "a")
THREE = np.array(["a", "b", "c"])[np.digitize(X[:, 0], (-0.5, 0.5))]
CURVE: dict[str, Any] = {"probe": False}
"""Without short runs."""


def net(outputs: int, width: int = 6) -> nn.Module:
    torch.manual_seed(3)
    return nn.Sequential(nn.Linear(D, width), nn.Tanh(), nn.Linear(width, outputs)).double()


def jacobian(module: nn.Module) -> np.ndarray:
    """(n k, weights), by PyTorch's own, sample by sample."""
    weights = dict(module.named_parameters())

    def outputs(values: dict[str, torch.Tensor]) -> torch.Tensor:
        return torch.func.functional_call(module, values, (torch.tensor(X),)).reshape(-1)

    found = torch.func.jacrev(outputs)({name: w.detach() for name, w in weights.items()})
    return torch.cat([found[name].reshape(len(found[name]), -1) for name in weights], 1).numpy()


def outputs(module: nn.Module) -> np.ndarray:
    with torch.no_grad():
        return module(torch.tensor(X)).numpy().ravel()


def targets(labels: np.ndarray, k: int) -> np.ndarray:
    """As a `Dataset` has them: +1 for the first class of two, one-hot less 1/k of more; two outputs as of more."""
    codes = np.unique(labels, return_inverse=True)[1]
    return (1.0 - 2 * codes) if k == 1 else (np.eye(k)[codes] - 1 / k).ravel()


@pytest.mark.parametrize(("labels", "k"), [(TWO, 1), (TWO, 2), (THREE, 3)])
@pytest.mark.parametrize("momentum", [0.0, 0.8])
def test_the_law_is_descent_on_the_linearised_model(labels: np.ndarray, k: int, momentum: float) -> None:
    module = net(k)
    found = op.foresee(module, X, labels, momentum=momentum, **CURVE)
    J, r = jacobian(module), targets(labels, k) - outputs(module)
    M = 2 * J @ J.T / r.size
    top = np.linalg.eigvalsh(M)[-1]
    assert found.limit.lower <= 2 * (1 + momentum) / top <= found.limit.upper
    assert found.limit.certified
    assert found.first_loss == pytest.approx(np.mean(r**2), rel=1e-12)
    velocity, expected = np.zeros(J.shape[1]), []
    for _ in range(40):
        expected.append(np.mean(r**2))
        velocity = momentum * velocity + found.rate * 2 * J.T @ r / r.size
        r = r - J @ velocity
    # a step multiplies by I − ηM, whose norm is at most 1: rounding of the entries adds up over the steps
    np.testing.assert_allclose(found.loss_at(np.arange(40)), expected, rtol=0, atol=40 * 40 * 1e-12 * expected[0])


@pytest.mark.parametrize(("labels", "k"), [(TWO, 1), (TWO, 2), (THREE, 3)])
def test_the_curvature_of_the_cross_entropy_is_gauss_newtons(labels: np.ndarray, k: int) -> None:
    module = net(k)
    found = op.foresee(module, X, labels, objective="cross_entropy")
    J, u = jacobian(module), torch.tensor(outputs(module).reshape(N, k))
    p = torch.softmax(u, 1).numpy() if k > 1 else torch.sigmoid(u).numpy()
    blocks = [np.diag(row) - np.outer(row, row) for row in p]
    S = np.zeros((N * k, N * k))
    for i, block in enumerate(blocks):
        S[i * k : (i + 1) * k, i * k : (i + 1) * k] = block / N
    top = np.linalg.eigvalsh(J.T @ S @ J)[-1]
    assert found.limit.lower <= 2 / top <= found.limit.upper
    codes = np.unique(labels, return_inverse=True)[1]
    if k > 1:
        expected = nn.functional.cross_entropy(u, torch.tensor(codes))
    else:
        expected = nn.functional.binary_cross_entropy_with_logits(u[:, 0], torch.tensor(1.0 - codes))
    assert found.first_loss == pytest.approx(float(expected), rel=1e-12)
    assert found.diverges is None
    assert len(found.curve) == 0
    assert "says little" in found.verdict.sentences[0]
    with pytest.raises(ValueError, match="has no law"):
        found.loss_at([1])


def linear_models() -> dict[str, Callable[[], tuple[Any, dict[str, Any]]]]:
    def equinox() -> tuple[Any, dict[str, Any]]:
        import equinox as eqx

        return eqx.nn.Linear(D, 1, key=jax.random.key(0)), {}

    def flax() -> tuple[Any, dict[str, Any]]:
        from flax import nnx

        return nnx.Linear(D, 1, rngs=nnx.Rngs(0)), {}

    def linen() -> tuple[Any, dict[str, Any]]:
        from flax import linen

        module = linen.Dense(1)
        return op.from_flax(module, module.init(jax.random.key(0), X[:1].astype(np.float32))), {}

    def function() -> tuple[Any, dict[str, Any]]:
        start = {"w": np.zeros(D), "b": np.array(0.5)}
        return lambda params, x: x @ params["w"] + params["b"], {"params": start}

    return {
        "torch": lambda: (nn.Linear(D, 1), {}), "equinox": equinox, "flax": flax, "linen": linen, "function": function,
    }  # fmt: skip


@pytest.mark.parametrize("name", list(linear_models()))
@pytest.mark.parametrize("momentum", [0.0, 0.9])
def test_a_line_keeps_to_its_law_in_every_framework(name: str, momentum: float, tmp_path: Path) -> None:
    """Θ = x·x̃ + 1 in closed form; a linear model is its own linearisation, jumps and all."""
    model, options = linear_models()[name]()
    found = op.foresee(model, X, TWO, momentum=momentum, place=tmp_path, **options, **CURVE)
    again = prepare_foresee(model, X, TWO, momentum=momentum, place=tmp_path, **options, **CURVE)
    assert len(again.plan.kept) == 2
    top = np.linalg.eigvalsh(2 * (X @ X.T + 1) / N)[-1]
    assert found.limit.value == pytest.approx(2 * (1 + momentum) / top, rel=1e-10)
    assert found.weights == D + 1
    assert found.followed is not None
    assert found.followed.open
    assert len(found.followed.steps) > 70
    law = found.loss_at(found.followed.steps)
    np.testing.assert_allclose(found.followed.losses, law, rtol=0, atol=1e-8 * found.first_loss)


def test_its_own_steps_are_those_of_pytorch() -> None:
    module, labels = net(1), TWO
    found = op.foresee(module, X, labels, lr=0.2, momentum=0.5)
    assert found.followed is not None
    own = net(1)
    optimiser = torch.optim.SGD(own.parameters(), lr=0.2, momentum=0.5)
    y, losses = torch.tensor(targets(labels, 1)), []
    for _ in range(found.followed.exact + 1):
        optimiser.zero_grad()
        loss = nn.functional.mse_loss(own(torch.tensor(X))[:, 0], y)
        losses.append(loss.item())
        loss.backward()
        optimiser.step()
    exact = found.followed.exact + 1
    np.testing.assert_allclose(found.followed.losses[:exact], losses, rtol=1e-9)
    away = np.abs(found.loss_at(np.arange(exact)) / losses - 1)
    if found.followed.until < found.followed.exact:
        assert np.all(away[: found.followed.until + 1] <= 0.1)
        assert away[found.followed.until + 1] > 0.1


def test_jumps_come_close_to_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    """With the jumps from step 8 on, and with none: the same losses to a tenth of the tolerance, while it is believed."""
    module = net(1, 200)
    slow = op.foresee(module, X, TWO, **CURVE).followed
    monkeypatch.setattr(model_law, "EXACT", 8)
    quick = op.foresee(module, X, TWO, **CURVE).followed
    assert slow is not None
    assert quick is not None
    both = [step for step in quick.steps[quick.steps <= min(quick.until, 64)] if step in slow.steps]
    assert len(both) > 10
    one, other = (f.losses[np.isin(f.steps, both)] for f in (slow, quick))
    np.testing.assert_allclose(one, other, rtol=0.1 * model_law.TOLERANCE)


def test_products_with_jacobians_say_the_same_as_the_matrix(monkeypatch: pytest.MonkeyPatch) -> None:
    exact = op.foresee(net(3), X, THREE, **CURVE)
    monkeypatch.setattr(model_law, "DENSE", 0)
    found = op.foresee(net(3), X, THREE, **CURVE)
    assert found.products > 0
    assert not found.limit.certified
    assert found.limit.value == pytest.approx(exact.limit.value, rel=1e-9)
    np.testing.assert_allclose(found.curve, exact.curve, rtol=0, atol=1e-8 * exact.first_loss)
    entropy = op.foresee(net(3), X, THREE, objective="cross_entropy")
    monkeypatch.undo()
    assert entropy.limit.value == pytest.approx(
        op.foresee(net(3), X, THREE, objective="cross_entropy").limit.value, rel=1e-6
    )


def test_short_runs_are_pytorchs_and_the_range_holds_what_they_saw() -> None:
    module = net(1)
    found = op.foresee(module, X, TWO)
    runs, told = found.runs, found.diverges
    assert runs is not None
    assert told is not None
    assert "torch.optim.SGD" in runs.by
    assert runs.constant == pytest.approx(np.var(targets(TWO, 1)))
    assert runs.diverged.tolist() == [False] * (len(runs.rates) - 3) + [True] * 3
    assert runs.threshold == (runs.rates[-4], runs.rates[-3])
    assert told.lower < runs.rates[-4] < runs.rates[-3] < told.upper
    assert told.upper / told.lower == pytest.approx(3)
    own = net(1)
    optimiser = torch.optim.SGD(own.parameters(), lr=runs.rates[0])
    for _ in range(50):
        optimiser.zero_grad()
        nn.functional.mse_loss(own(torch.tensor(X))[:, 0], torch.tensor(targets(TWO, 1))).backward()
        optimiser.step()
    with torch.no_grad():
        last = nn.functional.mse_loss(own(torch.tensor(X))[:, 0], torch.tensor(targets(TWO, 1)))
    assert runs.losses[0, -1] == pytest.approx(last.item(), rel=1e-9)


def test_the_threshold_of_runs_is_where_some_diverge_and_where_all_do() -> None:
    last = np.array([1.0, np.inf, 1.0, np.inf, np.inf, np.inf])
    runs = ShortRuns(np.arange(1.0, 7.0), np.stack([np.ones(6), last], axis=1), "", 1.0)
    assert runs.threshold == (1.0, 4.0)
    told = range_told(runs, 1.0, 0.0)
    assert (told.lower, told.upper) == (pytest.approx(2 / 3**0.5), pytest.approx(2 * 3**0.5))


@pytest.mark.parametrize("objective", ["squared", "cross_entropy"])
def test_the_houses_short_runs_are_those_of_pytorch(objective: str) -> None:
    module = net(3)
    w = {name.replace(".", "_"): weight.detach().numpy() for name, weight in module.named_parameters()}

    def apply(w: Any, x: Any) -> Any:
        return jax.numpy.tanh(x @ w["0_weight"].T + w["0_bias"]) @ w["2_weight"].T + w["2_bias"]

    options: dict[str, Any] = {"objective": objective, "probe": True}
    one, other = op.foresee(module, X, THREE, **options), op.foresee(apply, X, THREE, params=w, **options)
    assert one.runs is not None
    assert other.runs is not None
    settled = one.runs.falls & (one.runs.losses.max(axis=1) < 2 * one.first_loss)  # none whose path amplifies rounding
    assert settled.sum() >= 2
    np.testing.assert_allclose(one.runs.losses[settled], other.runs.losses[settled], rtol=1e-6)
    assert one.limit.value == pytest.approx(other.limit.value, rel=1e-9)
    assert "overparam" in other.runs.by
    assert "easured" in one.verdict.sentences[0] + one.verdict.sentences[1]


class Normed(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.norm, self.drop, self.last = nn.Linear(D, 4), nn.BatchNorm1d(4), nn.Dropout(), nn.Linear(4, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.last(self.drop(torch.relu(self.norm(self.first(x)))))


def test_nothing_of_the_users_changes() -> None:
    torch.manual_seed(0)
    module = Normed()
    module.drop.eval()
    module.last.bias.grad = torch.ones(1)
    before = {name: value.clone() for name, value in module.state_dict().items()}
    modes = [layer.training for layer in module.modules()]
    state, threads, wide = torch.random.get_rng_state(), torch.get_num_threads(), jax.numpy.ones(1).dtype
    optimiser = torch.optim.SGD(module.parameters(), lr=0.1)
    found = op.foresee(module, X, TWO, optimizer=optimiser, probe=True)
    assert all(torch.equal(value, before[name]) for name, value in module.state_dict().items())
    assert [layer.training for layer in module.modules()] == modes
    assert torch.equal(torch.random.get_rng_state(), state)
    assert (torch.get_num_threads(), jax.numpy.ones(1).dtype) == (threads, wide)
    assert module.first.weight.grad is None
    assert module.last.bias.grad.item() == 1
    assert not optimiser.state
    assert found.rate == 0.1


def test_batch_norm_and_dropout_are_said() -> None:
    found = op.foresee(Normed(), X, TWO, probe=False)
    assert (found.batch_norm, found.dropout, found.diverges, len(found.curve)) == (True, True, None, 0)
    assert found.verdict.tone == "warning"
    words = " ".join(found.verdict.sentences)
    assert "batch norm" in words
    assert "Dropout was off" in words
    assert "came in training mode" in words
    assert "came in training mode" not in " ".join(op.foresee(Normed().eval(), X, TWO, probe=False).verdict.sentences)
    assert "probe=True" in words
    measured = op.foresee(Normed(), X, TWO)
    assert measured.diverges is not None
    assert measured.diverges.measured
    assert measured.verdict.sentences[0].startswith("Measured")


def test_steps_to_a_loss_and_the_range_without_runs() -> None:
    law = LinearDescent(np.array([1.0, 0.01]), np.array([0.9, 0.1]), 1.0, 0.0)
    assert law.first_below(1.0) == 0
    assert law.first_below(0.1) == 1
    # 0.1 · 0.99^{2s} ≤ 0.01 from s = log 0.1 / (2 log 0.99) = 114.6 on
    assert law.first_below(0.01) == 115
    assert law.first_below(1e-300, most=100) is None
    found = op.foresee(net(1), X, TWO, **CURVE)
    assert found.diverges is not None
    assert not found.diverges.measured
    assert found.diverges.upper / found.diverges.lower == pytest.approx(3)
    assert "not measured" in found.verdict.sentences[1]
    steps = [reached.steps for reached in found.reached]
    assert all(
        found.loss_at(s) <= r.loss < found.loss_at(s - 1) for s, r in zip(steps, found.reached, strict=True) if s
    )


@pytest.mark.parametrize(
    ("last", "labels", "objective", "words"),
    [
        (nn.Softmax(1), THREE, "cross_entropy", "sum to 1, and the cross-entropy (torch.nn.CrossEntropyLoss) applies a softmax"),
        (nn.Softmax(1), THREE, "squared", "take the softmax off its end"),
        (nn.Sigmoid(), TWO, "cross_entropy", "between 0 and 1, and the cross-entropy (torch.nn.BCEWithLogitsLoss)"),
        (nn.LogSoftmax(1), THREE, "cross_entropy", ""),
    ],
)  # fmt: skip
def test_a_second_softmax_is_warned_of(last: nn.Module, labels: np.ndarray, objective: str, words: str) -> None:
    """Of log-probabilities none is said: the softmax of them is the same."""
    found = op.foresee(net(len(set(labels)) - (labels is TWO)).append(last), X, labels, objective=objective, **CURVE)
    said = " ".join(found.verdict.sentences)
    assert (words in said) if words else ("outputs" not in said)
    assert found.verdict.tone == "warning"


def test_columns_of_unlike_width_are_told_of() -> None:
    X = np.random.default_rng(3).normal(size=(30, 3)) * [1.0, 1.0, 500.0]
    data = (X, np.sign(X[:, 0]))
    torch.manual_seed(0)
    found = op.foresee(nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 1)), data, probe=False)
    told = " ".join(found.verdict.sentences)
    assert found.scales == pytest.approx(X.std(axis=0).max() / X.std(axis=0).min())
    assert (found.verdict.tone, "Scale the columns" in told) == ("warning", True)
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 1))
    scaled = op.foresee(model, data, probe=False, preprocess="standardise")
    assert "Scale the columns" not in " ".join(scaled.verdict.sentences)


def test_a_curve_that_is_left_at_once_says_so() -> None:
    """At the edge of what is stable a narrow model of curved units is off its linearisation after one step."""
    found = op.foresee(
        net(1, 2), X, 30 * X[:, 0], lr=0.9 * op.foresee(net(1, 2), X, 30 * X[:, 0], **CURVE).limit.value, **CURVE
    )
    assert found.believe_until == 0
    assert "Do not believe that curve: the model leaves it at the first step" in " ".join(found.verdict.sentences)


def test_tokens_and_half_precision_are_taken() -> None:
    tokens = np.random.default_rng(2).integers(0, 5, (N, D))
    found = op.foresee(Tokens(), tokens, TWO, **CURVE)
    assert found.precision == "float32"
    half = op.foresee(net(1).half(), X, TWO, **CURVE)
    assert (half.precision, half.training) == ("float16", True)
    assert "Its weights are float16" in half.verdict.sentences[-1]


def test_images_rows_and_more_rows_than_are_used() -> None:
    images = np.random.default_rng(0).random((40, 4, 4))
    labels = np.arange(40) % 2
    torch.manual_seed(0)
    model = nn.Sequential(nn.Conv2d(1, 2, 3), nn.ReLU(), nn.Flatten(), nn.Linear(8, 1))
    found = op.foresee(model, images, labels, max_rows=30, **CURVE)
    assert (found.rows, found.source_rows, found.outputs) == (30, 40, 1)
    assert "30 of 40 rows" in found.verdict.sentences[-1]
    flat = op.foresee(nn.Linear(16, 1), images, labels, **CURVE)
    assert flat.rows == 40
    wrapped = op.from_torch(model, images[:2, None].astype(np.float32))
    assert op.foresee(wrapped, images, labels, **CURVE).framework == "PyTorch"


class Broken(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.w = nn.Parameter(torch.ones(D))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.log(-((x @ self.w) ** 2))


class Still(nn.Module):
    """Gives 0 whatever its weight is."""

    def __init__(self) -> None:
        super().__init__()
        self.w = nn.Parameter(torch.ones(D))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return (x @ self.w) * 0


class Hungry(nn.Module):
    """Says what PyTorch says where memory runs out, on more rows than the example has."""

    def __init__(self) -> None:
        super().__init__()
        self.line = nn.Linear(D, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if len(x) > 2:
            raise RuntimeError(
                "[enforce fail] DefaultCPUAllocator: can't allocate memory: you tried to allocate 8 bytes"
            )
        return self.line(x)


class Tokens(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.table, self.last = nn.Embedding(5, 2), nn.Linear(2 * D, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.last(self.table(x).flatten(1))


def hungry_function(w: Any, x: Any) -> Any:
    raise MemoryError


def frozen() -> nn.Module:
    return nn.Linear(D, 1).requires_grad_(False)


def several() -> torch.optim.Optimizer:
    module = nn.Linear(D, 2)
    return torch.optim.SGD([{"params": [module.weight]}, {"params": [module.bias], "lr": 1.0}], lr=0.1)


WRONG: dict[str, tuple[Callable[[], Any], str]] = {
    "other outputs": (lambda: op.foresee(nn.Linear(D, 4), X, THREE), "4 numbers a row and .* 3 classes; expected 3"),
    "two outputs for one target": (lambda: op.foresee(nn.Linear(D, 2), X, X[:, 0]), "2 numbers a row .* 1 target"),
    "other inputs": (lambda: op.foresee(nn.Linear(5, 1), X, TWO), "3 numbers"),
    "memory": (lambda: op.foresee(Hungry(), X, TWO), "12 rows at once does not fit .* `max_rows=3`"),
    "JAX's memory": (lambda: op.foresee(hungry_function, X, TWO, params=np.zeros(D)), "does not fit .* `max_rows=3`"),
    "no whole numbers": (lambda: op.foresee(Tokens(), X, TWO), "Long, Int.* embedding needs whole numbers"),
    "NaN": (lambda: op.foresee(Broken(), X, TWO), "NaN"),
    "no trained weights": (lambda: op.foresee(frozen(), X, TWO), "no trained weights"),
    "nothing moves": (lambda: op.foresee(Still(), X, TWO), "moves the outputs"),
    "no model": (lambda: op.foresee(3, X, TWO), "`network` is 3"),
    "a module's params": (lambda: op.foresee(nn.Linear(D, 1), X, TWO, params={}), "leave them out"),
    "regression by classes": (
        lambda: op.foresee(nn.Linear(D, 1), X, X[:, 0], objective="cross_entropy"), "has no classes",
    ),
    "Adam": (lambda: op.foresee(net(1), X, TWO, optimizer=torch.optim.Adam(net(1).parameters())), "a Adam; expected"),
    "decay": (
        lambda: op.foresee(net(1), X, TWO, optimizer=torch.optim.SGD(net(1).parameters(), 0.1, weight_decay=1.0)),
        "weight_decay",
    ),
    "groups": (lambda: op.foresee(net(1), X, TWO, optimizer=several()), "several groups"),
    "rate": (lambda: op.foresee(net(1), X, TWO, lr=-1.0), "`lr`"),
    "momentum": (lambda: op.foresee(net(1), X, TWO, momentum=1.0), "`momentum`"),
    "precision": (lambda: op.foresee(net(1), X, TWO, dtype="float32"), "`dtype`"),
}  # fmt: skip


@pytest.mark.parametrize("how", list(WRONG))
def test_what_cannot_be_foreseen_is_one_line(how: str) -> None:
    ask, words = WRONG[how]
    with pytest.raises(ValueError, match=words) as caught:
        ask()
    assert "\n" not in str(caught.value)


def test_the_houses_optimisers_are_read() -> None:
    """Their rates are for ½ Σ (y − u)², or its mean over rows; here they are for the mean over rows and outputs of (u − y)²."""
    found = op.foresee(net(3), X, THREE, optimizer=op.training.SGD(0.05, momentum=0.3, loss="mean"), **CURVE)
    assert found.rate == pytest.approx(0.05 * 3 / 2)
    assert (found.momentum, found.rate_by) == (0.3, "")
    assert isinstance(found, Forecast)
    high = op.foresee(net(1), X, TWO, optimizer=op.training.GradientDescent(1e3), **CURVE)
    assert high.rate == pytest.approx(1e3 * N / 2)
    assert high.verdict.tone == "bad"
    assert high.verdict.sentences[0].startswith("The rate 6,000 is too high: training diverges, and no curve")
    assert "Take " in high.verdict.sentences[0]
    assert not any("elieve" in words for words in high.verdict.sentences)
    assert "How fast" not in " ".join(section.title for section in high.sections())
    own = op.foresee(net(1), X, TWO, optimizer=op.training.SGD(1.0, momentum=0.3), lr=0.05, **CURVE)
    assert (own.rate, own.momentum) == (0.05, 0.3)
    with pytest.raises(ValueError, match="`optimizer` has batch"):
        op.foresee(net(1), X, TWO, optimizer=op.training.SGD(1.0, batch=4))


@pytest.mark.parametrize("momentum", [0.0, 0.9])
def test_a_model_that_is_linear_in_its_weights_has_one_threshold(momentum: float) -> None:
    torch.manual_seed(0)
    module = nn.Linear(D, 1).double()
    found = op.foresee(module, (X, X @ [1.0, 2.0, -1.0]), momentum=momentum)
    inputs = np.column_stack([X, np.ones(N)])
    by_hand = 2 * (1 + momentum) / np.linalg.eigvalsh(2 * inputs.T @ inputs / N)[-1]
    assert found.diverges is not None
    assert found.diverges.exact
    assert found.diverges.lower <= by_hand <= found.diverges.upper
    assert found.diverges.upper / found.diverges.lower < 1 + 1e-9
    assert found.runs is None, "there is nothing to measure"
    assert f"Training diverges above {by_hand:.3g}: this model is linear" in found.verdict.sentences[1]
    for ratio, diverges in ((0.98, False), (1.02, True)):
        run = torch.optim.SGD((weights := nn.Linear(D, 1).double()).parameters(), lr=ratio * by_hand, momentum=momentum)
        losses = []
        for _ in range(600):
            run.zero_grad()
            loss = ((weights(torch.tensor(X))[:, 0] - torch.tensor(X @ [1.0, 2.0, -1.0])) ** 2).mean()
            loss.backward()
            run.step()
            losses.append(float(loss.detach()))
        assert (losses[-1] > losses[0]) == diverges


def test_what_is_linear_in_its_weights_is_seen() -> None:
    torch.manual_seed(0)
    frozen = nn.Sequential(nn.Linear(D, 5), nn.ReLU(), nn.Linear(5, 1)).double()
    whole = op.foresee(frozen, (X, X[:, 0]), probe=False)
    for weights in frozen[0].parameters():
        weights.requires_grad_(False)
    last = op.foresee(frozen, (X, X[:, 0]), probe=False)
    assert (whole.diverges.exact, last.diverges.exact) == (False, True)
