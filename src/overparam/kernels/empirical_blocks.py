"""How many rows and outputs at once a tangent kernel takes within its memory, and the walk over pairs of blocks."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from math import ceil, isqrt, prod
from typing import Any, final

import jax
import jax.numpy as jnp
import numpy as np

from overparam.core.network import Outputs
from overparam.core.trees import placed
from overparam.kernels.empirical_rows import (
    Forward,
    contracted,
    own_traces,
    parts_of,
    pulled_back,
    pushed_forward,
    structure,
)
from overparam.kernels.empirical_rows import parts_of_rows as compiled_parts

SMALLEST = {"float64": 1e-150, "float32": 1e-18}
"""Below these the product of two derivatives is lost."""


@final
@dataclass(frozen=True)
class Pieces:
    """What a row and a pair of rows hold, and how much there is for all.

    outputs: k, of one sample. chunk: outputs at once. part_bytes: of what a row leaves. row_bytes: of it and of the pass.
    pair_bytes: of a pair. eps: of the coarsest floating point numbers on the way.
    """

    outputs: int
    chunk: int
    part_bytes: int
    row_bytes: int
    pair_bytes: int
    memory: int
    eps: float

    def keeps(self, rows: int, chunks: int) -> bool:
        """Whether there is room for what all rows leave, so that each is passed once."""
        return self.part_bytes * rows * chunks <= 3 * self.memory // 4

    def rows(self, count: int, halves: bool, kept: bool = False) -> int:
        """Rows of a block: as many as fit; at least four blocks where only `halves` of their pairs are needed."""
        share = self.memory // (8 if kept else 4)
        most = min(share // self.row_bytes, isqrt(share // self.pair_bytes))
        if halves and count * self.chunk >= 512:
            most = min(most, ceil(count / 4))
        return evenly(count, max(1, most))

    def chunks(self, outputs: Outputs) -> list[range]:
        """Which outputs are taken at once."""
        if not isinstance(outputs, str):
            return [range(checked_output(outputs, self.outputs), outputs + 1)]
        return [range(a, min(self.outputs, a + self.chunk)) for a in range(0, self.outputs, self.chunk)]


@final
@dataclass(frozen=True, eq=False)
class Derivatives:
    """A function at its weights, with the precision and the memory for its derivatives; used inside `computing`.

    met: the coarsest precision of every function that was read, its `eps`.
    """

    forward: Forward
    trained: list[Any]
    others: list[Any]
    dtype: str
    memory: int
    met: set[float] = field(default_factory=set)

    def contraction(self, X: np.ndarray, Z: np.ndarray | None, outputs: Outputs) -> np.ndarray:
        """(n, p, k, k) for "full", else (n, p)."""
        plan, full, symmetric = self.plan(X, outputs), outputs == "full", Z is None
        Y = X if Z is None else Z
        values = np.zeros((len(X), len(Y), *([plan.outputs] * 2 if full else [])))
        chunks = plan.chunks(outputs)
        keeps = plan.keeps(len(X) + (0 if symmetric else len(Y)), len(chunks))
        step = plan.rows(max(len(X), len(Y)), symmetric, keeps)
        over, under = blocks(len(X), step), blocks(len(Y), step)
        made: dict[Any, Any] = {}

        def parts(samples: np.ndarray, block: range, chunk: range) -> Any:
            key = (samples is X, block.start, chunk.start)
            if key not in made:
                found = self._parts(samples, block, step, chunk, plan)
                if not keeps:
                    return found
                made[key] = found
            return made[key]

        for mine in over:
            for chunk in chunks:
                left = parts(X, mine, chunk)
                for theirs in under:
                    if symmetric and theirs.start < mine.start:
                        continue
                    for other in chunks if full else (chunk,):
                        right = left if symmetric and (theirs, other) == (mine, chunk) else parts(Y, theirs, other)
                        found = np.asarray(contracted(left, right, full))[: len(mine), : len(theirs)]
                        place = values[mine.start : mine.stop, theirs.start : theirs.stop]
                        if full:
                            place = place[:, :, chunk.start : chunk.stop, other.start : other.stop]
                            place[:] = found[:, :, : len(chunk), : len(other)]
                        else:
                            place += found
        if symmetric:
            _mirror(values, over)
        return values if full else values / _divisor(plan, outputs)

    def diagonal(self, X: np.ndarray, outputs: Outputs) -> np.ndarray:
        """(n,): of every row with itself."""
        plan = self.plan(X, outputs)
        values, step = np.zeros(len(X)), plan.rows(len(X), halves=False)
        for block in blocks(len(X), step):
            for chunk in plan.chunks(outputs):
                found = np.asarray(own_traces(self._parts(X, block, step, chunk, plan)))
                values[block.start : block.stop] += found[: len(block)]
        return values / _divisor(plan, outputs)

    def product(self, X: np.ndarray, V: np.ndarray, Z: np.ndarray) -> np.ndarray:
        """(n, k): a backward pass over Z, then a forward pass over X."""
        plan = self.plan(X, 0)
        most = max(1, self.memory // (2 * plan.row_bytes))
        step, direction, size = evenly(len(Z), most), None, 1.0
        unit = float(np.abs(V).max()) or 1.0
        for block in blocks(len(Z), step):
            v = _padded(V[block.start : block.stop] / unit, step, zeros=True)
            samples = self._samples(Z, block, step)
            with _said(Z):
                found = pulled_back(self.forward, self.trained, self.others, samples, v)
            direction = found if direction is None else jax.tree.map(jnp.add, direction, found)
        step, values = evenly(len(X), most), []
        for block in blocks(len(X), step):
            samples = self._samples(X, block, step)
            found, size, company = self._pushed(samples, direction, X)
            _require_rows_apart(company)
            values.append(np.asarray(found, np.float64).reshape(step, -1)[: len(block)])
        whole = np.concatenate(values)
        with np.errstate(over="ignore", under="ignore"):
            scaled = whole * float(size) * unit
        largest, kept = (np.abs(array).max(axis=1) for array in (whole, scaled))
        lost = np.flatnonzero((largest > 0) & (kept < np.finfo(np.float64).tiny))
        if len(lost):
            raise ValueError(
                f"the product at sample {lost[0]} is too small for float64: derivatives of size {largest[lost[0]]:.0e} "
                f"times {float(size):.0e}; scale the samples"
            )
        return scaled

    def _pushed(self, samples: Any, direction: Any, X: np.ndarray) -> Any:
        arguments = (self.forward, self.trained, self.others, samples, direction)
        with _said(X):
            try:
                return pushed_forward(*arguments)
            except TypeError as error:
                if "custom_vjp" not in str(error):
                    raise
            return pushed_forward(*arguments, True)

    def plan(self, X: np.ndarray, outputs: Outputs) -> Pieces:
        """What rows like these hold."""
        sample = self._samples(X, range(1), 1)
        shapes = tuple((leaf.shape, leaf.dtype) for leaf in (*self.trained, *self.others))
        known = (tuple(shapes), len(self.trained), sample.shape, sample.dtype, outputs, self.dtype, self.memory)
        try:
            plan = _plan(self.forward, *known)
        except Exception as error:  # whatever the user's function says of such samples
            if self.dtype == "float64" and self._works_in_float32(known):
                raise ValueError(
                    f"the function fixes its own precision, which is not float64 ({_first_line(error)}); "
                    "pass dtype='float32'"
                ) from error
            raise _one_line(error, X) from error
        self.met.add(plan.eps)
        return plan

    def _works_in_float32(self, known: tuple[Any, ...]) -> bool:
        narrow = {"float64": "float32", "int64": "int32", "uint64": "uint32"}
        shapes, trained, sample, kind, outputs, _, memory = known
        shapes = tuple((shape, narrow.get(str(dtype), dtype)) for shape, dtype in shapes)
        with jax.enable_x64(False):
            try:
                _plan(self.forward, shapes, trained, sample, narrow.get(str(kind), kind), outputs, "float32", memory)
            except Exception:
                return False
        return True

    def _samples(self, X: np.ndarray, block: range, step: int) -> Any:
        samples = _padded(X[block.start : block.stop], step)
        if samples.dtype.kind != "f":
            return placed(samples)
        largest = np.abs(samples).reshape(step, -1).max(axis=1)
        range_of = np.finfo(self.dtype)
        lost = np.flatnonzero(((largest > 0) & (largest < float(range_of.tiny))) | (largest > float(range_of.max)))
        if len(lost):
            raise ValueError(
                f"sample {block.start + lost[0]} has numbers of size {largest[lost[0]]:.0e}, which {self.dtype} does not "
                "hold; scale the samples"
            )
        return placed(samples, self.dtype)

    def _parts(self, X: np.ndarray, block: range, step: int, chunk: range, plan: Pieces) -> Any:
        cotangents = np.zeros((plan.chunk, plan.outputs), self.dtype)
        cotangents[np.arange(len(chunk)), chunk] = 1.0
        samples = self._samples(X, block, step)
        with _said(X):
            made = compiled_parts(self.forward, self.trained, self.others, samples, placed(cotangents))
        parts, sizes, company = made
        _require_rows_apart(company)
        sizes = np.asarray(sizes)[: len(block)]
        lost = np.flatnonzero((sizes > 0) & (sizes < SMALLEST[self.dtype]))
        if len(lost):
            wider = "" if self.dtype == "float64" else ", or take dtype='float64'"
            raise ValueError(
                f"the derivatives of sample {block.start + lost[0]} are of size {sizes[lost[0]]:.0e}, too small to "
                f"multiply in {self.dtype}; scale the samples{wider}"
            )
        return parts


@lru_cache(maxsize=32)
def _plan(
    forward: Forward,
    shapes: Sequence[Any],
    trained: int,
    sample_shape: tuple[int, ...],
    sample_dtype: Any,
    outputs: Outputs,
    dtype: str,
    memory: int,
) -> Pieces:
    leaves = [jax.ShapeDtypeStruct(*shape) for shape in shapes]
    weights, others = leaves[:trained], leaves[trained:]
    sample = jax.ShapeDtypeStruct(sample_shape, sample_dtype)
    one = jax.ShapeDtypeStruct(sample_shape[1:], sample_dtype)
    k = jax.eval_shape(forward.one, weights, others, one).size
    read = structure(forward, weights, others, one)
    itemsize = np.dtype(dtype).itemsize

    def parts(c: int) -> list[Any]:
        cotangents = jax.ShapeDtypeStruct((c, k), dtype)
        return jax.eval_shape(lambda *arrays: parts_of(forward, *arrays), weights, others, sample, cotangents)

    def part_bytes(found: list[Any]) -> int:
        return itemsize * sum(prod(leaf.shape) for leaf in jax.tree.leaves(found))

    def row_bytes(found: list[Any], c: int) -> int:
        return part_bytes(found) + itemsize * (sum(read.row_sizes) + 2 * c * max(read.row_sizes))

    chunk = k if isinstance(outputs, str) else 1
    found = parts(chunk)
    if chunk > 1 and row_bytes(found, chunk) > memory // 4:
        chunk = max(1, chunk * (memory // 4) // row_bytes(found, chunk))
        found = parts(chunk)
    full = outputs == "full"
    pair = itemsize * (2 * (chunk**2 if full else 1) + max(part.pair_numbers(full) for part in found))
    return Pieces(k, chunk, part_bytes(found), row_bytes(found, chunk), pair, memory, read.program.eps)


def blocks(count: int, step: int) -> list[range]:
    """0 … count in ranges of `step`, the last one what is left.

    >>> blocks(5, 2)
    [range(0, 2), range(2, 4), range(4, 5)]
    """
    return [range(start, min(count, start + step)) for start in range(0, count, step)]


def evenly(count: int, most: int) -> int:
    """Rows of equal blocks of at most about `most`, rounded up to five binary digits: few sizes, few compilations.

    >>> evenly(200, 60), evenly(1000, 2000), evenly(1001, 2000)
    (50, 1024, 1024)
    """
    step = ceil(count / ceil(count / most))
    coarse = max(1, 2 ** (step.bit_length() - 5))
    return ceil(step / coarse) * coarse


def checked_output(output: int, k: int) -> int:
    """The number of an output, or one line."""
    if not 0 <= output < k:
        raise ValueError(f"`outputs` is {output} and the function has {k} of them; take 0 to {k - 1}, or 'trace'")
    return output


def _require_rows_apart(company: Any) -> None:
    """Raise where the outputs of a row change with the other rows of its batch, or are not finite."""
    change, largest = np.asarray(company, np.float64)
    if not np.isfinite(largest):
        raise ValueError("the function gives NaN or infinite outputs; scale the samples or the weights")
    if not change <= 1e-3 * largest:
        raise ValueError(
            f"the outputs of a sample change by {change:.1e} with the other samples of its batch, so that they have no "
            "kernel; put batch norm and dropout in evaluation mode"
        )


@contextlib.contextmanager
def _said(X: np.ndarray) -> Iterator[None]:
    """What the user's function says of such samples, as one line."""
    try:
        yield
    except (TypeError, ValueError, AttributeError, IndexError, KeyError, NotImplementedError) as error:
        raise _one_line(error, X) from error


