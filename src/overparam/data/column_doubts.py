"""What may be wrong with the columns of a table: constant ones, one that gives the target away, an order that follows it."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator, Sequence

import numpy as np

from overparam.core.words import count_of
from overparam.data.column_notes import ColumnNote
from overparam.data.draws import generator
from overparam.data.few_values import stands_out_by_value
from overparam.data.readers.reader import Raw

LEAST_ROWS = 20
"""Of fewer rows nothing is said of a leak or an order."""
MOST_ROWS, MOST_NUMBERS = 20_000, 4_000_000
"""Rows looked at for a leak, spread over all of them, and numbers in them."""
ALONE = 0.02
"""The balanced error up to which a column alone predicts the label."""
TIGHT = 0.98
"""The part of a column's variance that the classes explain, from which it is the label in other numbers."""
COPY = 0.999
"""The correlation with a real target, of values or of ranks, from which a column is that target in other numbers."""
FAR = 0.15
"""The balanced error that every other column has at least, where one that separates classes by a threshold or by its values stands out."""
NEARLY, FARTHER = 0.045, 0.25
"""The same where a column gives nearly all labels away, or several do, which hide each other: up to three."""
NEARLY_BY_VALUE = 0.07
"""And where it does so by a few values, as a status does: a good column is seldom right by a code. Of 79 tables none has such a one, nor at 0.1."""
AVERAGED, LEAST_AVERAGED = 0.01, 6
"""How near the means of the target over equal values lie to a line, over how near chance puts them, from which on the values are those means; and how
many values have to recur."""
EXACT, LINES = 0.9, 200
"""Share of rows in which a column is a real target in other numbers, of which it is said too; pairs of rows that tell the line."""
MOST_NAMED, MOST_LEAKS = 20, 3
NO_LABEL = ("", "?", "-", "na", "n/a", "nan", "null")
"""Names of classes that often stand for no label."""
CODE_FAR, CODE_LEAST, CODE_SHARE = 3.0, 5, 0.005
"""A number in at least so many rows, and in so large a share of them, further from all others than so many times their range."""
Limits = Sequence[tuple[float, float, int]]
"""(largest error of columns that stand out, least of all others, how many may)."""


