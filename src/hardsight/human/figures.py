"""The figures of `Correlations`, by file name."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from hardsight.errors import InputError, did_you_mean
from hardsight.human.comparisons import Agreement, Row, ends_of
from hardsight.human.correlations import Correlations
from hardsight.human.disagreement import Disagreement, thumbnail
from hardsight.human.lines import for_whom
from hardsight.human.models import hard_end, score_words
from hardsight.render.agreement import over_epochs, quadrants, reliability_diagram, score_histograms, side_by_side
from hardsight.result import PictureSource

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def figures_of(found: Correlations) -> dict[str, Figure]:
    """Histograms of every model; models side by side, epochs, calibration and disagreement where there are such."""
    target, level = found.agreement().target, found.settings.level
    drawn: dict[str, Figure | None] = {}
    for agreement in found.main:
        drawn[f"{_file(agreement.model)}-{_file(agreement.target.key)}"] = histograms(agreement)
    if found.several:
        rows = [row for row in found.model_rows if row["target"] == target.key]
        drawn["models"] = side_by_side(rows, target=target.words, words=score_words, level=level)
    if found.epochs:
        drawn["epochs"] = over_epochs(found.epochs, target=target.words, words=score_words, level=level)
    for calibration in found.calibrations:
        curves = {"as it is": calibration.before, f"temperature {calibration.temperature:.2f}": calibration.after}
        title = f"Calibration of {calibration.model}, on {calibration.judged_on} samples"
        drawn[f"{_file(calibration.model)}-reliability"] = reliability_diagram(curves, title=title)
    for disagreement in found.disagreements if found.pictures is not None else ():
        drawn[f"{_file(disagreement.model)}-disagreement"] = _images(disagreement, found.pictures)
    return {name: figure for name, figure in drawn.items() if figure is not None}


def _file(name: str) -> str:
    return "".join(c if c.isalnum() or c in "-_." else "_" for c in name)[:60] or "model"


def histograms(agreement: Agreement, scores: Sequence[str] | None = None) -> Figure:
    """2-D histograms of scores, by default of all, against the target."""
    names = list(agreement.scores) if scores is None else list(scores)
    unknown = [name for name in names if name not in agreement.scores]
    if unknown:
        raise InputError(
            f"there is no score {unknown[0]!r} here; choose from {', '.join(agreement.scores)}."
            + did_you_mean(unknown[0], agreement.scores)
        )
    title = f"{agreement.model}, {agreement.n} samples; agreement is positive where hard by the score is hard "
    panels = [
        (f"{score_words(name)}, {hard_end(name)} is hard", agreement.scores[name], _coefficient(agreement.single(name)))
        for name in names
    ]
    target = agreement.target
    words = "share of people who chose the given class" if target.key == "frequency" else target.words
    axis = f"{words} ({target.hard} is hard)"
    return score_histograms(panels, agreement.values, target=axis, title=title + for_whom(agreement))


def _coefficient(single: Row) -> str:
    if single["agreement"] is None:
        return f"no coefficient: {single['reason']}"
    low, high = ends_of(single)
    return f"agreement {single['agreement']:+.3f} [{low:+.3f}, {high:+.3f}] (Spearman)"


def _images(disagreement: Disagreement, images: PictureSource | None) -> Figure | None:
    """The clearest cases of disagreement; None if no image of them is found."""
    assert images is not None
    corners = {
        words: [_captioned(case, disagreement.score, images) for case in cases] for words, cases in disagreement.cases.items()
    }
    if not any(image is not None for shown in corners.values() for image, _ in shown):
        return None
    title = f"Where people and {disagreement.model} disagree"
    return quadrants(corners, disagreement.counts, title=title, rule=disagreement.rule)


def _captioned(case: Row, score: str, images: PictureSource) -> tuple[Any, str]:
    """Image and caption of a case."""
    short = "AVH" if score == "avh" else score.replace("_", " ")
    (target,) = [key for key in case if key not in ("id", "row", "label", "predicted", "apart", score)]
    predicted = "" if case["predicted"] is None else f"\nseen as {case['predicted']}"
    caption = f"given {case['label']}{predicted}\npeople {100 * case[target]:.0f} %, {short} {case[score]:.3f}"
    return thumbnail(images, case["id"]), caption
