"""What the theory says of a run before its first step: the loss with its bracket, movement, laziness, new rows."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from overparam import kernels
from overparam.analysis.run_answers import Predicted
from overparam.core.bracketed import Bracketed
from overparam.core.kernel import AbstractInnerProductKernel, AbstractKernel
from overparam.core.machine import available_memory
from overparam.core.network import AbstractNetwork, Params
from overparam.core.progress import Progress
from overparam.core.words import byte_size
from overparam.data import Dataset
from overparam.engines import AbstractGram, as_gram, gram
from overparam.layers import Relu, Skip
from overparam.layers.layer import AbstractLayer
from overparam.networks import Given, TwoLayer
from overparam.spectrum import Quadrature, matrix_function, quadrature
from overparam.theory import (
    expected_flips,
    kappa_for_laziness,
    max_learning_rate,
    predict_loss,
    predict_movement,
    sample_flips,
    width_for_laziness,
)
from overparam.theory.integrands import growth, heavy_ball_growth, heavy_ball_movement
from overparam.theory.lazy_regime import ALIGNMENT
from overparam.theory.rates import loss_scale
from overparam.training import SGD
from overparam.training.measures import finite_gram, rows_that_fit
from overparam.training.precision import cast, computing

PIECE = 512
"""Rows whose outputs are computed at a time before training."""


@dataclass(frozen=True, eq=False)
class RunStart:
    """A run before its first step: data as it is trained on, the network with its drawn weights, their outputs."""

    data: Dataset
    network: AbstractNetwork
    params: Params
    outputs: np.ndarray
    new_outputs: np.ndarray | None
    device: str | None

    @property
    def residual(self) -> np.ndarray:
        """r0 = y − u(0)."""
        return self.data.y - self.outputs

    @cached_property
    def output_layer(self) -> str:
        """The trained layer after the last ReLU, in which the network is linear however far it moves; empty if none."""
        make = getattr(self.network, "composition", None)
        if make is None:
            return ""
        layers = _flat(make(self.data.d).layers)
        last = max((i for i, layer in enumerate(layers) if isinstance(layer, Relu)), default=-1)
        before = {getattr(layer, "name", "") for layer in layers[:last]}
        after = [layer for layer in layers[last + 1 :] if getattr(layer, "trained", False)]
        names = [str(getattr(layer, "name", "")) for layer in after]
        return names[0] if len(names) == 1 and names[0] not in before else ""

    @property
    def linear(self) -> bool:
        """Whether nothing but the output layer is trained, so that training is exactly linear."""
        return bool(self.output_layer) and set(self.params.trained) == {self.output_layer}

    @cached_property
    def lazy_scale(self) -> float | None:
        """√m κ of a two-layer network; √(Σ_ℓ m_ℓ σ_ℓ²), σ_ℓ² the mean square of an entry, of dense layers; else None.

        The output layer is left out: no ReLU comes after it.
        """
        if isinstance(self.network, TwoLayer):
            return float(np.sqrt(self.network.width) * self.network.kappa) or None
        trained = self.params.trained
        if self.output_layer:
            trained = {name: leaf for name, leaf in trained.items() if name != self.output_layer}
        leaves = [np.asarray(leaf, dtype=np.float64) for leaf in jax.tree.leaves(trained)]
        if isinstance(self.network, Given) or not leaves or any(leaf.ndim != 2 for leaf in leaves):
            return None  # which axis counts neurons is not known
        return float(np.sqrt(sum(len(leaf) * np.mean(leaf**2) for leaf in leaves))) or None

    def hidden_share(self, diagonal: np.ndarray) -> float:
        """How much of the movement is expected below the output layer, whose own kernel is h·h′ of the last ReLUs: by traces.

        An estimate: it takes the residual to be spread over the two kernels alike.
        """
        if not self.output_layer or self.linear:
            return 1.0
        with computing("float64", self.device):
            trace, params = jax.jit(self.network.trace), cast(self.params, jnp.float64)
            X, own = self.data.X, 0.0
            for i in range(0, len(X), PIECE):
                own += float(jnp.sum(trace(params, jnp.asarray(X[i : i + PIECE], jnp.float64)).activations[-1] ** 2))
        return float(np.sqrt(np.clip(1 - own / diagonal.sum(), 0.0, 1.0)))


def _flat(layers: tuple[AbstractLayer, ...]) -> list[AbstractLayer]:
    """Layers in the order of the forward pass, those inside skips among them."""
    return [inner for layer in layers for inner in (_flat(layer.layers) if isinstance(layer, Skip) else [layer])]


def begin(network: AbstractNetwork, data: Dataset, params: Params, dtype: str, device: str | None) -> RunStart:
    """The start of a run, its outputs in the precision of the run."""
    with computing(dtype, device) as kind:
        apply = jax.jit(network.apply)

        def outputs(X: np.ndarray) -> np.ndarray:
            parts = [np.asarray(apply(params, jnp.asarray(X[i : i + PIECE], kind))) for i in range(0, len(X), PIECE)]
            return np.concatenate(parts).astype(np.float64)

        new = None if data.test is None else outputs(data.test.X)
        return RunStart(data, network, params, outputs(data.X), new, device)


MOST_OWN = 10_000
"""Rows up to which the drawn network's own kernel is made as a matrix."""
MANY = 3_000
"""Rows from which the sweep for new rows is cut short."""


