"""`people`: laws of the regression, what it learns and when it does not, and what is refused."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow.csv import write_csv
from scipy.stats import spearmanr

import hardsight
from hardsight import Snapshot, people
from hardsight.errors import InputError
from hardsight.human.answer_model import (
    LandmarkMap,
    Ridge,
    as_frequency,
    class_similarity,
    kernel,
    known_of,
    stabilized,
)
from hardsight.screen import Sentence
from refusals import refused

N, C, D = 1200, 6, 8
RNG = np.random.default_rng(0)
CENTERS = 3 * RNG.normal(size=(C, D))
LABELS = RNG.integers(0, C, N)
FEATURES = CENTERS[LABELS] + 1.3 * RNG.normal(size=(N, D))
HEAD = hardsight.Head("linear", CENTERS, -0.5 * np.sum(CENTERS**2, axis=1))
IDS = np.array([f"img-{k:04d}" for k in range(N)])
SNAPSHOT = Snapshot(FEATURES, HEAD, LABELS, ids=IDS)
ODD = FEATURES[:, 0] + 2.0 * (LABELS == 2)  # what people mind and no score knows
TRUE = 1 / (1 + np.exp(1.5 * (ODD - np.quantile(ODD, 0.7))))
COUNTS = RNG.binomial(20, TRUE)  # of 20 people each


def answers(count: int, asked: int = 20) -> dict[str, Any]:
    """What people said of some samples."""
    rows = np.random.default_rng(count).permutation(N)[:count]
    return {"id": IDS[rows].tolist(), "frequency": (COUNTS[rows] / 20).tolist(), "answers": [asked] * count}


# ---- the regression ----


def test_stabilized_by_hand() -> None:
    """All of 20, none, and half: arcsin sqrt of 20.375 / 20.75, 0.375 / 20.75 and 1/2; and back."""
    stable = stabilized(np.array([20.0, 0.0, 10.0]), np.full(3, 20.0))
    assert np.sin(stable) ** 2 == pytest.approx([20.375 / 20.75, 0.375 / 20.75, 0.5])
    assert as_frequency(stable, 20) == pytest.approx([1, 0, 0.5])
    assert as_frequency(np.array([9.0, -9.0]), 20).tolist() == [1, 0]


def test_each_third_is_predicted_by_the_other_two() -> None:
    """As if they were fitted alone, around the mean of all."""
    phi, target, order = RNG.normal(size=(30, 5)), RNG.normal(size=30), RNG.permutation(30)
    ridge = Ridge.fit(phi, target)
    predicted = ridge.held_out(order)
    for third, others in ((order[:10], order[10:]), (order[20:], order[:20])):
        center = phi[others].mean(0)
        gram = (phi[others] - center).T @ (phi[others] - center) + ridge.penalty * np.eye(5)
        slope = np.linalg.solve(gram, (phi[others] - center).T @ (target[others] - target[others].mean()))
        assert predicted[third] == pytest.approx(target.mean() + (phi[third] - center) @ slope)


def test_landmarks_carry_the_kernel() -> None:
    known = known_of([SNAPSHOT], [])
    some = known.take(np.arange(60))
    of = LandmarkMap(some)
    phi = of(some)
    assert phi @ phi.T == pytest.approx(kernel(some, some, of.median), rel=1e-3, abs=1e-3)
    weights = RNG.normal(size=60)
    assert of.times(known.take(np.arange(100)), weights) == pytest.approx(
        of(known.take(np.arange(100))) @ weights, rel=1e-4, abs=1e-5
    )


def test_classes_are_alike_as_their_vectors() -> None:
    """Three vectors in the plane, 120 degrees apart: the cosine of two is -1/2, halved with the identity."""
    angles = np.deg2rad([0, 120, 240])
    head = np.stack([np.cos(angles), np.sin(angles)], axis=1)
    assert class_similarity(Snapshot(np.eye(2), head, [0, 1])) == pytest.approx(np.where(np.eye(3) > 0, 1, -0.25))


def test_whom_to_ask_next_is_drawn_from_the_samples_without_answers() -> None:
    """At random: another seed draws others, and what is printed does not say that they were chosen."""
    first, same, other = (people(SNAPSHOT, answers(150), ask=5, seed=seed) for seed in (0, 0, 1))
    assert first.ask_next == same.ask_next != other.ask_next and not set(other.ask_next) & set(answers(150)["id"])
    assert any("drawn at random" in line.text for line in first.lines() if isinstance(line, Sentence))


# ---- what it learns ----


def test_answers_teach_what_scores_do_not_know() -> None:
    found = people(SNAPSHOT, answers(400))
    table = found.to_pandas()
    assert table.columns.tolist() == ["id", "predicted_frequency", "low", "high", "source"]
    assert (table["source"] == "answered").sum() == 400 and table["id"].tolist() == IDS.tolist()
    rest = (table["source"] == "predicted").to_numpy()
    agreement = spearmanr(table["predicted_frequency"][rest], TRUE[rest])[0]
    assert agreement > 0.8 > found.agreement["hardness"] + 0.2
    inside = (table["low"] <= COUNTS / 20) & (COUNTS / 20 <= table["high"])
    assert 0.9 <= inside[rest].mean() <= 0.99
    assert abs(table["predicted_frequency"][rest].mean() - COUNTS[rest].mean() / 20) < 0.03


def test_an_answered_sample_is_predicted_by_the_others() -> None:
    """A wrong answer about one sample moves its neighbors, not its own prediction."""
    given = answers(300)
    before = people(SNAPSHOT, given)
    given["frequency"][7] = 1 - given["frequency"][7]
    after = people(SNAPSHOT, given)
    row = IDS.tolist().index(given["id"][7])
    own = after["predicted_frequency"][row].as_py() - before["predicted_frequency"][row].as_py()
    assert abs(own) < 0.15


def test_curve_shares_and_what_to_ask() -> None:
    found = people(SNAPSHOT, answers(400), ask=5)
    sizes, values = zip(*found.curve, strict=True)
    assert sizes == (100, 200, 267) and values[-1] > values[0]
    assert sum(found.shares.values()) == pytest.approx(1, abs=1e-9)
    noise = np.mean(COUNTS / 20 * (1 - COUNTS / 20) / 19) / np.var(COUNTS / 20)
    assert found.shares["noise"] == pytest.approx(noise, rel=0.15)
    assert len(found.ask_next) == 5 and not set(found.ask_next) & set(answers(400)["id"])
    assert found.summary["answered"] == 400


def test_counts_and_frequencies_say_the_same() -> None:
    given = answers(150)
    chosen = np.rint(np.array(given["frequency"]) * 20).astype(int)
    label = LABELS[[IDS.tolist().index(name) for name in given["id"]]]
    counts = np.zeros((150, C), int)
    counts[np.arange(150), label] = chosen
    counts[np.arange(150), (label + 1) % C] = 20 - chosen
    by_counts = people(SNAPSHOT, {"id": given["id"], "counts": counts.tolist()})
    assert by_counts["predicted_frequency"].to_numpy() == pytest.approx(people(SNAPSHOT, given)["predicted_frequency"].to_numpy())


@pytest.mark.parametrize("turn", [1, -1])
def test_few_answers_scale_a_score(turn: int) -> None:
    """Below 100, the order of all samples is that of the known hardness, even where answers say the opposite; a note says so."""
    known, given = known_of([SNAPSHOT], []), answers(60)
    rows = [IDS.tolist().index(name) for name in given["id"]]
    said = np.round(10 - 3 * turn * known.hardness[rows]).clip(0, 20) / 20
    found = people(SNAPSHOT, given | {"frequency": said.tolist()})
    assert spearmanr(found["predicted_frequency"], known.hardness)[0] == pytest.approx(-1)
    assert turn * found.agreement["spearman"] > 0.9 and found.agreement["spearman"] == pytest.approx(found.agreement["hardness"])
    assert "60" in found.notes[0]


@pytest.mark.parametrize("count", [30, 100, 300])
def test_noise_has_no_coefficient(count: int) -> None:
    """Answers that say nothing: about 95 % of the intervals hold 0, on neither side more often, and the rows have no order."""
    each, rows = [], []
    for seed in range(40):
        rng = np.random.default_rng(seed)
        given = answers(count) | {"frequency": (rng.binomial(20, 0.8, count) / 20).tolist()}
        found = people(SNAPSHOT, given, seed=seed)
        each.append([found.agreement[name] for name in ("spearman", "low", "high")])
        predicted = found["predicted_frequency"].to_numpy()[[IDS.tolist().index(name) for name in given["id"]]]
        rows.append(spearmanr(predicted, given["frequency"])[0])
    value, low, high = np.array(each).T
    error = 1 / np.sqrt(count * 40)
    assert abs(value.mean()) < 3 * error and abs(np.mean(rows)) < 4 * error
    assert np.mean((low <= 0) & (high >= 0)) >= 0.85


def test_samples_that_are_all_alike_have_no_coefficient(tmp_path: Path, cli: Callable[..., Any]) -> None:
    """The table is written, and a note says why there is no coefficient."""
    for count in (40, 200):
        alike = Snapshot(np.tile(FEATURES[:1], (N, 1)), HEAD, np.zeros(N, int), ids=IDS)
        alike.save(tmp_path / f"{count}.npz")
        write_csv(pa.table(answers(count)), tmp_path / "answers.csv")
        done = cli("people", tmp_path / f"{count}.npz", "--answers", tmp_path / "answers.csv", "-o", tmp_path / "out.parquet")
        assert done.code == 0 and "no coefficient: " in done.err and "Spearman" not in done.out, done.err
        assert pq.read_table(tmp_path / "out.parquet")["predicted_frequency"].null_count == 0


def test_two_models_and_a_reference() -> None:
    turn = np.linalg.qr(RNG.normal(size=(D, D)))[0]
    other = Snapshot(FEATURES[::-1] @ turn, hardsight.Head("linear", CENTERS @ turn, HEAD.bias), LABELS[::-1], ids=IDS[::-1])
    both = people([SNAPSHOT, other], answers(200))
    assert both["id"].to_pylist() == IDS.tolist()
    with_reference = people(SNAPSHOT, answers(200), SNAPSHOT)
    assert with_reference["predicted_frequency"].null_count == 0
    with pytest.raises(InputError, match="one reference per model, got 1 for 2"):
        people([SNAPSHOT, other], answers(200), SNAPSHOT)


def test_memorized_answers_are_noticed() -> None:
    """A model that is right about every answered sample and half of the others was trained on the answered ones."""
    labels = LABELS.copy()
    right = SNAPSHOT.scores([])["predicted"].to_numpy()
    labels[:300], labels[300:] = right[:300], np.where(np.arange(N - 300) % 2, right[300:], (right[300:] + 1) % C)
    given = {"id": IDS[:300].tolist(), "frequency": RNG.integers(0, 4, 300) / 3, "answers": [3] * 300}
    found = people(Snapshot(FEATURES, HEAD, labels, ids=IDS), given)
    assert "100.00 %" in found.notes[-1] and "50.00 %" in found.notes[-1]
    assert people(SNAPSHOT, answers(300)).notes == []


def test_unlabeled_samples_and_zero_features_stay_unknown() -> None:
    labels, features = LABELS.copy(), FEATURES.copy()
    labels[0], features[1] = -1, 0.0
    found = people(Snapshot(features, HEAD, labels, ids=IDS), answers(200))
    assert found["predicted_frequency"].is_null().to_pylist()[:3] == [True, True, False]


# ---- refused ----


@pytest.mark.parametrize(
    ("x", "given", "words"),
    [
        (SNAPSHOT, answers(29), ("at least 30", "29")),
        (SNAPSHOT, answers(100) | {"frequency": [1.0] * 100}, ("100", "frequency 1")),
        (SNAPSHOT, {"id": ["x", "y"], "frequency": [0.1, 0.2]}, ("'x'", "'img-0000'")),
        (Snapshot(logits=FEATURES[:, :C], labels=LABELS, ids=IDS), answers(100), ("head", "logits")),
        (Snapshot(FEATURES, HEAD, ids=IDS), answers(100), ("label",)),
        ([SNAPSHOT, SNAPSHOT.take(np.arange(5))], answers(100), ("1195", "'img-0005'")),
    ],
)
def test_what_is_refused(x: Any, given: Any, words: tuple[str, ...]) -> None:
    with pytest.raises(InputError) as error:
        people(x, given)
    assert all(word in str(error.value) for word in words), error.value


def test_reference_of_another_model_is_refused() -> None:
    with pytest.raises(InputError, match="another model"):
        people(SNAPSHOT, answers(100), Snapshot(FEATURES, -CENTERS, LABELS))
    few = Snapshot(FEATURES[LABELS > 0], HEAD, LABELS[LABELS > 0])
    with pytest.raises(InputError, match="1 of 6 are missing, such as 0"):
        people(SNAPSHOT, answers(100), few)


def test_command(tmp_path: Path, cli: Callable[..., Any]) -> None:
    SNAPSHOT.save(tmp_path / "run.npz")
    pq.write_table(pa.table(answers(120) | {"id": [*answers(119)["id"][:119], "elsewhere"]}), tmp_path / "answers.parquet")
    words = ("people", tmp_path / "run.npz", "--answers", tmp_path / "answers.parquet", "-o", tmp_path / "people.parquet")
    done = cli(*words, "--ask", "3")
    assert done.code == 0, done.err
    assert "answered 119" in done.out and "to ask next" in done.out and "1 of 120" in done.err and "1 of 120" not in done.out
    assert pq.read_table(tmp_path / "people.parquet").num_rows == N
    refused(cli(*words[:-1], tmp_path / "people.txt"), "people.txt", ".parquet")


def test_flip_pass_is_averaged(tmp_path: Path) -> None:
    """What extract --passes flip stored next to a run counts as much as the images themselves."""
    torch = pytest.importorskip("torch")
    net = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(192, 5), torch.nn.Linear(5, 10))
    run = hardsight.extract(net, "digits", tmp_path / "run", passes=["flip"], first=80, preprocessing={"size": (8, 8)})
    flipped = Snapshot.load(tmp_path / "run" / "passes" / "flip")
    mean = (np.asarray(run.features) + np.asarray(flipped.features)) / 2
    known = known_of([Snapshot.open(tmp_path / "run")], [])
    spread = mean.std(0)
    assert known.features == pytest.approx((mean - mean.mean(0)) / np.where(spread > 0, spread, 1), abs=1e-4)
    assert not np.allclose(known.features, known_of([run.take(np.arange(80))], []).features)


@pytest.mark.parametrize(
    ("name", "given", "words"),
    [
        ("twice.csv", {"id": IDS[[0, 0]], "annotator": ["ann", "ann"], "vote": ["yes", "no"]}, ("'ann'", "0 and 1")),
        ("other.csv", {"id": IDS[:40], "label": (LABELS[:40] + 1) % C, "no": [1] * 40, "yes": [4] * 40}, ("given label",)),
        ("ids.csv", {"id": [f"x{k}" for k in range(40)], "frequency": COUNTS[:40] / 20}, ("'x0'", "'img-0000'")),
        ("equal.csv", {"id": IDS[:40], "frequency": [1.0] * 40}, ("40", "frequency 1")),
        ("few.csv", answers(29), ("at least 30", "29")),
    ],
)  # fmt: skip
def test_answers_that_the_command_refuses(tmp_path: Path, cli: Callable[..., Any], name: str, given: Any, words: Any) -> None:
    """One line that names the file and what is wrong with it, and no output."""
    SNAPSHOT.save(tmp_path / "run.npz")
    table = pa.table({key: np.asarray(column).tolist() for key, column in given.items()})
    write_csv(table, tmp_path / name)
    refused(cli("people", tmp_path / "run.npz", "--answers", tmp_path / name, "-o", tmp_path / "out.csv"), name, *words)
    assert not (tmp_path / "out.csv").exists()


def test_people_opens_what_a_snapshot_opens() -> None:
    found = people(SNAPSHOT, answers(200))
    frame = pd.DataFrame(FEATURES, columns=[f"f{k}" for k in range(D)]).assign(class_of=LABELS, id=IDS)
    for opened in (
        people(FEATURES, answers(200), head=HEAD, labels=LABELS, ids=IDS),
        people(frame, answers(200), head=HEAD, labels="class_of", features="f*"),
    ):
        assert opened.table["id"].equals(found.table["id"])
        assert np.allclose(opened.table["predicted_frequency"], found.table["predicted_frequency"])
