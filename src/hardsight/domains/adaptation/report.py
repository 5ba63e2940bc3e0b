"""The report of a self-training run: tables, figures, and one page with both."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hardsight.data import BrokenImage, ImageData
from hardsight.domains.adaptation.choosing import CHOSEN_BY
from hardsight.domains.adaptation.methods import Method
from hardsight.domains.adaptation.settings import AUTO, SOURCE_ONLY
from hardsight.domains.adaptation.tables import ALL, Results, accuracy_table, difference_table, rounds_table, selection_table
from hardsight.domains.adaptation.validation import VALIDATORS
from hardsight.domains.run_directory import INTERVALS, over_seeds, write_page, write_tables
from hardsight.files.parquet import read_parquet
from hardsight.files.run import Run
from hardsight.render import html_page
from hardsight.render.domains import accuracy_per_round, thumbnails
from hardsight.render.saving import save_figure
from hardsight.screen import percent

SHOWN = 18  # thumbnails
SIDE = 320  # longest side of one, in pixels: twice what the figure shows
SHOWN_WRONG = 6  # of them, at most, with a wrong label
RIGHT, WRONG, UNKNOWN = "right pseudo-label", "wrong pseudo-label", "label unknown"
MANY = 20  # classes: more are folded
SHOWN_STATISTICS = ("avh", "avc", "confidence", "norm", "not_selected_by_cbst", "only_selected_by_cbst")
TABLES = {
    "accuracy": accuracy_table,
    "differences": difference_table,
    "selection": selection_table,
    "rounds": rounds_table,
}

FolderOf = Callable[[str, str, int], Path]  # pair, method, seed -> where its rounds are


def write_report(run: Run, results: Results, images: dict[str, ImageData], folder_of: FolderOf) -> list[Path]:
    """accuracy, differences, selection and rounds as Parquet, figures/, and report.html.

    `images` has the pictures of a pair's target, where there are any.
    """
    tables = {name: make(results) for name, make in TABLES.items()}
    written = write_tables(run, tables)
    figures: dict[str, list[Path]] = {}
    for pair in results.pairs:
        figures[pair] = _curves(run, results, pair)
        if pair in images:
            figures[pair] += _only_by_score(run, results, pair, images[pair], folder_of)
        written += figures[pair]
    return [*written, write_page(run, _page(run, results, tables, figures))]


def _curves(run: Run, results: Results, pair: str) -> list[Path]:
    """Figure 6 of the AVH paper, where target labels are known."""
    start = results.last(pair, SOURCE_ONLY)
    if not results.in_rounds or not start:
        return []
    curves = {
        method: np.array([[entry["accuracy"] for entry in results.rounds[pair, method, seed]] for seed in results.seeds])
        for method in results.in_rounds
    }
    once = [method for method in results.methods if method not in (SOURCE_ONLY, AUTO, *results.in_rounds)]
    levels = {method: float(np.mean(results.last(pair, method))) for method in once if results.last(pair, method)}
    figure = accuracy_per_round(curves, np.array(start), _arrow(pair), levels)
    return save_figure(figure, run.folder("figures") / f"accuracy-{pair}.png")


def _only_by_score(run: Run, results: Results, pair: str, data: ImageData, folder_of: FolderOf) -> list[Path]:
    """Figure 21 of the AVH paper: samples that a score selects in the first round and softmax does not, surest first.

    The paper shows right pseudo-labels; wrong ones are shown below them, apart.
    """
    drawn: list[Path] = []
    for method in results.selecting:
        if "+" not in (rule := Method.read(method).rule or "") and rule != "avc":
            continue
        table = read_parquet(folder_of(pair, method, results.seeds[0]) / "round=01.parquet")
        chosen = table.filter(pc.and_(table.column("kept"), pc.invert(table.column("kept_by_cbst"))))
        groups = _pictures(chosen.sort_by([("avc", "descending")]), data, results.class_names)
        if groups:
            title = f"{_arrow(pair)}: of the {len(chosen)} that {method} selects and softmax does not, round 1"
            figure = thumbnails(groups, title, [words for words in groups if words.startswith(WRONG)])
            drawn += save_figure(figure, run.folder("figures") / f"only-{method.replace('+', '-')}-{pair}.png")
    return drawn


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
                picture = data.image(row_of[entry["id"]])
                picture.thumbnail((SIDE, SIDE))
                shown.append((np.asarray(picture), _caption(entry, class_names)))
        if shown:
            groups[f"{words}: {len(shown)} of {len(kind)}"] = shown
    return groups


def _caption(entry: dict[str, Any], class_names: Sequence[str]) -> str:
    known = "" if entry["label"] is None else f"is {class_names[entry['label']]}\n"
    return f"{known}taken for {class_names[entry['pseudo_label']]}\np {entry['confidence']:.2f}  AVC {entry['avc']:.3f}"


def _page(run: Run, results: Results, tables: dict[str, pa.Table], figures: dict[str, list[Path]]) -> str:
    """One HTML file with everything in it."""
    several = len(results.pairs) > 1
    title = "Self-training" if several else f"Self-training: {_arrow(results.pairs[0])}"
    sentence = (
        f"Mean class accuracy on the target in percent, after the last round, {over_seeds(results.seeds)}. "
        "The last round is the result; the best round is called oracle, because only labels of the target could choose it, "
        "and those are used for this report alone. All methods of a seed start from the same source model. Logistic "
        "regression is fitted on the source alone: on what the network gets, of images on the source model's features."
    )
    if not len(tables["accuracy"]):
        sentence = "The labels of the target are not known, so there is no accuracy to report; the pseudo-labels are in the run."
    differences = _differences(results, tables["differences"])
    parts = [_overview(results, tables["accuracy"]), differences] if several else []
    for pair in results.pairs:
        classes, selected = _per_class(results, tables["accuracy"], pair), _selected(tables["selection"], pair)
        curves = [path for path in figures[pair] if path.name.startswith("accuracy-")]
        drawn = html_page.figures(curves) + html_page.figures([path for path in figures[pair] if path not in curves], wide=True)
        shown = [selected, _validated(results, tables["rounds"], pair), drawn]
        parts += [html_page.folded(_arrow(pair), classes, *shown)] if several else [classes, differences, *shown]
    return html_page.page(title, sentence, *parts, html_page.again(run.start["words"]), html_page.settings(run.start))


def _overview(results: Results, accuracy: pa.Table) -> str:
    """Pairs by methods, and their mean."""
    by_method = {(row["pair"], row["method"]): row for row in accuracy.to_pylist()}
    if not by_method:
        return ""
    known = [pair for pair in results.pairs if (pair, results.methods[0]) in by_method]
    rows = [
        [_arrow(pair), *(percent(by_method[pair, m]["accuracy"], by_method[pair, m]["accuracy std"]) for m in results.methods)]
        for pair in known
    ]
    rows.append(["mean", *(percent(float(np.mean([by_method[pair, m]["accuracy"] for pair in known]))) for m in results.methods)])
    return html_page.heading("Every pair of domains") + html_page.table(("domains", *results.methods), rows, last=1)


def _differences(results: Results, differences: pa.Table) -> str:
    """Pairs by comparisons."""
    by_pair = {(row["pair"], row["method"], row["against"]): row for row in differences.to_pylist()}
    compared = [
        (method, against)
        for method in reversed(results.methods)  # the last method is most often the one of interest
        for against in results.methods
        if any((pair, method, against) in by_pair for pair in results.pairs)
    ]
    if not compared:
        return ""
    pairs = list(dict.fromkeys(pair for pair, _, _ in by_pair if pair != ALL))
    if len(pairs) == 1:
        rows = [
            [f"{method} − {against}", html_page.points(row := by_pair[pairs[0], method, against]), row["verdict"]]
            for method, against in compared
        ]
        return (
            html_page.heading("Differences")
            + html_page.paragraph(INTERVALS, "quiet")
            + html_page.table(("methods", "points", ""), rows)
        )
    rows = [[_arrow(pair), *(html_page.points(by_pair[pair, *two]) for two in compared)] for pair in pairs]
    rows.append([ALL, *(html_page.points(by_pair[ALL, *two]) for two in compared)])
    words = f"{INTERVALS} The interval of all pairs is over the pairs' means."
    header = ("domains", *(f"{method} − {against}" for method, against in compared))
    return html_page.heading("Differences") + html_page.paragraph(words, "quiet") + html_page.table(header, rows, last=1)


def _per_class(results: Results, accuracy: pa.Table, pair: str) -> str:
    """Table 3, a column for each method: there are fewer of them than classes. Many classes are folded below their mean."""
    methods = [row for row in accuracy.to_pylist() if row["pair"] == pair]
    if not methods:
        return ""

    def line(words: str, name: str, kind: str = "") -> list[html_page.Cell]:
        return [words, *((percent(row[name], row[f"{name} std"]), kind) for row in methods)]

    classes = [line(name, f"class {name}") for name in results.class_names]
    sums = [line("mean", "accuracy"), line("best round (oracle)", "oracle_accuracy", "quiet")]
    methods_by = ["class", *(row["method"] for row in methods)]
    if len(classes) <= MANY:
        return html_page.heading("Accuracy by class") + html_page.table(methods_by, [*classes, *sums], last=2)
    return (
        html_page.heading("Accuracy")
        + html_page.table(["", *methods_by[1:]], sums)
        + html_page.folded("Accuracy by class", html_page.table(methods_by, classes))
    )


def _selected(selection: pa.Table, pair: str) -> str:
    """Table 4."""
    rows = []
    for row in selection.to_pylist():
        if row["pair"] == pair:
            cells = [
                percent(row["true_positive_rate"]),
                *(f"{row[name]:.4g}" if row[name] is not None else "–" for name in SHOWN_STATISTICS),
            ]
            rows.append([row["method"], f"{row['selected']:.4g}", *cells])
    if not rows:
        return ""
    words = "Means over the samples that the first round selected, and over seeds. AVC is above 1/c for a sure sample, AVH below."
    header = ("method", "selected", "correct (%)", "AVH", "AVC", "confidence", "norm", "not selected by cbst", "only by cbst")
    return (
        html_page.heading("What the first round selected") + html_page.paragraph(words, "quiet") + html_page.table(header, rows)
    )


def _validated(results: Results, rounds: pa.Table, pair: str) -> str:
    """What can be said without labels: warnings, and every validator by round, as means over seeds."""
    means: dict[tuple[str, int], list[dict[str, Any]]] = {}
    for row in rounds.to_pylist():
        if row["pair"] == pair and row[CHOSEN_BY] is not None and row["method"] != AUTO:
            means.setdefault((row["method"], row["round"]), []).append(row)
    if not means:
        return ""
    names = (*VALIDATORS, "avc_change")
    lines = [[method, str(number), *(_mean_of(values, name) for name in names)] for (method, number), values in means.items()]
    words = (
        "High is good in each. neighbors: samples predicted like those that were near them before adapting; infomax: "
        "sure predictions of different classes; snd: soft neighborhood density; circular: "
        "accuracy on the source of a classifier taught by the target's predictions; iwv and dev: accuracy on source samples, "
        "weighted by how much they look like the target; mean_avc: AVC of what is selected. "
        f"The warning and auto go by {CHOSEN_BY}."
    )
    table = html_page.folded("Every round", html_page.table(("method", "round", *names), lines, words=2))
    warned = [html_page.paragraph(f"Warning: {sentence}", "no") for sentence in results.warnings(pair)]
    chosen = [
        f"seed {seed}: {entry['method']}, round {entry['round']}"
        for seed in results.seeds
        for entry in results.rounds.get((pair, AUTO, seed), [])
    ]
    taken = [html_page.paragraph(f"auto chose {'; '.join(chosen)}.")] if chosen else []
    return "\n".join([html_page.heading("Without labels"), html_page.paragraph(words, "quiet"), *taken, *warned, table])


def _mean_of(rows: list[dict[str, Any]], name: str) -> str:
    known = [row[name] for row in rows if row[name] is not None]
    return f"{np.mean(known):.4g}" if known else "–"


def _arrow(pair: str) -> str:
    return pair.replace("-to-", " → ")
