"""The worst that any W′ of radius ω can do to a small network, by trying all sets of units: exact, or a bound that no W′ passes.

One output, weights b. With one trained layer g of a sample goes anywhere within its reach ω‖h‖, and turning a set S of units
costs Σ_S g². With two, the reach of the second is at most what W_2 passes on of the first one's and ω‖h_1‖ for what h_1 can become. Sets of the
second of two layers, and pairs of sets of two samples, are left out where a multiplier proves that no W′ turns them: what is left is a bound.
"""

from collections.abc import Callable
from dataclasses import replace
from itertools import product

import numpy as np
from away_cases import TINY, subject_of, unit_rows

from overparam.audits.convergence_8_backward import backward_stability, intermediate_stability
from overparam.audits.convergence_8_forward import forward_stability, sign_changes
from overparam.audits.convergence_9_10_gradients import gradient_bounds
from overparam.audits.convergence_11_smoothness import Bases, linearisation, semi_smoothness, tangent_drift
from overparam.audits.convergence_b_convolutional import convolutional_stability
from overparam.audits.convergence_c_residual import residual_stability
from overparam.networks import Convolutional, FullyConnected, Residual

RADII = (0.05, 0.2, 0.6)
STEPS = 60
"""Towards a proof that a set of units is too far away."""


def all_sets(count):
    """(2^count, count): every set of units."""
    return np.array(list(product([False, True], repeat=count)))


def affordable(g, reach):
    """The sets that a sample's g can turn."""
    sets = all_sets(len(g))
    return sets[sets @ g**2 < reach**2]


def most_turned(g, reach):
    """The most units that can turn: the smallest |g| first."""
    return int(np.searchsorted(np.cumsum(np.sort(g**2)), reach**2))


def _least(Z, g, other, one, two):
    """The least zᵀZz of the movement z of a unit in two samples, which turns it in each or does not."""
    ways = [(1 if near >= 0 else -1) * (-1 if turned else 1) for near, turned in ((g, one), (other, two))]
    Z = Z * np.outer(ways, ways)  # now each coordinate is at least ±|g|
    a, c = abs(g) * (1 if one else -1), abs(other) * (1 if two else -1)
    if a <= 0 and c <= 0:
        return 0.0
    ends = [(a, max(c, -Z[0, 1] * a / Z[1, 1])), (max(a, -Z[0, 1] * c / Z[0, 0]), c)]
    return min(Z[0, 0] * x**2 + 2 * Z[0, 1] * x * y + Z[1, 1] * y**2 for x, y in ends)


