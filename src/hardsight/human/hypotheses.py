"""The AVH paper's four hypotheses, with a verdict on this data."""

from __future__ import annotations

from collections.abc import Sequence

from hardsight.human.comparisons import Agreement, Row, ends_of

STATEMENTS = {
    "H1": ("avh", "AVH correlates"),
    "H2": ("confidence", "model confidence correlates"),
    "H3": ("avh", "AVH correlates more than model confidence"),
    "H4": ("norm_in_class", "the norm within its class correlates"),
}


def hypotheses(agreements: Sequence[Agreement]) -> list[Row]:
    """One row per model and hypothesis."""
    tested = [agreement for agreement in agreements if "avh" in agreement.scores] or list(agreements)  # an ensemble has no angles
    rows = [_correlated(key, agreement) for agreement in tested for key in ("H1", "H2", "H4")]
    rows += [_stronger(agreement) for agreement in tested]
    return sorted(rows, key=lambda row: (row["model"], row["target"], row["hypothesis"]))


def _start(key: str, agreement: Agreement) -> Row:
    known = {"model": agreement.model, "target": agreement.target.key, "hypothesis": key, "statement": STATEMENTS[key][1]}
    return {**known, **dict.fromkeys(("effect", "low", "high", "p", "share_of_ceiling")), "verdict": "", "note": None}


def _correlated(key: str, agreement: Agreement) -> Row:
    """Null: no correlation. The effect is Spearman's, oriented so that above 0 means hard for people is hard by the score."""
    row, name = _start(key, agreement), STATEMENTS[key][0]
    if name not in agreement.scores:
        return row | {"verdict": "not tested", "note": f"there is no {name}"}
    single = agreement.single(name)
    if single["agreement"] is None:
        return row | {"verdict": "not tested", "note": single["reason"]}
    low, high = ends_of(single)
    row |= {"effect": single["agreement"], "low": low, "high": high, "p": single["p"]}
    row["share_of_ceiling"] = single["share_of_ceiling"]
    if row["low"] <= 0 <= row["high"]:
        return row | {"verdict": "null not rejected"}
    if row["effect"] < 0:
        return row | {"verdict": "null rejected, the other way", "note": "what people find hard is easy by this score"}
    return row | {"verdict": "null rejected", "note": None if abs(row["effect"]) >= 0.1 else "but the effect is small"}


def _stronger(agreement: Agreement) -> Row:
    """Null: both correlate equally. The effect is the difference of Spearman's coefficients, AVH minus confidence."""
    row = _start("H3", agreement)
    ranks, pearson = (agreement.difference("avh", "confidence", kind) for kind in ("spearman", "pearson"))
    if ranks is None or pearson is None:
        return row | {"verdict": "not tested", "note": "it needs both avh and confidence, with more than one value"}
    by_chance = pearson["low"] <= 0 <= pearson["high"]
    note = f"by Pearson the difference is {pearson['effect']:+.3f}{', which may be chance' if by_chance else ''}"
    row |= {**ranks, "note": note}
    if ranks["low"] <= 0 <= ranks["high"]:
        return row | {"verdict": "null not rejected"}
    return row | {"verdict": "null rejected" if row["effect"] > 0 else "null rejected, the other way"}
