"""Figures and the page of `adapt`, from its result."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hardsight.data import BrokenImage, ImageData
from hardsight.data.decoding import within
from hardsight.domains.adapt_result import ALL, Adapted
from hardsight.domains.auto import CHOSEN_BY
from hardsight.domains.comparison import INTERVALS, compared, known_mean, over_seeds
from hardsight.domains.methods import Method
from hardsight.domains.settings import AUTO, SOURCE_ONLY
from hardsight.domains.validation import VALIDATORS
from hardsight.files.parquet import read_parquet
from hardsight.render import html_page
from hardsight.render.domains import accuracy_per_round, section, thumbnails
from hardsight.screen import number, percent

SHOWN = 18  # thumbnails
SIDE = 320  # longest side of one, in pixels: twice what the figure shows
SHOWN_WRONG = 6  # of them, at most, with a wrong label
RIGHT, WRONG, UNKNOWN = "right pseudo-label", "wrong pseudo-label", "label unknown"
MANY = 20  # classes: more are folded
SHOWN_STATISTICS = ("avh", "avc", "confidence", "norm", "not_selected_by_cbst", "only_selected_by_cbst")


# ---- figures ----


def figures(result: Adapted) -> dict[str, Any]:
    """name -> figure; `accuracy-PAIR` and `only-METHOD-PAIR`."""
    return {
        name: figure
        for pair in result.pairs
        for name, figure in {**_curves(result, pair), **_only_by_score(result, pair)}.items()
    }


def _curves(result: Adapted, pair: str) -> dict[str, Any]:
    """Figure 6 of the AVH paper, where target labels are known."""
    reached = {row["method"]: row["accuracy"] for row in result.table.to_pylist() if row["pair"] == pair}
    if not result.in_rounds or SOURCE_ONLY not in reached:
        return {}
    curves = {method: result.curve(pair, method) for method in result.in_rounds}
    levels = {name: level for name, level in reached.items() if name not in (SOURCE_ONLY, AUTO, *curves)}
    start = result.curve(pair, SOURCE_ONLY)[:, -1]
    return {f"accuracy-{pair}": accuracy_per_round(curves, start, _arrow(pair), levels)}


def _only_by_score(result: Adapted, pair: str) -> dict[str, Any]:
    """Figure 21 of the AVH paper: samples that a score selects in the first round and softmax does not, surest first.

    The paper shows right pseudo-labels; wrong ones are shown below them, apart.
    """
    drawn: dict[str, Any] = {}
    selecting = [row["method"] for row in result.selection.to_pylist() if row["pair"] == pair and pair in result.images]
    for method in selecting:
        if "+" not in (rule := Method.read(method).rule or "") and rule != "avc":
            continue
        table = read_parquet(result.run / pair / f"seed={result.seeds[0]}" / method / "round=01.parquet")
        chosen = table.filter(pc.and_(table.column("kept"), pc.invert(table.column("kept_by_cbst"))))
        groups = _pictures(chosen.sort_by([("avc", "descending")]), result.images[pair], result.class_names)
        if groups:
            title = f"{_arrow(pair)}: of the {len(chosen)} that {method} selects and softmax does not, round 1"
            marked = [words for words in groups if words.startswith(WRONG)]
            drawn[_only_name(method, pair)] = thumbnails(groups, title, marked)
    return drawn


def _only_name(method: str, pair: str) -> str:
    return f"only-{method.replace('+', '-')}-{pair}"


def _pictures(chosen: pa.Table, data: ImageData, class_names: Sequence[str]) -> dict[str, list[tuple[Any, str]]]:
    """Pictures with captions: those with the right pseudo-label, then those with a wrong one, each with how many there are."""
    row_of = {id: row for row, id in enumerate(data.ids)}
    kinds: dict[str, list[dict[str, Any]]] = {RIGHT: [], WRONG: [], UNKNOWN: []}
    for entry in chosen.to_pylist():
        known = RIGHT if entry["label"] == entry["pseudo_label"] else WRONG
        kinds[UNKNOWN if entry["label"] is None else known].append(entry)
    most = {RIGHT: SHOWN - min(len(kinds[WRONG]), SHOWN_WRONG), WRONG: SHOWN_WRONG, UNKNOWN: SHOWN_WRONG}
    if len(kinds[UNKNOWN]) == len(chosen):
        most[UNKNOWN] = SHOWN
    groups = {}
    for words, kind in kinds.items():
        shown: list[tuple[Any, str]] = []
        for entry in (entry for entry in kind if entry["id"] in row_of):
            if len(shown) == most[words]:
                break
            with contextlib.suppress(BrokenImage):
                picture = data.image(row_of[entry["id"]], within(SIDE))
                picture.thumbnail((SIDE, SIDE))
                shown.append((np.asarray(picture), _caption(entry, class_names)))
        if shown:
            groups[f"{words}: {len(shown)} of {len(kind)}"] = shown
    return groups


def _caption(entry: dict[str, Any], class_names: Sequence[str]) -> str:
    known = "" if entry["label"] is None else f"is {class_names[entry['label']]}\n"
    return f"{known}taken for {class_names[entry['pseudo_label']]}\np {entry['confidence']:.2f}  AVC {entry['avc']:.3f}"


# ---- the page ----


def page(result: Adapted, start: Mapping[str, Any], figures: Sequence[Path]) -> str:
    """One HTML file with everything in it.

    Args:
        start: start.json of the run.
        figures: files of the figures.
    """
    several = len(result.pairs) > 1
    title = "Self-training" if several else f"Self-training: {_arrow(result.pairs[0])}"
    sentence = (
        f"Mean class accuracy on the target in percent, after the last round, {over_seeds(result.seeds)}. "
        "The last round is the result; the best round is called oracle, because only labels of the target could choose it, "
        "and those are used for this report alone. All methods of a seed start from the same source model. Logistic "
        "regression is fitted on the source alone: on what the network gets, of images on the source model's features."
    )
    if not len(result.table):
        sentence = "The labels of the target are not known, so there is no accuracy to report; the pseudo-labels are in the run."
    differences = _differences(result)
    parts = [_overview(result), differences] if several else []
    for pair in result.pairs:
        classes, selected = _per_class(result, pair), _selected(result, pair)
        curves = [path for path in figures if path.stem == f"accuracy-{pair}"]
        names = [_only_name(method, pair) for method in result.methods]
        pictures = [path for path in figures if path.stem in names]
        shown = [selected, _validated(result, pair), html_page.figures(curves) + html_page.figures(pictures, wide=True)]
        parts += [html_page.folded(_arrow(pair), classes, *shown)] if several else [classes, differences, *shown]
    return html_page.page(title, sentence, *parts, html_page.again(start["words"]), html_page.settings(start))


def _overview(result: Adapted) -> str:
    """Pairs by methods, and their mean."""
    by_method = {(row["pair"], row["method"]): row for row in result.table.to_pylist()}
    if not by_method:
        return ""
    known = list(dict.fromkeys(pair for pair, _ in by_method))
    rows = [
        [_arrow(pair), *(percent(by_method[pair, m]["accuracy"], by_method[pair, m]["accuracy std"]) for m in result.methods)]
        for pair in known
    ]
    rows.append(["mean", *(percent(known_mean([by_method[pair, m]["accuracy"] for pair in known])) for m in result.methods)])
    return section("Every pair of domains", ("domains", *result.methods), rows, last=1)


def _differences(result: Adapted) -> str:
    """Comparisons, by pairs where there are several."""
    differences = result.differences.to_pylist()
    by_pair = {(row["pair"], row["method"], row["against"]): row for row in differences}
    both = compared(differences, "method", result.methods)
    if not both:
        return ""
    pairs = list(dict.fromkeys(pair for pair, _, _ in by_pair))
    if len(pairs) == 1:
        single = [(f"{a} − {b}", by_pair[pairs[0], a, b]) for a, b in both]
        rows = [[words, html_page.points(row), row["verdict"]] for words, row in single]
        return section("Differences", ("methods", "points", ""), rows, INTERVALS)
    rows = [[_arrow(pair), *(html_page.points(by_pair[pair, *two]) for two in both)] for pair in sorted(pairs, key=ALL.__eq__)]
    words = f"{INTERVALS} The interval of all pairs is over the pairs' means."
    return section("Differences", ("domains", *(f"{a} − {b}" for a, b in both)), rows, words, last=1)


def _per_class(result: Adapted, pair: str) -> str:
    """Table 3, a column for each method: there are fewer of them than classes. Many classes are folded below their mean."""
    methods = [row for row in result.table.to_pylist() if row["pair"] == pair]
    if not methods:
        return ""

    def line(words: str, name: str, kind: str = "") -> list[html_page.Cell]:
        return [words, *((percent(row[name], row[f"{name} std"]), kind) for row in methods)]

    classes = [line(name, f"class {name}") for name in result.class_names]
    sums = [line("mean", "accuracy"), line("best round (oracle)", "oracle_accuracy", "quiet")]
    names = [row["method"] for row in methods]
    if len(classes) <= MANY:
        return section("Accuracy by class", ["class", *names], [*classes, *sums], last=2)
    folded = html_page.folded("Accuracy by class", html_page.table(["class", *names], classes))
    return section("Accuracy", ["", *names], sums) + folded


def _selected(result: Adapted, pair: str) -> str:
    """Table 4."""
    rows = [
        [
            row["method"],
            number(row["selected"]),
            percent(row["true_positive_rate"]),
            *(number(row[name]) for name in SHOWN_STATISTICS),
        ]
        for row in result.selection.to_pylist()
        if row["pair"] == pair
    ]
    if not rows:
        return ""
    words = "Means over the samples that the first round selected, and over seeds. AVC is above 1/c for a sure sample, AVH below."
    header = ("method", "selected", "correct (%)", "AVH", "AVC", "confidence", "norm", "not selected by cbst", "only by cbst")
    return section("What the first round selected", header, rows, words)


def _validated(result: Adapted, pair: str) -> str:
    """What can be said without labels: warnings, and every validator by round, as means over seeds."""
    by_round: dict[tuple[str, int], list[dict[str, Any]]] = {}
    for row in result.rounds.to_pylist():
        if row["pair"] == pair and row[CHOSEN_BY] is not None and row["method"] != AUTO:
            by_round.setdefault((row["method"], row["round"]), []).append(row)
    if not by_round:
        return ""
    names = (*VALIDATORS, "avc_change")
    lines = [
        [method, str(round_number), *(number(known_mean([row[name] for row in rows])) for name in names)]
        for (method, round_number), rows in by_round.items()
    ]
    words = (
        "High is good in each. neighbors: samples predicted like those that were near them before adapting; infomax: "
        "sure predictions of different classes; snd: soft neighborhood density; circular: "
        "accuracy on the source of a classifier taught by the target's predictions; iwv and dev: accuracy on source samples, "
        "weighted by how much they look like the target; mean_avc: AVC of what is selected. "
        f"The warning and auto go by {CHOSEN_BY}."
    )
    table = html_page.folded("Every round", html_page.table(("method", "round", *names), lines, words=2))
    warned = [html_page.paragraph(f"Warning: {sentence}", "no") for sentence in result.warnings(pair)]
    chosen = [
        f"seed {seed}: {row['chosen']}, round {row['round']}"
        for seed in result.seeds
        for row in result.histories.get((pair, AUTO, seed), [])
    ]
    taken = [html_page.paragraph(f"auto chose {'; '.join(chosen)}.")] if chosen else []
    return "\n".join([html_page.heading("Without labels"), html_page.paragraph(words, "quiet"), *taken, *warned, table])


def _arrow(pair: str) -> str:
    return pair.replace("-to-", " → ")
