"""What people see in the terminal: a bar while work runs, then the verdict. Goes to standard error and output apart."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console
from rich.panel import Panel
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.text import Text

from overparam.core.folder import REPORT
from overparam.core.progress import Progress as Teller
from overparam.core.progress import silent
from overparam.core.words import byte_size, duration, in_one_line
from overparam.frame.answer import NOTE

if TYPE_CHECKING:
    from overparam.frame import AbstractAnswer

COLOURS = {"good": "green", "warning": "yellow", "bad": "red"}


class Display:
    """Progress on standard error, results on standard output; nothing of either when `quiet`."""

    def __init__(self, quiet: bool = False) -> None:
        self._quiet = quiet
        self._errors = Console(stderr=True)
        self._output = Console()

    def plain(self, words: str) -> None:
        if not self._quiet:
            self._errors.print(words, markup=False, highlight=False)

    @contextlib.contextmanager
    def progress(self) -> Iterator[Teller]:
        """A bar with the time left, where the terminal shows one."""
        if self._quiet or not self._errors.is_terminal:
            yield silent
            return
        columns = (TextColumn("{task.description:<18}"), BarColumn(), TimeElapsedColumn(), TimeRemainingColumn())
        with Progress(*columns, console=self._errors, transient=True) as bars:
            bar = bars.add_task("reading", total=1.0)
            yield lambda done, total, what: bars.update(bar, completed=done, total=total, description=what)

    def summary(self, answer: AbstractAnswer, where: Path) -> None:
        """The verdict in a box, then where the page is, what was done and what it cost."""
        body = Text("\n".join(f"• {in_one_line(line)}" for line in answer.verdict.sentences))
        self._output.print(Panel(body, title=Text(answer.title), border_style=COLOURS[answer.verdict.tone]))
        cost = answer.provenance
        page = where / REPORT
        done = [answer.done, f"{duration(cost.seconds)} on {cost.device}"]
        done += [f"peak memory {byte_size(cost.peak_memory)}"] if cost.peak_memory else []
        for line in (str(page if page.exists() else where / NOTE), ", ".join(word for word in done if word)):
            self._output.print(line, markup=False, highlight=False, soft_wrap=True)
