"""Arrays as data: (X, y) in memory, .npz archives, .npy pairs (memory-mapped). No pickle is ever loaded."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from overparam.core import checks, reading
from overparam.core.machine import available_memory
from overparam.core.words import count_of, unbroken
from overparam.data.column_notes import Notebook
from overparam.data.labels import as_labels
from overparam.data.readers.dates import is_temporal
from overparam.data.readers.encoding import mean_of
from overparam.data.readers.reader import MISSING_VALUES, Hole, Raw
from overparam.data.readers.table_sources import frame_kind, read_frame, read_object_array
from overparam.data.readers.tables import is_number

FOLDER_NAMES = ("X.npy", "X_train.npy", "x_train.npy")
X_NAMES = ("X", "x", "data", "images", "features")
NPY = b"\x93NUMPY"
"""What a file of one array opens with."""
Y_NAMES = ("y", "Y", "labels", "label", "target", "targets")


def raw_from_arrays(
    X: Any,
    y: Any,
    *,
    missing: str = "error",
    ids: str = "auto",
    group: Any = None,
    groups: Any = None,
    test_file: Any = None,
) -> Raw:
    """(X, y) as they are: X (n, d), or (n, height, width) and (n, ., ., .) images, which are flattened.

    X may be a pandas or polars frame of features, `group` a column of it and `test_file` another with its labels; a sparse
    matrix; or an array of text, dates and numbers, which is read as a table is. y may be a column, a one-hot matrix or text.
    """
    if frame_kind(X) is not None:
        raw = read_frame(X, y=y, group=group, missing=missing, ids=ids, test_file=test_file, name="arrays")
        return replace(raw, shuffle=False)
    y = y.toarray() if is_sparse(y) else y
    X = dense(X) if is_sparse(X) else X
    if isinstance(X, np.ndarray) and _is_table(X):
        raw = read_object_array(X, y, missing=missing, ids=ids)
        given = None if groups is None else as_labels(groups, len(X), "groups")[raw.rows]
        return replace(raw, shuffle=False, groups=given)
    X = X if isinstance(X, np.memmap) else checks.as_numbers(_with_holes(X), "X")
    image_shape = tuple(X.shape[1:]) if X.ndim in (3, 4) else None
    book = Notebook()
    if image_shape is not None:
        X = X.reshape(len(X), -1)
        book.words.append(f"images of shape {image_shape} flattened to {count_of(X.shape[1], 'feature')}")
    elif X.ndim != 2:
        checks.finite_matrix(np.zeros(X.shape), "X")  # says what is wrong with the shape
    labels = as_labels(y, len(X))
    rows, X, filled = _see_to_missing(X, missing, book)
    return Raw(
        X=X,
        labels=labels[rows],
        name="arrays",
        kind="table" if image_shape is None else "image",
        image_shape=image_shape,
        groups=None if groups is None else as_labels(groups, len(labels), "groups")[rows],
        rows=np.arange(len(labels))[rows],
        total=len(labels),
        notes=tuple(book.words),
        column_notes=tuple(book.columns),
        holes=tuple(Hole(f"column {column}", gone, float(X[gone, column][0])) for column, gone in filled.items()),
    )


def _with_holes(X: Any) -> Any:
    """A masked array with NaN where it is masked: a missing value, which `missing` sees to."""
    if not isinstance(X, np.ma.MaskedArray) or not np.ma.is_masked(X) or X.dtype.kind not in "biuf":
        return X
    return np.ma.filled(X.astype(np.float64), np.nan)


def is_sparse(X: Any) -> bool:
    """Whether it is a sparse matrix or array of SciPy's kind."""
    return hasattr(X, "toarray") and hasattr(X, "nnz")


def dense(X: Any) -> np.ndarray:
    """A sparse matrix with its zeros, where memory has room for them: float32 stays, all else is float64."""
    if len(X.shape) != 2:
        raise ValueError(f"`X` is a sparse array of shape {X.shape}; expected (n, d)")
    kind = np.float32 if X.dtype == np.float32 else np.float64
    need = float(X.shape[0]) * X.shape[1] * np.dtype(kind).itemsize
    what = f"`X`, sparse of shape {X.shape[0]:,} × {X.shape[1]:,}, with its zeros"
    fix = "keep fewer rows or columns, or reduce them first, for instance by sklearn.decomposition.TruncatedSVD"
    checks.require_memory(need, available_memory(), what, fix, part=0.5)
    return X.astype(kind).toarray()


def _is_table(X: np.ndarray) -> bool:
    """Whether an array has named fields, or values that are no numbers."""
    if X.dtype.names is not None:
        return X.ndim == 1 and len(X) > 0
    if X.ndim != 2 or not X.size:
        return False
    if X.dtype.kind == "O":
        return any(isinstance(value, str | bool) or is_temporal(value) for value in X.flat)
    return X.dtype.kind in "mM" or (X.dtype.kind in "US" and not all(is_number(value) for value in X.flat))


def _see_to_missing(X: np.ndarray, missing: str, book: Notebook) -> tuple[Any, np.ndarray, dict[int, np.ndarray]]:
    """Which rows stay, the features without holes, and of the columns that were filled where."""
    everything = slice(None)
    checks.one_of(missing, "missing", MISSING_VALUES)
    if missing == "error" or X.dtype.kind != "f" or not (holes := np.isnan(X)).any():
        return everything, X, {}  # NaN is then an error of the Dataset
    if missing == "drop":
        keep = np.flatnonzero(~holes.any(axis=1))
        if not len(keep):
            raise ValueError("every row of `X` has NaN; pass missing='mean'")
        book.add(None, "missing", f"dropped {count_of(len(X) - len(keep), 'row')} with NaN")
        return keep, X[keep], {}
    empty = np.flatnonzero(holes.all(axis=0))
    if len(empty):
        raise ValueError(f"`X` has a column without values (first: column {empty[0]}); drop it")
    X = np.array(X, dtype=np.float64)
    filled = {column: holes[:, column] for column in np.flatnonzero(holes.any(axis=0)).tolist()}
    for column, gone in filled.items():
        X[gone, column] = mean_of(X[~gone, column])
    book.add(None, "missing", f"filled {count_of(int(holes.sum()), 'NaN value')} with column means")
    return everything, X, filled


