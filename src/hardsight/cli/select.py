"""`hardsight select`: which samples to train on, or to label next. Next: subsets/select.py."""

from __future__ import annotations

from hardsight.cli import argument, command, writes
from hardsight.subsets.settings import UNCERTAIN, SelectSettings


@command(SelectSettings)
def select(
    settings: SelectSettings,
    source: str = argument("RUN_OR_FILE", "A run directory, a snapshot (.npz, .npy, .parquet) or a table of scores."),
    output: str = writes("File to write: .parquet, .csv or .json, with columns id and reason.", required=True),
) -> None:
    """Choose samples to train on, or to label next.

    \b
    Example:
        hardsight select run --budget 5000 --method coverage -o subset.parquet
        hardsight select run --budget 5000 --method hardest --per-class --curve -o subset.parquet
        hardsight select unlabeled.npz --budget 100 --method margin -o label-next.csv
    """
    from hardsight.render.showing import show
    from hardsight.screen import print_next, print_wrote, progress_bar
    from hardsight.subsets.select import select

    with progress_bar("choosing") as progress:
        subset = select(source, output=output, settings=settings, progress=progress)
    show(subset)
    if isinstance(settings.curve, str):
        print_wrote(settings.curve)
    print_wrote(output)
    if settings.method not in UNCERTAIN and all(label >= 0 for label in subset.labels):
        print_next("hardsight", "train", "DATA", "--model", "MODEL", "--subset", output, "-o", "subset-run")
