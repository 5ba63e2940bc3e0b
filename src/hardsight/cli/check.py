"""`hardsight check`: what is wrong with images, a table or arrays; a data test for CI with `--fail-on`.

Next: checking/check.py.
"""

from __future__ import annotations

import shlex
from pathlib import Path

import typer

from hardsight.checking.settings import CheckSettings
from hardsight.cli import argument, command, writes

EXAMPLE = ("label_errors > 2%", "leaks > 0", "unreadable > 0", "duplicates > 0")  # rules to begin with


@command(CheckSettings, prints="lines")
def check(
    settings: CheckSettings,
    x: str = argument("DATA", "A folder, .tar, list, CSV or Parquet of images; or a run or file with features or probs."),
    output: str = writes("Run directory to write, or to resume. Default: hardsight-NAME.", "RUN"),
    summary: list[str] = typer.Option(
        [], "--summary", metavar="FILE", help="File for figures and rules: .xml (JUnit) or .md (Markdown); repeatable."
    ),
) -> None:
    """Find wrong labels, duplicates, leaks, outliers and bad images.

    No model is needed. With --fail-on it is a data test: exit code 0 if all rules pass, 1 if one fails, 2 for wrong input.

    \b
    Example:
        hardsight check photos/
        hardsight check photos/ --model timm:resnet18 --weights w.safetensors
        hardsight check table.csv --features 'f*' --label y
        hardsight check photos/ --fail-on 'label_errors > 2%' --fail-on 'leaks > 0' --summary check.xml
    """
    from hardsight.checking.check import check, default_output
    from hardsight.checking.findings import WORST
    from hardsight.errors import InputError
    from hardsight.files.writing import check_place_for
    from hardsight.render.showing import show
    from hardsight.screen import keep_table, print_if_quiet, print_line, print_next, print_wrote, progress_bar

    for file in summary:
        if not file.lower().endswith((".xml", ".md")):
            raise InputError(f"--summary writes .xml (JUnit) or .md (Markdown), got {file!r}.")
        check_place_for(Path(file))
    folder = output or default_output(x)
    with progress_bar("checking") as progress:
        checked = check(x, output=folder, settings=settings, progress=progress, say=print_line)
    show(checked)
    keep_table("worst", [{"id": row["id"], "why": checked.why(row)} for row in checked.worst(WORST)])
    keep_table("rules", [{"rule": o.rule.text, "failed": o.failed, "sentence": o.sentence} for o in checked.outcomes])
    for file in summary:
        checked.save(file)
        print_wrote(file)
    print_wrote(checked.report)
    print_next("hardsight", "explore", folder)
    unlabeled = checked.counts["label_errors"] is None
    if unlabeled:  # nothing to correct: what to label first, spread over the map
        then = ["select", folder, "--method", "kcenter", "--budget", str(max(1, len(checked) // 10)), "-o", "label-next.csv"]
    elif (marks := Path(folder, "review.parquet")).is_file():
        then = ["clean", folder, "--apply", str(marks), "-o", "labels.csv"]
    else:  # explore says how to apply the marks, once there are some
        then = ["clean", folder, "-o", "suspects.csv"]
    print_line(f"then: {shlex.join(['hardsight', *then])}")
    if not settings.fail_on:
        rules = [rule for rule in EXAMPLE if checked.counts[rule.split()[0]] is not None][:3]  # the others cannot fail
        words = [word for rule in rules for word in ("--fail-on", rule)]
        print_line(f"in CI: {shlex.join(['hardsight', 'check', x, *settings.as_words(), *words])}")
    if checked.failed:
        print_if_quiet([outcome.sentence for outcome in checked.failed])
        raise typer.Exit(1)
