"""`python -m benchmarks hardness` and `clean`: what is injected, how detections are counted, and reuse of finished work."""

from __future__ import annotations

import io
import json
import re
import shutil
from collections.abc import Iterator
from contextlib import redirect_stdout
from dataclasses import asdict, astuple
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import hardsight
from benchmarks import clean, further_scores, hardness, peers
from benchmarks.__main__ import main
from benchmarks.finding import Detection, detection
from benchmarks.injection import MISLABELS, VIEWS, copied, mislabeled, scrambled
from benchmarks.odd_inputs import mixed
from benchmarks.pictures import load
from benchmarks.scored import by_unseen_heads
from doc_blocks import doc_script
from hardsight import score
from hardsight.scores import SCORES
from hardsight.snapshot import Snapshot

RNG = np.random.default_rng(0)
IMAGES = RNG.random((60, 1, 4, 4), dtype=np.float32)
LABELS = np.arange(60) % 4


# ---- what is injected ----


@pytest.mark.parametrize("kind", MISLABELS)
@pytest.mark.parametrize("rate", [0.05, 0.1, 0.3])
def test_exactly_the_share_asked_for_gets_another_label(kind: str, rate: float) -> None:
    noisy = mislabeled(kind, IMAGES, LABELS, rate, seed=0)
    assert (noisy != LABELS).sum() == round(rate * 60)
    assert noisy.min() >= 0 and noisy.max() <= 3
    np.testing.assert_array_equal(noisy, mislabeled(kind, IMAGES, LABELS, rate, seed=0))
    assert (noisy != mislabeled(kind, IMAGES, LABELS, rate, seed=1)).any()


def test_a_pair_is_the_next_class_and_an_adjacent_one_the_nearest_by_mean() -> None:
    labels = np.array([0, 1, 2, 0, 1, 2])
    images = np.array([0.0, 0.2, 0.9, 0.0, 0.2, 0.9], np.float32).reshape(6, 1, 1, 1)
    for kind, wrong in (("pair", [1, 2, 0]), ("adjacent", [1, 0, 1])):
        noisy = mislabeled(kind, images, labels, 0.5, seed=0)
        changed = noisy != labels
        assert changed.sum() == 3
        np.testing.assert_array_equal(noisy[changed], np.array(wrong)[labels[changed]])


def test_an_image_that_looks_like_another_class_is_the_likeliest_to_get_its_label() -> None:
    labels = np.repeat([0, 1, 2], 50)
    values = np.repeat([0.0, 0.5, 1.0], 50)
    values[0] = 0.9  # labeled 0, and looks like 2
    images = values.astype(np.float32).reshape(150, 1, 1, 1)
    noisy = [mislabeled("instance", images, labels, 0.02, seed) for seed in range(20)]
    assert {int(given[0]) for given in noisy} == {2}


def test_views_leave_part_of_a_picture() -> None:
    picture = np.zeros((200, 1, 8, 8), np.float32)
    picture[:, :, 3:5, 3:5] = 1.0
    views = {kind: view(picture, np.random.default_rng(0)) for kind, view in VIEWS.items()}
    assert {view.shape for view in views.values()} == {picture.shape}
    corners = {tuple(np.argwhere(image[0]).min(0)) for image in views["shift"]}
    assert corners == {(1, 1), (1, 5), (5, 1), (5, 5)}  # a quarter of the side away, in any of four directions
    np.testing.assert_array_equal(views["zoom"][0, 0], np.pad(np.ones((4, 4)), 2))
    full = VIEWS["crop"](np.ones((200, 1, 8, 8), np.float32), np.random.default_rng(0))
    assert set(full.sum((1, 2, 3))) == {25.0} and (full.max(0) == 1).all()  # 5 x 5 of it, anywhere


def test_scrambled_images_have_the_same_pixels_and_copies_nearly_the_same() -> None:
    odd = scrambled(IMAGES, np.random.default_rng(0))
    assert (odd != IMAGES).any()
    np.testing.assert_array_equal(np.sort(odd.reshape(60, -1)), np.sort(IMAGES.reshape(60, -1)))
    copies = copied(IMAGES, np.random.default_rng(0))
    assert copies.dtype == np.float32 and 0 < np.abs(copies - IMAGES).max() < 0.15


