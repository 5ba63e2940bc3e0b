"""`hardsight score`: a snapshot in, scores out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import typer

from hardsight.cli import command
from hardsight.scoring.settings import ScoreSettings

if TYPE_CHECKING:
    from hardsight.files.places import Place


@command(ScoreSettings)
def score(
    settings: ScoreSettings,
    snapshot: str = typer.Argument(
        ..., metavar="SNAPSHOT", help="A run directory, .npz, .npy, .parquet or .csv; also s3://, gs://, hdfs://."
    ),
    output: str = typer.Option(
        None,
        "-o",
        "--output",
        metavar="FILE",
        help="File to write: .parquet, .csv or .json. Default for a whole run with default scores: its scores.parquet.",
    ),
    verbose: bool = typer.Option(False, "-v", "--verbose", help="Print the mean of every score as well."),
) -> None:
    """Score every sample and print the hardest.

    \b
    Example:
        hardsight score cifar10-test.npz -o scores.parquet --top 20 --by angular_gap
        hardsight score table.csv --features 'f*' --label species
        hardsight score test/ --reference train/ --scores energy,vim,knn_distance
    """
    from hardsight.cli.summary import print_summary
    from hardsight.scoring.score import CROSS_VALIDATED
    from hardsight.scoring.score_file import score_to_file
    from hardsight.screen import print_line, print_wrote, progress_bar

    with progress_bar("scoring") as progress:
        scored = score_to_file(snapshot, output, settings=settings, progress=progress)
    print_summary(scored.summary, scored.class_names, verbose)
    if scored.fitted_head:
        print_line(f"no head given. head: {CROSS_VALIDATED}")
    if not verbose and len(scored.summary.means) > 1:
        print_line(f"--verbose prints the mean of each of {len(scored.summary.means)} scores")
    if scored.path is not None:
        print_wrote(scored.path)
    print_what_follows(snapshot, scored.path, settings.as_words())


def print_what_follows(snapshot: str, written: Place | None, words: Sequence[str] = ()) -> None:
    """Look at the table; or, where none was written, keep it."""
    from hardsight.files.places import Remote, place
    from hardsight.screen import print_next

    source = place(snapshot)  # whose text is without secrets
    if written is None:
        print_next("hardsight", "score", source, *words, "-o", "scores.parquet")
    elif not isinstance(written, Remote):
        print_next("hardsight", "explore", source if written == source / "scores.parquet" else written)
