"""Every theorem of the registry has its entry on the page of theorems, in order and with all parts, and what it cites exists."""

import re
from pathlib import Path

import pytest

from overparam.core.references import PAPERS, STATEMENTS, anchor

ROOT = Path(__file__).resolve().parents[2]
ENTRY = re.compile(r"^- \*\*\[(?P<label>[^\]]+)\]\((?P<link>[^)]+)\)\*\*: (?P<text>.*(?:\n  .*)*)", re.MULTILINE)
PARTS = ("Ran", "Agreed", "Did not")


@pytest.fixture(scope="module")
def page() -> str:
    return (ROOT / "docs" / "theorems.md").read_text(encoding="utf-8")


def entries(text: str) -> list[tuple[str, re.Match[str]]]:
    """Every entry with the paper of its section; a section that opens with no paper has none."""
    found = []
    for section in re.split(r"^## ", text, flags=re.MULTILINE)[1:]:
        paper = re.match(r"`(\w+)`", section)
        if paper is not None and paper[1] in PAPERS:
            found += [(paper[1], entry) for entry in ENTRY.finditer(section)]
    return found


def order(label: str) -> list[tuple[int, str]]:
    """By number, letters after numbers."""
    return [(int(part), "") if part.isdigit() else (99, part) for part in label.split()[1].split(".")]


def problems(text: str) -> set[tuple[str, str]]:
    """Theorems of the registry without an entry, entries of nothing registered, and entries that are there twice."""
    named = [(paper, entry["label"]) for paper, entry in entries(text)]
    theorems = {(paper, label) for paper, label in STATEMENTS if label.startswith("Thm")}
    return (theorems - set(named)) | (set(named) - set(STATEMENTS)) | {key for key in named if named.count(key) > 1}


def test_every_theorem_of_the_registry_has_one_entry_and_every_entry_is_registered(page):
    assert not problems(page)
    for paper in PAPERS:
        labels = [entry["label"] for of, entry in entries(page) if of == paper]
        assert labels == sorted(labels, key=order)


def test_entries_that_are_missing_made_up_or_there_twice_are_found(page):
    paper = "beyond_two_layers"
    assert problems(page.replace("**[Thm 4.2]", "**[Thm 4.9]")) == {(paper, "Thm 4.2"), (paper, "Thm 4.9")}
    assert problems(page.replace("**[Thm 4.2]", "**[Thm 4.3]")) == {(paper, "Thm 4.2"), (paper, "Thm 4.3")}


def test_every_entry_says_what_was_run_what_agreed_and_what_did_not(page):
    for paper, entry in entries(page):
        said = re.split(r"\*\*([^*]+):\*\* ", entry["text"])
        assert tuple(said[1::2]) == PARTS, (paper, entry["label"])
        assert all(part.strip().endswith(".") for part in said[::2]), (paper, entry["label"])
        assert entry["link"] == f"paper_index.md#{anchor(paper, entry['label'])}"


def test_links_lead_somewhere(page):
    links = re.findall(r"\]\(([^)]+)\)", page)
    assert links
    for link in links:
        file, _, place = link.partition("#")
        target = ROOT / "docs" / (file or "theorems.md")
        assert target.is_file(), link
        if place:
            text = target.read_text(encoding="utf-8")
            slugs = [
                re.sub(r"\s+", "-", re.sub(r"[^\w\s-]", "", h.lower())) for h in re.findall(r"^#+ (.*)$", text, re.M)
            ]
            assert f"#{place} }}" in text or place in slugs, link


def test_cited_tests_studies_and_functions_exist(page):
    cited = set(re.findall(r"`(tests/[\w/.]+)`", page))
    assert cited
    assert not [name for name in cited if not (ROOT / name).is_file()]
    studies = set(re.findall(r"\[`([\w-]+)`\]\(studies/", page))
    assert studies
    for name in set(re.findall(r"`([a-z]+(?:-[a-z0-9]+)+)`", page)) - studies:  # said to have no committed result
        assert (ROOT / "src" / "overparam" / "studies" / f"{name.replace('-', '_')}.py").is_file(), name
        assert not (ROOT / "docs" / "studies" / name).exists(), f"{name} has a result: link it and say what it found"
