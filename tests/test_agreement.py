"""`correlate` on data made here: signs by hand, joins, every form of human data, and what the tables say."""

from __future__ import annotations

import json
import math
import os
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from scipy import stats as scipy_stats
from scipy.special import softmax

import hardsight
from hardsight import InputError, Snapshot, correlate, stats
from hardsight.agreement import CorrelateSettings, StudySettings, read_people, study
from hardsight.agreement.correlations import prepare
from hardsight.agreement.granularity import coarse_people, read_superclasses
from hardsight.agreement.latex import pairs, table1
from hardsight.errors import FileError
from hardsight.files.class_names import read_class_names
from hardsight.files.columns import read_columns
from hardsight.files.dynamics import COLUMNS
from hardsight.files.latex import escaped
from hardsight.plots.agreement import count_colours, side_by_side

FEW: dict[str, Any] = {"replicates": 40, "permutations": 40, "splits": 5}
N, C, D = 300, 4, 8
RNG = np.random.default_rng(0)
WEIGHT = RNG.normal(size=(C, D))
LABELS = RNG.integers(0, C, N)
NOISE = RNG.uniform(0.2, 2.0, N)  # how hard each sample is made
FEATURES = WEIGHT[LABELS] + NOISE[:, None] * RNG.normal(size=(N, D))
IDS = np.array([f"img-{i:03d}" for i in range(N)])
CHANCE = np.clip(1.1 - NOISE / 2.2, 0.05, 0.98)  # people find noisy ones hard too
COUNTS = np.stack(
    [RNG.multinomial(20, np.where(np.arange(C) == y, p, (1 - p) / (C - 1))) for y, p in zip(LABELS, CHANCE, strict=True)]
)
FREQUENCY = COUNTS[np.arange(N), LABELS] / 20
SNAPSHOT = Snapshot(FEATURES, WEIGHT, LABELS, ids=IDS, class_names=["ant", "bee", "cat", "dog"])
TABLE = hardsight.score(SNAPSHOT).arrow


def single(
    found: hardsight.Correlations, score: str, kind: str = "spearman", part: str = "all", target: str = "frequency"
) -> Any:
    rows = found.table1().to_pylist()
    keys = {"score": score, "kind": kind, "bin": part, "target": target}
    (row,) = [row for row in rows if all(row[key] == value for key, value in keys.items())]
    return row


@pytest.fixture(scope="module")
def found() -> hardsight.Correlations:
    return correlate(SNAPSHOT, COUNTS, **FEW)


# ---- Table 1 ----


def test_coefficients_are_scipys_and_signs_say_whether_people_agree(found: hardsight.Correlations) -> None:
    oracle = {"spearman": scipy_stats.spearmanr, "pearson": scipy_stats.pearsonr, "kendall": scipy_stats.kendalltau}
    for name in ("avh", "confidence", "loss", "entropy", "norm", "angular_gap"):
        for kind, function in oracle.items():
            row = single(found, name, kind)
            raw = function(TABLE.column(name).to_numpy(), FREQUENCY).statistic
            assert row["raw"] == pytest.approx(raw, abs=1e-12)
            sign = 1 if hardsight.SCORES[name].hard == "low" else -1  # a low frequency is hard
            assert row["agreement"] == pytest.approx(sign * raw, abs=1e-12)
            assert row["low"] < row["agreement"] < row["high"] and row["n"] == N and row["reason"] is None
            assert row["fisher_z"] == pytest.approx(math.atanh(row["agreement"]))
    assert single(found, "avh")["agreement"] > 0.4 and single(found, "avh")["raw"] < -0.4
    entropy = single(found, "avh", target="entropy")
    assert entropy["raw"] == pytest.approx(
        scipy_stats.spearmanr(TABLE.column("avh").to_numpy(), stats.answer_entropy(COUNTS)).statistic
    )
    assert entropy["agreement"] == entropy["raw"]


def test_bins_count_every_sample_once_and_state_their_edges(found: hardsight.Correlations) -> None:
    parts = ["[0, 0.2)", "[0.2, 0.4)", "[0.4, 0.6)", "[0.6, 0.8)", "[0.8, 1]"]
    edges = np.array([0, 0.2, 0.4, 0.6, 0.8, 1.0])
    expected = [int(((FREQUENCY >= low) & (FREQUENCY < high)).sum()) for low, high in zip(edges[:-1], edges[1:], strict=True)]
    expected[-1] += int((FREQUENCY == 1).sum())
    assert [single(found, "avh", part=part)["n"] for part in parts] == expected and sum(expected) == N
    inside = (FREQUENCY >= 0.6) & (FREQUENCY < 0.8)
    raw = scipy_stats.spearmanr(TABLE.column("avh").to_numpy()[inside], FREQUENCY[inside]).statistic
    assert single(found, "avh", part="[0.6, 0.8)")["raw"] == pytest.approx(raw)
    own = correlate(SNAPSHOT, COUNTS, bins=[0, 0.5, 1], **FEW)
    assert {row["bin"] for row in own.table1().to_pylist() if row["target"] == "frequency"} == {"all", "[0, 0.5)", "[0.5, 1]"}


def test_the_norm_is_there_raw_and_within_its_class(found: hardsight.Correlations) -> None:
    inside = hardsight.norm_in_class(FEATURES, LABELS)
    assert single(found, "norm_in_class")["raw"] == pytest.approx(scipy_stats.spearmanr(inside, FREQUENCY).statistic)
    assert single(found, "norm")["raw"] == pytest.approx(
        scipy_stats.spearmanr(TABLE.column("norm").to_numpy(), FREQUENCY).statistic
    )


def test_the_share_of_the_ceiling(found: hardsight.Correlations) -> None:
    ceiling = stats.noise_ceiling(COUNTS, LABELS, kind="pearson", splits=5)
    row = single(found, "avh", "pearson")
    assert row["share_of_ceiling"] == pytest.approx(row["agreement"] / ceiling.ceiling)
    told = found.ceilings().to_pylist()
    assert {(row["target"], row["kind"]) for row in told} == {
        (t, k) for t in ("frequency", "entropy") for k in ("spearman", "pearson", "kendall")
    }


# ---- pairs and hypotheses ----


def test_pairs_are_the_tests_of_their_coefficients(found: hardsight.Correlations) -> None:
    rows = found.pairs().to_pylist()
    assert len(rows) == 3 * 21 and {row["target"] for row in rows} == {"frequency"}
    for row in rows:
        a, b, c = row["r_first"], row["r_second"], row["r_between"]
        assert row["difference"] == pytest.approx(a - b)
        assert row["independent_z"] == pytest.approx(stats.fisher_test(a, b, N).statistic)
        if row["reason"] is None:
            assert row["williams_t"] == pytest.approx(stats.williams(a, b, c, N).statistic)
            assert row["steiger_p_greater"] == pytest.approx(stats.steiger(a, b, c, N).p_greater)
            assert row["meng_p"] == pytest.approx(stats.meng(a, b, c, N).p)
            assert (row["zou_low"], row["zou_high"]) == pytest.approx(stats.zou(a, b, c, N))
        assert row["trusted"] == ("jackknife" if row["kind"] == "kendall" else "bootstrap")
        assert row["trusted_low"] <= row["difference"] <= row["trusted_high"] or abs(row["difference"]) < 0.02
    np.testing.assert_allclose([row["holm_p"] for row in rows], stats.holm([row["trusted_p"] for row in rows]))
    (one,) = [row for row in rows if (row["kind"], row["first"], row["second"]) == ("spearman", "avh", "norm")]
    between = scipy_stats.spearmanr(-TABLE.column("avh").to_numpy(), TABLE.column("norm").to_numpy()).statistic
    assert one["r_between"] == pytest.approx(between)
    assert one["verdict"] == "avh agrees more" and one["permutation_p"] == pytest.approx(1 / 41)
    assert "bootstrap" in found.trust and "independent" in found.trust


