"""Runs the archived library's own examples and tests on `overparam.neural_tangents`, and writes what passes into the docs.

    python benchmarks/rivals/dropin.py CHECKOUT                    all of it; hours on a small machine
    python benchmarks/rivals/dropin.py CHECKOUT --only elementwise_test.ABRelu combinators_test --seconds 600
    python benchmarks/rivals/dropin.py --table                     the page again, from the stored outcome

CHECKOUT is a copy of google/neural-tangents. The drop-in is registered under that name; what the tests import from elsewhere
(data sets, private helpers, names that JAX dropped) is supplied here. It needs absl-py and, for some files, more-itertools and
flax. Every file has a process of its own. Outcomes are kept test by test in benchmarks/results/dropin.json; a run replaces
those it reached. A skip is not a pass, and a test that was not reached in time counts as not run.
"""

from __future__ import annotations

import argparse
import functools
import importlib
import json
import os
import subprocess
import sys
import types
import unittest
from collections import Counter
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
STORED = ROOT / "benchmarks" / "results" / "dropin.json"
PAGE = ROOT / "docs" / "coming_from_neural_tangents.md"
BEGIN, END = "<!-- made by benchmarks/rivals/dropin.py -->", "<!-- end of what it made -->"
EXAMPLES = (
    "elementwise",
    "elementwise_numerical",
    "empirical_ntk",
    "function_space",
    "imdb",
    "infinite_fcn",
    "weight_space",
)
TESTS = (
    "stax.branching_test",
    "stax.combinators_test",
    "stax.elementwise_test",
    "stax.linear_test",
    "stax.requirements_test",
    "stax.stax_test",
    "batching_test",
    "monte_carlo_test",
    "empirical_test",
    "predict_test",
)
OUTCOMES = ("passed", "failed", "not offered", "skipped", "not run")
MARK = "OUTCOME "


