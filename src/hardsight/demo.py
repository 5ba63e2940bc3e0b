"""`hardsight demo`: the main job on data that is already there, in a few seconds.

A small CNN learns scikit-learn's digits (1,797 real 8 x 8 scans); every held-out image is scored, as it is and with
less contrast and more noise, and the scores are correlated with the level of that. Then the network teaches itself the
same images at a fifth of their contrast, without labels. What is left is a run directory.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from hardsight.checks import check_count
from hardsight.data.degradation import Degradation, degrade, degraded_id, parse_degradations
from hardsight.errors import FileError, InputError, require
from hardsight.files.heads import save_head
from hardsight.files.places import place_on_disk
from hardsight.files.run import Run
from hardsight.files.samples import write_samples
from hardsight.files.writing import replacing, why, write_json
from hardsight.head import Head
from hardsight.scoring.job import score
from hardsight.snapshot import Snapshot
from hardsight.table import Summary, hardest, read_scores, write_table
from hardsight.threads import even_rows

if TYPE_CHECKING:
    from hardsight.agreement import Correlations
    from hardsight.models.digits import DigitsCNN

NAMES = [str(digit) for digit in range(10)]
HELD_OUT = 600
EPOCHS, BATCH, RATE = 30, 32, 2e-3
DEGRADATIONS = ("contrast=0.1,0.2,0.3,0.6,1.0", "noise=0.4,0.3,0.2,0.1,0.0")  # the levels of the AVH paper's appendix B
FAINT = Degradation("contrast", 0.2)  # what the network adapts to
COMPARED = ("avh", "angular_gap", "confidence", "norm")


@dataclass(frozen=True)
class Digits:
    """Images (n, 8, 8) in [0, 1] and labels, split once and for all by the seed."""

    train_images: np.ndarray
    train_labels: np.ndarray
    test_images: np.ndarray
    test_labels: np.ndarray
    test_ids: list[str]


def load_digits(seed: int) -> Digits:
    """scikit-learn's bundled digits; ids are their row numbers there."""
    from sklearn.datasets import load_digits as bundled

    data = bundled()
    order = np.random.default_rng(seed).permutation(len(data.target))
    test, train = np.sort(order[:HELD_OUT]), np.sort(order[HELD_OUT:])
    images = (data.images / 16).astype(np.float32)
    return Digits(images[train], data.target[train], images[test], data.target[test], [f"digit-{row:04d}" for row in test])


def run_demo(directory: str | Path, *, seed: int = 0, progress: Callable[..., None] | None = None) -> Summary:
    """Train, score, adapt and write a run directory; one that is complete already is only summed up.

    `progress` is called with what is done, what there is in all and, while it adapts, with words.
    """
    directory = place_on_disk(directory)
    if check_count(seed, "seed") >= 2**63:
        raise InputError(f"seed must be below 2^63, got {seed}.")
    if not (directory / "run.json").exists():
        require("torch", extra="torch", purpose="the demo")
    run = Run(directory, "hardsight demo", {"seed": seed}, {"data": "digits"})
    if not run.complete:
        with run.only_writer():
            _fill(run, seed, progress)
    if not (directory / "report.html").exists():
        from hardsight.explorer.report import report

        report(directory)
    summary = Summary(num_classes=10)
    summary.add(read_scores(directory))
    return summary


def against_degradation(directory: Path) -> Correlations:
    """Scores against the level of degradation: contrast and noise, each image at five levels."""
    from hardsight.agreement import correlate

    return correlate({"demo": directory / "degraded.parquet"}, against="level", scores=COMPARED, replicates=300, permutations=20)


def _fill(run: Run, seed: int, progress: Callable[..., None] | None) -> None:
    digits = load_digits(seed)
    model = train(digits, seed, progress)
    features, head = features_and_head(model, digits.test_images)
    paths = [f"images/{one}.png" for one in digits.test_ids]
    _save_images(run.folder("images"), digits)
    part = run.folder("samples") / "part-00000.parquet"
    columns: dict[str, Any] = {"id": digits.test_ids, "label": pa.array(digits.test_labels), "split": ["test"] * HELD_OUT}
    write_samples(part, features, {**columns, "path": paths})
    save_head(run.directory / "head.safetensors", head, NAMES)
    _save_model(run.folder("model"), model)
    table = score(Snapshot(features, head, digits.test_labels, ids=digits.test_ids))
    scores = run.directory / "scores.parquet"
    write_table(table, scores)
    write_table(_degraded_scores(model, head, digits), run.directory / "degraded.parquet")
    picture = run.folder("figures") / "overview.png"
    _draw(picture, table, digits)
    found = against_degradation(run.directory)
    for one in found.agreements:
        with replacing(run.directory / "figures" / f"{one.target.key}.png") as temporary:
            found.draw(one).savefig(temporary, format="png", metadata={"Software": None})
    _adapt(run, digits, model, seed, progress)
    summary = Summary(num_classes=10)
    summary.add(table)
    written = [part, run.directory / "head.safetensors", run.directory / "model" / "model.safetensors"]
    run.finish(written, summary.as_dict(), rows={part.name: HELD_OUT})


def before_and_after(directory: Path) -> tuple[float, float]:
    """Mean class accuracy on the faint digits, before self-training and after it."""
    before, after = read_scores(directory / "adapt" / "accuracy.parquet").column("accuracy").to_pylist()
    return before, after


