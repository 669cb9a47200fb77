"""What every question shares: a `Job` of named parts, its `Plan`, the `Answer` it gives, and the keeping of parts."""

from overparam.frame.answer import AbstractAnswer, Stored, read
from overparam.frame.job import Job, Part, Plan, Work, verb
from overparam.frame.keeping import Keeping, Kept, OtherWork, State, fingerprint

__all__ = [
    "AbstractAnswer",
    "Job",
    "Keeping",
    "Kept",
    "OtherWork",
    "Part",
    "Plan",
    "State",
    "Stored",
    "Work",
    "fingerprint",
    "read",
    "verb",
]
