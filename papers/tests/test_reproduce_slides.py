"""Recipes of the slides and of the discussion: the numbers that their verdicts come from, by hand; in slow tests, the recipes."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hardsight.data.digits import read_digits
from hardsight.screen import interval, percent
from hardsight_papers.avh import (
    adversarial_training,
    class_priors,
    consistency,
    latent_groups,
    negative_mining,
    open_set,
    sample_order,
    uncertainty,
)
from hardsight_papers.cache import Cache
from hardsight_papers.catalog import single_recipe
from hardsight_papers.context import Context
from hardsight_papers.recipe import Claim, Table
from hardsight_papers.seed_statistics import spearman_interval

SEEDS = 5


def verdicts(claims: list[Claim]) -> list[str]:
    return [claim.verdict for claim in claims]


# The rules, on numbers whose verdict is known


def test_aleatoric_and_epistemic_are_judged_over_seeds() -> None:
    near = lambda value: value + 0.001 * np.arange(SEEDS)  # noqa: E731
    both = {("passes_aleatoric", "passes_information"): near(0.9)}
    more = {("avh", "passes_aleatoric"): near(0.6), ("avh", "passes_information"): near(0.5), **both}
    assert verdicts(uncertainty._claims(more)) == ["holds", "holds"]
    less = {("avh", "passes_aleatoric"): near(0.5), ("avh", "passes_information"): near(0.6), **both}
    assert verdicts(uncertainty._claims(less)) == ["holds", "does not hold"]
    none = {("avh", "passes_aleatoric"): np.array([-0.1, 0.1, 0, 0.1, -0.1]), ("avh", "passes_information"): near(0.0), **both}
    assert verdicts(uncertainty._claims(none)) == ["inconclusive", "inconclusive"]  # -0.1 to 0.1 may be 0 or a small correlation


def test_a_norm_may_follow_a_prior_in_either_direction() -> None:
    near = lambda value: value + 0.001 * np.arange(SEEDS)  # noqa: E731
    rho = {("images", "norm"): near(-0.6), ("images", "avh"): near(0.2)}
    assert class_priors._follows(rho, "images", "It follows.").verdict == "holds"
    assert class_priors._less(rho, "images").verdict == "holds"
    rho = {("images", "norm"): np.array([-0.3, 0.3, 0.1, -0.1, 0.0]), ("images", "avh"): near(0.5)}
    assert class_priors._follows(rho, "images", "It follows.").verdict == "inconclusive"
    assert class_priors._less(rho, "images").verdict == "does not hold"


def test_unseen_classes_are_told_by_the_larger_area_in_every_choice() -> None:
    areas = {"avc_predicted": np.array([0.9, 0.91, 0.92, 0.9, 0.91]), "norm": np.array([0.8, 0.82, 0.8, 0.81, 0.8])}
    assert open_set._better(areas, "norm", "Better.").verdict == "holds"
    assert open_set._better({"avc_predicted": areas["norm"], "norm": areas["avc_predicted"]}, "norm", "Better.").verdict == (
        "does not hold"
    )
    data = read_digits()
    known = open_set._known(data, [0, 3, 9])
    assert known.labels is not None and sorted(set(known.labels.tolist())) == list(range(7))
    assert known.class_names == ["1", "2", "4", "5", "6", "7", "8"]
    assert data.labels is not None and len(known) == int((~np.isin(data.labels, [0, 3, 9])).sum())


def test_agreement_draws_whole_images() -> None:
    score = np.arange(20.0)
    options: dict[str, Any] = {"replicates": 20, "seed": 0}
    assert spearman_interval(score, score**2, **options) == pytest.approx((1, 1, 1))
    assert spearman_interval(score, -score, **options) == pytest.approx((-1, -1, -1))
    copies = np.tile([1.0, 2, 3, 4], 5), np.tile([1.0, 2, 4, 3], 5)  # each image alone says 0.8, and so does any draw of them
    assert spearman_interval(*copies, clusters=np.repeat(np.arange(5), 4), **options) == pytest.approx((0.8, 0.8, 0.8))
    assert np.isnan(spearman_interval(score, np.ones(20), **options)[0])


def test_discoveries_4_and_5_are_judged_by_one_rule() -> None:
    """Throughout is nine of ten epochs, beyond what chance does to 60 of them."""
    above, below, neither = (np.tile(values, (60, 1)) for values in ([0.5, 0.4, 0.6], [-0.5, -0.6, -0.4], [0.0, -0.1, 0.1]))
    few_off, many_off = (np.concatenate([neither[:count], above[count:]]) for count in (6, 20))

    def judged(avh: np.ndarray, norm: np.ndarray) -> list[str]:
        return verdicts(consistency._claims({"net": {"avh": avh, "norm": norm}}, 1.0))

    assert judged(above, above) == judged(above, below) == ["holds", "does not hold"]  # always below 0 is consistent
    assert judged(above, many_off) == judged(above, np.concatenate([above[:30], below[:30]])) == ["holds", "holds"]
    assert judged(many_off, few_off) == ["does not hold", "inconclusive"] and judged(few_off, above)[0] == "inconclusive"
    assert judged(below, below) == ["does not hold", "does not hold"]
    untrained = consistency._claims({"net": {"avh": below, "norm": above}}, 0.4)
    assert verdicts(untrained) == ["inconclusive", "inconclusive"] and "40 % of the training images" in untrained[0].found


def test_slower_is_a_smaller_change_from_epoch_to_epoch() -> None:
    rng = np.random.default_rng(0)
    runs = [
        {"avh_clean": np.exp([0.0, 0.1, 0.0]), "norm_clean": np.exp([0.0, 0.5 + 0.01 * rng.random(), 0.0])} for _ in range(SEEDS)
    ]
    found = {"adversarial": runs, "plain": runs}
    assert adversarial_training._slower(found, "clean").verdict == "holds"
    turned = [{"avh_clean": run["norm_clean"], "norm_clean": run["avh_clean"]} for run in runs]
    assert adversarial_training._slower({"adversarial": turned, "plain": runs}, "clean").verdict == "does not hold"


def test_an_order_helps_where_it_beats_chance_in_every_seed() -> None:
    chance, better = np.array([80.0, 81, 80, 82, 81]), np.array([83.0, 84, 84, 84, 83])
    assert sample_order._helps("right labels", {"random": chance, "easy-first": better, "hard-first": chance}).verdict == "holds"
    turned = sample_order._helps("right labels", {"random": better, "easy-first": chance, "hard-first": chance})
    assert turned.verdict == "does not hold" and "(right labels)" in turned.text


def test_a_rare_group_is_hard_where_the_area_grows() -> None:
    near = lambda value: value + 0.001 * np.arange(SEEDS)  # noqa: E731
    of = {(0.5, "avh"): near(0.5), (0.02, "avh"): near(0.8), (0.02, "loss"): near(0.9)}
    assert verdicts(latent_groups._claims(of)) == ["holds", "does not hold"]
    of = {(0.5, "avh"): near(0.8), (0.02, "avh"): np.array([0.7, 0.9, 0.8, 0.6, 0.9]), (0.02, "loss"): near(0.1)}
    assert verdicts(latent_groups._claims(of)) == ["inconclusive", "holds"]


def test_triplets_by_avh_are_the_worst_of_the_own_class_and_the_nearest_others() -> None:
    torch = pytest.importorskip("torch")
    degrees = torch.tensor([0.0, 10, 40, 60, 80, 90, 100])  # three of class 0, four of class 1
    features = torch.stack([degrees.deg2rad().cos(), degrees.deg2rad().sin()], dim=1)
    labels = torch.tensor([0, 0, 0, 1, 1, 1, 1])
    far = negative_mining.avh_for_anchor(features, labels)
    assert far.shape == (7, 7) and torch.allclose(far[0], far[2]) and torch.all((far[0] + far[3] - 1).abs() < 1e-6)
    assert far[0][:3].argmax() == 2 and far[0][3:].argmin() == 0  # at 40 and at 60 degrees
    assert negative_mining.map_at_r(features.numpy(), labels.numpy()) < 1  # of the sample at 40 degrees, that at 60 is nearest


# Tables


def test_a_table_with_formatted_cells_is_kept() -> None:
    table = Table("Accuracy", ("method", "share", "95 %"), [["ours", percent(0.7231, 0.0028), interval(-0.25, 0.5)]])
    kept = asdict(table)["rows"][0]
    assert kept == ["ours", "72.31 ± 0.28", "[-0.250, +0.500]"] and kept[1].value == table.rows[0][1].value  # type: ignore[union-attr]


# The recipes


@pytest.mark.slow
@pytest.mark.parametrize(
    "id",
    ["slides/uncertainty", "slides/imbalance", "slides/open-set", "slides/discovery5", "slides/adversarial-training",
     "slides/curriculum", "slides/metric-learning", "slides/fairness"],
)  # fmt: skip
def test_each_recipe_runs_without_data(id: str, tmp_path: Path) -> None:
    outcome = single_recipe(id).run(Context(cache=Cache(tmp_path)))
    assert outcome.claims and outcome.figures and outcome.tables
    assert all(claim.verdict != "not comparable" and "nan" not in claim.found for claim in outcome.claims)
