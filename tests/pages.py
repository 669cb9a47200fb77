"""What tests of pages share: hostile words, and waiting for a page in a browser."""

from __future__ import annotations

import time
from typing import Any

HOSTILE = "</script><script>alert(1)</script><img src=x onerror=alert(2)>\"'&<b>%{x}$a$"


def wait_until(page: Any, condition: str, seconds: float = 60.0) -> None:
    """Asks from outside until it is so: the page's own policy forbids what `wait_for_function` evaluates in it."""
    end = time.monotonic() + seconds
    while not page.evaluate(condition):
        assert time.monotonic() < end, f"not so after {seconds:g} s: {condition}"
        page.wait_for_timeout(50)
