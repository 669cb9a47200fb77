"""The front door of the data: `load` finds a source, reads it, chooses rows and encodes labels."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from overparam.core.words import count_of
from overparam.data.dataset import Dataset
from overparam.data.encoding import choose_task, class_codes, class_order, encode_codes, shown_values
from overparam.data.keys import generator
from overparam.data.raw import Raw
from overparam.data.sources import read_drawn, read_source
from overparam.data.splits import draw_rows, row_count, split_rows


def load(
    source: Any,
    *,
    label: str | int | None = None,
    group: str | int | None = None,
    classes: Sequence[Any] | None = None,
    train: int | float | None = None,
    test: int | float | None = None,
    task: str | None = None,
    seed: int = 0,
    missing: str = "error",
) -> Dataset:
    """A data set from a name, a file, a folder, arrays or a frame. Numbers are not changed.

    source: "digits", "wine", "breast-cancer", "iris", "diabetes"; "parity" and "sparse-parity", which are drawn;
    "mnist", "fashion-mnist", "cifar10", "cifar100", "uci/abalone", ... from $OVERPARAM_DATA or the cache
    directory; a .csv, .tsv (.gz), .npz, .parquet or .bin file; "X.npy" with "y.npy" beside it, or both as a pair;
    a folder of IDX files, CIFAR batches or .npy files; (X, y); a mapping with X and y; a pandas or polars frame.
    label: the label column of a table, by name or number (default: the last).
    group: a column (not a feature) whose values a train/test split keeps together.
    classes: the classes kept, in this order; of two the first gets +1. Default: all, sorted
    (labels that are ±1 keep their sign).
    train, test: how many rows, or a share between 0 and 1. Image sets give their first rows in file order;
    tables and arrays a draw by `seed` with the classes in proportion. Where the source has no test rows of
    its own, `test` holds out some of its rows.
    task: "classes" or "regression" where the labels leave a doubt.
    seed: of the draws, and of the order of tables, whose rows are shuffled first.
    missing: missing values of tables are an "error", filled by the column "mean" (text: a category of its
    own), or their rows are "drop"-ped.

    >>> data = load(([[0.0], [1.0], [2.0]], ["no", "yes", "no"]))
    >>> data.classes, data.y
    (('no', 'yes'), array([ 1., -1.,  1.]))
    """
    if missing not in ("error", "mean", "drop"):
        raise ValueError(f"`missing` is {missing!r}; expected 'error', 'mean' or 'drop'")
    drawn = read_drawn(source, label=label, group=group, train=train, test=test, seed=seed)
    if drawn is not None:  # with as many rows as were asked for
        return _assemble(drawn, classes, None, None, task, seed)
    raw = read_source(source, label=label, group=group, classes=classes, missing=missing)
    return _assemble(raw, classes, train, test, task, seed)


def as_dataset(data: Any) -> Dataset:
    """`data` as a Dataset, rows in the order given: a Dataset, (X, y), a mapping, a frame; a name is loaded.

    >>> as_dataset(([[1, 2], [3, 4]], [1, -1])).y
    array([ 1., -1.])
    """
    if isinstance(data, Dataset):
        return data
    if isinstance(data, str | Path):
        return load(data)
    raw = read_source(data)
    return _assemble(replace(raw, shuffle=False), None, None, None, None, 0)


def _assemble(raw: Raw, classes: Any, train: Any, test: Any, task: str | None, seed: Any) -> Dataset:
    _check_size(raw)
    named = None if classes is None else "classes"  # who names classes has classes
    kind, why = choose_task(raw.labels, task or raw.task or named)
    if kind == "regression":
        if classes is not None:
            raise ValueError(f"`classes` was given but {raw.name!r} is a regression; leave `classes` out")
        order, codes = (), np.zeros(len(raw.labels), dtype=np.int64)
    else:
        order = class_order(raw.labels, classes)
        codes = class_codes(raw.labels, order)
    notes = list(raw.notes)
    if task is None and raw.task is None:
        notes.append(f"read as {'regression' if kind == 'regression' else f'{len(order)} classes'}: {why}")
    pool = np.flatnonzero(codes >= 0)
    if raw.shuffle:
        pool = generator(seed, 0).permutation(pool)
        notes.append(f"rows shuffled with seed {seed}")
    pool, held = _hold_out(raw, pool, codes, train, test, seed, notes)
    pool = _first(raw, pool, codes, train, "train", seed)
    _check_classes(raw, codes[pool], order, task)
    absent = [value for i, value in enumerate(order) if not (codes[pool] == i).any()]
    if absent:
        notes.append(f"no training row has the class {shown_values(absent)}")
    if raw.X.dtype.type not in (np.float32, np.float64):
        notes.append(f"{raw.X.dtype} converted to float64")
    held_out = None if held is None else _dataset(raw, held, codes, order, kind, (), None)
    if raw.test is not None:
        held_out = _own_test(raw.test, order, kind, test, seed)
    return _dataset(raw, pool, codes, order, kind, tuple(notes), held_out)


def _hold_out(
    raw: Raw, pool: np.ndarray, codes: np.ndarray, train: Any, test: Any, seed: Any, notes: list[str]
) -> tuple[np.ndarray, np.ndarray | None]:
    """Training and test rows of a source without a test part; of images, row numbers follow file order."""
    if raw.test is not None or test is None:
        return pool, None
    count = row_count(test, len(pool), "test")
    if count >= len(pool):
        raise ValueError(f"`test` asks for {count:,} of {len(pool):,} rows; leave some to train on")
    if raw.kind == "image" and raw.groups is None and not isinstance(test, float):
        start = len(pool) - count if train is None else row_count(train, len(pool), "train")
        if start + count > len(pool):
            raise ValueError(f"`train` and `test` ask for {start + count:,} rows; there are {len(pool):,}")
        notes.append(f"no test rows of its own: rows {start:,} to {start + count - 1:,} held out, in file order")
        return pool[:start], pool[start : start + count]
    groups = None if raw.groups is None else raw.groups[pool]
    kept, held = split_rows(len(pool), count, generator(seed, 1), strata=codes[pool], groups=groups)
    how = "at random" if (codes[pool] == codes[pool[0]]).all() else "classes in proportion"
    how = how if groups is None else "no group on both sides"
    notes.append(f"{count_of(len(held), 'row')} held out for testing, {how} (seed {seed})")
    return pool[kept], pool[held]


def _first(raw: Raw, pool: np.ndarray, codes: np.ndarray, asked: Any, name: str, seed: Any) -> np.ndarray:
    if asked is None:
        return pool
    count = row_count(asked, len(pool), name)
    if raw.kind == "image":
        return pool[:count]
    return pool[draw_rows(codes[pool], count, generator(seed, 2))]


def _own_test(raw: Raw, order: tuple[Any, ...], kind: str, test: Any, seed: Any) -> Dataset:
    if isinstance(test, float):
        raise ValueError(
            f"`test` is a share, {test}, but {raw.name!r} has {len(raw.labels):,} test rows of its own; "
            "pass a number of rows"
        )
    codes = class_codes(raw.labels, order) if order else np.zeros(len(raw.labels), dtype=np.int64)
    pool = np.flatnonzero(codes >= 0)
    if not len(pool):
        raise ValueError(f"the test rows of {raw.name!r} have none of the classes {shown_values(order)}")
    return _dataset(raw, _first(raw, pool, codes, test, "test", seed), codes, order, kind, raw.notes, None)


def _dataset(
    raw: Raw,
    rows: np.ndarray,
    codes: np.ndarray,
    order: tuple[Any, ...],
    kind: str,
    notes: tuple[str, ...],
    test: Dataset | None,
) -> Dataset:
    everything = len(rows) == len(raw.X) and np.array_equal(rows, np.arange(len(rows)))
    X = raw.X if everything else raw.X[rows]  # untouched arrays stay memory-mapped
    labels = raw.labels[rows]
    task = "regression" if kind == "regression" else "binary" if len(order) == 2 else "multiclass"
    return Dataset(
        X=X,
        y=labels.astype(np.float64) if kind == "regression" else encode_codes(codes[rows], len(order)),
        labels=labels,
        task=task,
        classes=order,
        name=raw.name,
        features=raw.features,
        image_shape=raw.image_shape,
        kind=raw.kind,
        groups=None if raw.groups is None else raw.groups[rows],
        rows=rows if raw.rows is None else raw.rows[rows],
        test=test,
        notes=notes,
    )


def _check_size(raw: Raw) -> None:
    if len(raw.X) < 2:
        raise ValueError(f"{raw.name} has {count_of(len(raw.X), 'row')}; it needs at least two")
    if raw.X.shape[1] == 0:
        raise ValueError(f"{raw.name} has no features; `X` needs at least one column")
    if raw.test is not None and raw.test.X.shape[1] != raw.X.shape[1]:
        raise ValueError(f"{raw.name}: training rows have {raw.X.shape[1]} features, test rows {raw.test.X.shape[1]}")


def _check_classes(raw: Raw, codes: np.ndarray, order: tuple[Any, ...], task: str | None) -> None:
    if not order:
        return
    if (task == "binary" and len(order) != 2) or (task == "multiclass" and len(order) == 2):
        raise ValueError(
            f"`task` is {task!r} but there are {len(order)} classes: {shown_values(order)}; choose "
            "`classes`, or pass task='classes'"
        )
    there = np.unique(codes)
    if len(there) < 2:
        only = shown_values([order[int(code)] for code in there])
        raise ValueError(
            f"{raw.name}: every training row has the label {only}; two classes or more are needed "
            "(a table's label column is chosen by `label`)"
        )
