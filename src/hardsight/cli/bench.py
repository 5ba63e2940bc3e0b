"""`hardsight bench`: our speed against the limit and the peers, in one run."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from hardsight.cli import app

if TYPE_CHECKING:
    from hardsight.bench.timing import Measurement

bench = typer.Typer(
    help="Measure our speed against the physical limit and the peers, in one run.", no_args_is_help=True, rich_markup_mode=None
)
app.add_typer(bench, name="bench")

JSON = typer.Option(None, "--json", help="Also write the table as JSON.")


def _rounds(default: int) -> Any:
    return typer.Option(default, min=1, help="Interleaved rounds: the median of their ratios counts.")


def _report(lines: list[Measurement], json: Path | None) -> None:
    from hardsight.bench.timing import report

    report(lines, json)


@bench.command("score")
def bench_score(
    rounds: int = _rounds(7),
    json: Path = JSON,
) -> None:
    """Scores against the bare product features @ weight.T, on the same arrays and threads.

    \b
    Example:
        hardsight bench score --json bench.json
    """
    from hardsight.bench.score import run

    _report(run(rounds), json)


@bench.command("extract")
def bench_extract(
    rounds: int = _rounds(3),
    json: Path = JSON,
) -> None:
    """Images per second of extract against a bare DataLoader loop over the same images with the same model.

    \b
    Example:
        hardsight bench extract --json bench.json
    """
    from hardsight.bench.extract import run

    _report(run(rounds), json)


@bench.command("cluster")
def bench_cluster(
    n: int = typer.Option(1_000_000, "-n", min=1, help="Samples, of 256 dimensions and 1000 classes: 1 GB for a million."),
    rounds: int = _rounds(2),
    json: Path = JSON,
) -> None:
    """Scoring on a local Dask cluster of two workers against two bare processes on the same files.

    \b
    Example:
        hardsight bench cluster -n 200000 --json bench.json
    """
    from hardsight.bench.cluster import run

    _report(run(n, rounds), json)


@bench.command("losses")
def bench_losses(
    rounds: int = _rounds(7),
    json: Path = JSON,
) -> None:
    """Forward and backward of each head against nn.Linear and cross-entropy, and their extra memory.

    \b
    Example:
        hardsight bench losses --rounds 3 --json bench.json
    """
    from hardsight.bench.losses import run

    _report(run(rounds), json)


@bench.command("correlate")
def bench_correlate(
    rounds: int = _rounds(3),
    json: Path = JSON,
) -> None:
    """The paired bootstrap against its limits and the plain way, and Kendall against SciPy.

    \b
    Example:
        hardsight bench correlate --json bench.json
    """
    from hardsight.bench.correlate import run

    _report(run(rounds), json)


@bench.command("explore")
def bench_explore(
    n: list[int] = typer.Option([50_000, 1_000_000], "-n", min=1, help="Points; may be repeated."),
    rounds: int = _rounds(5),
    json: Path = JSON,
) -> None:
    """The explorer in a headless Chromium: start, first drawing, brush, filter, zoom, thumbnails, memory.

    \b
    Example:
        hardsight bench explore -n 50000 --json bench.json
    """
    from hardsight.bench.explore import run

    _report(run(tuple(n), rounds), json)


@bench.command("adapt")
def bench_adapt(
    n: int = typer.Option(1_000_000, "-n", min=100, help="Samples, of 512 dimensions and 12 classes: 2 GB for a million."),
    rounds: int = _rounds(3),
    json: Path = JSON,
) -> None:
    """Selecting pseudo-labels against the softmax and the angles it needs.

    \b
    Example:
        hardsight bench adapt -n 200000 --json bench.json
    """
    from hardsight.bench.adapt import run

    _report(run(n, rounds), json)
