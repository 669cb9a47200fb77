"""How a number, a share, an interval, a count, a duration, a size in bytes, a list of words and a formula are said.

Every page, verdict, plan and message says them by these functions, so that one number reads the same everywhere.
Minus signs are "−", powers of ten "1.2 × 10⁻⁵", thousands are parted by commas, and what is not known is "–".
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from decimal import Decimal
from typing import Any, Literal

MISSING = "–"
RAISED = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")
"""The raised character of each digit and of the minus sign, for `str.translate`."""
_NOTATION = re.compile(r"\^\{([^{}]{1,24})\}|(?<=ω)\^([−-]?\d+(?:\.\d+)?)|_\{([^{}]{1,24})\}")
# Only what is ours to raise: braces, or a power of ω; a column of the data called a^2 stays as it is.


def number(value: Any, digits: int | None = None) -> str:
    """A number as people read it, rounded to so many significant digits where `digits` are given.

    Without them integers below 10¹⁵ keep every digit, so do whole floats below 10⁷, and other numbers have four.
    Truth values are yes and no, text stays as it is, None and NaN are missing.

    >>> number(1.235e-05), number(60000), number(-0.25), number(None)
    ('1.235 × 10⁻⁵', '60,000', '−0.25', '–')
    >>> number(814_321.7, 3), number(0.0123456, 2), number(1.2345e9, 2), number(12_345.678, 6)
    ('814,000', '0.012', '1.2 × 10⁹', '12,345.7')
    """
    if value is None:
        return MISSING
    value = value.item() if hasattr(value, "item") else value  # a NumPy scalar
    if isinstance(value, bool):
        return "yes" if value else "no"
    if digits is not None and isinstance(value, int | float) and math.isfinite(value):
        value = float(f"{value:.{digits}g}")
    if isinstance(value, int):
        return f"{value:,}".replace("-", "−") if abs(value) < 10**15 else _power_of_integer(value)
    if not isinstance(value, float):
        return str(value)
    if math.isnan(value):
        return MISSING
    if math.isinf(value):
        return "∞" if value > 0 else "−∞"
    if value.is_integer() and abs(value) < 1e7:
        return number(int(value))
    return _significant(value, max(4, digits or 4))


def _significant(value: float, digits: int) -> str:
    mantissa, exponent = f"{value:.{digits - 1}e}".split("e")
    power = int(exponent)
    if -4 <= power < digits:
        text = f"{value:,.{digits - 1 - power}f}"
        text = text.rstrip("0").rstrip(".") if "." in text else text
        return text.replace("-", "−")
    return _times_power(mantissa.rstrip("0").rstrip("."), power)


def _times_power(mantissa: str, power: int) -> str:
    return f"{mantissa} × {power_of_ten(power)}".replace("-", "−")


def _power_of_integer(value: int) -> str:
    digits = str(abs(value))
    return _times_power(f"{'-' if value < 0 else ''}{digits[0]}.{digits[1:4]}", len(digits) - 1)


def power_of_ten(power: int) -> str:
    """Ten to a whole power.

    >>> power_of_ten(-4)
    '10⁻⁴'
    """
    return f"10{str(power).translate(RAISED)}"


def power_of_e(log: float | Decimal) -> str:
    """A number too large to write, from its natural logarithm.

    >>> power_of_e(12.5), power_of_e(math.inf), power_of_e(Decimal("3e400"))
    ('e^12.5', 'infinite', 'e^(10^400)')
    """
    if isinstance(log, Decimal):
        return f"e^(10^{log.adjusted()})"
    return "infinite" if log == math.inf else f"e^{log:.6g}"


def decimal(value: float | None, places: int = 2, *, sign: bool = False) -> str:
    """A number with so many places behind the point, with a plus where `sign` asks for one.

    >>> decimal(-0.25), decimal(1.5, 3, sign=True), decimal(None)
    ('−0.25', '+1.500', '–')
    """
    if value is None or math.isnan(value):
        return MISSING
    return f"{value:{'+' if sign else ''}.{places}f}".replace("-", "−")


def with_error(value: float | None, error: float | None, places: int = 2, *, sign: bool = False) -> str:
    """A number and its standard error, where there is one; the three stay on one line.

    >>> with_error(-1.5, 0.125).replace("\\N{NO-BREAK SPACE}", " "), with_error(0.5, None)
    ('−1.50 ± 0.12', '0.50')
    """
    words = decimal(value, places, sign=sign)
    return words if value is None or error is None else f"{words}\u00a0±\u00a0{decimal(error, places)}"


def rounded_up(count: float) -> str:
    """A count that is enough, rounded up to two digits: nobody builds a network of width 201,683.

    >>> rounded_up(201_683), rounded_up(7), rounded_up(3.21e9)
    ('210,000', '7', '3.3 × 10⁹')
    """
    unit = 10.0 ** max(0, math.floor(math.log10(max(count, 1.0))) - 1)
    return number(math.ceil(count / unit) * unit, 2)


def percent(share: float | None, fine: float = 0.0995) -> str:
    """A share in percent: two places below `fine`, which is 10%, one above, a power of ten where it is tiny.

    >>> percent(0.0213), percent(0.5), percent(3e-7), percent(0.0), percent(25.0), percent(0.0513, fine=0.02)
    ('2.13%', '50.0%', '3 × 10⁻⁵%', '0.0%', '2,500%', '5.1%')
    """
    if share is None or math.isnan(share):
        return MISSING
    size = abs(share)
    if 0 < size < 1e-4:
        return f"{number(100 * share, 2)}%"
    if size >= 10:
        return f"{number(100 * share, 3)}%"
    return f"{decimal(100 * share, 2 if 0 < size < fine else 1)}%"


def as_sure_as(width: float, *, share: bool = True) -> Callable[[float], str]:
    """How numbers are said that are known to such a width: the last digit is worth about a quarter of it.

    >>> as_sure_as(0.09)(0.1234), as_sure_as(0.01, share=False)(0.8712)
    ('12%', '0.871')
    """
    scale, sign, most = (100.0, "%", 2) if share else (1.0, "", 6)
    places = max(0, min(most, -math.floor(math.log10(scale * width / 4)))) if width > 0 else 0
    return lambda value: f"{round(scale * value, places) + 0.0:,.{places}f}{sign}".replace("-", "−")


def measured(found: Any, *, share: bool = True, level: bool = False) -> str:
    """An interval with as many digits as it supports; `level` names its probability.

    >>> from overparam.core.bracketed import Interval
    >>> measured(Interval(0.1234, 0.08, 0.17, 0.95)), measured(Interval(0.8712, 0.866, 0.876, 0.95), share=False)
    ('12% (8% to 17%)', '0.871 (0.866 to 0.876)')
    """
    said = as_sure_as(found.upper - found.lower, share=share)
    sure = f"{found.level:.0%}: " if level else ""
    return f"{said(found.value)} ({sure}{said(found.lower)} to {said(found.upper)})"


def points(difference: float, *, sign: bool = True) -> str:
    """A difference of two shares in points of percent.

    >>> points(-0.0123), points(0.0012), points(-0.0123, sign=False)
    ('−1.2', '+0.12', '1.2')
    """
    size = 100 * (difference if sign else abs(difference))
    return decimal(size, 1 if abs(size) >= 1 else 2, sign=sign)


def between(lower: float | None, upper: float | None, digits: int | None = None) -> str:
    """An interval; a side that is None is open, and equal ends are one number.

    >>> between(1.5, 2), between(3, 3), between(1.25, None), between(None, 0.5), between(0.123456, 0.2, 2)
    ('1.5 to 2', '3', '1.25 or more', 'at most 0.5', '0.12 to 0.2')
    """
    low, high = number(lower, digits), number(upper, digits)
    if lower is None:
        return MISSING if upper is None else f"at most {high}"
    if upper is None:
        return f"{low} or more"
    return low if lower == upper else f"{low} to {high}"


def count_of(count: int, noun: str, plural: str | None = None) -> str:
    """How many there are of a thing.

    >>> count_of(1, "row"), count_of(2000, "row"), count_of(2, "radius", "radii")
    ('1 row', '2,000 rows', '2 radii')
    """
    return f"{count:,} {noun if count == 1 else plural or noun + 's'}"


def with_noun(said: str, noun: str) -> str:
    """A number that is said already, with its noun.

    >>> with_noun("1", "point"), with_noun("0.5", "point"), with_noun("−1", "point")
    ('1 point', '0.5 points', '−1 point')
    """
    return f"{said} {noun if said.lstrip('+−') == '1' else noun + 's'}"


def duration(seconds: float | None, *, rough: bool = False) -> str:
    """A time span in the units that suit it; `rough` gives two digits, for what is only foreseen.

    >>> duration(0.0123), duration(75), duration(7260), duration(120), duration(4.217)
    ('12 ms', '1 min 15 s', '2 h 1 min', '2 min', '4.22 s')
    >>> duration(1234, rough=True), duration(4.217, rough=True)
    ('20 min', '4.2 s')
    """
    if seconds is None or not math.isfinite(seconds):
        return MISSING
    if seconds < 0.9995:
        return f"{1e3 * seconds:.0f} ms" if seconds > 0.0995 else f"{1e3 * seconds:.2g} ms"
    if rough:
        seconds = float(f"{seconds:.2g}")
    if seconds < 59.95:
        return f"{seconds:.3g} s"
    whole = round(seconds)
    if whole < 3600:
        return f"{whole // 60} min" + (f" {whole % 60} s" if whole % 60 else "")
    minutes = whole % 3600 // 60
    return f"{whole // 3600:,} h" + (f" {minutes} min" if minutes else "")


def byte_size(size: float | None) -> str:
    """A number of bytes.

    >>> byte_size(3.2e9), byte_size(640), byte_size(2.5e12), byte_size(None)
    ('3.2 GB', '640 B', '2.5 TB', '–')
    """
    if size is None:
        return MISSING
    for unit, factor in (("TB", 1e12), ("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if size >= factor:
            return f"{number(size / factor, 3)} {unit}"
    return f"{size:.0f} B"


def listed(words: Sequence[Any], most: int | None = None, last: str = "and") -> str:
    """Words as a sentence lists them, at most so many of them.

    >>> listed(["a"]), listed("abc"), listed("abcd", 2), listed(["a, b", "c", "d"]), listed("ab", last="or")
    ('a', 'a, b and c', 'a, b and 2 more', 'a, b; c and d', 'a or b')
    """
    shown = [unbroken(word) for word in words[:most]]
    if most is not None and len(words) > most:
        shown.append(f"{len(words) - most:,} more")
    if len(shown) < 2:
        return "".join(shown)
    between = "; " if any("," in word for word in shown) else ", "  # names with commas in them
    return f"{between.join(shown[:-1])} {last} {shown[-1]}"


def unbroken(name: Any) -> str:
    """A name as it is, or quoted where it has line breaks, as names in files may.

    >>> print(unbroken("a b"), unbroken("a" + chr(10)))
    a b 'a\\n'
    """
    return name if "".join((name := str(name)).splitlines()) == name else repr(name)


def quoted(value: Any, most: int = 40) -> str:
    """A value as it would be typed, cut where it is long.

    >>> quoted("a"), quoted("a" * 99, 8)
    ("'a'", "'aaaa...")
    """
    text = repr(value.item() if hasattr(value, "item") else value)
    return text if len(text) <= most else text[: most - 3] + "..."


Height = Literal["", "raised", "lowered"]


def notation(words: str) -> list[tuple[str, Height]]:
    """A sentence in pieces: plain ones, exponents such as ω^{2/3} or ω^1.33, and indices such as W_{a+1}.

    >>> notation("L^{9/2} and W_{a}")
    [('L', ''), ('9/2', 'raised'), (' and W', ''), ('a', 'lowered')]
    """
    pieces: list[tuple[str, Height]] = []
    start = 0
    for found in _NOTATION.finditer(words):
        braced, bare, index = found.groups()
        pieces += [(words[start : found.start()], ""), (braced or bare or index, "lowered" if index else "raised")]
        start = found.end()
    return [(text, height) for text, height in [*pieces, (words[start:], "")] if text]


def in_one_line(words: str) -> str:
    """A sentence with its exponents and indices, for a terminal.

    >>> in_one_line("L^{9/2}, ω^{-1}, W_{a+1}, W_{a}")
    'L^(9/2), ω^-1, W_(a+1), W_a'
    """
    signs = {"": "", "raised": "^", "lowered": "_"}
    simple = re.compile(r"[−-]?[\w.]+").fullmatch
    pieces = ((signs[height], text if not height or simple(text) else f"({text})") for text, height in notation(words))
    return "".join(sign + text for sign, text in pieces)
