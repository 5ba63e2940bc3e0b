"""Human data in the forms that studies publish: built here as small stand-ins of the same format."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import hardsight
from hardsight.errors import InputError
from hardsight.files import match, read_people
from hardsight.files.human_studies import file_name, read_selection

WNIDS = ["n01440764", "n01443537", "n01484850"]
IMAGES = [f"ILSVRC2012_val_{number:08d}.JPEG" for number in range(1, 41)]
LABELS = np.arange(40) % 3
RAW = "annotator_id,trial_index,is_attn_check,true_category,chosen_category,true_label,chosen_label,correct_guess,"
RAW += "cifar10_test_set_idx,image_filename,subcategory,reaction_time,time_elapsed"


def study(frequencies: np.ndarray, people: np.ndarray | None = None) -> dict[str, Any]:
    """Frequencies of the given class, beside one of 0.1 for the next class."""
    chosen = {
        image: {WNIDS[label]: float(value), WNIDS[(label + 1) % 3]: 0.1}
        for image, label, value in zip(IMAGES, LABELS, frequencies, strict=True)
    }
    if people is None:
        return chosen
    asked = {image: dict.fromkeys(chosen[image], int(count)) for image, count in zip(IMAGES, people, strict=True)}
    return {"image_fraction_selected": chosen, "image_num_assignments": asked}


def snapshot(ids: list[str]) -> hardsight.Snapshot:
    rng = np.random.default_rng(0)
    weight = np.eye(3, 8)
    features = weight[LABELS] + 0.5 * rng.normal(size=(40, 8))
    return hardsight.Snapshot(features, head=weight, labels=LABELS, ids=ids, class_names=WNIDS)


FREQUENCY = np.round(np.linspace(0.1, 1, 40), 1)


@pytest.mark.parametrize("counted", [False, True])
def test_the_frequency_is_that_of_the_given_class(counted: bool, tmp_path: Path) -> None:
    path = tmp_path / "frequencies.json"
    path.write_text(json.dumps(study(FREQUENCY, np.full(40, 10) if counted else None)))
    people = read_people(path, WNIDS)
    assert people.selection_frequency(LABELS) == pytest.approx(FREQUENCY)
    assert people.selection_frequency((LABELS + 1) % 3) == pytest.approx(np.full(40, 0.1))
    assert np.isnan(people.selection_frequency((LABELS + 2) % 3)).all()  # nobody was asked about it
    answers = people.about_labels(LABELS).answers
    assert answers is None if not counted else answers is not None and (answers == 10).all()


def test_nobody_asked_is_not_nobody_chose() -> None:
    asked = np.r_[np.zeros(1, int), np.full(39, 10)]
    frequency = read_people(study(FREQUENCY * (asked > 0), asked), WNIDS).selection_frequency(LABELS)
    assert np.isnan(frequency[0]) and frequency[1:] == pytest.approx(FREQUENCY[1:])


@pytest.mark.parametrize(
    "id_of",
    [lambda image, wnid: f"val/{wnid}/{image}", lambda image, wnid: image, lambda image, wnid: image.removesuffix(".JPEG"),
     lambda image, wnid: f"{wnid}\\{image}"],
)  # fmt: skip
def test_images_are_matched_by_file_name(id_of: Callable[[str, str], str]) -> None:
    ids = [id_of(image, WNIDS[label]) for image, label in zip(IMAGES, LABELS, strict=True)]
    order = np.random.default_rng(1).permutation(40)
    samples, rows = match(read_people(study(FREQUENCY), WNIDS), np.array(ids, dtype=object)[order])
    assert samples.tolist() == list(range(40)) and rows.tolist() == order.tolist()


def test_one_file_name_in_two_folders_is_refused() -> None:
    ids = [f"val/{WNIDS[0]}/{image}" for image in IMAGES]
    ids[1] = ids[0].replace("val/", "train/")
    with pytest.raises(InputError, match=rf"'{ids[0]}' and '{ids[1]}' share one"):
        match(read_people(study(FREQUENCY), WNIDS), np.array(ids, dtype=object))
    twice = dict(zip(IMAGES, FREQUENCY.tolist(), strict=True)) | {f"other/{IMAGES[0]}": 0.9}
    with pytest.raises(InputError, match="one image with different answers"):
        match(read_people(twice), np.array([f"val/{image}" for image in IMAGES], dtype=object))
    same = twice | {f"other/{IMAGES[0]}": float(FREQUENCY[0])}
    assert len(match(read_people(same), np.array([f"val/{image}" for image in IMAGES], dtype=object))[0]) == 40


def test_ids_of_the_same_spelling_need_no_file_names() -> None:
    people = read_people({"a/1.png": 0.5, "b/1.png": 0.25})
    assert match(people, np.array(["b/1.png", "a/1.png"], dtype=object))[1].tolist() == [1, 0]
    assert file_name("a/b.c/ILSVRC.v2.JPEG") == "ILSVRC.v2" and file_name("a/no.suffix") == "no.suffix"


def test_correlate_with_fewest_answers_and_a_list(tmp_path: Path) -> None:
    people = np.full(40, 12)
    people[:10] = 4
    (tmp_path / "study.json").write_text(json.dumps(study(np.round(FREQUENCY * people) / people, people)))
    listed = {"image_filenames": [[image, WNIDS[label]] for image, label in zip(IMAGES[5:], LABELS[5:], strict=True)]}
    (tmp_path / "list.json").write_text(json.dumps(listed | {"min_num_annotations": 10}))
    (tmp_path / "list.txt").write_text("\n".join(IMAGES[5:]) + "\n")
    options: dict[str, Any] = {"scores": ["avh"], "replicates": 20, "permutations": 20, "splits": 2}
    samples = snapshot([f"val/{image}" for image in IMAGES])

    def judged(**further: Any) -> int:
        found = hardsight.correlate(samples, tmp_path / "study.json", **options, **further)
        return int(found.table.to_pylist()[0]["n"])

    assert judged() == 40
    assert judged(min_answers=10) == 30
    assert judged(only=tmp_path / "list.txt") == 35
    assert judged(only=tmp_path / "list.json") == 30  # which asks for 10 answers itself
    assert read_selection(tmp_path / "list.json").min_answers == 10
    (tmp_path / "list.txt").write_text("\n".join(IMAGES[:3]))
    with pytest.raises(InputError, match="lists 3 of the samples; a coefficient needs at least 4"):
        judged(only=tmp_path / "list.txt")


@pytest.mark.parametrize(
    ("human", "said"),
    [
        (study(np.r_[1.2, FREQUENCY[1:]]), r"between 0 and 1, but that of '.*00000001.JPEG' is 1.2"),
        ({IMAGES[0]: {"n99999999": 0.5}}, r"'n99999999' is not one of the 3 classes"),
        ({IMAGES[0]: {WNIDS[0]: "often"}}, r"frequency must be between 0 and 1, .* 'often'"),
        ({"image_fraction_selected": {IMAGES[0]: {WNIDS[0]: 1.0}}, "image_num_assignments": {}}, "number of people must be 0 or"),
    ],
)
def test_wrong_frequencies_are_refused(human: Any, said: str) -> None:
    with pytest.raises(InputError, match=said):
        read_people(human, WNIDS)


def test_wnids_need_a_list_of_classes() -> None:
    with pytest.raises(InputError, match="--class-names"):
        read_people(study(FREQUENCY))


def test_an_image_named_twice_with_different_values_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "twice.json"
    path.write_text(f'{{"{IMAGES[0]}": 0.5, "{IMAGES[0]}": 0.7}}')
    with pytest.raises(InputError, match=r"stands twice, with 0.5 and with 0.7"):
        read_people(path)
    path.write_text(f'{{"{IMAGES[0]}": 0.5, "{IMAGES[0]}": 0.5}}')
    assert len(read_people(path)) == 1


@pytest.mark.parametrize(
    ("human", "said"),
    [
        (study(FREQUENCY, np.full(40, 7)), "no sample has more than 7 answers"),
        (study(FREQUENCY), "needs the number of people"),
        (FREQUENCY, "needs the number of people"),
        (np.tile([3, 2, 0], (40, 1)), "no sample has more than 5 answers"),
    ],
)
def test_too_few_answers_everywhere_are_refused_before_scoring(human: Any, said: str, monkeypatch: pytest.MonkeyPatch) -> None:
    from hardsight.human import correlate as verb

    monkeypatch.setattr(verb, "with_scores", lambda *arguments: pytest.fail("scored"))
    with pytest.raises(InputError, match=f"--min-answers 10.*{said}"):
        hardsight.correlate(snapshot(IMAGES), human, min_answers=10)


@pytest.mark.parametrize("text", ['{"images": []}', "[]", '{"image_filenames": [[3, "n1"]]}', "{"])
def test_what_is_no_list_of_images(text: str, tmp_path: Path) -> None:
    (tmp_path / "list.json").write_text(text)
    with pytest.raises((InputError, hardsight.HardsightError), match=r"list\.json"):
        read_selection(tmp_path / "list.json")


# CIFAR-10H


def test_published_counts_and_probabilities_agree(tmp_path: Path) -> None:
    counts = np.random.default_rng(0).multinomial(50, [0.1] * 10, size=30)
    np.save(tmp_path / "cifar10h-counts.npy", counts)
    np.save(tmp_path / "cifar10h-probs.npy", counts / counts.sum(1, keepdims=True))
    labels = counts.argmax(1)
    both = [read_people(tmp_path / f"cifar10h-{name}.npy").selection_frequency(labels) for name in ("counts", "probs")]
    assert both[0] == pytest.approx(both[1])


def test_raw_answers_of_cifar10h(tmp_path: Path) -> None:
    """Image 7: two cats and a dog; image 3: one dog. An attention check has no index."""
    rows = [
        "1,0,0,cat,cat,3,3,1,7,a.png,x,900,1", "2,0,0,cat,cat,3,3,1,7,a.png,x,1500,1", "3,0,0,cat,dog,3,5,0,7,a.png,x,1200,1",
        "1,1,0,dog,dog,5,5,1,3,b.png,x,800,1", "1,2,1,bird,bird,2,2,1,-99999,c.png,x,1,1",
    ]  # fmt: skip
    (tmp_path / "cifar10h-raw.csv").write_text("\n".join([RAW, *rows]))
    people = read_people(tmp_path / "cifar10h-raw.csv")
    assert people.ids is not None and people.ids.tolist() == [3, 7] and people.reaction_time is not None
    assert people.reaction_time.tolist() == [800, 1200]
    assert people.selection_frequency(np.array([5, 3])) == pytest.approx([1, 2 / 3])
    (tmp_path / "cifar10h-raw.csv").write_text("\n".join([RAW, rows[-1]]))
    with pytest.raises(InputError, match="attention checks"):
        read_people(tmp_path / "cifar10h-raw.csv")


def test_reaction_times_are_a_target(tmp_path: Path) -> None:
    from hardsight.human.targets import human_targets

    rng = np.random.default_rng(0)
    rows = [
        f"{person},0,0,a,b,0,{rng.integers(3)},1,{image},f.png,x,{500 + 10 * image},1"
        for image in range(40)
        for person in range(5)
    ]
    (tmp_path / "raw.csv").write_text("\n".join([RAW, *rows]))
    people = read_people(tmp_path / "raw.csv")
    targets = {target.key: target for target in human_targets(snapshot([str(k) for k in range(40)]), people, False)}
    assert list(targets) == ["frequency", "entropy", "reaction_time"] and targets["reaction_time"].hard == "high"
    assert targets["reaction_time"].values.tolist() == [500 + 10 * image for image in range(40)]
