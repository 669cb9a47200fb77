"""Where data sets with a name are found: $OVERPARAM_DATA, then the user's cache directory."""

from __future__ import annotations

import difflib
import os
import sys
from dataclasses import dataclass
from pathlib import Path

from overparam.data import builtin, generated
from overparam.data.cifar import CIFAR10_FILES, CIFAR100_FILES, is_cifar_folder
from overparam.data.idx import MNIST_FILES, is_idx_folder

VARIABLE = "OVERPARAM_DATA"
ENDINGS = (".csv.gz", ".csv", ".tsv.gz", ".tsv", ".npz", ".parquet")

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
    return (Path(named).expanduser(), cache_folder()) if named else (cache_folder(),)


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
            if place.is_dir() and _holds_images(place):
                return place
            for ending in ENDINGS:
                path = folder / f"{spelled}{ending}"
                if path.is_file():
                    return path
    return None


def _holds_images(folder: Path) -> bool:
    return is_idx_folder(folder) or is_cifar_folder(folder)


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
    known = [*builtin.NAMES, *generated.NAMES, *FOLDERS]
    close = difflib.get_close_matches(plain, known, n=1, cutoff=0.5)
    hint = f"; did you mean {close[0]!r}?" if close else ";"
    return ValueError(
        f"there is no file and no data set {name!r}{hint} Data sets: {', '.join(known)}, "
        f"and tables {name}.csv.gz in {named} or in {cache_folder()}"
    )


def available() -> tuple[Listing, ...]:
    """Every data set by name: those that need nothing, the known image sets, and the tables found."""
    rows = [Listing(name, what, "scikit-learn") for name, what in BUILTIN.items()]
    rows.extend(Listing(name, what, "drawn when asked for") for name, what in generated.NAMES.items())
    for name, (what, files) in FOLDERS.items():
        place = find_named(name)
        rows.append(Listing(name, what, None if place is None else str(place), files))
    found: dict[str, Path] = {}
    for folder in data_folders():
        for path in sorted([*folder.glob("*"), *folder.glob("*/*")]) if folder.is_dir() else ():
            ending = next((ending for ending in ENDINGS if path.name.endswith(ending)), None)
            if ending is None or path.name in ("index.csv", "README.csv") or not path.is_file():
                continue
            name = path.relative_to(folder).as_posix().removesuffix(ending)
            found.setdefault(name, path)
    rows.extend(Listing(name, "table", str(path)) for name, path in found.items())
    return tuple(rows)