def _adapt(run: Run, digits: Digits, model: DigitsCNN, seed: int, progress: Callable[..., None] | None) -> None:
    """From clean digits to faint ones: adapt/, which is a run of its own, and a figure for this run's report."""
    from hardsight.adapt.demonstration import adapt_to_faint, image_data
    from hardsight.plots.adaptation import before_and_after as draw

    faint = np.stack([_degraded(*one, FAINT) for one in zip(digits.test_images, digits.test_ids, strict=True)])
    train_ids = [f"train-{row:04d}" for row in range(len(digits.train_labels))]
    source = image_data(_pixels(digits.train_images), digits.train_labels, train_ids, NAMES)
    target = image_data(_pixels(faint), digits.test_labels, digits.test_ids, NAMES)
    found = adapt_to_faint(run.directory / "adapt", model, source, target, seed=seed, progress=progress)
    right, wrong = found.after == digits.test_labels, found.before != digits.test_labels
    learned = np.flatnonzero(right & wrong)
    shown = learned[even_rows(len(learned), 12)]
    captions = [f"read as {found.before[row]},\nthen {found.after[row]}" for row in shown]
    title = (
        f"Faint digits, self-training without labels: {100 * found.accuracy[0]:.1f} % → {100 * found.accuracy[-1]:.1f} %; "
        f"{len(learned)} of {len(right)} put right, {(~right & ~wrong).sum()} put wrong"
    )
    figure = draw(list(faint[shown]), captions, found.accuracy, found.class_accuracy, NAMES, title)
    with replacing(run.directory / "figures" / "adaptation.png") as temporary:
        figure.savefig(temporary, format="png", metadata={"Software": None})


def _degraded_scores(model: DigitsCNN, head: Head, digits: Digits) -> pa.Table:
    """The scores table of every held-out image at every level, with base_id, degradation and level."""
    tables = []
    for degradation in parse_degradations(DEGRADATIONS):
        images = np.stack([_degraded(*one, degradation) for one in zip(digits.test_images, digits.test_ids, strict=True)])
        features, _ = features_and_head(model, images)
        ids = [degraded_id(one, degradation) for one in digits.test_ids]
        table = score(Snapshot(features, head, digits.test_labels, ids=ids))
        table = table.append_column("base_id", [digits.test_ids])
        table = table.append_column("degradation", [[degradation.kind] * HELD_OUT])
        tables.append(table.append_column("level", [[degradation.level] * HELD_OUT]))
    return pa.concat_tables(tables).combine_chunks()


def _degraded(image: np.ndarray, id: str, degradation: Degradation) -> np.ndarray:
    from PIL import Image

    return np.asarray(degrade(Image.fromarray(_pixels(image)), degradation, id), dtype=np.float32) / 255


def _pixels(images: np.ndarray) -> np.ndarray:
    return np.rint(255 * images).astype(np.uint8)


def train(digits: Digits, seed: int, progress: Callable[..., None] | None = None) -> DigitsCNN:
    """The CNN, trained with Adam from the seed alone: the same numbers every time on the same machine."""
    import torch

    from hardsight.models.digits import DigitsCNN

    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # so small a net gains nothing from more, and sums then do not depend on their number
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = DigitsCNN()
        optimizer = torch.optim.Adam(model.parameters(), lr=RATE)
        images = torch.from_numpy(digits.train_images)[:, None]  # (n, 1, 8, 8)
        labels = torch.from_numpy(digits.train_labels)
        for epoch in range(EPOCHS):
            for rows in torch.randperm(len(images)).split(BATCH):
                optimizer.zero_grad()
                torch.nn.functional.cross_entropy(model(images[rows]), labels[rows]).backward()
                optimizer.step()
            if progress is not None:
                progress(epoch + 1, EPOCHS)
    torch.set_num_threads(threads)
    return model.eval()


def features_and_head(model: DigitsCNN, images: np.ndarray) -> tuple[np.ndarray, Head]:
    """What the last linear layer sees, and that layer: (n, 8, 8) -> (n, 64)."""
    import torch

    with torch.no_grad():
        features = model.trunk(torch.from_numpy(images)[:, None]).numpy()
    return features, Head("linear", model.head.weight.detach().numpy(), model.head.bias.detach().numpy())


def _save_images(folder: Path, digits: Digits) -> None:
    from PIL import Image

    try:  # 600 small files that are made again until the run is complete: no need to flush each
        for one, image in zip(digits.test_ids, digits.test_images, strict=True):
            Image.fromarray((255 * (1 - image)).astype(np.uint8)).save(folder / f"{one}.png")
    except OSError as error:
        raise FileError(f"{folder} could not be written: {why(error)}") from error


def _save_model(folder: Path, model: DigitsCNN) -> None:
    from safetensors.torch import save

    with replacing(folder / "model.safetensors") as temporary:
        temporary.write_bytes(save(model.state_dict()))
    preprocessing = {"size": [8, 8], "channels": "L", "mean": [0.0], "std": [1.0]}
    write_json(
        folder / "config.json", {"factory": "hardsight.models.digits:DigitsCNN", "arguments": {}, "preprocessing": preprocessing}
    )


def _draw(path: Path, table: pa.Table, digits: Digits) -> None:
    from hardsight.plots.overview import overview

    row_of = {one: row for row, one in enumerate(digits.test_ids)}
    worst = hardest(table, "avh", 12).to_pylist()
    columns = {name: table.column(name).to_numpy() for name in ("own_angle", "norm", "avh", "label", "predicted")}
    figure = overview(
        [digits.test_images[row_of[row["id"]]] for row in worst],
        [f"given {row['label']}\nseen as {row['predicted']}\nAVH {row['avh']:.3f}" for row in worst],
        angle=columns["own_angle"],
        norm=columns["norm"],
        avh=columns["avh"],
        correct=columns["label"] == columns["predicted"],
        title=f"The hardest of {len(table)} held-out digits, by angular visual hardness",
    )
    with replacing(path) as temporary:
        figure.savefig(temporary, format="png", metadata={"Software": None})
