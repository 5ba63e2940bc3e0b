"""`hardsight generalize`: several labeled domains in, accuracy on each one when it was never seen, out.

Next: domains/generalize.py.
"""

from __future__ import annotations

from pathlib import Path

from hardsight.cli import RUN_OUTPUT, argument, command
from hardsight.domains.settings import GeneralizeSettings


@command(GeneralizeSettings, figures=True)
def generalize(
    settings: GeneralizeSettings,
    domains: str = argument("DOMAINS", "A folder of domain/class folders, or features with a domain column."),
    output: Path = RUN_OUTPUT,
) -> None:
    """Test how well training generalizes to an unseen domain.

    Leaves each domain out in turn, trains on the others, and tests on the one left out.

    \b
    Example:
        hardsight generalize pacs.npz --losses softmax,avh,cosface,lgm,drm --seeds 3 -o run
        hardsight generalize PACS/ --model cnn10 --losses avh --scales 5,10,20 -o run
    """
    from hardsight.domains.generalize import generalize as run_generalize
    from hardsight.render.showing import show_lines
    from hardsight.screen import print_line, print_wrote, progress_bar

    with progress_bar("reading") as progress:
        generalized = run_generalize(domains, output, settings=settings, progress=progress, say=print_line)
    from hardsight.training import processes

    if processes.leave():
        show_lines(generalized.lines())
        print_wrote(output / "report.html")
