"""Whether what is certified holds: small matrices of every awkward kind, and the truth in 100 digits beside every bracket."""

from __future__ import annotations

import functools
import tempfile
import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
from tests.attack import truth

import overparam as op

LARGE_EVERY = 400
"""Every so many cases one has 40 to 200 rows."""
CLUSTER_EVERY = 200
"""Every so many cases the workers of a cluster make the products."""
FEW_ROWS = 8
"""Up to which a trace of an inverse is asked of the truth: a system a row."""
ENGINES = (
    *[("dense", "float64")] * 6, *[("matrix_free", "float64")] * 2, ("stored", "float64"), ("half", "float64"),
    ("stored", "float32"), ("stored", "int32"), ("half", "float32"),
)  # fmt: skip


def case(seed: int, index: int, balls: bool = truth.WITH_BALLS) -> dict[str, Any]:
    """One matrix, its labels, and some of the numbers asked of them: which were certified, which hold, how tight they are."""
    rng = np.random.default_rng([seed, index])
    large = index % LARGE_EVERY == LARGE_EVERY - 1
    n = (
        int(rng.integers(40, 201))
        if large
        else int(rng.integers(2, 11))
        if rng.random() < 0.85 or not balls
        else int(rng.integers(11, 21))
    )
    cluster = _cluster() if index % CLUSTER_EVERY == CLUSTER_EVERY - 2 else None
    with tempfile.TemporaryDirectory() as place, warnings.catch_warnings():
        warnings.simplefilter("error")
        H, exact, singular, what = _matrix(rng, n, place, cluster)
        Y, labels = _labels(rng, H, n)
        rows = [_judged(*asked) for asked in _questions(rng, H, exact, Y, n, singular, large)]
        if cluster is not None:
            H.close()
    about = f"{what}, {labels}, n = {n}"
    return {
        "tally": [
            "matrices",
            *("large matrices" for _ in range(large)),
            *(
                f"matrices of {kind}"
                for kind in ("float32 rows", *dict.fromkeys(map(" ".join, ENGINES)), "dask")
                if f" {kind}" in what
            ),
            *(row["verdict"] for row in rows),
        ],
        "failed": [f"{row['verdict']}: {row['why']} ({about})" for row in rows if row["holds"] is False],
        "measured": {row["name"]: row["width"] for row in rows if "width" in row},
    }


@functools.cache
def _cluster() -> Any:
    """Two workers inside this process, for all its cases."""
    import atexit
    import contextlib

    from tests.clusters import two_workers

    stack = contextlib.ExitStack()
    atexit.register(stack.close)
    return stack.enter_context(two_workers())


def _judged(
    name: str, bracket: Any, check: Any, scale: float | None = None, width: float | None = None
) -> dict[str, Any]:
    """The verdict on one bracket; `check` judges its sides; widths are told relative to `scale`, or to the value."""
    certified = bool(np.all(bracket.certified))
    holds, why = (None, "") if bracket.sense == "none" else check(bracket.lower, bracket.upper)
    word = {None: "not decided", True: "holds", False: "VIOLATED"}[holds] if bracket.sense != "none" else "an estimate"
    row = {"name": name, "holds": holds, "why": why}
    row["verdict"] = f"{name} | {bracket.sense} | {'both sides' if certified else 'one side'} | {word}"
    scale = bracket.value if scale is None else scale
    if width is not None:
        row["width"] = width
    elif certified and scale:
        row["width"] = float((bracket.upper - bracket.lower) / abs(scale))
    return row


def _between(exact: Any) -> Any:
    """Whether a number lies between two sides; of balls, whether that is certain or certainly not so."""

    def check(lower: Any, upper: Any) -> tuple[bool | None, str]:
        if exact is None:
            return None, "the truth cannot be told"
        for side, above in ((lower, True), (upper, False)):
            if side is not None and np.isfinite(side):
                one = truth.number(float(side))
                if truth.below(exact, one) if above else truth.below(one, exact):
                    return False, f"{float(side)!r} against {exact}"
        return True, ""

    return check


