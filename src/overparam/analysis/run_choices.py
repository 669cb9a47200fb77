"""What a run is made with: data as it is trained on, the network, the rate, whether a law covers it, and what it costs.

Before a run is paid for: operations by the compiler's count, time by a few timed steps, memory by shapes.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, final

import jax
import jax.numpy as jnp
import numpy as np

from overparam.analysis.run_answers import RunSetting
from overparam.analysis.run_forecast import MOST_OWN, LinearLaw, RunStart
from overparam.core.bracketed import Bracketed
from overparam.core.checks import positive
from overparam.core.machine import free_memory
from overparam.core.network import AbstractNetwork, Params, as_key
from overparam.core.spec import spec_of
from overparam.core.words import count_of
from overparam.data import Dataset, as_dataset
from overparam.data import preprocess as prepared
from overparam.data.scaling import standardise_targets
from overparam.networks import Given, TwoLayer
from overparam.training import SGD, AbstractAlgorithm, GradientDescent, Squared
from overparam.training.algorithm import loss_gradient, spec_of_algorithm
from overparam.training.arguments import Trainee, as_network, initial
from overparam.training.precision import chosen_device, computing

DEFAULT_WIDTH = 4_000


def default_network() -> TwoLayer:
    """Paired, so that it starts at 0; κ = 1, so that the weights need not move far."""
    return TwoLayer(DEFAULT_WIDTH, kappa=1.0, paired=True)


def chosen_network(network: Trainee | None, params: Any) -> AbstractNetwork:
    """The network as one of the house; None takes the default."""
    return default_network() if network is None else as_network(network, params)


def network_words(network: AbstractNetwork, words: str) -> str:
    """`words`, or the name of a function of the user's."""
    if not isinstance(network, Given):
        return words
    name = getattr(network.function, "__name__", "<")
    return "your function" if name.startswith("<") else name


def prepare_run(data: Any, how: str, network: AbstractNetwork) -> Dataset:
    """The data as it is trained on: features scaled, regression targets standardised with those of the training rows.

    "auto" leaves rows as they are for a function of the user's, which fits rows of one length alone.
    """
    source = as_dataset(data)
    if how == "auto" and isinstance(network, Given):
        ready = source.replace(note="rows were left as they are, for your function")
    else:
        ready = prepared(source, how)
    return standardise_targets(ready)


def seed_of(key: Any) -> int:
    """The int of a key; of a JAX key its last word, which is the seed it was made from where that was below 2³².

    >>> seed_of(3), seed_of(jax.random.key(3))
    (3, 3)
    """
    return int(jax.random.key_data(as_key(key)).ravel()[-1])


def draw_start(network: AbstractNetwork, data: Dataset, params: Any, key: Any, kind: Any) -> Params:
    """The weights to start from; a function that cannot take these rows is one line."""
    try:
        return initial(network, data, params, key, kind)
    except TypeError as error:
        if not isinstance(network, Given):
            raise
        why = str(error).strip().split("\n")[0]
        raise ValueError(
            f"{network_words(network, '')} does not take rows of shape {data.X.shape} with these `params`: {why}"
        ) from None


def require_outputs(network: AbstractNetwork, data: Dataset) -> None:
    """Raise where a network of one output meets several classes or targets."""
    outputs = 1 if isinstance(network, TwoLayer) else getattr(network, "outputs", data.k)
    if outputs == data.k:
        return
    name = type(network).__name__
    if data.k > 1:
        raise ValueError(
            f"{data.name} has {data.k} {'classes' if data.classes else 'targets'} and {name} has {outputs} "
            f"output{'' if outputs == 1 else 's'}; keep {'two classes' if data.classes else 'one'}, or take a network "
            f"with {count_of(data.k, 'output')}, such as FullyConnected"
        )
    raise ValueError(f"{data.name} needs one output and {name} has {outputs}; pass outputs=1")


def batched(how: SGD, n: int) -> bool:
    """Whether a step sees fewer than all rows."""
    return how.rows_a_step(n) < n


def without_law(how: SGD, n: int) -> str:
    """Why such a run has no law in closed form; empty where it has one."""
    if not isinstance(how.objective, Squared):
        return f"the objective is {how.objective.name}, and the law is that of the squared loss"
    if batched(how, n):
        return f"a step sees {how.batch:,} of {count_of(n, 'row')}, and the law is that of the full gradient"
    if how.weight_decay:
        return "weight decay pulls the weights towards 0, which the law does not have"
    return ""


