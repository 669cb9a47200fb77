"""Convolutional kernels of ReLU networks on the CPU, compiled by numba: planes of equal offset, one after the other.

At stride 1 the pair of positions (i, k) meets (i + o, k + o) alone, so pairs with the same k − i form planes that
never mix, and a plane goes through all layers inside the cache. Along the columns the offsets c and c − W share one
row, each with a frame of its neighbours, so that all rows are equally long and every loop runs over a whole plane.

float32 keeps the covariance q of a pair of positions. float64 keeps √(xx·zz) − q, added without cancellation: arccos
of a rounded cosine loses half the digits where patches are nearly parallel, as they are in flat regions of images.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache
from typing import Any, final

import numba
import numpy as np

from overparam.kernels.convolution_images import ANGLE, SHORT_ANGLE, SHORT_SINE_LESS, SINE_LESS, Images, Patches


def _compiled(function: Callable[..., Any], freely: tuple[str, ...] = ("contract", "nnan", "ninf", "nsz")) -> Any:
    """Machine code, kept for the next process beside the source, else in the user's cache, else not at all.

    numba tries the places in this order and raises where none can be written, as on a read-only machine.
    """
    options: dict[str, Any] = {"nogil": True, "error_model": "numpy", "fastmath": set(freely)}
    try:
        return numba.njit(cache=True, **options)(function)
    except RuntimeError:
        return numba.njit(**options)(function)


ZERO, HALF, ONE, TURN = (np.float32(value) for value in (0.0, 0.5, 1.0, 1 / (2 * math.pi)))
FULL_TURN = 1 / (2 * math.pi)
Whole = np.uint64
"""Offsets are unsigned: numba lets a signed one count from the end, which keeps loops from being vectorised."""
ONE_ON, TWO_ON = Whole(1), Whole(2)


@_compiled
def _sums(source, start, step, side, out, place, length):
    """out[place + t] = Σ_o source[start + t + o·step], o = 0 … side − 1."""
    if side == 3:
        second, third = start + step, start + step + step
        for t in range(length):
            out[place + t] = source[start + t] + source[second + t] + source[third + t]
        return
    for t in range(length):
        out[place + t] = source[start + t]
    for o in range(ONE_ON, side):
        other = start + o * step
        for t in range(length):
            out[place + t] += source[other + t]


@_compiled
def _first_short(sums, u, v, x, z, ix, iz, xt, zt, gain, bias, taught, S, T, place, length):
    """The first ReLU in float32: cosines of either sign."""
    for t in range(length):
        q = gain * (sums[t] + sums[t + u] + sums[t + v]) + bias
        inverse = ix[xt + t] * iz[zt + t]
        rho = q * inverse
        m = max(ONE - abs(rho), ZERO)
        root = math.sqrt(m)
        angle, less = SHORT_ANGLE[0], SHORT_SINE_LESS[0]
        for k in range(1, len(SHORT_ANGLE)):
            angle = angle * m + SHORT_ANGLE[k]
        for k in range(1, len(SHORT_SINE_LESS)):
            less = less * m + SHORT_SINE_LESS[k]
        S[place + t] = x[xt + t] * z[zt + t] * (HALF * min(max(rho, ZERO), ONE) + root * m * less * TURN)
        share = root * angle * TURN
        share = share if rho < ZERO else HALF - share
        T[place + t] = taught * q * share if inverse > ZERO else ZERO


@_compiled
def _later_short(sums, far, u, v, x, z, ix, iz, xt, zt, gain, bias, taught, S, T, place, length):
    """Every other ReLU in float32: what comes out of one has cosines of 0 or more."""
    for t in range(length):
        q = gain * (sums[t] + sums[t + u] + sums[t + v]) + bias
        tangent = gain * (far[t] + far[t + u] + far[t + v]) + taught * q
        inverse = ix[xt + t] * iz[zt + t]
        m = min(max(ONE - q * inverse, ZERO), ONE)
        root = math.sqrt(m)
        angle, less = SHORT_ANGLE[0], SHORT_SINE_LESS[0]
        for k in range(1, len(SHORT_ANGLE)):
            angle = angle * m + SHORT_ANGLE[k]
        for k in range(1, len(SHORT_SINE_LESS)):
            less = less * m + SHORT_SINE_LESS[k]
        S[place + t] = x[xt + t] * z[zt + t] * (HALF - HALF * m + root * m * less * TURN)
        T[place + t] = tangent * (HALF - root * angle * TURN) if inverse > ZERO else ZERO


@_compiled
def _gaps(x, z, size, inverse, other, opposite, xt, zt, bx, bz, stride, side, before, out, length):
    """√(xx·zz) − Σ |h_p(x)||h_p(z)| over the neighbourhoods and the bias, as a sum of squares: no digits cancel.

    With c = √(xx/zz) it is Σ (|h_p(x)| − c |h_p(z)|)² / (2c).
    """
    x1, z1 = xt - before * stride - before, zt - before * stride - before
    if side == 3:
        x2, x3, z2, z3 = x1 + stride, x1 + stride + stride, z1 + stride, z1 + stride + stride
        for t in range(length):
            c = size[xt + t] * opposite[zt + t]
            b0 = bx - c * bz
            b1, b2, b3 = (
                x[x1 + t] - c * z[z1 + t],
                x[x1 + ONE_ON + t] - c * z[z1 + ONE_ON + t],
                x[x1 + TWO_ON + t] - c * z[z1 + TWO_ON + t],
            )
            b4, b5, b6 = (
                x[x2 + t] - c * z[z2 + t],
                x[x2 + ONE_ON + t] - c * z[z2 + ONE_ON + t],
                x[x2 + TWO_ON + t] - c * z[z2 + TWO_ON + t],
            )
            b7, b8, b9 = (
                x[x3 + t] - c * z[z3 + t],
                x[x3 + ONE_ON + t] - c * z[z3 + ONE_ON + t],
                x[x3 + TWO_ON + t] - c * z[z3 + TWO_ON + t],
            )
            squares = (
                b0 * b0 + (b1 * b1 + b2 * b2 + b3 * b3) + (b4 * b4 + b5 * b5 + b6 * b6) + (b7 * b7 + b8 * b8 + b9 * b9)
            )
            out[t] = squares * (0.5 * other[zt + t] * inverse[xt + t])
        return
    for t in range(length):
        gap = bx - size[xt + t] * opposite[zt + t] * bz
        out[t] = gap * gap
    for row in range(side):
        for o in range(side):
            a, b = x1 + Whole(row) * stride + Whole(o), z1 + Whole(row) * stride + Whole(o)
            for t in range(length):
                gap = x[a + t] - size[xt + t] * opposite[zt + t] * z[b + t]
                out[t] += gap * gap
    for t in range(length):
        out[t] *= 0.5 * other[zt + t] * inverse[xt + t]


@_compiled
def _first_full(sums, far, gaps, u, v, x, z, ix, iz, xt, zt, gain, bias, taught, S, T, place, length):
    """The first ReLU in float64, of n − q and n + q, n = √(xx·zz): either may be small."""
    for t in range(length):
        n, inverse = x[xt + t] * z[zt + t], ix[xt + t] * iz[zt + t]
        less_q = gain * (sums[t] + sums[t + u] + sums[t + v]) + gaps[t]
        plus_q = gain * (far[t] + far[t + u] + far[t + v]) + gaps[t] + 2.0 * bias
        ahead = less_q <= plus_q
        m = min(less_q if ahead else plus_q, n) * inverse
        root = math.sqrt(m)
        angle, less = ANGLE[0], SINE_LESS[0]
        for k in range(1, len(ANGLE)):
            angle = angle * m + ANGLE[k]
        for k in range(1, len(SINE_LESS)):
            less = less * m + SINE_LESS[k]
        less = 2.0 * FULL_TURN * (root * m * less)
        share = FULL_TURN * (root * angle)
        S[place + t] = 0.5 * n * (m - less if ahead else 1.0 - less)
        share = 0.5 - share if ahead else share
        T[place + t] = 0.5 * taught * (plus_q - less_q) * share if inverse > 0.0 else 0.0


@_compiled
def _later_full(sums, far, gaps, u, v, x, z, ix, iz, xt, zt, gain, taught, S, T, place, length):
    """Every other ReLU in float64, of n − q: q is 0 or more."""
    for t in range(length):
        n, inverse = x[xt + t] * z[zt + t], ix[xt + t] * iz[zt + t]
        less_q = min(gain * (sums[t] + sums[t + u] + sums[t + v]) + gaps[t], n)
        tangent = gain * (far[t] + far[t + u] + far[t + v]) + taught * (n - less_q)
        m = less_q * inverse
        root = math.sqrt(m)
        angle, less = ANGLE[0], SINE_LESS[0]
        for k in range(1, len(ANGLE)):
            angle = angle * m + ANGLE[k]
        for k in range(1, len(SINE_LESS)):
            less = less * m + SINE_LESS[k]
        S[place + t] = 0.5 * n * (m - 2.0 * FULL_TURN * (root * m * less))
        T[place + t] = tangent * (0.5 - FULL_TURN * (root * angle)) if inverse > 0.0 else 0.0


def _added(values, start, length):
    """The sum in float64, in any order."""
    total = 0.0
    for t in range(length):
        total += np.float64(values[start + t])
    return total


_total = _compiled(_added, ("contract", "nnan", "ninf", "nsz", "reassoc"))


@_compiled
def _lay(source, columns, before, wraps, out, rows):
    """Images (k, H, W + 1) as flat rows of the given columns, `before` of them above the first."""
    stride, height = len(columns), source.shape[1]
    for each in range(len(source)):
        for row in range(rows):
            i = (row - before) % height if wraps else row - before
            if 0 <= i < height:
                line, place = Whole(i), Whole(before + row * stride)
                for t in range(Whole(stride)):
                    out[each, place + t] = source[each, line, columns[t]]


@_compiled
def _wrap(S, height, width, stride, before, after):
    """The frame of a periodic plane takes the values of the other end."""
    for row in range(before, before + height):
        place = before + row * stride
        for t in range(before):
            S[place + t] = S[place + width + t]
        for t in range(after):
            S[place + before + width + t] = S[place + before + t]
    for t in range(before * stride):
        S[before + t] = S[before + height * stride + t]
    for t in range(after * stride):
        S[before + (before + height) * stride + t] = S[before + before * stride + t]


@_compiled
def _plane(x, z, work, i, k, shape, wraps, gain_x, gain_z, bias_x, bias_z, taught, full):
    """Sums of q and of the tangent kernel over one plane, rows `i` … of x against rows `k` … of z.

    Planes: S (q in float32, √(xx·zz) − q in float64), T (the tangent kernel; √(xx·zz) + q of the pixels), the sums
    over their columns and rows, and the gaps.
    """
    height, width, columns, side, before, channels = shape
    depth, after, room = len(gain_x), side - 1 - before, work.shape[1] // 2
    S, T, sums, far, tall, gaps = work[0], work[1], work[2], work[3], work[4], work[5]
    (px, sx, rx, hx), (pz, sz, rz, hz) = (x[0], x[1], x[2], x[3]), (z[0], z[1], z[2], z[3])
    stride, length, patch, ahead = Whole(columns), Whole(height * columns), Whole(side), Whole(before)
    xt, zt = ahead + (ahead + Whole(i)) * stride, ahead + (ahead + Whole(k)) * stride
    place = ahead + ahead * stride
    u, v = (ONE_ON, TWO_ON) if side == 3 else (Whole(room), Whole(room))  # beyond `room` there are zeros
    for t in range(after * columns + after):
        S[before + (before + height) * columns + t] = T[before + (before + height) * columns + t] = ZERO
    for c in range(channels):
        a, b = px[c], pz[c]
        if full is None and c == 0:
            for t in range(length):
                S[place + t] = a[xt + t] * b[zt + t]
        elif full is None:
            for t in range(length):
                S[place + t] += a[xt + t] * b[zt + t]
        else:
            size, inverse, other, opposite = sx[0], rx[0], sz[0], rz[0]
            for t in range(length):
                ratio, weight = size[xt + t] * opposite[zt + t], 0.5 * other[zt + t] * inverse[xt + t]
                scaled = ratio * b[zt + t]
                minus, plus = a[xt + t] - scaled, a[xt + t] + scaled
                S[place + t] = weight * minus * minus + (S[place + t] if c else 0.0)
                T[place + t] = weight * plus * plus + (T[place + t] if c else 0.0)
    for layer in range(depth):
        a, b, ia, ib = sx[layer + 1], sz[layer + 1], rx[layer + 1], rz[layer + 1]
        gain, bias = gain_x[layer] * gain_z[layer], bias_x[layer] * bias_z[layer]
        for each in range(1 if full is None and layer == 0 else 2):
            if wraps:
                _wrap(work[each], height, width, columns, before, after)
            if side == 3:
                _sums(work[each], ahead, stride, patch, work[2 + each], ahead, length)
            else:
                _sums(work[each], ahead, stride, patch, tall, ahead, length)
                _sums(tall, Whole(0), ONE_ON, patch, work[2 + each], Whole(0), length)
        if full is None:
            gain, bias, learned = np.float32(gain), np.float32(bias), np.float32(taught[layer])
            if layer == 0:
                _first_short(sums, u, v, a, b, ia, ib, xt, zt, gain, bias, learned, S, T, place, length)
            else:
                _later_short(sums, far, u, v, a, b, ia, ib, xt, zt, gain, bias, learned, S, T, place, length)
        else:
            bx, bz, learned = bias_x[layer], bias_z[layer], taught[layer]
            _gaps(hx[layer], hz[layer], a, ia, b, ib, xt, zt, bx, bz, stride, patch, ahead, gaps, length)
            if layer == 0:
                _first_full(sums, far, gaps, u, v, a, b, ia, ib, xt, zt, gain, bias, learned, S, T, place, length)
            else:
                _later_full(sums, far, gaps, u, v, a, b, ia, ib, xt, zt, gain, learned, S, T, place, length)
    if full is not None:
        last_x, last_z = sx[depth], sz[depth]
        for t in range(length):
            S[place + t] = 0.5 * last_x[xt + t] * last_z[zt + t] - S[place + t]
    return _total(S, place, length), _total(T, place, length)


@_compiled
def _row(x, gain_x, bias_x, Z, gain_z, bias_z, taught, columns, side, before, wraps, pooled, full, out):
    """out[j] = sums of q and of the tangent kernel over the pairs of positions of x and Z[j]: all, or the equal ones."""
    channels, height, width = x[0].shape[0], x[0].shape[1], x[0].shape[2] - 1
    depth, stride, frame = len(gain_x), columns.shape[2], side - 1
    rows_x, rows_z = height + frame, (2 * height if wraps else height) + frame
    arrays = max(channels, depth + 1)
    flat_x = np.zeros((4, arrays, rows_x * stride + frame), x[0].dtype)
    flat_z = np.zeros((4, arrays, rows_z * stride + frame), x[0].dtype)
    work = np.zeros((6, 2 * (rows_x * stride + frame)), x[0].dtype)
    for shift in range(width if pooled else 1):
        for each in range(4):
            _lay(x[each], columns[shift, each // 3], before, wraps, flat_x[each], rows_x)
        for j in range(len(out)):
            for each in range(4):
                _lay(Z[each][j], columns[shift, 2 + each // 3], before, wraps, flat_z[each], rows_z)
            for down in range(1 - height if pooled and not wraps else 0, height if pooled else 1):
                i, k = (0, down) if wraps else (max(0, -down), max(0, down))
                shape = (height if wraps else height - abs(down), width, stride, side, before, channels)
                q, t = _plane(
                    flat_x, flat_z, work, i, k, shape, wraps, gain_x, gain_z[j], bias_x, bias_z[j], taught, full
                )  # fmt: skip
                out[j, 0] += q
                out[j, 1] += t


@lru_cache(maxsize=8)
def columns_of(patches: Patches, framed: bool) -> np.ndarray:
    """(shifts, 4, stride): which columns of x stand in a row, W for none; those with its frame; the same of z.

    A piece is followed by its `after` neighbours. Those before it are needed where they are not all 0 (`framed`);
    else the zeros after the piece before it serve.
    """
    width, before, after = patches.columns, patches.before if framed or patches.wraps else 0, patches.after
    shifts = []
    for shift in range(width):
        pieces = [(0, shift, width)] if patches.wraps else [(0, shift, width - shift), (width - shift, 0, shift)]
        lines: list[list[int]] = [[], [], [], []]
        for x, z, length in pieces:
            for t in range(-before, length + after):
                for which, column in ((0, x + t), (2, z + t)):
                    column = column % width if patches.wraps else column
                    lines[which].append(column if 0 <= t < length else width)
                    lines[which + 1].append(column if 0 <= column < width else width)
        shifts.append(lines)
    return np.array(shifts, np.uint32)


@final
class Planes:
    """Images laid out for the compiled loops, in one precision."""

    def __init__(self, images: Images, dtype: str) -> None:
        self.full = dtype == "float64"
        size, inverse, near = images.deviations, images.inverses, images.near if self.full else images.near[:, :0]
        arrays = (images.pixels, size, inverse, near)
        # one more column, of zeros: where a row has nothing
        self.arrays = tuple(np.pad(array.astype(dtype), ((0, 0), (0, 0), (0, 0), (0, 1))) for array in arrays)
        self.gain, self.bias = images.gain, images.bias

    def row(
        self, i: int, others: Planes, some: slice, patches: Patches, pooled: bool, taught: np.ndarray
    ) -> np.ndarray:
        """(p, 2): sums over positions of q and of the tangent kernel, of image `i` with `some` of the others.

        Args:
            taught: (depth,) of 1 for layers that are trained and 0 for others.
        """
        Z = tuple(array[some] for array in others.arrays)
        out = np.zeros((len(Z[0]), 2))
        _row(
            tuple(array[i] for array in self.arrays), self.gain[i], self.bias[i],
            Z, others.gain[some], others.bias[some], taught,
            columns_of(patches, self.full), patches.side, patches.before, patches.wraps, pooled, True if self.full else None, out,
        )  # fmt: skip
        return out
