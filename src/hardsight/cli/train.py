"""`hardsight train`: images and a network in, a trained network and every sample's dynamics out. Next: training/train.py."""

from __future__ import annotations

from pathlib import Path

import typer

from hardsight.cli import RUN_OUTPUT, argument, command
from hardsight.training.settings import TrainSettings


@command(TrainSettings, prints="lines", figures=True)
def train(
    settings: TrainSettings,
    data: str = argument("DATA", "Images as for extract, digits, or labeled features (.npz, .parquet, a run)."),
    model: str = typer.Option(
        ...,
        metavar="MODEL",
        help="Network: mnist_cnn, cifar_resnet20, ..., timm:NAME, torchvision:NAME, package.module:factory, or a run.",
    ),
    output: Path = RUN_OUTPUT,
) -> None:
    """Train a model, recording every sample in every epoch.

    Takes any loss. Angles, norm and confidence of each sample are kept as the run's dynamics. Several processes share the work
    under torchrun or accelerate launch.

    \b
    Example:
        hardsight train mnist.npz --model mnist_cnn --loss lgm --epochs 5 -o run
        torchrun --standalone --nproc-per-node 2 -m hardsight train mnist.npz --model mnist_cnn -o run
    """
    from hardsight.screen import keep_table, print_line, print_next, print_wrote, progress_bar
    from hardsight.training.train import train as run_train

    with progress_bar("reading") as progress:
        trained = run_train(data, output, model=model, settings=settings, progress=progress, say=print_line)
    from hardsight.dynamics.description import describe_and_draw
    from hardsight.render.showing import show_lines
    from hardsight.training import processes  # torch, which `run_train` loads when the input has been checked

    if processes.leave():
        described = describe_and_draw(output)  # writes the run's figures/dynamics-*.png too
        print_line(str(described))
        show_lines(trained.lines())
        keep_table("epochs", trained.table.to_pylist())
        print_wrote(output, ": model/, dynamics/, figures/")
        if settings.snapshot:
            print_next("hardsight", "score", output)
        else:
            print_next("hardsight", "extract", output, data, "-o", "features")
