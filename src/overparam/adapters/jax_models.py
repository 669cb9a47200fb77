"""Equinox and Flax models as networks of the house, and the shape in which a model takes its samples."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, final

import jax
import jax.numpy as jnp

from overparam.core.network import AbstractNetwork, ByRelu, Params, Trace
from overparam.core.program_relus import traced


@dataclass(frozen=True, eq=False)
class AbstractModel(AbstractNetwork):
    """A model of another framework, in evaluation: its weights, and what it does with any.

    Two of these are equal only where they are the same object.
    """

    params: Params
    without_weights: Any
    """The function of (params, x) alone: equal for models of one structure, so that compiled code is shared."""

    def init(self, key: Any, inputs: int | tuple[int, ...] = ()) -> Params:
        """The model's own weights, whatever the key."""
        return self.params

    def apply(self, params: Params, x: Any) -> Any:
        """Outputs of a batch (n, …): what the model gives for each sample; (n,) where that is one number."""
        return self.without_weights(params, x)

    def trace(self, params: Params, x: Any, shifts: ByRelu = None, gates: ByRelu = None) -> Trace:
        """The output and every ReLU that is found in the steps of its program, units flat: (n, units)."""
        return traced(self.apply, params, x, shifts, gates)


@final
@dataclass(frozen=True)
class WithoutWeights:
    """What a model does with weights, without them: equal for models of one structure, so that compiled code is shared.

    run: (params, x, *about) to outputs.
    """

    run: Callable[..., Any]
    about: tuple[Any, ...]

    def __call__(self, params: Params, x: Any) -> Any:
        """Outputs of a batch (n, …); (n,) where the model gives (n, 1)."""
        outputs = self.run(params, jnp.asarray(x), *self.about)
        return outputs[:, 0] if getattr(outputs, "shape", ())[1:] == (1,) else outputs


def _run_equinox(params: Params, x: Any, tree: Any, leaves: tuple[Any, ...]) -> Any:
    import equinox as eqx

    model = eqx.combine(params.trained, params.fixed, jax.tree.unflatten(tree, leaves))
    if jax.tree.leaves(params.state):
        return jax.vmap(model, in_axes=(0, None), axis_name="batch")(x, params.state)[0]
    return jax.vmap(model, axis_name="batch")(x)


@final
class EquinoxNetwork(AbstractModel):
    """An Equinox model in inference mode, applied to every sample of a batch. Made by `from_equinox`.

    params: trained, all floating point arrays of the model; fixed, its other arrays; state, its `eqx.nn.State` (running
    averages), which does not change.
    """


def from_equinox(model: Any, state: Any = None) -> EquinoxNetwork:
    """An Equinox model as a network: for `kernels.Empirical`, `training` and all else that takes one.

    The model takes one sample, as is the custom there, and is put in inference mode: dropout is off and batch norm uses
    its running averages. The model given is not changed.

    Args:
        model: a callable `eqx.Module`: model(x), or model(x, state) giving (outputs, state).
        state: the `eqx.nn.State` of a model made with `eqx.nn.make_with_state`.

    >>> import equinox as eqx
    >>> line = eqx.nn.Linear(2, 1, key=jax.random.key(0))
    >>> network = from_equinox(line)
    >>> network.apply(network.init(0), jnp.ones((3, 2))).shape
    (3,)
    """
    try:
        import equinox as eqx
    except ImportError:
        raise ValueError("models of Equinox need equinox; install it: pip install 'overparam[equinox]'") from None
    if not isinstance(model, eqx.Module) or not callable(model):
        raise ValueError(f"`model` is a {type(model).__name__}; expected an `eqx.Module` that takes one sample")
    if state is not None and not isinstance(state, eqx.nn.State):
        raise ValueError(f"`state` is a {type(state).__name__}; expected the `State` of `eqx.nn.make_with_state`")
    trained, rest = eqx.partition(eqx.nn.inference_mode(model), eqx.is_inexact_array)
    if not jax.tree.leaves(trained):
        raise ValueError("`model` has no array of floating point numbers to train")
    fixed, rest = eqx.partition(rest, eqx.is_array)
    leaves, tree = jax.tree.flatten(rest)
    return EquinoxNetwork(
        Params(trained, fixed, () if state is None else state), WithoutWeights(_run_equinox, (tree, tuple(leaves)))
    )


