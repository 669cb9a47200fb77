"""The `Dataset`: features, targets and labels, checked once, with where they came from and what was done."""

from __future__ import annotations

import dataclasses
import hashlib
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from overparam.core import checks
from overparam.core.deprecated import accepts_old
from overparam.core.words import count_of
from overparam.data.column_notes import ColumnNote
from overparam.data.draws import draw_rows, generator
from overparam.data.labels import TASKS, class_codes, require_known, shown_values

ROW_ARRAYS = ("X", "y", "labels", "rows", "groups", "row_names", "shown")
"""The fields of a `Dataset` that have an entry a row."""


@dataclass(frozen=True, eq=False, repr=False)
class Dataset:
    """Samples with their labels, ready for a kernel or a network; `load` makes them.

    X: (n, d) of floats, one row a sample; float32 and float64 stay as they are, memory-mapped or not.
    y: float64 targets: (n,) of ±1 for two classes, (n,) or (n, k) for regression, (n, k) one-hot minus 1/k else.
    labels: (n,) the labels as in the source, (n, k) for regression with several targets. classes: their values in the order of the targets, the
    first of two being +1; empty for regression.
    kind: "image" or "table"; image_shape: the shape of one row's image, such as (28, 28) or (3, 32, 32).
    groups: (n,) values that a split keeps together. rows: (n,) row numbers in the source.
    test: a Dataset of new samples with the same features and classes. notes: what was done or found, in words;
    column_notes: those of them that are about columns, as data.
    label_names: of the columns that the labels are, where they have names. fills: of features with missing values, the
    numbers that stand for them.
    row_names: (n,) what the rows are called in the source, such as files. shown: (n, …) the rows to look at, where X holds
    features computed of them (`load(…, features=…)`).

    Arrays are kept as read-only views; the caller's own arrays keep their flags.

    >>> X, y = [[0.0, 1.0], [2.0, 0.0]], [1.0, -1.0]
    >>> data = Dataset(X, y, labels=["a", "b"], task="binary", classes=("a", "b"))
    >>> data
    Dataset('data': 2 rows, 2 features, 2 classes)
    >>> data.take([1]).labels
    array(['b'], dtype='<U1')
    """

    X: np.ndarray
    y: np.ndarray
    labels: np.ndarray
    task: str
    classes: tuple[Any, ...] = ()
    name: str = "data"
    features: tuple[str, ...] | None = None
    image_shape: tuple[int, ...] | None = None
    kind: str = "table"
    groups: np.ndarray | None = None
    rows: np.ndarray | None = None
    test: Dataset | None = None
    notes: tuple[str, ...] = ()
    column_notes: tuple[ColumnNote, ...] = ()
    row_names: np.ndarray | None = None
    shown: np.ndarray | None = None
    label_names: tuple[str, ...] | None = None
    fills: tuple[tuple[str, float], ...] = ()

    def __post_init__(self) -> None:
        X = as_matrix(self.X)
        n = len(X)
        rows = np.arange(n) if self.rows is None else np.asarray(self.rows)
        arrays = {"X": X, "y": checks.targets(self.y, n), "labels": np.asarray(self.labels), "rows": rows}
        for name in ("groups", "row_names", "shown"):
            if getattr(self, name) is not None:
                arrays[name] = np.asarray(getattr(self, name))
        for name, array in arrays.items():
            object.__setattr__(self, name, _read_only(array))
        for name in ("classes", "notes", "column_notes", "features", "image_shape", "label_names", "fills"):
            value = getattr(self, name)
            object.__setattr__(self, name, None if value is None else tuple(value))
        self._check_shapes()
        self._check_targets()
        self._check_test()

    def _check_shapes(self) -> None:
        several = self.task == "regression" and self.labels.shape == self.y.shape
        for name in ("rows", "groups", "row_names", *(() if several else ("labels",))):
            array = getattr(self, name)
            if array is not None and array.shape != (self.n,):
                raise ValueError(f"`{name}` has shape {array.shape}; expected ({self.n},), one a row of `X`")
        if self.shown is not None and len(self.shown) != self.n:
            raise ValueError(f"`shown` has {count_of(len(self.shown), 'row')}; expected {self.n}, one a row of `X`")
        if self.features is not None and len(self.features) != self.d:
            raise ValueError(
                f"`features` has {count_of(len(self.features), 'name')}; `X` has {count_of(self.d, 'column')}"
            )
        checks.one_of(self.kind, "kind", ("image", "table"))
        if self.image_shape is not None and int(np.prod(self.image_shape)) != self.d:
            raise ValueError(f"`image_shape` is {self.image_shape}; `X` has {count_of(self.d, 'column')}")

    def _check_targets(self) -> None:
        k = len(self.classes)
        if not {"binary": k == 2, "multiclass": k > 2, "regression": k == 0}[checks.one_of(self.task, "task", TASKS)]:
            raise ValueError(
                f"`task` is {self.task!r} with {count_of(k, 'class', 'classes')}: {shown_values(self.classes)}"
            )
        shape = (self.n, k) if self.task == "multiclass" else (self.n,)
        if self.y.shape != shape and self.task != "regression":
            raise ValueError(f"`y` has shape {self.y.shape}; expected {shape} for task {self.task!r}")
        if self.task == "binary" and not np.all(np.abs(self.y) == 1):
            row = int(np.flatnonzero(np.abs(self.y) != 1)[0])
            raise ValueError(f"`y` has {self.y[row]} at row {row}; two classes are +1 and -1")
        if k:
            require_known(self.labels, class_codes(self.labels, self.classes), self.classes)

    def _check_test(self) -> None:
        if self.test is None:
            return
        if not isinstance(self.test, Dataset):
            raise ValueError(f"`test` is a {type(self.test).__name__}; expected a Dataset")
        if self.test.d != self.d:
            raise ValueError(
                f"the test rows have {count_of(self.test.d, 'feature')} and the training rows {self.d}; give both the same"
            )
        if (self.test.task, self.test.classes) != (self.task, self.classes):
            raise ValueError(
                f"the test rows are {self.test.task} with classes {shown_values(self.test.classes)}; "
                f"the training rows are {self.task} with {shown_values(self.classes)}"
            )
        if self.test.k != self.k:
            raise ValueError(
                f"the test rows have {count_of(self.test.k, 'target')} a row and the training rows {self.k}; give both the same"
            )

    @property
    def n(self) -> int:
        """How many rows."""
        return self.X.shape[0]

    @property
    def d(self) -> int:
        """How many features."""
        return self.X.shape[1]

    @property
    def k(self) -> int:
        """How many outputs: 1 for two classes, one a class for more, one a target for regression."""
        return 1 if self.y.ndim == 1 else self.y.shape[1]

    @property
    def codes(self) -> np.ndarray:
        """The class number of every row, as positions in `classes`; an error for regression."""
        if not self.classes:
            raise ValueError(f"data set {self.name!r} is a regression; it has no classes")
        return class_codes(self.labels, self.classes)

    @cached_property
    def digest(self) -> str:
        """A SHA-256 of all that results depend on: features, targets, labels, groups, row numbers, and those of the test rows.

        The name and the notes are left out: the same rows have the same digest wherever they came from.
        """
        about = (self.task, self.kind, self.classes, self.features, self.image_shape)
        code = hashlib.sha256(repr((about, self.test and self.test.digest)).encode())
        for array in (self.X, self.y, self.labels, self.groups, self.rows):
            _add(code, array)
        if self.shown is not None:
            _add(code, self.shown)
        return code.hexdigest()

    @property
    def pictures(self) -> np.ndarray | None:
        """The rows as images, (n, height, width) or (n, channels, height, width); None where they are none."""
        if self.shown is not None:
            return self.shown if self.shown.ndim > 2 else None
        return None if self.image_shape is None else self.X.reshape(self.n, *self.image_shape)

    def in_source_order(self) -> Dataset:
        """The same rows in the order of their source: tables are read in a drawn order, arrays in their own.

        >>> data = Dataset([[2.0], [1.0]], [1.0, -1.0], labels=["a", "b"], task="binary", classes=("a", "b"), rows=[7, 3])
        >>> data.in_source_order().rows
        array([3, 7])
        """
        assert self.rows is not None
        order = np.argsort(self.rows, kind="stable")
        return self if np.array_equal(order, np.arange(self.n)) else self.take(order)

    def take(self, rows: Any) -> Dataset:
        """The same data with these rows only (positions, a slice or a mask), in this order; `test` stays.

        A slice of a memory-mapped array stays memory-mapped.
        """
        index = rows if isinstance(rows, slice) else np.asarray(rows)
        if isinstance(index, np.ndarray):
            index = _positions(index, self.n)
        arrays = {name: getattr(self, name) for name in ROW_ARRAYS}
        return self.replace(**{name: array[index] for name, array in arrays.items() if array is not None})

    @accepts_old("data.Dataset.subset")
    def subset(self, n: int, *, key: Any = 0) -> Dataset:
        """`n` rows: of images the first, of tables a draw with the classes kept in proportion, order kept."""
        if (n := checks.whole_number(n, "n", 1)) > self.n:
            raise ValueError(f"`n` is {n!r}; expected a whole number from 1 to {self.n}, the rows there are")
        if n == self.n:
            return self
        if self.kind == "image":
            return self.take(slice(0, n))
        strata = self.codes if self.classes else np.zeros(self.n, dtype=np.int64)
        return self.take(draw_rows(strata, n, generator(key)))

    def replace(self, *, note: str | ColumnNote | None = None, **changes: Any) -> Dataset:
        """A copy with these fields changed, checked again; `note` is added to the notes, one on columns to both kinds."""
        if isinstance(note, ColumnNote):
            changes["column_notes"] = (*changes.get("column_notes", self.column_notes), note)
            note = note.words
        if note is not None:
            changes["notes"] = (*changes.get("notes", self.notes), note)
        return dataclasses.replace(self, **changes)

    def with_targets(self, y: Any, note: str = "targets replaced") -> Dataset:
        """The same rows with other real targets, (n,) or (n, k), as a regression without test rows."""
        y = checks.targets(y, self.n)
        return self.replace(y=y, labels=y, task="regression", classes=(), test=None, label_names=None, note=note)

    def describe(self) -> dict[str, Any]:
        """What the data is, as plain values that JSON can hold."""
        facts: dict[str, Any] = {
            "name": self.name,
            "kind": self.kind,
            "task": self.task,
            "n": self.n,
            "d": self.d,
            "k": self.k,
            "dtype": str(self.X.dtype),
            "memory_mapped": isinstance(self.X, np.memmap),
            "image_shape": None if self.image_shape is None else list(self.image_shape),
            "test_rows": 0 if self.test is None else self.test.n,
            "notes": list(self.notes),
            "column_notes": [note.describe() for note in self.column_notes],
        }
        if self.classes:
            facts["classes"] = [{"value": value, "rows": count} for value, count in self._rows_a_class()]
        else:
            y = self.y
            facts["targets"] = {"min": float(y.min()), "mean": float(y.mean()), "max": float(y.max())}
        return facts

    def _rows_a_class(self) -> list[tuple[Any, int]]:
        return list(zip(self.classes, np.bincount(self.codes, minlength=len(self.classes)).tolist(), strict=True))

    def __str__(self) -> str:
        lines = [repr(self)]
        if self.classes:
            pairs = [f"{value!r}: {count:,}" for value, count in self._rows_a_class()]
            lines.append("rows a class: " + ", ".join(pairs[:20]) + (", ..." if len(pairs) > 20 else ""))
        lines.extend(self.notes)
        return "\n".join(lines)

    def __repr__(self) -> str:
        what = count_of(len(self.classes), "class", "classes") if self.classes else "regression"
        what += f" of {count_of(self.k, 'target')}" if not self.classes and self.k > 1 else ""
        test = "" if self.test is None else f", {count_of(self.test.n, 'test row')}"
        rows, columns = count_of(self.n, "row"), count_of(self.d, "feature")
        return f"Dataset({self.name!r}: {rows}{test}, {columns}, {what})"