def test_holm_runs_over_all_models() -> None:
    both = correlate({"one": TABLE, "two": TABLE.slice(0)}, COUNTS, scores="avh,confidence,norm", **FEW)
    rows = both.pairs().to_pylist()
    assert len(rows) == 2 * 3 * 3
    np.testing.assert_allclose([row["holm_p"] for row in rows], stats.holm([row["trusted_p"] for row in rows]))


def verdicts(found: hardsight.Correlations) -> dict[tuple[str, str], Any]:
    return {(row["model"], row["hypothesis"]): row for row in found.hypotheses().to_pylist()}


def made(n: int = 400, seed: int = 0, **how: tuple[float, float]) -> tuple[pa.Table, np.ndarray]:
    """A table of scores with known agreement: each is weight * easiness + spread * noise, turned to its own hard end."""
    rng = np.random.default_rng(seed)
    easy = rng.uniform(0, 1, n)
    columns: dict[str, Any] = {"id": np.arange(n), "label": np.zeros(n, int), "predicted": np.zeros(n, int)}
    for name, (weight, spread) in how.items():
        values = weight * easy + spread * rng.normal(size=n)
        columns[name] = values if hardsight.SCORES[name].hard == "low" else -values
    return pa.table(columns), easy


def test_hypotheses_get_the_verdict_the_data_was_made_for() -> None:
    table, easy = made(avh=(1, 0.2), confidence=(1, 1.0), norm_in_class=(0, 1))
    told = verdicts(correlate({"m": table}, easy, **FEW))
    assert [told["m", key]["verdict"] for key in ("H1", "H2", "H3", "H4")] == ["null rejected"] * 3 + ["null not rejected"]
    assert told["m", "H3"]["effect"] > 0.2 and told["m", "H3"]["low"] > 0
    assert told["all", "D5"]["verdict"] == "not tested"
    table, easy = made(avh=(1, 1.0), confidence=(1, 0.2), norm_in_class=(-1, 0.3))
    told = verdicts(correlate({"m": table}, easy, **FEW))
    assert told["m", "H3"]["verdict"] == "null rejected, the other way" and told["m", "H3"]["high"] < 0
    assert told["m", "H4"]["verdict"] == "null rejected, the other way" and "easy by this score" in told["m", "H4"]["note"]
    table, easy = made(avh=(1, 0.5))
    told = verdicts(correlate({"m": table}, easy, **FEW))
    assert told["m", "H2"]["note"] == "there is no confidence" and told["m", "H3"]["verdict"] == "not tested"


def test_discovery_5_over_models() -> None:
    one, easy = made(avh=(1, 0.5), norm_in_class=(1, 0.3))
    other, _ = made(avh=(1, 0.5), norm_in_class=(-1, 0.3))
    assert verdicts(correlate({"a": one, "b": other}, easy, **FEW))["all", "D5"]["verdict"] == "holds: the sign changes"
    weaker, _ = made(avh=(1, 0.5), norm_in_class=(1, 3.0))
    assert verdicts(correlate({"a": one, "b": weaker}, easy, **FEW))["all", "D5"]["verdict"] == "holds: the size changes"
    again = verdicts(correlate({"a": one, "b": one}, easy, **FEW))["all", "D5"]
    assert again["verdict"].startswith("does not hold here") and "over 2 models" in again["note"]


# ---- joining ----


def test_ids_join_in_any_order(found: hardsight.Correlations) -> None:
    order = np.random.default_rng(1).permutation(N)
    shuffled = pa.table({"id": IDS[order], "frequency": FREQUENCY[order]})
    by_id = correlate(TABLE, shuffled, scores="avh", **FEW)
    by_order = correlate(TABLE, FREQUENCY, scores="avh", **FEW)
    assert single(by_id, "avh") == single(by_order, "avh")
    assert single(by_id, "avh")["raw"] == single(found, "avh")["raw"]


def human_forms(folder: Path) -> dict[str, Any]:
    """The same answers in every form that is read."""
    np.save(folder / "counts.npy", COUNTS)
    frame = pd.DataFrame({"id": IDS, **{str(k): COUNTS[:, k] for k in range(C)}})
    frame.to_csv(folder / "indices.csv", index=False)
    named = frame.rename(columns={str(k): name for k, name in enumerate(["ant", "bee", "cat", "dog"])})
    named[["id", "dog", "cat", "bee", "ant"]].to_csv(folder / "names.csv", index=False)
    pq.write_table(pa.table({"id": IDS, "counts": list(COUNTS)}), folder / "lists.parquet")
    rows = [(i, f"person {a}", k) for i in range(N) for a, k in enumerate(np.repeat(np.arange(C), COUNTS[i]))]
    RNG.shuffle(rows)
    answers = pd.DataFrame(
        {"id": [IDS[i] for i, _, _ in rows], "annotator": [a for _, a, _ in rows], "answer": [k for *_, k in rows]}
    )
    answers.to_csv(folder / "answers.csv", index=False)
    answers.assign(answer=[["ant", "bee", "cat", "dog"][k] for k in answers["answer"]]).to_parquet(folder / "answers.parquet")
    (folder / "rows.json").write_text(json.dumps([{"id": i, "counts": row.tolist()} for i, row in zip(IDS, COUNTS, strict=True)]))
    (folder / "by_id.json").write_text(json.dumps({i: row.tolist() for i, row in zip(IDS, COUNTS, strict=True)}))
    (folder / "lists.json").write_text(json.dumps(COUNTS.tolist()))
    return {path.name: path for path in folder.iterdir()} | {
        "array": COUNTS,
        "frame": frame,
        "arrow": pa.table({"id": IDS, "counts": list(COUNTS)}),
    }


def test_every_form_of_counts_says_the_same(tmp_path: Path, found: hardsight.Correlations) -> None:
    forms = human_forms(tmp_path)
    assert len(forms) == 12
    for name, source in forms.items():
        again = correlate(SNAPSHOT, source, scores="avh", **FEW)
        assert single(again, "avh")["agreement"] == pytest.approx(single(found, "avh")["agreement"]), name
        assert single(again, "avh", target="entropy")["n"] == N, name
        assert single(again, "avh")["share_of_ceiling"] == pytest.approx(single(found, "avh")["share_of_ceiling"], abs=0.05), name


