"""Options of `hardsight export`, defined once."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from hardsight.options import HardnessView, SampleOptions, common, option

TOOLS = {  # tool -> what it needs of a run
    "cleanlab": ("probabilities", "labels"),
    "fiftyone": ("labels", "images"),
    "huggingface": ("images",),
    "coco": ("labels", "images"),
    "labelstudio": ("images",),
}


@dataclass(frozen=True)
class ExportSettings(SampleOptions, HardnessView):
    """What to export of a run."""

    images: str | None = option(
        None, "Images, if the run does not record where they are: a folder, or any DATA that extract takes.", metavar="DATA"
    )
    class_names: Path | None = common("class_names", read=Path)
    image_url: str | None = option(
        None,
        "URL prefix at which images are served, for labelstudio. Default: its storage of local files.",
        metavar="PREFIX",
    )
