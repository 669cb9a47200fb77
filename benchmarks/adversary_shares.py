"""What adversaries reach of the worst that is known: `python benchmarks/adversary_shares.py [DRAWS]`.

The networks, optima and bounds are those of tests/audits/exact_optima.py, a few draws each; results go to
benchmarks/results/adversary_shares.json. Of two trained layers the optimum is a bound; there the shares are also of what a long search finds
(tests/audits/searched_optima.py), below which no optimum is. Beside them, one network of the size that people audit: the least ‖∇F‖²/F that the adversary
finds and the least that sixty plain steps of Frank and Wolfe pass.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests" / "audits"))

from exact_optima import CASES, RADII, shares
from record import processor, save
from searched_optima import SEARCHED, searched
from test_away_adversaries import least_of_plain_steps

import overparam as op
from overparam.audits.convergence_9_10_gradients import NO_CRITICAL, gradient_bounds
from overparam.audits.subject import EFFORTS, Subject

WIDTH, DEPTH, ROWS, OMEGA, STEPS, STARTS = 256, 4, 48, 0.3, 60, 3


def rows_of(name: str, draws: int) -> list[dict[str, Any]]:
    """A row a law: the least and the median share over draws and radii, of the optimum and of what a search finds."""
    of_optimum = _of_all(name, draws)
    rows = [{"case": name, "law": law, **_summary(all_)} for law, all_ in of_optimum.items()]
    of_found = _of_all(name, draws, known=searched) if name in SEARCHED else {}
    return [row | {f"found, {key}": value for key, value in _summary(of_found[row["law"]]).items()} if row["law"] in of_found else row for row in rows]  # fmt: skip


def _of_all(name: str, draws: int, **more: Any) -> dict[str, list[float]]:
    found: dict[str, list[float]] = {}
    for key in range(draws):
        for law, share in shares(name, key, **more).items():
            found.setdefault(law, []).extend(share.tolist())
    return found


def _summary(all_: list[float]) -> dict[str, Any]:
    return {"least": min(all_), "median": float(np.median(all_)), "of": len(all_)}


def wide_network() -> list[dict[str, Any]]:
    """‖∇F‖²/F of digits, ten classes and one output, by effort, beside plain steps."""
    data = op.load("digits", train=ROWS)
    X = data.X / np.linalg.norm(data.X, axis=1, keepdims=True)
    found = []
    for outputs in (10, 1):
        network = op.networks.FullyConnected(width=WIDTH, depth=DEPTH, outputs=outputs)
        params = network.init(0, X.shape[1])
        row: dict[str, Any] = {"outputs": outputs, "n": ROWS, "width": WIDTH, "depth": DEPTH, "omega": OMEGA}
        for effort in ("quick", "usual"):
            subject = Subject(network, params, X, data.y[:, :outputs], (OMEGA,), effort=EFFORTS[effort])
            by_moment = {f.moment: f for f in gradient_bounds(subject) if f.law.name == NO_CRITICAL.name}
            row |= {effort: float(by_moment["adversarial"].values[0]), "random": float(by_moment["random"].values[0])}
            row[f"rows, {effort}"] = by_moment["adversarial"].rows
        row |= {"plain steps": STEPS, "plain starts": STARTS}
        row["plain"] = min(least_of_plain_steps(subject, OMEGA, seed, STEPS) for seed in range(STARTS))
        found.append(row)
    return found


if __name__ == "__main__":
    draws = int(sys.argv[1]) if len(sys.argv) > 1 else 5
    rows = [row for name in CASES for row in rows_of(name, draws)]
    note = f"{draws} draws, radii {', '.join(map(str, RADII))}"
    save("adversary_shares", processor(), [*rows, *wide_network()], note)
