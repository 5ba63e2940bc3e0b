"""Validators without labels: by hand, against plain loops, and what `auto` makes of them."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest

from adapt_runs import QUICK, adapted, check_kept_model, contents, domains
from hardsight.domains import validation
from hardsight.domains.adapt_models import BASELINE
from hardsight.domains.auto import CANDIDATES, CAREFUL, CHOSEN_BY, best_round, choose, to_reach, warning
from hardsight.domains.validation import (
    VALIDATORS,
    circular_validation,
    class_evenness,
    deep_embedded_validation,
    density_ratio,
    importance_weighted,
    information_maximization,
    mean_avc,
    nearest_neighbors,
    neighbor_agreement,
    soft_neighborhood_density,
    validators,
)
from hardsight.head import Head
from undrawn import undrawn

rng = np.random.default_rng(0)
LOGITS = rng.normal(size=(40, 3)) * 3


def probabilities(logits: np.ndarray) -> np.ndarray:
    return np.exp(logits) / np.exp(logits).sum(1, keepdims=True)


def entropy(p: np.ndarray) -> float:
    return -sum(q * math.log(q) for q in p if q > 0)


# ---- from what the model says of the target ----


def test_information_is_the_entropy_of_the_mean_less_the_mean_entropy() -> None:
    p = probabilities(LOGITS)
    expected = entropy(p.mean(0)) - np.mean([entropy(row) for row in p])
    assert information_maximization(LOGITS) == pytest.approx(expected)
    one_class = np.tile([30.0, 0.0, 0.0], (5, 1))
    assert information_maximization(one_class) == pytest.approx(0.0, abs=1e-9)  # sure, but always of the same


def plain_density(logits: np.ndarray, temperature: float) -> float:
    """Saito et al., equation by equation: a double loop."""
    p = probabilities(logits)
    entropies = []
    for i, row in enumerate(p):
        others = [j for j in range(len(p)) if j != i]
        cosines = np.array([row @ p[j] / np.linalg.norm(row) / np.linalg.norm(p[j]) for j in others])
        weights = np.exp(cosines / temperature)
        entropies.append(entropy(weights / weights.sum()))
    return float(np.mean(entropies))


@pytest.mark.parametrize("temperature", [0.05, 1.0, 0.005])
def test_density_is_that_of_the_plain_loop_in_blocks_of_any_size(temperature: float, monkeypatch: pytest.MonkeyPatch) -> None:
    expected = plain_density(LOGITS, temperature)
    assert soft_neighborhood_density(LOGITS, temperature) == pytest.approx(expected, rel=1e-5)
    monkeypatch.setattr(validation, "_ENTRIES", 7 * len(LOGITS))  # 7 rows at a time, the last block shorter
    assert soft_neighborhood_density(LOGITS, temperature) == pytest.approx(expected, rel=1e-5)


def test_density_by_hand() -> None:
    two_pairs = np.array([[50.0, 0], [50, 0], [0, 50], [0, 50]])  # each has one other like it, and two at right angles
    weights = np.array([math.exp(20), 1, 1])
    assert soft_neighborhood_density(two_pairs) == pytest.approx(entropy(weights / weights.sum()), abs=1e-6)
    assert soft_neighborhood_density(np.zeros((9, 4))) == pytest.approx(math.log(8))  # all alike: the highest
    assert math.isnan(soft_neighborhood_density(LOGITS[:1]))


def test_mean_avc_is_that_of_what_is_selected() -> None:
    weight = np.array([[1.0, 0.0], [0.0, 1.0]])
    degrees = np.deg2rad([0, 10, 20, 30, 90, 80, 70, 60])
    features = np.stack([np.cos(degrees), np.sin(degrees)], axis=1)
    value = mean_avc(9 * features @ weight.T, features, Head("linear", weight), portion=0.4)  # one of the four of each class
    assert value == pytest.approx(180 / (180 + 90))
    assert math.isnan(mean_avc(features[:1] @ weight.T, features[:1], Head("linear", weight)))


# ---- from where the samples were before ----


def test_neighbors_are_those_of_the_plain_loop_and_broken_rows_have_none(monkeypatch: pytest.MonkeyPatch) -> None:
    features = rng.normal(size=(30, 4))
    features[7] = np.nan
    monkeypatch.setattr(validation, "_ENTRIES", 4 * len(features))  # 4 rows at a time
    nearest = nearest_neighbors(features, k=3)
    unit = features / np.linalg.norm(features, axis=1, keepdims=True)
    for i in set(range(30)) - {7}:
        others = sorted((j for j in range(30) if j not in (i, 7)), key=lambda j: -(unit[i] @ unit[j]))
        assert set(nearest[i].tolist()) == set(others[:3])
    assert nearest[7].tolist() == [-1, -1, -1]
    assert nearest_neighbors(features[:1]).shape == (1, 0)
    assert nearest_neighbors(features[:3], k=10).shape == (3, 2)  # as many as there are


def test_every_class_counts_the_same_among_neighbors() -> None:
    nearest = np.array([[1, 2], [0, 2], [0, 1], [4, 0], [3, 0]])
    predicted = np.array([0, 0, 0, 1, 1])  # class 0 agrees, half of the neighbors of class 1 do
    assert neighbor_agreement(nearest, predicted, 2) == pytest.approx((1 + 0.5) / 2)
    assert neighbor_agreement(nearest, predicted, 3) == pytest.approx((1 + 0.5) / 3)  # one is never predicted
    assert neighbor_agreement(nearest, np.array([0, 0, 0, -1, 1]), 2) == pytest.approx(0.5)  # one without a prediction
    assert math.isnan(neighbor_agreement(np.zeros((2, 0), int), np.array([0, 1]), 2))


# ---- from the source ----


def test_the_way_back_leads_to_the_source_labels_and_a_lost_class_is_missed() -> None:
    labels = np.arange(120) % 3
    there = 4 * np.eye(3)[labels] + rng.normal(size=(120, 3))
    here = 4 * np.eye(3)[labels] + rng.normal(size=(120, 3)) + 7
    assert circular_validation(here, labels, there, labels) > 0.95
    assert circular_validation(here, (labels + 1) % 3, there, labels) < 0.05  # every class stands for another
    merged = np.where(labels == 2, 1, labels)
    assert circular_validation(here, merged, there, labels) == pytest.approx(2 / 3, abs=0.05)
    assert circular_validation(here, np.zeros(120, int), there, labels) == pytest.approx(1 / 3)


@pytest.mark.parametrize("d", [4, 50])  # fewer columns than samples, and more
def test_the_way_back_is_weighted_least_squares(d: int) -> None:
    theirs, ours = rng.normal(size=(30, d)), rng.normal(size=(20, d))
    predicted, labels = np.arange(30) % 5 % 3, np.arange(20) % 3
    x, back = ((z - z.mean(0)) / z.std(0) for z in (theirs, ours))
    x, back = (np.hstack([z, np.ones((len(z), 1))]) for z in (x, back))
    scale = np.sqrt([30 / 3 / (predicted == k).sum() for k in predicted])[:, None]
    ridge = np.sqrt(0.1 * 30) * np.eye(d + 1)
    stacked = np.linalg.lstsq(
        np.vstack([x * scale, ridge]), np.vstack([np.eye(3)[predicted] * scale, np.zeros((d + 1, 3))]), rcond=None
    )[0]
    right = (back @ stacked).argmax(1) == labels
    expected = np.mean([right[labels == k].mean() for k in range(3)])
    assert circular_validation(theirs, predicted, ours, labels) == pytest.approx(expected)


def test_density_ratios_of_two_normals_are_near_the_truth_whatever_the_numbers() -> None:
    source, target = rng.normal(size=(4000, 1)), rng.normal(size=(1000, 1)) + 1
    at = np.array([[-1.0], [0.0], [0.5], [2.0]])
    truth = np.exp(at[:, 0] - 0.5)  # N(1, 1) over N(0, 1)
    assert density_ratio(source, target, at) == pytest.approx(truth, rel=0.25)
    apart = density_ratio(source, target + 1e6, at)
    assert np.isfinite(apart).all() and (apart < 0.01).all()


def test_weighted_means_by_hand() -> None:
    values, weights = np.array([1.0, 0.0, 1.0, 0.0]), np.array([3.0, 1.0, 0.0, 0.0])
    assert importance_weighted(values, weights) == pytest.approx(3 / 4)
    assert math.isnan(importance_weighted(values, np.zeros(4)))
    product, eta = weights * values, 0.0  # (3, 0, 0, 0); means 3/4 and 1: the control variate adds nothing
    assert deep_embedded_validation(values, weights) == pytest.approx(product.mean())
    weights = weights / 2
    product = weights * values
    eta = -np.cov(product, weights)[0, 1] / weights.var(ddof=1)
    assert deep_embedded_validation(values, weights) == pytest.approx(product.mean() + eta * (0.5 - 1))
    assert deep_embedded_validation(values, np.full(4, 0.7)) == pytest.approx(0.35)  # equal weights vary with nothing


def test_values_of_skada() -> None:
    """What skada 0.6.0's SoftNeighborhoodDensity, PredictionEntropyScorer and DeepEmbeddedValidation say of the same model.

    Its DEV was given losses as a column (a row of them is multiplied with every weight), and even rows to fit weights on.
    """
    from sklearn.linear_model import LogisticRegression

    rng, labels = np.random.default_rng(14), np.arange(60) % 3
    source = np.eye(3)[labels] * 2 + rng.normal(size=(60, 3))
    target = np.eye(3)[np.arange(40) % 3] * 2 + rng.normal(size=(40, 3)) + 0.5
    weight = np.array([[2.0, 0, -1], [-1, 2, 0], [0, -1, 2]])
    assert soft_neighborhood_density(target @ weight.T) == pytest.approx(2.4422101840728367, rel=1e-7)
    mean = probabilities(target @ weight.T).mean(0)
    entropies = (entropy(mean) - information_maximization(target @ weight.T)) / 3  # skada's mean is over classes too
    assert entropies == pytest.approx(0.07214083238413212, rel=1e-5)  # it adds 1e-7 to each probability
    of_target = np.arange(70) >= 30
    classifier = LogisticRegression(max_iter=200).fit(np.concatenate([source[::2], target]), of_target)
    p = classifier.predict_proba(source[1::2])
    wrong = (source[1::2] @ weight.T).argmax(1) != labels[1::2]
    assert deep_embedded_validation(wrong, 30 / 40 * p[:, 1] / p[:, 0]) == pytest.approx(0.4631399208407857, rel=1e-6)


@pytest.mark.parametrize(("n", "missing"), [(1, {"snd", "mean_avc"}), (3, set()), (0, set(VALIDATORS))])
def test_few_and_broken_samples_leave_gaps_and_no_errors(n: int, missing: set[str]) -> None:
    weight = rng.normal(size=(3, 5)).astype(np.float32)
    features = rng.normal(size=(n + 1, 5)).astype(np.float32)
    features[n] = np.nan  # an image that cannot be read
    ours = rng.normal(size=(12, 5)).astype(np.float32)
    values = validators(features @ weight.T, features, Head("linear", weight), ours, np.arange(12) % 3)
    assert tuple(values) == VALIDATORS
    assert {name for name, value in values.items() if value is None} >= missing
    assert n != 3 or values["snd"] is not None


# ---- in a run ----


def entries(*values: float | None) -> list[dict[str, Any]]:
    return [{"round": k + 1, "validators": {CHOSEN_BY: value}} for k, value in enumerate(values)]


def test_auto_takes_the_best_judged_round_or_the_source() -> None:
    histories = {"cbst": entries(0.5, 0.8, 0.8, 0.7), "crst": entries(0.9, None)}
    assert best_round(histories["cbst"]) == 3 and best_round(histories["crst"]) == 1
    (source,) = entries(0.4)
    choice = choose({"source": [source], **histories})
    assert (choice.method.name, choice.entry["round"]) == ("crst", 1)
    sure = [{"round": 0, "validators": {CHOSEN_BY: 0.95}}]
    assert choose({"source": sure, **histories}).method.name == "source"
    assert choose({"source": [{"round": 0}], "cbst": [{"round": 1}]}).method.name == "source"  # nothing is known


def test_classes_that_are_uneven_ask_more_of_class_balanced_methods() -> None:
    (source,) = entries(0.5)
    balanced = entries(0.7, 0.72)

    def chosen(careful: float, evenness: float | None, balanced: list[dict[str, Any]] = balanced) -> str:
        histories = {"source": [source], "cbst": balanced, CAREFUL: [{**entries(careful)[0], "evenness": evenness}]}
        return choose(histories).method.name

    assert [chosen(0.66, evenness) for evenness in (1.0, 0.95, 0.93, None)] == ["cbst", "cbst", CAREFUL, "cbst"]  # 0.71, 0.73
    assert chosen(0.73, 1.0) == CAREFUL and chosen(0.51, 1.0, entries(0.512)) == "source"
    assert chosen(0.51, 0.8, entries(0.7)) == "source" and chosen(0.51, 0.8, entries(0.72)) == "cbst"  # 0.71 is asked
    assert choose({"source": [source], CAREFUL: entries(None), "cbst": balanced}).method.name == "cbst"
    assert class_evenness([0, 0, 1, -1], 3) == pytest.approx(entropy(np.array([2 / 3, 1 / 3])) / math.log(3))
    assert math.isnan(class_evenness([-1], 3))


def test_a_warning_says_what_fell() -> None:
    (source,), (worse,), (better,) = entries(0.8), entries(0.6), entries(0.9)
    assert "0.8000 to 0.6000, less than the 0.8050" in str(warning(source, worse))
    assert warning(source, entries(0.804)[0]) and not warning(source, entries(0.806)[0])  # a fortieth of 0.2 is 0.005
    (sure,) = entries(0.968)  # as from MNIST to USPS, where a rise of 0.001 is a fortieth of what is left and more
    assert warning(sure, entries(0.9687)[0]) and not warning(sure, entries(0.969)[0])
    assert warning(source, better) is None and warning(source, {"round": 1}) is None and warning({}, worse) is None


@pytest.fixture(scope="module")
def automatic(tmp_path_factory: pytest.TempPathFactory) -> Any:
    pytest.importorskip("torch")
    with undrawn():
        return adapted(tmp_path_factory.mktemp("auto") / "run", methods="source,auto")


def test_auto_writes_the_model_of_the_round_it_chose(automatic: Any) -> None:
    done, (_, here, labels) = automatic, domains()
    assert done.accuracy.column("method").to_pylist() == ["source", BASELINE, *CANDIDATES, "auto"]
    folder = done.run / "source-to-target" / "seed=0"
    (chosen,) = json.loads((folder / "auto" / "rounds.json").read_text("utf-8"))
    rounds = done.rounds.to_pylist()
    everything = [row for row in rounds if row["method"] not in ("auto", BASELINE)]
    histories = {
        name: [{**row, "validators": row} for row in everything if row["method"] == name] for name in ("source", *CANDIDATES)
    }
    choice = choose(histories)
    assert (chosen["method"], chosen["round"]) == (choice.method.name, choice.entry["round"])
    assert chosen["validators"][CHOSEN_BY] > to_reach({"validators": everything[0]})
    (careful,) = [row for row in everything if row["method"] == CAREFUL and row["round"] == QUICK["rounds"]]
    last = pq.read_table(folder / CAREFUL / "predictions.parquet")["predicted"].to_numpy()
    assert careful["evenness"] == pytest.approx(class_evenness(last, 3))
    table = pq.read_table(folder / "auto" / "predictions.parquet").to_pandas()
    assert table.predicted.tolist() == check_kept_model(folder / "auto", here, labels).tolist()
    assert not list(folder.rglob("best.safetensors"))  # kept only until the choice was made
    told = next(row for row in rounds if row["method"] == "auto")
    assert (told["chosen"], told["round"]) == (chosen["method"], chosen["round"])
    row = next(row for row in done.accuracy.to_pylist() if row["method"] == "auto")
    assert row["oracle_accuracy"] == max(row["accuracy"] for row in everything)
    page = (done.run / "report.html").read_text("utf-8")
    assert f"auto chose seed 0: {chosen['method']}, round {chosen['round']}" in page


def test_every_round_has_its_validators_and_how_far_it_moved_the_avc(automatic: Any) -> None:
    rows = [row for row in automatic.rounds.to_pylist() if row["method"] in ("source", *CANDIDATES)]
    assert len(rows) == 1 + len(CANDIDATES) * QUICK["rounds"]
    assert all(row[name] is not None for row in rows for name in VALIDATORS)
    for method in CANDIDATES:
        own = [row for row in rows if row["method"] == method]
        moved = np.diff([rows[0]["mean_avc"], *(row["mean_avc"] for row in own)])
        assert [row["avc_change"] for row in own] == pytest.approx(moved)
    page = (automatic.run / "report.html").read_text("utf-8")
    assert all(f"{row[name]:.4g}" in page for row in rows for name in VALIDATORS)


@pytest.mark.usefixtures("undrawn")
def test_target_labels_do_not_choose(automatic: Any, tmp_path: Path) -> None:
    from hardsight import adapt as run

    there, here, labels = domains()
    run((there, labels), (here, np.full(len(here), -1)), tmp_path / "blind", methods="source,auto", **QUICK)
    first, second = (place / "source-to-target" / "seed=0" / "auto" for place in (automatic.run, tmp_path / "blind"))
    one, other = (json.loads((folder / "rounds.json").read_text("utf-8"))[0] for folder in (first, second))
    assert (one["method"], one["round"], one["validators"]) == (other["method"], other["round"], other["validators"])
    assert (first / "head.safetensors").read_bytes() == (second / "head.safetensors").read_bytes()
    assert contents(first).keys() == contents(second).keys()
