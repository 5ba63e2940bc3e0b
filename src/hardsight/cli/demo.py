"""`hardsight demo`: everything on built-in digits."""

from __future__ import annotations

from pathlib import Path

import typer

from hardsight.cli import app


@app.command()
def demo(
    output: str = typer.Option("hardsight-demo", "-o", "--output", help="Run directory to write."),
    seed: int = typer.Option(0, help="Same seed, same numbers."),
) -> None:
    """Train a small CNN on built-in digits, score every held-out image and show the hardest.

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
    print(f"scores:  {Path(output, 'scores.parquet')}   (opens in pandas, Polars, DuckDB)")
    print(f"picture: {Path(output, 'figures', 'overview.png')}")
    print(f"next:    hardsight score {output} --by angular_gap --top 20")
