"""What the studies of `fine_grained` share: its image pairs, one training run as a part, and the prediction beside it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from overparam.analysis.run_answers import largest, relative_error
from overparam.data import Dataset, corrupt_labels, load, unit_rows
from overparam.engines import gram
from overparam.frame import Part, Work
from overparam.kernels import TwoLayer as Kernel
from overparam.networks import TwoLayer
from overparam.spectrum import quadrature
from overparam.studies.study import planned
from overparam.theory import predict_loss, predict_movement
from overparam.training import gradient_descent
from overparam.training.measures import finite_gram
from overparam.training.precision import computing

MNIST, CIFAR, DIGITS = "mnist", "cifar10", "digits"
ABSENT = "data sets that are not here"


def image_pair(name: str, train: int, test: int) -> Dataset:
    """The first two classes of an image set, unit rows, labels ±1: the paper's data.

    Ref: fine_grained, App. A
    """
    return unit_rows(load(name, classes=(0, 1), train=train, test=test))


def found_pairs(names: Sequence[str], train: int, test: int) -> tuple[dict[str, Dataset], Part]:
    """The image pairs that are there, and a part that tells of each that is not; an error where none is."""
    found: dict[str, Dataset] = {}
    missing: list[FileNotFoundError] = []
    lines: list[str] = []
    for name in dict.fromkeys(names):
        try:
            found[name] = image_pair(name, train, test)
        except FileNotFoundError as error:
            missing.append(error)
            lines.append(f"{name} was left out: {error}")
    if not found:
        raise missing[0]
    return found, Part(ABSENT, _told, (tuple(lines),))


def _told(work: Work, lines: Sequence[str]) -> dict[str, Any]:
    return {"lines": np.array(lines, dtype=str)}


def with_random_labels(data: Dataset, key: int, share: float = 1.0) -> Dataset:
    """A share of the labels redrawn at random, the same for every part of a study."""
    return corrupt_labels(data, share, key=key).data


def run_seconds(data: Dataset, width: int, steps: int, device: str | None) -> float:
    """Planned for one run: two products of n × d × m a step."""
    return planned(4.0 * data.n * data.d * width * steps, steps, device)


def trained(work: Work, data: Dataset, network: TwoLayer, key: int, options: Mapping[str, Any]) -> dict[str, Any]:
    """One training run: everything recorded, without the weights. `options` are those of `gradient_descent`."""
    run = gradient_descent(
        network, data, key=key, device=work.device, kernel_rows=1000, place=work.place, progress=work.progress,
        **options,
    )  # fmt: skip
    kept = {name: value for name, value in run.records.items() if not name.endswith("outputs")}
    ends = {"initial_outputs": run.outputs[0], "last_outputs": run.outputs[-1]}
    if "test_outputs" in run.records:
        ends |= {"initial_test_outputs": run.test_outputs[0], "last_test_outputs": run.test_outputs[-1]}
    return kept | ends | {"steps": run.steps, "stopped": str(run.stopped), "seconds_per_step": run.seconds_per_step}


def forecasts(
    work: Work, data: Dataset, residuals: np.ndarray, steps: np.ndarray, lr: float, H: Any = None
) -> dict[str, Any]:
    """Predicted loss (with its bracket) and movement for several residuals y − u(0) at once, an output a residual.

    Ref: fine_grained, Thm 4.1, Eq. (8)

    Args:
        H: the matrix to predict from; the one of infinite width if None.
    """
    matrix = gram(Kernel(), data.X, device=work.device) if H is None else H
    q = quadrature(matrix, residuals, progress=work.progress)
    curve = predict_loss(q, steps, lr)
    each, moves = curve.per_output, predict_movement(q, steps, lr).per_output
    assert each is not None
    assert moves is not None
    return {
        "loss": each.value, "lower": each.lower, "upper": each.upper, "certified": each.certified,
        "movement": moves.value, "stable": curve.status, "products": q.products,
        "limit": 0.0 if curve.limit is None else curve.limit.value,
    }  # fmt: skip


def starting_gram(work: Work, data: Dataset, network: TwoLayer, key: int) -> np.ndarray:
    """H(0) of the very network that `trained` starts from: what is left of its error is not the width's.

    Ref: fine_grained, Lemma C.3
    """
    with computing("float64", work.device):
        params = network.init(key, data.d)
        return np.asarray(jax.jit(finite_gram, static_argnums=0)(network, params, jnp.asarray(data.X, jnp.float64)))


def largest_error(observed: np.ndarray, predicted: np.ndarray) -> float | None:
    """The largest |observed / predicted − 1|; None where there is no finite prediction."""
    worst = largest(relative_error(observed, predicted))[0]
    return None if worst is None else abs(worst)


def log_steps(steps: int, every: int, points: int = 30) -> list[int]:
    """Steps to record: evenly spaced ones for a linear axis and evenly spaced logarithms for the start."""
    logs = np.unique(np.geomspace(1, steps, points).round().astype(int)).tolist()
    return sorted({0, steps, *logs, *range(0, steps, every)})
