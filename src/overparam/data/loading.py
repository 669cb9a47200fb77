"""The front door of the data: `load` finds a source, reads it, chooses rows and encodes labels."""

from __future__ import annotations

import difflib
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import numpy as np

from overparam.core import checks
from overparam.core.deprecated import accepts_old
from overparam.core.reading import place_of
from overparam.core.words import count_of
from overparam.data.column_doubts import column_doubts, label_notes
from overparam.data.column_notes import ColumnNote
from overparam.data.dataset import Dataset
from overparam.data.draws import draw_rows, generator, row_count, split_rows
from overparam.data.labels import choose_task, class_codes, class_order, encode_codes, of_one_hot, shown_values
from overparam.data.named import BUILTIN, DRAWN, find_named, known_name, missing_named, read_builtin, read_drawn
from overparam.data.readers import no_columns, read_path
from overparam.data.readers.arrays import raw_from_arrays, raw_from_mapping, read_npy_pair
from overparam.data.readers.embeddings import with_features
from overparam.data.readers.identifiers import see_to_ids
from overparam.data.readers.reader import MISSING_VALUES, Raw
from overparam.data.readers.table_sources import frame_kind, read_frame
from overparam.data.readers.torch_data import is_torch_data, read_torch_data


@accepts_old("load")
def load(
    data: Any,
    y: Any = None,
    *,
    label: str | int | Sequence[str | int] | None = None,
    group: str | int | None = None,
    classes: Sequence[Any] | None = None,
    train: int | float | None = None,
    test: int | float | None = None,
    task: str | None = None,
    missing: str = "error",
    test_file: Any = None,
    features: Any = None,
    image_size: int | Sequence[int] | str | None = None,
    ids: str = "auto",
    key: Any = 0,
    name: str | None = None,
) -> Dataset:
    """A data set from a name, a file, a folder, arrays, a frame or a Dataset. Numbers are not changed.

    data: "digits", "wine", "breast-cancer", "iris", "diabetes"; "parity" and "sparse-parity", which are drawn;
    "mnist", "fashion-mnist", "cifar10", "cifar100", "uci/abalone", ... from $OVERPARAM_DATA or the cache
    directory; a .csv, .tsv (.gz), .npz, .parquet or .bin file; "X.npy" with "y.npy" beside it, or both as a pair;
    a folder of IDX files, CIFAR batches or .npy files, or of images in a folder a class; (X, y), X sparse or not; a mapping
    with X and y; a pandas or polars frame; a `torch.utils.data.Dataset` or `DataLoader`; a Dataset, which is returned as it
    is unless rows or classes are chosen.
    y: labels of `data`, an array or a frame without them: `load(X, y)` is `load((X, y))`.
    label: the label column of a table, by name or number (default: the last); several of numbers for several targets.
    group: a column (not a feature) whose values a train/test split keeps together.
    classes: the classes kept, in this order; of two the first gets +1. Default: all, sorted
    (labels that are ±1 keep their sign).
    train, test: how many rows, or a share between 0 and 1. Image sets give their first rows in file order;
    tables and arrays a draw by `key` with the classes in proportion. Where the source has no test rows of
    its own, `test` holds out some of its rows.
    task: "classes" or "regression" where the labels leave a doubt.
    missing: missing values of tables are an "error", filled by the column "mean" (text: a category of its
    own), or their rows are "drop"-ped.
    test_file: the test rows, where they are in a place of their own: a file, a folder, a frame or a pair (X, y), with the
    columns of `data`. Text is encoded by the categories of the training rows, missing values by their means.
    features: (n, e) numbers computed of the rows, such as embeddings, an array or a .npy file, which take the place of X;
    the rows of the source stay in `shown`. A pair for training and test rows.
    image_size: of the images in a folder, one side or (height, width); default: the commonest size there is.
    ids: whole numbers that count are left out of tables and kept in arrays ("auto"), left out ("drop") or kept ("keep").
    key: of the draws, and of the order of tables, whose rows are shuffled first: an int or a JAX key. The rows of arrays
    stay in the order given.
    name: what the data set is called, where its source has no better name.

    >>> data = load([[0.0], [1.0], [2.0]], ["no", "yes", "no"])
    >>> data.classes, data.y
    (('no', 'yes'), array([ 1., -1.,  1.]))
    """
    checks.one_of(missing, "missing", MISSING_VALUES)
    if y is not None:
        data = _with_labels(data, y, label)
    chosen = (label, group, classes, train, test, task, test_file, features, image_size)
    if isinstance(data, Dataset) and all(value is None for value in chosen) and ids == "auto":
        return data if name is None else data.replace(name=name)
    asked = {
        "label": label,
        "group": group,
        "classes": classes,
        "missing": missing,
        "ids": ids,
        "image_size": image_size,
    }
    raw = _read(data, **asked, test_file=test_file, train=train, test=test, key=key)
    raw = _with_test_file(raw, test_file, asked)
    if raw.sources is None and raw.kind == "table" and not (isinstance(data, Dataset) and ids == "auto"):
        raw = see_to_ids(raw, ids)
    raw = raw if features is None else with_features(raw, features)
    if raw.name in DRAWN:  # with as many rows as were asked for
        train = test = None
    raw = raw if name is None else replace(raw, name=name)
    return _assemble(raw, classes, train, test, task, key, look=not isinstance(data, Dataset))


