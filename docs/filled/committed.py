"""A committed folder of results, read as plain JSON and arrays, and how its numbers are written on the pages."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from decimal import ROUND_HALF_UP, Decimal
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from overparam.core.words import number

ROOT = Path(__file__).resolve().parents[2]


class Result:
    """What `result.json` and `arrays.npz` of a folder hold."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    @cached_property
    def _all(self) -> dict[str, Any]:
        return json.loads((self.folder / "result.json").read_text(encoding="utf-8"))

    @property
    def values(self) -> Any:
        """The numbers that were found; of a study, those of its page."""
        values = self._all["values"]
        return values.get("found", values)

    @property
    def sections(self) -> Any:
        """The page as it was stored."""
        return self._all["sections"]

    @property
    def settings(self) -> Any:
        """What the study was asked to run."""
        return self._all["provenance"]["configuration"]["settings"]

    @property
    def seed(self) -> Any:
        """Of every draw."""
        return self._all["provenance"]["seed"]

    @property
    def minutes(self) -> float:
        """How long it took."""
        return self._all["provenance"]["seconds"] / 60

    @cached_property
    def arrays(self) -> Any:
        """By name."""
        return np.load(self.folder / "arrays.npz")


def only(rows: Iterable[Any], **wanted: Any) -> Any:
    """The one row with these values."""
    found = all_of(rows, **wanted)
    if len(found) != 1:
        raise ValueError(f"expected one row with {wanted}, got {len(found)}; name more of its values")
    return found[0]


def all_of(rows: Iterable[Any], **wanted: Any) -> list[Any]:
    """The rows with these values."""
    return [row for row in rows if all(row[name] == value for name, value in wanted.items())]


def fixed(value: float | None, places: int = 2) -> str:
    """So many places, a dash where there is no value."""
    if value is None:
        return "–"
    exact = Decimal(repr(round(float(value), 12)))  # halves go up, as people round: 0.6725 is 67.3%
    text = f"{exact.quantize(Decimal(1).scaleb(-places), ROUND_HALF_UP):,f}"
    return text.replace("-", "−") if text.strip("-0.") else text.lstrip("-")


def digits(value: float | None, count: int = 2) -> str:
    """So many significant digits, zeros at the end among them."""
    if value is None or value >= 10**count:
        return number(value, count)
    return f"{value:#.{count}g}".rstrip(".").replace("-", "−")


def scientific(value: float, places: int = 0) -> str:
    """As in 3e-4, or 1.4e35 with one place."""
    mantissa, power = f"{value:.{places}e}".split("e")
    return f"{mantissa}e{int(power)}"


def percent(share: float, places: int = 1) -> str:
    """A share in percent."""
    return f"{fixed(100 * share, places)}%"


def whole(value: float) -> str:
    """A count, thousands parted."""
    return f"{round(value):,}"


def spread(value: float, error: float | None, places: int) -> str:
    """A number ± its standard error, where there is one."""
    return fixed(value, places) if error is None else f"{fixed(value, places)} ± {fixed(error, places)}"


def table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table as Markdown has it."""
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join(
        "|" + "|".join(cell if cell == "---" else f" {cell} ".replace("  ", " ") for cell in line) + "|"
        for line in lines
    )
