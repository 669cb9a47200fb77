"""Runs the archived library's notebooks and examples in its old environment and on the drop-in, and compares numbers and times.

    python benchmarks/rivals/notebooks.py CHECKOUT --before rival-venv/bin/python         all that has not been run
    python benchmarks/rivals/notebooks.py CHECKOUT --before rival-venv/bin/python --only cookbook --again
    python benchmarks/rivals/notebooks.py --table                                         the page again, from the stored outcome

CHECKOUT is a copy of google/neural-tangents; the environment is that of README.md with scikit-learn and absl-py in it. Cells are run
as they stand there, but for those that its own tests leave out; figures are not drawn, data sets of TensorFlow are digits of
scikit-learn, a cell that is timed runs once, and sizes that would take hours are smaller (`SMALLER`). Both sides draw the same random
numbers (`jax_threefry_partitionable` off) and work in float64. Compared are all arrays of numbers that a notebook has in the end or
gives to its figures, and what an example prints; a difference is the largest of an array over its largest number. Seconds are those of
the processor. Outcomes are kept in benchmarks/results/notebooks.json.
"""

from __future__ import annotations

import argparse
import contextlib
import functools
import importlib
import io
import json
import os
import re
import subprocess
import sys
import tempfile
import time
import types
from pathlib import Path
from typing import Any

import numpy as np
from dropin import EXAMPLES, ROOT, minibatches, register, rows_of_digits

STORED = ROOT / "benchmarks" / "results" / "notebooks.json"
PAGE = ROOT / "docs" / "coming_from_neural_tangents.md"
BEGIN, END = "<!-- made by benchmarks/rivals/notebooks.py -->", "<!-- end of the notebooks -->"
SMALLER = {
    "neural_tangents_cookbook": {"training_steps = 10000": "training_steps = 300", "10 ** 3, 10 ** -1": "30, 10 ** -1"},
    "phase_diagram": {"0, 3, 0.01": "0.05, 3, 0.25", "0., 0.25, 0.001": "0.01, 0.25, 0.05"},
    "learning_curves": {"n = 12000": "n = 400", "n_average = 20": "n_average = 2", "10000": "500", "60000": "400"},
    "weight_space_linearization": {"training_epochs = 5": "training_epochs = 1", "jnp.float32": "jnp.float64"},
    "function_space_linearization": {
        "jnp.float32": "jnp.float64",
        "jnp.arange(1000)": "jnp.arange(101)",
        "print_every = 100.0": "print_every = 20.0",
    },
    "myrtle_kernel_with_neural_tangents": {"(10, 32": "(2, 32", "(50, 32": "(4, 32", "batch_size=10": "batch_size=2"},
    "empirical_ntk_fcn": {"2048": "256"},
    "elementwise": {},
}
"""What is run, and how much of it."""
LEFT_OUT = {"empirical_ntk_resnet": "224 x 224 images by a network of 18 layers: hours on a processor"}


DRAWN: list[Any] = []
"""What functions of figures were called with."""


class Nothing:
    """A library of figures that draws none."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return Nothing()

    def __call__(self, *args: Any, **options: Any) -> Any:
        DRAWN.extend(args)
        return Nothing()

    def __getitem__(self, index: Any) -> Any:
        return Nothing()

    def __setitem__(self, index: Any, value: Any) -> None:
        pass

    def __iter__(self) -> Any:
        return iter([Nothing()] * 2)

    def __mul__(self, other: Any) -> Any:
        return Nothing()

    __rmul__ = __mul__


class Digits:
    """Digits as large as MNIST's, as a data set of TensorFlow."""

    def __init__(self, rows: list[dict[str, Any]]) -> None:
        self._rows = rows

    def shuffle(self, size: int) -> Digits:
        return self

    def batch(self, size: int) -> Digits:
        whole = self._rows[0]
        count = len(whole["label"])
        return Digits([{k: v[i : i + size] for k, v in whole.items()} for i in range(0, count - size + 1, size)])

    def repeat(self, times: int) -> Digits:
        return Digits(self._rows * times)

    def __iter__(self) -> Any:
        return iter(self._rows)


