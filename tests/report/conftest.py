"""Results to draw: a realistic one with every kind of block, and one whose every word is hostile."""

import shutil
from dataclasses import replace

import numpy as np
import pytest
from tests.pages import HOSTILE

from overparam.core.folder import Parts
from overparam.core.provenance import Provenance
from overparam.core.sections import (
    Controls,
    Dial,
    Figure,
    Line,
    Measure,
    Pictures,
    Section,
    Table,
    Text,
    picture,
    series,
)

FLAGS = [
    "--no-sandbox",
    "--use-gl=angle",  # surfaces are drawn by WebGL, here without a GPU
    "--use-angle=swiftshader",
    "--enable-unsafe-swiftshader",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
]


@pytest.fixture(scope="session")
def browser():
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    binary = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if binary is None:
        pytest.skip("no Chromium on this machine")
    with playwright.sync_playwright() as driver:
        try:
            started = driver.chromium.launch(executable_path=binary, args=FLAGS)
        except playwright.Error as error:
            pytest.skip(f"Chromium does not start: {str(error).splitlines()[0]}")
        yield started
        started.close()


@pytest.fixture(scope="session")
def example() -> Parts:
    draws = np.random.default_rng(0)
    n = 1000
    index = np.arange(1, n + 1)
    eigenvalues = 2.0 * index**-1.3
    shares = {
        "true": index**-1.4 * np.exp(draws.normal(0, 0.9, n)),
        "random": draws.normal(size=n) ** 2,
        "worst": np.exp((index - n) / 40.0) + 1e-12,
    }
    shares = {name: share / share.sum() for name, share in shares.items()}
    steps = np.unique(np.round(np.logspace(0, 5, 100)))
    loss = {name: np.array([np.sum(np.exp(-0.2 * eigenvalues * t) * s) for t in steps]) for name, s in shares.items()}
    spectrum = Figure(
        "Where the labels lie in the spectrum",
        "True labels lie on the large eigenvalues.",
        "eigenvalue λᵢ",
        "share of the labels, (vᵢᵀy)² / ‖y‖²",
        tuple(series(f"{k} labels", eigenvalues, s, mark="points", role=k) for k, s in shares.items()),
        "log",
        "log",
        (Line("1/n", y=1 / n), Line("what float32 resolves", x=2e-4), Line("halved after 1,000 steps", x=3.5e-4)),
    )
    curves = Figure(
        "Predicted training loss",
        "Bands are certified brackets.",
        "steps",
        "loss relative to its start",
        (
            *tuple(series(f"{k} labels", steps, v, lower=v * 0.8, upper=v * 1.2, role=k) for k, v in loss.items()),
            series("with momentum", steps, loss["true"] ** 1.2, role="true", dashed=True),
        ),
        "log",
        "log",
        (Line("target 0.1", y=0.1), Line("target 0.09", y=0.09), Line("early stopping", x=640.0)),
    )
    noise = np.linspace(0, 1, 11)
    sweep = Figure(
        "Complexity against label noise",
        "It rises with the test loss.",
        "fraction of random labels",
        "value",
        (
            series("complexity", noise, 0.1 + noise, lower=0.05 + noise, upper=0.2 + noise),
            series("test loss", noise, noise, mark="points", role="observed", lower=noise - 0.02, upper=noise + 0.02),
            series("with gaps", noise, [None if i % 4 == 2 else 0.3 for i in range(11)], role="muted", dashed=True),
        ),
    )
    bars = Figure(
        "Complexity of three label vectors",
        "",
        "labels",
        "complexity",
        (series("this data", ["true", "random, mean of ten draws", "worst"], [0.31, 4.2, 38.0], mark="bars"),),
        y_scale="log",
        lines=(Line("vacuous above 1", y=1.0),),
    )
    wide = Table(
        tuple(f"column {i}" for i in range(12)),
        (("a row with a long name that needs room", *(1.235e-5 * 10**i for i in range(11))), ("b", *range(11))),
        "A wide table.",
    )
    states = Table(("Assumption", "State"), (("Unit rows", "met"), ("Width", "unmet"), ("Rank", "not checked")))
    samples = Table(("Row", "Label"), ((17, "seven-of-the-user"), (1234567, None)), "Rows.", has_samples=True)
    measure = Measure((0.5, 2.0), (1.0, 4.0))
    dials = Controls(
        "Set it yourself", "Computed in this page.", measure, measure, "mean loss", 0.001, (1000.0, 990.0, 1010.0), 1e-12, 0.3,
        Dial(500.0, 1.0, 1200.0), Dial(100.0, 1.0, 1e7), Dial(1000.0, 10.0, 1e7), Dial(1.0, 0.001, 10.0), Dial(0.2, 0.0, 1.0),
        Table(("steps", "loss"), ((10, 0.5),), "A few values."),
    )  # fmt: skip
    rows = [(7, "seven", 0.5), (23, '=one, or "two"', -1.25e-9), (1201, "three", None)]
    faces = [picture(draws.random((8, 8)), f"row {row}", f"row {row}") for row, _, _ in rows]
    suspects = Table(
        ("row", "the other rows suggest", "margin", "picture"),
        tuple((*cells, face) for cells, face in zip(rows, faces, strict=True)),
        "Labels to look at first.",
        has_samples=True,
        sortable=True,
        file="labels.csv",
    )
    return Parts(
        "analysis",
        "digits: can a wide network learn these labels?",
        {},
        {"a": np.zeros(2)},
        (
            Section("Verdict", (Text("A wide network learns these labels: expect 1.2 % error.", "good"), Text("Why."))),
            Section("Can it be learned?", (Text("Yes. " * 60), bars, wide, spectrum)),
            Section("How fast?", (curves, dials, Text("Above 0.2468 training diverges.", "bad"))),
            Section("When may this be believed?", (states, samples, sweep, Text("Mind the width.", "warning"))),
            Section(
                "Theory", (suspects, Pictures(tuple(faces), "Some rows."), replace(bars, title="Again")), folded=True
            ),
        ),
        Provenance({"data": "digits", "kernel": {"depth": 1}}, 7, seconds=12.3, peak_memory=2**30),
    )


@pytest.fixture(scope="session")
def hostile() -> Parts:
    figure = Figure(
        HOSTILE,
        HOSTILE,
        HOSTILE,
        HOSTILE,
        (
            series(HOSTILE, [HOSTILE, "b"], [1.0, 2.0], mark="bars", lower=[0.5, 1.0], upper=[2, 3]),
            series(HOSTILE, ["b", HOSTILE], [1.0, 2.0]),
        ),
        lines=(Line(HOSTILE, y=1.5), Line(HOSTILE, x=0.5)),
    )
    table = Table((HOSTILE, "n"), ((HOSTILE, 1), (None, 2)), HOSTILE)
    image = picture([[0, 1], [2, 3]], HOSTILE, HOSTILE)
    sorted_table = Table((HOSTILE, "n"), ((HOSTILE, image), (image, 1)), HOSTILE, sortable=True, file=HOSTILE)
    hidden = Table((HOSTILE,), ((HOSTILE,),), HOSTILE, has_samples=True)
    return Parts(
        HOSTILE,
        HOSTILE,
        {},
        {},
        (
            Section(
                HOSTILE, (Text(HOSTILE, "bad"), figure, table, hidden, sorted_table, Pictures((image,), HOSTILE, False))
            ),
            Section(HOSTILE, (figure,), folded=True),
        ),
        Provenance(
            {HOSTILE: HOSTILE, "list": [HOSTILE, {HOSTILE: 1}]}, device=HOSTILE, machine=HOSTILE, version=HOSTILE
        ),
    )
