"""What all tests share: where the real data sets are, and a quiet single place for their absence."""

import os
from pathlib import Path

import pytest


@pytest.fixture
def real_data() -> Path:
    """The folder of MNIST, CIFAR-10 and the tables; the test is skipped where it is not there."""
    folder = os.environ.get("OVERPARAM_DATA", "")
    if not folder or not Path(folder).is_dir():
        pytest.skip("OVERPARAM_DATA names no folder of data sets")
    return Path(folder)
