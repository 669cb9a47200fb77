"""Checks of what users pass in: each failure is one line that says what came, where, and the fix."""

from __future__ import annotations

import contextlib
import re
import sys
from collections.abc import Callable, Collection
from math import isfinite
from typing import Any, Literal, TypeVar

import numpy as np

from overparam.core.words import byte_size, count_of, listed, quoted

T = TypeVar("T")
SMALLEST_NORM, LARGEST_NORM = 1e-73, 1e73
"""Rows outside this range of norms would under- or overflow in ‖H‖_F², which squares their products."""


def finite_matrix(X: Any, name: str = "X") -> np.ndarray:
    """`X` as a two-dimensional array of finite float64 numbers (a float64 array is not copied).

    >>> finite_matrix([[1, 2], [3, 4]]).dtype
    dtype('float64')
    """
    array = as_numbers(X, name)
    if array.ndim == 1:
        raise ValueError(
            f"`{name}` has one axis of length {array.shape[0]}; give one row a sample: "
            f"`{name}.reshape(-1, 1)` for one feature, `{name}.reshape(1, -1)` for one sample"
        )
    if array.ndim > 2:
        raise ValueError(f"`{name}` has shape {array.shape}; flatten each sample: `{name}.reshape(len({name}), -1)`")
    if array.ndim == 0 or 0 in array.shape:
        raise ValueError(f"`{name}` has shape {array.shape}; it needs at least one row and one column")
    array = np.asarray(array, dtype=np.float64)
    require_finite(array, name)
    return array


def as_numbers(X: Any, name: str = "X") -> np.ndarray:
    """`X` as an array of real numbers of any dtype, or one line naming the first value that is not one."""
    require_unmasked(X, name)
    try:
        array = np.asarray(X)
    except (ValueError, OverflowError):
        raise ValueError(f"`{name}` has rows of different lengths; every sample needs the same features") from None
    if array.ndim == 0 and array.dtype == object:
        raise ValueError(
            f"`{name}` is a {type(X).__name__}; expected an array of numbers, such as `data.X` or `data.y`"
        )
    if array.dtype == object or array.dtype.kind in "USV":
        numbers = _numbers_from_objects(array, name)
        require_held_from(array, numbers, name)
        return numbers
    if array.dtype.kind == "c":
        raise ValueError(f"`{name}` has complex numbers; pass real ones, for instance `np.abs({name})`")
    if array.dtype.kind not in "biuf":
        raise ValueError(f"`{name}` has dtype {array.dtype}; it needs numbers")
    require_held(array, name)
    require_held_from(X, array, name)
    return array


def require_unmasked(values: Any, name: str) -> None:
    """Raise for a masked array with masked entries, whose masks NumPy drops without a word."""
    if isinstance(values, np.ma.MaskedArray) and np.ma.is_masked(values):
        masked = np.ma.getmaskarray(values)
        raise ValueError(
            f"`{name}` has {count_of(int(masked.sum()), 'masked entry', 'masked entries')} (first: {_place(tuple(np.argwhere(masked)[0]))}); drop or "
            f"fill them first, for instance by `{name}.filled(...)`"
        )


def held_exactly(array: np.ndarray) -> bool:
    """Whether float64 holds these whole numbers as they are; they are read in pieces.

    >>> held_exactly(np.array([2**53])), held_exactly(np.array([2**53 + 1]))
    (True, False)
    """
    if array.dtype.itemsize < 8 or not array.size:
        return True
    flat = array.reshape(-1)
    for start in range(0, flat.size, 4_000_000):
        piece = flat[start : start + 4_000_000]
        if int(piece.max()) <= 2**53 and int(piece.min()) >= -(2**53):
            continue
        large = piece[(piece > 2**53) | (piece < -(2**53))]
        if any(int(float(value)) != value for value in large.tolist()):
            return False
    return True


def require_held(array: np.ndarray, name: str) -> None:
    """Raise where float64 would change a whole number."""
    if array.dtype.kind in "iu" and not held_exactly(array):
        raise ValueError(_not_held(name))


