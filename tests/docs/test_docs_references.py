"""Every `Ref:` of the source is registered, every registered statement is used, and the index is not stale."""

import importlib.util
import sys
from pathlib import Path

import pytest

from overparam.core.references import PAPERS, STATEMENTS, is_label, parse_reference

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def index():
    spec = importlib.util.spec_from_file_location("paper_index", ROOT / "docs" / "paper_index.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules["paper_index"] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    yield module
    del sys.modules["paper_index"]


@pytest.fixture(scope="module")
def found(index):
    return index.collect()


def test_every_reference_is_well_formed_and_registered(found):
    assert found.mentions
    assert not found.problems, "\n".join(found.problems)


def test_nothing_in_the_registry_is_unused(found):
    assert not found.unused, f"take these out of core/references.py, nothing names them: {found.unused}"


def test_the_index_is_not_stale(index, found):
    page = index.render(found, index.users_by_name())
    assert index.PAGE.read_text(encoding="utf-8") == page, f"docs/paper_index.md is stale; run `{index.COMMAND}`"


def test_the_changelog_lists_every_old_name():
    spec = importlib.util.spec_from_file_location("old_names", ROOT / "docs" / "old_names.py")
    names = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(names)
    text = names.CHANGELOG.read_text(encoding="utf-8")
    assert names.rendered(text) == text, f"CHANGELOG.md is stale; run `{names.COMMAND}`"


def test_the_registry_has_labels_of_known_papers_and_words_of_its_own():
    for paper, label in STATEMENTS:
        assert paper in PAPERS
        assert is_label(label), label
        words = STATEMENTS[paper, label]
        assert words.endswith("."), (label, words)


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("fine_grained", "names no statement"),
        ("fine grained, Thm 4.1", "is no paper"),
        ("fine_grained, Theorem 4.1", "is no label"),
        ("fine_grained, Eq. 8", "is no label"),
        ("fine_grained, (8)", "is no label"),
        ("fine_grained, Thm 4.1,", "is no label"),
    ],
)
def test_a_malformed_reference_says_what_is_wrong(line, said):
    with pytest.raises(ValueError, match=said):
        parse_reference(line)


def test_a_line_may_name_several_papers():
    assert parse_reference("fine_grained, Eq. (12), (13); convergence, Thm 5") == [
        ("fine_grained", "Eq. (12)"),
        ("fine_grained", "Eq. (13)"),
        ("convergence", "Thm 5"),
    ]


def test_a_wrong_reference_is_found_where_it_stands(index, tmp_path):
    room = tmp_path / "src" / "overparam"
    room.mkdir(parents=True)
    (room / "wrong.py").write_text(
        'def f():\n    """Gives f.\n\n    Ref: fine_grained, Thm 99.9\n    """\n\n\nREFERENCE = "fine_grained, Thm. 4"\n'
    )
    problems = index.collect(tmp_path).problems
    assert [problem.split(": ")[0] for problem in problems] == ["src/overparam/wrong.py:4", "src/overparam/wrong.py:8"]
