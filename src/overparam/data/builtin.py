"""The small data sets that come with scikit-learn and need no file."""

from __future__ import annotations

import numpy as np

from overparam.data.raw import Raw

NAMES = ("digits", "wine", "breast-cancer", "iris", "diabetes")


def read_builtin(name: str) -> Raw:
    """One of `NAMES`: digits are 8 × 8 images, diabetes is a regression, the others are tables of classes."""
    from sklearn import datasets  # takes half a second to import: only for those who ask

    readers = {
        "digits": datasets.load_digits,
        "wine": datasets.load_wine,
        "breast-cancer": datasets.load_breast_cancer,
        "iris": datasets.load_iris,
        "diabetes": datasets.load_diabetes,
    }
    bunch = readers[name]()
    X, target = np.asarray(bunch.data, dtype=np.float64), np.asarray(bunch.target)
    features = tuple(str(feature) for feature in bunch.feature_names)
    if name == "digits":
        return Raw(X, target, name, kind="image", features=features, image_shape=(8, 8), task="classes")
    task = "regression" if name == "diabetes" else "classes"
    return Raw(X, target, name, features=features, shuffle=True, task=task)
