"""Which reader fits a source: a name, a path, a folder, arrays, a frame."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from overparam.data import builtin, generated
from overparam.data.arrays import labels_beside, raw_from_arrays, raw_from_mapping, read_npy_pair, read_npz
from overparam.data.cifar import is_cifar_folder, read_cifar_file, read_cifar_folder
from overparam.data.dataset import Dataset
from overparam.data.delimited import read_delimited
from overparam.data.files import bare_name, format_ending
from overparam.data.frames import frame_kind, read_frame, read_parquet
from overparam.data.idx import is_idx_folder, read_idx_folder
from overparam.data.lookup import find_named, known_name, missing_named
from overparam.data.raw import Raw


def read_drawn(source: Any, *, label: Any = None, group: Any = None, train: Any, test: Any, key: Any) -> Raw | None:
    """The rows of a data set that is drawn when asked for, or None where `source` names none of them."""
    if not isinstance(source, str) or known_name(source) not in generated.NAMES:
        return None
    _no_columns(label, group, f"data set {known_name(source)!r}")
    return generated.read_generated(known_name(source), train=train, test=test, key=key)


def read_source(
    source: Any, *, label: Any = None, group: Any = None, classes: Any = None, missing: str = "error"
) -> Raw:
    """What `source` holds, by the reader that fits it; `classes` tells which CIFAR files are needed."""
    if isinstance(source, Dataset):
        _no_columns(label, group, "a Dataset")
        return _raw_again(source)
    if isinstance(source, str | Path):
        return _read_place(source, label, group, classes, missing)
    if frame_kind(source) is not None:
        return read_frame(source, label=label, group=group, missing=missing)
    if isinstance(source, Mapping):
        return raw_from_mapping(source, name="mapping", label=_text(label), group=_text(group), missing=missing)
    if isinstance(source, tuple | list) and len(source) == 2:
        X, y = source
        paths = [isinstance(part, str | Path) for part in (X, y)]
        if all(paths):
            return read_npy_pair(Path(X).expanduser(), Path(y).expanduser(), missing=missing)
        if isinstance(source, tuple) and not any(paths):
            if frame_kind(X) is not None and label is None:
                return replace(read_frame(X, y=y, group=group, missing=missing, name="arrays"), shuffle=False)
            _no_columns(label, group, "a pair (X, y)")
            return raw_from_arrays(X, y, missing=missing)
    shape = getattr(source, "shape", None)
    came = f"an array of shape {tuple(shape)} without labels" if shape is not None else f"a {type(source).__name__}"
    raise ValueError(f"`data` is {came}; expected a name, a path, a pair (X, y) or a frame")


def _read_place(source: str | Path, label: Any, group: Any, classes: Any, missing: str) -> Raw:
    name = str(source)
    if not name.strip():
        raise ValueError("`data` is empty; expected a name, a path, a pair (X, y) or a frame")
    if isinstance(source, str) and known_name(name) in builtin.NAMES:
        _no_columns(label, group, f"data set {known_name(name)!r}")
        return builtin.read_builtin(known_name(name))
    if isinstance(source, str):
        found = find_named(name)
        if found is not None:
            raw = _read_path(found, name, label, group, classes, missing)
            # the tables of uci/ are all classification sets, some with more than 20 classes
            return replace(raw, task="classes") if name.startswith("uci/") else raw
    path = Path(source).expanduser()
    if not path.exists():
        raise missing_named(name)
    return _read_path(path, None, label, group, classes, missing)


def _read_path(path: Path, name: str | None, label: Any, group: Any, classes: Any, missing: str) -> Raw:
    if path.is_dir():
        _no_columns(label, group, f"folder {path}")
        return _read_folder(path, name or path.name, classes, missing)
    options: dict[str, Any] = {"label": label, "group": group, "missing": missing}
    ending = format_ending(path)
    if ending in (".csv", ".tsv"):
        raw = read_delimited(path, **options)
    elif ending == ".npz":
        raw = read_npz(path, **options)
    elif ending == ".npy":
        raw = read_npy_pair(path, labels_beside(path), missing=missing)
    elif ending in (".parquet", ".pq"):
        raw = read_parquet(path, **options)
    elif ending == ".bin":
        raw = read_cifar_file(path, bare_name(path))
    else:
        raise ValueError(
            f"{path} ends in {ending or 'nothing'!r}; expected .csv, .tsv (plain or .gz), .npz, .npy, "
            ".parquet, .bin, or a folder of IDX files or CIFAR batches"
        )
    return raw if name is None else replace(raw, name=name)


def _read_folder(folder: Path, name: str, classes: Any, missing: str) -> Raw:
    if is_idx_folder(folder):
        return read_idx_folder(folder, name)
    if is_cifar_folder(folder):
        return read_cifar_folder(folder, name, classes)
    for stem in ("X", "X_train", "x_train"):
        if (folder / f"{stem}.npy").is_file():
            raw = read_npy_pair(folder / f"{stem}.npy", labels_beside(folder / f"{stem}.npy"), missing=missing)
            held = folder / f"{stem.replace('train', 'test')}.npy"
            test = (
                read_npy_pair(held, labels_beside(held), missing=missing)
                if "train" in stem and held.is_file()
                else None
            )
            return replace(raw, name=name, test=test)
    raise FileNotFoundError(
        f"{folder} holds no data set; expected train-images-idx3-ubyte.gz and its kin, data_batch_1.bin "
        "or train.bin, or X.npy with y.npy"
    )


def _raw_again(data: Dataset) -> Raw:
    test = None if data.test is None else _raw_again(data.test)
    return Raw(
        X=data.X,
        labels=data.labels,
        name=data.name,
        kind=data.kind,
        features=data.features,
        image_shape=data.image_shape,
        groups=data.groups,
        rows=data.rows,
        test=test,
        notes=data.notes,
        task="regression" if data.task == "regression" else "classes",
    )


def _no_columns(label: Any, group: Any, what: str) -> None:
    for name, value in (("label", label), ("group", group)):
        if value is not None:
            raise ValueError(f"`{name}` is {value!r} but {what} has no named columns; give a table or a frame")


def _text(name: Any) -> str | None:
    return None if name is None else str(name)
