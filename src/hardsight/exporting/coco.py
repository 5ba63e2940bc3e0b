"""COCO: one JSON of images, annotations and categories.

Every sample is an image with one annotation of the whole image; its scores and verdict are the annotation's `attributes`, as
in CVAT. Ids count from 1, so the category of class k is k + 1.
"""

from __future__ import annotations

from typing import Any

from hardsight.exporting.material import Material, find_images, image_size
from hardsight.files.writing import write_json
from hardsight.version import VERSION

OPENS = 'pycocotools.coco.COCO("{folder}/annotations.json")'


def write(material: Material) -> None:
    """Write annotations.json; an image without a label has no annotation."""
    found = find_images(material)
    images: list[dict[str, Any]] = []
    annotations: list[dict[str, Any]] = []
    unreadable = 0
    for index, (label, sample) in enumerate(zip(material.labels().tolist(), material.samples(), strict=True)):
        file = found.files[index]
        size = None if file is None else image_size(file)
        if size is None:
            unreadable += file is not None
            continue
        number = len(images) + 1
        images.append({"id": number, "file_name": found.name(index), "width": size[0], "height": size[1]})
        if label >= 0:
            annotations.append(_annotation(number, label, size, sample))
    if unreadable:
        material.notes.append(f"{unreadable} files are not images and are left out.")
    document = {
        "info": {"description": material.display.name, "version": VERSION, "image_root": str(found.root)},
        "licenses": [],
        "images": images,
        "annotations": annotations,
        "categories": [{"id": k + 1, "name": name, "supercategory": ""} for k, name in enumerate(material.class_names)],
    }
    write_json(material.folder / "annotations.json", document)
    material.notes.append(f"File names are below {found.root}.")


def _annotation(number: int, label: int, size: tuple[int, int], sample: dict[str, Any]) -> dict[str, Any]:
    width, height = size
    return {
        "id": number,
        "image_id": number,
        "category_id": label + 1,
        "bbox": [0, 0, width, height],
        "area": width * height,
        "iscrowd": 0,
        "segmentation": [],
        "attributes": {name: value for name, value in sample.items() if name != "label"},
    }
