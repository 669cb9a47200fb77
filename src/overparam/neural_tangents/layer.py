"""What makes three functions a layer as the archived library has it: `layer`, `requires`, and what they agree on about axes."""

from __future__ import annotations

import contextlib
import dataclasses
import enum
import functools
from collections import namedtuple
from collections.abc import Callable
from dataclasses import dataclass
from types import ModuleType
from typing import Any, final

import jax
import jax.numpy as jnp
import numpy as np

from overparam.layers import Pairs
from overparam.layers.kernel_pairs import silenced
from overparam.layers.layer import Chain, any_pools, applied, applied_masked, output_of, passed
from overparam.layers.windows import as_uncorrelated, equal_positions
from overparam.neural_tangents.arithmetic import FEW, changed, known, numbers, plain
from overparam.neural_tangents.kernel import (
    Kernel,
    MaskedArray,
    kernel_of_inputs,
    kernel_of_pairs,
    pairs_of_kernel,
    parted,
    passed_as_covariances,
    sample_shape,
    samples_first,
    transposed,
)

Layer = tuple[Callable[..., Any], Callable[..., Any], Callable[..., Any]]
"""init_fn(key, shape) → (shape, params); apply_fn(params, x, **options) → outputs; kernel_fn(x1, x2, get) → numbers or a `Kernel`."""


class NotOffered(AttributeError, NotImplementedError):
    """A name of the archived library that is not here: `hasattr` says no, and the one line says what to write instead."""


class Bool(enum.IntEnum):
    """No, perhaps, yes."""

    NO = 0
    MAYBE = 1
    YES = 2


@final
@dataclass(frozen=True)
class Diagonal:
    """Whether covariances of equal positions alone will do.

    input: of what comes in; MAYBE where unequal positions are uncorrelated.
    output: of all that comes later; MAYBE where they are uncorrelated after this layer.
    """

    input: Bool = Bool.YES
    output: Bool = Bool.NO

    def __rshift__(self, later: Diagonal) -> Diagonal:
        """Of this layer and then another."""
        if self.output is Bool.YES:
            return self
        enough = later.input >= Bool.YES - self.output  # a layer that decorrelates satisfies one that asks for it
        return Diagonal(self.input if enough else Bool.NO, later.output)

    def __lshift__(self, earlier: Diagonal) -> Diagonal:
        """Of another layer and then this one."""
        return earlier >> self

    def __and__(self, other: Diagonal) -> Diagonal:
        """Of two branches."""
        return Diagonal(Bool(min(self.input, other.input)), Bool(min(self.output, other.output)))

    def __bool__(self) -> bool:
        return self.input is Bool.YES and self.output > Bool.NO


def requirements(kernel_fn: Any) -> dict[str, Any]:
    """What a kernel function asks of its inputs."""
    return getattr(kernel_fn, "requirements", {})


def requires(**needs: Any) -> Callable[[Any], Any]:
    """A decorator of a kernel function: checks that a kernel that comes in has these axes and diagonals."""

    def decorated(kernel_fn: Any) -> Any:
        @functools.wraps(kernel_fn)
        def checked(kernel: Any, **options: Any) -> Any:
            if isinstance(kernel, Kernel):
                _require(kernel, {**needs, **{name: options[name] for name in options if options[name] is not None}})
            return kernel_fn(kernel, **options)

        vars(checked)["requirements"] = dict(needs)
        return checked

    return decorated


def _require(kernel: Kernel, needs: dict[str, Any]) -> None:
    for name in ("batch_axis", "channel_axis"):
        axis = needs.get(name)
        if axis is not None and getattr(kernel, name) != axis % len(kernel.shape1 or ()):
            raise ValueError(
                f"a layer has `{name}={axis}` and its inputs have theirs at {getattr(kernel, name)}; name the same axes in all layers"
            )
    need = needs.get("diagonal_spatial")
    if kernel.diagonal_spatial and (need is False or (isinstance(need, Diagonal) and need.input is Bool.NO)):
        raise ValueError(
            "a layer mixes positions and its kernel has equal positions alone; leave `diagonal_spatial` out, or pass False"
        )


