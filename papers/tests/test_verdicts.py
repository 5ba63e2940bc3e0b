"""Verdicts by intervals, and the published file of claims."""

from __future__ import annotations

import json
import re
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hardsight.screen import plain_json
from hardsight_papers.catalog import recipes
from hardsight_papers.outcome_files import read_claim
from hardsight_papers.verdicts import VERDICTS, Claim, Effect, claim, over, what_is_missing

DOCS = Path(__file__).parents[1] / "docs"
FIELDS: dict[str, tuple[type, ...]] = {
    "id": (str,), "paper": (str,), "sentence": (str,), "rule": (str,), "found": (str,), "missing": (str,), "data": (str,),
    "command": (str,), "verdict": (str,), "smallest_effect": (float, int, type(None)), "estimate": (float, int, type(None)),
    "interval": (list, type(None)), "effects": (list,), "post_hoc": (bool,), "real_data": (bool,), "seeds": (int, type(None)),
    "seconds": (float, int),
}  # fmt: skip


@pytest.mark.parametrize(
    ("low", "high", "verdict"),
    [
        (0.1, 3.0, "holds"),  # beyond chance, and may be worth having
        (0.6, 3.0, "holds"),
        (-1.0, 0.4, "does not hold"),  # whatever it is, it is too small
        (0.1, 0.4, "does not hold"),
        (-3.0, -1.0, "does not hold"),
        (-1.0, 1.0, "inconclusive"),  # nothing, or enough
        (float("nan"), float("nan"), "inconclusive"),
    ],
)
def test_an_effect_by_its_interval(low: float, high: float, verdict: str) -> None:
    assert Effect((low + high) / 2, low, high, 0.5).verdict == verdict


@pytest.mark.parametrize(
    ("low", "high", "verdict"),
    [(-0.05, 0.09, "holds"), (0.11, 0.3, "does not hold"), (-0.3, -0.11, "does not hold"), (-0.05, 0.3, "inconclusive")],
)
def test_no_effect_is_proven_by_an_interval_near_zero(low: float, high: float, verdict: str) -> None:
    assert Effect((low + high) / 2, low, high, 0.1, within=True).verdict == verdict


@pytest.mark.parametrize(("low", "high", "verdict"), [(-0.9, 2, "holds"), (-3, -1.1, "does not hold"), (-2, 0, "inconclusive")])
def test_a_tolerance_is_a_negative_effect(low: float, high: float, verdict: str) -> None:
    assert Effect((low + high) / 2, low, high, -1.0).verdict == verdict


numbers = st.floats(-10, 10)


@given(numbers, st.floats(0, 10), st.floats(0, 10), st.floats(0, 2), st.booleans())
def test_what_is_refuted_leaves_out_the_claimed_effect(x: float, below: float, above: float, least: float, within: bool) -> None:
    effect = Effect(x, x - below, x + above, least, within=within)
    claimed = effect.low <= 0 <= effect.high if within else effect.high >= max(least, 0) and effect.high >= 0
    assert not (effect.verdict == "does not hold" and claimed)


@given(st.floats(-1, 2), st.floats(0.01, 5), st.integers(2, 40))
def test_so_many_seeds_settle_it(estimate: float, half: float, n: int) -> None:
    """An interval from that many, around the same estimate, is no longer open; one from one less still is."""
    from scipy.stats import t

    effect = Effect(estimate, estimate - half, estimate + half, 0.5, n=n)
    enough = effect.enough
    if enough is None:
        return
    deviation = half * n**0.5 / t.ppf(0.975, n - 1)

    def verdict(seeds: int) -> str:
        width = t.ppf(0.975, seeds - 1) * deviation / seeds**0.5
        return Effect(estimate, estimate - width, estimate + width, 0.5).verdict

    assert effect.verdict == "inconclusive" and enough > n and verdict(enough) != "inconclusive"
    assert verdict(enough - 1) == "inconclusive"


