"""The study of Fig. 2: the smoke scale whole, parts read back, rows, kernels' features, and words that follow numbers."""

from dataclasses import replace

import numpy as np
import pytest
from study_cases import check, concluded, texts, tones

from overparam.core import sections
from overparam.core.network import Params
from overparam.frame import Work
from overparam.studies import STUDIES, prepare_reproduce, reproduce
from overparam.studies import beyond_kernels_fig2 as study
from overparam.studies.beyond_kernels_fig2 import (
    COUPLING,
    NETWORKS,
    best_settings,
    beta_name,
    features,
    judges,
    kernels_name,
    layers_name,
    network,
    on_grid,
    rows,
    search_name,
    seeds_name,
)
from overparam.studies.beyond_kernels_fig2_page import first_learnt, summary

STUDY = STUDIES["beyond-kernels-fig2"]
SMOKE = STUDY.settings["smoke"]


@pytest.fixture(scope="module")
def result(place):
    return reproduce(STUDY, place=place)


@pytest.mark.slow
def test_the_smoke_study_runs_and_what_it_says_is_computed_from_its_runs(result):
    arrays, said = result.arrays, " ".join(text.body for text in texts(result.sections()))
    trained = {row["method"]: row for row in result.values["errors"] if row["m"] == 20}
    for name in NETWORKS:
        own = arrays[f"seeds/{name} 20 100/test"]
        assert trained[name]["error"] == pytest.approx(own.mean())
        assert trained[name]["standard_error"] == pytest.approx(own.std(ddof=1) / np.sqrt(2))
        assert f"{own.mean():.3g} ±" in said
        assert arrays[f"seeds/{name} 20 100/fit"].max() < 8.72  # better than 0 on the rows trained on
    kernels = {row["method"] for row in result.values["errors"]} - set(NETWORKS)
    assert {f"{name} ({how})" for name in NETWORKS for how in ("last", "NTK")} < kernels
    assert {"Gaussian", "Laplace", "arcsine", "recursive"} < kernels
    assert all(row["error"] > 0.72 for row in result.values["errors"])  # 100 rows teach nobody the parities
    kinds = [type(block) for section in result.sections() for block in section.blocks]
    assert (kinds.count(sections.Figure), kinds.count(sections.Table)) == (2, 5)
    assert "panel (b) shows: it is left out" in said


@pytest.mark.slow
def test_it_keeps_to_what_a_study_is(result, place):
    check(STUDY, result, place)


def test_a_part_that_two_figures_need_is_made_once():
    """The kernels of panel (c) at β = 1 are those of panel (a) at the same N and width."""
    job = prepare_reproduce(STUDY, settings=replace(SMOKE, betas=(0.5, 1.0)))
    names = [part.name for part in job.parts]
    assert names.count(kernels_name(20, 100)) == 1
    by_name = {part.name: part for part in job.parts}
    assert by_name[seeds_name("2layer", 20, 100)].needs == (search_name("2layer", 100),)
    assert by_name[layers_name(100)].needs == (search_name("2layer", 100),)


def test_rows_are_nested_repeated_labelled_by_hand_and_apart_from_the_judges():
    target = SMOKE.target()
    few, many = rows(target, 50, 100, [0, 1]), rows(target, 100, 100, [0, 1])
    assert few.n == many.n == 100
    assert np.array_equal(few.X[:50], many.X[:50])
    assert np.array_equal(few.X[50:], few.X[:50])
    x, y = many.X[7], many.y[7]
    F = [x[2 * r] * x[2 * r + 1] for r in range(8)]
    G = [np.prod(F[:4])] * 4 + [np.prod(F[4:])] * 4
    np.testing.assert_allclose(y, np.array(F) + 0.3 * np.array(G))
    assert not (judges(SMOKE, 0)[:, None] == many.X[None]).all(axis=2).any()
    with pytest.raises(ValueError, match="N = 150: expected multiples of 50 that divide the largest, 200"):
        replace(SMOKE, samples=((150, 200),))


def test_what_the_last_layer_multiplies():
    X = judges(SMOKE, 0)[:5]
    for name in NETWORKS:
        net = network(name, 6)
        params = net.init(3, 30)
        A = np.asarray(params.fixed["A"], dtype=float)
        np.testing.assert_allclose(features(net, params, X) @ A.T, net.apply(params, X), rtol=1e-4, atol=1e-5)


def test_layer_by_layer_keeps_the_first_layer(monkeypatch):
    """V's runs begin at W's ends, and W is among what is fixed."""
    seen = []

    def fake(settings, work, net, N, most, cells, key, starts):
        seen.append((net, starts))
        ends = Params({"W": np.stack([start.trained["W"] + 1 for start in starts])}) if len(seen) == 1 else None
        return {"test": np.arange(float(len(cells)))}, ends

    monkeypatch.setattr(study, "trained", fake)
    four = replace(SMOKE, rates=((0.1, 0.15, 0.2, 0.25), *SMOKE.rates[1:]))  # every second one is tried
    found = study.layer_wise(Work(), four, 100, 0, table([1.0] * 4))
    (_, first), (net, second) = seen
    assert sorted(second[0].trained) == ["V"]
    for i, start in enumerate(second):
        np.testing.assert_array_equal(start.fixed["W"], first[i % 2].trained["W"] + 1)
        np.testing.assert_array_equal(start.fixed["A"], first[i % 2].fixed["A"])
    assert net.layers == ("W",)
    assert found["first_test"].tolist() == [0.0, 1.0, 0.0, 1.0]


