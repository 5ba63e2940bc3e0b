"""`correlate` on data made here: coefficients and signs by hand, tests of pairs, verdicts, and nulls that say why."""

from __future__ import annotations

import json
import math

import numpy as np
import pyarrow as pa
import pytest
from scipy import stats as scipy_stats

import hardsight
from agreement_data import COUNTS, FEATURES, FEW, FREQUENCY, LABELS, SNAPSHOT, TABLE, N, made, single, verdicts
from hardsight import correlate, stats
from hardsight.errors import InputError
from hardsight.human import CorrelateSettings


def test_coefficients_are_scipys_and_signs_say_whether_people_agree(correlations: hardsight.human.Correlations) -> None:
    oracle = {"spearman": scipy_stats.spearmanr, "pearson": scipy_stats.pearsonr, "kendall": scipy_stats.kendalltau}
    for name in ("avh", "confidence", "loss", "entropy", "norm", "angular_gap"):
        for kind, function in oracle.items():
            row = single(correlations, name, kind)
            raw = function(TABLE.column(name).to_numpy(), FREQUENCY).statistic
            assert row["raw"] == pytest.approx(raw, abs=1e-12)
            sign = 1 if hardsight.SCORES[name].hard == "low" else -1  # a low frequency is hard
            assert row["agreement"] == pytest.approx(sign * raw, abs=1e-12)
            assert row["low"] < row["agreement"] < row["high"] and row["n"] == N and row["reason"] is None
            assert row["fisher_z"] == pytest.approx(math.atanh(row["agreement"]))
    assert single(correlations, "avh")["agreement"] > 0.4 and single(correlations, "avh")["raw"] < -0.4
    entropy = single(correlations, "avh", target="entropy")
    assert entropy["raw"] == pytest.approx(
        scipy_stats.spearmanr(TABLE.column("avh").to_numpy(), stats.answer_entropy(COUNTS)).statistic
    )
    assert entropy["agreement"] == entropy["raw"]
    inside = hardsight.scores.norm_in_class(FEATURES, LABELS)
    assert single(correlations, "norm_in_class")["raw"] == pytest.approx(scipy_stats.spearmanr(inside, FREQUENCY).statistic)


def test_bins_count_every_sample_once_and_state_their_edges(correlations: hardsight.human.Correlations) -> None:
    parts = ["[0, 0.2)", "[0.2, 0.4)", "[0.4, 0.6)", "[0.6, 0.8)", "[0.8, 1]"]
    edges = np.array([0, 0.2, 0.4, 0.6, 0.8, 1.0])
    expected = [int(((FREQUENCY >= low) & (FREQUENCY < high)).sum()) for low, high in zip(edges[:-1], edges[1:], strict=True)]
    expected[-1] += int((FREQUENCY == 1).sum())
    assert [single(correlations, "avh", part=part)["n"] for part in parts] == expected and sum(expected) == N
    inside = (FREQUENCY >= 0.6) & (FREQUENCY < 0.8)
    raw = scipy_stats.spearmanr(TABLE.column("avh").to_numpy()[inside], FREQUENCY[inside]).statistic
    assert single(correlations, "avh", part="[0.6, 0.8)")["raw"] == pytest.approx(raw)
    own = correlate(SNAPSHOT, COUNTS, bins=[0, 0.5, 1], **FEW)
    assert {row["bin"] for row in own.table.to_pylist() if row["target"] == "frequency"} == {"all", "[0, 0.5)", "[0.5, 1]"}


def test_the_share_of_the_ceiling(correlations: hardsight.human.Correlations) -> None:
    ceiling = stats.noise_ceiling(COUNTS, LABELS, kind="pearson", splits=5)
    row = single(correlations, "avh", "pearson")
    assert row["share_of_ceiling"] == pytest.approx(row["agreement"] / ceiling.ceiling)
    told = correlations.tables()["ceilings"].to_pylist()
    assert {(row["target"], row["kind"]) for row in told} == {
        (t, k) for t in ("frequency", "entropy") for k in ("spearman", "pearson", "kendall")
    }


def test_pairs_are_the_tests_of_their_coefficients(correlations: hardsight.human.Correlations) -> None:
    rows = correlations.tables()["pairs"].to_pylist()
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
    assert "bootstrap" in correlations.to_dict()["trust"] and "independent" in correlations.to_dict()["trust"]


def test_equal_scores_have_no_test_but_a_reason() -> None:
    table, easy = made(avh=(1, 0.5))
    table = table.append_column("own_angle", table.column("avh"))
    rows = correlate(table, easy, scores="avh,own_angle", **FEW).tables()["pairs"].to_pylist()
    assert all(row["williams_t"] is None and "rank the samples identically" in row["reason"] for row in rows)
    assert all(row["verdict"] == "no difference shown" and row["trusted_p"] == 1 for row in rows)