def digits(name: str, split: Any = None, batch_size: int | None = None) -> Any:
    """Of `tensorflow_datasets`: all of them to be cut in batches, or the first of each split named."""
    from sklearn.datasets import load_digits

    loaded: Any = load_digits()
    images = np.pad(loaded.images * 15, ((0, 0), (10, 10), (10, 10)))[..., None].astype(np.uint8)
    rows = {"image": images, "label": loaded.target}
    if batch_size is None:
        return Digits([rows])
    sizes = [int((re.search(r"\d+", each) or ["0"])[0]) for each in split]
    return [{key: value[place * 500 :][:size] for key, value in rows.items()} for place, size in enumerate(sizes)]


def child(checkout: str, name: str, new: bool, out: str) -> None:
    """One notebook or example on one side: its numbers, and its seconds."""
    os.environ["JAX_THREEFRY_PARTITIONABLE"] = "0"
    os.environ["JAX_ENABLE_X64"] = "1"
    sys.path.insert(0 if new else len(sys.path), checkout)  # of the archived library, the release is taken
    for each in ("IPython", "IPython.display", "seaborn", "matplotlib", "matplotlib.pyplot"):
        sys.modules[each] = Nothing()  # pyright: ignore[reportArgumentType]
    datasets = types.ModuleType("tensorflow_datasets")
    vars(datasets).update(load=digits, as_numpy=lambda each: each, Split=Nothing())
    sys.modules["tensorflow_datasets"] = datasets
    if new:
        register()
    else:
        importlib.import_module("archived")
        examples = types.ModuleType("examples.datasets")
        jnp = importlib.import_module("jax.numpy")
        vars(examples).update(get_dataset=functools.partial(rows_of_digits, jnp), minibatch=minibatches)
        importlib.import_module("examples")
        sys.modules["examples.datasets"] = vars(sys.modules["examples"])["datasets"] = examples
    importlib.import_module("sklearn.datasets")  # its seconds are neither side's
    begun = time.process_time()
    kind, _, last = name.partition("/")
    found = notebook(checkout, last) if kind == "notebooks" else example(last)
    np.savez(out, seconds=time.process_time() - begun, **found)


def notebook(checkout: str, name: str) -> dict[str, Any]:
    """Its cells, and the numbers that its variables are in the end."""
    text = (Path(checkout) / "notebooks" / f"{name}.ipynb").read_text(encoding="utf-8")
    space: dict[str, Any] = {"__name__": name}
    found: dict[str, Any] = {}
    leaves = importlib.import_module("jax").tree_util.tree_leaves
    for cell in json.loads(text)["cells"]:
        source = "".join(cell["source"])
        if cell["cell_type"] != "code" or '"skip": true' in source:
            continue
        source = "\n".join(line for line in source.splitlines() if not line.startswith(("!", "%%")))
        for before, after in SMALLER[name].items():
            source = source.replace(before, after)
        exec(compile(source, name, "exec"), space)
    drawn = {f"drawn {place}": value for place, value in enumerate(DRAWN)}
    for key, value in [*drawn.items(), *space.items()]:
        if key.startswith("_"):
            continue
        parts = {f"{key}.{field}": getattr(value, field) for field in ("nngp", "ntk") if hasattr(value, field)}
        if isinstance(value, list | tuple | dict):
            parts = {f"{key}.{place}": leaf for place, leaf in enumerate(leaves(value))}
        for place, part in (parts or {key: value}).items():
            with contextlib.suppress(Exception):  # what is no array of numbers is not compared
                array = np.asarray(part)
                if array.dtype.kind in "fiub" and array.size:
                    found[place] = array
    return found


def example(name: str) -> dict[str, Any]:
    """What it prints, but for its times and for what it tells of its own ways: operations, and differences that are rounding."""
    importlib.import_module("absl.flags").FLAGS(["run"])
    dummy = {"use_dummy_data": True} if name == "imdb" else {}
    with contextlib.redirect_stdout(io.StringIO()) as said:
        importlib.import_module(f"examples.{name}").main(None, **dummy)
    lines = [line for line in said.getvalue().splitlines() if not re.search("second|diff|flops", line)]
    numbers = re.findall(r"(?<![\w.])-?\d+\.\d+(?:e-?\d+)?", "\n".join(lines))
    return {"what it prints": np.array([float(each) for each in numbers])} if numbers else {}


