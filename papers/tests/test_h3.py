"""avh/h3: scores by families on a small network with known numbers, fewer and joined classes, networks that the user names."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from PIL import Image

import hardsight
from hardsight import Head, Snapshot, score
from hardsight.stats import spearman
from hardsight_papers.avh import h3
from hardsight_papers.avh.class_tables import ClassTables, margins_without_norms
from hardsight_papers.avh.h3 import Judged
from hardsight_papers.cache import Cache
from hardsight_papers.context import Context
from hardsight_papers.data_folder import DataFolder

RNG = np.random.default_rng(0)
N, C = 1000, 40
WEIGHT = RNG.normal(size=(C, 12))
WEIGHT *= RNG.uniform(2, 3, size=(C, 1)) / np.linalg.norm(WEIGHT, axis=1, keepdims=True)
LABELS = np.arange(N) % C
NETWORK = Snapshot(WEIGHT[LABELS] + 1.2 * RNG.normal(size=(N, 12)), Head("linear", WEIGHT, 0.1 * RNG.normal(size=C)), LABELS)
TABLES = ClassTables.of(NETWORK)
SCORES = TABLES.scores()
LOW_IS_HARD = {"confidence", "probability_margin", "logit_margin"}
GAP = score(NETWORK, scores="angular_gap")["angular_gap"].to_numpy()
FREQUENCY = np.clip(0.5 - GAP + 0.3 * RNG.normal(size=N), 0, 1)  # people who mind the nearest competitor
JUDGED = Judged("made up", "net", C, SCORES, FREQUENCY, 0.9, NETWORK, np.arange(N))


def test_scores_are_those_of_hardsight() -> None:
    """Every column is high where it is hard, and the own logit is that of the head."""
    names = [name for name in SCORES if name != "own_logit"]
    table = score(NETWORK, scores=names).table
    for name in names:
        expected = table[name].to_numpy() * (-1 if name in LOW_IS_HARD else 1)
        assert SCORES[name] == pytest.approx(expected, rel=1e-4, abs=1e-5), name
    assert NETWORK.features is not None and NETWORK.head is not None
    own = NETWORK.head.logits(NETWORK.features)[np.arange(N), LABELS]
    assert SCORES["own_logit"] == pytest.approx(-own, abs=1e-5)


def test_with_all_classes_drawn_nothing_changes() -> None:
    for name, column in TABLES.drawn(C + 1, seed=0).scores().items():
        assert column == pytest.approx(SCORES[name], rel=1e-6), name
    few = TABLES.drawn(10, seed=0).scores()  # fewer rivals: the nearest of them is no nearer
    assert (few["logit_margin"] <= SCORES["logit_margin"] + 1e-9).all() and (few["avh"] > SCORES["avh"]).all()


def test_joined_classes_have_their_nearest_member_and_the_sum_of_probabilities() -> None:
    """As worked out class by class; a class of its own each joins nothing."""
    for name, column in TABLES.joined(np.arange(C)).scores().items():
        assert column == pytest.approx(SCORES[name], rel=1e-6), name
    of_class = np.arange(C) % 7
    joined = TABLES.joined(of_class)
    found = joined.scores()
    assert joined.num_classes == 7 and (joined.labels == of_class[LABELS]).all()
    probs = np.exp(TABLES.logits) / np.exp(TABLES.logits).sum(1, keepdims=True)
    summed = np.stack([probs[:, of_class == k].sum(1) for k in range(7)], axis=1)
    coarse = score(Snapshot(probs=summed, labels=of_class[LABELS]), scores=["confidence", "loss", "probability_margin"]).table
    for name, sign in (("confidence", -1), ("loss", 1), ("probability_margin", -1)):
        assert found[name] == pytest.approx(sign * coarse[name].to_numpy(), rel=1e-4, abs=1e-5), name
    for row in range(0, N, 97):
        nearest = [min(TABLES.angles[row, of_class == k]) for k in range(7)]
        own = nearest.pop(of_class[LABELS[row]])
        assert found["avh"][row] == pytest.approx(own / (own + sum(nearest)))
        assert found["angular_gap"][row] == pytest.approx(own - min(nearest))


def test_margins_lose_the_parts_of_the_logit_one_by_one() -> None:
    margins = margins_without_norms(NETWORK)
    assert margins["logit margin"] is not None and margins["angular gap"] == pytest.approx(GAP, abs=1e-5)
    plain = Snapshot(NETWORK.features, Head("linear", WEIGHT / np.linalg.norm(WEIGHT, axis=1, keepdims=True)), LABELS)
    columns = list(margins_without_norms(plain).values())
    assert columns[0] == pytest.approx(columns[1], abs=1e-5) and columns[1] == pytest.approx(columns[2], abs=1e-5)
    assert (np.sign(margins["and unit features"]) == np.sign(GAP)).all()


def test_coefficients_are_spearmans_and_parts_are_their_differences() -> None:
    assert JUDGED.spearman(SCORES)["avh"] == pytest.approx(spearman(SCORES["avh"], -FREQUENCY))
    value, low, high = JUDGED.parts["nearest instead of all, angle"]
    assert value == pytest.approx(spearman(SCORES["angular_gap"], -FREQUENCY) - spearman(SCORES["avh"], -FREQUENCY))
    assert low < value < high and "confidence" not in JUDGED.differences


def test_outcome(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where people mind the competitor, the claim about it holds, and that AVH is enough does not."""
    monkeypatch.setattr(h3, "_judged", lambda context: [JUDGED])
    monkeypatch.setattr(h3, "DRAWN", (10,))
    monkeypatch.setattr(h3, "NEAREST", (1, C - 1))
    context: Any = SimpleNamespace(seed=0)
    outcome = h3.hypothesis_3(context)
    verdicts = {claim.text: claim.verdict for claim in outcome.claims}
    assert verdicts["The nearest competitor adds to the angle."] == "holds"
    assert verdicts["AVH agrees with people more than confidence (hypothesis 3)."] == "does not hold"
    assert "With 1,000 classes the nearest competitor adds to the angle." not in verdicts  # there are 40
    titles = [table.title for table in outcome.tables]
    network, one, others, every = outcome.tables[-3].rows[0][1:]
    assert network == "net" and one == pytest.approx(spearman(SCORES["avh_nearest"], -FREQUENCY), abs=1e-4)
    assert others == pytest.approx(every, abs=1e-4) and "AVH over that many nearest other classes" in titles[-3]
    assert titles[-2:] == ["With fewer classes, drawn at random", "From the logit margin to the angular gap"]
    assert len(outcome.figures) == 1 and "made up" in outcome.about


