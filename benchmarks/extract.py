"""`extract` against a bare loop over the same images.

The bare loop is the code one would write without hardsight: a torch DataLoader whose worker processes decode and preprocess the
images in the same way, the same network, forward only, the same batches and threads; it stores nothing. Ours also finds the
head, computes fingerprints of model and images, and writes a complete run to disk.
"""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
import tempfile
import time
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from benchmarks.busy import beside_busy_loops
from benchmarks.timing import Measurement, compared, extra_memory
from hardsight import extract
from hardsight.data import ImageData, open_data
from hardsight.models import Model, Preprocessing, open_model

BATCH = 32
PHOTOS, SMALL = 192, 2000  # images
RATIO_LIMIT = round(1 / 0.9, 2)  # in time: nine tenths of the throughput
START_LIMIT = 3.0  # seconds
MEMORY_LIMIT = 32.0  # MB more for four times the images
SMALL_NET = "hardsight.models.cifar_resnet:cifar_resnet20"


def run(rounds: int = 3, busy: bool = False) -> list[Measurement]:
    """Everything; or with --busy, the effect of limiting how long threads spin, beside two busy loops and alone."""
    with tempfile.TemporaryDirectory() as folder:
        if busy:
            return beside_busy_loops(_small_images(Path(folder)), Path(folder), rounds)
        photos, small = _photos(Path(folder)), _small_images(Path(folder))
        lines = []
        if importlib.util.find_spec("timm") is not None:
            lines += _against_a_bare_loop("JPEG 500 x 375, ResNet-18", _resnet18(), photos, Path(folder), max(1, rounds - 1))
        lines += _against_a_bare_loop("JPEG 500 x 375, ResNet-20", open_model(SMALL_NET), photos, Path(folder), rounds)
        lines += _against_a_bare_loop("array 32 x 32, ResNet-20", open_model(SMALL_NET), small, Path(folder), rounds)
        lines += _first_batch(photos, Path(folder))
        return lines + _memory(small, Path(folder))


def _photos(folder: Path) -> Path:
    """Realistic JPEGs: smooth shapes, some noise, 500 x 375."""
    rng = np.random.default_rng(0)
    root = folder / "photos"
    for number in range(PHOTOS):
        folder = root / f"class{number % 10}"
        folder.mkdir(parents=True, exist_ok=True)
        coarse = Image.fromarray(rng.integers(0, 256, (15, 20, 3), dtype=np.uint8)).resize((500, 375), Image.Resampling.BICUBIC)
        noise = rng.integers(-8, 9, (375, 500, 3))
        pixels = (np.asarray(coarse, np.int64) + noise).clip(0, 255).astype(np.uint8)
        Image.fromarray(pixels).save(folder / f"{number}.jpg", quality=90)
    return root


def _small_images(folder: Path) -> Path:
    path = folder / "small.npz"
    images = np.random.default_rng(0).integers(0, 256, (SMALL, 32, 32, 3), dtype=np.uint8)
    np.savez(path, images=images, labels=np.arange(SMALL) % 10)
    return path


def _resnet18() -> Model:
    import timm

    model = open_model(timm.create_model("resnet18", num_classes=10))
    model.preprocessing = Preprocessing(size=(224, 224), crop_pct=0.875, interpolation="bicubic")
    return model


def _stacked(data: ImageData, preprocessing: Preprocessing, rows: list[int]) -> Any:
    """(b, C, H, W) images of the bare loop, decoded and preprocessed like ours."""
    import torch

    return torch.from_numpy(np.stack([preprocessing(data.image(row)) for row in rows]))


def bare_loop(model: Any, data: ImageData, stop: int | None = None) -> None:
    """Forward passes over the images, or over the first `stop` batches; nothing is kept."""
    import torch
    from torch.utils.data import DataLoader

    module, rows = model.module.eval(), range(len(data) if stop is None else min(len(data), stop * BATCH))
    loader: Any = DataLoader(
        rows,  # type: ignore[arg-type]
        batch_size=BATCH,
        num_workers=torch.get_num_threads(),
        collate_fn=partial(_stacked, data, model.preprocessing),
    )
    with torch.no_grad():
        for images in loader:
            module(images)


def _against_a_bare_loop(case: str, model: Model, path: Path, folder: Path, rounds: int) -> list[Measurement]:
    data = open_data(path)
    runs = count()
    work = {
        "bare loop": lambda: bare_loop(model, data),
        "extract": lambda: extract(model, path, folder / f"{case} {next(runs)}", batch_size=BATCH),
    }
    bare_loop(model, data, stop=2)  # warm up libraries and caches
    times = compared(case, work, rounds, {"extract": RATIO_LIMIT})
    return [*times, *(Measurement(case, m.what, len(data) / (m.value / 1e3), "images/s") for m in times)]


STARTS = {
    "bare loop": """
import sys, time
began = float(sys.argv[2])
from benchmarks.extract import SMALL_NET, bare_loop
from hardsight.data import open_data
from hardsight.models import open_model
bare_loop(open_model(SMALL_NET), open_data(sys.argv[1]), stop=1)
print(time.time() - began)
""",
    "extract": """
import os, sys, time
began = float(sys.argv[2])
import hardsight
from benchmarks.extract import BATCH, SMALL_NET
def first(done, total):
    print(time.time() - began, flush=True)
    os._exit(0)
hardsight.extract(SMALL_NET, sys.argv[1], sys.argv[3], batch_size=BATCH, progress=first)
""",
}


def _first_batch(path: Path, folder: Path) -> list[Measurement]:
    """From the start of Python to the end of the first forward pass, in separate processes."""
    best: dict[str, float] = {}
    for number in range(2):
        for name, script in STARTS.items():
            words = [sys.executable, "-c", script, str(path), str(time.time()), str(folder / f"start {number}")]
            took = json.loads(subprocess.run(words, capture_output=True, text=True, check=True).stdout)
            best[name] = min(took, best.get(name, took))
    case = "first batch, from nothing"
    lines = [Measurement(case, name, 1e3 * seconds, "ms") for name, seconds in best.items()]
    later = max(0.0, best["extract"] - best["bare loop"])
    return [*lines, Measurement(case, "extract after bare loop", later, "s", limit=START_LIMIT)]


def _memory(path: Path, folder: Path) -> list[Measurement]:
    """Additional memory, for a quarter of the images and for all."""
    model, data = open_model(SMALL_NET), open_data(path)
    used: dict[int, float | None] = {}
    for name, size in (("warm", SMALL // 4), ("quarter", SMALL // 4), ("all", SMALL)):
        part = data.take(range(size))
        used[size] = extra_memory(lambda part=part, name=name: extract(model, part, folder / f"memory {name}"))  # type: ignore[misc]
    little, much = used[SMALL // 4], used[SMALL]
    if little is None or much is None:
        return []
    lines = [Measurement("array 32 x 32, memory", f"{size} images", used[size] or 0.0, "MB") for size in used]
    return [*lines, Measurement("array 32 x 32, memory", "more for 4 n", max(0.0, much - little), "MB", limit=MEMORY_LIMIT)]