def test_a_lopsided_interval_needs_more_not_fewer() -> None:
    """24 of 24 epochs: Wilson's interval of the share reaches down to 0.862, so more epochs are needed to leave out 0.9."""
    effect = over(0.9, 1.0, 0.862, 1.0, n=24)
    assert effect.verdict == "inconclusive" and effect.enough is not None and 40 < effect.enough < 50


def test_all_effects_must_hold_and_one_refutes() -> None:
    good, bad, unclear = Effect(2, 1, 3, 0.5), Effect(-2, -3, -1, 0.5), Effect(0, -3, 3, 0.5)

    def verdict(*effects: Effect, some: bool = False) -> str:
        return claim("c", rule="r", found="f", effects=effects, some=some).verdict

    assert [verdict(good), verdict(good, unclear), verdict(good, unclear, bad)] == ["holds", "inconclusive", "does not hold"]
    assert [verdict(good, bad, some=True), verdict(unclear, bad, some=True), verdict(bad, some=True)] == [
        "holds", "inconclusive", "does not hold",
    ]  # fmt: skip


def test_what_was_seen_once_does_not_refute_but_arithmetic_does() -> None:
    assert claim("c", rule="r", found="f", holds=False).verdict == "inconclusive"
    assert claim("c", rule="r", found="f", exact=False).verdict == "does not hold"
    assert claim("c", rule="r", found="f").verdict == "not comparable"


def test_a_training_that_has_not_learned_refutes_nothing() -> None:
    bad = [Effect(-2, -3, -1, 0.5)]
    gated = claim("c", rule="r", found="f.", effects=bad, fitted=0.37)
    assert gated.verdict == "inconclusive" and "37 % of the training images" in gated.found
    assert claim("c", rule="r", found="f.", effects=bad, fitted=0.95).verdict == "does not hold"
    assert claim("c", rule="r", found="f.", effects=[Effect(2, 1, 3, 0.5)], fitted=0.37).verdict == "holds"


def test_what_is_missing_is_said() -> None:
    def missing(*effects: Effect) -> str:
        return what_is_missing(claim("c", rule="r", found="f", effects=effects, holds=False))

    nan = float("nan")
    assert "three seeds" in missing(Effect(2, nan, nan, 0.5, n=1))
    assert "three seeds" in missing() and missing(Effect(2, 1, 3, 0.5, n=3)) == ""
    assert "seeds" in missing(Effect(0.2, -1, 1.4, 0.5, n=5)) and "images" in missing(over(0.1, 0.11, 0.05, 0.17, n=90))
    assert "no number" in missing(over(0.1, 0.1, 0.05, 0.15, n=90))  # exactly at the limit


def test_a_claim_is_read_as_it_was_written() -> None:
    written = claim("c", rule="r", found="f", effects=[Effect(1, 0.5, 2, 0.5, "net", 3)], post_hoc=True)
    assert read_claim(json.loads(json.dumps(asdict(written)))) == written and len({written, written}) == 1
    without = claim("c", rule="r", found="f", effects=[Effect(1, float("nan"), float("nan"), 0.5)])
    stored = json.loads(json.dumps(plain_json(asdict(without))))
    assert stored["effects"][0]["low"] is None and read_claim(stored).effects[0].verdict == "inconclusive"


# papers.json


def published() -> list[dict[str, Any]]:
    document = json.loads((DOCS / "papers.json").read_text("utf-8"))
    assert document["schema"] == 1
    rows: list[dict[str, Any]] = document["claims"]
    return rows


def test_every_claim_has_every_field() -> None:
    rows = published()
    described = (DOCS / "reproduce.md").read_text("utf-8")
    for row in rows:
        assert row.keys() == FIELDS.keys() and all(isinstance(row[name], kinds) for name, kinds in FIELDS.items()), row["id"]
        assert row["verdict"] in VERDICTS and row["command"].startswith("hardsight reproduce ")
        assert (row["interval"] is None) == (row["estimate"] is None) == (not row["effects"])
    assert len({(row["id"], row["real_data"]) for row in rows}) == len(rows) > 300
    assert all(f"`{name}`" in described for name in FIELDS)


