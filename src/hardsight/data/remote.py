"""Images in a store, s3:// and its like: a folder of them, listed once and fetched one by one. Nothing is kept on the disk."""

from __future__ import annotations

import io
from collections.abc import Sequence
from dataclasses import dataclass

from PIL import Image

from hardsight.data.dataset import ImageData
from hardsight.data.decoding import BrokenImage, decode
from hardsight.data.files import hash_lines, is_image_name, unread_note
from hardsight.data.layout import read_layout
from hardsight.errors import FileError, InputError
from hardsight.files.places import Remote, place


@dataclass(frozen=True)
class RemoteImages:
    """Image files below a folder of a store, as they were when it was listed."""

    root: str  # the whole URI: a worker opens it again
    files: list[tuple[str, int, int]]  # path below the root, size, time

    def __len__(self) -> int:
        return len(self.files)

    def take(self, rows: Sequence[int]) -> RemoteImages:
        """The images of these rows, in this order."""
        return RemoteImages(self.root, [self.files[row] for row in rows])

    def image(self, row: int) -> Image.Image:
        """Fetch and decode the image of one row."""
        name, root = self.files[row][0], place(self.root)
        try:
            with (root / name).open("rb") as file:
                content = file.read()
        except (FileError, OSError) as error:
            raise BrokenImage("missing" if "does not exist" in str(error) else "unreadable", name, str(error)) from error
        return decode(io.BytesIO(content), name)

    def digest(self, ids: Sequence[str]) -> str:
        """sha256 over the sorted (id, size, time of change) of the files."""
        return hash_lines(f"{id}\0{size}\0{time}\n" for id, (_, size, time) in zip(ids, self.files, strict=True))


def read_remote_folder(root: Remote, level: int | None = None) -> ImageData:
    """Every image below a folder of a store, sorted by path; folders mean what they mean on a disk."""
    listed = [entry for entry in root.files_below() if "/." not in f"/{entry[0]}"]
    files = sorted(entry for entry in listed if is_image_name(entry[0]))
    if not files:
        raise InputError(f"{root}: a data folder must hold images (.jpg, .png, .webp, ...) at some depth, found none.")
    names = [name for name, _, _ in files]
    layout = read_layout(names, level)
    return ImageData(
        kind="folder",
        ids=names,
        images=RemoteImages(root.uri, files),
        labels=layout.labels,
        class_names=layout.class_names,
        columns={"path": names, **layout.columns},
        notes=layout.notes + unread_note(name for name, _, _ in listed),
    )
