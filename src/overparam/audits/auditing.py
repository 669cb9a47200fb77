"""`audit`: what the papers' lemmas say of a network, measured on it, with a verdict and a page."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, ClassVar, final

import numpy as np

from overparam.audits import measurements
from overparam.audits.laws import Finding
from overparam.audits.measurements import Measurement, chosen
from overparam.audits.page import give_words, make_audit_sections
from overparam.audits.preparation import COPIES, prepare_subject, require_dtype, spec_of_network
from overparam.audits.subject import Effort, Subject, evaluation_notes
from overparam.core.deprecated import accepts_old
from overparam.core.machine import available_memory
from overparam.core.progress import Progress, silent
from overparam.core.provenance import Provenance
from overparam.core.sections import Section, Verdict
from overparam.core.spec import Spec
from overparam.core.words import count_of
from overparam.data import as_dataset
from overparam.frame import AbstractAnswer, Job, Part, Plan, Work, verb
from overparam.training.precision import computing, device_name

SUBJECT, END = "network and samples", "the end of the run"
"""What measurements look at, as parts of the work."""
STARTING = 1.5
"""Seconds to compile the programs of one measurement."""
A_PASS = 1e-3
"""Seconds of a pass forward, where none was timed: the shares of the measurements in the progress."""


@final
@dataclass(frozen=True, eq=False)
class Audit(AbstractAnswer):
    """Every law measured on one network, frozen; `save(folder)`, `verdict`, `findings`, `find(name)`, `to_rows()`.

    network: its Spec. architecture, data: in words. rows, inputs, outputs, depth, width: n, d, k, the paper's L (ReLU layers less
    one) and m, the smallest width of the ReLU layers `widths`. separation: the smallest distance of two samples.
    omegas: radii of the perturbations. findings: one a law and moment. unseen: what bends the network and is no ReLU.
    notes: what was done to the data, and how layers that do otherwise in training were looked at. measurements,
    seconds_by: what was run and how long it took.
    """

    kind: ClassVar[str] = "audit"

    network: Spec
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


def prepare_audit(
    network: Any,
    data: Any,
    y: Any = None,
    *,
    params: Any = None,
    key: int = 0,
    omegas: Sequence[float] | None = None,
    max_rows: int | None = None,
    run: Any = None,
    laws: Sequence[str] | str | None = None,
    effort: str | Effort = "usual",
    preprocess: str = "auto",
    dtype: str = "float64",
    device: str | None = None,
    place: str | os.PathLike[str] | None = None,
    progress: Progress | None = None,
    **reading: Any,
) -> Job[Audit]:
    """Measure on a network what the papers' lemmas say of it.

    At the start: norms, products of layers, separation, gradients. Away from it, for perturbations of spectral radius ω
    that are random, along training, and adversarial (ascent on the measured quantity within the ball): sign changes,
    stability, gradients, semi-smoothness, drift of the kernel, linearisation. Along descent: the rate. Each law gets
    measured values, a fitted exponent in ω with its standard error, the measured constant and a verdict: *holds*, *holds
    with constant*, *fails*, *out of range* (it does not hold where the theorem does not speak) or *not measured*.

    Args:
        network: one of `op.networks`, or what `op.from_torch`, `op.from_equinox` or `op.from_flax` gives. Models of
            other frameworks are measured against the laws of the deep fully connected network.
        data, y: a `Dataset`, (X, y), X and y, a frame, a file or a name; samples of any shape, whole numbers become floats.
        params: the weights to audit, as from `net.init`; fresh ones from `key` if None, a module's own for PyTorch.
        key: seed of the weights and of every draw.
        omegas: radii; from 10⁻³ to 1 if None.
        max_rows: most samples; 1,000 if None. Costly laws use fewer and say how many.
        run: a `Trajectory` of this network on this data: the training direction is its displacement, its radius is among
            the radii, and the laws of the start are measured at its last weights too.
        laws: names of measurements, see `op.audits.MEASUREMENTS`; all about this architecture if None.
        effort: "quick", "usual" or "thorough", or an `Effort`.
        preprocess: "auto" scales and pads the rows as the papers want them for networks of theirs whose weights are drawn
            here (unit rows, last coordinate 1/√2 for `FullyConnected` and `Residual`); "paper" always, "none" never.
        dtype: in which the network computes: "float64" or "float32".
        device: "cpu", "gpu" or None.
        place: a folder in which the findings of each measurement are kept, so that a stopped audit goes on; nothing is
            kept if None.
        progress: called with the seconds of the plan that are done.
        reading: label, group, classes, train, test, task, missing: as in `op.load`.

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
    require_dtype(dtype)
    (progress or silent)(0.0, None, "reading")
    spec = spec_of_network(network)
    with computing(dtype, device):
        subject, rows, notes = prepare_subject(
            network, as_dataset(data, y, key=key, **reading), params=params, key=key, omegas=omegas, max_rows=max_rows, run=run,
            effort=effort, preprocess=preprocess, dtype=dtype,
        )  # fmt: skip
    table = chosen(laws, subject.architecture)
    if not table:
        raise ValueError(f"no law is about networks that are {subject.architecture}")
    parts = [Part(SUBJECT, _subject, (subject,), kept=False)]
    if run is not None and any(row.at_end for row in table.values()):
        parts.append(Part(END, _at_end, (), (SUBJECT,), kept=False))
    for name, row in table.items():
        needs = (SUBJECT, END) if run is not None and row.at_end else (SUBJECT,)
        parts.append(Part(name, _measured, (name,), needs, _cost(row, subject, A_PASS, A_PASS), Outcome))
    radii = count_of(len(subject.omegas), "radius", "radii")
    plan = Plan(
        f"{spec} on {rows.name}, {count_of(subject.samples, 'row')}, {radii}, {subject.effort.name} effort, "
        f"{count_of(len(table), 'measurement')}: {', '.join(table)}",
        memory=_bytes(subject),
        free_memory=available_memory(),
        device=device_name(device),
        dtype=dtype,
        details={"omegas": list(subject.omegas)},
        fix="take fewer rows (`max_rows`) or a smaller width",
    )
    about = {"network": str(spec), "data": rows.name, "rows": subject.samples, "omegas": subject.omegas,
             "effort": subject.effort.name, "preprocess": preprocess, "laws": list(table)}  # fmt: skip
    return Job(
        "audit",
        parts,
        partial(_conclude, subject, spec, rows.name, (*notes, *evaluation_notes(network)), tuple(table)),
        plan=plan,
        provenance=Provenance(about, seed=int(key), dtype=dtype, device=device_name(device)),
        timed=partial(_timed, subject, table),
        within=partial(computing, dtype, device),
        place=place,
        progress=progress,
    )


