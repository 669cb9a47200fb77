"""Work that is killed at a random moment, or that another process does in the same folder: the numbers of work left alone, and no stray file.

Works run in forked children of a process that has imported everything and has started no thread, so that the cost of a case is that
of its work. Verbs are run as the command line runs them.
"""

from __future__ import annotations

import functools
import hashlib
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
from tests.attack.works import VERBS, WORKS, prepare, typed

from overparam.cli import signals


def kills(seed: int, index: int) -> dict[str, Any]:
    """One work, each in turn, killed at a random moment, then done: its numbers, and what lies in the folder."""
    rng = np.random.default_rng([seed, index, 11])
    name = list(WORKS)[index % len(WORKS)]
    number = int(rng.choice([signal.SIGKILL, signal.SIGINT, signal.SIGTERM]))
    alone, took = _alone(name)
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder) / "work"
        child = _forked(name, place, said=Path(folder) / "said")
        time.sleep(float(rng.uniform(0.0, 1.2 * took)))
        os.kill(child, number)
        ended = _ended(child)
        failed = _ended_amiss(name, ended, number, (Path(folder) / "said").read_text(errors="replace"))
        failed = [f"{name}: {words} after signal {number}" for words in failed]
        failed += _judged_again(name, place, alone, f"after signal {number}")
    word = "done before" if ended == 0 else "killed"
    return {"tally": [f"{name} | {signal.Signals(number).name} | {word}"], "failed": failed}


def _ended_amiss(name: str, ended: int, number: int, said: str) -> list[str]:
    """What is not as it should be: a verb that was stopped ends with 130 and one line, and nothing shows a traceback."""
    stopped = -number if number == signal.SIGKILL else 130
    failed = [] if ended in (0, stopped) else [f"ended with {ended}"]
    lines = sum(line.startswith("overparam: stopped") for line in said.splitlines())
    right = "Traceback" not in said and lines == int(name in VERBS and ended == 130)
    return failed if right else [*failed, f"said {said[-300:]!r}"]


def stops(seed: int, index: int) -> dict[str, Any]:
    """One verb as it is typed, in a process of its own, stopped at a random moment from where it first listens, its imports included."""
    rng = np.random.default_rng([seed, index, 23])
    name = list(VERBS)[index % len(VERBS)]
    number = int(rng.choice([signal.SIGINT, signal.SIGTERM]))
    took = _typed_alone(name)
    with tempfile.TemporaryDirectory() as folder, _typed(name, Path(folder)) as child:
        time.sleep(float(rng.uniform(0.0, 1.2 * took)))
        child.send_signal(number)
        said = child.communicate(timeout=300)[1]
    failed = [f"{name}: {words} after signal {number}" for words in _ended_amiss(name, child.returncode, number, said)]
    word = "done before" if child.returncode == 0 else "stopped"
    return {"tally": [f"{name} | {signal.Signals(number).name} | {word}"], "failed": failed}


@functools.cache
def _typed_alone(name: str) -> float:
    """Seconds that a verb takes from where it listens, once what it compiles is kept."""
    prepare(name)  # whose settings processes of their own inherit
    took = 0.0
    for _ in range(2):
        with tempfile.TemporaryDirectory() as folder, _typed(name, Path(folder)) as child:
            start = time.perf_counter()
            said = child.communicate(timeout=300)[1]
            took = time.perf_counter() - start
        if child.returncode:
            raise RuntimeError(f"{name} fails when it is left alone: {said[-300:]}")
    return took


def _typed(name: str, folder: Path) -> subprocess.Popen[str]:
    """A process that runs a verb, from the moment on in which it hears a stop."""
    words = [sys.executable, "-m", "overparam", *typed(name, folder / "work")]
    (folder / "work").mkdir()
    child = subprocess.Popen(
        words, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, preexec_fn=_as_if_typed
    )
    while child.poll() is None and not _hears(child.pid):
        time.sleep(0.001)
    return child


def _as_if_typed() -> None:
    """A shell starts what runs in its background with ctrl-C ignored, and so it would stay."""
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_DFL)


def _hears(process: int) -> bool:
    """Whether a process has a handler of its own for SIGTERM."""
    lines = Path(f"/proc/{process}/status").read_text().splitlines()
    caught = next(line.split()[1] for line in lines if line.startswith("SigCgt:"))
    return bool(int(caught, 16) >> (signal.SIGTERM - 1) & 1)


def two(seed: int, index: int) -> dict[str, Any]:
    """Two processes with one folder."""
    name = list(WORKS)[index % len(WORKS)]
    alone, _ = _alone(name)
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder) / "work"
        children = [_forked(name, place) for _ in range(2)]
        ends = [_ended(child) for child in children]
        failed = [] if ends == [0, 0] else [f"{name}: two in one folder ended with {ends}"]
        failed += _judged_again(name, place, alone, "after two in one folder")
    return {"tally": [name], "failed": failed}


def _judged_again(name: str, place: Path, alone: tuple[str, list[str]], when: str) -> list[str]:
    """The work once more in the same folder: the same numbers, and the files it leaves when nobody disturbs it, no others."""
    told = place.parent / "told"
    ended = _ended(_forked(name, place, told))
    if ended:
        return [f"{name}: ended with {ended} {when}, when run again"]
    failed = [] if told.read_text() == alone[0] else [f"{name}: other numbers {when}"]
    failed += [f"{name}: {left} is left {when}" for left in _files(place) if left not in alone[1]]
    return failed + [f"{name}: {path} is missing {when}" for path in alone[1] if path not in _files(place)]


@functools.cache
def _alone(name: str) -> tuple[tuple[str, list[str]], float]:
    """What tells the numbers of work left alone and the files it leaves, and its seconds, once a process."""
    prepare(name)
    with tempfile.TemporaryDirectory() as folder:
        place, told = Path(folder) / "work", Path(folder) / "told"
        for i in range(2):  # the first compiles
            start = time.perf_counter()
            if _ended(_forked(name, place.with_name(f"work-{i}"), told)):
                raise RuntimeError(f"{name} fails when it is left alone")
            took = time.perf_counter() - start
        return (told.read_text(), _files(place.with_name("work-1"))), took


def _forked(name: str, place: Path, told: Path | None = None, said: Path | None = None) -> int:
    """A child that does the work; `told` gets what tells its numbers, `said` its standard error."""
    stops = (signal.SIGINT, signal.SIGTERM)
    signal.pthread_sigmask(signal.SIG_BLOCK, stops)  # until the child listens
    error = os.open(said or os.devnull, os.O_WRONLY | os.O_CREAT)
    child = os.fork()
    if child:
        os.close(error)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, stops)
        return child
    try:
        quiet = os.open(os.devnull, os.O_WRONLY)
        os.dup2(quiet, 1)
        os.dup2(error, 2)
        _as_if_typed()
        signals.listen()
        signal.pthread_sigmask(signal.SIG_UNBLOCK, stops)
        found = WORKS[name](place)
        if told is not None:
            told.write_text(hashlib.sha256(found).hexdigest())
        os._exit(0)
    except KeyboardInterrupt:
        os._exit(130)
    except BaseException:
        os._exit(1)


def _ended(child: int) -> int:
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def _files(place: Path) -> list[str]:
    """Every file in a folder."""
    return sorted(str(path.relative_to(place)) for path in place.rglob("*") if path.is_file())
