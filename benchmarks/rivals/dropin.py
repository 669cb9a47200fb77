"""Runs the archived library's own examples and tests on `overparam.neural_tangents`, and writes what passes into the docs.

    python benchmarks/rivals/dropin.py CHECKOUT                    all of it; hours on a small machine
    python benchmarks/rivals/dropin.py CHECKOUT --only elementwise_test.ABRelu combinators_test --seconds 600
    python benchmarks/rivals/dropin.py CHECKOUT --left --seconds 600      what no run has reached, or failed
    python benchmarks/rivals/dropin.py CHECKOUT --large --only stax_test  with what the tests leave out on a CPU, for speed
    python benchmarks/rivals/dropin.py --table                     the page again, from the stored outcome

CHECKOUT is a copy of google/neural-tangents. The drop-in is registered under that name; what the tests import from elsewhere
(data sets, private helpers, names that JAX dropped) is supplied here. It needs absl-py and, for some files, flax. Every file has
a process of its own, in which the first case of every function comes before the second of any. Outcomes are kept test by test in
benchmarks/results/dropin.json; a run replaces those it reached. A skip is not a pass, and a case that no run has reached stands
there as not run. NT_NUM_GENERATED_CASES says how many cases of a function are drawn.
"""

from __future__ import annotations

import argparse
import contextlib
import functools
import importlib
import itertools
import json
import os
import re
import subprocess
import sys
import threading
import time
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
REASONS = {
    "failed": "What stands behind the cases that failed, the commonest first:",
    "not offered": "Behind those that are not offered:",
    "skipped": "Why tests left cases out themselves:",
    "not run": "Behind those not run:",
}
MARK = "OUTCOME "
FOUND = "FOUND "


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
        "_src.utils.kernel",
    ):
        made = module(f"neural_tangents.{name}", __path__=[])
        made._DEFAULT_TESTING_NTK_IMPLEMENTATION = implementation  # pyright: ignore[reportAttributeAccessIssue]
    supplied = {
        "batching": {
            "batch": ours.batch,
            "_serial": functools.partial(ours.batch, device_count=0),
            "_parallel": functools.partial(ours.batch, batch_size=0),
        },
        "monte_carlo": {
            "monte_carlo_kernel_fn": ours.monte_carlo_kernel_fn,
            "_sample_once_kernel_fn": functools.partial(_one_draw, ours.batch),
        },
        "predict": {"_is_on_cpu": _on_cpu},
        "utils": {"utils": sys.modules["neural_tangents._src.utils.utils"]},
        "utils.kernel": {"Kernel": ours.Kernel},
        "utils.utils": {"zip_flat": lambda one, two: [each for pair in zip(one, two, strict=True) for each in pair]},
    }
    for name, functions in supplied.items():
        vars(sys.modules[f"neural_tangents._src.{name}"]).update(functions)
    with contextlib.suppress(ModuleNotFoundError):
        importlib.import_module("more_itertools")
    if "more_itertools" not in sys.modules:
        module("more_itertools", powerset=_powerset)
    jax.tree_map = jax.tree.map  # pyright: ignore[reportAttributeAccessIssue]
    module("examples", __path__=[str(Path(sys.path[0]) / "examples")])
    importlib.import_module("examples.util")
    module("examples.datasets", get_dataset=functools.partial(rows_of_digits, jnp), minibatch=minibatches)


def rows_of_digits(jnp: Any, name: str, n_train: int | None = None, n_test: int | None = None, **options: Any) -> Any:
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


def minibatches(x: Any, y: Any, batch_size: int, epochs: int) -> Any:
    """Rows in their order, again in every epoch."""
    for _ in range(epochs):
        for start in range(0, len(x) - batch_size + 1, batch_size):
            yield x[start : start + batch_size], y[start : start + batch_size]


def _powerset(things: Any) -> Any:
    things = tuple(things)
    return (some for size in range(len(things) + 1) for some in itertools.combinations(things, size))


