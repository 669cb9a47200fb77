"""The recursion of convolutional kernels on all pairs of positions, written as it is defined, in 40 digits."""

from __future__ import annotations

from functools import lru_cache
from itertools import product

import mpmath
import numpy as np

from overparam.kernels.convolutional import Convolutional

CASES = [  # rows, columns, channels, depth, patch, padding, head, W_std, b_std, trained
    (3, 4, 2, 1, 3, "SAME", "pool", 2**0.5, 0.0, "all"),
    (3, 3, 1, 3, 2, "SAME", "pool", 1.7, 0.3, (1, 4)),
    (3, 3, 2, 2, 3, "SAME", "flatten", 1.3, 0.0, "all"),
    (3, 3, 2, 2, 3, "CIRCULAR", "pool", 1.2, 0.2, "all"),
    (3, 4, 1, 2, 2, "VALID", "pool", 1.5, 0.1, (2,)),
    (2, 2, 2, 1, 1, "SAME", "pool", 1.0, 0.0, "all"),
    (2, 3, 2, 3, 2, "CIRCULAR", "flatten", 1.2, 0.0, "hidden"),
    (5, 5, 1, 2, 3, "VALID", "flatten", 1.5, 0.0, "last"),
]


def made(case, **more):
    """The kernel of a case."""
    depth, patch, padding, head, W_std, b_std, trained = case[3:]
    return Convolutional(depth, patch, W_std, b_std, head, padding=padding, trained=trained, **more)


@lru_cache
def by_hand(case):
    """An image, others that make pairs of positions parallel, nearly so, or opposite, and their kernels (nngp, ntk)."""
    rng = np.random.default_rng(0)
    x, z = rng.standard_normal((2, *case[:3]))
    black = np.where(np.arange(x.shape[1])[:, None] < 2, 0.0, x)
    Z = np.stack([z, x + 1e-9 * z, -2 * x, -x + 1e-7 * z, black, np.ones_like(x) * x[0, 0], 0 * x])
    kernels = [kernel_by_hand(x, z, *case[3:9], made(case)._trained) for z in Z]
    return x, Z, np.array(kernels).T


def check_against_hand(case, device):
    x, Z, want = by_hand(case)
    exact = made(case)
    for get, value in zip(("nngp", "ntk"), want, strict=True):
        size = np.sqrt(exact.diagonal(x[None], get) * exact.diagonal(Z, get))
        size = np.where(size > 0, size, 1.0)
        # float32 loses angles below 3e-4: up to 1e-4 of the tangent kernel a layer, where patches are parallel
        for dtype, most in (("float64", 1e-13), ("float32", 5e-4 if get == "ntk" else 1e-6)):
            have = made(case, device=device, dtype=dtype)(x[None], Z, get)[0]
            assert (np.abs(have - value) / size).max() < most


def kernel_by_hand(x, z, depth, patch, padding, head, W_std, b_std, trained):
    """(nngp, ntk) of one pair of images (rows, columns, channels); `trained`: one flag a layer, the head's last."""
    with mpmath.workdps(40):
        xs, zs = (np.vectorize(mpmath.mpf, otypes=[object])(image) for image in (x, z))
        S = np.einsum("ijc,klc->ijkl", xs, zs) / x.shape[-1]
        own = [np.einsum("ijc,ijc->ij", one, one) / x.shape[-1] for one in (xs, zs)]  # of a position with itself
        tangent = np.zeros_like(S)
        weight, bias = mpmath.mpf(W_std) ** 2, mpmath.mpf(b_std) ** 2
        for layer in range(depth):
            xx, zz, xz = (weight / patch**2 * _sums(each, patch, padding) + bias for each in (*own, S))
            tangent = weight / patch**2 * _sums(tangent, patch, padding) + (xz if trained[layer] else 0)
            S, slope = _relu(xz, xx, zz)
            own, tangent = [xx / 2, zz / 2], tangent * slope
        means = []
        for whole in (S, tangent):
            places = list(product(range(whole.shape[0]), range(whole.shape[1])))
            chosen = product(places, places) if head == "pool" else zip(places, places, strict=True)
            values = [whole[i + k] for i, k in chosen]
            means.append(weight * sum(values) / len(values))
        nngp = means[0] + bias
        return float(nngp), float(means[1] + (nngp if trained[-1] else 0))


def _sums(S, patch, padding):
    """Over the neighbourhoods of one position, or of two at once: along (rows, columns) once or twice."""
    before = 0 if padding == "VALID" else (patch - 1) // 2
    lost = patch - 1 if padding == "VALID" else 0
    out = np.full([size - lost for size in S.shape], mpmath.mpf(0), object)
    for here in np.ndindex(*out.shape):
        for step in product(range(-before, patch - before), repeat=2):
            place = tuple(p + s for p, s in zip(here, step * (S.ndim // 2), strict=True))
            if padding == "CIRCULAR":
                place = tuple(p % size for p, size in zip(place, S.shape, strict=True))
            if all(0 <= p < size for p, size in zip(place, S.shape, strict=True)):
                out[here] += S[place]
    return out


def _relu(q, xx, zz):
    kernel, slope = np.full(q.shape, mpmath.mpf(0), object), np.full(q.shape, mpmath.mpf(0), object)
    for i, j, k, l in product(*map(range, q.shape)):
        size = mpmath.sqrt(xx[i, j] * zz[k, l])
        if size > 0:
            theta = mpmath.acos(max(-1, min(1, q[i, j, k, l] / size)))
            opening = mpmath.pi - theta
            kernel[i, j, k, l] = size * (mpmath.sin(theta) + opening * mpmath.cos(theta)) / (2 * mpmath.pi)
            slope[i, j, k, l] = opening / (2 * mpmath.pi)
    return kernel, slope
