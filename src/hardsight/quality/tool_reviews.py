"""A review made in another tool: what people chose there for the samples that `hardsight export` wrote, as marks.

Label Studio   Export, as JSON: tasks with annotations. A task that nobody annotated has no mark.
FiftyOne       dataset.export(labels_path="reviewed.json", label_field="ground_truth", include_attributes=True,
               dataset_type=fiftyone.types.FiftyOneImageClassificationDataset): every label, changed or not.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hardsight.errors import FileError, InputError, did_you_mean
from hardsight.files.places import Place
from hardsight.files.reading import read_json
from hardsight.screen import printable
from hardsight.snapshot import Snapshot

Mark = tuple[str, str, int | None]  # id, mark, class of a wrong label


def tool_marks(path: Place, samples: Snapshot, class_names: Sequence[str] | None) -> list[Mark]:
    """The marks of a JSON file of Label Studio or FiftyOne.

    The given class is fine; another one is the right class of a wrong label; people who disagree make a sample ambiguous.
    """
    document = read_json(path, "not a readable review")
    chosen = _of_label_studio(document, path) if isinstance(document, list) else _of_fiftyone(document, path)
    given = dict(zip(map(str, samples.ids.tolist()), samples.labels.tolist(), strict=True))
    number_of = _numbers(class_names or [str(k) for k in range(samples.num_classes or samples.labels.max(initial=-1) + 1)])
    return [_mark(path, id, names, given.get(id, -1), number_of) for id, names in chosen]


def _numbers(class_names: Sequence[str]) -> dict[str, int]:
    """Class numbers by the names under which classes are exported."""
    return {written: number for number, name in enumerate(class_names) for written in (name, printable(name))}


def _mark(path: Place, id: str, names: set[str], given: int, number_of: dict[str, int]) -> Mark:
    if len(names) > 1:
        return id, "ambiguous", None
    (name,) = names
    if name not in number_of:
        known = f"classes are {', '.join(list(number_of)[:20])}"
        raise InputError(f"{path}: {id!r} is of the class {name!r:.80}; {known}.{did_you_mean(name, number_of)}")
    return (id, "fine", None) if number_of[name] == given else (id, "wrong label", number_of[name])


def _of_label_studio(tasks: list[Any], path: Place) -> list[tuple[str, set[str]]]:
    """Id -> the classes that people chose, of the tasks in which somebody chose one."""
    chosen: list[tuple[str, set[str]]] = []
    for task in tasks:
        data, annotations = (task.get(name) if isinstance(task, dict) else None for name in ("data", "annotations"))
        if not isinstance(data, dict) or not isinstance(annotations, list) or "id" not in data:
            raise FileError(
                f"{path}: not tasks of Label Studio with data.id and annotations: export them as JSON (not JSON-MIN), from a "
                "project that holds what hardsight export --to labelstudio wrote."
            )
        done = [annotation for annotation in annotations if not annotation.get("was_cancelled")]
        names = {choice for annotation in done for choice in _choices(annotation)}
        if names:
            chosen.append((str(data["id"]), names))
    return chosen


def _choices(annotation: dict[str, Any]) -> list[str]:
    results = [result.get("value", {}) for result in annotation.get("result", ())]
    return [choice for value in results for choice in value.get("choices", ())]


def _of_fiftyone(document: Any, path: Place) -> list[tuple[str, set[str]]]:
    """Id -> the class of its label; a sample without a label says nothing, not even which one it is."""
    labels = document.get("labels") if isinstance(document, dict) else None
    if not isinstance(labels, dict):
        raise FileError(f"{path}: not a review: a list of Label Studio's tasks, or FiftyOne's classes and labels.")
    classes, chosen = document.get("classes"), list[tuple[str, set[str]]]()
    for key, label in labels.items():
        if label is None:
            continue
        attributes = label.get("attributes") if isinstance(label, dict) else None
        if not isinstance(attributes, dict) or attributes.get("sample_id") is None:
            raise FileError(
                f"{path}: the label of {key!r} has no attribute sample_id: export with include_attributes=True, and change "
                "`.label` of a classification rather than the classification."
            )
        name = classes[label["label"]] if classes and isinstance(label["label"], int) else label["label"]
        chosen.append((str(attributes["sample_id"]), {name}))
    return chosen
