"""`op.compare`: splits that leak nothing, kernels against scikit-learn, choices blind to test rows, stops, refusals."""

from dataclasses import replace

import jax
import numpy as np
import pytest
from sklearn.kernel_ridge import KernelRidge
from sklearn.model_selection import cross_val_score
from sklearn.svm import SVC, SVR

import overparam as op
from overparam.analysis import comparison, prepare_compare
from overparam.analysis import comparison_machines as machines
from overparam.analysis import comparison_methods as nets
from overparam.analysis.comparison_data import default_sizes, split_data
from overparam.analysis.comparison_methods import best_family, fit_families, make_families
from overparam.analysis.comparison_page import make_comparison_sections
from overparam.analysis.comparison_verdict import give_words
from overparam.core.provenance import Provenance
from overparam.frame import Job, Plan, Work

TINY = {"seeds": 2, "width": 6, "steps": 40, "sizes": (40, 80)}


def quiet(done, total, what):
    pass


def made(n=120, d=3, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d))
    return X, np.where(X[:, 0] * X[:, 1] > 0, 1, -1)


@pytest.fixture(scope="module")
def found():
    return op.compare(made(), **TINY)


def test_equal_rows_and_groups_stay_on_one_side_of_the_split():
    X, y = made(200)
    X[100:150] = X[:50]
    y[100:150] = y[:50]
    ground = split_data((X, y))
    train, test = ({row.tobytes() for row in part.round(9)} for part in (ground.inputs, ground.new_inputs))
    assert not train & test
    assert len(ground.Z) + ground.n == 200
    fit, held = ground.validation(np.arange(ground.n), 40, 0)
    assert not {ground.X[i].tobytes() for i in fit} & {ground.X[i].tobytes() for i in held}
    assert sorted([*fit, *held]) == list(range(ground.n))
    groups = np.arange(200) // 5
    data = op.load((made(200)[0], y)).replace(groups=groups)
    ground = split_data(data)
    rows = {tuple(row): group for row, group in zip(data.X[:, 0:1].tolist(), groups, strict=True)}
    assert len(rows) == 200
    assert "of one group" in ground.split
    for i in range(ground.n):
        assert (ground.groups == ground.groups[i]).sum() <= 5


def test_test_rows_that_are_training_rows_are_left_out():
    X, y = made(150)
    data = op.load((X[:100], y[:100]))
    held = op.load((X[90:], y[90:]))
    ground = split_data(data.replace(test=held))
    assert len(ground.Z) == 50
    assert any("10 test rows left out" in note for note in ground.notes)
    with pytest.raises(ValueError, match="every test row is a training row"):
        split_data(data.replace(test=data))


def test_subsets_are_nested_in_proportion_and_anew_for_every_seed():
    X, y = made(400)
    y[:] = np.where(np.arange(400) % 4, 1, -1)
    ground = split_data((X, y))
    one, other = (ground.subsets((40, 80, 160), 0, draw) for draw in (0, 1))
    assert [len(one[n]) for n in (40, 80, 160)] == [40, 80, 160]
    assert set(one[40]) < set(one[80]) < set(one[160])
    assert set(one[40]) != set(other[40])
    assert [int((ground.y[one[n]] < 0).sum()) for n in (40, 80, 160)] == [10, 20, 40]


def test_features_for_networks_are_centred_with_mean_square_one():
    X, y = made(150)
    ground = split_data((np.column_stack([100 + 7 * X, np.ones(150)]), y))
    assert ground.inputs.shape[1] == 3
    np.testing.assert_allclose(ground.inputs.mean(axis=0), 0, atol=1e-12)
    np.testing.assert_allclose((ground.inputs**2).mean(), 1)


def test_errors_are_what_they_say():
    X, y = made(150)
    ground = split_data((X, y))
    outputs = ground.y_test.copy()
    outputs[:5] *= -1
    outputs[5] = np.nan
    assert ground.losses(outputs).sum() == 6
    assert ground.guess == pytest.approx(min((ground.y_test > 0).mean(), (ground.y_test < 0).mean()), abs=0.2)
    Y = np.column_stack([X[:, 0], 5 + 3 * X[:, 1]])
    ground = split_data(op.Dataset(X, Y, labels=Y, task="regression"))
    assert (ground.k, ground.y.shape[1]) == (2, 2)
    np.testing.assert_allclose(ground.losses(ground.y_test), 0)
    mean = np.broadcast_to(ground.y_test.mean(axis=0), ground.y_test.shape)
    assert ground.losses(mean).mean() == pytest.approx(1)


