"""Data sets with a name: those of scikit-learn, those that are drawn, those in $OVERPARAM_DATA or the cache directory."""

from __future__ import annotations

import difflib
import os
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from overparam.core import checks
from overparam.core.reading import place_of
from overparam.core.words import count_of
from overparam.data.readers import READERS, find_reader
from overparam.data.readers.images import CIFAR10_FILES, CIFAR100_FILES, MNIST_FILES
from overparam.data.readers.reader import Raw, unpacked_name
from overparam.data.targets.hierarchical import ParityTarget

VARIABLE = "OVERPARAM_DATA"

FOLDERS = {
    "mnist": ("handwritten digits, 28 × 28, ten classes", MNIST_FILES),
    "fashion-mnist": ("clothes, 28 × 28, ten classes", MNIST_FILES),
    "cifar10": ("colour photographs, 3 × 32 × 32, ten classes", CIFAR10_FILES),
    "cifar100": ("colour photographs, 3 × 32 × 32, a hundred classes", CIFAR100_FILES),
}
BUILTIN = {
    "digits": "handwritten digits, 8 × 8, ten classes",
    "wine": "chemistry of wines, three classes",
    "breast-cancer": "cell nuclei, two classes",
    "iris": "flowers, three classes",
    "diabetes": "progression of a disease, regression",
}
"""What comes with scikit-learn."""
DRAWN = {
    "parity": "pairs of signs and products of them, 30 signs, eight real targets",
    "sparse-parity": "the sign of a product of six out of 40 signs, two classes",
}
"""What is drawn when it is asked for."""
TRAIN, TEST = 4_000, 2_000
"""Rows drawn where no numbers are asked for."""


@dataclass(frozen=True)
class Listing:
    """One data set by name: what it is, where it is (None: nowhere), and which files to put where."""

    name: str
    what: str
    where: str | None
    files: tuple[str, ...] = ()


def cache_folder() -> Path:
    """The package's folder in the user's cache directory, by the platform's convention; it need not exist."""
    if sys.platform == "win32":
        base = os.environ.get("LOCALAPPDATA")
        return (Path(base) if base else Path.home() / "AppData" / "Local") / "overparam" / "Cache"
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches" / "overparam"
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "overparam"


def data_folders() -> tuple[Path, ...]:
    """The folders searched, in order."""
    named = os.environ.get(VARIABLE)
    return (place_of(named), cache_folder()) if named else (cache_folder(),)


def known_name(name: str) -> str:
    """A name as the package writes it: lower case, `-` for `_`, and the usual other spellings."""
    plain = name.strip().lower().replace("_", "-")
    same = {
        "cifar-10": "cifar10",
        "cifar-100": "cifar100",
        "fashionmnist": "fashion-mnist",
        "breastcancer": "breast-cancer",
        "parities": "parity",
        "sparseparity": "sparse-parity",
    }
    return same.get(plain, plain)


def find_named(name: str) -> Path | None:
    """The folder or file of a named data set, or None."""
    if Path(name).is_absolute() or ".." in Path(name).parts:
        return None
    for spelled in dict.fromkeys((name, known_name(name))):
        for folder in data_folders():
            place = folder / spelled
            if place.is_dir() and find_reader(place):
                return place
            for ending in (ending for reader in READERS if reader.listed for ending in reader.endings):
                for path in (folder / f"{spelled}{ending}{packing}" for packing in (".gz", "", ".xz")):
                    if path.is_file():
                        return path
    return None