def test_hypotheses_get_the_verdict_the_data_was_made_for() -> None:
    table, easy = made(avh=(1, 0.2), confidence=(1, 1.0), norm_in_class=(0, 1))
    told = verdicts(correlate({"m": table}, easy, **FEW))
    assert [told["m", key]["verdict"] for key in ("H1", "H2", "H3", "H4")] == ["null rejected"] * 3 + ["null not rejected"]
    assert told["m", "H3"]["effect"] > 0.2 and told["m", "H3"]["low"] > 0
    assert {key for _, key in told} == {"H1", "H2", "H3", "H4"}  # Discovery 5 is of slides/discovery5, by a rule about epochs
    table, easy = made(avh=(1, 1.0), confidence=(1, 0.2), norm_in_class=(-1, 0.3))
    told = verdicts(correlate({"m": table}, easy, **FEW))
    assert told["m", "H3"]["verdict"] == "null rejected, the other way" and told["m", "H3"]["high"] < 0
    assert told["m", "H4"]["verdict"] == "null rejected, the other way" and "easy by this score" in told["m", "H4"]["note"]
    table, easy = made(avh=(1, 0.5))
    told = verdicts(correlate({"m": table}, easy, **FEW))
    assert told["m", "H2"]["note"] == "there is no confidence" and told["m", "H3"]["verdict"] == "not tested"


def nulls(found: hardsight.human.Correlations) -> dict[tuple[str, str], str]:
    return {(row["score"], row["bin"]): row["reason"] for row in found.table.to_pylist() if row["agreement"] is None}


def test_constant_columns_are_null_with_a_reason() -> None:
    table = TABLE.set_column(TABLE.column_names.index("avh"), "avh", [np.full(N, 0.3)])
    found = correlate(table, COUNTS, scores="avh,confidence,norm", **FEW)
    assert nulls(found)["avh", "all"] == "avh is the same for all 300 samples"
    assert single(found, "confidence")["agreement"] is not None
    assert {row["first"] for row in found.tables()["pairs"].to_pylist()} == {"confidence"}
    same = correlate(TABLE, np.full(N, 0.9), scores="avh,confidence", **FEW)
    assert nulls(same)["avh", "all"] == "selection frequency is the same for all 300 samples"
    assert len(same.tables()["pairs"]) == 0
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
    assert found.agreement().left_out == {"without selection frequency": 3, "without avh": 4} and found.agreement().n == N - 7
    assert single(found, "norm")["n"] == N - 7  # the same samples for all, so that they can be compared
    assert any("293 samples used; left out: 3 without" in note for note in found.notes)
    counts = COUNTS.copy()
    counts[:4] = 0  # nobody looked
    assert correlate(TABLE, counts, scores="avh", **FEW).agreement().left_out == {"without selection frequency": 4}


@pytest.mark.parametrize("n", [1, 2, 3])
def test_few_samples_are_null_with_a_reason(n: int) -> None:
    found = correlate(TABLE.slice(0, n), FREQUENCY[:n], scores="avh,norm", **FEW)
    assert nulls(found)["avh", "all"].startswith(f"{n} sample") and len(found.tables()["pairs"]) == 0
    json.dumps(found.to_dict(), allow_nan=False)


def test_further_analyses_are_those_that_the_data_allows() -> None:
    whole = correlate(SNAPSHOT, COUNTS, by="label", top=2, settings=CorrelateSettings(**FEW))
    assert [one.model for one in whole.calibrations] == [one.model for one in whole.disagreements] == ["model"]
    assert len(whole.disagreements[0].model_hard) == 2 and {row["group"] for row in whole.group_rows} == {
        "ant",
        "bee",
        "cat",
        "dog",
    }
    table = correlate(TABLE, COUNTS, **FEW)
    assert table.calibrations == [] and len(table.disagreements) == 1  # a table has no logits
    column = correlate(TABLE, against="norm", scores="avh", **FEW)
    assert not column.calibrations and not column.disagreements  # there are no people to disagree with
    with pytest.raises(InputError, match="has no dynamics"):
        correlate(TABLE, COUNTS, epochs=True, **FEW)


def test_same_seed_same_numbers_over_all_models_and_in_json() -> None:
    models = {"one": TABLE, "two": TABLE.slice(0)}
    one, two, other = (correlate(models, COUNTS, scores="avh,confidence,norm", seed=seed, **FEW) for seed in (0, 0, 1))
    assert one.to_dict() == two.to_dict() != other.to_dict()
    rows = one.tables()["pairs"].to_pylist()
    assert len(rows) == 2 * 3 * 3
    np.testing.assert_allclose([row["holm_p"] for row in rows], stats.holm([row["trusted_p"] for row in rows]))
    told = json.loads(json.dumps(one.to_dict(), allow_nan=False))
    assert told["seed"] == 0 and len(told["table1"]) == len(one.table) and told["targets"][0]["hard"] == "low"
