"""Names of the first edition that are still taken: one table of old and new, and what accepts the old with a warning."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable
from typing import Any, NamedTuple, ParamSpec, TypeVar

from overparam.core.words import count_of

GONE_IN = "0.3"
P = ParamSpec("P")
R = TypeVar("R")


class Row(NamedTuple):
    """One change. where: a function or a room, as it is reached from `overparam`. old, new: an argument of that function, a
    name of that room, or the first arguments in both orders, joined by ", "."""

    where: str
    old: str
    new: str

    @property
    def is_order(self) -> bool:
        """Whether the same arguments stand in another order."""
        return ", " in self.old


RUNS = ("train", "gradient_descent", "sgd", "sgd_one_sample", "smoothed_sgd", "sweep", "side_by_side")
"""The functions of `overparam.training` that make a run."""

TABLE = (
    Row("engines", "Plan", "EnginePlan"),
    Row("analyze", "seed", "key"),
    *(Row(f"training.{name}", "checkpoint", "place") for name in RUNS),
    *(Row(f"training.{name}", "checkpoint_seconds", "keep_every") for name in RUNS),
    Row("compare", "seed", "key"),
    Row("train_and_compare", "checkpoint", "place"),
    Row("train_and_compare", "checkpoint_seconds", "keep_every"),
    Row("train_and_compare", "data, network", "network, data"),
    Row("load", "seed", "key"),
    Row("cross_matrix", "checkpoint", "place"),
    Row("gram", "checkpoint", "place"),
    Row("quadrature", "checkpoint", "place"),
    Row("remember", "folder", "place"),
    Row("data.split", "seed", "key"),
    Row("data.Dataset.subset", "seed", "key"),
    Row("audit", "rows", "max_rows"),
    Row("audit", "prepare", "preprocess"),
    Row("landscape", "rows", "max_rows"),
    Row("landscapes.objective_of", "rows", "max_rows"),
    Row("studies.reproduce", "seed", "key"),
)
"""Everything that was renamed or turned round, and goes in the version `GONE_IN`."""


def accepts_old(where: str, old_order: Callable[..., bool] | None = None) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """A decorator: the function also takes what `TABLE` lists under `where`, with a `FutureWarning` of one line.

    old_order: whether the first positional arguments, as many as the row of an order has, stand in the old one.

    >>> @accepts_old("load")
    ... def load(name, *, key=0):
    ...     return name, key
    >>> with warnings.catch_warnings(record=True) as caught:
    ...     warnings.simplefilter("always")
    ...     load("digits", seed=3)
    ('digits', 3)
    >>> print(caught[0].message)
    `seed` of overparam.load is now `key`; the old name goes in 0.3
    """
    rows = [row for row in TABLE if row.where == where]
    order = next((row for row in rows if row.is_order), None)
    if not rows or (order is None) != (old_order is None):
        raise ValueError(
            f"the table of old names has {count_of(len(rows), 'row')} for {where!r}; it and `accepts_old` must agree"
        )

    def decorate(function: Callable[P, R]) -> Callable[P, R]:
        @functools.wraps(function)
        def taking_old(*args: Any, **options: Any) -> Any:
            if order is not None and old_order is not None:
                args = _in_new_order(order, args, old_order)
            for row in rows:
                if row.old in options:
                    if row.new in options:
                        raise ValueError(f"`{row.old}` is the old name of `{row.new}`; give `{row.new}` alone")
                    line = f"`{row.old}` of overparam.{where} is now `{row.new}`; the old name goes in {GONE_IN}"
                    warnings.warn(line, FutureWarning, stacklevel=2)
                    options[row.new] = options.pop(row.old)
            return taking_old.__wrapped__(*args, **options)  # type: ignore[attr-defined]

        return taking_old

    return decorate


def _in_new_order(row: Row, args: tuple[Any, ...], old_order: Callable[..., bool]) -> tuple[Any, ...]:
    old, new = row.old.split(", "), row.new.split(", ")
    if len(args) < len(old) or not old_order(*args[: len(old)]):
        return args
    line = f"overparam.{row.where} now takes ({row.new}, …); the order ({row.old}, …) goes in {GONE_IN}"
    warnings.warn(line, FutureWarning, stacklevel=3)
    return (*(args[old.index(name)] for name in new), *args[len(old) :])


def new_name(room: str, old: str) -> str | None:
    """What `old` is called now in `room` ("" for the front door), with a warning; None where nothing was renamed.

    For a module's `__getattr__`.
    """
    for row in TABLE:
        if (row.where, row.old) == (room, old):
            path = ".".join(word for word in ("overparam", room) if word)
            line = f"{path}.{old} is now {path}.{row.new}; the old name goes in {GONE_IN}"
            warnings.warn(line, FutureWarning, stacklevel=3)
            return row.new
    return None
