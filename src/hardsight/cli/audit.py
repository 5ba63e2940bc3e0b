"""`hardsight audit`: for which groups of samples the model is worse."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from hardsight.cli import command
from hardsight.groups.settings import AuditFileSettings

if TYPE_CHECKING:
    from hardsight.groups.audit import Audit
    from hardsight.screen import Cell


@command(AuditFileSettings)
def audit(
    settings: AuditFileSettings,
    source: str = typer.Argument(
        ..., metavar="RUN_OR_FILE", help="A run directory, a snapshot (.npz, .parquet) or a scores table (.parquet, .csv, .json)."
    ),
    output: str = typer.Option(
        None,
        "-o",
        "--output",
        metavar="FILE",
        help="File to write: .parquet, .csv or .json. Default: audit.parquet in a run, photo.audit.parquet next to photo.npz.",
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
    from hardsight.explorer.audit_page import page_beside, pictures_of, write_audit_page
    from hardsight.groups.group_files import audit_to_file
    from hardsight.screen import print_line, print_wrote, progress_bar

    with progress_bar("auditing") as progress:
        page = page_beside(output, report, images)
        named = None if images is None else lambda audit: pictures_of(audit, Path(source), images)
        audited = audit_to_file(source, output, settings=settings, progress=progress, check=named)
    print_audit(audited.audit, settings.top)
    if audited.path is None and page is None:
        print_line("nothing was written: give -o audit.parquet")
        return
    if audited.replaced is not None:
        print_line(f"replaced the earlier audit by {audited.replaced}; -o another.parquet keeps both")
    if audited.path is not None:
        print_wrote(audited.path)
    page = page or (None if audited.path is None else audited.path.with_suffix(".html"))
    if page is not None:
        with progress_bar("drawing"):
            write_audit_page(audited.audit, page, source, images)
        print_wrote(page)


def print_audit(audited: Audit, top: int) -> None:
    """What `hardsight audit` says on the screen: the groups, worst first."""
    from hardsight.groups.audit import groups_in_words, worst_first
    from hardsight.screen import number, print_line, print_table, print_warning

    for sentence in audited.warnings:
        print_warning(sentence)
    n = len(audited.measured)
    print_line(f"n = {n}   hardness: {audited.hardness}   {groups_in_words(audited)}", samples=n, hardness=audited.hardness)
    rows = worst_first(audited.table).slice(0, top).to_pylist()
    if not rows:
        return
    header = ("by", "group", "n", "accuracy", "difference", f"mean {audited.hardness}", "overconfidence", "verdict")
    shown = [
        (row["by"], row["group"], number(row["n"]), _percent(row, "accuracy", "accuracy", ".1f"),
         _difference(row), number(row.get(f"mean_{audited.hardness}"), ".4f"), _percent(row, "overconfidence", None, "+z.1f"),
         row["verdict"])
        for row in rows
    ]  # fmt: skip
    print_table(header, shown, words=2, name="groups")


def _percent(row: dict[str, Any], name: str, ends: str | None, digits: str) -> Cell:
    from hardsight.screen import Cell, number

    if row.get(name) is None:
        return number(None)
    text = Cell(f"{100 * row[name]:{digits}}", row[name])
    if ends is None:
        return text
    low, high = row[ends + "_low"], row[ends + "_high"]
    return Cell(f"{text} [{100 * low:{digits}}, {100 * high:{digits}}]", {"": row[name], "low": low, "high": high})


def _difference(row: dict[str, Any]) -> Cell:
    from hardsight.screen import Cell, beside, interval, number

    difference = row.get("accuracy_difference")
    if difference is None:
        return number(None)
    ends = interval(row["accuracy_difference_low"], row["accuracy_difference_high"], 1, factor=100)
    return beside(Cell(f"{100 * difference:+.1f}", difference), ends)
