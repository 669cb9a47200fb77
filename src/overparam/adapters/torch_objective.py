"""The training objective of a PyTorch module: its weights as one long tensor, products with its Hessian from kept graphs."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, final

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from overparam.adapters.torch_hessian import ChainProducts, FirstLayers, Link, SecondOrder, find_chain
from overparam.adapters.torch_module import TorchModule, _not_differentiable
from overparam.adapters.torch_state import outputs_as_given, undisturbed
from overparam.core.network import Params
from overparam.core.objective import AbstractObjective, Batch, Layer, Mode, Vector, require_averages

CHUNK_BYTES = 2**27
"""Memory for the graph of the rows that go through the module together: more of them do not fit the caches."""
LOOKED_AT = 8
"""Rows that are sent through the module to see how much it holds of a row."""
TRAIN_CHUNK = 500
"""Rows of a chunk in mode "train", where it decides what is computed, unless told."""

Loss = Callable[[Tensor, Tensor], Tensor]
HessianProduct = Callable[[Tensor], Tensor]
"""∇²F v of some rows at some weights, as a function of v."""


def squared(outputs: Tensor, targets: Tensor) -> Tensor:
    """½‖y − u‖², summed over rows."""
    return 0.5 * ((targets - outputs) ** 2).double().sum()


def cross_entropy(outputs: Tensor, targets: Tensor) -> Tensor:
    """−log p of the class, summed over rows; log(1 + exp(−y u)) for one output and labels ±1."""
    if outputs.ndim == 1:
        return F.softplus(-targets * outputs).double().sum()
    return F.cross_entropy(outputs, targets, reduction="none").double().sum()


@final
class TorchObjective(AbstractObjective):
    """The training objective of a module on samples X with targets y, encoded as in a `Dataset`.

    Args:
        network: from `from_torch`.
        X, y: (n, …) and (n,) or (n, k).
        params: from `init`, or None for the module's weights of the moment.
        objective: "squared", "cross-entropy", or a function (outputs, targets) of PyTorch that gives the mean over rows; its
            targets are class numbers where there are three classes or more, else y.
        mode, mean, chunk: see `objective_of`.
    """

    def __init__(
        self,
        network: TorchModule,
        X: np.ndarray,
        y: np.ndarray,
        params: Params | None,
        objective: Any,
        *,
        mode: Mode,
        mean: bool,
        chunk: int | None,
    ) -> None:
        module = network.module
        with undisturbed(module):
            model = network._model(params)
            leaves = model.leaves
            first = next(iter(leaves.values()))
            if any(leaf.dtype != first.dtype or leaf.device != first.device for leaf in leaves.values()):
                raise ValueError(
                    "the module's weights differ in precision or device; pass dtype='float64' to `from_torch`"
                )
            samples = network._batch(model, X.astype(np.int64) if network.integer else X, "X")
            layers, place = [], 0
            for name, leaf in leaves.items():
                layers.append(Layer(name, tuple(leaf.shape), place))
                place += leaf.numel()
            weights = _joined([leaf.detach() for leaf in leaves.values()])
            _require_finite(weights)
        self.loss, self.y, name = _loss(objective, y, network.outputs, first)
        self.network, self.X, self.rest, self.weights, self.layers = (
            network,
            samples,
            model.rest,
            weights,
            tuple(layers),
        )
        self.n, self.mode, self.mean = len(X), mode, mean
        self.digits = 15 if first.dtype == torch.float64 else 6
        self.words = f"{name} loss, {'mean' if mean else 'sum'} over {self.n:,} rows"
        averages = any(isinstance(layer, torch.nn.modules.batchnorm._BatchNorm) for layer in module.modules())
        if mode == "train" and averages:
            require_averages(self.n, chunk or TRAIN_CHUNK)
        held, self.links = self._looked_at()
        if chunk is None and mode == "eval":
            chunk = int(np.clip(CHUNK_BYTES // held, 1, self.n))
        self.chunk, self.keeps = min(chunk or TRAIN_CHUNK, self.n), self.n * held <= network.memory
        # products with the Hessian, chunk by chunk, at one vector of weights: many of them come from one forward pass
        self._kept_at: Tensor | None = None
        self._products: list[HessianProduct] = []

    @property
    def start(self) -> Vector:
        return self.weights

    def vector(self, weights: Any) -> Vector:
        if weights is None:
            return self.weights
        if isinstance(weights, Params):
            weights = weights.trained
        if isinstance(weights, Mapping):
            weights = self.joined({name: _host(value) for name, value in weights.items()})
        if not isinstance(weights, Tensor):
            weights = torch.tensor(np.asarray(weights, dtype=np.float64))
        if tuple(weights.shape) != (self.size,):
            raise ValueError(
                f"the weights have shape {tuple(weights.shape)}; expected ({self.size},), or arrays by name"
            )
        _require_finite(weights)
        return weights.detach().to(self.weights)

    def flat(self, vector: Vector) -> np.ndarray:
        return vector.detach().cpu().double().numpy()

    def value(self, w: Vector, batch: Batch | None = None) -> float:
        with self._inside(), torch.no_grad():
            return self._value(self._pieces(w), *self._rows(batch))

    def gradient(self, w: Vector, batch: Batch | None = None) -> Vector:
        with self._inside():
            leaves = [piece.requires_grad_() for piece in self._pieces(w)]
            total = torch.zeros_like(w)
            for x, y in self._chunks(*self._rows(batch)):
                found = torch.autograd.grad(self._losses(leaves, x, y), leaves, materialize_grads=True)
                total += _joined(found)
            return total.mul_(self._share(batch))

    def hessian_product(self, w: Vector, v: Vector, batch: Batch | None = None) -> Vector:
        if batch is None and self._kept_at is w:  # the module is not needed again, whose modes take time to set
            with torch.inference_mode(False), torch.enable_grad(), torch.autocast(w.device.type, enabled=False):
                return self._summed(self._products, v)
        with self._inside():
            return self._product(w, v, batch)

    def values(self, w: Vector, directions: Sequence[Vector], places: np.ndarray) -> np.ndarray:
        found = np.empty(len(places))
        with self._inside(), torch.no_grad():
            at, base = torch.empty_like(w), torch.empty_like(w)
            pieces = self._pieces(at)
            spans = zip(*(self._pieces(vector) for vector in (w, *directions)), strict=True)
            samples = self._laid_out(self._pieces(w))
            first = FirstLayers(samples, pieces, list(spans))
            before: list[float] | None = None
            for q, place in enumerate(places.tolist()):
                if place[1:] != before:  # the rows of a grid share all but their first number
                    base.copy_(w)
                    for factor, direction in zip(place[1:], directions[1:], strict=True):
                        base.add_(direction, alpha=factor)
                    before = place[1:]
                torch.add(base, directions[0], alpha=place[0], out=at)
                first.place = place
                with first:
                    found[q] = self._value(pieces, samples, self.y)
        return found

    def walk(
        self,
        w: Vector,
        v: Vector,
        coefficients: np.ndarray,
        *,
        smoothing: float,
        batch: int | None,
        key: int,
        first: int = 0,
    ) -> tuple[Vector, np.ndarray, np.ndarray]:
        quotients, lengths = np.empty(len(coefficients)), np.empty(len(coefficients))
        before, products = torch.zeros_like(v), torch.empty_like(v)
        with self._inside():
            for t, (a, b, c) in enumerate(coefficients.tolist()):
                at = w if smoothing == 0 else w + smoothing * self._noise((key, 0, first + t))
                chosen = None if batch is None or batch >= self.n else Batch(batch, key, first + t)
                Hv = self._product(at, v, chosen)
                quotients[t], lengths[t] = _dot(v, Hv, products), np.sqrt(_dot(Hv, Hv, products))
                new = Hv.mul_(-b)
                if a:
                    new.add_(v, alpha=a)
                if c:
                    new.sub_(before, alpha=c)
                length = np.sqrt(_dot(new, new, products))
                scale = 1 / length if length > 0 else 1.0
                if t + 1 < len(coefficients) and coefficients[t + 1, 2]:
                    torch.mul(v, scale, out=before)
                v = new.mul_(scale)
        return v, quotients, lengths

    def dot(self, a: Vector, b: Vector) -> float:
        return _dot(a, b)

    def combine(self, *terms: tuple[float, Vector]) -> Vector:
        total = terms[0][0] * terms[0][1]
        for factor, vector in terms[1:]:
            total.add_(vector, alpha=factor)
        return total

    def normal(self, key: int) -> Vector:
        return self._noise((key, 2, 0))

    def only(self, v: Vector, layer: Layer) -> Vector:
        part = torch.zeros_like(v)
        part[layer.part] = v[layer.part]
        return part

    def room(self, count: int) -> Any:
        return self.weights.new_zeros((count, self.size))

    def placed(self, rows: Any, place: int, v: Vector) -> Any:
        rows[place] = v
        return rows

    def without(self, v: Vector, rows: Any) -> Vector:
        for _ in range(2):
            v = v - (rows @ v) @ rows
        return v

    def mixed(self, rows: Any, factors: np.ndarray) -> Vector:
        return torch.tensor(factors, dtype=rows.dtype, device=rows.device) @ rows

    @contextlib.contextmanager
    def _inside(self) -> Iterator[None]:
        """The module in evaluation mode, batch norm as the mode says; failures to differentiate are one line."""
        with undisturbed(self.network.module):
            if self.mode == "train":
                for layer in self.network.module.modules():
                    layer.training = isinstance(layer, torch.nn.modules.batchnorm._BatchNorm)
            try:
                yield
            except RuntimeError as error:
                raise _not_differentiable(error) from error

    def _pieces(self, w: Tensor) -> list[Tensor]:
        """Views of a vector in the shapes of the layers, cut off from any graph."""
        sizes = [layer.size for layer in self.layers]
        return [
            part.view(layer.shape) for part, layer in zip(w.detach().split(sizes), self.layers, strict=True)
        ]  # fmt: skip

    def _losses(self, pieces: Sequence[Tensor], x: Tensor, y: Tensor) -> Tensor:
        return self._loss(self._outputs(pieces, x), y)

    def _outputs(self, pieces: Sequence[Tensor], x: Tensor) -> Tensor:
        weights = {layer.name: piece for layer, piece in zip(self.layers, pieces, strict=True)}
        # in mode "train" a forward pass writes into its running averages
        rest = {name: value.clone() for name, value in self.rest.items()} if self.mode == "train" else self.rest
        return outputs_as_given(self.network.module, {**weights, **rest}, x)

    def _loss(self, outputs: Tensor, y: Tensor) -> Tensor:
        if outputs.ndim == 2 and outputs.shape[1] == 1 and y.ndim == 1:
            outputs = outputs[:, 0]
        return self.loss(outputs, y)

    def _value(self, pieces: Sequence[Tensor], X: Tensor, y: Tensor) -> float:
        total = sum(float(self._losses(pieces, *chunk)) for chunk in self._chunks(X, y))
        return total * (1 if self.mean else self.n) / len(X)

    def _laid_out(self, pieces: Sequence[Tensor]) -> Tensor:
        """Images with their channels last in memory, which convolutions on a CPU prefer, where the module takes them so."""
        if self.X.ndim != 4 or self.X.device.type != "cpu":
            return self.X
        images = self.X.to(memory_format=torch.channels_last)
        try:
            self._losses(pieces, images[:2], self.y[:2])
        except ValueError:  # it looks at its inputs by `view`
            return self.X
        return images

    def _product(self, w: Tensor, v: Tensor, batch: Batch | None) -> Tensor:
        if batch is None and self.keeps:
            if self._kept_at is not w:
                self._kept_at, self._products = None, []  # the old ones may go first
                made = [self._of_rows(w, x, y, self._share(None), keep=True) for x, y in self._chunks(self.X, self.y)]
                self._kept_at, self._products = w, made
            return self._summed(self._products, v)
        chunks = self._chunks(*self._rows(batch))
        return self._summed((self._of_rows(w, x, y, self._share(batch), keep=False) for x, y in chunks), v)

    def _summed(self, products: Iterable[HessianProduct], v: Tensor) -> Tensor:
        total: Tensor | None = None
        for product in products:
            total = product(v) if total is None else total.add_(product(v))
        assert total is not None
        return total

    def _of_rows(self, w: Tensor, x: Tensor, y: Tensor, share: float, *, keep: bool) -> HessianProduct:
        """What a product needs of some rows: for other modules than chains the gradient, with its graph."""
        leaves = self._pieces(w)
        if self.links:
            return ChainProducts(self.links, leaves, x, lambda outputs: share * self._loss(outputs, y)).along
        leaves = [piece.requires_grad_() for piece in leaves]
        with SecondOrder():
            losses = share * self._losses(leaves, x, y)
        gradients = torch.autograd.grad(
            losses, leaves, create_graph=True, materialize_grads=True, allow_unused=True
        )  # fmt: skip
        return lambda v: self._along(gradients, leaves, v, keep=keep)

    def _along(self, gradients: Sequence[Tensor], leaves: list[Tensor], v: Tensor, *, keep: bool) -> Tensor:
        """The derivative of ⟨gradient, v⟩."""
        pairs = [(g, side) for g, side in zip(gradients, self._pieces(v), strict=True) if g.requires_grad]
        if not pairs:  # of a function that does not curve
            return torch.zeros_like(v)
        outputs, along = zip(*pairs, strict=True)
        found = torch.autograd.grad(
            outputs, leaves, along, retain_graph=keep, materialize_grads=True, allow_unused=True
        )  # fmt: skip
        return _joined(found)

    def _rows(self, batch: Batch | None) -> tuple[Tensor, Tensor]:
        if batch is None or batch.size >= self.n:
            return self.X, self.y
        places = torch.randperm(self.n, generator=_generator((batch.key, 1, batch.step)))[: batch.size].to(
            self.X.device
        )
        return self.X[places], self.y[places]

    def _chunks(self, X: Tensor, y: Tensor) -> Iterator[tuple[Tensor, Tensor]]:
        return zip(X.split(self.chunk), y.split(self.chunk), strict=True)

    def _share(self, batch: Batch | None) -> float:
        rows = self.n if batch is None else min(batch.size, self.n)
        return (1 if self.mean else self.n) / rows

    def _noise(self, words: tuple[int, ...]) -> Tensor:
        """N(0, 1) numbers, drawn on the CPU: the same on every device."""
        own = self.weights
        return torch.randn(self.size, generator=_generator(words), dtype=own.dtype).to(own.device)

    def _looked_at(self) -> tuple[int, tuple[Link, ...]]:
        """Bytes that the graph of a gradient holds of one row, and the links of the module where it is a chain."""
        seen: dict[int, int] = {}
        rows = min(LOOKED_AT, self.n)

        def pack(tensor: Tensor) -> Tensor:
            if tensor.ndim and tensor.shape[0] == rows:
                seen[tensor.data_ptr()] = tensor.numel() * tensor.element_size()
            return tensor

        with self._inside(), torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
            leaves = [piece.requires_grad_() for piece in self._pieces(self.weights)]
            losses = self._losses(leaves, self.X[:rows], self.y[:rows])
            kept = torch.autograd.grad(losses, leaves, create_graph=True, materialize_grads=True, allow_unused=True)
            del kept
            links = find_chain(lambda x: self._outputs(leaves, x), leaves, self.X[:rows])
        return max(1, 2 * sum(seen.values()) // rows), links


def _generator(words: tuple[int, ...]) -> torch.Generator:
    return torch.Generator().manual_seed(int(np.random.SeedSequence(words).generate_state(1, np.uint64)[0] >> 1))


def _joined(parts: Sequence[Tensor]) -> Tensor:
    return torch.cat([part.reshape(-1) for part in parts])


def _dot(a: Tensor, b: Tensor, products: Tensor | None = None) -> float:
    """⟨a, b⟩, summed pairwise, where a plain dot product loses digits; `products` is room for what is summed."""
    return float(torch.mul(a, b, out=products).sum())


def _require_finite(weights: Tensor) -> None:
    if not bool(torch.isfinite(weights).all()):
        raise ValueError("the weights have NaN or infinite numbers; take finite ones")


def _host(value: Any) -> np.ndarray:
    return np.asarray(value.detach().cpu().double() if isinstance(value, Tensor) else value)


def _loss(objective: Any, y: np.ndarray, outputs: tuple[int, ...], like: Tensor) -> tuple[Loss, Tensor, str]:
    """The sum over rows as a function of outputs and targets, the targets, and its name."""
    width = outputs[0] if outputs else 1
    if (y.shape[1] if y.ndim == 2 else 1) != width:
        raise ValueError(f"the module has {width} outputs and the targets {y.shape}; they need the same number")
    floats = torch.tensor(y, dtype=like.dtype, device=like.device)
    classes = torch.tensor(y.argmax(axis=1), device=like.device) if y.ndim == 2 else floats
    if objective == "squared":
        return squared, floats, "squared"
    if objective == "cross-entropy":
        if y.ndim == 1 and not np.all(np.abs(y) == 1):
            raise ValueError(
                "`objective` is 'cross-entropy', which needs classes, and the targets are real numbers; use 'squared'"
            )
        return cross_entropy, classes, "cross-entropy"
    if not callable(objective):
        raise ValueError(
            f"`objective` is {objective!r}; expected 'squared', 'cross-entropy', or a function (outputs, targets) of PyTorch"
        )

    def given(outputs: Tensor, targets: Tensor) -> Tensor:
        found: Any = objective(outputs, targets)
        if not isinstance(found, Tensor) or found.ndim:
            raise ValueError(f"`objective` gives {type(found).__name__}; expected one number, the mean over rows")
        return found.double() * len(outputs)

    return given, classes, getattr(objective, "__name__", type(objective).__name__)