def require_held_from(given: Any, array: np.ndarray, name: str) -> None:
    """Raise where NumPy made other numbers of Python's whole ones: of lists with fractions, with 2^63 beside 1, of objects."""
    plain = isinstance(given, list | tuple) or (isinstance(given, np.ndarray) and given.dtype == object)
    if array.dtype.kind != "f" or not plain or not (large := np.abs(array) >= 2**53).any():
        return
    values = np.asarray(given, dtype=object)
    if values.shape == array.shape and any(
        isinstance(value, int) and int(float(value)) != value for value in values[large].tolist()
    ):
        raise ValueError(_not_held(name))


def _not_held(name: str) -> str:
    return (
        f"`{name}` has whole numbers beyond 2^53 that float64 does not hold; pass `{name}.astype(float)` if rounding is meant, "
        "or text if they are names"
    )


def _numbers_from_objects(array: np.ndarray, name: str) -> np.ndarray:
    if array.dtype.names is not None:
        raise ValueError(f"`{name}` has named fields; give a frame, or an array of numbers")
    try:
        return array.astype(np.float64)
    except (ValueError, TypeError, OverflowError):
        for place, value in np.ndenumerate(array):
            try:
                float(value)
            except OverflowError:
                raise ValueError(
                    f"`{name}` has a whole number too large for float64 at {_place(place)}; scale or drop it"
                ) from None
            except (ValueError, TypeError):
                raise ValueError(
                    f"`{name}` has text where a number belongs: {quoted(value)} at {_place(place)}; "
                    "encode or drop that column (`op.load` one-hot encodes text columns of tables)"
                ) from None
        raise