def combined(kernel_fns: Any, join: Callable[[Any, Any], Any]) -> dict[str, Any]:
    """What several layers ask for together, diagonals joined in the way given; axes are those of the first that names them."""
    found: dict[str, Any] = {}
    for kernel_fn in kernel_fns:
        for name, need in requirements(kernel_fn).items():
            if name not in found:
                found[name] = need
            elif name == "diagonal_spatial" and isinstance(need, Diagonal) and isinstance(found[name], Diagonal):
                found[name] = join(found[name], need)
    return found


def layer(layer_fn: Callable[..., Any]) -> Callable[..., Any]:
    """A decorator of layers: the kernel function takes arrays as well as a `Kernel`, and gives what `get` names."""

    @functools.wraps(layer_fn)
    def made(*args: Any, **options: Any) -> Any:
        init_fn, apply_fn, kernel_fn = layer_fn(*args, **options)
        return named(layer_fn.__name__, (init_fn, apply_fn, taking_arrays(init_fn, kernel_fn)))

    return made


def named(name: str, functions: Layer) -> Layer:
    """The three functions, each called as the layer is."""
    for function in functions:
        function.__name__ = name
    return functions


def calls_itself(layer_fn: Callable[..., Layer]) -> Callable[..., Layer]:
    """A decorator of layers: the three functions have its name, which scripts ask for."""

    @functools.wraps(layer_fn)
    def made(*args: Any, **options: Any) -> Layer:
        return named(layer_fn.__name__, layer_fn(*args, **options))

    return made


def supports_masking(remask_kernel: bool) -> Callable[..., Any]:
    """A decorator of layers of three functions, or of four, the fourth a mask's way through: mask_fn(mask, input_shape).

    `apply_fn` then gets `mask=`, takes and gives a `MaskedArray` where something is masked, and kernels carry their masks along;
    `remask_kernel` sets their masked entries to 0.
    """

    def decorated(layer_fn: Callable[..., Any]) -> Callable[..., Layer]:
        @functools.wraps(layer_fn)
        def made(*args: Any, **options: Any) -> Layer:
            init_fn, apply_fn, kernel_fn, *rest = layer_fn(*args, **options)
            way = rest[0] if rest else lambda mask, input_shape: mask

            def apply_masked(params: Any, inputs: Any, *, mask_constant: float | None = None, **others: Any) -> Any:
                both = jax.tree.map(lambda x: parted(x, mask_constant), inputs, is_leaf=_is_masked)
                values, masks = (
                    jax.tree.map(lambda _, pair, i=i: pair[i], inputs, both, is_leaf=_is_masked) for i in (0, 1)
                )
                out = apply_fn(params, values, mask=masks, **others)
                nothing = all(mask is None for mask in jax.tree.leaves(masks, is_leaf=lambda mask: mask is None))
                return out if nothing else MaskedArray(out, way(masks, jax.tree.map(jnp.shape, values)))

            @requires(**requirements(kernel_fn))
            def kernel_masked(kernel: Any, **others: Any) -> Any:
                sides = [
                    jax.tree.map(lambda k, name=name: getattr(k, name), kernel, is_leaf=is_kernel)
                    for name in ("mask1", "mask2", "shape1", "shape2")
                ]
                out = kernel_fn(kernel, **others)
                masks = [
                    None if mask is None else way(mask, shape) for mask, shape in zip(sides[:2], sides[2:], strict=True)
                ]
                if masks[0] is None or not isinstance(out, Kernel):
                    return out
                out = out.replace(mask1=masks[0], mask2=masks[1])
                if not remask_kernel:
                    return out
                pairs = pairs_of_kernel(out.replace(nngp=out.nngp))
                return kernel_of_pairs(out, changed(lambda xp, each: silenced(xp, each, each.masks), pairs))  # pyright: ignore

            return init_fn, apply_masked, kernel_masked

        return made

    return decorated


def unmask_fn(fn: Callable[..., Any]) -> Callable[..., Any]:
    """`fn` with 0 where what it gives is masked."""

    @functools.wraps(fn)
    def unmasked(*args: Any, **options: Any) -> Any:
        return jax.tree.map(lambda x: parted(x, None)[0], fn(*args, **options), is_leaf=_is_masked)

    return unmasked


def _is_masked(value: Any) -> bool:
    return isinstance(value, MaskedArray)


