"""`hardsight clean`: which labels are wrong, and what else to look at."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import typer

from hardsight.cli import command
from hardsight.quality.settings import CleanFileSettings

if TYPE_CHECKING:
    from hardsight.quality.clean import Suspects
    from hardsight.quality.review import Applied


@command(CleanFileSettings)
def clean(
    settings: CleanFileSettings,
    source: str = typer.Argument(
        ...,
        metavar="RUN_OR_FILE",
        help="A run directory, or a file with labels and features, logits or probs: .npz, .parquet, .csv.",
    ),
    output: str = typer.Option(
        None,
        "-o",
        "--output",
        metavar="FILE",
        help="File to write: .parquet, .csv or .json. Default: suspects.parquet in a run, photo.suspects.parquet next to "
        "photo.npz; with --apply, labels.parquet of a run. With --apply, a new folder gets the images by class.",
    ),
) -> None:
    """Find wrong labels, ambiguous samples, outliers, duplicates.

    Review them with hardsight explore, then write corrected labels with --apply.

    \b
    Example:
        hardsight clean run
        hardsight clean probs.npz
        hardsight clean run --apply run/review.parquet -o labels.csv
        hardsight clean run --apply run/review.parquet -o corrected/
    """
    from hardsight.files.suspects import suspects_file
    from hardsight.quality.clean_file import clean_to_file
    from hardsight.screen import print_line, print_next, print_wrote, progress_bar

    with progress_bar("cleaning") as progress:
        cleaned = clean_to_file(source, output, settings=settings, progress=progress)
    if cleaned.suspects is not None:
        print_suspects(cleaned.suspects, settings.top)
    if cleaned.applied is not None:
        print_applied(cleaned.applied)
    if cleaned.images is not None:
        print_wrote(cleaned.path, f" ({cleaned.images:,} images, each with its class)")
    elif cleaned.path is None:
        print_line(f"nothing was written: give -o {suspects_file(Path(source)).name}, which explore and report look for")
    else:
        print_wrote(cleaned.path)
    if cleaned.suspects is not None and cleaned.path == suspects_file(Path(source)) and settings.labels is None:
        print_next("hardsight", "explore", source)
    elif cleaned.applied is not None and cleaned.path is not None:
        print_after_review(Path(source), str(cleaned.path), cleaned.images is not None)


def print_suspects(suspects: Suspects, top: int) -> None:
    """What `hardsight clean` says on the screen: the expected errors, the verdicts and the worst suspects."""
    import pyarrow.compute as pc

    from hardsight.files.suspects import CANNOT_TELL, DUPLICATE_OF, noted_warnings, precision_in_words, suspects_notes
    from hardsight.quality.verdicts import VERDICTS
    from hardsight.screen import number, print_line, print_table, print_warning

    table, notes = suspects.table, suspects_notes(suspects.table)
    for sentence in noted_warnings(notes):
        print_warning(sentence)
    kind, by = notes["evidence"], notes["by"]
    print_line(f"n = {len(table)}   evidence: {kind}   ranked by {by}", samples=len(table), evidence=kind, by=by)
    errors, low, high = (notes[f"expected_errors{end}"] for end in ("", "_low", "_high"))
    rate, certainty, rests_on = errors / max(1, notes["samples"]), notes.get("certainty", "estimated"), notes["rests_on"]
    words = f"expected label errors: {errors:.0f} ({100 * rate:.1f} %), 95 % interval {low:.0f} to {high:.0f}"
    if certainty == CANNOT_TELL:
        words = f"expected label errors: cannot tell, between {low:.0f} and {high:.0f}"
    print_line(words, rate=rate, errors=errors, errors_low=low, errors_high=high, certainty=certainty)
    print_line(rests_on, rests_on=rests_on)
    if notes["flagged"]:
        words = f"flagged: {notes['flagged']}{precision_in_words(notes['precision'])}"
        print_line(words, flagged=notes["flagged"], precision=notes["precision"])
    print_left_out(suspects)
    counted = {entry["values"]: entry["counts"] for entry in pc.value_counts(table.column("verdict")).to_pylist()}
    print_table(("verdict", "samples"), [(verdict, number(counted.get(verdict, 0))) for verdict in VERDICTS], name="verdicts")
    if DUPLICATE_OF in table.column_names:
        repeated = len(table) - table.column(DUPLICATE_OF).null_count
        print_line(f"duplicates, whatever their verdict: {repeated}", duplicates=repeated)
    issues = table.filter(table.column("is_label_issue"))
    worst = issues.sort_by([("error_score", "descending")]).slice(0, top)
    if len(worst):
        names = suspects.samples.class_names
        rows = [
            (
                number(row["id"]),
                _name(row["given_label"], names),
                _name(row["suggested_label"], names),
                number(row["error_score"]),
            )
            for row in worst.to_pylist()
        ]
        print_table(("id", "label", "suggested", "error_score"), rows, title=f"worst {len(rows)}", words=3, name="worst")


def print_after_review(source: Path, written: str, images: bool) -> None:
    """What follows a review: train again where there are images, else keep what was found and marked."""
    from hardsight.files.run import read_start
    from hardsight.screen import print_next

    sources = read_start(source).get("sources") or {}
    data = written if images else sources.get("data") or sources.get("train")
    if data is None:
        print_next("hardsight", "report", source)
    else:
        labels = [] if images else ["--labels", written]
        print_next("hardsight", "train", data, "--model", "MODEL", *labels, "-o", "corrected-run")


def print_left_out(suspects: Suspects) -> None:
    """Say how many samples have no error score, and why; nothing where all have one."""
    import numpy as np

    from hardsight.screen import print_line

    table, features = suspects.table, suspects.samples.features
    unlabeled = table.column("given_label").is_null().to_numpy()
    unscored = table.column("error_score").is_null().to_numpy() & ~unlabeled
    zeros = np.zeros_like(unscored) if features is None else unscored & ~features.any(axis=1)
    said = {
        "are all zeros": int(zeros.sum()),
        "could not be scored": int((unscored & ~zeros).sum()),
        "are unlabeled": int(unlabeled.sum()),
    }
    counted = [f"{count} {words}" for words, count in said.items() if count]
    if counted:
        print_line("samples without an error score: " + ", ".join(counted), unscored=sum(said.values()))


def _name(label: int, names: list[str] | None) -> str:
    from hardsight.screen import number

    return number(label) if names is None else names[label]


def print_applied(applied: Applied) -> None:
    """What `hardsight clean --apply` says on the screen."""
    from hardsight.screen import print_line

    counts = {"changed": applied.changed, "dropped": applied.dropped, "unknown": applied.unknown}
    print_line(
        f"{len(applied.table)} samples: {applied.changed} labels changed, {applied.dropped} samples dropped, "
        f"{applied.unknown} left out whose label is wrong and the right one not known",
        samples=len(applied.table), **counts,
    )  # fmt: skip