def test_a_family_is_tuned_as_leave_one_out_by_hand_and_predicts_as_scikit_learn():
    X, y = made(100)
    ground = split_data((X, y))
    rows = np.arange(60)
    families = {"Gaussian": make_families(Work(), ground)["Gaussian"]}
    fits = fit_families(ground, families, rows, None, seed=0, device="cpu", progress=quiet)
    gamma = 1 / (2 * families["Gaussian"][fits["member"][0]][0].bandwidth ** 2)
    model = KernelRidge(alpha=fits["ridge"][0], kernel="rbf", gamma=gamma)
    wrong = 0
    for i in rows:
        others = rows[rows != i]
        wrong += model.fit(ground.X[others], ground.y[others]).predict(ground.X[i : i + 1])[0] * ground.y[i] <= 0
    assert fits["left_out_error"][0] == pytest.approx(wrong / 60)
    outputs = model.fit(ground.X[rows], ground.y[rows]).predict(ground.Z)
    np.testing.assert_array_equal(fits["losses"][0], np.where(outputs * ground.y_test > 0, 0.0, 1.0))
    worse = fits | {"folds": np.array([0.9])}
    assert best_family({name: np.concatenate([worse[name], own]) for name, own in fits.items()}) == 1


@pytest.mark.parametrize("task", ["two classes", "three classes", "regression"])
def test_machines_and_ridges_are_those_of_scikit_learn_over_the_same_folds(task):
    X, _ = made(80)
    y = {
        "two classes": np.sign(X[:, 0]),
        "three classes": np.digitize(X[:, 0], [-0.4, 0.4]),
        "regression": X[:, 0] ** 2,
    }
    ground = split_data((X, y[task]), preprocess="none")
    rows = np.arange(ground.n)
    folds = ground.folds(rows, 0)
    assert sorted(np.concatenate([held for _, held in folds])) == list(rows)
    K = np.exp(-np.sum((ground.X[:, None] - ground.X[None]) ** 2, axis=2))
    error, cost = machines.best_machine(ground, K, ground.y, ground.strata, folds)
    kind = SVR(epsilon=0.1, gamma=1.0) if task == "regression" else SVC(gamma=1.0)
    labels = ground.y if task == "regression" else ground.strata
    score = "neg_mean_squared_error" if task == "regression" else "accuracy"

    def by_hand(model, targets):
        sums = [len(h) * cross_val_score(model, ground.X, targets, cv=[(f, h)], scoring=score)[0] for f, h in folds]
        return -sum(sums) / len(rows) if task == "regression" else 1 - sum(sums) / len(rows)

    each = {C: by_hand(kind.set_params(C=C), labels) for C in machines.COSTS}
    assert error == pytest.approx(min(each.values()), abs=2e-3)  # the solver stops at 1e-3
    assert each[cost] == pytest.approx(error, abs=2e-3)
    if task == "regression":
        ridged = by_hand(KernelRidge(alpha=0.3, kernel="rbf", gamma=1.0), ground.y)
        assert machines.ridge_error(ground, K, ground.y, 0.3, folds) == pytest.approx(ridged, rel=1e-9)


def test_a_machine_stands_for_its_family_where_folds_prefer_it():
    """Beside a ridge so large that the commoner class is always said; beside a good one nothing is taken for the better."""
    X = np.random.default_rng(3).uniform(-1, 1, (120, 2))
    ground = split_data((X, np.where(X[:, 0] > 0.4, 1.0, -1.0)))
    rows = np.arange(ground.n)
    kernel, get = list(make_families(Work(), ground)["Gaussian"].values())[1]
    folds = ground.folds(rows, 0)
    found = nets._machine(ground, (kernel, get), kernel(ground.X), rows, 1e6, folds, machines.COSTS)
    model = SVC(kernel="precomputed", C=found["cost"]).fit(kernel(ground.X), ground.strata)
    said = np.where(model.predict(kernel(ground.Z, ground.X)) == ground.strata[ground.y > 0][0], 1.0, -1.0)
    np.testing.assert_array_equal(found["losses"], said != ground.y_test)
    alone = nets._machine(ground, (kernel, get), kernel(ground.X), rows, 1e-3, folds, ())
    assert alone["cost"] == 0
    assert alone["folds"] == machines.ridge_error(ground, kernel(ground.X), ground.y, 1e-3, folds) < 0.1


