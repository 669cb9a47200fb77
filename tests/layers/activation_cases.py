"""Activations of the house beside the textbook formulas of their second moments, to any number of digits."""

import math

import mpmath
from mpmath import mpf

from overparam.layers import Erf, Exponential, Gabor, Gaussian, Gelu, Identity, LeakyRelu, Relu, Sine


def kink_dual(negative, positive):
    """max and min with two slopes: arc-cosines of order 1 and 0."""
    odd, even = (mpf(positive) + mpf(negative)) ** 2 / 4, (mpf(positive) - mpf(negative)) ** 2 / 4

    def dual(q, xx, zz):
        size = mpmath.sqrt(xx * zz)
        if size == 0:
            return mpf(0), odd
        rho = max(min(q / size, mpf(1)), mpf(-1))
        theta = mpmath.acos(rho)
        absolute = 2 / mpmath.pi * (mpmath.sin(theta) + rho * (mpmath.pi / 2 - theta))
        return odd * q + even * size * absolute, odd + even * (1 - 2 * theta / mpmath.pi)

    return dual


def erf_dual(a, b, c):
    a, b, c = mpf(a), mpf(b), mpf(c)

    def dual(q, xx, zz):
        P, Q, R = 2 * b**2 * xx, 2 * b**2 * zz, 2 * b**2 * q
        root = mpmath.sqrt((1 + P) * (1 + Q) - R**2)
        return a**2 * 2 / mpmath.pi * mpmath.atan2(R, root) + c**2, 4 / mpmath.pi * (a * b) ** 2 / root

    return dual


def gelu_dual(q, xx, zz):
    D = (1 + xx) * (1 + zz) - q**2
    root, k = mpmath.sqrt(D), 1 / (1 + xx) + 1 / (1 + zz)
    gamma = mpmath.atan2(q, root)
    moment = q / 4 + (q * gamma + (xx * zz - q**2 + k * q**2) / root) / (2 * mpmath.pi)
    return moment, mpf(1) / 4 + (gamma + k * q / root + q / D / root) / (2 * mpmath.pi)


def sine_dual(a, b, c):
    a, b, c = mpf(a), mpf(b), mpf(c)

    def dual(q, xx, zz):
        near, far = mpmath.exp(-(b**2) * (xx + zz - 2 * q) / 2), mpmath.exp(-(b**2) * (xx + zz + 2 * q) / 2)
        turn = mpmath.cos(2 * c)
        return a**2 * (near - turn * far) / 2, (a * b) ** 2 * (near + turn * far) / 2

    return dual


def exponential_dual(a, b):
    a, b = mpf(a), mpf(b)

    def dual(q, xx, zz):
        moment = a**2 * mpmath.exp(b**2 * ((xx + zz) / 2 + q))
        return moment, b**2 * moment

    return dual


def gaussian_dual(a, b):
    a, b = mpf(a), mpf(b)

    def dual(q, xx, zz):
        D = (1 - 2 * b * xx) * (1 - 2 * b * zz) - 4 * b**2 * q**2
        return a**2 / mpmath.sqrt(D), 4 * (a * b) ** 2 * q / D ** mpf(1.5)

    return dual


def gabor_dual(q, xx, zz):
    D, s = (1 + 2 * xx) * (1 + 2 * zz) - 4 * q**2, xx + zz
    near, far = (mpmath.exp(-(s + 4 * (xx * zz - q**2) + 2 * sign * q) / (2 * D)) for sign in (-1, 1))
    moment = (near - far) / (2 * mpmath.sqrt(D))
    each = [1 + sign * q * (4 + 4 * (1 + s) / D) + 8 * q**2 / D for sign in (1, -1)]
    return moment, (near * each[0] + far * each[1]) / (2 * D ** mpf(1.5))


CASES = {
    "relu": (Relu(), kink_dual(0, 1)),
    "leaky": (LeakyRelu(0.1), kink_dual(0.1, 1)),
    "two_slopes": (LeakyRelu(-0.5, 1.7), kink_dual(-0.5, 1.7)),
    "abs": (LeakyRelu(-1.0), kink_dual(-1, 1)),
    "erf": (Erf(), erf_dual(1, 1, 0)),
    "erf_abc": (Erf(1.2, 0.7, 0.3), erf_dual(1.2, 0.7, 0.3)),
    "gelu": (Gelu(), gelu_dual),
    "sine": (Sine(), sine_dual(1, 1, 0)),
    "sine_abc": (Sine(1.2, 0.7, 0.3), sine_dual(1.2, 0.7, 0.3)),
    "cosine": (Sine(c=math.pi / 2), sine_dual(1, 1, math.pi / 2)),
    "exponential": (Exponential(0.8, 0.5), exponential_dual(0.8, 0.5)),
    "gaussian": (Gaussian(1.1, -0.3), gaussian_dual(1.1, -0.3)),
    "gabor": (Gabor(), gabor_dual),
    "identity": (Identity(), lambda q, xx, zz: (q, mpf(1))),
}


def largest_variance(name):
    """Above it the exponential overflows, and the sine turns too often for float64."""
    return {"exponential": 1e3, "sine": 1e6, "sine_abc": 1e6, "cosine": 1e6}.get(name, 1e60)
