"""Quadratic forms rᵀ f(H) r with brackets that are theorems, from the numbers of one Lanczos sweep."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, final

import numpy as np

from overparam.core.bracketed import Assumption, Bracketed, Sense
from overparam.core.provenance import Provenance
from overparam.spectrum.bounds import EigenvalueBounds
from overparam.spectrum.integrands import AbstractIntegrand, Estimate, Inverse
from overparam.spectrum.rules import EPS, Rule, gauss, lobatto, radau

CLEARANCE = 1e-12
"""How far prescribed nodes are moved outwards, relative to λ_max."""


@final
@dataclass(frozen=True, eq=False)
class Quadrature:
    """Lanczos coefficients of k outputs on one matrix, bounds of its eigenvalues, and what rounding did.

    `nodes` and `weights` are the Gauss rules, one row an output, padded with weight 0 where
    a run ended early because it had found everything.
    """

    alphas: np.ndarray
    betas: np.ndarray
    lengths: np.ndarray
    complete: np.ndarray
    masses: np.ndarray
    bounds: EigenvalueBounds
    perturbation: float
    n: int
    mean_diagonal: float
    products: int
    converged: bool
    notes: tuple[str, ...] = ()
    assumptions: tuple[Assumption, ...] = ()
    """What its brackets rest on: the statistical constants of rounding."""
    provenance: Provenance = field(default_factory=Provenance)
    _rules: dict[tuple[Any, ...], Rule] = field(default_factory=dict, init=False, repr=False)

    @property
    def outputs(self) -> int:
        return len(self.masses)

    @property
    def nodes(self) -> np.ndarray:
        return self._padded("nodes")

    @property
    def weights(self) -> np.ndarray:
        return self._padded("weights")

    def bracket(self, integrand: AbstractIntegrand | Callable[[np.ndarray], np.ndarray]) -> Bracketed:
        """Σ_r y_rᵀ f(H) y_r for f = `Loss(steps, lr)`, `Inverse(ridge)`; a plain callable gives an estimate.

        The brackets allow for what rounding did to H and to the sweep. After more steps than it leaves a meaning (s η times
        `perturbation` above 0.1) a falling loss is at most what it was then, and not known to be above 0. Where λ_min and the
        ridge are below `perturbation` an inverse has no upper side: labels without a part in the null space have a finite
        one, the pseudo-inverse's, which rounding cannot tell from the others. Where no finite upper side follows, the value is
        the Gauss estimate.
        """
        if not isinstance(integrand, AbstractIntegrand):
            integrand = Estimate(integrand)
        cut, late = integrand.within(self.perturbation)
        with np.errstate(over="ignore"):  # what passes float64 is infinite, and has no upper side
            sides = zip(*[self._one(output, cut) for output in range(self.outputs)], strict=True)
        values, lowers, uppers = (np.stack(side) for side in sides)
        if late.any():
            lowers, uppers = self._later(integrand, late, lowers, uppers)
        sense = "none" if isinstance(integrand, Estimate) else None
        return self.over_outputs(values, lowers, uppers, self._reason(integrand), sense)

    def held(self, value: Any, lower: Any, upper: Any, *, sense: Sense | None = None, **more: Any) -> Bracketed:
        """A bracket of a number of this sweep, in the sense in which its bounds hold and with what they rest on."""
        sense = sense or ("rounding included" if self.bounds.probability is None else "with probability p")
        probability = self.bounds.probability if sense == "with probability p" else None
        assumptions = (*more.pop("assumptions", ()), *self.assumptions)
        return Bracketed(value, lower, upper, sense, assumptions=assumptions, probability=probability, **more)

    def over_outputs(
        self, values: np.ndarray, lowers: np.ndarray, uppers: np.ndarray, why: str, sense: Sense | None = None
    ) -> Bracketed:
        """The sum over the leading axis, an output each; `why` is said where some upper side is not finite."""
        reason = "" if sense is None and np.isfinite(uppers).all() else why
        each = self.held(values, lowers, uppers, sense=sense, reason=reason)
        value, lower, upper = (_scalar(side.sum(axis=0)) for side in (values, lowers, uppers))
        return self.held(value, lower, upper, sense=sense, reason=reason, per_output=each)

    def pseudo_inverse(self) -> Bracketed | None:
        """Σ_r y_rᵀH⁺y_r of a matrix near H, where H is singular to rounding and the labels have no part in its null space.

        The sweep is exact for a matrix within ‖E‖ of H: rounding, and the last coefficient of a sweep that stopped. Directions
        with eigenvalues up to that are left out where the labels have no more in them than E puts there, 2‖E‖/λ of them for λ
        the least other eigenvalue. H itself may have no finite form: what is certified of it is `bracket(Inverse())`. None
        where H is not singular, where the labels are not in its range, or E is more than half of the digits.
        """
        values, spreads, away = np.zeros(self.outputs), np.zeros(self.outputs), 0.0
        for output in map(int, np.flatnonzero(self.masses)):
            rule, stray = self.gauss(output), self.perturbation + self.betas[output, self.lengths[output] - 1]
            seen, away = rule.nodes > stray, max(away, stray)
            if self.bounds.lower > self.perturbation or not seen.any() or stray > EPS**0.5 * rule.nodes[-1]:
                return None
            turned = 2 * stray / rule.nodes[seen].min() + 8 * EPS * self.n
            if rule.weights[~seen].sum() > turned**2 * self.masses[output]:
                return None
            kept = Rule(rule.nodes[seen], rule.weights[seen])
            values[output], spreads[output] = Inverse()(kept.nodes) @ kept.weights, Inverse().rounding(kept, stray)
        why = (
            f"not certified for H itself, which rounding cannot tell from a singular matrix ({self.bounds.lower_method}): the "
            f"sides are of a matrix within {away:.1g} of H, in whose null space the labels have no part"
        )
        lowers, uppers = np.maximum(values - spreads, 0.0), values + spreads
        return self.over_outputs(values, lowers, uppers, why, "of a nearby matrix")

    def _later(
        self, integrand: AbstractIntegrand, late: np.ndarray, lowers: np.ndarray, uppers: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Beyond what rounding leaves a meaning: a function that falls with time is between 0 and what it was."""
        falls = integrand.falls(self._top(self.gauss(int(np.argmax(self.masses)))))
        if falls is None:  # it grows, and may go on: what it was is below it
            return lowers, np.where(late, np.inf, uppers)
        return np.where(late, 0.0, lowers), uppers if falls else np.where(late, np.inf, uppers)

    def gauss(self, output: int = 0) -> Rule:
        """The Gauss rule of one output."""
        if self.masses[output] == 0:
            return Rule(np.zeros(1), np.zeros(1))
        return self._rule("gauss", output)

    def _rule(self, kind: str, output: int, *nodes: float) -> Rule:
        """A rule of one output, decomposed once: curves and bisections ask for the same ones again and again."""
        key = (kind, output, *nodes)
        if key not in self._rules:
            q = self.lengths[output]
            make = {"gauss": gauss, "radau": radau, "lobatto": lobatto}[kind]
            self._rules[key] = make(self.alphas[output, :q], self.betas[output, :q], self.masses[output], *nodes)
        return self._rules[key]

    def _one(self, output: int, integrand: AbstractIntegrand) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Value, lower and upper of one output."""
        mass, q = self.masses[output], self.lengths[output]
        if mass == 0:
            zero = np.zeros(integrand.shape)
            return zero, zero, zero
        inner = self.gauss(output)
        there = inner.weights > 0  # 1/x at a node 0 of weight 0 is nothing
        value = integrand(inner.nodes[there]) @ inner.weights[there]
        if isinstance(integrand, Estimate):
            return value, np.full_like(value, -np.inf), np.full_like(value, np.inf)
        if self.complete[output]:
            stray = self.perturbation + self.betas[output, q - 1]
            spread = integrand.rounding(inner, stray) + integrand.leak(mass, stray, self._top(inner))
            known = np.isfinite(spread)  # where rounding reaches the smallest node nothing but ≥ 0 is known
            lower = np.where(known, np.maximum(value - np.where(known, spread, 0.0), 0.0), 0.0)
            return value, lower, np.where(integrand.unbounded(self.bounds.lower, stray), np.inf, value + spread)
        return self._between(output, integrand, inner, value)

    def _between(
        self, output: int, integrand: AbstractIntegrand, inner: Rule, value: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Gauss below; above, Radau where that is a theorem and Lobatto elsewhere."""
        q = self.lengths[output]
        top = self._top(inner)
        # The rule that is computed is the exact rule of end nodes moved by rounding. It is a bound as long as
        # they lie outside the spectrum, so both are moved outwards by more than rounding can move them.
        clearance = max(CLEARANCE * top, 2 * self.perturbation)
        a = min(self.bounds.lower, inner.nodes[0])
        a, b = max(a - clearance, a / 2), top + clearance
        above = np.full(value.shape, np.inf)
        outer: list[Rule] = []
        if a < inner.nodes[0]:  # Radau is exact to one degree more: Lobatto is for where Radau is no theorem
            one_sided = integrand.radau_is_upper(b)
            outer.append(self._rule("radau", output, a) if one_sided else self._rule("lobatto", output, a, b))
        leak = integrand.leak(self.masses[output], self.perturbation, b)
        spread = integrand.rounding(inner, self.perturbation) + leak
        with np.errstate(invalid="ignore"):
            for rule in outer:
                form, outer_spread = integrand(rule.nodes) @ rule.weights, integrand.rounding(rule, self.perturbation)
                known = np.isfinite(outer_spread) & ~np.isnan(form)  # not where rounding passes the node at a
                above = np.where(known, np.fmin(above, form), above)
                spread = np.maximum(spread, np.where(known, outer_spread + leak, 0.0))
            least = self.bounds.lower if a > 0 else 0.0
            above = np.where(integrand.unbounded(least, self.perturbation), np.inf, above)
            exact = integrand.exact_below(q)
            above = np.where(exact, value, above)
            lower, upper = value - spread, np.maximum(above, value) + spread
            # where the upper side has run away (a rate near the stable limit) the middle would mean nothing
            near = np.isfinite(upper) & (upper - lower <= 0.1 * np.abs(value)) & ~exact
            middle = np.where(near, 0.5 * (lower + upper), value)
        return middle, np.fmax(lower, 0.0), upper

    def _top(self, inner: Rule) -> float:
        return max(self.bounds.upper, float(inner.nodes[-1]))

    def _reason(self, integrand: AbstractIntegrand) -> str:
        if isinstance(integrand, Estimate):
            return "not certified: the signs of this function's derivatives are not known"
        if integrand.unbounded(self.bounds.lower, self.perturbation).any():
            return f"not certified: no positive lower bound on λ_min ({self.bounds.lower_method}); use a ridge"
        return "not certified: the rate times the bound on λ_max is above 2, or the rounding passes λ_min"

    def _padded(self, name: str) -> np.ndarray:
        table = np.zeros((self.outputs, self.alphas.shape[1]))
        for output in range(self.outputs):
            rule = self.gauss(output)
            table[output, : len(rule.nodes)] = getattr(rule, name)
        return table

    def __repr__(self) -> str:
        return (
            f"Quadrature(n={self.n:,}, outputs={self.outputs}, products={self.products}, "
            f"λ in [{self.bounds.lower:.3g}, {self.bounds.upper:.6g}])"
        )


def _scalar(value: np.ndarray) -> Any:
    return value.item() if value.ndim == 0 else value
