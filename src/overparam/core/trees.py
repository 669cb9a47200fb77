"""Weights as a pytree: put where JAX computes, stacked, taken apart into named arrays and a plain outline, put together again."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np


def placed(array: Any, dtype: Any = None) -> Any:
    """An array as JAX's, where it computes. NumPy's is put there as it is, and may share its memory with what is put there:
    `jnp.asarray` compiles a program for every shape.
    """
    return jax.device_put(np.asarray(array, dtype)) if isinstance(array, np.ndarray) else jnp.asarray(array, dtype)


@jax.jit
def stacked(*trees: Any) -> Any:
    """Trees of one structure as one, whose arrays have an axis for them: one program instead of one for every shape."""
    return jax.tree.map(lambda *leaves: jnp.stack(leaves), *trees)


@jax.jit
def one_of_stacked(trees: Any, place: Any) -> Any:
    """One of the trees that `stacked` made into one."""
    return jax.tree.map(lambda leaf: leaf[place], trees)


def layer_names(trained: Any) -> tuple[str, ...]:
    """The layers by their path in the tree.

    >>> layer_names({"W": np.zeros(2), "deep": (np.zeros(1), np.zeros(1))})
    ('W', 'deep.0', 'deep.1')
    """
    paths = [path for path, _ in jax.tree.leaves_with_path(trained)]
    return tuple(".".join(str(_entry(step)) for step in path) or "weights" for path in paths)


def is_key(leaf: Any) -> bool:
    """Whether a leaf is a JAX key of the new style, which NumPy does not take."""
    return hasattr(leaf, "dtype") and jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key)


def as_numpy(leaf: Any) -> np.ndarray:
    """A leaf as an array; of a key its words."""
    return np.asarray(jax.random.key_data(leaf) if is_key(leaf) else leaf)


def take_tree_apart(tree: Any, prefix: str) -> tuple[Any, dict[str, np.ndarray]]:
    """The outline of a pytree, plain enough for JSON, and its arrays by name.

    A leaf is the name of its array, a container says its kind. Objects of other classes (Equinox modules, named tuples)
    are written as dicts of their fields, and come back as such.

    >>> outline, arrays = take_tree_apart({"a": (np.ones(1), 2.0)}, "w")
    >>> outline
    {'dict': [['a', {'tuple': ['w.a.0', 'w.a.1']}]]}
    >>> put_tree_together(outline, arrays)
    {'a': (array([1.]), array(2.))}
    """
    arrays: dict[str, np.ndarray] = {}
    return _outline(tree, prefix, arrays), arrays


def _outline(node: Any, path: str, arrays: dict[str, np.ndarray]) -> Any:
    if node is None:
        return None
    children = jax.tree.leaves_with_path(node, is_leaf=lambda inner: inner is not node)
    if children and not children[0][0]:  # a leaf has no step to go
        name = _unused(path, arrays)
        arrays[name] = as_numpy(node)
        return name
    steps = [(_entry(entry), child) for (entry,), child in children]
    inside = [(step, _outline(child, f"{path}.{_safe(step)}", arrays)) for step, child in steps]
    if isinstance(node, tuple | list) and not hasattr(node, "_fields"):
        return {"list" if isinstance(node, list) else "tuple": [item for _, item in inside]}
    return {"dict": [[step, item] for step, item in inside]}


def put_tree_together(outline: Any, arrays: Mapping[str, np.ndarray]) -> Any:
    """The tree that `take_tree_apart` took apart."""
    if outline is None:
        return None
    if isinstance(outline, str):
        return arrays[outline]
    ((kind, items),) = outline.items()
    if kind == "dict":
        return {step: put_tree_together(item, arrays) for step, item in items}
    found = [put_tree_together(item, arrays) for item in items]
    return found if kind == "list" else tuple(found)


def _entry(entry: Any) -> Any:
    """A step of a path: the key of a dict, the place in a sequence or the name of a field."""
    for field in ("key", "idx", "name"):
        if hasattr(entry, field):
            found = getattr(entry, field)
            return found if isinstance(found, int | str) else str(found)
    return str(entry)


def _safe(step: Any) -> str:
    return re.sub(r"[^\w-]", "_", str(step)) or "_"


def _unused(name: str, arrays: Mapping[str, Any]) -> str:
    candidate, count = name, 1
    while candidate in arrays:
        count += 1
        candidate = f"{name}~{count}"
    return candidate
