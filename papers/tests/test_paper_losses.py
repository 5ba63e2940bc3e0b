"""Recipes of the loss abstracts: the list, their formulas by hand, and one of them from end to end."""

from __future__ import annotations

import dataclasses
import math
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

pytest.importorskip("torch")

from hardsight.errors import InputError
from hardsight_papers import digit_trainings, seed_statistics
from hardsight_papers.cache import Cache
from hardsight_papers.catalog import chosen, recipes
from hardsight_papers.context import Context
from hardsight_papers.data_folder import DataFolder
from hardsight_papers.digit_trainings import with_wrong_labels
from hardsight_papers.losses import (
    collapse,
    comp_sum,
    consistency_bounds,
    distillation,
    drm,
    known_and_new,
    naive_bayes,
    out_of_domain,
    soft_labels,
    temperature,
    z_loss,
)
from hardsight_papers.losses.comp_sum import BALL
from hardsight_papers.losses.consistency_bounds import bounds, regrets, smallest_regret, tight
from hardsight_papers.losses.ldr import one_framework
from hardsight_papers.losses.training_on_attacks import trained_on_attacks
from hardsight_papers.seed_statistics import difference, signed

IDS = (
    "collapse", "comp-sum", "distillation", "drm", "ensloss", "ldr", "naive-bayes", "novel-classes", "out-of-domain",
    "proto-triplet", "soft-labels", "temperature", "z-loss",
)  # fmt: skip


@pytest.fixture
def context(tmp_path: Path) -> Context:
    return Context(data=DataFolder(None), cache=Cache(tmp_path))


def test_every_abstract_has_a_recipe() -> None:
    assert [id for id in recipes() if id.startswith("losses/")] == [f"losses/{name}" for name in IDS]
    assert len(chosen(["losses"])) == len(IDS)
    with pytest.raises(InputError, match="Did you mean losses/z-loss"):
        chosen(["losses/zloss"])


def test_the_bound_of_comp_sum_by_hand() -> None:
    """A regret of 1 costs log 2 by cross-entropy; by sum-exponential 2 (1 - (sqrt 2 / 2)^2) = 1."""
    assert smallest_regret(1.0, np.array([0.0, 1.0]), 10) == pytest.approx([0.0, math.log(2)])
    assert smallest_regret(0.0, np.array([0.0, 1.0]), 10) == pytest.approx([0.0, 1.0])


def test_regrets_by_hand_and_the_bound_is_tight() -> None:
    """True chances 3/4 and 1/4. Equal scores, just on the wrong side, are the cheapest way to be wrong."""
    probs, logits = np.array([[0.75, 0.25]]), np.array([[0.0, 1e-12]])
    zero_one, surrogate = regrets(1.0, probs, logits)
    assert zero_one == pytest.approx([0.5])
    entropy = 0.75 * math.log(4 / 3) + 0.25 * math.log(4)
    assert surrogate == pytest.approx([math.log(2) - entropy])
    assert smallest_regret(1.0, zero_one, 2) == pytest.approx(surrogate)
    zero_one, surrogate = regrets(0.0, probs, logits)  # each class costs 1; the least is (sqrt 3/4 + sqrt 1/4)^2 - 1
    assert surrogate == pytest.approx([1 - ((math.sqrt(0.75) + 0.5) ** 2 - 1)])
    assert smallest_regret(0.0, zero_one, 2) == pytest.approx(surrogate)


