"""Groups of rows far from all others, against scipy's trees and rows in random order."""

import numpy as np
import pytest
from scipy.cluster.hierarchy import linkage

from overparam.data import row_copies
from overparam.data.dependent_rows import WIDER, not_whole_classes, parted_groups
from overparam.data.neighbours import nearest_rows


def persons(people, rows, columns, wide, seed=0):
    """Rows around the centre of each person."""
    random = np.random.default_rng(seed)
    centres = np.repeat(random.normal(size=(people, columns)), rows, axis=0)
    return centres + wide * random.normal(size=centres.shape)


def by_single_linkage(Z):
    """The largest groups that merge within themselves at 0.7 of the height, or less, at which they merge with others."""
    n, found = len(Z), []
    tree = linkage(Z, "single")
    members = [[i] for i in range(n)]
    births = np.append(np.zeros(n), tree[:, 2])
    deaths = np.full(2 * n - 1, np.inf)
    for one, other, height, _ in tree:
        deaths[[int(one), int(other)]] = height
        members.append(members[int(one)] + members[int(other)])
    for group in range(2 * n - 2, n - 1, -1):
        rows = set(members[group])
        if len(rows) <= n / 2 and births[group] <= WIDER * deaths[group] and not any(rows <= one for one in found):
            found.append(rows)
    return sorted(sorted(rows) for rows in found)


@pytest.mark.parametrize(("rows", "wide"), [(2, 0.05), (4, 0.1), (30, 0.05)])
def test_parted_groups_are_those_of_single_linkage(rows, wide):
    Z = persons(12, rows, 6, wide)
    found = parted_groups(Z, *nearest_rows(Z, len(Z) - 1))
    assert len(found) >= 8
    assert [group.tolist() for group in found] == by_single_linkage(Z)


def test_independent_rows_are_in_no_groups():
    for seed in range(40):
        random = np.random.default_rng(seed)
        Z = (random.normal(size=(150, 4)), random.standard_t(2, size=(150, 6)), random.integers(5, size=(150, 3)) * 1.0)
        for one in Z:
            rows = np.unique(one, axis=0)
            assert parted_groups(rows, *nearest_rows(rows, 20)) == []


def test_few_clusters_are_in_no_groups():
    Z = persons(6, 30, 5, 0.05)
    assert parted_groups(Z, *nearest_rows(Z, 20)) == []


def test_copies_with_wide_jitter_are_groups_that_lie_apart():
    Z = persons(150, 2, 12, 0.2)
    found = [one for one in row_copies(Z).alike if one.why == "apart"]
    assert len(found) == 1
    pairs = sum(rows.tolist() == [rows[0], rows[0] + 1] and rows[0] % 2 == 0 for rows in found[0].groups)
    assert pairs > 0.8 * len(found[0].groups)


def test_groups_that_are_most_of_a_class_are_the_class():
    strata = np.array([0] * 6 + [1] * 4)
    kept = not_whole_classes([np.arange(3), np.arange(6, 9), np.array([5, 9])], strata)
    assert [rows.tolist() for rows in kept] == [[0, 1, 2], [5, 9]]
