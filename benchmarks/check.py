"""`hardsight check` on real photographs, as a new user would start it, and what reading them costs.

labels     800 PACS photographs of 64 px, 6 % of the labels flipped: seconds to the first result and to the end, processor time,
           precision and recall of the flagged labels; and how many are flagged where no label is wrong
draws      the same precision, recall and false alarms as means over twelve draws of photographs and flips, from features of all
decoding   JPEGs of 12 megapixels through EfficientNet-Lite0: images/s with scaled and whole decoding, near ties decoded again,
           changed predictions, and how far features and AVH move; ImageNet images upscaled, or the JPEGs of a folder as they
           are (--photos)
quality    what measuring the quality of images adds to their extraction; CleanVision on the same files, if it is installed
"""

from __future__ import annotations

import importlib.util
import io
import json
import os
import resource
import subprocess
import sys
import tarfile
import tempfile
import time
from collections.abc import Iterator
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
from PIL import Image

from benchmarks.pictures import check_words
from benchmarks.timing import Measurement
from hardsight import Snapshot, check, clean, extract, score
from hardsight.data import Quality
from hardsight.errors import InputError
from hardsight.models import open_embedder, open_model

PARTS = ("labels", "draws", "decoding", "quality")
DRAWN, WRONG, DRAWS = 800, 0.06, 12
FIRST, ALL, PRECISION, RECALL, FALSE = 10.0, 90.0, 0.9, 0.8, 0.01
LARGE, SIDE = 150, 3000  # images, and their shortest side
FASTER, CHANGED, ADDED = 1 / 3, 0.005, 1.1  # times of the whole decoding; share of predictions; times of extraction alone


def run(
    data: Path | None = None, parts: tuple[str, ...] = PARTS, n: int = LARGE, photos: Path | None = None
) -> list[Measurement]:
    """Some parts, or all.

    --data names the directory that holds pacs64.tar and imagenet_val5k.tar, -n the number of large images, and --photos a folder
    of JPEGs to use instead of made ones.
    """
    check_words("parts", parts, PARTS)
    lines: list[Measurement] = []
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        if "labels" in parts:
            lines += _labels(data, root)
        if "draws" in parts:
            lines += _draws(data, root)
        if "decoding" in parts or "quality" in parts:
            large = photos or _upscaled(data, root / "large", n)
            lines += _decoding(large, root) if "decoding" in parts else []
            lines += _quality(large, root, "12 megapixels") if "quality" in parts else []
        if "quality" in parts:
            lines += _quality(_pacs(data, root / "small", 0.0), root, "64 px")
    return lines


def _members(folder: Path | None, name: str, within: str) -> Iterator[tuple[str, bytes]]:
    """Names and contents of the images in a tar of real data."""
    if folder is None or not (folder / name).is_file():
        raise InputError(f"--data must name the directory that holds {name}, got {folder}.")
    with tarfile.open(folder / name) as archive:
        for member in archive:
            if member.isfile() and within in member.name:
                yield member.name, archive.extractfile(member).read()  # type: ignore[union-attr]


# ---- labels ----


def _pacs(folder: Path | None, root: Path, wrong: float) -> Path:
    """Photographs in a folder per class; each name begins with its true class, which nothing reads."""
    images = list(_members(folder, "pacs64.tar", "/photo/"))
    rng = np.random.default_rng(0)
    drawn = sorted(rng.choice(len(images), DRAWN, replace=False).tolist())
    classes = sorted({images[row][0].split("/")[-2] for row in drawn})
    flipped = set(rng.choice(DRAWN, round(wrong * DRAWN), replace=False).tolist())
    for number, row in enumerate(drawn):
        true = images[row][0].split("/")[-2]
        label = str(rng.choice([name for name in classes if name != true])) if number in flipped else true
        (root / label).mkdir(parents=True, exist_ok=True)
        (root / label / f"{true}_{number:04d}.jpg").write_bytes(images[row][1])
    return root


