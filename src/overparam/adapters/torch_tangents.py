"""The tangent kernel of a PyTorch module: layers in closed form, all else sample by sample, block by block within memory."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import final

import torch
from torch import Tensor, nn
from torch.func import functional_call, jacrev, jvp, vmap

from overparam.adapters.torch_capture import Captured, Pass, backward, forward, weights_with_bias
from overparam.adapters.torch_contraction import Sums, add_captured, gradients, own_squares
from overparam.adapters.torch_state import Weighted, outputs_of

_FAILURES = (RuntimeError, NotImplementedError, ValueError, TypeError)
"""What `torch.func` raises for a module it cannot transform (numbers read from tensors, kernels without a rule)."""


def jacobian(model: Weighted, x: Tensor, names: Sequence[str], outputs: Sequence[int], at_once: int) -> Tensor:
    """(n, len(outputs), size): the gradients of these outputs by these weights, a few samples at once.

    By `torch.func` where it can, else one sample after the other.
    """
    detached = model.detached
    chosen = {name: detached[name] for name in names}
    columns = torch.as_tensor(outputs, device=x.device)

    def one(weights: dict[str, Tensor], row: Tensor) -> Tensor:
        out = functional_call(model.module, {**detached, **model.rest, **weights}, (row[None],))
        return out.reshape(-1)[columns]

    try:
        with warnings.catch_warnings():  # a kernel without a rule of its own is done one by one, only slower
            warnings.filterwarnings("ignore", message="There is a performance drop")
            found = vmap(jacrev(one), (None, 0), chunk_size=at_once)(chosen, x)
    except _FAILURES:
        return torch.stack([_of_one(model, row, names, outputs) for row in x])
    return torch.cat([found[name].detach().reshape(len(x), len(outputs), -1) for name in names], 2)


def _of_one(model: Weighted, row: Tensor, names: Sequence[str], outputs: Sequence[int]) -> Tensor:
    out = model.outputs(row[None])[0]
    chosen = [model.leaves[name] for name in names]
    lines = []
    for output in outputs:
        parts = torch.autograd.grad(out[output], chosen, retain_graph=True, allow_unused=True)
        zeros = zip(parts, chosen, strict=True)
        lines.append(torch.cat([(torch.zeros_like(w) if g is None else g).reshape(-1) for g, w in zeros]))
    return torch.stack(lines)


def pulled_back(model: Weighted, batches: Iterator[tuple[Tensor, Tensor]]) -> dict[str, Tensor]:
    """Σ_j J(z_j)ᵀ v_j by name, over batches of (z, v)."""
    total = {name: torch.zeros_like(leaf) for name, leaf in model.leaves.items()}
    for z, v in batches:
        out = model.outputs(z)
        parts = torch.autograd.grad(out, list(model.leaves.values()), v.to(out.dtype), allow_unused=True)
        for name, part in zip(model.leaves, parts, strict=True):
            if part is not None:
                total[name] += part
    return total


def pushed_forward(model: Weighted, x: Tensor, u: Mapping[str, Tensor]) -> Tensor:
    """J(x) u of shape (n, k): forward differentiation, or where a layer has none the derivative of Jᵀw by w."""

    def function(weights: dict[str, Tensor]) -> Tensor:
        return outputs_of(model.module, {**weights, **model.rest}, x)

    try:
        return jvp(function, (model.detached,), (dict(u),))[1].detach()
    except _FAILURES:
        pass
    leaves, out = model.leaves, model.outputs(x)
    w = torch.zeros_like(out, requires_grad=True)
    back = torch.autograd.grad(out, list(leaves.values()), w, create_graph=True, allow_unused=True)
    pairs = [(part, u[name]) for name, part in zip(leaves, back, strict=True) if part is not None]
    total = sum((part * v).sum() for part, v in pairs)
    if not isinstance(total, Tensor):
        return torch.zeros_like(out)
    return torch.autograd.grad(total, w)[0].detach()


_TOLERANCES = {torch.float64: 1e-8, torch.float32: 1e-3}
"""How far outputs of one sample may differ between batches, relative to the largest; gradients: ten times as far."""

OWN_ROWS = 64
"""Samples that a diagonal takes at once before it takes more outputs."""


@final
class _StructureChanged(Exception):
    """Some weights that had a closed form on the first samples have none on later ones."""

    def __init__(self, names: frozenset[str]) -> None:
        super().__init__(", ".join(sorted(names)))
        self.names = names


@final
class Tangents:
    """A module at its weights, with what two samples tell of its gradients.

    k: outputs. structured, general: the weights whose gradients have a closed form, and those that are done sample by
    sample. with_bias: see `weights_with_bias`. live: bytes of what autograd keeps of a forward pass of one sample, the
    layers' inputs among it; kept: of the cotangents of the known layers, for one output.
    """

    def __init__(self, model: Weighted, x: Tensor) -> None:
        """Run the first and the last sample together and alone: are samples independent, which weights have a closed form?

        Raises where a sample's outputs depend on the others. Gradients in closed form are compared with those of
        autograd on each sample alone; a weight where they differ is done by the general method.
        """
        rows = x[[0, -1]]
        together = forward(model, rows)
        alone, live = [], 0
        for row in rows:
            one, live = _measured(model, row[None])
            alone.append(one)
        tolerance = _TOLERANCES.get(together.outputs.dtype, 0.1)
        _require_independent(together, alone, tolerance)
        k = together.outputs.shape[1]
        structured = together.structured.intersection(*(one.structured for one in alone))
        seeds = torch.cos(torch.arange(2 * k, device=x.device).reshape(1, 2, k)).to(together.outputs.dtype)
        captured = backward(together, seeds, structured, {})
        stacks = [use.cotangents for uses in captured.matrices.values() for use in uses]
        wrong: set[str] = set()
        for i, one in enumerate(alone):
            wrong |= _disagreeing(model, captured, one, seeds[0, i : i + 1], i, structured, 10 * tolerance)
        self.model, self.k, self.live = model, k, live
        self.kept = sum(stack[0].numel() * stack.element_size() for stack in stacks)
        self.structured = structured - wrong
        self.general = (together.general.union(*(one.general for one in alone)) | wrong) - self.structured
        self.with_bias = weights_with_bias(model)

    def made(self, values: Callable[[], Tensor]) -> Tensor:
        """What `values` gives; again with fewer weights in closed form where later samples do not follow the first."""
        while True:
            try:
                return values()
            except _StructureChanged as change:
                self.structured, self.general = self.structured - change.names, self.general | change.names

    def bytes_a_sample(self, outputs: int) -> int:
        """That a sample takes with so many outputs at once."""
        largest = max((self.model.leaves[name].numel() for name in self.general), default=0)
        return max(1, outputs * (self.kept + 8 * largest) + 2 * self.live)

    def outputs_at_once(self, x: Tensor, z: Tensor | None) -> int:
        """As many as leave all samples in one block: a second block costs more passes than a second sweep of outputs."""
        samples = len(x) if z is None else 2 * max(len(x), len(z))
        for count in range(self.k, 1, -1):
            if samples * self.bytes_a_sample(count) <= self.model.memory:
                return count
        return 1

    def contraction(self, x: Tensor, z: Tensor | None, outputs: Sequence[int], sides: int) -> Tensor:
        """(n, p, s, s), block by block, each pair of blocks once; at most two blocks are held."""
        a_sample = self.bytes_a_sample(len(outputs))
        alone = z is None and len(x) * a_sample <= self.model.memory  # one block, kept once
        step = len(x) if alone else max(1, self.model.memory // (2 * a_sample))
        columns = x if z is None else z
        if step >= max(len(x), len(columns)):
            return self._pair(self._captured(x, outputs), x, z, outputs, sides).cpu()
        result = torch.empty((len(x), len(columns), sides, sides), dtype=torch.float64)
        for i in range(0, len(x), step):
            rows = x[i : i + step]
            left = self._captured(rows, outputs)
            for j in range(i if z is None else 0, len(columns), step):
                others = columns[j : j + step]
                same = z is None and i == j
                place = result[i : i + len(rows), j : j + len(others)]
                place.copy_(self._pair(left, rows, None if same else others, outputs, sides))
                if z is None and not same:
                    result[j : j + len(others), i : i + len(rows)] = place.permute(1, 0, 3, 2)
            del left
        return result

    def own_squares(self, x: Tensor, outputs: Sequence[int]) -> Tensor:
        """(n,) of one block, summed over these outputs, on the module's device."""
        captured = self._captured(x, outputs)
        with torch.no_grad():
            total = own_squares(captured, x.device, self.model.room)
        for names in self._groups(len(x) * len(outputs)):
            total += self._jacobian(x, names, outputs).square().sum((1, 2)).double()
        return _finite(total)

    def _pair(self, left: Captured, x: Tensor, z: Tensor | None, outputs: Sequence[int], sides: int) -> Tensor:
        """(n, p, s, s) of one block with itself (z=None) or with another, on the module's device."""
        right = left if z is None else self._captured(z, outputs)
        sums = Sums(len(x), right.n, sides, z is None, x.device)
        with torch.no_grad():
            add_captured(sums, left, right, self.model.room)
        for names in self._groups(max(len(x), right.n) * len(outputs)):
            rows = self._jacobian(x, names, outputs)
            columns = rows if z is None else self._jacobian(z, names, outputs)
            with torch.no_grad():
                sums.add_gradients(rows, columns)
        return _finite(sums.finish())

    def _captured(self, x: Tensor, outputs: Sequence[int]) -> Captured:
        """Inputs and cotangents of the known layers on a block, for these outputs."""
        passed = forward(self.model, x, self.general)
        found = passed.general | passed.structured
        lost = self.structured & passed.general | found - self.structured - self.general
        if lost:
            raise _StructureChanged(frozenset(lost))
        seeds = torch.zeros((len(outputs), *passed.outputs.shape), dtype=passed.outputs.dtype, device=x.device)
        for seed, output in zip(seeds, outputs, strict=True):
            seed[:, output] = 1
        return backward(passed, seeds, self.structured, self.with_bias)

    def _jacobian(self, x: Tensor, names: Sequence[str], outputs: Sequence[int]) -> Tensor:
        """(n, len(outputs), size): gradients by weights without a closed form; halves as float32."""
        leaves = self.model.leaves
        size = sum(leaves[name].numel() for name in names)
        at_once = max(1, self.model.room // (len(outputs) * (self.live + 8 * size)))
        found = jacobian(self.model, x, names, outputs, at_once)
        return found.to(torch.promote_types(leaves[names[0]].dtype, torch.float32))

    def _groups(self, lines: int) -> list[list[str]]:
        """The general weights in lists whose Jacobians of so many lines fit the room, or that have one name."""
        groups: list[list[str]] = []
        taken = 0
        for name, leaf in self.model.leaves.items():
            if name not in self.general:
                continue
            size = lines * leaf.numel() * leaf.element_size()
            if not groups or taken + size > self.model.room:
                groups.append([])
                taken = 0
            groups[-1].append(name)
            taken += size
        return groups


def _measured(model: Weighted, x: Tensor) -> tuple[Pass, int]:
    """A forward pass, and the bytes autograd keeps for it, weights apart."""
    weights = {t.untyped_storage().data_ptr() for t in (*model.leaves.values(), *model.rest.values())}
    sizes: dict[int, int] = {}

    def pack(tensor: Tensor) -> Tensor:
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in weights:
            sizes[storage.data_ptr()] = storage.nbytes()
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        passed = forward(model, x)
    return passed, sum(sizes.values())


def _require_independent(together: Pass, alone: Sequence[Pass], tolerance: float) -> None:
    both = torch.cat([one.outputs.detach() for one in alone]).double()
    outputs = together.outputs.detach().double()
    if not torch.isfinite(both).all() or not torch.isfinite(outputs).all():
        raise ValueError("the module gives NaN or infinite outputs on `X`; scale the inputs, or look at its weights")
    difference = (both - outputs).abs().max().item()
    if difference > tolerance * both.abs().max().item():
        raise ValueError(
            f"the module's outputs for a sample change with the rest of its batch or from call to call (by {difference:.1e}"
            "); a tangent kernel needs each sample alone: batch norm with running averages, no mixing, no randomness"
        )


def _disagreeing(
    model: Weighted, captured: Captured, one: Pass, seed: Tensor, row: int, names: frozenset[str], tolerance: float
) -> set[str]:
    """Weights whose gradient in closed form is not that of autograd on the sample alone."""
    leaves = list(model.leaves.values())
    found = torch.autograd.grad(one.outputs, leaves, seed, allow_unused=True)
    expected = {name: g for name, g in zip(model.leaves, found, strict=True) if g is not None}
    size = max((float(g.norm()) for g in expected.values()), default=0.0)
    wrong = set()
    for name, gradient in expected.items():
        difference = float(gradient.norm())  # of a weight the forward pass did not find
        if name in names:
            difference = float((_in_closed_form(captured, name, row, gradient) - gradient).norm())
        if difference > tolerance * (float(gradient.norm()) + 1e-2 * size):
            wrong.add(name)
    return wrong


def _in_closed_form(captured: Captured, name: str, row: int, like: Tensor) -> Tensor:
    if name in captured.small:
        return captured.small[name][row, 0].view(like.shape)
    if name not in captured.matrices:
        return torch.zeros_like(like)
    uses = tuple(
        replace(use, x=use.x[row, None], cotangents=use.cotangents[row, None]) for use in captured.matrices[name]
    )
    everything = (slice(None), slice(None))
    if not isinstance(uses[0].layer, nn.Embedding):
        return gradients(uses, everything, None, 2**27)[0, 0].view(like.shape)
    tokens = torch.unique(torch.cat([use.x.reshape(-1) for use in uses]))
    dense = torch.zeros(like.shape, dtype=uses[0].cotangents.dtype, device=like.device)
    dense[tokens] = gradients(uses, everything, tokens, 2**27)[0, 0].view(-1, len(tokens)).T
    return dense


def contraction(model: Weighted, x: Tensor, z: Tensor | None, chosen: int | None, trace: bool) -> Tensor:
    """(n, p, s, s) in float64 on the CPU: s = k, or s = 1 for the chosen output or the trace, which is divided by k."""
    tangents = Tangents(model, x)
    outputs = range(tangents.k) if chosen is None else range(chosen, chosen + 1)

    def values() -> Tensor:
        if not trace:
            return tangents.contraction(x, z, outputs, len(outputs))
        at_once = tangents.outputs_at_once(x, z)
        total = tangents.contraction(x, z, outputs[:at_once], 1)
        for first in range(at_once, tangents.k, at_once):  # outputs do not meet in a trace
            total += tangents.contraction(x, z, outputs[first : first + at_once], 1)
        return total.div_(tangents.k)

    return tangents.made(values)


def diagonal(model: Weighted, x: Tensor, chosen: int | None) -> Tensor:
    """(n,) in float64 on the CPU: squared norms of each sample's gradients; their mean over outputs, or the chosen one's."""
    tangents = Tangents(model, x)
    outputs = range(tangents.k) if chosen is None else range(chosen, chosen + 1)

    def values() -> Tensor:
        at_once = min(len(outputs), tangents.outputs_at_once(x[:OWN_ROWS], None))
        step = max(1, model.memory // tangents.bytes_a_sample(at_once))
        total = torch.zeros(len(x), dtype=torch.float64)
        for i in range(0, len(x), step):
            for first in range(0, len(outputs), at_once):
                total[i : i + step] += tangents.own_squares(x[i : i + step], outputs[first : first + at_once]).cpu()
        return total.div_(len(outputs))

    return tangents.made(values)


def _finite(values: Tensor) -> Tensor:
    if not bool(torch.isfinite(values.sum())):
        raise ValueError("the tangent kernel overflows; scale the inputs, or pass dtype='float64' to `from_torch`")
    return values


def product(model: Weighted, x: Tensor, z: Tensor, v: Tensor) -> Tensor:
    """J(x) J(z)ᵀ v of shape (n, k), Θ never formed; v is (p, k)."""
    tangents = Tangents(model, z)
    if v.shape != (len(z), tangents.k):
        raise ValueError(f"`V` has shape {tuple(v.shape)}; expected ({len(z)}, {tangents.k}), the outputs' on `Z`")
    step = max(1, model.memory // (4 * max(1, tangents.live)))
    pieces = ((z[i : i + step], v[i : i + step]) for i in range(0, len(z), step))
    u = pulled_back(model, pieces)
    parts = [pushed_forward(model, x[i : i + step], u) for i in range(0, len(x), step)]
    found = torch.cat(parts).double()
    if not bool(torch.isfinite(found.sum())):
        raise ValueError("the product overflows; scale the inputs or `V`, or pass dtype='float64' to `from_torch`")
    return found
