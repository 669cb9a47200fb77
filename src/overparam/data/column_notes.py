"""What was done to a column, or found in it, as data: which column, what kind of thing, and the sentence that says it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import final

from overparam.core import checks

KINDS = (
    "id",  # whole numbers that count the rows, or texts that are all different: left out, or kept where asked
    "date",  # turned into days
    "boolean",  # true and false as 1 and 0
    "category",  # text as columns of 0 and 1
    "text dropped",  # too many different texts to be categories
    "empty",  # no value at all: left out
    "ignored",  # only in the test file
    "missing",  # values filled in, or rows dropped for them
    "amount",  # numbers with a sign of money or percent, or commas between thousands
    "converted",  # numbers of one kind made numbers of another
    "decimal comma",  # numbers written 1,5 in a file whose columns are separated otherwise
    "scaled",  # all columns, by `preprocess`
    "code",  # one number far from all others, many times: perhaps no value
    "constant",  # the same value in every training row
    "task",  # labels that may be meant otherwise: whole numbers taken for classes, classes that differ in capitals alone
    "leak",  # gives the target away
    "image",  # images resized, made colour, or freed of transparency
    "decided",  # labels changed and rows left out by people
    "order",  # rows, or a column that counts them, in the order of the target
)
"""What a note on a column can be about."""


@final
@dataclass(frozen=True)
class ColumnNote:
    """One thing done to a column or found in it. column: its name in the source; None where it is about all rows or columns.

    >>> ColumnNote("joined", "date", "date column 'joined': days since 1970-01-01").kind
    'date'
    """

    column: str | None
    kind: str
    words: str

    def __post_init__(self) -> None:
        checks.one_of(self.kind, "kind", KINDS)

    def describe(self) -> dict[str, str | None]:
        """As plain values that JSON can hold."""
        return {"column": self.column, "kind": self.kind, "words": self.words}


@final
@dataclass
class Notebook:
    """Notes while a source is read: sentences in order, and those of them that are about columns as data too."""

    words: list[str] = field(default_factory=list)
    columns: list[ColumnNote] = field(default_factory=list)

    def add(self, column: str | None, kind: str, words: str) -> None:
        """A note on a column, which is a sentence like the others as well."""
        self.words.append(words)
        self.columns.append(ColumnNote(column, kind, words))