def test_odd_samples_take_the_place_of_what_they_were_made_of() -> None:
    rows, hard = mixed(np.arange(10), np.arange(20, 25), 0.3)
    assert rows.tolist() == [20, 21, 22, 3, 4, 5, 6, 7, 8, 9] and hard.sum() == 3
    rows, hard = mixed(np.arange(10), np.arange(20, 25), 0.4, pairs=True)
    assert rows.tolist() == [20, 21, 0, 1, 2, 3, 4, 5, 6, 7] and rows[hard].tolist() == [20, 21, 0, 1]


# ---- how findings are counted ----


def test_findings_by_hand() -> None:
    hard = np.array([True, False, True, False, False])
    # Ranks of the hard ones: 1 and 3. Pairs won: 3 + 2 of 6. Precision 1/1 and 2/3. Of the first two, one is hard.
    assert astuple(detection(np.array([5.0, 4.0, 3.0, 2.0, 1.0]), hard)) == pytest.approx((5 / 6, 5 / 6, 0.5))


def test_findings_are_those_of_scikit_learn() -> None:
    from sklearn.metrics import average_precision_score, roc_auc_score

    rng = np.random.default_rng(0)
    hard, score = rng.random(200) < 0.2, rng.integers(0, 30, 200).astype(float)  # with ties
    ours = detection(score, hard)
    assert (ours.auroc, ours.average_precision) == pytest.approx(
        (roc_auc_score(hard, score), average_precision_score(hard, score))
    )


def test_equal_scores_are_in_no_order_and_missing_ones_come_last() -> None:
    hard = np.array([True, False, True, False])
    assert detection(np.ones(4), hard) == Detection(0.5, 0.5, 0.5)
    assert detection(np.array([np.nan, 1.0, 2.0, -5.0]), hard).missed == 0.5
    assert detection(np.array([np.inf, 1.0, 2.0, -np.inf]), hard) == Detection(1.0, 1.0, 0.0)


def test_the_best_of_cleanlab_is_what_ours_is_compared_with() -> None:
    of = lambda run, probs, theirs: {
        "errors": 100,
        "expected": {clean.FROM_RUN: 90.0, clean.FROM_PROBS: 150.0, clean.FROM_FEATURES: 100.0},
        "interval": {clean.FROM_RUN: [80.0, 99.0], clean.FROM_PROBS: [90.0, 100 * run + 20], clean.FROM_FEATURES: [99.0, 101.0]},
        "average_precision": {clean.FROM_RUN: run, clean.FROM_PROBS: probs, "cleanlab a": theirs, "cleanlab b": 0.1},
    }
    lines = {line.what: line for line in clean.measurements("case", [of(0.9, 0.6, 0.7), of(0.7, 0.6, 0.9)])}
    assert lines[clean.FROM_RUN].ratio == pytest.approx(1.0) and lines[clean.FROM_RUN].within
    assert lines[clean.FROM_PROBS].ratio == pytest.approx(0.8 / 0.6) and lines[clean.FROM_PROBS].within is False
    assert lines["cleanlab a"].limit is None
    count = lines[f"{clean.FROM_RUN}: expected errors"]
    assert (count.value, count.unit, count.within) == (90.0, "of 100 errors", True) and count.ratio == pytest.approx(0.1)
    assert lines[f"{clean.FROM_PROBS}: expected errors"].within is False
    covered = [lines[f"{name}: intervals that cover the truth"].value for name in clean.WAYS]
    assert covered == [0.0, 0.5, 1.0]


# ---- the study ----


@pytest.fixture(scope="module", autouse=True)
def no_datagnosis() -> Iterator[None]:
    """It trains eleven networks in every case, where it is installed."""
    others = [name for name in peers.installed() if name != "datagnosis"]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(peers, "installed", lambda: others)
        yield


SMALL: dict[str, Any] = {"limit": 60, "quick": True, "kinds": ("uniform", "duplicate")}


@pytest.fixture(scope="module")
def studied(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Any], list[str]]:
    """Two kinds of hardness in 60 digits: where, the summary, and the lines printed."""
    pytest.importorskip("torch")
    output = tmp_path_factory.mktemp("bench")
    with redirect_stdout(io.StringIO()) as printed:
        summary = hardness.run(output, **SMALL)
    return output, summary, printed.getvalue().splitlines()