def test_forms_of_frequency(tmp_path: Path) -> None:
    np.save(tmp_path / "f.npy", FREQUENCY)
    pd.DataFrame({"id": IDS, "frequency": FREQUENCY, "answers": 20}).to_csv(tmp_path / "f.csv", index=False)
    (tmp_path / "f.json").write_text(json.dumps(dict(zip(IDS.tolist(), FREQUENCY.tolist(), strict=True))))
    expected = single(correlate(TABLE, FREQUENCY, scores="avh", **FEW), "avh")
    for name in ("f.npy", "f.csv", "f.json"):
        row = single(correlate(TABLE, tmp_path / name, scores="avh", **FEW), "avh")
        assert row["agreement"] == pytest.approx(expected["agreement"])
        assert (row["share_of_ceiling"] is not None) == (name == "f.csv")  # a ceiling needs the number of people
    reasons = correlate(TABLE, FREQUENCY, scores="avh", **FEW).ceilings().column("reason").to_pylist()
    assert all("needs counts, or the number of answers" in reason for reason in reasons)


def test_integer_ids_join_with_the_text_of_a_csv(tmp_path: Path) -> None:
    table, easy = made(avh=(1, 0.5))
    pd.DataFrame({"id": np.arange(400), "frequency": easy}).sample(frac=1, random_state=0).to_csv(tmp_path / "f.csv", index=False)
    assert single(correlate(table, tmp_path / "f.csv", **FEW), "avh") == single(correlate(table, easy, **FEW), "avh")


def test_a_pandas_index_is_an_id() -> None:
    table, easy = made(avh=(1, 0.5))
    row = single(correlate(table, easy, **FEW), "avh")
    mixed = table.to_pandas().drop(columns="id").sample(frac=1, random_state=0)
    for human in (pd.Series(easy), pd.DataFrame({"frequency": easy}), pd.Series(easy).sample(frac=1, random_state=1)):
        for model in (table, mixed):
            assert single(correlate(model, human, **FEW), "avh")["raw"] == pytest.approx(row["raw"])
    named = mixed.set_axis([f"i{i}" for i in mixed.index])
    human = pd.Series(easy, index=[f"i{i}" for i in range(400)])
    assert single(correlate(named, human, **FEW), "avh")["raw"] == pytest.approx(row["raw"])
    with pytest.raises(InputError, match=r"samples have no human data \(the first: 'i.*human ids are not .* \(the first: 'j0'\)"):
        correlate(named, human.set_axis([f"j{i}" for i in range(400)]), **FEW)


def test_models_come_as_paths_of_every_kind(tmp_path: Path, found: hardsight.Correlations) -> None:
    from hardsight.table import write_table

    SNAPSHOT.save(tmp_path / "snapshot.npz")
    for ending in ("parquet", "csv", "json"):
        write_table(TABLE, tmp_path / f"scores.{ending}")
    for path in tmp_path.iterdir():
        again = correlate(path, COUNTS, scores=["avh", "norm_in_class"], **FEW)
        assert single(again, "avh")["agreement"] == pytest.approx(single(found, "avh")["agreement"]), path.name
        assert again.of().model == path.stem
    frame = correlate(TABLE.to_pandas(), COUNTS, scores="avh", **FEW)
    assert single(frame, "avh")["agreement"] == single(found, "avh")["agreement"]


def test_samples_that_one_side_lacks() -> None:
    fewer = {"id": [*IDS[5:].tolist(), "stranger"], "frequency": [*FREQUENCY[5:], 0.5]}
    with pytest.raises(InputError, match=r"5 of 300 samples have no human data \(the first: 'img-000'\) and 1 of 296 human ids"):
        correlate(TABLE, fewer, **FEW)
    some = correlate(TABLE, fewer, scores="avh", allow_missing=True, **FEW)
    assert single(some, "avh")["n"] == N - 5
    assert single(some, "avh")["raw"] == pytest.approx(
        scipy_stats.spearmanr(TABLE.column("avh").to_numpy()[5:], FREQUENCY[5:]).statistic
    )
    with pytest.raises(InputError, match="no human id is among the samples; its ids look like 'x'"):
        correlate(TABLE, {"id": ["x", "y"], "frequency": [0.1, 0.2]}, allow_missing=True, **FEW)
    with pytest.raises(InputError, match="one row per sample in the same order, got 299 rows for 300 samples"):
        correlate(TABLE, FREQUENCY[1:], **FEW)


def test_first_takes_the_first_samples_of_either_join() -> None:
    expected = scipy_stats.spearmanr(TABLE.column("avh").to_numpy()[:50], FREQUENCY[:50]).statistic
    for human in (COUNTS, {"id": IDS[::-1], "frequency": FREQUENCY[::-1]}):
        some = correlate(SNAPSHOT, human, scores="avh", first=50, **FEW)
        assert single(some, "avh")["n"] == 50 and single(some, "avh")["raw"] == pytest.approx(expected)


# ---- bad input: a clear message, or a null with its reason; never a silent NaN ----


