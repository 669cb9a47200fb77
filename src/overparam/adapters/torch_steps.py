"""Steps of a PyTorch module: as a function of one vector of weights, and short runs of a copy by PyTorch's own optimiser."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any, final

import numpy as np
import torch
from torch import Tensor, nn

from overparam.adapters.torch_module import TorchModule, _not_differentiable
from overparam.adapters.torch_state import Weighted, first_line, outputs_of, undisturbed
from overparam.adapters.torch_tangents import pulled_back, pushed_forward
from overparam.core.model_steps import AbstractModelSteps

PIECE = 512
"""Samples that go through the module together."""


@final
class TorchSteps(AbstractModelSteps):
    """A module in evaluation mode on samples X: batch norm with its running averages, dropout off.

    Args:
        network: from `from_torch`.
        X: samples as it takes them.
    """

    def __init__(self, network: TorchModule, X: Any) -> None:
        self.module, self.memory = network.module, network.memory
        with undisturbed(self.module):
            model = network._model(None)
            self.x = network._batch(model, X, "X")
            self.rest = model.rest
            self.like = {name: leaf.detach() for name, leaf in model.leaves.items()}

    @property
    def start(self) -> np.ndarray:
        return self._joined(self.like)

    def outputs(self, w: np.ndarray) -> np.ndarray:
        with undisturbed(self.module), torch.no_grad():
            weights = {**self._leaves(w), **self.rest}
            parts = [outputs_of(self.module, weights, rows) for rows in self.x.split(PIECE)]
            return torch.cat(parts).double().cpu().numpy()

    def pull(self, w: np.ndarray, c: np.ndarray) -> np.ndarray:
        with undisturbed(self.module):
            leaves = {name: leaf.requires_grad_() for name, leaf in self._leaves(w).items()}
            model = Weighted(self.module, leaves, self.rest, self.memory)
            first = next(iter(leaves.values()))
            seeds = torch.tensor(c, dtype=first.dtype, device=first.device)
            try:
                return self._joined(pulled_back(model, zip(self.x.split(PIECE), seeds.split(PIECE), strict=True)))
            except RuntimeError as error:
                raise _not_differentiable(error) from error

    def push(self, w: np.ndarray, v: np.ndarray) -> np.ndarray:
        with undisturbed(self.module):
            model = Weighted(self.module, self._leaves(w), self.rest, self.memory)
            parts = [pushed_forward(model, rows, self._leaves(v)) for rows in self.x.split(PIECE)]
            return torch.cat(parts).double().cpu().numpy()

    def _leaves(self, w: np.ndarray) -> dict[str, Tensor]:
        found, place = {}, 0
        for name, like in self.like.items():
            part = torch.tensor(w[place : place + like.numel()], dtype=like.dtype, device=like.device)
            found[name] = part.view(like.shape)
            place += like.numel()
        return found

    def _joined(self, leaves: dict[str, Tensor]) -> np.ndarray:
        return np.concatenate([leaf.detach().double().cpu().numpy().ravel() for leaf in leaves.values()])


def has_batch_norm(module: nn.Module) -> bool:
    """Whether a layer averages over the batch while it is trained."""
    return any(isinstance(layer, nn.modules.batchnorm._BatchNorm) for layer in module.modules())


def has_dropout(module: nn.Module) -> bool:
    """Whether a layer drops units while it is trained."""
    return any(isinstance(layer, nn.modules.dropout._DropoutNd) and layer.p > 0 for layer in module.modules())


def has_embedding(module: nn.Module) -> bool:
    """Whether a layer takes integers."""
    return any(isinstance(layer, nn.Embedding | nn.EmbeddingBag) for layer in module.modules())


def precision_of(module: nn.Module) -> str:
    """Of the first weight that is trained: float32, bfloat16, …"""
    return str(next(weight for weight in module.parameters() if weight.requires_grad).dtype).removeprefix("torch.")


def torch_run(
    module: nn.Module,
    samples: np.ndarray,
    targets: np.ndarray,
    classes: np.ndarray | None,
    *,
    lr: float,
    momentum: float,
    steps: int,
    grown: Callable[[float, float], bool],
) -> np.ndarray:
    """The loss before each of `steps` full-batch steps of `torch.optim.SGD` on a copy of the module, and after the last.

    Layers of batch norm average over the batch, as in training; everything else is as in evaluation, so that dropout is
    off. The copy has the module's own precision and device.

    Args:
        module: never changed; nor is the random state.
        samples: as the module takes them.
        targets: (n, k): of `MSELoss`, where `classes` is None.
        classes: class numbers, (n,): `CrossEntropyLoss`, or `BCEWithLogitsLoss` of a single output, whose class 0 is the
            one it is to be positive for.
        lr, momentum, steps: of the optimiser.
        grown: (loss at the start, loss): whether to stop; what is left of the losses is then infinite.
    """
    device = next(module.parameters()).device
    cards = [device.index or 0] if device.type == "cuda" else []
    losses = np.full(steps + 1, np.inf)
    with torch.random.fork_rng(cards), torch.inference_mode(False), torch.enable_grad():
        try:
            own = copy.deepcopy(module)
        except (RuntimeError, TypeError) as error:
            raise ValueError(f"the module cannot be copied, and runs need a copy: {first_line(error)}") from error
        for layer in own.modules():
            layer.training = isinstance(layer, nn.modules.batchnorm._BatchNorm)
        trained = [weight for weight in own.parameters() if weight.requires_grad]
        x = torch.tensor(samples, device=device)
        x = x if samples.dtype.kind in "biu" else x.to(trained[0].dtype)
        criterion = _criterion(targets, classes, trained[0])
        optimiser = torch.optim.SGD(trained, lr=lr, momentum=momentum)
        for step in range(steps + 1):
            optimiser.zero_grad()
            loss = criterion(own(x).reshape(len(targets), -1))
            losses[step] = loss.item()
            if not np.isfinite(losses[step]) or grown(losses[0], losses[step]):
                losses[step:] = np.inf
                break
            if step < steps:
                loss.backward()
                optimiser.step()
    return losses


def _criterion(targets: np.ndarray, classes: np.ndarray | None, like: Tensor) -> Callable[[Tensor], Tensor]:
    """PyTorch's own loss as a function of the outputs (n, k)."""
    if classes is None:
        y = torch.tensor(targets, dtype=like.dtype, device=like.device)
        return lambda out: nn.functional.mse_loss(out, y)
    if targets.shape[1] == 1:
        positive = torch.tensor(classes == 0, dtype=like.dtype, device=like.device)
        return lambda out: nn.functional.binary_cross_entropy_with_logits(out[:, 0], positive)
    codes = torch.tensor(classes, dtype=torch.int64, device=like.device)
    return lambda out: nn.functional.cross_entropy(out, codes)