def _one_draw(
    batch: Any, kernel_fn: Any, init_fn: Any, batch_size: int = 0, device_count: int = -1, store: bool = True
) -> Any:
    """The kernel of one draw of the weights, in blocks."""

    def drawn(x1: Any, x2: Any, key: Any, get: Any) -> Any:
        params = init_fn(key, x1.shape)[1]
        of_draw = batch(lambda x, z: kernel_fn(x, z, get, params), batch_size, device_count, store)
        return of_draw(x1, x2)

    return drawn


def _on_cpu(tree: Any) -> bool:
    """Whether every array is in the host's memory."""
    import jax

    return all(
        not hasattr(leaf, "devices") or {each.platform for each in leaf.devices()} == {"cpu"}
        for leaf in jax.tree.leaves(tree)
    )


def child(checkout: str, name: str, only: list[str], left: bool, large: bool) -> None:
    """One file: a line of its tests, and a line an outcome on stdout."""
    os.environ.setdefault("JAX_THREEFRY_PARTITIONABLE", "0")  # random numbers as they were in its days
    sys.path.insert(0, checkout)
    os.chdir(checkout)
    register()
    from absl import flags

    if name.startswith("examples."):
        flags.FLAGS(["run"])
        dummy = {"use_dummy_data": True} if name.endswith("imdb") else {}
        _try(name, lambda: importlib.import_module(name).main(None, **dummy))
        return
    try:
        tests = importlib.import_module(f"tests.{name}")
    except Exception as error:
        _say(name, *_named(error), seconds=0.0)
        return
    flags.FLAGS(["run"])
    if large:
        sys.modules["tests.test_utils"].skip_test = lambda *args, **options: None  # pyright: ignore[reportAttributeAccessIssue]
    every = _cases(unittest.defaultTestLoader.loadTestsFromModule(tests))
    found = dict(sorted(((_place(test), test) for test in every), key=lambda each: _number(each[0])))
    known = _stored()
    print(FOUND + json.dumps(list(found)), flush=True)
    for place, test in found.items():
        before = known.get(place, {}).get("outcome", "not run")
        wanted = before in ("failed", "not run") or (large and before == "skipped") if left else True
        if wanted and (not only or any(part in place for part in only)):
            _try(place, functools.partial(_run, test))


def _place(test: unittest.TestCase) -> str:
    """Its name and parameters, without what is another in every process."""
    return re.sub(r"<function ([\w.]*?)(\.<locals>[\w.<>]*)? at 0x[0-9a-f]+>", r"\1", test.id().removeprefix("tests."))


def _number(place: str) -> int:
    """Which of the cases of its function: the first of every function are run before the second of any."""
    digits = re.search(r"\d*$", place.split(" ")[0])
    return int(digits[0] or 0) if digits else 0


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


def _try(place: str, action: Any) -> None:
    """Says how it ended, and after how many seconds of the processor."""
    began, found = time.process_time(), ("passed", "")
    try:
        action()
    except BaseException as error:
        if isinstance(error, KeyboardInterrupt):
            raise
        found = _named(error)
    _say(place, *found, seconds=round(time.process_time() - began, 1))


def _named(error: BaseException) -> tuple[str, str]:
    line = f"{type(error).__name__}: {str(error).strip().splitlines()[0] if str(error).strip() else ''}"[:160]
    if isinstance(error, unittest.SkipTest):
        return "skipped", line
    lacking = isinstance(error, NotImplementedError) and "not offered" in str(error)
    return ("not offered" if lacking else "failed"), line


def _say(place: str, outcome: str, reason: str, seconds: float) -> None:
    said = {"test": place, "outcome": outcome, "reason": reason, "seconds": seconds}
    print(MARK + json.dumps(said), flush=True)


def _stored() -> dict[str, Any]:
    return json.loads(STORED.read_text(encoding="utf-8")) if STORED.exists() else {}