def raw_from_mapping(
    arrays: Mapping[str, Any],
    *,
    label: Any = None,
    group: Any = None,
    missing: str = "error",
    name: str = "mapping",
) -> Raw:
    """Arrays by name: X and y (or data and target, ...); X_test and y_test, where there, are test rows."""
    train = _named_pair(arrays, None if label is None else str(label))
    if train is None:
        raise ValueError(
            f"{name} has arrays {', '.join(map(unbroken, arrays)) or 'none'}; expected X and y, or X_train, y_train, X_test, y_test"
        )
    X_name, y_name, test = train
    if group is not None and str(group) not in arrays:
        raise ValueError(f"{name} has no group array {str(group)!r}; its arrays: {', '.join(map(unbroken, arrays))}")
    groups = None if group is None else arrays[str(group)]
    raw = raw_from_arrays(arrays[X_name], arrays[y_name], missing=missing, groups=groups)
    held = None if test is None else raw_from_arrays(arrays[test[0]], arrays[test[1]], missing=missing)
    return replace(raw, name=name, test=held)


def _named_pair(arrays: Mapping[str, Any], label: str | None) -> tuple[str, str, tuple[str, str] | None] | None:
    if label is not None and label not in arrays:
        raise ValueError(f"there is no label array {label!r}; the arrays are {', '.join(map(unbroken, arrays))}")
    y_names = Y_NAMES if label is None else (label,)
    X = next((name for name in X_NAMES if name in arrays), None)
    y = next((name for name in y_names if name in arrays), None)
    if X and y:
        return X, y, None
    for pattern in ("{}_train", "train_{}"):
        X = next((pattern.format(n) for n in X_NAMES if pattern.format(n) in arrays), None)
        y = next((n for n in (label or "", *map(pattern.format, Y_NAMES)) if n in arrays), None)
        if X and y:
            held = X.replace("train", "test"), y.replace("train", "test")
            return X, y, held if all(n in arrays for n in held) else None
    if "arr_0" in arrays and "arr_1" in arrays:
        return "arr_0", label or "arr_1", None
    return None


def read_npz(path: Path | str, *, label: Any = None, group: Any = None, missing: str = "error") -> Raw:
    """A .npz archive with X and y, or X_train, y_train, X_test, y_test."""
    path = Path(path)
    with reading.opened(path) as file:
        if file.read(6) == NPY:
            raise ValueError(f"{path} holds one array; expected a .npz archive with X and y")
        return raw_from_mapping(reading.Archive(file, path), label=label, group=group, missing=missing, name=str(path))


def read_npy(path: Path | str) -> np.ndarray:
    """A .npy array, memory-mapped for reading."""
    path = Path(path)
    with reading.opened(path) as file:
        if file.read(4) == b"PK\3\4":
            raise ValueError(f"{path} is an archive of several arrays; name it .npz")
    return reading.mapped_npy(path)


def read_npy_pair(X_path: Path | str, y_path: Path | str, *, missing: str = "error") -> Raw:
    """Features and labels from two .npy files; X stays on disk."""
    X, y = read_npy(X_path), np.array(read_npy(y_path))
    try:
        return replace(raw_from_arrays(X, y, missing=missing), name=Path(X_path).stem)
    except ValueError as error:
        raise ValueError(f"{X_path}, {y_path}: {error}") from None


def read_npy_file(path: Path | str, *, missing: str = "error") -> Raw:
    """Features from a .npy file, labels from the one beside it."""
    return read_npy_pair(path, labels_beside(path), missing=missing)


def is_npy_folder(folder: Path) -> bool:
    """Whether a folder holds features as X.npy or X_train.npy."""
    return any((folder / name).is_file() for name in FOLDER_NAMES)


def read_npy_folder(folder: Path, *, missing: str = "error") -> Raw:
    """X.npy with y.npy, or X_train.npy, y_train.npy and, where they are, X_test.npy and y_test.npy."""
    path = next(folder / name for name in FOLDER_NAMES if (folder / name).is_file())
    held = path.with_name(path.name.replace("train", "test"))
    test = read_npy_file(held, missing=missing) if held != path and held.is_file() else None
    return replace(read_npy_file(path, missing=missing), test=test)


def labels_beside(path: Path | str) -> Path:
    """The labels of a .npy of features: `y.npy` beside `X.npy`, `a_y.npy` beside `a_X.npy` or `a.npy`.

    `labels` may stand for `y`; a name with `train` keeps it: `y_train.npy` beside `X_train.npy`.
    """
    path = Path(path)
    candidates = []
    for word in ("y", "labels"):
        swapped = re.sub(r"(?<![A-Za-z])[Xx](?![A-Za-z])", word, path.stem)
        candidates.append(swapped if swapped != path.stem else f"{path.stem}_{word}")
    for stem in candidates:
        beside = path.with_name(f"{stem}.npy")
        if beside.is_file():
            return beside
    if not path.exists():
        raise FileNotFoundError(f"{path} does not exist")
    names = " or ".join(f"{stem}.npy" for stem in candidates)
    raise FileNotFoundError(f"{path} has no labels beside it; put {names} there, or load both: ('X.npy', 'y.npy')")
