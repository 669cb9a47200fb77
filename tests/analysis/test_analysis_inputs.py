"""What people bring: every kind of input, small sets, broken sets, and problems that must be found."""

import gzip
import itertools
import re
import warnings

import numpy as np
import pytest

import overparam as op
from overparam.analysis.data_rows import prepare_rows

random = np.random.default_rng(5)
X40 = random.normal(size=(40, 5))
SIGNS = np.where(X40[:, 0] + 0.3 * X40[:, 1] > 0, 1, 0)


def finite(result):
    """Whatever came in, the arrays are numbers, the page has its sections, the verdict its sentences."""
    for name, array in result.parts().arrays.items():
        if name in ("labels.names", "labels.target"):
            continue  # words
        sides = name in ("speed.true", "speed.random", "speed.worst", "trust.movement")
        assert not np.isnan(array).any(), name
        assert np.isfinite(array[:2] if sides else array).all(), name  # an upper side may be open
    assert result.verdict.tone in ("good", "warning", "bad")
    assert all(re.fullmatch(r"\S.*\.", line) for line in result.verdict.sentences)
    assert not any("nan" in line or "inf " in line for line in result.verdict.sentences)
    assert result.sections()[0].title == "Verdict"
    return result


def test_arrays_lists_a_csv_and_a_frame_agree(tmp_path):
    pandas = pytest.importorskip("pandas")
    words = np.where(SIGNS == 1, "yes", "no")
    frame = pandas.DataFrame(X40, columns=list("abcde"))
    frame["answer"] = words
    file = tmp_path / "table.csv.gz"
    with gzip.open(file, "wt") as out:
        frame.to_csv(out, index=False)
    by_file = finite(op.analyze(str(file)))
    by_frame = finite(op.analyze(frame))
    by_pair = finite(op.analyze((X40.tolist(), words.tolist())))
    assert by_file.task == by_frame.task == by_pair.task == "binary"
    assert by_file.classes == ("no", "yes")
    assert by_file.learnability.left_out_error == pytest.approx(by_pair.learnability.left_out_error)
    for other in (by_file, by_frame):
        assert other.complexity.value == pytest.approx(by_pair.complexity.value, rel=1e-6)


def test_sparse_matrices_loaders_images_and_features_are_analysed(tmp_path):
    from PIL import Image
    from scipy.sparse import csr_array

    torch = pytest.importorskip("torch")
    plain = op.analyze(X40, SIGNS)
    rows = torch.utils.data.TensorDataset(torch.tensor(X40), torch.tensor(SIGNS))
    for source in ((csr_array(X40), SIGNS), rows, torch.utils.data.DataLoader(rows, batch_size=9, shuffle=True)):
        assert finite(op.analyze(source)).complexity.value == plain.complexity.value
    for i, label in enumerate(SIGNS):
        (tmp_path / str(label)).mkdir(exist_ok=True)
        size = (10, 8) if i == 3 else (5, 4)
        pixels = np.random.default_rng(i).integers(100 * label, 120 + 100 * label, size, dtype=np.uint8)
        Image.fromarray(pixels).save(tmp_path / str(label) / f"{i:02}.png")
    images = finite(op.analyze(tmp_path))
    assert images.classes == ("0", "1")
    assert "Prepared: 1 of 40 images resized to 5 × 4; rows scaled to norm 1." in images.verdict.sentences
    order = np.argsort(SIGNS, kind="stable")  # as the files stand: by class, then by name
    by_features = finite(op.analyze(tmp_path, features=X40[order]))
    assert by_features.complexity.value == pytest.approx(plain.complexity.value, rel=1e-6)