@pytest.mark.parametrize(
    ("human", "match"),
    [
        (np.where(np.eye(N, C) > 0, -1, COUNTS), "counts must be 0 or more, but row 0 has -1 for class 0"),
        (COUNTS / 20, "counts must be whole numbers, but row"),
        (np.where(np.eye(N, C) > 0, np.nan, COUNTS), "counts must be finite, but row 0"),
        (np.where(np.arange(N) == 7, 1.5, FREQUENCY), "between 0 and 1, but 1 of 300 are not; row 7 holds 1.5"),
        (COUNTS[:, 0] + 2, "If these are counts"),
        (-FREQUENCY, "between 0 and 1"),
        (np.zeros((N, C), int), "no sample has selection frequency"),
        (COUNTS[:, :2], "counts have 2 classes, but labels go up to 3"),
        (COUNTS[None], r"got shape \(1, 300, 4\)"),
        (np.array(["a"] * N), "must be numbers"),
        ({"id": [*IDS[:-1], IDS[0]], "frequency": FREQUENCY}, "ids must be unique, but 'img-000' is at rows 0 and 299"),
        ({"id": IDS, "Frequency": FREQUENCY}, "'Frequency' must be named 'frequency'"),
        ({"id": IDS, "frequency": FREQUENCY[:-1]}, "of one length"),
        ({"id": IDS}, "there is no human data here"),
        ({"id": IDS, "mood": FREQUENCY}, "'mood'"),
        ({"id": IDS, "frequency": ["often"] * N}, "must hold numbers"),
        ({"id": IDS, "frequency": FREQUENCY, "answers": [2.5] * N}, "whole numbers of people; row 0 holds 2.5"),
        ({"id": IDS, "frequency": [0.33] * N, "answers": [2] * N}, "some of the answers over all of them"),
        ({"id": ["a", "a"], "annotator": [1, 1], "answer": [0, 1]}, "annotator 1 answered twice about id 'a': rows 0 and 1"),
        ({"id": ["a"], "annotator": [1], "answer": ["mouse"]}, "class index or a class name, but row 0 holds 'mouse'"),
        ({"id": ["a"], "answer": [1]}, "annotator is missing"),
        ({"id": [], "annotator": [], "answer": []}, "no answers"),
        ({"id": ["a"], "annotator": [["ann"]], "answer": [0]}, r"must be a name or a number, but row 0 holds \['ann'\]"),
        ({"id": ["a"], "annotator": [1], "answer": [2**24]}, "a class index below 16777216, but row 0 holds 16777216"),
        ({"id": range(99), "annotator": [1] * 99, "answer": [0] * 98 + [2**21]}, "but row 98 holds 2097152.*--class-names"),
        ({"id": ["a"], "annotator": [1], "answer": ["9" * 5000]}, "a class index below 16777216, but row 0 holds '9999"),
        ({"id": 3, "counts": [1, 2]}, "the column id must be a list with one value per row, got 3"),
        ({"id": "ab", "frequency": [1, 1]}, "the column id must be a list"),
        ({"id": IDS, "frequency": [10**400] * N}, "must hold numbers"),
        ({"id": IDS, "frequency": [[0.5, 0.5]] * N}, r"one number per row, got shape \(300, 2\)"),
        ([{"id": "a", "frequency": 1}, 7], "row 1 is 7"),
        (np.where(np.eye(N, C) > 0, 1e300, COUNTS), r"counts must be below 10\^9, but row 0 has 1e\+300 for class 0"),
        (np.full((N, C), 5 * 10**8), r"fewer than 10\^9 answers, but the counts of row 0 add up to 2e\+09"),
    ],
)  # fmt: skip
def test_human_data_that_is_refused(human: Any, match: str) -> None:
    with pytest.raises(InputError, match=match):
        correlate(TABLE, human, **FEW)


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"human": None}, "one of the two"),
        ({"against": "level"}, "one of the two"),
        ({"human": None, "against": "level"}, "no column 'level'"),
        ({"human": None, "against": "status"}, "must hold numbers"),
        ({"human": None, "against": "avh", "hard": "left"}, "hard must be one of low, high"),
        ({"scores": "hardness"}, "no score 'hardness'"),
        ({"bins": [0.5]}, "edges in rising order"),
        ({"bins": [0, 1, 0.5]}, "edges in rising order"),
        ({"level": 95}, "level must be a number above 0 and below 1, got 95"),
        ({"replicates": 3}, "replicates must be a whole number of 20 or more"),
        ({"limit": 0}, "limit must be a whole number of 1 or more"),
        ({"superclasses": {0: "a"}}, "every class needs a superclass; 3 have none"),
    ],
)
def test_options_that_are_refused(options: dict[str, Any], match: str) -> None:
    with pytest.raises(InputError, match=match):
        correlate(SNAPSHOT if "superclasses" in options else TABLE, **({"human": COUNTS} | FEW | options))


def test_duplicate_ids_and_empty_tables_are_refused() -> None:
    twice = pa.concat_tables([TABLE.slice(0, 2), TABLE.slice(1, 1)])
    with pytest.raises(InputError, match="ids must be unique, but 'img-001' is at rows 1 and 2"):
        correlate(twice, FREQUENCY[:3], **FEW)
    with pytest.raises(InputError, match="has no samples"):
        correlate(TABLE.slice(0, 0), [], **FEW)
    with pytest.raises(InputError, match="there is no model"):
        correlate([], FREQUENCY, **FEW)
    with pytest.raises(InputError, match="got int"):
        correlate(7, FREQUENCY, **FEW)


@pytest.mark.parametrize(
    ("name", "text", "match"),
    [
        ("deep.json", "[" * 200_000, "not readable as JSON"),
        ("scalar.json", '{"id": 3, "counts": [1, 2]}', "the column id must be a list"),
        ("list.json", '{"id": ["a"], "annotator": [["ann"]], "answer": [1]}', "row 0 holds"),
        ("far.json", '{"id": ["a"], "annotator": [1], "answer": [99999999999]}', "row 0 holds 99999999999"),
        ("far.csv", "id,annotator,answer\na,1,0\nb,1,99999999999\n", "row 1 holds 99999999999"),
        ("farther.json", '{"id": ["a"], "annotator": [1], "answer": [9223372036854775808]}', "row 0 holds 9223372036854775808"),
        ("many.json", '{"id": ["a"], "counts": [[1e300, 1]]}', "row 0 has 1e\\+300"),
    ],
)
def test_human_files_that_are_damaged(tmp_path: Path, name: str, text: str, match: str) -> None:
    (tmp_path / name).write_text(text)
    with pytest.raises((FileError, InputError), match=f"{name}: .*{match}"):
        read_people(tmp_path / name)


@pytest.mark.parametrize("name", ["x.json", "x.csv", "x.npy"])
def test_a_pipe_is_refused_and_not_waited_for(tmp_path: Path, name: str) -> None:
    os.mkfifo(tmp_path / name)
    with pytest.raises(FileError, match="is a pipe or a device, not a file"):
        read_people(tmp_path / name)
    with pytest.raises(FileError, match="is a pipe or a device, not a file"):
        read_class_names(tmp_path / name)


def test_files_that_are_not_there(tmp_path: Path) -> None:
    with pytest.raises(FileError, match=r"absent\.csv does not exist\.$"):
        read_columns(tmp_path / "absent.csv")
    with pytest.raises(FileError, match=r"is a directory, not a file\.$"):
        read_class_names(tmp_path)


