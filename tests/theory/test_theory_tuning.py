"""The tuned fit against refits by scikit-learn: its choice, its predictions for rows left out and for new rows."""

import numpy as np
import pytest
from sklearn.kernel_ridge import KernelRidge
from sklearn.metrics import log_loss
from sklearn.model_selection import LeaveOneGroupOut, cross_val_predict

from overparam.kernels import FullyConnected, Gaussian, Laplace, TwoLayer
from overparam.theory import default_candidates, tuned_fit, tuned_rows, tuning
from overparam.theory.left_out_folds import cut_into_folds

RNG = np.random.default_rng(5)
N = 30
X = RNG.standard_normal((N, 3))
X[20:23] = X[5]  # equal rows
Z = RNG.standard_normal((6, 3))
SIGNS = np.sign(X[:, 0] + 0.4 * RNG.standard_normal(N))
CODES = np.digitize(X[:, 0] + 0.4 * RNG.standard_normal(N), [-0.5, 0.5])
CLASSES = np.eye(3)[CODES] - 1 / 3
NUMBER = 1_000 + 50 * np.sin(2 * X[:, 0]) + RNG.standard_normal(N)
SEVERAL = np.column_stack([NUMBER, X[:, 1] * X[:, 2]])
LABELS = {"signs": SIGNS, "classes": CLASSES, "number": NUMBER, "several": SEVERAL}
GROUPS = np.arange(N) % 12
KERNELS = {"Laplace": Laplace(2.0), "Gaussian": Gaussian(1.0), "conjugate": (FullyConnected(2), "nngp")}
EPS = np.finfo(float).eps


def matrix(name, A, B):
    given = KERNELS[name]
    kernel, get = given if isinstance(given, tuple) else (given, "ntk")
    return kernel(A, B, get=get)


def test_rows_left_out_with_sets_and_predicted_from_a_part_are_those_of_refits():
    fit = tuned_fit(X, NUMBER, candidates={"Gaussian": Gaussian(1.0)})
    rows = np.arange(4, 19)
    sets = [np.array([i, (i + 1) % len(rows), (i + 5) % len(rows)]) for i in range(len(rows))]
    K = matrix("Gaussian", X[rows], X[rows])
    some = fit.among(rows)
    found = [*some.without(sets), *some.by_part(np.arange(5))[5:]]
    there = [np.setdiff1d(np.arange(len(rows)), one) for one in sets] + [np.arange(5)] * (len(rows) - 5)
    for i, kept, told in zip([*range(len(rows)), *range(5, len(rows))], there, found, strict=True):
        # centred and scaled by all rows, as the fit has them
        scaled = (NUMBER - NUMBER.mean()) / NUMBER.std()
        refit = KernelRidge(alpha=fit.ridge, kernel="precomputed").fit(K[np.ix_(kept, kept)], scaled[rows][kept])
        again = NUMBER.mean() + NUMBER.std() * refit.predict(K[[i]][:, kept])[0]
        assert abs(told - again) < 1e4 * EPS * np.abs(NUMBER).max() * (1 + np.linalg.norm(K, 2) / fit.ridge)


@pytest.fixture(scope="module", params=list(LABELS))
def case(request):
    y = LABELS[request.param]
    return y, tuned_fit(X, y, groups=GROUPS, candidates=KERNELS)


def test_every_setting_is_the_refit_without_each_group(case):
    y, fit = case
    scaled = y if fit.task == "classes" else (y - y.mean(axis=0)) / y.std(axis=0)
    assert len(fit.tried) == len(KERNELS) * tuned_rows.RIDGES
    assert set(fit.settings) <= set(fit.tried)
    for place in range(0, len(fit.settings), 7):
        one = fit.settings[place]
        K = matrix(one.name, X, X)
        model = KernelRidge(alpha=one.ridge, kernel="precomputed")
        expected = np.asarray(cross_val_predict(model, K, scaled, groups=GROUPS, cv=LeaveOneGroupOut()))
        allowed = 100 * N * EPS * (1 + np.linalg.eigvalsh(K)[-1] / one.ridge)
        assert one.mean_square == pytest.approx(np.sum((scaled - expected) ** 2) / N, rel=1e-9 + 100 * allowed)
        if fit.task == "regression":
            expected = expected * y.std(axis=0) + y.mean(axis=0)
            allowed *= np.max(y.std(axis=0))
        np.testing.assert_allclose(fit.left_out[place], expected, rtol=1e-9, atol=max(allowed, 1e-9))


