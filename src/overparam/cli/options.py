"""The options that commands share, and the checks of them."""

from __future__ import annotations

import errno
import json
import os
import re
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from overparam.data import Dataset

LONG = 10.0
"""Seconds from which a plan is shown before the work starts."""
OPTIONS = {name: f"--{name}" for name in ("label", "group", "classes", "train", "test", "task", "missing")}
OPTIONS |= {"preprocess": "--preprocess", "data": "DATA"}
"""What arguments of reading and scaling data are called here."""

Out = Annotated[Path, typer.Option("--out", help="Folder for result.json, arrays.npz and report.html.")]
Json = Annotated[bool, typer.Option("--json", help="Print result.json and nothing else.")]
Seed = Annotated[int, typer.Option("--seed", min=0, help="Of subsampling, random labels and held-out rows.")]
Device = Annotated[str | None, typer.Option("--device", help="cpu, gpu or jax; the best there is if not given.")]
Dtype = Annotated[str, typer.Option("--dtype", help="float64; results are never less.")]
PlanOnly = Annotated[bool, typer.Option("--plan", help="Show what it will cost and stop.")]
NoSamples = Annotated[bool, typer.Option("--no-samples", help="Keep the data's own rows and labels out of the page.")]

Label = Annotated[
    str | None, typer.Option("--label", "--target", help="The label column of a table; the last if not given.")
]
Group = Annotated[str | None, typer.Option("--group", help="A column whose groups are never split.")]
Classes = Annotated[str | None, typer.Option("--classes", help="Classes to keep, such as 0,1; the first is +1.")]
Train = Annotated[int | None, typer.Option("--train", help="Most training rows to read.")]
Test = Annotated[str | None, typer.Option("--test", help="Test rows: a count, or a share below 1.")]
Task = Annotated[str | None, typer.Option("--task", help="classes or regression, where the labels do not tell.")]
Missing = Annotated[str, typer.Option("--missing", help="error, mean or drop: what to do with missing values.")]
Preprocess = Annotated[str, typer.Option("--preprocess", help="auto, none, unit, standardise, …")]


def require_float64(dtype: str) -> None:
    """Refuse other precisions in one line."""
    if dtype != "float64":
        raise ValueError(f"--dtype is {dtype}; this command computes in float64 only")


def read_data(source: str, *, classes: str | None, test: str | None, seed: int, **options: Any) -> Dataset:
    """The data set named on the command line; `options` are those of `load`."""
    from overparam.data import load

    return load(source, classes=class_names(classes), test=count_or_share(test), key=seed, **options)


def in_options(line: str) -> str:
    """A line on what is wrong with the data, with the options of the command line for the arguments of Python.

    >>> in_options("pass missing='mean' to fill them; `task` is 'x'")
    "pass --missing mean to fill them; --task is 'x'"
    """
    names = "|".join(OPTIONS)
    line = re.sub(rf"\b({names})='(\w+)'", lambda found: f"{OPTIONS[found[1]]} {found[2]}", line)
    # `test` that *has* rows or features is a part of the data, not what was asked for
    line = re.sub(rf"`({names})`(?! has (?!the step))", lambda found: OPTIONS[found[1]], line)
    return line.replace("a name, a path, a pair (X, y) or a frame", "a name, a file or a folder")


def require_writable(place: Path, option: str = "--out") -> None:
    """One line where a folder cannot be made or written to, before hours of work; leaves no trace."""
    missing = [folder for folder in (place, *place.parents) if not os.path.lexists(folder)]
    made: list[Path] = []
    try:
        for folder in reversed(missing):
            folder.mkdir()
            made.append(folder)
        with tempfile.TemporaryFile(dir=place):
            pass
    except OSError as error:
        if error.errno in (errno.EEXIST, errno.ENOTDIR):
            raise ValueError(f"{option} is {place}, and that is a file or lies in one; name a folder") from None
        why = (error.strerror or str(error)).lower()
        raise ValueError(f"the folder {place} cannot be written ({why}); choose another {option}") from None
    finally:
        for folder in reversed(made):
            folder.rmdir()


def class_names(text: str | None) -> tuple[int | str, ...] | None:
    """--classes as values."""
    if text is None:
        return None
    names = [name.strip() for name in text.split(",") if name.strip()]
    if len(names) < 2:
        raise ValueError(f"--classes is {text!r}; name at least two, such as 0,1")
    return tuple(int(name) if name.lstrip("-").isdigit() else name for name in names)


def count_or_share(text: str | None) -> int | float | None:
    """--test as a number of rows or a share of them."""
    if text is None:
        return None
    try:
        return float(text) if "." in text else int(text)
    except ValueError:
        raise ValueError(f"--test is {text!r}; expected a count such as 2000 or a share such as 0.2") from None


def print_result(place: Path) -> None:
    """result.json on standard output, as it stands in the folder."""
    document = json.loads((place / "result.json").read_text(encoding="utf-8"))
    json.dump(document, sys.stdout, allow_nan=False, ensure_ascii=False)
    sys.stdout.write("\n")