READING = (
    *("label", "group", "classes", "train", "test", "task", "missing", "test_file", "features", "image_size", "ids"),
    *("key", "name", "seed"),
)
"""The options of `load` that every question takes."""


def as_dataset(data: Any, y: Any = None, **options: Any) -> Dataset:
    """`load` for a verb: whatever it was given as a Dataset; an option that is none of its own is one line.

    >>> as_dataset([[1.0], [2.0]], [1, -1], lable="y")
    Traceback (most recent call last):
    ValueError: `lable` is no option here; did you mean `label`?
    """
    for name in options:
        if name not in READING:
            near = difflib.get_close_matches(name, READING, 1)
            fix = f"did you mean `{near[0]}`?" if near else f"those of reading data are {', '.join(READING[:-1])}"
            raise ValueError(f"`{name}` is no option here; {fix}")
    return load(data, y, **options)


def _with_labels(data: Any, y: Any, label: Any) -> tuple[Any, Any]:
    """(data, y), or one line: the labels are named twice."""
    if label is not None:
        raise ValueError(f"`y` is given and `label` is {label!r}: both name the labels; give one of them")
    path = isinstance(data, str | Path)
    if isinstance(y, str) and not path:
        raise ValueError(f"`y` is {y!r}; expected labels: a column of a table is named by label={y!r}")
    pair = isinstance(data, tuple) and len(data) == 2 and np.ndim(data[0]) > 1
    if pair or isinstance(data, Dataset | Mapping) or (path and not isinstance(y, str | Path)):
        what = "a pair (X, y)" if pair else repr(str(data)) if path else f"a {type(data).__name__}"
        raise ValueError(f"`y` is given and `data` is {what}, which has labels of its own; leave `y` out")
    return data, y


def _read(data: Any, **asked: Any) -> Raw:
    """What `data` holds, by the reader that fits it."""
    columns = {option: asked[option] for option in ("label", "group", "missing", "ids", "test_file")}
    if isinstance(data, str | Path):
        return _read_place(data, asked)
    if asked["image_size"] is not None:
        raise ValueError(f"`image_size` is {asked['image_size']!r} and `data` is no folder of images; leave it out")
    if frame_kind(data) is not None:
        return read_frame(data, **columns)
    if isinstance(data, Mapping):
        return raw_from_mapping(data, **{option: asked[option] for option in ("label", "group", "missing")})
    if is_torch_data(data):
        _require_no_columns(asked, f"a {type(data).__name__}")
        return read_torch_data(data, missing=asked["missing"])
    if isinstance(data, Dataset):
        _require_no_columns(asked, "a Dataset")
        return _as_read(data)
    if isinstance(data, tuple | list) and len(data) == 2:
        X, y = data
        paths = [isinstance(part, str | Path) for part in data]
        if not (isinstance(data, tuple) and frame_kind(X) and asked["label"] is None):
            _require_no_columns(asked, "a pair (X, y)")
        if all(paths):
            return read_npy_pair(place_of(X), place_of(y), missing=asked["missing"])
        if isinstance(data, tuple) and not any(paths):
            return raw_from_arrays(X, y, **{name: asked[name] for name in ("group", "missing", "ids", "test_file")})
    shape = getattr(data, "shape", None)
    came = f"an array of shape {tuple(shape)} without labels" if shape is not None else f"a {type(data).__name__}"
    raise ValueError(f"`data` is {came}; expected a name, a path, a pair (X, y) or a frame")


def _read_place(place: str | Path, asked: dict[str, Any]) -> Raw:
    text, known = str(place), known_name(place) if isinstance(place, str) else None
    if not text.strip():
        raise ValueError("`data` is empty; expected a name, a path, a pair (X, y) or a frame")
    if known in BUILTIN or known in DRAWN:
        if Path(text).exists():
            what = "folder" if Path(text).is_dir() else "file"
            words = f"{text!r} is the set of that name that comes with overparam, not the {what} here: write ./{text} for that"
            warnings.warn(words, stacklevel=2)
        _require_no_columns(asked, f"data set {known!r}")
        if asked["image_size"] is not None:
            raise ValueError(
                f"`image_size` is {asked['image_size']!r} and {known!r} is no folder of images; leave it out"
            )
        if known in BUILTIN:
            return read_builtin(known)
        return read_drawn(known, train=asked["train"], test=asked["test"], key=asked["key"])
    place_of(place)
    found = None if known is None else find_named(text)
    path = place_of(place) if found is None else found
    if not path.exists():
        raise missing_named(text)
    raw = read_path(path, None if found is None else text, **asked)
    # the tables of uci/ are all classification sets, some with more than 20 classes
    return replace(raw, task="classes") if found is not None and text.startswith("uci/") else raw


