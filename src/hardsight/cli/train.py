"""`hardsight train`: images and a network in, a trained network and every sample's story out."""

from __future__ import annotations

from pathlib import Path

import typer

from hardsight.cli import app


@app.command()
def train(
    data: str = typer.Argument(..., metavar="DATA", help="Images as for extract, digits, or an .npz of features and labels."),
    model: str = typer.Option(
        ...,
        metavar="MODEL",
        help="mnist_cnn, cifar_resnet20, ..., timm:NAME, torchvision:NAME, package.module:factory, or a run.",
    ),
    output: Path = typer.Option(..., "-o", "--output", help="Run directory to write; one that was interrupted goes on."),
    loss: str = typer.Option("softmax", help="softmax, avh, lgm, gm, center, l_softmax, arcface, ...: see docs/training.md."),
    loss_options: list[str] = typer.Option([], metavar="KEY=VALUE", help="Options of the loss, such as scale=20; repeatable."),
    model_options: list[str] = typer.Option([], metavar="KEY=VALUE", help="Of the network, such as num_features=2; repeatable."),
    weights: Path = typer.Option(None, help="Weights to start from: .safetensors, or .pt without code in it."),
    pretrained: bool = typer.Option(False, "--pretrained", help="Start from the weights that timm or torchvision releases."),
    size: int = typer.Option(None, min=1, help="Input size in pixels, if not the network's own."),
    watch: list[str] = typer.Option(
        [], metavar="NAME=DATA", help="Held-out set to evaluate; repeatable. Default: the data's other splits. none for none."
    ),
    degrade: list[str] = typer.Option([], help="Watched images also at contrast=0.1,0.3 or noise=0.2; repeatable."),
    every: int = typer.Option(None, min=1, help="Evaluate the watched sets also every K training steps."),
    at_start: bool = typer.Option(False, "--at-start", help="Evaluate the watched sets also before training, as epoch 0."),
    epochs: int = typer.Option(10, min=1, help="Passes over the training data."),
    batch_size: int = typer.Option(128, min=1, help="Samples per step, over all processes."),
    optimizer: str = typer.Option("sgd", help="sgd or adamw."),
    lr: float = typer.Option(None, help="Learning rate. Default: 0.01 for sgd, 0.001 for adamw."),
    head_rate: float = typer.Option(1.0, help="The class vectors learn at so many times the rate."),
    momentum: float = typer.Option(0.9, help="Of sgd."),
    nesterov: bool = typer.Option(False, "--nesterov", help="Nesterov's momentum."),
    weight_decay: float = typer.Option(5e-4, help="On matrices and filters."),
    schedule: str = typer.Option("constant", help="constant, step or cosine."),
    milestones: str = typer.Option(None, help="Epochs at which step multiplies the rate, with commas. Default: 1/2 and 3/4."),
    gamma: float = typer.Option(0.1, help="What step multiplies by."),
    warmup: float = typer.Option(0.0, min=0, help="Epochs over which the rate first rises."),
    clip: float = typer.Option(None, help="Longest gradient."),
    augment: str = typer.Option("none", help="flip, crop, crop=PIXELS, with commas; or none."),
    seed: int = typer.Option(0, help="Of all that is random."),
    precision: str = typer.Option("float32", help="float32, bfloat16, or float16 on a GPU."),
    device: str = typer.Option("auto", help="auto, cpu, cuda, mps."),
    workers: int = typer.Option(None, min=1, help="Decoding threads. Default: one per core."),
    limit: int = typer.Option(None, min=1, help="Only N images of each set, spread over the data."),
    split: str = typer.Option(None, help="Which split of DATA to train on. Default: train, where it has splits."),
    labels_from: str = typer.Option(None, help="folder:N, a column, or a file with labels."),
    no_snapshot: bool = typer.Option(False, "--no-snapshot", help="Leave out the features of every sample at the end."),
    strict: bool = typer.Option(False, "--strict", help="Stop at an image that cannot be read instead of listing it."),
    tracker: str = typer.Option(None, help="tensorboard, wandb or mlflow."),
    teacher: str = typer.Option(None, metavar="MODEL", help="For --loss dual_head: a run, or a model as for extract."),
) -> None:
    """Train MODEL on DATA with any loss, and keep the angles, norm and confidence of every sample in every epoch.

    Several processes share the work under torchrun or accelerate launch.

    \b
    Example:
        hardsight train mnist.npz --model mnist_cnn --loss lgm --epochs 5 -o run
        torchrun --standalone --nproc-per-node 2 -m hardsight train mnist.npz --model mnist_cnn -o run
    """
    from hardsight.errors import InputError, require
    from hardsight.screen import printable, progress_bar

    require("torch", extra="torch", purpose="hardsight train")
    from hardsight.dynamics.describing import describe_dynamics
    from hardsight.training import processes
    from hardsight.training.running import run
    from hardsight.training.settings import read_options

    try:
        at = [float(part) for part in milestones.split(",")] if milestones else []
    except ValueError as error:
        raise InputError(f"--milestones must be epochs with commas, got {milestones!r}.") from error
    with progress_bar("reading") as progress:
        done = run(
            data,
            model,
            output,
            loss=loss,
            loss_options=read_options(loss_options),
            model_options=read_options(model_options),
            weights=weights,
            pretrained=pretrained,
            size=size,
            watch=_watched(watch),
            degradations=degrade,
            every=every,
            at_start=at_start,
            epochs=epochs,
            batch_size=batch_size,
            optimizer=optimizer,
            lr=lr,
            head_rate=head_rate,
            momentum=momentum,
            nesterov=nesterov,
            weight_decay=weight_decay,
            schedule=schedule,  # type: ignore[arg-type]  # checked by Settings
            milestones=at,
            gamma=gamma,
            warmup=warmup,
            clip=clip,
            augment=augment,
            seed=seed,
            precision=precision,
            device=device,
            workers=workers,
            limit=limit,
            split=split,
            labels_from=labels_from,
            snapshot=not no_snapshot,
            strict=strict,
            tracker=tracker,
            teacher=teacher,
            progress=progress,
            say=lambda sentence: print(printable(sentence), flush=True),
        )
    processes.part()
    if done.is_main_process:
        print(printable(str(describe_dynamics(output))))
        print(f"{len(done.history)} epochs in {output}, curves in {output / 'figures'}")
        print(f"next: hardsight score {output}" if not no_snapshot else f"next: hardsight extract {output} DATA -o features")


def _watched(texts: list[str]) -> dict[str, str] | None:
    """{name: data} from name=data; None where nothing is said, nothing for `none`."""
    from hardsight.errors import InputError

    if texts == ["none"]:
        return {}
    found: dict[str, str] = {}
    for text in texts:
        name, equals, data = text.partition("=")
        if not equals or not name or not data:
            raise InputError(f"--watch is written name=DATA, as in test=photos/, or none; got {text!r}.")
        if name in found:
            raise InputError(f"--watch {name} is given twice.")
        found[name] = data
    return found or None