@dataclass(frozen=True, eq=False)
class LinearLaw:
    """The linear dynamics of a run: a Gram matrix, and the quadrature of y − u(0) under it.

    `source` says whose kernel it is: that of "infinite width", or of the drawn network at its "start".
    """

    H: AbstractGram
    q: Quadrature
    source: str
    kernel: AbstractKernel | None = None
    rows: np.ndarray | None = None

    def on_new(self, X: np.ndarray, coefficients: np.ndarray) -> np.ndarray:
        """K(x, X) c on new rows."""
        X = np.asarray(X, dtype=np.float64)
        if self.H.kernel is not None:
            return self.H.cross_product(X, coefficients)
        assert self.kernel is not None
        return self.kernel(X, self.rows) @ coefficients

    def stable_rate(self, loss: str, momentum: float, smoothness: float = 1.0) -> Bracketed:
        """The largest stable rate with its bracket, 2/(λ_max s) for an objective whose gradient in u is s-Lipschitz."""
        return max_learning_rate(self.q, loss, momentum=momentum).alone().through(lambda rate: rate / smoothness)

    def safe_batch_rate(self, loss: str, smoothness: float = 1.0) -> float:
        """1/(s n max_i H_ii) for the summed loss: half of what no batch makes unstable, as (n/b) λ_max(H_bb) ≤ n max_i H_ii."""
        n = self.H.n
        return 1 / (smoothness * n * float(self.H.diagonal().max()) * loss_scale(loss, n))


def limit_law(start: RunStart, progress: Progress) -> tuple[LinearLaw | None, str]:
    """The law of infinite width, or None and why there is none."""
    found, why = _kernel_of(start.network, start.data)
    if found is None:
        return None, why
    X = np.asarray(start.data.X, dtype=np.float64)
    progress(0, None, "Gram matrix")
    if isinstance(found, AbstractInnerProductKernel):
        H = gram(found, X, device=start.device)
    else:  # whose products would take as long as the matrix, each
        needed, free = 16 * len(X) ** 2, available_memory()
        if needed > free:
            return None, f"its kernel on {len(X):,} rows needs {byte_size(needed)} and {byte_size(free)} are free"
        H = gram(found, X, "dense", device=start.device, progress=progress)
    q = quadrature(H, start.residual, progress=progress)
    return LinearLaw(H, q, "infinite width", found, X), ""


