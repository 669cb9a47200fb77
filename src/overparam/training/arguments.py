"""What training is given, checked: the network or function, where it starts, records, measures, options; each failure one line."""

from __future__ import annotations

import difflib
import functools
import inspect
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, ParamSpec, TypeVar

import jax
import jax.numpy as jnp
import numpy as np

from overparam.core import checks
from overparam.core.machine import free_memory
from overparam.core.network import AbstractNetwork, Params
from overparam.core.spec import spec_of
from overparam.core.trees import layer_names
from overparam.core.words import count_of
from overparam.data import Dataset
from overparam.networks import Given
from overparam.networks.composed import AbstractComposed
from overparam.training.losses import AbstractLoss
from overparam.training.measures import MEASURES, ON_REQUEST
from overparam.training.precision import cast

P = ParamSpec("P")
R = TypeVar("R")
Trainee = AbstractNetwork | Callable[[Any, Any], Any]

RECORDS = 40
"""Records of a run whose steps are not chosen, spread evenly in log(step)."""

OUTPUT_BYTES = 2**27
"""Most memory for the outputs of all records, unless they are asked for."""

MODELS = {
    "torch": "op.from_torch(module, example=x)",
    "flax": "op.from_flax(module, variables)",
    "equinox": "op.from_equinox(model)",
}
"""By the package that a model's class comes from: how it gets here."""


def as_network(network: Trainee, params: Any) -> AbstractNetwork:
    """A network of the house, or the user's function as one."""
    if isinstance(network, AbstractNetwork):
        return network
    for base in type(network).__mro__:
        way = MODELS.get(base.__module__.partition(".")[0])
        if way is not None:
            raise ValueError(f"`network` is a {type(network).__name__} of another framework; pass `{way}`")
    if callable(network):
        if params is None:
            raise ValueError(
                "a function `apply(params, x)` has no initialisation; pass `params=`, the weights to start from"
            )
        # It is part of compiled programs, which are kept: it should not hold the weights.
        return Given(network, draw=_has_no_draw)
    raise ValueError(f"`network` is {network!r}; expected one of op.networks, or a function `apply(params, x)`")


def _has_no_draw(key: Any) -> Any:
    raise ValueError("a function `apply(params, x)` has no initialisation; pass `params=`")


def first_weights(network: AbstractNetwork, data: Dataset, params: Any, key: Any, kind: Any) -> Params:
    """The parameters to start from, drawn in float64 and then rounded, so that every precision starts alike."""
    if isinstance(params, Params):
        start = params
    elif params is None:
        start = network.init(key, data.d)
    elif isinstance(network, Given):
        start = Params(params)
    else:
        start = replace(network.init(key, data.d), trained=params)
    require_weights(start.trained)
    if params is not None and isinstance(network, AbstractComposed):
        require_weights_of(network, data.d, start)
    return cast(start, kind)


def initial(network: AbstractNetwork, data: Dataset, params: Any, key: Any, kind: Any) -> Params:
    """`first_weights`, whose outputs have the shape of the targets."""
    start = first_weights(network, data, params, key, kind)
    shape = _output_shape(network, start, data, kind)
    if shape != data.y.shape:
        raise ValueError(
            f"the network's outputs have shape {shape} and the targets {data.y.shape}; {_shape_fix(shape, data)}"
        )
    return start


