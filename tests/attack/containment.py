"""Whether what is certified holds: small matrices of every awkward kind, and the truth in 100 digits beside every bracket."""

from __future__ import annotations

import tempfile
import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
from tests.attack import truth

import overparam as op

LARGE_EVERY = 400
"""Every so many cases one has 40 to 200 rows."""
ENGINES = ("dense", "dense", "dense", "dense", "matrix_free", "stored")


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
    with tempfile.TemporaryDirectory() as place, warnings.catch_warnings():
        warnings.simplefilter("error")
        H, exact, singular, what = _matrix(rng, n, place)
        Y, labels = _labels(rng, H, n)
        rows = [_judged(*asked) for asked in _questions(rng, H, exact, Y, n, singular, large)]
    about = f"{what}, {labels}, n = {n}"
    return {
        "tally": ["matrices", *("large matrices" for _ in range(large)), *(row["verdict"] for row in rows)],
        "failed": [f"{row['verdict']}: {row['why']} ({about})" for row in rows if row["holds"] is False],
        "measured": {row["name"]: row["width"] for row in rows if "width" in row},
    }


def _judged(name: str, bracket: Any, check: Any, scale: float | None = None) -> dict[str, Any]:
    """The verdict on one bracket; `check` judges its sides; widths are told relative to `scale`, or to the value."""
    certified = bool(np.all(bracket.certified))
    holds, why = (None, "") if bracket.sense == "none" else check(bracket.lower, bracket.upper)
    word = {None: "not decided", True: "holds", False: "VIOLATED"}[holds] if bracket.sense != "none" else "an estimate"
    row = {"name": name, "holds": holds, "why": why}
    row["verdict"] = f"{name} | {bracket.sense} | {'both sides' if certified else 'one side'} | {word}"
    scale = bracket.value if scale is None else scale
    if certified and scale:
        row["width"] = float((bracket.upper - bracket.lower) / abs(scale))
    return row


def _between(exact: Any) -> Any:
    """Whether a number lies between two sides; of balls, whether that is certain or certainly not so."""

    def check(lower: Any, upper: Any) -> tuple[bool | None, str]:
        if exact is None:
            return None, "the truth cannot be told"
        for side, outside in ((lower, lambda s: exact < truth.number(s)), (upper, lambda s: exact > truth.number(s))):
            if side is not None and np.isfinite(side) and outside(float(side)):
                return False, f"{float(side)!r} against {exact}"
        return True, ""

    return check


def _questions(
    rng: np.random.Generator, H: Any, exact: Any, Y: np.ndarray, n: int, singular: bool, large: bool
) -> Iterator[tuple[Any, ...]]:
    columns = [truth.column(list(y)) for y in Y.T]
    y = Y[:, 0] if Y.shape[1] == 1 else Y
    products = None if rng.random() < 0.6 else int(rng.integers(1, n + 1))
    q = op.quadrature(H, y, max_products=products)
    size = float(np.abs(np.linalg.eigvalsh(op.engines.as_gram(H).dense())).max()) if n else 1.0
    start = 0.5 * float(np.sum(Y**2))
    asked = set(rng.permutation(["loss", "movement", "complexity", "solve", "bounds", "momentum", "flow", "steps"])[:3])
    lr = float(rng.choice([0.1, 0.5, 0.99, 1.0, 1.5, 1.95, 2.05]) / size * rng.uniform(0.9, 1.0))
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
    if "solve" in asked:
        try:
            solved = op.solve(H, y, ridge, method=str(rng.choice(["Cholesky", "conjugate gradients"])))
        except ValueError:  # not positive definite to rounding: nothing is claimed
            pass
        else:
            yield "solve", solved.bracket, _inverse(exact, columns, ridge, n, singular)
    if "bounds" in asked and not large:
        method = str(rng.choice(["auto", "cholesky", "separation", "none"])) if H.kernel is not None else "auto"
        bounds = op.eigenvalue_bounds(H, method)
        sides = op.theory.Bracketed(size, bounds.lower, bounds.upper, "rounding included")
        yield "eigenvalues", sides, _spectrum(exact, n, singular)
        rate = op.max_learning_rate(q)
        yield "largest rate", rate, _largest_rate(exact, n)
    if "steps" in asked and not large and size:
        target = float(10.0 ** rng.uniform(-6, 0))
        reached = op.steps_to_loss(q, target=target, lr=float(min(lr, 1.9 / size)))
        yield "steps to a loss", reached.bracketed, _steps(exact, columns, float(reached.lr), target, n)


def _between_squares(square: Any) -> Any:
    """As `_between`, for the square of a number whose sides were squared in float64: three roundings wider."""
    inside = _between(square)

    def check(lower: Any, upper: Any) -> tuple[bool | None, str]:
        grown = 1 + 8 * np.finfo(float).eps
        return inside(lower / grown, upper if upper is None else upper * grown)

    return check


def _inverse(exact: Any, columns: Any, ridge: float, n: int, singular: bool) -> Any:
    """yᵀ(H + ridge)⁻¹y; without a ridge it is infinite where H is singular and y has a part in its null space."""
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
        if singular and lower > 0:
            return False, f"λ_min ≥ {lower!r} of a singular matrix"
        one = truth.identity(n)
        above = truth.definite(truth.times(one, float(upper)) - exact, n)
        below = True if lower == 0 else truth.definite(exact - truth.times(one, float(lower)), n)
        if above is False or below is False:
            return False, f"[{lower!r}, {upper!r}]"
        return (True, "") if above and below else (None, "equal to the digits computed")

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
        if upper is not None and np.isfinite(upper) and at(upper) > start:
            return False, f"the loss is above the target at step {upper}"
        if lower and np.isfinite(lower) and at(lower - 1) < start:
            return False, f"the loss is below the target at step {lower - 1}"
        return True, ""

    return check


def _matrix(rng: np.random.Generator, n: int, place: str) -> tuple[Any, Any, bool, str]:
    """H as the package has it, the exact one, whether that is singular for certain, and what it is."""
    if rng.random() < 0.65:
        X, what = _rows(rng, n)
        engine = str(rng.choice(ENGINES))
        kernel = op.kernels.TwoLayer()
        more = {"place": place} if engine == "stored" else {}
        H = op.gram(kernel, X, engine, **more)
        exact = truth.two_layer(np.asarray(X, dtype=np.float64))
        return H, exact, _repeats(np.asarray(X, dtype=np.float64)), f"rows: {what}, {engine}"
    values, singular, what = _numbers(rng, n)
    return op.engines.as_gram(values), truth.matrix(values.tolist()), singular, f"numbers: {what}"


def _repeats(X: np.ndarray) -> bool:
    """Whether two rows are equal: the labels are drawn so that they tell them apart."""
    return len(np.unique(X, axis=0)) < len(X)


def _rows(rng: np.random.Generator, n: int) -> tuple[np.ndarray, str]:
    d = int(rng.integers(1, 8))
    what = str(rng.choice(
        ["normal", "unit", "repeated", "opposite", "multiples", "near", "whole", "one-hot", "scales", "float32", "one direction"]
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
    elif what == "float32":
        X = X.astype(np.float32)
    elif what == "one direction":
        X = np.abs(X[:, :1]) * np.ones((1, d))
    X[~X.any(axis=1), 0] = 1.0
    return X, f"{what}, d = {d}"


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