def test_every_score_that_applies_is_measured(studied: tuple[Path, dict[str, Any], list[str]]) -> None:
    _, summary, said = studied
    rows = {(row["kind"], row["evidence"], row["score"]): row for row in summary["results"]}
    for name, entry in SCORES.items():
        if entry.scope in ("row", "dataset") and entry.labels:
            assert ("uniform", "final model", name) in rows and ("duplicate", "final model", name) in rows
        if entry.scope == "row":
            assert ("uniform", "out-of-sample heads", name) in rows
    assert SCORES.keys() <= {name for _, _, name in rows}
    assert {("uniform", "three models", "model_agreement"), ("uniform", "kept epochs", "vog")} <= rows.keys()
    assert {("uniform", "ALDR loss", "aldr_lambda"), ("uniform", "layers", "prediction_depth")} <= rows.keys()
    assert ("uniform", "epochs", "aum") in rows and ("duplicate", "epochs", "aum") in rows
    assert rows["uniform", "epochs", "aum"]["hard"] == 6 and rows["uniform", "epochs", "aum"]["samples"] == 60
    assert rows["duplicate", "final model", "near_duplicates"]["average_precision"] > 0.9  # the copies are there to be found
    assert [line.split(":")[0] for line in said] == ["digits, uniform 0.1, seed 0", "digits, duplicate 0.1, seed 0"]