def missing_named(name: str) -> Exception:
    """The error for a name that is not found: where to put which file, or which names there are."""
    plain = known_name(name)
    variable = os.environ.get(VARIABLE)
    named = f"${VARIABLE}" + (f" ({variable})" if variable else " (not set)")
    if plain in FOLDERS:
        files = ", ".join(FOLDERS[plain][1])
        return FileNotFoundError(
            f"data set {plain!r} is not on this machine; put {files} in the folder {plain}/ of {named} "
            f"or of {cache_folder()}"
        )
    if "/" in name and not Path(name).suffix and not name.startswith((".", "/", "~")):
        close = difflib.get_close_matches(plain, [row.name for row in available()], n=1)
        hint = f" (did you mean {close[0]!r}?)" if close else ""
        return FileNotFoundError(
            f"data set {name!r} is not on this machine{hint}; put {name}.csv.gz in {named} or in {cache_folder()}"
        )
    if Path(name).suffix or "/" in name or "\\" in name:
        return FileNotFoundError(f"{name} does not exist")
    known = [*BUILTIN, *DRAWN, *FOLDERS]
    close = difflib.get_close_matches(plain, known, n=1, cutoff=0.5)
    hint = f"; did you mean {close[0]!r}?" if close else ";"
    return ValueError(
        f"there is no file and no data set {name!r}{hint} Data sets: {', '.join(known)}, "
        f"and tables {name}.csv.gz in {named} or in {cache_folder()}"
    )


def available() -> tuple[Listing, ...]:
    """Every data set by name: those that need nothing, the known image sets, and the tables found."""
    rows = [Listing(name, what, "scikit-learn") for name, what in BUILTIN.items()]
    rows.extend(Listing(name, what, "drawn when asked for") for name, what in DRAWN.items())
    for name, (what, files) in FOLDERS.items():
        place = find_named(name)
        rows.append(Listing(name, what, None if place is None else str(place), files))
    found: dict[str, Path] = {}
    for folder in data_folders():
        for path in sorted([*folder.glob("*"), *folder.glob("*/*")]) if folder.is_dir() else ():
            if path.is_file() and find_reader(path, listed=True) and path.name not in ("index.csv", "README.csv"):
                name = path.relative_to(folder).with_name(unpacked_name(path).stem).as_posix()
                found.setdefault(name, path)
    rows.extend(Listing(name, "table", str(path)) for name, path in found.items())
    return tuple(rows)


def read_builtin(name: str) -> Raw:
    """One of `BUILTIN`: digits are 8 × 8 images, diabetes is a regression, the others are tables of classes."""
    from sklearn import datasets  # takes half a second to import: only for those who ask

    bunch = getattr(datasets, f"load_{name.replace('-', '_')}")()
    X, target = np.asarray(bunch.data, dtype=np.float64), np.asarray(bunch.target)
    features = tuple(str(feature) for feature in bunch.feature_names)
    if name == "digits":
        return Raw(X, target, name, kind="image", features=features, image_shape=(8, 8), task="classes")
    task = "regression" if name == "diabetes" else "classes"
    return Raw(X, target, name, features=features, shuffle=True, task=task)


def read_drawn(name: str, *, train: Any = None, test: Any = None, key: Any = 0) -> Raw:
    """One of `DRAWN` with that many training and test rows, drawn with `key`; test labels are exact as well.

    "parity" is `ParityTarget()`, H = F + 0.3 G(F) with eight outputs; "sparse-parity" is
    `ParityTarget.product(40)`, whose labels are ±1.

    >>> raw = read_drawn("parity", train=5, test=3)
    >>> raw.X.shape, raw.labels.shape, raw.test.X.shape
    ((5, 30), (5, 8), (3, 30))
    """
    n = checks.whole_number(TRAIN if train is None else train, "train", 2)
    held = checks.whole_number(TEST if test is None else test, "test", 2)
    target = ParityTarget() if name == "parity" else ParityTarget.product(40)
    data = target.sample(n, key=key, test=held)
    assert data.test is not None
    task = "regression" if target.outputs > 1 else "classes"
    labels = [part.y if target.outputs > 1 else part.y.astype(np.int64) for part in (data, data.test)]
    note = f"{n:,} training and {count_of(held, 'test row')} drawn with seed {key}: {target!r}"
    return Raw(data.X, labels[0], name, test=Raw(data.test.X, labels[1], name, task=task), notes=(note,), task=task)
