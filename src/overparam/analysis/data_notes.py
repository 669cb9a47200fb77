"""What was done to the data, as the last tables of a page."""

from __future__ import annotations

from collections.abc import Sequence

from overparam.core.sections import Table


def data_notes(notes: Sequence[str], classes: Sequence[str]) -> tuple[Table, ...]:
    """The notes in order, those that quote the data apart, and the classes in the order of the outputs.

    >>> [table.has_samples for table in data_notes(["rows scaled to norm 1", "column 'age' left out"], [])]
    [False, True]
    """
    tables = []
    plain = tuple((note,) for note in notes if "'" not in note)
    quoting = tuple((note,) for note in notes if "'" in note)  # names a column, a category or a class
    if plain:
        tables.append(Table(("Done to the data, in order",), plain))
    if quoting:
        tables.append(Table(("Done to the columns",), quoting, has_samples=True))
    if classes:
        names = ", ".join(classes[:40]) + (" …" if len(classes) > 40 else "")
        tables.append(Table(("Classes, in the order of the outputs",), ((names,),), has_samples=True))
    return tuple(tables)
