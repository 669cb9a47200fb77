"""What is written down of a forward pass, and where a forward pass can be changed from outside."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, final

from overparam.core.network import Trace


@final
class Seen:
    """Collects what goes into and comes out of every ReLU, in the order of the forward pass.

    Args:
        shifts: added to the activations, ReLU by ReLU; None adds nothing, to one of them or to all. A shift has the
            shape of the activation, or (n, units).
        gates: factors h/g of the units in place of their own, which are 1 above 0 and the slope below: the network
            with its signs held.

    >>> import numpy as np
    >>> seen = Seen(shifts=[np.array([[0.5, 0.5]])])
    >>> g = np.array([[-2.0, 3.0]])
    >>> seen.tap(g, np.maximum(g, 0), 0.0)
    array([[0.5, 3.5]])
    """

    def __init__(self, shifts: Sequence[Any] | None = None, gates: Sequence[Any] | None = None) -> None:
        self._shifts, self._gates = shifts, gates
        self._before: list[Any] = []
        self._after: list[Any] = []
        self._slopes: list[float] = []
        self._unseen: list[str] = []

    def tap(self, g: Any, h: Any, slope: float | None, name: str = "activation") -> Any:
        """What goes on: h of g, changed where that was asked for.

        Args:
            g: what goes in.
            h: what comes out.
            slope: of the function below 0, its slope above 0 being 1; None for functions that are not of this kind,
                which are left alone and named in `unseen`. A slope of 1 bends nothing and is passed over.
            name: of the function.
        """
        if slope is None:
            self.say(f"not of the ReLU kind and not seen: {name}")
        if slope is None or slope == 1.0:
            return h
        place = len(self._before)
        if self._gates is not None and self._gates[place] is not None:
            h = g * self._gates[place].reshape(g.shape)
        if self._shifts is not None and self._shifts[place] is not None:
            h = h + self._shifts[place].reshape(h.shape)
        self._before.append(g)
        self._after.append(h)
        self._slopes.append(float(slope))
        return h

    def say(self, words: str) -> None:
        """Note once what bends the network and is not a ReLU."""
        if words not in self._unseen:
            self._unseen.append(words)

    def trace(self, output: Any) -> Trace:
        """All of it, with the output."""
        return Trace(output, tuple(self._before), tuple(self._after), tuple(self._slopes), tuple(self._unseen))