def test_the_least_mean_square_is_chosen(case):
    y, fit = case
    assert fit.settings[0].mean_square == min(one.mean_square for one in fit.tried)
    assert (fit.chosen, fit.ridge) == (fit.settings[0].name, fit.settings[0].ridge)
    assert np.array_equal(fit.outputs, fit.left_out[0])
    assert fit.mean_square == pytest.approx(np.sum((y - fit.outputs) ** 2) / N)
    if fit.task == "classes":
        right = fit.outputs.argmax(axis=1) == CODES if y.ndim == 2 else np.sign(fit.outputs) == y
        assert fit.error == pytest.approx(1 - right.mean())
    else:
        assert fit.error is None


def sets_of(groups):
    """Of every row its group, the row itself first."""
    return [np.append(i, np.setdiff1d(np.flatnonzero(groups == groups[i]), i)) for i in range(len(groups))]


def test_rows_leave_alone_or_in_other_groups(case):
    y, fit = case
    largest = np.linalg.norm(matrix(fit.chosen, X, X), 2)
    allowed = 100 * N * EPS * (1 + largest / fit.ridge) * max(1.0, np.abs(y).max())
    every = fit.among(np.arange(N))
    np.testing.assert_allclose(every.without(sets_of(np.arange(N))), fit.alone, rtol=1e-9, atol=allowed)
    np.testing.assert_allclose(every.without(sets_of(GROUPS)), fit.outputs, rtol=1e-9, atol=allowed)
    only = tuned_fit(X, y, candidates={fit.chosen: KERNELS[fit.chosen]})
    assert np.array_equal(only.alone, only.outputs)


def test_rows_leave_where_only_some_are_there(case):
    y, fit = case
    some = np.arange(0, N, 2)
    K = matrix(fit.chosen, X[some], X[some])
    scaled = y if fit.task == "classes" else (y - y.mean(axis=0)) / y.std(axis=0)
    model = KernelRidge(alpha=fit.ridge, kernel="precomputed")
    expected = np.asarray(cross_val_predict(model, K, scaled[some], groups=GROUPS[some], cv=LeaveOneGroupOut()))
    if fit.task == "regression":
        expected = expected * y.std(axis=0) + y.mean(axis=0)
    allowed = 100 * N * EPS * (1 + np.linalg.eigvalsh(K)[-1] / fit.ridge) * max(1.0, np.abs(y).max())
    left = fit.among(some).without(sets_of(GROUPS[some]))
    np.testing.assert_allclose(left, expected, rtol=1e-9, atol=max(allowed, 1e-9))


def test_new_rows_are_predicted_by_the_fit_to_all(case):
    y, fit = case
    scaled = y if fit.task == "classes" else (y - y.mean(axis=0)) / y.std(axis=0)
    model = KernelRidge(alpha=fit.ridge, kernel="precomputed").fit(matrix(fit.chosen, X, X), scaled)
    expected = model.predict(matrix(fit.chosen, Z, X))
    if fit.task == "regression":
        expected = expected * y.std(axis=0) + y.mean(axis=0)
    np.testing.assert_allclose(fit.predict(Z), expected, rtol=1e-8, atol=1e-8)


@pytest.mark.parametrize("kind", ["signs", "classes"])
def test_probabilities_keep_the_class_and_are_the_likeliest(kind):
    fit = tuned_fit(X, LABELS[kind], candidates=KERNELS)
    found = fit.probabilities(fit.outputs)
    codes = CODES if kind == "classes" else (SIGNS > 0).astype(int)
    np.testing.assert_allclose(found.sum(axis=1), 1, rtol=1e-12)
    largest = fit.outputs.argmax(axis=1) if kind == "classes" else (fit.outputs > 0).astype(int)
    assert np.array_equal(found.argmax(axis=1), largest)
    k = found.shape[1]
    every = np.concatenate([codes, np.tile(np.arange(k), N)])  # one more row of every class, spread over the outputs
    weights = np.concatenate([np.ones(N), np.full(N * k, 1 / N)])

    def surprise(t):
        logits = t * (fit.outputs if kind == "classes" else np.stack([0 * fit.outputs, fit.outputs], axis=1))
        p = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
        return log_loss(every, np.concatenate([p, np.repeat(p, k, axis=0)]), sample_weight=weights)

    least = surprise(fit.sharpness)
    assert all(least <= surprise(fit.sharpness * share) for share in (0.5, 0.97, 1.03, 2.0))
    assert fit.probabilities(fit.predict(Z)).shape == (6, k)


