"""What the studies of `fine_grained` share: its image pairs, one training run as a part, and the prediction beside it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from overparam.analysis.run_answers import largest, relative_error
from overparam.core import sections
from overparam.data import Dataset, corrupt_labels, load, unit_rows
from overparam.engines import gram
from overparam.kernels import TwoLayer as Kernel
from overparam.networks import TwoLayer
from overparam.spectrum import quadrature
from overparam.studies.study import Workplace
from overparam.theory import predict_loss, predict_movement
from overparam.training import gradient_descent
from overparam.training.measures import finite_gram
from overparam.training.precision import computing

MNIST, CIFAR, DIGITS = "mnist", "cifar10", "digits"


def image_pair(name: str, train: int, test: int) -> Dataset:
    """The first two classes of an image set, unit rows, labels ±1: the paper's data.

    Ref: fine_grained, App. A
    """
    return unit_rows(load(name, classes=(0, 1), train=train, test=test))


def found_pairs(names: tuple[str, ...], train: int, test: int) -> tuple[dict[str, Dataset], list[sections.Text]]:
    """The image pairs that are there, and a line for each that is not; an error where none is."""
    found, missing = {}, []
    for name in names:
        try:
            found[name] = image_pair(name, train, test)
        except FileNotFoundError as error:
            missing.append((name, error))
    if not found:
        raise missing[0][1]
    return found, [sections.Text(f"{name} was left out: {error}", "warning") for name, error in missing]


def labellings(data: Dataset, worst: np.ndarray, seed: int) -> dict[str, Dataset]:
    """The three labellings that the paper compares: true, redrawn at random, and the worst case.

    Ref: fine_grained, Fig. 1
    """
    return {
        "true": data,
        "random": corrupt_labels(data, 1.0, key=seed).data,
        "worst case": data.with_targets(worst, "worst-case labels"),
    }


def run_part(
    workplace: Workplace,
    name: str,
    data: Dataset,
    network: TwoLayer,
    *,
    lr: float,
    steps: int,
    record: list[int],
    dtype: str,
    stop_below: float | None = None,
    kernel_rows: int = 1000,
) -> dict[str, np.ndarray]:
    """One training run as a part of a study: everything recorded, without the weights."""

    def make(checkpoint: Path | None) -> dict[str, Any]:
        run = gradient_descent(
            network,
            data,
            lr=lr,
            steps=steps,
            key=workplace.seed,
            record=record,
            dtype=dtype,
            device=workplace.device,
            stop_below=stop_below,
            kernel_rows=kernel_rows,
            place=checkpoint,
            progress=lambda done, total, what: workplace.progress(done, total, name),
        )
        kept = {key: value for key, value in run.records.items() if not key.endswith("outputs")}
        ends = {"initial_outputs": run.outputs[0], "last_outputs": run.outputs[-1]}
        if "test_outputs" in run.records:
            ends |= {"initial_test_outputs": run.test_outputs[0], "last_test_outputs": run.test_outputs[-1]}
        about = {"steps": run.steps, "stopped": str(run.stopped), "seconds_per_step": run.seconds_per_step}
        return kept | ends | about

    return workplace.part(name, make)


def forecasts(
    workplace: Workplace, name: str, data: Dataset, residuals: np.ndarray, steps: np.ndarray, lr: float, H: Any = None
) -> dict[str, np.ndarray]:
    """Predicted loss (with its bracket) and movement for several residuals y − u(0) at once, an output a residual.

    Ref: fine_grained, Thm 4.1, Eq. (8)

    Args:
        H: makes the matrix to predict from; the one of infinite width if None.
    """

    def make(_: Path | None) -> dict[str, Any]:
        matrix = gram(Kernel(), data.X, device=workplace.device) if H is None else H()
        tell = workplace.progress
        q = quadrature(matrix, residuals, progress=lambda done, total, what: tell(done, total, f"{name}: {what}"))
        curve = predict_loss(q, steps, lr)
        each = curve.per_output
        moves = predict_movement(q, steps, lr).per_output
        return {
            "loss": each.value, "lower": each.lower, "upper": each.upper, "certified": each.certified,
            "movement": moves.value, "stable": curve.status, "products": q.products,
            "limit": 0.0 if curve.limit is None else curve.limit.value,
        }  # fmt: skip

    return workplace.part(name, make)


def starting_gram(workplace: Workplace, data: Dataset, network: TwoLayer) -> np.ndarray:
    """H(0) of the very network that `run_part` starts from: what is left of its error is not the width's.

    Ref: fine_grained, Lemma C.2
    """
    with computing("float64", workplace.device):
        params = network.init(workplace.seed, data.d)
        return np.asarray(jax.jit(finite_gram, static_argnums=0)(network, params, jnp.asarray(data.X, jnp.float64)))


def largest_error(observed: np.ndarray, predicted: np.ndarray) -> float | None:
    """The largest |observed / predicted − 1|; None where there is no finite prediction."""
    worst = largest(relative_error(observed, predicted))[0]
    return None if worst is None else abs(worst)


def log_steps(steps: int, every: int, points: int = 30) -> list[int]:
    """Steps to record: evenly spaced ones for a linear axis and evenly spaced logarithms for the start."""
    logs = np.unique(np.geomspace(1, steps, points).round().astype(int)).tolist()
    return sorted({0, steps, *logs, *range(0, steps, every)})
