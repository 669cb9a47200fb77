"""`op.foresee` against PyTorch: where training really diverges, and until when the predicted loss is within a tenth.

    OVERPARAM_DATA=… python benchmarks/foresee.py            (about ten minutes of one core)

300 rows of ten tables, columns standardised, and of two image sets, pixels from 0 to 1; PyTorch's default
initialisation from seed 0; full batches, `MSELoss`, plain and with momentum 0.9. The true threshold: rates a
fourth root of two apart (images: a root of two), rising, until a run of 200 steps goes to infinity. Half of the sets, by a hash of their names, were used to choose the
constants of the ranges ("chosen on"); the others check them ("set aside").
"""

from __future__ import annotations

import copy
import hashlib
import itertools
import json
import sys
import time
from typing import Any

import numpy as np
import torch
from record import processor, save
from torch import nn

import overparam as op
from overparam.analysis.model_runs import UNTRIED

TABLES = (
    "banknote-authentication",
    "breast-cancer-wisc-diag",
    "credit-approval",
    "pima",
    "spambase",
    "tic-tac-toe",
    "user-knowledge",
    "vertebral-column-3clases",
    "waveform",
    "wine-quality-red",
)
IMAGES = ("fashion-mnist", "mnist")
ROWS, WIDTH, STEPS, LONG, FINE = 300, 256, 200, 2_000, 2**0.25
GROWN = 1e6


class Images(nn.Module):
    """Two convolutions of stride 2, 8 and 16 channels, and a linear layer."""

    def __init__(self, side: int, outputs: int) -> None:
        super().__init__()
        self.first = nn.Conv2d(1, 8, 3, stride=2, padding=1)
        self.second = nn.Conv2d(8, 16, 3, stride=2, padding=1)
        self.last = nn.Linear(16 * ((side + 3) // 4) ** 2, outputs)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.last(torch.relu(self.second(torch.relu(self.first(x)))).flatten(1))


def rows_of(name: str) -> Any:
    """The data set as it is trained on."""
    if name in IMAGES:
        data = op.load(name, train=ROWS).replace(test=None)
        X = np.asarray(data.X, dtype=np.float64)
        return data.replace(X=X / X.max())
    data = op.load(f"uci/{name}", key=0).replace(test=None)
    return op.data.standardise(data.subset(min(ROWS, data.n)))


def models(data: Any) -> dict[str, nn.Module]:
    """One hidden layer, three, and for images a small convolutional one."""
    found: dict[str, nn.Module] = {}
    for name, depth in (("one hidden layer", 1), ("three hidden layers", 3)):
        torch.manual_seed(0)
        widths = [data.d, *[WIDTH] * depth]
        inside = [part for a, b in itertools.pairwise(widths) for part in (nn.Linear(a, b), nn.ReLU())]
        found[name] = nn.Sequential(*inside, nn.Linear(WIDTH, data.k))
    if data.image_shape is not None:
        torch.manual_seed(0)
        found["convolutional"] = Images(data.image_shape[-1], data.k)
    return found


def losses(model: nn.Module, data: Any, lr: float, momentum: float, steps: int, law: np.ndarray | None = None) -> list:
    """Of a run by PyTorch; it ends early where the loss is out of bounds, or off a law by more than a tenth."""
    own = copy.deepcopy(model)
    shape = (1, *data.image_shape) if isinstance(model, Images) else (data.d,)
    x = torch.tensor(np.asarray(data.X), dtype=torch.float32).reshape(data.n, *shape)
    y = torch.tensor(data.y.reshape(data.n, -1), dtype=torch.float32)
    optimiser = torch.optim.SGD(own.parameters(), lr=lr, momentum=momentum)
    found: list[float] = []
    for step in range(steps + 1):
        optimiser.zero_grad()
        loss = nn.functional.mse_loss(own(x), y)
        found.append(loss.item())
        if not np.isfinite(found[-1]) or found[-1] > GROWN * found[0]:
            found[-1] = np.inf
            break
        if law is not None and abs(law[step] - found[-1]) > 0.1 * found[-1]:
            break
        loss.backward()
        optimiser.step()
    return found


def threshold(model: nn.Module, data: Any, momentum: float, start: float) -> float:
    """Between the last rate that does not diverge and the first that does, both rising from `start`."""

    def diverges(rate: float) -> bool:
        return not np.isfinite(losses(model, data, rate, momentum, STEPS)[-1])

    rate = start
    while diverges(rate):
        rate /= 2
    factor = FINE if data.image_shape is None else FINE**2
    while not diverges(rate := rate * factor):
        pass
    return rate / factor**0.5


def measure(name: str, what: str, model: nn.Module, data: Any, momentum: float) -> dict[str, Any]:
    begin = time.process_time()
    f = op.foresee(model, data, momentum=momentum)
    seconds = time.process_time() - begin
    assert f.diverges is not None
    assert f.followed is not None
    assert f.runs is not None
    true = threshold(model, data, momentum, f.diverges.lower / 2)
    law = f.loss_at(np.arange(LONG + 1))
    seen = losses(model, data, f.rate, momentum, LONG, law)
    low, high = UNTRIED[momentum > 0]
    off = abs(law[len(seen) - 1] - seen[-1]) > 0.1 * seen[-1]
    return {
        "set": name,
        "half": half(name),
        "model": what,
        "momentum": momentum,
        "stable rate": f.limit.value,
        "lower": f.diverges.lower,
        "upper": f.diverges.upper,
        "runs diverge from": f.runs.threshold[0],
        "all runs diverge from": f.runs.threshold[1],
        "true threshold": true,
        "inside": bool(f.diverges.lower <= true <= (f.diverges.upper or np.inf)),
        "inside multiples": bool(low * f.limit.value <= true <= high * f.limit.value),
        "rate": f.rate,
        "believe until": f.followed.until,
        "true until": len(seen) - 2 if off else LONG,
        "open": f.followed.open,
        "seconds": round(seconds, 2),
    }


def half(name: str) -> str:
    """By a hash of the name."""
    return "chosen on" if int(hashlib.sha256(name.encode()).hexdigest(), 16) % 2 == 0 else "set aside"


def main(asked: list[str]) -> None:
    torch.set_num_threads(1)
    rows = []
    for name in asked or (*TABLES, *IMAGES):
        data = rows_of(name)
        for what, model in models(data).items():
            for momentum in (0.0, 0.9):
                rows.append(measure(name, what, model, data, momentum))
                print(json.dumps(rows[-1]), flush=True)
    if not asked:
        save("foresee", processor(), rows, "300 rows a set, default initialisation, MSELoss, full batches")


if __name__ == "__main__":
    main(sys.argv[1:])
