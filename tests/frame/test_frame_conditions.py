"""What --fail-if says: names of result.json, a comma is "or", what is not available is a breach."""

from dataclasses import dataclass, field

import pytest

from overparam.core.bracketed import Interval
from overparam.frame.conditions import breaches, parse_conditions, require_names


@dataclass(frozen=True)
class Found:
    error: Interval = field(default_factory=lambda: Interval(0.2, 0.1, 0.3, 0.95))
    copies: int = 0
    leak: tuple[str, ...] = ("churned",)
    auc: float | None = None
    counts: dict[str, int] = field(default_factory=lambda: {"rows": 7})
    tone: str = "bad"


@pytest.mark.parametrize(
    ("line", "breached"),
    [
        ("error>0.1", ["error>0.1"]),
        ("error>20%", []),
        ("error>=20%", ["error>=0.2"]),
        ("error.lower>0.1,error.upper>0.29", ["error.upper>0.29"]),
        ("copies>0", []),
        ("copies", []),
        ("leak", ["leak"]),
        ("leak>1", []),
        ("auc<0.9", ["auc<0.9"]),
        ("counts.rows<8", ["counts.rows<8"]),
        ("counts.columns<8", ["counts.columns<8"]),
        ("tone==bad,tone!=bad", ["tone==bad"]),
        ("tone>1", ["tone>1"]),
    ],
)
def test_a_comma_is_or(line, breached):
    conditions = parse_conditions(line)
    require_names(conditions, Found)
    found = breaches(conditions, Found())
    assert [each.split(" (")[0] for each in found] == breached


def test_a_breach_tells_the_value():
    assert breaches(parse_conditions("error>0.1,auc<0.9"), Found()) == [
        "error>0.1 (error is 0.2)",
        "auc<0.9 (auc is not available)",
    ]


@pytest.mark.parametrize("line", ["", "error>", "error>>1", ">1", "error>much", "a b", "error>0.1,", "error>nan"])
def test_what_is_no_condition_is_one_line(line):
    with pytest.raises(ValueError, match="--fail-if"):
        parse_conditions(line)


@pytest.mark.parametrize(
    ("name", "hint", "has"),
    [
        ("errors", "'error'", "it has auc, copies, counts, error, leak, tone"),
        ("error.foo", "", "error has error.level, error.lower, error.upper, error.value"),
        ("error.uper", "'error.upper'", "error has error.level"),
        ("error.upper.x", "'error.upper'", "error.upper has nothing below it"),
        ("lower", "'error.lower'", "it has auc"),
        ("eror.lower", "'error.lower'", "it has auc"),
        ("quite.other", "", "it has auc"),
    ],
)
def test_an_unknown_name_is_found_before_the_work(name, hint, has):
    with pytest.raises(ValueError, match="--fail-if names") as caught:
        require_names(parse_conditions(f"{name}>0.1"), Found)
    line = str(caught.value)
    assert f"names '{name}', which the result does not have{', perhaps ' + hint if hint else ''}; {has}" in line
    assert "\n" not in line
