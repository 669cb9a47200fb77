"""A folder that `overparam train` wrote, taken up by another command: its weights, its rows, its network."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, final

from overparam.cli import options as shared
from overparam.cli.architectures import make_network
from overparam.cli.train import with_test_rows

if TYPE_CHECKING:
    from overparam.data import Dataset
    from overparam.training import Trajectory


@final
@dataclass(frozen=True, eq=False)
class KeptRun:
    """What a folder says of a run, nothing where there is no folder. preprocess: how its rows were scaled."""

    run: Trajectory | None = None
    preprocess: str | None = None
    seed: int | None = None

    def read_data(self, source: str, *, test: str | None, seed: int, **options: Any) -> Dataset:
        """The rows the run was trained on, test rows left out as `overparam train` leaves them out."""
        own = seed if self.seed is None else self.seed
        loaded = shared.read_data(source, test=None if test == "0" else test, seed=own, **options)
        return with_test_rows(loaded, test, own)

    def network_and_rows(
        self, network: str, data: Dataset, width: int | None, depth: int | None, preprocess: str | None = None
    ) -> tuple[Any, Dataset]:
        """The network of the run with what is asked to be other, or of these sizes, and the rows as it sees them."""
        from overparam.analysis.run_choices import prepare_run
        from overparam.training.trajectory import require_network_of

        net = make_network(network, data, width, depth, None, None)
        if self.run is not None:
            require_network_of(self.run, net)
            asked = {name: value for name, value in (("width", width), ("depth", depth)) if value is not None}
            net = replace(self.run.network.make(), **asked)
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
    about = found.provenance
    return KeptRun(run, about.configuration.get("preprocess"), about.seed)