def test_the_curvature_is_the_largest_eigenvalue_of_the_jacobian():
    X = np.random.default_rng(0).standard_normal((20, 4))
    network = nets.make_network("residual", 6, 2)
    value = nets.largest_curvature(network, X, 0, "float64", "cpu")
    with jax.enable_x64(True):
        params = network.init(nets.SEARCH_KEY, 4)
        J = jax.jit(jax.jacobian(lambda trained: network.apply(replace(params, trained=trained), X)))(params.trained)
        J = np.concatenate([np.asarray(leaf).reshape(40, -1) for leaf in jax.tree.leaves(J)], axis=1)
    truth = np.linalg.eigvalsh(J @ J.T / 20)[-1]
    assert 0.9 * truth < value <= truth * (1 + 1e-9)


def measured(ground, design):
    parts = comparison._parts(ground, design, 0)
    job = Job("parts", parts, lambda found, _: found, plan=Plan("parts"), provenance=Provenance(), device="cpu")
    return comparison.measured(ground, design, job.run())


def test_choices_do_not_see_the_test_rows():
    ground = split_data(made())
    design = comparison.make_design(ground, (40,), False, 2, None, 6, 40, "float32", "cpu")
    flipped = replace(ground, y_test=-ground.y_test, Z=ground.Z[::-1], new_inputs=ground.new_inputs[::-1])
    one, other = (measured(g, design) for g in (ground, flipped))
    for a, b in zip(one[3], other[3], strict=True):
        assert (a.method, a.n, a.words, a.score) == (b.method, b.n, b.words, b.score)
    for mine, theirs in zip(one[1:3], other[1:3], strict=True):
        np.testing.assert_array_equal(mine, theirs)
    assert np.abs(one[0] - other[0]).max() == 1


def test_the_result_holds_together(found, tmp_path):
    assert found.sizes == (40, 80)
    assert found.errors.shape == found.bars.shape == (7, 2)
    np.testing.assert_allclose(found.seed_errors.mean(axis=2), found.errors)
    last = found.gaps[-1]
    assert last.difference == pytest.approx(last.network - last.kernel)
    network = found.methods.index(found.best_networks[-1])
    assert found.errors[network, -1] == pytest.approx(last.network)
    assert found.answer in ("kernel", "network", "undecided")
    assert f"n = {last.n}" in found.verdict.sentences[0]
    assert next(section.title for section in found.sections()) == "Verdict"
    found.save(tmp_path)
    again = op.read(tmp_path)
    assert type(again) is type(found)
    assert (again.verdict, again.gaps, again.crossing, again.design) == (
        found.verdict,
        found.gaps,
        found.crossing,
        found.design,
    )
    np.testing.assert_array_equal(again.errors, found.errors)
    assert "is a kernel enough?" in (tmp_path / "report.html").read_text()


def test_words_name_one_kernel_only_where_the_number_is_its_own(found):
    """A seed counts with the kernel that its folds preferred: where they differ, the name is that of most of them."""
    at, last = found.methods.index(found.best_kernels[-1]), found.gaps[-1]
    own = replace(found, gaps=(*found.gaps[:-1], replace(last, kernel=float(found.errors[at, -1]))))
    mixed = replace(found, gaps=(*found.gaps[:-1], replace(last, kernel=float(found.errors[at, -1]) + 0.01)))
    assert f"the best kernel ({found.best_kernels[-1]}) has" in give_words(own).sentences[0]
    assert f"the best kernel of each seed (most often {found.best_kernels[-1]}) has" in give_words(mixed).sentences[0]

    def cell(c):
        (table,) = [b for s in make_comparison_sections(c) for b in s.blocks if getattr(b, "columns", ("",))[0] == "n"]
        return table.rows[-1][1]

    assert cell(own) == found.best_kernels[-1]
    assert cell(mixed) == f"most often {found.best_kernels[-1]}"


def test_every_matrix_of_a_family_is_made_once(monkeypatch):
    X, y = made(60)
    ground, made_of = split_data((X, y)), []
    whole = nets.gram
    monkeypatch.setattr(nets, "gram", lambda kernel, *a, **k: made_of.append(str(kernel)) or whole(kernel, *a, **k))
    monkeypatch.setattr(nets, "cross_matrix", lambda kernel, Z, X, **k: kernel(Z, X) if Z is ground.Z else 1 / 0)
    families = {"Gaussian": make_families(Work(), ground)["Gaussian"]}
    fit_families(ground, families, np.arange(40), None, seed=0, device="cpu", progress=quiet)
    assert len(made_of) == len(set(made_of)) == 4


