"""A killed run resumes and ends with the same bytes; if its inputs or options changed, resuming is rejected."""

from __future__ import annotations

import json
import os
import shutil
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from sklearn.linear_model import LogisticRegression

import hardsight
import hardsight.extraction.extract as extraction
from benchmarks.timing import extra_memory
from forked import started
from hardsight.data import open_data
from hardsight.errors import RunError
from hardsight.extraction import parts as part_sizes
from hardsight.files import samples
from hardsight.files.run import Run

IMAGES, PARTS = 48, 6

# A run in a process of its own, with six small parts; each batch takes a moment, so that a parent can aim.
SCRIPT = """
import os, signal, sys, time
import numpy as np
from sklearn.linear_model import LogisticRegression
import hardsight
from hardsight.files import samples

data, output, kill_at = sys.argv[1], sys.argv[2], int(sys.argv[3])
samples.PART_NUMBERS = 8 * 12 * 12 * 3
replace, steps = os.replace, 0

def dying_replace(source, target):
    global steps
    steps += 1
    if steps == kill_at:
        os.kill(os.getpid(), signal.SIGKILL)
    replace(source, target)

os.replace = dying_replace
rng = np.random.default_rng(0)
model = LogisticRegression(max_iter=2000).fit(rng.random((40, 12 * 12 * 3)), np.arange(40) % 2)
hardsight.extract(
    model, data, output, batch_size=4, say=print, keep_head=True,
    progress=(lambda done, total: time.sleep(0.05)) if kill_at == 0 else None,
)
"""