def as_matrix(X: Any, name: str = "X") -> np.ndarray:
    """`X` as (n, d) of finite floats: float32 and float64 are kept, everything else becomes float64.

    Large and memory-mapped arrays are read in pieces and not copied.

    >>> as_matrix([[250, 251]]).dtype
    dtype('float64')
    """
    if hasattr(X, "toarray"):
        raise ValueError(f"`{name}` is a sparse matrix; pass `{name}.toarray()`")
    array = X if isinstance(X, np.memmap) else checks.as_numbers(X, name)
    if array.ndim != 2 or 0 in array.shape:
        checks.finite_matrix(np.zeros(array.shape), name)  # says in its own words what is wrong with the shape
    if array.dtype.type not in (np.float32, np.float64) or not array.dtype.isnative:
        array = np.asarray(checks.as_numbers(array, name), dtype=np.float64)
    checks.require_finite(array, name)
    return array


def _add(code: Any, array: np.ndarray | None) -> None:
    """An array in a digest: shape, kind of number and values, in pieces, so that nothing large is copied."""
    if array is None or array.dtype.kind not in "biuf":
        code.update(repr(None if array is None else array.tolist()).encode())
        return
    code.update(f"{array.dtype.str}{array.shape}".encode())
    step = max(1, 4_000_000 // max(1, array[0].size))
    for start in range(0, len(array), step):
        code.update(np.ascontiguousarray(array[start : start + step]))


def _read_only(array: np.ndarray) -> np.ndarray:
    view = array.view()
    view.flags.writeable = False
    return view


def _positions(index: np.ndarray, n: int) -> np.ndarray:
    if index.dtype == bool:
        if index.shape != (n,):
            raise ValueError(f"`rows` is a mask of shape {index.shape}; expected ({n},)")
        index = np.flatnonzero(index)
    if index.ndim != 1 or index.size == 0 or index.dtype.kind not in "iu":
        raise ValueError(f"`rows` has shape {index.shape} and dtype {index.dtype}; expected at least one row number")
    if index.min() < -n or index.max() >= n:
        raise ValueError(
            f"`rows` goes from {index.min()} to {index.max()}; there are {count_of(n, 'row')}, numbered from 0"
        )
    return index
