"""`python -m benchmarks NAME`: our speed against the limit and the peers, and what every score finds, in one run."""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import typer

from benchmarks.settings import CleanBenchSettings, HardnessSettings
from hardsight.cli import run
from hardsight.cli.help_page import App
from hardsight.cli.options import options_of
from hardsight.cli.results import prints_tables

bench = App(
    help="Measure speed, and compare what every score finds.",
    no_args_is_help=True,
    rich_markup_mode=None,
)


@dataclass(frozen=True)
class Benchmark:
    """A subcommand; `benchmarks.NAME.run` takes its rounds, after `n` where it has one."""

    name: str
    summary: str
    rounds: int
    n: int | tuple[int, ...] | None = None  # default size, where it can be chosen; several sizes where it is repeatable
    n_help: str = ""
    least: int = 1
    busy_help: str = ""  # where it can be run beside busy loops
    example: str = ""  # options to show


BENCHMARKS = (
    Benchmark("score", "Compare scoring with the bare product features @ weight.T. The same arrays and threads.", 11),
    Benchmark(
        "extract", "Compare images per second with a bare DataLoader loop. The same images and model.", 3,
        busy_help="Measure beside two busy loops instead, and what it costs on an idle machine to limit how long threads spin.",
        example="--busy",
    ),
    Benchmark(
        "cluster", "Compare a Dask cluster of two workers with two bare processes. Both score the same files.", 2,
        1_000_000, "Number of samples, with 256 dimensions and 1000 classes: 1 GB for a million.", example="-n 200000",
    ),
    Benchmark(
        "losses", "Compare each head with nn.Linear and cross-entropy. Forward and backward, and extra memory.", 7,
        example="--rounds 3",
    ),
    Benchmark("dynamics", "Compare an epoch that records dynamics with one that does not.", 5),
    Benchmark("correlate", "Compare the paired bootstrap with a plain loop and its limits. Also Kendall with SciPy.", 3),
    Benchmark(
        "explore", "Time the explorer in a headless Chromium. Start, first drawing, brush, filter, zoom, thumbnails, memory.", 5,
        (50_000, 1_000_000), "Number of points; repeatable.", example="-n 50000",
    ),
    Benchmark(
        "adapt", "Compare pseudo-label selection with softmax and angles alone.", 3,
        1_000_000, "Number of samples, with 512 dimensions and 12 classes: 2 GB for a million.", least=100, example="-n 200000",
    ),
    Benchmark(
        "mine", "Compare mining with the bare product of all pairs. Also a SupCon step with pytorch-metric-learning's.", 1,
        100_000, "Number of samples, with 128 dimensions and 100 classes.", least=1000, example="-n 20000",
    ),
)  # fmt: skip


def command_of(benchmark: Benchmark) -> Callable[..., None]:
    """The subcommand as a function: `-n` where the size can be chosen, then `--rounds`."""

    def command(rounds: int, n: Any = None, **switches: bool) -> None:
        from benchmarks.timing import report

        run = importlib.import_module(f"benchmarks.{benchmark.name}").run
        report(run(rounds, **switches) if n is None else run(n, rounds))

    options: list[tuple[str, Any, Any]] = [
        (
            "rounds",
            int,
            typer.Option(
                benchmark.rounds,
                min=1,
                metavar="N",
                help="Number of interleaved rounds, whose median ratio is reported; up to four times as many near a limit.",
            ),
        ),
    ]
    if benchmark.busy_help:
        options.insert(0, ("busy", bool, typer.Option(False, "--busy", help=benchmark.busy_help)))
    if benchmark.n is not None:
        several = isinstance(benchmark.n, tuple)
        size = typer.Option(benchmark.n, "-n", metavar="N", min=benchmark.least, help=benchmark.n_help)
        options.insert(0, ("n", list[int] if several else int, size))
    keyword = inspect.Parameter.KEYWORD_ONLY
    parameters = [inspect.Parameter(name, keyword, default=default, annotation=kind) for name, kind, default in options]
    command.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    command.__annotations__ = {name: kind for name, kind, _ in options}
    command.__name__ = benchmark.name
    words = " ".join(filter(None, [f"python -m benchmarks {benchmark.name}", benchmark.example, "--json > bench.json"]))
    command.__doc__ = f"{benchmark.summary}\n\n\b\nExample:\n    {words}\n"
    return command


for _benchmark in BENCHMARKS:
    bench.command(_benchmark.name)(prints_tables(command_of(_benchmark)))

KEPT = typer.Option(
    Path("hardsight-bench"),
    "-o",
    "--output",
    metavar="DIR",
    help="Directory for trained networks and results; existing ones are reused.",
)


@bench.command()
@prints_tables
@options_of(HardnessSettings)
def hardness(settings: HardnessSettings, output: Path = KEPT) -> None:
    """Inject known hardness and compare which scores find it.

    Wrong labels, inputs of unseen classes and of none, atypical views, duplicates: AUROC, average precision, and the share that a
    budget of as many samples misses. Each result is written when it is known; an interrupted run is resumed.

    \b
    Example:
        python -m benchmarks hardness --quick
        python -m benchmarks hardness --data DIR --seeds 5 --json > bench.json
    """
    from benchmarks.hardness import report, run
    from hardsight.screen import print_line, progress_bar

    with progress_bar("training") as progress:
        summary = run(output, settings=settings, progress=progress, say=print_line)
    report(summary, settings)


@bench.command()
@prints_tables
@options_of(CleanBenchSettings)
def clean(settings: CleanBenchSettings, output: Path = KEPT) -> None:
    """Compare wrong labels found by clean and by cleanlab.

    Injected noise in digits and MNIST, labels of people (CIFAR-10N), the estimated number of errors, and time. Networks and
    results are kept; an interrupted run is resumed.

    \b
    Example:
        python -m benchmarks clean --parts injected --json > bench.json
        python -m benchmarks clean --data DIR --label-sets random1
    """
    from benchmarks.clean import absent, run
    from benchmarks.timing import report
    from hardsight.screen import print_line

    report(run(output, settings=settings))
    for note in absent(settings):
        print_line(f"not measured: {note}")


if __name__ == "__main__":
    run(bench)
