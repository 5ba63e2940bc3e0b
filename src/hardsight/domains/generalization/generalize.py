"""`generalize`: leave each domain out in turn, train on the others with each loss, and compare."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack

import pyarrow as pa

from hardsight.domains.generalization.opening import open_domains
from hardsight.domains.generalization.settings import GeneralizeSettings
from hardsight.domains.run_directory import read_tables, refuse_early, write_run
from hardsight.files.run import Run
from hardsight.options import takes
from hardsight.screen import Progress, Say, printable, table_lines

if TYPE_CHECKING:
    from hardsight.domains.generalization.tables import Results
    from hardsight.option_types import GeneralizeOptions

COMMAND = "hardsight generalize"


@dataclass(frozen=True)
class Generalized:
    """A finished comparison.

    Attributes:
        directory: the run.
        accuracy: one row per loss: accuracy on each unseen domain and on average, mean and spread over seeds.
        differences: losses against each other, with intervals.
        epochs: one row per loss, unseen domain, seed and epoch.
    """

    directory: Path
    accuracy: pa.Table
    differences: pa.Table
    epochs: pa.Table

    def __repr__(self) -> str:
        shares = [name for name in self.accuracy.column_names if not name.endswith(" std")]
        where = f"Generalized: {len(self.accuracy)} losses, in {printable(str(self.directory))}"
        return "\n".join([where, *table_lines(self.accuracy.to_pylist(), shares[:8])])


@takes(GeneralizeSettings)
def generalize(
    data: Any, output: str | os.PathLike[str], *, settings: GeneralizeSettings | None = None,
    progress: Progress | None = None, say: Say | None = None, **options: Unpack[GeneralizeOptions],
) -> Generalized:  # fmt: skip
    """Train on all domains but one and test on that one, for each domain, loss and seed.

    All losses share a seed's split, network and order of samples. Scales, where there are some to choose from, are tried
    by leaving out each training domain in turn: the unseen domain plays no part.

    Args:
        data: features with a domain column, or images in domain/class folders; see `hardsight.domains.opening`.
        output: run directory; an interrupted run is resumed.
        settings: all options below as one object; options given beside it override its own.
        progress: called with steps done, total steps, and a description.
        say: called with messages for the user.

    Example:
        >>> import tempfile
        >>> import numpy as np
        >>> from hardsight.domains.opening import Features
        >>> rng = np.random.default_rng(0)
        >>> labels = np.arange(90) % 3
        >>> features = Features(
        ...     (np.eye(3)[labels] * 3 + rng.normal(size=(90, 3))).astype(np.float32), labels, [str(i) for i in range(90)],
        ...     None, np.array(["a", "b", "c"])[np.arange(90) // 30],
        ... )
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     done = generalize(features, folder, losses="softmax,avh", epochs=2, hidden=8)
        >>> done.accuracy.column("loss").to_pylist()
        ['softmax', 'avh']
    """
    settings = GeneralizeSettings.given(settings, options)
    refuse_early(settings, output, COMMAND)
    opened = open_domains(data, settings)

    from hardsight.domains.generalization.work import Work  # loads torch, which takes seconds

    work = Work.of(settings, opened, say or (lambda sentence: None))
    for note in opened.notes:
        work.say(note)

    def compare(directory: Run, writes: bool) -> None:
        results = work.all(directory.directory, progress if writes else None)
        if writes:
            _finish(directory, results, settings.selection)

    write_run(output, COMMAND, work.arguments(), work.fingerprints(), work.say, compare)
    return Generalized(Path(output), *read_tables(Path(output), ("accuracy", "differences", "epochs")))


def _finish(directory: Run, results: Results, selection: str) -> None:
    """The report, and what run.json says."""
    from hardsight.domains.generalization.report import write_report
    from hardsight.domains.generalization.tables import AVERAGE

    written = write_report(directory, results)
    parts = sorted([*directory.directory.rglob("epochs.json"), *directory.directory.rglob("scale.json")])
    counts = {loss: float(results.reached(loss, AVERAGE).mean()) for loss in results.losses}
    scales_used = {f"{loss} without {domain}": scale for (loss, domain), scale in results.scales.items()}
    directory.finish([*parts, *written], {"accuracy": counts, "selection": selection, "scales": scales_used})
