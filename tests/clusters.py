"""A cluster of two workers inside the process of the tests."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterator
from typing import Any


@contextlib.contextmanager
def two_workers() -> Iterator[Any]:
    """A client of two workers with a thread each, gone at the end."""
    import distributed

    with (
        distributed.LocalCluster(
            n_workers=2,
            threads_per_worker=1,
            processes=False,
            dashboard_address="127.0.0.1:0",
            silence_logs=logging.CRITICAL,
        ) as started,
        distributed.Client(started, set_as_default=False) as connected,
    ):
        yield connected