def test_many_rows_are_screened_and_it_is_said(monkeypatch):
    monkeypatch.setattr(tuning, "ALL_IN_FULL", 20)
    monkeypatch.setattr(tuning, "SCREENED_ON", 15)
    monkeypatch.setattr(tuning, "IN_FULL", 2)
    full = tuned_fit(X, SIGNS, groups=GROUPS, candidates=KERNELS)
    assert len({one.name for one in full.settings}) == 2
    assert "3 kernels were screened on" in full.notes[0]
    assert sum(one.rows < N for one in full.tried) == 3 * tuned_rows.RIDGES
    monkeypatch.setattr(tuning, "COMPARED_ON", 22)
    monkeypatch.setattr("overparam.spectrum.left_out_groups.EIGEN_ROWS", 25)
    few = tuned_fit(X, SIGNS, groups=GROUPS, candidates=KERNELS, device="cpu")
    assert len({one.name for one in few.settings}) == 1
    assert len(few.settings) == 3
    assert len(few.notes) == 2
    best = tuned_fit(X, SIGNS, groups=GROUPS, candidates={few.chosen: KERNELS[few.chosen]}, device="cpu")
    allowed = 100 * N * EPS * (1 + np.linalg.norm(matrix(few.chosen, X, X), 2) / few.ridge)
    again = few.among(np.arange(N)).without(sets_of(GROUPS))
    np.testing.assert_allclose(again, few.outputs, rtol=1e-9, atol=max(allowed, 1e-9))
    assert best.settings[0].mean_square <= few.settings[0].mean_square * 1.1


@pytest.mark.parametrize("kind", ["signs", "classes", "number", "several"])
def test_many_rows_are_fitted_by_products_as_refits_of_their_folds(monkeypatch, kind):
    monkeypatch.setattr(tuning, "BY_PRODUCTS", N - 1)
    monkeypatch.setattr(tuning, "COMPARED_ON", 22)
    y, numbers = LABELS[kind], kind in ("number", "several")
    fit = tuned_fit(X, y, groups=GROUPS, candidates=KERNELS, device="cpu", key=3)
    assert fit.folds is not None
    assert fit.folds.converged
    assert "a fifth of all at once" in fit.notes[-1]
    assert fit.settings[0].rows == N
    strata = np.zeros(N, dtype=int) if numbers else (y > 0).astype(int) if y.ndim == 1 else y.argmax(axis=1)
    shift, unit = (y.mean(axis=0), y.std(axis=0)) if numbers else (0.0, 1.0)
    K = matrix(fit.chosen, X, X)
    for groups, outputs, within in zip((GROUPS, np.arange(N)), (fit.outputs, fit.alone), fit.folds.within, strict=True):
        fold = cut_into_folds(groups, strata, 5, key=3)
        assert all(len(set(fold[groups == one])) == 1 for one in np.unique(groups))
        refits = np.empty_like(y)
        for out in range(5):
            kept, left = np.flatnonzero(fold != out), np.flatnonzero(fold == out)
            model = KernelRidge(alpha=fit.ridge, kernel="precomputed").fit(K[np.ix_(kept, kept)], y[kept] - shift)
            refits[left] = model.predict(K[np.ix_(left, kept)]) + shift
        room = (
            1e4 * np.finfo(float).eps * np.linalg.norm(K, 2) / fit.ridge * np.abs(y).max()
        )  # of the refits' own solves
        assert np.all(np.abs(outputs - refits) <= unit * within.reshape(y.shape) + room)
    whole = KernelRidge(alpha=fit.ridge, kernel="precomputed").fit(K, y - shift)
    new = whole.predict(matrix(fit.chosen, Z, X)) + shift
    np.testing.assert_allclose(fit.predict(Z), new, atol=float(np.max(unit * fit.folds.within[0].max(axis=0))) + room)
    form = np.sum(((y - shift) / unit) * (whole.dual_coef_.reshape(y.shape) / unit))
    bracket = fit.folds.bracket
    assert bracket is not None
    assert bracket.certified
    assert bracket.lower - room <= form <= bracket.upper + room