def taking_arrays(init_fn: Any, kernel_fn: Any) -> Any:
    """kernel_fn(x1, x2=None, get=None): of arrays, or of a `Kernel`."""

    def of_kernels(kernels: Any, **options: Any) -> Any:
        made = kernel_fn(kernels, **options)
        if getattr(kernel_fn, "sets_shapes", False):
            return made
        shapes = [
            _output_shapes(
                init_fn, jax.tree.map(lambda kernel, side=side: getattr(kernel, side), kernels, is_leaf=is_kernel)
            )
            for side in ("shape1", "shape2")
        ]
        return _with_shapes(made, *shapes)

    def any_inputs(
        x1_or_kernel: Any,
        x2: Any = None,
        get: Any = None,
        *,
        pattern: Any = None,
        mask_constant: float | None = None,
        diagonal_batch: bool | None = None,
        diagonal_spatial: bool | None = None,
        **options: Any,
    ) -> Any:
        if pattern is not None:
            raise NotImplementedError(
                "`pattern` belongs to `Aggregate`, which is not offered; multiply by the graph's matrix first"
            )
        if not options and _as_a_whole(x1_or_kernel, x2, requirements(kernel_fn), diagonal_spatial):
            names = get if get is None or isinstance(get, str) else tuple(get)
            asked = {names} if isinstance(names, str) else set(names or ())
            if x2 is None and known(x1_or_kernel) and asked and asked <= {"nngp", "ntk"}:
                x2 = x1_or_kernel  # blocks of one size on and off the diagonal are one program
            with contextlib.suppress(jax.errors.JAXTypeError):  # a layer of one's own may look at numbers
                return _carrying(compiled(x1_or_kernel, x2, names, mask_constant, diagonal_batch, diagonal_spatial))
        return part_by_part(
            x1_or_kernel,
            x2,
            get,
            mask_constant=mask_constant,
            diagonal_batch=diagonal_batch,
            diagonal_spatial=diagonal_spatial,
            **options,
        )

    def part_by_part(
        x1_or_kernel: Any,
        x2: Any,
        get: Any,
        *,
        mask_constant: float | None,
        diagonal_batch: bool | None,
        diagonal_spatial: bool | None,
        **options: Any,
    ) -> Any:
        if all(is_kernel(leaf) for leaf in jax.tree.leaves(x1_or_kernel, is_leaf=is_kernel)) and x2 is None:
            made = of_kernels(x1_or_kernel, **options)
        else:
            needs = requirements(kernel_fn)
            diagonal = needs.get("diagonal_spatial", False)
            if diagonal_spatial and isinstance(diagonal, Diagonal) and diagonal.input is Bool.NO:
                raise ValueError("`diagonal_spatial` is True and a layer mixes positions; leave it out")
            diagonal = bool(diagonal if diagonal_spatial is None else diagonal_spatial)
            settings = {
                "mask_constant": mask_constant,
                "batch_axis": needs.get("batch_axis", 0),
                "channel_axis": needs.get("channel_axis", -1),
                "diagonal_spatial": diagonal,
                "compute_ntk": get is None or "ntk" in get,
            }
            others = jax.tree.map(lambda _: None, x1_or_kernel) if x2 is None else x2
            kernels = jax.tree.map(
                lambda x, z: kernel_of_inputs(x, z, **settings), x1_or_kernel, others, is_leaf=_is_array
            )
            made = of_kernels(kernels, **options)
            if diagonal_batch is False:
                others = {"mask_constant": mask_constant, "diagonal_spatial": diagonal_spatial, **options}
                alone = [None if x is None else any_inputs(x, None, ("nngp",), **others) for x in (x1_or_kernel, x2)]
                made = _with_all_samples(made, alone)
        return chosen(made, get)

    @functools.partial(jax.jit, static_argnums=(2, 4, 5))
    def compiled(x1: Any, x2: Any, get: Any, mask_constant: Any, diagonal_batch: Any, diagonal_spatial: Any) -> Any:
        made = part_by_part(
            x1,
            x2,
            get,
            mask_constant=mask_constant,
            diagonal_batch=diagonal_batch,
            diagonal_spatial=diagonal_spatial,
        )
        return made, jax.tree.map(
            lambda each: pairs_of_kernel(each) if is_kernel(each) else None, made, is_leaf=is_kernel
        )

    any_inputs = jax.numpy_rank_promotion("allow")(any_inputs)
    any_inputs.requirements = requirements(kernel_fn)  # pyright: ignore[reportFunctionMemberAccess]
    any_inputs.sets_shapes = True  # pyright: ignore[reportFunctionMemberAccess]
    return any_inputs


