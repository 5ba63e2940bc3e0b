"""The run directory of a comparison over domains: early checks, one writer, tables and the report."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from hardsight.domains.settings import DomainOptions
from hardsight.errors import require_installed
from hardsight.files.parquet import read_parquet
from hardsight.files.run import Run, check_run_directory
from hardsight.files.writing import replacing
from hardsight.models.network_names import check_network_name
from hardsight.models.weights import check_weights_file
from hardsight.screen import Say
from hardsight.table import write_table

INTERVALS = "In points, seed by seed, with 95 % intervals by Student's t (none for a single seed); colored where 0 is outside."


def refuse_early(settings: DomainOptions, output: str | os.PathLike[str], command: str) -> None:
    """Check what can be checked before data is opened and torch, which takes seconds, is loaded."""
    require_installed("torch", extra="torch", purpose=command)
    check_network_name(settings.model)
    check_weights_file(settings.weights)
    check_run_directory(output, command)


def write_run(
    output: str | os.PathLike[str], command: str, arguments: Mapping[str, Any], fingerprints: Mapping[str, Any], say: Say,
    compare: Callable[[Run, bool], None],
) -> None:  # fmt: skip
    """Start the run or resume it; a complete one is left as it is.

    Args:
        output: the directory.
        command: such as `hardsight adapt`.
        arguments: what the result depends on.
        fingerprints: of all inputs.
        compare: does the work; the second argument is whether this process is the one that writes.
    """
    from hardsight.dynamics.gathering import num_processes
    from hardsight.training.processes import one_writes

    with one_writes() as writes:
        run = Run(Path(output), command, {**arguments, "processes": num_processes()}, dict(fingerprints))
        if run.complete:
            say(f"{output} is complete already")
            return
        with run.only_writer():
            compare(run, writes)


def write_tables(run: Run, tables: Mapping[str, pa.Table]) -> list[Path]:
    """NAME.parquet of each table."""
    paths = [run.directory / f"{name}.parquet" for name in tables]
    for path, table in zip(paths, tables.values(), strict=True):
        write_table(table, path)
    return paths


def read_tables(directory: Path, names: Sequence[str]) -> list[pa.Table]:
    """What `write_tables` wrote."""
    return [read_parquet(directory / f"{name}.parquet") for name in names]


def write_page(run: Run, html: str) -> Path:
    """report.html."""
    path = run.directory / "report.html"
    with replacing(path) as temporary:
        temporary.write_text(html, encoding="utf-8")
    return path


def over_seeds(seeds: Sequence[int]) -> str:
    """What the numbers of a page are, in words."""
    return f"over {len(seeds)} seeds (± is the standard deviation)" if len(seeds) > 1 else "of one seed"
