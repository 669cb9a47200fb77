"""What a run is made with: data as it is trained on, the network, the rate, and whether a law covers it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import jax
import numpy as np

from overparam.analysis.data_rows import standardised_targets
from overparam.analysis.run_answers import RunSetting
from overparam.analysis.run_forecast import Law, Start
from overparam.core.bracketed import Bracketed
from overparam.core.checks import positive
from overparam.core.network import AbstractNetwork, Params, as_key
from overparam.data import Dataset, as_dataset
from overparam.data import preprocess as prepared
from overparam.networks import Given, TwoLayer
from overparam.training import AbstractAlgorithm, AbstractLoss, GradientDescent, Squared, Trajectory
from overparam.training.arguments import Trainee, as_network, initial
from overparam.training.mini_batch import make_sgd
from overparam.training.precision import checked_dtype

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
    if ready.task != "regression":
        return ready
    if float(np.ptp(ready.y)) == 0:
        raise ValueError(f"{ready.name}: every training target is {ready.y[0]:g}; there is nothing to learn")
    y, test = standardised_targets(ready.y, ready.y), ready.test
    if test is not None:
        test = test.replace(y=standardised_targets(test.y, ready.y))
    return ready.replace(y=y, test=test, note="targets were centred and scaled to variance 1")


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
            f"with {data.k} outputs, such as FullyConnected"
        )
    raise ValueError(f"{data.name} needs one output and {name} has {outputs}; pass outputs=1")


@dataclass(frozen=True)
class Recipe:
    """How a network is trained, but for the rate: checked once, asked for laws and algorithms."""

    batch: int | None
    momentum: float
    weight_decay: float
    objective: AbstractLoss
    loss: str
    dtype: str
    device: str | None

    @classmethod
    def of(
        cls, *, batch: Any, momentum: Any, weight_decay: Any, objective: Any, loss: str, dtype: str, device: str | None
    ) -> Recipe:
        """With every argument checked."""
        checked_dtype(dtype, device)
        made = make_sgd(1.0, batch=batch, momentum=momentum, weight_decay=weight_decay, objective=objective, loss=loss)
        return cls(made.batch, made.momentum, float(made.weight_decay), made.objective, loss, dtype, device)

    def batched(self, n: int) -> bool:
        """Whether a step sees fewer than all rows."""
        return self.batch is not None and self.batch < n

    def without_law(self, n: int) -> str:
        """Why such a run has no law in closed form; empty where it has one."""
        if not isinstance(self.objective, Squared):
            return f"the objective is {self.objective.name}, and the law is that of the squared loss"
        if self.batched(n):
            return f"a step sees {self.batch:,} of {n:,} rows, and the law is that of the full gradient"
        if self.weight_decay:
            return "weight decay pulls the weights towards 0, which the law does not have"
        return ""

    def algorithm(self, rate: float, n: int) -> AbstractAlgorithm:
        """Gradient descent, or SGD where there is anything beyond it."""
        if not (self.batched(n) or self.momentum or self.weight_decay):
            return GradientDescent(rate, self.objective, self.loss)
        return make_sgd(
            rate,
            batch=self.batch,
            momentum=self.momentum,
            weight_decay=self.weight_decay,
            objective=self.objective,
            loss=self.loss,
        )


SOME = 100
"""Rows on which a rate to begin with is estimated."""


def choose_rate(lr: float | None, law: Law | None, recipe: Recipe, start: Start) -> tuple[float, Bracketed | None, str]:
    """The rate, the largest stable one with its bracket, and how the rate was chosen (empty where it was given).

    2/(λ_max s) is stable where the objective's gradient in the outputs is s-Lipschitz; where there is no s there is no
    such rate, and that of the squared loss is a guess.
    """
    smooth = recipe.objective.smoothness
    found = None if law is None else law.stable_rate(recipe.loss, recipe.momentum, smooth or 1.0)
    limit = found if smooth else None
    if lr is not None:
        return positive(lr, "lr"), limit, ""
    if law is None or found is None:
        raise ValueError(
            "`lr` is missing, and there is no kernel of this network on these rows to compute a stable one from; begin with "
            f"`lr` {_rate_to_begin_with(start, recipe.loss):.1g}"
        )
    guess = (
        "" if smooth else f" for the squared loss, as a guess: the gradient of the {recipe.objective.name} loss jumps"
    )
    if recipe.batched(law.H.n):
        return law.safe_batch_rate(recipe.loss, smooth or 1.0), limit, f"half of what no batch can make unstable{guess}"
    of = guess.replace(" for", " of")
    return float(found.lower or found.value) / 2, limit, f"half the largest stable one{of}"


def _rate_to_begin_with(start: Start, loss: str) -> float:
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


def describe_run(network: AbstractNetwork, data: Dataset, recipe: Recipe, run: Trajectory, known: Any) -> RunSetting:
    """The setting as it goes into the result; `known` is what was foretold (`Foretold`)."""
    two_layer = isinstance(network, TwoLayer)
    return RunSetting(
        data=data.name,
        n=data.n,
        d=data.d,
        outputs=data.k,
        test_rows=0 if data.test is None else data.test.n,
        task=data.task,
        classes=tuple(str(c) for c in data.classes),
        notes=data.notes,
        network=network_words(network, str(run.network)),
        algorithm=str(run.algorithm),
        objective=recipe.objective.name,
        width=None if hasattr(network, "grid") else getattr(network, "width", None),
        kappa=network.kappa if two_layer else None,
        paired=two_layer and network.paired,
        starts_at_zero=known.starts_at_zero,
        lr=known.rate,
        loss=recipe.loss,
        momentum=recipe.momentum,
        limit=known.limit,
        rate_by=known.rate_by,
        lazy_scale=known.lazy_scale,
        output_layer=known.output_layer,
        linear=known.linear,
        dtype=recipe.dtype,
    )
