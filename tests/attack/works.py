"""What is disturbed: the library's works and the verbs as they are typed, each into one folder, each giving bytes that tell its numbers."""

from __future__ import annotations

import atexit
import contextlib
import functools
import importlib
import os
import pkgutil
import shutil
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import numpy as np

import overparam as op
from overparam.cli import main
from overparam.frame import Keeping, Kept, fingerprint

X = np.random.default_rng(0).standard_normal((40, 4))
Y = np.sign(X[:, 0])
SAVED = Path(__file__).parents[1] / "frame"
MODEL = """
import equinox as eqx
import jax


def make(data):
    return eqx.nn.MLP(data.d, 1, 4, 1, key=jax.random.key(0))
"""
ARCHIVED = "from neural_tangents import stax\n\nparts = stax.serial(stax.Dense(8), stax.Relu(), stax.Dense(1))\n"
Work = Callable[[Path], bytes]


def _quadrature(place: Path) -> bytes:
    q = op.quadrature(op.gram(op.kernels.TwoLayer(), X), Y, place=place)
    return q.alphas.tobytes() + q.betas.tobytes()


def _stored(place: Path) -> bytes:
    return op.gram(op.kernels.TwoLayer(), np.repeat(X, 8, axis=0), "stored", place=place).dense().tobytes()


def _remembered(place: Path) -> bytes:
    H = op.remember(op.gram(op.kernels.TwoLayer(), X), place)
    V = [H @ v for v in X.T]
    return np.stack(V).tobytes()


def _parts(place: Path) -> bytes:
    found = b""
    for i in range(12):
        keeping, mark = Keeping(place), fingerprint(i)
        kept = keeping.find("part", mark)
        if kept is None:
            keeping.keep("part", mark, kept := Kept({"x": np.arange(2000.0) * i}))
        found += kept.arrays["x"].tobytes()
    return found


def _saved(place: Path) -> bytes:
    for kind in ("landscape", "audit"):
        op.read(SAVED / "schema1" / kind).save(place)
    return told(place)


def _figures(place: Path) -> bytes:
    result = op.read(SAVED / "schema2" / "landscape")
    found = [path for kind in ("svg", "png") for path in result_figures(result, place, kind)]
    return b"".join(path.name.encode() + path.read_bytes() for path in found)


def result_figures(result: op.Answer, place: Path, kind: str) -> list[Path]:
    from overparam.report import export_figures

    return export_figures(result.parts(), place, kind=kind)


def _labels(place: Path) -> bytes:
    found = op.read(SAVED / "schema2" / "label-issues")
    found.save(place)
    return found.to_csv(place / "scored.csv").read_bytes() + told(place)


def _on_a_cluster(place: Path) -> bytes:
    from tests.clusters import two_workers

    with two_workers() as client:
        H = op.gram(op.kernels.TwoLayer(), np.repeat(X, 8, axis=0), cluster=client)
        q = op.quadrature(H, np.repeat(Y, 8), max_products=12, place=place)
    return q.alphas.tobytes() + q.betas.tobytes()


def _verb(name: str) -> Work:
    """A command as the command line runs it; what it gives is every array of its result, or the one file that it writes."""

    def work(place: Path) -> bytes:
        if name in WRITES:
            try:
                place.mkdir(parents=True, exist_ok=True)
            except OSError as error:  # not the command's own doing
                raise ValueError(str(error)) from None
        _run(typed(name, place))
        return (place / WRITES[name]).read_bytes() if name in WRITES else told(place)

    return work


def typed(name: str, place: Path) -> list[str]:
    """The words of a verb as they are typed."""
    return [*(_path(word, _inputs()) for word in VERBS[name]), "--out", str(place / WRITES.get(name, ""))]


def _path(word: str, inputs: Path) -> str:
    """MODEL.PY:make as the path of model.py with :make; other words as they are."""
    head, mark, rest = word.partition(":")
    return f"{inputs / head.lower()}{mark}{rest}" if head.isupper() and "." in head else word


def _run(words: list[str]) -> None:
    sys.argv = ["overparam", *words]
    try:
        main()
    except SystemExit as end:
        if end.code:
            raise ValueError(f"ended with {end.code}") from None


def told(place: Path) -> bytes:
    """The title and every array of the result in a folder."""
    answer = op.read(place)
    arrays = answer.parts().arrays
    return answer.title.encode() + b"".join(
        name.encode() + np.ascontiguousarray(arrays[name]).tobytes() for name in sorted(arrays)
    )


