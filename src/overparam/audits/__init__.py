"""What the papers' lemmas say of a network, measured on it."""

from overparam.audits.auditing import Audit, audit, prepare_audit
from overparam.audits.laws import Finding, Law, made, not_measured
from overparam.audits.measurements import MEASUREMENTS
from overparam.audits.subject import EFFORTS, Effort, Subject, inside_of

__all__ = [
    "EFFORTS",
    "MEASUREMENTS",
    "Audit",
    "Effort",
    "Finding",
    "Law",
    "Subject",
    "audit",
    "inside_of",
    "made",
    "not_measured",
    "prepare_audit",
]
