"""Table 4: what CBST+AVH and CBST select in the first round."""

from __future__ import annotations

from typing import Any

from hardsight_papers.avh.adaptation import NEEDS, adapted
from hardsight_papers.context import Context
from hardsight_papers.recipe import Claim, Outcome, Table, Value, claim, recipe

MEASURES = ("true_positive_rate", "avh", "avc", "confidence", "norm")
HEADER = ("domains", "method", "selected", "TP rate", "AVH", "AVC", "confidence", "norm")
SELECTED = {"CBST+AVH": [0.844, 0.118, 0.961, 20.84], "CBST/CRST": [0.848, 0.117, 0.976, 21.28]}


@recipe("avh/table4", "Adaptation: what CBST+AVH and CBST select in the first round", printed=SELECTED, needs=NEEDS)
def table_4(context: Context) -> Outcome:
    """The first round's selection: share that is right, AVH, AVC, confidence, norm."""
    about, results = adapted(context)
    rows: list[list[Value]] = [
        ["as printed", name, None, tp, None, avh, confidence, norm] for name, (tp, avh, confidence, norm) in SELECTED.items()
    ]
    means: dict[str, list[dict[str, Any]]] = {}
    for name, each in results.items():
        for row in each.selection.to_pylist():
            if row["method"] in ("cbst", "crst", "cbst+avh", "avc"):
                means.setdefault(row["method"], []).append(row)
                rows.append([name, row["method"], row["selected"], *(row[key] for key in MEASURES)])
    pairs = list(zip(means["cbst+avh"], means["cbst"], strict=True))
    return Outcome(
        about=f"{about}. ENT, CORAL, MMD and DANN select nothing. The printed column AVH must be AVC: with 12 classes a "
        "confident sample's AVH lies below 1/12 = 0.083, its AVC above.",
        tables=[Table("Selected in the first round", HEADER, rows, words=2)],
        claims=[
            _compared(pairs, "confidence", "Samples selected by AVH have a lower model confidence."),
            _compared(pairs, "norm", "Samples selected by AVH have a smaller norm."),
            claim(
                "AVH introduces no more wrong pseudo-labels than confidence.",
                rule="The TP rate of CBST+AVH is at most one point below that of CBST for every pair of domains.",
                holds=all(a["true_positive_rate"] > b["true_positive_rate"] - 0.01 for a, b in pairs),
                found="; ".join(f"{a['true_positive_rate']:.3f} against {b['true_positive_rate']:.3f}" for a, b in pairs) + ".",
            ),
        ],
    )


def _compared(pairs: list[tuple[dict[str, Any], dict[str, Any]]], name: str, sentence: str) -> Claim:
    return claim(
        sentence,
        rule=f"The mean {name} of CBST+AVH's first selection is below that of CBST's for every pair of domains.",
        holds=all(a[name] < b[name] for a, b in pairs),
        found="; ".join(f"{a[name]:.3f} against {b[name]:.3f}" for a, b in pairs) + ".",
    )
