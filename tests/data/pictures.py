"""Small encoded pictures, alone and in tars."""

from __future__ import annotations

import io
import tarfile
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image


def encoded(picture: Any, format: str = "PNG", **options: Any) -> bytes:
    """A picture or an array of pixels as the content of a file."""
    out = io.BytesIO()
    picture = Image.fromarray(picture) if isinstance(picture, np.ndarray) else picture
    picture.save(out, format, **options)
    return out.getvalue()


def tar_of(path: Path, files: dict[str, bytes]) -> Path:
    with tarfile.open(path, "w") as archive:
        for name, content in files.items():
            info = tarfile.TarInfo(name)
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))
    return path
