"""The AVH paper's four hypotheses, and the slides' Discovery 5, with a verdict on the data at hand."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hardsight.agreement.comparing import Agreement, Row

STATEMENTS = {
    "H1": ("avh", "AVH correlates with {target}"),
    "H2": ("confidence", "model confidence correlates with {target}"),
    "H3": ("avh", "AVH correlates more strongly with {target} than model confidence"),
    "H4": ("norm_in_class", "the norm, scaled within its class, correlates with {target}"),
    "D5": ("norm_in_class", "the norm's correlation with {target} is not consistent"),
}


def hypotheses(agreements: Sequence[Agreement], epochs: Sequence[Row], level: float) -> list[Row]:
    """One row per model and hypothesis, then one of Discovery 5 over all models and epochs."""
    found = []
    for one in agreements:
        for key in ("H1", "H2", "H4"):
            found.append(_correlated(key, one, level))
        found.append(_stronger(one, level))
    found.sort(key=lambda row: (row["model"], row["hypothesis"]))
    return [*found, _consistent(agreements, epochs)]


def _start(key: str, one: Agreement) -> Row:
    statement = STATEMENTS[key][1].format(target=one.target.words)
    empty: dict[str, Any] = dict.fromkeys(("effect", "low", "high", "p", "share_of_ceiling"))
    return {"model": one.model, "hypothesis": key, "statement": statement, **empty, "verdict": "", "note": None}


def _correlated(key: str, one: Agreement, level: float) -> Row:
    """Null: no correlation. The effect is Spearman's, turned so that above 0 means hard for people is hard for the score."""
    row, name = _start(key, one), STATEMENTS[key][0]
    if name not in one.scores:
        return row | {"verdict": "not tested", "note": f"there is no {name}"}
    single = one.single(name)
    if single["agreement"] is None:
        return row | {"verdict": "not tested", "note": single["reason"]}
    drawn = single["bootstrap_low"] is not None
    row |= {
        "effect": single["agreement"],
        "low": single["bootstrap_low"] if drawn else single["low"],
        "high": single["bootstrap_high"] if drawn else single["high"],
        "p": single["p"],
        "share_of_ceiling": single["share_of_ceiling"],
    }
    if row["low"] <= 0 <= row["high"]:
        return row | {"verdict": "null not rejected"}
    if row["effect"] < 0:
        return row | {"verdict": "null rejected, the other way", "note": "what people find hard is easy by this score"}
    return row | {"verdict": "null rejected", "note": None if abs(row["effect"]) >= 0.1 else "but the effect is small"}


def _stronger(one: Agreement, level: float) -> Row:
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
    found = [one.single(name)["agreement"] for one in agreements if name in one.scores]
    found += [epoch["agreement"] for epoch in epochs if epoch["score"] in (name, "norm") and epoch["model"] != "all"]
    values = [value for value in found if value is not None]
    if len(values) < 2:
        return row | {"verdict": "not tested", "note": "it needs several models, or epochs of one"}
    low, high = min(values), max(values)
    row |= {"effect": high - low, "low": low, "high": high}
    mixed = low < 0 < high
    spread = f"Spearman from {low:+.3f} to {high:+.3f} over {len(values)} models and epochs"
    wide = high - low > 0.1
    verdict = "holds: the sign changes" if mixed else "holds: the size changes" if wide else "does not hold here: much the same"
    return row | {"verdict": verdict, "note": spread}
