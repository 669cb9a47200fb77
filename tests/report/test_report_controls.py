"""The controls: what a real Chromium computes as each is moved is what Python computes, and a page without scripts has a table."""

import json

import numpy as np
import pytest
from tests.pages import HOSTILE, wait_until

from overparam.analysis.data_controls import control_numbers, make_controls
from overparam.core import sections
from overparam.core.folder import Parts
from overparam.core.provenance import Provenance
from overparam.core.records import put_together, take_apart
from overparam.core.sections import Section, Text
from overparam.report import render_fragment, render_page
from overparam.spectrum import quadrature
from overparam.theory import laziness, max_learning_rate, predict_loss, redrawn_labels, steps_to_loss

N = 24


@pytest.fixture(scope="module")
def sweeps():
    """Complete sweeps of three classes and of random signs: nothing is bracketed, so that Python's values are the sums."""
    random = np.random.default_rng(0)
    rows = random.standard_normal((N, 40))
    codes = random.integers(3, size=N)
    Y, signs = np.eye(3)[codes] - 1 / 3, random.choice([-1.0, 1.0], size=N)
    labels, noise = (quadrature(rows @ rows.T / 40, y, tol=1e-12) for y in (Y, signs))
    assert labels.complete.all()
    assert noise.complete.all()
    return labels, noise


@pytest.fixture(scope="module")
def block(sweeps):
    labels, noise = sweeps
    return make_controls(control_numbers(labels, noise, rate=max_learning_rate(noise).lower / 2, alignment=0.3))


def page_of(*blocks, folded=False):
    return Parts("analysis", "Title", {}, {}, (Section("Verdict", (Text("Words."),)), Section("Try", blocks, folded)))


def python_values(sweeps, side, rate, steps, width, kappa, noise):
    """By the functions of the theory, the noise as a quadrature of its own."""
    q = redrawn_labels(*sweeps, noise) if side == "noisy" else sweeps[0]
    lazy = laziness(q, steps, rate, width=width, kappa=kappa, loss="mean", alignment=0.3)
    return {
        "loss": predict_loss(q, steps, rate, "mean").relative,
        "tenth": steps_to_loss(q, 0.1, rate, "mean").value,
        "hundredth": steps_to_loss(q, 0.01, rate, "mean").value,
        "moved": lazy.movement,
        "lazy": lazy.value,
        "flips": lazy.flips,
    }


class Live:
    """The page in Chromium, its controls by name."""

    def __init__(self, browser, path, width=1100, scheme="light", scripts=True):
        self.context = browser.new_context(
            viewport={"width": width, "height": 900}, color_scheme=scheme, java_script_enabled=scripts
        )
        self.page = self.context.new_page()
        self.said = []
        self.page.on("console", lambda message: self.said.append(message.text))
        self.page.on("pageerror", lambda error: self.said.append(str(error)))
        self.page.goto(path.as_uri())
        if scripts:
            wait_until(self.page, "document.documentElement.dataset.ready === 'true'")

    def set(self, name, value):
        self.page.locator(f"[data-dial={name}] input[type=number]").fill(repr(value))

    def read(self, of):
        return float(self.page.locator(f"output[data-of={of}]").get_attribute("data-value").replace("null", "nan"))

    def values(self, side):
        return {n: self.read(f"{side}-{n}") for n in ("loss", "tenth", "hundredth", "moved", "lazy", "flips")}

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.context.close()


@pytest.fixture(scope="module")
def path(block, tmp_path_factory):
    place = tmp_path_factory.mktemp("controls") / "page.html"
    place.write_text(render_page(page_of(block)), encoding="utf-8")
    return place


@pytest.mark.browser
def test_every_control_moves_the_values_to_those_of_python(browser, path, block, sweeps):
    start = {
        "rate": block.rate.start, "steps": int(block.steps.start), "width": int(block.width.start),
        "kappa": block.kappa.start, "noise": block.noise.start,
    }  # fmt: skip
    safe = block.largest_rate[1]
    moves = [{}, {"rate": 0.1 * safe}, {"rate": 0.99 * safe}, {"steps": 1}, {"steps": 12345}, {"steps": 10**14}]
    moves += [{"width": 77}, {"kappa": 0.0123}, {"noise": 0.0}, {"noise": 0.37}, {"noise": 1.0}]
    with Live(browser, path) as live:
        for move in moves:
            now = start | move
            for name, value in now.items():
                live.set(name, value)
            for side in ("labels", "noisy"):
                expected = python_values(sweeps, side, **now)
                # sums of N positive terms whose logarithms are rounded: exponents up to 100 give 1e-14
                assert live.values(side) == pytest.approx(expected, rel=1e-9, abs=1e-300), (side, move)
        assert live.said == []


