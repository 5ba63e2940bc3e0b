"""The pieces of a training, each by itself: schedules, augmentation, options, inputs, checkpoints."""

from __future__ import annotations

import inspect
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

torch = pytest.importorskip("torch")
pytest.importorskip("accelerate")

from hardsight.data import open_data
from hardsight.errors import InputError, RunError
from hardsight.extraction.feed import ArrayInputs, ImageInputs
from hardsight.losses import contrastive_loss
from hardsight.models.preprocessing import Preprocessing
from hardsight.training.augmentation import (
    ATTEMPTS,
    OWN_DRAWS,
    Augmentation,
    AugmentedInputs,
    draws,
    parse_augmentation,
    random_box,
    sample_keys,
)
from hardsight.training.checkpoint import TrainingState, load_checkpoint, newest_checkpoint, save_checkpoint
from hardsight.training.loss_names import LOSSES, loss_class, loss_name, loss_options, with_defaults
from hardsight.training.objective import Objective
from hardsight.training.optimization import rate_factor
from hardsight.training.sets import labeled_only
from hardsight.training.settings import LearningOptions, ScheduleOptions, read_options

# Schedule


def test_cosine_by_hand() -> None:
    factors = [rate_factor(LearningOptions(schedule="cosine"), step, 2, 3) for step in range(6)]
    assert factors[0] == 1.0 and factors[3] == pytest.approx(0.5)
    assert factors[1] == pytest.approx(0.5 * (1 + np.cos(np.pi / 6)))
    assert all(a > b for a, b in zip(factors, factors[1:], strict=False))


def test_steps_fall_at_their_epochs() -> None:
    settings = LearningOptions(schedule="step", schedule_options=ScheduleOptions(milestones=(3, 6), gamma=0.5))
    factors = [rate_factor(settings, step, 10, 9) for step in (0, 29, 30, 59, 60, 89)]
    assert factors == [1.0, 1.0, 0.5, 0.5, 0.25, 0.25]


@given(st.sampled_from(["constant", "step", "cosine"]), st.integers(1, 20), st.integers(1, 8), st.floats(0, 3))
def test_every_rate_is_above_zero_and_at_most_the_whole(schedule: Any, steps: int, epochs: int, warmup: float) -> None:
    settings = LearningOptions(schedule=schedule, schedule_options=ScheduleOptions(warmup=warmup))
    factors = [rate_factor(settings, step, steps, epochs) for step in range(steps * epochs)]
    assert all(0 < factor <= 1 for factor in factors)
    rising = factors[: min(len(factors), round(warmup * steps))]
    assert rising == sorted(rising)


# Augmentation


def test_a_crop_is_the_image_moved() -> None:
    images = np.arange(2 * 1 * 6 * 6, dtype=np.float32).reshape(2, 1, 6, 6) + 1
    moved = Augmentation(crop=2)(images, sample_keys(["a", "b"]), seed=0, epoch=1)
    _, down, right = (draws(sample_keys(["a", "b"]), 0, 1, 3) * 5).astype(int).T  # offsets 0..4
    for row, i, j in np.ndindex(2, 6, 6):
        u, v = i + down[row] - 2, j + right[row] - 2
        inside = 0 <= u < 6 and 0 <= v < 6
        assert moved[row, 0, i, j] == (images[row, 0, u, v] if inside else 0)


def test_a_flip_is_a_mirror_or_nothing_and_half_are() -> None:
    ids = [str(number) for number in range(400)]
    images = np.random.default_rng(0).random((400, 3, 4, 4), np.float32)
    flipped = Augmentation(flip=True)(images, sample_keys(ids), seed=3, epoch=2)
    mirrored = (flipped == images[..., ::-1]).all((1, 2, 3))
    assert (mirrored | (flipped == images).all((1, 2, 3))).all()
    assert 150 < mirrored.sum() < 250


def test_draws_depend_on_the_sample_not_on_its_company() -> None:
    keys = sample_keys([f"{number}.png" for number in range(1000)])
    whole = draws(keys, 5, 7, 3)
    assert np.array_equal(draws(keys[::-1][:10], 5, 7, 3), whole[::-1][:10])
    assert not np.array_equal(draws(keys, 5, 8, 3), whole) and not np.array_equal(draws(keys, 6, 7, 3), whole)
    assert np.abs(whole.mean(0) - 0.5).max() < 0.05 and np.abs(np.corrcoef(whole.T) - np.eye(3)).max() < 0.1
    assert (whole >= 0).all() and (whole < 1).all()


