"""Exponents over networks of several sizes: planted ones come back, and bad input is one line."""

from types import SimpleNamespace

import numpy as np
import pytest
from coupling_cases import rows

from overparam.audits import coupling_widths
from overparam.audits.coupling_resnet import most_turned
from overparam.audits.coupling_widths import exponents_in_size
from overparam.audits.law import Law, made, not_measured
from overparam.networks import BiasedTwoLayer, Convolutional

LAW = Law("planted", "beyond_two_layers, Lemma G.3", "value ≤ O(ω m)", "upper", {"omega": 1.0, "m": 1.0})
START = Law("planted at the start", "beyond_two_layers, Lemma G.3", "value ≥ Ω(1/m)", "lower", {"m": -1.0})
MISSING = Law("missing", "beyond_two_layers, Lemma G.3", "nothing", "upper", {})


def planted(setting):
    m = setting.width
    omegas = np.array(setting.omegas) * m**-0.5  # radii that depend on the width, as the couplings' do
    noise = np.exp(0.05 * np.random.default_rng([setting.key, m]).standard_normal(len(omegas)))
    return [
        made(LAW, "random", omegas, 3 * omegas**0.7 * m**1.2 * noise, omegas * m),
        made(START, "start", [0.0], [5 / m], [1 / m]),
        not_measured(MISSING, "random", "it is not there"),
    ]


def test_planted_exponents_come_back_with_their_errors(monkeypatch):
    def ground(network, data, key):  # no network is looked into here, so none is drawn
        seen = SimpleNamespace(width=network.width, key=key)
        return SimpleNamespace(setting=lambda omegas, *rest: SimpleNamespace(**vars(seen), omegas=omegas))

    monkeypatch.setattr(coupling_widths, "make_ground", ground)
    law, start, missing = exponents_in_size(BiasedTwoLayer(4), rows(), planted, [4, 8, 16, 32], keys=range(4))
    assert law.omega_error is not None
    assert law.size_error is not None
    assert law.omega == pytest.approx(0.7, abs=4 * law.omega_error)
    assert law.size == pytest.approx(1.2, abs=4 * law.size_error)
    assert 0 < law.size_error < 0.05
    assert law.stated == {"omega": 1.0, "m": 1.0}
    assert law.constant == pytest.approx(law.constants.max())
    assert start.omega is None
    assert start.size == pytest.approx(-1.0)
    assert start.constants == pytest.approx(5.0)
    assert missing.size is None
    assert np.isnan(missing.constant)


def test_the_most_signs_that_turn_have_exponents_two_thirds():
    """Proposition C.4 on Gaussian vectors N(0, 1/m), where the worst movement is known: mδ^{2/3}."""
    rng, points = np.random.default_rng(0), []
    for m in (1_000, 4_000, 16_000):
        g = rng.standard_normal((1, m)) / m**0.5
        points += [(np.log(delta), np.log(m), np.log(most_turned(g, np.array([delta])))) for delta in (0.02, 0.06, 0.2)]
    deltas, sizes, counts = np.array(points).T
    design = np.column_stack([deltas, sizes, np.ones(len(points))])
    found = np.linalg.lstsq(design, counts, rcond=None)[0]
    assert found[0] == pytest.approx(2 / 3, abs=0.03)
    assert found[1] == pytest.approx(1.0, abs=0.03)


@pytest.mark.parametrize(
    ("options", "line"),
    [
        ({"sizes": [8]}, "at least two whole numbers"),
        ({"sizes": [8, 16], "vary": "positions"}, "BiasedTwoLayer does not have"),
        ({"sizes": [8, 16], "keys": ()}, "`keys` is empty"),
        ({"sizes": [8, 16], "effort": "huge"}, "`effort` is 'huge'"),
    ],
)
def test_bad_input_is_one_line(options, line):
    with pytest.raises(ValueError, match=line):
        exponents_in_size(BiasedTwoLayer(4), rows(), planted, **options)


def test_positions_vary_with_samples_that_fit_them():
    def counted(setting):
        law = Law("units", "convergence, App. B", "units ≤ O(Pm)", "upper", {"m": 1.0})
        return [made(law, "start", [0.0], [setting.inside.widths[0]], [1.0], note="", largest=1e9)]

    (units,) = exponents_in_size(
        Convolutional(2, 2, 4), lambda size: rows(3, size), counted, [4, 8, 16], vary="positions", keys=[0]
    )
    assert units.size == pytest.approx(1.0)
    assert units.size_error is None
    assert units.constants.tolist() == [8.0, 16.0, 32.0]
