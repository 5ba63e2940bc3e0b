"""`hardsight report`: one HTML file to keep or to send."""

from __future__ import annotations

from pathlib import Path

import typer

from hardsight.cli import app


@app.command()
def report(
    run: str = typer.Argument(..., help="A run directory, a scores table (.parquet, .csv) or a snapshot (.npz, .npy, .parquet)."),
    output: Path = typer.Option(None, "-o", "--output", help="The file to write. Default: report.html in the run directory."),
    images: str = typer.Option(None, metavar="DATA", help="Where the images are, if the run does not say."),
    class_names: Path = typer.Option(None, help="A text file with one class name per line, or a JSON list."),
    human: Path = typer.Option(None, metavar="FILE", help="What people said, as for `hardsight correlate`."),
    split: str = typer.Option(
        None, help="Of a run with dynamics: the samples of one split as the last epoch saw them, such as a watched test set."
    ),
) -> None:
    """Write a run as one HTML file that opens from disk: numbers, figures, hardest samples, scatter.

    \b
    Example:
        hardsight report hardsight-demo -o digits.html
    """
    from hardsight.explorer.report import report as write_report
    from hardsight.screen import printable, progress_bar

    with progress_bar("scoring") as progress:
        path = write_report(run, output, images=images, class_names=class_names, human=human, split=split, progress=progress)
    print(f"wrote {printable(str(path))} ({path.stat().st_size / 1e6:.1f} MB)")