def _as_a_whole(x1: Any, x2: Any, needs: dict[str, Any], diagonal_spatial: bool | None) -> bool:
    """Whether the network is one program: of arrays in the midst of a transformation, and of known ones that are too many for NumPy."""
    x2 = x1 if x2 is None else x2
    if not _is_array(x1) or not _is_array(x2) or min(x1.ndim, x2.ndim) < 2:
        return False
    if not known(x1, x2):
        return True
    samples, channels = (needs.get("batch_axis", 0), needs.get("channel_axis", -1))
    if channels is None:
        return x1.shape[samples] * x2.shape[samples] > FEW
    diagonal = needs.get("diagonal_spatial", False) if diagonal_spatial is None else diagonal_spatial
    return numbers(x1.shape, x2.shape, samples, channels, not diagonal) > FEW


def _carrying(made: tuple[Any, Any]) -> Any:
    """Kernels that come out of a compiled function, with the pairs that came beside them."""

    def of(one: Any, pairs: Any) -> Any:
        if is_kernel(one):
            one.__dict__["pairs"] = pairs
        return one

    return jax.tree.map(of, *made, is_leaf=lambda each: each is None or is_kernel(each))


def _with_all_samples(made: Any, alone: list[Any]) -> Any:
    """Kernels whose `cov1` and `cov2` are of all pairs of samples; `alone`: x1 and x2, each with itself."""

    def of(kernel: Kernel, one: Any, two: Any) -> Kernel:
        return dataclasses.replace(kernel, cov1=one.nngp, cov2=None if two is None else two.nngp, diagonal_batch=False)

    if is_kernel(made):
        return of(made, *alone)
    return type(made)(
        _with_all_samples(each, [None if a is None else a[place] for a in alone]) for place, each in enumerate(made)
    )


def chosen(made: Any, get: Any) -> Any:
    """One field, a named tuple of several, or all of it."""
    if get is None:
        return made
    names = (get,) if isinstance(get, str) else tuple(get)
    names = tuple(name.lower() for name in names)

    def of(kernel: Kernel) -> Any:
        unknown = [name for name in names if not hasattr(kernel, name)]
        if unknown:
            raise ValueError(
                f"`get` is {get!r}; expected 'ntk', 'nngp', 'cov1', 'cov2' or another field of `Kernel`, or a tuple of them"
            )
        return (
            getattr(kernel, names[0])
            if isinstance(get, str)
            else _tuple_of(names)(*(getattr(kernel, name) for name in names))
        )

    return jax.tree.map(of, made, is_leaf=is_kernel)


@functools.lru_cache(maxsize=64)
def _tuple_of(names: tuple[str, ...]) -> Any:
    return namedtuple("AnalyticKernel", names)


def is_kernel(value: Any) -> bool:
    """Whether it is a `Kernel`."""
    return isinstance(value, Kernel)


def _is_array(value: Any) -> bool:
    return value is None or hasattr(value, "shape")


def _output_shapes(init_fn: Any, shapes: Any) -> Any:
    """Shapes that come out, from `init_fn` without drawing anything."""
    found = []

    def init(key: Any) -> Any:
        shape, params = init_fn(key, shapes)
        found.append(shape)
        return params

    jax.eval_shape(init, jax.random.PRNGKey(0))
    return found[0]


def _with_shapes(made: Any, shape1: Any, shape2: Any) -> Any:
    if is_kernel(made):
        return made.replace(shape1=tuple(shape1), shape2=tuple(shape2))
    return type(made)(_with_shapes(*each) for each in zip(made, shape1, shape2, strict=True))


def floats_like(key: Any, shape: Any) -> Any:
    """Draws from N(0, 1) in JAX's precision."""
    return jax.random.normal(key, tuple(int(size) for size in shape), jnp.result_type(float))


_PLAIN = Diagonal()
"""Positions by themselves."""


def _no_weights(key: Any, shape: Any) -> tuple[()]:
    return ()


