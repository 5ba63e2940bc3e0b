"""The summary that `hardsight score` and `hardsight demo` print."""

from __future__ import annotations

from collections.abc import Sequence

from hardsight.scores import SCORES
from hardsight.screen import number, print_table
from hardsight.table import Summary


def print_summary(summary: Summary, class_names: Sequence[str] | None) -> None:
    """What `hardsight score` says on the screen: counts, accuracy, means and the hardest samples."""
    accuracy = "–" if summary.accuracy is None else f"{100 * summary.accuracy:.2f} %"
    print(f"n = {summary.num_samples}   c = {number(summary.num_classes)}   accuracy = {accuracy}")
    odd = {name: count for name, count in summary.statuses.items() if name != "ok"}
    if odd:
        print("not fully scored: " + ", ".join(f"{count} {name}" for name, count in sorted(odd.items())))
    means = [(name, number(mean), SCORES[name].hard) for name, mean in summary.means.items()]
    print_table(("score", "mean", "hard end"), means)
    if summary.top == 0:
        return
    if summary.hardest is None or len(summary.hardest) == 0:
        print(f"no sample has a value of {summary.by} to rank by")
        return

    def name_of(label: int | None) -> str:
        return number(label) if class_names is None or label is None else class_names[label]

    shown = [name for name in ("avh", "confidence", "angular_gap") if name in summary.hardest.column_names]
    shown = list(dict.fromkeys([summary.by, *shown]))
    rows = [
        (str(row["id"]), name_of(row["label"]), name_of(row["predicted"]), *(number(row[name]) for name in shown))
        for row in summary.hardest.to_pylist()
    ]
    print_table(("id", "label", "predicted", *shown), rows, title=f"hardest {len(rows)} by {summary.by}", words=3)
