"""What all tests share: where the real data sets are, and what keeps many tests on few cores quick."""

import gc
import os
import shutil
import signal
import tempfile
from collections import Counter
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

# The workers of `pytest -n` and the processes tests start meet the same programs: each is compiled once. Set before JAX is
# imported, for the tests alone; a folder of the user's own is left alone.
_KEPT = "" if "JAX_COMPILATION_CACHE_DIR" in os.environ else tempfile.mkdtemp(prefix="overparam-tests-")
if _KEPT:
    os.environ["JAX_COMPILATION_CACHE_DIR"] = _KEPT
    os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0")
    os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES", "-1")

# Thousands of small programs are compiled and each runs for a moment: what XLA does to make them fast is most of the time of the
# tests, and no number may depend on it. `JAX_DISABLE_MOST_OPTIMIZATIONS=0`, and `python -m tests.processors`, leave it in.
if "JAX_DISABLE_MOST_OPTIMIZATIONS" not in os.environ:
    os.environ["JAX_DISABLE_MOST_OPTIMIZATIONS"] = "1"
    # A flag that a later XLA may no longer know would end the process. A program in one piece instead of 32 takes a fifth less.
    if tuple(map(int, version("jaxlib").split(".")[:2])) <= (0, 12):
        quick = "--xla_cpu_use_fusion_emitters=false --xla_cpu_parallel_codegen_split_count=1"
        os.environ["XLA_FLAGS"] = f"{os.environ.get('XLA_FLAGS', '')} {quick}".strip()

# JAX 0.10.0 says two kilobytes on every program that it takes from that folder, and a process whose standard error nobody reads waits.
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

# A shell starts what runs in its background with ctrl-C ignored, and so would be the processes that tests start and stop by it.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# On a busy or an old machine drawing a case can take a second: that is no failure.
settings.register_profile("any machine", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("any machine")


LONG = {
    "test_away_adversaries.py", "test_cli_failures.py", "test_cli_foresee.py", "test_convergence_fig1.py", "test_convergence_rates.py",
    "test_docs_adding.py", "test_docs_examples.py", "test_docs_site.py", "test_editions.py", "test_report_browser.py",
    "test_training_folders.py", "test_verbs_on_a_cluster.py",
}  # fmt: skip
"""Files of few tests that take a while each."""


def pytest_configure(config: pytest.Config) -> None:
    if config.getoption("numprocesses", None):
        # A worker a core: more threads of OpenBLAS wait for each other, and a test of 0.1 s takes 10.
        os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
        os.environ.setdefault("OMP_NUM_THREADS", "1")
        config.option.loadscopereorder = False  # the order below, not that of the number of tests


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Files that take long come first, then those of many tests: no worker is left with a long one at the end."""
    if "PYTEST_XDIST_WORKER" not in os.environ:
        return
    tests = Counter(item.path for item in items)
    items.sort(key=lambda item: (item.path.name not in LONG, -tests[item.path], str(item.path)))


def pytest_collection_finish() -> None:
    """What is imported and collected stays: searching it for garbage again and again takes a twentieth of the time."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, 10, 10)


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """With --doctest-modules pytest would import every file here; only tests are to be."""
    own = collection_path.suffix == ".py" and not collection_path.name.startswith("test_")
    return True if own and config.getoption("doctestmodules", False) else None


def pytest_unconfigure() -> None:
    if _KEPT:
        shutil.rmtree(_KEPT, ignore_errors=True)


@pytest.fixture(autouse=True, scope="module")
def _small_rivals() -> Iterator[None]:
    """Forests of 200 trees and networks of 400 steps beside every analysis would be most of the time of the tests; few are about them.

    For a file at a time: examples in docstrings, which are run between them, see what users do.
    """
    from overparam.analysis import data_kinds, data_labels, data_rival

    kept = data_rival.TREES, data_labels.TREES, data_kinds.LEAST_STEPS, data_kinds.EPOCHS
    data_rival.TREES, data_labels.TREES, data_kinds.LEAST_STEPS, data_kinds.EPOCHS = 20, 100, 100, 10
    yield
    data_rival.TREES, data_labels.TREES, data_kinds.LEAST_STEPS, data_kinds.EPOCHS = kept


@pytest.fixture(autouse=True, scope="session")
def _short_plans() -> Iterator[None]:
    """On a busy machine a short question is planned to take long, and its plan is printed: tests that read what is printed say when."""
    from overparam.cli import driver

    kept, driver.LONG = driver.LONG, 3600.0
    yield
    driver.LONG = kept


@pytest.fixture
def real_data() -> Path:
    """The folder of MNIST, CIFAR-10 and the tables; the test is skipped where it is not there."""
    folder = os.environ.get("OVERPARAM_DATA", "")
    if not folder or not Path(folder).is_dir():
        pytest.skip("OVERPARAM_DATA names no folder of data sets")
    return Path(folder)