def _questions(
    rng: np.random.Generator, H: Any, exact: Any, Y: np.ndarray, n: int, singular: bool, large: bool
) -> Iterator[tuple[Any, ...]]:
    columns = [truth.column(list(y)) for y in Y.T]
    y = Y[:, 0] if Y.shape[1] == 1 else Y
    products = None if rng.random() < 0.6 else int(rng.integers(1, n + 1))
    values = np.linalg.eigvalsh(op.engines.as_gram(H).dense())
    size = float(np.abs(values).max())
    likely = rng.random() < 0.1  # by an upper side of λ_max that holds with a probability
    given = op.eigenvalue_bounds(H, upper="random", key=int(rng.integers(2**31))) if likely else "auto"
    q = op.quadrature(H, y, max_products=products, bounds=given)
    start = 0.5 * float(np.sum(Y**2))
    asked = set(rng.permutation(["loss", "movement", "complexity", "solve", "bounds", "momentum", "flow", "steps"])[:3])
    lr = float(rng.choice([0.1, 0.5, 0.99, 1.0, 1.5, 1.95, 2.05]) / (size or 1.0) * rng.uniform(0.9, 1.0))
    most = 32 if large else 2 ** int(rng.integers(1, 8 if not truth.WITH_BALLS else 28))
    steps = int(rng.integers(0, most))
    if "loss" in asked:
        curve = op.predict_loss(q, steps, lr)
        yield "loss", curve.bracketed, _between(truth.loss(exact, columns, steps, lr, 0.0, n)), start
    if "momentum" in asked:
        beta, few = float(rng.choice([0.5, 0.9, 0.99])), int(rng.integers(0, 40))
        curve = op.predict_loss(q, few, lr, momentum=beta)
        yield "loss with momentum", curve.bracketed, _between(truth.loss(exact, columns, few, lr, beta, n)), start
    if "movement" in asked and not large:
        moved = op.predict_movement(q, steps, lr).bracketed
        square = truth.squared_movement(exact, columns, steps, lr, n)
        yield "movement", moved.through(np.square), _between_squares(square)
    ridge = 0.0 if rng.random() < 0.5 else float(10.0 ** rng.integers(-12, 2) * size)
    if "complexity" in asked:
        bracket = q.bracket(op.Inverse(ridge))
        yield "inverse", bracket, _inverse(exact, columns, ridge, n, singular)
    if ridge and n <= FEW_ROWS:
        dimension = op.effective_dimension(H, ridge)
        yield "effective dimension", dimension.bracketed, _traced(exact, ridge, n)
    if "solve" in asked:
        try:
            solved = op.solve(H, y, ridge, method=str(rng.choice(["Cholesky", "conjugate gradients"])))
        except ValueError:  # not positive definite to rounding: nothing is claimed
            pass
        else:
            yield "solve", solved.bracket, _inverse(exact, columns, ridge, n, singular)
    if "bounds" in asked:
        method = str(rng.choice(["auto", "cholesky", "separation", "none"])) if H.kernel is not None else "auto"
        upper = str(rng.choice(["auto", "norms", "cholesky", "random", "random"]))
        bounds = op.eigenvalue_bounds(H, method, upper=upper, key=int(rng.integers(2**31)))
        least, most_sense = (
            float(values[0]),
            "rounding included" if bounds.probability is None else "with probability p",
        )
        lowest = op.theory.Bracketed(least, bounds.lower, None, "rounding included")
        highest = op.theory.Bracketed(size, None, bounds.upper, most_sense, probability=bounds.probability)
        tight = float(min(1.0, max(0.0, 1 - bounds.lower / least))) if least > 1e-12 * size else None
        yield "λ_min", lowest, _spectrum(exact, n, singular), None, tight
        yield (
            f"λ_max, {upper}",
            highest,
            _spectrum(exact, n, singular),
            None,
            max(0.0, bounds.upper / size - 1) if size else None,
        )
        if not large and Y.any():  # labels of 0 have no rates, which is said in one line
            yield "largest rate", op.max_learning_rate(q), _largest_rate(exact, n)
    if "steps" in asked and not large and size:
        target = float(10.0 ** rng.uniform(-6, 0))
        reached = op.steps_to_loss(q, target=target, lr=float(min(lr, 1.9 / size)))
        yield "steps to a loss", reached.bracketed, _steps(exact, columns, float(reached.lr), target, n)