def run(checkout: str, before: str, only: list[str], again: bool) -> None:
    """Both sides of each, one after the other; a row is kept as soon as it is known."""
    every = [f"notebooks/{name}" for name in SMALLER] + [f"examples/{name}" for name in EXAMPLES]
    for name in every:
        known = _stored()
        if (only and not any(part in name for part in only)) or (name in known and not again):
            continue
        sides: dict[str, Any] = {}
        row: dict[str, Any] = {"load before": round(os.getloadavg()[0], 1)}
        for side, python in (("before", before), ("after", sys.executable)):
            with tempfile.TemporaryDirectory() as folder:
                out = str(Path(folder) / "out.npz")
                command = [python, __file__, checkout, "--child", name, "--out", out] + ["--new"] * (side == "after")
                done = subprocess.run(command, capture_output=True, text=True, check=False)
                if done.returncode:
                    row["failed"] = f"{side}: {(done.stderr.strip().splitlines() or ['nothing was said'])[-1][:160]}"
                    break
                with np.load(out) as stored:
                    sides[side] = dict(stored)
                row[f"seconds {side}"] = round(float(sides[side].pop("seconds")), 1)
        else:
            row |= compared(sides["before"], sides["after"])
        print(name, row, flush=True)
        text = json.dumps(dict(sorted((_stored() | {name: row}).items())), indent=1)
        STORED.write_text(text + "\n", encoding="utf-8")


def compared(old: dict[str, Any], new: dict[str, Any]) -> dict[str, Any]:
    """How many arrays there are, and the largest difference of any of one shape."""
    row: dict[str, Any] = {"variables": len(old), "other": sorted(set(old) ^ set(new)), "difference": 0.0, "where": ""}
    for key in sorted(set(old) & set(new)):
        a, b = (np.asarray(side[key], float) for side in (old, new))
        if a.shape != b.shape or np.any(np.isfinite(a) != np.isfinite(b)):
            row["other"].append(key)
            continue
        size = np.max(np.abs(a), initial=0.0, where=np.isfinite(a))
        difference = float(np.max(np.abs(a - b), initial=0.0, where=np.isfinite(a)) / (size or 1.0))
        if difference > row["difference"]:
            row |= {"difference": float(f"{difference:.1e}"), "where": key}
    return row


def _stored() -> dict[str, Any]:
    return json.loads(STORED.read_text(encoding="utf-8")) if STORED.exists() else {}


def _named(name: str) -> str:
    """As the page has it: these are files of the other project, and no paths of this one."""
    return f"`{name.replace('/', '.')}`"


def table() -> str:
    """Numbers and seconds of both sides."""
    lines = ["| | arrays compared | largest difference | of | seconds before | after |", "|---|---|---|---|---|---|"]
    for name, row in _stored().items():
        if "failed" in row:
            lines.append(f"| {_named(name)} | {row['failed']} | | | | |")
            continue
        other = "".join(f"; `{each}` differs" for each in row["other"])
        rest = f"{row['seconds before']:g} | {row['seconds after']:g}"
        apart = f"{row['difference']:.0e}" if row["variables"] else "–"
        lines.append(f"| {_named(name)} | {row['variables']} | {apart} | {row['where']}{other} | {rest} |")
    every = [f"notebooks/{name}" for name in SMALLER] + [f"examples/{name}" for name in EXAMPLES]
    left = ", ".join(_named(name) for name in every if name not in _stored())
    if left:
        lines += ["", f"Not run yet: {left}."]
    lines += ["", *(f"Left out: {_named('notebooks/' + name)} ({why})." for name, why in LEFT_OUT.items())]
    return "\n".join(lines)


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("checkout", nargs="?", help="a copy of google/neural-tangents")
    arguments.add_argument("--before", help="the interpreter of its old environment")
    arguments.add_argument("--only", nargs="*", default=[], help="parts of names")
    arguments.add_argument("--again", action="store_true", help="also what has been run")
    arguments.add_argument("--table", action="store_true", help="write the page from the stored outcome")
    for hidden in ("--child", "--out"):
        arguments.add_argument(hidden, help=argparse.SUPPRESS)
    arguments.add_argument("--new", action="store_true", help=argparse.SUPPRESS)
    given = arguments.parse_args()
    if given.child:
        child(given.checkout, given.child, given.new, given.out)
        return
    if not given.table:
        if given.checkout is None or given.before is None:
            arguments.error(
                "name the folder of a checkout of google/neural-tangents, and its old interpreter by --before"
            )
        run(str(Path(given.checkout).resolve()), given.before, given.only, given.again)
    text = PAGE.read_text(encoding="utf-8")
    ahead, rest = text.split(BEGIN)
    PAGE.write_text(f"{ahead}{BEGIN}\n\n{table()}\n\n{END}{rest.split(END)[1]}", encoding="utf-8")


if __name__ == "__main__":
    main()