def _require_no_columns(asked: dict[str, Any], what: str) -> None:
    for option in ("label", "group"):
        if asked[option] is not None:
            raise no_columns(option, asked[option], what)


def _with_test_file(raw: Raw, test_file: Any, asked: dict[str, Any]) -> Raw:
    """Arrays and images with the test rows of a place of their own; tables were read with theirs."""
    if test_file is None:
        return raw
    if raw.sources is not None and raw.test is not None:
        return raw
    if raw.sources is not None:
        raise ValueError("`test_file` is given and `X` is an array of text; give both as frames")
    if raw.test is not None:
        raise ValueError(f"`test_file` is given and {raw.name!r} has test rows of its own; leave it out")
    test = _read(test_file, **asked, test_file=None, train=None, test=None, key=0)
    if test.features is not None and raw.features is not None and test.features != raw.features:
        raise ValueError(
            f"`test_file` has the features {shown_values(test.features, 3)} and {raw.name!r} {shown_values(raw.features, 3)}; "
            "give the training table as a file or a frame, so that both are encoded alike"
        )
    return replace(raw, test=replace(test, name=raw.name, test=None))


def _as_read(data: Dataset) -> Raw:
    """A Dataset as a source, from which rows and classes are chosen."""
    own = {field.name for field in fields(Dataset)}
    shared = {
        field.name: getattr(data, field.name) for field in fields(Raw) if field.name in own and field.name != "test"
    }
    shared.pop("task", None)
    test = None if data.test is None else _as_read(data.test)
    return Raw(**shared, test=test, task="regression" if data.task == "regression" else "classes")


def _assemble(raw: Raw, classes: Any, train: Any, test: Any, task: str | None, key: Any, look: bool) -> Dataset:
    """The Dataset of what was read: classes in order, rows chosen, test rows held out, its columns looked at."""
    _check_size(raw)
    named = None if classes is None else "classes"  # who names classes has classes
    asked = task or raw.task or named
    raw = replace(raw, labels=of_one_hot(raw.labels, asked))
    if raw.test is not None:
        raw = replace(raw, test=replace(raw.test, labels=of_one_hot(raw.test.labels, asked)))
    kind, why = choose_task(raw.labels, asked)
    if kind == "regression" and classes is not None:
        raise ValueError(f"`classes` was given but {raw.name!r} is a regression; leave `classes` out")
    order = () if kind == "regression" else class_order(raw.labels, classes)
    codes = _codes(raw, order)
    notes = list(raw.notes)
    column_notes = list(raw.column_notes)
    if task is None and raw.task is None:
        notes.append(
            f"read as {'regression' if kind == 'regression' else count_of(len(order), 'class', 'classes')}: {why}"
        )
    pool = np.flatnonzero(codes >= 0)
    if raw.shuffle:
        pool = generator(key, 0).permutation(pool)
        notes.append(f"rows shuffled with seed {key}")
    pool, held = _hold_out(raw, pool, codes, train, test, key, notes)
    pool = _first(raw, pool, codes, train, "train", key)
    _check_classes(raw, codes[pool], order, task)
    absent = [value for i, value in enumerate(order) if not (codes[pool] == i).any()]
    if absent:
        notes.append(f"no training row has the class {shown_values(absent)}")
    if raw.kind == "table" and look:
        column_notes += label_notes(order, asked=task is not None or raw.task is not None)
    if raw.X.dtype.type not in (np.float32, np.float64):
        column_notes.append(ColumnNote(None, "converted", f"{raw.X.dtype} converted to float64"))
    if raw.kind == "table" and look:
        column_notes += column_doubts(raw, pool, codes, len(order))
    notes += [note.words for note in column_notes if note.words not in notes]
    held_out = None if held is None else _dataset(raw, held, codes, order)
    if raw.test is not None:
        held_out = _own_test(raw.test, order, test, key)
        unknown = np.flatnonzero(_codes(raw.test, order) < 0) if classes is None else ()
        if len(unknown):
            which = shown_values(np.unique(raw.test.labels[unknown]).tolist(), 3)
            notes.append(f"{count_of(len(unknown), 'test row')} left out: no training row has their label ({which})")
    return _dataset(raw, pool, codes, order, notes=tuple(notes), column_notes=tuple(column_notes), test=held_out)