def _traced(exact: Any, ridge: float, n: int) -> Any:
    """tr H(H + ridge)⁻¹ = n − ridge tr(H + ridge)⁻¹."""
    try:
        inverse = truth.inverse_form(exact, [truth.column(list(row)) for row in np.eye(n)], ridge, n)
    except ZeroDivisionError:
        return _between(None)
    return _between(truth.number(float(n)) - inverse * truth.number(ridge))


def _between_squares(square: Any) -> Any:
    """As `_between`, for the square of a number whose sides were squared in float64: three roundings wider."""
    inside = _between(square)

    def check(lower: Any, upper: Any) -> tuple[bool | None, str]:
        grown = 1 + 8 * np.finfo(float).eps
        return inside(lower / grown, upper if upper is None else upper * grown)

    return check


def _inverse(exact: Any, columns: Any, ridge: float, n: int, singular: bool) -> Any:
    """yᵀ(H + ridge)⁻¹y; without a ridge it is infinite where H is singular and y has a part in its null space."""
    if all(column[i, 0] == 0 for column in columns for i in range(n)):  # of labels of 0 it is 0, whatever H is
        return _between(truth.number(0.0))
    if singular and not ridge:

        def endless(lower: Any, upper: Any) -> tuple[bool | None, str]:
            finite = upper is not None and bool(np.isfinite(upper))
            return (not finite), "finite where H is singular" if finite else ""

        return endless
    try:
        return _between(truth.inverse_form(exact, columns, ridge, n))
    except ZeroDivisionError:
        return _between(None)


def _spectrum(exact: Any, n: int, singular: bool) -> Any:
    def check(lower: Any, upper: Any) -> tuple[bool | None, str]:
        if singular and lower is not None and lower > 0:
            return False, f"λ_min ≥ {lower!r} of a singular matrix"
        one, known = truth.identity(n), []
        if upper is not None:
            known.append(truth.definite(truth.times(one, float(upper)) - exact, n))
        if lower:
            known.append(truth.definite(exact - truth.times(one, float(lower)), n))
        if False in known:
            return False, f"[{lower!r}, {upper!r}]"
        return (None, "equal to the digits computed") if None in known else (True, "")

    return check


def _largest_rate(exact: Any, n: int) -> Any:
    """2/λ_max: λ_max < 2/lower, and not λ_max < 2/upper."""

    def check(lower: Any, upper: Any) -> tuple[bool | None, str]:
        one = truth.identity(n)
        if lower and truth.definite(times_inverse(one, 2.0, lower) - exact, n) is False:
            return False, f"{lower!r} is above 2/λ_max"
        if upper and np.isfinite(upper) and truth.definite(times_inverse(one, 2.0, upper) - exact, n) is True:
            return False, f"{upper!r} is below 2/λ_max"
        return True, ""

    def times_inverse(A: Any, factor: float, by: float) -> Any:
        return truth.times(A, truth.number(factor) / truth.number(float(by)))

    return check


def _steps(exact: Any, columns: Any, lr: float, target: float, n: int) -> Any:
    """loss(upper) ≤ target·loss(0), and loss(lower − 1) above it."""

    def check(lower: Any, upper: Any) -> tuple[bool | None, str]:
        start = truth.loss(exact, columns, 0, lr, 0.0, n) * truth.number(target)
        at = lambda step: truth.loss(exact, columns, int(step), lr, 0.0, n)  # noqa: E731
        if upper is not None and np.isfinite(upper) and truth.below(start, at(upper)):
            return False, f"the loss is above the target at step {upper}"
        if lower and np.isfinite(lower) and truth.below(at(lower - 1), start):
            return False, f"the loss is below the target at step {lower - 1}"
        return True, ""

    return check


def _matrix(rng: np.random.Generator, n: int, place: str, cluster: Any) -> tuple[Any, Any, bool, str]:
    """H as the package has it, the exact one, whether that is singular for certain, and what it is."""
    if rng.random() < 0.65 or cluster is not None:
        X, what = _rows(rng, n)
        engine, dtype = ENGINES[int(rng.integers(len(ENGINES)))] if cluster is None else ("dask", "float64")
        more: dict[str, Any] = {"place": place} if engine == "stored" else {"cluster": cluster} if cluster else {}
        dtype = "float64" if what.startswith("scales") else dtype  # float32 has no numbers for such entries
        H = op.gram(op.kernels.TwoLayer(), X, engine, dtype=dtype, **more)
        rows = np.asarray(X, dtype=np.float64)
        words = f"rows: {what}, {'float32 rows, ' if X.dtype == np.float32 else ''}{engine} {dtype}"
        return H, truth.two_layer(rows), _repeats(rows), words
    values, singular, what = _numbers(rng, n)
    return op.engines.as_gram(values), truth.matrix(values.tolist()), singular, f"numbers: {what}"