def _one_line(error: Exception, X: np.ndarray) -> ValueError:
    if isinstance(error, ValueError) and "\n" not in str(error).strip():
        return error
    kind = "; if these are images, pass floats" if X.dtype.kind in "iub" else ""
    return ValueError(
        f"the function does not take samples of shape {X.shape[1:]} and {X.dtype}: {_first_line(error)}{kind}"
    )


def _first_line(error: Exception) -> str:
    text = str(error).strip()
    return text.splitlines()[0].rstrip(":") if text else type(error).__name__


def _divisor(plan: Pieces, outputs: Outputs) -> int:
    return plan.outputs if outputs == "trace" else 1


def _padded(rows: np.ndarray, count: int, zeros: bool = False) -> np.ndarray:
    if len(rows) == count:
        return rows
    filling = np.zeros_like(rows[:1]) if zeros else rows[:1]
    return np.concatenate([rows, np.broadcast_to(filling, (count - len(rows), *rows.shape[1:]))])


def _mirror(values: np.ndarray, ranges: Sequence[range]) -> None:
    """The lower blocks from the upper ones, and blocks on the diagonal made symmetric to the last digit."""
    swap = (1, 0, 3, 2) if values.ndim == 4 else (1, 0)
    for place, upper in enumerate(ranges):
        own = values[upper.start : upper.stop, upper.start : upper.stop]
        own[:] = (own + own.transpose(swap)) / 2
        for lower in ranges[place + 1 :]:
            above = values[upper.start : upper.stop, lower.start : lower.stop]
            values[lower.start : lower.stop, upper.start : upper.stop] = above.transpose(swap)
