"""Votes of no, maybe and yes: every form says the same, Dawid and Skene against crowd-kit, both readings, and what is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from hardsight import Snapshot, correlate, people
from hardsight.errors import InputError
from hardsight.human.settings import PeopleSettings
from hardsight.human.votes import VOTES, dawid_skene, read_votes

N, C = 200, 5
RNG = np.random.default_rng(0)
WEIGHT = RNG.normal(size=(C, 6))
LABELS = np.arange(N) % C
FEATURES = WEIGHT[LABELS] + RNG.normal(size=(N, 6))
SNAPSHOT = Snapshot(FEATURES, WEIGHT, LABELS)
TOTALS = RNG.multinomial(5, [0.3, 0.2, 0.5], size=N)  # (n, 3) no, maybe, yes
FEW: dict[str, Any] = {"replicates": 40, "permutations": 20, "splits": 2}


def table(rows: np.ndarray) -> dict[str, Any]:
    """Totals about the given label of some samples."""
    return {"id": rows.tolist(), **{vote: TOTALS[rows, k].tolist() for k, vote in enumerate(VOTES)}}


def one_by_one(rows: np.ndarray) -> dict[str, Any]:
    """The same votes, one row each, by raters 0 to 4."""
    answers = [(row, rater, vote) for row in rows for rater, vote in enumerate(np.repeat(VOTES, TOTALS[row]))]
    ids, raters, votes = zip(*answers, strict=True)
    return {"id": list(ids), "annotator": list(raters), "vote": list(votes)}


def read(source: Any, **options: Any) -> Any:
    """Votes about SNAPSHOT."""
    return read_votes(source, SNAPSHOT, PeopleSettings(**options))


def test_share_of_yes_and_a_weight_for_maybe() -> None:
    rows = np.arange(50)
    votes = read(table(rows))
    assert votes.people.frequency == pytest.approx(TOTALS[rows, 2] / 5) and votes.people.answers == pytest.approx(5)
    half = read(table(rows), maybe=0.5)
    assert half.people.frequency == pytest.approx((TOTALS[rows, 2] + TOTALS[rows, 1] / 2) / 5) and half.people.answers is None


def test_every_form_says_the_same() -> None:
    rows = np.arange(60)
    expected = read(table(rows)).people.frequency
    for form in (one_by_one(rows), pa.table(table(rows)), {**table(rows), "label": LABELS[rows].tolist()}):
        assert read(form).people.frequency == pytest.approx(expected)
    assert read({"id": [0, 1], "frequency": [0.5, 1.0]}) is None and read(np.ones((N, C))) is None


def test_images_in_other_folders_are_joined_by_file_name() -> None:
    rows = np.arange(60)
    run = Snapshot(FEATURES, WEIGHT, LABELS, ids=[f"val/{k % C}/{k:03d}.jpg" for k in range(N)])
    votes = {**table(rows), "id": [f"{k:03d}.JPEG" for k in rows]}
    contested, everything = correlate(run, votes, **FEW).main
    assert contested.n == 60 and contested.values == pytest.approx(TOTALS[rows, 2] / 5) and everything.n == N
    assert people(run, votes)["source"].to_pylist() == ["answered"] * 60 + ["predicted"] * 140


def test_candidate_labels_give_entropy() -> None:
    """Two labels that all accept: log 2; one of two: 0; nobody accepts any: unknown. Sample 3 was asked about others alone."""
    asked = [(0, 0, 5), (0, 1, 5), (1, 1, 5), (1, 2, 0), (2, 2, 0), (2, 3, 0), (3, 0, 5)]  # id, label, yes
    ids, labels, yes = (list(column) for column in zip(*asked, strict=True))
    votes = read({"id": ids, "label": labels, "no": [5 - count for count in yes], "yes": yes})
    assert votes.people.ids.tolist() == ["0", "1", "2"] and votes.people.frequency.tolist() == [1, 1, 0]
    assert votes.entropy == pytest.approx([np.log(2), 0, np.nan], nan_ok=True) and votes.unasked == 1


def test_correlate_gives_both_readings() -> None:
    """Samples that were not put to a vote: left out, and counted as 1."""
    rows = np.arange(0, N, 2)
    found = correlate(SNAPSHOT, table(rows), **FEW)
    contested, everything = found.main
    assert contested.n == 100 and everything.n == N and everything.target.key == "frequency_all"
    values = np.ones(N)
    values[rows] = TOTALS[rows, 2] / 5
    assert everything.values == pytest.approx(values) and "100 of 200" in found.notes[0]
    by_frequency = correlate(
        SNAPSHOT, {"id": rows.tolist(), "frequency": (TOTALS[rows, 2] / 5).tolist()}, allow_missing=True, **FEW
    )
    assert contested.single("avh")["agreement"] == by_frequency.agreement().single("avh")["agreement"]


def test_people_takes_votes() -> None:
    found = people(SNAPSHOT, table(np.arange(120)))
    assert found["source"].to_pylist().count("answered") == 120


# ---- Dawid and Skene ----


def made_up(seed: int = 0) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """True answers of 300 questions, and the votes of 8 raters, half of whom guess."""
    rng = np.random.default_rng(seed)
    truth = rng.integers(0, 3, 300)
    item, rater = np.repeat(np.arange(300), 5), np.concatenate([rng.permutation(8)[:5] for _ in range(300)])
    guessed = rng.random(len(item)) < np.where(rater < 4, 0.1, 0.8)
    return truth, item, rater, np.where(guessed, rng.integers(0, 3, len(item)), truth[item])


def test_dawid_skene_finds_who_guesses() -> None:
    truth, item, rater, vote = made_up()
    found = dawid_skene(item, rater, vote, 3)
    counts = np.zeros((300, 3))
    np.add.at(counts, (item, vote), 1)
    right, by_count = (found.argmax(1) == truth).mean(), (counts.argmax(1) == truth).mean()
    assert right > by_count + 0.05 and found.sum(1) == pytest.approx(1)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of crowd-kit, in its use of pandas
def test_dawid_skene_against_crowd_kit() -> None:
    crowdkit = pytest.importorskip("crowdkit.aggregation")
    import pandas as pd

    _, item, rater, vote = made_up(1)
    frame = pd.DataFrame({"task": item, "worker": rater, "label": vote})
    theirs = crowdkit.DawidSkene(n_iter=1000, tol=1e-12).fit_predict_proba(frame).sort_index()[[0, 1, 2]].to_numpy()
    ours = dawid_skene(item, rater, vote, 3)
    assert ours == pytest.approx(theirs, abs=5e-3) and (ours.argmax(1) == theirs.argmax(1)).all()


def test_raters_are_weighed() -> None:
    truth, item, rater, vote = made_up()
    source = {"id": item[item < N], "annotator": rater[item < N], "vote": np.array(VOTES)[vote[item < N]]}
    weighed = read({key: value.tolist() for key, value in source.items()}, raters="dawid-skene").people
    yes = truth[[int(name) for name in weighed.ids]] == 2
    assert weighed.frequency[yes].mean() > 0.9 and weighed.frequency[~yes].mean() < 0.1 and weighed.answers is None


# ---- refused ----


@pytest.mark.parametrize(
    ("source", "options", "words"),
    [
        ({**table(np.arange(9)), "label": ((LABELS[:9] + 1) % C).tolist()}, {}, ("given label", "'0'", "class 1", "is 0")),
        ({"id": ["x"], "no": [1], "yes": [2]}, {}, ("no id", "'x'", "'0'")),
        ({"id": [], "no": [], "yes": []}, {}, ("no votes",)),
        ({"id": [0, 1], "no": [-1, 0], "yes": [-1, 0]}, {}, ("no votes",)),
        ({"id": [0, 0], "annotator": ["ann", "ann"], "vote": ["yes", "no"]}, {}, ("'ann'", "'0'", "0 and 1")),
        ({"id": [0], "vote": ["yes"]}, {}, ("annotator",)),
        ({"id": [0], "annotator": [1], "vote": ["perhaps"]}, {}, ("'perhaps'", "row 0")),
        ({"no": [1], "yes": [2]}, {}, ("id",)),
        ({"id": [0], "no": [1.5], "yes": [2]}, {}, ("row 0", "1.5")),
        ({"id": [0, 0], "no": [1, 1], "yes": [2, 2]}, {}, ("row 1", "'0'")),
        ({"id": [0], "label": ["dog"], "no": [1], "yes": [2]}, {}, ("row 0", "'dog'")),
        (table(np.arange(9)), {"raters": "dawid-skene"}, ("annotator", "totals")),
    ],
)
def test_votes_that_are_refused(source: Any, options: dict[str, Any], words: tuple[str, ...]) -> None:
    with pytest.raises(InputError) as error:
        read(source, **options)
    assert all(word in str(error.value) for word in words), error.value


def test_all_votes_equal_have_no_coefficient() -> None:
    """Correlate says why; people refuses."""
    equal = {"id": list(range(N)), "no": [0] * N, "yes": [5] * N}
    found = correlate(SNAPSHOT, equal, **FEW)
    assert "the same for all 200" in found.agreement().single("avh")["reason"] and "the same for all 200" in found.notes[-1]
    with pytest.raises(InputError, match="frequency 1"):
        people(SNAPSHOT, equal)


def test_classes_named_no_and_yes_are_counts() -> None:
    two = Snapshot(FEATURES, WEIGHT[:2], LABELS % 2, class_names=["no", "yes"])
    counts = {"id": list(range(N)), "no": TOTALS[:, 0].tolist(), "yes": TOTALS[:, 2].tolist()}
    assert read_votes(counts, two, PeopleSettings()) is None
