"""Small networks and subjects for the tests of couplings, residual and convolutional laws."""

import itertools

import numpy as np

from overparam.audits.preparation import prepare_subject


def rows(n=12, d=5, seed=0):
    """Random rows and labels ±1."""
    rng = np.random.default_rng(seed)
    return rng.standard_normal((n, d)), np.where(rng.random(n) < 0.5, -1.0, 1.0)


def subject_of(network, data=None, *, key=0, omegas=(0.03, 0.1, 0.3, 1.0), effort="quick"):
    """The subject an audit of that network would make."""
    given = rows() if data is None else data
    return prepare_subject(network, given, key=key, omegas=omegas, effort=effort)[0]


def subsets(count):
    """All subsets as boolean masks."""
    return [np.array(mask, bool) for mask in itertools.product((False, True), repeat=count)]


def all_signs(count):
    """All vectors of signs."""
    return [np.array(signs, float) for signs in itertools.product((-1.0, 1.0), repeat=count)]


def by_name(findings, name, moment):
    """The one finding of a law and a moment."""
    (found,) = [f for f in findings if f.law.name == name and f.moment == moment]
    return found