def test_a_repeated_run_trains_and_measures_nothing(
    studied: tuple[Path, dict[str, Any], list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    output, summary, _ = studied
    monkeypatch.setattr(hardness.HardnessStudy, "_measured", None)
    assert hardness.run(output, **SMALL) == summary


def test_a_longer_list_of_scores_is_measured_again(
    studied: tuple[Path, dict[str, Any], list[str]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    output = Path(shutil.copytree(studied[0] / "hardness", tmp_path / "hardness")).parent
    monkeypatch.setattr(peers, "installed", lambda: ["a library that was installed since"])
    asked: list[str] = []
    measured = lambda study, case, progress: (asked.append(case.kind), ({("x", "y"): np.arange(4.0)}, np.arange(4) > 2))[1]
    monkeypatch.setattr(hardness.HardnessStudy, "_label_errors", measured)
    monkeypatch.setattr(hardness.HardnessStudy, "_odd_inputs", measured)
    summary = hardness.run(output, **SMALL)
    assert asked == ["uniform", "duplicate"] and {row["score"] for row in summary["results"]} == {"y"}


def test_finished_cases_of_another_method_are_measured_again(
    studied: tuple[Path, dict[str, Any], list[str]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    output = Path(shutil.copytree(studied[0] / "hardness", tmp_path / "hardness")).parent
    monkeypatch.setattr(hardness, "METHOD", "a new formula")
    measured = lambda study, case, progress: ({("x", "y"): np.arange(4.0)}, np.arange(4) > 2)
    monkeypatch.setattr(hardness.HardnessStudy, "_label_errors", measured)
    monkeypatch.setattr(hardness.HardnessStudy, "_odd_inputs", measured)
    assert {row["score"] for row in hardness.run(output, **SMALL)["results"]} == {"y"}


def test_out_of_sample_heads_are_those_of_out_of_sample() -> None:
    rng = np.random.default_rng(0)
    labels = np.arange(90) % 3
    features = (rng.standard_normal((90, 5)) + 2 * np.eye(5)[labels]).astype(np.float32)
    columns, probs = by_unseen_heads(features, labels)
    np.testing.assert_allclose(probs, hardsight.quality.out_of_sample(features, labels), rtol=1e-9)
    np.testing.assert_allclose(columns["confidence"], -probs[np.arange(90), labels], rtol=1e-5)  # by the heads, high is hard
    assert np.isfinite(columns["avh"]).all()


def test_the_package_of_the_authors_of_aum_agrees_with_ours(studied: tuple[Path, dict[str, Any], list[str]]) -> None:
    pytest.importorskip("aum")
    (run,) = (studied[0] / "runs").glob("*uniform*-seed0")
    ours = score(run, scores=["aum"])
    order = np.argsort(np.array(ours.column("id").to_pylist(), dtype=int))
    theirs = peers.area_under_margin(run, 60)["aum package"]
    np.testing.assert_allclose(theirs, -ours.column("aum").to_numpy()[order], rtol=1e-6)


def test_stages_and_probabilities_are_in_the_order_of_the_images(studied: tuple[Path, dict[str, Any], list[str]]) -> None:
    (run,) = (studied[0] / "runs").glob("*uniform*-seed0")
    digits = load("digits", None, 60, quick=True)
    snapshot = Snapshot.load(run)
    order = np.argsort([int(id) for id in snapshot.columns(["id"]).column("id").to_pylist()])
    stages = further_scores.stages(run, digits.inputs(digits.images))
    assert [stage.shape for stage in stages] == [(60, 16), (60, 32), (60, 64)]  # two convolutions, averaged, and the features
    np.testing.assert_allclose(stages[-1], np.asarray(snapshot.in_memory().values)[order], rtol=1e-4, atol=1e-5)
    predicted = score(run).column("predicted").to_numpy()[order]
    np.testing.assert_array_equal(further_scores.predictions(run).argmax(axis=1), predicted)


def test_clean_is_measured_on_the_same_networks(
    studied: tuple[Path, dict[str, Any], list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    output, _, _ = studied
    digits = load("digits", None, 60, quick=True)
    noise = clean.NoisyLabels(
        "uniform-0.1", digits, mislabeled("uniform", digits.images, digits.labels, 0.1, 0), digits.labels, 0
    )
    before = sorted((output / "runs").iterdir())
    result = clean.measured(noise, output, lambda done, total, words: None)
    assert sorted((output / "runs").iterdir()) == before and result["errors"] == 6
    assert set(clean.WAYS) == set(result["expected"]) and all(map(np.isfinite, result["expected"].values()))
    monkeypatch.setattr(clean, "train", None)
    assert clean.measured(noise, output, lambda done, total, words: None) == result


def test_who_finds_what_is_printed_and_avh_is_always_among_them(
    studied: tuple[Path, dict[str, Any], list[str]], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(hardness, "TOP", 1)
    hardness.report(studied[1])
    printed = capsys.readouterr().out
    assert "digits, uniform, 10%: 6 of 60" in printed and "avh" in printed and "missed" in printed


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["hardness", "--rates", "0.9"], "rates .* 0.5, got 0.9"),
        (["hardness", "--kinds", "blurred"], "kinds must be of uniform, pair, .*, got 'blurred'"),
        (["hardness", "--sets", "mnist"], "mnist is missing; --data"),
        (["hardness", "--data", "nowhere"], "nowhere is not a directory"),
        (["hardness", "--data", "."], "has no mnist.npz or cifar10_train.npz: --data"),
        (["hardness", "--seeds", "0"], "--seeds.*'0'"),
        (["clean", "--parts", "all"], "parts must be of injected, .*, got 'all'"),
    ],
)
def test_wrong_options_are_refused_before_anything_is_trained(
    words: list[str], message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit, match="2"):
        main(words)
    assert re.search(message, capsys.readouterr().err.splitlines()[-1])
    assert list(tmp_path.iterdir()) == []


# ---- the page that is made from it ----


@pytest.fixture(scope="module")
def which_score() -> Any:
    return doc_script("make_which_score")


def test_the_page_takes_means_over_sets_and_rates(which_score: Any) -> None:
    results = {
        "digits": {"pair": {"0.1": {"epochs: aum": [0.9, 0.8, 0.2], "final model: avh": [0.9, 0.5, 0.5]}}},
        "mnist": {"pair": {"0.1": {"epochs: aum": [0.9, 0.6, 0.4], "final model: avh": [0.9, 0.7, 0.3], "x: y": [1, 1, 0]}}},
    }
    job = next(job for job in which_score.JOBS if job.kinds == ("pair",))
    lines = which_score.lines_of(results, job)
    assert [(line.score, line.average_precision) for line in lines] == [("aum", pytest.approx(0.7)), ("avh", pytest.approx(0.6))]
    (sentence,) = which_score.about_avh({job: lines})
    assert "`aum` (epochs) 0.700, AVH 0.600" in sentence
    lines[1] = which_score.Line("avh", "final model", 0.9, 0.69, 0.3)
    (sentence,) = which_score.about_avh({job: lines})
    assert sentence.startswith("It is as good as the best")


def test_the_page_shows_clean_beside_the_best_of_cleanlab(which_score: Any) -> None:
    precisions = dict(zip(clean.WAYS, (0.9, 0.6, 0.8), strict=True))
    result = {
        "errors": 100,
        "expected": dict(zip(clean.WAYS, (90.0, 150.0, 81.0), strict=True)),
        "interval": dict.fromkeys(clean.WAYS, [70.0, 130.0]),
        "average_precision": precisions | {"cleanlab self_confidence": 0.8, "cleanlab b": 0.1},
    }
    lines = [asdict(line) | {"within": line.within} for line in clean.measurements("digits, pair 10%", [result])]
    (text,) = which_score.beside_cleanlab(lines)
    assert "as good as cleanlab's best in 1 of 1 (run), 0 of 1 (probabilities), 1 of 1 (features)." in text
    slightly_less = [line | {"ratio": 1.001, "within": True} if line["what"] == clean.FROM_RUN else line for line in lines]
    assert "0 of 1 (run)" in which_score.beside_cleanlab(slightly_less)[0].split("\n\n")[1]
    assert "Cases off by more than 20 % (mean over seeds): 0 of 1 (run), 1 of 1 (probabilities), 0 of 1 (features)." in text
    assert "| digits, pair 10% | 0.900 | 0.600 | 0.800 | 0.800 (self_confidence) |" in text


def test_the_page_names_the_best_score_for_what_one_has(which_score: Any) -> None:
    job = which_score.JOBS[0]
    ranked = {
        job: [
            which_score.Line("aum", "epochs", 0.9, 0.90, 0.1),
            which_score.Line("el2n", "final model", 0.9, 0.89, 0.1),
            which_score.Line("avh", "final model", 0.9, 0.80, 0.1),
            which_score.Line("vim", "reference", 0.5, 0.10, 0.9),
        ]
    }
    assert "| **`aum` 0.900** | **`el2n` 0.890** | – | – | 0.800, 3 of 4 |" in which_score.overview(ranked)
    assert "hardsight score RUN --scores aum " in which_score.commands(ranked)


def test_the_page_derives_what_was_measured_in_few_cases_or_with_fewer_seeds(which_score: Any, tmp_path: Path) -> None:
    row = {"data": "digits", "kind": "pair", "rate": 0.1, "auroc": 0.9, "average_precision": 0.8, "missed": 0.2}
    aum, vog = row | {"evidence": "epochs", "score": "aum"}, row | {"evidence": "kept epochs", "score": "vog"}
    runs = [
        {"seeds": [0, 1], "results": [aum | {"seeds": 2}, aum | {"seeds": 2, "kind": "uniform"}]},
        {"seeds": [0], "results": [vog | {"seeds": 1}, vog | {"seeds": 1, "score": "datagnosis vog", "kind": "uniform"}]},
    ]
    for number, run in enumerate(runs):
        (tmp_path / f"{number}.json").write_text(json.dumps(run | {"sets": {"digits": {}}, "peers": []}))
    table = which_score.taken_over([tmp_path / "0.json", tmp_path / "1.json"])
    assert table["results"]["digits"]["pair"]["0.1"] == {"epochs: aum": [0.9, 0.8, 0.2], "kept epochs: vog": [0.9, 0.8, 0.2, 1]}
    sentence = which_score.measured_in_few(table["results"])
    assert sentence.startswith("Of the 2 cases") and sentence.endswith(": datagnosis, `vog` in 1 (1 seed).\n")
    assert which_score.measured_in_few({"digits": {"pair": {"0.1": {"epochs: aum": [0.9, 0.8, 0.2]}}}}) == ""


def test_every_kind_of_hardness_is_a_job(which_score: Any) -> None:
    kinds = [kind for job in which_score.JOBS for kind in job.kinds]
    assert sorted(kinds) == sorted(hardness.KINDS)
