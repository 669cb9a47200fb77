"""`audit`: what the papers' lemmas say of a network, measured on it, with a verdict and a page."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, ClassVar, final

import numpy as np

from overparam.audits.ground import Ground, checked_effort, checked_omegas, make_ground, require_dtype
from overparam.audits.inside_of import evaluation_notes
from overparam.audits.keeping import keep, mark_of
from overparam.audits.law import Finding
from overparam.audits.measurements import Measurement, chosen
from overparam.audits.page import make_audit_sections
from overparam.audits.plan import AuditPlan, settle
from overparam.audits.setting import Effort, Setting
from overparam.audits.words import give_words
from overparam.core.progress import Progress, silent
from overparam.core.provenance import Provenance, Stopwatch
from overparam.core.sections import Section
from overparam.core.verdict import Verdict
from overparam.core.words import count_of
from overparam.frame import AbstractAnswer
from overparam.training.precision import computing, device_name
from overparam.training.workplace import Workplace


@final
@dataclass(frozen=True, eq=False)
class Audit(AbstractAnswer):
    """Every law measured on one network, frozen; `save(folder)`, `verdict`, `findings`, `find(name)`, `to_rows()`.

    network, architecture, data: in words. rows, inputs, outputs, depth, width: n, d, k, the paper's L (ReLU layers less
    one) and m, the smallest width of the ReLU layers `widths`. separation: the smallest distance of two samples.
    omegas: radii of the perturbations. findings: one a law and moment. unseen: what bends the network and is no ReLU.
    notes: what was done to the data, and how layers that do otherwise in training were looked at. measurements,
    seconds_by: what was run and how long it took.
    """

    kind: ClassVar[str] = "audit"

    network: str
    architecture: str
    data: str
    rows: int
    inputs: int
    outputs: int
    depth: int
    width: int
    widths: tuple[int, ...]
    separation: float
    omegas: tuple[float, ...]
    effort: str
    findings: tuple[Finding, ...]
    unseen: tuple[str, ...]
    notes: tuple[str, ...]
    measurements: tuple[str, ...]
    seconds_by: tuple[float, ...]
    verdict: Verdict
    provenance: Provenance

    @property
    def title(self) -> str:
        return f"{self.network} on {self.data}: audit"

    @property
    def done(self) -> str:
        radii = count_of(len(self.omegas), "radius", "radii")
        return f"{count_of(self.rows, 'row')}, {count_of(len(self.measurements), 'measurement')}, {radii}"

    def sections(self) -> tuple[Section, ...]:
        """The page as plain data."""
        return make_audit_sections(self)

    def find(self, name: str, moment: str | None = None) -> list[Finding]:
        """The findings of a law by its name, of all moments or one."""
        found = [f for f in self.findings if f.law.name == name and moment in (None, f.moment)]
        if not found:
            names = dict.fromkeys(f.law.name for f in self.findings)
            raise ValueError(f"no finding of {name!r}{f' at {moment!r}' if moment else ''}; laws: {', '.join(names)}")
        return found

    def to_rows(self) -> list[dict[str, Any]]:
        """One dict a finding, as a table: law, moment, the largest value (the smallest for lower bounds), constant, exponents, verdict."""
        return [
            {
                "law": f.law.name,
                "reference": f.law.reference,
                "moment": f.moment,
                "measured": _hardest(f) if len(f.values) else None,
                "constant": f.constant if np.isfinite(f.constant) else None,
                "law_exponent": f.law.exponents.get("omega"),
                "exponent": f.exponent,
                "exponent_error": f.exponent_error,
                "verdict": f.verdict,
            }
            for f in self.findings
        ]

    def __repr__(self) -> str:
        return f"Audit({self.network} on {self.data}: {self.verdict.sentences[0]})"


def _hardest(finding: Finding) -> float:
    """The measured value that says most against the law."""
    return float(finding.values.min() if finding.law.side == "lower" else finding.values.max())


def audit(
    network: Any,
    data: Any,
    *,
    params: Any = None,
    key: int = 0,
    omegas: Sequence[float] | None = None,
    rows: int | None = None,
    run: Any = None,
    laws: Sequence[str] | str | None = None,
    effort: str | Effort = "usual",
    prepare: str = "auto",
    dtype: str = "float64",
    device: str | None = None,
    plan: AuditPlan | None = None,
    place: str | os.PathLike[str] | None = None,
    progress: Progress | None = None,
) -> Audit:
    """Measure on a network what the papers' lemmas say of it.

    At the start: norms, products of layers, separation, gradients. Away from it, for perturbations of spectral radius ω
    that are random, along training, and adversarial (ascent on the measured quantity within the ball): sign changes,
    stability, gradients, semi-smoothness, drift of the kernel, linearisation. Along descent: the rate. Each law gets
    measured values, a fitted exponent in ω with its standard error, the measured constant and a verdict: *holds*, *holds
    with constant*, *fails*, *out of range* (it does not hold where the theorem does not speak) or *not measured*.

    Args:
        network: one of `op.networks`, or what `op.from_torch`, `op.from_equinox` or `op.from_flax` gives. Models of
            other frameworks are measured against the laws of the deep fully connected network.
        data: a `Dataset` or (X, y), samples of any shape; whole numbers become floats.
        params: the weights to audit, as from `net.init`; fresh ones from `key` if None, a module's own for PyTorch.
        key: seed of the weights and of every draw.
        omegas: radii; from 10⁻³ to 1 if None.
        rows: most samples; 1,000 if None. Costly laws use fewer and say how many.
        run: a `Trajectory` of this network on this data: the training direction is its displacement, its radius is among
            the radii, and the laws of the start are measured at its last weights too.
        laws: names of measurements, see `op.audits.MEASUREMENTS`; all about this architecture if None.
        effort: "quick", "usual" or "thorough", or an `Effort`.
        prepare: "auto" scales and pads the rows as the papers want them for networks of theirs whose weights are drawn
            here (unit rows, last coordinate 1/√2 for `FullyConnected` and `Residual`); "paper" always, "none" never.
        dtype: in which the network computes: "float64" or "float32".
        device: "cpu", "gpu" or None.
        plan: of `plan_audit` with the same arguments, where it was made already.
        place: a folder in which the findings of each measurement are kept, so that a stopped audit goes on; nothing is
            kept if None.
        progress: called with the seconds of the plan that are done.

    A network whose weights are twice as large does not keep the norms of its samples:

    >>> from dataclasses import replace
    >>> from overparam.networks import FullyConnected
    >>> net, X = FullyConnected(width=64, depth=3), np.random.default_rng(0).standard_normal((8, 3))
    >>> start = net.init(0, 5)  # 3 and the 2 that padding adds
    >>> twice = replace(start, trained={name: 2 * W for name, W in start.trained.items()})
    >>> for weights in (start, twice):
    ...     print(audit(net, (X, np.sign(X[:, 0])), params=weights, laws="forward norms").findings[0].verdict)
    holds
    fails
    """
    watch, tell, spent = Stopwatch(), progress or silent, checked_effort(effort)
    require_dtype(dtype)
    tell(0.0, None, "reading")
    with computing(dtype, device):
        ground = make_ground(network, data, params=params, key=key, rows=rows, run=run, prepare=prepare, dtype=dtype)
        radii = checked_omegas(omegas, spent, ground)
        table = chosen(laws, ground.architecture)
        if not table:
            raise ValueError(f"no law is about networks that are {ground.architecture}")
        plan = settle(ground, radii, spent, table, device) if plan is None else plan
        plan.require_memory()
        setting = ground.setting(radii, spent, silent)
        kept = Workplace(place, fingerprint="" if place is None else mark_of(ground, radii, spent))
        findings, seconds = measure_all(ground, setting, table, plan, tell, kept)
    about = {"network": ground.words, "data": ground.data.name, "rows": len(ground.X), "omegas": radii,
             "effort": spent.name, "prepare": prepare, "laws": list(table)}  # fmt: skip
    made = watch.provenance(about, seed=int(key), device=device_name(device))
    made = replace(made, dtype=dtype, seconds=made.seconds + kept.before)
    return conclude(ground, setting, spent, findings, seconds, made)


def measure_all(
    ground: Ground,
    setting: Setting,
    table: Mapping[str, Measurement],
    plan: AuditPlan,
    tell: Progress,
    workplace: Workplace,
) -> tuple[list[Finding], dict[str, float]]:
    """Every measurement of the table, those of the start at the last weights of a run too."""
    findings: list[Finding] = []
    seconds: dict[str, float] = {}
    planned = dict(zip(plan.measurements, plan.seconds_by, strict=True))
    done, total = 0.0, sum(planned.values())
    end = None if ground.run is None else _at_end(ground, setting)
    for name, row in table.items():
        tell(done, total, name)
        found = keep(workplace, name, partial(_measured, row, setting, end))
        findings += found.findings
        seconds[name] = found.seconds
        done += planned.get(name, 0.0)
    tell(total, total, "done")
    return findings, seconds


def _measured(row: Measurement, setting: Setting, end: Setting | None) -> list[Finding]:
    return row.measure(setting) + (row.measure(end) if end is not None and row.at_end else [])


def _at_end(ground: Ground, setting: Setting) -> Setting:
    """The setting with the last weights of the run in the place of the first."""
    assert ground.run is not None
    end = replace(ground, params=ground.run.params, inside=ground.at_end(), run=None)
    moved = end.setting(setting.omegas, setting.effort, setting.progress)
    return replace(moved, moment="trajectory", at=float(ground.run.steps[-1]))


def conclude(
    ground: Ground,
    setting: Setting,
    effort: Effort,
    findings: Sequence[Finding],
    seconds: Mapping[str, float],
    made: Provenance,
) -> Audit:
    """The result that the findings give."""
    inside = ground.inside
    result = Audit(
        network=ground.words,
        architecture=ground.architecture,
        data=ground.data.name,
        rows=setting.samples,
        inputs=inside.inputs,
        outputs=inside.outputs,
        depth=setting.depth,
        width=setting.width,
        widths=inside.widths,
        separation=setting.separation,
        omegas=setting.omegas,
        effort=effort.name,
        findings=tuple(findings),
        unseen=tuple(map(str, inside.unseen)),
        notes=(*ground.notes, *evaluation_notes(ground.network)),
        measurements=tuple(seconds),
        seconds_by=tuple(seconds.values()),
        verdict=Verdict("good", ()),
        provenance=made,
    )
    return replace(result, verdict=give_words(result))
