"""Features computed beside the rows they belong to, such as embeddings: they take the place of X, the rows stay to look at."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from overparam.core import checks
from overparam.core.reading import place_of
from overparam.core.words import count_of
from overparam.data.readers.arrays import dense, is_sparse, read_npy
from overparam.data.readers.reader import Raw


def with_features(raw: Raw, features: Any) -> Raw:
    """The same rows with these features, one row a row of the source, and a pair of them where there are test rows."""
    train, test = _pair(features)
    if (test is None) != (raw.test is None):
        count = 0 if raw.test is None else len(raw.test.labels)
        fix = "give one array" if raw.test is None else "give a pair: features=(of the training rows, of the test rows)"
        raise ValueError(
            f"`features` is {'one array' if test is None else 'a pair'} and there are {count_of(count, 'test row')}; {fix}"
        )
    held = None if raw.test is None else _replaced(raw.test, test, "features of the test rows")
    return replace(_replaced(raw, train, "features"), test=held)


def _pair(features: Any) -> tuple[Any, Any]:
    if isinstance(features, str) and "," in features and not place_of(features).exists():
        features = tuple(part.strip() for part in features.split(","))
    if isinstance(features, tuple):
        if len(features) != 2:
            raise ValueError(
                f"`features` has {count_of(len(features), 'part')}; expected an array, or a pair for training and test rows"
            )
        return features
    return features, None


def _replaced(raw: Raw, features: Any, name: str) -> Raw:
    if isinstance(features, str | Path):
        path = place_of(features)
        if path.suffix.lower() != ".npy":
            raise ValueError(f"`features` is {str(features)!r}; expected an array or a .npy file")
        F = read_npy(path)
    else:
        F = dense(features) if is_sparse(features) else checks.as_numbers(features, name)
    if F.ndim != 2 or 0 in F.shape or F.dtype.kind not in "biuf":
        checks.finite_matrix(F if F.ndim != 2 else F.reshape(F.shape), name)  # says what is wrong with it
    total = len(raw.X) if raw.total is None else raw.total
    if len(F) != total:
        raise ValueError(f"`{name}` has {len(F):,} rows; the source has {total:,}, and each needs its own")
    if raw.total is not None and raw.rows is not None and not np.array_equal(raw.rows, np.arange(total)):
        F = F[raw.rows]
    shown = raw.X if raw.image_shape is None else raw.X.reshape(len(raw.X), *raw.image_shape)
    words = f"{count_of(F.shape[1], 'feature')} computed beforehand in place of the {raw.X.shape[1]:,} of the source"
    return replace(
        raw,
        X=F,
        kind="table",
        features=None,
        image_shape=None,
        sources=None,
        shown=shown,
        notes=(*raw.notes, words),
    )