def _kernel_of(network: AbstractNetwork, data: Dataset) -> tuple[AbstractKernel | None, str]:
    if isinstance(network, TwoLayer):
        if network.kappa == 0:
            return None, "κ is 0, so that every ReLU starts at its kink and nothing moves"
        return kernels.TwoLayer(), ""  # the same matrix as network.kernel(), with engines of its own
    name = "the given function" if isinstance(network, Given) else type(network).__name__
    none = f"{name} has no kernel of infinite width in closed form"
    make = getattr(network, "kernel", None)
    if make is None:
        return None, none
    kernel = make()
    try:
        kernel(np.asarray(data.X[:2], dtype=np.float64))
    except ValueError:  # layers that share weights, or skips that carry rectified units
        return None, none
    return kernel, ""


def own_law(start: RunStart, progress: Progress) -> LinearLaw | None:
    """The law of the drawn network linearised at its start, H(0); None where that is too large to make."""
    data = start.data
    if data.k != 1 or data.n > MOST_OWN:
        return None
    with computing("float64", start.device):
        X, params = jnp.asarray(data.X, jnp.float64), cast(start.params, jnp.float64)
        if rows_that_fit(start.network, params, X) < data.n:
            return None
        progress(0, None, "kernel at the start")
        H = np.asarray(jax.jit(finite_gram, static_argnums=0)(start.network, params, X), dtype=np.float64)
    if not np.isfinite(H).all() or not H.any():
        return None
    H = as_gram(_symmetric(H))
    return LinearLaw(H, quadrature(H, start.residual, bounds=None, max_products=min(data.n, 400)), "start")


def _symmetric(H: np.ndarray) -> np.ndarray:
    H = H + H.T
    H /= 2
    return H


def foretell(
    start: RunStart,
    law: LinearLaw,
    own: LinearLaw | None,
    steps: Any,
    lr: float,
    how: SGD,
    *,
    key: int,
    progress: Progress,
) -> Predicted:
    """Loss, movement, laziness, flips and new rows at each of `steps`, from `law`; the loss of `own` beside it.

    Ref: fine_grained, Thm 4.1, Eq. (8), Lemma 5.3, Eq. (17)
    """
    steps, loss, momentum = np.asarray(steps, dtype=np.int64), how.loss, how.momentum
    curve = predict_loss(law.q, steps, lr, loss, momentum=momentum)
    movement, certified = _movement(law.q, steps, lr, loss, momentum)
    stable = curve.status != "unstable"
    movement = np.where(np.isfinite(curve.values), movement, np.inf)  # once the loss has lost its meaning, so has this
    coefficients = _coefficients(start, law, steps, lr, loss, momentum, progress) if stable else None
    lazy = None
    if start.lazy_scale is not None:
        lazy = start.hidden_share(law.H.diagonal()) * movement[0] / start.lazy_scale
    test_error, test_loss = _on_new_rows(start, law, coefficients)
    linearised = None
    if own is not None and own is not law:
        linearised = np.asarray(predict_loss(own.q, steps, lr, loss, momentum=momentum).values)
    return Predicted(
        steps=steps,
        values=np.asarray(curve.values),
        lower=np.asarray(curve.lower),
        upper=np.asarray(curve.upper),
        certified=np.asarray(curve.certified),
        status=curve.status,
        reason=curve.reason,
        kernel=law.source,
        movement=movement,
        movement_certified=certified,
        laziness=lazy,
        flips=None if lazy is None else _flips(start, lazy, coefficients, key),
        linearised=linearised,
        test_error=test_error,
        test_loss=test_loss,
        products=law.q.products,
    )


def _movement(q: Quadrature, steps: np.ndarray, lr: float, loss: str, momentum: float) -> tuple[np.ndarray, np.ndarray]:
    if not momentum:
        curve = predict_movement(q, steps, lr, loss)
        return np.stack([curve.values, curve.lower, curve.upper]), np.asarray(curve.certified)
    values = heavy_ball_movement(q, steps, lr * loss_scale(loss, q.n, q.outputs), momentum)
    none = np.full(len(steps), np.nan)
    return np.stack([values, none, none]), np.zeros(len(steps), dtype=bool)


