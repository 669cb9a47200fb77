"""The networks that can be named on the command line, and runs of `overparam train` that another command takes up."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, final

import typer

from overparam.cli.driver import Given
from overparam.core.checks import one_of
from overparam.core.words import count_of

if TYPE_CHECKING:
    from overparam.data import Dataset
    from overparam.training import Trajectory

SIZES = {
    "two-layer": (4_000, None),
    "fully-connected": (500, 2),
    "residual": (500, 3),
    "convolutional": (8, 2),
    "biased-two-layer": (500, None),
    "three-layer": (500, None),
    "three-layer-resnet": (500, None),
}
"""Width and depth where none is given, sizes that train in seconds on small data; a depth of None: the architecture has one."""
HELD_OUT, FEW = 0.2, 20
"""The share of rows held out where the data has no test rows, and how few rows are left whole."""

Network = Annotated[str, typer.Argument(help=f"{', '.join(SIZES)}.")]
Width = Annotated[int | None, typer.Option("--width", help="Neurons of a layer.")]
Depth = Annotated[int | None, typer.Option("--depth", help="ReLU layers of a deep network.")]
Run = Annotated[
    Path | None,
    typer.Option(
        "--run",
        help="Folder of `overparam train` on the same data: its weights, its network and its scaling of rows are taken. "
        "Fresh weights if not given.",
    ),
]


def make_network(
    name: str,
    data: Dataset,
    width: int | None,
    depth: int | None,
    kappa: float | None = None,
    paired: bool | None = None,
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


def as_trained(data: Dataset, how: str) -> Dataset:
    """The rows as `overparam train` trains on them: features scaled, regression targets of variance 1."""
    from overparam.data import preprocess
    from overparam.data.scaling import standardise_targets

    return standardise_targets(preprocess(data, how))


def with_test_rows(data: Dataset, asked: str | None, key: int) -> Dataset:
    """A fifth held out where the data has no test rows and none were asked for."""
    if asked is not None or data.test is not None or data.n < FEW:
        return data
    from overparam.data import split

    return split(data, HELD_OUT, key=key)


@final
@dataclass(frozen=True, eq=False)
class Resumed:
    """A run in a folder: the trajectory, how its rows were scaled, and the seed its rows were read with."""

    run: Trajectory
    preprocess: str
    seed: int

    def read(self, given: Given) -> Dataset:
        """The rows the run was trained on, test rows left out as `overparam train` leaves them out."""
        return with_test_rows(given.read(self.seed), given.reading["test"], self.seed)

    def network(self, name: str, data: Dataset, width: int | None, depth: int | None) -> Any:
        """The network of the run, with what is asked to be other."""
        from overparam.training.trajectory import require_network_of

        require_network_of(self.run, make_network(name, data, width, depth))
        asked = {key: value for key, value in (("width", width), ("depth", depth)) if value is not None}
        return replace(self.run.network.make(), **asked)

    def rows(self, data: Dataset, preprocess: str | None = None) -> Dataset:
        """The rows as the network saw them."""
        ready = as_trained(data, preprocess or self.preprocess)
        if self.run.n != ready.n:
            raise ValueError(
                f"--run was trained on {count_of(self.run.n, 'row')} and {data.name} gives {ready.n:,}; pass the --train, --test and "
                "--classes it had"
            )
        return ready


def resumed(folder: Path | None) -> Resumed | None:
    """The run in a folder; None where none is named."""
    if folder is None:
        return None
    from overparam.frame import read
    from overparam.training import Trajectory

    found = read(folder)
    run = found if isinstance(found, Trajectory) else getattr(found, "run", None)
    if not isinstance(run, Trajectory):
        raise ValueError(
            f"{folder} holds a result of another kind ({found.kind}); --run takes what `overparam train` wrote"
        )
    if not run.params.trained:
        raise ValueError(f"{folder} was written without its weights; train again without --no-weights")
    about = found.provenance
    return Resumed(run, about.configuration.get("preprocess") or "auto", about.seed or 0)


def known(name: str) -> str:
    """A network that can be named, before anything is read."""
    return one_of(name, "network", tuple(SIZES))
