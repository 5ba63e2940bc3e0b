"""`hardsight demo`: the main workflow on built-in data, in a few seconds, using only the public functions.

A small CNN is trained on scikit-learn's digits (1,797 real 8 x 8 scans) by `hardsight.train`; every held-out image is
extracted and scored, unchanged and with less contrast or more noise, and the scores are correlated with the degradation level.
A tenth of the held-out labels is corrupted for `hardsight.clean` to find. Then `hardsight.adapt` adapts the network to the
same images at a fifth of their contrast, without labels. The result is a run directory that contains the intermediate runs.
"""

from __future__ import annotations

import shutil
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

import hardsight
from hardsight.data import ImageData
from hardsight.data.arrays import ImageArrays
from hardsight.data.degradation import Degradation, degrade
from hardsight.data.digits import read_digits
from hardsight.errors import FileError, require_installed
from hardsight.extraction.extract import extract
from hardsight.files.heads import save_head
from hardsight.files.places import place_on_disk, table_path
from hardsight.files.run import Run
from hardsight.files.samples import write_samples
from hardsight.files.suspects import read_suspects
from hardsight.files.writing import replacing, why
from hardsight.render.saving import save_figure
from hardsight.result import ScoresTable
from hardsight.scoring.score import score
from hardsight.screen import Progress
from hardsight.snapshot import Snapshot
from hardsight.table import Summary, read_scores, write_table
from hardsight.threads import one_torch_thread

if TYPE_CHECKING:
    from hardsight.human import Correlations

NAMES = [str(digit) for digit in range(10)]
HELD_OUT = 600
TRAINING: dict[str, Any] = {"epochs": 20, "batch_size": 32, "optimizer": "adamw", "lr": 2e-3, "weight_decay": 0.0}
ADAPTATION: dict[str, Any] = {"rounds": 5, "epochs": 1, "portion": "0.3:0.1:0.7", "batch_size": 64}
METHOD = "cbst+avh"
LOCAL: dict[str, Any] = {"device": "cpu", "workers": 1}
DEGRADATIONS = ("contrast=0.1,0.2,0.3,0.6,1.0", "noise=0.4,0.3,0.2,0.1,0.0")  # the levels of the AVH paper's appendix B
FAINT = Degradation("contrast", 0.2)  # what the network adapts to
COMPARED = ("avh", "angular_gap", "confidence", "norm")
NOISE = 0.1  # share of the held-out labels to corrupt


def load_digits(seed: int) -> tuple[ImageData, ImageData, ImageData]:
    """scikit-learn's bundled digits, split by the seed: training, held out, and the held-out ones at a fifth of the contrast.

    Ids are their row numbers there.
    """
    data = read_digits()
    order = np.random.default_rng(seed).permutation(len(data))
    parts = {}
    for name, rows in (("test", np.sort(order[:HELD_OUT])), ("train", np.sort(order[HELD_OUT:]))):
        ids = [f"digit-{row:04d}" for row in rows]
        parts[name] = replace(data.take(rows), ids=ids, columns={"split": [name] * len(rows)})
    test = parts["test"]
    pixels = np.stack([np.asarray(degrade(test.image(row), FAINT, id)) for row, id in enumerate(test.ids)])
    faint = ImageArrays([partial(np.asarray, pixels)], [len(pixels)], [])
    return parts["train"], test, replace(test, kind="npy", images=faint, columns={}, rows=None)


def run_demo(directory: str | Path, *, seed: int = 0, progress: Progress | None = None) -> ScoresTable:
    """Train, score, adapt and write a run directory; if it is already complete, only read its scores."""
    directory = place_on_disk(directory)
    if not (directory / "run.json").exists():
        require_installed("torch", extra="torch", purpose="the demo")
    run = Run(directory, "hardsight demo", {"seed": seed}, {"data": "digits"})
    if not run.complete:
        with run.only_writer(), one_torch_thread():
            _fill(run, seed, progress)
    if not (directory / "report.html").exists():
        predicted_people(directory, seed)  # for a section of it
        from hardsight.explorer.report import report

        report(directory)
    return ScoresTable(read_scores(directory), NAMES, by="avh")


def against_degradation(directory: Path) -> Correlations:
    """Scores against the level of degradation: contrast and noise, each image at five levels."""
    from hardsight.human.correlate import correlate

    return correlate({"demo": directory / "degraded.parquet"}, against="level", scores=COMPARED, replicates=300, permutations=20)


def before_and_after(directory: Path) -> tuple[float, float]:
    """Mean class accuracy on the faint digits, before and after self-training."""
    reached = {row["method"]: row["accuracy"] for row in read_scores(directory / "adapt" / "accuracy.parquet").to_pylist()}
    return reached["source"], reached[METHOD]