def test_folds_keep_groups_and_the_shares_of_classes():
    rng = np.random.default_rng(0)
    strata = rng.choice(3, size=500, p=[0.7, 0.25, 0.05])
    groups = np.where(rng.random(500) < 0.3, rng.integers(40, size=500), 1000 + np.arange(500))
    fold = cut_into_folds(groups, strata, 5, key=1)
    assert all(len(set(fold[groups == one])) == 1 for one in np.unique(groups))
    assert np.ptp(np.bincount(fold)) <= np.bincount(np.unique(groups, return_inverse=True)[1]).max()
    alone = cut_into_folds(np.arange(500), strata, 5)
    for one in range(3):
        assert np.ptp(np.bincount(alone[strata == one], minlength=5)) <= 1
    assert np.ptp(np.bincount(alone)) <= 1


def test_the_default_kernels_learn_a_line():
    names = default_candidates(X)
    assert len(names) == 16
    fit = tuned_fit(np.column_stack([X, np.ones(N)]), np.sign(X[:, 0] + 0.1), groups=GROUPS)
    assert fit.error is not None
    assert fit.error < 0.2
    assert {one.name for one in fit.tried} == set(default_candidates(np.column_stack([X, np.ones(N)])))


@pytest.mark.parametrize(
    ("rows", "y", "error"),
    [
        (np.ones((2, 1)) * [[1.0], [2.0]], np.array([1.0, -1.0]), None),
        (X[:3], np.array([1.0, -1.0, 1.0]), None),
        (X[:8], np.ones(8), 0.0),  # one class
        (X[:9], np.eye(3)[[0, 1, 1, 1, 1, 0, 0, 0, 2]] - 1 / 3, None),  # a class of one row
        (np.ones((8, 2)), np.array([1.0, 1, 1, 1, 1, 1, -1, -1]), 0.25),  # equal rows: the others' majority
        (np.zeros((8, 2)), np.array([1.0, 1, 1, 1, 1, 1, -1, -1]), None),
    ],
)
def test_degenerate_classes_do_not_crash(rows, y, error):
    fit = tuned_fit(rows, y)
    assert np.isfinite(fit.outputs).all()
    assert np.isfinite(fit.probabilities(fit.predict(rows))).all()
    if error is not None:
        assert fit.error == error


def test_a_constant_target_is_learned():
    fit = tuned_fit(X[:6], np.full(6, 7.0))
    assert fit.mean_square == 0
    np.testing.assert_array_equal(fit.predict(Z), np.full(6, 7.0))


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"groups": np.zeros(N)}, "one group"),
        ({"candidates": {}}, "`candidates` is empty"),
        ({"candidates": {"a": "ntk"}}, "expected a kernel"),
        ({"task": "classes", "y": NUMBER}, "neither ±1 nor one-hot"),
        ({"y": SIGNS[:4]}, r"`y` has shape \(4,\)"),
        ({"X": X[:1], "y": SIGNS[:1]}, "at least 2 rows"),
    ],
)
def test_bad_input_is_said(given, said):
    with pytest.raises(ValueError, match=said):
        tuned_fit(**({"X": X, "y": SIGNS} | given))
    with pytest.raises(ValueError, match="these targets are numbers"):
        tuned_fit(X[:9], NUMBER[:9], candidates=KERNELS).probabilities(NUMBER)


def test_groups_of_one_size_leave_together_and_their_rows_alone():
    groups = np.arange(N) // 2
    fit = tuned_fit(X, NUMBER, groups=groups, candidates={"Laplace": Laplace(2.0)}, ridge=0.1)
    scaled, K = (NUMBER - NUMBER.mean()) / NUMBER.std(), Laplace(2.0)(X)
    for outputs, names in ((fit.outputs, groups), (fit.alone, np.arange(N))):
        model = KernelRidge(alpha=0.1, kernel="precomputed")
        refit = cross_val_predict(model, K, scaled, groups=names, cv=LeaveOneGroupOut())
        np.testing.assert_allclose(outputs, NUMBER.mean() + NUMBER.std() * refit, rtol=1e-9)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("kind", ["classes", "number"])