@pytest.fixture(scope="module")
def photos(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Forty-eight pictures, two of them broken."""
    root = tmp_path_factory.mktemp("photos")
    rng = np.random.default_rng(0)
    for number in range(IMAGES):
        folder = root / ("cat", "dog")[number % 2]
        folder.mkdir(exist_ok=True)
        Image.fromarray(rng.integers(0, 256, (12, 12, 3), dtype=np.uint8)).save(folder / f"{number:02d}.png")
    for broken in ("cat/06.png", "dog/41.png"):
        (root / broken).write_bytes(b"no image")
    return root


@pytest.fixture(scope="module")
def whole(photos: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same run, never interrupted."""
    run = tmp_path_factory.mktemp("whole") / "run"
    assert finished(photos, run, kill_at=-1) == (0, "2 of 48 images could not be read: see " + str(run / "errors.parquet") + "\n")
    return run


def finished(data: Path, run: Path, kill_at: int) -> tuple[int, str]:
    """The exit code and output of such a run."""
    return started(SCRIPT, data, run, kill_at).ended()


def parts(run: Path) -> dict[str, int]:
    """Each existing part, with its modification time."""
    return {path.name: path.stat().st_mtime_ns for path in (run / "samples").glob("part-*.parquet")}


def content(run: Path) -> dict[str, bytes | dict[str, Any]]:
    """All files of a run by name; run.json without the duration, the -o and the checksums that cover them."""
    found: dict[str, bytes | dict[str, Any]] = {}
    for path in run.rglob("*"):
        if path.is_file():
            found[path.relative_to(run).as_posix()] = path.read_bytes()
    for name in ("start.json", "run.json"):
        told = json.loads(found[name])  # type: ignore[arg-type]
        found[name] = {key: value for key, value in told.items() if key not in ("seconds", "words", "files", "checksum")}
    return found


@pytest.mark.parametrize("count", [0, 1, 3, 5])
def test_killed_when_some_parts_are_there(photos: Path, whole: Path, tmp_path: Path, count: int) -> None:
    run = tmp_path / "run"
    process = started(SCRIPT, photos, run, 0)
    while not (run / "start.json").exists() or len(parts(run)) < count:
        assert process.running(), process.ended()[1]
        time.sleep(0.005)
    process.kill()
    assert process.ended()[0] == -signal.SIGKILL and not (run / "run.json").exists()
    before = parts(run)
    assert count <= len(before) < PARTS
    said: list[str] = []
    extracted(photos, run, say=said.append)
    assert not before or said[0] == f"resuming: {len(before)} of {PARTS} parts are complete, {8 * len(before)} of 48 images"
    after = parts(run)
    assert {name: after[name] for name in before} == before  # not written a second time
    assert content(run) == content(whole)


def test_killed_at_each_kind_of_write(photos: Path, whole: Path, tmp_path: Path) -> None:
    """Each attempt dies just before renaming its n-th file; files of earlier attempts are kept."""
    run = tmp_path / "run"
    deaths = [  # n, and the files that are there then
        (1, 0),  # before start.json
        (2, 1),  # before the first part
        (4, 4),  # before part 3
        (4, 7),  # before errors.parquet
        (2, 8),  # before the head
        (3, 9),  # before run.json
    ]
    for kill_at, files in deaths:
        assert finished(photos, run, kill_at)[0] == -signal.SIGKILL
        assert len([path for path in run.rglob("[!.]*") if path.is_file()]) == files
    extracted(photos, run)
    assert content(run) == content(whole)


def test_only_missing_parts_are_computed(photos: Path, whole: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = tmp_path / "run"
    shutil.copytree(whole, run)
    for name in ("run.json", "samples/part-00001.parquet", "samples/part-00004.parquet"):
        (run / name).unlink()
    (run / "samples/.part-00001.parquet.1.aa.tmp").write_bytes(b"left by a kill")
    (run / ".head.safetensors.1.bb.tmp").write_bytes(b"left by a kill")
    written: list[str] = []
    write_samples = extraction.write_samples  # type: ignore[attr-defined]

    def counting(path: Path, *arguments: Any, **named: Any) -> int:
        written.append(path.name)
        return write_samples(path, *arguments, **named)

    monkeypatch.setattr(extraction, "write_samples", counting)
    seen: list[tuple[int, int]] = []
    extracted(photos, run, progress=lambda *numbers: seen.append(numbers))
    assert written == ["part-00001.parquet", "part-00004.parquet"]
    assert seen[0][0] > 32 and seen[-1] == (IMAGES, IMAGES)  # four parts of eight were there
    assert content(run) == content(whole)


def test_a_part_damaged_before_the_run_is_resumed_is_named(photos: Path, whole: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    shutil.copytree(whole, run)
    (run / "run.json").unlink()
    part = run / "samples/part-00001.parquet"
    sound = part.read_bytes()
    for damaged in (sound[: len(sound) // 2], sound.replace(b"label", b"Label")):
        part.write_bytes(damaged)
        with pytest.raises(RunError, match=r"part-00001.parquet: .*\. Remove it, and run the same command again"):
            extracted(photos, run)
        assert not (run / "run.json").exists()
    part.unlink()
    extracted(photos, run)
    assert content(run) == content(whole)


def test_a_complete_run_is_left_alone(photos: Path, whole: Path) -> None:
    before = parts(whole)
    said: list[str] = []
    snapshot = extracted(photos, whole, say=said.append)
    assert len(snapshot) == IMAGES - 2 and parts(whole) == before and said == [f"{whole} is complete already"]


@pytest.fixture(autouse=True)
def small_parts(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if "photos" in request.fixturenames:
        monkeypatch.setattr(samples, "PART_NUMBERS", 8 * 12 * 12 * 3)


def extracted(photos: Path, run: Path, **changed: Any) -> Any:
    """The script's run, in this process."""
    rng = np.random.default_rng(0)
    model = LogisticRegression(max_iter=2000).fit(rng.random((40, 12 * 12 * 3)), np.arange(40) % 2)
    return hardsight.extract(changed.pop("model", model), photos, run, keep_head=True, **{"batch_size": 4, **changed})


def begun(whole: Path, run: Path) -> Path:
    """A copy of an interrupted run."""
    shutil.copytree(whole, run)
    (run / "run.json").unlink()
    (run / "samples/part-00003.parquet").unlink()
    return run


def test_threads_and_the_default_size_of_parts_may_change(
    photos: Path, whole: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = begun(whole, tmp_path / "run")
    monkeypatch.setattr(part_sizes, "PART_ROWS", 4)  # what a newer version would take
    extracted(photos, run, workers=3, batch_size="auto")  # auto: the size it was begun with
    assert content(run) == content(whole)


def test_parts_are_small_and_follow_from_the_input() -> None:
    assert part_sizes.images_per_part(1670, 1, 32, 1280) == 256  # a few seconds of work
    for images in (10, 256_000, 2_000_000):
        size = part_sizes.images_per_part(images, 1, 32, 512)
        assert size >= 256 and images / size <= 1000
    assert part_sizes.images_per_part(1000, 10, 32, 512) == 26  # ten copies of each: 260 forward passes
    assert part_sizes.images_per_part(1000, 1, 1024, 512) == 1024  # a batch is computed at once
    assert part_sizes.images_per_part(1000, 1, 32, 3 * 224 * 224) == 27  # 16 MB
    assert part_sizes.images_per_part(1000, 100, 32, 3 * 224 * 224) == 1


def other_model() -> Any:
    return LogisticRegression().fit(np.random.default_rng(1).random((40, 12 * 12 * 3)), np.arange(40) % 2)


REFUSED: dict[str, tuple[Callable[[Path], Any], dict[str, Any], str]] = {
    "batch size": (Path.exists, {"batch_size": 8}, "batch_size was 4 and is 8"),
    "degradations": (Path.exists, {"degradations": ["contrast=0.5"]}, "degradations was not given and is contrast=0.5"),
    "mean": (
        Path.exists,
        {"preprocessing": {"mean": (0.5, 0.5, 0.5)}},
        "preprocessing mean was 0.0,0.0,0.0 and is 0.5,0.5,0.5",
    ),
    "limit": (Path.exists, {"limit": 20}, "data had [0-9]+ samples and has 20"),
    "model": (Path.exists, {"model": other_model()}, "model: its weights changed.*remove the directory to start over"),
    "image": (lambda data: os.utime(data / "cat/00.png"), {}, "data: its files changed"),
    "one more": (lambda data: shutil.copy2(data / "cat/00.png", data / "cat/99.png"), {}, "data had 48 samples and has 49"),
    "one less": (lambda data: (data / "cat/00.png").unlink(), {}, "data had 48 samples and has 47"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_a_run_with_other_inputs_is_not_resumed(photos: Path, whole: Path, tmp_path: Path, case: str) -> None:
    change, options, message = REFUSED[case]
    data, run = tmp_path / "photos", begun(whole, tmp_path / "run")
    shutil.copytree(photos, data)  # keeps the times
    change(data)
    with pytest.raises(RunError, match=f"other (inputs|arguments): .*{message}"):
        extracted(data, run, **options)
    assert not (run / "run.json").exists()


def test_images_that_change_during_the_run(photos: Path, tmp_path: Path) -> None:
    data, run = tmp_path / "photos", tmp_path / "run"
    shutil.copytree(photos, data)
    with pytest.raises(RunError, match="changed while they were read"):
        extracted(data, run, progress=lambda *_: os.utime(data / "cat/00.png"))
    assert not (run / "run.json").exists()


def test_one_writer_at_a_time(photos: Path, whole: Path, tmp_path: Path) -> None:
    run = begun(whole, tmp_path / "run")
    start = json.loads((run / "start.json").read_text())
    with Run(run, start["command"], start["arguments"], start["inputs"]).only_writer():
        for _ in range(2):  # what is refused does not take the lock away
            with pytest.raises(RunError, match=f"written by process {os.getpid()} on"):
                extracted(photos, run)
    extracted(photos, run)
    assert content(run) == content(whole)


def test_a_full_disk(photos: Path, whole: Path, tmp_path: Path) -> None:
    """If a part cannot be written, the error is one line, nothing is left half-written, and the run can be resumed."""
    run = tmp_path / "run"
    limit = (whole / "samples/part-00000.parquet").stat().st_size // 2
    script = f"import resource, signal; signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n{SCRIPT}".replace(
        "hardsight.extract(", f"resource.setrlimit(resource.RLIMIT_FSIZE, ({limit}, {limit}))\nhardsight.extract(", 1
    )
    code, said = started(script, photos, run, -1).ended()
    assert code == 1 and "FileError" in said and "could not be written" in said
    assert parts(run) == {} and not list(run.rglob("*.tmp")) and not (run / "run.json").exists()
    extracted(photos, run)
    assert content(run) == content(whole)


def test_torch_gives_the_same_bytes(photos: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    torch = pytest.importorskip("torch")
    torch.manual_seed(0)
    net = torch.nn.Sequential(
        torch.nn.Conv2d(3, 64, 3), torch.nn.ReLU(), torch.nn.AdaptiveAvgPool2d(2), torch.nn.Flatten(), torch.nn.Linear(256, 2)
    )

    class Stop(Exception):
        pass

    def stop(done: int, total: int) -> None:
        if done > 20:
            raise Stop

    monkeypatch.setattr(samples, "PART_NUMBERS", 8 * 256)
    hardsight.extract(net, photos, tmp_path / "whole", batch_size=3)
    with pytest.raises(Stop):
        hardsight.extract(net, photos, tmp_path / "run", batch_size=3, progress=stop)
    assert len(parts(tmp_path / "run")) == 2
    hardsight.extract(net, photos, tmp_path / "run", batch_size=3)
    assert content(tmp_path / "run") == content(tmp_path / "whole")


def test_memory_is_flat_in_the_number_of_images(tmp_path: Path) -> None:
    """Four times the images, in parts of 16 MB, need at most 32 MB more."""
    torch = pytest.importorskip("torch")
    net = torch.nn.Sequential(torch.nn.Conv2d(3, 512, 8, stride=8), torch.nn.ReLU(), torch.nn.Flatten(), torch.nn.Linear(2048, 2))
    pixels = np.random.default_rng(0).integers(0, 256, (8000, 16, 16, 3), dtype=np.uint8)
    np.savez(tmp_path / "images.npz", images=pixels, labels=np.arange(8000) % 2)
    data = open_data(tmp_path / "images.npz")

    def used(count: int, name: str) -> float | None:
        return extra_memory(lambda: hardsight.extract(net, data.take(range(count)), tmp_path / name))

    used(2000, "first")  # threads, libraries and allocators are there
    small, large = used(2000, "small"), used(8000, "large")
    if small is None or large is None:
        pytest.skip("this system does not tell the peak memory")
    assert large < small + 32 and large < 160, (small, large)
