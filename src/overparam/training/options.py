"""One line for an option that a function does not have, whichever function it would have been passed on to."""

from __future__ import annotations

import difflib
import functools
import inspect
from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")


def options_of(*others: Callable[..., Any]) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """A decorator: the function knows its own options and those of `others`, to which it passes `**options` on.

    >>> @options_of()
    ... def descend(lr, *, steps=1): ...
    >>> descend(0.1, step=2)
    Traceback (most recent call last):
    ValueError: descend() has no option 'step', perhaps 'steps'; it has steps
    """

    def decorate(function: Callable[P, R]) -> Callable[P, R]:
        own = [p for p in inspect.signature(function).parameters.values() if p.kind is not p.VAR_KEYWORD]
        passed_on = [p for other in others for p in inspect.signature(other).parameters.values()]
        options = dict.fromkeys(p.name for p in (*own, *passed_on) if p.kind is p.KEYWORD_ONLY)
        known = {*options, *(p.name for p in own)}

        @functools.wraps(function)
        def checked(*args: P.args, **kwargs: P.kwargs) -> R:
            for name in kwargs:
                if name not in known:
                    near = difflib.get_close_matches(name, options, 1)
                    hint = f", perhaps {near[0]!r}" if near else ""
                    raise ValueError(f"{function.__name__}() has no option {name!r}{hint}; it has {', '.join(options)}")
            return function(*args, **kwargs)

        return checked

    return decorate
