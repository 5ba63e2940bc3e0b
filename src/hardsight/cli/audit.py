"""`hardsight audit`: for which groups of samples the model is worse. Next: groups/audit.py."""

from __future__ import annotations

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
        "File to write: .parquet, .csv or .json, with a page (.html) beside it. Default: audit.parquet in a run, "
        "photo.audit.parquet next to photo.npz."
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
    from hardsight.explorer.thumbnails import Pictures
    from hardsight.files.writing import check_page_output
    from hardsight.groups.audit import audit, checked_target
    from hardsight.groups.audit_page import write_audit_page
    from hardsight.groups.outputs import default_output
    from hardsight.render.showing import show
    from hardsight.screen import print_line, print_wrote, progress_bar

    with progress_bar("auditing") as progress:
        target = checked_target(output or default_output(source, "audit", whole=settings.whole), source, settings)
        if target is not None:
            check_page_output(target.with_suffix(".html"))
        groups = audit(source, settings=settings, progress=progress)
        pictures = Pictures.of(groups.measures.samples, images)  # wrong ones are refused before anything is written
    show(groups)
    if target is None:
        print_line("nothing was written: give -o audit.parquet")
        return
    if (before := groups.replaced(target)) is not None:
        print_line(f"replaced the earlier audit by {before}; -o another.parquet keeps both")
    groups.save(target)
    print_wrote(target)
    with progress_bar("drawing"):
        write_audit_page(groups, target.with_suffix(".html"), pictures.small if pictures.any else None)
    print_wrote(target.with_suffix(".html"))