def _coefficients(
    start: RunStart, law: LinearLaw, steps: np.ndarray, lr: float, loss: str, momentum: float, progress: Progress
) -> np.ndarray | None:
    """c(s) of every step, (n, steps, outputs), all from one sweep; None where nothing needs them."""
    if law.source == "start" or (start.data.test is None and not isinstance(start.network, TwoLayer)):
        return None
    rate = lr * loss_scale(loss, law.H.n, start.data.k)

    def function(step: int) -> Any:
        if momentum:
            return lambda x: heavy_ball_growth(np.maximum(x, 0.0), step, rate, momentum)
        return lambda x: growth(np.maximum(x, 0.0), step, rate)

    most = None if law.H.n <= MANY else 400
    functions = [function(int(step)) for step in steps]
    found = matrix_function(law.H, start.residual, functions, tol=1e-7, max_products=most, progress=progress)
    return np.stack([values.reshape(law.H.n, -1) for values in found.values], axis=1)


def _flips(start: RunStart, lazy: np.ndarray, coefficients: np.ndarray | None, key: int) -> np.ndarray | None:
    """The expected share at each laziness, with the alignment of movement and rows taken from the data."""
    network = start.network
    if not isinstance(network, TwoLayer):
        return None
    alignment = ALIGNMENT
    if coefficients is not None and np.any(coefficients[:, -1]):
        X, c = np.asarray(start.data.X), coefficients[:, -1]
        alignment = sample_flips(X, c, network.width, network.kappa, neurons=200, key=key).alignment
    return np.where(np.isfinite(lazy), expected_flips(lazy, alignment), np.nan)


def _on_new_rows(
    start: RunStart, law: LinearLaw, coefficients: np.ndarray | None
) -> tuple[np.ndarray | None, np.ndarray | None]:
    """Error and mean loss on the test rows at every step: f_s(x) = f_0(x) + K(x, X) c(s)."""
    test = start.data.test
    if test is None or coefficients is None or start.new_outputs is None:
        return None, None
    n, steps, outputs = coefficients.shape
    moved = law.on_new(test.X, coefficients.reshape(n, -1)).reshape(test.n, steps, outputs)
    found = start.new_outputs.reshape(test.n, 1, outputs) + moved
    shaped = [found[:, i].reshape(test.y.shape) for i in range(steps)]
    losses = [0.5 * float(np.sum((test.y - f) ** 2)) / test.n for f in shaped]
    return np.array([wrong(test, f) for f in shaped]), np.array(losses)


def wrong(data: Dataset, outputs: np.ndarray) -> float:
    """The share of rows got wrong; for regression the mean square of the residuals (1 is guessing the mean)."""
    if data.task == "regression":
        return float(np.mean((data.y - outputs) ** 2))
    if data.y.ndim == 1:
        return float(np.mean(outputs * data.y <= 0))
    return float(np.mean(outputs.argmax(axis=1) != data.y.argmax(axis=1)))


def lazy_choices(
    start: RunStart, law: LinearLaw, predicted: Predicted, rate: float, how: SGD
) -> tuple[float | None, float | None]:
    """From which width, and from which κ, the same run would be lazy."""
    network = start.network
    if not isinstance(network, TwoLayer) or predicted.laziness is None or how.momentum:
        return None, None
    if predicted.status == "unstable":
        return None, None
    steps = int(predicted.steps[-1])
    width = width_for_laziness(law.q, steps, rate, kappa=network.kappa, loss=how.loss).value
    kappa = kappa_for_laziness(law.q, steps, rate, width=network.width, loss=how.loss).value
    return (float(width), float(kappa)) if np.isfinite(width) and np.isfinite(kappa) else (None, None)
