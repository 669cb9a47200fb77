"""A run kept on disk while it goes: killed, it goes on from the last state kept and ends in the same bits."""

from __future__ import annotations

import hashlib
import io
import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from overparam.core import files, folder, interruption
from overparam.core.trees import as_numpy, is_key
from overparam.training.inputs import record_steps

FILE = "training.npz"

History = list[tuple[int, dict[str, np.ndarray]]]
"""The records of a run: (step, values by name), in the order of the steps."""


class Interrupted(interruption.Interrupted):
    """Ctrl-C in the middle of a run: `partial` is the trajectory so far."""

    def __init__(self, partial: Any, step: int, where: str) -> None:
        super().__init__(partial, f"stopped at step {step}; {where}")
        self.step = step


@dataclass(frozen=True, eq=False)
class Kept:
    """What a checkpoint holds: the state after `step` steps, the records until then, and how long `timed` of them took."""

    state: Any
    step: int
    history: History
    seconds: float = 0.0
    timed: int = 0
    ends: tuple[int, ...] = ()
    """The last steps of the calls so far: recorded though no `record` named them."""

    def require_record(self, at: list[int], steps: int, path: Path) -> None:
        """Raise unless the records are those that `at` asks for until now, the last steps of earlier calls aside.

        The default is not compared: it moves with `steps`, and a run that is given more of them goes on.
        """
        if at == record_steps(None, steps):
            return
        recorded = {step for step, _ in self.history}
        missing = {step for step in at if step < self.step} - recorded
        if other := missing | (recorded - {*at, *self.ends}):
            kept = "is not among its records" if min(other) in missing else "is recorded and not asked for"
            raise ValueError(
                f"{path} is of a run recorded at other steps (step {min(other)} {kept}); name another folder or pass "
                "the same `record`"
            )


class Checkpoint:
    """The state, the step and the records of one run, in one file of a folder, written whole or not at all."""

    def __init__(self, place: str | os.PathLike[str], fingerprint: str) -> None:
        self.path = Path(place) / FILE
        self.fingerprint = fingerprint
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
        except (FileExistsError, NotADirectoryError):
            raise ValueError(f"{self.path.parent} is a file; name a folder for the checkpoint") from None
        except OSError as error:
            raise ValueError(f"cannot make the folder {self.path.parent}: {error.strerror}; name another one") from None

    def save(self, kept: Kept) -> None:
        """Keep a state; the file is replaced when the new one is whole."""
        arrays = {f"state.{i}": as_numpy(leaf) for i, leaf in enumerate(jax.tree.leaves(kept.state))}
        arrays |= {f"record.{name}": values for name, values in stacked(kept.history).items()}
        about = {
            "fingerprint": self.fingerprint,
            "step": kept.step,
            "recorded": [step for step, _ in kept.history],
            "seconds": kept.seconds,
            "timed": kept.timed,
            "ends": kept.ends,
        }
        arrays["about"] = np.frombuffer(json.dumps(about).encode(), dtype=np.uint8)
        buffer = io.BytesIO()
        np.savez(buffer, allow_pickle=False, **arrays)  # pyright: ignore[reportArgumentType]
        files.write_whole(self.path, buffer.getvalue())

    def load(self, like: Any) -> Kept | None:
        """What was kept, its state in the shape of `like`; None where nothing was."""
        try:
            arrays = folder.read_arrays(self.path)
        except FileNotFoundError:
            return None
        except ValueError as error:
            raise ValueError(f"{error}; delete it to start again") from None
        try:
            about = json.loads(arrays["about"].tobytes().decode())
            owner, step, recorded = about["fingerprint"], int(about["step"]), list(about["recorded"])
            seconds, timed = float(about["seconds"]), int(about["timed"])
            ends = tuple(about.get("ends", recorded))  # files of older versions do not say
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise self._damaged(error) from None
        if owner != self.fingerprint:
            raise ValueError(
                f"{self.path} is of another run (network, algorithm, data, seed, measures, precision, device or versions "
                "differ); name another folder, or delete it to start again"
            )
        try:
            leaves, tree = jax.tree.flatten(like)
            state = jax.tree.unflatten(tree, [_like(arrays[f"state.{i}"], leaf) for i, leaf in enumerate(leaves)])
            records = {name[7:]: array for name, array in arrays.items() if name.startswith("record.")}
            history = [(int(s), {name: array[i] for name, array in records.items()}) for i, s in enumerate(recorded)]
        except (KeyError, IndexError, ValueError) as error:
            raise self._damaged(error) from None
        return Kept(state, step, history, seconds, timed, ends)

    def _damaged(self, error: Exception) -> ValueError:
        why = " ".join(str(error).split())
        return ValueError(f"{self.path} is damaged ({why}); delete it to start again")


def stacked(history: History) -> dict[str, np.ndarray]:
    """The records by name, steps first."""
    names = history[0][1] if history else {}
    return {name: np.stack([record[name] for _, record in history]) for name in names}


def fingerprint(*parts: Any) -> str:
    """A short hash of words and pytrees of arrays.

    >>> fingerprint("a", np.zeros(2)) == fingerprint("a", np.zeros(2)), fingerprint("a") == fingerprint("b")
    (True, False)
    """
    digest = hashlib.sha256()
    for part in parts:
        if isinstance(part, str):
            digest.update(f"{len(part)} {part}".encode())
            continue
        for leaf in jax.tree.leaves(part):
            array = np.ascontiguousarray(as_numpy(leaf))
            digest.update(f"{array.dtype}{array.shape}".encode())
            digest.update(array.reshape(-1).view(np.uint8))  # pyright: ignore[reportArgumentType]
    return digest.hexdigest()[:32]


def _like(array: np.ndarray, leaf: Any) -> Any:
    if is_key(leaf):
        return jax.random.wrap_key_data(jnp.asarray(array), impl=jax.random.key_impl(leaf))
    if array.shape != jnp.shape(leaf):
        raise ValueError(f"an array has shape {array.shape} and not {jnp.shape(leaf)}")
    return jnp.asarray(array)
