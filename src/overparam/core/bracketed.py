"""A number with what it certainly lies between, an interval of statistics, and what a theorem asks for before either holds."""

from __future__ import annotations

import abc
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Literal, final, get_args

import numpy as np

AssumptionStatus = Literal["met", "unmet", "not checked"]


@dataclass(frozen=True)
class Assumption:
    """One condition of a statement: what it says, whether it holds here, and the numbers behind that.

    >>> Assumption("λ_min > 0", "met", "λ_min ≥ 0.01").status
    'met'
    """

    statement: str
    status: AssumptionStatus
    detail: str = ""


def checked(statement: str, holds: bool | None, detail: str = "") -> Assumption:
    """An `Assumption` from True, False or None (not known).

    >>> checked("unit rows", None).status
    'not checked'
    """
    status: AssumptionStatus = "not checked" if holds is None else ("met" if holds else "unmet")
    return Assumption(statement, status, detail)


INFINITE_WIDTH = Assumption(
    "the network is so wide that it trains like its linearisation",
    "not checked",
    "`laziness` at your width and initialisation scale says how far that is true",
)
RESIDUAL = Assumption(
    "the quadrature is of y − u(0), u(0) the outputs before training",
    "not checked",
    "y itself where the network starts at 0",
)


def rounding_within(entries: float, sums: float = 0.0, of: str = "sums of the sweep") -> tuple[Assumption, ...]:
    """What a bracket takes of rounding: that it moved the matrix by no more than `entries`, of its computed entries, and `sums`.

    Both are statistical constants, measured with room and not proved; nothing is taken where both are 0, as of the entries of a
    matrix of numbers that were given.

    >>> rounding_within(0.0), rounding_within(1e-12)[0].status
    ((), 'not checked')
    """
    sizes = [f"{size:.1e} by {what}" for size, what in ((entries, "entries"), (sums, of)) if size > 0]
    if not sizes:
        return ()
    detail = f"statistical: at most {' and '.join(sizes)}, measured with room and not proved"
    return (Assumption("rounding moves the matrix by no more than is allowed for", "not checked", detail),)


Sense = Literal["rounding included", "of a nearby matrix", "with probability p", "none"]
"""In which sense [lower, upper] holds: for the number asked for, whatever rounding did (as far as
its statistical constants hold, which `assumptions` names); for a matrix that rounding cannot tell
from the one asked for, which `reason` names; with a stated probability; or not at all."""


@final
@dataclass(frozen=True, eq=False)
class Bracketed:
    """A number, or an array of them, in [lower, upper].

    `sense` says in which sense the two sides hold; with "none" they are estimates, and those of a nearby matrix are not
    certified: the number asked for may lie elsewhere. A side that is None or infinite
    is absent, and `reason` then says why. `probability` is p where that is the sense. Arrays have one number a step,
    a ridge or an output. Where the number is a sum over outputs (or a function of one), `per_output` has the same of
    each, with a leading axis.

    >>> found = Bracketed(2.0, 1.9, 2.1, "rounding included")
    >>> found.certified, round(found.width, 12)
    (True, 0.2)
    >>> Bracketed(np.array([1.0, 2.0]), np.array([1.0, 2.0]), np.array([1.5, np.inf]), "rounding included").certified
    array([ True, False])
    """

    value: Any
    lower: Any = None
    upper: Any = None
    sense: Sense = "none"
    reason: str = ""
    reference: str = ""
    assumptions: tuple[Assumption, ...] = ()
    probability: float | None = None
    per_output: Bracketed | None = None

    def __post_init__(self) -> None:
        _require_numbers(self.value, self.lower, self.upper)
        if self.sense not in get_args(Sense):
            raise ValueError(f"`sense` is {self.sense!r}; expected one of {', '.join(map(repr, get_args(Sense)))}")
        if (self.sense == "with probability p") != (self.probability is not None):
            raise ValueError("`probability` and the sense 'with probability p' belong together; give both or neither")

    @property
    def certified(self) -> Any:
        """Whether both sides are there and hold for the number asked for; one answer an entry."""
        known = np.full(np.shape(self.value), self.sense not in ("none", "of a nearby matrix"))
        for side in (self.lower, self.upper):
            known = known & (side is not None and np.isfinite(side))
        return known.item() if known.ndim == 0 else known

    @property
    def width(self) -> Any:
        """upper − lower; infinite where a side is absent."""
        if self.lower is None or self.upper is None:
            return np.full(np.shape(self.value), np.inf) if np.ndim(self.value) else np.inf
        return self.upper - self.lower

    def through(self, rising: Callable[[Any], Any], **changed: Any) -> Bracketed:
        """The bracket of a rising function of the number, outputs alike; `changed` are other fields of the result.

        >>> Bracketed(4.0, 1.0, 9.0, "rounding included").through(lambda x: x**0.5).upper
        3.0
        """
        sides = (None if side is None else _plain(rising(side)) for side in (self.value, self.lower, self.upper))
        value, lower, upper = sides
        each = None if self.per_output is None else self.per_output.through(rising, **changed)
        return replace(self, value=value, lower=lower, upper=upper, per_output=each, **changed)

    def alone(self) -> Bracketed:
        """The number without its outputs, its sides Python's numbers, those that are infinite None.

        >>> Bracketed(np.float64(1.0), 0.5, np.inf).alone().upper is None
        True
        """
        lower, upper = (
            None if side is None or not np.isfinite(side) else _plain(side) for side in (self.lower, self.upper)
        )
        return replace(self, value=_plain(self.value), lower=lower, upper=upper, per_output=None)


class AbstractBracketed(abc.ABC):
    """A result around one bracketed number or curve, the field `bracketed`, whose parts it shows as its own."""

    bracketed: Bracketed

    @property
    def value(self) -> Any:
        return self.bracketed.value

    @property
    def lower(self) -> Any:
        return self.bracketed.lower

    @property
    def upper(self) -> Any:
        return self.bracketed.upper

    @property
    def certified(self) -> Any:
        """Whether both sides are there and hold; one answer an entry."""
        return self.bracketed.certified

    @property
    def per_output(self) -> Bracketed | None:
        return self.bracketed.per_output

    @property
    def reason(self) -> str:
        """Why a side is absent."""
        return self.bracketed.reason

    @property
    def reference(self) -> str:
        return self.bracketed.reference

    @property
    def assumptions(self) -> tuple[Assumption, ...]:
        return self.bracketed.assumptions


@final
@dataclass(frozen=True, eq=False)
class Interval:
    """A statistical interval: draws of the same kind put the true number inside with the probability `level`.

    >>> Interval(0.5, 0.4, 0.6, 0.95).level
    0.95
    """

    value: Any
    lower: Any
    upper: Any
    level: float

    def __post_init__(self) -> None:
        _require_numbers(self.value, self.lower, self.upper)
        if not 0 < self.level < 1:
            raise ValueError(f"`level` is {self.level!r}; expected a probability between 0 and 1, such as 0.95")

    @property
    def width(self) -> Any:
        """upper − lower."""
        return self.upper - self.lower


def _require_numbers(*sides: Any) -> None:
    """Raise for what JSON may say where a number stood; arrays of numbers are kept beside it."""
    odd = [side for side in sides if isinstance(side, str | bool | list | tuple | dict)]
    if odd:
        raise ValueError(f"a side of a bracket is {str(odd[0])[:60]!r}; expected a number or an array")


def _plain(number: Any) -> Any:
    """NumPy's scalars and arrays without axes as Python's numbers."""
    return number.item() if isinstance(number, np.ndarray | np.generic) and number.ndim == 0 else number
