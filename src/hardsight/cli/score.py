"""`hardsight score`: a snapshot in, scores out. Next: scoring/score.py, which computes and writes them."""

from __future__ import annotations

import typer

from hardsight.cli import argument, command, writes
from hardsight.scoring.settings import ScoreSettings


@command(ScoreSettings)
def score(
    settings: ScoreSettings,
    snapshot: str = argument("SNAPSHOT", "A run directory, .npz, .npy, .parquet or .csv; also s3://, gs://, hf://, https://."),
    output: str = writes(
        "File to write: .parquet, .csv or .json. Default for a whole run with default scores: its scores.parquet."
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
    from hardsight.files.places import Remote, place
    from hardsight.render.showing import show
    from hardsight.scoring.score import score
    from hardsight.screen import print_line, print_next, print_wrote, progress_bar

    source = place(snapshot)  # whose text is without secrets
    target = None if output is None else place(output)
    whole = settings.scores is None and settings.all_samples and settings.shard is None
    if target is None and whole and source.is_dir() and (source / "run.json").is_file():  # not into a folder of shards
        target = source / "scores.parquet"
    with progress_bar("scoring") as progress:
        scored = score(snapshot, output=target, settings=settings, summary_only=target is None, progress=progress)
    scored.all_means = verbose
    show(scored)
    if not verbose and len(scored.gathered.means) > 1:
        print_line(f"--verbose prints the mean of each of {len(scored.gathered.means)} scores")
    if target is None:
        print_next("hardsight", "score", source, *settings.as_words(), "-o", "scores.parquet")
        return
    print_wrote(target)
    if not isinstance(target, Remote):
        print_next("hardsight", "explore", source if target == source / "scores.parquet" else target)
