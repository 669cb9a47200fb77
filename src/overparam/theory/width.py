"""What the theorems ask of width, initialisation scale, rate and steps, with the constants they hide as arguments."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, final

import numpy as np

from overparam.core.bracketed import Assumption, checked
from overparam.core.words import count_of

Relation = Literal["≥", "≤"]


@final
@dataclass(frozen=True)
class Requirement:
    """One inequality: `quantity` `relation` `needed`; `given` is what the run has, None where not said."""

    quantity: str
    relation: Relation
    needed: float
    given: float | None
    formula: str

    @property
    def met(self) -> bool | None:
        """True or False; None where nothing was given."""
        if self.given is None:
            return None
        return bool(self.given >= self.needed if self.relation == "≥" else self.given <= self.needed)


@final
@dataclass(frozen=True)
class Conditions:
    """The requirements of one theorem, all of which must hold, and what it then says."""

    theorem: str
    requirements: tuple[Requirement, ...]
    conclusion: str
    reference: str

    @property
    def met(self) -> bool | None:
        """Whether every requirement is met; None where none fails and some was not given."""
        states = [requirement.met for requirement in self.requirements]
        return False if False in states else None if None in states else True

    @property
    def assumptions(self) -> tuple[Assumption, ...]:
        """The requirements as lines of a result."""
        return tuple(
            checked(
                f"{r.quantity} {r.relation} {r.formula}",
                r.met,
                f"needs {r.needed:.3g}" + ("" if r.given is None else f", has {r.given:.3g}"),
            )
            for r in self.requirements
        )

    def needed(self, quantity: str) -> float:
        """The binding value for one quantity: the largest lower or smallest upper one."""
        found = [r for r in self.requirements if r.quantity == quantity]
        if not found:
            raise ValueError(f"{self.theorem} asks nothing of {quantity!r}; it asks of {self._quantities()}")
        values = [r.needed for r in found]
        return max(values) if found[0].relation == "≥" else min(values)

    def _quantities(self) -> str:
        return ", ".join(dict.fromkeys(r.quantity for r in self.requirements))


def convergence_conditions(
    n: int,
    lambda_min: float,
    kappa: float,
    delta: float = 0.05,
    *,
    width: int | None = None,
    lr: float | None = None,
    width_constant: float = 1.0,
    rate_constant: float = 1.0,
) -> Conditions:
    """When the loss falls by 1 − ηλ_0/2 a step: m ≥ c n⁶/(λ_0⁴ κ² δ³), η ≤ c′ λ_0/n² (summed loss).

    Ref: fine_grained, Thm 3.1

    Assumes: unit rows, labels in [−1, 1], λ_0 = λ_min(H) > 0.

    Differs from the paper: c and c′ are arguments, 1 unless given; the theorem only says they exist.

    Args:
        n: samples.
        lambda_min: λ_0.
        kappa: the standard deviation of the initial weights.
        delta: failure probability.
        width, lr: of the run, where it should be judged.
        width_constant, rate_constant: c and c′.

    >>> convergence_conditions(n=10, lambda_min=0.5, kappa=1.0, delta=0.5).needed("width")  # 10⁶·2⁴·2³
    128000000.0
    """
    lam, kappa, delta = _checked(n, lambda_min, kappa, delta)
    return Conditions(
        "Theorem 3.1",
        (
            _width(width_constant * float(n) ** 6 / lam**4 / kappa**2 / delta**3, width, "c n⁶/(λ_0⁴κ²δ³)"),
            _rate(rate_constant * lam / n**2, lr),
        ),
        "with probability 1 − δ the loss falls at every step by the factor 1 − ηλ_0/2 or more",
        "fine_grained, Thm 3.1",
    )


def trajectory_conditions(
    n: int,
    lambda_min: float,
    kappa: float,
    epsilon: float = 0.1,
    delta: float = 0.05,
    *,
    width: int | None = None,
    lr: float | None = None,
    width_constant: float = 1.0,
    rate_constant: float = 1.0,
    scale_constant: float = 1.0,
) -> Conditions:
    """When ‖y − u(s)‖ follows the formula within ε at every step.

        κ ≤ c″ εδ/√n,   m ≥ c n⁷/(λ_0⁴ κ² δ⁴ ε²),   η ≤ c′ λ_0/n²

    Ref: fine_grained, Thm 4.1

    Assumes: unit rows, labels in [−1, 1], λ_0 = λ_min(H) > 0.

    Differs from the paper: the constants are arguments, 1 unless given.

    Args:
        n: samples.
        lambda_min: λ_0.
        kappa: the standard deviation of the initial weights.
        epsilon: the accuracy, of the norm of the residual.
        delta: failure probability.
        width, lr: of the run, where it should be judged.
        width_constant, rate_constant, scale_constant: c, c′ and c″.

    >>> round(trajectory_conditions(n=100, lambda_min=0.1, kappa=1e-3).needed("kappa"), 12)  # 0.1·0.05/10
    0.0005
    """
    lam, kappa, delta = _checked(n, lambda_min, kappa, delta)
    if not epsilon > 0:
        raise ValueError(f"`epsilon` is {epsilon!r}; expected a positive number")
    most = scale_constant * epsilon * delta / float(np.sqrt(n))
    needed = width_constant * float(n) ** 7 / lam**4 / kappa**2 / delta**4 / epsilon**2
    return Conditions(
        "Theorem 4.1",
        (
            Requirement("kappa", "≤", most, kappa, "c″ εδ/√n"),
            _width(needed, width, "c n⁷/(λ_0⁴κ²δ⁴ε²)"),
            _rate(rate_constant * lam / n**2, lr),
        ),
        "with probability 1 − δ the norm of the residual is within ε of the prediction at every step",
        "fine_grained, Thm 4.1, Eq. (8)",
    )


def generalization_conditions(
    n: int,
    lambda_min: float,
    kappa: float,
    delta: float = 0.05,
    *,
    width: int | None = None,
    lr: float | None = None,
    steps: int | None = None,
    width_constant: float = 1.0,
    rate_constant: float = 1.0,
    scale_constant: float = 1.0,
    step_constant: float = 1.0,
) -> Conditions:
    """What the generalisation bound asks: κ ≤ c″ λ_0 δ/n, m ≥ κ⁻² poly(n, 1/λ_0, 1/δ), s ≥ c‴ log(n/δ)/(ηλ_0).

    The polynomial is read off the proof: each finite-width term of Lemmas 5.3 and 5.4 must be at most the 1/√n it is
    absorbed in, which gives one lower bound on m a term; all are listed.

    Ref: fine_grained, Thm 5.1, Lemma 5.3, Lemma 5.4

    Assumes: unit rows, labels in [−1, 1], λ_0 > 0.

    Differs from the paper: constants are arguments, 1 unless given, and poly(·) is spelled out.

    Args:
        n: samples.
        lambda_min: λ_0.
        kappa: the standard deviation of the initial weights.
        delta: failure probability.
        width, lr, steps: of the run, where it should be judged.
        width_constant, rate_constant, scale_constant, step_constant: c of every width, c′, c″ and c‴.

    >>> conditions = generalization_conditions(n=10, lambda_min=0.5, kappa=1.0, delta=0.5, width=10**6)
    >>> conditions.met, conditions.needed("width")  # binding: n⁸/(λ_0⁶κ²δ⁴)
    (False, 102400000000.0)
    """
    lam, kappa, delta = _checked(n, lambda_min, kappa, delta)
    N = float(n)
    widths = (
        (N**6 / lam**4 / kappa**2 / delta**3, "c n⁶/(λ_0⁴κ²δ³), Thm 3.1"),
        (N**4 * np.log(N / delta) / lam**4, "c n⁴ log(n/δ)/λ_0⁴, Eq. (38)"),
        (N**6 / lam**6 / kappa**2 / delta**3, "c n⁶/(λ_0⁶κ²δ³), Eq. (35)"),
        (N**8 / lam**6 / kappa**2 / delta**4, "c n⁸/(λ_0⁶κ²δ⁴), Eq. (36)"),
        (4 * N**5 / lam**4 / kappa**2 / delta**2, "c 4n⁵/(λ_0⁴κ²δ²), sign flips in Lemma 5.4"),
        (2 * N**3 * np.log(10 / delta) / lam**2 / delta, "c 2n³ log(10/δ)/(λ_0²δ), counting in Lemma 5.4"),
        (N**2 * np.log(10 / delta) / (2 * lam**2), "c n² log(10/δ)/(2λ_0²), concentration in Lemma 5.4"),
    )
    requirements = [Requirement("kappa", "≤", scale_constant * lam * delta / n, kappa, "c″ λ_0δ/n")]
    requirements += [_width(width_constant * needed, width, formula) for needed, formula in widths]
    requirements.append(_rate(rate_constant * lam / n**2, lr))
    rate = lr if lr is not None else rate_constant * lam / n**2
    least = step_constant * float(np.log(n / delta)) / (rate * lam)
    requirements.append(Requirement("steps", "≥", least, None if steps is None else float(steps), "c‴ log(n/δ)/(ηλ_0)"))
    return Conditions(
        "Theorem 5.1",
        tuple(requirements),
        "with probability 1 − δ the expected loss on new data is at most √(2yᵀH⁻¹y/n) + O(√(log(n/(λ_0δ))/n))",
        "fine_grained, Thm 5.1, Eq. (9)",
    )


def deep_conditions(
    n: int,
    depth: int,
    separation: float,
    outputs: int = 1,
    *,
    batch: int | None = None,
    width: int | None = None,
    lr: float | None = None,
    steps: int | None = None,
    epsilon: float = 0.01,
    constant: float = 1.0,
) -> Conditions:
    """What deep networks need for the loss to reach ε, with gradient descent or with SGD of b samples a step.

        gradient descent   m ≥ n²⁴L¹²k log⁵m/(Cδ⁸)    η ≤ C kδ/(n⁴L²m)            T ≥ n⁶L²/(Cδ²) · log(1/ε)
        SGD                m ≥ n²⁵L¹²k log⁵m/(C bδ⁸)  η ≤ C bkδ/(n⁵L²m log²m)    T ≥ n⁷L²log²m/(C bδ²) · log(n log m/ε)

    Ref: convergence, Thm 1, Thm 2

    Assumes: unit rows at distance δ or more.

    Differs from the paper: C is an argument, 1 unless given. The proof of Theorem 2 prints the width with b in the numerator;
    with ‖W(t) − W(0)‖ ≤ n^3.5 √k log m/(δ√(bm)) of (13.1) and the radius δ³/(n⁹L⁶log^1.5 m) it is in the denominator, and at
    b = n the width is gradient descent's.

    Args:
        n: samples.
        depth: L, hidden layers that are trained.
        separation: δ, the smallest distance of two rows.
        outputs: k (the paper's d).
        batch: b, samples a step of SGD; None for gradient descent.
        width, lr, steps: m, η and T of the run, where it should be judged. Without a width the smallest m is meant.
        epsilon: ε.
        constant: C.

    >>> few = deep_conditions(n=4, depth=1, separation=1.0, batch=4)
    >>> few.needed("width") == deep_conditions(n=4, depth=1, separation=1.0).needed("width")
    True
    """
    _require_positive(n, batch, depth=depth, separation=separation, outputs=outputs, epsilon=epsilon, constant=constant)
    N, L, k = float(n), float(depth), float(outputs)
    shared = N**24 * L**12 * k / (constant * separation**8) * (N / batch if batch else 1.0)
    m = float(width) if width is not None else smallest_above(shared)
    logs = max(float(np.log(m)), 1.0)
    rate = constant * k * separation / (N**4 * L**2 * m)
    least = N**6 * L**2 / (constant * separation**2)
    if batch:
        rate *= batch / (N * logs**2)
        least *= N * logs**2 / batch * max(0.0, float(np.log(N * logs / epsilon)))
    else:
        least *= max(0.0, float(np.log(1 / epsilon)))
    words = (
        ("n²⁵L¹²k log⁵m/(C bδ⁸)", "C bkδ/(n⁵L²m log²m)", "n⁷L²log²m/(C bδ²) · log(n log m/ε)")
        if batch
        else ("n²⁴L¹²k log⁵m/(Cδ⁸)", "C kδ/(n⁴L²m)", "n⁶L²/(Cδ²) · log(1/ε)")
    )
    return Conditions(
        "Theorem 2" if batch else "Theorem 1",
        (
            _width(shared * logs**5 if width is not None else m, width, words[0]),
            Requirement("lr", "≤", rate, lr, words[1]),
            Requirement("steps", "≥", least, None if steps is None else float(steps), words[2]),
        ),
        f"with high probability the loss is at most {epsilon:g} after that many steps, and falls at a linear rate",
        "convergence, Thm 2" if batch else "convergence, Thm 1",
    )


def residual_conditions(
    n: int,
    depth: int,
    separation: float,
    *,
    batch: int | None = None,
    width: int | None = None,
    steps: int | None = None,
    epsilon: float = 0.01,
    constant: float = 1.0,
) -> Conditions:
    """How many steps the residual network needs for the loss to reach ε; the width it needs is a polynomial that is not written out.

        gradient descent   T ≥ n⁶L²/(Cδ²) · log(1/ε)
        SGD                T ≥ n⁷L²log²m/(C bδ²) · log(1/ε)

    Ref: convergence, Thm 8

    Assumes: unit rows at distance δ or more, and m ≥ Ω̃(poly(n, L, 1/δ) k).

    Differs from the paper: C is an argument, 1 unless given.

    Args:
        n, depth, separation, batch, steps, epsilon, constant: as in `deep_conditions`.
        width: m, in the steps of SGD; to be given with a batch.

    Against Theorem 2's, SGD's logarithm is of 1/ε alone:

    >>> few = residual_conditions(n=4, depth=1, separation=1.0, batch=2, width=100, epsilon=0.1).needed("steps")
    >>> more = deep_conditions(n=4, depth=1, separation=1.0, batch=2, width=100, epsilon=0.1).needed("steps")
    >>> round(more / few / float(np.log(40 * np.log(100)) / np.log(10)), 12)
    1.0
    """
    _require_positive(n, batch, depth=depth, separation=separation, epsilon=epsilon, constant=constant)
    if batch is not None and width is None:
        raise ValueError("`width` is not given; the steps of SGD go with log²m: pass `width`, the m of the network")
    least = float(n) ** 6 * float(depth) ** 2 / (constant * separation**2) * max(0.0, float(np.log(1 / epsilon)))
    if batch is not None and width is not None:
        least *= n * max(float(np.log(width)), 1.0) ** 2 / batch
    formula = "n⁷L²log²m/(C bδ²) · log(1/ε)" if batch else "n⁶L²/(Cδ²) · log(1/ε)"
    return Conditions(
        "Theorem 8",
        (Requirement("steps", "≥", least, None if steps is None else float(steps), formula),),
        f"with high probability the loss is at most {epsilon:g} after that many steps, where m is a polynomial in n, L and 1/δ or more",
        "convergence, Thm 8",
    )


def smallest_above(shared: float) -> float:
    """The smallest m ≥ 3 with m ≥ shared · log⁵m from there on.

    >>> m = smallest_above(1e6)
    >>> round(m / (1e6 * float(np.log(m)) ** 5), 9)
    1.0
    """
    m = max(shared, 3.0) * 1e12  # log⁵m/m falls beyond e⁵: from above, the steps come down to the largest crossing
    for _ in range(200):
        m = max(3.0, shared * float(np.log(m)) ** 5)
    return m


def _width(needed: float, width: int | None, formula: str) -> Requirement:
    return Requirement("width", "≥", float(needed), None if width is None else float(width), formula)


def _rate(needed: float, lr: float | None) -> Requirement:
    return Requirement("lr", "≤", float(needed), None if lr is None else float(lr), "c′ λ_0/n²")


def _require_positive(n: int, batch: int | None, **given: float) -> None:
    every = {"n": n, **given} | ({} if batch is None else {"batch": batch})
    bad = [f"{name} = {value!r}" for name, value in every.items() if not 0 < value < np.inf]
    if bad or (batch or 1) > n:
        raise ValueError(
            f"expected positive numbers and a batch of at most n = {count_of(n, 'sample')}; got {', '.join(bad) or batch}"
        )


def _checked(n: int, lambda_min: float, kappa: float, delta: float) -> tuple[float, float, float]:
    if not (n >= 1 and lambda_min > 0 and kappa > 0 and 0 < delta < 1):
        raise ValueError(
            f"expected n ≥ 1, lambda_min > 0, kappa > 0, 0 < delta < 1; got {n}, {lambda_min}, {kappa}, {delta}. "
            "The theorems say nothing where λ_min = 0: drop parallel rows"
        )
    return float(lambda_min), float(kappa), float(delta)
