"""Options of `hardsight export`, defined once."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from hardsight.options import HardnessView, option

TOOLS = ("cleanlab", "fiftyone", "huggingface", "coco", "labelstudio")


@dataclass(frozen=True)
class ExportSettings(HardnessView):
    """What to export of a run."""

    images: str | None = option(
        None, "Images, if the run does not record where they are: a folder, or any DATA that extract takes.", metavar="DATA"
    )
    class_names: Path | None = option(
        None, "Class names: a text file with one per line, or a JSON list.", metavar="FILE", read=Path
    )
    limit: int | None = option(None, "Export only the first N samples.", least=1)
    image_url: str | None = option(
        None,
        "Address that images are served at, for labelstudio. Default: its own storage of local files.",
        metavar="PREFIX",
    )
