"""One table of networks for every test: each with its papers' laws and its forward pass and gradient by hand.

`by_hand(net, w, x, v)` gives the outputs (n, k) and the gradient of Σ_i v_i·out_i by every weight matrix, in NumPy,
from the papers' formulas: backward vectors times signs times inputs, no automatic differentiation.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import product
from typing import Any

import numpy as np

from overparam import networks


def relu(g: np.ndarray) -> np.ndarray:
    return np.maximum(g, 0)


def with_one(x: np.ndarray) -> np.ndarray:
    return np.column_stack([x, np.ones(len(x))])


def two_layer(net, w, x, v):
    g = x @ w["W"].T
    scale = net.width**-0.5
    back = (v[:, :1] * w["a"]) * (g > 0) * scale
    return (relu(g) @ w["a"] * scale)[:, None], {"W": back.T @ x}


def biased_two_layer(net, w, x, v):
    g = x @ w["W"].T + w["b"]
    back = (v @ w["a"]) * (g > 0)
    return relu(g) @ w["a"].T, {"W": back.T @ x, "a": v.T @ relu(g)}


def three_layer(net, w, x, v):
    g1 = x @ w["W"].T + w["b1"]
    g2 = relu(g1) @ w["V"].T + w["b2"]
    back2 = (v @ w["a"]) * (g2 > 0)
    back1 = (back2 @ w["V"]) * (g1 > 0)
    return relu(g2) @ w["a"].T, {"W": back1.T @ x, "V": back2.T @ relu(g1), "a": v.T @ relu(g2)}


def plain(net, w, x, v):
    g1 = with_one(x) @ w["W"].T
    if net.depth == 1:
        back1 = (v @ w["A"]) * (g1 > 0)
        return relu(g1) @ w["A"].T, {"W": back1.T @ with_one(x), "A": v.T @ relu(g1)}
    g2 = with_one(relu(g1)) @ w["V"].T
    back2 = (v @ w["A"]) * (g2 > 0)
    back1 = (back2 @ w["V"][:, :-1]) * (g1 > 0)
    gradients = {"W": back1.T @ with_one(x), "V": back2.T @ with_one(relu(g1)), "A": v.T @ relu(g2)}
    return relu(g2) @ w["A"].T, gradients


def three_layer_resnet(net, w, x, v):
    g1 = with_one(x) @ w["W"].T
    out1 = relu(g1) @ w["A"].T
    g2 = with_one(out1) @ w["V"].T
    back2 = (v @ w["A"]) * (g2 > 0)
    into_out1 = v + back2 @ w["V"][:, :-1]
    back1 = (into_out1 @ w["A"]) * (g1 > 0)
    gradients = {
        "W": back1.T @ with_one(x),
        "V": back2.T @ with_one(out1),
        "A": into_out1.T @ relu(g1) + v.T @ relu(g2),
    }
    return out1 + relu(g2) @ w["A"].T, gradients


def fully_connected(net, w, x, v):
    L = net.depth - 1
    pre = [x @ w["A"].T]
    for l in range(1, L + 1):
        pre.append(relu(pre[-1]) @ w[f"W{l}"].T)
    gradients = {"B": v.T @ relu(pre[L])}
    back = (v @ w["B"]) * (pre[L] > 0)
    for l in range(L, 0, -1):
        gradients[f"W{l}"] = back.T @ relu(pre[l - 1])
        back = (back @ w[f"W{l}"]) * (pre[l - 1] > 0)
    gradients["A"] = back.T @ x
    return relu(pre[L]) @ w["B"].T, gradients


def residual(net, w, x, v):
    L, tau = net.depth - 1, 1 / (net.c * (net.depth - 1) * np.log(net.width))
    pre = [x @ w["A"].T]
    for l in range(1, L):
        h = relu(pre[-1])
        pre.append(h + tau * h @ w[f"W{l}"].T)
    pre.append(relu(pre[-1]) @ w[f"W{L}"].T)
    gradients = {"B": v.T @ relu(pre[L])}
    back = (v @ w["B"]) * (pre[L] > 0)
    gradients[f"W{L}"] = back.T @ relu(pre[L - 1])
    back = (back @ w[f"W{L}"]) * (pre[L - 1] > 0)
    for l in range(L - 1, 0, -1):
        gradients[f"W{l}"] = tau * back.T @ relu(pre[l - 1])
        back = (back + tau * back @ w[f"W{l}"]) * (pre[l - 1] > 0)
    gradients["A"] = back.T @ x
    return relu(pre[L]) @ w["B"].T, gradients


def neighbours(grid: tuple[int, ...], side: int) -> np.ndarray:
    """(P, q): the numbers of the positions of each Q_j, in the order of the patch."""
    reach = range(-((side - 1) // 2), side // 2 + 1)
    rows = []
    for place in product(*map(range, grid)):
        near = [
            tuple((p + o) % g for p, o, g in zip(place, step, grid, strict=True))
            for step in product(reach, repeat=len(grid))
        ]
        rows.append([int(np.ravel_multi_index(one, grid)) for one in near])
    return np.array(rows)


def convolutional(net, w, x, v):
    """Position by position: W_j is (units, q·channels), neighbour after neighbour."""
    L, Q = net.depth - 1, neighbours(net.grid, net.patch)
    P, q = Q.shape
    tau = net.separation**2 / (10 * P * L)
    own = {}
    for name in w:
        if name != "B" and name != f"W{L}":
            flat = (
                w[name].reshape(len(w[name]), -1) if net.shared else w[name].reshape(P, *w[name].shape[len(net.grid) :])
            )
            if name.startswith("b"):
                flat = w[name] if net.shared else flat
            own[name] = np.broadcast_to(flat, (P, *flat.shape)) if net.shared else flat
    h = x.reshape(len(x), net.channels, P).swapaxes(1, 2)
    pre, patches = [], []
    for l in range(L):
        name = "A" if l == 0 else f"W{l}"
        patch = np.stack([h[:, Q[j]].reshape(len(x), -1) for j in range(P)], axis=1)
        g = np.stack([patch[:, j] @ own[name][j].T for j in range(P)], axis=1)
        if l > 0:
            g = g + tau * own[f"b{l}"]
        pre.append(g)
        patches.append(patch)
        h = relu(g)
    flat = h.reshape(len(x), -1)
    top = flat @ w[f"W{L}"].T
    back = (v @ w["B"]) * (top > 0)
    gradients = {"B": v.T @ relu(top), f"W{L}": back.T @ flat}
    back = (back @ w[f"W{L}"]).reshape(h.shape) * (pre[-1] > 0)
    for l in range(L - 1, -1, -1):
        name = "A" if l == 0 else f"W{l}"
        each = np.stack([back[:, j].T @ patches[l][:, j] for j in range(P)])
        gradients[name] = (each.sum(axis=0) if net.shared else each).reshape(w[name].shape)
        if l > 0:
            into = np.zeros_like(pre[l - 1])
            for j in range(P):
                into[:, Q[j]] += (back[:, j] @ own[name][j]).reshape(len(x), q, -1)
            back = into * (pre[l - 1] > 0)
    return relu(top) @ w["B"].T, gradients


@dataclass(frozen=True)
class Case:
    """A network, its input size, the variance of each weight by its paper (pairs: of what is not 0), and its hand."""

    net: Any
    inputs: int
    trained: set[str]
    variances: dict[str, float]
    by_hand: Callable[..., Any]
    mixtures: set[str] = field(default_factory=set)
    signs: set[str] = field(default_factory=set)


def cases() -> dict[str, Case]:
    """Small ones: every architecture and every option that changes its weights."""
    N = networks
    deep = {"A": 2 / 12, "W1": 2 / 12, "W2": 2 / 12, "W3": 2 / 12, "B": 1 / 2}
    line = N.Convolutional(4, depth=4, positions=5, patch=3, outputs=2, separation=8.0)
    local = {"A": 2 / 12, "W1": 2 / 12, "W2": 2 / 12, "b1": 2 / 12, "b2": 2 / 12, "W3": 2 / 20, "B": 1 / 2}
    image = N.Convolutional(3, depth=3, positions=(3, 4), patch=2, separation=8.0, channels=2, last_width=7)
    pixels = {"A": 2 / 12, "W1": 2 / 12, "b1": 2 / 12, "W2": 2 / 7, "B": 1.0}
    three = {"W": 1 / 10, "V": 1 / 14, "a": 0.09, "b1": 2 / 10, "b2": 2 / 14}
    halves = {"b", "b1", "b2"}
    table = {
        "two_layer": Case(N.TwoLayer(10, kappa=0.3), 4, {"W"}, {"W": 0.09, "a": 1.0}, two_layer, signs={"a"}),
        "paired": Case(N.TwoLayer(10, 0.3, paired=True), 4, {"W"}, {"W": 0.09, "a": 1.0}, two_layer, signs={"a"}),
        "balanced": Case(N.TwoLayer(10, 0.3, balanced=True), 4, {"W"}, {"W": 0.09, "a": 1.0}, two_layer, signs={"a"}),
        "biased": Case(
            N.BiasedTwoLayer(10, outputs=3, output_std=0.3),
            4,
            {"W"},
            {"W": 0.1, "a": 0.09, "b": 0.2},
            biased_two_layer,
            halves,
        ),
        "biased, last": Case(
            N.BiasedTwoLayer(10, trained="last"), 4, {"a"}, {"W": 0.1, "a": 1.0, "b": 0.2}, biased_two_layer, halves
        ),
        "three_layer": Case(N.ThreeLayer(10, 14, outputs=3, output_std=0.3), 4, {"W", "V"}, three, three_layer, halves),
        "2layer": Case(N.Plain(10, outputs=2), 4, {"W"}, {"W": 1 / 4, "A": 1 / 10}, plain),
        "3layer": Case(N.Plain(10, depth=2), 4, {"W", "V"}, {"W": 1 / 4, "V": 1 / 10, "A": 1 / 10}, plain),
        "3layer, all": Case(
            N.Plain(10, 2, 2, "all"), 4, {"W", "V", "A"}, {"W": 1 / 4, "V": 1 / 10, "A": 1 / 10}, plain
        ),
        "3resnet": Case(
            N.ThreeLayerResNet(10, outputs=3), 4, {"W", "V"}, {"W": 1 / 4, "V": 1 / 10, "A": 1 / 10}, three_layer_resnet
        ),
        "3resnet, theory": Case(
            N.ThreeLayerResNet(10, 3, "theory", sigma_w=0.5, sigma_v=2.0),
            4,
            {"W", "V"},
            {"W": 0.25, "V": 4 / 10, "A": 1 / 10},
            three_layer_resnet,
        ),
        "3resnet, all": Case(
            N.ThreeLayerResNet(10, trained="all"),
            4,
            {"W", "V", "A"},
            {"W": 1 / 4, "V": 1 / 10, "A": 1 / 10},
            three_layer_resnet,
        ),
        "fully_connected": Case(N.FullyConnected(12, 4, outputs=2), 4, {"W1", "W2", "W3"}, deep, fully_connected),
        "fully_connected, all": Case(N.FullyConnected(12, 4, 2, "all"), 4, set(deep), deep, fully_connected),
        "fully_connected, last": Case(N.FullyConnected(12, 4, 2, "last"), 4, {"B"}, deep, fully_connected),
        "residual": Case(N.Residual(12, 4, outputs=2, c=0.5), 4, {"W1", "W2", "W3"}, deep, residual),
        "residual, all": Case(N.Residual(12, 4, 2, 0.5, "all"), 4, set(deep), deep, residual),
        "convolutional": Case(line, 5, {"W1", "W2", "W3"}, local, convolutional),
        "convolutional, image": Case(image, 24, {"W1", "W2"}, pixels, convolutional),
    }
    for name in ("convolutional", "convolutional, image"):
        case = table[name]
        net = type(case.net)(**{**vars(case.net), "shared": True, "trained": "all"})
        weights = {weight for weight in case.variances if not weight.startswith("b")}
        table[f"{name}, shared, all"] = Case(net, case.inputs, weights, case.variances, case.by_hand)
    return table


CASES = cases()
