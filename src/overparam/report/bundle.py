"""The program of the installed plotly as text a page can carry: a third of its size, no network, no copy of it here."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np

FILTER = {"id": 0x4000000000000001, "preset": 1, "dict_size": 1 << 23, "lc": 3, "lp": 0, "pb": 0}
"""`lzma.FILTER_LZMA1` as `unpack.js` reads it; a number, since some builds of Python have no lzma and need no page.

Deflate, which browsers know, makes a page of more than 2 MB; higher presets take seconds.
"""
_DIGITS = np.array([code for code in range(35, 127) if code != ord("<")], dtype=np.uint8)
"""91 characters, none of which can end a script element; 91² is a little more than 2¹³."""


@dataclass(frozen=True)
class Bundle:
    """A program, and the same packed into `text`."""

    program: str
    text: str

    @property
    def size(self) -> int:
        """Bytes of the program."""
        return len(self.program.encode())


def plotly_bundle() -> Bundle:
    """The plotly that is installed, packed to the same text each time."""
    try:
        from plotly.offline import get_plotlyjs
    except ImportError:
        raise ImportError(
            "the page needs plotly to draw its figures; `pip install plotly`, then `overparam report FOLDER`"
        ) from None
    try:
        return _packed(get_plotlyjs())
    except ModuleNotFoundError:
        raise ImportError(
            "the page needs Python's lzma module, without which this Python was built; use another build, then "
            "`overparam report FOLDER`"
        ) from None


@lru_cache(maxsize=1)
def _packed(program: str) -> Bundle:
    """Once in a process: it takes half a second."""
    import lzma

    return Bundle(program, as_text(lzma.compress(program.encode(), format=lzma.FORMAT_RAW, filters=[FILTER])))


def as_text(data: bytes) -> str:
    """Bytes as characters of ASCII, 13 bits in two of them.

    >>> as_text(b"abc"), len(as_text(bytes(13)))
    ('F9>r', 16)
    """
    bits = np.unpackbits(np.frombuffer(data, dtype=np.uint8))
    bits = np.concatenate([bits, np.zeros(-len(bits) % 13, dtype=np.uint8)]).reshape(-1, 13)
    values = bits @ (1 << np.arange(12, -1, -1))
    return _DIGITS[np.column_stack(np.divmod(values, 91)).ravel()].tobytes().decode("ascii")