def _repeats(X: np.ndarray) -> bool:
    """Whether two rows are equal: the labels are drawn so that they tell them apart."""
    return len(np.unique(X, axis=0)) < len(X)


def _rows(rng: np.random.Generator, n: int) -> tuple[np.ndarray, str]:
    d = int(rng.integers(1, 8))
    what = str(rng.choice(
        ["normal", "unit", "repeated", "opposite", "multiples", "near", "whole", "one-hot", "scales", "flat", "one direction"]
    ))  # fmt: skip
    X = rng.standard_normal((n, d))
    if what == "unit":
        X /= np.linalg.norm(X, axis=1, keepdims=True)
    elif what == "repeated":
        X = X[rng.integers(0, max(1, n // 2), n)]
    elif what == "opposite":
        X[n // 2 :] = -X[: n - n // 2]
    elif what == "multiples":
        X[n // 2 :] = 2.0 ** rng.integers(-3, 4) * X[: n - n // 2]
    elif what == "near":
        X = X[rng.integers(0, max(1, n // 2), n)] + 10.0 ** rng.integers(-16, -1) * rng.standard_normal((n, d))
    elif what == "whole":
        X = rng.integers(-3, 4, (n, d)).astype(float)
    elif what == "one-hot":
        X = np.eye(d)[rng.integers(0, d, n)]
    elif what == "scales":
        X *= 10.0 ** rng.integers(-20, 20, (n, 1))
    elif what == "flat":
        X = rng.standard_normal((n, 40))
    elif what == "one direction":
        X = np.abs(X[:, :1]) * np.ones((1, d))
    if rng.random() < 0.15:
        X = X.astype(np.float32)
    X[~X.any(axis=1), 0] = 1.0
    return X, f"{what}, d = {X.shape[1]}"


def _numbers(rng: np.random.Generator, n: int) -> tuple[np.ndarray, bool, str]:
    """A matrix that is exactly positive semi-definite: BBᵀ of small whole numbers, scaled by powers of two."""
    what = str(rng.choice(["full", "rank", "identity", "scaled", "diagonal", "ones", "wide", "clustered"]))
    rank = int(rng.integers(1, n)) if what == "rank" and n > 1 else n + 2
    B = rng.integers(-4, 5, (n, rank)).astype(float)
    H = B @ B.T
    singular = False
    if what == "rank" and n > 1:
        singular = True
    elif what == "identity":
        H = np.eye(n) * 2.0 ** rng.integers(-30, 30)
    elif what == "scaled":
        D = 2.0 ** rng.integers(-12, 13, n)
        H = D[:, None] * H * D
    elif what == "diagonal":
        H = np.diag(2.0 ** rng.integers(-40, 20, n).astype(float))
    elif what == "ones":
        H, singular = np.ones((n, n)) * float(rng.integers(1, 9)), n > 1
    elif what == "wide":
        H = H + np.diag(2.0 ** rng.integers(-30, 20, n).astype(float))
    elif what == "clustered":
        H = np.eye(n) + np.ones((n, n)) * 2.0**-20 + np.diag(2.0**-40 * rng.integers(0, 3, n))
    if not singular:
        singular = truth.definite(truth.matrix(H.tolist()), n) is not True
    return H, singular, what


def _labels(rng: np.random.Generator, H: Any, n: int) -> tuple[np.ndarray, str]:
    k = int(rng.choice([1, 1, 1, 2, 3]))
    what = str(rng.choice(["signs", "real", "range", "top", "tiny", "huge"]))
    Y = rng.standard_normal((n, k))
    if what == "signs":
        Y = rng.choice([-1.0, 1.0], (n, k))
    elif what == "range":
        Y = np.asarray(H @ Y)
    elif what == "top":
        Y = np.linalg.eigh(H.dense())[1][:, -k:]
    elif what in ("tiny", "huge"):
        Y = Y * 10.0 ** (20 if what == "huge" else -20)
    return Y.reshape(n, -1), f"{what} labels, k = {Y.shape[1]}"
