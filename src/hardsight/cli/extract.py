"""`hardsight extract`: images and a model in, a snapshot out. Next: extraction/extract.py."""

from __future__ import annotations

from hardsight.cli import RUN_OUTPUT, argument, command
from hardsight.extraction.settings import ExtractSettings


@command(ExtractSettings, prints="lines")
def extract(
    settings: ExtractSettings,
    model: str = argument(
        "MODEL", "timm:NAME, torchvision:NAME, hf:DIR_OR_NAME, module:factory, mynet.py:Net, a run, model.onnx or model.skops."
    ),
    data: str = argument(
        "DATA",
        "A folder, .tar, list, CSV, Parquet or .npz of images, or digits; also s3://. For a model trained on features: "
        "features (.npz, .parquet, a run); FILE:DOMAIN selects one domain.",
    ),
    output: str = RUN_OUTPUT,
) -> None:
    """Run a model on images and store features, head and labels.

    \b
    Example:
        hardsight extract timm:resnet18 photos/ --weights resnet18.safetensors -o run
        hardsight clean run
    """
    from hardsight.extraction.extract import extract as run
    from hardsight.screen import print_line, print_next, print_wrote, progress_bar

    with progress_bar("extracting") as progress:
        snapshot = run(model, data, output, settings=settings, progress=progress, say=print_line)
    labels = snapshot.columns(["label"]).column("label").unique().drop_null()
    facts = {
        "samples": len(snapshot),
        "features": snapshot.source.width,
        "labels": len(labels),
        "head": snapshot.head is not None,
    }
    print_line(f"{len(snapshot)} rows of {snapshot.source.width} features", **facts)
    print_wrote(output)
    print_next("hardsight", "clean" if len(labels) > 1 else "score", output)