def test_random_features_give_what_their_matrix_gives(kind, weighted):
    y, weights = LABELS[kind], (1.0 + np.arange(N) % 3 if weighted else None)
    fit = tuned_fit(X, y, candidates=KERNELS, weights=weights, random_features=40, key=2)
    assert fit.notes == (f"40 random features stand for the kernel, whose matrix of {N} rows is not made",)
    assert {one.name.split(" of ")[1] for one in fit.tried} == {"Laplace", "Gaussian"}  # the other has none
    assert len(fit.tried) == 2 * tuned_rows.RIDGES
    same = tuned_fit(X, y, candidates={"it": fit.kernel}, weights=weights, ridge=fit.ridge)
    room = 1e3 * EPS * (1 + np.linalg.norm(fit.kernel(X), 2) * 3 / fit.ridge) * np.abs(y).max()
    np.testing.assert_allclose(fit.outputs, same.outputs, rtol=0, atol=room)
    np.testing.assert_allclose(fit.predict(Z), same.predict(Z), rtol=0, atol=room)
    whole = same.kernel(Z, same.distinct) @ same.coefficients
    shift = np.average(y, weights=weights) if kind == "number" else 0.0
    np.testing.assert_allclose(
        same.predict(Z), whole.reshape(len(Z), *y.shape[1:]) * same.units + shift, rtol=0, atol=room
    )


def test_groups_leave_random_features_with_their_fold():
    fit = tuned_fit(X, SIGNS, candidates={"Laplace": Laplace(2.0)}, groups=GROUPS, random_features=15, key=2)
    fold = cut_into_folds(GROUPS, (SIGNS > 0).astype(int), 5, key=2)
    K = fit.kernel(X)
    room = 1e3 * EPS * (1 + np.linalg.norm(K, 2) / fit.ridge)
    for out in range(5):
        kept, left = np.flatnonzero(fold != out), np.flatnonzero(fold == out)
        model = KernelRidge(alpha=fit.ridge, kernel="precomputed").fit(K[np.ix_(kept, kept)], SIGNS[kept])
        np.testing.assert_allclose(fit.outputs[left], model.predict(K[np.ix_(left, kept)]), rtol=0, atol=room)
    alone = tuned_fit(X, SIGNS, candidates={"it": fit.kernel}, ridge=fit.ridge).alone
    np.testing.assert_allclose(fit.alone, alone, rtol=0, atol=room)


def test_random_features_stand_where_a_matrix_does_not_fit(monkeypatch):
    monkeypatch.setattr(tuning, "BY_PRODUCTS", 20)
    monkeypatch.setattr(tuning, "COMPARED_ON", 15)
    monkeypatch.setattr(tuning, "RANDOM_FEATURES", 30)
    by_products = tuned_fit(X, SIGNS, candidates=KERNELS, random_features="auto", device="cpu")
    assert by_products.folds is not None
    monkeypatch.setattr(tuning, "rough_fits", lambda n: False)
    fit = tuned_fit(X, SIGNS, candidates=KERNELS, random_features="auto", device="cpu")
    assert fit.folds is None
    assert fit.chosen.startswith("30 random features of ")
    with pytest.raises(ValueError, match="deviations need a factor"):
        fit.deviations(Z)
    one_large = np.append(np.zeros(N - 1, dtype=int), 1)  # every part of the rows is all of them
    assert tuned_fit(X, SIGNS, groups=one_large, candidates=KERNELS, random_features=9).chosen.startswith("9 random")
    only = {"conjugate": KERNELS["conjugate"]}
    assert tuned_fit(X, SIGNS, candidates=only, random_features="auto", device="cpu").folds is not None
    for options, said in (
        ({"candidates": only, "random_features": 5}, "none of the kernels has random features"),
        ({"random_features": 0}, "`random_features` is 0"),
        ({"random_features": "many"}, "`random_features` is 'many'"),
        ({"random_features": 5, "steps": 3}, "not of random features"),
    ):
        with pytest.raises(ValueError, match=said):
            tuned_fit(X, SIGNS, **{"candidates": KERNELS, **options})


@pytest.mark.parametrize("outputs", [1, 3])
def test_new_rows_are_predicted_alike_on_a_device(outputs, monkeypatch):
    monkeypatch.setattr(tuned_rows, "PAIRS_ON_DEVICE", 1_000)
    random = np.random.default_rng(outputs)
    X, Z = random.standard_normal((60, 4)), random.standard_normal((45, 4))
    Z[3] = 2 * X[5]  # a parallel pair
    y = np.eye(outputs)[random.integers(outputs, size=60)] - 1 / outputs if outputs > 1 else np.sign(X[:, 0])
    host, device = (tuned_fit(X, y, candidates={"ntk": TwoLayer()}, device=where) for where in ("cpu", "jax"))
    assert device._final._on_device(len(Z))
    np.testing.assert_allclose(device.predict(Z), host.predict(Z), rtol=0, atol=1e-12 * np.abs(host.predict(Z)).max())
