"""`build_gram`: the kernel matrix of a data set made once, into a folder from which everything else multiplies with it."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, final

import numpy as np

from overparam.analysis.data_rows import prepare_rows
from overparam.core.checks import one_of, positive, whole_number
from overparam.core.kernel import AbstractInnerProductKernel, AbstractKernel
from overparam.core.progress import Progress
from overparam.core.provenance import Provenance
from overparam.core.reading import place_of
from overparam.core.sections import Section, Text, Verdict, table
from overparam.core.spec import Spec, spec_of
from overparam.core.words import byte_size, count_of, duration, number
from overparam.data import as_dataset
from overparam.engines import AbstractGram, gram
from overparam.engines.plan import EnginePlan, make_plan
from overparam.engines.rows_on_disk import RowsOnDisk, rows_on_disk
from overparam.engines.stored import DTYPES, disk_need
from overparam.engines.tile_folder import NAME
from overparam.frame import AbstractAnswer, Job, Part, Plan, Work, verb

KERNELS = ("two-layer", "fully-connected", "laplace", "gaussian")
"""Kernels by name; in Python any kernel is taken."""
ENGINES = ("stored", "auto", "dense", "half", "matrix_free")


@final
@dataclass(frozen=True, eq=False)
class BuiltGram(AbstractAnswer):
    """What was built: of which rows and kernel, how large it is, and what a product costs.

    `open(place, data)` is the matrix again, as `op.gram` gives it; nothing is computed where its tiles are in `place`.
    """

    kind: ClassVar[str] = "gram"

    name: str
    n: int
    d: int
    kernel: Spec
    get: str
    engine: str
    dtype: str
    preprocess: str | None
    """How rows were scaled; None where they were taken as they are."""
    max_rows: int | None
    stored_bytes: int
    """Of tiles on disk; 0 where the matrix was held in memory."""
    diagonal: np.ndarray
    row_means: np.ndarray
    """How alike a row is to all rows: the mean of its entries."""
    norm: float
    """‖H‖_F."""
    repaired: int | None
    """Near-parallel pairs made from exact gaps; None where some tiles were there before."""
    product_seconds: float
    notes: tuple[str, ...]
    verdict: Verdict
    provenance: Provenance

    @property
    def title(self) -> str:
        return f"{self.name}: its kernel matrix"

    @property
    def trace(self) -> float:
        """The sum of the eigenvalues."""
        return float(self.diagonal.sum())

    @property
    def mean_entry(self) -> float:
        """Of the whole matrix."""
        return float(self.row_means.mean())

    @property
    def done(self) -> str:
        return f"{count_of(self.n, 'row')}, {byte_size(self.stored_bytes)} on disk" if self.stored_bytes else ""

    def sections(self) -> tuple[Section, ...]:
        rows = [
            {"what": "kernel", "value": f"{self.kernel}, {self.get}"},
            {"what": "rows and features", "value": f"{self.n:,} × {self.d:,}"},
            {"what": "engine", "value": f"{self.engine}, {self.dtype}"},
            {"what": "on disk", "value": byte_size(self.stored_bytes) if self.stored_bytes else "nothing"},
            {"what": "trace", "value": number(self.trace)},
            {"what": "‖H‖_F", "value": number(self.norm)},
            {"what": "mean of its entries", "value": number(self.mean_entry)},
            {"what": "near-parallel pairs, made exactly", "value": number(self.repaired)},
            {"what": "one product", "value": duration(self.product_seconds)},
        ]
        found = [
            self.verdict.section,
            Section("The matrix", (table({"what": "what", "value": "of this matrix"}, rows),)),
        ]
        if self.notes:
            found.append(Section("What was done", tuple(map(Text, self.notes))))
        return tuple(found)

    def open(self, place: str | os.PathLike[str], data: Any, y: Any = None, **reading: Any) -> AbstractGram:
        """The matrix in `place`, of the same data read in the same way; other data are refused."""
        kernel = self.kernel.make()
        X = _rows(data, y, self.preprocess, self.max_rows, self.provenance.seed or 0, kernel, reading)[0]
        engine: Any = self.engine if self.stored_bytes else "auto"
        own = {"place": place, "dtype": self.dtype} if self.stored_bytes else {}
        return gram(kernel, X, engine, get=self.get, **own)

    def __repr__(self) -> str:
        return f"BuiltGram({self.name!r}, n={self.n:,}: {self.verdict.sentences[0]})"


def prepare_build_gram(
    data: Any,
    y: Any = None,
    *,
    kernel: AbstractKernel | str = "two-layer",
    depth: int | None = None,
    bandwidth: float | None = None,
    get: str = "ntk",
    engine: str = "stored",
    preprocess: str = "auto",
    max_rows: int | None = None,
    rows_alone: bool = False,
    key: int = 0,
    dtype: str = "float64",
    device: str | None = None,
    place: str | os.PathLike[str] | None = None,
    progress: Progress | None = None,
    **reading: Any,
) -> Job[BuiltGram]:
    """The kernel matrix of a data set, made once into a folder; stopped or killed it goes on, to the same bytes.

    Afterwards `op.gram(kernel, X, "stored", place=place)` opens it, and so does `op.read(place).open(place, data)` once
    the answer is saved there: products, quadratures, solves and predictions read its tiles.

    Args:
        data, y: a name or path that `op.load` knows, a `Dataset`, `X` and `y`, `(X, y)`, or a frame.
        kernel: any kernel, or "two-layer", "fully-connected", "laplace" or "gaussian".
        depth: ReLU layers of "fully-connected"; 3 if not given.
        bandwidth: of "laplace" and "gaussian"; the median distance of rows if not given.
        get: "ntk" or "nngp".
        engine: "stored" writes tiles into `place`; the others of `op.gram` hold the matrix or make it again, which tells
            what it costs.
        preprocess: as in `op.analyze`.
        max_rows: most rows to use; None takes all.
        rows_alone: `data` is rows without labels that are used as they are: an array, a memory map, a Zarr array, or the
            path of a .npy, parquet or Zarr, which may be larger than memory (see `op.gram`).
        key: seed of subsampling.
        dtype: of tiles: "float64", or in half the disk "float32" or "int32", which is off by less; brackets count either.
        device: "cpu" or None for "stored".
        place: the folder.
        progress: called with the seconds of the plan that are done.
        reading: label, group, classes, train, test, task, missing: as in `op.load`.

    >>> import tempfile
    >>> X = [[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]]
    >>> with tempfile.TemporaryDirectory() as place:
    ...     built = build_gram(X, rows_alone=True, place=place)
    ...     built.trace, float(built.open(place, X).dense()[0, 1])
    (2.0, 0.0)
    """
    one_of(engine, "engine", ENGINES)
    if engine == "stored" and place is None:
        raise ValueError("engine='stored' needs `place`, the folder that the matrix is built into")
    how = None if rows_alone else preprocess
    made = _kernel(kernel, depth, bandwidth)
    X, name, notes = _rows(data, y, how, max_rows, key, made, {"key": key, **reading})
    made = made if isinstance(made, AbstractKernel) else made(X)
    cost = _cost(made, X, engine, get, dtype, device, place)
    tiles = place_of(place).absolute() if cost.engine == "stored" and place is not None else None
    spec = spec_of(made)
    asked = {"data": name, "kernel": str(spec), "get": get, "preprocess": how, "max_rows": max_rows, "dtype": dtype}

    def conclude(found: Mapping[str, Any], provenance: Provenance) -> BuiltGram:
        numbers, product = found["its numbers"], found["one product"]
        where = f"{byte_size(cost.disk.whole)} of {dtype} in {NAME}" if cost.disk is not None else "held in memory"
        words = f"The matrix of {count_of(len(X), 'row')} is made: {where}."
        others = ("Every tile was read back once and its checksum fits.",) if tiles is not None else ()
        return BuiltGram(
            name=name,
            n=len(X),
            d=int(np.prod(X.shape[1:])),
            kernel=spec,
            get=get,
            engine=cost.engine,
            dtype=dtype,
            preprocess=how,
            max_rows=max_rows,
            stored_bytes=0 if cost.disk is None else cost.disk.whole,
            diagonal=numbers["diagonal"],
            row_means=product["row_means"],
            norm=float(numbers["norm"]),
            repaired=None if numbers["repaired"] < 0 else int(numbers["repaired"]),
            product_seconds=float(product["seconds"]),
            notes=notes,
            verdict=Verdict("good", (words, *others)),
            provenance=provenance,
        )

    of = (made, X, get, dtype, cost.engine)
    rough = 1e-10 * len(X) ** 2  # for progress where no plan was asked for
    beside = {"place": tiles}
    parts = [
        Part("matrix", _make, of, seconds=100 * rough, kept=False, beside=beside),
        Part("its numbers", _numbers, of, ("matrix",), seconds=rough),
        Part("one product", _product, of, ("matrix",), seconds=10 * rough),
    ]

    def timed() -> dict[str, float]:
        seconds = {"matrix": cost.gram_seconds, "its numbers": 1e-3, "one product": cost.product_seconds}
        return {name: max(1e-3, value) for name, value in seconds.items()}

    plan = Plan(
        f"{name}: the kernel matrix of {count_of(len(X), 'row')} of {int(np.prod(X.shape[1:])):,} features",
        memory=cost.memory,
        free_memory=cost.free_memory,
        disk=0 if cost.disk is None else cost.disk.missing,
        engine=cost.engine,
        device=cost.device,
        dtype=dtype,
        details={"kernel": str(spec)} | ({} if cost.disk is None else {"free_disk": byte_size(cost.disk.free)}),
    )
    provenance = Provenance(asked, seed=key)
    return Job(
        "gram", parts, conclude, plan=plan, provenance=provenance, timed=timed, place=place, progress=progress,
        device=device,
    )  # fmt: skip


build_gram = verb(prepare_build_gram)


def _make(work: Work, kernel: Any, X: Any, get: str, dtype: str, engine: Any, *, place: Path | None) -> AbstractGram:
    return gram(kernel, X, engine, get=get, dtype=dtype, device=work.device, place=place, progress=work.progress)


def _numbers(work: Work, *of: Any) -> dict[str, Any]:
    H: AbstractGram = of[-1]
    square = H.square_sum()
    repaired = -1 if H.repaired is None else H.repaired
    return {"diagonal": H.diagonal(), "norm": np.array(np.sqrt(square)), "repaired": np.array(repaired)}


def _product(work: Work, *of: Any) -> dict[str, Any]:
    """H times ones, which reads every tile."""
    H: AbstractGram = of[-1]
    start = time.perf_counter()
    sums = H.to_host(H.product(H.to_device(np.ones((H.n, 1))), work.progress))
    return {"row_means": sums[:, 0] / H.n, "seconds": np.array(time.perf_counter() - start)}


def _kernel(kernel: Any, depth: int | None, bandwidth: float | None) -> Any:
    """The kernel, or a function of rows that makes it."""
    if not isinstance(kernel, str):
        if depth is not None or bandwidth is not None:
            raise ValueError("`depth` and `bandwidth` are of kernels by name; give them to the kernel itself")
        from overparam.engines.cross import require_kernel

        require_kernel(kernel)
        return kernel
    from overparam.kernels import FullyConnected, Gaussian, Laplace, TwoLayer, median_distance

    one_of(kernel, "kernel", KERNELS)
    if depth is not None and kernel != "fully-connected":
        raise ValueError(f"`depth` is of the fully-connected kernel and `kernel` is {kernel!r}; leave it out")
    if bandwidth is not None and kernel not in ("laplace", "gaussian"):
        raise ValueError(f"`bandwidth` is of the Laplace and Gaussian kernels and `kernel` is {kernel!r}; leave it out")
    if kernel == "two-layer":
        return TwoLayer()
    if kernel == "fully-connected":
        return FullyConnected(3 if depth is None else whole_number(depth, "depth", 1))
    kind = Laplace if kernel == "laplace" else Gaussian
    if bandwidth is not None:
        return kind(positive(bandwidth, "bandwidth"))
    return lambda X: kind(median_distance(np.unique(np.asarray(X[:1_000]), axis=0)))


def _rows(
    data: Any, y: Any, how: str | None, max_rows: int | None, key: int, kernel: Any, reading: Mapping[str, Any]
) -> tuple[Any, str, tuple[str, ...]]:
    """Rows as the kernel takes them, the name of the data, and what was done; `how` None takes rows as they are."""
    checked = kernel if isinstance(kernel, AbstractKernel) else None
    if how is None:
        from overparam.kernels import TwoLayer

        taken = checked or TwoLayer()
        found = rows_on_disk(data, taken)
        X = taken.inputs(data, "data") if found is None else found
        if max_rows is not None and max_rows < len(X):
            raise ValueError(
                f"`max_rows` is {max_rows:,} and rows taken as they are number {len(X):,}; give fewer rows"
            )
        return X, Path(data).name if isinstance(data, str | os.PathLike) else "rows", ()
    source = as_dataset(data, y, **{"key": key, **reading})
    limit = source.n if max_rows is None else whole_number(max_rows, "max_rows", 2)
    rows = prepare_rows(source, how, limit, key)
    X = rows.X if checked is None else checked.inputs(rows.X, "X")
    return X, source.name, rows.notes


def _cost(
    kernel: AbstractKernel, X: Any, engine: str, get: str, dtype: str, device: str | None, place: Any
) -> EnginePlan:
    """The plan of the matrix, before it is made."""
    of_products = isinstance(kernel, AbstractInnerProductKernel)
    if engine == "stored" and device not in (None, "cpu"):
        raise ValueError(f"engine='stored' multiplies on the CPU and `device` is {device!r}; leave `device` out")
    if engine != "stored" and dtype != "float64":
        raise ValueError(
            f"`dtype` is {dtype!r} and engine={engine!r} computes in float64; use engine='stored', or leave it out"
        )
    one_of(dtype, "dtype", DTYPES)
    from overparam.engines.matrix import chosen_device

    return make_plan(
        kernel,
        len(X),
        int(np.prod(X.shape[1:])),
        engine=engine,
        device="cpu" if engine == "stored" or not of_products else chosen_device(device),
        threads=None,
        memory=None,
        get=get,
        samples=None if of_products else X,
        disk=disk_need(kernel, X, get, place, dtype) if engine == "stored" else None,
        rows_on_disk=isinstance(X, RowsOnDisk),
    )
