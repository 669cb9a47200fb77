"""PyTorch's data sets and loaders as arrays; torch is looked at only where whoever asks has imported it."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from overparam.core import checks
from overparam.core.machine import available_memory
from overparam.core.reading import one_line
from overparam.core.words import count_of
from overparam.data.readers.arrays import X_NAMES, Y_NAMES, raw_from_arrays
from overparam.data.readers.reader import Raw

MOST_ROWS = 5_000_000
"""A data set that goes on after so many rows is taken for one without an end."""


def is_torch_data(data: Any) -> bool:
    """Whether it is a `torch.utils.data.Dataset` or `DataLoader`."""
    torch = sys.modules.get("torch.utils.data")
    return torch is not None and isinstance(data, torch.Dataset | torch.DataLoader)


def read_torch_data(data: Any, *, missing: str = "error") -> Raw:
    """Features and labels of a data set, or of the batches of a loader, in its order.

    A loader that only shuffles and batches a data set of known length is read in the order of that set, all rows of it,
    so that the same loader gives the same data twice.
    """
    name = type(data).__name__
    batches = _is_loader(data)
    if batches and _plain_loader(data):
        data, batches = data.dataset, False
    if type(data) is sys.modules["torch.utils.data"].TensorDataset:
        if len(data.tensors) != 2:
            count = count_of(len(data.tensors), "tensor")
            raise ValueError(f"`data` is a TensorDataset of {count}; expected two, X and y")
        X, y = (_array(tensor, name) for tensor in data.tensors)
    else:
        X, y = _stacked(_pairs(data, name, batches), name)
    return replace(raw_from_arrays(X, y, missing=missing), name=name)


def _is_loader(data: Any) -> bool:
    return isinstance(data, sys.modules["torch.utils.data"].DataLoader)


def _plain_loader(loader: Any) -> bool:
    """Whether the rows of a loader are all those of its data set, batched as usual."""
    torch = sys.modules["torch.utils.data"]
    usual = getattr(torch, "default_collate", None)
    known = isinstance(loader.sampler, torch.SequentialSampler | torch.RandomSampler)
    return bool(
        known
        and hasattr(loader.dataset, "__len__")
        and loader.collate_fn is usual
        and not getattr(loader.sampler, "replacement", False)
        and len(loader.sampler) == len(loader.dataset)
    )


def _pairs(data: Any, name: str, batches: bool) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Rows (one in a batch of its own), or batches of them."""
    items: Iterable[Any] = data
    if not batches and hasattr(data, "__len__") and hasattr(data, "__getitem__"):
        items = (data[i] for i in range(len(data)))  # not iter(data): it ends by IndexError, which not all raise
    try:
        for item in items:
            x, y = _parts(item, name)
            yield (x, y) if batches and y.ndim else (x[None], y[None])  # a loader may give rows one by one
    except (NotImplementedError, TypeError) as error:
        raise ValueError(f"`data` is a {name} whose rows cannot be read ({one_line(error)[:120]})") from None


def _parts(item: Any, name: str) -> tuple[np.ndarray, np.ndarray]:
    if isinstance(item, Mapping):
        keys = [next((key for key in names if key in item), None) for names in ((*X_NAMES, "image", "input"), Y_NAMES)]
        if None in keys:
            raise ValueError(
                f"`data` is a {name} of rows with {', '.join(map(str, item))}; expected X and y, or image and label"
            )
        return _array(item[keys[0]], name), _array(item[keys[1]], name)
    if not isinstance(item, tuple | list) or len(item) != 2:
        what = count_of(len(item), "part") if isinstance(item, tuple | list) else f"a {type(item).__name__} alone"
        raise ValueError(f"`data` is a {name} whose rows are {what}; expected pairs of features and label")
    return _array(item[0], name), _array(item[1], name)


def _array(value: Any, name: str) -> np.ndarray:
    """A tensor, a picture or a number as an array; the channels of a picture come first."""
    if hasattr(value, "detach"):
        value = value.detach().cpu()
        return value.float().numpy() if str(value.dtype) == "torch.bfloat16" else value.numpy()
    array = np.asarray(value)
    if type(value).__module__.startswith("PIL.") and array.ndim == 3:
        array = array.transpose(2, 0, 1)
    if array.dtype == object:
        raise ValueError(f"`data` is a {name} with a {type(value).__name__} in its rows; expected tensors or numbers")
    return array


def _stacked(pairs: Iterator[tuple[np.ndarray, np.ndarray]], name: str) -> tuple[np.ndarray, np.ndarray]:
    """All rows as two arrays; one line where they differ in shape, have no end or do not fit in memory."""
    parts: list[tuple[np.ndarray, np.ndarray]] = []
    rows, free = 0, available_memory()
    size = 0
    for x, y in pairs:
        if parts and x.shape[1:] != parts[0][0].shape[1:]:
            raise ValueError(
                f"`data` is a {name} with rows of shape {parts[0][0].shape[1:]} and {x.shape[1:]} (first: row {rows}); "
                "bring them to one size by a transform"
            )
        parts.append((x, y))
        rows, size = rows + len(x), size + x.nbytes
        if rows > MOST_ROWS:
            raise ValueError(f"`data` is a {name} that goes on after {MOST_ROWS:,} rows; give one that ends")
        if rows // 1024 > (rows - len(x)) // 1024:
            checks.require_memory(
                2.0 * size, free, f"`data`, a {name}, after {count_of(rows, 'row')}", "give fewer rows", part=0.5
            )
    if not parts:
        raise ValueError(f"`data` is a {name} without rows; it needs at least two")
    X, y = (np.concatenate(list(side)) for side in zip(*parts, strict=True))
    return (X if X.ndim > 1 else X[:, None]), y
