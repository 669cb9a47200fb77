"""Every measured number of the pages on studies, audits, comparisons and theorems comes from a committed result, and is fresh."""

import importlib
import json
import shutil
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def fill():
    sys.path.insert(0, str(ROOT / "docs"))
    try:
        yield importlib.import_module("fill")
    finally:
        sys.path.remove(str(ROOT / "docs"))


@pytest.fixture(scope="module")
def names(fill):
    return fill.known()


def page(name: str) -> str:
    return (ROOT / "docs" / name).read_text(encoding="utf-8")


def test_pages_are_filled_from_committed_results(fill, names):
    """Every page that is filled, whatever pages there are."""
    for name in fill.PAGES:
        text = page(name)
        assert fill.filled(text, names) == text, f"docs/{name} is stale; run `{fill.COMMAND}`"
        assert not fill.unbound(text, name), "\n".join(fill.unbound(text, name))


def test_every_name_is_on_a_page(fill, names):
    assert set(names) == set().union(*(fill.used(page(name)) for name in fill.PAGES))


def change(values, path, factor):
    *way, last = path
    for key in way:
        values = values[key]
    values[last] *= factor


@pytest.mark.parametrize(
    ("section", "file", "path", "name"),
    [
        ("laziness", "result.json", ["found", "rows", 14, "loss_error"], "studies.md"),
        ("theorem2", "result.json", ["found", "exponents", 4, "slope"], "studies.md"),
        ("audit", "result.json", ["findings", 0, "constant"], "audit.md"),
        ("compare", "parity/result.json", ["gaps", -1, "difference"], "compare.md"),
        ("growth", "result.json", ["rows", 0, "error", "told4", 0], "growth.md"),
        ("thm-rates", "result.json", ["found", "width_asked", "separation"], "theorems.md"),
    ],
)
def test_a_changed_result_makes_its_page_stale(fill, names, tmp_path, section, file, path, name):
    folder, numbers = fill.SECTIONS[section]
    shutil.copytree(ROOT / folder, tmp_path / "changed")
    result = json.loads((tmp_path / "changed" / file).read_text(encoding="utf-8"))
    change(result["values"], path, 1.25)
    (tmp_path / "changed" / file).write_text(json.dumps(result), encoding="utf-8")
    changed = {f"{section}.{key}": text for key, text in numbers(fill.Result(tmp_path / "changed")).items()}
    assert fill.filled(page(name), {**names, **changed}) != page(name)


def test_a_changed_setting_or_constant_makes_its_page_stale(fill, names, tmp_path, monkeypatch):
    folder, numbers = fill.SECTIONS["laziness"]
    shutil.copytree(ROOT / folder, tmp_path / "changed")
    result = json.loads((tmp_path / "changed" / "result.json").read_text(encoding="utf-8"))
    result["provenance"]["configuration"]["settings"]["steps"] = 1_500
    (tmp_path / "changed" / "result.json").write_text(json.dumps(result), encoding="utf-8")
    with monkeypatch.context() as changed:
        changed.setitem(fill.SECTIONS, "laziness", (str(tmp_path / "changed"), numbers))
        assert "1,500<!--laziness:steps-->" in fill.filled(page("studies.md"), names)
    monkeypatch.setattr("overparam.audits.laws.LARGEST_CONSTANT", 20.0)
    assert "20<!--overparam.audits.laws:LARGEST_CONSTANT-->" in fill.filled(page("audit.md"), names)


def test_a_chosen_number_that_nothing_says_is_found_on_pages_that_are_compared(fill):
    text = "after 800<!--set--> epochs\nat m = 128\n"
    assert fill.unbound(text, "foresee.md") == []
    for name in fill.COMPARED:
        assert fill.unbound(text, name) == ["1: ['800'] in after 800 epochs", "2: ['128'] in at m = 128"]
        assert "<!--set-->" not in page(name)


def test_a_large_number_in_words_is_found_on_pages_that_are_compared(fill):
    text = "after twenty-four trials\nof Sixty neurons, in three seeds and both\n"
    assert fill.unbound(text, "theorems.md") == []
    found = ["1: ['twenty'] in after twenty-four trials", "2: ['Sixty'] in of Sixty neurons, in three seeds and both"]
    assert fill.unbound(text, "studies.md") == found


def test_names_of_settings_and_constants(fill):
    """Of a list its parts and its sum, in the style that stands on the page."""
    assert fill.chosen("norms:cells.0.epochs.sum", "1") == "800"
    assert fill.chosen("overparam.studies.fine_grained_fig2:ENOUGH", "3%") == "1%"
    assert fill.chosen("overparam.studies.convergence_fig1:DECAY", "1e-3") == "5e-4"
    assert fill.chosen("three:widths.4", "9") == "10,000"
    assert fill.chosen("descent:seed", "9") == "1"
    for wrong in (
        "laziness:nothing",
        "overparam.nothing:X",
        "overparam.audits.laws:NOTHING",
        "three:widths.99",
        "three:widths",
    ):
        with pytest.raises(ValueError, match="expected"):
            fill.chosen(wrong, "1")


@pytest.mark.parametrize(
    "claim",
    [
        "The error is 0.053.",
        "It fell by 12%.",
        "| 4,000 | 0.56% |",
        "- 24 of 24 points",
        "a z-score of 268",
        "error = 0.3",
    ],
)
def test_a_measured_number_without_a_name_is_found(fill, claim):
    assert fill.unbound(f"A page.\n{claim}\n") == [f"2: {fill.re.findall(fill.NUMBER, claim)} in {claim}"]


@pytest.mark.parametrize(
    "claim",
    [
        "At m = 128 to 4,096, κ = 0.01 and n = 50, 100 and 200.",
        "Lemmas 8.2, 8.6 and C.1 to C.3, Theorem 4, App. A.1, Fig. 2 and (25).",
        "VGG-19 on CIFAR-10, float32, one H200; the ℓ1 loss.",
        "`--steps 1000` and [numbers](studies/2/result.json)",
        "as 1/√m, 2/λ_max, ω^(4/3), 10⁻³ and 2m rows",
        "its 0.69<!--paper--> after 800<!--set--> epochs; 3.2%<!--laziness.loss_true-->",
        "## Fig. 3 in 5 minutes",
    ],
)
def test_settings_labels_names_and_formulas_are_free(fill, claim):
    assert fill.unbound(f"{claim}\n") == []


def test_names_that_nothing_computes_and_texts_that_are_no_number_are_refused(fill):
    with pytest.raises(ValueError, match="expected a name that docs/filled computes"):
        fill.filled("0.1<!--laziness.nothing-->", {})
    with pytest.raises(ValueError, match="expected one number, got 'none'"):
        fill.filled("0.1<!--laziness.loss-->", {"laziness.loss": "none"})