@functools.cache
def _inputs() -> Path:
    """A folder of files that commands are given, the same for all cases of a process and gone with it."""
    place = temporary_folder()
    random = np.random.default_rng(3)
    rows = random.standard_normal((80, 4))
    lines = [",".join(map(repr, row.tolist())) + (",yes" if row[0] > 0 else ",no") for row in rows]
    (place / "rows.csv").write_text("a,b,c,d,y\n" + "\n".join(lines))
    (place / "other.csv").write_text("a,b,c,d,y\n" + "\n".join([lines[0].replace("yes", "no"), *lines[2:]]))
    (place / "decided.csv").write_text("row,decision\n3,drop\n5,yes\n")
    (place / "model.py").write_text(MODEL)
    (place / "script.py").write_text(ARCHIVED)
    return place


def temporary_folder() -> Path:
    """A folder that is gone when this process has ended, though not when a child of it has."""
    place, mine = Path(tempfile.mkdtemp(prefix="overparam-attack-")), os.getpid()
    atexit.register(lambda: os.getpid() == mine and shutil.rmtree(place, ignore_errors=True))
    return place


VERBS: dict[str, tuple[str, ...]] = {
    "gram": ("gram", "ROWS.CSV"),
    "train": ("train", "ROWS.CSV", "--width", "16", "--steps", "20", "--keep-every", "1e-9"),
    "analyze": ("analyze", "ROWS.CSV", "--no-kinds", "--labels", "DECIDED.CSV"),
    "compare": ("compare", "ROWS.CSV", "--sizes", "40", "--steps", "20", "--width", "8", "--seeds", "1"),
    "audit": ("audit", "fully-connected", "ROWS.CSV", "--width", "8", "--depth", "2", "--max-rows", "6", "--effort", "quick", "--laws", "forward norms,separation"),
    "landscape": ("landscape", "fully-connected", "ROWS.CSV", "--width", "8", "--depth", "2", "--max-rows", "16"),
    "foresee": ("foresee", "MODEL.PY:make", "ROWS.CSV", "--no-probe"),
    "diff": ("diff", "ROWS.CSV", "OTHER.CSV"),
    "migrate": ("migrate", "SCRIPT.PY", "--overwrite"),
    "reproduce": ("reproduce", "beyond-kernels-theorem1", "--scale", "smoke"),
}  # fmt: skip
"""Commands as they are typed, capital words being files of `_inputs`."""
WRITES = {"migrate": "changed.py"}
"""Those that write one file."""
WORKS: dict[str, Work] = {
    "result": _saved, "stored": _stored, "products": _remembered, "parts": _parts, "figures": _figures, "labels": _labels,
    "quadrature": _quadrature, "dask": _on_a_cluster,
    **{name: _verb(name) for name in VERBS},
}  # fmt: skip
QUICK = 7
"""Of these, the first take a moment and need few imports."""


@functools.cache
def prepare(name: str) -> None:
    """Everything imported that a work may need, so that its children need not; a cache of compiled programs for all of them."""
    for module in (
        "overparam.audits",
        "overparam.landscapes",
        "overparam.engines.stored",
        "zarr",
        "plotly",
        "plotly.offline",
    ):
        importlib.import_module(module)
    if name in list(WORKS)[:QUICK]:
        return
    os.environ.setdefault("JAX_COMPILATION_CACHE_DIR", str(temporary_folder()))
    # programs here run for a moment and take seconds to be made fast
    os.environ.setdefault("JAX_DISABLE_MOST_OPTIMIZATIONS", "1")
    os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0")
    os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES", "-1")
    from overparam.analysis import data_labels, data_rival

    data_rival.TREES, data_labels.TREES = 8, 8  # scikit-learn's trees are most of the time, and keep nothing
    for module in pkgutil.walk_packages(op.__path__, "overparam."):
        if not module.name.startswith("overparam.adapters") and not module.name.endswith("__main__"):
            importlib.import_module(module.name)
    for module in (
        "matplotlib.figure",
        "matplotlib.backends.backend_agg",
        "matplotlib.backends.backend_svg",
        "sklearn.ensemble",
        "equinox",
        "pydantic",
        "rich.panel",
        "PIL.PngImagePlugin",
    ):
        with contextlib.suppress(ModuleNotFoundError):  # what others bring is not everywhere
            importlib.import_module(module)
