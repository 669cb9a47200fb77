"""Many short texts in about the bytes they take: a Python string of three letters takes fifty-two."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import final, overload

import numpy as np

LONG = 200
"""Characters of a text that may make all others of its array as long."""


@final
class Texts(Sequence[str]):
    """A column of text that grows by pieces, read from its start; a piece is made of strings while it is looked at.

    >>> texts = Texts()
    >>> texts.extend(("a", "bc")), texts.extend(("ä", ""))
    (None, None)
    >>> list(texts), texts[2], len(texts), texts.nbytes
    (['a', 'bc', 'ä', ''], 'ä', 4, 12)
    """

    def __init__(self) -> None:
        self._pieces: list[np.ndarray] = []
        self._starts = [0]

    def extend(self, more: Sequence[str]) -> None:
        """Add these at the end; NumPy's arrays end texts at a zero byte, so that none may hold one."""
        self._pieces.append(_packed(more))
        self._starts.append(self._starts[-1] + len(more))

    def changed(self, change: Callable[[str], str]) -> Texts:
        """Every text by what `change` makes of it."""
        found = Texts()
        for piece in self._pieces:
            found.extend([change(text) for text in _strings(piece)])
        return found

    @property
    def nbytes(self) -> int:
        """Bytes of all pieces."""
        return sum(piece.nbytes for piece in self._pieces)

    def __iter__(self) -> Iterator[str]:
        for piece in self._pieces:
            yield from _strings(piece)

    def __len__(self) -> int:
        return self._starts[-1]

    @overload
    def __getitem__(self, at: int) -> str: ...
    @overload
    def __getitem__(self, at: slice) -> Sequence[str]: ...
    def __getitem__(self, at: int | slice) -> str | Sequence[str]:
        if isinstance(at, slice):
            return [self[i] for i in range(*at.indices(len(self)))]
        if not 0 <= at < len(self):
            raise IndexError(at)
        which = int(np.searchsorted(self._starts, at, side="right")) - 1
        place = at - self._starts[which]
        return _strings(self._pieces[which][place : place + 1])[0]


def text_array(texts: Sequence[str]) -> np.ndarray:
    """Text in an array: all of one width, or, where one long value would make all of them long, as Python has it.

    >>> text_array([*"acdefg", "b" * 10_000]).dtype.kind, text_array(["a", "b"]).dtype.kind
    ('O', 'U')
    """
    if not _is_even(texts):
        return np.array(list(texts), dtype=object)
    longest = max(map(len, texts), default=0)
    return np.fromiter(texts, dtype=f"U{max(1, longest)}", count=len(texts))


def _is_even(texts: Sequence[str]) -> bool:
    """Whether an array of the width of the longest takes no more than a few times what they hold."""
    longest = max(map(len, texts), default=0)
    return longest <= LONG or longest * len(texts) <= 4 * sum(map(len, texts))


def _packed(texts: Sequence[str]) -> np.ndarray:
    if not _is_even(texts):
        return np.array(texts, dtype=object)
    return np.array(texts, dtype="S" if all(map(str.isascii, texts)) else "U")


def _strings(piece: np.ndarray) -> list[str]:
    return (piece.astype("U") if piece.dtype.kind == "S" else piece).tolist()