EVALUATION = {
    "train": False,
    "training": False,
    "is_training": False,
    "deterministic": True,
    "use_running_average": True,
}
"""Arguments that say whether a model is trained, by their usual names, as they are for evaluation."""


def _run_flax(params: Params, x: Any, module: Any, options: tuple[tuple[str, Any], ...]) -> Any:
    """module: of linen; or the graph of an nnx model."""
    from flax import linen, nnx

    if isinstance(module, linen.Module):
        return module.apply({"params": params.trained, **params.fixed}, x, **dict(options))
    return nnx.merge(module, params.trained, params.fixed)(x, **dict(options))


@final
class FlaxNetwork(AbstractModel):
    """A Flax model in evaluation. Made by `from_flax`.

    params: trained, the collection "params" (nnx: what is `nnx.Param`); fixed, all others, batch statistics among them,
    which do not change. Two of these are equal only where they are the same object.
    """


def from_flax(module: Any, variables: Any = None, **options: Any) -> FlaxNetwork:
    """A Flax model as a network: for `kernels.Empirical`, `training` and all else that takes one.

    It is put in evaluation: arguments named `train`, `training`, `is_training`, `deterministic` or `use_running_average`
    get the value for it where the module's `__call__` has them, and a copy of an nnx model is put in `eval()`.

    Args:
        module: a `linen.Module`, or an `nnx.Module`, which carries its weights.
        variables: of a linen module: {"params": …, "batch_stats": …}, as its `init` gives them.
        options: more arguments for the module's `__call__`, over those above.
    """
    try:
        import flax.linen
        from flax import nnx
    except ImportError:
        raise ValueError("models of Flax need flax; install it: pip install 'overparam[flax]'") from None
    if isinstance(module, nnx.Module):
        if variables is not None:
            raise ValueError("`variables` were given with an nnx model, which carries its own; leave them out")
        return _from_nnx(module, options)
    if not isinstance(module, flax.linen.Module):
        raise ValueError(f"`module` is a {type(module).__name__}; expected a `linen.Module` or an `nnx.Module`")
    if variables is None or "params" not in variables:
        raise ValueError("`variables` has no 'params'; give what `module.init(key, x)` gives: {'params': ..., ...}")
    options = _for_evaluation(module, options)
    fixed = {name: collection for name, collection in variables.items() if name != "params"}
    return FlaxNetwork(Params(variables["params"], fixed), WithoutWeights(_run_flax, (module, tuple(options.items()))))


def _from_nnx(module: Any, options: dict[str, Any]) -> FlaxNetwork:
    from flax import nnx

    copy = nnx.merge(*nnx.split(module))  # `eval` changes a model in place; the user's stays as it is
    copy.eval()
    options = _for_evaluation(copy, options)
    graph, trained, fixed = nnx.split(copy, nnx.Param, ...)
    return FlaxNetwork(Params(trained, fixed), WithoutWeights(_run_flax, (graph, tuple(options.items()))))


def _for_evaluation(module: Any, options: dict[str, Any]) -> dict[str, Any]:
    known = inspect.signature(type(module).__call__).parameters
    return {**{name: value for name, value in EVALUATION.items() if name in known}, **options}


Shape = tuple[int, ...]
Arrangement = tuple[Shape, Shape]
"""The shape in which a flat row is read, and the order in which its axes are handed on."""