def as_claim(row: dict[str, Any]) -> Claim:
    effects = [{name: value for name, value in effect.items() if name != "verdict"} for effect in row["effects"]]
    return Claim(row["sentence"], row["rule"], row["found"], row["verdict"], tuple(Effect(**effect) for effect in effects))


def test_no_refutation_whose_interval_includes_the_claimed_effect() -> None:
    refuted = [row for row in published() if row["verdict"] == "does not hold" and row["effects"]]
    assert refuted
    for row in refuted:
        decided = as_claim(row).deciding
        assert decided is not None and decided.verdict == "does not hold", row["id"]
        low, high = row["interval"]
        outside = low > decided.smallest or high < -decided.smallest if decided.within else high < row["smallest_effect"]
        assert outside, row["id"]


def test_verdicts_follow_from_the_effects() -> None:
    """By the rule of reproduce.md, from the numbers alone."""
    for row in published():
        kept = as_claim(row)
        verdicts = [by_the_page(effect) for effect in row["effects"]]
        assert verdicts == [effect["verdict"] for effect in row["effects"]], row["id"]
        order = ["does not hold", "inconclusive", "holds"]
        if row["id"] == "losses/z-loss#1":  # of certain top-k scores: one is enough
            order.reverse()
        decided = next((verdict for verdict in order if verdict in verdicts), kept.verdict)
        if "too few to refute" in kept.found:
            decided = {"does not hold": "inconclusive"}.get(decided, decided)
        assert kept.verdict == decided, row["id"]
        if kept.verdict == "inconclusive":
            assert row["missing"] or any(effect.n is None for effect in kept.effects), row["id"]


def by_the_page(effect: dict[str, Any]) -> str:
    low, high, smallest = effect["low"], effect["high"], effect["smallest"]
    if low is None or high is None:
        return "inconclusive"
    if effect["within"]:
        holds, refuted = max(abs(low), abs(high)) < smallest, low > smallest or high < -smallest
    else:
        holds, refuted = low > min(smallest, 0) and high >= smallest, high < smallest
    return "holds" if holds else "does not hold" if refuted else "inconclusive"


def test_the_totals_of_the_page_are_those_of_the_file() -> None:
    """What several recipes found by the same computation counts once; the totals before there were four verdicts stand beside."""
    page = (DOCS / "results.md").read_text("utf-8")
    row = next(line for line in page.splitlines() if line.startswith("| all |"))
    cells = [cell.strip() for cell in row.strip("|").split("|")]
    for cell, real in zip(cells[2:], (True, False), strict=True):
        distinct = {json.dumps(as_stored(row), sort_keys=True): row["verdict"] for row in published() if row["real_data"] == real}
        verdicts = list(distinct.values())
        assert cell == " / ".join(str(verdicts.count(verdict)) for verdict in VERDICTS)
    assert "70 / 100 / 7" in page and "58 / 71 / 9" in page


def as_stored(row: dict[str, Any]) -> dict[str, Any]:
    return {name: row[name] for name in ("sentence", "rule", "found", "verdict", "effects", "post_hoc")}


# abstracts.md


def test_every_abstract_has_a_decision() -> None:
    lines = (DOCS / "abstracts.md").read_text("utf-8").splitlines()
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines if re.match(r"\| \d", line)]
    assert [int(row[0]) for row in rows] == list(range(1, 56)) and all(len(row) == 5 and all(row) for row in rows)
    counts = [sum(row[3] == kind for row in rows) for kind in ("in", "partly", "out")]
    assert counts == [11, 3, 41] and "Eleven are in, three partly, forty-one out." in "\n".join(lines)
    named = {id for row in rows for id in re.findall(r"`(losses/[a-z-]+)`", row[4])}
    assert named | {"losses/soft-labels"} == {id for id in recipes() if id.startswith("losses/")}  # of the two that label
    by_recipe = {id: row[3] for row in rows for id in re.findall(r"`(losses/[a-z-]+)`", row[4])}
    for row in published():
        if by_recipe.get(row["id"].partition("#")[0]) == "partly":
            assert row["verdict"] == "not comparable", row["id"]
