"""Nearest rows by a JAX device against those of the host, whatever the numbers of rows, columns, neighbours and panels."""

import jax
import numpy as np
import pytest

from overparam.analysis.data_labels import nearest_by_label
from overparam.data import nearest_on_device as on_device
from overparam.data import row_copies
from overparam.data.neighbours import nearest_rows


@pytest.fixture
def device():
    return jax.devices("cpu")[0]


@pytest.mark.parametrize(("n", "d", "k"), [(30, 9, 5), (64, 9, 20), (700, 12, 20), (200, 150, 7)])
@pytest.mark.parametrize("panel", [7, 4_096])
def test_all_distances_are_those_of_the_host(n, d, k, panel, device, monkeypatch):
    monkeypatch.setattr(on_device, "MOST_PANEL", panel)
    monkeypatch.setattr(on_device, "GATHERED_BYTES", 8 * k * d * 50)
    Z = np.random.default_rng(n).standard_normal((n, d))
    Z[n // 2] = Z[0] + 1e-9  # squares alone cannot tell such a distance
    near, far = nearest_rows(Z, k)
    found, apart = nearest_rows(Z, k, device=device)
    np.testing.assert_array_equal(found, near)
    np.testing.assert_allclose(apart, far, rtol=1e-14)
    rows = np.array([n - 1, 3, n // 2])
    np.testing.assert_array_equal(nearest_rows(Z, k, rows, device)[0], near[rows])


@pytest.mark.parametrize("panel", [11, 4_096])
def test_nearest_by_label_are_those_of_the_host(panel, device, monkeypatch):
    monkeypatch.setattr(on_device, "MOST_PANEL", panel)
    random = np.random.default_rng(3)
    Z, codes = random.standard_normal((300, 10)), random.integers(4, size=300)
    codes[17] = 9  # a class of one row
    for found, told in zip(nearest_by_label(Z, codes, device), nearest_by_label(Z, codes), strict=True):
        np.testing.assert_array_equal(found, told)


def test_copies_are_those_of_the_host(device):
    X = np.random.default_rng(5).standard_normal((600, 140))
    rows = np.concatenate([X, X[:40] + 1e-4])
    host, found = row_copies(rows), row_copies(rows, device=device)
    assert [one.tolist() for one in found.near] == [one.tolist() for one in host.near]
    assert len(found.near) == 40
    assert found.dimension == pytest.approx(host.dimension, rel=1e-10)
