"""`adapt`: adapt a classifier to a domain without labels, by one or several methods from the same source model.

In order: the pairs of domains are opened and checked, here, and prepared for a network by `AdaptWork.of` (adapt_models.py).
`run_comparison` (run_directory.py) opens the run and calls `AdaptWork.trained_tables`, the next there: every method is trained
(methods.py, adapt_training.py), and tables say what each reached (adapt_result.py). These, figures and a page end the run.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack

import numpy as np

from hardsight.domains import opening
from hardsight.domains.adapt_result import Adapted
from hardsight.domains.methods import stage_of
from hardsight.domains.run_directory import run_comparison
from hardsight.domains.settings import RECIPES, SOURCE_EPOCHS, AdaptSettings
from hardsight.errors import InputError
from hardsight.extraction.inputs import Data, labels_of, of_domain
from hardsight.options import takes
from hardsight.screen import Progress, Say, first_few
from hardsight.snapshot import Snapshot

if TYPE_CHECKING:
    from hardsight.option_types import AdaptOptions

COMMAND = "hardsight adapt"
Pairs = dict[str, tuple[Data, Data]]  # source and target, by name


@takes(AdaptSettings)
def adapt(
    source: Any, target: Any = None, output: str | os.PathLike[str] = "adapted", *, settings: AdaptSettings | None = None,
    progress: Progress | None = None, say: Say | None = None, **options: Unpack[AdaptOptions],
) -> Adapted:  # fmt: skip
    """Train on a source with labels, then on a target without, and compare methods that start from the same source model.

    Target labels, if there are any, are used only for reporting, never to select samples or to stop.

    Args:
        source: labeled features or images: a path (`pacs.npz:photo` is one domain of it), a Snapshot, an ImageData, or
            `(features, labels)`.
        target: the same, labels not needed. None: every ordered pair of the source's domains.
        output: run directory; an interrupted run is resumed.
        settings: all options below as one object; options given beside it override its own. Defaults that depend on
            whether features or images are trained on: see `hardsight.domains.settings.RECIPES`.
        progress: called with steps done, total steps, and a description.
        say: called with messages for the user.

    Example:
        >>> import tempfile
        >>> rng = np.random.default_rng(0)
        >>> labels = np.repeat([0, 1, 2], 30)
        >>> there = np.eye(3)[labels] * 3 + rng.normal(size=(90, 3))
        >>> here = there @ np.diag([2, 1, 1]) + 1
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     done = adapt((there, labels), (here, labels), folder, methods="source,cbst", rounds=2, hidden=8)
        >>> done.accuracy.column("method").to_pylist()
        ['source', 'logistic regression', 'cbst']
    """
    settings = AdaptSettings.given(settings, options)
    opening.refuse_early(settings, output, COMMAND)
    pairs = _pairs(source, target, settings.limit)
    first, smallest = next(iter(pairs.values()))[0], min(len(labeled) for labeled, _ in pairs.values())
    kind, asked = "features" if isinstance(first, Snapshot) else "images", settings.methods
    settings = settings if kind == "features" else _for_images(settings)
    model = settings.model  # trained: a module, or the run of one
    trained = hasattr(model, "state_dict") or (isinstance(model, (str, os.PathLike)) and Path(model).is_dir())
    settings = with_defaults(settings, kind, trained, smallest)
    opening.check_network_options(first, settings)

    from hardsight.domains.adapt_models import AdaptWork  # loads torch, which takes seconds

    work = AdaptWork.of(settings, pairs, say or (lambda sentence: None))
    for sentence in (*(["coral on images is deep-coral"] if settings.methods != asked else []), *_of_one_class(pairs)):
        work.say(sentence)
    return run_comparison(work, output, COMMAND, Adapted, progress)


def _pairs(source: Any, target: Any, limit: int | None) -> Pairs:
    """The pairs of domains by name, classes counted alike."""
    first, name = opening.open_domain(source, limit=limit if target is not None else None)
    if target is not None:
        second, other = opening.open_domain(target, limit=limit)
        pairs = {f"{name}-to-{other}" if name != other else "source-to-target": (first, second)}
    else:
        names = opening.domain_names(first)
        if len(names) < 2:
            there = f"; it has one, {names[0]!r}" if names else ""
            raise InputError(f"without a target the data needs a domain column with at least two domains{there}.")
        opening.check_folder_names(names)
        parts = {domain: opening.open_domain(of_domain(first, domain), limit=limit)[0] for domain in names}
        pairs = {f"{a}-to-{b}": (parts[a], parts[b]) for a in names for b in names if a != b}
    return {pair: _checked(pair, opening.labeled_only(a), b) for pair, (a, b) in pairs.items()}


def _checked(pair: str, source: Data, target: Data) -> tuple[Data, Data]:
    """Refuse a pair that nothing can be learned from; number the target's classes as the source's."""
    if len(target) == 0:
        raise InputError("the target has no samples.")
    ours, theirs = opening.present_classes(source), opening.present_classes(target)
    if len(ours) < 2:  # names of classes without samples teach nothing
        raise InputError(f"self-training needs at least two classes, but every source sample is of the class {ours[0]!r}.")
    if source.class_names is None or target.class_names is None:  # classes are compared by number then
        ours, theirs = (np.unique(known[known >= 0]).tolist() for known in (labels_of(source), labels_of(target)))
    if theirs and not set(ours) & set(theirs):
        words = f"the source has {first_few(ours)}, the target {first_few(theirs)}"
        raise InputError(f"{pair}: the domains share no class: {words}.")
    if len(theirs) == 1 and (labels_of(target) >= 0).all():
        raise InputError(
            f"{pair}: every target sample is labeled {str(theirs[0])!r}; self-training needs a target with several "
            f"classes. If these labels are placeholders, leave them out."
        )
    return source, opening.as_target(target, source)


def _of_one_class(pairs: Pairs) -> Iterator[str]:
    """A warning for each target whose known labels are all the same: its accuracy is that of one class."""
    for pair, (_, target) in pairs.items():
        known = opening.present_classes(target)
        if len(known) == 1:
            yield f"{pair}: every labeled target sample is of the class {known[0]!r}; accuracy is that class's alone."


def with_defaults(settings: AdaptSettings, kind: str, trained: bool, smallest: int) -> AdaptSettings:
    """The same with its defaults filled in.

    Args:
        settings: as they were given.
        kind: "features" or "images", a key of RECIPES.
        trained: whether the model has been trained already.
        smallest: samples of the smallest source; where it is too small for the usual passes, `source_epochs` stays None.
    """
    recipe = dict(RECIPES[kind])
    if trained or not settings.source_length(smallest).watched:
        recipe["source_epochs"] = 0 if trained else SOURCE_EPOCHS
    missing = {name: value for name, value in recipe.items() if getattr(settings, name) is None}
    stages = dict.fromkeys(stage for method in settings.all_methods() for stage in method.stages)
    options = {stage: given for stage in stages if (given := stage_of(stage, settings.method_options).as_dict())}
    return replace(settings, **missing, method_options=options)


def _for_images(settings: AdaptSettings) -> AdaptSettings:
    """The same methods, as far as images have them: CORAL is Deep CORAL there."""
    deep = replace(settings, methods=tuple(re.sub(r"^coral(?=\+|$)", "deep-coral", method) for method in settings.methods))
    aligning = [method.name for method in deep.all_methods() if method.alignment is not None]
    if aligning:
        raise InputError(
            f"{aligning[0]} aligns features, and these are images: `hardsight extract` makes features of them, to adapt."
        )
    return deep