def require_weights(trained: Any) -> None:
    """Raise unless every leaf is an array of finite real numbers, and there is one."""
    leaves = jax.tree.leaves(trained)
    if not leaves:
        raise ValueError("`params` holds no weights to train; expected a pytree with at least one array")
    for name, leaf in zip(layer_names(trained), leaves, strict=True):
        try:
            dtype = leaf.dtype if isinstance(leaf, np.ndarray | jax.Array) else jnp.asarray(leaf).dtype
        except (TypeError, ValueError):
            raise ValueError(
                f"`params` has a {type(leaf).__name__} at {name!r}; expected arrays alone "
                "(of an Equinox model: `eqx.partition(model, eqx.is_inexact_array)[0]`)"
            ) from None
        if not jnp.issubdtype(dtype, jnp.floating):
            raise ValueError(f"`params` has {dtype} at {name!r}; weights are trained as floats: convert it, or keep "
                             "what is not trained in the function")  # fmt: skip
        if not np.isfinite(np.asarray(leaf)).all():  # NumPy's, which compiles nothing
            raise ValueError(f"`params` has NaN or infinite numbers at {name!r}; start from finite weights")


def require_weights_of(network: AbstractComposed, d: int, start: Params) -> None:
    """Raise unless `start` has the weights of the network, trained, fixed or running, by name and shape."""
    wanted, given = _shapes(jax.eval_shape(lambda: network.init(0, d))), _shapes(start)
    which = f"{spec_of(network)} on {count_of(d, 'feature')}"
    for name, shape in wanted.items():
        if name not in given:
            raise ValueError(f"`params` has no {name!r}; {which} has {_listed(wanted)}")
        if given[name] != shape:
            raise ValueError(f"`params` has shape {given[name]} at {name!r}; {which} has {_listed(wanted)}")
    if unknown := [name for name in given if name not in wanted]:
        raise ValueError(f"`params` has {unknown[0]!r}; {which} has {_listed(wanted)}")


def _shapes(params: Params) -> dict[str, tuple[int, ...]]:
    trees = (params.trained, params.fixed, params.state)
    return {
        name: np.shape(leaf)
        for tree in trees
        for name, leaf in zip(layer_names(tree), jax.tree.leaves(tree), strict=True)
    }


def _listed(shapes: dict[str, tuple[int, ...]]) -> str:
    return ", ".join(f"{name} {shape}" for name, shape in shapes.items())


def _output_shape(network: AbstractNetwork, start: Params, data: Dataset, kind: Any) -> tuple[int, ...]:
    return jax.eval_shape(network.apply, start, jax.ShapeDtypeStruct(data.X.shape, kind)).shape


def _shape_fix(shape: tuple[int, ...], data: Dataset) -> str:
    n = data.n
    if data.y.ndim == 1 and shape == (n, 1):
        return "one output is an array (n,): return `outputs[:, 0]`"
    if data.y.ndim == 2 and shape in ((n,), (n, 1)):
        k = data.y.shape[1]
        return f"a network for {count_of(k, 'class', 'classes')} has {count_of(k, 'output')}; or keep two classes with `op.load(…, classes=(…, …))`"
    return "give the network as many outputs as there are targets"


def require_classes(objective: AbstractLoss, y: np.ndarray) -> None:
    """Raise where the objective is about classes and the targets are real numbers."""
    if objective.of_classes and y.ndim == 1 and not np.all(np.abs(y) == 1):
        row = int(np.flatnonzero(np.abs(y) != 1)[0])
        raise ValueError(
            f"`objective` is {objective.name!r}, which needs classes, and the target of row {row} is {y[row]:g}; "
            "use labels of two or more classes, or 'squared'"
        )


def require_memory(network: AbstractNetwork, start: Params, X: Any, rows: int, runs: int, device: Any) -> None:
    """Raise where the pre-activations of one step alone are more than the memory left: XLA would end the process."""
    held = jax.eval_shape(network.trace, start, jax.ShapeDtypeStruct((1, *X.shape[1:]), X.dtype)).pre_activations
    weights = sum(leaf.size * leaf.dtype.itemsize for leaf in jax.tree.leaves(start))
    need = runs * (rows * sum(g.size * g.dtype.itemsize for g in held) + weights)
    what, fix = (
        f"a step on {count_of(rows, 'row')}",
        "a smaller width, fewer rows, `sgd` with a smaller batch, or dtype='float32'",
    )
    checks.require_memory(need, free_memory(device), what, f"take {fix}")


