"""`correlate` joins samples and people: every format of human data, ids in any order, splits, and missing rows on either side."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from scipy import stats as scipy_stats

import hardsight
from agreement_data import COUNTS, FEATURES, FEW, FREQUENCY, IDS, LABELS, SNAPSHOT, TABLE, WEIGHT, C, N, made, single
from hardsight import Snapshot, correlate
from hardsight.errors import InputError
from hardsight.files.epochs import COLUMNS
from hardsight.files.human import read_people
from hardsight.table import write_table


def test_ids_join_in_any_order(correlations: hardsight.human.Correlations) -> None:
    order = np.random.default_rng(1).permutation(N)
    shuffled = pa.table({"id": IDS[order], "frequency": FREQUENCY[order]})
    by_id = correlate(TABLE, shuffled, scores="avh", **FEW)
    by_order = correlate(TABLE, FREQUENCY, scores="avh", **FEW)
    assert single(by_id, "avh") == single(by_order, "avh")
    assert single(by_id, "avh")["raw"] == single(correlations, "avh")["raw"]


def human_forms(folder: Path) -> dict[str, Any]:
    """The same answers in every supported format."""
    np.save(folder / "counts.npy", COUNTS)
    frame = pd.DataFrame({"id": IDS, **{str(k): COUNTS[:, k] for k in range(C)}})
    frame.to_csv(folder / "indices.csv", index=False)
    named = frame.rename(columns={str(k): name for k, name in enumerate(["ant", "bee", "cat", "dog"])})
    named[["id", "dog", "cat", "bee", "ant"]].to_csv(folder / "names.csv", index=False)
    pq.write_table(pa.table({"id": IDS, "counts": list(COUNTS)}), folder / "lists.parquet")
    rows = [(i, f"person {a}", k) for i in range(N) for a, k in enumerate(np.repeat(np.arange(C), COUNTS[i]))]
    np.random.default_rng(1).shuffle(rows)
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
        "polars": pl.DataFrame({"id": IDS, "counts": COUNTS.tolist()}),
    }


def test_every_form_of_counts_says_the_same(tmp_path: Path, correlations: hardsight.human.Correlations) -> None:
    forms = human_forms(tmp_path)
    assert len(forms) == 13
    for name, source in forms.items():
        again = correlate(SNAPSHOT, source, scores="avh", **FEW)
        assert single(again, "avh")["agreement"] == pytest.approx(single(correlations, "avh")["agreement"]), name
        assert single(again, "avh", target="entropy")["n"] == N, name
        assert single(again, "avh")["share_of_ceiling"] == pytest.approx(
            single(correlations, "avh")["share_of_ceiling"], abs=0.05
        ), name


def test_forms_of_frequency(tmp_path: Path) -> None:
    np.save(tmp_path / "f.npy", FREQUENCY)
    pd.DataFrame({"id": IDS, "frequency": FREQUENCY, "answers": 20}).to_csv(tmp_path / "f.csv", index=False)
    (tmp_path / "f.json").write_text(json.dumps(dict(zip(IDS.tolist(), FREQUENCY.tolist(), strict=True))))
    expected = single(correlate(TABLE, FREQUENCY, scores="avh", **FEW), "avh")
    for name in ("f.npy", "f.csv", "f.json"):
        row = single(correlate(TABLE, tmp_path / name, scores="avh", **FEW), "avh")
        assert row["agreement"] == pytest.approx(expected["agreement"])
        assert (row["share_of_ceiling"] is not None) == (name == "f.csv")  # a ceiling needs the number of people
    reasons = correlate(TABLE, FREQUENCY, scores="avh", **FEW).tables()["ceilings"].column("reason").to_pylist()
    assert all("needs counts, or the number of answers" in reason for reason in reasons)


def test_a_pandas_index_and_integers_in_a_csv_are_ids(tmp_path: Path) -> None:
    table, easy = made(avh=(1, 0.5))
    row = single(correlate(table, easy, **FEW), "avh")
    pd.DataFrame({"id": np.arange(400), "frequency": easy}).sample(frac=1, random_state=0).to_csv(tmp_path / "f.csv", index=False)
    assert single(correlate(table, tmp_path / "f.csv", **FEW), "avh") == row
    mixed = table.to_pandas().drop(columns="id").sample(frac=1, random_state=0)
    for human in (pd.Series(easy), pd.DataFrame({"frequency": easy}), pd.Series(easy).sample(frac=1, random_state=1)):
        for model in (table, mixed):
            assert single(correlate(model, human, **FEW), "avh")["raw"] == pytest.approx(row["raw"])
    named = mixed.set_axis([f"i{i}" for i in mixed.index])
    human = pd.Series(easy, index=[f"i{i}" for i in range(400)])
    assert single(correlate(named, human, **FEW), "avh")["raw"] == pytest.approx(row["raw"])
    with pytest.raises(InputError, match=r"samples have no human data \(the first: 'i.*human ids are not .* \(the first: 'j0'\)"):
        correlate(named, human.set_axis([f"j{i}" for i in range(400)]), **FEW)


def test_models_come_as_paths_of_every_kind(tmp_path: Path, correlations: hardsight.human.Correlations) -> None:
    SNAPSHOT.save(tmp_path / "snapshot.npz")
    for ending in ("parquet", "csv", "json"):
        write_table(TABLE, tmp_path / f"scores.{ending}")
    for path in tmp_path.iterdir():
        again = correlate(path, COUNTS, scores=["avh", "norm_in_class"], **FEW)
        assert single(again, "avh")["agreement"] == pytest.approx(single(correlations, "avh")["agreement"]), path.name
        assert again.agreement().model == path.stem
    frame = correlate(TABLE.to_pandas(), COUNTS, scores="avh", **FEW)
    assert single(frame, "avh")["agreement"] == single(correlations, "avh")["agreement"]


def test_samples_that_one_side_lacks() -> None:
    fewer = {"id": [*IDS[5:].tolist(), "stranger"], "frequency": [*FREQUENCY[5:], 0.5]}
    some = correlate(TABLE, fewer, scores="avh", allow_missing=True, **FEW)
    assert single(some, "avh")["n"] == N - 5
    assert single(some, "avh")["raw"] == pytest.approx(
        scipy_stats.spearmanr(TABLE.column("avh").to_numpy()[5:], FREQUENCY[5:]).statistic
    )


def test_first_takes_the_first_samples_of_either_join() -> None:
    expected = scipy_stats.spearmanr(TABLE.column("avh").to_numpy()[:50], FREQUENCY[:50]).statistic
    for human in (COUNTS, {"id": IDS[::-1], "frequency": FREQUENCY[::-1]}):
        some = correlate(SNAPSHOT, human, scores="avh", first=50, **FEW)
        assert single(some, "avh")["n"] == 50 and single(some, "avh")["raw"] == pytest.approx(expected)


def test_one_split_of_a_run_is_as_if_there_were_no_other(correlations: hardsight.human.Correlations) -> None:
    """Training samples in addition to the ones shown to people, in the run and in its epochs, some with the same ids."""
    ids = np.concatenate([[f"train-{i}" for i in range(50)], IDS])
    splits = np.array(["train"] * 50 + ["test"] * N)
    both = Snapshot(
        np.concatenate([3 * FEATURES[:50], FEATURES]), WEIGHT, np.concatenate([LABELS[:50], LABELS]), ids=ids,
        class_names=SNAPSHOT.class_names, columns={"split": splits},
    )  # fmt: skip
    epoch = pa.table({name: TABLE.column(name) for name in ("id", "label", "avh", "norm")})
    epoch = pa.concat_tables([epoch.append_column("split", pa.array([name] * N)) for name in ("train", "test")])
    told = correlate(both, COUNTS, split="test", epoch_tables={"1": epoch}, **FEW)
    assert told.table.drop_columns(["model"]).equals(correlations.table.drop_columns(["model"]))
    assert told.tables()["pairs"].drop_columns(["model"]).equals(correlations.tables()["pairs"].drop_columns(["model"]))
    assert told.calibration().temperature == pytest.approx(correlations.calibration().temperature)
    rows = {row["score"]: row for row in told.tables()["checkpoints"].to_pylist()}
    assert rows["norm_in_class"]["agreement"] == pytest.approx(single(correlations, "norm_in_class")["agreement"])
    with pytest.raises(InputError, match=r"300 rows without ids for 350 samples of .*splits train, test: choose one with split"):
        correlate(both, COUNTS, **FEW)
    with pytest.raises(InputError, match="no split 'val'; splits: test, train"):
        correlate(both, COUNTS, split="val", **FEW)


def test_a_watched_set_that_only_the_dynamics_know(tmp_path: Path) -> None:
    """Its rows are sorted by id as text, 0, 1, 10, ...: human answers are still matched correctly."""
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
        assert found.agreement().single(name)["agreement"] == pytest.approx(
            expected.agreement().single(name)["agreement"], abs=1e-6
        )
    pq.write_table(table.slice(1), tmp_path / "run" / "dynamics" / "epoch=0003.parquet")  # a number is missing
    with pytest.raises(InputError, match="are in no defined order; pass human data with ids"):
        correlate(tmp_path / "run", COUNTS[1:], split="test", scores="avh", **FEW)
    joined = pa.table({"id": names, "counts": COUNTS.tolist()})
    assert correlate(tmp_path / "run", joined, split="test", scores="avh", allow_missing=True, **FEW).agreement().n == N - 1


def test_answers_in_another_order_are_noticed(correlations: hardsight.human.Correlations) -> None:
    assert not any("Are rows, labels and classes" in note for note in correlations.notes)
    mixed = correlate(SNAPSHOT, COUNTS[np.random.default_rng(0).permutation(N)], **FEW)
    assert any("most people chose another class" in note for note in mixed.notes)


def test_an_image_that_is_no_copy_is_its_own_base(correlations: hardsight.human.Correlations) -> None:
    """`hardsight train` writes a column of nulls if nothing is degraded."""
    nothing = TABLE.append_column("base_id", pa.nulls(N, pa.string()))
    told = correlate(nothing, COUNTS, **FEW)
    assert (
        told.table.drop_columns(["model"]).equals(correlations.table.drop_columns(["model"]))
        and told.agreement().clusters is None
    )
    copies = TABLE.slice(0, 5).set_column(0, "id", pa.array([f"{one}#noise=1" for one in IDS[:5]]))
    copies = copies.append_column("base_id", pa.array(IDS[:5]))
    some = correlate(pa.concat_tables([nothing, copies]), pa.table({"id": IDS, "counts": COUNTS.tolist()}), **FEW).agreement()
    assert some.n == N + 5 and some.clusters is not None


def test_many_classes_with_names_are_no_mistake(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hardsight.files.human.MOST_COUNTS", 1000)
    answers = {"id": list(range(300)), "annotator": [1] * 300, "answer": [3] * 300}
    with pytest.raises(
        InputError, match="a class index below 3, but row 0 holds 3. If there are that many classes, pass their names"
    ):
        read_people(answers)
    people = read_people(answers, ["ant", "bee", "cat", "dog"])
    assert people.counts is not None and people.counts.tolist() == [[0, 0, 0, 1]] * 300