@pytest.mark.parametrize("rows", [4, 5, 10, 12])
@pytest.mark.parametrize("task", ["binary", "multiclass", "regression"])
def test_few_rows(rows, task):
    y = {"binary": SIGNS[:rows], "multiclass": [str(i % 3) for i in range(rows)], "regression": X40[:rows, 2]}[task]
    if task == "binary":
        y = [0, 1] * (rows // 2) + [0] * (rows % 2)
    result = finite(op.analyze((X40[:rows], y)))
    assert (result.n, result.task) == (rows, task)
    assert "rough guess" in result.verdict.sentences[1]


@pytest.mark.parametrize(
    ("X", "y", "words"),
    [
        (X40[:2], [0, 1], "at least 4"),
        (X40[:3], [0, 1, 1], "at least 4"),
        (X40, [0] * 40, "every training row has the label 0"),
        (X40, ["a"] * 40, "every training row has the label 'a'"),
        (X40, [2.5] * 40, "every training target is 2.5"),
        (np.ones((20, 3)), [0, 1] * 10, "every feature is constant"),
        (np.where(np.equal(X40, X40[3, 2]), np.nan, X40), SIGNS, "1 NaN (first: row 3, column 2)"),
        (np.where(np.equal(X40, X40[3, 2]), np.inf, X40), SIGNS, "row 3, column 2"),
        (X40, SIGNS[:39], "39"),
    ],
)
def test_what_cannot_be_analysed_is_said_in_one_line(X, y, words):
    with pytest.raises(ValueError, match=re.escape(words)) as caught:
        op.analyze((X, y))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("how", ["unit", "none"])
def test_zero_rows_are_named_where_they_cannot_stay(how):
    X = X40.copy()
    X[[3, 7]] = 0
    with pytest.raises(ValueError, match=r"2 rows of norm 0 \(first: row 3\)"):
        op.analyze((X, SIGNS), preprocess=how)
    result = finite(op.analyze((X, SIGNS)))  # as a table they are points like others, and equal ones
    assert result.problems.duplicate_rows == ((3, 7),)


def test_a_black_image():
    X = np.abs(X40[:, :4]).reshape(40, 2, 2)
    X[9] = 0
    data = op.load((X, SIGNS))
    assert data.kind == "image"
    with pytest.raises(ValueError, match=r"1 row of norm 0 \(first: row 9\)"):
        op.analyze(data)


def test_equal_rows_with_different_labels():
    X, y = np.repeat(X40[:15], 2, axis=0), np.tile([0, 1], 15)
    X, y = np.concatenate([X, X40[20:]]), np.concatenate([y, SIGNS[20:]])
    result = finite(op.analyze((X, y)))
    assert result.problems.counts["contradictions"] == 15
    assert result.problems.contradictions[0] == (0, 1)
    assert result.learnability.worst_complexity is None
    assert result.speed.lambda_min.value == 0.0
    assert not result.speed.lambda_min.certified
    assert result.new_data.bound is None
    assert result.trust.lazy_steps == 10**7
    assert result.trust.width_for_lazy < 1e9
    assert any("15 groups of equal rows with different labels" in line for line in result.verdict.sentences)
    assert any("equal rows with different labels" in line for line in result.theory if "At rate" in line)
    assert result.verdict.tone != "good"


def test_opposite_rows_make_h_singular_too():
    result = finite(op.analyze((np.concatenate([X40, -X40]), np.concatenate([SIGNS, 1 - SIGNS])), preprocess="none"))
    assert result.learnability.worst_complexity is None
    assert result.problems.counts["near_parallel"] == 40


def test_many_classes():
    X = random.normal(size=(200, 6)) * 0.1
    codes = np.arange(200) % 20
    X += random.normal(size=(20, 6))[codes]
    result = finite(op.analyze((X, codes)))
    assert len(result.classes) == 20
    assert result.error.alone.value < 0.02
    assert result.error.leading == "near rows left out together"  # ten rows a heap: copies, for all that can be told
    assert result.verdict.tone != "bad"
    assert finite(op.analyze((X[:20], [f"only {i}" for i in range(20)]))).verdict.tone == "bad"


def test_scales_that_differ_by_eighteen_decades():
    plain = op.analyze((X40, SIGNS))
    wild = finite(op.analyze((X40 * [1e-9, 1, 1e9, 1e3, 1], SIGNS)))
    assert wild.problems.scale_ratio == pytest.approx(1e18, rel=0.9)
    assert wild.complexity.value == pytest.approx(plain.complexity.value, rel=1e-6)
    for scale in (1e300, 1e-300):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            far = finite(op.analyze((X40 * scale, SIGNS)))
        assert far.problems.scale_ratio == pytest.approx(plain.problems.scale_ratio)
        assert far.complexity.value == pytest.approx(plain.complexity.value, rel=1e-6)


def test_constant_features_are_named_and_do_not_count_for_the_scale():
    X = np.column_stack([X40, np.full(40, 0.1)])
    result = finite(op.analyze((X, SIGNS)))
    assert result.problems.constant_features == ("column 5",)
    assert result.problems.scale_ratio < 10


def test_training_rows_in_the_test_set_are_found():
    rows = np.concatenate([np.arange(40), [4, 11]])
    data = op.load((X40, SIGNS))
    leaky = data.replace(test=data.take(rows[38:]))
    result = finite(op.analyze(leaky))
    assert result.problems.counts["test_in_train"] == 4
    assert result.problems.test_in_train == ((4, 4), (11, 11), (38, 38), (39, 39))
    assert result.verdict.tone != "good"
    clean = finite(op.analyze(data.take(range(30)).replace(test=data.take(range(30, 40)))))
    assert clean.problems.counts["test_in_train"] == 0
    assert clean.new_data.test_rows == 10


def test_wrong_labels_are_the_first_suspects():
    X, y = random.normal(size=(150, 4)), None
    y = np.where(X[:, 0] > 0, "up", "down")
    clear = np.flatnonzero(np.abs(X[:, 0]) > 1)[:4]
    y[clear] = np.where(y[clear] == "up", "down", "up")
    result = finite(op.analyze((X, y)))
    scored = result.labels
    assert set(scored.rows[:4].tolist()) == set(clear.tolist())
    for place, row in enumerate(scored.rows[:4]):
        given, suggested = scored.label(scored.given[place]), scored.label(scored.suggested[place])
        assert given == y[row]
        assert suggested == ("down" if given == "up" else "up")
        assert scored.margin[place] < 0


def test_rows_of_a_shuffled_table_are_named_by_the_source(tmp_path):
    X = X40.copy()
    X[31] = X[8]
    file = tmp_path / "t.csv"
    np.savetxt(file, np.column_stack([X, SIGNS]), delimiter=",", header="a,b,c,d,e,y", comments="")
    for seed in (0, 1):
        found = op.analyze(op.load(str(file), key=seed)).problems.duplicate_rows
        assert [tuple(sorted(group)) for group in found] == [(8, 31)]


def test_subsampling_is_said_and_keeps_the_classes():
    y = np.arange(40) % 4 == 0
    result = finite(op.analyze((X40, y), max_rows=20))
    assert result.n == 20
    assert "20 of 40 rows were used, classes in proportion; `max_rows` sets how many" in result.notes
    assert result.learnability.baseline_error == pytest.approx(0.25)
    with pytest.raises(ValueError, match="max_rows"):
        op.analyze((X40, y), max_rows=3)


def test_preprocessing_is_said_and_a_wrong_name_is_named():
    assert "rows scaled to norm 1" in op.analyze((X40, SIGNS), preprocess="unit").notes
    with pytest.raises(ValueError, match="standardize"):
        op.analyze((X40, SIGNS), preprocess="standardize")


def test_seeds_reproduce_to_the_bit_and_touch_what_they_should():
    from analysis_cases import same

    y = SIGNS
    first, again, other = (op.analyze((X40, y), key=seed) for seed in (3, 3, 4))
    for field in ("verdict", "learnability", "speed", "new_data", "problems", "trust", "noise", "spectrum"):
        same(getattr(first, field), getattr(again, field), field)
    same(first.problems, other.problems)
    # the sweep is shared with a random column, which decides when it stops
    assert first.new_data.bound == pytest.approx(other.new_data.bound, rel=1e-6)
    assert first.complexity.value == pytest.approx(other.complexity.value, rel=1e-6)
    assert first.speed.rate == pytest.approx(other.speed.rate, rel=1e-2)
    assert first.learnability.left_out_error == other.learnability.left_out_error
    assert np.array_equal(first.spectrum.eigenvalues, other.spectrum.eigenvalues)
    assert not np.array_equal(first.learnability.random_complexities, other.learnability.random_complexities)
    assert not np.array_equal(first.learnability.shuffled_complexities, other.learnability.shuffled_complexities)
    assert not np.array_equal(first.noise.complexity, other.noise.complexity)


def test_progress_only_grows_and_ends_at_one():
    seen = []
    op.analyze((X40, SIGNS), progress=lambda done, total, what: seen.append((done, total, what)))
    shares = [done / total for done, total, _ in seen]
    assert shares[0] == 0
    assert shares[-1] == 1
    assert all(a <= b for a, b in itertools.pairwise(shares))
    assert seen[-1][2] == "done"
    stages = [what for *_, what in seen]
    assert len(set(stages)) > 20


def test_nothing_global_is_touched():
    from threadpoolctl import threadpool_info

    X, y = X40.copy(), SIGNS.copy()
    X.setflags(write=False)
    np.random.seed(8)  # noqa: NPY002
    state, errors = np.random.get_state()[1].copy(), np.geterr()  # noqa: NPY002
    threads = [pool["num_threads"] for pool in threadpool_info()]
    op.analyze((X, y), threads=1)
    assert np.array_equal(np.random.get_state()[1], state)  # noqa: NPY002
    assert np.geterr() == errors
    assert [pool["num_threads"] for pool in threadpool_info()][: len(threads)] == threads
    assert np.array_equal(y, SIGNS)
    assert not X.flags.writeable


def test_repeated_rows_flatter_leave_one_out_and_that_is_said():
    draw = np.random.default_rng(1)
    X, y = draw.normal(size=(200, 5)), draw.integers(2, size=200)
    X, y = np.concatenate([X, X[:120]]), np.concatenate([y, y[:120]])
    result = finite(op.analyze((X, y)))
    margins = result.learnability.margins
    alone = np.arange(120, 200)
    assert result.problems.counts["unrepeated_rows"] == 80
    assert result.problems.left_out_error_unrepeated == np.mean(margins[alone] <= 0)
    assert result.learnability.left_out_error < 0.3 < result.problems.left_out_error_unrepeated
    assert result.copies == 120
    assert "120 rows are copies of others" in " ".join(result.verdict.sentences)
    assert result.verdict.tone == "bad"


def test_some_images_of_sorted_classes_have_all_of_them():
    """The first rows of images that lie sorted would be one class; a folder's are in a drawn order."""
    images, names = random.integers(255, size=(40, 3, 3)).astype(np.uint8), np.repeat(["cat", "dog"], 20)
    ready = prepare_rows(op.load((images, names)), "auto", 10, 0)
    assert (len(np.unique(ready.data.labels)), ready.taken, ready.total) == (2, "classes in proportion", 40)
    mixed = prepare_rows(op.load((images, np.tile(["cat", "dog"], 20))), "auto", 10, 0)
    assert (mixed.source_rows.tolist(), mixed.taken) == (list(range(10)), "the first in file order")
    numbers = prepare_rows(op.load((X40, X40[:, 0])), "auto", 10, 0)
    assert numbers.taken == "drawn at random"