def test_many_classes_with_names_are_no_mistake(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hardsight.files.human.MOST_COUNTS", 1000)
    answers = {"id": list(range(300)), "annotator": [1] * 300, "answer": [3] * 300}
    with pytest.raises(
        InputError, match="a class index below 3, but row 0 holds 3. If there are as many classes, give their names"
    ):
        read_people(answers)
    people = read_people(answers, ["ant", "bee", "cat", "dog"])
    assert people.counts is not None and people.counts.tolist() == [[0, 0, 0, 1]] * 300


def test_files_that_are_refused(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("1")
    (tmp_path / "a.json").write_text("{")
    for name, match in (
        ("a.txt", "read from .npy"),
        ("a.json", "not readable as JSON"),
        ("b.npy", "does not exist"),
        ("", "directory"),
    ):
        with pytest.raises(FileError, match=match):
            read_people(tmp_path / name)
    np.save(tmp_path / "c.npy", -COUNTS)
    with pytest.raises(InputError, match=r"c\.npy: counts must be 0 or more"):
        read_people(tmp_path / "c.npy")


def nulls(found: hardsight.Correlations) -> dict[tuple[str, str], str]:
    return {(row["score"], row["bin"]): row["reason"] for row in found.table1().to_pylist() if row["agreement"] is None}


def test_constant_columns_are_null_with_a_reason() -> None:
    table = TABLE.set_column(TABLE.column_names.index("avh"), "avh", [np.full(N, 0.3)])
    found = correlate(table, COUNTS, scores="avh,confidence,norm", **FEW)
    assert nulls(found)["avh", "all"] == "avh is the same for all 300 samples"
    assert single(found, "confidence")["agreement"] is not None
    assert {row["first"] for row in found.pairs().to_pylist()} == {"confidence"}
    same = correlate(TABLE, np.full(N, 0.9), scores="avh,confidence", **FEW)
    assert nulls(same)["avh", "all"] == "selection frequency is the same for all 300 samples"
    assert len(same.pairs()) == 0
    assert verdicts(same)["model", "H1"]["verdict"] == "not tested"
    empty = TABLE.set_column(TABLE.column_names.index("avh"), "avh", pa.nulls(N, pa.float64()))
    assert nulls(correlate(empty, COUNTS, scores="avh,norm", **FEW))["avh", "all"] == "avh has no value for any sample"


def test_bins_that_are_tied_or_small_are_null_with_a_reason() -> None:
    frequency = np.concatenate([[0.1, 0.15, 0.12], np.full(20, 0.5), np.linspace(0.81, 1, N - 23)])
    reasons = nulls(correlate(TABLE, frequency, scores="avh", **FEW))
    assert reasons["avh", "[0, 0.2)"].startswith("3 samples in [0, 0.2); a coefficient with an interval needs at least 4")
    assert reasons["avh", "[0.2, 0.4)"].startswith("0 samples")
    assert reasons["avh", "[0.4, 0.6)"] == "selection frequency is the same for all 20 samples in [0.4, 0.6)"
    assert ("avh", "all") not in reasons


def test_rows_without_numbers_are_left_out_and_counted() -> None:
    frequency, broken = FREQUENCY.copy(), TABLE.column("avh").to_numpy().copy()
    frequency[:3], broken[2:7] = np.nan, np.nan
    table = TABLE.set_column(TABLE.column_names.index("avh"), "avh", [broken])
    found = correlate(table, frequency, scores="avh,norm", **FEW)
    assert found.of().left_out == {"without selection frequency": 3, "without avh": 4} and found.of().n == N - 7
    assert single(found, "norm")["n"] == N - 7  # the same samples for all, so that they can be compared
    assert any("293 samples used; left out: 3 without" in note for note in found.notes)
    counts = COUNTS.copy()
    counts[:4] = 0  # nobody looked
    assert correlate(TABLE, counts, scores="avh", **FEW).of().left_out == {"without selection frequency": 4}


@pytest.mark.parametrize("n", [1, 2, 3])
def test_few_samples_are_null_with_a_reason(n: int) -> None:
    found = correlate(TABLE.slice(0, n), FREQUENCY[:n], scores="avh,norm", **FEW)
    assert nulls(found)["avh", "all"].startswith(f"{n} sample") and len(found.pairs()) == 0
    json.dumps(found.to_dict(), allow_nan=False)


def test_everything_can_be_said_in_json(found: hardsight.Correlations) -> None:
    told = json.loads(json.dumps(found.to_dict(), allow_nan=False))
    assert told["seed"] == 0 and len(told["table1"]) == len(found.table1()) and told["targets"][0]["hard"] == "low"


def test_equal_scores_have_no_test_but_a_reason() -> None:
    table, easy = made(avh=(1, 0.5))
    table = table.append_column("own_angle", table.column("avh"))
    rows = correlate(table, easy, scores="avh,own_angle", **FEW).pairs().to_pylist()
    assert all(row["williams_t"] is None and "order the samples alike" in row["reason"] for row in rows)
    assert all(row["verdict"] == "no difference shown" and row["trusted_p"] == 1 for row in rows)


# ---- other targets, several models, passes ----


def degraded() -> pa.Table:
    parts = []
    for kind, levels in (("contrast", (0.2, 0.6, 1.0)), ("noise", (0.0, 0.3))):
        for level in levels:
            amount = (1 - level) if kind == "contrast" else level
            features = FEATURES + 2 * amount * np.random.default_rng(int(10 * level)).normal(size=(N, D))
            table = hardsight.score(features, WEIGHT, LABELS, ids=[f"{one}#{kind}={level}" for one in IDS]).arrow
            table = table.append_column("base_id", [IDS.tolist()]).append_column("degradation", [[kind] * N])
            parts.append(table.append_column("level", [[level] * N]))
    return pa.concat_tables(parts)


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
    assert found.of().n == 5 * N
    assert found.of().values.tolist() == np.tile(FREQUENCY, 5).tolist()
    assert correlate(table, FREQUENCY, scores="avh", **FEW).of().values.tolist() == found.of().values.tolist()
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
    other = Snapshot(FEATURES, WEIGHT + 0.3 * RNG.normal(size=WEIGHT.shape), LABELS, ids=IDS)
    found = correlate({"one": SNAPSHOT, "two": other}, COUNTS, **FEW)
    assert [one.model for one in found.main] == ["one", "two", "ensemble"]
    probs = np.stack([softmax(FEATURES @ s.head.weight.T, axis=1) for s in (SNAPSHOT, other)])  # type: ignore[union-attr]
    variance = probs.var(0).sum(1)
    assert single_of(found, "ensemble", "passes_variance")["raw"] == pytest.approx(
        scipy_stats.spearmanr(variance, FREQUENCY).statistic, abs=1e-4
    )
    rows = {(row["model"], row["score"]): row for row in found.models().to_pylist()}
    assert rows["one", "avh"]["mean"] == pytest.approx(np.mean(TABLE.column("avh").to_numpy()))
    assert rows["one", "avh"]["accuracy"] == pytest.approx(np.mean(TABLE.column("predicted").to_numpy() == LABELS))
    assert not any(row["model"] == "ensemble" for row in found.hypotheses().to_pylist())


def test_models_with_text_and_integer_ids_are_joined_as_text() -> None:
    text = Snapshot(FEATURES, WEIGHT, LABELS, ids=[str(row) for row in range(N)])
    mixed = RNG.permutation(N)
    numbers = Snapshot(FEATURES[mixed], 0.5 * WEIGHT, LABELS[mixed], ids=mixed)
    by_id = {"id": np.arange(N), "counts": list(COUNTS)}
    found = correlate({"run": text, "arrays": numbers}, by_id, **FEW)
    assert [agreement.model for agreement in found.main] == ["run", "arrays", "ensemble"]
    assert found.of("arrays").ids.tolist() == [str(row) for row in mixed]
    probs = np.stack([softmax(scale * FEATURES @ WEIGHT.T, axis=1) for scale in (1, 0.5)])
    expected = scipy_stats.spearmanr(probs.var(0).sum(1), FREQUENCY).statistic
    assert single_of(found, "ensemble", "passes_variance")["raw"] == pytest.approx(expected, abs=1e-4)


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
    comparison = prepare({"one": SNAPSHOT, "two": other}, human, settings=CorrelateSettings(allow_missing=True, **FEW))
    assert [model.name for model in comparison.models] == ["one", "two"] and re.search(why, comparison.notes[0])
    assert replace(comparison, joined=comparison.joined[:1]).computed().to_dict()["notes"][0] == comparison.notes[0]


def single_of(found: hardsight.Correlations, model: str, score: str) -> Any:
    return next(one for one in found.main if one.model == model).single(score)


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
        ([Snapshot(probs=probs[0], labels=LABELS)] * 2, "its ids are not those of"),
    ):
        with pytest.raises(InputError, match=match):
            correlate(SNAPSHOT, COUNTS, passes=bad, **FEW)


def test_epochs(found: hardsight.Correlations) -> None:
    tables = {}
    for epoch in range(3):  # from noise to the table; with samples that people have not seen
        noisy = TABLE.column("avh").to_numpy() + (2 - epoch) * np.random.default_rng(epoch).normal(size=N)
        seen = pa.table({"id": IDS, "label": LABELS, "avh": noisy, "norm": TABLE.column("norm")})
        unseen = pa.table({"id": ["train-1"], "label": [0], "avh": [0.5], "norm": [1.0]})
        tables[f"{epoch}"] = pa.concat_tables([seen, unseen])
    told = correlate(SNAPSHOT, COUNTS, epochs=tables, **FEW).checkpoints().to_pylist()
    avh = [row for row in told if row["score"] == "avh"]
    assert [row["model"] for row in avh] == ["0", "1", "2"] and {row["n"] for row in avh} == {N}
    assert avh[2]["agreement"] == pytest.approx(single(found, "avh")["agreement"]) and avh[0]["agreement"] < avh[2]["agreement"]
    d5 = verdicts(correlate(SNAPSHOT, COUNTS, epochs=tables, **FEW))["all", "D5"]
    assert "over 4 models and epochs" in d5["note"]


def test_one_split_of_a_run_is_as_if_there_were_no_other(found: hardsight.Correlations) -> None:
    """Training samples beside the ones that people saw, in the run and in its epochs, some with the same ids."""
    ids = np.concatenate([[f"train-{i}" for i in range(50)], IDS])
    splits = np.array(["train"] * 50 + ["test"] * N)
    both = Snapshot(
        np.concatenate([3 * FEATURES[:50], FEATURES]), WEIGHT, np.concatenate([LABELS[:50], LABELS]), ids=ids,
        class_names=SNAPSHOT.class_names, columns={"split": splits},
    )  # fmt: skip
    epoch = pa.table({name: TABLE.column(name) for name in ("id", "label", "avh", "norm")})
    epoch = pa.concat_tables([epoch.append_column("split", pa.array([name] * N)) for name in ("train", "test")])
    told = correlate(both, COUNTS, split="test", epochs={"1": epoch}, **FEW)
    assert told.table1().drop_columns(["model"]).equals(found.table1().drop_columns(["model"]))
    assert told.pairs().drop_columns(["model"]).equals(found.pairs().drop_columns(["model"]))
    assert told.calibration().temperature == pytest.approx(found.calibration().temperature)
    rows = {row["score"]: row for row in told.checkpoints().to_pylist()}
    assert rows["norm_in_class"]["agreement"] == pytest.approx(single(found, "norm_in_class")["agreement"])
    with pytest.raises(InputError, match=r"300 rows without ids for 350 samples of .*splits train, test: choose one with split"):
        correlate(both, COUNTS, **FEW)
    with pytest.raises(InputError, match="no sample of the split 'val'; its splits are train, test"):
        correlate(both, COUNTS, split="val", **FEW)
    with pytest.raises(InputError, match="has no column 'split'"):
        correlate(SNAPSHOT, COUNTS, split="test", **FEW)


def test_a_watched_set_that_only_the_dynamics_know(tmp_path: Path) -> None:
    """Its rows are sorted by the text of their ids, 0, 1, 10, ...: people's answers still find theirs."""
    (tmp_path / "run" / "dynamics").mkdir(parents=True)
    pq.write_table(TABLE, tmp_path / "run" / "scores.parquet")
    rng = np.random.default_rng(0)
    expected = correlate(TABLE, COUNTS, scores="avh,norm", **FEW)
    for epoch in (1, 2):
        columns = {name: np.zeros(N, np.float32) for name in COLUMNS} | {"label": LABELS, "split": ["test"] * N}
        names = np.array([f"test/{row}" for row in range(N)])
        columns |= {"id": names, "avh": TABLE.column("avh").to_numpy(), "norm": TABLE.column("norm").to_numpy()}
        if epoch == 1:
            columns["avh"] = rng.normal(size=N)
        table = pa.table(columns).take(np.argsort(names))
        pq.write_table(table, tmp_path / "run" / "dynamics" / f"epoch={epoch:04d}.parquet")
    found = correlate(tmp_path / "run", COUNTS, split="test", scores="avh,norm", **FEW)
    for name in ("avh", "norm"):
        assert found.of().single(name)["agreement"] == pytest.approx(expected.of().single(name)["agreement"], abs=1e-6)
    pq.write_table(table.slice(1), tmp_path / "run" / "dynamics" / "epoch=0003.parquet")  # a number is missing
    with pytest.raises(InputError, match="have no order to go by; give human data with ids"):
        correlate(tmp_path / "run", COUNTS[1:], split="test", scores="avh", **FEW)
    joined = pa.table({"id": names, "counts": COUNTS.tolist()})
    assert correlate(tmp_path / "run", joined, split="test", scores="avh", allow_missing=True, **FEW).of().n == N - 1


def test_answers_in_another_order_are_noticed(found: hardsight.Correlations) -> None:
    assert not any("Are rows, labels and classes" in note for note in found.notes)
    mixed = correlate(SNAPSHOT, COUNTS[np.random.default_rng(0).permutation(N)], **FEW)
    assert any("most people chose another class" in note for note in mixed.notes)


def test_an_image_that_is_no_copy_is_its_own_base(found: hardsight.Correlations) -> None:
    """`hardsight train` writes a column of nulls where nothing is degraded."""
    nothing = TABLE.append_column("base_id", pa.nulls(N, pa.string()))
    told = correlate(nothing, COUNTS, **FEW)
    assert told.table1().drop_columns(["model"]).equals(found.table1().drop_columns(["model"])) and not told.of().clustered
    copies = TABLE.slice(0, 5).set_column(0, "id", pa.array([f"{one}#noise=1" for one in IDS[:5]]))
    copies = copies.append_column("base_id", pa.array(IDS[:5]))
    some = correlate(pa.concat_tables([nothing, copies]), pa.table({"id": IDS, "counts": COUNTS.tolist()}), **FEW).of()
    assert some.n == N + 5 and some.clustered


# ---- coarser classes, disagreement, calibration, unseen classes ----


def test_superclasses_by_a_plain_loop() -> None:
    mapping = {"ant": "insect", "bee": "insect", "cat": "mammal", "dog": "mammal"}
    found = correlate(SNAPSHOT, COUNTS, superclasses=mapping, **FEW)
    above = [0, 0, 1, 1]
    theta = hardsight.angles(FEATURES, WEIGHT)
    probs = softmax(FEATURES @ WEIGHT.T, axis=1)
    hsf, avh, confidence = [], [], []
    for i, y in enumerate(LABELS):
        nearest = [min(theta[i, k] for k in range(C) if above[k] == s) for s in (0, 1)]
        avh.append(nearest[above[y]] / sum(nearest))
        confidence.append(sum(probs[i, k] for k in range(C) if above[k] == above[y]))
        hsf.append(sum(COUNTS[i, k] for k in range(C) if above[k] == above[y]) / COUNTS[i].sum())
    np.testing.assert_allclose(found.of().values, hsf)
    np.testing.assert_allclose(found.of().scores["avh"], avh)
    np.testing.assert_allclose(found.of().scores["confidence"], confidence, rtol=1e-6)
    inside = hardsight.norm_in_class(FEATURES, np.array(above)[LABELS])
    np.testing.assert_allclose(found.of().scores["norm_in_class"], inside, atol=1e-9)
    assert {row["group"] for row in found.within("label").to_pylist()} == {"insect", "mammal"}


def test_superclasses_that_are_refused(tmp_path: Path) -> None:
    one = {k: "all" for k in range(C)}
    with pytest.raises(InputError, match="superclasses need counts per class"):
        correlate(SNAPSHOT, FREQUENCY, superclasses=one, **FEW)
    with pytest.raises(InputError, match="need angles to every class"):
        correlate(TABLE, COUNTS, superclasses=one, **FEW)
    with pytest.raises(InputError, match="go with human data"):
        correlate(SNAPSHOT, against="norm", superclasses=one, **FEW)
    (tmp_path / "m.csv").write_text("class,superclass\n0,a\n1,a\n2,b\n3,b\n")
    assert read_superclasses(tmp_path / "m.csv", None, 4).sizes.tolist() == [2, 2]
    assert coarse_people(read_people(COUNTS), read_superclasses(tmp_path / "m.csv", None, 4)).counts.sum() == COUNTS.sum()  # type: ignore[union-attr]
    (tmp_path / "n.csv").write_text("class,above\n0,a\n")
    for source, match in (
        ({"mouse": "a"}, "'mouse' is not a class"),
        ({9: "a"}, "class 9 is not among 0 to 3"),
        (tmp_path / "n.csv", "columns class and superclass"),
    ):
        with pytest.raises(InputError, match=match):
            read_superclasses(source, ["ant", "bee", "cat", "dog"], 4)


def test_disagreement_by_hand() -> None:
    table = pa.table(
        {"id": list("abcdef"), "label": [0] * 6, "predicted": [0, 1, 0, 0, 0, 0], "avh": [0.1, 0.6, 0.2, 0.5, 0.3, 0.4]}
    )
    people = [1.0, 0.9, 0.8, 0.3, 0.2, 0.1]
    found = correlate(table, people, **FEW).disagreement("avh", top=1)
    assert found.counts == {
        "easy for both": 2,  # a, c
        "easy for people, hard for the model": 1,  # b
        "hard for people, easy for the model": 1,  # e
        "hard for both": 2,  # d, f
    }
    assert [row["id"] for row in found.model_hard] == ["b"] and [row["id"] for row in found.people_hard] == ["e"]
    assert found.model_hard[0]["apart"] == pytest.approx((4.5 - 0.5) / 6) and found.model_hard[0]["predicted"] == "1"
    with pytest.raises(InputError, match="has no score 'loss'"):
        correlate(table, people, **FEW).disagreement("loss")


def test_hard_for_people_are_images_they_really_disagree_on() -> None:
    table, easy = made(avh=(0, 1))
    sure = correlate(table, 0.9 + easy / 10, scores="avh", **FEW).disagreement()  # at least 90 % of people name each image right
    assert sure.people_hard == [] and sure.counts["hard for both"] == 0 and sum(sure.counts.values()) == 400
    found = correlate(table, easy, scores="avh", **FEW).disagreement()
    assert len(found.people_hard) == 12 and max(row["frequency"] for row in found.people_hard) < 0.5  # far out on both sides
    assert found.counts["hard for both"] + found.counts["hard for people, easy for the model"] == (easy < 0.8).sum()
    assert found.rule.startswith(
        "hard for people: fewer than 80 % chose the given class; hard for the model: in the harder half by"
    )


def test_calibration_and_what_temperature_does(found: hardsight.Correlations) -> None:
    told = found.calibration()
    assert told.fitted_to + told.judged_on == N and told.temperature > 0
    effects = {(row["score"], row["kind"]): row for row in told.effects}
    loss = effects["loss", "spearman"]
    assert loss["before"] == pytest.approx(single(found, "loss")["agreement"], abs=1e-4)
    avh = effects["avh", "pearson"]
    assert avh["before"] == avh["after"] == single(found, "avh", "pearson")["agreement"]
    logits = FEATURES @ WEIGHT.T / told.temperature
    after = softmax(logits, axis=1)[np.arange(N), LABELS]
    assert effects["confidence", "pearson"]["after"] == pytest.approx(scipy_stats.pearsonr(after, FREQUENCY).statistic, abs=1e-4)
    with pytest.raises(InputError, match="needs logits"):
        correlate(TABLE, COUNTS, scores="avh", **FEW).calibration()


def test_unseen_classes(found: hardsight.Correlations, tmp_path: Path) -> None:
    between = (WEIGHT[0] + WEIGHT[1]) * 0.4 + 0.1 * RNG.normal(size=(100, D))  # of neither class
    Snapshot(between).save(tmp_path / "unseen.npz")
    rows = found.open_set(tmp_path / "unseen.npz").to_pylist()
    assert [row["score"] for row in rows] == ["avc_predicted", "predicted_confidence", "entropy", "max_logit", "norm"]
    ours = next(row for row in rows if row["score"] == "predicted_confidence")
    top = softmax(between @ WEIGHT.T, axis=1).max(1)
    known = TABLE.column("predicted_confidence").to_numpy()
    assert ours["auroc"] == pytest.approx(np.mean((top[:, None] < known) + 0.5 * (top[:, None] == known)), abs=1e-6)
    assert ours["low"] < ours["auroc"] < ours["high"] and (ours["known"], ours["unseen"]) == (N, 100)
    with pytest.raises(InputError, match="wide"):
        found.open_set(Snapshot(np.ones((5, D + 1)), np.ones((C, D + 1))))
    with pytest.raises(InputError, match="needs its head"):
        correlate(TABLE, COUNTS, scores="avh", **FEW).open_set(tmp_path / "unseen.npz")


# ---- what is drawn and written ----


def test_plots_have_the_coefficient_and_interval_in_their_titles(found: hardsight.Correlations) -> None:
    figure = found.plot("avh")
    row = single(found, "avh")
    (axes,) = [axes for axes in figure.axes if axes.get_ylabel() == "angular visual hardness (AVH), high is hard"]
    interval = f"[{row['bootstrap_low']:+.3f}, {row['bootstrap_high']:+.3f}]"  # the sign of the table
    assert row["agreement"] > 0 > row["raw"] and axes.get_title() == f"agreement {row['agreement']:+.3f} {interval} (Spearman)"
    assert axes.get_xlabel() == "share of people who chose the given class (low is hard)"
    assert "positive where hard by the score is hard for people" in figure.get_suptitle().replace("\n", " ")
    assert len(found.plot().axes) == 7 + 1  # the scores and the colour bar: no place is left empty
    with pytest.raises(InputError, match="no score 'hardness'"):
        found.plot("hardness")
    with pytest.raises(InputError, match="no model 'other'"):
        found.plot(model="other")


def test_every_sample_is_in_the_picture(found: hardsight.Correlations) -> None:
    for one in (found, correlate(degraded(), against="level", scores="avh", **FEW)):
        mesh = one.plot("avh").axes[0].collections[0]
        assert mesh.get_array().sum() == one.of().n  # type: ignore[union-attr]


def test_a_single_sample_stands_out_from_the_paper() -> None:
    colours = count_colours()(np.linspace(0, 1, 256))[:, :3]
    linear = np.where(colours <= 0.04045, colours / 12.92, ((colours + 0.055) / 1.055) ** 2.4)
    luminance = linear @ [0.2126, 0.7152, 0.0722]  # as WCAG has it
    assert 1.05 / (luminance[0] + 0.05) > 3 and (np.diff(luminance) < 1e-3).all()  # the more samples, the darker


def test_models_side_by_side_have_no_empty_panel() -> None:
    known = {"model": "one", "accuracy": 0.9, "agreement": 0.3, "bootstrap_low": 0.2, "bootstrap_high": 0.4, "mean": 0.1}
    rows = [{**known, "score": name} for name in ("avh", "confidence")]

    def drawn(rows: list[dict[str, Any]]) -> list[str]:
        figure = side_by_side(rows, target="people", words=str.upper)
        return [] if figure is None else [axes.get_title() for axes in figure.axes]

    assert drawn(rows) == ["Better models have smaller AVH?", "Agreement with people"]
    assert drawn(rows[1:]) == drawn([{**known, "score": "norm"}]) == ["Agreement with people"]
    assert drawn([{**row, "agreement": None} for row in rows]) == ["Better models have smaller AVH?"]
    assert drawn([{**row, "accuracy": None} for row in rows]) == []


def test_latex_is_balanced_and_escaped(found: hardsight.Correlations) -> None:
    assert escaped("50 % of a_b & c\\") == r"50 \% of a\_b \& c\textbackslash{}"
    for text in (table1(found), pairs(found)):
        assert text.count(r"\begin{tabular}") == text.count(r"\end{tabular}") >= 1
        body = [line for line in text.splitlines() if line.endswith(r"\\")]
        assert len({line.count("&") for line in body}) <= 2  # the same in every row of a table
        assert "norm\\_in\\_class" in text and "nan" not in text and "None" not in text


def test_same_seed_same_numbers() -> None:
    one, two = (correlate(SNAPSHOT, COUNTS, scores="avh,confidence", **FEW).to_dict() for _ in range(2))
    assert one == two
    assert correlate(SNAPSHOT, COUNTS, scores="avh,confidence", seed=1, **FEW).to_dict() != one


def test_a_study_computes_what_the_data_allows() -> None:
    whole = study(SNAPSHOT, COUNTS, by="label", top=2, settings=StudySettings(**FEW))
    assert [one.model for one in whole.calibrations] == [one.model for one in whole.disagreements] == ["model"]
    assert len(whole.disagreements[0].model_hard) == 2 and {row["group"] for row in whole.groups} == {"ant", "bee", "cat", "dog"}
    assert whole.coarse is None and whole.open_set == []
    assert whole.correlations.to_dict() == correlate(SNAPSHOT, COUNTS, **FEW).to_dict()
    table = study(TABLE, COUNTS, **FEW)
    assert table.calibrations == [] and len(table.disagreements) == 1  # a table has no logits
    column = study(TABLE, against="norm", scores="avh", **FEW)
    assert not column.calibrations and not column.disagreements  # there are no people to disagree with
    with pytest.raises(InputError, match="no option 'tops'. Did you mean top"):
        study(TABLE, COUNTS, tops=3)
    with pytest.raises(InputError, match="has no dynamics"):
        study(TABLE, COUNTS, epochs=True, **FEW)


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"superclasses": "nope.csv"}, r"nope\.csv does not exist"),
        ({"superclasses": {0: "a"}}, "every class needs a superclass"),
        ({"unseen": "nope.npz"}, r"nope\.npz does not exist"),
        ({"unseen": Snapshot(np.ones((3, 2)), np.ones((2, 2)))}, "rows are 2 wide"),
        ({"by": "nope"}, "no column 'nope'"),
        ({"images": "nope"}, "got 'nope': there is none"),
        ({"seed": -1}, "seed must be a whole number of 0 or more and below 4294967296, got -1"),
    ],
)
def test_wrong_options_are_refused_before_the_bootstrap(
    monkeypatch: pytest.MonkeyPatch, options: dict[str, Any], match: str
) -> None:
    monkeypatch.setattr("hardsight.agreement.correlations.agree", lambda *_, **__: pytest.fail("it computed first"))
    with pytest.raises((FileError, InputError), match=match):
        study(SNAPSHOT, COUNTS, **options)


