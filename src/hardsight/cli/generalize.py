"""`hardsight generalize`: several labeled domains in, accuracy on each one when it was never seen, out."""

from __future__ import annotations

from pathlib import Path

import typer

from hardsight.cli import app


@app.command()
def generalize(
    domains: str = typer.Argument(..., metavar="DOMAINS", help="domain/class folders, or features with a domain column."),
    output: Path = typer.Option(..., "-o", "--output", help="Run directory to write; one that was interrupted goes on."),
    loss: str = typer.Option("softmax", help="softmax, avh, cosface, lgm, ...; drm or drm+LOSS for one head per domain."),
    losses: str = typer.Option(None, help="Several to compare, with commas. Instead of --loss."),
    loss_options: list[str] = typer.Option([], metavar="LOSS:KEY=VALUE", help="Such as avh:scale=20; repeatable."),
    scales: str = typer.Option(None, help="Scales to choose from by cross-validation on the training domains, with commas."),
    seeds: int = typer.Option(1, min=1, help="How many seeds, from 0 on."),
    model: str = typer.Option(None, metavar="MODEL", help="For images: cnn10, timm:NAME, ..., or a trained run."),
    model_options: list[str] = typer.Option([], metavar="KEY=VALUE", help="Of the network; repeatable."),
    weights: Path = typer.Option(None, help="Weights of the model to start from."),
    pretrained: bool = typer.Option(False, "--pretrained", help="Start from the weights that timm or torchvision releases."),
    size: int = typer.Option(None, min=1, help="Input size in pixels, if not the network's own."),
    selection: str = typer.Option("validation", help="Which epoch counts: validation (on training domains), last, oracle."),
    held_out: float = typer.Option(0.2, help="Share of each training domain that is not trained on."),
    epochs: int = typer.Option(10, min=1, help="Passes over the training domains."),
    batch_size: int = typer.Option(128, min=2, help="Samples per step."),
    standardize: bool = typer.Option(True, help="Features by the mean and deviation of the training domains."),
    hidden: int = typer.Option(512, min=1, help="Units of the head on features."),
    lr: float = typer.Option(0.01, help="Learning rate of SGD."),
    momentum: float = typer.Option(0.9, help="Nesterov's."),
    weight_decay: float = typer.Option(5e-4, help="On matrices and filters."),
    augment: str = typer.Option("none", help="Of images: flip, crop, crop=PIXELS, with commas; or none."),
    device: str = typer.Option("auto", help="auto, cpu, cuda, mps."),
    workers: int = typer.Option(None, min=1, help="Decoding threads. Default: one per core."),
    limit: int = typer.Option(None, min=1, help="Only N samples of each domain, spread over it."),
) -> None:
    """Leave each domain out in turn, train on the others, and test on the one that was left out.

    \b
    Example:
        hardsight generalize pacs.npz --losses softmax,avh,cosface,lgm,drm --seeds 3 -o run
        hardsight generalize PACS/ --model cnn10 --loss avh --scales 5,10,20 -o run
    """
    from hardsight.errors import InputError, require
    from hardsight.screen import print_table, printable, progress_bar

    require("torch", extra="torch", purpose="hardsight generalize")
    from hardsight.generalize.running import run
    from hardsight.training.settings import read_options

    try:
        chosen = [float(part) for part in scales.split(",")] if scales else []
    except ValueError as error:
        raise InputError(f"--scales must be numbers with commas, got {scales!r}.") from error
    with progress_bar("reading") as progress:
        done = run(
            domains,
            output,
            losses=losses or loss,
            loss_options=_by_loss(loss_options),
            scales=chosen,
            seeds=seeds,
            model=model,
            model_options=read_options(model_options),
            weights=weights,
            pretrained=pretrained,
            size=size,
            selection=selection,  # type: ignore[arg-type]  # checked by Settings
            held_out=held_out,
            epochs=epochs,
            batch_size=batch_size,
            standardize=standardize,
            hidden=hidden,
            lr=lr,
            momentum=momentum,
            weight_decay=weight_decay,
            augment=augment,
            device=device,
            workers=workers,
            limit=limit,
            progress=progress,
            say=lambda sentence: print(printable(sentence), flush=True),
        )
    rows = done.accuracy.to_pylist()
    columns = [name for name in done.accuracy.column_names if f"{name} std" in done.accuracy.column_names]
    cells = [
        (row["loss"], *(_percent(row[name], row[f"{name} std"]) for name in columns), _percent(row["oracle average"], None))
        for row in rows
    ]
    title = f"accuracy on the unseen domain (%), epoch by {selection}"
    print_table(("loss", *columns, "average (oracle)"), cells, title=title)
    compared = [row for row in done.differences.to_pylist() if row["domain"] == "average"]
    if compared:
        lines = [
            (row["loss"], row["against"], f"{100 * row['difference']:+.2f}", _interval(row), row["verdict"]) for row in compared
        ]
        print_table(("loss", "against", "points", "95 %", ""), lines, title="differences of the average, seed by seed", words=2)
    print(f"report: {output / 'report.html'}")


def _by_loss(texts: list[str]) -> dict[str, dict[str, object]]:
    """{"avh": {"scale": 20}} from avh:scale=20."""
    from hardsight.errors import InputError
    from hardsight.training.settings import read_options

    found: dict[str, list[str]] = {}
    for text in texts:
        loss, colon, option = text.partition(":")
        if not colon:
            raise InputError(f"--loss-options is written loss:key=value, as in avh:scale=20, got {text!r}.")
        found.setdefault(loss, []).append(option)
    return {loss: read_options(options) for loss, options in found.items()}


def _percent(value: float, deviation: float | None) -> str:
    return f"{100 * value:.2f}" if deviation is None else f"{100 * value:.2f} ± {100 * deviation:.2f}"


def _interval(row: dict[str, float | None]) -> str:
    low, high = row["low"], row["high"]
    return "–" if low is None or high is None else f"{100 * low:+.2f} to {100 * high:+.2f}"
