"""`hardsight demo`: everything on built-in digits."""

from __future__ import annotations

from pathlib import Path

import typer

from hardsight.cli import app


@app.command()
def demo(
    output: Path = typer.Option(Path("hardsight-demo"), "-o", "--output", help="Run directory to write."),
    seed: int = typer.Option(0, help="Same seed, same numbers."),
) -> None:
    """Train a small CNN on built-in digits, score every held-out image, show the hardest and write a report.

    \b
    Example:
        hardsight demo -o hardsight-demo
    """
    from hardsight.cli.words import print_summary, progress_bar
    from hardsight.demo import NAMES, run_demo

    with progress_bar("training") as progress:
        summary = run_demo(output, seed=seed, progress=progress)
    print_summary(summary, NAMES)
    print(f"run:     {output}")
    print(f"scores:  {output / 'scores.parquet'}   (opens in pandas, Polars, DuckDB)")
    print(f"picture: {output / 'figures' / 'overview.png'}")
    print(f"next:    hardsight explore {output}")
    print(f"report:  {output / 'report.html'}   (one file: open it in a browser, or send it)")
