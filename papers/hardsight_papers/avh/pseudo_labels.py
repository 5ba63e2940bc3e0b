"""The slides' variant of CBST+AVH: pseudo-labels and thresholds both by AVC."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hardsight_papers.avh.adaptation import adapted, differences
from hardsight_papers.context import Context
from hardsight_papers.recipe import Outcome, claim, recipe

if TYPE_CHECKING:
    from hardsight.domains import Adapted


@recipe("slides/pseudo-labels", "The slides' variant: pseudo-labels by AVC alone", needs="PACS features")
def pseudo_labels(context: Context) -> Outcome:
    """Labels and thresholds both by AVC, beside the paper's rule (labels by softmax, thresholds by AVC)."""
    about, results = adapted(context)
    if context.scale == "paper":
        about += " (the variant is run at scale small)"
    known = {name: each for name, each in results.items() if "avc" in each.accuracy["method"].to_pylist()}
    return Outcome(
        about=about,
        tables=[differences(known)] if known else [],
        claims=[
            claim(
                "Selecting by AVC alone gives what CBST+AVH gives.",
                rule="The mean accuracies of the two differ by less than one point for every pair of domains.",
                holds=all(abs(gap) < 0.01 for gap in (_gap(each) for each in known.values())) if known else None,
                found="; ".join(f"{name} {100 * _gap(each):+.1f} points" for name, each in known.items()) + ".",
            )
        ],
    )


def _gap(result: Adapted) -> float:
    reached = {row["method"]: row["accuracy"] for row in result.accuracy.to_pylist()}
    return float(reached["avc"] - reached["cbst+avh"])
