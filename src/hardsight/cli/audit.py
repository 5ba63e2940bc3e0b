"""`hardsight audit`: for which groups of samples the model is worse. Next: groups/audit.py."""

from __future__ import annotations

from pathlib import Path

import typer

from hardsight.cli import argument, command, writes
from hardsight.groups.settings import AuditSettings


@command(AuditSettings)
def audit(
    settings: AuditSettings,
    source: str = argument(
        "RUN_OR_FILE", "A run directory, a snapshot (.npz, .parquet) or a scores table (.parquet, .csv, .json)."
    ),
    output: str = writes(
        "File to write: .parquet, .csv or .json. Default: audit.parquet in a run, photo.audit.parquet next to photo.npz."
    ),
    report: Path = typer.Option(
        None, "--report", metavar="FILE", help="HTML report to write. Default: the output file with the extension .html."
    ),
    images: str = typer.Option(
        None, "--images", metavar="DATA", help="Images for the report, if the run does not record where they are."
    ),
) -> None:
    """Compare accuracy and hardness between groups of samples.

    Norm and calibration are compared as well, with intervals. Without --group, it looks for latent groups on which the model
    does worse.

    \b
    Example:
        hardsight audit run --group site --group age
        hardsight audit photos.npz --group camera -o audit.parquet
        hardsight audit run --split test
    """
    from hardsight.data.run_images import RunImages
    from hardsight.explorer.thumbnails import Pictures
    from hardsight.files.writing import check_page_output
    from hardsight.groups.audit import audit, checked_target
    from hardsight.groups.audit_page import write_audit_page
    from hardsight.groups.outputs import default_output
    from hardsight.render.showing import show
    from hardsight.screen import print_line, print_wrote, progress_bar

    with progress_bar("auditing") as progress:
        RunImages({}, None, images).check_named(images)
        page = report or (None if output is None else Path(output).with_suffix(".html"))
        if page is not None:
            check_page_output(page)
        target = checked_target(output or default_output(source, "audit", whole=settings.whole), source, settings)
        groups = audit(source, settings=settings, progress=progress)
        pictures = Pictures.of(groups.measures.samples, images)  # wrong ones are refused before anything is written
    show(groups)
    if target is not None:
        if (before := groups.replaced(target)) is not None:
            print_line(f"replaced the earlier audit by {before}; -o another.parquet keeps both")
        groups.save(target)
        print_wrote(target)
        page = page or target.with_suffix(".html")
    if page is None:
        print_line("nothing was written: give -o audit.parquet")
        return
    with progress_bar("drawing"):
        write_audit_page(groups, page, pictures.small if pictures.any else None)
    print_wrote(page)
