"""`score`: which rows, which columns, and incomplete inputs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from scipy.special import softmax
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import StratifiedKFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import hardsight
from hardsight import SCORES, Dynamics, Head, Snapshot, score
from hardsight.domains.opening import open_domain
from hardsight.domains.pseudo_labels import select_pseudo_labels
from hardsight.errors import InputError
from hardsight.extraction.feed import ArrayInputs
from hardsight.stats import fit_temperature, selection_frequency
from hardsight.table import read_scores

RNG = np.random.default_rng(0)
FEATURES = RNG.normal(size=(23, 5))
WEIGHT = RNG.normal(size=(4, 5))
LABELS = RNG.integers(0, 4, 23)
WHOLE = score(FEATURES, WEIGHT, LABELS)
OF_A_SNAPSHOT = [name for name, one in SCORES.items() if one.scope in ("row", "dataset")]
ROW = [name for name, one in SCORES.items() if one.default]


def same(one: pa.Table, other: pa.Table) -> None:
    assert one.column_names == other.column_names and len(one) == len(other)
    for name in one.column_names:
        if name in SCORES:
            np.testing.assert_allclose(one.column(name).to_numpy(), other.column(name).to_numpy(), rtol=1e-9, atol=1e-12)
        else:
            assert one.column(name).to_pylist() == other.column(name).to_pylist()


def test_the_default_table_is_every_row_score() -> None:
    assert WHOLE.column_names == ["id", "label", "predicted", "status", *ROW]
    assert WHOLE.column("id").to_pylist() == list(range(23))
    assert score(FEATURES, WEIGHT, LABELS, scores="all").column_names[4:] == OF_A_SNAPSHOT
    assert WHOLE.column("predicted").to_pylist() == (FEATURES @ WEIGHT.T).argmax(1).tolist()


def test_to_a_file_and_what_is_said_of_it(tmp_path: Path) -> None:
    Snapshot(FEATURES, WEIGHT, LABELS).save(tmp_path / "net.npz")
    written = score(tmp_path / "net.npz", output=tmp_path / "scores.parquet", scores="avh,loss", top=3, by="loss")
    expected = score(FEATURES, WEIGHT, LABELS, scores="avh,loss", top=3, by="loss")
    same(written.table, expected.table)
    same(read_scores(tmp_path / "scores.parquet"), expected.table)
    assert written.summary == expected.summary and written.summary["samples"] == 23
    hardest = written.tables()["hardest"]["loss"].to_pylist()
    assert hardest == sorted(WHOLE.column("loss").to_pylist())[:-4:-1]
    alone = score(tmp_path / "net.npz", scores="avh,loss", top=3, by="loss", summary_only=True)
    assert len(alone) == 0 and alone.summary == written.summary
    assert {path.name for path in tmp_path.iterdir()} == {"net.npz", "scores.parquet"}  # nothing else is written


@pytest.mark.parametrize("hardness", [False, True])
@pytest.mark.parametrize("ending", ["parquet", "csv", "json"])
def test_a_table_in_a_file_is_the_table_in_memory(tmp_path: Path, ending: str, hardness: bool) -> None:
    """Also where the file holds names, which are not in the order of the classes."""
    options: dict[str, Any] = {"class_names": ["dog", "cat", "emu", "ant"], "hardness": hardness}
    expected = score(FEATURES, WEIGHT, LABELS, **options)
    written = score(FEATURES, WEIGHT, LABELS, output=tmp_path / f"scores.{ending}", **options)
    same(written.table, expected.table)
    assert repr(written) == repr(expected) and written.summary == expected.summary


@pytest.mark.parametrize("name", OF_A_SNAPSHOT)
def test_a_score_alone_is_the_same_as_among_all(name: str) -> None:
    together = score(FEATURES, WEIGHT, LABELS, scores="all")
    same(score(FEATURES, WEIGHT, LABELS, scores=[name]), together.select(["id", "label", "predicted", "status", name]))


@pytest.mark.parametrize("count", [1, 10, 23, 99])
def test_first_is_the_first_rows_and_limit_is_spread(count: int) -> None:
    same(score(FEATURES, WEIGHT, LABELS, first=count), WHOLE.slice(0, count))
    rows = [place * 23 // count for place in range(count)] if count < 23 else list(range(23))
    same(score(FEATURES, WEIGHT, LABELS, limit=count), WHOLE.take(pa.array(rows, pa.int64())))
    assert score(FEATURES, WEIGHT, LABELS, first=4, limit=2).column("id").to_pylist() == [0, 2]


@pytest.mark.parametrize("count", [1, 2, 3, 7, 23, 40])
def test_shards_are_a_partition_of_the_rows(count: int) -> None:
    parts = [score(FEATURES, WEIGHT, LABELS, shard=(i, count)) for i in range(count)]
    same(pa.concat_tables([part.table for part in parts]), WHOLE)
    assert max(map(len, parts)) - min(map(len, parts)) <= 1
    assert [len(score(FEATURES, WEIGHT, LABELS, shard=(i, 2), limit=11)) for i in range(2)] == [5, 6]


@pytest.mark.parametrize("kind", ["arrays", "parquet"])
def test_joined_shards_are_the_whole_table_to_the_last_bit(kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The rounding of a product depends on the position in the batch, which shards preserve. Two rows are odd."""
    rng = np.random.default_rng(1)
    features, weight = rng.standard_normal((3001, 48), np.float32), rng.standard_normal((100, 48), np.float32)
    features[5], features[1500] = 0, np.nan
    labels = rng.integers(0, 100, 3001)
    monkeypatch.setattr("hardsight.snapshot.snapshot.BATCH_BYTES", 700 * 48 * 4)  # 700 rows
    snapshot = Snapshot(features, weight, labels)
    if kind == "parquet":
        columns = {"label": labels, "features": pa.FixedSizeListArray.from_arrays(features.ravel(), 48)}
        pq.write_table(pa.table(columns), tmp_path / "s.parquet", row_group_size=1300)
        snapshot = Snapshot.load(tmp_path / "s.parquet", head=weight)
    whole = score(snapshot).table
    for count in (2, 7):
        parts = [score(snapshot, shard=(i, count)).table for i in range(count)]
        assert pa.concat_tables(parts).combine_chunks().equals(whole.combine_chunks())
    assert len(score(snapshot, shard=(2, 3), strict=True)) == 1001  # the odd rows are not its own


