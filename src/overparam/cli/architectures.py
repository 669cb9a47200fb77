"""The networks that can be named on the command line, with sizes that train in seconds on small data."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from overparam.data import Dataset

SIZES = {
    "two-layer": (4_000, None),
    "fully-connected": (500, 2),
    "residual": (500, 3),
    "convolutional": (8, 2),
    "biased-two-layer": (500, None),
    "three-layer": (500, None),
    "three-layer-resnet": (500, None),
}
"""Width and depth where none is given; a depth of None: the architecture has one."""


def make_network(
    name: str,
    data: Dataset,
    width: int | None,
    depth: int | None,
    kappa: float | None,
    paired: bool | None,
    asked: str = "NETWORK",
) -> Any:
    """The network for this data, or one line that says which option does not fit; `asked` is where the command takes it."""
    from overparam import networks

    if name not in SIZES:
        raise ValueError(f"{asked} is {name!r}; expected one of {', '.join(SIZES)}")
    m, levels = SIZES[name]
    m, levels = m if width is None else width, levels if depth is None else depth
    if name == "two-layer":
        if depth is not None:
            raise ValueError("--depth is given, and a two-layer network has one ReLU layer; leave it out")
        if data.k > 1:
            raise ValueError(
                f"{data.name} has {data.k} {'classes' if data.classes else 'targets'} and a two-layer network one output; "
                f"{'keep two with --classes, or ' if data.classes else ''}as {asked} take fully-connected or biased-two-layer"
            )
        return networks.TwoLayer(m, 1.0 if kappa is None else kappa, True if paired is None else paired)
    if kappa is not None or paired is not None:
        raise ValueError(f"--kappa and --paired are of the two-layer network; {name} has its paper's initialisation")
    fixed = {
        "biased-two-layer": (networks.BiasedTwoLayer, "a two-layer network has one ReLU layer"),
        "three-layer": (networks.ThreeLayer, "a three-layer network has two ReLU layers"),
        "three-layer-resnet": (networks.ThreeLayerResNet, "a three-layer network has two ReLU layers"),
    }
    if name in fixed:
        make, why = fixed[name]
        if depth is not None:
            raise ValueError(f"--depth is given, and {why}; leave it out")
        return make(m, outputs=data.k)
    if name == "fully-connected":
        return networks.FullyConnected(m, levels, outputs=data.k)
    if name == "residual":
        return networks.Residual(m, levels, outputs=data.k)
    shape = data.image_shape
    if shape is None or len(shape) not in (2, 3):
        raise ValueError(f"{data.name} has no images of rows and columns; a convolutional network needs them")
    channels = shape[0] if len(shape) == 3 else 1
    return networks.Convolutional(m, levels, (shape[-2], shape[-1]), outputs=data.k, channels=channels)