def at_rate(how: SGD, rate: float, n: int) -> AbstractAlgorithm:
    """Gradient descent, or SGD where there is anything beyond it."""
    if batched(how, n) or how.momentum or how.weight_decay:
        return replace(how, lr=rate)
    return GradientDescent(rate, how.objective, how.loss)


SOME = 100
"""Rows on which a rate to begin with is estimated."""


def choose_rate(
    lr: float | None, law: LinearLaw | None, how: SGD, start: RunStart
) -> tuple[float, Bracketed | None, str]:
    """The rate, the largest stable one with its bracket, and how the rate was chosen (empty where it was given).

    2/(λ_max s) is stable where the objective's gradient in the outputs is s-Lipschitz; where there is no s there is no
    such rate, and that of the squared loss is a guess.
    """
    smooth = how.objective.smoothness
    found = None if law is None else law.stable_rate(how.loss, how.momentum, smooth or 1.0)
    limit = found if smooth else None
    if lr is not None:
        return positive(lr, "lr"), limit, ""
    if law is None or found is None:
        raise ValueError(
            "`lr` is missing, and there is no kernel of this network on these rows to compute a stable one from; begin with "
            f"`lr` {_rate_to_begin_with(start, how.loss):.1g}"
        )
    guess = f" for the squared loss, as a guess: the gradient of the {how.objective.name} loss jumps"
    guess = "" if smooth else guess
    if batched(how, law.H.n):
        return law.safe_batch_rate(how.loss, smooth or 1.0), limit, f"half of what no batch can make unstable{guess}"
    of = guess.replace(" for", " of")
    return float(found.lower or found.value) / 2, limit, f"half the largest stable one{of}"


def _rate_to_begin_with(start: RunStart, loss: str) -> float:
    """Half of 2/λ_max of the network's own tangent kernel, estimated on some rows."""
    from overparam.kernels import Empirical

    data = start.data
    X = np.asarray(data.X, float)[:SOME]
    with jax.enable_x64(True):
        params = jax.tree.map(lambda leaf: jax.numpy.asarray(leaf), start.params)
        kernels = [Empirical(start.network, params, outputs=output)(X) for output in range(data.k)]
    largest = max(float(np.linalg.eigvalsh(K)[-1]) for K in kernels) / len(X)
    known = np.isfinite(largest) and largest > 0
    return 1 / largest / (data.n if loss == "sum" else 1) if known else 1e-4


def describe_run(
    start: RunStart, how: SGD, dtype: str, rate: float, limit: Bracketed | None, rate_by: str
) -> RunSetting:
    """The setting as it goes into the result; rate, limit and rate_by are what `choose_rate` gave."""
    network, data = start.network, start.data
    return RunSetting(
        data=data.name,
        n=data.n,
        d=data.d,
        outputs=data.k,
        test_rows=0 if data.test is None else data.test.n,
        task=data.task,
        classes=tuple(str(c) for c in data.classes),
        notes=data.notes,
        network=network_words(network, str(spec_of(network))),
        algorithm=str(spec_of_algorithm(at_rate(how, rate, data.n))),
        objective=how.objective.name,
        width=None if hasattr(network, "grid") else getattr(network, "width", None),
        kappa=network.kappa if isinstance(network, TwoLayer) else None,
        paired=isinstance(network, TwoLayer) and network.paired,
        starts_at_zero=not np.any(start.outputs),
        lr=rate,
        loss=how.loss,
        momentum=how.momentum,
        limit=limit,
        rate_by=rate_by,
        lazy_scale=start.lazy_scale,
        output_layer=start.output_layer,
        linear=start.linear,
        dtype=dtype,
    )


SLOW = {"cpu": 1e10, "other": 4e12}
"""Operations a second that any machine of the kind does: good for telling a long run from a short one."""
SAMPLE = {"cpu": 2e9, "other": 2e12}
"""Operations of a step that is timed; a larger one is timed on fewer rows."""
STARTING = 3.0
"""Seconds for compiling and for small predictions."""
RECORD = 3.0
"""A record costs about this many steps: the gradient once more, signs, the kernel on some rows."""
MATRICES, WITH_OWN = 24, 40
"""Bytes a pair of rows: H∞ and a copy while it is made symmetric; with the drawn network's own kernel, counts of signs
and its copies beside it (35 measured)."""
PRODUCTS = 400
"""Vectors kept at most while a sweep goes."""


