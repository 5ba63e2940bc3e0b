"""avh/h3: scores by families on small networks whose numbers are known, fewer classes, and networks that the user names."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from hardsight import Head, Snapshot, score
from hardsight.stats import spearman
from hardsight_papers.avh import h3
from hardsight_papers.avh.h3 import Judged

RNG = np.random.default_rng(0)
N, C = 300, 40
WEIGHT = RNG.normal(size=(C, 12))
LABELS = np.arange(N) % C
NETWORK = Snapshot(WEIGHT[LABELS] + 1.2 * RNG.normal(size=(N, 12)), Head("linear", WEIGHT, RNG.normal(size=C)), LABELS)
GAP = score(NETWORK, scores="angular_gap")["angular_gap"].to_numpy()
FREQUENCY = np.clip(0.5 - GAP + 0.3 * RNG.normal(size=N), 0, 1)  # people who mind the nearest competitor
JUDGED = Judged("made up", {"net": NETWORK}, FREQUENCY, np.arange(N), 0.9)


def test_own_logit_and_signs() -> None:
    """Every column is high where it is hard, and the own logit is that of the head."""
    columns = h3._columns(NETWORK)
    assert NETWORK.features is not None and NETWORK.head is not None
    own = NETWORK.head.logits(NETWORK.features)[np.arange(N), LABELS]
    assert columns["own_logit"] == pytest.approx(-own, abs=1e-5)
    assert all(spearman(columns[name], columns["angular_gap"]) > 0.3 for name in ("confidence", "logit_margin", "avh", "loss"))


def test_with_all_classes_nothing_is_restricted() -> None:
    columns, all_of_them = h3._columns(NETWORK), h3.restricted(NETWORK, C + 1, seed=0)
    for name in ("avh", "angular_gap", "loss", "logit_margin"):
        assert all_of_them[name] == pytest.approx(columns[name], rel=1e-4, abs=1e-5), name
    few = h3.restricted(NETWORK, 10, seed=0)  # fewer rivals: the nearest of them is no nearer
    assert (few["logit_margin"] <= all_of_them["logit_margin"] + 1e-9).all() and (few["avh"] > all_of_them["avh"]).all()


def test_coefficients_are_spearmans_and_effects_are_their_differences() -> None:
    columns = h3._columns(NETWORK)
    values, draws = h3._draws(columns, JUDGED, seed=0)
    assert values[list(columns).index("avh")] == pytest.approx(spearman(columns["avh"], -FREQUENCY))
    assert draws.shape == (h3.REPLICATES, len(columns))
    value, low, high = h3._effects(columns, JUDGED, 0)["nearest instead of all, angle"]
    assert value == pytest.approx(spearman(columns["angular_gap"], -FREQUENCY) - spearman(columns["avh"], -FREQUENCY))
    assert low < value < high


def test_outcome(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where people mind the competitor, the claim about it holds, and that AVH is enough does not."""
    monkeypatch.setattr(h3, "_judged", lambda context: [JUDGED])
    context: Any = SimpleNamespace(seed=0)
    outcome = h3.hypothesis_3(context)
    verdicts = {claim.text: claim.verdict for claim in outcome.claims}
    assert verdicts["The nearest competitor adds to the angle."] == "holds"
    assert verdicts["AVH agrees with people more than confidence (hypothesis 3)."] != "holds"
    assert [table.title for table in outcome.tables][-1] == "By number of classes"
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