def predicted_people(directory: Path, seed: int = 0) -> dict[str, float]:
    """people.parquet: twenty made-up people look at a third of the held-out digits, and err more where there is little ink.

    Returns how well `hardsight.people` predicts their answers: Spearman on the digits that nobody was asked about, with the
    answers about the others and without.
    """
    from hardsight.stats import spearman

    snapshot, data = Snapshot.open(directory).of_split("test"), read_digits()
    ink = np.array([np.asarray(data.image(int(str(id).removeprefix("digit-")))).mean() for id in snapshot.ids])
    rng = np.random.default_rng(seed)
    right = rng.binomial(20, 0.45 + 0.5 * (ink - ink.min()) / np.ptp(ink)) / 20  # (n,)
    rows = rng.permutation(len(ink))
    asked, rest = rows[: len(rows) // 3], rows[len(rows) // 3 :]
    answers = {"id": snapshot.ids[asked].tolist(), "frequency": right[asked].tolist(), "answers": [20] * len(asked)}
    found = hardsight.people(snapshot, answers, output=directory / "people.parquet")
    agreement = spearman(found["predicted_frequency"].to_numpy()[rest], right[rest])
    alone = spearman(-found.model.known.hardness[rest], right[rest])
    return {"answered": len(asked), "predicted": len(rest), "agreement": agreement, "without_answers": alone}


def found_errors(directory: Path) -> dict[str, float]:
    """How many of the corrupted labels were found: `right` are flagged and wrong."""
    suspects = read_suspects(directory / "clean")
    assert suspects is not None
    labels = Snapshot.load(directory / "clean").columns(["label", "true_label"])
    wrong = labels.column("label").to_numpy() != labels.column("true_label").to_numpy()
    flagged = suspects.column("is_label_issue").to_numpy()
    right = int((flagged & wrong).sum())
    counts = {"samples": len(wrong), "wrong": int(wrong.sum()), "flagged": int(flagged.sum()), "right": right}
    return counts | {"precision": right / max(1, counts["flagged"]), "recall": right / max(1, counts["wrong"])}


def _fill(run: Run, seed: int, progress: Progress | None) -> None:
    """Create everything in the run; each step is either complete or repeated."""

    (train, test, faint), directory = load_digits(seed), run.directory
    trained = directory / "train"
    hardsight.train(train, trained, model="DigitsCNN", seed=seed, watch={"test": test}, progress=progress, **TRAINING, **LOCAL)
    snapshot = extract(trained, test, directory / "extract", **LOCAL)
    degraded = extract(trained, test, directory / "degraded", degradations=DEGRADATIONS, **LOCAL)
    written = _hold(run, snapshot, test)
    table = score(snapshot).table
    write_table(table, directory / "scores.parquet")
    write_table(_with_levels(degraded), directory / "degraded.parquet")
    _clean(run, snapshot, test, seed)
    for name, figure in against_degradation(directory).figures().items():
        save_figure(figure, run.folder("figures") / f"{name.removeprefix('demo-')}.png")
    _adapt(run, train, faint, seed, progress)
    summary = Summary(num_classes=10)
    summary.add(table)
    run.finish(written, summary.as_dict(), rows={written[0].name: HELD_OUT})


def _hold(run: Run, snapshot: Snapshot, test: ImageData) -> list[Path]:
    """Samples, head, model and images: what makes the directory a run that can be scored, explored and extracted with."""
    images = run.folder("images")
    try:  # 600 small files that are rewritten until the run is complete: no need to flush each
        for row, id in enumerate(test.ids):
            test.image(row).point(lambda value: 255 - value).save(images / f"{id}.png")  # ink on paper
    except OSError as error:
        raise FileError(f"{images} could not be written: {why(error)}") from error
    part, head = _write_samples(run, snapshot, test, test.labels)
    model = run.folder("model")
    for name in ("model.safetensors", "config.json"):
        with replacing(model / name) as temporary:
            shutil.copyfile(run.directory / "train" / "model" / name, temporary)
    return [part, head, model / "model.safetensors"]


def _write_samples(run: Run, snapshot: Snapshot, test: ImageData, labels: Any, **further: Any) -> tuple[Path, Path]:
    """Write the samples and the head of a run, and return the two files."""
    part, head = run.folder("samples") / "part-00000.parquet", run.directory / "head.safetensors"
    paths = [f"images/{id}.png" for id in test.ids]
    columns = {"id": test.ids, "label": labels, "split": ["test"] * len(test), "path": paths, **further}
    write_samples(part, snapshot.in_memory().values, columns)
    assert snapshot.head is not None
    save_head(head, snapshot.head, NAMES)
    return part, head


def _clean(run: Run, snapshot: Snapshot, test: ImageData, seed: int) -> None:
    """clean/: the held-out digits with a tenth of the labels corrupted, and the suspects among them, to explore and review."""
    from hardsight.quality.clean import clean

    directory = run.directory / "clean"
    arguments, sources = {"seed": seed, "noise": NOISE}, {"roots": [str(run.directory.resolve())]}
    mislabeled = Run(directory, "hardsight demo", arguments, {"data": "digits"}, sources)
    part, head = _write_samples(mislabeled, snapshot, test, mislabel(test.labels, NOISE, seed), true_label=test.labels)
    mislabeled.finish([part, head], {"samples": len(test)}, {part.name: len(test)})
    write_table(clean(directory), table_path(directory, "suspects"))


def mislabel(labels: Any, share: float, seed: int) -> np.ndarray:
    """(n,) labels with a share of them changed to another class, chosen uniformly."""
    labels, rng = np.array(labels), np.random.default_rng(seed)
    rows = rng.choice(len(labels), round(share * len(labels)), replace=False)
    labels[rows] = (labels[rows] + rng.integers(1, len(NAMES), len(rows))) % len(NAMES)
    return labels


def _with_levels(degraded: Snapshot) -> pa.Table:
    """The scores table of every held-out image at every level, with base_id, degradation and level."""
    table = score(degraded).table
    levels = degraded.columns(["base_id", "degradation", "level"])
    for name in levels.column_names:
        table = table.append_column(name, levels.column(name))
    return table.combine_chunks()


def _adapt(run: Run, train: ImageData, faint: ImageData, seed: int, progress: Progress | None) -> None:
    """adapt/: a run that adapts from clean digits to faint ones."""
    hardsight.adapt(
        train, faint, run.directory / "adapt", model=run.directory / "train", methods=("source", METHOD),
        seeds=[seed], progress=progress, **ADAPTATION, **LOCAL,
    )  # fmt: skip
