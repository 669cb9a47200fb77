"""Fig. 1, 2 and 4 to 7: the objective of VGG-19 and ResNet-32 along its gradient and its most negative curvature."""

from __future__ import annotations

from overparam.studies.convergence_fig1_page import findings
from overparam.studies.convergence_fig1_runs import shown_epochs
from overparam.studies.convergence_fig1_settings import PAPER_SHOWN, Settings
from overparam.studies.study import Findings, Study, Workplace


def run(settings: Settings, workplace: Workplace) -> Findings:
    """Every network on every task."""
    tasks = settings.tasks()
    found = {
        (name, task): shown_epochs(settings, workplace, name, task) for name in settings.networks for task in tasks
    }
    return findings(settings, found)


def plan(settings: Settings) -> str:
    """The runs and the landscapes, in words."""
    runs, steps = len(settings.networks) * len(settings.tasks()), settings.epochs * settings.batches
    return (
        f"{runs} runs of {settings.epochs} epochs ({steps:,} steps of {settings.batch} images), each with "
        f"{len(settings.shown)} landscapes: {settings.oja} steps of Oja's method, {settings.points} × {settings.points} "
        f"points on {settings.rows:,} images"
    )


STUDY = Study(
    name="convergence-fig1",
    title="Landscapes near the trajectory of SGD: the gradient and the most negative curvature",
    reference="convergence, Fig. 1",
    settings={
        "smoke": Settings(
            networks=("VGG-2",), source="digits", more=(), train=256, test=100, epochs=16, shown=(40, 160),
            vgg=((6, 1),), resnet=(8, (4, 8, 8)), rows=128, chunk=64, points=5, line=10, oja=20, oja_batch=128,
            batch=64,
        ),
        "small": Settings(
            networks=("VGG-19 (an eighth as wide)", "ResNet-14"), source="cifar10", more=(), train=1_024, test=500, epochs=32,
            shown=PAPER_SHOWN, vgg=((8, 2), (16, 2), (32, 4), (64, 4), (64, 4)), resnet=(14, (8, 16, 32)), rows=256,
            chunk=128, points=11, line=15, oja=40, oja_batch=128,
        ),
        "full": Settings(
            networks=("VGG-19", "ResNet-32"), source="cifar10", more=("cifar100",), train=10_000, test=2_000, epochs=160,
            shown=PAPER_SHOWN, vgg=((64, 2), (128, 2), (256, 4), (512, 4), (512, 4)), resnet=(32, (16, 32, 64)),
            rows=1_000, chunk=125, points=21, line=25, oja=150, oja_batch=250, dtype="tf32",
        ),
    },
    plan=plan,
    run=run,
)  # fmt: skip
