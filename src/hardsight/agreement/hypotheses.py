"""The AVH paper's four hypotheses, and the slides' Discovery 5, with a verdict on the data at hand."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hardsight.agreement.comparing import Agreement, Row

STATEMENTS = {
    "H1": ("avh", "AVH correlates"),
    "H2": ("confidence", "model confidence correlates"),
    "H3": ("avh", "AVH correlates more than model confidence"),
    "H4": ("norm_in_class", "the norm within its class correlates"),
    "D5": ("norm_in_class", "the norm's correlation is not consistent"),
}


def hypotheses(agreements: Sequence[Agreement], epochs: Sequence[Row]) -> list[Row]:
    """One row per model and hypothesis, then Discovery 5 over all models and epochs."""
    found = []
    tested = [one for one in agreements if "avh" in one.scores] or list(agreements)  # an ensemble has no angles
    for one in tested:
        for key in ("H1", "H2", "H4"):
            found.append(_correlated(key, one))
        found.append(_stronger(one))
    found.sort(key=lambda row: (row["model"], row["target"], row["hypothesis"]))
    targets = dict.fromkeys(one.target.key for one in tested)
    return found + [_consistent([one for one in tested if one.target.key == key], epochs) for key in targets]


def _start(key: str, one: Agreement) -> Row:
    empty: dict[str, Any] = dict.fromkeys(("effect", "low", "high", "p", "share_of_ceiling"))
    return {
        "model": one.model,
        "target": one.target.key,
        "hypothesis": key,
        "statement": STATEMENTS[key][1],
        **empty,
        "verdict": "",
        "note": None,
    }


def _correlated(key: str, one: Agreement) -> Row:
    """Null: no correlation. The effect is Spearman's, turned so that above 0 means hard for people is hard for the score."""
    row, name = _start(key, one), STATEMENTS[key][0]
    if name not in one.scores:
        return row | {"verdict": "not tested", "note": f"there is no {name}"}
    single = one.single(name)
    if single["agreement"] is None:
        return row | {"verdict": "not tested", "note": single["reason"]}
    low, high = _ends(single)
    row |= {"effect": single["agreement"], "low": low, "high": high, "p": single["p"]}
    row["share_of_ceiling"] = single["share_of_ceiling"]
    if row["low"] <= 0 <= row["high"]:
        return row | {"verdict": "null not rejected"}
    if row["effect"] < 0:
        return row | {"verdict": "null rejected, the other way", "note": "what people find hard is easy by this score"}
    return row | {"verdict": "null rejected", "note": None if abs(row["effect"]) >= 0.1 else "but the effect is small"}


def _stronger(one: Agreement) -> Row:
    """Null: the two correlate alike. The effect is the difference of Spearman's coefficients, AVH minus confidence."""
    row = _start("H3", one)
    pair = next((p for p in one.pairs if p["kind"] == "spearman" and {p["first"], p["second"]} == {"avh", "confidence"}), None)
    if pair is None:
        return row | {"verdict": "not tested", "note": "it needs both avh and confidence, with more than one value"}
    sign = 1 if pair["first"] == "avh" else -1
    ends = sorted((sign * pair["trusted_low"], sign * pair["trusted_high"]))
    row |= {"effect": sign * pair["difference"], "low": ends[0], "high": ends[1], "p": pair["trusted_p"]}
    pearson = next(p for p in one.pairs if p["kind"] == "pearson" and {p["first"], p["second"]} == {"avh", "confidence"})
    difference = sign * pearson["difference"]
    beyond = pearson["trusted_low"] > 0 or pearson["trusted_high"] < 0
    note = f"by Pearson the difference is {difference:+.3f}{'' if beyond else ', which may be chance'}"
    if ends[0] <= 0 <= ends[1]:
        return row | {"verdict": "null not rejected", "note": note}
    return row | {"verdict": "null rejected" if row["effect"] > 0 else "null rejected, the other way", "note": note}


def _consistent(agreements: Sequence[Agreement], epochs: Sequence[Row]) -> Row:
    """Whether the norm correlates alike everywhere: over all models, and all epochs where they were given."""
    name = STATEMENTS["D5"][0]
    row = _start("D5", agreements[0]) | {"model": "all"}
    singles = [one.single(name) for one in agreements if name in one.scores]
    known = [(one["agreement"], *_ends(one)) for one in singles if one["agreement"] is not None]
    known += [
        (one["agreement"], one["low"], one["high"]) for one in epochs if one["score"] == name and one["agreement"] is not None
    ]
    if len(known) < 2:
        return row | {"verdict": "not tested", "note": "it needs several models, or epochs of one"}
    values = [value for value, _, _ in known]
    row |= {"effect": max(values) - min(values), "low": min(values), "high": max(values)}
    note = f"Spearman from {min(values):+.3f} to {max(values):+.3f} over {len(values)} models and epochs"
    largest_low, smallest_high = max(low for _, low, _ in known), min(high for _, _, high in known)
    if largest_low <= smallest_high:  # one value lies in every interval
        return row | {"verdict": "does not hold here: no change beyond chance", "note": note}
    return row | {"verdict": f"holds: the {'sign' if largest_low > 0 > smallest_high else 'size'} changes", "note": note}


def _ends(single: Row) -> tuple[float, float]:
    """The bootstrap's interval where there is one, else Fisher's."""
    if single["bootstrap_low"] is None:
        return single["low"], single["high"]
    return single["bootstrap_low"], single["bootstrap_high"]
