"""The table of breaks stays whole: every contract test has one, and every text it replaces is there once."""

from __future__ import annotations

import ast

from breaking import BREAKS, PACKAGE, contract_tests


def test_every_contract_test_has_a_break() -> None:
    assert {each.function for each in BREAKS} == set(contract_tests())


def test_every_break_is_a_change_of_the_code_as_it_is() -> None:
    for each in BREAKS:
        assert each.old != each.new, each.bug
        ast.parse(each.put_into((PACKAGE / each.file).read_text(encoding="utf-8")), each.file)
