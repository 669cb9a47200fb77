"""`overparam diff BEFORE AFTER`: what changed between two versions of a data set, or two results."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Annotated

import typer

from overparam.cli.driver import Given, MaxRows, Preprocess, question
from overparam.core.folder import RESULT
from overparam.core.reading import place_of

if TYPE_CHECKING:
    from overparam.analysis.data_difference import Difference
    from overparam.frame import Job


@question("diff", "", "difference")
def command(
    given: Given,
    before: Annotated[str, typer.Argument(help="Data, or a folder that `overparam analyze` wrote.")],
    key: Annotated[str | None, typer.Option("--key", help="A column whose values name the rows.")] = None,
    preprocess: Preprocess = "auto",
    max_rows: MaxRows = None,
) -> Job[Difference]:
    """Tell what changed from BEFORE to DATA: rows, labels, columns, and the error on new rows."""
    from overparam.analysis import prepare_diff
    from overparam.analysis.data_difference import groups_are_keys

    if not given.data:
        raise ValueError("two data sets are compared; pass both, as in `overparam diff before.csv after.csv`")
    reading = given.reading | ({} if key is None else {"group": key})
    with groups_are_keys():
        sides = [
            source if (place_of(source) / RESULT).is_file() else replace(given, data=source, reading=reading).read()
            for source in (before, given.data)
        ]
    return prepare_diff(*sides, by=key, preprocess=preprocess, max_rows=max_rows, **given.shared)
