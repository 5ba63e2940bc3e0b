"""The summary that `hardsight score` and `hardsight demo` print: the hardest samples first."""

from __future__ import annotations

from collections.abc import Sequence

from hardsight.scores import SCORES
from hardsight.screen import number, percent, print_line, print_table
from hardsight.table import UNLABELED, Summary


def print_summary(summary: Summary, class_names: Sequence[str] | None, verbose: bool = False) -> None:
    """What `hardsight score` says on the screen: the hardest samples, counts and accuracy; with `verbose`, all means."""
    _print_hardest(summary, class_names)
    accuracy = "–" if summary.accuracy is None else f"{percent(summary.accuracy)} %"
    mean = summary.means.get(summary.ranked_by)
    words = [f"n = {summary.num_samples}", f"c = {number(summary.num_classes)}", f"accuracy = {accuracy}"]
    words += [f"mean {summary.ranked_by} = {number(mean)}"] if mean is not None else []
    print_line("   ".join(words), **summary.as_dict())
    odd = {name: count for name, count in summary.statuses.items() if name != "ok"}
    if odd:
        print_line("not fully scored: " + ", ".join(f"{count} {name}" for name, count in sorted(odd.items())))
    if summary.hardness:
        print_line("as hardness: high is hard in every score", hardness=True)
    if verbose:
        means = [(name, number(mean), "high" if summary.hardness else SCORES[name].hard) for name, mean in summary.means.items()]
        print_table(("score", "mean", "hard end"), means, name="means")


def _print_hardest(summary: Summary, class_names: Sequence[str] | None) -> None:
    if summary.top == 0:
        return
    if summary.hardest is None or len(summary.hardest) == 0:
        print_line(f"no sample has a value of {summary.by} to rank by")
        return

    def name_of(label: int | None) -> str:
        return number(label) if class_names is None or label is None else class_names[label]

    table, by = summary.hardest, summary.ranked_by
    beside = ("avh", "confidence", "angular_gap") if by not in UNLABELED else UNLABELED
    shown = list(dict.fromkeys([by, *(name for name in beside if name in table.column_names)]))
    rows = [
        (number(row["id"]), name_of(row["label"]), name_of(row["predicted"]), *(number(row[name]) for name in shown))
        for row in table.to_pylist()
    ]
    title = f"hardest {len(rows)} by {by}"
    print_table(("id", "label", "predicted", *shown), rows, title=title, words=3, name="hardest")
