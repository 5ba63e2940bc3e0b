"""`hardsight extract`: images and a model in, a snapshot out."""

from __future__ import annotations

import typer

from hardsight.cli import app
from hardsight.cli.options import options_of
from hardsight.extraction.settings import ExtractSettings


@app.command()
@options_of(ExtractSettings)
def extract(
    settings: ExtractSettings,
    model: str = typer.Argument(
        ...,
        metavar="MODEL",
        help="timm:NAME, torchvision:NAME, hf:DIR_OR_NAME, module:factory, mynet.py:Net, a run, model.onnx or model.skops.",
    ),
    data: str = typer.Argument(
        ..., metavar="DATA", help="A folder, .tar, list, CSV, Parquet or .npz of images, or digits; also s3://."
    ),
    output: str = typer.Option(..., "-o", "--output", help="Run directory to write; an interrupted run is resumed."),
) -> None:
    """Run MODEL over the images of DATA and keep the features, the head and the labels.

    \b
    Example:
        hardsight extract timm:resnet18 photos/ --weights resnet18.safetensors -o run
        hardsight score run
    """
    from hardsight.extraction.extracting import extract as run
    from hardsight.screen import printable, progress_bar

    with progress_bar("extracting") as progress:
        say = lambda sentence: print(printable(sentence))  # noqa: E731
        snapshot = run(model, data, output, settings=settings, progress=progress, say=say)
    print(f"{len(snapshot)} rows of {snapshot.source.width} features in {output}")
    print(f"next: hardsight score {output}")
