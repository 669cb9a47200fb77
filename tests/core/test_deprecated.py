"""Old names: every row of the table is taken with one warning, says what to write instead, and reaches the new name."""

import importlib
import inspect
import warnings

import pytest

from overparam.core.deprecated import GONE_IN, TABLE, Row, accepts_old, new_name
from overparam.networks import TwoLayer

OLD_ORDERS: dict[str, tuple] = {"train_and_compare": (([[1.0]], [1.0]), TwoLayer(2))}
"""For every row that is an order: arguments in the old one."""


def reached(where):
    """The room, class or function that a row names."""
    found = importlib.import_module("overparam")
    for word in where.split(".") if where else ():
        found = getattr(found, word)
    return found


@pytest.mark.parametrize("row", TABLE, ids=lambda row: f"{row.where}: {row.old}")
def test_every_old_name_is_taken_with_a_warning(row, monkeypatch):
    owner = reached(row.where)
    if inspect.ismodule(owner):
        with pytest.warns(FutureWarning, match=f"{row.new}.*{GONE_IN}"):
            assert getattr(owner, row.old) is getattr(owner, row.new)
        return
    names = list(inspect.signature(owner).parameters)
    monkeypatch.setattr(owner, "__wrapped__", lambda *args, **options: (args, options))
    args, options, expected = (), {row.old: 7}, ((), {row.new: 7})
    if row.is_order:
        args, options = OLD_ORDERS[row.where], {}
        old, new = row.old.split(", "), row.new.split(", ")
        expected = tuple(args[old.index(name)] for name in new), {}
        assert names[: len(new)] == new
    else:
        assert row.new in names
        assert row.old not in names
    with pytest.warns(FutureWarning) as caught:
        assert owner(*args, **options) == expected
    assert [str(warning.message).count(GONE_IN) for warning in caught] == [1]
    assert "\n" not in str(caught[0].message)
    assert caught[0].filename == __file__  # the line of who typed the old name


def test_rows_are_named_once_and_new_names_warn_of_nothing():
    assert len({(row.where, row.old) for row in TABLE}) == len(TABLE)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert new_name("data", "load") is None


def test_orders_are_turned_round(monkeypatch):
    row = Row("verb", "data, network", "network, data")
    monkeypatch.setattr(
        "overparam.core.deprecated.TABLE", (row, Row("verb", "seed", "key"), Row("data", "fetch", "load"))
    )

    @accepts_old("verb", old_order=lambda first, _: isinstance(first, str))
    def verb(network, data, steps=1, *, key=0):
        return network, data, steps, key

    with pytest.warns(FutureWarning, match=r"\(network, data, …\)") as caught:
        assert verb("rows", 5, 2) == (5, "rows", 2, 0)
    assert caught[0].filename == __file__
    assert verb(5, "rows", key=1) == (5, "rows", 1, 1)
    with pytest.raises(ValueError, match="give `key` alone"):
        verb(5, "rows", key=1, seed=2)
    with pytest.warns(FutureWarning, match=r"overparam\.data\.load"):
        assert new_name("data", "fetch") == "load"
    with pytest.raises(ValueError, match="0 rows for 'other'"):
        accepts_old("other")