def _labels(folder: Path | None, root: Path) -> list[Measurement]:
    lines = []
    for wrong in (WRONG, 0.0):
        case = f"{DRAWN} PACS photographs, {100 * wrong:.0f} % wrong labels"
        data, output = _pacs(folder, root / f"photos-{wrong}", wrong), root / f"run-{wrong}"
        first, seconds, busy = _timed(["check", str(data), "-o", str(output)])
        lines += [
            Measurement(case, "first result", first, "s", limit=FIRST),
            Measurement(case, "all", seconds, "s", limit=ALL),
            Measurement(case, "processor time", busy, "s"),
        ]
        table = pq.read_table(output / "suspects.parquet").to_pylist()
        flagged = np.array([row["is_label_issue"] for row in table])
        errors = np.array([row["id"].split("/")[0] != row["id"].split("/")[1].split("_")[0] for row in table])
        if wrong:
            right = int((flagged & errors).sum())
            lines.append(
                Measurement(case, "flagged labels that are not wrong", 1 - right / flagged.sum(), "share", limit=1 - PRECISION)
            )
            lines.append(
                Measurement(case, "wrong labels that are not flagged", 1 - right / errors.sum(), "share", limit=1 - RECALL)
            )
        else:
            lines.append(Measurement(case, "flagged", float(flagged.mean()), "share", limit=FALSE))
    return lines


def _draws(folder: Path | None, root: Path) -> list[Measurement]:
    """One draw says little: of twelve, precision had a standard deviation of 0.04."""
    for name, content in _members(folder, "pacs64.tar", "/photo/"):
        target = root / "all" / name.split("/")[-2] / name.split("/")[-1]
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(content)
    check(root / "all", output=root / "run-all")
    photographs = Snapshot.open(root / "run-all")
    classes, rows = int(photographs.labels.max()) + 1, []
    for seed in range(DRAWS):
        rng = np.random.default_rng(seed)
        drawn = photographs.take(rng.choice(len(photographs), DRAWN, replace=False))
        flipped = rng.choice(DRAWN, round(WRONG * DRAWN), replace=False)
        labels = drawn.labels.copy()
        labels[flipped] = (labels[flipped] + rng.integers(1, classes, len(flipped))) % classes
        flagged = np.asarray(clean(features=drawn.features, labels=labels)["is_label_issue"])
        alarms = np.asarray(clean(features=drawn.features, labels=drawn.labels)["is_label_issue"])
        right = (flagged & (labels != drawn.labels)).sum()
        rows.append((1 - right / flagged.sum(), 1 - right / len(flipped), alarms.mean()))
    names = ("flagged labels that are not wrong", "wrong labels that are not flagged", "flagged where no label is wrong")
    values, limits = np.mean(rows, axis=0), (1 - PRECISION, 1 - RECALL, FALSE)
    case = f"mean of {DRAWS} draws of {DRAWN} PACS photographs"
    return [
        Measurement(case, name, value, "share", limit=limit) for name, value, limit in zip(names, values, limits, strict=True)
    ]


def _timed(words: list[str]) -> tuple[float, float, float]:
    """Seconds to the first line, to the end, and of the processor, of a command in a process of its own."""
    before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    command = [sys.executable, "-m", "hardsight", *words]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:
        assert process.stdout is not None
        process.stdout.readline()
        first = time.perf_counter() - began
        process.stdout.read()
    if process.returncode:
        raise InputError(f"hardsight {' '.join(words)} ended with code {process.returncode}.")
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return first, time.perf_counter() - began, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


# ---- decoding and quality ----


