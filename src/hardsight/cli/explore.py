"""`hardsight explore`: the page in the browser."""

from __future__ import annotations

from pathlib import Path

import typer

from hardsight.cli import app


@app.command()
def explore(
    run: str = typer.Argument(..., help="A run directory, a scores table (.parquet, .csv) or a snapshot (.npz, .npy, .parquet)."),
    second: str = typer.Argument(None, metavar="[RUN2]", help="Compare with this run, on the ids that both have."),
    port: int = typer.Option(None, help="Port of the page; the next free one if it is taken. Default: from 8321."),
    no_browser: bool = typer.Option(False, "--no-browser", help="Print the address only."),
    read_only: bool = typer.Option(False, "--read-only", help="Write nothing: no marks, no scores."),
    images: str = typer.Option(
        None, metavar="DATA", help="Where the images are, if the run does not say: a folder, or any DATA of extract."
    ),
    class_names: Path = typer.Option(None, help="A text file with one class name per line, or a JSON list."),
    human: Path = typer.Option(
        None, metavar="FILE", help="What people said: counts or frequencies as .npy, or a .csv, .parquet or .json table by id."
    ),
    split: str = typer.Option(
        None, help="Of a run with dynamics: the samples of one split as the last epoch saw them, such as a watched test set."
    ),
    host: str = typer.Option("127.0.0.1", help="Address to listen at; other machines only with --allow-remote."),
    allow_remote: bool = typer.Option(
        False, "--allow-remote", help="Let other machines connect. Whoever has the address with its token sees everything."
    ),
    allowed_host: list[str] = typer.Option(
        [],
        "--allowed-host",
        metavar="NAME:PORT",
        help="A further name for the page, behind ssh -L or a notebook's proxy. May be repeated.",
    ),
) -> None:
    """Look at a run in the browser: scatter, samples, classes, dynamics, review.

    \b
    Example:
        hardsight explore hardsight-demo
        hardsight explore before after --port 8400 --no-browser
    """
    from hardsight.explorer.starting import start
    from hardsight.screen import progress_bar

    with progress_bar("scoring") as progress:
        started = start(
            run,
            second,
            port=port,
            read_only=read_only,
            images=images,
            class_names=class_names,
            human=human,
            split=split,
            host=host,
            allow_remote=allow_remote,
            allowed_hosts=allowed_host,
            progress=progress,
        )
    for sentence in started.notes:
        print(sentence)
    started.run(browser=not no_browser)
