"""Kernels of images against the recursion written out position by position, at 50 digits."""

import mpmath
import numpy as np
import pytest

from overparam.kernels.composed import Composed
from overparam.layers import Flatten, LayerNorm, Relu, standard


class Exact:
    """Covariances and tangent kernels of all pairs of (image, position) on a line, in mpmath; no code of the library."""

    def __init__(self, images):
        self.n, self.P = images.shape[:2]
        sites = [[mpmath.mpf(float(value)) for value in site] for image in images for site in image]
        self.K = [[sum(a * b for a, b in zip(u, v, strict=True)) / len(u) for v in sites] for u in sites]
        self.T = [[mpmath.mpf(0)] * len(sites) for _ in sites]

    def change(self, function):
        """New K and T from function(M, s, t) of each old matrix and a pair of sites (image, position)."""
        sites = [(a, i) for a in range(self.n) for i in range(self.P)]
        return [[[function(M, s, t) for t in sites] for s in sites] for M in (self.K, self.T)]

    def at(self, M, s, t):
        return M[s[0] * self.old + s[1]][t[0] * self.old + t[1]]

    def linear(self, reads, W, b, own=False):
        """`reads[o]` lists (position or None) of the window of output o."""
        self.old, self.P, size = self.P, len(reads), len(reads[0])

        def patch(M, s, t):
            if own and s[1] != t[1]:
                return mpmath.mpf(0)
            places = zip(reads[s[1]], reads[t[1]], strict=True)
            return sum(self.at(M, (s[0], p), (t[0], q)) for p, q in places if p is not None and q is not None) / size

        K, T = self.change(patch)
        bias = [
            [mpmath.mpf(b) ** 2 * (not own or i % self.P == j % self.P) for j in range(len(K))] for i in range(len(K))
        ]
        self.K = [[W**2 * k + c for k, c in zip(*rows, strict=True)] for rows in zip(K, bias, strict=True)]
        self.T = [[W**2 * t + k for t, k in zip(*rows, strict=True)] for rows in zip(T, self.K, strict=True)]

    def relu(self):
        K, N = self.K, len(self.K)
        new = [[mpmath.mpf(0)] * N for _ in range(N)]
        for i in range(N):
            for j in range(N):
                size = mpmath.sqrt(K[i][i] * K[j][j])
                if size == 0:
                    self.T[i][j] = mpmath.mpf(0)
                    continue
                angle = mpmath.acos(min(max(K[i][j] / size, -1), 1))
                new[i][j] = size * (mpmath.sin(angle) + (mpmath.pi - angle) * mpmath.cos(angle)) / (2 * mpmath.pi)
                self.T[i][j] *= (mpmath.pi - angle) / (2 * mpmath.pi)
        self.K = new

    def pool(self, reads, shares):
        self.old, self.P = self.P, len(reads)

        def average(M, s, t):
            windows = [list(zip(reads[o], shares[o], strict=True)) for o in (s[1], t[1])]
            return sum(
                c * d * self.at(M, (s[0], p), (t[0], q))
                for p, c in windows[0]
                for q, d in windows[1]
                if p is not None and q is not None
            )

        self.K, self.T = self.change(average)

    def norm(self, epsilon, over_all):
        size = [self.K[i][i] for i in range(len(self.K))]
        if over_all:
            size = [sum(size[i // self.P * self.P :][: self.P]) / self.P for i in range(len(size))]
        root = [mpmath.sqrt(v + mpmath.mpf(epsilon)) for v in size]
        self.K, self.T = (
            [[M[i][j] / root[i] / root[j] for j in range(len(M))] for i in range(len(M))] for M in (self.K, self.T)
        )

    def flatten(self):
        """Equal positions averaged."""
        self.old, self.P, P = self.P, 1, self.P
        self.K, self.T = self.change(lambda M, s, t: sum(self.at(M, (s[0], p), (t[0], p)) for p in range(P)) / P)


def window(length, side, stride, padding):
    """By hand for the cases below: lists of positions, None for zeros."""
    outputs = (length - side) // stride + 1 if padding == "VALID" else -(-length // stride)
    missing = max((outputs - 1) * stride + side - length, 0) if padding != "VALID" else 0
    found = []
    for o in range(outputs):
        places = [o * stride - missing // 2 + p for p in range(side)]
        if padding == "CIRCULAR":
            places = [p % length for p in places]
        found.append([p if 0 <= p < length else None for p in places])
    return found


def exactly(images, layers):
    """(K, T), (images, images), of the last layer."""
    with mpmath.workdps(50):
        state = Exact(images)
        for kind, *options in layers:
            if kind in ("conv", "local"):
                side, stride, padding, W, b = options
                state.linear(window(state.P, side, stride, padding), W, b, kind == "local")
            elif kind == "dense":
                state.linear([[p] for p in range(state.P)], *options)
            elif kind == "pool":
                side, stride, padding, edges = options
                reads = window(state.P, side, stride, padding)
                counts = [sum(p is not None for p in places) if edges else side for places in reads]
                state.pool(reads, [[mpmath.mpf(1) / count] * side for count in counts])
            elif kind == "gap":
                state.pool([list(range(state.P))], [[mpmath.mpf(1) / state.P] * state.P])
            else:
                getattr(state, kind)(*options)
        return np.array(state.K, dtype=float), np.array(state.T, dtype=float)


def written(kind, *options):
    """The same layer of the library."""
    if kind in ("conv", "local"):
        side, stride, padding, W, b = options
        return standard.conv(5, side, stride, padding, W, b, shared=kind == "conv")
    if kind == "pool":
        side, stride, padding, edges = options
        return standard.avg_pool(side, stride, padding, normalise_edges=edges)
    if kind == "norm":
        return LayerNorm((0,) if options[1] else (), options[0])
    if kind == "dense":
        return standard.dense(5, *options)
    return {"relu": Relu, "flatten": Flatten, "gap": standard.global_avg_pool}[kind]()


POOLED_LAST = {
    "same, gap": [
        ("conv", 3, 1, "SAME", 1.3, 0.2),
        ("relu",),
        ("conv", 2, 1, "SAME", 1.4, 0.0),
        ("relu",),
        ("gap",),
        ("dense", 1.1, 0.3),
    ],
    "no biases, stride 2, gap": [
        ("conv", 3, 2, "SAME", 1.3, 0.0),
        ("relu",),
        ("conv", 2, 1, "CIRCULAR", 1.4, 0.0),
        ("relu",),
        ("gap",),
        ("dense", 1.0, 0.0),
    ],
    "valid, then pool, flatten": [
        ("conv", 2, 1, "VALID", 1.3, 0.1),
        ("relu",),
        ("pool", 2, 1, "SAME", True),
        ("flatten",),
        ("dense", 1.0, 0.1),
    ],
    "circular, stride 2, flatten": [
        ("conv", 3, 2, "CIRCULAR", 1.3, 0.2),
        ("relu",),
        ("conv", 2, 1, "CIRCULAR", 1.3, 0.2),
        ("relu",),
        ("flatten",),
        ("dense", 1.0, 0.0),
    ],
    "local, gap": [
        ("local", 3, 1, "SAME", 1.3, 0.2),
        ("relu",),
        ("conv", 3, 1, "SAME", 1.3, 0.2),
        ("relu",),
        ("gap",),
        ("dense", 1.0, 0.0),
    ],
    "norms, gap": [
        ("conv", 3, 1, "SAME", 1.3, 0.2),
        ("norm", 1e-12, False),
        ("relu",),
        ("conv", 2, 1, "VALID", 1.3, 0.2),
        ("norm", 0.1, True),
        ("relu",),
        ("gap",),
        ("dense", 1.0, 0.0),
    ],
}
POOLED_BEFORE_RELU = {
    "average": [
        ("conv", 2, 1, "CIRCULAR", 1.3, 0.2),
        ("relu",),
        ("pool", 2, 2, "VALID", False),
        ("conv", 2, 1, "SAME", 1.4, 0.1),
        ("relu",),
        ("gap",),
        ("dense", 1.0, 0.2),
    ],
    "average, edges, no biases": [
        ("conv", 2, 1, "SAME", 1.3, 0.0),
        ("relu",),
        ("pool", 3, 2, "SAME", True),
        ("conv", 2, 1, "SAME", 1.4, 0.0),
        ("relu",),
        ("flatten",),
        ("dense", 1.0, 0.0),
    ],
    "gap, then deep": [
        ("conv", 3, 1, "SAME", 1.3, 0.0),
        ("relu",),
        ("gap",),
        ("dense", 1.4, 0.0),
        ("relu",),
        ("dense", 1.0, 0.0),
    ],
    "local, pooled": [
        ("local", 2, 1, "SAME", 1.3, 0.2),
        ("relu",),
        ("pool", 2, 2, "SAME", False),
        ("dense", 1.4, 0.1),
        ("relu",),
        ("gap",),
        ("dense", 1.0, 0.0),
    ],
}


def relative_errors(layers, x, z):
    """Of "nngp" and "ntk", the largest of K(x, z), K(x, x) and K(z, z), relative to √(K(x, x) K(z, z))."""
    images = np.stack([x, z])
    kernel = Composed([written(*layer) for layer in layers])
    found = []
    for get, exact in zip(("nngp", "ntk"), exactly(images, layers), strict=True):
        size = np.sqrt(np.outer(exact.diagonal(), exact.diagonal()))
        whole, pieces = kernel(images, get=get), kernel.block(images[:1], images, get)
        found.append(max(np.abs((whole - exact) / size).max(), np.abs((pieces - exact[:1]) / size[:1]).max()))
    return found


STATED, STATED_BEHIND_A_POOLING = 1e-14, 2e-9
"""What `AbstractCompositionKernel` says of its entries, relative to √(K(x, x) K(z, z))."""


def some_images(seed=0):
    return np.random.default_rng(seed).standard_normal((2, 4, 2))


ALL = {**POOLED_LAST, **POOLED_BEFORE_RELU}


@pytest.mark.parametrize("name", sorted(ALL))
def test_images_that_differ(name):
    assert max(relative_errors(ALL[name], *some_images())) <= STATED


@pytest.mark.parametrize("name", sorted(POOLED_LAST))
@pytest.mark.parametrize("gap", [1e-3, 1e-9, 1e-13])
def test_near_parallel_images(name, gap):
    x, noise = some_images()
    for z in (x + gap * noise, 2 * x + gap * noise, -x + gap * noise):
        assert max(relative_errors(POOLED_LAST[name], x, z)) <= STATED


@pytest.mark.parametrize("name", sorted(ALL))
def test_parallel_images(name):
    """Scaled, opposite, and with all positions equal: cosines are ±1 exactly, also behind a pooling."""
    x, z = some_images()
    flat = np.ones((4, 1)) * np.array([0.3, -0.7])
    x[:2], dark = 0.0, z.copy()
    dark[1:3] = 0.0
    for one, two in ((x, 3 * x), (x, -x), (x, -0.3 * x), (flat, 0.1 * flat), (flat, z), (dark, -dark), (dark, x)):
        assert max(relative_errors(ALL[name], one, two)) <= STATED


@pytest.mark.parametrize("name", sorted(POOLED_BEFORE_RELU))
def test_near_parallel_images_behind_a_pooling(name):
    """There the tangent kernel takes an angle of about 1e-8 from rounded sums: 9 digits; "nngp" keeps all."""
    x, noise = some_images()
    for gap in (1e-4, 1e-6, 1e-8, 1e-10, 1e-13):
        for z in (x + gap * noise, 2 * x + gap * noise):
            nngp, ntk = relative_errors(POOLED_BEFORE_RELU[name], x, z)
            assert nngp <= STATED
            assert ntk <= STATED_BEHIND_A_POOLING


@pytest.mark.parametrize("scale", [1e-70, 1e-20, 1e60])
def test_small_and_large_images(scale):
    name = "no biases, stride 2, gap"
    x, z = scale * some_images()
    assert max(relative_errors(POOLED_LAST[name], x, z)) <= STATED
    with pytest.raises(ValueError, match=r"too (small|large)") as caught:
        Composed([written(*layer) for layer in POOLED_LAST[name]])(some_images() * (1e-120 if scale < 1 else 1e160))
    assert "\n" not in str(caught.value)