def test_groups_of_samples_without_a_label() -> None:
    """A frequency needs no label, and samples without one are a group of their own."""
    labels = np.where(np.arange(N) < 10, -1, LABELS)
    found = correlate(Snapshot(FEATURES, WEIGHT, labels, class_names=SNAPSHOT.class_names), FREQUENCY, scores="norm", **FEW)
    sizes = {row["group"]: row["n"] for row in found.within("label").to_pylist()}
    assert sizes["None"] == 10 and sum(sizes.values()) == N


def test_options_are_read_without_heavy_libraries(fresh_python: Callable[..., Any]) -> None:
    done = fresh_python(
        "import sys\nfrom hardsight.agreement.settings import StudySettings\nStudySettings(bins='0,0.5,1')\n"
        "print({'numpy', 'scipy', 'pyarrow', 'torch'} & set(sys.modules))"
    )
    assert done.out == "set()\n", done.err


def test_correlate_needs_no_torch_and_says_what_is_done(fresh_python: Callable[..., Any]) -> None:
    done = fresh_python(
        "import sys, numpy as np, hardsight\n"
        "rng = np.random.default_rng(0); steps = []\n"
        "table = hardsight.score(rng.normal(size=(30, 4)), np.eye(4), rng.integers(0, 4, 30))\n"
        "hardsight.correlate(table, rng.uniform(size=30), replicates=40, progress=lambda *at: steps.append(at))\n"
        "print('torch' in sys.modules, 'matplotlib' in sys.modules, steps[-1])"
    )
    assert done.out == "False False (40, 40)\n", done.err


def test_nobody_and_nothing_to_go_by_is_said() -> None:
    with pytest.raises(InputError, match="has no labels: with counts, the given class of each sample must be known"):
        correlate(Snapshot(FEATURES, WEIGHT, ids=IDS), COUNTS, **FEW)
    with pytest.raises(InputError, match="no sample has selection frequency and all of avh.*: 300 without selection frequency.$"):
        correlate(SNAPSHOT, 0 * COUNTS, **FEW)
    with pytest.raises(InputError, match=r"\(--allow-missing\) to use the 299 both have"):
        correlate(SNAPSHOT, pa.table({"id": IDS[1:], "frequency": FREQUENCY[1:]}), **FEW)
