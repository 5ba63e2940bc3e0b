"""`hardsight adapt`: a labeled domain and an unlabeled one in, classifiers that taught themselves out."""

from __future__ import annotations

from pathlib import Path

import typer

from hardsight.cli import app


@app.command()
def adapt(
    source: str = typer.Argument(
        ..., metavar="SOURCE", help="Labeled features (.npz, .parquet, a run) or images; FILE:DOMAIN is one domain of it."
    ),
    target: str = typer.Argument(
        None, metavar="[TARGET]", help="The domain to adapt to. Default: every pair of SOURCE's domains."
    ),
    output: Path = typer.Option(..., "-o", "--output", help="Run directory to write; one that was interrupted goes on."),
    method: str = typer.Option("cbst+avh", help="cbst, crst, crst-mrkld, crst-lrent, cbst+avh, cbst+SCORE, avc, threshold."),
    methods: str = typer.Option(None, help="Several to compare, with commas; source is no adaptation. Instead of --method."),
    seeds: int = typer.Option(1, min=1, help="How many seeds, from 0 on."),
    model: str = typer.Option(None, metavar="MODEL", help="For images: lenet, mnist_cnn, timm:NAME, ..., or a trained run."),
    model_options: list[str] = typer.Option([], metavar="KEY=VALUE", help="Of the network, such as num_features=64; repeatable."),
    weights: Path = typer.Option(None, help="Weights of the model to start from."),
    pretrained: bool = typer.Option(False, "--pretrained", help="Start from the weights that timm or torchvision releases."),
    size: int = typer.Option(None, min=1, help="Input size in pixels, if not the network's own."),
    images: str = typer.Option(None, help="Pictures of a target of features, with the same ids, for the figures."),
    rounds: int = typer.Option(10, min=1, help="How often pseudo-labels are selected."),
    epochs: int = typer.Option(2, min=1, help="Passes over source and selected samples in each round."),
    source_epochs: int = typer.Option(
        None, min=0, help="Passes over the source alone, first. Default: 8, or 0 for a trained run."
    ),
    portion: str = typer.Option("0.2:0.05:0.5", help="Of each class that is selected, start:step:stop over the rounds."),
    source_portion: str = typer.Option("1", help="Of the source samples in each round, the same way."),
    standardize: str = typer.Option("domain", help="Features by their own domain, by the source, or none."),
    hidden: int = typer.Option(512, min=1, help="Units of the head on features."),
    balance: bool = typer.Option(True, help="As many source samples of each class."),
    relabel: bool = typer.Option(False, "--relabel", help="Select before each epoch, not only before each round."),
    ema: float = typer.Option(0.0, help="Decay of a moving average of the model, which then selects and is measured."),
    rule: str = typer.Option("classification", help="How a class's threshold is ranked: classification or segmentation."),
    group_by: str = typer.Option(
        "predicted", help="Whom a score's threshold is ranked among: predicted, or label (as proposed)."
    ),
    lrent: float = typer.Option(0.25, help="Temperature of CRST's soft labels."),
    mrkld: float = typer.Option(0.01, help="True weight of CRST's regulariser."),
    optimizer: str = typer.Option(None, help="sgd or adamw. Default: sgd on features, adamw on images."),
    lr: float = typer.Option(None, help="Learning rate of the rounds. Default: 0.03 on features, 0.001 on images."),
    source_lr: float = typer.Option(None, help="Learning rate on the source. Default: that of the rounds."),
    weight_decay: float = typer.Option(None, help="On matrices and filters. Default: 0.05 on features, 0.0005 on images."),
    schedule: str = typer.Option("constant", help="constant or cosine."),
    batch_size: int = typer.Option(256, min=1, help="Samples per step."),
    augment: str = typer.Option("none", help="Of images: flip, crop, crop=PIXELS, with commas; or none."),
    device: str = typer.Option("auto", help="auto, cpu, cuda, mps."),
    workers: int = typer.Option(None, min=1, help="Decoding threads. Default: one per core."),
    limit: int = typer.Option(None, min=1, help="Only N samples of each domain, spread over it."),
) -> None:
    """Self-training: train on SOURCE, select target samples one is sure of, train on them too, and again.

    Labels of the target only report. Writes accuracy, differences, selection and rounds as Parquet, the pseudo-labels of
    every round, figures and report.html.

    \b
    Example:
        hardsight adapt pacs.npz:photo pacs.npz:sketch --methods source,cbst,crst,cbst+avh --seeds 5 -o run
        hardsight adapt mnist.npz usps.npz --model lenet --method cbst+avh -o run
    """
    from hardsight.errors import require
    from hardsight.screen import printable, progress_bar

    require("torch", extra="torch", purpose="hardsight adapt")
    from hardsight.adapt.running import run
    from hardsight.training.settings import read_options

    with progress_bar("reading") as progress:
        done = run(
            source,
            target,
            output,
            methods=methods or method,
            seeds=seeds,
            model=model,
            model_options=read_options(model_options),
            weights=weights,
            pretrained=pretrained,
            size=size,
            images=images,
            rounds=rounds,
            epochs=epochs,
            source_epochs=source_epochs,
            portion=portion,
            source_portion=source_portion,
            standardize=standardize,
            hidden=hidden,
            balance=balance,
            relabel=relabel,
            ema=ema,
            rule=rule,
            group_by=group_by,
            lrent=lrent,
            mrkld=mrkld,
            optimizer=optimizer,
            lr=lr,
            source_lr=source_lr,
            weight_decay=weight_decay,
            schedule=schedule,
            batch_size=batch_size,
            augment=augment,
            device=device,
            workers=workers,
            limit=limit,
            progress=progress,
            say=lambda sentence: print(printable(sentence), flush=True),
        )
    _show(done.accuracy, done.differences, done.selection)
    print(f"report: {output / 'report.html'}")


def _show(accuracy: object, differences: object, selection: object) -> None:
    from typing import Any

    from hardsight.screen import number, print_table

    tables: Any = (accuracy, differences, selection)
    rows, compared, selected = (table.to_pylist() for table in tables)
    if rows:
        cells = [
            (row["pair"], row["method"], _percent(row["accuracy"], row["accuracy std"]), _percent(row["oracle_accuracy"], None))
            for row in rows
        ]
        print_table(("domains", "method", "last round", "best (oracle)"), cells, title="mean class accuracy (%)", words=2)
    if compared:
        compared_cells = [
            (row["pair"], row["method"], row["against"], f"{100 * row['difference']:+.2f}", _interval(row), row["verdict"])
            for row in compared
        ]
        print_table(
            ("domains", "method", "against", "points", "95 %", ""), compared_cells, title="differences, run by run", words=3
        )
    if selected:
        names = ("selected", "true_positive_rate", "avh", "avc", "confidence", "norm")
        selected_cells = [(row["pair"], row["method"], *(number(row[name]) for name in names)) for row in selected]
        print_table(("domains", "method", *names), selected_cells, title="what the first round selected", words=2)


def _percent(value: float, deviation: float | None) -> str:
    return f"{100 * value:.2f}" if deviation is None else f"{100 * value:.2f} ± {100 * deviation:.2f}"


def _interval(row: dict[str, float | None]) -> str:
    low, high = row["low"], row["high"]
    return "–" if low is None or high is None else f"{100 * low:+.2f} to {100 * high:+.2f}"