def record_steps(record: int | Sequence[int] | None, steps: int) -> list[int]:
    """The steps to record, the first and the last always among them.

    >>> record_steps(4, 10)
    [0, 4, 8, 10]
    >>> record_steps(None, 3)
    [0, 1, 2, 3]
    """
    if record is None:
        chosen = np.unique(np.geomspace(1, max(1, steps), RECORDS).round().astype(int)).tolist()
    elif isinstance(record, int | np.integer):
        if record < 1:
            raise ValueError(f"`record` is {record}; expected every how many steps, 1 or more")
        chosen = list(range(0, steps, int(record)))
    else:
        try:
            chosen = [checks.whole_number(step, "record") for step in record]
        except TypeError:
            raise ValueError(f"`record` is {record!r}; expected every how many steps, or the steps to record") from None
        wrong = [step for step in chosen if step > steps]
        if wrong:
            raise ValueError(f"`record` has step {wrong[0]}; the run has steps 0 … {steps}")
    return sorted({0, steps, *(s for s in chosen if s <= steps)})


def checked_measures(measures: Sequence[str] | None, records: int, data: Dataset, runs: int) -> tuple[str, ...]:
    """The measures by name; without a choice, outputs only while they are small."""
    if measures is None:
        size = data.y.size + (data.test.y.size if data.test is not None else 0)
        return MEASURES if 8 * size * records * runs <= OUTPUT_BYTES else MEASURES[1:]
    if isinstance(measures, str):
        measures = (measures,)
    known = (*MEASURES, *ON_REQUEST)
    unknown = [name for name in measures if name not in known]
    if unknown:
        raise ValueError(f"`measures` has {unknown[0]!r}; expected names out of {', '.join(known)}")
    return tuple(name for name in known if name in measures)


def options_of(*others: Callable[..., Any]) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """A decorator: the function knows its own options and those of `others`, to which it passes `**options` on.

    Its signature names them all, and one that it does not have is one line.

    >>> @options_of()
    ... def descend(lr, *, steps=1): ...
    >>> descend(0.1, step=2)
    Traceback (most recent call last):
    ValueError: descend() has no option 'step', perhaps 'steps'; it has steps
    """

    def decorate(function: Callable[P, R]) -> Callable[P, R]:
        own = [p for p in inspect.signature(function).parameters.values() if p.kind is not p.VAR_KEYWORD]
        passed_on = [p for other in others for p in inspect.signature(other).parameters.values()]
        named = {p.name: p for p in own}
        named |= {p.name: p for p in passed_on if p.kind is p.KEYWORD_ONLY and p.name not in named}
        options = [p.name for p in named.values() if p.kind is p.KEYWORD_ONLY]
        required = [name for name in options if named[name].default is inspect.Parameter.empty]

        @functools.wraps(function)
        def checked(*args: P.args, **kwargs: P.kwargs) -> R:
            for name in kwargs:
                if name not in named:
                    near = difflib.get_close_matches(name, options, 1)
                    hint = f", perhaps {near[0]!r}" if near else ""
                    raise ValueError(f"{function.__name__}() has no option {name!r}{hint}; it has {', '.join(options)}")
            if missing := [name for name in required if name not in kwargs]:
                raise TypeError(f"{function.__name__}() needs {', '.join(missing)}")
            return function(*args, **kwargs)

        checked.__signature__ = inspect.Signature(list(named.values()))  # type: ignore[attr-defined]
        return checked

    return decorate


def taken(options: dict[str, Any], function: Callable[..., Any]) -> dict[str, Any]:
    """Those options that are the function's, taken out of the others.

    >>> options = {"places": 3, "lr": 0.1}
    >>> taken(options, lambda x, *, places: x), options
    ({'places': 3}, {'lr': 0.1})
    """
    return {name: options.pop(name) for name in inspect.signature(function).parameters if name in options}
