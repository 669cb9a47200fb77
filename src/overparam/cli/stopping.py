"""How a command that was stopped says how to go on."""

from __future__ import annotations


class Stopped(Exception):
    """Ctrl-C, with the one line to print; the exit code is 130."""