def test_strict_accepts_unlabeled_rows_and_names_the_first_bad_one() -> None:
    labels = np.where(np.arange(23) == 3, -1, LABELS)
    same(score(FEATURES, WEIGHT, labels, strict=True), score(FEATURES, WEIGHT, labels))
    broken = FEATURES.copy()
    broken[[7, 9]] = np.nan
    with pytest.raises(InputError, match=r"row 7 \(id 'x7'\) cannot be scored: nonfinite_feature"):
        score(broken, WEIGHT, LABELS, ids=[f"x{i}" for i in range(23)], strict=True)


def test_duplicates_are_found_across_batches(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hardsight.snapshot.snapshot.BATCH_BYTES", 200)  # five rows
    ids = np.arange(23)
    ids[20] = 2
    pq.write_table(pa.table({"id": ids, "label": LABELS, "features": FEATURES.tolist()}), tmp_path / "s.parquet")
    with pytest.raises(InputError, match="row 20 repeats 2 of row 2"):
        score(tmp_path / "s.parquet", WEIGHT)
    assert len(score(tmp_path / "s.parquet", WEIGHT, first=20)) == 20
    same(score(tmp_path / "s.parquet", WEIGHT, allow_duplicates=True).drop_columns("id"), WHOLE.drop_columns("id"))


def test_equal_hashes_are_not_duplicates() -> None:
    assert hash(-1) == hash(-2)
    assert score(FEATURES[:2], WEIGHT, LABELS[:2], ids=[-1, -2]).column("id").to_pylist() == [-1, -2]


# ---- no head ----


def test_without_a_head_every_sample_is_scored_by_one_that_has_not_seen_it() -> None:
    x, y = load_digits(return_X_y=True)
    x, y = x[:400].astype(np.float64), y[:400]
    table = score(x, labels=y)
    notes = json.loads(table.schema.metadata[b"hardsight"])
    assert "cross-validated" in notes["head"]
    logits = np.empty((400, 10))
    for train, test in StratifiedKFold(5, shuffle=True, random_state=0).split(x, y):
        model = make_pipeline(StandardScaler(), LogisticRegression(C=2 * 10 / len(train), max_iter=300)).fit(x[train], y[train])
        logits[test] = model.decision_function(x[test])
    expected = softmax(logits / fit_temperature(logits, y), axis=1)[np.arange(400), y]
    np.testing.assert_allclose(table.column("confidence").to_numpy(), expected, atol=1e-3)
    assert 0.85 < np.mean(table.column("label").to_numpy() == table.column("predicted").to_numpy()) < 1.0


def test_without_a_head_score_audit_and_clean_ask_the_same_heads() -> None:
    x, y = load_digits(return_X_y=True)
    x, y = x[:300], np.where(np.arange(300) % 12, y[:300], (y[:300] + 3) % 10)
    x[200:220], y[200:220] = x[:20], y[:20]  # copies
    probs = hardsight.quality.out_of_sample(x, y)
    table = score(x, labels=y)
    np.testing.assert_allclose(table.column("confidence").to_numpy(), probs[np.arange(300), y], rtol=1e-6)
    groups = {"half": ["a"] * 150 + ["b"] * 150}
    audited = hardsight.audit(features=x, labels=y, columns=groups, group="half")
    accuracy = dict(zip(audited["group"].to_pylist(), audited["accuracy"].to_pylist(), strict=True))
    right = probs.argmax(axis=1) == y
    assert accuracy == pytest.approx({"a": right[:150].mean(), "b": right[150:].mean()})


def test_random_labels_cannot_be_learnt_out_of_sample() -> None:
    """60 samples in 100 dimensions: a head fitted to them all is always right, out of sample it is a coin, and as unsure."""
    x, y = RNG.normal(size=(60, 100)), np.arange(60) % 2
    assert LogisticRegression().fit(x, y).score(x, y) == 1.0
    copies = np.random.default_rng(0).permutation(np.tile(np.arange(60), 2))  # each is in the fold of its copy
    for rows in (np.arange(60), copies):
        table = score(x[rows], labels=y[rows])
        assert np.mean(table.column("label").to_numpy() == table.column("predicted").to_numpy()) < 0.8
        assert table.column("loss").to_numpy().mean() < 0.8  # of a fair coin: log 2 = 0.69


def test_without_a_head_bad_and_unlabeled_rows_keep_their_place() -> None:
    x, y = np.concatenate([FEATURES, FEATURES + 3]), np.repeat([0, 1], 23)
    x[4], y[7], x[30] = np.nan, -1, 0.0
    table = score(x, labels=y, scores="all")
    assert table.column("status").to_pylist()[4] == "nonfinite_feature"
    assert table.column("status").to_pylist()[7] == "unlabeled"
    assert table.column("status").to_pylist()[30] == "zero_norm"
    assert table.column("predicted").to_pylist()[7] is not None
    same(score(x, labels=y, scores="all"), table)  # the same folds every time


# ---- logits, probabilities, zero-shot heads ----


def test_logits_alone_give_the_confidence_family() -> None:
    logits = FEATURES @ WEIGHT.T
    table = score(logits=logits, labels=LABELS)
    names = ["confidence", "predicted_confidence", "probability_margin", "logit_margin", "max_logit", "entropy", "el2n", "loss"]
    assert table.column_names == ["id", "label", "predicted", "status", *names]
    same(table, WHOLE.select(table.column_names))


def test_probabilities_alone_give_the_same_without_the_largest_logit() -> None:
    logits = FEATURES @ WEIGHT.T
    probs = np.exp(logits) / np.exp(logits).sum(1, keepdims=True)
    table = score(probs=probs, labels=LABELS)
    assert "max_logit" not in table.column_names and "loss" in table.column_names
    same(table, WHOLE.select(table.column_names))
    with pytest.raises(InputError, match="max_logit cannot be computed from probs"):
        score(probs=probs, labels=LABELS, scores="max_logit")
    with pytest.raises(InputError, match="avh cannot be computed from logits: it needs features and a head"):
        score(logits=logits, labels=LABELS, scores="avh")


def test_a_probability_of_zero_has_a_finite_loss() -> None:
    table = score(probs=np.array([[1.0, 0.0], [0.0, 1.0]]), labels=[0, 0])
    assert table.column("loss").to_pylist()[0] == pytest.approx(0, abs=1e-12)
    assert 700 < table.column("loss").to_pylist()[1] < 710
    assert table.column("confidence").to_pylist() == [1.0, 0.0]


@pytest.mark.parametrize("digits", [3, 4, None])
def test_confidence_of_saved_probabilities_ranks_as_self_confidence(digits: int | None) -> None:
    rng = np.random.default_rng(0)
    probs = softmax(12 * rng.normal(size=(300, 8)), axis=1).astype(np.float32)
    probs = np.where(probs < 1e-4, 0, probs) if digits is None else probs.round(digits)  # rows sum to 1 only nearly
    labels = rng.integers(0, 8, 300)
    self_confidence = probs[np.arange(300), labels]  # cleanlab.rank.get_label_quality_scores(method="self_confidence")
    zero = self_confidence == 0
    assert zero.sum() > 100 and len(np.unique(probs.sum(1))) > 3
    table = score(probs=probs, labels=labels)
    for given in (hardsight.scores.confidence(probs=probs, labels=labels), table.column("confidence").to_numpy()):
        np.testing.assert_array_equal(given, self_confidence)
    assert len(np.unique(table.column("loss").to_numpy()[zero])) == 1
    assert table.column("loss").to_numpy()[zero].min() > table.column("loss").to_numpy()[~zero].max()
    np.testing.assert_array_equal(table.column("predicted_confidence").to_numpy(), probs.max(1))
    right = table.column("predicted").to_numpy() == labels
    np.testing.assert_array_equal(table.column("probability_margin").to_numpy() >= 0, right | (self_confidence == probs.max(1)))


@pytest.mark.parametrize(("evidence", "status"), [("probs", "nonfinite_probability"), ("logits", "nonfinite_logit")])
def test_a_nan_keeps_its_row(evidence: str, status: str) -> None:
    table = score(**{evidence: np.array([[0.5, 0.5], [np.nan, 1.0], [np.inf, 0.0]])}, labels=[0, 0, 0])  # type: ignore[arg-type]
    assert table.column("status").to_pylist() == ["ok", status, status]
    assert table.column("loss").null_count == 2 and table.column("predicted").to_pylist()[1] is None


def test_zero_shot_text_vectors_as_a_cosine_head() -> None:
    text = WEIGHT * RNG.uniform(0.1, 10, (4, 1))  # lengths do not matter
    cosine = (FEATURES / np.linalg.norm(FEATURES, axis=1, keepdims=True)) @ (text / np.linalg.norm(text, axis=1, keepdims=True)).T
    z = 100 * cosine
    expected = np.exp(z - z.max(1, keepdims=True))
    expected /= expected.sum(1, keepdims=True)
    table = score(FEATURES, Head("cosine", text, scale=100), LABELS)
    assert table.column("predicted").to_pylist() == cosine.argmax(1).tolist()
    np.testing.assert_allclose(table.column("confidence").to_numpy(), expected[np.arange(23), LABELS], atol=1e-12)
    np.testing.assert_allclose(table.column("avh").to_numpy(), WHOLE.column("avh").to_numpy())
    assert json.loads(table.schema.metadata[b"hardsight"])["head"] == "cosine"


# ---- what goes in ----


def test_pandas_arrow_lists_and_tensors_go_in() -> None:
    pd = pytest.importorskip("pandas")
    torch = pytest.importorskip("torch")
    ids = [f"i{i}" for i in range(23)]
    expected = score(FEATURES, WEIGHT, LABELS, ids=ids)
    same(score(pd.DataFrame(FEATURES), pd.DataFrame(WEIGHT), pd.Series(LABELS), ids=pd.Series(ids)), expected)
    same(score(FEATURES.tolist(), WEIGHT.tolist(), LABELS.tolist(), ids=ids), expected)
    same(score(FEATURES, WEIGHT, pa.array(LABELS), ids=pa.array(ids)), expected)
    same(score(FEATURES, WEIGHT, pa.chunked_array([LABELS[:9], LABELS[9:]]), ids=pa.chunked_array([ids[:4], ids[4:]])), expected)
    same(score(torch.from_numpy(FEATURES), torch.from_numpy(WEIGHT), torch.from_numpy(LABELS), ids=ids), expected)
    same(score(torch.from_numpy(FEATURES), WEIGHT, LABELS, ids=ids), expected)
    same(score(FEATURES, torch.from_numpy(WEIGHT), LABELS, ids=ids), expected)


SHUFFLED = np.random.default_rng(3).permutation(23)


def pandas_rows(index: Any = None) -> tuple[Any, Any]:
    """The features shuffled and the labels not, both with an index."""
    pd = pytest.importorskip("pandas")
    index = np.arange(23) if index is None else np.asarray(index)
    features, labels = pd.DataFrame(FEATURES, index=index), pd.Series(LABELS, index=index)
    return features.iloc[SHUFFLED], labels


@pytest.mark.parametrize("index", [range(23), range(100, 123), [f"i{i}" for i in range(23)]], ids=["rows", "numbers", "text"])
def test_pandas_rows_are_joined_by_their_index(index: Any) -> None:
    features, labels = pandas_rows(index)
    expected = score(FEATURES[SHUFFLED], WEIGHT, LABELS[SHUFFLED], ids=[list(index)[row] for row in SHUFFLED])
    same(score(features, WEIGHT, labels), expected)
    rows = np.asarray(features), LABELS[SHUFFLED]
    assert score(features, WEIGHT, rows[1]).column("id").to_pylist() == [list(index)[row] for row in SHUFFLED]
    for name in ("avh", "loss", "knn_agreement", "norm_in_class", "gm_likelihood"):
        function = SCORES[name].function
        head = () if name in ("knn_agreement", "norm_in_class") else (WEIGHT,)
        np.testing.assert_array_equal(function(features, *head, labels), function(rows[0], *head, rows[1]))


def test_every_input_with_an_index_is_joined() -> None:
    pd = pytest.importorskip("pandas")
    features, labels = pandas_rows()
    probs = pd.DataFrame(softmax(FEATURES @ WEIGHT.T, axis=1)).iloc[SHUFFLED]
    for evidence in ({"probs": probs}, {"logits": np.log(probs)}):
        expected = score(labels=LABELS[SHUFFLED], ids=SHUFFLED, **{name: table.to_numpy() for name, table in evidence.items()})
        same(score(labels=labels, **evidence), expected)
        value = hardsight.scores.confidence(labels=labels, **evidence)
        np.testing.assert_array_equal(value, expected.column("confidence").to_numpy())
    names = pd.Series([f"i{i}" for i in range(23)])
    snapshot = Snapshot(features, WEIGHT, labels, ids=names, columns={"split": names.str.upper()})
    assert snapshot.columns().to_pydict() == {
        "id": [f"i{i}" for i in SHUFFLED], "label": LABELS[SHUFFLED].tolist(), "split": [f"I{i}" for i in SHUFFLED]
    }  # fmt: skip
    by_name = labels.set_axis(names).sample(frac=1, random_state=0)
    for rows in (features, features.to_numpy()):  # the ids that are given name the rows as well
        same(score(rows, WEIGHT, by_name, ids=[f"i{i}" for i in SHUFFLED]), score(features, WEIGHT, labels, ids=names))
    column = pd.Series(list(FEATURES)).iloc[SHUFFLED]  # an array in each row
    same(score(column, WEIGHT, labels), score(features, WEIGHT, labels))


def test_arrays_have_no_index_to_join_by() -> None:
    features, labels = pandas_rows()
    drawn = labels.iloc[SHUFFLED]  # as a split into training and test data leaves them
    same(score(features.to_numpy(), WEIGHT, drawn), score(FEATURES[SHUFFLED], WEIGHT, LABELS[SHUFFLED]))
    same(score(features.reset_index(drop=True), WEIGHT, drawn.to_numpy()), score(FEATURES[SHUFFLED], WEIGHT, LABELS[SHUFFLED]))


@pytest.mark.parametrize(
    ("index", "match"),
    [
        (range(1, 24), "1 of 23 in labels are not in features, such as 23; 1 of 23 in features are not in labels, such as 0"),
        ([str(i) for i in range(23)], "such as '0'; 23 of 23 in features are not in labels, such as"),
        ([0, 0, *range(2, 23)], "the index of labels has 0 more than once"),
    ],
    ids=["moved", "text", "twice"],
)
def test_another_index_is_refused(index: Any, match: str) -> None:
    features, labels = pandas_rows()
    labels = labels.set_axis(index)
    for ask in (score, Snapshot, hardsight.avh, hardsight.scores.gm_likelihood):
        with pytest.raises(InputError, match=f"labels and features .*{match}.*pass labels.to_numpy"):
            ask(features, WEIGHT, labels)
    with pytest.raises(InputError, match="column split and features "):
        Snapshot(features, columns={"split": labels})
    with pytest.raises(InputError, match="there must be one label per sample, got 20 labels for 23 samples"):
        score(features.reset_index(drop=True), WEIGHT, labels.reset_index(drop=True).iloc[:20])


def test_a_repeated_index_is_a_repeated_id() -> None:
    features, labels = pandas_rows([0, 0, *range(2, 23)])
    ordered = labels.iloc[SHUFFLED]
    with pytest.raises(InputError, match="ids must be unique, but 1 are repeated; row .* repeats 0 of row"):
        score(features, WEIGHT, ordered)
    table = score(features, WEIGHT, ordered, allow_duplicates=True)
    same(table.drop_columns("id"), score(FEATURES[SHUFFLED], WEIGHT, LABELS[SHUFFLED]).drop_columns("id"))
    np.testing.assert_allclose(hardsight.avh(features, WEIGHT, ordered), table.column("avh").to_numpy())


def test_dates_and_tuples_name_rows_as_text() -> None:
    pd = pytest.importorskip("pandas")
    days = score(pd.DataFrame(FEATURES, index=pd.date_range("2024-01-01", periods=23)), WEIGHT)
    assert days.column("id")[1].as_py() == "2024-01-02 00:00:00"
    pairs = pd.MultiIndex.from_product([["a"], range(23)])
    assert score(pd.DataFrame(FEATURES, index=pairs), WEIGHT, pd.Series(LABELS, pairs)).column("id")[2].as_py() == "('a', 2)"


def test_the_other_doors_join_by_the_index_too(tmp_path: Path) -> None:
    pd = pytest.importorskip("pandas")
    features, labels = pandas_rows()
    names = pd.Series([f"i{i}" for i in range(23)])
    for inputs in (ArrayInputs(features, labels, names), open_domain((features, labels, names))[0]):
        assert list(inputs.ids) == [f"i{i}" for i in SHUFFLED] and np.asarray(inputs.labels).tolist() == LABELS[SHUFFLED].tolist()
    assert ArrayInputs(features, labels).ids == [str(i) for i in SHUFFLED]
    logits = pd.DataFrame(FEATURES @ WEIGHT.T)
    chosen = [select_pseudo_labels(logits, features=x, head=WEIGHT, portion=0.5, method="cbst+avh") for x in (features, FEATURES)]
    assert chosen[0].labels.tolist() == chosen[1].labels.tolist()
    with Dynamics(tmp_path) as tracker:
        tracker.update(1, features, WEIGHT, labels, names)
    ((_, table),) = Dynamics.read(tmp_path, columns=["id", "label"])
    assert dict(zip(*table.to_pydict().values(), strict=True)) == {f"i{i}": label for i, label in enumerate(LABELS.tolist())}
    assert fit_temperature(logits.iloc[SHUFFLED], labels) == pytest.approx(fit_temperature(logits, labels))
    counts = pd.DataFrame(RNG.integers(1, 9, (23, 4)))
    expected = selection_frequency(counts, labels)[SHUFFLED]
    np.testing.assert_array_equal(selection_frequency(counts.iloc[SHUFFLED], labels), expected)
    Snapshot(FEATURES, ids=names).save(tmp_path / "s.npz")
    loaded = Snapshot.load(tmp_path / "s.npz", labels=labels.set_axis(names).iloc[SHUFFLED])
    assert loaded.columns(["label"]).column(0).to_pylist() == LABELS.tolist()


def test_columns_of_frames_are_joined_by_their_names() -> None:
    """Classes in unsorted order, numbers that sort differently as text, features reordered by another tool."""
    pd = pytest.importorskip("pandas")
    names, moved = ["dog", "cat", "emu", "ant"], [3, 1, 0, 2]
    given = [names[k] for k in LABELS]
    logits = FEATURES @ WEIGHT.T
    for evidence, values in (("probs", softmax(logits, axis=1)), ("logits", logits)):
        arrays: dict[str, Any] = {evidence: values}
        expected = score(labels=LABELS, **arrays)
        frames = {"names": pd.DataFrame(values, columns=names), "numbers": pd.DataFrame(values)[moved]}
        frames["text"] = frames["numbers"].rename(columns=str)
        frames["arrow, text"] = pa.Table.from_pandas(frames["text"], preserve_index=False)
        frames["arrow, names"] = pa.Table.from_pandas(frames["names"], preserve_index=False)
        for kind, frame in frames.items():
            labels = given if kind.endswith("names") else LABELS
            same(score(labels=labels, **{evidence: frame}), expected)
            value = hardsight.scores.confidence(labels=labels, **{evidence: frame})
            np.testing.assert_array_equal(value, expected.column("confidence").to_numpy())
    frame, weight = pd.DataFrame(FEATURES, columns=list("pqrst")), pd.DataFrame(WEIGHT, index=names, columns=list("pqrst"))
    same(score(frame, weight[list("tprsq")], given), WHOLE)
    np.testing.assert_allclose(hardsight.avh(frame, weight[list("tprsq")], given), WHOLE.column("avh").to_numpy())
    counts = pd.DataFrame(RNG.integers(1, 9, (23, 4)), columns=names)
    np.testing.assert_array_equal(selection_frequency(counts, given), selection_frequency(counts.to_numpy(), LABELS))
    assert fit_temperature(pd.DataFrame(logits, columns=names), given) == fit_temperature(logits, LABELS)
    by_position = pd.DataFrame(softmax(logits, axis=1), columns=[f"p{k}" for k in range(4)])
    same(score(probs=by_position, labels=LABELS), score(probs=by_position.to_numpy(), labels=LABELS))


def test_a_snapshot_or_its_path_goes_in(tmp_path: Path) -> None:
    snapshot = Snapshot(FEATURES, WEIGHT, LABELS)
    snapshot.save(tmp_path / "s.npz")
    for one in (snapshot, tmp_path / "s.npz", str(tmp_path / "s.npz")):
        same(score(one), WHOLE)
    with pytest.raises(InputError, match="a snapshot has its own"):
        score(snapshot, labels=LABELS)


@pytest.mark.parametrize(("scores", "rows"), [("avh", [10, 20, 23]), ("all", [10, 20, 23, 33, 43, 46])])
def test_progress_counts_the_rows(scores: str, rows: list[int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Dataset scores take a second pass."""
    Snapshot(FEATURES, WEIGHT, LABELS).save(tmp_path / "s.npz")
    monkeypatch.setattr("hardsight.snapshot.snapshot.BATCH_BYTES", 400)  # ten rows
    seen: list[tuple[int, int]] = []
    score(tmp_path / "s.npz", scores=scores, progress=lambda *numbers: seen.append(numbers))
    assert seen == [(done, rows[-1]) for done in rows]


def test_a_file_larger_than_a_batch_is_never_read_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    Snapshot(FEATURES, WEIGHT, LABELS).save(tmp_path / "s.npz")
    monkeypatch.setattr("hardsight.snapshot.snapshot.BATCH_BYTES", 200)
    largest = 0
    read = hardsight.files.npy.RowsOnDisk.__getitem__

    def watched(self: Any, rows: slice) -> np.ndarray:
        nonlocal largest
        part = read(self, rows)
        largest = max(largest, len(part)) if self.name.endswith("features") else largest
        return part

    monkeypatch.setattr("hardsight.files.npy.RowsOnDisk.__getitem__", watched)
    same(score(tmp_path / "s.npz", scores="all"), score(FEATURES, WEIGHT, LABELS, scores="all"))
    assert largest == 5