def test_unknown_augmentation_is_refused() -> None:
    parts_of_area = [f"resized-crop={text}" for text in ("0", "0.5:0.2", "0.5:2", "x", "0.1:0.2:0.3", "")]
    for text in ("turn", "crop=x", "flip=2", "none=1", "resized_crop", *parts_of_area):
        with pytest.raises(InputError, match="resized-crop takes two parts" if text in parts_of_area else "is made of flip"):
            parse_augmentation(text)


def test_a_resized_crop_by_hand() -> None:
    half = np.full((1, 4), 0.5)  # a quarter of the area, as wide as high, in the middle
    assert random_box((100, 100), half, (0.25, 0.25)) == (25, 25, 75, 75)
    widest = np.array([[0.0, 1.0, 0.0, 1.0 - 1e-9]])  # 4 to 3, at the top and as far right as it goes
    assert random_box((120, 90), widest, (0.25, 1.0)) == (60, 0, 120, 45)
    assert random_box((300, 100), half, (1.0, 1.0)) == (83, 0, 216, 100)  # no crop of these proportions has the whole area


@given(st.integers(1, 400), st.integers(1, 400), st.integers(0, 99))
def test_a_resized_crop_lies_in_the_picture(width: int, height: int, seed: int) -> None:
    left, top, right, bottom = random_box((width, height), np.random.default_rng(seed).random((10, 4)), (0.08, 1.0))
    assert 0 <= left < right <= width and 0 <= top < bottom <= height


def test_a_resized_crop_is_taken_from_the_whole_picture_anew_in_each_epoch(tmp_path: Path) -> None:
    """Not from the middle that the network gets otherwise, and by seed, epoch and id alone."""
    pictures = np.random.default_rng(0).integers(0, 256, (6, 20, 40, 3), dtype=np.uint8)
    np.savez(tmp_path / "some.npz", images=pictures, labels=[0, 1] * 3)
    data, how = open_data(tmp_path / "some.npz"), Preprocessing(size=(8, 8))
    inputs = ImageInputs(data, how, workers=2)
    plain = next(iter(inputs.batches([np.arange(6)])))  # held in memory from here on
    augmented = AugmentedInputs(inputs, "resized-crop=0.2:0.6", seed=5)
    first, again, later = (next(iter(augmented.batches([np.array([4, 1])], epoch))).inputs for epoch in (1, 1, 2))
    drawn = draws(sample_keys(["4"]), 5, 1, OWN_DRAWS + 4 * ATTEMPTS)[0, OWN_DRAWS:].reshape(ATTEMPTS, 4)
    box = random_box((40, 20), drawn, (0.2, 0.6))
    expected = how.numbers(Image.fromarray(pictures[4]).crop(box).resize((8, 8), Image.Resampling.BILINEAR))
    assert np.array_equal(first[0], expected) and np.array_equal(first, again) and not np.array_equal(first, later)
    assert np.array_equal(next(iter(inputs.batches([np.arange(6)]))).inputs, plain.inputs)


def test_target_images_have_augmentations_of_their_own() -> None:
    from hardsight.domains.adapt_training import PairTraining
    from hardsight.domains.settings import AdaptSettings

    data = ArrayInputs(np.ones((2, 3)), [0, 1])
    rest: dict[str, Any] = {"num_classes": 2, "seed": 0, "make_learner": None, "device": torch.device("cpu")}
    for options, expected in (({}, "flip"), ({"target_augment": "resized-crop=0.5"}, "resized-crop=0.5:1")):
        settings: Any = AdaptSettings(augment="flip", **options)  # type: ignore[arg-type]
        loop = PairTraining(source=data, target=data, settings=settings, **rest)
        assert str(loop.source_batches.augmentation) == "flip" and str(loop.target_batches.augmentation) == expected


# Options


@pytest.mark.parametrize("texts", [["scale"], ["=3"], ["a b=3"], ["1x=2"], ["scale=1", "scale=2"]])
def test_options_are_key_and_value_each_once(texts: list[str]) -> None:
    with pytest.raises(InputError, match="key=value" if len(texts) == 1 else "scale is given twice"):
        read_options(texts)


