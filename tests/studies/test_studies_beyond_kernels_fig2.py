"""The study of Fig. 2: the smoke scale whole, parts read back, rows, kernels' features, and words that follow numbers."""

import json
from dataclasses import replace

import numpy as np
import pytest

from overparam.core import folder, sections
from overparam.core.network import Params
from overparam.studies import beyond_kernels_fig2 as study
from overparam.studies import beyond_kernels_fig2_training as training
from overparam.studies.beyond_kernels_fig2_kernels import features
from overparam.studies.beyond_kernels_fig2_numbers import Runs, first_learnt, summary
from overparam.studies.beyond_kernels_fig2_page import findings
from overparam.studies.beyond_kernels_fig2_settings import NETWORKS, judges, network, on_grid, rows
from overparam.studies.study import StudyResult, reproduce

SMOKE = study.STUDY.settings["smoke"]


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    return tmp_path_factory.mktemp("study")


@pytest.fixture(scope="module")
def result(place):
    return reproduce(study.STUDY, "smoke", place=place)


def texts(found):
    return [block.body for section in found.sections for block in section.blocks if isinstance(block, sections.Text)]


@pytest.mark.slow
def test_the_smoke_study_runs_and_what_it_says_is_computed_from_its_runs(result):
    arrays, said = result.arrays, " ".join(texts(result.findings))
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
    kinds = [type(block) for section in result.findings.sections for block in section.blocks]
    assert (kinds.count(sections.Figure), kinds.count(sections.Table)) == (2, 5)
    assert "panel (b) shows: it is left out" in said


@pytest.mark.slow
def test_finished_parts_are_read_back_and_nothing_is_trained_again(result, place, monkeypatch):
    def refuse(*arguments):
        raise AssertionError("trained again")

    monkeypatch.setattr(training, "trained", refuse)
    again = reproduce(study.STUDY, "smoke", place=place)
    assert again.values == result.values
    with pytest.raises(AssertionError, match="trained again"):
        reproduce(study.STUDY, "smoke", place=place, seed=1)


@pytest.mark.slow
def test_the_result_goes_through_its_folder(result, tmp_path):
    result.save(tmp_path)
    parts = folder.read(tmp_path)
    assert StudyResult.from_parts(parts).values == json.loads(json.dumps(result.values))


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

    def fake(settings, workplace, net, N, most, cells, told, starts):
        seen.append((net, starts))
        ends = Params({"W": np.stack([start.trained["W"] + 1 for start in starts])}) if "W" in told[-1] else None
        return {"test": np.arange(float(len(cells)))}, ends

    monkeypatch.setattr(training, "trained", fake)
    place = study.Workplace(None)
    found = training.layer_wise(SMOKE, place, 100, (0.1, 0.0), [(0.1, 0.0), (0.2, 0.0)])
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
        training.best_settings(table([np.inf] * 4), 1.0, 2)
    several = table([3.0, 5.0, 1.0, 2.0])
    several["decay"] = np.array([0.1, 0.2, 0.3, 0.4])
    assert training.best_settings(several, 1.0, 1) == [(0.2, 0.3)]
    assert training.best_settings(several, 1.0, 2) == [(0.2, 0.3), (0.1, 0.1)]  # not both of one rate
    assert training.best_settings(several, 1.0, 3) == [(0.2, 0.3), (0.2, 0.4), (0.1, 0.1)]
    one_rate = several | {"lr": np.full(4, 0.2)}
    assert training.best_settings(one_rate, 1.0, 2) == [(0.2, 0.3), (0.2, 0.4)]


def fake(error):
    """Runs whose test errors are a function of method and N."""
    settings = replace(SMOKE, samples=((500, 1000),), layer_wise_samples=(1000,))
    runs = Runs()
    for N in (500, 1000):
        for name in NETWORKS:
            runs.seeds[name, 20, N] = table(error(name, N) * np.array([1, 1.02, 2, 2]))
        runs.kernels[20, N] = {f"{n} ({h})": np.full(2, error(h, N)) for n in NETWORKS for h in ("last", "NTK")}
        runs.kernels[None, N] = {"Gaussian": np.array([error("Gaussian", N)])}
    runs.search["3resnet", 1000] = table([1.0] * 4)
    runs.beta = {name: table([error(name, 1000)] * 4) for name in NETWORKS}
    settings = replace(settings, betas=(1.0,))
    runs.beta_kernels[1.0] = runs.kernels[20, 1000]
    runs.layer_wise[1000] = table([error("layer by layer", 1000)] * 4)
    runs.coupling = {"2layer (NTK)": np.array([1.0, 1.1, 0.2])}
    return settings, findings(settings, runs)


def tones(found, part):
    return [block.tone for block in found.sections[0].blocks if isinstance(block, sections.Text) and part in block.body]


def test_the_words_follow_the_numbers(tmp_path):
    _, paper = fake(lambda method, N: 400 / N if method == "3resnet" else 0.9)
    assert tones(paper, "Only the ResNet is below it, as the paper says") == ["good"]
    assert tones(paper, "With 1000 rows and width 20, the three-layer ResNet alone learns") == ["good"]
    assert tones(paper, "No network but the ResNet and no kernel") == ["good"]
    assert tones(paper, "Layer by layer does worse, as the paper says") == ["good"]
    first = {row["method"]: row for row in paper.values["first"] if row["m"] == 20}
    assert (first["3resnet"]["some"], first["3resnet"]["half"]) == (1000, None)
    assert first["2layer"]["some"] is None

    _, other = fake(lambda method, N: {"3resnet": 0.3, "3layer": 300 / N}.get(method, 0.1 if N == 1000 else 0.9))
    assert tones(other, "The paper has the ResNet alone there") == ["bad"]
    assert tones(other, "3layer at m = 20 from N = 500 on (at N = 1000: 0.303)") == ["warning"]
    assert tones(other, "Layer by layer does better here") == ["warning"]
    assert tones(other, "It gets below the error of F alone all the same, at N = 1000") == ["warning"]

    _, lost = fake(lambda method, N: np.inf if method == "2layer" else 0.9)
    assert tones(lost, "two layers diverged") == ["bad"]
    StudyResult("beyond-kernels-fig2", "t", "smoke", lost).save(tmp_path)


def test_two_standard_errors_below():
    errors = [{"m": 1, "method": "a", "N": N, "error": e, "standard_error": s} for N, e, s in
              ((10, 0.70, 0.02), (20, 0.70, 0.005), (40, 0.3, None))]  # fmt: skip
    found = first_learnt(SMOKE, errors)[0]
    assert (found["some"], found["half"]) == (20, 40)
