"""`generalize`: leave each domain out in turn, train on the others with each loss, and compare.

From top to bottom: the domains are opened and checked, here; prepared for a network and trained on with every loss
(generalize_models.py, fold_training.py, drm.py); compared and reported (generalize_result.py).
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Unpack

import numpy as np

from hardsight.domains import opening
from hardsight.domains.generalize_result import Generalized
from hardsight.domains.official_lists import OfficialLists, read_official_lists
from hardsight.domains.run_directory import run_comparison
from hardsight.domains.settings import GeneralizeSettings
from hardsight.errors import InputError
from hardsight.extraction.inputs import Data, domains_of, ids_of, labels_of
from hardsight.options import takes
from hardsight.screen import Progress, Say, first_few
from hardsight.snapshot import Snapshot
from hardsight.threads import even_rows

if TYPE_CHECKING:
    from hardsight.option_types import GeneralizeOptions

COMMAND = "hardsight generalize"


@takes(GeneralizeSettings)
def generalize(
    domains: Any, output: str | os.PathLike[str], *, settings: GeneralizeSettings | None = None,
    progress: Progress | None = None, say: Say | None = None, **options: Unpack[GeneralizeOptions],
) -> Generalized:  # fmt: skip
    """Train on all domains but one and test on that one, for each domain, loss and seed.

    All losses share a seed's split, network and order of samples. Scales, where there are some to choose from, are tried
    by leaving out each training domain in turn: the unseen domain plays no part.

    Args:
        domains: features with a domain column, or images in domain/class folders; see `hardsight.domains.opening`.
        output: run directory; an interrupted run is resumed.
        settings: all options below as one object; options given beside it override its own.
        progress: called with steps done, total steps, and a description.
        say: called with messages for the user.

    Example:
        >>> import tempfile
        >>> import numpy as np
        >>> from hardsight import Snapshot
        >>> rng = np.random.default_rng(0)
        >>> labels = np.arange(90) % 3
        >>> features = np.eye(3)[labels] * 3 + rng.normal(size=(90, 3))
        >>> samples = Snapshot(features, labels=labels, columns={"domain": np.repeat(["a", "b", "c"], 30)})
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     done = generalize(samples, folder, losses="softmax,avh", epochs=2, hidden=8)
        >>> done.accuracy.column("loss").to_pylist()
        ['softmax', 'avh']
    """
    settings = GeneralizeSettings.given(settings, options)
    opening.refuse_early(settings, output, COMMAND)
    opened = open_domains(domains, settings)

    from hardsight.domains.generalize_models import GeneralizeWork  # loads torch, which takes seconds

    work = GeneralizeWork.of(settings, opened, say or (lambda sentence: None))
    for note in opened.notes:
        work.say(note)
    return run_comparison(work, output, COMMAND, Generalized, progress)


@dataclass(frozen=True, eq=False)
class OpenedDomains:
    """Samples of several domains.

    Attributes:
        data: the samples.
        column: (n,) domain of each sample.
        domains: their names, in the order of their first sample.
        lists: what official lists say of the samples, if there are any.
        notes: messages for the user.
    """

    data: Data
    column: np.ndarray
    domains: list[str]
    lists: OfficialLists | None = None
    notes: tuple[str, ...] = ()


def open_domains(data: Any, settings: GeneralizeSettings) -> OpenedDomains:
    """Open the data, and refuse what cannot be learned from."""
    opened, _ = opening.open_domain(data)
    domains = _domains(opened)
    lists, column = None, np.asarray(domains_of(opened))
    if settings.lists is not None:
        lists = read_official_lists(settings.lists, ids_of(opened), column, labels_of(opened))
    if settings.limit is not None:
        each = [np.flatnonzero(column == name) for name in domains]
        rows = np.concatenate([some[even_rows(len(some), settings.limit)] for some in each])
        opened, column, lists = opened.take(rows), column[rows], None if lists is None else lists.take(rows)
    notes = _checked_classes(opened, domains, lists)
    opening.check_network_options(opened, settings)
    return OpenedDomains(opened, column, domains, lists, (*(() if lists is None else lists.notes), *notes))


def _domains(data: Data) -> list[str]:
    names = opening.domain_names(data)
    if len(names) < 3:
        message = f"the data's domain column has {', '.join(names) or 'none'}."
        if not names and not isinstance(data, Snapshot):
            message += " Folders are read as domain/class where the same class folders are in several of them."
        raise InputError(f"leave-one-domain-out needs at least three domains; {message}")
    opening.check_folder_names(names)
    return names


def _checked_classes(data: Data, domains: list[str], lists: OfficialLists | None) -> list[str]:
    """Refuse domains that nothing can be learned from or tested on; sentences about classes that only one domain has."""
    column, labels = domains_of(data), labels_of(data)
    classes: dict[str, list[str]] = {}
    for name in domains:
        rows = np.flatnonzero((column == name) & (labels >= 0))
        _check_enough(name, rows, lists)
        classes[name] = opening.present_classes(data.take(rows))
        if len(classes[name]) < 2:
            only = classes[name][0]
            raise InputError(f"the domain {name} has samples of one class only, {only}: two classes or more are needed.")
    notes = []
    for name in domains:
        elsewhere = {k for other in domains if other != name for k in classes[other]}
        alone = [k for k in classes[name] if k not in elsewhere]
        if alone == classes[name]:
            raise InputError(
                f"no class of the domain {name} ({first_few(alone)}) is in any other domain: "
                "what is learned from the others cannot be tested on it."
            )
        if alone:
            notes.append(f"only {name} has {first_few(alone)}: a model that has not seen {name} cannot predict that")
    return notes


def _check_enough(name: str, rows: np.ndarray, lists: OfficialLists | None) -> None:
    """At least one labeled sample must be trained on, one held out, and one tested on."""
    count = len(rows)
    if count < 2:
        raise InputError(f"the domain {name} has {count or 'no'} labeled sample{'s' * (count == 0)}: two or more are needed.")
    if lists is None:
        return
    to_train_on = lists.train[rows].sum() - (not lists.held_out[rows].any())  # one of them is held out then
    if to_train_on < 1 or not lists.test[rows].any():
        raise InputError(f"the lists of the domain {name} leave no labeled sample to train on, to hold out or to test on.")