def test_claims_that_need_no_training_hold(context: Context, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(consistency_bounds, "DRAWS", 2000)
    assert [claim.verdict for claim in (bounds(context), tight(), one_framework(context))] == ["holds"] * 3


def test_few_digits_are_apart_and_wrong_labels_are_wrong(context: Context) -> None:
    digits = digit_trainings.few_digits(context)
    assert (len(digits.train), len(digits.test)) == (300, 1000)
    assert not set(digits.train.ids) & set(digits.test.ids)
    assert digits.train.labels is not None and np.bincount(digits.train.labels).min() > 20
    noisy, wrong = with_wrong_labels(digits.train, 0.3, seed=1)
    assert noisy.labels is not None
    assert wrong.sum() == 90 and ((noisy.labels != digits.train.labels) == wrong).all()
    unnamed = dataclasses.replace(digits.train, class_names=None)  # as in mnist.npz
    again, same = with_wrong_labels(unnamed, 0.3, seed=1)
    assert (same == wrong).all() and again.labels is not None and (again.labels == noisy.labels).all()
    known, new = known_and_new.known_and_new(context)
    assert known.labels is not None and new.labels is not None
    assert set(known.labels) == set(range(6)) and set(new.labels) == set(range(4)) and new.class_names == ["6", "7", "8", "9"]


def test_naive_bayes_needs_few_samples_where_classes_lie_far_apart() -> None:
    """100 dimensions, 50 of them without much noise: two samples of each class are nearly enough, a thousand are not needed."""
    needed = naive_bayes.needed_once("naive Bayes", 100, np.random.default_rng(0))
    assert 2 <= needed <= 40


def test_unlabeled_samples_help_a_linear_classifier(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also from elsewhere. Weighted by its own probabilities they say nothing: those are a fixed point."""
    monkeypatch.setattr(out_of_domain, "SHIFTS", (0.0, 1.0))
    alone, near, far = out_of_domain.accuracies(np.random.default_rng(0))
    assert alone + 1 < near and alone + 1 < far
    monkeypatch.setattr(out_of_domain, "SHARP", 1)
    alone, near, far = out_of_domain.accuracies(np.random.default_rng(0))
    assert near == pytest.approx(alone, abs=0.1) and far == pytest.approx(alone, abs=0.1)


def test_growth_with_the_dimension_is_judged_on_standardized_features() -> None:
    needed = {"naive Bayes": [10.0, 12.0], "logistic regression": [10.0, 15.0], naive_bayes.RAW: [10.0, 80.0]}
    judged = naive_bayes.grows_slower(needed)
    assert judged.verdict == "inconclusive" and judged.found.endswith("as in the authors' simulation, it holds.")
    assert naive_bayes.grows_slower({**needed, "logistic regression": [10.0, 80.0]}).verdict == "holds"


def test_adversarial_losses_are_judged_where_they_learn() -> None:
    near = lambda value: value + 0.1 * np.arange(5)  # noqa: E731
    plain, other, smooth, below = comp_sum.PLAIN, comp_sum.ON_ATTACKS, comp_sum.SMOOTH, comp_sum.SMOOTH_BELOW
    clean = {plain: near(95), other: near(90), smooth: near(10), below: near(94)}
    errors = {plain: near(80), other: near(30), smooth: near(90), below: near(25)}
    judged = comp_sum.adversarial(clean, errors, below, 0.3, (10.0, 0.4))
    assert [claim.verdict for claim in judged] == ["holds", "holds"]
    assert (
        judged[0].found.startswith("At nu 0.3 -55.0 [-55.0, -55.0] points of error, -1.0") and "At nu 3 +10.0" in judged[0].found
    )
    assert [claim.verdict for claim in comp_sum.adversarial(clean, errors, smooth, 3.0, (99.0, 9.0))] == ["does not hold"] * 2
    nowhere = comp_sum.adversarial(clean, errors, None, None, (10.0, 0.4))
    assert [claim.verdict for claim in nowhere] == ["not comparable"] * 2 and "With no nu are 90 %" in nowhere[0].found


def test_the_largest_nu_that_learns_is_taken(context: Context, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(comp_sum, "trained", lambda context, digits, loss, options, seed: options["nu"])
    monkeypatch.setattr(comp_sum, "accuracies", lambda runs: [95.0 if runs[0] < 0.4 else 60.0])
    assert comp_sum.largest_nu(context, None) == 0.3  # type: ignore[arg-type]
    monkeypatch.setattr(comp_sum, "accuracies", lambda runs: [60.0])
    assert comp_sum.largest_nu(context, None) is None  # type: ignore[arg-type]


def test_a_step_of_the_output_layer_says_nothing_of_a_whole_training() -> None:
    same, faster = z_loss.step_claims({"log-softmax": [1, 2, 3, 80], "Z-loss": [1, 1, 1, 2]})
    assert (same.verdict, faster.verdict) == ("inconclusive", "not comparable")
    assert "at 800,000 classes it is 40 times faster, on one core, with 64 features." in faster.found


def test_training_on_attacks_is_kept_by_its_seed(context: Context, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(digit_trainings.TRAINING, "epochs", 1)
    monkeypatch.setitem(digit_trainings.SIZES, "train", 40)
    digits = digit_trainings.few_digits(context)
    first, again, other = (trained_on_attacks(context, digits, BALL, seed).state_dict() for seed in (0, 0, 1))
    assert all((first[name] == again[name]).all() for name in first)
    assert not (first["head.weight"] == other["head.weight"]).all()
    assert len(list(context.cache.directory.glob("train-on-attacks-*.npz"))) == 2


def test_differences_are_paired() -> None:
    assert signed(difference(np.array([3.0, 4.0, 5.0]), np.array([1.0, 2.0, 3.0]))) == "+2.0 [+2.0, +2.0]"


def test_views_of_an_image_share_its_number() -> None:
    inputs, instance, ids = temperature.views(np.ones((3, 1, 8, 8), np.float32), seed=0)
    assert inputs.shape == (12, 1, 8, 8) and ids[:4] == ["0/0", "1/0", "2/0", "0/1"]
    assert instance.tolist() == [0, 1, 2] * 4 and (inputs[:3] == 1).all() and inputs[3:].std() > 0


def test_drm_counts_the_epoch_that_is_best_on_held_out_samples() -> None:
    rows = [
        {"loss": loss, "seed": 0, "domain": domain, "epoch": epoch, "validation": held, "test": test}
        for loss in drm.NAMES
        for domain, steps in (("a", ((0.5, 0.9), (0.8, 0.4), (0.8, 0.7))), ("b", ((0.9, 0.6), (0.1, 1.0))))
        for epoch, (held, test) in enumerate(steps)
    ]
    found = drm.reached(SimpleNamespace(epochs=pa.Table.from_pylist(rows)), "test")
    assert {name: values.tolist() for name, values in found.items()} == {name: [pytest.approx(50.0)] for name in drm.NAMES}


def test_soft_labels_count_the_last_round() -> None:
    rows = [
        {"method": method, "seed": seed, "round": number, "accuracy": 0.5 + 0.1 * number + 0.01 * seed}
        for method in soft_labels.METHODS
        for seed in (0, 1)
        for number in (0, 1, 2)
    ]
    found = soft_labels.by_method(SimpleNamespace(rounds=pa.Table.from_pylist(rows)))
    assert found["depict"] == pytest.approx([70.0, 71.0])


def make_tiny(monkeypatch: pytest.MonkeyPatch) -> None:
    """Everything as short as it can be: whether it runs, not what comes out."""
    monkeypatch.setattr(seed_statistics, "SEEDS", 2)
    monkeypatch.setitem(digit_trainings.TRAINING, "epochs", 1)
    for name, size in {"train": 60, "test": 60}.items():
        monkeypatch.setitem(digit_trainings.SIZES, name, size)
    monkeypatch.setitem(known_and_new.MOST, "known", 60)
    monkeypatch.setitem(known_and_new.MOST, "new", 120)
    for module in (temperature, collapse):
        monkeypatch.setattr(module, "SEEDS", 2)
    monkeypatch.setitem(temperature.LEARNING, "epochs", 1)
    monkeypatch.setitem(collapse.EPOCHS, "all", 2)
    for role in ("teacher", "student"):
        monkeypatch.setitem(distillation.EPOCHS, role, 1)
    short: dict[str, Any] = {"epochs": 1, "seeds": 2, "limit": 80, "hidden": 8}
    for settings in (drm.SMALL, soft_labels.SMALL):
        for name, value in short.items():
            monkeypatch.setitem(settings, name, value)
    monkeypatch.setitem(soft_labels.SMALL, "rounds", 1)
    monkeypatch.setitem(soft_labels.SMALL, "source_epochs", 1)
    for name, value in {"DRAWS": 2, "PER_CLASS": (2, 5, 8), "DIMENSIONS": (40, 60), "REPEATS": 1, "MOST": 20}.items():
        monkeypatch.setattr(naive_bayes, name, value)
    monkeypatch.setattr(z_loss, "CLASSES", (1_000, 2_000))


def test_a_recipe_from_end_to_end(context: Context, monkeypatch: pytest.MonkeyPatch) -> None:
    make_tiny(monkeypatch)
    outcome = recipes()["losses/distillation"].run(context)
    assert len(outcome.claims) == 3 and all(claim.rule and claim.found.endswith("points.") for claim in outcome.claims)
    assert [row[0] for row in outcome.tables[0].rows] == ["teacher", *distillation.STUDENTS] and outcome.figures
    monkeypatch.setattr("hardsight.train", None)  # with a filled cache nothing is trained or opened
    again = recipes()["losses/distillation"].run(context)
    assert (again.tables, again.claims) == (outcome.tables, outcome.claims)


@pytest.mark.slow
def test_cross_entropy_learns_its_training_images(context: Context) -> None:
    """What rate and length were chosen by: a baseline that has not learned them makes every comparison one of speed."""
    digits = digit_trainings.few_digits(context)
    runs = [digit_trainings.trained(context, digits, "softmax", seed=seed, watch={}) for seed in seed_statistics.seeds(context)]
    assert digit_trainings.accuracies(runs, "train").mean() >= digit_trainings.LEARNED


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["digits", "mnist"])
@pytest.mark.parametrize("name", IDS)
def test_recipes_run_on_digits_and_on_mnist(
    name: str, kind: str, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_tiny(monkeypatch)
    shared = tmp_path_factory.getbasetemp() / f"losses-cache-{kind}"
    if kind == "mnist":
        rng = np.random.default_rng(0)
        arrays: dict[str, np.ndarray] = {}
        for split, n in (("train", 400), ("test", 200)):
            arrays |= {
                f"{split}_images": rng.integers(0, 255, (n, 28, 28), np.uint8),
                f"{split}_labels": rng.permutation(np.arange(n) % 10),
            }
        np.savez(tmp_path / "mnist.npz", **arrays)  # type: ignore[arg-type]  # of its stubs: allow_pickle is no array
    data = DataFolder(tmp_path if kind == "mnist" else None)
    outcome = recipes()[f"losses/{name}"].run(Context(data=data, cache=Cache(shared)))
    assert outcome.claims and outcome.tables and outcome.figures
    assert all(claim.found.endswith(".") for claim in outcome.claims)
