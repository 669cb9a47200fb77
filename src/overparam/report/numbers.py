"""Numbers as people read them: four significant digits, powers of ten, durations, sizes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

_RAISED = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")
LOWERED = str.maketrans("⁻⁰¹²³⁴⁵⁶⁷⁸⁹", "−0123456789")
MISSING = "–"


def number(value: Any) -> str:
    """A cell of a table; integers keep every digit, other numbers four.

    >>> number(1.235e-05), number(60000), number(-0.25), number(None)
    ('1.235 × 10⁻⁵', '60,000', '−0.25', '–')
    """
    if value is None:
        return MISSING
    value = value.item() if hasattr(value, "item") else value  # a NumPy scalar
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, str):
        return value
    if isinstance(value, int) and abs(value) < 10**15:
        return f"{value:,}".replace("-", "−")
    if isinstance(value, int):
        return _power_of_integer(value)
    if not isinstance(value, float):
        return str(value)
    if math.isnan(value):
        return MISSING
    if math.isinf(value):
        return "∞" if value > 0 else "−∞"
    if value.is_integer() and abs(value) < 1e7:
        return number(int(value))
    return _four_digits(value)


def _four_digits(value: float) -> str:
    digits, exponent = f"{value:.3e}".split("e")
    power = int(exponent)
    if -4 <= power < 4:
        text = f"{value:,.{3 - power}f}"
        text = text.rstrip("0").rstrip(".") if "." in text else text
        return text.replace("-", "−")
    return _times_power(digits.rstrip("0").rstrip("."), power)


def _times_power(digits: str, power: int) -> str:
    return f"{digits} × 10{str(power).translate(_RAISED)}".replace("-", "−")


def _power_of_integer(value: int) -> str:
    digits = str(abs(value))
    sign = "-" if value < 0 else ""
    return _times_power(f"{sign}{digits[0]}.{digits[1:4]}", len(digits) - 1)


def duration(seconds: float | None) -> str:
    """A time span in the unit that suits it.

    >>> duration(0.0123), duration(75), duration(7260)
    ('12 ms', '1 min 15 s', '2 h 1 min')
    """
    if seconds is None or not math.isfinite(seconds):
        return MISSING
    if seconds < 1:
        return f"{1000 * seconds:.0f} ms"
    if seconds < 60:
        return f"{seconds:.3g} s"
    whole = round(seconds)
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s"
    return f"{whole // 3600} h {whole % 3600 // 60} min"


def memory(size: int | None) -> str:
    """A number of bytes in binary units.

    >>> memory(3 * 2**30), memory(None)
    ('3 GiB', '–')
    """
    if size is None:
        return MISSING
    amount = float(size)
    for unit in ("bytes", "KiB", "MiB"):
        if amount < 1024:
            return f"{amount:.3g} {unit}" if amount < 1000 else f"{amount:.0f} {unit}"
        amount /= 1024
    return f"{amount:.3g} GiB" if amount < 1000 else f"{amount:,.0f} GiB"


def tick_words(values: Sequence[float], log: bool) -> list[tuple[float, str]]:
    """Ticks with their words; a log axis that needs a power of ten writes all of them so.

    >>> [words for _, words in tick_words([1e-4, 1e-2, 1.0], log=True)]
    ['10⁻⁴', '10⁻²', '1']
    """
    powers = [round(math.log10(value)) if log and value > 0 else 0 for value in values]
    exact = all(math.isclose(value, 10.0**power, rel_tol=1e-9) for value, power in zip(values, powers, strict=True))
    if log and exact and any(not -3 < power < 5 for power in powers):
        words = ["1" if p == 0 else "10" if p == 1 else "10" + str(p).translate(_RAISED) for p in powers]
    else:
        words = [number(value) for value in values]
    return list(zip(values, words, strict=True))