@final
@dataclass(frozen=True)
class Arranged(AbstractNetwork):
    """The same network for flat rows, which it sees as images. Made by `fitted`.

    stored: the image in a row. axes: their order for the network, so that channels may be moved.
    """

    network: AbstractNetwork
    stored: Shape
    axes: Shape

    def init(self, key: Any, inputs: int | Shape = ()) -> Params:
        """The network's own."""
        return self.network.init(key, inputs)

    def apply(self, params: Params, x: Any) -> Any:
        """What the network gives for the images."""
        return self.network.apply(params, self._images(x))

    def apply_train(self, params: Params, x: Any) -> tuple[Any, Any]:
        """What the network gives in training."""
        return self.network.apply_train(params, self._images(x))

    def trace(self, params: Params, x: Any, shifts: ByRelu = None, gates: ByRelu = None) -> Trace:
        """What the network gives, seen from inside."""
        return self.network.trace(params, self._images(x), shifts, gates)

    def _images(self, x: Any) -> Any:
        x = jnp.asarray(x)
        images = x.reshape(x.shape[0], *self.stored)
        return images.transpose(0, *(axis + 1 for axis in self.axes))


def fitted(network: AbstractNetwork, params: Params, d: int, image_shape: Shape | None, dtype: Any) -> AbstractNetwork:
    """The network as one of flat rows (n, d), read in the first shape that it takes; one line where it takes none.

    Models of Flax and Equinox are tried on images first, in the shape given and with channels last and first. Functions
    are tried on flat rows first, which is how they are trained.

    Args:
        network: a model of another framework or a function.
        params: its weights, in `dtype`.
        d, image_shape: numbers in a row, and the image they are, where they are one.
        dtype: of the samples.

    >>> from overparam.networks import Given
    >>> rows = Given(lambda w, x: x @ w, jnp.ones(4))
    >>> fitted(rows, rows.init(0), 4, (2, 2), jnp.float32) is rows
    True
    >>> images = Given(lambda w, x: x[:, 0, 1] * w, jnp.ones(()))
    >>> fitted(images, images.init(0), 4, (2, 2), jnp.float32).apply(images.init(0), jnp.arange(4.0)[None]).tolist()
    [1.0]
    """
    flat: Arrangement = ((d,), (0,))
    images = () if image_shape is None else _arrangements(tuple(image_shape))
    model = isinstance(network, EquinoxNetwork | FlaxNetwork)
    tried, why = (*images, flat) if model else (flat, *images), ""
    for stored, axes in tried:
        made = network if len(stored) == 1 else Arranged(network, stored, axes)
        try:
            seen = jax.eval_shape(made.apply, params, jax.ShapeDtypeStruct((2, d), dtype))
        except MemoryError:
            raise
        except Exception as error:  # each framework has its own for samples that do not fit
            why = why or " ".join(str(error).split())
            continue
        shape: Any = getattr(seen, "shape", ())
        if len(shape) in (1, 2) and shape[0] == 2:
            return made
        why = why or f"it gives {shape} for 2 samples"
    shapes = ", ".join(str(tuple(stored[axis] for axis in axes)) for stored, axes in tried)
    more = "" if images else "; give images as X of shape (n, height, width) or with channels"
    raise ValueError(f"the network does not take samples of shape {shapes}: {why[:240]}{more}")


def _arrangements(shape: Shape) -> tuple[Arrangement, ...]:
    """The image as it is, then with its channel last or first, then without one."""
    own = (shape, tuple(range(len(shape))))
    if len(shape) == 2:
        return own, ((*shape, 1), (0, 1, 2)), ((1, *shape), (0, 1, 2))
    if len(shape) != 3:
        return (own,)
    first = shape[0] <= shape[2]  # there are fewer channels than columns
    moved = (shape, (1, 2, 0) if first else (2, 0, 1))
    channels, plain = (shape[0], shape[1:]) if first else (shape[2], shape[:2])
    return (own, moved, (plain, (0, 1))) if channels == 1 else (own, moved)
