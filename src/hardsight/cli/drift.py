"""`hardsight drift`: what got harder between two models or two dates. Next: groups/drift.py."""

from __future__ import annotations

from hardsight.cli import argument, command, writes
from hardsight.groups.settings import DriftSettings


@command(DriftSettings)
def drift(
    settings: DriftSettings,
    before: str = argument("A", "Before: a run directory, a snapshot or a scores table."),
    after: str = argument("B", "After: the same samples, joined by id; with --unpaired, other samples."),
    output: str = writes(
        "File to write: .parquet, .csv or .json. Default: drift.parquet in run B, photo.drift.parquet next to photo.npz."
    ),
) -> None:
    """Find what got harder between two models or dates.

    Compares samples and classes of A and B, and tests whether the features themselves moved.

    \b
    Example:
        hardsight drift before after
        hardsight drift january.npz february.npz --unpaired -o drift.parquet
    """
    from hardsight.groups.drift import drift
    from hardsight.groups.outputs import default_output
    from hardsight.render.showing import show
    from hardsight.screen import print_line, print_next, print_wrote, progress_bar

    target = output or default_output(after, "drift", whole=settings.whole)
    with progress_bar("scoring") as progress:
        drifted = drift(before, after, output=target, settings=settings, progress=progress)
    show(drifted)
    if target is None:
        print_line("nothing was written: give -o drift.parquet")
    else:
        print_wrote(target)
        print_next("hardsight", "explore", after, "--drift", target)
