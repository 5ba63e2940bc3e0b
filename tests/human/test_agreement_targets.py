"""`correlate` against levels of degradation and other columns, over several models, passes and epochs."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from scipy import stats as scipy_stats
from scipy.special import softmax

import hardsight
from agreement_data import (
    COUNTS,
    FEATURES,
    FEW,
    FREQUENCY,
    IDS,
    LABELS,
    NOISE,
    SNAPSHOT,
    TABLE,
    WEIGHT,
    C,
    N,
    degraded,
    single,
)
from hardsight import Snapshot, correlate, stats
from hardsight.errors import InputError


def test_levels_of_degradation_by_kind_with_whole_images_drawn() -> None:
    table = degraded()
    found = correlate(table, against="level", scores="avh,norm", **FEW)
    assert [(one.target.key, one.target.words, one.target.hard, one.n) for one in found.agreements] == [
        ("contrast", "contrast level", "low", 3 * N),
        ("noise", "noise level", "high", 2 * N),
    ]
    assert single(found, "avh", target="contrast")["agreement"] > 0.2 and single(found, "avh", target="contrast")["raw"] < 0
    assert single(found, "avh", target="noise")["raw"] > 0
    assert any("copies of the same images" in note for note in found.notes)
    rows = np.flatnonzero(np.array(table.column("degradation").to_pylist()) == "contrast")
    x, y = -table.column("avh").to_numpy()[rows], table.column("level").to_numpy()[rows]
    alone = stats.bootstrap(x[:, None], y, replicates=40, clusters=np.tile(np.arange(N), 3))
    assert single(found, "avh", target="contrast")["bootstrap_low"] == pytest.approx(alone.interval("spearman", 0)[0])


def test_people_judge_the_image_that_copies_were_made_of() -> None:
    table = degraded()
    found = correlate(table, {"id": IDS, "frequency": FREQUENCY}, scores="avh", **FEW)
    assert found.agreement().n == 5 * N
    assert found.agreement().values.tolist() == np.tile(FREQUENCY, 5).tolist()
    assert correlate(table, FREQUENCY, scores="avh", **FEW).agreement().values.tolist() == found.agreement().values.tolist()
    groups = found.within("level").to_pylist()
    assert [row["group"] for row in groups] == ["0.2", "0.6", "1.0", "0.0", "0.3"]
    neutral = next(row for row in groups if row["group"] == "1.0")
    assert neutral["agreement"] == pytest.approx(-scipy_stats.spearmanr(TABLE.column("avh").to_numpy(), FREQUENCY).statistic)


def test_any_numeric_column_is_a_target() -> None:
    table = TABLE.append_column("noise", [NOISE])
    found = correlate(table, against="noise", scores="avh", **FEW)
    assert single(found, "avh", target="noise")["agreement"] > 0.4
    easy = correlate(table, against="noise", hard="low", scores="avh", **FEW)
    assert single(easy, "avh", target="noise")["agreement"] == -single(found, "avh", target="noise")["agreement"]


def test_models_side_by_side_make_an_ensemble() -> None:
    other = Snapshot(FEATURES, WEIGHT + 0.3 * np.random.default_rng(1).normal(size=WEIGHT.shape), LABELS, ids=IDS)
    found = correlate({"one": SNAPSHOT, "two": other}, COUNTS, **FEW)
    assert [one.model for one in found.main] == ["one", "two", "ensemble"]
    probs = np.stack([softmax(FEATURES @ s.head.weight.T, axis=1) for s in (SNAPSHOT, other)])  # type: ignore[union-attr]
    variance = probs.var(0).sum(1)
    assert found.agreement("ensemble").single("passes_variance")["raw"] == pytest.approx(
        scipy_stats.spearmanr(variance, FREQUENCY).statistic, abs=1e-4
    )
    rows = {(row["model"], row["score"]): row for row in found.tables()["models"].to_pylist()}
    assert rows["one", "avh"]["mean"] == pytest.approx(np.mean(TABLE.column("avh").to_numpy()))
    assert rows["one", "avh"]["accuracy"] == pytest.approx(np.mean(TABLE.column("predicted").to_numpy() == LABELS))
    assert not any(row["model"] == "ensemble" for row in found.tables()["hypotheses"].to_pylist())


def test_models_with_text_and_integer_ids_are_joined_as_text() -> None:
    text = Snapshot(FEATURES, WEIGHT, LABELS, ids=[str(row) for row in range(N)])
    mixed = np.random.default_rng(1).permutation(N)
    numbers = Snapshot(FEATURES[mixed], 0.5 * WEIGHT, LABELS[mixed], ids=mixed)
    by_id = {"id": np.arange(N), "counts": list(COUNTS)}
    found = correlate({"run": text, "arrays": numbers}, by_id, **FEW)
    assert [agreement.model for agreement in found.main] == ["run", "arrays", "ensemble"]
    assert found.agreement("arrays").ids.tolist() == [str(row) for row in mixed]
    probs = np.stack([softmax(scale * FEATURES @ WEIGHT.T, axis=1) for scale in (1, 0.5)])
    expected = scipy_stats.spearmanr(probs.var(0).sum(1), FREQUENCY).statistic
    assert found.agreement("ensemble").single("passes_variance")["raw"] == pytest.approx(expected, abs=1e-4)


@pytest.mark.parametrize(
    ("other", "why"),
    [
        (TABLE, "no ensemble: two has no logits"),
        (SNAPSHOT.take(np.arange(N - 3)), "3 of the 300 samples of one are not in two, whose ids look like 'img-000'.*'img-297'"),
        (
            Snapshot(FEATURES, WEIGHT, LABELS),
            "300 samples of one are not in two, whose ids look like '0'; the first is 'img-000'",
        ),
        (Snapshot(FEATURES, np.vstack([WEIGHT, [WEIGHT[0]]]), LABELS, ids=IDS), "two has 5 classes, one has 4"),
        (Snapshot(np.where(np.arange(N)[:, None] == 3, np.nan, FEATURES), WEIGHT, LABELS, ids=IDS), "without finite logits"),
    ],
    ids=["table", "fewer", "other ids", "classes", "nonfinite"],
)
def test_an_absent_ensemble_is_explained(other: Any, why: str) -> None:
    human = COUNTS if len(other) == N else {"id": IDS, "counts": list(COUNTS)}
    found = correlate({"one": SNAPSHOT, "two": other}, human, allow_missing=True, **FEW)
    assert [model.name for model in found.models] == ["one", "two"] and re.search(why, found.notes[0])


def test_passes_become_scores(tmp_path: Path) -> None:
    rng = np.random.default_rng(3)
    logits = FEATURES @ WEIGHT.T
    probs = softmax(logits + 0.5 * rng.normal(size=(5, N, C)), axis=2)
    np.save(tmp_path / "passes.npy", probs)
    for source in (probs, tmp_path / "passes.npy", [tmp_path / "passes.npy"]):
        found = correlate(SNAPSHOT, COUNTS, passes=source, **FEW)
        assert single(found, "passes_variance")["raw"] == pytest.approx(
            scipy_stats.spearmanr(probs.var(0).sum(1), FREQUENCY).statistic
        )
    members = [Snapshot(probs=one, labels=LABELS, ids=IDS) for one in probs]
    again = correlate(SNAPSHOT, COUNTS, passes=members, **FEW)
    assert single(again, "passes_entropy")["raw"] == pytest.approx(single(found, "passes_entropy")["raw"], abs=1e-4)
    for bad, match in (
        (probs[:, :-1], "299 samples"),
        (probs[:1], "at least two"),
        ([Snapshot(probs=probs[0], labels=LABELS)] * 2, "samples of model are not in"),
    ):
        with pytest.raises(InputError, match=match):
            correlate(SNAPSHOT, COUNTS, passes=bad, **FEW)


def test_epochs(correlations: hardsight.human.Correlations) -> None:
    tables = {}
    for epoch in range(3):  # from noise to the table; with samples that people have not seen
        noisy = TABLE.column("avh").to_numpy() + (2 - epoch) * np.random.default_rng(epoch).normal(size=N)
        seen = pa.table({"id": IDS, "label": LABELS, "avh": noisy, "norm": TABLE.column("norm")})
        unseen = pa.table({"id": ["train-1"], "label": [0], "avh": [0.5], "norm": [1.0]})
        tables[f"{epoch}"] = pa.concat_tables([seen, unseen])
    told = correlate(SNAPSHOT, COUNTS, epoch_tables=tables, **FEW).tables()["checkpoints"].to_pylist()
    avh = [row for row in told if row["score"] == "avh"]
    assert [row["model"] for row in avh] == ["0", "1", "2"] and {row["n"] for row in avh} == {N}
    assert (
        avh[2]["agreement"] == pytest.approx(single(correlations, "avh")["agreement"])
        and avh[0]["agreement"] < avh[2]["agreement"]
    )
