"""Every `Ref:` of the source is registered, every registered statement is used, and the index is not stale."""

import importlib
import importlib.util
import sys
import textwrap
from pathlib import Path

import pytest

from overparam.core.references import PAPERS, STATEMENTS, is_label, parse_reference

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def index():
    sys.path.insert(0, str(ROOT / "docs"))
    yield importlib.import_module("paper_index")
    sys.path.remove(str(ROOT / "docs"))
    for name in ("paper_index", "tests_by_import"):
        del sys.modules[name]


@pytest.fixture(scope="module")
def found(index):
    return index.collect()


@pytest.fixture(scope="module")
def rows(index, found):
    return index.rows_of(found, index.Users(ROOT))


def test_every_reference_is_well_formed_and_registered(found):
    assert found.mentions
    assert not found.problems, "\n".join(found.problems)


def test_nothing_in_the_registry_is_unused(found):
    assert not found.unused, f"take these out of core/references.py, nothing names them: {found.unused}"


def test_every_row_of_the_index_has_a_test(index, rows):
    assert not index.untested(rows), "\n".join(index.untested(rows))


def test_the_index_is_not_stale(index, rows):
    page = index.PAGE.read_text(encoding="utf-8")
    assert page == index.render(rows), f"docs/paper_index.md is stale; run `{index.COMMAND}`"


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


@pytest.fixture(scope="module")
def users(index, tmp_path_factory):
    """A made-up package with a front door that imports when asked, and tests that name its things in every way."""
    root = tmp_path_factory.mktemp("tree")
    files = {
        "src/pkg/__init__.py": """
            _NAMES = {"ask": "room"}
            def __getattr__(name): ...
            """,
        "src/pkg/room/__init__.py": """
            from pkg.room import deep
            from pkg.room.deep import Base, Made, Over, Sub, ask, lone, make, rows, rows as lines, through
            """,
        "src/pkg/room/deep.py": """
            from pkg.frame import verb
            class Base:
                def size(self): ...
            class Sub(Base): ...
            class Over(Base):
                def size(self): ...
            class Made: ...
            def rows(): ...
            def lone(): ...
            def make() -> Base: ...
            def through(): return _between()
            def _between(): return inner()
            def inner(): ...
            def prepare_ask(): ...
            ask = verb(prepare_ask)
            def hides(rows): return rows
            """,
        "tests/room/test_bare.py": """
            from elsewhere import size
            def test(rows): assert rows.lone + lone() + size()
            """,
        "tests/room/test_alias.py": """
            import pkg.room.deep as d
            from pkg.room import deep as e
            from pkg.room.deep import rows as lines
            def test(): assert lines() and d.Made and e.hides(1)
            """,
        "tests/room/test_export.py": """
            from pkg import room
            def test(): assert room.lines() and room.through()
            """,
        "tests/room/test_front.py": """
            import pkg as p
            def test(): assert p.ask()
            """,
        "tests/room/test_helped.py": """
            from cases import used
            def test(): assert used()
            """,
        "tests/room/cases.py": """
            from pkg.room import lone, make
            def used(): return _shared()
            def _shared(): return make().size()
            def unused(): return lone()
            """,
        "tests/room/test_sub.py": """
            from pkg.room import Sub
            def test(): assert Sub().size()
            """,
        "tests/room/test_over.py": """
            from pkg.room import Over
            def test(): assert Over().size()
            """,
        "tests/room/test_local.py": """
            from pkg.room import rows
            def test():
                rows = 3
                assert rows
            """,
    }
    for place, text in files.items():
        path = root / place
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(textwrap.dedent(text), encoding="utf-8")
    return index.Users(root)


@pytest.mark.parametrize(
    ("name", "files"),
    [
        ("rows", ["alias", "export"]),  # neither an argument nor a variable of that name
        ("lone", []),  # bare names, and a helper that no test takes
        ("Made", ["alias"]),
        ("hides", ["alias"]),
        ("prepare_ask", ["front"]),
        ("make", ["helped"]),
        ("through", ["export"]),
        ("inner", []),
        ("Base", ["over", "sub"]),
        ("Base.size", ["helped", "sub"]),  # `Over` has its own
        ("Over.size", ["over"]),
    ],
)
def test_tests_are_found_by_what_they_import(users, name, files):
    assert users.tests_of(f"pkg.room.deep.{name}") == [f"room/test_{one}.py" for one in files]


def test_what_no_test_imports_is_tested_through_the_nearest_public_caller(users):
    assert users.callers_of("pkg.room.deep.inner") == {"pkg.room.deep.through": ["room/test_export.py"]}
    assert users.callers_of("pkg.room.deep.lone") == {}
    places = ["alias", "export", "front", "helped", "over", "sub"]
    assert users.tests_of("pkg.room.deep") == [f"room/test_{one}.py" for one in places]
