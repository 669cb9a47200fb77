"""Names of sets beside files of the same name."""

from __future__ import annotations

import warnings
from pathlib import Path

import pytest

import overparam as op


def test_a_set_that_hides_a_folder_of_its_name_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        op.load("iris")
    Path("iris").mkdir()
    with pytest.warns(UserWarning, match="not the folder here: write ./iris for that"):
        assert op.load("iris").n == 150
