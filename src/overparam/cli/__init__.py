"""The command line: one file a command. `main` turns every foreseen failure into one line and exit code 2."""

from __future__ import annotations

import os
import sys
from typing import Any, NoReturn


def main() -> None:
    """Run `overparam …`; the exit code is 0, 2 for input that cannot be used, 3 where --fail-if is so, 130 for ctrl-C."""
    try:
        from overparam.cli import signals

        signals.listen()
    except KeyboardInterrupt:
        _leave(_failed("stopped", 130))
    try:
        code = run(sys.argv[1:])
        signals.deafen()
    except KeyboardInterrupt:
        signals.deafen()
        code = _failed("stopped", 130)
    except Exception:  # a library's own, for a stop that came in the middle of its work
        if not signals.asked:
            raise
        signals.deafen()
        code = _failed("stopped", 130)
    code = 130 if code and signals.asked else code
    if code == 130:
        _leave(code)
    sys.exit(code)


def _leave(code: int) -> NoReturn:
    """End now: threads of libraries may be at work still, and are not waited for."""
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


def run(arguments: list[str]) -> int:
    """The command line with these words; gives the exit code. A warning is one line, too."""
    import warnings

    with warnings.catch_warnings():
        warnings.showwarning = _warned
        return _run(arguments)


def _warned(message: Warning | str, *where: Any) -> None:
    sys.stderr.write("overparam: " + " ".join(str(message).split()) + "\n")


def _run(arguments: list[str]) -> int:
    try:
        from overparam.cli.app import app
        from overparam.cli.driver import Breached, Stopped
    except KeyboardInterrupt:
        return _failed("stopped", 130)
    try:
        code = app(args=arguments, standalone_mode=False, prog_name="overparam")
    except KeyboardInterrupt:
        return _failed("stopped", 130)
    except BrokenPipeError:  # whoever read our output went away
        sys.stderr.close()
        return 0
    except Stopped as stop:
        return _failed(str(stop), 130)
    except Breached as breach:
        return _failed(str(breach), 3)
    except (ValueError, OSError, ImportError) as error:
        return _failed(str(error), 2)
    except MemoryError:
        return _failed("not enough memory; use fewer rows (--max-rows, --train) or a machine with more", 2)
    except Exception as error:
        # the parser's own complaints (an unknown option, a missing value) and its ctrl-C
        message = getattr(error, "format_message", None)
        if message is not None:
            return _failed(message(), 2)
        if type(error).__name__ == "Abort":
            return _failed("stopped", 130)
        raise
    if code == 130:  # how newer parsers hand on ctrl-C
        return _failed("stopped", 130)
    return code if isinstance(code, int) else 0


def _failed(line: str, code: int) -> int:
    if line.strip():  # nothing where the help was shown instead
        sys.stderr.write("overparam: " + " ".join(line.split()) + "\n")
    return code
