"""FiftyOne: the layout of `FiftyOneImageClassificationDataset`.

    labels.json         classes, and for each sample its class with confidence and attributes: all scores and verdicts
    predictions.json    the same classes, and for each sample the predicted one with its confidence
    data.json           where each sample's image is: the user's file, or one in data/ if there was no file

FiftyOne looks into data/ unless data.json is named, and reads one field at a time. The format identifies a sample by a name
without dots: its row, as six digits. The id is an attribute, `sample_id`.
"""

from __future__ import annotations

from typing import Any

from hardsight.exporting.material import Material, find_images
from hardsight.files.writing import write_json

OPENS = (
    'layout = fiftyone.types.FiftyOneImageClassificationDataset; dataset = fiftyone.Dataset.from_dir("{folder}", layout, '
    'data_path="data.json", label_field="ground_truth"); dataset.merge_dir("{folder}", layout, data_path="data.json", '
    'labels_path="predictions.json", label_field="predictions")'
)
TAKEN = {name: f"sample_{name}" for name in ("id", "tags", "logits", "attributes")}  # by a label


def write(material: Material) -> None:
    """Write labels.json, predictions.json, data.json, and data/ for images that are not files yet."""
    found = find_images(material, "data")
    labels, predictions, data = {}, {}, {}
    index_of = {name: index for index, name in enumerate(material.class_names)}
    for index, (label, sample) in enumerate(zip(material.labels().tolist(), material.samples(), strict=True)):
        file = found.files[index]
        if file is not None:
            labels[f"{index:06d}"] = None if label < 0 else _target(label, sample)
            predictions[f"{index:06d}"] = _prediction(index_of, sample)
            data[f"{index:06d}"] = found.name(index) if found.written else str(file.resolve())  # the folder may move
    write_json(material.folder / "labels.json", {"classes": material.class_names, "labels": labels})
    write_json(material.folder / "predictions.json", {"classes": material.class_names, "labels": predictions})
    write_json(material.folder / "data.json", data)


def _target(label: int, sample: dict[str, Any]) -> dict[str, Any]:
    """A class by its index in `classes`, and all other values of the sample as its attributes."""
    attributes = {TAKEN.get(name, name): value for name, value in sample.items() if name not in ("label", "confidence")}
    return {"label": label, **_confidence(sample, "confidence"), "attributes": attributes}


def _prediction(index_of: dict[str, int], sample: dict[str, Any]) -> dict[str, Any] | None:
    """The predicted class with its confidence; None where nothing is predicted."""
    if "predicted" not in sample:
        return None
    return {"label": index_of[sample["predicted"]], **_confidence(sample, "predicted_confidence")}


def _confidence(sample: dict[str, Any], column: str) -> dict[str, float]:
    return {"confidence": abs(sample[column])} if column in sample else {}  # a probability, also as hardness