def require_finite(array: np.ndarray, name: str = "X") -> None:
    """Raise for NaN or infinities, with how many and where; reads large arrays in pieces."""
    if array.dtype.kind not in "fc":
        return
    step = max(1, 4_000_000 // max(1, array[0].size if array.ndim > 1 else 1))
    for start in range(0, len(array), step):
        bad = ~np.isfinite(array[start : start + step])
        if bad.any():
            _raise_not_finite(array, name)


def _raise_not_finite(array: np.ndarray, name: str) -> None:
    bad = ~np.isfinite(array)
    first = tuple(int(i) for i in np.argwhere(bad)[0])
    nans, infinities = int(np.isnan(array).sum()), int(np.isinf(array).sum())
    kinds = " and ".join(f"{count} {word}" for count, word in ((nans, "NaN"), (infinities, "infinite values")) if count)
    raise ValueError(f"`{name}` has {kinds} (first: {_place(first)}); drop or fill them first")


def row_norms(X: np.ndarray) -> np.ndarray:
    """Euclidean norm of every row, right for entries from 1e-300 to 1e300.

    >>> row_norms(np.array([[3e200, 4e200]])) / 1e200
    array([5.])
    """
    with np.errstate(over="ignore", under="ignore"):
        norms = np.sqrt(np.einsum("ij,ij->i", X, X))
    odd = ~((norms > 1e-140) & (norms < 1e140))
    if odd.any():
        rows = X[odd]
        largest = np.abs(rows).max(axis=1)
        safe = np.where(largest > 0, largest, 1.0)
        with np.errstate(under="ignore"):
            norms[odd] = safe * np.sqrt(np.sum((rows / safe[:, None]) ** 2, axis=1)) * (largest > 0)
    return norms


def usable_norms(X: np.ndarray, name: str = "X", *, zero: bool = False) -> np.ndarray:
    """Row norms, after checking that no row is zero (unless allowed), too small or too large for products of rows."""
    norms = row_norms(X)
    nothing = np.flatnonzero(norms == 0)
    if len(nothing) and not zero:
        raise ValueError(
            f"`{name}` has {count_of(len(nothing), 'row')} of norm 0 (first: row {nothing[0]}); "
            "drop them, or append a constant feature"
        )
    small = (norms < SMALLEST_NORM) & (norms > 0)
    for odd, word in ((small, "small"), (norms > LARGEST_NORM, "large")):
        rows = np.flatnonzero(odd)
        if len(rows):
            raise ValueError(
                f"`{name}` has {count_of(len(rows), 'row')} too {word} to multiply in float64 "
                f"(first: row {rows[0]} of norm {norms[rows[0]]:.1e}); scale the rows to norm 1 first"
            )
    return norms


def usable_values(values: np.ndarray, size: np.ndarray, name: str = "X") -> None:
    """Check what a kernel gives a row with itself: not too large, nor too small where `size` (its norm) is not 0."""
    with np.errstate(invalid="ignore"):
        large, small = ~(values <= LARGEST_NORM**2), (values < SMALLEST_NORM**2) & (size > 0)
    for odd, word in ((large, "large"), (small, "small")):
        rows = np.flatnonzero(odd)
        if len(rows):
            raise ValueError(
                f"`{name}` has {count_of(len(rows), 'row')} whose kernel is too {word} for float64 "
                f"(first: row {rows[0]}, k(x, x) = {values[rows[0]]:.1e}); scale the rows to norm 1 first"
            )


def require_alike(X: np.ndarray, Z: np.ndarray, names: tuple[str, str] = ("X", "Z")) -> None:
    """Raise unless samples of both have the same shape."""
    if X.shape[1:] != Z.shape[1:]:
        have, other = (" × ".join(str(size) for size in A.shape[1:]) for A in (X, Z))
        raise ValueError(f"`{names[0]}` has {have} features and `{names[1]}` {other}; they need the same features")


def targets(y: Any, n: int, name: str = "y") -> np.ndarray:
    """`y` as finite float64 of shape (n,) or (n, k)."""
    array = as_numbers(y, name)
    if array.ndim not in (1, 2) or array.shape[0] != n or 0 in array.shape:
        raise ValueError(f"`{name}` has shape {array.shape}; expected ({n},) or ({n}, k), one row a sample of `X`")
    array = np.asarray(array, dtype=np.float64)
    require_finite(array, name)
    return array


def whole_number(value: Any, name: str, least: int = 0) -> int:
    """`value` as an int, of any type of number, or one line: it is no whole number from `least` on.

    >>> whole_number(np.float64(3.0), "steps")
    3
    """
    with contextlib.suppress(TypeError, ValueError, OverflowError):
        number = int(value)
        if number == value and number >= least and not isinstance(value, bool):
            return number
    raise ValueError(f"`{name}` is {value!r}; expected a whole number ≥ {least}")


def finite_number(value: Any, name: str) -> float:
    """`value` as a float, or one line: it is no finite number."""
    number = _real(value)
    if not np.isfinite(number):
        raise ValueError(f"`{name}` is {value!r}; expected a finite number")
    return number


def positive(value: Any, name: str, *, zero: bool = False, fix: str = "") -> float:
    """`value` as a float, or one line: it is no finite number above 0, or from 0 on where `zero` is allowed.

    >>> positive(2, "lr"), positive(0, "ridge", zero=True)
    (2.0, 0.0)
    """
    if is_traced(value):
        return value
    number = _real(value)
    if not (0 < number < np.inf or (zero and number == 0)):
        raise ValueError(f"`{name}` is {value!r}; expected a finite number {'≥' if zero else '>'} 0{_then(fix)}")
    return number


def share(value: Any, name: str, *, zero: bool = False, one: bool = False) -> float:
    """`value` as a float between 0 and 1, the ends among them where they are allowed, or one line.

    >>> share(0.5, "delta"), share(0, "momentum", zero=True)
    (0.5, 0.0)
    """
    number = _real(value)
    if not (0 < number < 1 or (zero and number == 0) or (one and number == 1)):
        words = f"in {'[' if zero else '('}0, 1{']' if one else ')'}" if zero or one else "between 0 and 1"
        raise ValueError(f"`{name}` is {value!r}; expected a number {words}")
    return number


def is_traced(value: Any) -> bool:
    """Whether it is a number inside a JAX transformation, which cannot be looked at."""
    jax = sys.modules.get("jax")
    return jax is not None and isinstance(value, jax.core.Tracer)


def is_nothing(value: Any) -> bool:
    """Whether it is None, or 0 for certain."""
    return value is None or (not is_traced(value) and value == 0)


def _real(value: Any) -> float:
    """A number of any type as a float; NaN for what is none."""
    if isinstance(value, bool | str | bytes):
        return np.nan
    with contextlib.suppress(TypeError, ValueError, OverflowError):
        return float(value)
    return np.nan


def require_one_kind(values: np.ndarray, name: str) -> None:
    """Raise where values name no classes or groups: one is missing, or text stands beside numbers, which have no order."""
    if values.dtype == object:
        kinds = [type(value).__name__ for value in values]
        gone = np.array(
            [kind in ("NoneType", "NAType", "NaTType") or (kind == "float" and value != value)
             for value, kind in zip(values, kinds, strict=True)], dtype=bool,
        )  # fmt: skip
    else:
        gone = values != values if values.dtype.kind in "fmM" else np.zeros(len(values), dtype=bool)
    if gone.any():
        first = int(gone.argmax())
        raise ValueError(
            f"`{name}` has {count_of(int(gone.sum()), 'missing value')} (first: {values[first]!r} at row {first}); drop those rows, or name them"
        )
    if values.dtype != object:
        return
    text = np.array([isinstance(value, str) for value in values], dtype=bool)
    if text.any() and not text.all():
        first = int(np.argmax(text != text[0]))
        raise ValueError(
            f"`{name}` has text beside values of another kind (first: {values[first]!r} at row {first}); make them all text"
        )


def one_of(value: Any, name: str, allowed: Collection[T], fix: str = "") -> T:
    """`value`, or one line: it is none of those allowed.

    >>> one_of("dense", "engine", ("auto", "dense"))
    'dense'
    """
    if value not in allowed:
        words = listed([repr(choice) for choice in allowed], last="or")
        raise ValueError(f"`{name}` is {value!r}; expected {words}{_then(fix)}")
    return value


def _then(fix: str) -> str:
    return f"; {fix}" if fix else ""


def require_memory(need: float, free: float, what: str, fix: str, *, part: float = 1.0) -> None:
    """Raise where `what`, "the audit" say, needs more bytes than a part of those that are free."""
    if need > part * free:
        raise ValueError(f"{what} needs {byte_size(need)} and {byte_size(free)} is free; {fix}")


def parse_names(text: str, name: str, expected: str, least: int = 1) -> tuple[str, ...]:
    """The names in a list parted by commas.

    >>> parse_names("norms, separation,", "--laws", "names of laws")
    ('norms', 'separation')
    """
    names = tuple(word.strip() for word in text.split(",") if word.strip())
    if len(names) < least:
        raise ValueError(f"{name} is {text!r}; expected {expected}")
    return names


def parse_numbers(text: str, name: str, expected: str, kind: Callable[[str], T] = float) -> tuple[T, ...]:
    """The numbers in a list parted by commas; `kind=int` takes whole ones from 0 on alone.

    >>> parse_numbers("500, 1_000", "--sizes", "numbers of rows such as 500,1000", int)
    (500, 1000)
    """
    words = parse_names(text, name, expected)
    with contextlib.suppress(ValueError):
        if kind is not int or all(word.replace("_", "").isdigit() for word in words):
            return tuple(kind(word) for word in words)
    raise ValueError(f"{name} is {text!r}; expected {expected}")


_UNITS = {"": 1, "b": 1, "kb": 10**3, "mb": 10**6, "gb": 10**9, "kib": 2**10, "mib": 2**20, "gib": 2**30}


def byte_count(size: int | float | str, name: str = "memory") -> int:
    """A number of bytes from a number or from text such as "2 GiB".

    >>> byte_count("2 GiB")
    2147483648
    """
    if isinstance(size, str):
        found = re.fullmatch(r"\s*([0-9]+\.?[0-9]*|\.[0-9]+)\s*([a-zA-Z]*)\s*", size)
        if not found or found[2].lower() not in _UNITS:
            raise ValueError(f"`{name}` is {size!r}; expected a number of bytes or text like '2 GiB'")
        size = float(found[1]) * _UNITS[found[2].lower()]
    if not 0 < size < np.inf:
        raise ValueError(f"`{name}` is {size}; expected more than 0 bytes and finitely many")
    return int(size)


def _place(index: tuple[int, ...]) -> str:
    words = ("row", "column", "axis 2", "axis 3", "axis 4")
    return ", ".join(f"{word} {int(i)}" for word, i in zip(words, index, strict=False))


Trained = Literal["hidden", "all", "last"]
"""Which weights are trained: the hidden layers' (as the papers do), all, or the output layer's alone."""

Role = Literal["input", "hidden", "output"]
"""Of a layer's weights: they see the input, lie between, or give the output."""


def trains(trained: Trained, role: Role) -> bool:
    """Whether a layer with that role is trained.

    >>> [trains("hidden", role) for role in ("input", "hidden", "output")]
    [False, True, False]
    """
    if trained not in ("hidden", "all", "last"):
        raise ValueError(f"`trained` is {trained!r}; expected 'hidden', 'all' or 'last'")
    return trained == "all" or (trained == "hidden" and role == "hidden") or (trained == "last" and role == "output")


def require_count(value: int, name: str, least: int = 1) -> None:
    """Raise unless `value` is a whole number, `least` or more."""
    if not isinstance(value, int | np.integer) or isinstance(value, bool) or value < least:
        raise ValueError(f"`{name}` is {value!r}; expected a whole number ≥ {least}")


def require_counts(thing: Any, *names: str) -> None:
    """Raise unless these fields are whole numbers, 1 or more."""
    for name in names:
        require_count(getattr(thing, name), name)


def per_layer(value: float | tuple[float, ...], depth: int, name: str, *, zero: bool = True) -> tuple[float, ...]:
    """One number a layer, depth + 1 of them; one alone stands for all.

    >>> per_layer(0.5, 2, "b_std")
    (0.5, 0.5, 0.5)
    """
    values = value if isinstance(value, tuple) else (value,) * (depth + 1)
    if len(values) != depth + 1:
        raise ValueError(
            f"`{name}` has {count_of(len(values), 'number')}; a network of depth {depth} has {count_of(depth + 1, 'layer')}"
        )
    least = 0.0 if zero else 1e-100
    if not all(is_traced(v) or (isinstance(v, int | float | np.number) and isfinite(v) and v >= least) for v in values):
        words = "0 or more" if zero else "more than 0"
        raise ValueError(f"`{name}` is {value!r}; expected finite numbers, {words}")
    return values


def trained_layers(trained: Trained | tuple[int, ...], depth: int) -> tuple[bool, ...]:
    """Whether each of depth + 1 layers is trained: by name, or by the numbers of those that are, the first 1.

    >>> trained_layers("hidden", 2), trained_layers((1, 3), 2)
    ((False, True, False), (True, False, True))
    """
    numbers = range(1, depth + 2)
    named = {"all": numbers, "hidden": numbers[1:-1], "last": numbers[-1:]}
    chosen = named.get(trained, ()) if isinstance(trained, str) else trained
    if (
        not isinstance(chosen, Collection)
        or not len(chosen)
        or not all(isinstance(n, int | np.integer) and n in numbers for n in chosen)
    ):
        raise ValueError(
            f"`trained` is {trained!r}; expected 'all', 'hidden' (from depth 2 on), 'last', or numbers of layers from 1 to "
            f"{depth + 1}"
        )
    return tuple(number in chosen for number in numbers)


def set_tuples(thing: Any, *names: str) -> None:
    """Lists among these fields of a frozen dataclass as tuples, which can be hashed."""
    for name in names:
        if isinstance(getattr(thing, name), list):
            object.__setattr__(thing, name, tuple(getattr(thing, name)))
