"""`hardsight audit`: for which groups of samples the model is worse."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from hardsight.act.groups.settings import AuditFileSettings
from hardsight.cli import app
from hardsight.cli.options import options_of

if TYPE_CHECKING:
    from hardsight.act.groups.auditing import Audit


@app.command()
@options_of(AuditFileSettings)
def audit(
    settings: AuditFileSettings,
    source: str = typer.Argument(
        ..., metavar="RUN_OR_FILE", help="A run directory, a snapshot (.npz, .parquet) or a scores table (.parquet, .csv, .json)."
    ),
    output: str = typer.Option(
        None,
        "-o",
        "--output",
        help="File to write: .parquet, .csv or .json. Default: audit.parquet of a run, photo.audit.parquet beside photo.npz.",
    ),
    report: Path = typer.Option(None, "--report", help="Page to write. Default: the name of the table with .html."),
    images: str = typer.Option(
        None, "--images", metavar="DATA", help="Images for the page, if the run does not record where they are."
    ),
) -> None:
    """Compare groups of samples: accuracy, hardness, norm and calibration, with intervals; without --group, find latent ones.

    \b
    Example:
        hardsight audit run --group site --group age
        hardsight audit photos.npz --group camera -o audit.parquet
        hardsight audit run --split test
    """
    from hardsight.act.groups.to_file import audit_to_file
    from hardsight.explorer.audit_page import page_beside, write_audit_page
    from hardsight.files.inputs import command, note_input
    from hardsight.screen import printable, progress_bar

    with command(), progress_bar("scoring") as progress:
        note_input(source)
        page = page_beside(output, report)
        audited = audit_to_file(source, output, settings=settings, progress=progress)
    print_audit(audited.audit, settings.top)
    if audited.path is None and page is None:
        print("nothing was written: give -o audit.parquet")
        return
    if audited.path is not None:
        print(f"wrote {printable(str(audited.path))}")
    page = page or (None if audited.path is None else audited.path.with_suffix(".html"))
    if page is not None:
        with command(), progress_bar("drawing"):
            note_input(source)
            write_audit_page(audited.audit, page, source, images)
        print(f"wrote {printable(str(page))}")


def print_audit(found: Audit, top: int) -> None:
    """What `hardsight audit` says on the screen: the groups, worst first."""
    from hardsight.act.groups.auditing import groups_in_words, worst_first
    from hardsight.screen import print_table

    for sentence in found.warnings:
        print(f"warning: {sentence}", file=sys.stderr)
    print(f"n = {len(found.measured)}   hardness: {found.hardness}   {groups_in_words(found)}")
    rows = worst_first(found.table).slice(0, top).to_pylist()
    if not rows:
        return
    header = ("by", "group", "n", "accuracy", "difference", f"mean {found.hardness}", "overconfidence", "verdict")
    shown = [
        (row["by"], row["group"], str(row["n"]), _percent(row, "accuracy", "accuracy", ".1f"),
         _difference(row), _number(row.get(f"mean_{found.hardness}")), _percent(row, "overconfidence", None, "+.1f"),
         row["verdict"])
        for row in rows
    ]  # fmt: skip
    print_table(header, shown, words=2)


def _percent(row: dict[str, Any], name: str, ends: str | None, digits: str) -> str:
    if row.get(name) is None:
        return "–"
    text = f"{100 * row[name]:{digits}}"
    return f"{text} [{100 * row[ends + '_low']:{digits}}, {100 * row[ends + '_high']:{digits}}]" if ends else text


def _difference(row: dict[str, Any]) -> str:
    from hardsight.screen import interval

    if row.get("accuracy_difference") is None:
        return "–"
    ends = interval(row["accuracy_difference_low"], row["accuracy_difference_high"], 1, factor=100)
    return f"{100 * row['accuracy_difference']:+.1f} {ends}"


def _number(value: float | None) -> str:
    return "–" if value is None else f"{value:.4f}"