@pytest.mark.parametrize(
    ("loss", "options", "message"),
    [
        ("avh", {"margin": 1}, "avh has no option 'margin'; it has: scale"),
        ("gm", {"alpha": 1}, "gm has no option 'alpha'; it has: likelihood, covariance"),
        ("triplet", {"scale": 1}, "triplet has no option 'scale'; it has: margin, mining, weight"),
        ("softmax", {"bais": False}, "Did you mean bias"),
        ("center", {"bias": True, "pul": 1}, "it has: pull, rate, bias"),
        ("normface", {"learn_scal": True}, "it has: scale, learn_scale"),
        ("normalized_softmax", {"learn_scale": True}, "has no option 'learn_scale'; it has: scale"),
        ("ens", {"generator": None}, "it has: period"),
        ("supcon", {"temperature": "hot"}, "temperature must be a number, got hot"),
        ("supcon", {"temperature": -1}, "temperature must be a positive number, got -1"),
        ("supcon", {"projection": 2.5}, "projection must be a whole number, got 2.5"),
        ("lgm", {"warmup_epochs": -1}, "warmup_epochs must be a number >= 0, got -1"),
        ("lgm", {"covariance": "share"}, "covariance must be one of .* Did you mean shared"),
        ("triplet", {"mining": "hrad"}, "mining must be one of all, semihard, hard.* Did you mean hard"),
    ],
)
def test_a_wrong_option_of_a_loss(loss: str, options: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        Objective(loss, 4, 3, 10, options)


@pytest.mark.parametrize("name", LOSSES)
def test_every_option_of_a_loss_can_be_given(name: str) -> None:
    kinds = [kind for kind in reversed(loss_class(name).__mro__) if "__init__" in vars(kind)]
    defaults = {p.name: p.default for kind in kinds for p in inspect.signature(vars(kind)["__init__"]).parameters.values()}
    for option in loss_options(name):
        Objective(name, 5, 3, 12, {option: defaults.get(option, 0.5)})


def test_losses_are_found_by_what_people_type() -> None:
    assert loss_name("L-Softmax") == "l_softmax"
    with pytest.raises(InputError, match="Did you mean arcface"):
        loss_name("arcfaces")


@pytest.mark.parametrize("name", LOSSES)
def test_every_loss_is_a_number_with_a_gradient_for_the_features(name: str) -> None:
    torch.manual_seed(0)
    c = 2 if name == "ens" else 3
    objective = Objective(name, 5, c, 12, with_defaults(name, {}, epochs=3))
    features = torch.randn(12, 5, requires_grad=True)
    labels = torch.arange(12) % c
    if objective.family == "inputs":  # of a network that only shows its features
        loss = objective.of_inputs(lambda x: 1 * x, features, labels).mean()
    else:
        loss = objective(features, labels, torch.arange(12))
    loss.backward()
    assert loss.shape == () and torch.isfinite(loss)
    assert features.grad is not None and torch.isfinite(features.grad).all() and features.grad.abs().sum() > 0
    assert objective.classes.head.num_classes == c


def test_a_pair_loss_is_added_with_its_weight() -> None:
    torch.manual_seed(0)
    objective = Objective("contrastive", 5, 3, 12, {"weight": 0.25, "margin": 2.0})
    features, labels = torch.randn(12, 5), torch.arange(12) % 3
    softmax = torch.nn.functional.cross_entropy(objective.classes.logits(features), labels)
    expected = softmax + 0.25 * contrastive_loss(features, labels, margin=2.0)
    assert torch.allclose(objective(features, labels, labels), expected)


# Inputs


@pytest.mark.parametrize("channels", ["RGB", "BGR", "L"])
def test_a_batch_of_numbers_is_that_of_its_images(channels: Any) -> None:
    how = Preprocessing(size=(6, 5), channels=channels, mean=(0.4,), std=(0.2,))
    pixels = np.random.default_rng(0).integers(0, 256, (3, 6, 5, len(channels)), dtype=np.uint8)
    images = [Image.fromarray(one.squeeze(-1) if channels == "L" else one) for one in pixels]
    assert np.array_equal(how.normalized(pixels), np.stack([how(image) for image in images]))


def test_later_epochs_read_from_memory(tmp_path: Path) -> None:
    pixels = np.random.default_rng(0).integers(0, 256, (10, 4, 4), dtype=np.uint8)
    np.savez(tmp_path / "some.npz", images=pixels, labels=[0, 1] * 5)
    inputs = ImageInputs(open_data(tmp_path / "some.npz"), Preprocessing(size=(4, 4), channels="L"), workers=2)
    rows = [np.array([7, 2, 5]), np.array([0, 9])]
    first = list(inputs.batches(rows))
    inputs.data = None  # type: ignore[assignment]  # nothing left to decode from
    again = list(inputs.batches(rows))
    assert all(np.array_equal(a.inputs, b.inputs) and np.array_equal(a.rows, b.rows) for a, b in zip(first, again, strict=True))


def test_a_degraded_version_has_its_own_id_and_pixels(tmp_path: Path) -> None:
    from hardsight.data import Degradation, degrade

    np.savez(tmp_path / "some.npz", images=np.random.default_rng(0).integers(0, 256, (3, 8, 8), dtype=np.uint8), labels=[0, 1, 1])
    data, how = open_data(tmp_path / "some.npz"), Preprocessing(size=(8, 8), channels="L")
    inputs = ImageInputs(data, how, degradations=[Degradation("noise", 0.2)], workers=1)
    assert inputs.ids == ["0", "1", "2", "0#noise=0.2", "1#noise=0.2", "2#noise=0.2"]
    assert inputs.labels.tolist() == [0, 1, 1, 0, 1, 1]
    (batch,) = inputs.batches([np.array([1, 4])])
    assert np.array_equal(batch.inputs[1], how(degrade(data.image(1), Degradation("noise", 0.2), "1")))
    assert inputs.columns["level"] == [None] * 3 + [0.2] * 3


def test_unlabeled_images_are_not_trained_on(tmp_path: Path) -> None:
    np.savez(tmp_path / "some.npz", images=np.zeros((3, 4, 4), np.uint8), labels=[1, -1, 0])
    data, count = labeled_only(open_data(tmp_path / "some.npz"))
    assert data.ids == ["0", "2"] and count == 1
    np.savez(tmp_path / "none.npz", images=np.zeros((3, 4, 4), np.uint8))
    with pytest.raises(InputError, match="training needs labels"):
        labeled_only(open_data(tmp_path / "none.npz"))


@pytest.mark.parametrize(
    ("inputs", "ids", "message"),
    [(np.zeros(3), None, "at least one sample"), (np.full((3, 2), np.nan), None, "finite"), (np.ones((3, 2)), [1, 1, 2], "ids")],
)
def test_bad_arrays_are_refused(inputs: Any, ids: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        ArrayInputs(inputs, [0, 1, 0], ids)


# Checkpoints


def trained_a_little(optimizer_name: str) -> tuple[Any, Any]:
    torch.manual_seed(0)
    module = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.BatchNorm1d(4), torch.nn.Linear(4, 2))
    kind = torch.optim.AdamW if optimizer_name == "adamw" else torch.optim.SGD
    optimizer = kind(module.parameters(), lr=0.1, **({} if optimizer_name == "adamw" else {"momentum": 0.9}))
    for _ in range(3):
        step(module, optimizer)
    return module, optimizer


def step(module: Any, optimizer: Any) -> None:
    optimizer.zero_grad()
    module(torch.linspace(-1, 1, 15).reshape(5, 3)).square().sum().backward()
    optimizer.step()


@pytest.mark.parametrize("name", ["sgd", "adamw"])
def test_a_checkpoint_brings_back_module_and_optimizer(name: str, tmp_path: Path) -> None:
    module, optimizer = trained_a_little(name)
    save_checkpoint(tmp_path, TrainingState(epoch=3, step=30, history=[{"epoch": 3}]), module, optimizer)
    other, other_optimizer = trained_a_little(name)
    step(other, other_optimizer)  # somewhere else
    assert load_checkpoint(tmp_path, 3, other, other_optimizer).step == 30
    for _ in range(2):
        step(module, optimizer)
        step(other, other_optimizer)
    for a, b in zip(module.state_dict().values(), other.state_dict().values(), strict=True):
        assert torch.equal(a, b)


def test_two_checkpoints_are_kept_and_a_damaged_one_is_passed_over(tmp_path: Path) -> None:
    module, optimizer = trained_a_little("sgd")
    for epoch in (1, 2, 3):
        save_checkpoint(tmp_path, TrainingState(epoch=epoch), module, optimizer)
    assert sorted(path.name for path in tmp_path.glob("*.safetensors")) == ["epoch=0002.safetensors", "epoch=0003.safetensors"]
    assert newest_checkpoint(tmp_path) == (3, [])
    last = tmp_path / "epoch=0003.safetensors"
    last.write_bytes(last.read_bytes()[:-5])
    epoch, notes = newest_checkpoint(tmp_path)
    assert epoch == 2 and "epoch=0003.safetensors is damaged" in notes[0]
    (tmp_path / "epoch=0002.json").unlink()  # killed between the two files
    assert newest_checkpoint(tmp_path)[0] == 0


def test_a_checkpoint_of_another_network_is_refused(tmp_path: Path) -> None:
    module, optimizer = trained_a_little("sgd")
    save_checkpoint(tmp_path, TrainingState(epoch=1), module, optimizer)
    other = torch.nn.Linear(3, 2)
    with pytest.raises(RunError, match="does not fit this training"):
        load_checkpoint(tmp_path, 1, other, torch.optim.SGD(other.parameters(), lr=0.1))
