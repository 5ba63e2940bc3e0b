"""`hardsight score`: a snapshot in, scores out."""

from __future__ import annotations

from pathlib import Path

import typer

from hardsight.cli import app


@app.command()
def score(
    snapshot: Path = typer.Argument(..., metavar="SNAPSHOT", help="A run directory, .npz, .npy or .parquet."),
    output: Path = typer.Option(
        None,
        "-o",
        "--output",
        help="Where to write: .parquet, .csv or .json. Default for a whole run with its default scores: its scores.parquet.",
    ),
    head: Path = typer.Option(None, help="The head, if the snapshot has none: .safetensors, .npz or .npy."),
    labels: Path = typer.Option(None, help="Labels as .npy, if the snapshot has none."),
    scores: str = typer.Option(None, help="Names with commas, or all. Default: every row score the input allows."),
    by: str = typer.Option(None, help="Score to rank the hardest samples by. Default: avh, or loss without angles."),
    top: int = typer.Option(10, min=0, help="How many of the hardest samples to print."),
    class_names: Path = typer.Option(None, help="A text file with one class name per line, or a JSON list."),
    limit: int = typer.Option(None, min=0, help="Score only the first N samples."),
    shard: str = typer.Option(None, help="i/n: only the i-th of n equal parts, i from 0."),
    strict: bool = typer.Option(False, "--strict", help="Stop at a row that cannot be scored instead of keeping its status."),
    allow_duplicates: bool = typer.Option(False, "--allow-duplicates", help="Accept ids that come twice."),
) -> None:
    """Score every sample of SNAPSHOT and print the hardest.

    \b
    Example:
        hardsight score cifar10-test.npz -o scores.parquet --top 20 --by angular_gap
    """
    from hardsight.cli.words import print_summary, progress_bar
    from hardsight.errors import InputError
    from hardsight.names import read_class_names
    from hardsight.scoring import CROSS_VALIDATED, Job
    from hardsight.snapshot import Snapshot
    from hardsight.table import Summary, TableWriter, check_format

    whole = scores is None and limit is None and shard is None
    if output is None and snapshot.is_dir() and whole:
        output = snapshot / "scores.parquet"
    if output is not None:
        check_format(output)
        if output.resolve() == snapshot.resolve():
            raise InputError(f"{output} is the input; write to another name.")
    opened = Snapshot.load(snapshot, head=head, labels=labels)
    names = opened.class_names if class_names is None else read_class_names(class_names, opened.num_classes)
    job = Job(opened, scores, limit, _parse_shard(shard), strict, allow_duplicates)
    columns = [one.name for one in job.chosen]
    by = by or next((name for name in ("avh", "loss", *columns) if name in columns), "avh")
    if by not in columns:
        raise InputError(f"--by {by}: it must be among the scores computed: {', '.join(columns)}.")
    summary = Summary(by=by, top=top, num_classes=opened.num_classes)
    if job.cross_validated:
        print(f"no head given. head: {CROSS_VALIDATED}")
    with progress_bar("scoring") as progress:
        if output is None:
            for part in job.parts(progress):
                summary.add(part)
        else:
            with TableWriter(output, job.schema) as writer:
                for part in job.parts(progress):
                    writer.write(part)
                    summary.add(part)
    print_summary(summary, names)
    if output is not None:
        print(f"wrote {output}")


def _parse_shard(text: str | None) -> tuple[int, int] | None:
    from hardsight.errors import InputError

    if text is None:
        return None
    index, slash, count = text.partition("/")
    if not (slash and index.isdigit() and count.isdigit()):
        raise InputError(f"--shard must look like 0/4, got {text!r}.")
    return int(index), int(count)