@pytest.mark.browser
def test_sliders_reach_their_ends_by_keyboard_and_the_curve_follows(browser, path, block, sweeps):
    with Live(browser, path, 375, "dark") as live:
        page = live.page
        path_of = "document.querySelector('.curve path[data-side=labels]').getAttribute('d')"
        for name, dial in (
            ("rate", block.rate),
            ("steps", block.steps),
            ("width", block.width),
            ("kappa", block.kappa),
        ):
            before = page.evaluate(path_of)
            slider = page.locator(f"[data-dial={name}] input[type=range]")
            slider.focus()
            page.keyboard.press("Home")
            field = page.locator(f"[data-dial={name}] input[type=number]")
            assert float(field.input_value()) == pytest.approx(dial.least, rel=5e-3)  # three digits
            page.keyboard.press("End")
            assert float(field.input_value()) == pytest.approx(dial.most, rel=5e-3)
            assert (page.evaluate(path_of) != before) == (name in ("rate", "steps")), name
        assert live.read("labels-loss") == np.inf  # the rate at its end is not stable
        assert page.locator("output[data-of=state]").text_content().endswith("Above it the loss grows.")
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
        rate, steps = block.rate.start, 50
        for name, value in (("rate", rate), ("steps", steps)):
            live.set(name, value)
        # the circle is where the loss is; up to six decades have a line each
        ticks = page.evaluate("[...document.querySelectorAll('.curve .s-grid')].map(p => p.getAttribute('d'))")
        columns = [float(d[1:].split()[0]) for d in ticks if "V" in d]
        rows = [float(d.split()[1].split("H")[0]) for d in ticks if "H" in d]
        circle = page.locator(".curve circle.f-true")
        x, y = (float(circle.get_attribute(name)) for name in ("cx", "cy"))
        expected = python_values(sweeps, "labels", rate, steps, 10, 1.0, 0.0)["loss"]
        assert len(columns) <= 7
        assert (x - columns[0]) / (columns[1] - columns[0]) == pytest.approx(np.log10(steps), abs=0.01)
        assert (y - rows[-1]) / (rows[0] - rows[1]) == pytest.approx(-np.log10(expected), abs=0.01)
        assert live.said == []


@pytest.mark.browser
def test_what_cannot_be_is_refused_and_the_last_values_stay(browser, path):
    with Live(browser, path) as live:
        before = live.values("labels")
        for name, value in (("rate", -1), ("steps", 2.5), ("noise", 1.5), ("kappa", 0)):
            live.set(name, value)
            field = live.page.locator(f"[data-dial={name}] input[type=number]")
            assert field.get_attribute("aria-invalid") == "true"
        assert live.values("labels") == before


@pytest.mark.browser
def test_without_scripts_a_table_is_there(browser, path):
    with Live(browser, path, 375, scripts=False) as live:
        assert live.page.locator(".without table").is_visible()
        assert not live.page.locator(".dials").is_visible()


def test_the_still_table_has_the_values_of_the_theory(block, sweeps):
    rate = float(control_numbers(*sweeps, rate=max_learning_rate(sweeps[1]).lower / 2).rate)
    for steps, loss, noisy, lazy in block.still.rows:
        assert loss == pytest.approx(predict_loss(sweeps[0], steps, rate).relative, rel=1e-9, abs=1e-300)
        mixed = redrawn_labels(*sweeps, 0.2)
        assert noisy == pytest.approx(predict_loss(mixed, steps, rate).relative, rel=1e-9, abs=1e-300)
        assert lazy == pytest.approx(laziness(sweeps[0], steps, rate, width=1000, kappa=1.0).value, rel=1e-9)


def test_curves_of_a_sweep_that_ended_early_lie_within_its_brackets():
    random = np.random.default_rng(3)
    rows = random.standard_normal((200, 30))
    H = rows @ rows.T / 30 + np.eye(200)
    labels, noise = (quadrature(H, random.choice([-1.0, 1.0], size=200), tol=1e-4) for _ in range(2))
    assert not labels.complete.any()
    numbers = control_numbers(labels, noise, rate=max_learning_rate(noise).lower / 2)
    for steps, loss, *_ in make_controls(numbers).still.rows:
        found = predict_loss(labels, steps, numbers.rate)
        # Gauss lies below; both sides allow for rounding
        assert found.lower / found.initial <= loss * (1 + 1e-12)
        assert loss <= found.upper / found.initial * (1 + 1e-12)


def test_the_block_comes_back_from_json_and_regression_has_no_noise(block, sweeps):
    told = json.loads(json.dumps(sections.to_json([Section("s", (block,))])))
    assert sections.from_json(told) == (Section("s", (block,)),)
    still = make_controls(control_numbers(*sweeps, rate=0.1, noisy=False))
    assert still.noise is None
    assert len(still.still.columns) == 3
    page = render_page(page_of(still))
    assert 'data-dial="noise"' not in page
    assert "noisy-loss" not in page
    assert "<script" not in render_fragment(page_of(block))
    numbers = control_numbers(*sweeps, rate=0.1)
    again = put_together(type(numbers), *take_apart(numbers))  # as a folder keeps them
    assert make_controls(again) == make_controls(numbers)
    assert control_numbers(quadrature(np.eye(3), np.zeros(3)), sweeps[1], rate=1.0) is None


def test_hostile_words_stay_words(block):
    page = render_page(
        page_of(sections.Controls(**{**block.__dict__, "title": HOSTILE, "caption": HOSTILE, "loss": HOSTILE}))
    )
    assert "<script>alert" not in page
    assert "<img" not in page
    assert Provenance().version in page