def adapted(
    chain_of: Callable[[tuple[int, ...]], Chain],
    *,
    init: Callable[[Any, tuple[int, ...]], Any] = _no_weights,
    weights: Callable[[Any, tuple[int, ...]], dict[str, Any]] = lambda params, shape: {},
    axes: tuple[int, int] = (0, -1),
    axes_out: tuple[int, int] | None = None,
    order_out: tuple[int, ...] | None = None,
    diagonal: Diagonal = _PLAIN,
    any_axes: bool = False,
) -> Layer:
    """A layer of the house as the archived library has it.

    Args:
        chain_of: its layers, for a sample of that shape, channels last.
        init: the weights, drawn for a shape of samples with their channels last.
        weights: the house's names and layout of those.
        axes, axes_out: of samples and channels, of what comes in and goes out.
        order_out: of the axes of positions that go out.
        any_axes: whether it takes samples and channels where they are.
    """
    out = axes if axes_out is None else axes_out

    def shape_out(shape: tuple[int, ...], batch_axis: int, channel_axis: int) -> tuple[int, ...]:
        sample = sample_shape(shape, batch_axis, channel_axis)
        *positions, channels = output_of(chain_of(sample), sample)
        ordered = positions if order_out is None else [positions[place] for place in order_out]
        batch, channel = (each % (len(ordered) + 2) for each in out)
        rest = iter(ordered)
        size = {batch: shape[batch_axis], channel: channels}
        return tuple(size[axis] if axis in size else next(rest) for axis in range(len(ordered) + 2))

    def init_fn(key: Any, input_shape: Any) -> Any:
        shape = tuple(int(size) for size in input_shape)
        return shape_out(shape, *axes), init(key, sample_shape(shape, *axes))

    @jax.jit  # one program a layer, for scripts that compile nothing
    def forward(params: Any, value: Any, mask: Any) -> tuple[Any, Any]:
        x, mask = (None if each is None else samples_first(jnp.asarray(each), *axes) for each in (value, mask))
        shape = x.shape[1:]  # pyright: ignore[reportOptionalMemberAccess]
        with jax.numpy_rank_promotion("allow"):
            if mask is None:
                y = applied(chain_of(shape), weights(params, shape), x, None)
            else:
                y, mask = applied_masked(chain_of(shape), weights(params, shape), x, mask)

        def arranged(y: Any) -> Any:
            if order_out is not None:
                y = y.transpose(0, *(1 + place for place in order_out), y.ndim - 1)
            return jnp.moveaxis(y, (0, -1), tuple(each % y.ndim for each in out))

        return arranged(y), None if mask is None else arranged(mask)

    def apply_fn(params: Any, inputs: Any, **options: Any) -> Any:
        y, mask = forward(params, *parted(inputs, options.get("mask_constant")))
        return y if mask is None else MaskedArray(y, mask)

    needs = {} if any_axes else {"batch_axis": axes[0], "channel_axis": axes[1]}

    @requires(diagonal_spatial=diagonal, **needs)
    def kernel_fn(kernel: Kernel, **options: Any) -> Kernel:
        came = kernel.shape1 or (), kernel.shape2 or ()
        place = (kernel.batch_axis, kernel.channel_axis)
        chain = chain_of(sample_shape(came[0], *place))
        if any_axes and not chain:
            return kernel

        def change(xp: ModuleType, pairs: Pairs) -> Pairs:
            layers = plain(chain) if xp is np else chain
            if not any_pools(chain) or pairs.across:
                return passed(layers, xp, pairs)
            wide = passed(
                layers, xp, as_uncorrelated(xp, pairs)
            )  # that equal positions are enough says that others are uncorrelated
            return equal_positions(xp, wide) if wide.grid else wide

        if any_axes:
            shapes, gone = came, place
        else:
            shapes = shape_out(came[0], *place), shape_out(came[1], *place)
            gone = tuple(each % len(shapes[0]) for each in out)
        fields: dict[str, Any] = {
            "shape1": shapes[0],
            "shape2": shapes[1],
            "batch_axis": gone[0],
            "channel_axis": gone[1],
            "is_input": False,
        }
        quick = passed_as_covariances(kernel, chain, change, **fields)
        if quick is not None:
            return quick
        pairs = changed(change, pairs_of_kernel(kernel))
        return kernel_of_pairs(kernel, pairs if order_out is None else transposed(pairs, order_out), **fields)

    kernel_fn.sets_shapes = True  # pyright: ignore[reportFunctionMemberAccess]
    return init_fn, apply_fn, taking_arrays(init_fn, kernel_fn)
