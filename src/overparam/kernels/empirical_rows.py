"""One pass over rows, forwards and backwards, that leaves what the gradients by every weight array are made of."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial, reduce
from math import prod
from typing import Any, final

import jax
import jax.numpy as jnp
import numpy as np

from overparam.core.network import AbstractNetwork, Params
from overparam.core.program import Step, program_of
from overparam.core.trees import placed
from overparam.kernels.empirical_parts import AbstractShare, Lookup, Outer, Whole
from overparam.kernels.empirical_uses import Structure, WeightUse, WeightView

SMALL = 2**16
"""Weight arrays up to this size whose whole gradients are taken are put into one matrix."""


@final
@dataclass(frozen=True)
class Forward:
    """A network, or a function of (params, x), with its params taken apart: hashable, so that compiled code is kept.

    roles: of every leaf of the params: "trained", "array", or the place in `plain` of what is no array.
    """

    call: Any
    tree: Any
    roles: tuple[str | int, ...]
    plain: tuple[Any, ...]

    def batch(self, trained: Sequence[Any], others: Sequence[Any], x: Any) -> Any:
        """Outputs of a batch."""
        weights, arrays = iter(trained), iter(others)
        kinds = {"trained": weights, "array": arrays}
        leaves = [self.plain[role] if isinstance(role, int) else next(kinds[role]) for role in self.roles]
        params = jax.tree.unflatten(self.tree, leaves)
        return self.call.apply(params, x) if isinstance(self.call, AbstractNetwork) else self.call(params, x)

    def together(self, trained: Sequence[Any], others: Sequence[Any], X: Any) -> Any:
        """Outputs of a batch, or one line where the function takes one sample alone."""
        try:
            came = self.batch(trained, others, X)
        except Exception as error:
            came = f"{type(error).__name__}: {str(error).strip()}".splitlines()[0]
        if getattr(came, "shape", ())[:1] == X.shape[:1]:
            return came
        raise ValueError(
            f"the function takes one sample as a batch, but turns a batch {X.shape} into {getattr(came, 'shape', came)}; "
            "it needs outputs (n,) or (n, k) of n samples: wrap one that takes a sample in `jax.vmap`"
        )

    def one(self, trained: Sequence[Any], others: Sequence[Any], x: Any) -> Any:
        """The outputs of one sample, in a row."""
        out = self.batch(trained, others, x[None])
        if not hasattr(out, "shape") or out.ndim == 0 or out.shape[0] != 1:
            came = getattr(out, "shape", type(out).__name__)
            raise ValueError(
                f"the function turned one sample as a batch {(1, *x.shape)} into {came}; expected (1,) or (1, k): it takes "
                "a batch, so wrap one that takes a sample in `jax.vmap`"
            )
        if not jnp.issubdtype(out.dtype, jnp.floating):
            raise ValueError(f"the function gives {out.dtype}; expected real outputs, which can be differentiated")
        return out.ravel()


def taken_apart(call: Any, params: Any) -> tuple[Forward, list[Any], list[Any]]:
    """The function, its trained arrays and its other arrays.

    Of a network `params.trained` is trained; of a plain function every leaf with floating point numbers.
    """
    leaves, tree = jax.tree.flatten(params)
    network = isinstance(call, AbstractNetwork)
    if network and not isinstance(params, Params):
        raise ValueError(f"`params` is a {type(params).__name__}; the network takes the `Params` of its `init`")
    count = len(jax.tree.leaves(params.trained)) if network else len(leaves)
    roles, plain, trained, others = [], [], [], []
    for place, leaf in enumerate(leaves):
        kind = getattr(leaf, "dtype", None)
        array = kind is not None
        floating = isinstance(leaf, float) or (array and jnp.issubdtype(kind, jnp.floating))
        if array and jnp.issubdtype(kind, jnp.complexfloating):
            raise ValueError(f"`params` has complex weights of shape {np.shape(leaf)}; give real and imaginary parts")
        if floating and place < count:
            roles.append("trained")
            trained.append(leaf)
        elif array:
            roles.append("array")
            others.append(leaf)
        else:
            roles.append(len(plain))
            plain.append(leaf)
    if not trained:
        raise ValueError("`params` has no array of floating point numbers to train")
    for leaf in plain:
        if not hashable(leaf):
            raise ValueError(f"`params` has a {type(leaf).__name__}, neither an array nor hashable; leave it out")
    bare = getattr(call, "without_weights", call)  # compiled code is kept by it: it keeps no weights alive
    return Forward(bare if hashable(bare) else call, tree, tuple(roles), tuple(plain)), trained, others


def hashable(value: Any) -> bool:
    """Whether compiled code can be kept by it."""
    try:
        hash(value)
    except TypeError:
        return False
    return True


def parts_of(forward: Forward, trained: Sequence[Any], others: Sequence[Any], X: Any, cotangents: Any) -> list[Any]:
    """What the gradients of Σ_a e_a f_a, for each row e of `cotangents` (c, k), are made of, weight array by array."""
    found = structure(forward, trained, others, jax.ShapeDtypeStruct(X.shape[1:], X.dtype))
    return jax.vmap(lambda x: _parts_of_one(found, trained, others, x, cotangents))(X)


def structure(forward: Forward, trained: Sequence[Any], others: Sequence[Any], sample: Any) -> Structure:
    """How the trained arrays enter the outputs of one sample."""

    def flat(*arrays: Any) -> Any:
        return forward.one(arrays[: len(trained)], arrays[len(trained) : -1], arrays[-1])

    program = program_of(flat, *(_shape(leaf) for leaf in (*trained, *others)), sample)
    found = Structure(program, len(trained))
    if not found.whole and not found.together:
        raise ValueError("the output does not depend on any trained weight")
    return found


def _parts_of_one(
    structure: Structure, trained: Sequence[Any], others: Sequence[Any], x: Any, cotangents: Any
) -> list[AbstractShare]:
    program = structure.program
    uses = [use for group in structure.together for use in group]
    views = [view for use in uses for view in (use.view, *(use.bias or ())[:1])]
    scalars = {number for view in views for number, _ in view.scales}
    kept = scalars | {program.steps[use.step].ins[1 - use.side] for use in uses}

    def run(whole: Sequence[Any], added: Mapping[int, Any]) -> tuple[Any, dict[int, Any]]:
        weights = list(trained)
        for place, leaf in zip(structure.whole, whole, strict=True):
            weights[place] = leaf
        return program.run([*weights, *others, x], added, sorted(kept))

    whole = [trained[place] for place in structure.whole]
    outs = jax.eval_shape(
        lambda: program.run([*trained, *others, x], {}, [program.steps[u.step].outs[0] for u in uses])
    )
    added = {}
    for use in uses:
        out = outs[1][program.steps[use.step].outs[0]]
        added[use.step] = jnp.zeros(out.shape, out.dtype)
    output, pull, values = jax.vjp(run, whole, added, has_aux=True)
    gradients, derivatives = jax.vmap(pull)(cotangents.astype(output.dtype))
    # What the function left in fewer digits is multiplied and summed in the digits asked for.
    gradients, derivatives = jax.tree.map(lambda array: array.astype(cotangents.dtype), (gradients, derivatives))
    parts: list[AbstractShare] = []
    for group in structure.together:
        layers = [_layer(structure, use, values, derivatives[use.step]) for use in group]
        parts.append(layers[0] if len(layers) == 1 else _joined(layers))
    flat = [gradient.reshape(len(cotangents), -1) for gradient in gradients]
    small = [gradient for gradient in flat if gradient.shape[1] <= SMALL]
    parts.extend(Whole(gradient) for gradient in flat if gradient.shape[1] > SMALL)
    if small:
        parts.append(Whole(jnp.concatenate(small, axis=1)))
    return parts


def _layer(structure: Structure, use: WeightUse, values: Mapping[int, Any], b: Any) -> Any:
    """What one use leaves for one sample."""
    step = structure.program.steps[use.step]
    operand = values[step.ins[1 - use.side]]
    if use.kind == "lookup":
        index, taken, b = _lookup(step, structure.program.shapes[step.ins[0]][0], operand, b)
        return Lookup(index, (_factor(use.view, values) * taken).astype(b.dtype), b)
    if use.kind == "dense":
        h, b = _dense(step, use, operand, b)
    else:
        h, b = _convolution(step, structure.program.shapes[step.ins[1]], operand, b)
    h = (h.astype(b.dtype) * _factor(use.view, values)).astype(b.dtype)
    if use.bias:
        view, between = use.bias
        ones = jnp.full((*h.shape[:-1], 1), _factor(view, values) / between, b.dtype)
        h = jnp.concatenate([h, ones], axis=-1)
    return Outer(h, b)


def _joined(layers: Sequence[Any]) -> Any:
    """Uses of one array: all their positions."""
    b = jnp.concatenate([layer.b for layer in layers], axis=-2)
    if isinstance(layers[0], Lookup):
        index, scale = (jnp.concatenate([getattr(layer, name) for layer in layers]) for name in ("index", "scale"))
        return Lookup(index, scale, b)
    return Outer(jnp.concatenate([layer.h for layer in layers], axis=-2), b)


def _dense(step: Step, use: WeightUse, operand: Any, b: Any) -> tuple[Any, Any]:
    """Inputs (G, P, D) and derivatives (c, G, P, O) of a product of arrays, summed over D."""
    contracted, batched = step.params["dimension_numbers"]
    own, groups = contracted[1 - use.side], batched[1 - use.side]
    free = [axis for axis in range(operand.ndim) if axis not in own and axis not in groups]
    G, P = (prod(operand.shape[axis] for axis in axes) for axes in (groups, free))
    h = operand.transpose(*groups, *free, *own).reshape(G, P, -1)
    if use.side == 1:  # results have the left operand's free axes first
        return h, b.reshape(len(b), G, P, -1)
    return h, b.reshape(len(b), G, -1, P).swapaxes(-1, -2)


def _convolution(step: Step, window: tuple[int, ...], operand: Any, b: Any) -> tuple[Any, Any]:
    """As for a product: the inputs of a position are what its window sees, the groups those of the channels."""
    numbers, groups = step.params["dimension_numbers"], step.params["feature_group_count"]
    x = operand.transpose(numbers.lhs_spec)
    b = b.transpose(0, *(axis + 1 for axis in numbers.out_spec))
    edges = zip(step.params["padding"], step.params["lhs_dilation"], strict=True)
    x = jax.lax.pad(x, jnp.zeros((), x.dtype), [(0, 0, 0)] * 2 + [(*edge, gap - 1) for edge, gap in edges])
    for place, axis in enumerate(numbers.rhs_spec[2:]):  # windows axis by axis: copies, no products, so nothing is lost
        stride, gap, count = (
            step.params["window_strides"][place],
            step.params["rhs_dilation"][place],
            b.shape[3 + place],
        )
        starts = [i * gap for i in range(window[axis])]
        ends = [start + (count - 1) * stride + 1 for start in starts]
        seen = [jax.lax.slice_in_dim(x, *ends_of, stride, 2 + place) for ends_of in zip(starts, ends, strict=True)]
        x = jnp.stack(seen, axis=-1)
    axes = len(numbers.rhs_spec) - 2
    x = x.reshape(x.shape[0], groups, -1, *x.shape[2:])  # images, groups, channels, positions, windows
    x = x.transpose(1, 0, *range(3, 3 + axes), 2, *range(3 + axes, 3 + 2 * axes))
    h = x.reshape(groups, prod(b.shape[3:]) * b.shape[1], -1)
    b = b.reshape(*b.shape[:2], groups, -1, prod(b.shape[3:]))
    return h, b.transpose(0, 2, 1, 4, 3).reshape(len(b), groups, h.shape[1], -1)


def _lookup(step: Step, rows: int, indices: Any, b: Any) -> tuple[Any, Any, Any]:
    """Which rows are taken (P,), whether they are (P,), and the derivatives (c, P, E) by them."""
    numbers = step.params["dimension_numbers"]
    asked = indices[..., tuple(numbers.start_index_map).index(0)].ravel()
    asked = asked.astype(jnp.promote_types(asked.dtype, jnp.int32))
    index = jnp.clip(asked, 0, rows - 1)
    fills = str(step.params["mode"]).rsplit(".", 1)[-1] == "FILL_OR_DROP"  # no row is taken outside of the table
    taken = (index == asked) if fills else jnp.ones(index.shape, bool)
    offsets = [axis + 1 for axis in numbers.offset_dims]
    places = [axis for axis in range(1, b.ndim) if axis not in offsets]
    return index, taken, b.transpose(0, *places, *offsets).reshape(len(b), len(index), -1)


def _factor(view: WeightView, values: Mapping[int, Any]) -> Any:
    factor = 1.0
    for number, power in view.scales:
        value = jnp.reshape(values[number], ())
        factor = factor * value if power == 1 else factor / value
    return factor


def _shape(leaf: Any) -> Any:
    return jax.ShapeDtypeStruct(jnp.shape(leaf), leaf.dtype if hasattr(leaf, "dtype") else jnp.result_type(leaf))


@partial(jax.jit, static_argnums=0)
def parts_of_rows(forward: Forward, trained: Any, others: Any, X: Any, cotangents: Any) -> tuple[list[Any], Any, Any]:
    """`parts_of`; of every row how large its largest part is; and `in_company` of the first two."""
    parts = parts_of(forward, trained, others, X, cotangents)
    sizes = jnp.max(jnp.stack([part.sizes() for part in parts]), axis=0)
    return parts, sizes, in_company(forward, trained, others, X[:2])


def in_company(forward: Forward, trained: Any, others: Any, X: Any) -> Any:
    """By how much the outputs of rows change when they come as one batch, and the largest of them: (2,)."""
    alone = jax.vmap(lambda x: forward.one(trained, others, x))(X)
    together = forward.together(trained, others, X).reshape(alone.shape)
    return jnp.stack([jnp.max(jnp.abs(together - alone)), jnp.max(jnp.abs(alone))])


@partial(jax.jit, static_argnums=2)
def contracted(mine: list[Any], theirs: list[Any], full: bool) -> Any:
    """Σ over weight arrays: (n, p, c, c) or, summed over equal outputs, (n, p)."""
    pairs = list(zip(mine, theirs, strict=True))
    if full:
        return jnp.transpose(reduce(jnp.add, [a.full(b) for a, b in pairs]), (0, 2, 1, 3))
    return reduce(jnp.add, [a.trace(b) for a, b in pairs])


@jax.jit
def own_traces(parts: list[Any]) -> Any:
    """Of every row with itself, summed over outputs."""

    def one(row: list[Any]) -> Any:
        alone = jax.tree.map(lambda array: array[None], row)
        return reduce(jnp.add, [part.trace(part) for part in alone])[0, 0]

    return jax.vmap(one)(parts)


@partial(jax.jit, static_argnums=0)
def pulled_back(forward: Forward, trained: Any, others: Any, X: Any, V: Any) -> Any:
    """Σ_i v_i · ∂f(x_i), a number a trained weight."""
    out, pull = jax.vjp(lambda weights: forward.together(weights, others, X), trained)
    return pull(V.reshape(out.shape).astype(out.dtype))[0]


@partial(jax.jit, static_argnums=(0, 5))
def pushed_forward(
    forward: Forward, trained: Any, others: Any, X: Any, direction: Any, transposed: bool = False
) -> tuple[Any, Any, Any]:
    """∂f(x_i) · direction / size, of the shape of the outputs; the size; and `in_company` of the first two rows.

    The size is the largest number of the direction: small ones times small derivatives would be lost. `transposed`: from
    the backward derivative, which is linear, by one more: functions of `jax.custom_vjp` have no other.
    """
    size = jnp.max(jnp.stack([jnp.max(jnp.abs(leaf), initial=0.0) for leaf in direction]))
    usable = (size > 0) & jnp.isfinite(size)
    direction = [leaf / jnp.where(usable, size, 1.0).astype(leaf.dtype) for leaf in direction]

    def outputs(weights: Any) -> Any:
        return forward.together(weights, others, X)

    if transposed:
        out, pull = jax.vjp(outputs, trained)
        change = jax.vjp(lambda rows: pull(rows)[0], jnp.zeros_like(out))[1](direction)[0]
    else:
        change = jax.jvp(outputs, (trained,), (direction,))[1]
    return change, jnp.where(usable, size, 1.0), in_company(forward, trained, others, X[:2])


def tangent_gram(network: AbstractNetwork, params: Params, X: Any) -> Any:
    """H_ij = Σ over trained weights of ∂u_i ∂u_j, the mean over outputs: for use inside compiled code.

    Everything at once, in the precision of the arrays; `Empirical` is the one that minds the memory.

    >>> from overparam.networks import Given
    >>> line = Given(lambda w, x: x @ w, jnp.ones(2))
    >>> tangent_gram(line, line.init(0), jnp.array([[1.0, 2.0], [3.0, 0.0]])).tolist()
    [[5.0, 3.0], [3.0, 9.0]]
    """
    forward, trained, others = taken_apart(network, params)
    outputs = jax.eval_shape(forward.one, trained, others, X[0])
    parts = parts_of(forward, trained, others, X, jnp.eye(outputs.size, dtype=outputs.dtype))
    return reduce(jnp.add, [part.trace(part) for part in parts]) / outputs.size


def cast_leaf(leaf: Any, dtype: Any) -> Any:
    """A leaf on the device, its floating point numbers in `dtype`; NumPy's are copied, since their owner may change them."""
    if isinstance(leaf, float) or jnp.issubdtype(leaf.dtype, jnp.floating):
        if jnp.dtype(dtype).itemsize < getattr(leaf, "dtype", np.dtype(float)).itemsize:
            largest, limits = float(np.abs(np.asarray(leaf)).max(initial=0.0)), np.finfo(dtype)
            if np.isfinite(largest) and (0 < largest < float(limits.tiny) or largest > float(limits.max)):
                raise ValueError(f"`params` has weights of size {largest:.0e}, which {dtype} does not hold")
        return placed(np.array(leaf, dtype) if isinstance(leaf, np.ndarray) else leaf, dtype)
    return leaf if jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key) else placed(np.array(leaf))
