"""Ctrl-C and a request to end, from the first import to the last line: one line, exit code 130, whatever swallowed the first."""

from __future__ import annotations

import signal
import sys
from typing import Any

NAMES = ("SIGINT", "SIGTERM", "SIGHUP")
AGAIN = 0.3
"""Seconds after which the exception is raised again, where something swallowed it: a callback of C, a bare `except`."""


asked: list[int] = []
"""The requests to stop that have come."""


def listen() -> None:
    """Every request to stop becomes a KeyboardInterrupt in the main thread; those that are ignored on purpose stay ignored."""
    for name in NAMES:
        number = getattr(signal, name, None)
        if number is not None and signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, _stop)
    sys.unraisablehook = _unraisable


def deafen() -> None:
    """From here on nothing stops us: the answer is out, and what is left is to end."""
    _again(0.0)
    for name in NAMES:
        number = getattr(signal, name, None)
        if number is not None:
            signal.signal(number, signal.SIG_IGN)


def _stop(number: int, frame: Any) -> None:
    asked.append(number)
    _again(AGAIN)
    raise KeyboardInterrupt


def _not_heard(number: int, frame: Any) -> None:
    """Raise again, but where the exception is on its way up already: there work is kept, and must not be disturbed."""
    _again(AGAIN)
    error = sys.exc_info()[1]
    while error is not None:
        if isinstance(error, KeyboardInterrupt) or type(error).__name__ in ("Interrupted", "Stopped"):
            return
        error = error.__context__
    raise KeyboardInterrupt


def _again(seconds: float) -> None:
    if hasattr(signal, "setitimer"):
        signal.signal(signal.SIGALRM, _not_heard)
        signal.setitimer(signal.ITIMER_REAL, seconds)


def _unraisable(what: Any) -> None:
    """What Python cannot raise is printed with a traceback; a stop comes again by itself."""
    if not issubclass(what.exc_type, KeyboardInterrupt):
        sys.__unraisablehook__(what)
