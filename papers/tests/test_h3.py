"""avh/h3: scores by families on a small network with known numbers, fewer and joined classes, networks that the user names."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from hardsight import Head, Snapshot, score
from hardsight.stats import spearman
from hardsight_papers.avh import h3
from hardsight_papers.avh.class_tables import ClassTables, margins_without_norms
from hardsight_papers.avh.h3 import Judged

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
    context: Any = SimpleNamespace(seed=0)
    outcome = h3.hypothesis_3(context)
    verdicts = {claim.text: claim.verdict for claim in outcome.claims}
    assert verdicts["The nearest competitor adds to the angle."] == "holds"
    assert verdicts["AVH agrees with people more than confidence (hypothesis 3)."] == "does not hold"
    titles = [table.title for table in outcome.tables]
    assert titles[-2:] == ["With fewer classes, drawn at random", "From the logit margin to the angular gap"]
    assert len(outcome.figures) == 1 and "made up" in outcome.about


def test_networks_that_the_user_names(tmp_path: Path) -> None:
    (tmp_path / h3.MODELS).write_text("timm:tiny_a\n\ntimm:tiny_b\n")
    asked: list[Any] = []

    def extract(name: str, images: Path, **settings: Any) -> str:
        asked.append((name, images, settings))
        return name

    data = SimpleNamespace(directory=tmp_path, require=lambda *_: tmp_path / "images.tar")
    context: Any = SimpleNamespace(data=data, extract=extract)
    assert list(h3._added(context)) == ["timm:tiny_a", "timm:tiny_b"]
    assert asked[0] == ("timm:tiny_a", tmp_path / "images.tar", {"pretrained": True})
    context.data = SimpleNamespace(directory=None)
    assert h3._added(context) == {}