def column_doubts(raw: Raw, rows: np.ndarray, codes: np.ndarray, k: int) -> list[ColumnNote]:
    """Notes on the columns of these rows of a table: "constant", "leak" and "order".

    codes: (n,) the class of every row of `raw`; k: how many classes, 0 for real targets, which `raw.labels` are then.
    """
    rows = np.sort(rows)
    notes = _constant(raw, rows) + _codes(raw, rows, k == 0)
    if len(rows) < LEAST_ROWS:
        return notes
    most = max(LEAST_ROWS, min(MOST_ROWS, MOST_NUMBERS // raw.X.shape[1]))
    some = rows[:: -(-len(rows) // most)]
    targets = raw.labels if k == 0 else codes
    if raw.X.shape[1] > 1:
        notes += _leaks(raw, some, targets[some], k)
    return notes + _orders(raw, rows, targets, k)


def _feature_names(raw: Raw) -> Sequence[str]:
    return raw.features if raw.features is not None else [f"column {i}" for i in range(raw.X.shape[1])]


def _constant(raw: Raw, rows: np.ndarray) -> list[ColumnNote]:
    first, alive, start, step = np.asarray(raw.X[rows[0]]), np.arange(raw.X.shape[1]), 0, 256
    while start < len(rows) and len(alive):  # most columns are out after the first piece
        piece = raw.X[rows[start : start + step]]
        alive = alive[(piece[:, alive] == first[alive]).all(axis=0)]
        start, step = start + step, max(256, 4_000_000 // max(1, raw.X.shape[1]))
    names = _feature_names(raw)
    sources: Sequence[str] = raw.sources or names
    notes = [
        ColumnNote(
            sources[i], "constant", f"column {names[i]!r} is {first[i]:g} in every training row: it tells nothing"
        )
        for i in map(int, alive[:MOST_NAMED])
    ]
    if len(alive) > MOST_NAMED:
        more = count_of(len(alive) - MOST_NAMED, "more column")
        notes.append(ColumnNote(None, "constant", f"{more} constant in the training rows"))
    return notes


def _codes(raw: Raw, rows: np.ndarray, numbers: bool) -> list[ColumnNote]:
    """Columns, and targets that are numbers, in which many rows have one number that is far from all others, as where -999 stands for no value."""
    names, found = list(raw.sources or _feature_names(raw)), []
    some = rows[:: -(-len(rows) // max(LEAST_ROWS, min(MOST_ROWS, MOST_NUMBERS // raw.X.shape[1])))]
    X, d = np.asarray(raw.X[some], dtype=np.float64), raw.X.shape[1]
    if numbers:
        Y = np.asarray(raw.labels, dtype=np.float64).reshape(len(raw.labels), -1)
        X, names = np.column_stack([X, Y[some]]), [*names, *(raw.label_names or map(str, range(Y.shape[1])))]
    units = np.exp2(np.frexp(np.abs(X).max(axis=0))[1] - 1.0)  # exact, and nothing overflows
    X = X / units
    low, high = X.min(axis=0, initial=0.0), X.max(axis=0, initial=0.0)
    # only where the middle half of a column is a small part of its range is there a number so far away
    inner = np.subtract(*np.percentile(X, [75, 25], axis=0)) if len(X) >= LEAST_ROWS else high - low
    for column in np.flatnonzero((CODE_FAR * inner < high - low) & (inner > 0)).tolist():
        values = X[:, column]
        for code in (values.min(), values.max()):
            others = values[values != code]
            spread = np.ptp(others)
            many = len(values) - len(others) >= max(CODE_LEAST, CODE_SHARE * len(values))
            if many and spread > 0 and np.abs(others - code).min() > CODE_FAR * spread and len(np.unique(others)) > 2:
                code, others = code * units[column], others * units[column]
                what, mend = ("column", "leave it empty") if column < d else ("target", "leave those rows out")
                words = (
                    f"{what} {names[column]!r} is {code:g} in {count_of(len(values) - len(others), 'row')}, far from all others "
                    f"({others.min():.4g} to {others.max():.4g}): if that stands for no value, {mend}"
                )
                found.append(ColumnNote(names[column], "code", words))
    return found[:MOST_NAMED]


def label_notes(order: Sequence[object], asked: bool) -> list[ColumnNote]:
    """What may be wrong with the classes: whole numbers that may be amounts, names that differ in capitals alone, or stand for no label.

    >>> [note.words for note in label_notes(("No", "no", "yes"), asked=False)]
    ["the classes 'No' and 'no' differ in capitals and spaces alone: perhaps they are one"]
    >>> [note.words for note in label_notes(("yes", "?"), asked=False)]
    ["the class '?' may stand for no label: leave its rows out if it does"]
    """
    words = []
    if not asked and len(order) > 2 and all(isinstance(value, int) and not isinstance(value, bool) for value in order):
        words.append(
            f"the labels are {len(order)} whole numbers and taken for classes: for counts or grades say `task='regression'`"
        )
    known: dict[str, str] = {}
    for value in order:
        if isinstance(value, str):
            if value.strip().casefold() in NO_LABEL:
                words.append(f"the class {value!r} may stand for no label: leave its rows out if it does")
            first = known.setdefault(" ".join(value.casefold().split()), value)
            if first != value:
                words.append(
                    f"the classes {first!r} and {value!r} differ in capitals and spaces alone: perhaps they are one"
                )
    return [ColumnNote(None, "task", each) for each in words[:MOST_NAMED]]


def _leaks(raw: Raw, rows: np.ndarray, targets: np.ndarray, k: int) -> list[ColumnNote]:
    names = raw.sources or _feature_names(raw)
    X = np.asarray(raw.X[rows], dtype=np.float64)
    if not np.isfinite(X).all():  # an error of the Dataset
        return []
    found: dict[str, str] = {}
    holes = [(hole.column, hole.where[rows].astype(np.float64)) for hole in raw.holes]
    if k:  # classes of a few rows cannot be told from others
        enough = np.bincount(targets, minlength=k)[targets] >= 4
        there, targets = np.unique(targets[enough], return_inverse=True)
        X, k, holes = X[enough], len(there), [(name, mask[enough]) for name, mask in holes]
        if len(X) < LEAST_ROWS or k < 2:
            return []
    if k == 0:
        for column in np.flatnonzero(_correlation(X, targets) >= COPY).tolist():
            found[names[column]] = "it is the target in other numbers, with a correlation of 1 to three digits"
        for column, share in _lines(X, targets):
            found.setdefault(names[column], f"it is the target in other numbers in {share:.0%} of the rows")
    else:
        for name, values in _candidates(X, names, targets, k):
            wrong = _error_alone(values, targets, k)
            if wrong is not None:
                found[name] = f"it is the label in other words: alone it is wrong on {100 * wrong:.2g}% of new rows"
        for name, mask in holes:
            wrong = _error_alone(mask, targets, k) if name not in found else None
            if wrong is not None:
                found[name] = (
                    f"where it has no value is the label: that alone is wrong on {100 * wrong:.2g}% of new rows"
                )
        limits = ((ALONE, FAR, 1), (NEARLY, FARTHER, MOST_LEAKS))
        if k == 2:
            found |= _stands_out(X, names, targets, limits, found)
        if not found:
            ids = [name for name, _ in raw.identifiers]
            by_value = (limits[0], (NEARLY_BY_VALUE, FARTHER, MOST_LEAKS))
            found = stands_out_by_value(X, names, targets, k, by_value, ids)
    for column in _averages(X, targets, k):
        what = (
            "its values are the means of the target over the rows that share them, as encoding by the target makes them"
        )
        found.setdefault(names[column], what)
    return [
        ColumnNote(name, "leak", f"column {name!r} gives the target away: {what}; is it known before the target is?")
        for name, what in found.items()
    ][:MOST_NAMED]


def _candidates(X: np.ndarray, names: Sequence[str], codes: np.ndarray, k: int) -> Iterator[tuple[str, np.ndarray]]:
    """Columns as one number a row each that classes explain in good part; the columns of a category as its number."""
    explained = _explained(X, codes, k)
    blocks: dict[str, list[int]] = {}
    for i, name in enumerate(names):
        blocks.setdefault(name, []).append(i)
    for i in np.flatnonzero(explained > 0.8).tolist():
        if len(blocks[names[i]]) == 1:
            yield names[i], X[:, i]
    for name, columns in blocks.items():
        if len(columns) > 1 and explained[columns].max() > 0.5:
            yield name, np.where(X[:, columns].any(axis=1), X[:, columns].argmax(axis=1), -1.0)


def _explained(X: np.ndarray, codes: np.ndarray, k: int) -> np.ndarray:
    """The part of every column's variance that class means explain, η²."""
    centred = X / np.maximum(np.abs(X).max(axis=0), 1e-300)
    centred -= centred.mean(axis=0)
    counts = np.bincount(codes, minlength=k)
    sums = np.zeros((k, X.shape[1]))
    for code in np.flatnonzero(counts):
        sums[code] = centred[codes == code].sum(axis=0)
    between = (sums**2 / np.maximum(counts, 1)[:, None]).sum(axis=0)
    total = np.einsum("ij,ij->j", centred, centred)
    return np.where(total > 0, between / np.where(total > 0, total, 1.0), 0.0)


def _error_alone(values: np.ndarray, codes: np.ndarray, k: int) -> float | None:
    """The balanced error on new rows of the label told by this column, where the two are nearly one-to-one; else None.

    One-to-one: hardly more values than classes, each class at one of them; or numbers so tight around the means of the
    classes that these explain nearly all their variance. That a column separates the classes is no leak: good ones do.
    """
    distinct, place = np.unique(values, return_inverse=True)
    if len(distinct) <= max(2 * k, k + 2):
        table = np.zeros((len(distinct), k))
        np.add.at(table, (place, codes), 1)
        sizes = np.maximum(table.sum(axis=0), 1)
        if float((table.max(axis=0) / sizes).mean()) < 1 - ALONE or len(np.unique(table.argmax(axis=0))) < k:
            return None
        wrong = _two_halves(place, codes, k, _majority)
    elif _explained(values[:, None], codes, k)[0] >= TIGHT:
        wrong = _two_halves(values, codes, k, _nearest_mean)
    else:
        return None
    return wrong if wrong <= ALONE else None


def _stands_out(
    X: np.ndarray, names: Sequence[str], codes: np.ndarray, limits: Limits, known: Container[str]
) -> dict[str, str]:
    """The columns a threshold on which tells two classes apart, where no other column comes near; known leaks do not count."""
    some = slice(0, None, -(-len(X) // 2_000))
    X, codes = X[some], codes[some]
    wrong = (1.0 - np.abs(_thresholds(X, codes)[1]).max(axis=0)) / 2  # balanced, in either direction
    least: dict[str, int] = {}
    for column in map(int, np.argsort(wrong, kind="stable")):
        if names[column] not in known and wrong[column] < 0.5:  # constant columns are no others to compare with
            least.setdefault(names[column], column)
    if len(X) < 2 * LEAST_ROWS:
        return {}
    for most, far, count in limits:
        columns = [column for column in least.values() if wrong[column] <= most]
        others = [wrong[column] for column in least.values() if wrong[column] > most]
        if not 0 < len(columns) <= count or not others or min(others) < far:
            continue
        new = {column: _two_halves(X[:, column], codes, 2, _by_threshold) for column in columns}
        if max(new.values()) <= most:
            than = f"on any other column on {100 * min(others):.2g}%"
            return {
                names[i]: f"a threshold on it is wrong on {100 * e:.2g}% of new rows, {than}" for i, e in new.items()
            }
    return {}


def _averages(X: np.ndarray, targets: np.ndarray, k: int) -> Iterator[int]:
    """Columns whose value is, but for its unit, the mean of a target over the rows with that value, those rows themselves among them."""
    Y = targets[:, None] == np.arange(k) if k > 2 else np.reshape(targets, (len(targets), -1))
    Y = _of_size_one(np.asarray(Y, dtype=np.float64))
    own = Y.var(axis=0)
    for column in range(X.shape[1]):
        values, place, counts = np.unique(X[:, column], return_inverse=True, return_counts=True)
        often = counts > 1
        if np.count_nonzero(often) < LEAST_AVERAGED or counts[often].sum() < len(X) / 2:
            continue
        values, counts = values[often] / (np.abs(values).max() or 1.0), counts[often]
        for y, spread in zip(Y.T, own, strict=True):
            means = np.bincount(place, y)[often] / counts
            line = np.polynomial.Polynomial.fit(values, means, 1, w=np.sqrt(counts))
            off = float(np.sum(counts * (means - line(values)) ** 2))
            if spread > 0 and np.ptp(means) > 0 and off < AVERAGED**2 * spread * len(counts):
                yield column
                break


def _lines(X: np.ndarray, targets: np.ndarray) -> Iterator[tuple[int, float]]:
    """Columns of which a target is a straight line in most rows, to three digits, and in what share of them."""
    pairs = generator(0, 53).integers(len(X), size=(2, LINES))
    X, targets = _of_size_one(X), _of_size_one(np.asarray(targets, dtype=np.float64).reshape(len(targets), -1))
    for y in targets.T:
        # the middle half, so that a few numbers far away do not make every line fit
        rise, spread = y[pairs[0]] - y[pairs[1]], float(np.subtract(*np.percentile(y, [75, 25])))
        run = X[pairs[0]] - X[pairs[1]]
        with np.errstate(divide="ignore", invalid="ignore"):
            slopes = np.where(run != 0, rise[:, None] / run, np.nan)
        for column in np.flatnonzero(np.isfinite(slopes).sum(axis=0) > LINES / 2).tolist():
            slope = float(np.nanmedian(slopes[:, column]))
            off = y - slope * X[:, column]
            on = np.abs(off - np.median(off)) <= 1e-3 * spread
            if slope and spread > 0 and on.mean() >= EXACT and len(np.unique(y[on])) > 10:
                yield column, float(on.mean())


def _of_size_one(X: np.ndarray) -> np.ndarray:
    """Columns over their largest number, so that squares of any of them stay within float64."""
    sizes = np.abs(X).max(axis=0, initial=0.0)
    return X / np.where(sizes > 0, sizes, 1.0)


def _thresholds(X: np.ndarray, codes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Every column in order, and the share of the first class less that of the second below each threshold between values."""
    order = np.argsort(X, axis=0, kind="stable")
    X, first = np.take_along_axis(X, order, axis=0), codes == 0
    share = np.where(first, 1.0 / max(1, first.sum()), -1.0 / max(1, (~first).sum()))
    ahead = np.cumsum(share[order], axis=0)[:-1]
    ahead[X[1:] == X[:-1]] = 0.0
    return X, ahead


def _by_threshold(values: np.ndarray, codes: np.ndarray, new: np.ndarray, k: int) -> np.ndarray:
    ordered, ahead = (part[:, 0] for part in _thresholds(values[:, None], codes))
    place = int(np.abs(ahead).argmax())
    below = 0 if ahead[place] > 0 else 1
    return np.where(new <= (ordered[place] + ordered[place + 1]) / 2, below, 1 - below)


def _two_halves(values: np.ndarray, codes: np.ndarray, k: int, predict: Callable[..., np.ndarray]) -> float:
    """The mean over classes of the share of wrong predictions, each half of the rows told by the other; halves alternate."""
    half = np.zeros(len(codes), dtype=bool)
    for code in range(k):
        half[np.flatnonzero(codes == code)[::2]] = True
    guess = np.empty(len(codes), dtype=np.int64)
    for fit, new in ((half, ~half), (~half, half)):
        guess[new] = predict(values[fit], codes[fit], values[new], k)
    there = np.flatnonzero(np.bincount(codes, minlength=k))
    return float(np.mean([(guess[codes == code] != code).mean() for code in there]))


def _majority(values: np.ndarray, codes: np.ndarray, new: np.ndarray, k: int) -> np.ndarray:
    table = np.zeros((int(max(values.max(), new.max())) + 1, k))
    np.add.at(table, (values, codes), 1)
    table /= np.maximum(table.sum(axis=0), 1)  # shares of the classes: the rarer one counts as much
    return table.argmax(axis=1)[new]


def _nearest_mean(values: np.ndarray, codes: np.ndarray, new: np.ndarray, k: int) -> np.ndarray:
    counts = np.bincount(codes, minlength=k)
    means = np.where(counts > 0, np.bincount(codes, weights=values, minlength=k) / np.maximum(counts, 1), np.inf)
    return np.abs(new[:, None] - means).argmin(axis=1)


def _correlation(X: np.ndarray, targets: np.ndarray) -> np.ndarray:
    """The largest absolute correlation of every column with a target, of values or of ranks."""
    Y = np.asarray(targets, dtype=np.float64).reshape(len(targets), -1)
    best = _pearson(X, Y)
    some = slice(0, None, -(-len(X) // 2_000))
    return np.maximum(best, _pearson(_ranks(X[some]), _ranks(Y[some]))) if X.shape[1] <= 2_000 else best


def _pearson(X: np.ndarray, Y: np.ndarray) -> np.ndarray:
    parts = []
    for A in (X, Y):
        A = A / np.maximum(np.abs(A).max(axis=0), 1e-300)
        A = A - A.mean(axis=0)
        length = np.linalg.norm(A, axis=0)
        parts.append(A / np.where(length > 1e-12 * np.sqrt(len(A)), length, np.inf))
    return np.abs(parts[0].T @ parts[1]).max(axis=1)


def _ranks(A: np.ndarray) -> np.ndarray:
    """The ranks within every column, equal values sharing theirs."""
    ranks = np.empty(A.shape)
    for j, column in enumerate(A.T):
        _, place, counts = np.unique(column, return_inverse=True, return_counts=True)
        ranks[:, j] = (np.cumsum(counts) - (counts - 1) / 2)[place]
    return ranks


def _orders(raw: Raw, rows: np.ndarray, targets: np.ndarray, k: int) -> list[ColumnNote]:
    """Whether the rows, or a column that counts them, stand in the order of the target."""
    word = "label" if k else "target"
    notes = []
    said = _follows(targets[rows], k)
    if said:
        notes.append(
            ColumnNote(
                None,
                "order",
                f"the {len(rows):,} rows follow the {word}: {said}; where they are in order of time test on later rows, else draw splits, do not cut them",
            )
        )
    for name, values in raw.identifiers:
        said = _follows(targets[rows[np.argsort(values[rows], kind="stable")]], k)
        if said:
            words = f"column {name!r} follows the {word}: in its order {said}; a model given it reads the {word} off it"
            notes.append(ColumnNote(name, "order", words))
    return notes


def _follows(targets: np.ndarray, k: int) -> str:
    """What to say of targets in this order, where neighbours are alike far beyond chance; else nothing.

    Classes by the number of runs, whose mean and variance under random order are known; targets by the correlation of
    the ranks of neighbours, about ±1/√n by chance.
    """
    n = len(targets)
    if k:
        sizes = np.bincount(targets).astype(float)
        squares, cubes = (sizes**2).sum(), (sizes**3).sum()
        expected = 1 + n - squares / n
        variance = (squares * (squares + n * (n + 1)) - 2 * n * cubes - n**3) / (n**2 * (n - 1))
        runs = 1 + int(np.count_nonzero(np.diff(targets)))
        if runs < expected / 2 and runs < expected - 5 * np.sqrt(max(variance, 0.0)):
            return f"equal labels come in {count_of(runs, 'run')} where chance gives about {expected:.0f}"
        return ""
    for column in np.asarray(targets, dtype=np.float64).reshape(n, -1).T:
        if np.ptp(column) == 0:
            continue
        ranks = _ranks(column[:, None])[:, 0]
        ranks -= ranks.mean()
        alike = float((ranks[1:] * ranks[:-1]).sum() / (ranks**2).sum())
        if alike > 0.5 and alike * np.sqrt(n) > 5:
            return f"neighbours have a correlation of {alike:.2f}"
    return ""
