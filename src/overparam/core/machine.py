"""What the machine has: memory left for us, whether there is an accelerator, how many BLAS threads to use."""

from __future__ import annotations

import contextlib
import functools
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any


def available_memory() -> int:
    """Bytes this process may still take, the limits of a container included.

    >>> available_memory() > 0
    True
    """
    limits = [bound for bound in (_meminfo(), _control_group()) if bound is not None]
    if not limits and hasattr(os, "sysconf"):
        with contextlib.suppress(ValueError, OSError):
            limits.append(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // 2)
    return max(1, min(limits)) if limits else 4 * 2**30


def _meminfo() -> int | None:
    try:
        lines = Path("/proc/meminfo").read_text().splitlines()
    except OSError:
        return None
    for line in lines:
        if line.startswith("MemAvailable:"):
            return int(line.split()[1]) * 1024
    return None


def _control_group() -> int | None:
    root = Path("/sys/fs/cgroup")
    for limit, used, cache in (
        ("memory.max", "memory.current", "memory.stat"),
        ("memory/memory.limit_in_bytes", "memory/memory.usage_in_bytes", "memory/memory.stat"),
    ):
        try:
            most, taken = int((root / limit).read_text()), int((root / used).read_text())
            stat = dict(line.split()[:2] for line in (root / cache).read_text().splitlines())
        except (OSError, ValueError):  # no such group, or "max": no limit
            continue
        return most - taken + int(stat.get("inactive_file", 0))
    return None


def free_memory(device: Any) -> int:
    """Bytes that are free where a JAX device computes: of the machine for a CPU, its own for another that says so."""
    stats = (device.memory_stats() or {}) if device.platform != "cpu" else {}
    if "bytes_limit" not in stats:
        return available_memory()
    return int(stats["bytes_limit"]) - int(stats.get("bytes_in_use", 0))


def ran_out(error: BaseException) -> bool:
    """Whether an error says that memory ran out: Python's own, PyTorch's on a CPU or a card, or that of XLA.

    >>> ran_out(MemoryError()), ran_out(RuntimeError("RESOURCE_EXHAUSTED: 8 GiB")), ran_out(RuntimeError("shape"))
    (True, True, False)
    """
    words = str(error).lower()
    said = ("out of memory", "allocate memory", "not enough memory", "resource_exhausted", "unable to allocate")
    return isinstance(error, MemoryError) or any(one in words for one in said)


def has_accelerator() -> bool:
    """Whether a GPU driver is present; cheap, so that CPU users never pay for importing jax to be told no."""
    if sys.platform != "linux":
        return False
    return any(Path(place).exists() for place in ("/proc/driver/nvidia/version", "/dev/nvidia0", "/dev/kfd"))


@contextlib.contextmanager
def blas_threads(count: int | None) -> Iterator[None]:
    """Use `count` BLAS threads inside, the user's own setting (environment, threadpoolctl) where None."""
    if count is None:
        yield
        return
    if count < 1:
        raise ValueError(f"`threads` is {count}; expected 1 or more, or None for the setting in force")
    with thread_pools().limit(limits=count, user_api="blas"):
        yield


def thread_pools() -> Any:
    """The libraries of this process that compute in threads; what they are set to is asked when it is used.

    >>> all(pool["num_threads"] >= 1 for pool in thread_pools().info())
    True
    """
    return _pools_beside(len(sys.modules))


@functools.lru_cache(maxsize=1)
def _pools_beside(modules: int) -> Any:
    """Looking for them takes milliseconds, and more where much is compiled: it is done again where modules were imported since."""
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController()