def _codes(raw: Raw, order: tuple[Any, ...]) -> np.ndarray:
    return class_codes(raw.labels, order) if order else np.zeros(len(raw.labels), dtype=np.int64)


def _hold_out(
    raw: Raw, pool: np.ndarray, codes: np.ndarray, train: Any, test: Any, key: Any, notes: list[str]
) -> tuple[np.ndarray, np.ndarray | None]:
    """Training and test rows of a source without a test part; of images, row numbers follow file order."""
    if raw.test is not None or test is None:
        return pool, None
    count = row_count(test, len(pool), "test")
    if count >= len(pool):
        raise ValueError(f"`test` asks for {count:,} of {count_of(len(pool), 'row')}; leave some to train on")
    if raw.kind == "image" and raw.groups is None and not raw.shuffle and not isinstance(test, float):
        start = len(pool) - count if train is None else row_count(train, len(pool), "train")
        if start + count > len(pool):
            raise ValueError(f"`train` and `test` ask for {count_of(start + count, 'row')}; there are {len(pool):,}")
        notes.append(f"no test rows of its own: rows {start:,} to {start + count - 1:,} held out, in file order")
        return pool[:start], pool[start : start + count]
    groups = None if raw.groups is None else raw.groups[pool]
    kept, held = split_rows(len(pool), count, generator(key, 1), strata=codes[pool], groups=groups)
    how = "at random" if (codes[pool] == codes[pool[0]]).all() else "classes in proportion"
    how = how if groups is None else "no group on both sides"
    notes.append(f"{count_of(len(held), 'row')} held out for testing, {how} (seed {key})")
    return pool[kept], pool[held]


def _first(raw: Raw, pool: np.ndarray, codes: np.ndarray, asked: Any, name: str, key: Any) -> np.ndarray:
    if asked is None:
        return pool
    count = row_count(asked, len(pool), name)
    if raw.kind == "image":
        return pool[:count]
    return pool[draw_rows(codes[pool], count, generator(key, 2))]


def _own_test(raw: Raw, order: tuple[Any, ...], test: Any, key: Any) -> Dataset:
    if isinstance(test, float):
        raise ValueError(
            f"`test` is a share, {test}, but {raw.name!r} has {count_of(len(raw.labels), 'test row')} of its own; "
            "pass a number of rows"
        )
    codes = _codes(raw, order)
    pool = np.flatnonzero(codes >= 0)
    if not len(pool):
        raise ValueError(f"the test rows of {raw.name!r} have none of the classes {shown_values(order)}")
    return _dataset(raw, _first(raw, pool, codes, test, "test", key), codes, order, notes=raw.notes)


def _dataset(raw: Raw, rows: np.ndarray, codes: np.ndarray, order: tuple[Any, ...], **more: Any) -> Dataset:
    everything = len(rows) == len(raw.X) and np.array_equal(rows, np.arange(len(rows)))
    labels = raw.labels[rows]
    return Dataset(
        X=raw.X if everything else raw.X[rows],  # untouched arrays stay memory-mapped
        y=encode_codes(codes[rows], len(order)) if order else labels.astype(np.float64),
        labels=labels,
        task={0: "regression", 2: "binary"}.get(len(order), "multiclass"),
        classes=order,
        **{name: getattr(raw, name) for name in ("name", "features", "image_shape", "kind", "label_names", "fills")},
        **{name: array[rows] for name in PER_ROW if (array := getattr(raw, name)) is not None},
        rows=rows if raw.rows is None else raw.rows[rows],
        **more,
    )


PER_ROW = ("groups", "row_names", "shown")
"""What a source may have beside features and labels, with an entry a row."""


def _check_size(raw: Raw) -> None:
    if len(raw.X) < 2:
        raise ValueError(f"{raw.name} has {count_of(len(raw.X), 'row')}; it needs at least two")
    if raw.X.shape[1] == 0:
        raise ValueError(f"{raw.name} has no features; `X` needs at least one column")
    if raw.test is not None and raw.test.X.shape[1] != raw.X.shape[1]:
        raise ValueError(
            f"{raw.name}: training rows have {count_of(raw.X.shape[1], 'feature')}, test rows {raw.test.X.shape[1]}"
        )


def _check_classes(raw: Raw, codes: np.ndarray, order: tuple[Any, ...], task: str | None) -> None:
    if not order:
        return
    if (task == "binary" and len(order) != 2) or (task == "multiclass" and len(order) == 2):
        raise ValueError(
            f"`task` is {task!r} but there are {count_of(len(order), 'class', 'classes')}: {shown_values(order)}; choose "
            "`classes`, or pass task='classes'"
        )
    there = np.unique(codes)
    if len(there) < 2:
        only = shown_values([order[int(code)] for code in there])
        raise ValueError(
            f"{raw.name}: every training row has the label {only}; two classes or more are needed "
            "(a table's label column is chosen by `label`)"
        )
