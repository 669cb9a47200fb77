"""Numbers of many digits against mpmath."""

import decimal

import mpmath
import numpy as np
import pytest

from overparam.functions.precise import Precise, pi

ANY = [1e-30, 1e-3, 0.1, 0.5, 0.9, 0.999, 1 - 1e-15, 1.5, 3.0, 7.5, 100.0]
WITHIN = [x for x in ANY if x < 1]
FUNCTIONS = {
    "sqrt": (mpmath.sqrt, ANY),
    "exp": (mpmath.exp, ANY + [-x for x in ANY]),
    "log": (mpmath.log, ANY),
    "expm1": (mpmath.expm1, ANY + [-x for x in ANY]),
    "sin": (mpmath.sin, ANY + [-x for x in ANY]),
    "cos": (mpmath.cos, ANY + [-x for x in ANY]),
    "arctan": (mpmath.atan, ANY + [-x for x in ANY]),
    "arcsin": (mpmath.asin, WITHIN + [-x for x in WITHIN]),
    "arccos": (mpmath.acos, WITHIN + [-x for x in WITHIN]),
}


def objects(values) -> np.ndarray:
    array = np.empty(len(values), dtype=object)
    array[:] = [Precise(value) for value in values]
    return array


@pytest.mark.parametrize("digits", [20, 90])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions_through_numpy(name: str, digits: int) -> None:
    true, places = FUNCTIONS[name]
    with decimal.localcontext(prec=digits), mpmath.workdps(digits + 40):
        found = getattr(np, name)(objects(places))
        for x, value in zip(places, found, strict=True):
            exact = true(mpmath.mpf(x))
            assert abs(mpmath.mpf(str(value.value)) - exact) <= abs(exact) * mpmath.mpf(10) ** (1 - digits), (name, x)


def test_angles_in_all_quadrants() -> None:
    with decimal.localcontext(prec=50), mpmath.workdps(70):
        for y, x in (
            (1.0, 2.0),
            (2.0, -1.0),
            (-2.0, -1.0),
            (-1.0, 3.0),
            (1.0, 0.0),
            (-1.0, 0.0),
            (0.0, 1.0),
            (0.0, -1.0),
        ):
            found = np.arctan2(objects([y]), objects([x]))[0]
            assert abs(mpmath.mpf(str(found.value)) - mpmath.atan2(y, x)) <= mpmath.mpf(10) ** -48
        assert abs(mpmath.mpf(str(pi())) - mpmath.pi) <= mpmath.mpf(10) ** -48


def test_arithmetic_with_floats_and_arrays() -> None:
    with decimal.localcontext(prec=40):
        a = objects([0.25, 2.0])
        assert (1 - a).tolist() == [0.75, -1.0]
        assert (a / np.array([0.5, 4.0])).tolist() == [0.5, 0.5]
        assert (2 / a).tolist() == [8.0, 1.0]
        assert (a**2 + a**0).tolist() == [1.0625, 5.0]
        assert np.maximum(a, 1.0).tolist() == [1.0, 2.0]
        assert abs(-a).tolist() == [0.25, 2.0]
        assert (np.float64(3.0) * a[0]) == 0.75
        third = (Precise(1) / 3).value
    assert str(third) == "0." + "3" * 40


def test_digits_are_not_lost_in_silence() -> None:
    with pytest.raises(TypeError):
        np.asarray(objects([1.0]), dtype=np.float64)
    with pytest.raises(TypeError):
        Precise(1) + "1"
    assert decimal.getcontext().prec == 28  # nothing was set
