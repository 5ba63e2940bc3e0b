"""`hardsight score`: a snapshot in, scores out."""

from __future__ import annotations

import typer

from hardsight.cli import app


@app.command()
def score(
    snapshot: str = typer.Argument(
        ..., metavar="SNAPSHOT", help="A run directory, .npz, .npy or .parquet; also s3://, gs://, hdfs://."
    ),
    output: str = typer.Option(
        None,
        "-o",
        "--output",
        help="Where to write: .parquet, .csv or .json. Default for a whole run with its default scores: its scores.parquet.",
    ),
    head: str = typer.Option(None, help="The head, if the snapshot has none: .safetensors, .npz or .npy."),
    labels: str = typer.Option(None, help="Labels as .npy, if the snapshot has none."),
    scores: str = typer.Option(None, help="Names with commas, or all. Default: every row score the input allows."),
    by: str = typer.Option(None, help="Score to rank the hardest samples by. Default: avh, or loss without angles."),
    top: int = typer.Option(10, min=0, help="How many of the hardest samples to print."),
    class_names: str = typer.Option(None, help="A text file with one class name per line, or a JSON list."),
    limit: int = typer.Option(None, min=0, help="Score only the first N samples."),
    shard: str = typer.Option(None, help="i/n: only the i-th of n equal parts, i from 0."),
    strict: bool = typer.Option(False, "--strict", help="Stop at a row that cannot be scored instead of keeping its status."),
    allow_duplicates: bool = typer.Option(False, "--allow-duplicates", help="Accept ids that come twice."),
    cluster: str = typer.Option(None, metavar="ADDRESS", help="Score on a Dask cluster: its scheduler, as tcp://host:8786."),
    tls_ca: str = typer.Option(None, metavar="FILE", help="For tls:// clusters: the authority's certificate."),
    tls_cert: str = typer.Option(None, metavar="FILE", help="For tls:// clusters: your certificate."),
    tls_key: str = typer.Option(None, metavar="FILE", help="For tls:// clusters: the key of your certificate."),
) -> None:
    """Score every sample of SNAPSHOT and print the hardest.

    \b
    Example:
        hardsight score cifar10-test.npz -o scores.parquet --top 20 --by angular_gap
    """
    from hardsight.cli.summary import print_summary
    from hardsight.errors import InputError
    from hardsight.files.class_names import read_class_names
    from hardsight.files.inputs import note_input
    from hardsight.files.places import place
    from hardsight.files.writing import check_output
    from hardsight.scoring.job import CROSS_VALIDATED, Job
    from hardsight.screen import progress_bar
    from hardsight.snapshot import Snapshot
    from hardsight.table import Summary, TableWriter, check_format

    if cluster is None and (tls_ca or tls_cert or tls_key):
        raise InputError("--tls-ca, --tls-cert and --tls-key go with --cluster, and there is none.")
    whole = scores is None and limit is None and shard is None
    where, to = place(snapshot), None if output is None else place(output)
    if to is None and whole and where.is_dir():
        to = where / "scores.parquet"
    if to is not None:
        check_format(to)
        note_input(where, head, labels, class_names)
        check_output(to)
    opened = Snapshot.load(where, head=head, labels=labels)
    names = opened.class_names if class_names is None else read_class_names(class_names, opened.num_classes)
    job = Job(opened, scores, limit, shard, strict, allow_duplicates)
    columns = [one.name for one in job.chosen]
    by = by or next((name for name in ("avh", "loss", *columns) if name in columns), "avh")
    if by not in columns:
        raise InputError(f"--by {by}: it must be among the scores computed: {', '.join(columns)}.")
    summary = Summary(by=by, top=top, num_classes=opened.num_classes)

    def check_names() -> None:
        """Without a head, the number of classes is known only when all labels have been seen."""
        if names is not None and len(names) < (summary.num_classes or 0):
            raise InputError(f"there must be one class name per class, got {len(names)} for {summary.num_classes} classes.")

    with progress_bar("scoring") as progress:
        if cluster is not None:
            from hardsight.scoring.cluster import TLS, score_on_cluster

            if to is None:
                raise InputError("--cluster writes its parts beside the output: give -o.")
            score_on_cluster(job, to, cluster, tls=TLS.given(tls_ca, tls_cert, tls_key), summary=summary, progress=progress)
        elif to is None:
            for part in job.parts(progress):
                summary.add(part)
            check_names()
        else:
            with TableWriter(to, job.schema) as writer:
                for part in job.parts(progress):
                    writer.write(part)
                    summary.add(part)
                check_names()
    if job.cross_validated:
        print(f"no head given. head: {CROSS_VALIDATED}")
    print_summary(summary, names)
    if to is not None:
        print(f"wrote {to}")
