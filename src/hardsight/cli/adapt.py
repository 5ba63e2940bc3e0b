"""`hardsight adapt`: a labeled domain and an unlabeled one in, classifiers for the second one out. Next: domains/adapt.py."""

from __future__ import annotations

from pathlib import Path

from hardsight.cli import RUN_OUTPUT, argument, command
from hardsight.domains.settings import AdaptSettings


@command(AdaptSettings, figures=True)
def adapt(
    settings: AdaptSettings,
    source: str = argument("SOURCE", "Labeled features (.npz, .parquet, a run) or images; FILE:DOMAIN selects one domain."),
    target: str = argument("[TARGET]", "Domain to adapt to. Default: every pair of SOURCE's domains.", required=False),
    output: Path = RUN_OUTPUT,
) -> None:
    """Adapt a classifier to a new domain without target labels.

    Self-training: it trains on SOURCE, pseudo-labels the TARGET samples that it is most certain of, trains on them as well, and
    repeats.

    Target labels are used only for reporting. The run holds accuracy, differences, selection and rounds as Parquet, the
    pseudo-labels of every round, figures and report.html.

    \b
    Example:
        hardsight adapt pacs.npz:photo pacs.npz:sketch --methods source,cbst,crst,cbst+avh --seeds 5 -o run
        hardsight adapt mnist.npz usps.npz --model lenet --methods cbst+avh -o run
    """
    from hardsight.domains.adapt import adapt as run_adapt
    from hardsight.render.showing import show_lines
    from hardsight.screen import print_line, print_wrote, progress_bar

    with progress_bar("reading") as progress:
        adapted = run_adapt(source, target, output, settings=settings, progress=progress, say=print_line)
    from hardsight.training import processes

    if processes.leave():
        show_lines(adapted.lines())
        print_wrote(output / "report.html")
