"""Label Studio: `tasks.json` to import, and `labeling-config.xml` to paste into the project's settings.

All scores are fields of a task's data, so that the Data Manager can sort and filter by them; the most suspect tasks come first.
The class that `hardsight clean` suggests, or else the predicted one, is a prediction, which a person accepts or corrects.
"""

from __future__ import annotations

from typing import Any
from urllib.parse import quote
from xml.sax.saxutils import quoteattr

from hardsight.exporting.material import CLASSES, Material, SampleImages, find_images
from hardsight.files.writing import write_json, write_text
from hardsight.screen import printable

OPENS = "Label Studio: Settings, Labeling Interface: paste {folder}/labeling-config.xml; then Import {folder}/tasks.json"
LOCAL_FILES = "/data/local-files/?d="  # below LABEL_STUDIO_LOCAL_FILES_DOCUMENT_ROOT, of which a local storage must be a child


def write(material: Material) -> None:
    """Write both files."""
    found = find_images(material)
    samples = list(material.samples())
    order = [int(index) for index in material.hardest_first() if found.files[index] is not None]
    write_json(material.folder / "tasks.json", [_task(material, found, index, samples[index]) for index in order])
    write_text(material.folder / "labeling-config.xml", _config(material.class_names), "text")
    if material.image_url is None:
        material.notes.append(
            "Start Label Studio with LABEL_STUDIO_LOCAL_FILES_SERVING_ENABLED=true and "
            f"LABEL_STUDIO_LOCAL_FILES_DOCUMENT_ROOT={found.root.resolve().parent}, and add {found.root.resolve()} as local "
            "storage; or give --image-url."
        )


def _task(material: Material, found: SampleImages, index: int, sample: dict[str, Any]) -> dict[str, Any]:
    name = found.name(index)
    local = LOCAL_FILES + quote(f"{found.root.resolve().name}/{name}")
    address = local if material.image_url is None else material.image_url + quote(name)
    suggested = "suggested_label" in sample
    chosen = sample.get("suggested_label" if suggested else "predicted")
    score = sample.get("suggested_probability" if suggested else "predicted_confidence")
    result = {"from_name": "class", "to_name": "image", "type": "choices", "value": {"choices": [printable(chosen or "")]}}
    prediction = {
        "model_version": "hardsight clean" if suggested else material.display.name,
        **({} if score is None else {"score": score}),
        "result": [result],
    }
    fields = {name: printable(value) if name in CLASSES else value for name, value in sample.items()}
    return {"data": {**fields, "image": address}, "predictions": [] if chosen is None else [prediction]}


def _config(class_names: list[str]) -> str:
    # without control characters, which XML cannot hold
    lines = [
        "<View>",
        '  <Image name="image" value="$image"/>',
        '  <Choices name="class" toName="image" choice="single" showInLine="true">',
        *(f"    <Choice value={quoteattr(printable(name))}/>" for name in class_names),
        "  </Choices>",
        "</View>",
    ]
    return "\n".join(lines) + "\n"
