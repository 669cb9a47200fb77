"""Records go apart and come back whole: nested, in tuples, with arrays by name."""

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from overparam.core.folder import plain
from overparam.core.records import put_together, take_apart


@dataclass(frozen=True, eq=False)
class Inner:
    name: str
    values: np.ndarray
    detail: Mapping[str, np.ndarray] = field(default_factory=dict)
    powers: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, eq=False)
class Outer:
    first: Inner
    several: tuple[Inner, ...]
    none: Inner | None = None


def test_arrays_in_tuples_and_mappings_come_back_in_their_places():
    several = tuple(
        Inner(f"number {i}", np.arange(i), {"by layer": np.full(2, i), "other": np.ones(1)} if i else {}, {"m": i / 2})
        for i in range(12)  # more than ten: "1." must not take what is of "11."
    )
    record = Outer(Inner("first", np.zeros((2, 2))), several)
    values, arrays = take_apart(record)
    assert "several.11.detail.by layer" in arrays
    back = put_together(Outer, plain(values), arrays)
    assert np.array_equal(back.first.values, np.zeros((2, 2)))
    assert back.none is None
    for one, other in zip(several, back.several, strict=True):
        assert one.name == other.name
        assert one.powers == other.powers
        assert np.array_equal(one.values, other.values)
        assert set(one.detail) == set(other.detail)
        assert all(np.array_equal(one.detail[name], other.detail[name]) for name in one.detail)