def run(checkout: str, only: list[str], seconds: float, options: list[str]) -> None:
    """Every file in a process; outcomes go into the stored ones."""
    for name in [f"examples.{example}" for example in EXAMPLES] + list(TESTS):
        parts = [part for part in only if part in name or part.split(".")[0] == name.split(".")[-1]]
        if only and not parts:
            continue
        inside = [part for part in parts if part not in name]
        command = [sys.executable, __file__, "--child", name, checkout, *options, "--only", *inside]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        late = threading.Timer(seconds, process.kill)
        late.start()
        counts, said = Counter[str](), "nothing was said"
        with process:
            for line in process.stdout or ():
                if line.startswith(FOUND):
                    _keep(name, json.loads(line[len(FOUND) :]), {})
                elif line.startswith(MARK):
                    each = json.loads(line[len(MARK) :])
                    counts[each["outcome"]] += 1
                    _keep(name, None, {each.pop("test"): each})
                else:
                    said = line.strip() or said
        late.cancel()
        print(name, dict(counts) or said, flush=True)


def _keep(name: str, every: list[str] | None, found: dict[str, Any]) -> None:
    """At once: a run may be stopped, and others may run beside it. Of a file whose cases are told, those of other draws leave."""
    stored = _stored()
    if every is not None:
        stored = {
            place: each for place, each in stored.items() if place in every or not f"{place}.".startswith(f"{name}.")
        }
        stored = {place: {"outcome": "not run", "reason": "not reached in time"} for place in every} | stored
    STORED.write_text(json.dumps(dict(sorted((stored | found).items())), indent=1) + "\n", encoding="utf-8")


def table() -> str:
    """Outcomes by file, and the reasons of what did not pass."""
    stored = _stored()
    by_file: dict[str, Counter[str]] = {}
    reached: dict[str, bool] = {}
    for test, found in stored.items():
        file = next((name for name in TESTS if test.startswith(f"{name}.")), test)
        by_file.setdefault(file, Counter())[found["outcome"]] += 1
        if file in TESTS:
            function = test.split(" ")[0].rstrip("0123456789")
            reached[function] = reached.get(function, False) or found["outcome"] not in ("not run", "skipped")
    lines = ["| file | " + " | ".join(OUTCOMES) + " |", "|---|" + "---|" * len(OUTCOMES)]
    every = sum(by_file.values(), Counter())
    lines += [
        f"| {file} | " + " | ".join(str(count[o] or "") for o in OUTCOMES) + " |"
        for file, count in [*((f"`{file}`", count) for file, count in sorted(by_file.items())), ("together", every)]
    ]
    run = every["passed"] + every["failed"]
    lines += [
        "",
        f"Of {len(reached)} test functions {sum(reached.values())} were reached by a case that the tests do not leave out themselves. Of the cases "
        f"that were run and whose subject is offered, {every['passed']} of {run} pass ({every['passed'] / run:.1%}); {every['not run']} more were "
        f"not run, so that {every['passed'] / (run + every['not run']):.1%} of all of them are known to pass.",
    ]
    for outcome, words in REASONS.items():
        counts = Counter(found["reason"] for found in stored.values() if found["outcome"] == outcome)
        if counts:
            lines += ["", words, ""]
            lines += [f"- {count} × {reason.replace('|', '/')}" for reason, count in counts.most_common(12)]
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
    arguments.add_argument("--left", action="store_true", help="only what no run has reached, or failed")
    arguments.add_argument("--large", action="store_true", help="also what the tests leave out on a CPU, for speed")
    arguments.add_argument("--table", action="store_true", help="write the page from the stored outcome")
    arguments.add_argument("--child", help=argparse.SUPPRESS)
    given = arguments.parse_args()
    if given.child:
        child(given.checkout, given.child, given.only, given.left, given.large)
        return
    if not given.table:
        if given.checkout is None:
            arguments.error("name the folder of a checkout of google/neural-tangents")
        options = ["--left"] * given.left + ["--large"] * given.large
        run(str(Path(given.checkout).resolve()), given.only, given.seconds, options)
    write()


if __name__ == "__main__":
    main()
