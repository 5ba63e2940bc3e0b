"""Take the pictures of check.md, clean.md, explore.md and tutorial-clean.md: python docs/make_explorer_pictures.py [DATA]

DATA is a folder with cifar10_test.npz and cifar10_resnet20.safetensors. A ResNet-20 looks at the 10,000 test images, 300 of which
get another label, and `clean` finds suspects; `check` looks at 600 of the images in folders, 30 of which are in a wrong one.
Chromium, driven by Playwright, takes pictures of the reports and of the explorer.
Without DATA, only the digits of the tutorial are looked at.
"""

from __future__ import annotations

import io
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import chdir, contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv as csv
from PIL import Image
from playwright.sync_api import sync_playwright

import hardsight
from benchmarks.explore import find_browser

IMAGES = Path(__file__).parent / "images"


def main(data: Path | None) -> None:
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as play:
        browser = play.chromium.launch(executable_path=find_browser(), args=["--no-sandbox"])
        window = browser.new_page(viewport={"width": 1280, "height": 860}, color_scheme="light")
        pictures(window, tutorial_digits(Path(folder)), "suspects", "tutorial-explore", "--images", "digits")
        if data is not None:
            pictures(window, cleaned_run(data, Path(folder)), "suspects-photos", "explore")
            checked(window, data, Path(folder))
        browser.close()


def pictures(window: Any, cleaned: Path, report: str, explore: str, *images: str) -> None:
    """Two pictures of a run or a file with its suspects: of its report, and of the explorer."""
    page = cleaned.parent / "report.html"
    subprocess.run([sys.executable, "-m", "hardsight", "report", str(cleaned), *images, "-q", "-o", str(page)], check=True)
    window.set_viewport_size({"width": 1280, "height": 760})
    window.goto(page.resolve().as_uri())
    shot(window, report)
    with explorer(cleaned, *images) as address:
        window.set_viewport_size({"width": 1280, "height": 860})
        window.goto(address)
        shot(window, explore)


@contextmanager
def explorer(run: Path, *images: str) -> Iterator[str]:
    """The address of a running explorer."""
    command = [sys.executable, "-m", "hardsight", "explore", str(run), *images, "--no-browser", "--port", "0"]
    server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert server.stdout is not None
    try:
        yield next(word for line in server.stdout for word in line.split() if word.startswith("http"))
    finally:
        server.terminate()
        server.wait()


def tutorial_digits(folder: Path) -> Path:
    """The file of tutorial-clean.md and its suspects, by the first blocks of that page."""
    page = Path(__file__).with_name("tutorial-clean.md").read_text("utf-8")
    with chdir(folder):
        exec(re.findall(r"```python\n(.*?)```", page, re.DOTALL)[0], {})
        subprocess.run([sys.executable, "-m", "hardsight", "clean", "digits.npz", "-q"], check=True)
    return folder / "digits.npz"


def cleaned_run(data: Path, folder: Path) -> Path:
    """A run of the photographs with some wrong labels, and its suspects."""
    photos, labels = data / "cifar10_test.npz", folder / "labels.csv"
    arrays, rng = np.load(photos), np.random.default_rng(0)
    given = arrays["labels"].astype(int)
    changed = rng.choice(len(given), 300, replace=False)
    given[changed] = (given[changed] + rng.integers(1, 10, 300)) % 10
    csv.write_csv(pa.table({"id": np.arange(len(given)), "label": arrays["class_names"][given]}), labels)
    weights = data / "cifar10_resnet20.safetensors"
    hardsight.extract("cifar_resnet20", photos, folder / "cifar", weights=weights, labels_from=labels)
    hardsight.clean(folder / "cifar", output=folder / "cifar" / "suspects.parquet")
    return folder / "cifar"


def checked(window: Any, data: Path, folder: Path) -> None:
    """A picture of the report of `hardsight check`, without a model."""
    arrays, rng = np.load(data / "cifar10_test.npz"), np.random.default_rng(0)
    given = arrays["labels"][:600].astype(int)
    given[::20] = (given[::20] + rng.integers(1, 10, 30)) % 10
    for number, (image, label) in enumerate(zip(arrays["images"], given, strict=False)):
        place = folder / "photos" / str(arrays["class_names"][label])
        place.mkdir(parents=True, exist_ok=True)
        Image.fromarray(image).save(place / f"{number:03d}.png")
    subprocess.run([sys.executable, "-m", "hardsight", "check", "photos"], cwd=folder, check=True)
    window.set_viewport_size({"width": 1280, "height": 760})
    window.goto((folder / "hardsight-photos" / "report.html").resolve().as_uri())
    shot(window, "check")


def shot(window: Any, name: str) -> None:
    """The page as it is, in 256 colors: a third of the bytes."""
    window.wait_for_timeout(3000)  # until everything is drawn
    picture = Image.open(io.BytesIO(window.screenshot())).convert("RGB")
    palette = picture.quantize(256, Image.Quantize.FASTOCTREE)
    picture.quantize(palette=palette, dither=Image.Dither.FLOYDSTEINBERG).save(IMAGES / f"{name}.png", optimize=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else None)
