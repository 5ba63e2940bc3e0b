"""Options of `hardsight export`, defined once."""

from __future__ import annotations

from dataclasses import dataclass

from hardsight.options import HardnessView, OpeningOptions, SampleOptions, option

TOOLS = {  # tool -> what it needs of a run
    "cleanlab": ("probabilities", "labels"),
    "fiftyone": ("labels", "images"),
    "hub": ("images",),
    "coco": ("labels", "images"),
    "labelstudio": ("images",),
}


@dataclass(frozen=True)
class ExportSettings(OpeningOptions, SampleOptions, HardnessView):
    """What to export of samples."""

    images: str | None = option(
        None, "Images, if the run does not record where they are: a folder, or any DATA that extract takes.", metavar="DATA"
    )
    image_url: str | None = option(
        None,
        "URL prefix at which images are served, for labelstudio. Default: its storage of local files.",
        metavar="PREFIX",
    )
    push: str | None = option(
        None, "Dataset of the Hugging Face Hub to upload to, for hub. A new one is private.", metavar="ORG/NAME"
    )
