"""A folder that `overparam train` wrote, taken up by another command: its weights, its rows, its network."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, final

from overparam.cli import options as shared
from overparam.cli.architectures import SIZES, make_network
from overparam.cli.train import with_test_rows

if TYPE_CHECKING:
    from overparam.data import Dataset
    from overparam.training import Trajectory


@final
@dataclass(frozen=True, eq=False)
class KeptRun:
    """What a folder says of a run, nothing where there is no folder. preprocess: how its rows were scaled. sizes: of its
    network."""

    run: Trajectory | None = None
    preprocess: str | None = None
    seed: int | None = None
    sizes: dict[str, Any] = field(default_factory=dict)

    def read_data(self, source: str, *, test: str | None, seed: int, **options: Any) -> Dataset:
        """The rows the run was trained on, test rows left out as `overparam train` leaves them out."""
        own = seed if self.seed is None else self.seed
        loaded = shared.read_data(source, test=None if test == "0" else test, seed=own, **options)
        return with_test_rows(loaded, test, own)

    def network_and_rows(
        self, network: str, data: Dataset, width: int | None, depth: int | None, preprocess: str | None = None
    ) -> tuple[Any, Dataset]:
        """The network of the run, or of these sizes, and the rows as it sees them."""
        from overparam.analysis.run_choices import prepare_run
        from overparam.training.own_run import require_network_of

        sizes = self.sizes
        width = width if width is not None else sizes.get("width")
        depth = depth if depth is not None else sizes.get("depth")
        if self.run is not None and SIZES.get(network, (None, 0))[1] is None:  # the architecture has one depth
            depth = None
        kappa, paired = (sizes.get("kappa"), sizes.get("paired")) if network == "two-layer" else (None, None)
        net = make_network(network, data, width, depth, kappa, paired)
        if self.run is not None:
            require_network_of(self.run, net)
        ready = prepare_run(data, preprocess or self.preprocess or "auto", net)
        if self.run is not None and self.run.n != ready.n:
            raise ValueError(
                f"--run was trained on {self.run.n:,} rows and {data.name} gives {ready.n:,}; pass the --train, --test and "
                "--classes it had"
            )
        return net, ready


def kept_run(folder: Path | None) -> KeptRun:
    """The run in a folder."""
    if folder is None:
        return KeptRun()
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
    sizes: dict[str, Any] = {
        name: int(value) for name, value in re.findall(r"\b(width|depth)=(\d+)", run.network)
    }  # what `describe` says of a network of the house
    sizes |= {name: float(value) for name, value in re.findall(r"\b(kappa)=([\d.e+-]+)", run.network)}
    sizes |= {name: value == "True" for name, value in re.findall(r"\b(paired)=(True|False)", run.network)}
    if run.network.startswith("TwoLayer"):
        sizes = {"kappa": 1.0, "paired": False} | sizes
    about = found.provenance
    return KeptRun(run, about.configuration.get("preprocess"), about.seed, sizes)