audit = accepts_old("audit")(verb(prepare_audit))


@final
@dataclass(frozen=True, eq=False)
class Outcome:
    """What one measurement found, and the seconds it took."""

    findings: tuple[Finding, ...]
    seconds: float


def _subject(work: Work, subject: Subject) -> Subject:
    return subject


def _at_end(work: Work, subject: Subject) -> Subject:
    return subject.at_end()


def _measured(work: Work, name: str, *subjects: Subject) -> Outcome:
    """The findings of a measurement: of the start, and of the end of a run where it looks there too."""
    begin = time.perf_counter()
    found = [finding for subject in subjects for finding in measurements.MEASUREMENTS[name].measure(subject)]
    return Outcome(tuple(found), time.perf_counter() - begin)


def _bytes(subject: Subject) -> int:
    """What an audit holds at once: the activations of all rows, and the weights, some times."""
    inside = subject.inside
    size = sum(int(np.prod(shape)) for shape in inside.shapes.values())
    return 8 * COPIES * (subject.samples * (inside.inputs + inside.outputs + 2 * sum(inside.widths)) + size)


def _timed(subject: Subject, table: Mapping[str, Measurement]) -> dict[str, float]:
    """Seconds of each measurement, from the time that a pass forward of all rows, and of a few, takes here."""
    passes = []
    for few in (subject, subject.on_rows(subject.effort.rows)):
        few.inside.trace(few.weights)
        start = time.perf_counter()
        few.inside.trace(few.weights)
        passes.append(time.perf_counter() - start)
    return {name: _cost(row, subject, *passes) for name, row in table.items()}


def _cost(row: Measurement, subject: Subject, whole: float, few: float) -> float:
    effort = subject.effort
    more = effort.power_steps / 16 if row.at_end else len(subject.omegas) / 5 * effort.ascent_steps / 8
    return STARTING + (row.passes[0] * whole + row.passes[1] * few) * more


def _conclude(
    subject: Subject,
    network: Spec,
    data: str,
    notes: tuple[str, ...],
    names: tuple[str, ...],
    found: Mapping[str, Outcome],
    made: Provenance,
) -> Audit:
    inside = subject.inside
    result = Audit(
        network=network,
        architecture=subject.architecture,
        data=data,
        rows=subject.samples,
        inputs=inside.inputs,
        outputs=inside.outputs,
        depth=subject.depth,
        width=subject.width,
        widths=inside.widths,
        separation=subject.separation,
        omegas=subject.omegas,
        effort=subject.effort.name,
        findings=tuple(finding for name in names for finding in found[name].findings),
        unseen=tuple(map(str, inside.unseen)),
        notes=notes,
        measurements=names,
        seconds_by=tuple(found[name].seconds for name in names),
        verdict=Verdict("good", ()),
        provenance=made,
    )
    return replace(result, verdict=give_words(result))
