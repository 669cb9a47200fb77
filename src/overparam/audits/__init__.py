"""What the papers' lemmas say of a network, measured on it."""

from overparam.audits.inside_of import inside_of
from overparam.audits.law import Finding, Law, made, not_measured
from overparam.audits.measurements import MEASUREMENTS
from overparam.audits.plan import AuditPlan, plan_audit
from overparam.audits.setting import EFFORTS, Effort, Setting, ascend
from overparam.audits.whole import Audit, audit

__all__ = [
    "EFFORTS",
    "MEASUREMENTS",
    "Audit",
    "AuditPlan",
    "Effort",
    "Finding",
    "Law",
    "Setting",
    "ascend",
    "audit",
    "inside_of",
    "made",
    "not_measured",
    "plan_audit",
]
