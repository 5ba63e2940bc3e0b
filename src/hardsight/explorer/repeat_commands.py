"""How to do it again: the commands that show the same page, with the options that were given."""

from __future__ import annotations

import shlex
from pathlib import Path

from hardsight.explorer.review import review_file
from hardsight.explorer.settings import ExploreSettings, ReportSettings


def reported_again(run: str | Path, output: str | Path | None, settings: ReportSettings) -> list[str]:
    """For a report, which may be sent: names, and not where things are on this machine."""
    name = Path(run).resolve().name if Path(run).is_absolute() else str(run)
    words, target = settings.as_words(), [] if output is None else ["-o", Path(output).name]
    return [
        shlex.join(["hardsight", "report", name, *words, *target]),
        f"{shlex.join(['hardsight', 'explore', name, *words])}    # the same page with every image and the review",
    ]


def applied_by(run: str | Path) -> list[str]:
    """Words of the command that makes labels of the marks on a run or a file; `clean` knows how it read a table."""
    return ["hardsight", "clean", str(run), "--apply", str(review_file(Path(run))), "-o", "labels.csv"]


def explored_again(run: str | Path, second: str | Path | None, settings: ExploreSettings) -> list[str]:
    """For the page in the browser: paths as they were written; one run can be a report, too."""
    runs = [str(path) for path in (run, second) if path is not None]
    explore = shlex.join(["hardsight", "explore", *runs, *settings.as_words()])
    if second is not None:
        return [explore]
    shown = ReportSettings(**{field.name: getattr(settings, field.name) for field in ReportSettings.fields()})
    return [explore, f"{shlex.join(['hardsight', 'report', *runs, *shown.as_words()])}    # the same page as one file"]