def test_stopped_it_goes_on_and_ends_in_the_same_numbers(found, tmp_path):
    seen = []

    def stop(done, total, what):
        seen.append(what)
        if what.startswith("three-layer, n = 40"):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        op.compare(made(), **TINY, place=tmp_path, progress=stop)
    before = len(list((tmp_path / "parts").iterdir()))
    assert before == 5  # the plan, kernels of two seeds, the search and the runs of the first network
    told = []
    again = op.compare(made(), **TINY, place=tmp_path, progress=lambda *a: told.append(a))
    assert not any(what.startswith("two-layer, n = 40") for _, _, what in told)
    np.testing.assert_array_equal(again.seed_errors, found.seed_errors)
    assert again.verdict == found.verdict
    shares = [done / total for done, total, _ in told if total]
    assert shares == sorted(shares)
    assert shares[-1] == 1


def test_a_rate_at_which_training_fails_is_lowered_without_a_look_at_the_test_rows():
    ground = split_data(made())
    network = nets.make_network("two-layer", 6, 1)
    wild = nets.Trained(rate=50.0, decay=0.0, steps=40, error=0.05, loss=0.05)
    losses, rate = nets.run_all(
        ground, network, [np.arange(60)], wild, 40, seed=0, dtype="float32", device="cpu", progress=quiet
    )
    assert rate < 50.0
    assert losses.shape == (1, len(ground.Z))


def test_the_plan_knows_sizes_and_memory(monkeypatch):
    assert default_sizes(427) == (53, 106, 212, 424)
    job = prepare_compare(made(400), width=6, steps=40)
    assert job.plan.details["sizes"] == [75, 150, 300]
    assert job.plan.seconds > 0
    with pytest.raises(ValueError, match="name smaller `sizes`"):
        replace(job.plan, free_memory=10).require_memory()
    with monkeypatch.context() as slow:
        slow.setattr(comparison, "_speed", lambda: 1e9)
        slow.setattr(comparison, "step_seconds", lambda *given: 1e-3)
        plans = [prepare_compare(made(2_000), seconds=seconds).plan for seconds in (60.0, 1e5)]
        short, long = (plan.details["sizes"][-1] for plan in plans)
        assert short < long == 1_496
    # The plan of a design that is of no machine is of this one, and the design is not.
    with monkeypatch.context() as slow:
        slow.setattr(comparison, "pace", lambda: 3.0)
        fixed = prepare_compare(made(400), width=6, steps=40)
        assert fixed.plan.seconds == pytest.approx(3 * sum(part.seconds for part in fixed.parts))
        assert [part.seconds for part in fixed.parts] == [part.seconds for part in job.parts]
    timed = prepare_compare(made(400), seconds=60.0, sizes=(40,)).plan.details
    assert timed["width"] in (100, 200)
    assert 1_000 <= timed["steps"] <= 6_000


@pytest.mark.parametrize(
    ("data", "options", "expected"),
    [
        (made(30), {}, "has 30 rows; a comparison needs at least 40 to train on and 10 to test"),
        (made(200), {"sizes": (20, 80)}, "`sizes` has 20; a comparison needs at least 40"),
        (made(200), {"sizes": (40, 400)}, "`sizes` has 400 and there are 150 training rows"),
        (made(200), {"sizes": "80"}, "`sizes` is '80'"),
        (made(200), {"seeds": 0}, "`seeds`"),
        (made(200), {"seconds": -1}, "`seconds` is -1"),
        (made(200), {"steps": 3}, "`steps`"),
        (made(200), {"max_rows": 5}, "`max_rows` is 5"),
        (made(200), {"dtype": "float16"}, "`dtype`"),
        ((made(200)[0], np.ones(200)), {}, "class|nothing to learn"),
        ((made(200)[0], np.full(200, 0.5)), {}, "nothing to learn"),
        ((np.ones((200, 2)), made(200)[1]), {}, "every feature is constant"),
        ((np.full((200, 2), np.nan), made(200)[1]), {}, "NaN"),
    ],
)
def test_bad_input_is_one_line(data, options, expected):
    with pytest.raises(ValueError, match=expected) as caught:
        op.compare(data, **options)
    assert "\n" not in str(caught.value)


@pytest.mark.slow
def test_on_the_parity_data_the_network_is_ahead():
    found = op.compare("parity", sizes=(1_000, 2_000), seeds=3, width=200, steps=3_000)
    assert found.answer == "network"
    assert found.best_networks[-1] == "residual"
    assert found.gaps[-1].upper < 0
