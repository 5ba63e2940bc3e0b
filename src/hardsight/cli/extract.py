"""`hardsight extract`: images and a model in, a snapshot out."""

from __future__ import annotations

from pathlib import Path

import typer

from hardsight.cli import app


@app.command()
def extract(
    model: str = typer.Argument(
        ...,
        metavar="MODEL",
        help="timm:NAME, torchvision:NAME, hf:DIR_OR_NAME, package.module:factory, a trained run, model.onnx or model.skops.",
    ),
    data: str = typer.Argument(..., metavar="DATA", help="A folder, .tar, list, CSV, Parquet or .npz of images, or digits."),
    output: str = typer.Option(..., "-o", "--output", help="Run directory to write; one that was interrupted goes on."),
    weights: Path = typer.Option(None, help="Weights for the model: .safetensors, or .pt without code in it."),
    num_classes: int = typer.Option(None, min=1, help="Classes the weights were trained on, if not the architecture's own."),
    head: str = typer.Option(None, help="The last linear layer by name, where several are possible."),
    device: str = typer.Option("auto", help="auto, cpu, cuda, cuda:1, mps."),
    precision: str = typer.Option("float32", help="float32, bfloat16 or float16."),
    batch_size: str = typer.Option("auto", help="Images per forward pass, or auto."),
    workers: int = typer.Option(None, min=1, help="Decoding threads. Default: one per core."),
    limit: int = typer.Option(None, min=1, help="Only N images, spread over the data."),
    split: str = typer.Option(None, help="train, val or test: which split to take, or which one this is; or a column."),
    labels_from: str = typer.Option(None, help="folder:N, a column, or a file with labels."),
    degrade: list[str] = typer.Option([], help="Such as contrast=0.1,0.3,1.0 or noise=0.0,0.2; may be repeated."),
    size: int = typer.Option(None, min=1, help="Input size in pixels, if not the model's own."),
    mean: str = typer.Option(None, help="Channel means with commas, pixels in 0..1."),
    std: str = typer.Option(None, help="Channel deviations with commas."),
    resize: str = typer.Option(None, help="shortest (and cut the centre), squash, or longest (and fill)."),
    crop_pct: float = typer.Option(None, help="The centre crop as a part of the resized side, such as 0.875."),
    interpolation: str = typer.Option(None, help="bilinear, bicubic, lanczos, nearest, box or hamming."),
    channels: str = typer.Option(None, help="RGB, BGR or L (grey)."),
    keep_head: bool = typer.Option(False, "--keep-head", help="Keep the model's head although its classes are not the data's."),
    strict: bool = typer.Option(False, "--strict", help="Stop at an image that cannot be read instead of listing it."),
) -> None:
    """Run MODEL over the images of DATA and keep the features, the head and the labels.

    \b
    Example:
        hardsight extract timm:resnet18 photos/ --weights resnet18.safetensors -o run
        hardsight score run
    """
    from hardsight.errors import InputError
    from hardsight.extraction.extracting import extract as run
    from hardsight.screen import printable, progress_bar

    fields = {"resize": resize, "crop_pct": crop_pct, "interpolation": interpolation, "channels": channels}
    changes: dict[str, object] = {name: value for name, value in fields.items() if value is not None}
    if size is not None:
        changes["size"] = (size, size)
    for name, text in (("mean", mean), ("std", std)):
        if text is not None:
            try:
                changes[name] = tuple(float(part) for part in text.split(","))
            except ValueError as error:
                raise InputError(f"--{name} must be numbers with commas, got {text!r}.") from error
    if batch_size != "auto" and not (batch_size.isascii() and batch_size.isdigit() and int(batch_size) > 0):
        raise InputError(f"--batch-size must be a positive number or auto, got {batch_size!r}.")
    with progress_bar("extracting") as progress:
        snapshot = run(
            model,
            data,
            output,
            weights=weights,
            num_classes=num_classes,
            head=head,
            device=device,
            precision=precision,
            batch_size=batch_size if batch_size == "auto" else int(batch_size),
            workers=workers,
            limit=limit,
            split=split,
            labels_from=labels_from,
            degradations=degrade,
            preprocessing=changes,
            keep_head=keep_head,
            strict=strict,
            progress=progress,
            say=lambda sentence: print(printable(sentence)),
        )
    print(f"{len(snapshot)} rows of {snapshot.source.width} features in {output}")
    print(f"next: hardsight score {output}")
