"""One audit of a study, as arrays that are kept as a part, and back."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from overparam.audits import EFFORTS, audit
from overparam.data import Dataset, load
from overparam.studies.convergence_laws_fits import Cell, Measured
from overparam.studies.study import Workplace

PARTS = ("values", "bounds", "omegas")


def audited(
    network: Any,
    rows: Dataset,
    workplace: Workplace,
    seed: int,
    *,
    omegas: Sequence[float] | None,
    effort: str,
    laws: Sequence[str] | None = None,
) -> Mapping[str, Any]:
    """The findings of one audit, a row each."""
    named = EFFORTS[effort]
    spent = replace(named, rows=max(named.rows, rows.n))  # or n would be that of the effort in most laws
    found = audit(
        network,
        rows,
        key=workplace.seed + seed,
        omegas=omegas,
        max_rows=rows.n,
        laws=laws,
        effort=spent,
        device=workplace.device,
    ).findings
    most = max((len(f.values) for f in found), default=1)
    padded = {name: np.full((len(found), most), np.nan) for name in PARTS}
    for place, finding in enumerate(found):
        for name in PARTS:
            padded[name][place, : len(finding.values)] = getattr(finding, name)
    about = [
        {
            "law": f.law.name,
            "reference": f.law.reference,
            "statement": f.law.statement,
            "side": f.law.side,
            "exponents": dict(f.law.exponents),
            "explicit": f.law.explicit,
            "moment": f.moment,
            "constant": f.constant if np.isfinite(f.constant) else None,
            "exponent": f.exponent,
            "verdict": f.verdict,
            "rows": rows.n if f.rows is None else f.rows,
        }
        for f in found
    ]
    return padded | {"about": np.array(json.dumps(about))}


def findings_of(part: Mapping[str, np.ndarray], cell: Cell, seed: int) -> list[Measured]:
    """What `audited` kept."""
    about = json.loads(str(part["about"]))
    return [
        Measured(
            cell=cell,
            seed=seed,
            **own,
            **{name: part[name][place][np.isfinite(part["values"][place])] for name in PARTS},
        )
        for place, own in enumerate(about)
    ]


def load_rows(name: str, count: int) -> Dataset:
    """A data set of which so many rows are needed: the large ones are not read whole."""
    return load(name, train=count) if name in ("mnist", "fashion-mnist") else load(name)


def rows_of(data: Dataset, n: int, seed: int, first: int) -> Dataset:
    """n rows of a seed's own; where there are too few for that, a draw of them."""
    if data.n >= n * (seed + 1):
        return data.take(slice(n * seed, n * (seed + 1)))
    if data.n < n:
        raise ValueError(f"{data.name} has {data.n:,} rows and the study needs {n:,}; name smaller samples")
    return data.take(np.sort(np.random.default_rng([first, seed]).permutation(data.n)[:n]))