class Small:
    """A subject of two or three ReLU layers and one output: h below, g above, b, and how far each g reaches at ω = 1."""

    def __init__(self, subject):
        self.subject, start = subject, subject.start
        self.g, self.h = start.pre_activations, start.activations
        self.b = np.asarray(subject.params.fixed["B"])[0]
        self.last = np.asarray(subject.weights[f"W{subject.depth}"])

    def below(self):
        """(n, positions): how far the g of layer 1 goes at ω = 1, where it is not the last."""
        network, h = self.subject.network, self.h[0]
        if hasattr(network, "grid"):
            (P,) = network.grid
            parts = (h.reshape(len(h), P, -1) ** 2).sum(axis=2)
            around = [(j - (network.patch - 1) // 2 + np.arange(network.patch)) % P for j in range(P)]
            return np.sqrt(np.stack([parts[:, seen].sum(axis=1) for seen in around], axis=1))
        return getattr(network, "tau", 1.0) * np.linalg.norm(h, axis=1, keepdims=True)

    def reach(self, omega):
        """How far the g of the last layer goes: exact with one trained layer, a bound with two."""
        size = omega * np.linalg.norm(self.h[-2], axis=1)
        if self.subject.depth == 1:
            return size
        first = omega * np.linalg.norm(self.below(), axis=1)
        passed = [np.linalg.norm(self.last[:, moving], 2) for moving in self.moving(omega)]
        return size + (omega + np.array(passed)) * first

    def moving(self, omega):
        """(n, units): which h of layer 1 can move at all."""
        return (self.positions() > -omega * self.below()[:, :, None]).reshape(len(self.g[1]), -1)

    def turnable(self, i, omega):
        """The sets of the last layer of two that no λ ≥ 0 of length 1 proves too far away.

        With δ what h of layer 1 moves, W′ pays for what W δ leaves: ‖(|g| + s∘Wδ)_S‖ ≥ λᵀ|g| − ‖δ‖ ‖W_Sᵀ(s∘λ)‖, and has ω(‖h‖ + ‖δ‖).
        """
        sets, g, W = all_sets(self.g[-1].shape[1]), self.g[-1][i], self.last[:, self.moving(omega)[i]]
        first = omega * np.linalg.norm(self.below()[i])
        budget = omega * (np.linalg.norm(self.h[-2][i]) + first)
        s, G = np.where(g >= 0, 1.0, -1.0), W @ W.T
        proofs, proven = sets * np.abs(g), np.zeros(len(sets))
        for step in range(STEPS):
            proofs /= np.maximum(np.linalg.norm(proofs, axis=1, keepdims=True), 1e-300)
            passed = (proofs * s) @ G * s
            length = np.sqrt(np.maximum((passed * proofs).sum(axis=1), 1e-300))
            proven = np.maximum(proven, proofs @ np.abs(g) - first * length)
            proofs = np.maximum(proofs + sets * (np.abs(g) - first * passed / length[:, None]) / (1 + step), 0.0)
        return sets[proven <= budget * (1 + 1e-9)]

    def positions(self):
        """g of layer 1, (n, positions, units)."""
        return self.g[1].reshape(*self.below().shape, -1)

    def stability(self, omega):
        """By quantity: signs, signal of turned units, movement of g in the last layer and before it, change of B D_L W_L ⋯ D_a."""
        far, rows = self.reach(omega), range(len(self.h[0]))
        if self.subject.depth == 1:
            return {
                "signs": max(most_turned(self.g[-1][i], far[i]) for i in rows),
                "signal": (far - np.abs(self.g[-1]).min(axis=1)).max(),
                "last": far.max(),
                "moved": far.max(),
                "back": max(np.sqrt((affordable(self.g[-1][i], far[i]) @ self.b**2).max()) for i in rows),
            } | self._alone(omega, far)
        sets = [self.turnable(i, omega) for i in rows]
        near, g = omega * self.below(), self.positions()
        turned = [sum(map(most_turned, g[i], near[i])) for i in rows]
        over = np.maximum(near - np.abs(g).min(axis=2), 0.0)
        hidden = np.linalg.norm(near, axis=1).max()
        return {
            "signs": max(*(turned.sum(axis=1).max() for turned in sets), *turned),
            "signal": max((far - np.abs(self.g[-1]).min(axis=1)).max(), np.linalg.norm(over, axis=1).max()),
            "last": far.max(),
            "moved": max(far.max(), hidden),
            "hidden": hidden,
            "back": max(self._longest(i, near[i], sets[i], omega) for i in rows),
        }

    def _alone(self, omega, far):
        """Of one trained layer: the length of its product, and what turned units do to gradient and output of a sample."""
        drift = bend = 0.0
        for g, R in zip(self.g[-1], far, strict=True):
            own = ((g >= 0) * self.b**2).sum()
            drift = max(drift, np.sqrt((affordable(g, R) @ self.b**2).max() / own))
            bend = max(bend, self._bent(g, R, 1), self._bent(g, R, -1))
        return {"product": np.linalg.norm(self.last, 2) + omega, "drift": drift, "bend": bend}

    def _bent(self, g, R, sign):
        """The most that ± the output of a sample bends away from first order: max over sets S of one sign of b of R‖b_S‖ − Σ_S |b_j g_j|."""
        sets = all_sets(len(self.b))
        sets = sets[~(sets & (sign * self.b < 0)).any(axis=1)]
        return (R * np.sqrt(sets @ self.b**2) - sets @ np.abs(g * self.b)).max()

    def remainders(self, omega):
        """Of the loss of the first sample, beside which the others do not count, at W⁰ and at the W of that radius along training.

        Its residual is negative and stands still: units with b < 0 raise its loss.
        """
        subject, R, r = self.subject, self.reach(omega)[0], abs(self.subject.residuals[0, 0])
        W = np.asarray(Bases(subject, away=True).at(omega)[0]["W1"])
        return {"at the start": r * self._bent(self.g[-1][0], R, -1), "away": r * self._bent(W @ self.h[-2][0], R, -1)}

    def _longest(self, i, near, sets, omega):
        """‖(b∘D_2)(W_2 + W′)D_1 − the same at the start‖, and of b∘D_2 alone, over sets that can turn, W′ adding ω‖b∘D_2‖ at most."""
        g = self.positions()[i]
        firsts = [np.concatenate(sets) for sets in product(*(affordable(*one) for one in zip(g, near, strict=True)))]
        on = self.g[1][i] >= 0
        gates = np.array(firsts) ^ on
        most = np.sqrt((sets @ self.b**2).max())
        for turned in sets:
            kept = self.b * ((self.g[2][i] >= 0) ^ turned)
            changes = (kept @ self.last) * gates - ((self.b * (self.g[2][i] >= 0)) @ self.last) * on
            most = max(most, np.linalg.norm(changes, axis=1).max() + omega * np.linalg.norm(kept))
        return most

    def together(self, omega):
        """Of two samples: the shares of ‖b‖² that are on in the first, the second and both, for every pair of sets that may turn.

        Δ = (δ_1, δ_2) is W′(h_1, h_2) for some W′ of norm ω where ⟨Z, ΔᵀΔ⟩ ≤ ω² for all Z of trace 1 in the h's own coordinates.
        """
        (g, other), reach = self.g[-1], self.reach(omega)
        sets = [affordable(own, far) for own, far in zip((g, other), reach, strict=True)]
        values, vectors = np.linalg.eigh(self.h[-2] @ self.h[-2].T)
        root, may = vectors / np.sqrt(values), np.ones((len(sets[0]), len(sets[1])), bool)
        for angle, share in product(np.pi * np.arange(24) / 24, np.arange(6) / 10):
            turn = np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])
            Z = root @ turn @ np.diag([1 - share, share]) @ turn.T @ root.T
            least = {(one, two): np.array([_least(Z, *pair, one, two) for pair in zip(g, other, strict=True)])
                     for one, two in product((False, True), repeat=2)}  # fmt: skip
            none, first, second = least[False, False], least[True, False], least[False, True]
            both = least[True, True] - first - second + none
            spent = (
                none.sum()
                + (sets[0] @ (first - none))[:, None]
                + sets[1] @ (second - none)
                + (sets[0] * both) @ sets[1].T
            )
            may &= spent <= omega**2 * (1 + 1e-9)
        on = [turned ^ (own >= 0) for turned, own in zip(sets, (g, other), strict=True)]
        own = [kept @ self.b**2 for kept in on]
        both = (on[0] * self.b**2) @ on[1].T
        return np.broadcast_to(own[0][:, None], may.shape)[may], np.broadcast_to(own[1], may.shape)[may], both[may]

    def gradients(self, omega):
        """‖∇F‖²/F most and least, its largest by sample, and ‖∇F‖²/max F_i least, where targets are so large that losses stand still."""
        r = -self.subject.y[:, 0]
        first, second, both = self.together(omega)
        H = self.h[-2] @ self.h[-2].T * np.outer(r, r)
        squares = H[0, 0] * first + H[1, 1] * second + 2 * H[0, 1] * both
        F = 0.5 * r**2
        return {
            "most": squares.max() / F.sum(),
            "least": squares.min() / F.sum(),
            "sample": max(H[0, 0] * first.max() / F[0], H[1, 1] * second.max() / F[1]),
            "least of last": squares.min() / F.max(),
        }

    def pairs(self, omega):
        """All of two samples."""
        return self.gradients(omega) | {"drift of the kernel": self.kernel(omega)}

    def kernel(self, omega):
        """The most |K − K⁰|/√(K⁰K⁰) of two samples and their pair."""
        first, second, both = self.together(omega)
        on = [(g >= 0) for g in self.g[-1]]
        own = [(signs * self.b**2).sum() for signs in on]
        apart = self.h[-2] / np.linalg.norm(self.h[-2], axis=1, keepdims=True)
        pair = (
            np.abs(both - (on[0] * on[1] * self.b**2).sum()).max() * abs(apart[0] @ apart[1]) / np.sqrt(own[0] * own[1])
        )
        return max(pair, np.abs(first / own[0] - 1).max(), np.abs(second / own[1] - 1).max())


