"""`hardsight score`: a snapshot in, scores out."""

from __future__ import annotations

import typer

from hardsight.cli import app
from hardsight.cli.options import options_of
from hardsight.scoring.settings import ScoreSettings


@app.command()
@options_of(ScoreSettings)
def score(
    settings: ScoreSettings,
    snapshot: str = typer.Argument(
        ..., metavar="SNAPSHOT", help="A run directory, .npz, .npy, .parquet or .csv; also s3://, gs://, hdfs://."
    ),
    output: str = typer.Option(
        None,
        "-o",
        "--output",
        help="File to write: .parquet, .csv or .json. Default for a whole run with default scores: its scores.parquet.",
    ),
) -> None:
    """Score every sample of SNAPSHOT and print the hardest.

    \b
    Example:
        hardsight score cifar10-test.npz -o scores.parquet --top 20 --by angular_gap
        hardsight score table.csv --features 'f*' --label species
        hardsight score test/ --reference train/ --scores energy,vim,knn_distance
    """
    from hardsight.cli.summary import print_summary
    from hardsight.scoring.job import CROSS_VALIDATED
    from hardsight.scoring.to_file import score_to_file
    from hardsight.screen import progress_bar

    with progress_bar("scoring") as progress:
        scored = score_to_file(snapshot, output, settings=settings, progress=progress)
    if scored.fitted_head:
        print(f"no head given. head: {CROSS_VALIDATED}")
    print_summary(scored.summary, scored.class_names)
    if scored.path is not None:
        print(f"wrote {scored.path}")
