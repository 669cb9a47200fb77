"""Fig. 2 (a) and (c): parities of parities, learnt by a three-layer ResNet, by plain networks and by kernels."""

from __future__ import annotations

from overparam.studies.beyond_kernels_fig2_kernels import coupling, kernel_errors
from overparam.studies.beyond_kernels_fig2_numbers import Runs
from overparam.studies.beyond_kernels_fig2_page import findings
from overparam.studies.beyond_kernels_fig2_settings import NETWORKS, Settings
from overparam.studies.beyond_kernels_fig2_training import best_settings, layer_wise, repeated, searched
from overparam.studies.study import Findings, Study, Workplace


def run(settings: Settings, workplace: Workplace) -> Findings:
    """The search, then seeds at the best settings, at every N and width; panel (c); layer by layer; then kernels."""
    runs = Runs()
    for name in NETWORKS:
        _curves(settings, workplace, runs, name)
    _panel_c(settings, workplace, runs)
    for N in settings.layer_wise_samples:
        first = best_settings(_search_for(settings, runs, "2layer", N), 1.0, 1)[0]
        runs.layer_wise[N] = layer_wise(settings, workplace, N, first, settings.grid("3resnet")[::2])
    for beta in settings.betas:
        runs.beta_kernels[beta] = kernel_errors(settings, workplace, settings.beta_samples, settings.widths[0], beta)
    runs.coupling = coupling(settings, workplace)
    for m, samples in zip((*settings.widths, None), (*settings.samples, settings.samples[0]), strict=True):
        for N in samples:
            runs.kernels[m, N] = kernel_errors(settings, workplace, N, m)
    return findings(settings, runs)


def _curves(settings: Settings, workplace: Workplace, runs: Runs, name: str) -> None:
    """One network: the search at the first width, and every N at every width."""
    most = max(settings.samples[0])
    for N in settings.searched:
        runs.search[name, N] = searched(settings, workplace, name, N, (1.0,), most)
    for m, samples in zip(settings.widths, settings.samples, strict=True):
        count = settings.best if m == settings.widths[0] else settings.best_when_wide[NETWORKS.index(name)]
        for N in samples:
            chosen = best_settings(_search_for(settings, runs, name, N), 1.0, count)
            runs.seeds[name, m, N] = repeated(settings, workplace, name, m, N, {1.0: chosen}, max(samples))


def _search_for(settings: Settings, runs: Runs, name: str, N: int) -> dict:
    """The search at N, or at the nearest N below (above, where there is none below)."""
    below = [own for own in settings.searched if own <= N]
    return runs.search[name, max(below) if below else min(settings.searched)]


def _panel_c(settings: Settings, workplace: Workplace, runs: Runs) -> None:
    """Every β searched for itself, then seeds."""
    N, m = settings.beta_samples, settings.widths[0]
    for name in NETWORKS:
        found = searched(settings, workplace, name, N, settings.betas, N)
        chosen = {beta: best_settings(found, beta, settings.best) for beta in settings.betas}
        runs.beta[name] = repeated(settings, workplace, name, m, N, chosen, N)


def plan(settings: Settings) -> str:
    """The runs and their steps, in words."""
    searched_runs = sum(len(settings.grid(name)) for name in NETWORKS) * len(settings.searched)
    most = max(N for own in settings.samples for N in own)
    return (
        f"{searched_runs} runs of the search, then {settings.seeds} seeds at the best {settings.best}, N up to {most} "
        f"({settings.steps(most)} steps), widths {', '.join(map(str, settings.widths))}, {len(settings.betas)} β, kernels"
    )


STUDY = Study(
    name="beyond-kernels-fig2",
    title="Parities of parities: a three-layer ResNet, plain networks and kernels",
    reference="beyond_kernels, Fig. 2, App. A",
    settings={
        "smoke": Settings(  # every part has two runs on 100 rows: one program a network
            widths=(20,), samples=((100,),), searched=(100,), rates=((0.1, 0.5), (0.02, 0.05), (0.1, 0.5)),
            decays=((1e-3,), (1e-3,), (1e-3,)), epochs=10, seeds=2, best=1, best_when_wide=(1, 1, 1),
            betas=(0.5,), beta_samples=100, layer_wise_samples=(100,), kernel_seeds=(2, 1), coupled_samples=50, coupled=("2layer",),
            validation=100, test=200,
        ),
        "small": Settings(
            widths=(200,), samples=((250, 500, 1_000),), searched=(500, 1_000),
            rates=((0.5, 1.0), (0.1, 0.2), (0.5, 1.0)), decays=((2e-4, 5e-4, 1e-3), (0.01, 0.02), (1e-3, 2e-3)),
            epochs=150, seeds=3, best=2, best_when_wide=(1, 1, 1), betas=(0.5, 1.0, 2.0), beta_samples=500,
            layer_wise_samples=(1_000,), kernel_seeds=(2, 1), coupled_samples=150, coupled=NETWORKS, validation=1_000, test=2_000,
        ),
        "full": Settings(
            widths=(500, 2_000), samples=((250, 500, 1_000, 2_000, 5_000, 10_000), (250, 500, 1_000, 2_500, 5_000)),
            searched=(250, 500, 1_000, 2_000, 5_000),
            rates=((0.1, 0.2, 0.5, 1.0), (0.02, 0.05, 0.1, 0.2, 0.5), (0.1, 0.2, 0.5, 1.0, 2.0)),
            decays=(
                (2e-5, 1e-4, 2e-4, 5e-4, 1e-3, 2e-3, 5e-3),
                (1e-3, 5e-3, 0.01, 0.02, 0.05, 0.1),
                (1e-4, 5e-4, 1e-3, 2e-3, 5e-3, 0.01),
            ),
            epochs=400, seeds=5, best=3, best_when_wide=(3, 1, 3), betas=(0.1, 0.2, 0.5, 1.0, 2.0),
            beta_samples=1_000, layer_wise_samples=(1_000, 5_000), kernel_seeds=(3, 1), coupled_samples=400, coupled=NETWORKS,
            validation=2_000, test=4_000, three_layer_dtype="tf32",
        ),
    },
    plan=plan,
    run=run,
)  # fmt: skip