class Missing:
    """A public name that is not offered: whatever asks it for something says so."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, name: str) -> Missing:
        if name.startswith("__"):
            raise AttributeError(name)
        return Missing(f"{self._name}.{name}")

    def __call__(self, *args: Any, **options: Any) -> Any:
        raise NotImplementedError(f"`{self._name}` is not offered")

    def __iter__(self) -> Any:
        return iter(())


def missing_layer(name: str) -> Any:
    """Of a layer that is not offered three functions that say so when they are called: whole files make one when they are read."""

    def layer(*args: Any, **options: Any) -> Any:
        def refused(*args: Any, **options: Any) -> Any:
            raise NotImplementedError(f"`{name}` is not offered")

        return refused, refused, refused

    return layer


def register() -> None:
    """The drop-in under the archived name, and what tests take from elsewhere."""
    import jax
    import jax.numpy as jnp

    import overparam.neural_tangents as ours
    from overparam.neural_tangents import stax

    def module(name: str, of: Any = None, **extra: Any) -> types.ModuleType:
        made = types.ModuleType(name)
        if of is not None:
            vars(made).update({key: value for key, value in vars(of).items() if not key.startswith("_")})
        vars(made).update(extra)
        vars(made).setdefault(
            "__getattr__", lambda key: Missing(f"{name}.{key}") if not key.startswith("__") else _no(key)
        )
        sys.modules[name] = made
        parent, _, last = name.rpartition(".")
        if parent in sys.modules:
            setattr(sys.modules[parent], last, made)
        return made

    def _no(key: str) -> Any:
        raise AttributeError(key)

    layers = module("neural_tangents.stax", stax)
    for name in ("Aggregate", "DotGeneral", "ImageResize", "Index"):
        setattr(layers, name, missing_layer(f"stax.{name}"))
    predict = module("neural_tangents.predict", vars(ours).get("predict"))
    module("neural_tangents", ours, stax=layers, predict=predict, __path__=[])
    implementation = getattr(getattr(ours, "NtkImplementation", None), "JACOBIAN_CONTRACTION", None)
    for name in (
        "_src",
        "_src.utils",
        "_src.utils.utils",
        "_src.batching",
        "_src.monte_carlo",
        "_src.predict",
        "_src.empirical",
    ):
        made = module(f"neural_tangents.{name}", __path__=[])
        made._DEFAULT_TESTING_NTK_IMPLEMENTATION = implementation  # pyright: ignore[reportAttributeAccessIssue]
    sys.modules["neural_tangents._src.batching"].batch = ours.batch  # pyright: ignore[reportAttributeAccessIssue]
    sys.modules["neural_tangents._src.monte_carlo"].monte_carlo_kernel_fn = ours.monte_carlo_kernel_fn  # pyright: ignore
    sys.modules["neural_tangents._src.utils"].utils = sys.modules["neural_tangents._src.utils.utils"]  # pyright: ignore
    jax.tree_map = jax.tree.map  # pyright: ignore[reportAttributeAccessIssue]
    module("examples", __path__=[str(Path(sys.path[0]) / "examples")])
    importlib.import_module("examples.util")
    module("examples.datasets", get_dataset=functools.partial(_data, jnp), minibatch=_minibatches)


def _data(jnp: Any, name: str, n_train: int | None = None, n_test: int | None = None, **options: Any) -> Any:
    """Digits of scikit-learn, as large as the examples ask."""
    import numpy as np
    from sklearn.datasets import load_digits

    digits: Any = load_digits()
    images = np.pad(
        digits.images / 16.0, ((0, 0), (10, 10), (10, 10))
    )  # as large as MNIST's, which the examples count on
    X, y = images.reshape(len(images), -1), np.eye(10)[digits.target] - 0.1
    n, p = n_train or 1000, n_test or 500
    return tuple(jnp.array(each, dtype=jnp.float32) for each in (X[:n], y[:n], X[n : n + p], y[n : n + p]))


def _minibatches(x: Any, y: Any, batch_size: int, epochs: int) -> Any:
    """Rows in their order, again in every epoch."""
    for _ in range(epochs):
        for start in range(0, len(x) - batch_size + 1, batch_size):
            yield x[start : start + batch_size], y[start : start + batch_size]


def child(checkout: str, name: str, only: list[str]) -> None:
    """One file: a line an outcome on stdout."""
    os.environ.setdefault("JAX_THREEFRY_PARTITIONABLE", "0")  # random numbers as they were in its days
    sys.path.insert(0, checkout)
    os.chdir(checkout)
    register()
    from absl import flags

    if name.startswith("examples."):
        flags.FLAGS(["run"])
        dummy = {"use_dummy_data": True} if name.endswith("imdb") else {}
        _say(name, *_outcome(lambda: importlib.import_module(name).main(None, **dummy)))
        return
    try:
        tests = importlib.import_module(f"tests.{name}")
    except Exception as error:
        _say(name, *_named(error))
        return
    flags.FLAGS(["run"])
    for test in _cases(unittest.defaultTestLoader.loadTestsFromModule(tests)):
        place = test.id().removeprefix("tests.")
        if not only or any(part in place for part in only):
            _say(place, *_outcome(functools.partial(_run, test)))


def _cases(suite: Any) -> Any:
    for each in suite:
        if isinstance(each, unittest.TestSuite):
            yield from _cases(each)
        else:
            yield each


def _run(test: unittest.TestCase) -> None:
    test.setUp()
    getattr(test, test._testMethodName)()
    test.tearDown()


def _outcome(action: Any) -> tuple[str, str]:
    try:
        action()
    except BaseException as error:
        if isinstance(error, KeyboardInterrupt):
            raise
        return _named(error)
    return "passed", ""


def _named(error: BaseException) -> tuple[str, str]:
    line = f"{type(error).__name__}: {str(error).strip().splitlines()[0] if str(error).strip() else ''}"[:160]
    if isinstance(error, unittest.SkipTest):
        return "skipped", line
    lacking = isinstance(error, NotImplementedError) and "not offered" in str(error)
    return ("not offered" if lacking else "failed"), line


def _say(place: str, outcome: str, reason: str) -> None:
    print(MARK + json.dumps({"test": place, "outcome": outcome, "reason": reason}), flush=True)


def run(checkout: str, only: list[str], seconds: float) -> None:
    """Every file in a process; outcomes go into the stored ones."""
    for name in [f"examples.{example}" for example in EXAMPLES] + list(TESTS):
        parts = [part for part in only if part in name or part.split(".")[0] == name.split(".")[-1]]
        if only and not parts:
            continue
        inside = [part for part in parts if part not in name]
        command = [sys.executable, __file__, "--child", name, checkout, "--only", *inside]
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=seconds, check=False)
            text, said = done.stdout, done.stderr
        except subprocess.TimeoutExpired as late:
            text, said = (late.stdout or b"").decode(), "out of time"
        found = [json.loads(line[len(MARK) :]) for line in text.splitlines() if line.startswith(MARK)]
        stored = json.loads(STORED.read_text(encoding="utf-8")) if STORED.exists() else {}  # others may run beside this
        stored |= {each["test"]: {"outcome": each["outcome"], "reason": each["reason"]} for each in found}
        if not found:
            reason = (said.strip().splitlines() or ["nothing was said"])[-1][:160]
            stored[name] = {"outcome": "not run", "reason": reason}
        print(name, dict(Counter(each["outcome"] for each in found)), flush=True)
        STORED.write_text(json.dumps(dict(sorted(stored.items())), indent=1) + "\n", encoding="utf-8")


def table() -> str:
    """Outcomes by file, and the reasons of what did not pass."""
    stored = json.loads(STORED.read_text(encoding="utf-8"))
    by_file: dict[str, Counter[str]] = {}
    for test, found in stored.items():
        parts = test.split(".")
        file = (
            test
            if parts[0] == "examples"
            else ".".join(part for part in parts if part in {p for t in TESTS for p in t.split(".")})
        )
        by_file.setdefault(file, Counter())[found["outcome"]] += 1
    lines = ["| file | " + " | ".join(OUTCOMES) + " |", "|---|" + "---|" * len(OUTCOMES)]
    lines += [
        f"| `{file}` | " + " | ".join(str(count[o] or "") for o in OUTCOMES) + " |"
        for file, count in sorted(by_file.items())
    ]
    reasons = Counter(found["reason"] for found in stored.values() if found["outcome"] not in ("passed", "skipped"))
    lines += ["", "What stands behind the cases that did not pass, the commonest first:", ""]
    lines += [f"- {count} × {reason.replace('|', '/')}" for reason, count in reasons.most_common(12)]
    return "\n".join(lines)


def write() -> None:
    """The table into the page, between its marks."""
    text = PAGE.read_text(encoding="utf-8")
    before, rest = text.split(BEGIN)
    _, after = rest.split(END)
    PAGE.write_text(f"{before}{BEGIN}\n\n{table()}\n\n{END}{after}", encoding="utf-8")


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("checkout", nargs="?", help="a copy of google/neural-tangents")
    arguments.add_argument("--only", nargs="*", default=[], help="parts of names of files or tests")
    arguments.add_argument("--seconds", type=float, default=3600, help="a file")
    arguments.add_argument("--table", action="store_true", help="write the page from the stored outcome")
    arguments.add_argument("--child", help=argparse.SUPPRESS)
    given = arguments.parse_args()
    if given.child:
        child(given.checkout, given.child, given.only)
        return
    if not given.table:
        if given.checkout is None:
            arguments.error("name the folder of a checkout of google/neural-tangents")
        run(str(Path(given.checkout).resolve()), given.only, given.seconds)
    write()


if __name__ == "__main__":
    main()
