"""`hardsight people`: what people would say of every sample, from their answers about some. Next: human/people.py."""

from __future__ import annotations

from pathlib import Path

import typer

from hardsight.cli import argument, command, writes
from hardsight.human.settings import PeopleSettings
from hardsight.options import COMMON


@command(PeopleSettings)
def people(
    settings: PeopleSettings,
    runs: list[Path] = argument("RUN...", "Runs or snapshots with features, head and labels: models of the same samples."),
    answers: Path = typer.Option(..., metavar="FILE", help=COMMON["human"][1] + " Some of the samples are enough."),
    reference: list[Path] = typer.Option(
        None, metavar="RUN", help="Snapshot of the model's training data, for better scores; repeat it for each of several runs."
    ),
    output: Path = writes(
        "File to write: .parquet, .csv or .json, with columns id, predicted_frequency, low, high and source.", required=True
    ),
) -> None:
    """Predict what people would say of samples from some answers.

    Works from 100 answered samples up; with fewer, it scales a score that needs no answers.

    \b
    Example:
        hardsight people run --answers counts.csv -o people.parquet
    """
    from hardsight.human.people import people
    from hardsight.render.showing import show
    from hardsight.screen import print_wrote

    found = people(list(runs), answers, list(reference) if reference else None, output=output, settings=settings)
    show(found)
    print_wrote(output)
