"""A result with a page into its folder."""

from __future__ import annotations

import os
from pathlib import Path

from overparam.core import folder as folders


def save_with_page(parts: folders.Parts, folder: str | os.PathLike[str], *, samples: bool = True) -> Path:
    """Write result.json, arrays.npz and report.html; without plotly all but the page, and a line saying how to get it."""
    path = folders.write(parts, folder)
    from overparam.report import write_page

    note, page = path / "report.txt", path / folders.REPORT
    try:
        write_page(path, samples=samples)
        note.unlink(missing_ok=True)
    except ImportError as error:
        page.unlink(missing_ok=True)  # of an earlier result
        line = f"{error}; then `overparam report {path}` makes the page\n"
        folders.write_whole(note, line.encode())
    return path
