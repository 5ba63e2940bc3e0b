"""Options of learning that published protocols need: each one acts, in train and, shared, in adapt and generalize."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

import hardsight

torch = pytest.importorskip("torch")
pytest.importorskip("accelerate")

from safetensors.torch import load_file

from hardsight.data import ImageData, open_data
from hardsight.data.arrays import ImageArrays
from hardsight.domains.adapt import with_defaults
from hardsight.domains.adapt_models import AdaptWork
from hardsight.domains.generalize import OpenedDomains
from hardsight.domains.generalize_models import GeneralizeWork
from hardsight.domains.settings import AdaptSettings, GeneralizeSettings
from hardsight.errors import HardsightError, InputError
from hardsight.extraction.inputs import domains_of
from hardsight.models import Preprocessing, open_model
from hardsight.models.trainable import open_trainable
from hardsight.snapshot import Snapshot
from hardsight.training.forward_passes import hits
from hardsight.training.optimization import Updater, make_optimizer, parameter_groups, rate_factor
from hardsight.training.settings import LearningOptions, OptimizerOptions, ScheduleOptions, TrainSettings
from hardsight.training.trainee import LossChoice, Trainee
from point_mlp import points


def in_domains() -> Snapshot:
    values, labels = points(48)
    return Snapshot(values, labels=labels, columns={"domain": np.repeat(["a", "b", "c"], 16)})


def normalized() -> Any:
    """A network with batch normalization, whose statistics are those of nothing it will see."""
    net = torch.nn.Sequential(torch.nn.Linear(3, 6), torch.nn.BatchNorm1d(6), torch.nn.ReLU(), torch.nn.Linear(6, 3))
    net[1].running_mean.fill_(0.25)
    net[1].running_var.fill_(4.0)
    return net


def trainee(model: Any, **options: Any) -> Trainee:
    """A network with a softmax head of three classes."""
    return Trainee(open_trainable(model, 3, **options), torch.randn(4, 3), LossChoice("softmax", {}, 3, 48))


# Learning rate


def test_a_step_size_is_milestones_at_even_distances() -> None:
    every = LearningOptions(schedule="step", schedule_options=ScheduleOptions(step_size=2, gamma=0.5))
    listed = LearningOptions(schedule="step", schedule_options=ScheduleOptions(milestones=(2, 4, 6), gamma=0.5))
    steps = range(7 * 3)
    assert [rate_factor(every, step, 3, 7) for step in steps] == [rate_factor(listed, step, 3, 7) for step in steps]


def test_adapt_and_generalize_learn_as_they_are_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The steps of the learning rate fall, and the network runs in a shorter type."""
    factors: list[float] = []
    types: set[Any] = set()
    update, set_rate = Updater.update, Updater.set_rate

    def updating(self: Updater, loss: Any) -> None:
        types.add((loss.dtype, self.network.autocast))
        update(self, loss)

    monkeypatch.setattr(Updater, "update", updating)
    monkeypatch.setattr(Updater, "set_rate", lambda self, factor: factors.append(factor) or set_rate(self, factor))  # type: ignore[func-returns-value]
    options: dict[str, Any] = {"schedule": "step", "hidden": 4, "batch_size": 64, "precision": "bfloat16"}
    lengths: dict[str, Any] = {"source_epochs": 3, "rounds": 2, "epochs": 2, "schedule_options": {"step_size": 2, "gamma": 0.5}}
    settings = with_defaults(AdaptSettings(methods=("cbst",), **lengths, **options), "features", trained=False, smallest=48)
    AdaptWork.of(settings, {"pair": (in_domains(), in_domains())}, print).trained_tables(tmp_path / "run", None)
    assert factors == [1, 1, 0.5] + [1, 1, 0.5, 0.5] and types == {(torch.float32, torch.bfloat16)}
    factors.clear()
    types.clear()
    domains = OpenedDomains(in_domains(), np.asarray(domains_of(in_domains())), ["a", "b", "c"])
    GeneralizeWork.of(
        GeneralizeSettings(epochs=3, schedule_options=ScheduleOptions(milestones=(1, 2), gamma=0.5), **options), domains, print
    ).trained_tables(tmp_path / "folds", None)
    assert factors == [1, 0.5, 0.25] * 3  # one step an epoch, three domains left out in turn
    assert types == {(torch.float32, torch.bfloat16)}


