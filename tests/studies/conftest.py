"""What the tests of studies share."""

from pathlib import Path

import pytest


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the parts of the module's study are kept."""
    return tmp_path_factory.mktemp("study")