def _upscaled(folder: Path | None, root: Path, n: int) -> Path:
    """ImageNet images as 12-megapixel JPEGs, in a folder per class."""
    images = list(_members(folder, "imagenet_val5k.tar", "imagenet"))
    for row in np.linspace(0, len(images) - 1, n).astype(int).tolist():
        name, content = images[row]
        picture = Image.open(io.BytesIO(content)).convert("RGB")
        scale = SIDE / min(picture.size)
        target = root / name.split("/")[-2] / f"{row}.jpg"
        target.parent.mkdir(parents=True, exist_ok=True)
        size = (round(scale * picture.width), round(scale * picture.height))
        picture.resize(size, Image.Resampling.BICUBIC).save(target, quality=90)
    return root


def _extracted(model: Any, data: Path, output: Path, **options: Any) -> tuple[Any, float, float]:
    """The snapshot, seconds, and seconds of the processor."""
    began, busy = time.perf_counter(), time.process_time()
    snapshot = extract(model, data, output, **options)
    return snapshot, time.perf_counter() - began, time.process_time() - busy


def _classifier() -> Any:
    """The network of the default embedder as a classifier, whose predictions can nearly tie."""
    return open_model(open_embedder().module, device="cpu")


def _decoding(data: Path, root: Path) -> list[Measurement]:
    model = _classifier()
    extract(model, data, root / "warm", first=8)
    runs = {exact: root / f"exact-{exact}" for exact in (True, False)}
    held = {exact: _extracted(_classifier(), data, run, exact_decode=exact) for exact, run in runs.items()}
    case, count = "12-megapixel JPEGs, EfficientNet-Lite0", len(held[True][0])
    lines = []
    for exact, (_, seconds, busy) in held.items():
        what, limit = ("whole", None) if exact else ("scaled", FASTER)
        lines.append(Measurement(case, f"{what} decoding", seconds, "s", seconds / held[True][1], limit))
        lines.append(Measurement(case, f"{what} decoding, processor", busy, "s", busy / held[True][2], limit))
        lines.append(Measurement(case, what, count / seconds, "images/s"))
    again = json.loads((runs[False] / "run.json").read_text())["counts"]["decoded_again"]
    lines.append(Measurement(case, "near ties decoded again", again / count, "share"))
    features = {exact: np.asarray(snapshot.features) for exact, (snapshot, _, _) in held.items()}
    logits = {exact: np.asarray(model.head.logits(values)) for exact, values in features.items()}
    top = {exact: values.argmax(axis=1) for exact, values in logits.items()}
    lines.append(Measurement(case, "predictions changed", float((top[True] != top[False]).mean()), "share", limit=CHANGED))
    a, b = (values / np.linalg.norm(values, axis=1, keepdims=True) for values in features.values())
    lines.append(Measurement(case, "distance of features, 1 - cosine", float(1 - (a * b).sum(axis=1).mean()), ""))
    hard = [score(features[exact], model.head, top[True], scores=["avh"])["avh"].to_numpy() for exact in (True, False)]
    lines.append(
        Measurement(case, "change of AVH, in standard deviations", float(np.abs(hard[0] - hard[1]).mean() / hard[0].std()), "")
    )
    return lines


def _quality(data: Path, root: Path, what: str) -> list[Measurement]:
    model, case = open_embedder(), f"quality of images of {what}"
    alone = _extracted(model, data, root / f"alone {what}")
    looks = Quality(len(alone[0]))
    both = _extracted(model, data, root / f"both {what}", seen=looks.see)
    lines = [
        Measurement(case, "extraction alone, processor", alone[2], "s", 1.0),
        Measurement(case, "extraction and quality, processor", both[2], "s", both[2] / alone[2], ADDED),
    ]
    if importlib.util.find_spec("cleanvision") is None:
        return lines
    from cleanvision import Imagelab

    busy = time.process_time()
    with open(os.devnull, "w") as nothing, redirect_stdout(nothing), redirect_stderr(nothing):
        Imagelab(data_path=str(data)).find_issues(n_jobs=1, verbose=False)
    seconds = time.process_time() - busy
    return [*lines, Measurement(case, "CleanVision, processor", seconds, "s", seconds / alone[2])]