@final
class RunCost:
    """What a run will take: memory from shapes at once, seconds of its parts guessed low, or measured where asked."""

    def __init__(
        self, network: AbstractNetwork, data: Dataset, how: SGD, lr: float | None, params: Any, steps: int, records: int,
        keep_weights: bool, dtype: str, device: str | None,
    ) -> None:  # fmt: skip
        self.network, self.data, self.how, self.dtype, self.device = network, data, how, dtype, device
        self.rows, self.steps = how.rows_a_step(data.n), steps + RECORD * records
        place = chosen_device(device)
        self.sort = "cpu" if place.platform == "cpu" else "other"
        with computing(dtype, device) as kind:
            given = None if params is None else draw_start(network, data, params, 0, kind)
            self.shapes = jax.eval_shape(lambda: network.init(0, data.d) if given is None else given)
            one = jax.eval_shape(network.trace, self.shapes, jax.ShapeDtypeStruct((1, data.d), kind))
            self.given = jax.tree.map(np.asarray, given)  # None: drawn where a step is timed, and only then
            size = jnp.dtype(kind).itemsize
        self.weights, every, inside = (
            sum(int(np.prod(leaf.shape)) for leaf in jax.tree.leaves(of))
            for of in (self.shapes.trained, self.shapes, one.pre_activations)
        )
        # the weights four times over, every pre-activation of a batch three times, and its signs
        self.memory = int(size * (4 * every + 3 * self.rows * inside + 2 * data.X.size)) + data.n * inside
        if lr is None or not without_law(how, data.n):  # the matrices of the law, and the vectors of its sweep
            pair = WITH_OWN if data.k == 1 and data.n <= MOST_OWN else MATRICES
            self.memory += pair * data.n**2 + 8 * data.n * data.k * min(data.n, PRODUCTS)
        if keep_weights:  # in float64, while they are collected and written
            self.memory += 16 * records * self.weights
        self.free_memory = int(free_memory(place))

    @property
    def run_guess(self) -> float:
        """Seconds of the steps on a slow machine."""
        return STARTING + self.steps * 6.0 * self.rows * self.weights / SLOW[self.sort]

    @property
    def prediction_guess(self) -> float:
        """Seconds of the matrix and its products on a slow machine."""
        return 2.0 * self.data.n**2 * (self.data.d + 150) / SLOW[self.sort]

    def measured(self) -> Mapping[str, float]:
        """Seconds of the parts, from a few steps timed here; takes a second or two."""
        data, rows = self.data, self.rows
        with computing(self.dtype, self.device) as kind:

            def gradient(params: Params, X: Any, y: Any) -> Any:
                return loss_gradient(self.network, params, self.how.objective, "sum", X, y)[0]

            def like(dtype: Any) -> Any:
                return kind if jnp.issubdtype(dtype, jnp.floating) else dtype

            run = jax.jit(gradient)
            shapes = jax.tree.map(lambda leaf: jax.ShapeDtypeStruct(leaf.shape, like(leaf.dtype)), self.shapes)
            batch = (jax.ShapeDtypeStruct((rows, *array.shape[1:]), kind) for array in (data.X, data.y))
            counted: Any = run.lower(shapes, *batch).cost_analysis()  # by the compiler, before it compiles
            operations = float((counted or {}).get("flops", 0.0)) or 6.0 * rows * self.weights
            seconds = operations / SLOW[self.sort]
            if self.memory <= self.free_memory:
                few = int(np.clip(rows * SAMPLE[self.sort] / max(operations, 1.0), min(rows, 16), rows))
                drawn = self.network.init(0, data.d) if self.given is None else self.given
                params = jax.tree.map(lambda leaf: leaf.astype(like(leaf.dtype)), drawn)
                X, y = (jnp.asarray(array[:few], kind) for array in (data.X, data.y))
                times = []
                for _ in range(4):  # the first compiles
                    start = time.perf_counter()
                    jax.block_until_ready(run(params, X, y))
                    times.append(time.perf_counter() - start)
                seconds = min(times[1:]) * rows / few
        prediction = _prediction(self.network, data, self.sort)
        return {"prediction": prediction, "run": STARTING + seconds * self.steps}


def _prediction(network: AbstractNetwork, data: Dataset, sort: str) -> float:
    """The matrix and about a hundred products with it; a kernel of several layers is timed on a few rows."""
    n = data.n
    products = 100 * 2.0 * n * n / SLOW[sort]
    if isinstance(network, TwoLayer) or not hasattr(network, "kernel"):
        return products + 2.0 * n * n * (data.d + 50) / SLOW[sort]
    few = min(n, 24)
    start = time.perf_counter()
    try:
        network.kernel()(np.asarray(data.X[:few], dtype=np.float64))  # pyright: ignore[reportAttributeAccessIssue]
    except ValueError:  # it has none
        return 0.0
    return products + (time.perf_counter() - start) * (n / few) ** 2