HUGE = 1e8
"""A target beside which outputs do not count, so that a loss stands still while signs turn."""


def _subject(net, key, rows=3, y=None, architecture="fully connected", inputs=3):
    subject = subject_of(net, unit_rows(rows, inputs, key), omegas=RADII, effort=TINY, y=y, key=key)
    return replace(subject, architecture=architecture)


ONE = {
    "signs": "sign changes",
    "signal": "signal of changed units",
    "moved": "forward stability",
    "back": "backward stability",
}
CASES: dict[str, tuple[Callable, tuple, str, dict[str, str]]] = {
    "one layer": (
        lambda key: _subject(FullyConnected(10, 2), key),
        (sign_changes, forward_stability, intermediate_stability, backward_stability, tangent_drift, linearisation),
        "stability",
        {law: key for key, law in ONE.items()} | {"forward stability before the ReLU": "last", "intermediate stability": "product", "gradient drift": "drift", "linearisation": "bend"},
    ),
    "one layer, one loss that dominates": (
        lambda key: _subject(FullyConnected(10, 2), key, y=np.array([[HUGE], [0.0], [0.0]])),
        (semi_smoothness,),
        "remainders",
        {"semi-smoothness": "at the start", "semi-smoothness away from the start": "away"},
    ),
    "one layer, two samples": (
        lambda key: _subject(FullyConnected(10, 2), key, 2, np.array([[HUGE], [-HUGE / 2]])),
        (gradient_bounds, tangent_drift),
        "pairs",
        {
            "gradient upper bound": "most", "gradient upper bound by layer": "most", "gradient upper bound by sample": "sample", "no critical point": "least",
            "gradient lower bound": "least of last", "kernel drift": "drift of the kernel",
        },
    ),
    "two layers": (
        lambda key: _subject(FullyConnected(8, 3), key),
        (sign_changes, forward_stability, backward_stability),
        "stability",
        {law: key for key, law in ONE.items() if key != "moved"} | {"forward stability before the ReLU": "moved"},
    ),
    **{
        f"residual, {count}": (
            lambda key, depth=depth: _subject(Residual(8, depth, c=1.0), key, architecture="residual"),
            (residual_stability,),
            "stability",
            {"residual sign changes": "signs", "residual forward stability of the last layer": "last", "residual backward stability": "back"}
            | ({"residual forward stability": "hidden", "residual forward stability, layers summed": "hidden"} if depth == 3 else {}),
        )
        for count, depth in (("one layer", 2), ("two layers", 3))
    },
    **{
        f"convolutional, {count}": (
            lambda key, depth=depth: _subject(Convolutional(3, depth, 3), key, architecture="convolutional"),
            (convolutional_stability,),
            "stability",
            {f"convolutional {law}": key for key, law in ONE.items()},
        )
        for count, depth in (("one layer", 2), ("two layers", 3))
    },
}  # fmt: skip
"""By name: a network for a draw, what is measured, which optima, and by law its quantity. Optima of two layers, and of two samples, are bounds."""


def shares(name, key=0, known=None):
    """By law: what its adversary finds of the optimum at each radius; of a lower bound the optimum over what is found.

    known: of a subject and ω, other optima than ours.
    """
    make, measures, optima, laws = CASES[name]
    subject = make(key)
    known = [known(subject, omega) if known else getattr(Small(subject), optima)(omega) for omega in RADII]
    reached = {}
    for finding in (f for measure in measures for f in measure(subject)):
        if finding.moment == "adversarial" and laws.get(finding.law.name) in known[0]:
            best = np.array([one[laws[finding.law.name]] for one in known])
            some = best > 0  # a small radius turns nothing
            over, under = (best, finding.values) if finding.law.side == "lower" else (finding.values, best)
            reached[finding.law.name] = over[some] / under[some]
    return reached