# Momentum and weight decay


@pytest.mark.parametrize("nesterov", [True, False, None])
def test_momentum_is_plain_or_nesterov(nesterov: bool | None) -> None:
    network = trainee("point_mlp:PointMLP")
    optimizer = make_optimizer(network, LearningOptions(optimizer_options=OptimizerOptions(momentum=0.8, nesterov=nesterov)))
    assert optimizer.defaults["momentum"] == 0.8 and optimizer.defaults["nesterov"] == (nesterov is not False)


# Batch normalization


def test_frozen_statistics_stay_and_are_used_while_all_else_learns(tmp_path: Path) -> None:
    net = normalized()
    hardsight.train(points(), tmp_path / "run", model=net, epochs=1, batch_size=16, lr=0.1, freeze_bn=True)
    state = load_file(tmp_path / "run" / "model" / "model.safetensors")
    assert torch.equal(state["1.running_mean"], net[1].running_mean) and torch.equal(state["1.running_var"], net[1].running_var)
    assert int(state["1.num_batches_tracked"]) == 0
    assert not torch.equal(state["0.weight"], net[0].weight) and not torch.equal(state["1.weight"], net[1].weight)


@pytest.mark.parametrize("freeze", [False, True])
def test_a_sample_does_not_see_its_batch_where_statistics_are_frozen(freeze: bool) -> None:
    learner = trainee(normalized())
    Updater(learner, LearningOptions(freeze_bn=freeze))
    learner.train()
    inputs = torch.randn(8, 3)
    whole, part = learner.logits(inputs)[:4], learner.logits(inputs[:4])
    assert torch.allclose(whole, part, atol=1e-6) == freeze
    assert learner.batch_norm == (not freeze)  # whether target samples without a label must pass through


# What a network is given to see


SEEN: dict[str, Any] = {"size": 8, "preprocessing": "resize=squash crop_pct=0.5 scaling=centered interpolation=box"}


def pictures(n: int = 12) -> ImageData:
    """Gray pictures that are wider than high, in three domains."""
    pixels = np.random.default_rng(0).integers(0, 256, (n, 12, 20), dtype=np.uint8)
    arrays = ImageArrays([lambda: pixels], [n], [])
    ids, labels = [str(row) for row in range(n)], np.arange(n) % 2
    return ImageData("npz", ids, arrays, labels, columns={"domain": [f"d{row % 3}" for row in range(n)]})


def check_seen(how: Preprocessing, batch: np.ndarray, data: ImageData) -> None:
    """The middle quarter of the picture, whatever its proportions, as (x - 128) / 128."""
    assert (how.size, how.resize, how.crop_pct, how.interpolation) == ((8, 8), "squash", 0.5, "box")
    whole = data.image(0).resize((16, 16), Image.Resampling.BOX)
    expected = (np.asarray(whole, np.float32)[4:12, 4:12] - 128) / 128
    assert np.allclose(batch[0, 0], expected, atol=1e-6)


