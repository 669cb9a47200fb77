"""Conditions of the statements: each turns at the radius, or the size, that its formula gives."""

import numpy as np
import pytest
from away_cases import deep, subject_of, unit_rows

from overparam.audits import conditions
from overparam.audits.convergence_12_13_descent import EPSILON, Descent, asked_of

L, M, N, K = 3, 8, 4, 2
LOG = np.log(M)


@pytest.fixture(scope="module")
def subject():
    return deep(n=N, width=M, depth=L + 1, outputs=K)


def status(found, part):
    (one,) = [a.status for a in found if part in a.statement]
    return one


@pytest.mark.parametrize("C", [1.0, 30.0])
@pytest.mark.parametrize(
    ("asked", "part", "limit", "holds_below"),
    [
        (conditions.of_products, "C/L^{3/2}", lambda C: C / L**1.5, True),
        # m ω^{2/3} L signs may change, and as many as C m/(L³ log m) are allowed
        (conditions.of_products, "C m/(L³ log m)", lambda C: (C / (L**4 * LOG)) ** 1.5, True),
        (conditions.of_signs, "log n", lambda C: (np.log(N) / (C * M * L)) ** 1.5, False),
        (conditions.of_signs, "9/2", lambda C: C / (L**4.5 * LOG**3), True),
        (conditions.of_kernel, "L⁹", lambda C: C / (L**9 * LOG**1.5), True),
        (conditions.of_kernel, "k^{3/2}", lambda C: K**1.5 / (C * (M * L * LOG) ** 1.5), False),
    ],
)
def test_a_condition_turns_at_the_radius_of_its_formula(subject, asked, part, limit, holds_below, C):
    below, above = (asked(subject.but(omegas=(share * limit(C),)), C) for share in (0.999, 1.001))
    assert (status(below, part) == "met") is holds_below
    assert (status(above, part) == "met") is not holds_below


@pytest.mark.parametrize(("algorithm", "batch"), [("gradient descent", N), ("SGD", 1)])
def test_theorems_1_and_2_ask_for_the_rate_and_the_steps_of_their_statements(subject, algorithm, batch):
    delta = subject.separation
    rate, steps = K * delta / (N**4 * L**2 * M), N**6 * L**2 / delta**2 * np.log(1 / EPSILON)
    if algorithm == "SGD":
        rate = batch * K * delta / (N**5 * L**2 * M * LOG**2)
        steps = N**7 * L**2 * LOG**2 / (batch * delta**2) * np.log(N * LOG / EPSILON)

    def found(share):
        run = Descent(algorithm, N, np.array([0, round(steps / share)]), np.ones(2), np.ones(2), share * rate, batch)
        return asked_of(subject, run)

    kept, broken = found(0.999), found(1.001)
    for part in ("lr", "steps"):
        assert (status(kept, part), status(broken, part)) == ("met", "unmet")
    assert status(kept, "width") == "unmet"  # 8 neurons


def test_theorem_1_asks_for_rows_that_differ(subject):
    twins = subject_of(subject.network, np.repeat(unit_rows(1, 3), N, axis=0))
    run = Descent("gradient descent", N, np.arange(2), np.ones(2), np.ones(2), 0.1, N)
    assert status(asked_of(twins, run), "no two rows are equal") == "unmet"
