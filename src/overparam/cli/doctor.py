"""`overparam doctor`: what this machine and installation can do, and what is missing."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import json
import platform
import shutil

import typer

from overparam._version import __version__
from overparam.cli import driver as shared

CORE = ("numpy", "scipy", "scikit-learn", "jax", "threadpoolctl", "plotly", "typer", "rich")
EXTRAS = {"pandas": "pandas", "polars": "polars", "pyarrow": "parquet", "matplotlib": "figures", "pillow": "images"}


def command(json_only: shared.Json = False) -> None:
    """Check versions, memory, BLAS, accelerators and data folders."""
    facts = _facts()
    if json_only:
        typer.echo(json.dumps(facts))
        return
    for name, value in facts.items():
        typer.echo(f"{name:<14} {value}")


def _facts() -> dict[str, str]:
    from threadpoolctl import threadpool_info

    from overparam.core.machine import available_memory, has_accelerator
    from overparam.core.provenance import usable_cores
    from overparam.core.words import byte_size
    from overparam.data import data_folders

    facts = {"overparam": __version__, "python": platform.python_version(), "system": platform.platform()}
    facts["cores"] = str(usable_cores())
    facts["free memory"] = byte_size(available_memory())
    facts["free disk"] = byte_size(shutil.disk_usage(".").free)
    import numpy  # noqa: F401  (loads its BLAS, so that it is listed)

    for pool in threadpool_info():
        if pool.get("user_api") == "blas":
            facts["BLAS"] = f"{pool['internal_api']} {pool['version']}, {pool['num_threads']} threads"
    for name in CORE:
        facts[name] = _version(name) or "MISSING: reinstall overparam"
    for name, extra in EXTRAS.items():
        facts[name] = _version(name) or f"not installed; pip install 'overparam[{extra}]'"
    facts["accelerator"] = _accelerator() if has_accelerator() else "none found; the CPU engine is used"
    facts["data"] = ", ".join(str(place) for place in data_folders())
    return facts


def _accelerator() -> str:
    try:
        import jax

        return ", ".join(f"{device.platform} {device.device_kind}" for device in jax.devices())
    except (ImportError, RuntimeError) as error:
        return f"a driver is there, but JAX cannot use it: {' '.join(str(error).split())[:100]}"


def _version(name: str) -> str | None:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return None