def test_networks_that_the_user_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A run, a function that makes a network and released weights, on the images in --data."""
    pytest.importorskip("torch")
    images = tmp_path / "data" / "imagenet_val5k"
    for k in range(12):
        (images / str(k % 2)).mkdir(parents=True, exist_ok=True)
        Image.fromarray(RNG.integers(0, 255, (8, 8, 3), np.uint8)).save(images / str(k % 2) / f"{k}.png")
    run = tmp_path / "run"
    hardsight.train(images, run, model="DigitsCNN", epochs=1, device="cpu", watch={})
    (tmp_path / "their_own.py").write_text("from hardsight.models import DigitsCNN\nnetwork = lambda: DigitsCNN(2)\n")
    monkeypatch.syspath_prepend(tmp_path)
    names = [str(run), "their_own:network", released_mobilenet(tmp_path, monkeypatch)]
    (tmp_path / "data" / h3.MODELS).write_text("\n\n".join(names))
    context = Context(data=DataFolder(tmp_path / "data"), cache=Cache(tmp_path / "cache"))
    added = h3._added(context)
    assert list(added) == names and all(len(network.ids) == 12 for network in added.values())
    again = hardsight.extract(run, images, tmp_path / "again", device="cpu")
    assert np.asarray(added[names[0]].features) == pytest.approx(np.asarray(again.features))
    assert [added[name].num_classes for name in names] == [2, 2, None]  # the last one knows ImageNet's classes, not these two
    assert np.asarray(added[names[2]].features).shape == (12, 1280)
    assert h3._added(Context()) == {}


def released_mobilenet(folder: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Random weights where torchvision keeps what it has downloaded."""
    import torch

    from hardsight.models import import_torchvision

    models, checkpoints = import_torchvision().models, folder / "torch" / "hub" / "checkpoints"
    checkpoints.mkdir(parents=True)
    torch.save(models.mobilenet_v2().state_dict(), checkpoints / Path(models.MobileNet_V2_Weights.DEFAULT.url).name)
    monkeypatch.setenv("TORCH_HOME", str(folder / "torch"))
    return "torchvision:mobilenet_v2"
