"""`run`: leave each domain out in turn, train on the others with each loss, and compare."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from hardsight.domains.opening import Data, Features, domain_column, domain_names, labels_of, num_classes, open_domain
from hardsight.errors import InputError, require_installed
from hardsight.files.parquet import read_parquet
from hardsight.files.run import Run, check_run_directory
from hardsight.generalize.settings import GeneralizeSettings
from hardsight.models.weights import check_weights
from hardsight.options import takes
from hardsight.threads import even_rows
from hardsight.training.settings import ProgressCallback

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


@takes(GeneralizeSettings)
def run(
    data: Any, output: str | os.PathLike[str], *, settings: GeneralizeSettings,
    progress: ProgressCallback | None = None, say: Callable[[str], None] | None = None,
) -> Generalized:  # fmt: skip
    """Train on all domains but one and test on that one, for each domain, loss and seed.

    All losses share a seed's split, network and order of samples. Scales, where there are some to choose from, are tried
    by leaving out each training domain in turn: the unseen domain plays no part.

    Args:
        data: features with a domain column, or images in domain/class folders; see `hardsight.domains.opening`.
        output: run directory; an interrupted run is resumed.
        settings: all options below as one object; options given beside it override its own.
        progress: called with steps done, steps in all, and what is going on.
        say: called with sentences for the user.

    Example:
        >>> import tempfile
        >>> from hardsight.domains.opening import Features
        >>> rng = np.random.default_rng(0)
        >>> labels = np.arange(90) % 3
        >>> features = Features(
        ...     (np.eye(3)[labels] * 3 + rng.normal(size=(90, 3))).astype(np.float32), labels, [str(i) for i in range(90)],
        ...     None, np.array(["a", "b", "c"])[np.arange(90) // 30],
        ... )
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     done = run(features, folder, losses="softmax,avh", epochs=2, hidden=8)
        >>> done.accuracy.column("loss").to_pylist()
        ['softmax', 'avh']
    """
    require_installed("torch", extra="torch", purpose="hardsight.generalize.run")
    check_weights(settings.weights)
    check_run_directory(output, COMMAND)
    opened, _ = open_domain(data)
    if settings.limit is not None:
        opened = _limited(opened, domain_names(opened), settings.limit)
    domains = _checked_domains(opened)
    _check_model(opened, settings)

    from hardsight.generalize.work import Work  # torch, which takes seconds to load, is loaded from here on

    work = Work.of(settings, opened, domains, say or _silent)
    defaults = GeneralizeSettings().as_dict()
    directory = Run(Path(output), COMMAND, work.arguments(), {"data": work.fingerprint()}, defaults=defaults)
    if directory.complete:
        work.say(f"{output} is complete already")
        return _read(Path(output))
    with directory.only_writer():
        results = work.all(directory.directory, progress)

        from hardsight.generalize.report import write_report
        from hardsight.generalize.tables import AVERAGE

        written = write_report(directory, results)
        parts = sorted([*directory.directory.rglob("epochs.json"), *directory.directory.rglob("scale.json")])
        counts = {loss: float(results.reached(loss, AVERAGE).mean()) for loss in results.losses}
        scales_used = {f"{loss} without {domain}": scale for (loss, domain), scale in results.scales.items()}
        directory.finish([*parts, *written], {"accuracy": counts, "selection": settings.selection, "scales": scales_used})
    return _read(Path(output))


def _check_model(data: Data, settings: GeneralizeSettings) -> None:
    if num_classes(data) < 2:
        raise InputError(f"there must be at least two classes, the data has {num_classes(data)}.")
    if isinstance(data, Features):
        for_images = (settings.model, settings.head_hidden) != (None, None) or settings.preprocessing_given()
        if for_images or settings.augment != "none":
            raise InputError("model, size and augment are for images; features get a head of `hidden` units.")
    elif settings.model is None:
        raise InputError("images need a model: cnn10, timm:NAME, or a run that hardsight trained.")


def _checked_domains(data: Data) -> list[str]:
    names = domain_names(data)
    if len(names) < 3:
        held = ", ".join(names) or "none"
        raise InputError(f"leaving a domain out takes three or more, so that two are left; the data's domain column has {held}.")
    if any("/" in name or name in (".", "..") for name in names):
        raise InputError("a domain's name becomes a folder: it must not hold a slash.")
    column, labels = domain_column(data), labels_of(data)
    assert column is not None
    for name in names:
        count = int(((column == name) & (labels >= 0)).sum())
        if count < 2:  # one is held out, one is trained on
            raise InputError(f"the domain {name} has {count or 'no'} labeled sample{'s' * (count == 0)}: two or more are needed.")
    return names


def _limited(data: Data, domains: list[str], limit: int) -> Data:
    """At most so many samples of each domain, spread over it."""
    column = domain_column(data)
    rows = [np.flatnonzero(column == name) for name in domains]
    picked = [some if len(some) <= limit else some[even_rows(len(some), limit)] for some in rows]
    return data.take(np.concatenate(picked))


def _read(directory: Path) -> Generalized:
    return Generalized(
        directory, *(read_parquet(directory / f"{name}.parquet") for name in ("accuracy", "differences", "epochs"))
    )


def _silent(sentence: str) -> None:
    pass
