"""`extract` against a bare loop over the same images.

The bare loop is the code one would write without hardsight: a torch DataLoader whose worker processes decode and preprocess the
images in the same way, the same network, forward only, the same batches and threads; it stores nothing. Ours also finds the
head, computes fingerprints of model and images, and writes a complete run to disk.
"""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from benchmarks.timing import Measurement, compared, extra_memory
from hardsight import extract
from hardsight.data import ImageData, open_data
from hardsight.models import Model, Preprocessing, import_torchvision, open_model

BATCH = 32
PHOTOS, SMALL = 192, 2000  # images
RATIO_LIMIT = round(1 / 0.9, 2)  # in time: nine tenths of the throughput
START_LIMIT = 3.0  # seconds
MEMORY_LIMIT = 32.0  # MB more for four times the images
LOOPS, BUSY_IMAGES, BUSY_LIMIT, IDLE_LIMIT = 2, 600, 1.5, 1.03
POLICIES = ("OMP_WAIT_POLICY", "GOMP_SPINCOUNT", "KMP_BLOCKTIME", "OPENBLAS_THREAD_TIMEOUT")  # how threads wait
SMALL_NET = "hardsight.models.networks:cifar_resnet20"


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
    import_torchvision()  # timm imports it, which needs help beside a torch without CUDA
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


def print_first_batch(kind: str, path: str, output: str, began: float) -> None:
    """Print the seconds until the end of the first forward pass; run in a process of its own."""

    def end(*_: Any) -> None:
        print(time.time() - began, flush=True)
        os._exit(0)

    if kind == "extract":
        extract(SMALL_NET, path, output, batch_size=BATCH, progress=end)
    bare_loop(open_model(SMALL_NET), open_data(path), stop=1)
    end()


def _first_batch(path: Path, folder: Path) -> list[Measurement]:
    """From the start of Python to the end of the first forward pass, in separate processes."""
    best: dict[str, float] = {}
    for number in range(2):
        for kind in ("bare loop", "extract"):
            arguments = (kind, str(path), str(folder / f"start {number}"), time.time())
            took = _printed(f"from benchmarks.extract import *; print_first_batch{arguments}")
            best[kind] = min(took, best.get(kind, took))
    case = "first batch, from nothing"
    lines = [Measurement(case, kind, 1e3 * seconds, "ms") for kind, seconds in best.items()]
    later = max(0.0, best["extract"] - best["bare loop"])
    return [*lines, Measurement(case, "extract after bare loop", later, "s", limit=START_LIMIT)]


def _printed(code: str, env: dict[str, str] | None = None) -> float:
    """The number that Python prints in a process of its own."""
    return float(subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=env).stdout)


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


def print_seconds(kind: str, path: str, output: str) -> None:
    """Print the seconds of `extract`, or of the bare loop on one thread; run in a process of its own."""
    import torch

    model, data = open_model(SMALL_NET), open_data(path).take(range(BUSY_IMAGES))
    if kind == "one thread":
        torch.set_num_threads(1)
    bare_loop(model, data, stop=2)
    start = time.perf_counter()
    bare_loop(model, data) if kind == "one thread" else extract(model, data, output, batch_size=BATCH)
    print(time.perf_counter() - start)


def beside_busy_loops(images: Path, folder: Path, rounds: int) -> list[Measurement]:
    """A small network on small images, next to two busy loops and on an idle machine.

    Each measurement is a separate process, because how threads wait is decided when a library is loaded. Next to busy loops the
    limit is a single thread, which never waits. On an idle machine, threads that soon sleep must not be slower than others.
    """
    runs = count()

    def seconds(kind: str) -> float:
        first = "from hardsight.cli import limit_spinning; limit_spinning(); " if kind == "extract" else ""
        arguments = (kind, str(images), str(folder / f"busy {next(runs)}"))
        chosen = {name: value for name, value in os.environ.items() if name not in POLICIES}
        return _printed(f"{first}from benchmarks.extract import *; print_seconds{arguments}", chosen)

    def compare(case: str, kinds: tuple[str, ...], turns: int, limit: float) -> list[Measurement]:
        work = {kind: partial(seconds, kind) for kind in kinds}
        return compared(case, work, turns, {"extract": limit}, seconds=lambda measure: float(measure()))

    with _busy_loops():
        beside = compare("beside two busy loops", ("one thread", "extract", "extract, spinning"), rounds, BUSY_LIMIT)
    return beside + compare("alone", ("extract, spinning", "extract"), 2 * rounds, IDLE_LIMIT)


@contextmanager
def _busy_loops() -> Iterator[None]:
    loops = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(LOOPS)]
    try:
        yield
    finally:
        for loop in loops:
            loop.kill()
            loop.wait()
