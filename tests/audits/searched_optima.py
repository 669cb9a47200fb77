"""The worst of two trained layers that a long search finds: every value is attained by some W′, so that no optimum is below it.

The first of two layers takes its g anywhere within reach, position by position. Given that, the second one's worst is a closed form: units turn for what is
left to 0, those that the first layer turned for nothing. So only the movement of g_1 is sought, eight or nine numbers: at random, then around the best.

Of B D_2 W_2 D_1, W′ of the second layer is given by what it does to h_1 and what it brings back of b∘D_2: two vectors p and w with
⟨b∘D_2, w⟩ = ⟨p, h_1⟩ have a W′ no longer than the longer of ‖w‖/‖h_1‖ and ‖p‖/‖b∘D_2‖ (Parrott).
"""

import numpy as np
from exact_optima import Small, all_sets

KEPT, AROUND, SHORTER = 60, 12, 0.85
SEARCHED = ("two layers", "residual, two layers", "convolutional, two layers")


def searched(subject, omega, tries=3000, rounds=20):
    """The most that is found of a subject of `SEARCHED`, by quantity."""
    return Searched(subject).found(omega, tries, rounds)


class Searched(Small):
    """A subject of two trained layers and one output."""

    def found(self, omega, tries, rounds, key=0):
        """By quantity as in `Small.stability`: the most that is found, over samples."""
        rng, most = np.random.default_rng(key), {}
        for i in range(len(self.h[0])):
            begun = self._within(i, omega, rng.standard_normal((tries, self.g[1].shape[1])), rng)
            for name in ("signs", "signal", "last", "moved", "back"):
                value = self._climbed(i, omega, name, begun, rounds, rng)
                most[name] = max(most.get(name, 0.0), value)
        return most

    def _climbed(self, i, omega, name, V, rounds, rng):
        far = 0.5 * omega * self.below()[i].max()
        for _ in range(rounds):
            V = V[np.argsort(-self._height(i, omega, name, V), kind="stable")[:KEPT]]
            near = V[:, None] + far * rng.standard_normal((len(V), AROUND, V.shape[1]))
            V, far = np.concatenate([V, self._within(i, omega, near.reshape(-1, V.shape[1]))]), SHORTER * far
        heights = self._height(i, omega, name, V)
        return np.floor(heights.max()) if name == "signs" else heights.max()

    def _within(self, i, omega, V, rng=None):
        """Movements whose part at each position is at most its reach; mostly on the edge where they are drawn."""
        V = V.reshape(len(V), *self.positions()[i].shape)
        length, most = np.linalg.norm(V, axis=2, keepdims=True), omega * self.below()[i][:, None]
        if rng is None:
            shares = np.minimum(1.0, most / length)
        else:
            shares = most / length * np.where(rng.random(length.shape) < 0.7, 1.0, rng.random(length.shape))
        return (V * shares).reshape(len(V), -1)

    def _height(self, i, omega, name, V):
        """The quantity; of signs also, below one, how near the next is."""
        g1, g2 = self.g[1][i] + V, self.g[2][i]
        h1 = np.maximum(g1, 0.0)
        pre, reach = h1 @ self.last.T, omega * np.linalg.norm(h1, axis=1)
        turned = (g1 >= 0) != (self.g[1][i] >= 0)
        over = -np.where(g2 >= 0, 1.0, -1.0) * pre  # how far each unit of the second layer is beyond 0
        if name == "signs":
            spent = np.cumsum(np.sort(np.minimum(over, 0.0) ** 2, axis=1), axis=1)
            count = (spent < reach[:, None] ** 2).sum(axis=1)
            following = spent[np.arange(len(V)), np.minimum(count, spent.shape[1] - 1)]
            short = following / np.maximum(reach**2, 1e-300)
            return np.maximum(count + 0.5 / (1 + short), turned.sum(axis=1))
        if name == "signal":
            length = np.linalg.norm(np.maximum(over, 0.0), axis=1)
            alone = np.maximum(reach + over.max(axis=1), 0.0)
            return np.maximum(np.where(length > 0, length + reach, alone), np.linalg.norm(g1 * turned, axis=1))
        if name == "back":
            return self._back(i, omega, g1, h1, reach, over)
        last = np.linalg.norm(pre - self.last @ self.h[1][i], axis=1) + reach
        return last if name == "last" else np.maximum(last, np.linalg.norm(V, axis=1))

    def _back(self, i, omega, g1, h1, reach, over):
        """‖b∘D_2 − the same at the start‖ and ‖(b∘D_2)(W_2 + W′)D_1 − the same at the start‖, over all sets that turn here."""
        on, sets = self.g[2][i] >= 0, all_sets(len(self.b))
        away = self.b * on @ self.last * (self.g[1][i] >= 0)
        most = np.zeros(len(g1))
        # Units that are over 0 by themselves go back for as much; w is the shortest that leaves exactly the set turned.
        for turned in sets:
            w = np.where(turned, np.maximum(-over, 0.0), -np.maximum(over, 0.0))
            may = np.linalg.norm(w, axis=1) <= reach * (1 - 1e-9)
            if not may.any():
                continue
            kept = self.b * (turned ^ on)
            w, gates, h = w[may] * -np.where(on, 1.0, -1.0), g1[may] >= 0, h1[may]
            size = np.maximum(np.linalg.norm(h, axis=1), 1e-300)
            along = w @ kept / size  # ⟨p, h⟩/‖h‖
            z = kept @ self.last * gates - away
            unit = h / size[:, None]
            free = z * gates - (z * unit).sum(axis=1)[:, None] * unit
            across = np.linalg.norm(free, axis=1)
            room = np.sqrt(np.maximum((omega * np.linalg.norm(kept)) ** 2 - along**2, 0.0))
            room[gates.sum(axis=1) < 2] = 0.0  # there is no way across h
            own = (np.linalg.norm(z + along[:, None] * unit, axis=1)) ** 2 - across**2 + (across + room) ** 2
            most[may] = np.maximum(most[may], np.maximum(np.sqrt(own), np.linalg.norm(self.b[turned])))
        return most