def test_preprocessing_is_chosen_in_train_adapt_and_generalize(tmp_path: Path) -> None:
    data = pictures()
    trained = hardsight.train(data, tmp_path / "run", model="DigitsCNN", epochs=1, **SEEN).run
    how = open_model(trained).preprocessing
    check_seen(how, how(data.image(0))[None], data)
    options: dict[str, Any] = {"model": "DigitsCNN", **SEEN}
    job = AdaptWork.of(AdaptSettings(**options), {"a": (data, data)}, print).pairs["a"]
    assert job.preprocessing is not None
    check_seen(job.preprocessing, next(iter(job.target.batches([np.arange(2)]))).inputs, data)
    images = GeneralizeWork.of(
        GeneralizeSettings(**options), OpenedDomains(data, np.asarray(data.columns["domain"]), ["d0", "d1", "d2"]), print
    ).images
    assert images is not None
    check_seen(images.preprocessing, next(iter(images.batches([np.arange(2)]))).inputs, data)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"preprocessing": {"scaling": "centered", "mean": (0.5,)}}, "scaling contradicts mean and std"),
        ({"preprocessing": "resize=stretch"}, "resize must be one of shortest, squash, longest"),
        ({"preprocessing": {"crop_pct": 1.5}}, "crop_pct must be a number above 0 and of at most 1"),
        ({"pretrained": 1}, "pretrained must be true, false or the name of released weights"),
    ],
)
def test_preprocessing_that_makes_no_sense_is_refused_at_once(wrong: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        TrainSettings(**wrong)
    for kind in (AdaptSettings, GeneralizeSettings):
        with pytest.raises(InputError, match=message):
            kind(**wrong)


@pytest.mark.parametrize(
    ("options", "words"),
    [({"preprocessing": "scaling=unit"}, "for images"), ({"precision": "float16", "device": "cpu"}, "float16 needs a GPU")],
)
def test_adapt_and_generalize_refuse_before_anything_is_written(options: dict[str, Any], words: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=words):
        hardsight.adapt(points(), points(), tmp_path / "run", **options)
    with pytest.raises(InputError, match=words):
        hardsight.generalize(in_domains(), tmp_path / "run", **options)
    assert not (tmp_path / "run").exists()


@pytest.mark.filterwarnings("ignore")
def test_released_weights_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    """V1 and V2 of ResNet-50 are other weights, and want pictures resized to 256 and to 232 pixels."""
    from hardsight.models.libraries import import_torchvision

    try:
        models = import_torchvision().models
    except HardsightError as error:
        pytest.skip(str(error))
    asked: list[Any] = []
    monkeypatch.setattr(models, "get_model", lambda name, weights, **more: asked.append(weights) or torch.nn.Linear(2, 2))
    opened = [open_trainable("torchvision:resnet50", 2, pretrained=which) for which in ("V1", "imagenet1k_v2", True, False)]
    names = [None if weights is None else weights.name for weights in asked]
    assert names == ["IMAGENET1K_V1", "IMAGENET1K_V2", "IMAGENET1K_V2", None]
    assert [round(224 / network.preprocessing.crop_pct) for network in opened] == [256, 232, 232, 232]
    assert [network.learned for network in opened] == [True, True, True, False]
    with pytest.raises(InputError, match="no released weights 'V3'; it has IMAGENET1K_V1, IMAGENET1K_V2"):
        open_trainable("torchvision:resnet50", 2, pretrained="V3")
    with pytest.raises(InputError, match="timm.*not 'V1'"):
        open_trainable("timm:resnet18", 2, pretrained="V1")


# A head of two layers


@pytest.fixture(scope="module")
def two_layers(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Digits, 64 features of the network, then 16 of a hidden layer."""
    output = tmp_path_factory.mktemp("two") / "run"
    options: dict[str, Any] = {
        "loss": "avh",
        "epochs": 1,
        "limit": 60,
        "batch_size": 20,
        "head_hidden": 16,
        "optimizer_options": {"head_rate": 3.0},
    }
    return hardsight.train("digits", output, model="DigitsCNN", watch={}, **options).run


def test_features_are_those_after_the_relu_and_the_model_is_like_any_other(two_layers: Path, tmp_path: Path) -> None:
    state = load_file(two_layers / "model" / "model.safetensors")
    assert state["head.hidden.weight"].shape == (16, 64) and state["head.head.weight"].shape == (10, 16)
    images = np.random.default_rng(0).random((6, 1, 8, 8), np.float32)
    model = open_model(two_layers)
    features, logits = model(images)
    network = open_trainable("DigitsCNN", 10).module
    network.head = torch.nn.Linear(64, 16)
    network.load_state_dict({name.replace("head.hidden", "head"): x for name, x in state.items() if "head.head" not in name})
    assert np.allclose(features, network(torch.from_numpy(images)).relu().detach(), atol=1e-5)
    assert model.head.kind == "angular" and np.allclose(model.head.logits(features), logits, atol=1e-4)
    again = hardsight.score(hardsight.extract(two_layers, "digits", tmp_path / "again", split="train", limit=60)).to_pylist()
    own = {row["id"]: row["avh"] for row in hardsight.score(two_layers).to_pylist()}
    assert own == pytest.approx({row["id"]: row["avh"] for row in again}, abs=1e-5)


def test_a_run_with_two_layers_is_trained_on(two_layers: Path, tmp_path: Path) -> None:
    on = hardsight.train("digits", tmp_path / "on", model=two_layers, watch={}, loss="avh", epochs=1, lr=1e-9, limit=60).run
    first, second = (load_file(run / "model" / "model.safetensors") for run in (two_layers, on))
    assert first.keys() == second.keys() and all(torch.allclose(first[name], second[name], atol=1e-5) for name in first)
    assert open_model(on)(np.ones((2, 1, 8, 8), np.float32))[0].shape == (2, 16)
    with pytest.raises(InputError, match="has a hidden layer before its head already"):
        hardsight.train("digits", tmp_path / "twice", model=two_layers, head_hidden=5)


def test_the_hidden_layer_is_new_and_of_the_head() -> None:
    """Old class vectors fit other features, even where there are as many of them; both layers learn as the head does."""
    learner = trainee(normalized(), head_hidden=6)
    assert not torch.equal(learner.objective.classes.weight, torch.as_tensor(learner.last_head.weight))
    names = {id(p): name for name, p in learner.named_parameters()}
    groups = parameter_groups(learner, LearningOptions(lr=1.0, optimizer_options=OptimizerOptions(head_rate=10.0)))
    rates = {names[id(p)]: group["lr"] for group in groups for p in group["params"]}
    assert rates["objective.classes.weight"] == rates["network.3.hidden.bias"] == 10.0 and rates["network.0.weight"] == 1.0
    assert learner.features(torch.randn(20, 3)).min() == 0  # after a ReLU


@pytest.mark.parametrize(("loss", "hidden"), [("avh", None), ("softmax", 32)])
def test_a_library_model_is_read_back(loss: str, hidden: int | None, tmp_path: Path) -> None:
    if importlib.util.find_spec("timm") is None:
        pytest.skip("timm is not installed")
    images = np.random.default_rng(0).integers(0, 256, (8, 32, 32, 3), np.uint8)
    data = ImageData("npz", [str(row) for row in range(8)], ImageArrays([lambda: images], [8], []), np.arange(8) % 2)
    options: dict[str, Any] = {"epochs": 1, "batch_size": 4, "size": 32, "augment": "flip", "loss": loss, "head_hidden": hidden}
    model = open_model(hardsight.train(data, tmp_path / "run", model="timm:test_resnet", **options).run)
    features, logits = model(np.random.default_rng(0).random((1, 3, 32, 32), np.float32))  # one image is enough
    assert logits.shape == (1, 2) and model.preprocessing.size == (32, 32)
    assert (model.head.kind, model.head.scale) == (("angular", 10.0) if loss == "avh" else ("linear", None))
    assert hidden is None or (features.shape == (1, hidden) and features.min() >= 0)


@pytest.mark.usefixtures("undrawn")
def test_a_hidden_layer_in_adapt(tmp_path: Path) -> None:
    options: dict[str, Any] = {"rounds": 1, "epochs": 1, "source_epochs": 1, "limit": 40, "head_hidden": 16}
    done = hardsight.adapt("digits:train", "digits:test", tmp_path / "run", methods="cbst", model="DigitsCNN", **options)
    model = open_model(done.run / "digits-train-to-digits-test" / "seed=0" / "cbst")
    assert model(np.ones((2, 1, 8, 8), np.float32))[0].shape == (2, 16)


# Evaluation


def test_top_k_by_hand() -> None:
    logits = torch.tensor([[3.0, 2.0, 1.0], [0.0, 5.0, 4.0], [1.0, 2.0, 3.0], [9.0, 0.0, 0.0]])
    labels = np.array([1, 1, 0, -1])  # second, first, last; not known
    assert [hits(logits, labels, k) for k in (1, 2, 3, 9)] == [1, 2, 3, 3]


def test_ten_crops_by_hand() -> None:
    """A picture of 20 pixels, resized to 20 for crops of 16: the corners, the middle, and all of them mirrored."""
    pixels = np.random.default_rng(0).integers(0, 256, (20, 20), dtype=np.uint8)
    how = Preprocessing(size=(16, 16), crop_pct=0.8, channels="L")
    crops = [np.asarray(crop) for crop in how.five_crops(Image.fromarray(pixels))]
    places = [(0, 0), (0, 4), (4, 0), (4, 4), (2, 2)]
    assert all(np.array_equal(crop, pixels[y : y + 16, x : x + 16]) for crop, (y, x) in zip(crops, places, strict=True))
    assert np.array_equal(crops[4], np.asarray(how.fitted(Image.fromarray(pixels))))


def test_top_k_and_ten_crops_of_a_watched_set(tmp_path: Path) -> None:
    options: dict[str, Any] = {"epochs": 1, "limit": 50, "batch_size": 25, "lr": 0.05, "preprocessing": "crop_pct=0.8"}
    done = hardsight.train("digits", tmp_path / "run", model="DigitsCNN", top_k=2, crops=10, **options)
    means, data = done.history[0]["test"], open_data("digits", split="test", limit=50)
    model = open_model(done.run)
    plain = model(np.stack([model.preprocessing(data.image(row)) for row in range(50)]))[1]  # (50, 10)
    views = [model.preprocessing.numbers(crop) for row in range(50) for crop in model.preprocessing.five_crops(data.image(row))]
    both = np.stack([model(np.stack(views))[1], model(np.stack(views)[..., ::-1])[1]])  # (2, 250, 10)
    crops = both.reshape(2, 50, 5, 10).mean((0, 2))  # (50, 10)
    for logits, names in ((plain, ("accuracy", "top2")), (crops, ("accuracy_10_crops", "top2_10_crops"))):
        assert data.labels is not None
        order = np.argsort(-logits, axis=1)
        for k, name in enumerate(names, 1):
            assert means[name] == pytest.approx((order[:, :k] == data.labels[:, None]).any(1).mean()), name
    assert means["top2"] > means["accuracy"] and "top2" not in done.history[0]["train"]
    same = hardsight.train("digits", tmp_path / "plain", model="DigitsCNN", **options)
    assert same.history[0]["test"] == {name: value for name, value in means.items() if "top" not in name and "crops" not in name}
    assert np.array_equal(same.head.weight, done.head.weight)


# Precision


def test_a_shorter_type_in_the_network_and_float32_after_it() -> None:
    inputs = torch.randn(8, 3)
    learner = trainee(normalized()).eval()
    exact = learner.features(inputs)
    Updater(learner, LearningOptions(precision="bfloat16"))
    features = learner.features(inputs)
    assert features.dtype == torch.float32 and torch.equal(features, features.bfloat16().float())
    assert torch.allclose(features, exact, atol=0.05) and not torch.equal(features, exact)
