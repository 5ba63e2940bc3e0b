"""`hardsight explore`: the page in the browser.

Next: explorer/opening.py, which opens the samples, and server.py, which serves them.
"""

from __future__ import annotations

import typer

from hardsight.cli import argument, command
from hardsight.explorer.settings import ExploreSettings


@command(ExploreSettings, prints="nothing")
def explore(
    settings: ExploreSettings,
    x: str = argument("RUN", "Run directory, or a file: a scores table, a snapshot, a wide table."),
    second: str = argument("[RUN2]", "Second run, compared on the ids that both have.", required=False),
    no_browser: bool = typer.Option(False, "--no-browser", help="Print the address without opening a browser."),
) -> None:
    """Explore a run in the browser, and review its labels.

    Marks are saved in the run's review.parquet, or next to a file: photo.review.parquet for photo.npz.

    \b
    Example:
        hardsight explore hardsight-demo
        hardsight explore before after --port 8400 --no-browser
    """
    from hardsight.explorer.opening import open_page
    from hardsight.explorer.server import Server
    from hardsight.screen import print_next, print_warning, progress_bar

    with progress_bar("scoring") as progress:
        page = open_page(x, second, settings, progress)
    server = Server(page, settings)
    for note in server.notes:
        print(note)
    suspects = page.display.suspects
    for sentence in [] if suspects is None else suspects.warnings:
        print_warning(sentence)
    try:
        server.run(browser=not no_browser)
    finally:
        if page.apply and page.review.current()[1]:  # marks that can be applied
            print_next(*page.apply)