def test_the_grid_of_the_paper():
    assert [on_grid(v) for v in (0.05, 0.08, 0.0003, 3.0, 7.2)] == [0.05, 0.1, 2e-4, 2.0, 10.0]


def table(test, validation=None, lr=(0.1, 0.1, 0.2, 0.2)):
    test = np.array(test)
    return {
        "beta": np.ones(4), "lr": np.array(lr), "decay": np.full(4, 1e-3), "seed": np.array([1, 2, 1, 2]), "test": test,
        "validation": test if validation is None else np.array(validation), "fit": np.zeros(4),
        "seconds_per_step": np.array(1e-3), "first_test": np.full(4, 2.0),
    }  # fmt: skip


def test_the_setting_shown_and_the_one_chosen_by_validation():
    found = summary(table([1.0, 2.0, 1.0, 1.2], [0.5, 0.5, 0.9, 0.9]))
    assert (found["error"], found["lr"], found["by_validation"]) == (pytest.approx(1.1), 0.2, 1.5)
    lost = summary(table([np.inf, 1.0, np.inf, np.inf]))
    assert lost["error"] is None
    with pytest.raises(ValueError, match="every run of the search at β = 1 diverged"):
        best_settings(table([np.inf] * 4), 1.0, 2)
    several = table([3.0, 5.0, 1.0, 2.0])
    several["decay"] = np.array([0.1, 0.2, 0.3, 0.4])
    assert best_settings(several, 1.0, 1) == [(0.2, 0.3)]
    assert best_settings(several, 1.0, 2) == [(0.2, 0.3), (0.1, 0.1)]  # not both of one rate
    assert best_settings(several, 1.0, 3) == [(0.2, 0.3), (0.2, 0.4), (0.1, 0.1)]
    one_rate = several | {"lr": np.full(4, 0.2)}
    assert best_settings(one_rate, 1.0, 2) == [(0.2, 0.3), (0.2, 0.4)]


def fake(error):
    """Runs whose test errors are a function of method and N."""
    settings = replace(
        SMOKE, samples=((500, 1000),), searched=(1000,), layer_wise_samples=(1000,), betas=(1.0,), beta_samples=1000
    )
    found = {COUPLING: {"2layer (NTK)": np.array([1.0, 1.1, 0.2])}}
    for N in (500, 1000):
        found |= {seeds_name(n, 20, N): table(error(n, N) * np.array([1, 1.02, 2, 2])) for n in NETWORKS}
        both = {f"{n} ({h})": np.full(2, error(h, N)) for n in NETWORKS for h in ("last", "NTK")}
        found |= {kernels_name(20, N): both, kernels_name(None, N): {"Gaussian": np.array([error("Gaussian", N)])}}
    found |= {search_name(name, 1000): table([1.0] * 4) for name in NETWORKS}
    found |= {beta_name(name): table([error(name, 1000)] * 4) for name in NETWORKS}
    found[layers_name(1000)] = table([error("layer by layer", 1000)] * 4)
    return concluded(STUDY, settings, found)


def test_the_words_follow_the_numbers(tmp_path):
    paper = fake(lambda method, N: 400 / N if method == "3resnet" else 0.9)
    assert tones(paper.sections(), "Only the ResNet is below it, as the paper says") == ["good"]
    assert tones(paper.sections(), "With 1000 rows and width 20, the three-layer ResNet alone learns") == ["good"]
    assert tones(paper.sections(), "No network but the ResNet and no kernel") == ["good"]
    assert tones(paper.sections(), "Layer by layer does worse, as the paper says") == ["good"]
    first = {row["method"]: row for row in paper.values["first"] if row["m"] == 20}
    assert (first["3resnet"]["some"], first["3resnet"]["half"]) == (1000, None)
    assert first["2layer"]["some"] is None

    other = fake(lambda method, N: {"3resnet": 0.3, "3layer": 300 / N}.get(method, 0.1 if N == 1000 else 0.9))
    assert tones(other.sections(), "The paper has the ResNet alone there") == ["bad"]
    assert tones(other.sections(), "3layer at m = 20 from N = 500 on (at N = 1000: 0.303)") == ["warning"]
    assert tones(other.sections(), "Layer by layer does better here") == ["warning"]
    assert tones(other.sections(), "It gets below the error of F alone all the same, at N = 1000") == ["warning"]

    lost = fake(lambda method, N: np.inf if method == "2layer" else 0.9)
    assert tones(lost.sections(), "two layers diverged") == ["bad"]
    lost.save(tmp_path)


def test_two_standard_errors_below():
    errors = [{"m": 1, "method": "a", "N": N, "error": e, "standard_error": s} for N, e, s in
              ((10, 0.70, 0.02), (20, 0.70, 0.005), (40, 0.3, None))]  # fmt: skip
    found = first_learnt(SMOKE, errors)[0]
    assert (found["some"], found["half"]) == (20, 40)
