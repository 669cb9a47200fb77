"""The options that commands share, and the checks of them."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

Out = Annotated[Path, typer.Option("--out", help="Folder for result.json, arrays.npz and report.html.")]
Json = Annotated[bool, typer.Option("--json", help="Print result.json and nothing else.")]
Seed = Annotated[int, typer.Option("--seed", min=0, help="Of subsampling, random labels and held-out rows.")]
Device = Annotated[str | None, typer.Option("--device", help="cpu, gpu or jax; the best there is if not given.")]
Dtype = Annotated[str, typer.Option("--dtype", help="float64; results are never less.")]
PlanOnly = Annotated[bool, typer.Option("--plan", help="Show what it will cost and stop.")]
NoSamples = Annotated[bool, typer.Option("--no-samples", help="Keep the data's own rows and labels out of the page.")]


def require_float64(dtype: str) -> None:
    """Refuse other precisions in one line."""
    if dtype != "float64":
        raise ValueError(f"--dtype is {dtype}; this command computes in float64 only")
